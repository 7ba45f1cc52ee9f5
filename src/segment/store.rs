//! Files ahead of need: preparing, recycling, the spare, and removal after a trim.
//!
//! A file gets a segment's name only when its header is stable, and the name counts only after its own directory sync.
//! A removed file is never rewritten before the directory sync that makes its removal stable: its old name could come
//! back over the new bytes.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::{BarrierFiles, Segment, segment_name, segment_number};
use crate::disk::{Access, Disk};
use crate::error::Error;
use crate::frame::{BLOCK_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, memory_bytes};
use crate::ids::Ids;
use crate::planted::{Fault, planted};
use crate::sync::{AtomicBool, AtomicUsize, Instant, Ordering, thread};

/// The smallest segment there may be, in bytes; also the size the spare is made with.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

const SPARE: &str = "spare.tmp";
const SPARE_BEING_MADE: &str = "new-spare.tmp";
const NEXT: &str = "next.tmp";
const REPLACEMENT: &str = "replacement.tmp";
const RECYCLED_PREFIX: &str = "recycled-";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// How much is zero-filled with one write, and between two syncs: small steps, so that a barrier of the commit path never
/// queues behind a whole segment of dirty pages.
const FILL_STEP_BYTES: usize = 256 * 1024;
const FILL_SYNC_BYTES: u64 = 1024 * 1024;

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

/// How fast to zero-fill, shared with those who wait for the file.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How many threads wait for the store. Once there is one, filling ends: the rest of the file stays reserved. Written
    /// by the waiters.
    pub(crate) hurried: AtomicUsize,
    /// Set once, by close: filling ends at the next step.
    pub(crate) stopped: AtomicBool,
}

impl Pace {
    /// Leaves the device to the commit path for as long as the last step kept it.
    fn rest_after(&self, step: Instant) {
        if !self.is_hurried() {
            thread::sleep(step.elapsed());
        }
    }

    fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }
}

