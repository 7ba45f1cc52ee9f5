//! Files that another process recycled while they were read here.

use crate::Lsn;
use crate::disk::Disk;
use crate::frame::{SEGMENT_HEADER_BYTES, SegmentHeader, memory_bytes};
use crate::segment::{GroupReader, Segment, list_segments, read_at};

/// When the segment is not the one any more that was opened, the oldest LSN that is there now.
///
/// A file loses its name before it is used again, and gets another id before it gets another name.
pub(super) fn now_oldest_if_recycled(disk: &dyn Disk, segment: &Segment) -> Option<Lsn> {
    let numbers = list_segments(disk).ok()?;
    let name_gone = !numbers.contains(&segment.number);
    (name_gone || has_other_id(disk, segment)).then(|| oldest_now(disk, &numbers).unwrap_or(Lsn::MAX))
}

fn has_other_id(disk: &dyn Disk, segment: &Segment) -> bool {
    let mut block = [0; memory_bytes(SEGMENT_HEADER_BYTES)];
    let read = segment.open_for_reading(disk).and_then(|file| read_at(disk, segment, &file, &mut block, 0));
    read.is_ok() && SegmentHeader::decode(&block).is_ok_and(|header| header.id != segment.id)
}

fn oldest_now(disk: &dyn Disk, numbers: &[u64]) -> Option<Lsn> {
    let oldest = Segment::open(disk, *numbers.first()?).ok()?;
    let mut reader = GroupReader::for_first_groups();
    let header = reader.header(disk, &oldest, SEGMENT_HEADER_BYTES).ok()?.ok()?;
    Some(header.first_lsn)
}
