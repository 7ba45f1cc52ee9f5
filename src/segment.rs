//! One file of the log: its name, its header, its descriptions. Through [`Disk`] only.

mod read;
mod store;
mod succession;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub(crate) use read::{Checked, GroupReader, LargeGroup, Payload, WINDOW_BYTES, read_at};
pub(crate) use store::{
    Fill, Pace, Prepared, Removed, SEGMENT_BYTES_MIN, SegmentStore, StoreFailure, StoreResult,
};
pub(crate) use succession::Succession;

use crate::Lsn;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::frame::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentHeaderFlaw, memory_bytes};

const EXTENSION: &str = ".wal";
const NUMBER_DIGITS: usize = 20;

/// The file name of the segment with this number.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:020}{EXTENSION}")
}

/// The number in a segment's file name; `None` for any other name, which is then not the log's.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(EXTENSION)?;
    let plain = digits.len() == NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// All segments of a directory, ascending, their headers verified.
pub(crate) fn open_segments(disk: &dyn Disk) -> Result<Vec<Arc<Segment>>> {
    list_segments(disk)?.into_iter().map(|number| Segment::open(disk, number).map(Arc::new)).collect()
}

/// The numbers of all segments in a directory, ascending.
pub(crate) fn list_segments(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = disk.list().map_err(|source| Error::io("list", disk.path(), source))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A segment whose header has been verified. It holds no file open, so that a log of many segments opens with few
/// descriptors: whoever reads or writes it opens what it needs.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Bytes that may be used, header included.
    pub(crate) capacity_bytes: u64,
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// Set before the name is taken away while somebody may still read the segment, and by a reader of its own.
    kept: OnceLock<Arc<File>>,
}

/// Open file descriptions for barriers, one for each that may be in flight: a write-back error is reported once per
/// description, so two barriers must not share one. Nothing else syncs them.
pub(crate) type BarrierFiles = Arc<[File]>;

impl Segment {
    /// Finds a segment by number and verifies its header.
    pub(crate) fn open(disk: &dyn Disk, number: u64) -> Result<Segment> {
        let path = disk.path().join(segment_name(number));
        let file = open_file(disk, number, &path, Access::Read)?;
        Ok(Segment::new(disk, &read_header(disk, &file, number, &path)?))
    }

    /// A segment whose header was verified, or has just been written, and which has its name.
    fn new(disk: &dyn Disk, header: &SegmentHeader) -> Segment {
        Segment {
            number: header.number,
            capacity_bytes: header.capacity_bytes,
            id: header.id,
            path: disk.path().join(segment_name(header.number)),
            kept: OnceLock::new(),
        }
    }

    /// A description for reading.
    pub(crate) fn open_for_reading(&self, disk: &dyn Disk) -> Result<Arc<File>> {
        if let Some(kept) = self.kept.get() {
            return Ok(Arc::clone(kept));
        }
        match open_file(disk, self.number, &self.path, Access::Read) {
            Ok(file) => Ok(Arc::new(file)),
            // The name may have gone in between, but then the file was kept before.
            Err(error) => self.kept.get().cloned().ok_or(error),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get().is_some()
    }

    /// Keeps the file open for those who read it, from now on also without its name.
    pub(crate) fn keep_open(&self, disk: &dyn Disk) -> Result<()> {
        let file = self.open_for_reading(disk)?;
        let _ = self.kept.set(file);
        Ok(())
    }

    /// Descriptions for `count` barriers in flight.
    pub(crate) fn open_for_barriers(&self, disk: &dyn Disk, count: usize) -> Result<BarrierFiles> {
        (0..count).map(|_| open_file(disk, self.number, &self.path, Access::ReadWrite)).collect()
    }

    pub(crate) fn corrupt(&self, offset: u64, lsn: Lsn, what: &'static str) -> Error {
        Error::Corrupt { segment: self.path.clone(), offset, lsn, what }
    }
}

fn open_file(disk: &dyn Disk, number: u64, path: &Path, access: Access) -> Result<File> {
    disk.open(&segment_name(number), access).map_err(|source| Error::io("open", path, source))
}

/// Reads and verifies the header of the file that has segment `number`'s name. The header was stable before the file got
/// that name, so one that does not verify is damage, always.
fn read_header(disk: &dyn Disk, file: &File, number: u64, path: &Path) -> Result<SegmentHeader> {
    let mut block = [0; memory_bytes(SEGMENT_HEADER_BYTES)];
    let read = disk.read_at(file, &mut block, 0).map_err(|source| Error::io("read", path, source))?;
    let corrupt = |what| Error::Corrupt { segment: path.to_owned(), offset: 0, lsn: Lsn::ZERO, what };
    let header = SegmentHeader::decode(&block[..read]).map_err(|flaw| match flaw {
        SegmentHeaderFlaw::Foreign => Error::NotASegment { path: path.to_owned() },
        SegmentHeaderFlaw::Version(found) => Error::UnsupportedVersion { segment: path.to_owned(), found },
        SegmentHeaderFlaw::Damaged(what) => corrupt(what),
    })?;
    if header.number != number {
        return Err(corrupt("the segment header names another number than the file's name"));
    }
    let file_bytes = disk.file_bytes(file).map_err(|source| Error::io("read the length of", path, source))?;
    if file_bytes < header.capacity_bytes {
        return Err(corrupt("the file is shorter than the segment header says"));
    }
    Ok(header)
}
