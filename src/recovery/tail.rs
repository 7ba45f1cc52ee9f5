//! The unproven tail: the groups that no durable LSN on disk covers yet.

use std::collections::VecDeque;

use super::Persist;
use crate::Lsn;
use crate::error::Result;
use crate::frame::{GROUP_BYTES_MAX, GROUP_HEADER_BYTES, GroupHeader, SEGMENT_HEADER_BYTES, memory_bytes};
use crate::planted::{Fault, planted};
use crate::segment::Segment;

/// The bytes of the groups at the end of a segment, as they were verified, that no durable LSN covers. They are in the
/// page cache for sure and on the disk perhaps: after a sync that failed, cached reads show bytes that the disk never
/// got. So open writes these very bytes again before anybody is shown a record.
#[derive(Debug)]
pub(super) struct Tail {
    /// Where in the segment the first group of the tail stands.
    offset: u64,
    /// From `passed_bytes` on, the groups of the tail.
    bytes: Vec<u8>,
    /// Bytes at the front that are covered by now.
    passed_bytes: usize,
    groups: VecDeque<TailGroup>,
    mark: Lsn,
    /// Whether bytes are kept at all: not by a reader, which writes nothing.
    kept: bool,
}

#[derive(Debug)]
struct TailGroup {
    bytes: u32,
    /// The durable LSN that proves it stable.
    proven_by: Lsn,
}

impl Tail {
    pub(super) fn new(kept: bool) -> Self {
        Tail {
            offset: SEGMENT_HEADER_BYTES,
            bytes: Vec::new(),
            passed_bytes: 0,
            groups: VecDeque::new(),
            mark: Lsn::ZERO,
            kept,
        }
    }

    /// Where the verified bytes of the next group are to be appended, before it is [added](Self::push).
    pub(super) fn bytes_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.kept.then_some(&mut self.bytes)
    }

    /// A live group, which stands at `offset` and whose bytes were appended.
    pub(super) fn push(&mut self, header: &GroupHeader, offset: u64) {
        if self.kept {
            if offset == SEGMENT_HEADER_BYTES {
                self.forget_segment_before(header.group_bytes as usize);
            }
            // An empty group ends at its own first LSN: any mark below that was written before it.
            let proven_by = if header.record_count == 0 { header.first_lsn } else { header.last_lsn() };
            self.groups.push_back(TailGroup { bytes: header.group_bytes, proven_by });
        }
        self.cover(header.durable_lsn);
    }

    /// A first group in the next segment proves the seal, and all before it, stable.
    fn forget_segment_before(&mut self, group_bytes: usize) {
        self.bytes.drain(..self.bytes.len().saturating_sub(group_bytes));
        self.passed_bytes = 0;
        self.groups.clear();
        self.offset = SEGMENT_HEADER_BYTES;
    }

    /// Takes a durable LSN, from a live group or a dead one, and lets go of what it proves.
    pub(super) fn cover(&mut self, mark: Lsn) {
        self.mark = self.mark.max(mark);
        while let Some(group) = self.groups.front()
            && group.proven_by <= self.mark
        {
            self.passed_bytes += group.bytes as usize;
            self.offset += u64::from(group.bytes);
            self.groups.pop_front();
        }
        if self.passed_bytes * 2 >= self.bytes.len() {
            self.bytes.drain(..self.passed_bytes);
            self.passed_bytes = 0;
        }
    }

    /// The tail, leaving an empty one.
    pub(super) fn take(&mut self) -> Tail {
        let empty = Tail { mark: self.mark, ..Tail::new(self.kept) };
        std::mem::replace(self, empty)
    }

    /// The highest durable LSN that was seen.
    pub(super) fn mark(&self) -> Lsn {
        self.mark
    }

    pub(super) fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Makes the tail stable, and zeros over the place of the next header, so that no byte of a dead header there can be
    /// completed by new ones. `tail_segment` is the one that the tail stands in, `active` the one that goes on at `offset`.
    pub(super) fn persist(
        mut self,
        tail_segment: &Segment,
        active: &Segment,
        offset: u64,
        persist: &mut Persist<'_>,
    ) -> Result<()> {
        if planted(Fault::TailNotPersisted) {
            (self.offset, self.passed_bytes) = (offset, 0);
            self.bytes.clear();
        }
        let mut zero_bytes = GROUP_HEADER_BYTES.min(active.capacity_bytes.saturating_sub(offset));
        if planted(Fault::ZerosNotWritten) {
            zero_bytes = 0;
        }
        let zeros = &[0; memory_bytes(GROUP_HEADER_BYTES)][..memory_bytes(zero_bytes)];
        let same_file = tail_segment.number == active.number;
        if same_file {
            self.bytes.reserve_exact(zeros.len());
            self.bytes.extend_from_slice(zeros);
        }
        let mut at = self.offset;
        // More than one write only where the tail is larger than a system call can write.
        for extent in self.bytes[self.passed_bytes..].chunks(memory_bytes(GROUP_BYTES_MAX)) {
            persist(tail_segment, at, extent)?;
            at += extent.len() as u64;
        }
        if !same_file && !zeros.is_empty() {
            persist(active, offset, zeros)?;
        }
        Ok(())
    }
}
