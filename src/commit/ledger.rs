//! The state machine of group commit: stage, take a group, settle, poison, watermark. No threads, locks or I/O.

mod admission;
mod flight;

use std::collections::VecDeque;

pub(crate) use admission::{Admission, FileNeed};

use crate::Lsn;
use crate::error::Error;
use crate::frame::{GROUP_HEADER_BYTES, memory_bytes};
use crate::planted::{Fault, planted};

/// A group's place in the order of groups, counted from the open.
pub(crate) type GroupNumber = u64;

/// What bounds the ledger; fixed at open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many bytes may be staged, besides one batch that is larger on its own.
    pub(crate) staged_bytes: u64,
    /// The size of an ordinary segment.
    pub(crate) segment_bytes: u64,
    /// How many barriers may be in flight.
    pub(crate) in_flight: usize,
    /// Whether every group starts on a block of its own.
    pub(crate) own_block_per_group: bool,
}

/// What the ledger knows of a segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentNote {
    pub(crate) number: u64,
    pub(crate) id: u64,
    pub(crate) capacity_bytes: u64,
    /// The LSN of its first group; `None` while it holds none.
    pub(crate) first_lsn: Option<Lsn>,
    /// Whether it holds a record.
    pub(crate) has_records: bool,
    /// Whether it holds a group that a barrier, or recovery, has made durable.
    pub(crate) stable: bool,
    /// Up to where its blocks are known to be written. Behind that they may be only reserved, and the first write to each
    /// costs the file system more.
    pub(crate) written_until: u64,
}

/// Where recovery has found the end of the log.
#[derive(Debug)]
pub(crate) struct Start {
    /// Oldest first; those behind the active one hold no group.
    pub(crate) segments: VecDeque<SegmentNote>,
    pub(crate) active: usize,
    /// Where in the active segment the next group goes.
    pub(crate) offset: u64,
    pub(crate) chain: u32,
    pub(crate) next_lsn: Lsn,
    /// Whether a record lies above every durable LSN in a live group.
    pub(crate) unvouched: bool,
    pub(crate) has_spare: bool,
    pub(crate) session_id: u64,
}

/// A group's bytes while it is staged and in flight. Kept for the next group afterwards.
#[derive(Debug, Default)]
pub(crate) struct GroupBuffer {
    /// Room for the group header, then the records as they will stand on disk.
    pub(crate) bytes: Vec<u8>,
    /// The record headers once more, one after the other: the leader checksums them in one go.
    pub(crate) record_headers: Vec<u8>,
}

impl GroupBuffer {
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(memory_bytes(GROUP_HEADER_BYTES), 0);
        self.record_headers.clear();
    }
}

/// Threads that wait until a group is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiters {
    pub(crate) all: u32,
    /// Those of them that have gone to sleep; any may be woken to lead.
    pub(crate) asleep: u32,
}

/// Records that have their LSNs and wait for a barrier.
#[derive(Debug)]
struct StagedGroup {
    number: GroupNumber,
    /// The segment that has room for it.
    segment_number: u64,
    first_lsn: Lsn,
    record_count: u32,
    buffer: GroupBuffer,
    waiters: Waiters,
}

/// A group that a leader has taken.
#[derive(Debug)]
struct FlyingGroup {
    number: GroupNumber,
    segment_number: u64,
    last_lsn: Lsn,
    record_count: u32,
    sealed: bool,
    waiters: Waiters,
    /// Its barrier has returned Ok; it is settled when all groups before it are.
    stable: bool,
}

/// What a leader carries to the strategy.
#[derive(Debug)]
pub(crate) struct TakenGroup {
    pub(crate) number: GroupNumber,
    pub(crate) segment_number: u64,
    pub(crate) offset: u64,
    pub(crate) buffer: GroupBuffer,
}

/// What has to be done next for the staged records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is staged, or it has to wait for what is in flight.
    Nothing,
    /// Seal the active segment: what is staged goes into the next one.
    Seal,
    /// Take the first staged group.
    Write,
}

/// Groups that were settled by one call, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) first: GroupNumber,
    pub(crate) last: GroupNumber,
    pub(crate) waiters: Waiters,
    /// How many of them hold records.
    pub(crate) groups: u64,
    pub(crate) records: u64,
    pub(crate) largest_group_records: u64,
}

/// How much is written at once where blocks may be only reserved: a group that enters such a stretch takes zeros for the
/// rest of it along, so that not every new block costs the file system a change of its books.
const STRETCH_BYTES: u64 = 64 * 1024;
/// How much is written at once where blocks have been written: the kernel's page, so that it need not read the rest of one
/// that a recycled file has on disk and not in the cache. Where pages are larger, it may.
const PAGE_BYTES: u64 = 4096;

