//! Ends a command when a signal asks for it, after what it has to put in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::Failure;

/// Nobody has asked; not the number of a signal.
const NONE: usize = 0;

/// Whether a signal has asked for the end. A second one does not wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from now on. What whoever started the program wants ignored, as `nohup` does, stays ignored.
    pub(crate) fn by_signals() -> Result<Self, Failure> {
        let interrupt = Interrupt { signal: Arc::new(AtomicUsize::new(NONE)) };
        let asked_before = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0)
        {
            let number = usize::try_from(signal).unwrap_or(NONE);
            flag::register_conditional_default(signal, Arc::clone(&asked_before))
                .and_then(|_| flag::register(signal, Arc::clone(&asked_before)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&interrupt.signal), number))
                .map_err(|source| Failure::io(format!("listen to signals: {source}")))?;
        }
        Ok(interrupt)
    }

    /// Cheap enough to ask after every record.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != NONE
    }

    /// To be asked where there is something to give up.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match i32::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal) if self.is_asked_for() => Err(Failure::Interrupted { signal }),
            _ => Ok(()),
        }
    }
}

/// Ends the process as the signal would have. Returns where that is refused.
pub(crate) fn end_by(signal: i32) {
    let _ = low_level::emulate_default_handler(signal);
}

/// One bit for each signal, the lowest for signal 1. Without Linux's `/proc` there is nobody to ask, and none counts.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
impl Interrupt {
    pub(crate) fn never() -> Self {
        Interrupt { signal: Arc::new(AtomicUsize::new(NONE)) }
    }
}
