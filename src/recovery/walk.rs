//! The walk along the chain of groups, to the first place that does not go on.

use std::sync::Arc;

use super::tail::Tail;
use crate::Lsn;
use crate::disk::Disk;
use crate::error::Result;
use crate::frame::{Flaw, GroupFlags, SEGMENT_HEADER_BYTES};
use crate::segment::{Checked, GroupReader, Segment, Succession};

/// A walk, which stands at a place: a segment and an offset where the next group would be.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    disk: &'a dyn Disk,
    segments: &'a [Arc<Segment>],
    reader: GroupReader,
    succession: Succession,
    /// The segment of the place, by its index.
    pub(super) index: usize,
    pub(super) offset: u64,
    /// The index of the segment that the last group stands in.
    pub(super) last_index: usize,
    /// The LSN that the first group starts with, of each segment whose first group is known to be part of the log.
    pub(super) first_lsns: Vec<Option<Lsn>>,
    /// Of the last group.
    pub(super) last_flags: Option<GroupFlags>,
    /// Whether the place's segment, as far as it was walked, holds records.
    pub(super) has_records: bool,
    /// The highest durable LSN in a live group.
    pub(super) live_mark: Lsn,
    /// Why the place does not go on.
    pub(super) flaw: Flaw,
    /// The last group is a seal, and there is no segment after it.
    pub(super) sealed_last: bool,
    pub(super) tail: Tail,
}

impl<'a> Walk<'a> {
    /// At the start of a segment. With `keep_tail` the bytes of the unproven tail are kept.
    pub(super) fn new(
        disk: &'a dyn Disk,
        segments: &'a [Arc<Segment>],
        index: usize,
        keep_tail: bool,
    ) -> Self {
        Walk {
            disk,
            segments,
            reader: GroupReader::new(),
            succession: Succession::at_start_of(segments[index].number),
            index,
            offset: SEGMENT_HEADER_BYTES,
            last_index: index,
            first_lsns: vec![None; segments.len()],
            last_flags: None,
            has_records: false,
            live_mark: Lsn::ZERO,
            flaw: "the segments do not continue each other",
            sealed_last: false,
            tail: Tail::new(keep_tail),
        }
    }

    /// The LSN expected at the place; zero while the log's start is not known.
    pub(super) fn next_lsn(&self) -> Lsn {
        self.succession.next_lsn()
    }

    pub(super) fn chain(&self) -> u32 {
        self.succession.chain()
    }

    /// Goes on as far as the groups do. May be called again, for a file that grew meanwhile.
    pub(super) fn run(&mut self) -> Result<()> {
        self.reader.forget();
        while !self.sealed_last {
            if let Some(flaw) = self.step()? {
                self.flaw = flaw;
                break;
            }
        }
        Ok(())
    }

    /// Passes one group, or says why not.
    fn step(&mut self) -> Result<Option<Flaw>> {
        let segment = &*self.segments[self.index];
        let header = match self.reader.header(self.disk, segment, self.offset)? {
            Ok(header) => header,
            Err(flaw) => return Ok(Some(flaw)),
        };
        if let Err(flaw) = self.succession.check(&header) {
            return Ok(Some(flaw));
        }
        let keep = self.tail.bytes_mut();
        if let Checked::Flawed(flaw) = self.reader.check(self.disk, segment, self.offset, &header, keep)? {
            return Ok(Some(flaw));
        }
        self.succession.pass(&header);
        self.first_lsns[self.index].get_or_insert(header.first_lsn);
        self.tail.push(&header, self.offset);
        self.live_mark = self.live_mark.max(header.durable_lsn);
        self.has_records |= header.record_count > 0;
        self.last_index = self.index;
        self.last_flags = Some(header.flags);
        self.offset += u64::from(header.group_bytes);
        if header.flags.sealed {
            self.next_segment();
        }
        Ok(None)
    }

    fn next_segment(&mut self) {
        if self.index + 1 == self.segments.len() {
            self.sealed_last = true;
            return;
        }
        self.index += 1;
        self.offset = SEGMENT_HEADER_BYTES;
        self.has_records = false;
    }
}
