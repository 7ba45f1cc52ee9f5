//! Files that another process recycled while they were read here.

use crate::Lsn;
use crate::disk::Disk;
use crate::frame::SEGMENT_HEADER_BYTES;
use crate::segment::{GroupReader, Segment, list_segments};

/// When the segment is not part of the log any more, the oldest LSN that is there now.
///
/// A file has lost its name for good before a byte of it is written for its next life. So whoever reads bytes of that next
/// life, and then looks for the name, does not find it.
pub(super) fn now_oldest_if_recycled(disk: &dyn Disk, segment: &Segment) -> Option<Lsn> {
    let numbers = list_segments(disk).ok()?;
    let name_gone = !numbers.contains(&segment.number);
    name_gone.then(|| oldest_now(disk, &numbers).unwrap_or(Lsn::MAX))
}

fn oldest_now(disk: &dyn Disk, numbers: &[u64]) -> Option<Lsn> {
    let oldest = Segment::open(disk, *numbers.first()?).ok()?;
    let mut reader = GroupReader::for_first_groups();
    let header = reader.header(disk, &oldest, SEGMENT_HEADER_BYTES).ok()?.ok()?;
    Some(header.first_lsn)
}
