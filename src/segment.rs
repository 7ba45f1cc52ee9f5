//! One file of the log: its name, its header, its descriptions. Through [`Disk`] only.

mod read;
mod store;
mod succession;

use std::fs::File;
use std::path::PathBuf;

pub(crate) use read::{Checked, GroupReader, LargeGroup, Payload, WINDOW_BYTES, read_at};
pub(crate) use store::{Fill, Pace, Removed, SEGMENT_BYTES_MIN, SegmentStore, StoreFailure, StoreResult};
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

/// The numbers of all segments in a directory, ascending.
pub(crate) fn list_segments(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = disk.list().map_err(|source| Error::io("list", disk.path(), source))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// An open segment whose header has been verified.
///
/// The file stays readable while this value lives, also after a trim removed its name.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Bytes that may be used, header included.
    pub(crate) capacity_bytes: u64,
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// Open file descriptions, one for each barrier that may be in flight: a write-back error is reported once per
    /// description, so two barriers must not share one. Reading uses the first; it reports no write-back errors.
    files: Box<[File]>,
}

impl Segment {
    /// Opens a segment by number and verifies its header. `descriptions` is at least 1.
    pub(crate) fn open(disk: &dyn Disk, number: u64, access: Access, descriptions: usize) -> Result<Segment> {
        let name = segment_name(number);
        let path = disk.path().join(&name);
        let files: Box<[File]> = (0..descriptions.max(1))
            .map(|_| disk.open(&name, access))
            .collect::<std::io::Result<_>>()
            .map_err(|source| Error::io("open", &path, source))?;
        let header = read_header(disk, &files[0], number, &path)?;
        Ok(Segment { number, capacity_bytes: header.capacity_bytes, id: header.id, path, files })
    }

    /// The description for reading.
    pub(crate) fn reading(&self) -> &File {
        &self.files[0]
    }

    /// The description for the barrier in this slot; each slot has its own.
    pub(crate) fn slot(&self, slot: usize) -> &File {
        &self.files[slot]
    }

    pub(crate) fn corrupt(&self, offset: u64, lsn: Lsn, what: &'static str) -> Error {
        Error::Corrupt { segment: self.path.clone(), offset, lsn, what }
    }
}

/// Reads and verifies the header of the file that has segment `number`'s name. The header was stable before the file got
/// that name, so one that does not verify is damage, always.
fn read_header(disk: &dyn Disk, file: &File, number: u64, path: &std::path::Path) -> Result<SegmentHeader> {
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
