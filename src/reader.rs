//! Reading a log: replay, and the read-only open.

mod range;
mod recycled;
mod replay;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use range::resolve;
pub use replay::Replay;

use crate::Lsn;
use crate::disk::{Disk, LOCK_NAME, RealDisk};
use crate::error::{Error, Result};
use crate::planted::{Fault, planted};
use crate::recovery::{RecoveredSegment, Recovery, inspect};
use crate::segment::{Segment, list_segments, open_segments};

/// A record, lent by [`Replay::next_ref`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordRef<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// Whether it is the last of its batch. A record that was appended alone is.
    pub ends_batch: bool,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// A record of one's own, from [`Replay`] as an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its number.
    pub lsn: Lsn,
    /// Whether it is the last of its batch. A record that was appended alone is.
    pub ends_batch: bool,
    /// The bytes that were appended.
    pub payload: Vec<u8>,
}

/// A log opened for reading only: by another process than the one that writes it, or on read-only media.
///
/// It takes no lock, creates nothing and repairs nothing, and works in a directory that cannot be written to. What it
/// serves was fixed when it was opened; open again to see more. The writer may trim and recycle files meanwhile: a replay
/// that meets that ends with [`Error::Trimmed`].
#[derive(Clone, Debug)]
pub struct Reader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    segments: Vec<RecoveredSegment>,
    /// The segment that the log ends in, by its index.
    active: usize,
    /// Where the log ends in that segment.
    end_offset: u64,
    oldest: Lsn,
    durable: Lsn,
}

/// What is known of a segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// The number in its name.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// How many bytes of the file may be used, its header included.
    pub capacity_bytes: u64,
    /// How many of them are in use: all of them in a segment that was sealed, none but the header in one that is only
    /// prepared.
    pub used_bytes: u64,
    /// The LSN that its first group starts with; `None` where it holds no group.
    pub first_lsn: Option<Lsn>,
    /// The last record it holds, or the last one before it where it holds groups without records; `None` without groups.
    pub last_lsn: Option<Lsn>,
}

/// How often a log that looks damaged is read again before that is believed: a writer may be at work.
const ATTEMPTS: u32 = 8;
/// For how long attempts are not counted between which segments came or went.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many of the newest segments a reader keeps open from before it looks at them: the one that the log ends in, the one
/// before it where the log ends with a seal, and a prepared one.
const KEPT_OPEN: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(1);

impl Reader {
    /// Opens a log for reading only. An empty directory, and one without segments, is an empty log.
    ///
    /// Records above the highest durable LSN that stands on disk may be in the page cache only. They are served after an
    /// `fdatasync` of this reader's own has answered that they are stable. Where the media are read-only there is nothing to
    /// be synced and they are served as they are; where the sync fails for another reason, the reader serves the records up
    /// to that durable LSN and no further.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the directory or a file cannot be read; [`Error::Corrupt`], [`Error::MissingSegment`],
    /// [`Error::NotASegment`] or [`Error::UnsupportedVersion`] as for an open for writing. Since a writer may be at work,
    /// damage is looked at again for a moment before it is reported. Nothing is changed in any case.
    pub fn open(dir: impl AsRef<Path>) -> Result<(Reader, Recovery)> {
        let dir = dir.as_ref();
        let disk = RealDisk::open(dir).map_err(|source| Error::io("open directory", dir, source))?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        Self::open_on(&disk)
    }

