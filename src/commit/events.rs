//! What sleeping threads sleep on: a word per group, so that one wake-up reaches the followers of a group and nobody else,
//! and no lock is taken after waking.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::ledger::GroupNumber;

/// The lead is on offer: one of the sleepers is to claim it.
const LEAD_OFFERED: u32 = 1;
/// Everything above the offer counts how often the event was raised.
const RAISED_ONCE: u32 = 2;

/// An event that threads sleep on until it is raised, or until they are offered the lead.
///
/// Ordering: what was written before [`raise`](Event::raise) or [`offer_lead`](Event::offer_lead) (`Release`) is seen by
/// whoever has seen the new value (`Acquire`). A raise between [`seen`](Event::seen) and [`wait`](Event::wait) is not
/// missed: the kernel compares the word before it puts the thread to sleep.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Event {
    word: AtomicU32,
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    sleepers: (std::sync::Mutex<()>, std::sync::Condvar),
}

impl Event {
    /// The word now; to be handed to [`wait`](Self::wait) after the caller has checked what it waits for.
    pub(super) fn seen(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Marks that something has happened. [`wake_all`](Self::wake_all) must follow.
    pub(super) fn raise(&self) {
        self.word.fetch_add(RAISED_ONCE, Ordering::Release);
    }

    /// Offers the lead to one sleeper. [`wake_one`](Self::wake_one) must follow.
    pub(super) fn offer_lead(&self) {
        self.word.fetch_or(LEAD_OFFERED, Ordering::Release);
    }

    /// True for exactly one of those who see the offer.
    pub(super) fn claim_lead(&self, seen: u32) -> bool {
        seen & LEAD_OFFERED != 0
            && self
                .word
                .compare_exchange(seen, seen & !LEAD_OFFERED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Event {
    /// Sleeps until the word differs from `seen`. May return early; the caller checks again. False where it is late.
    pub(super) fn wait(&self, seen: u32, until: Option<Instant>) -> bool {
        use rustix::thread::futex::{Flags, Timespec, wait};
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let _ = wait(&self.word, Flags::PRIVATE, seen, timeout.as_ref());
        true
    }

    pub(super) fn wake_one(&self) {
        let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, 1);
    }

    pub(super) fn wake_all(&self) {
        let everybody = i32::MAX.cast_unsigned();
        let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, everybody);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Event {
    /// Sleeps until the word differs from `seen`. May return early; the caller checks again. False where it is late.
    pub(super) fn wait(&self, seen: u32, until: Option<Instant>) -> bool {
        let (mutex, condvar) = &self.sleepers;
        let mut guard = mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while self.word.load(Ordering::Acquire) == seen {
            let Some(until) = until else {
                guard = condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = condvar.wait_timeout(guard, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn wake_one(&self) {
        // Whoever is woken in vain sleeps again; the offer stays until it is claimed.
        self.wake_all();
    }

    pub(super) fn wake_all(&self) {
        let (mutex, condvar) = &self.sleepers;
        drop(mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        condvar.notify_all();
    }
}

/// How many groups have an event of their own. Groups that share one wake each other's followers in vain, which is rare:
/// only a few groups are staged or in flight at once.
const GROUP_EVENTS: usize = 16;

/// The events of all groups.
#[derive(Debug, Default)]
pub(super) struct GroupEvents([Event; GROUP_EVENTS]);

impl GroupEvents {
    pub(super) fn of(&self, number: GroupNumber) -> &Event {
        &self.0[crate::frame::memory_bytes(number % GROUP_EVENTS as u64)]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Event> {
        self.0.iter()
    }
}
