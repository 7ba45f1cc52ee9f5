//! Whether there is room: decided before an LSN is given out.

use super::{Ledger, SegmentNote};
use crate::frame::{BLOCK_BYTES, GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use crate::planted::{Fault, planted};

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

impl Ledger {
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
        if !self.has_spare && !planted(Fault::SpareNotNeeded) {
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
    pub(super) fn group_end(&self, offset: u64, group_bytes: u64) -> u64 {
        let end = offset + group_bytes;
        if self.limits.own_block_per_group { end.next_multiple_of(BLOCK_BYTES) } else { end }
    }

    /// Room for two empty groups.
    fn reserve_bytes(&self) -> u64 {
        2 * if self.limits.own_block_per_group { BLOCK_BYTES } else { GROUP_HEADER_BYTES }
    }
}
