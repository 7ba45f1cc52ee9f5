//! The search for headers behind the end of the walk.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::frame::{BLOCK_BYTES, GROUP_HEADER_BYTES, GroupHeader, SEGMENT_HEADER_BYTES, memory_bytes};
use crate::segment::{Segment, WINDOW_BYTES, read_at};

/// Neighbouring pieces share this much, so that a header that starts in one piece is whole in it or in the next.
const OVERLAP_BYTES: usize = memory_bytes(GROUP_HEADER_BYTES) - 8;

/// What stands behind the place.
#[derive(Debug)]
pub(super) struct Behind {
    /// The highest durable LSN in a verified header.
    pub(super) mark: Lsn,
    /// Whether the place's own segment holds a verified header.
    pub(super) in_segment: bool,
    /// The last later segment, by its index, that holds a verified header.
    pub(super) later_segment: Option<usize>,
    /// Whether the place's own segment holds only zeros.
    pub(super) only_zeros: bool,
    /// Where the last group ends that provably belonged to the place's own segment: one whose header verifies, or a header
    /// that at least begins, at the place itself, like one of this segment. The place itself where there is none.
    pub(super) dead_end: u64,
    /// Whether something at the place begins like a group of this segment.
    pub(super) begun: bool,
}

impl Behind {
    pub(super) fn nothing(offset: u64) -> Self {
        Behind {
            mark: Lsn::ZERO,
            in_segment: false,
            later_segment: None,
            only_zeros: true,
            dead_end: offset,
            begun: false,
        }
    }
}

/// Searches the segment of the place from the place on, and every later segment.
pub(super) fn search(
    disk: &dyn Disk,
    segments: &[Arc<Segment>],
    index: usize,
    offset: u64,
) -> Result<Behind> {
    let segment = &*segments[index];
    let mut behind = Behind::nothing(offset);
    let mut piece = vec![0; WINDOW_BYTES];
    let only_zeros = scan(disk, segment, offset, &mut piece, &mut |at, bytes| {
        let header = GroupHeader::decode(bytes, segment.id);
        if let Some(header) = header {
            behind.mark = behind.mark.max(header.durable_lsn);
            behind.in_segment = true;
        }
        if header.is_some() || at == offset {
            behind.begun |= at == offset;
            let bytes = header.map_or(GROUP_HEADER_BYTES, |header| u64::from(header.group_bytes));
            behind.dead_end = behind.dead_end.max(at.saturating_add(bytes).min(segment.capacity_bytes));
        }
    })?;
    behind.only_zeros = only_zeros;
    for (later, segment) in segments.iter().enumerate().skip(index + 1) {
        scan(disk, segment, SEGMENT_HEADER_BYTES, &mut piece, &mut |_, bytes| {
            if let Some(header) = GroupHeader::decode(bytes, segment.id) {
                behind.mark = behind.mark.max(header.durable_lsn);
                behind.later_segment = Some(later);
            }
        })?;
    }
    Ok(behind)
}

/// Shows every 8th byte of a segment, from `from` on, where a header of this segment may begin. True when there are only
/// zeros.
fn scan(
    disk: &dyn Disk,
    segment: &Segment,
    from: u64,
    piece: &mut [u8],
    candidate: &mut dyn FnMut(u64, &[u8]),
) -> Result<bool> {
    let file = segment.open_for_reading(disk)?;
    // Before anything is read: the kernel reads ahead, and a reserved block in the cache counts as data.
    let data = data_ranges(disk, segment, &file, from)?;
    let mut only_zeros = true;
    let mut hole_start = from;
    for range in data {
        only_zeros &= scan_range(disk, segment, &file, range.clone(), piece, candidate)?;
        disk.uncache(&file, hole_start..range.start);
        hole_start = range.end;
    }
    disk.uncache(&file, hole_start..segment.capacity_bytes);
    Ok(only_zeros)
}

/// Where, from an offset on, a segment holds anything but zeros. A header begins with bytes that are not zero, so none
/// begins elsewhere.
fn data_ranges(disk: &dyn Disk, segment: &Segment, file: &File, from: u64) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut at = from;
    while at < segment.capacity_bytes {
        let data = disk.next_data(file, at).map_err(|source| Error::io("read", &segment.path, source))?;
        let Some(data) = data.filter(|data| data.start < segment.capacity_bytes) else { break };
        let start = at.max(data.start - data.start % 8);
        // Something at least, so that each round gets on.
        let end = data.end.max(start + 8).min(segment.capacity_bytes).next_multiple_of(8);
        ranges.push(start..end);
        at = end;
    }
    Ok(ranges)
}

/// Scans a range with a hole, or the segment's end, behind it.
fn scan_range(
    disk: &dyn Disk,
    segment: &Segment,
    file: &File,
    range: Range<u64>,
    piece: &mut [u8],
    candidate: &mut dyn FnMut(u64, &[u8]),
) -> Result<bool> {
    let mut only_zeros = true;
    let mut at = range.start;
    while at < range.end {
        let left = memory_bytes(range.end - at);
        let read_bytes = left.min(piece.len() - OVERLAP_BYTES);
        read_at(disk, segment, file, &mut piece[..read_bytes], at)?;
        let mut piece_bytes = read_bytes;
        if read_bytes == left {
            // A header that begins in the data may end in the hole.
            piece_bytes += OVERLAP_BYTES.min(memory_bytes(segment.capacity_bytes - range.end));
            piece[read_bytes..piece_bytes].fill(0);
        }
        only_zeros &= scan_piece(segment.id, &piece[..piece_bytes], &mut |position, bytes| {
            candidate(at + position as u64, bytes);
        });
        at = if read_bytes == left { range.end } else { at + (read_bytes - OVERLAP_BYTES) as u64 };
    }
    Ok(only_zeros)
}

/// Blocks of zeros, of which a prepared segment mostly consists, are passed quickly.
fn scan_piece(segment_id: u64, piece: &[u8], candidate: &mut dyn FnMut(usize, &[u8])) -> bool {
    const BLOCK: usize = memory_bytes(BLOCK_BYTES);
    let mut only_zeros = true;
    for (number, block) in piece.chunks(BLOCK).enumerate() {
        if is_zero(block) {
            continue;
        }
        only_zeros = false;
        let start = number * BLOCK;
        for position in (start..start + block.len()).step_by(8) {
            let bytes = &piece[position..];
            if GroupHeader::begins(bytes, segment_id) {
                candidate(position, &bytes[..memory_bytes(GROUP_HEADER_BYTES)]);
            }
        }
    }
    only_zeros
}

fn is_zero(block: &[u8]) -> bool {
    // Without an early exit, so that it becomes wide instructions.
    block.iter().fold(0, |all, &byte| all | byte) == 0
}
