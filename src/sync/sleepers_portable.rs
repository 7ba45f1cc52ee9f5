//! Sleeping on a word, where the kernel does not offer it, and in models: there, too, one wake-up reaches one sleeper.

use super::{AtomicU32, Condvar, Instant, Mutex, MutexGuard, Ordering, PoisonError, wait_timeout};

/// Those who sleep on a word.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    mutex: Mutex<()>,
    changed: Condvar,
}

impl Sleepers {
    /// Sleeps until the word differs from `seen`. May return early; the caller checks again. False where `until` is past.
    /// A change of the word before the sleep is not missed: whoever changes it takes the mutex before it wakes anybody.
    pub(crate) fn wait(&self, word: &AtomicU32, seen: u32, until: Option<Instant>) -> bool {
        let mut guard = self.lock();
        while word.load(Ordering::Acquire) == seen {
            let Some(until) = until else {
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = wait_timeout(&self.changed, &self.mutex, guard, left);
        }
        true
    }

    /// Wakes one of them. The word must have changed: whoever is woken returns.
    pub(crate) fn wake_one(&self, _: &AtomicU32) {
        drop(self.lock());
        self.changed.notify_one();
    }

    /// Wakes all of them. The word must have changed.
    pub(crate) fn wake_all(&self, _: &AtomicU32) {
        drop(self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