    pub(crate) fn open_on(disk: &Arc<dyn Disk>) -> Result<(Reader, Recovery)> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut numbers = list_segments(&**disk)?;
        let mut attempt = 1;
        while attempt < ATTEMPTS {
            match Self::attempt(disk) {
                Ok((reader, _)) if reader.inner.segments.is_empty() && has_lock_file(&**disk)? => {}
                Err(error) if may_be_a_race(&error) => {}
                other => return other,
            }
            let now = list_segments(&**disk)?;
            if now != numbers && start.elapsed() < PATIENCE {
                // A writer is at work, and may be as quick again.
                numbers = now;
                continue;
            }
            attempt += 1;
            std::thread::sleep(pause);
            pause *= 2;
        }
        Self::attempt(disk)
    }

    fn attempt(disk: &Arc<dyn Disk>) -> Result<(Reader, Recovery)> {
        let segments = open_segments(&**disk)?;
        if segments.is_empty() {
            return Ok(Self::empty(disk));
        }
        for segment in segments.iter().rev().take(KEPT_OPEN) {
            segment.keep_open(&**disk)?;
        }
        let (found, mark, last_index) = inspect(&**disk, &segments)?;
        // A trimmed file is rewritten when its name has gone. With the name still there, what looks like the log's end in
        // this file is one, and no byte of the file's next life.
        Segment::open(&**disk, segments[found.active].number)?;
        let mut report = found.report;
        let unproven = report.last > mark && !planted(Fault::ReaderAheadOfBarrier);
        if unproven && !is_stable(&**disk, &segments[last_index]) {
            report.last = mark.max(report.oldest.previous());
        }
        let inner = Inner {
            disk: Arc::clone(disk),
            segments: found.segments,
            active: found.active,
            end_offset: found.offset,
            oldest: report.oldest,
            durable: report.last,
        };
        Ok((Reader { inner: Arc::new(inner) }, report))
    }

    fn empty(disk: &Arc<dyn Disk>) -> (Reader, Recovery) {
        let report = Recovery::of_new_log();
        let inner = Inner {
            disk: Arc::clone(disk),
            segments: Vec::new(),
            active: 0,
            end_offset: 0,
            oldest: report.oldest,
            durable: report.last,
        };
        (Reader { inner: Arc::new(inner) }, report)
    }

    /// The oldest record that is served, or the LSN that the next record gets where there is none.
    pub fn oldest_lsn(&self) -> Lsn {
        self.inner.oldest
    }

    /// The last record that is served. One below [`oldest_lsn`](Self::oldest_lsn) where there is none.
    pub fn durable_lsn(&self) -> Lsn {
        self.inner.durable
    }

    /// The records of a range. An end above [`durable_lsn`](Self::durable_lsn) is cut, LSN 0 counts as 1, and a range that
    /// is empty or inverted gives an empty replay.
    ///
    /// # Errors
    ///
    /// [`Error::Trimmed`] when the range starts explicitly below [`oldest_lsn`](Self::oldest_lsn).
    pub fn replay(&self, lsns: impl std::ops::RangeBounds<Lsn>) -> Result<Replay> {
        let inner = &*self.inner;
        let (first, last) = resolve(&lsns, inner.oldest, inner.durable)?;
        let segments = segments_from(&inner.segments, first);
        Ok(Replay::over(Arc::clone(&inner.disk), segments, first, last).beside_writer())
    }

    /// The segments that were there when the log was opened, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        (0..self.inner.segments.len()).map(|index| self.inner.segment_info(index)).collect()
    }
}

impl Inner {
    fn segment_info(&self, index: usize) -> SegmentInfo {
        let described = &self.segments[index];
        let next_first = self.segments.get(index + 1).and_then(|next| next.first_lsn);
        let segment = &*described.segment;
        SegmentInfo {
            number: segment.number,
            path: segment.path.clone(),
            capacity_bytes: segment.capacity_bytes,
            used_bytes: match index.cmp(&self.active) {
                std::cmp::Ordering::Less => segment.capacity_bytes,
                std::cmp::Ordering::Equal => self.end_offset,
                std::cmp::Ordering::Greater => crate::frame::SEGMENT_HEADER_BYTES,
            },
            first_lsn: described.first_lsn,
            last_lsn: described.first_lsn.map(|_| next_first.map_or(self.durable, Lsn::previous)),
        }
    }
}

/// The segments from the one on that holds `first`. What comes before it need not be read.
pub(crate) fn segments_from(segments: &[RecoveredSegment], first: Lsn) -> Vec<Arc<Segment>> {
    let starts_at_or_below =
        |described: &RecoveredSegment| described.first_lsn.is_some_and(|lsn| lsn <= first);
    let start = segments.iter().rposition(starts_at_or_below).unwrap_or(0);
    segments[start..].iter().map(|described| Arc::clone(&described.segment)).collect()
}

/// Whether a writer has opened the log at some time. One at work can make a log look as if it had no segments: a listing
/// may miss each name that is added or removed while it runs, and a trim leaves few that are not. `LOCK` always stays.
fn has_lock_file(disk: &dyn Disk) -> Result<bool> {
    let names = disk.list().map_err(|source| Error::io("list", disk.path(), source))?;
    Ok(names.iter().any(|name| name == LOCK_NAME))
}

/// Whether a writer at work can make a sound log look like that.
fn may_be_a_race(error: &Error) -> bool {
    match error {
        // Removed, or recycled, between the listing and the look at it; or read while it was being written.
        Error::Io { op: "open", source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        Error::Corrupt { .. } | Error::MissingSegment { .. } | Error::NotASegment { .. } => true,
        _ => false,
    }
}

/// Makes the file's bytes stable, as far as anybody can say: on media that cannot be written to, nothing waits to be.
fn is_stable(disk: &dyn Disk, segment: &Segment) -> bool {
    // The description that the bytes were read through, opened before they were: a write-back error in between reaches it.
    let file = match segment.open_for_reading(disk) {
        Ok(file) => file,
        Err(error) => {
            log::warn!("{}: its unproven end is not served: {error}", segment.path.display());
            return false;
        }
    };
    match disk.sync(&file) {
        Ok(()) => true,
        Err(error) => {
            let read_only = [rustix::io::Errno::ROFS, rustix::io::Errno::INVAL];
            let harmless = read_only.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            if !harmless {
                log::warn!(
                    "{}: cannot be synced, its unproven end is not served: {error}",
                    segment.path.display()
                );
            }
            harmless
        }
    }
}
