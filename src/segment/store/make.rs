//! The spare, and a segment from each kind of file: a new one, a recycled one, the spare.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::{
    Fill, NEXT, Prepared, REPLACEMENT, SEGMENT_BYTES_MIN, SPARE, SPARE_BEING_MADE, SegmentStore,
    StoreFailure, StoreResult,
};
use crate::disk::Access;
use crate::error::Error;
use crate::frame::{BLOCK_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::planted::{Fault, planted};
use crate::segment::{Segment, segment_name};

impl SegmentStore {
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
            let written_until = self.written_until(name, capacity_bytes);
            let prepared = self.name_segment(name, number, capacity_bytes, written_until)?;
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

    /// As [`name_segment`](Self::name_segment), for a file that is of no use otherwise: it goes where it is not used, and
    /// gives its space back.
    pub(super) fn name_or_remove(
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

    /// Up to where an earlier life has written a file's blocks: it need not have used the whole segment, nor have been
    /// prepared to the end. Where the file cannot be asked, all count as reserved, which costs some zeros; where the file
    /// system does not tell, all count as written, which costs time.
    pub(super) fn written_until(&self, name: &str, capacity_bytes: u64) -> u64 {
        let written = self
            .disk
            .open(name, Access::Read)
            .and_then(|file| self.disk.next_data(&file, SEGMENT_HEADER_BYTES));
        match written {
            Ok(Some(range)) if range.start <= SEGMENT_HEADER_BYTES => range.end.min(capacity_bytes),
            _ => SEGMENT_HEADER_BYTES,
        }
    }

    fn open_again(&self, name: &str) -> StoreResult<File> {
        self.disk
            .open(name, Access::ReadWrite)
            .map_err(|source| StoreFailure::Harmless(self.error("open", Some(name), source)))
    }
}
