//! Sleeping on a word, by the kernel.

use rustix::thread::futex;

use super::{AtomicU32, Instant};

/// Those who sleep on a word. No lock is taken after waking.
#[derive(Debug, Default)]
pub(crate) struct Sleepers;

impl Sleepers {
    /// Sleeps until the word differs from `seen`. May return early; the caller checks again. False, without a sleep, where
    /// `until` is past. A change of the word before the sleep is not missed: the kernel compares it before it puts the
    /// thread to sleep.
    #[allow(clippy::unused_self, reason = "they are the kernel's here")]
    pub(crate) fn wait(&self, word: &AtomicU32, seen: u32, until: Option<Instant>) -> bool {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        let timeout = left.and_then(|left| futex::Timespec::try_from(left).ok());
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, timeout.as_ref());
        true
    }

    /// Wakes one of them. The word must have changed.
    #[allow(clippy::unused_self, reason = "they are the kernel's here")]
    pub(crate) fn wake_one(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }

    /// Wakes all of them. The word must have changed.
    #[allow(clippy::unused_self, reason = "they are the kernel's here")]
    pub(crate) fn wake_all(&self, word: &AtomicU32) {
        let everybody = i32::MAX.cast_unsigned();
        let _ = futex::wake(word, futex::Flags::PRIVATE, everybody);
    }
}
