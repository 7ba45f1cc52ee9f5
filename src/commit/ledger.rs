//! The state machine of group commit: stage, take a group, settle, poison, watermark. No threads, locks or I/O.

use std::collections::VecDeque;

use super::Item;
use crate::Lsn;
use crate::error::Error;
use crate::frame::{
    BLOCK_BYTES, GROUP_HEADER_BYTES, GroupFlags, GroupHeader, SEGMENT_HEADER_BYTES, memory_bytes, records_crc,
};

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

/// Records that have their LSNs and wait for a barrier.
#[derive(Debug)]
struct StagedGroup {
    number: GroupNumber,
    /// The segment that has room for it.
    segment_number: u64,
    first_lsn: Lsn,
    record_count: u32,
    buffer: GroupBuffer,
    /// Threads that sleep until it is settled; any of them may be woken to lead.
    waiters: u32,
}

/// A group that a leader has taken.
#[derive(Debug)]
struct FlyingGroup {
    number: GroupNumber,
    segment_number: u64,
    last_lsn: Lsn,
    record_count: u32,
    sealed: bool,
    waiters: u32,
    /// Its barrier has returned Ok; it is settled when all groups before it are.
    stable: bool,
}

/// What a leader carries to the strategy.
#[derive(Debug)]
pub(crate) struct TakenGroup {
    pub(crate) number: GroupNumber,
    pub(crate) segment_number: u64,
    pub(crate) offset: u64,
    pub(crate) record_count: u32,
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

/// Whether there is room for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There is, in this segment.
    Room { segment_number: u64 },
    /// Not before a barrier, a rotation or a replacement that is under way has ended.
    Wait,
    /// Not before a file has been provided.
    Needs(FileNeed),
}

/// A file that has to be provided before an item can be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileNeed {
    /// The spare: without it the prepared segment may not be used up.
    Spare,
    /// The next segment.
    Next { number: u64, capacity_bytes: u64 },
    /// A larger file under the number of a segment that holds nothing.
    Larger { number: u64, capacity_bytes: u64 },
}

