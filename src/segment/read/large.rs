//! A group too large to be held: verified in one pass, served in a second one.

use std::ops::Range;

use super::window::Window;
use super::{Checked, GroupReader, WINDOW_BYTES};
use crate::disk::Disk;
use crate::error::Result;
use crate::frame::{
    Flaw, GROUP_HEADER_BYTES, GroupCheck, GroupHeader, RECORD_HEADER_BYTES, RecordHeader, first_record,
    memory_bytes, record_bytes,
};
use crate::segment::Segment;

const CHANGED: Flaw = "the group changed after it was verified";

/// A verified group that is read a second time, piece by piece, to be served.
///
/// Each piece must have the checksum that it had when the group was verified: the record headers would otherwise be
/// believed without a checksum of their own the second time.
#[derive(Debug)]
pub(crate) struct LargeGroup {
    offset: u64,
    group_bytes: u64,
    piece_sums: Vec<u32>,
    /// The next record, from the start of the group.
    position: u64,
    /// The piece that was compared last.
    compared: Option<usize>,
    /// A record that does not lie in one piece.
    record: Vec<u8>,
}

/// Where a record's payload is.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In the reader.
    Held(Range<usize>),
    /// In the [`LargeGroup`] itself.
    Gathered,
}

impl LargeGroup {
    /// Verifies a group in constant memory.
    pub(super) fn check(
        window: &mut Window,
        disk: &dyn Disk,
        segment: &Segment,
        offset: u64,
        header: &GroupHeader,
        mut keep: Option<&mut Vec<u8>>,
    ) -> Result<Checked> {
        let kept_before = keep.as_ref().map_or(0, |keep| keep.len());
        if let Some(keep) = &mut keep {
            // Exactly, and for the zeros that recovery writes behind it.
            keep.reserve_exact(header.group_bytes as usize + memory_bytes(GROUP_HEADER_BYTES));
        }
        let mut group = LargeGroup {
            offset,
            group_bytes: u64::from(header.group_bytes),
            piece_sums: Vec::new(),
            position: GROUP_HEADER_BYTES,
            compared: None,
            record: Vec::new(),
        };
        let mut check = GroupCheck::new(header);
        let mut verdict = Ok(());
        for index in 0..group.pieces() {
            let piece = group.piece(window, disk, segment, index)?;
            group.piece_sums.push(crc32fast::hash(piece));
            let body = if index == 0 { &piece[memory_bytes(GROUP_HEADER_BYTES)..] } else { piece };
            verdict = check.push(body);
            if verdict.is_err() {
                break;
            }
            if let Some(keep) = keep.as_deref_mut() {
                keep.extend_from_slice(piece);
            }
        }
        Ok(match verdict.and_then(|()| check.finish()) {
            Ok(()) => Checked::Large(group),
            Err(flaw) => {
                if let Some(keep) = keep {
                    keep.truncate(kept_before);
                }
                Checked::Flawed(flaw)
            }
        })
    }

    fn pieces(&self) -> usize {
        memory_bytes(self.group_bytes).div_ceil(WINDOW_BYTES)
    }

    fn piece<'w>(
        &self,
        window: &'w mut Window,
        disk: &dyn Disk,
        segment: &Segment,
        index: usize,
    ) -> Result<&'w [u8]> {
        let start = index as u64 * WINDOW_BYTES as u64;
        let bytes = memory_bytes(self.group_bytes - start).min(WINDOW_BYTES);
        window.bytes(disk, segment, self.offset + start, bytes)
    }

    /// The rest of the piece that holds this position, from the position on, compared with what was verified.
    fn compared<'w>(
        &mut self,
        window: &'w mut Window,
        disk: &dyn Disk,
        segment: &Segment,
        position: u64,
    ) -> Result<Result<&'w [u8], Flaw>> {
        let index = memory_bytes(position) / WINDOW_BYTES;
        let Some(&sum) = self.piece_sums.get(index) else {
            return Ok(Err(CHANGED));
        };
        let piece = self.piece(window, disk, segment, index)?;
        if self.compared != Some(index) {
            if crc32fast::hash(piece) != sum {
                return Ok(Err(CHANGED));
            }
            self.compared = Some(index);
        }
        Ok(Ok(&piece[memory_bytes(position) % WINDOW_BYTES..]))
    }

    /// The next record, verified once more. The caller asks for no more records than the group has.
    pub(crate) fn next_record(
        &mut self,
        reader: &mut GroupReader,
        disk: &dyn Disk,
        segment: &Segment,
    ) -> Result<Result<(RecordHeader, Payload), Flaw>> {
        let position = self.position;
        let rest = match self.compared(reader.window(), disk, segment, position)? {
            Ok(rest) => rest,
            Err(flaw) => return Ok(Err(flaw)),
        };
        if let Some((header, payload, taken)) = first_record(rest) {
            if !header.matches(payload) {
                return Ok(Err(CHANGED));
            }
            let payload_bytes = payload.len();
            self.position += taken as u64;
            let start = self.offset + position + RECORD_HEADER_BYTES;
            return Ok(Ok((header, Payload::Held(reader.window().place_of(start, payload_bytes)))));
        }
        let Some((header_bytes, _)) = rest.split_at_checked(memory_bytes(RECORD_HEADER_BYTES)) else {
            return Ok(Err(CHANGED));
        };
        let header = RecordHeader::decode(header_bytes);
        Ok(self.gather(reader, disk, segment, header)?.map(|()| (header, Payload::Gathered)))
    }

    /// Puts together a payload that does not end in the piece where it starts.
    fn gather(
        &mut self,
        reader: &mut GroupReader,
        disk: &dyn Disk,
        segment: &Segment,
        header: RecordHeader,
    ) -> Result<Result<(), Flaw>> {
        let end = self.position + record_bytes(header.payload_bytes());
        if end > self.group_bytes {
            return Ok(Err(CHANGED));
        }
        let payload_bytes = memory_bytes(header.payload_bytes());
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        record.reserve_exact(payload_bytes);
        let mut position = self.position + RECORD_HEADER_BYTES;
        while record.len() < payload_bytes {
            let rest = match self.compared(reader.window(), disk, segment, position)? {
                Ok(rest) => rest,
                Err(flaw) => return Ok(Err(flaw)),
            };
            let part = rest.len().min(payload_bytes - record.len());
            record.extend_from_slice(&rest[..part]);
            position += part as u64;
        }
        if !header.matches(&record) {
            return Ok(Err(CHANGED));
        }
        self.position = end;
        self.record = record;
        Ok(Ok(()))
    }

    /// The payload of the last record, where it was [`Payload::Gathered`].
    pub(crate) fn gathered(&self) -> &[u8] {
        &self.record
    }

    /// The same, given away.
    pub(crate) fn take_gathered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.record)
    }
}
