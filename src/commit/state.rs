//! What the state lock protects, and the counters.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::cohort::Gathering;
use super::lead::IN_FLIGHT_MAX;
use super::ledger::{GroupNumber, Ledger, Settled, Step};
use super::provide::Request;
use crate::Lsn;
use crate::error::{Error, Result};
use crate::options::Cohort;
use crate::segment::{BarrierFiles, Segment};
use crate::sync::{Instant, MutexGuard, per_thread};

per_thread! {
    /// Only its address counts.
    static MARK: Cell<u8> = const { Cell::new(0) };
}

/// Tells the calling thread from all others that live. The standard library's id may not be had at the very end of a thread,
/// where the last handle of a log may be dropped.
pub(super) fn thread_mark() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

/// Everything that the state lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) ledger: Ledger,
    /// The files of the ledger's segments, in the same order.
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// The descriptions for barriers of the active segment, and of the prepared next one. A leader holds a reference while
    /// its barrier is in flight, so rotation does not close a file under it.
    pub(super) barrier_files: VecDeque<BarrierFiles>,
    /// The lead has been offered to a sleeper that has not claimed it yet; nobody else may lead meanwhile.
    pub(super) lead_offered: bool,
    /// Whom the next leader waits for.
    pub(super) gathering: Gathering,
    /// Threads that sleep on `progress`.
    pub(super) progress_waiters: usize,
    /// A bit for each slot, set while a barrier is in flight in it.
    pub(super) busy_slots: u8,
    pub(super) phase: Phase,
    /// What the preparer is to do next.
    pub(super) request: Option<Request>,
    /// The next segment has been asked for, or could not be had; asked again after a rotation or a trim.
    pub(super) next_requested: bool,
    /// What the preparer could not do for a caller that does not wait, and for an item of how many bytes.
    pub(super) request_failure: Option<(u64, Error)>,
    pub(super) stats: Stats,
    /// Wake-ups that are due when the lock is released.
    pub(super) wakes: Wakes,
}

pub(super) type StateGuard<'a> = MutexGuard<'a, State>;

/// Whether the log is open.
#[derive(Debug)]
pub(super) enum Phase {
    Open,
    /// The thread with this [mark](thread_mark) closes it: nothing is staged any more.
    Closing {
        by: usize,
    },
    Closed(Result<()>),
}

/// What is due when the lock is released: wake-ups, and files to be closed.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// A waiter of this group is to lead.
    pub(super) leader: Option<GroupNumber>,
    /// These groups are settled.
    pub(super) settled: Option<(GroupNumber, GroupNumber)>,
    pub(super) progress: bool,
    pub(super) everybody: bool,
    /// What has just failed, and the durable LSN then: to be told, once.
    pub(super) failure: Option<(Lsn, Error)>,
    pub(super) preparer: bool,
    /// The descriptions of a segment that takes no more barriers: the last reference closes them.
    pub(super) sealed: Option<BarrierFiles>,
}

/// Counters since the open.
///
/// `records / barriers` is what group commit is about: how many records share a barrier.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records made durable.
    pub records: u64,
    /// Groups of records made durable.
    pub groups: u64,
    /// Barriers that returned Ok: one for each group, and one for each seal, close and trim that needed one.
    pub barriers: u64,
    /// Time spent in barriers, in nanoseconds. Barriers in flight at the same time count each.
    pub barrier_nanos: u64,
    /// Records of the largest group.
    pub largest_group_records: u64,
    /// Bytes handed to barriers: records, headers and padding.
    pub written_bytes: u64,
    /// Rotations into a next segment.
    pub rotations: u64,
    /// Segments that were not ready in time, or had to be larger, and were made by the caller that needed them.
    pub inline_prepares: u64,
    /// Barriers that were finished by other means than the strategy's own, because those executed nothing. The ack means
    /// the same. See [`SyncStrategy::assisted_barriers`](crate::SyncStrategy::assisted_barriers).
    pub assisted_barriers: u64,
    /// Bytes of records that wait for a barrier now.
    pub staged_bytes: u64,
    /// Segments in use now, the prepared one included.
    pub segments: u64,
    /// Bytes of the segments in use now.
    pub segment_bytes: u64,
}

