//! Files ahead of need: preparing, recycling, the spare, and removal after a trim.
//!
//! A file gets a segment's name only when its header is stable, and the name counts only after its own directory sync.
//! A removed file is never rewritten before the directory sync that makes its removal stable: its old name could come
//! back over the new bytes.
//!
//! * [`open`]: what is kept of files that an earlier process was working on.
//! * [`make`]: the spare, and a segment from each kind of file.
//! * [`fill`]: zeros ahead of need, at a pace that leaves the device to the commit path.
//! * [`remove`]: what a removed segment's file becomes.

mod fill;
mod make;
mod open;
mod remove;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::fill::{Fill, Pace};
use super::{BarrierFiles, Segment, segment_number};
use crate::disk::Disk;
use crate::error::Error;
use crate::ids::Ids;
use crate::planted::{Fault, planted};

/// The smallest segment there may be, in bytes; also the size the spare is made with.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

const SPARE: &str = "spare.tmp";
const SPARE_BEING_MADE: &str = "new-spare.tmp";
const NEXT: &str = "next.tmp";
const REPLACEMENT: &str = "replacement.tmp";
const RECYCLED_PREFIX: &str = "recycled-";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// What kept the store from doing its work.
#[derive(Debug)]
pub(crate) enum StoreFailure {
    /// No space for a file of so many bytes. Nothing was changed.
    Full { needed_bytes: u64 },
    /// A call failed before anything that matters was changed: the log goes on.
    Harmless(Error),
    /// A write, a sync or a change of names failed: the log must be poisoned.
    Final(Error),
}

/// The result of a store operation.
pub(crate) type StoreResult<T> = Result<T, StoreFailure>;

/// A segment that was made, with the descriptions for its barriers.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) segment: Arc<Segment>,
    pub(crate) barrier_files: BarrierFiles,
    /// Up to where its blocks have been written; behind that they are only reserved.
    pub(crate) written_until: u64,
}

/// What a removed segment's file became.
#[derive(Debug)]
pub(crate) enum Removed {
    /// The spare, which was missing.
    Spare,
    /// The prepared next segment, which was missing.
    Next(Prepared),
    /// Kept for a later segment, or given back to the file system.
    Gone,
}

/// The files of a log's directory besides the segments in use. One thread at a time works with it.
#[derive(Debug)]
pub(crate) struct SegmentStore {
    disk: Arc<dyn Disk>,
    ids: Ids,
    /// Size of an ordinary segment.
    segment_bytes: u64,
    /// Open file descriptions per segment: one for each barrier that may be in flight.
    descriptions: usize,
    /// How many removed files may be kept besides the spare and the next segment.
    recycle_limit: usize,
    /// The spare's length, where there is one.
    spare_bytes: Option<u64>,
    /// Removed files of an ordinary segment's size whose new names are stable.
    recycled: Vec<String>,
    recycled_names: u64,
}

impl SegmentStore {
    pub(crate) fn next_id(&self) -> Result<u64, Error> {
        self.ids.next().map_err(|source| self.error("draw a random id for", None, source))
    }

    pub(crate) fn spare_bytes(&self) -> Option<u64> {
        self.spare_bytes
    }

    /// Lets those who read a segment go on after its name is gone.
    pub(crate) fn keep_open(&self, segment: &Segment) -> Result<(), Error> {
        segment.keep_open(&*self.disk)
    }

    /// A name that no recycled file has.
    fn next_recycled_name(&mut self) -> String {
        let name = format!("{RECYCLED_PREFIX}{}{TEMPORARY_SUFFIX}", self.recycled_names);
        self.recycled_names += 1;
        name
    }

    /// False, with nothing changed, where the directory would have to grow for the new name and there is no room.
    fn rename_if_room(&self, from: &str, to: &str) -> StoreResult<bool> {
        match self.disk.rename(from, to) {
            Ok(()) => {}
            Err(source) if Error::is_storage_full(&source) => return Ok(false),
            Err(source) => return Err(self.last("rename", from, source)),
        }
        let unsynced = planted(Fault::NameNotSynced) && segment_number(to).is_some()
            || planted(Fault::EarlyReuse) && segment_number(from).is_some();
        if unsynced {
            return Ok(true);
        }
        self.sync_directory().map(|()| true).map_err(StoreFailure::Final)
    }

    /// Makes the name changes so far stable. Every operation does that by itself.
    pub(crate) fn sync_directory(&self) -> Result<(), Error> {
        self.disk.sync_directory().map_err(|source| self.error("sync directory", None, source))
    }

    fn error(&self, op: &'static str, name: Option<&str>, source: io::Error) -> Error {
        let path: PathBuf =
            name.map_or_else(|| self.disk.path().to_owned(), |name| self.disk.path().join(name));
        Error::io(op, path, source)
    }

    /// A failure after which the log must be poisoned.
    fn last(&self, op: &'static str, name: &str, source: io::Error) -> StoreFailure {
        StoreFailure::Final(self.error(op, Some(name), source))
    }
}

#[cfg(test)]
mod tests;
