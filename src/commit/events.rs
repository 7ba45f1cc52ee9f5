//! What sleeping threads sleep on: a word per group, so that one wake-up reaches the followers of a group and nobody else,
//! and no lock is taken after waking.

use super::ledger::GroupNumber;
use crate::planted::{Fault, planted};
use crate::sync::{AtomicU32, Instant, Ordering, Sleepers};

/// The lead is on offer: one of the sleepers is to claim it.
const LEAD_OFFERED: u32 = 1;
/// Everything above the offer counts how often the event was raised.
const RAISED_ONCE: u32 = 2;

/// An event that threads sleep on until it is raised, or until they are offered the lead.
///
/// Ordering: what was written before [`raise`](Event::raise) or [`offer_lead`](Event::offer_lead) (`Release`) is seen by
/// whoever has seen the new value (`Acquire`). A raise between [`seen`](Event::seen) and [`wait`](Event::wait) is not
/// missed: the word is compared before the thread is put to sleep.
///
/// On a cache line of its own: those who look at one group's word do not slow down the leader who writes the next one's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Event {
    word: AtomicU32,
    sleepers: Sleepers,
}

impl Event {
    /// The word now; to be handed to [`wait`](Self::wait) after the caller has checked what it waits for.
    pub(super) fn seen(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Marks that something has happened. [`wake_all`](Self::wake_all) must follow.
    pub(super) fn raise(&self) {
        let order = if planted(Fault::RaisedWithoutOrder) { Ordering::Relaxed } else { Ordering::Release };
        self.word.fetch_add(RAISED_ONCE, order);
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

    /// Sleeps until the word differs from `seen`. May return early; the caller checks again. False where `until` is past.
    pub(super) fn wait(&self, seen: u32, until: Option<Instant>) -> bool {
        self.sleepers.wait(&self.word, seen, until)
    }

    pub(super) fn wake_one(&self) {
        self.sleepers.wake_one(&self.word);
    }

    pub(super) fn wake_all(&self) {
        if planted(Fault::OneFollowerWoken) {
            return self.wake_one();
        }
        self.sleepers.wake_all(&self.word);
    }
}

/// How many groups have an event of their own. Groups that share one wake each other's followers in vain, which is rare:
/// only a few groups are staged or in flight at once.
#[cfg(not(any(wo_wal_loom, wo_wal_shuttle)))]
const GROUP_EVENTS: usize = 16;
/// In a model they share all the time.
#[cfg(any(wo_wal_loom, wo_wal_shuttle))]
const GROUP_EVENTS: usize = 2;

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