/// A cohort is not waited for any longer.
#[derive(Debug)]
pub(super) struct TimeIsUp;

impl State {
    pub(super) fn new(
        ledger: Ledger,
        cohort: Cohort,
        segments: VecDeque<Arc<Segment>>,
        barrier_files: VecDeque<BarrierFiles>,
    ) -> Self {
        State {
            ledger,
            segments,
            barrier_files,
            lead_offered: false,
            gathering: Gathering::new(cohort),
            progress_waiters: 0,
            busy_slots: 0,
            phase: Phase::Open,
            request: None,
            next_requested: false,
            request_failure: None,
            stats: Stats::default(),
            wakes: Wakes::default(),
        }
    }

    pub(super) fn check_open(&self) -> Result<()> {
        match (&self.phase, self.ledger.poison()) {
            (Phase::Open, None) => Ok(()),
            (Phase::Open, Some(poison)) => Err(poison.clone()),
            _ => Err(Error::Closed),
        }
    }

    /// Whether somebody who waits for a record may lead now.
    pub(super) fn can_lead(&self) -> bool {
        self.can_lead_early() && !self.is_gathering()
    }

    /// The same for somebody who must not wait for a cohort: for room, for a file, or for the close.
    pub(super) fn can_lead_early(&self) -> bool {
        !self.lead_offered && self.ledger.next_step() != Step::Nothing
    }

    /// Whether the next leader waits for the writers that the last barrier has released.
    pub(super) fn is_gathering(&self) -> bool {
        self.gathering.is_on() && self.ledger.can_gather()
    }

    /// Counts the calling thread as one that waits for a group.
    pub(super) fn add_waiter(&mut self, group: GroupNumber, log: usize) {
        self.ledger.add_waiter(group);
        if self.is_gathering() {
            self.gathering.arrive(log, Instant::now());
        } else {
            self.gathering.arrive_late(log);
        }
    }

    /// Until when the calling thread may sleep, having made sure that it cannot lead. An error where it can lead after
    /// all, because the time for a cohort is up.
    pub(super) fn keep_time(&mut self) -> std::result::Result<Option<Instant>, TimeIsUp> {
        if !self.is_gathering() || self.gathering.has_timekeeper || self.lead_offered {
            return Ok(None);
        }
        self.gathering.keep_time(Instant::now()).map(Some).ok_or(TimeIsUp)
    }

    /// Offers the lead to a sleeper, also where it is to wait for a cohort and nobody keeps the time.
    pub(super) fn offer_lead(&mut self) {
        if !self.can_lead_early() || self.is_gathering() && self.gathering.has_timekeeper {
            return;
        }
        if let Some(number) = self.ledger.awaited_group() {
            self.lead_offered = true;
            self.wakes.leader = Some(number);
        } else {
            // Nobody waits for these records; somebody may wait for the room they take.
            self.wakes.progress = true;
        }
    }

    /// Makes those who wait for room, for a file or for the close look again.
    pub(super) fn note_progress(&mut self) {
        self.wakes.progress = true;
    }

    pub(super) fn take_slot(&mut self) -> usize {
        // The ledger has at most `IN_FLIGHT_MAX` groups in flight, so there is one.
        let slot = (self.busy_slots.trailing_ones() as usize).min(IN_FLIGHT_MAX - 1);
        self.busy_slots |= 1 << slot;
        slot
    }
}

impl Stats {
    pub(super) fn count(&mut self, settled: &Settled) {
        self.groups += settled.groups;
        self.records += settled.records;
        self.largest_group_records = self.largest_group_records.max(settled.largest_group_records);
    }
}