/// Groups that were settled by one call, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) first: GroupNumber,
    pub(crate) last: GroupNumber,
    /// Whether any thread sleeps on one of them.
    pub(crate) awaited: bool,
}

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

    /// The oldest record, or the next one where there is none.
    pub(crate) fn oldest_lsn(&self) -> Lsn {
        self.segments.front().and_then(|note| note.first_lsn).unwrap_or(self.next_lsn)
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

    // ---- admission

    /// Whether `item_bytes` of encoded records, one caller's atomic unit, have room. Counts everything staged, and always
    /// keeps room for two empty groups in the segment: close and seal.
    pub(crate) fn admit(&self, item_bytes: u64) -> Admission {
        let over = self.staged_bytes.saturating_add(item_bytes) > self.limits.staged_bytes;
        if self.replacing || (over && !self.staged.is_empty()) {
            return Admission::Wait;
        }
        let into_next = self.sealing
            || self.staged.back().is_some_and(|group| group.segment_number != self.active().number);
        if !into_next {
            if self.fits(self.active(), self.offset, item_bytes) {
                return Admission::Room { segment_number: self.active().number };
            }
            return self.admit_into_next(item_bytes);
        }
        match self.next() {
            Some(next) if self.fits(next, SEGMENT_HEADER_BYTES, item_bytes) => {
                Admission::Room { segment_number: next.number }
            }
            // What is staged rotates first.
            _ => Admission::Wait,
        }
    }

    /// The active segment has no room for it.
    fn admit_into_next(&self, item_bytes: u64) -> Admission {
        let alone = SEGMENT_HEADER_BYTES + GROUP_HEADER_BYTES + item_bytes + self.reserve_bytes();
        let capacity_bytes = alone.next_multiple_of(BLOCK_BYTES).max(self.limits.segment_bytes);
        let active = self.active();
        let is_jumbo = capacity_bytes > self.limits.segment_bytes;
        if is_jumbo && active.first_lsn.is_none() && self.is_idle() {
            // Otherwise it would become a segment with nothing but a seal.
            return Admission::Needs(FileNeed::Larger { number: active.number, capacity_bytes });
        }
        if !self.has_spare {
            return Admission::Needs(FileNeed::Spare);
        }
        match self.next() {
            None => Admission::Needs(FileNeed::Next { number: active.number + 1, capacity_bytes }),
            Some(next) if self.fits(next, SEGMENT_HEADER_BYTES, item_bytes) => {
                Admission::Room { segment_number: next.number }
            }
            Some(next) => Admission::Needs(FileNeed::Larger { number: next.number, capacity_bytes }),
        }
    }

    /// Whether the item fits the segment together with what is staged for it.
    fn fits(&self, note: &SegmentNote, offset: u64, item_bytes: u64) -> bool {
        let staged_bytes = match self.staged.back() {
            Some(group) if group.segment_number == note.number => group.buffer.bytes.len() as u64,
            _ => GROUP_HEADER_BYTES,
        };
        let end = self.group_end(offset, staged_bytes + item_bytes);
        end + self.reserve_bytes() <= note.capacity_bytes
    }

    /// Where a group of so many bytes ends, with the padding that gives the next one its own block.
    fn group_end(&self, offset: u64, group_bytes: u64) -> u64 {
        let end = offset + group_bytes;
        if self.limits.own_block_per_group { end.next_multiple_of(BLOCK_BYTES) } else { end }
    }

    /// Room for two empty groups.
    fn reserve_bytes(&self) -> u64 {
        2 * if self.limits.own_block_per_group { BLOCK_BYTES } else { GROUP_HEADER_BYTES }
    }

    // ---- stage

    /// Gives the item its LSNs and a place in the last staged group, or in a new one. The caller has just been told by
    /// [`admit`](Self::admit) that there is room in this segment.
    pub(crate) fn stage(&mut self, segment_number: u64, item: &Item<'_>) -> (Lsn, GroupNumber) {
        debug_assert_eq!(self.admit(item.encoded_bytes()), Admission::Room { segment_number });
        if self.staged.back().is_none_or(|group| group.segment_number != segment_number) {
            let mut buffer = self.spare_buffers.pop().unwrap_or_default();
            buffer.clear();
            self.staged.push_back(StagedGroup {
                number: self.next_group,
                segment_number,
                first_lsn: self.next_lsn,
                record_count: 0,
                buffer,
                waiters: 0,
            });
            self.next_group += 1;
        }
        let first_lsn = self.next_lsn;
        let mut number = self.next_group;
        if let Some(group) = self.staged.back_mut() {
            item.write_to(&mut group.buffer);
            group.record_count += item.record_count();
            number = group.number;
        }
        self.staged_bytes += item.encoded_bytes();
        self.next_lsn = Lsn::new(first_lsn.get() + u64::from(item.record_count()));
        (first_lsn, number)
    }

    /// The group that holds an LSN which is not durable yet; `None` for one that was never given out.
    pub(crate) fn group_of(&self, lsn: Lsn) -> Option<GroupNumber> {
        let flying = self.in_flight.iter().find(|group| lsn <= group.last_lsn).map(|group| group.number);
        flying.or_else(|| {
            let holds =
                |group: &&StagedGroup| lsn.get() < group.first_lsn.get() + u64::from(group.record_count);
            self.staged.iter().find(holds).map(|group| group.number)
        })
    }

    /// Counts a thread that is going to sleep until the group is settled.
    pub(crate) fn add_waiter(&mut self, number: GroupNumber) {
        if let Some(group) = self.staged.iter_mut().find(|group| group.number == number) {
            group.waiters += 1;
        } else if let Some(group) = self.in_flight.iter_mut().find(|group| group.number == number) {
            group.waiters += 1;
        }
    }

    /// The first staged group somebody sleeps on: one of its waiters can lead.
    pub(crate) fn awaited_group(&self) -> Option<GroupNumber> {
        self.staged.iter().find(|group| group.waiters > 0).map(|group| group.number)
    }

    // ---- take

    /// What has to be done next, if anything can be.
    pub(crate) fn next_step(&self) -> Step {
        let Some(group) = self.staged.front() else { return Step::Nothing };
        if self.poison.is_some() || self.in_flight.len() >= self.limits.in_flight || self.sealing {
            return Step::Nothing;
        }
        if group.segment_number == self.active().number {
            return Step::Write;
        }
        // A seal is the last group of its segment, and its durable LSN covers all of them.
        if self.in_flight.is_empty() { Step::Seal } else { Step::Nothing }
    }

    /// Takes the first staged group: [`Step::Write`].
    pub(crate) fn take(&mut self) -> Option<TakenGroup> {
        if self.next_step() != Step::Write {
            return None;
        }
        let group = self.staged.pop_front()?;
        self.staged_bytes -= (group.buffer.bytes.len() as u64) - GROUP_HEADER_BYTES;
        let header = self.header(group.first_lsn, group.record_count, GroupFlags::default());
        self.unvouched = true;
        Some(self.fly(group.number, header, group.buffer, group.waiters))
    }

    /// An empty group: a seal, the closing group, or the first group of a segment after a trim. Nothing may be in flight.
    pub(crate) fn take_empty(&mut self, sealed: bool, closed: bool) -> TakenGroup {
        debug_assert!(self.in_flight.is_empty() && self.poison.is_none() && !self.sealing);
        let mut buffer = self.spare_buffers.pop().unwrap_or_default();
        buffer.clear();
        let header =
            self.header(self.taken_lsn.next(), 0, GroupFlags { sealed, closed, first_of_session: false });
        self.sealing = sealed;
        // Staged groups keep their numbers, which order the waiters' words; an empty group has no waiters.
        let number = self.next_group;
        self.next_group += 1;
        self.fly(number, header, buffer, 0)
    }

    fn header(&self, first_lsn: Lsn, record_count: u32, flags: GroupFlags) -> GroupHeader {
        GroupHeader {
            group_bytes: 0,
            segment_id: self.active().id,
            session_id: self.session_id,
            first_lsn,
            durable_lsn: self.durable_lsn,
            record_count,
            flags: GroupFlags { first_of_session: self.first_of_session, ..flags },
            chain: self.chain,
            records_crc: 0,
            crc: 0,
        }
    }

    /// Completes the group's bytes and puts it in flight.
    fn fly(
        &mut self,
        number: GroupNumber,
        mut header: GroupHeader,
        mut buffer: GroupBuffer,
        waiters: u32,
    ) -> TakenGroup {
        let offset = self.offset;
        let mut end = self.group_end(offset, buffer.bytes.len() as u64);
        // A segment written without own blocks may have less room left than two padded empty groups need.
        if header.flags.sealed || end + GROUP_HEADER_BYTES > self.active().capacity_bytes {
            end = offset + buffer.bytes.len() as u64;
        }
        let group_bytes = u32::try_from(end - offset).unwrap_or(u32::MAX);
        buffer.bytes.resize(group_bytes as usize, 0);
        header.group_bytes = group_bytes;
        header.records_crc = records_crc(header.segment_id, &buffer.record_headers);
        self.chain = header.encode(&mut buffer.bytes);
        self.offset = end;
        self.taken_lsn = header.last_lsn();
        self.first_of_session = false;
        let active = &mut self.segments[self.active];
        active.first_lsn.get_or_insert(header.first_lsn);
        active.has_records |= header.record_count > 0;
        let segment_number = active.number;
        self.in_flight.push_back(FlyingGroup {
            number,
            segment_number,
            last_lsn: header.last_lsn(),
            record_count: header.record_count,
            sealed: header.flags.sealed,
            waiters,
            stable: false,
        });
        TakenGroup { number, segment_number, offset, record_count: header.record_count, buffer }
    }

    // ---- settle

    /// The barrier of a group has returned. Settles what is stable in LSN order; after a failure nothing is settled any
    /// more, also not groups with lower LSNs whose barriers return Ok later.
    pub(crate) fn settle(&mut self, number: GroupNumber, outcome: Result<(), Error>) -> Option<Settled> {
        if let Err(cause) = outcome {
            self.fail(cause);
        }
        if self.poison.is_some() {
            // Nor is a group that waits for an earlier one's barrier: both are answered with the error.
            self.in_flight.retain(|group| group.number != number && !group.stable);
            return None;
        }
        if let Some(group) = self.in_flight.iter_mut().find(|group| group.number == number) {
            group.stable = true;
        }
        let mut settled: Option<Settled> = None;
        while self.in_flight.front().is_some_and(|group| group.stable) {
            let Some(group) = self.in_flight.pop_front() else { break };
            self.settle_one(&group);
            let so_far =
                settled.get_or_insert(Settled { first: group.number, last: group.number, awaited: false });
            so_far.first = so_far.first.min(group.number);
            so_far.last = so_far.last.max(group.number);
            so_far.awaited |= group.waiters > 0;
        }
        settled
    }

    fn settle_one(&mut self, group: &FlyingGroup) {
        if let Some(note) = self.segments.iter_mut().rev().find(|note| note.number == group.segment_number) {
            note.stable = true;
        }
        if group.record_count > 0 {
            self.durable_lsn = group.last_lsn;
        } else {
            // Its durable LSN covers every record before it.
            self.unvouched = false;
        }
        if group.sealed {
            self.sealing = false;
            self.active += 1;
            self.offset = SEGMENT_HEADER_BYTES;
        }
    }

    /// Sets the latch: the first failure stays the cause. What is staged is never written.
    pub(crate) fn fail(&mut self, cause: Error) {
        if self.poison.is_some() {
            return;
        }
        self.poison =
            Some(Error::Poisoned { first_lsn: self.durable_lsn.next(), cause: std::sync::Arc::new(cause) });
        self.staged.clear();
        self.staged_bytes = 0;
    }

    /// Takes back a buffer whose group has returned. A huge one is given back to the allocator.
    pub(crate) fn keep_buffer(&mut self, buffer: GroupBuffer) {
        let kept_bytes = self.limits.staged_bytes.saturating_mul(2);
        if self.spare_buffers.len() < self.spare_buffers.capacity()
            && buffer.bytes.capacity() as u64 <= kept_bytes
        {
            self.spare_buffers.push(buffer);
        }
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
        let second = self.segments.get(1);
        let covered = second.is_some_and(|note| {
            note.stable && note.first_lsn.is_some_and(|first_lsn| first_lsn.previous() <= up_to)
        });
        if self.active == 0 || !covered {
            return false;
        }
        self.segments.pop_front();
        self.active -= 1;
        true
    }
}

#[cfg(test)]
mod tests;
