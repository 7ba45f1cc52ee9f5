//! Ends a run when a signal asks for it, after what it made has been removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::Failure;

/// Nobody has asked; not the number of a signal.
const NONE: usize = 0;

/// Whether a signal has asked for the end. A second one does not wait for it.
#[derive(Clone, Debug)]
pub(super) struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    pub(super) fn by_signals() -> Result<Self, Failure> {
        let interrupt = Interrupt { signal: Arc::new(AtomicUsize::new(NONE)) };
        let asked_before = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(NONE);
            flag::register_conditional_default(signal, Arc::clone(&asked_before))
                .and_then(|_| flag::register(signal, Arc::clone(&asked_before)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&interrupt.signal), number))
                .map_err(|source| Failure::io(format!("listen to signals: {source}")))?;
        }
        Ok(interrupt)
    }

    /// Cheap enough to ask after every record.
    pub(super) fn is_asked_for(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != NONE
    }

    /// To be asked where there is something to give up.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_asked_for() { Err(Failure::io("interrupted")) } else { Ok(()) }
    }

    /// Ends the process as the signal would have, if there was one.
    pub(super) fn end_as_asked(&self) {
        if let Ok(signal) = i32::try_from(self.signal.load(Ordering::Relaxed))
            && self.is_asked_for()
        {
            // Refused, the run ends with the failure that it was interrupted.
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}

#[cfg(test)]
impl Interrupt {
    pub(super) fn never() -> Self {
        Interrupt { signal: Arc::new(AtomicUsize::new(NONE)) }
    }
}
