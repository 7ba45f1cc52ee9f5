//! The policy of group commit: whether the next leader waits for the writers that the last barrier has released.
//!
//! Under [`Cohort::Greedy`] some of T writers come back too late for the next barrier and wait for the one after it: about
//! half of them ride each. Under [`Cohort::Full`] the next leader waits for those who have just been released, so that all
//! ride together. Nobody is waited for who was not released by the last barrier, so a lone writer never waits, nor does
//! anybody while a barrier is in flight; and whoever did not come back last time is not expected next time.
//!
//! Pure but for one word per thread: the caller brings lock and clock.

use std::cell::Cell;
use std::time::Duration;

use super::ledger::{GroupNumber, Settled};
use crate::options::Cohort;
use crate::sync::{Instant, per_thread};

/// How long writers are waited for, in percent of a recent barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PatiencePercent {
    /// Where nobody has come back for so long, nobody is waited for any longer.
    first: u32,
    /// Once somebody has, the others have so long from one to the next: stragglers are on their way, and a barrier without
    /// them costs them another one.
    next: u32,
    /// So long at most, however steadily writers come back.
    in_all: u32,
}

/// While it is not known whether writers come back: what is lost in vain is small.
const WARY: PatiencePercent = PatiencePercent { first: 25, next: 50, in_all: 200 };
/// After [`TRUST_AFTER`] cohorts in a row that were complete. Longer than a cohort and its barrier usually take together,
/// so that the timekeeper is woken by the barrier and not, in vain, by the clock.
const TRUSTING: PatiencePercent = PatiencePercent { first: 50, next: 100, in_all: 300 };
const TRUST_AFTER: u32 = 8;
/// After so many barriers, half of those who did not come back are expected again: at first, and at most, for each wait in
/// vain doubles it.
const FORGIVEN_AFTER_BARRIERS: u32 = 32;
const FORGIVEN_AFTER_BARRIERS_MAX: u32 = 1024;
/// How much one barrier changes the notion of how long a barrier takes: an eighth.
const SMOOTHING_DIVISOR: u32 = 8;
/// A barrier that took longer counts as this long: about what a rotating disk takes. After a stall of the device nobody is
/// to wait in proportion to it.
const BARRIER_MAX: Duration = Duration::from_millis(10);

per_thread! {
    /// The log, and the group in it, that this thread has waited for last. Read and written by the thread alone.
    static RELEASED_BY: Cell<(usize, GroupNumber)> = const { Cell::new((0, 0)) };
}

/// Notes that the calling thread returns from a wait for this group.
pub(super) fn note_release(log: usize, group: GroupNumber) {
    RELEASED_BY.with(|released_by| released_by.set((log, group)));
}

/// Who is waited for. Protected by the state lock.
#[derive(Debug)]
pub(super) struct Gathering {
    policy: Cohort,
    recent_barrier: Duration,
    /// The groups that the last barrier settled.
    settled: (GroupNumber, GroupNumber),
    /// How many of the writers that the last barrier released are still expected; 0 while nobody is waited for.
    expected: u32,
    /// How many of the last ones that were waited for did not come.
    absent: u32,
    /// How many came while nobody was waited for: too late for the barrier that has been started without them. Counted
    /// while some are absent.
    late: u32,
    /// Barriers since `absent` changed, and how many of them halve it.
    barriers: u32,
    forgiven_after: u32,
    /// How many cohorts in a row were complete.
    complete: u32,
    /// Until when the next one of them has to come, and until when all.
    until: Instant,
    until_at_most: Instant,
    /// Whether a sleeper has promised to look at the clock.
    pub(super) has_timekeeper: bool,
}

impl Gathering {
    pub(super) fn new(policy: Cohort) -> Self {
        let now = Instant::now();
        Gathering {
            policy,
            recent_barrier: Duration::ZERO,
            settled: (0, 0),
            expected: 0,
            absent: 0,
            late: 0,
            barriers: 0,
            forgiven_after: FORGIVEN_AFTER_BARRIERS,
            complete: 0,
            until: now,
            until_at_most: now,
            has_timekeeper: false,
        }
    }

