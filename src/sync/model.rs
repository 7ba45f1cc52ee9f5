//! A model checker's. Time passes only where somebody says so: a sleep with a time limit gives the others one chance to go
//! on, and then the limit is reached. They may take it to do nothing, or everything.

use std::cell::Cell;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

#[cfg(wo_wal_loom)]
pub(crate) use loom as checker;
#[cfg(wo_wal_shuttle)]
pub(crate) use shuttle as checker;

pub(crate) use checker::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use checker::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::PoisonError;

/// The checkers' macros do not know the form for constants.
macro_rules! per_thread {
    ($(#[$attribute:meta])* static $name:ident: $kind:ty = const { $init:expr };) => {
        $crate::sync::checker::thread_local! { $(#[$attribute])* static $name: $kind = $init; }
    };
}
pub(crate) use per_thread;

pub(crate) mod thread {
    use std::time::Duration;

    use super::checker;

    pub(crate) use checker::thread::{Builder, JoinHandle, park};

    pub(crate) fn sleep(time: Duration) {
        super::pass(time);
        checker::thread::yield_now();
    }
}

pub(crate) fn wait_timeout<'a>(
    _: &Condvar,
    mutex: &'a Mutex<()>,
    guard: MutexGuard<'a, ()>,
    timeout: Duration,
) -> MutexGuard<'a, ()> {
    drop(guard);
    pass(timeout);
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

std::thread_local! {
    /// The checkers run all threads of a model on one of the system's, so this is the clock of the model.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets time pass.
pub(crate) fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

/// Not the machine's clock: what depends on it must depend on the schedule alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Instant(PASSED.get())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now() - self
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Instant(self.0 + time)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}
