//! Files that another process recycled while they were read here.

use crate::Lsn;
use crate::disk::Disk;
use crate::frame::SEGMENT_HEADER_BYTES;
use crate::segment::{GroupReader, Segment, list_segments};

/// How often the oldest segment is looked for: the writer may trim it between the listing and the look at it.
const ATTEMPTS: u32 = 100;

/// When the segment is not part of the log any more, the oldest LSN that is there now, which is above `lost`: that record
/// was trimmed.
///
/// A file has lost its name for good before a byte of it is written for its next life. So whoever reads bytes of that next
/// life, and then looks for the name, does not find it.
pub(super) fn now_oldest_if_recycled(disk: &dyn Disk, segment: &Segment, lost: Lsn) -> Option<Lsn> {
    has_lost_name(disk, segment).then(|| {
        let oldest = (0..ATTEMPTS).find_map(|_| oldest_now(disk));
        oldest.unwrap_or(Lsn::ZERO).max(lost.next())
    })
}

/// The same for a replay that this process made of a log that it wrote to. While that log is open nobody takes a file away
/// that the replay needs, so only where the log as it is now says that the record was trimmed has somebody else opened it.
pub(super) fn now_oldest_if_trimmed(disk: &dyn Disk, segment: &Segment, lost: Lsn) -> Option<Lsn> {
    let may_be_recycled = !segment.is_kept() && has_lost_name(disk, segment);
    let oldest = may_be_recycled.then(|| (0..ATTEMPTS).find_map(|_| oldest_now(disk)))?;
    oldest.filter(|oldest| *oldest > lost)
}

fn has_lost_name(disk: &dyn Disk, segment: &Segment) -> bool {
    list_segments(disk).is_ok_and(|numbers| !numbers.contains(&segment.number))
}

fn oldest_now(disk: &dyn Disk) -> Option<Lsn> {
    let numbers = list_segments(disk).ok()?;
    let oldest = Segment::open(disk, *numbers.first()?).ok()?;
    let mut reader = GroupReader::for_first_groups();
    let header = reader.header(disk, &oldest, SEGMENT_HEADER_BYTES).ok()?.ok()?;
    Some(header.first_lsn)
}