/// The state of the log's end.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "five independent facts; no two of them make one state")]
pub(crate) struct Ledger {
    limits: Limits,
    session_id: u64,
    segments: VecDeque<SegmentNote>,
    /// The index of the segment that groups go to.
    active: usize,
    offset: u64,
    /// Up to where the active segment has been written by this session, zeros behind the last group included.
    covered_until: u64,
    chain: u32,
    has_spare: bool,
    /// A seal is in flight: nothing more goes to the active segment.
    sealing: bool,
    /// The next segment, or the active one, is being replaced by a larger file: nothing may be admitted meanwhile.
    replacing: bool,
    next_lsn: Lsn,
    durable_lsn: Lsn,
    /// The last record of the last group that was taken.
    taken_lsn: Lsn,
    first_of_session: bool,
    unvouched: bool,
    staged: VecDeque<StagedGroup>,
    staged_bytes: u64,
    in_flight: VecDeque<FlyingGroup>,
    next_group: GroupNumber,
    /// Buffers of settled groups.
    spare_buffers: Vec<GroupBuffer>,
    poison: Option<Error>,
}

impl Ledger {
    pub(crate) fn new(limits: Limits, start: Start) -> Self {
        let durable_lsn = start.next_lsn.previous();
        Ledger {
            limits,
            session_id: start.session_id,
            segments: start.segments,
            active: start.active,
            offset: start.offset,
            covered_until: 0,
            chain: start.chain,
            has_spare: start.has_spare,
            sealing: false,
            replacing: false,
            next_lsn: start.next_lsn,
            durable_lsn,
            taken_lsn: durable_lsn,
            first_of_session: true,
            unvouched: start.unvouched,
            staged: VecDeque::with_capacity(4),
            staged_bytes: 0,
            in_flight: VecDeque::with_capacity(limits.in_flight),
            next_group: 0,
            spare_buffers: Vec::with_capacity(4),
            poison: None,
        }
    }

    // ---- what is so

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// The last LSN that was given out.
    pub(crate) fn staged_lsn(&self) -> Lsn {
        self.next_lsn.previous()
    }

    /// The oldest record, staged ones included, or the next one where there is none.
    pub(crate) fn oldest_lsn(&self) -> Lsn {
        // While the oldest segment holds no group, what is staged is all there is.
        self.segments.front().and_then(|note| note.first_lsn).unwrap_or(self.taken_lsn.next())
    }

    pub(crate) fn poison(&self) -> Option<&Error> {
        self.poison.as_ref()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.staged.is_empty() && self.in_flight.is_empty()
    }

    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staged_bytes
    }

    pub(crate) fn segments(&self) -> &VecDeque<SegmentNote> {
        &self.segments
    }

    pub(crate) fn active_index(&self) -> usize {
        self.active
    }

    pub(crate) fn active(&self) -> &SegmentNote {
        &self.segments[self.active]
    }

    pub(crate) fn next(&self) -> Option<&SegmentNote> {
        self.segments.get(self.active + 1)
    }

    /// Whether a seal is in flight.
    pub(crate) fn is_sealing(&self) -> bool {
        self.sealing
    }

    pub(crate) fn is_unvouched(&self) -> bool {
        self.unvouched
    }

    /// The number of the next segment where that is missing and the active one is half full: time to prepare it.
    pub(crate) fn wants_next(&self) -> Option<u64> {
        let half_full = self.offset >= self.active().capacity_bytes / 2;
        (half_full && self.next().is_none()).then(|| self.active().number + 1)
    }

    /// Whether so many more records can be numbered.
    pub(crate) fn has_lsns_for(&self, record_count: u32) -> bool {
        self.next_lsn.checked_add(u64::from(record_count)).is_some_and(|next| next < Lsn::MAX)
    }

    // ---- segments

    /// Blocks admission while a segment that holds nothing is replaced by a larger file.
    pub(crate) fn set_replacing(&mut self, replacing: bool) {
        self.replacing = replacing;
    }

    pub(crate) fn set_spare(&mut self, has_spare: bool) {
        self.has_spare = has_spare;
    }

    /// Adds the prepared next segment. Its name is stable.
    pub(crate) fn add_next(&mut self, note: SegmentNote) {
        debug_assert!(self.next().is_none() && note.number == self.active().number + 1);
        self.segments.push_back(note);
    }

    /// Puts a larger file in the place of the segment with the same number; returns its index.
    pub(crate) fn replace(&mut self, note: SegmentNote) -> Option<usize> {
        let index = self.segments.iter().position(|old| old.number == note.number)?;
        self.segments[index] = note;
        Some(index)
    }

    /// Drops the oldest segment if every record in it is at or below `up_to` and the one behind it holds a stable group,
    /// which says where LSN and chain go on.
    pub(crate) fn trim_oldest(&mut self, up_to: Lsn) -> bool {
        if !self.can_trim_oldest(up_to) {
            return false;
        }
        self.segments.pop_front();
        self.active -= 1;
        true
    }

    pub(crate) fn can_trim_oldest(&self, up_to: Lsn) -> bool {
        let second = self.segments.get(1);
        let covered = second.is_some_and(|note| {
            (note.stable || planted(Fault::UnstableNext))
                && note.first_lsn.is_some_and(|first_lsn| first_lsn.previous() <= up_to)
        });
        self.active > 0 && covered
    }
}

#[cfg(test)]
mod tests;