    /// Whether the lead waits.
    pub(super) fn is_on(&self) -> bool {
        self.expected > 0
    }

    /// A barrier has returned Ok after `took`, at `now`, and nothing is in flight: decides whether the next leader waits
    /// for those it releases. `waiting` counts the writers that wait for the next barrier already.
    pub(super) fn begin(&mut self, settled: &Settled, waiting: u32, took: Duration, now: Instant) {
        self.end();
        if self.policy != Cohort::Full {
            return;
        }
        let took = took.min(BARRIER_MAX);
        self.recent_barrier = if self.recent_barrier.is_zero() {
            took
        } else {
            (self.recent_barrier * (SMOOTHING_DIVISOR - 1) + took) / SMOOTHING_DIVISOR
        };
        self.forgive();
        if settled.waiters.all.saturating_add(waiting) <= 1 {
            return;
        }
        self.settled = (settled.first, settled.last);
        self.expected = settled.waiters.all.saturating_sub(self.absent);
        let patience = self.patience();
        self.until_at_most = now + self.part(patience.in_all);
        self.until = now + self.part(patience.first);
    }

    fn patience(&self) -> PatiencePercent {
        if self.complete >= TRUST_AFTER { TRUSTING } else { WARY }
    }

    fn part(&self, percent: u32) -> Duration {
        self.recent_barrier * percent / 100
    }

    fn forgive(&mut self) {
        if (1..=self.late).contains(&self.absent) {
            // They do come back: a delay of the machine has parted the cohort, and waiting for them joins it again.
            self.forgiven_after = FORGIVEN_AFTER_BARRIERS;
        }
        self.late = 0;
        self.barriers += 1;
        if self.barriers >= self.forgiven_after {
            self.barriers = 0;
            self.absent /= 2;
        }
    }

    /// Whether the calling thread was released by the last barrier.
    fn is_one_of_us(&self, log: usize) -> bool {
        let (released_by, group) = RELEASED_BY.with(Cell::get);
        let (first, last) = self.settled;
        released_by == log && (first..=last).contains(&group)
    }

    /// The calling thread waits for a staged group from now on, and nobody is waited for any more.
    pub(super) fn arrive_late(&mut self, log: usize) {
        if self.absent > 0 && self.is_one_of_us(log) {
            self.late += 1;
        }
    }

    /// The calling thread waits for a staged group from now on. It counts if it is one of those who are waited for.
    pub(super) fn arrive(&mut self, log: usize, now: Instant) {
        if !self.is_one_of_us(log) {
            return;
        }
        self.expected = self.expected.saturating_sub(1);
        if self.expected == 0 {
            self.complete = self.complete.saturating_add(1);
            if self.absent == 0 {
                // A cohort without those who stay away says nothing about them.
                self.forgiven_after = FORGIVEN_AFTER_BARRIERS;
            }
        }
        self.until = self.until_at_most.min(now + self.part(self.patience().next));
    }

    /// Until when the calling thread, as the timekeeper, is to sleep. `None` when time is up: the lead waits no longer.
    pub(super) fn keep_time(&mut self, now: Instant) -> Option<Instant> {
        if now < self.until {
            self.has_timekeeper = true;
            return Some(self.until);
        }
        self.absent += self.expected;
        self.barriers = 0;
        self.complete = 0;
        self.forgiven_after = FORGIVEN_AFTER_BARRIERS_MAX.min(self.forgiven_after * 2);
        self.end();
        None
    }

    /// Nobody is waited for any more.
    pub(super) fn end(&mut self) {
        self.expected = 0;
        self.has_timekeeper = false;
    }
}

#[cfg(test)]
mod tests;