/// How the blocks of a new file are provided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill<'a> {
    /// Only reserved: at once, but the first write to a block costs the file system more.
    Reserve,
    /// Really written, in small steps.
    Zeros(&'a Pace),
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
    /// Makes all names stable, for a name that a killed process has left may not be on disk yet; then keeps the spare and one
    /// ordinary file that an interrupted preparation has left, and removes the rest of what such have left.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        ids: Ids,
        segment_bytes: u64,
        descriptions: usize,
        recycle_limit: usize,
    ) -> Result<Self, Error> {
        let mut store = SegmentStore {
            disk,
            ids,
            segment_bytes,
            descriptions,
            recycle_limit,
            spare_bytes: None,
            recycled: Vec::new(),
            recycled_names: 0,
        };
        let names = store.disk.list().map_err(|source| store.error("list", None, source))?;
        if names.iter().any(|name| name == SPARE) {
            store.spare_bytes = Some(store.length_of(SPARE)?);
        }
        // Before any name changes: a later change of the same file's name could survive a power cut without the earlier
        // one, and leave the file under two names, one of them a live segment's.
        if !planted(Fault::OpenWithoutDirectorySync) {
            store.sync_directory()?;
        }
        if store.clear_leftovers(names)? && !planted(Fault::OpenWithoutDirectorySync) {
            store.sync_directory()?;
        }
        Ok(store)
    }

    /// A trim may have been interrupted while it made the next segment of a removed one. That file may be the only one the
    /// log has besides two small ones, and a neighbour could take its space: it is kept. True where a name was changed.
    fn clear_leftovers(&mut self, mut names: Vec<String>) -> Result<bool, Error> {
        names.retain(|name| is_leftover(name));
        names.sort_unstable();
        let mut kept = None;
        let mut changed = false;
        for name in names {
            if kept.is_none() && self.length_of(&name)? == self.segment_bytes {
                kept = Some(name);
            } else {
                self.disk.unlink(&name).map_err(|source| self.error("remove", Some(&name), source))?;
                changed = true;
            }
        }
        if let Some(name) = kept {
            let recycled = format!("{RECYCLED_PREFIX}{}{TEMPORARY_SUFFIX}", self.recycled_names);
            self.recycled_names += 1;
            if name != recycled {
                let renamed = self.disk.rename(&name, &recycled);
                renamed.map_err(|source| self.error("rename", Some(&name), source))?;
                changed = true;
            }
            self.recycled.push(recycled);
        }
        Ok(changed)
    }

    pub(crate) fn next_id(&self) -> Result<u64, Error> {
        self.ids.next().map_err(|source| self.error("draw a random id for", None, source))
    }

    pub(crate) fn spare_bytes(&self) -> Option<u64> {
        self.spare_bytes
    }

    /// Makes the spare where it is missing; false where there is no room for it.
    pub(crate) fn ensure_spare(&mut self) -> StoreResult<bool> {
        // A reservation that was never synced may have been lost with the power: the name is there, the space is not.
        if self.spare_bytes.is_some_and(|bytes| bytes < SEGMENT_BYTES_MIN) {
            self.disk.unlink(SPARE).map_err(|source| self.last("remove", SPARE, source))?;
            self.spare_bytes = None;
        }
        if self.spare_bytes.is_some() {
            return Ok(true);
        }
        let file = match self.create_reserved(SPARE_BEING_MADE, SEGMENT_BYTES_MIN) {
            Ok(file) => file,
            Err(StoreFailure::Full { .. }) => return Ok(false),
            Err(failure) => return Err(failure),
        };
        self.disk.sync(&file).map_err(|source| self.last("sync", SPARE_BEING_MADE, source))?;
        if !self.rename_if_room(SPARE_BEING_MADE, SPARE)? {
            let _ = self.disk.unlink(SPARE_BEING_MADE);
            return Ok(false);
        }
        self.spare_bytes = Some(SEGMENT_BYTES_MIN);
        Ok(true)
    }

    /// Makes segment `number`, from a recycled file where one fits.
    pub(crate) fn prepare(
        &mut self,
        number: u64,
        capacity_bytes: u64,
        fill: Fill<'_>,
    ) -> StoreResult<Prepared> {
        if capacity_bytes == self.segment_bytes
            && let Some(name) = self.recycled.last()
        {
            let prepared = self.name_segment(name, number, capacity_bytes, capacity_bytes)?;
            self.recycled.pop();
            return Ok(prepared);
        }
        let file = self.create_reserved(NEXT, capacity_bytes)?;
        let written_until = match fill {
            Fill::Reserve => SEGMENT_HEADER_BYTES,
            Fill::Zeros(pace) => self.fill_with_zeros(&file, capacity_bytes, pace)?,
        };
        drop(file);
        self.name_or_remove(NEXT, number, capacity_bytes, written_until)
    }

    /// Makes segment `number` from the spare, which is then missing. Needs no space.
    pub(crate) fn prepare_from_spare(&mut self, number: u64) -> StoreResult<Option<Prepared>> {
        let Some(spare_bytes) = self.spare_bytes else { return Ok(None) };
        let prepared =
            self.name_segment(SPARE, number, spare_bytes - spare_bytes % BLOCK_BYTES, SEGMENT_HEADER_BYTES)?;
        self.spare_bytes = None;
        Ok(Some(prepared))
    }

    /// Puts a larger file in the place of segment `number`, which holds no group and for which nothing is staged.
    pub(crate) fn replace(&mut self, number: u64, capacity_bytes: u64) -> StoreResult<Prepared> {
        drop(self.create_reserved(REPLACEMENT, capacity_bytes)?);
        self.name_or_remove(REPLACEMENT, number, capacity_bytes, SEGMENT_HEADER_BYTES)
    }

    /// Lets those who read a segment go on after its name is gone.
    pub(crate) fn keep_open(&self, segment: &Segment) -> Result<(), Error> {
        segment.keep_open(&*self.disk)
    }

    /// Removes a segment: its file becomes the spare if that is missing, else segment `next_number` if one is asked for
    /// and the size is right, else a recycled file if there may be one more; only then is it given back.
    pub(crate) fn remove(&mut self, segment: Arc<Segment>, next_number: Option<u64>) -> StoreResult<Removed> {
        let name = segment_name(segment.number);
        let capacity_bytes = segment.capacity_bytes;
        let ordinary = capacity_bytes == self.segment_bytes;
        // A reader that still holds the segment keeps its bytes: such a file loses its name, but is not rewritten. No new
        // reader can come, since the segment has left the log's list; the caller has kept it open before.
        let unread = match Arc::try_unwrap(segment) {
            Ok(_) => true,
            Err(segment) => {
                segment.keep_open(&*self.disk).map_err(StoreFailure::Final)?;
                false
            }
        };
        let unread = unread && !planted(Fault::RefillLast);
        if unread && self.spare_bytes.is_none() && self.rename_if_room(&name, SPARE)? {
            self.spare_bytes = Some(capacity_bytes);
            return Ok(Removed::Spare);
        }
        if unread
            && ordinary
            && let Some(number) = next_number
            && self.rename_if_room(&name, NEXT)?
        {
            return match self.name_or_remove(NEXT, number, capacity_bytes, capacity_bytes) {
                Ok(prepared) => Ok(Removed::Next(prepared)),
                // The segment is removed all the same; whoever needs a next one makes it.
                Err(StoreFailure::Full { .. } | StoreFailure::Harmless(_)) => Ok(Removed::Gone),
                Err(failure) => Err(failure),
            };
        }
        if unread && ordinary && self.recycled.len() < self.recycle_limit {
            let kept = format!("{RECYCLED_PREFIX}{}{TEMPORARY_SUFFIX}", self.recycled_names);
            self.recycled_names += 1;
            if self.rename_if_room(&name, &kept)? {
                self.recycled.push(kept);
                return Ok(Removed::Gone);
            }
        }
        self.disk.unlink(&name).map_err(|source| self.last("remove", &name, source))?;
        if !planted(Fault::RemovalNotSynced) && !planted(Fault::RemovalsShareSync) {
            self.sync_directory().map_err(StoreFailure::Final)?;
        }
        Ok(Removed::Gone)
    }

    /// As [`name_segment`](Self::name_segment), for a file that is of no use otherwise: it goes where it is not used, and
    /// gives its space back.
    fn name_or_remove(
        &self,
        from: &str,
        number: u64,
        capacity_bytes: u64,
        written_until: u64,
    ) -> StoreResult<Prepared> {
        self.name_segment(from, number, capacity_bytes, written_until).inspect_err(|failure| {
            if matches!(failure, StoreFailure::Full { .. } | StoreFailure::Harmless(_)) {
                let _ = self.disk.unlink(from);
            }
        })
    }

    /// Gives a file without a segment's name a header of its own life, and then the name. What can fail for a passing
    /// reason, as opening does where the limit on open files is reached, comes before anything is changed.
    fn name_segment(
        &self,
        from: &str,
        number: u64,
        capacity_bytes: u64,
        written_until: u64,
    ) -> StoreResult<Prepared> {
        let id =
            if planted(Fault::SegmentsAlike) { 1 } else { self.next_id().map_err(StoreFailure::Harmless)? };
        let file = self.open_again(from)?;
        let barrier_files =
            (0..self.descriptions).map(|_| self.open_again(from)).collect::<Result<_, _>>()?;
        let header = SegmentHeader { number, capacity_bytes, id };
        self.disk.write_at(&file, &header.encode(), 0).map_err(|source| self.last("write", from, source))?;
        self.disk.sync(&file).map_err(|source| self.last("sync", from, source))?;
        // Barriers have descriptions of their own; this one has synced.
        drop(file);
        if !self.rename_if_room(from, &segment_name(number))? {
            return Err(StoreFailure::Full { needed_bytes: capacity_bytes });
        }
        let segment = Arc::new(Segment::new(&*self.disk, &header));
        Ok(Prepared { segment, barrier_files, written_until })
    }

    fn open_again(&self, name: &str) -> StoreResult<File> {
        self.disk
            .open(name, Access::ReadWrite)
            .map_err(|source| StoreFailure::Harmless(self.error("open", Some(name), source)))
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

    /// A new file with its space reserved. Leaves nothing behind where that fails.
    fn create_reserved(&self, name: &str, bytes: u64) -> StoreResult<File> {
        let full_or_harmless = |op, source| {
            if Error::is_storage_full(&source) {
                StoreFailure::Full { needed_bytes: bytes }
            } else {
                StoreFailure::Harmless(self.error(op, Some(name), source))
            }
        };
        let file = match self.disk.create(name) {
            // Left by an earlier attempt whose removal failed too.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.unlink(name).and_then(|()| self.disk.create(name))
            }
            other => other,
        }
        .map_err(|source| full_or_harmless("create", source))?;
        self.disk.reserve(&file, bytes).map_err(|source| {
            let _ = self.disk.unlink(name);
            full_or_harmless("reserve space for", source)
        })?;
        Ok(file)
    }

    /// Returns up to where it got.
    fn fill_with_zeros(&self, file: &File, capacity_bytes: u64, pace: &Pace) -> StoreResult<u64> {
        let zeros = vec![0; FILL_STEP_BYTES];
        let mut unsynced_bytes = 0;
        let mut offset = SEGMENT_HEADER_BYTES;
        while offset < capacity_bytes && !pace.is_hurried() {
            let started = Instant::now();
            let step_bytes = (capacity_bytes - offset).min(FILL_STEP_BYTES as u64);
            let step = &zeros[..memory_bytes(step_bytes)];
            let written = self.disk.write_at(file, step, offset).and_then(|()| {
                unsynced_bytes += step_bytes;
                if unsynced_bytes < FILL_SYNC_BYTES {
                    return Ok(());
                }
                unsynced_bytes = 0;
                self.disk.sync(file)
            });
            if let Err(source) = written {
                let _ = self.disk.unlink(NEXT);
                // Where overwriting a reserved block needs space all the same, nothing has happened to the log yet.
                return Err(if Error::is_storage_full(&source) {
                    StoreFailure::Full { needed_bytes: capacity_bytes }
                } else {
                    self.last("fill with zeros", NEXT, source)
                });
            }
            offset += step_bytes;
            if pace.stopped.load(Ordering::Relaxed) {
                let _ = self.disk.unlink(NEXT);
                return Err(StoreFailure::Harmless(Error::Closed));
            }
            pace.rest_after(started);
        }
        Ok(offset)
    }

    /// Makes the name changes so far stable. Every operation does that by itself.
    pub(crate) fn sync_directory(&self) -> Result<(), Error> {
        self.disk.sync_directory().map_err(|source| self.error("sync directory", None, source))
    }

    fn length_of(&self, name: &str) -> Result<u64, Error> {
        self.disk
            .open(name, Access::Read)
            .and_then(|file| self.disk.file_bytes(&file))
            .map_err(|source| self.error("read the length of", Some(name), source))
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

/// Whether the name is one this store gives to files it is still working on. Foreign files are never touched.
fn is_leftover(name: &str) -> bool {
    let numbered = name
        .strip_prefix(RECYCLED_PREFIX)
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    numbered || [SPARE_BEING_MADE, NEXT, REPLACEMENT].contains(&name)
}

#[cfg(test)]
mod tests;
