//! A group's way: staged, taken, settled.

use super::{
    Admission, FlyingGroup, GroupBuffer, GroupNumber, Ledger, PAGE_BYTES, STRETCH_BYTES, Settled,
    StagedGroup, Step, TakenGroup, Waiters,
};
use crate::Lsn;
use crate::commit::Item;
use crate::error::Error;
use crate::frame::{
    GROUP_HEADER_BYTES, GroupFlags, GroupHeader, SEGMENT_HEADER_BYTES, memory_bytes, records_crc,
};
use crate::planted::{Fault, planted};

impl Ledger {
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
                waiters: Waiters::default(),
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

    /// Counts a thread that waits until the group is settled.
    pub(crate) fn add_waiter(&mut self, number: GroupNumber) {
        if let Some(waiters) = self.waiters_of(number) {
            waiters.all += 1;
        }
    }

    /// Counts one of the waiters as going to sleep.
    pub(crate) fn add_sleeper(&mut self, number: GroupNumber) {
        if let Some(waiters) = self.waiters_of(number) {
            waiters.asleep += 1;
        }
    }

    fn waiters_of(&mut self, number: GroupNumber) -> Option<&mut Waiters> {
        let staged = self.staged.iter_mut().map(|group| (group.number, &mut group.waiters));
        let flying = self.in_flight.iter_mut().map(|group| (group.number, &mut group.waiters));
        staged.chain(flying).find(|(of, _)| *of == number).map(|(_, waiters)| waiters)
    }

    /// The first staged group somebody sleeps on: one of them can lead.
    pub(crate) fn awaited_group(&self) -> Option<GroupNumber> {
        self.staged.iter().find(|group| group.waiters.asleep > 0).map(|group| group.number)
    }

    /// Threads that wait for a staged group.
    pub(crate) fn staged_waiters(&self) -> u32 {
        self.staged.iter().map(|group| group.waiters.all).sum()
    }

    /// Whether the first staged group is the last one too, so that what comes joins it.
    pub(crate) fn can_gather(&self) -> bool {
        self.next_step() == Step::Write && self.staged.len() == 1
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
        self.fly(number, header, buffer, Waiters::default())
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
        waiters: Waiters,
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
        // Only where the next group cannot be on its way at the same time: the zeros lie where it will be.
        if self.limits.in_flight == 1 && end > self.covered_until && !header.flags.sealed {
            let unit_bytes = if end > active.written_until { STRETCH_BYTES } else { PAGE_BYTES };
            self.covered_until = end.next_multiple_of(unit_bytes).min(active.capacity_bytes);
            active.written_until = active.written_until.max(self.covered_until);
            buffer.bytes.resize(memory_bytes(self.covered_until - offset), 0);
        }
        self.in_flight.push_back(FlyingGroup {
            number,
            segment_number,
            last_lsn: header.last_lsn(),
            record_count: header.record_count,
            sealed: header.flags.sealed,
            waiters,
            stable: false,
        });
        TakenGroup { number, segment_number, offset, buffer }
    }

    /// Whether no group is in flight.
    pub(crate) fn is_landed(&self) -> bool {
        self.in_flight.is_empty()
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
        while self.in_flight.front().is_some_and(|group| group.stable || planted(Fault::SettledOutOfOrder)) {
            let Some(group) = self.in_flight.pop_front() else { break };
            self.settle_one(&group);
            settled.get_or_insert(Settled { first: group.number, ..Settled::default() }).add(&group);
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
            // Its durable LSN covers every record before it, and none that was taken while it was in flight.
            self.unvouched = self.taken_lsn > group.last_lsn;
        }
        if group.sealed {
            self.sealing = false;
            self.active += 1;
            self.offset = SEGMENT_HEADER_BYTES;
            self.covered_until = 0;
        }
    }

    /// Sets the latch: the first failure stays the cause. What is staged is never written.
    pub(crate) fn fail(&mut self, cause: Error) {
        if self.poison.is_some() || planted(Fault::FailureIgnored) {
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
}

impl Settled {
    fn add(&mut self, group: &FlyingGroup) {
        self.first = self.first.min(group.number);
        self.last = self.last.max(group.number);
        self.waiters.all += group.waiters.all;
        self.waiters.asleep += group.waiters.asleep;
        if group.record_count > 0 {
            self.groups += 1;
            self.records += u64::from(group.record_count);
            self.largest_group_records = self.largest_group_records.max(u64::from(group.record_count));
        }
    }
}
