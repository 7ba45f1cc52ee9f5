//! The standard library's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use std::time::Instant;
pub(crate) use std::{thread, thread_local as per_thread};

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use self::portable::*;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod portable {
    use std::time::Duration;

    pub(crate) use std::sync::Condvar;

    use super::{Mutex, MutexGuard, PoisonError};

    pub(crate) fn wait_timeout<'a>(
        condvar: &Condvar,
        _: &'a Mutex<()>,
        guard: MutexGuard<'a, ()>,
        timeout: Duration,
    ) -> MutexGuard<'a, ()> {
        condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}
