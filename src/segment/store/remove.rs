//! What a removed segment's file becomes.

use std::sync::Arc;

use super::{NEXT, Removed, SPARE, SegmentStore, StoreFailure, StoreResult};
use crate::planted::{Fault, planted};
use crate::segment::{Segment, segment_name};

impl SegmentStore {
    /// Removes a segment: its file becomes the spare if that is missing, else segment `next_number` if one is asked for
    /// and the size is right, else a recycled file if there may be one more; only then is it given back.
    pub(crate) fn remove(&mut self, segment: Arc<Segment>, next_number: Option<u64>) -> StoreResult<Removed> {
        let name = segment_name(segment.number);
        let capacity_bytes = segment.capacity_bytes;
        let unread = self.keep_for_readers(segment)?;
        if unread
            && !planted(Fault::RefillLast)
            && let Some(removed) = self.use_again(&name, capacity_bytes, next_number)?
        {
            return Ok(removed);
        }
        self.disk.unlink(&name).map_err(|source| self.last("remove", &name, source))?;
        if !planted(Fault::RemovalNotSynced) && !planted(Fault::RemovalsShareSync) {
            self.sync_directory().map_err(StoreFailure::Final)?;
        }
        Ok(Removed::Gone)
    }

    /// A reader that still holds the segment keeps its bytes: such a file loses its name, but is not rewritten. No new
    /// reader can come, since the segment has left the log's list; the caller has kept it open before. True where there
    /// is no such reader.
    fn keep_for_readers(&self, segment: Arc<Segment>) -> StoreResult<bool> {
        match Arc::try_unwrap(segment) {
            Ok(_) => Ok(true),
            Err(segment) => {
                segment.keep_open(&*self.disk).map_err(StoreFailure::Final)?;
                Ok(false)
            }
        }
    }

    /// `None` where the file is of no use any more, or the directory has no room for another name of it.
    fn use_again(
        &mut self,
        name: &str,
        capacity_bytes: u64,
        next_number: Option<u64>,
    ) -> StoreResult<Option<Removed>> {
        if self.spare_bytes.is_none() && self.rename_if_room(name, SPARE)? {
            self.spare_bytes = Some(capacity_bytes);
            return Ok(Some(Removed::Spare));
        }
        if capacity_bytes != self.segment_bytes {
            return Ok(None);
        }
        if let Some(number) = next_number
            && self.rename_if_room(name, NEXT)?
        {
            return self.make_next(number, capacity_bytes).map(Some);
        }
        if self.recycled.len() < self.recycle_limit {
            let kept = self.next_recycled_name();
            if self.rename_if_room(name, &kept)? {
                self.recycled.push(kept);
                return Ok(Some(Removed::Gone));
            }
        }
        Ok(None)
    }

    fn make_next(&self, number: u64, capacity_bytes: u64) -> StoreResult<Removed> {
        let written_until = self.written_until(NEXT, capacity_bytes);
        match self.name_or_remove(NEXT, number, capacity_bytes, written_until) {
            Ok(prepared) => Ok(Removed::Next(prepared)),
            // The segment is removed all the same; whoever needs a next one makes it.
            Err(StoreFailure::Full { .. } | StoreFailure::Harmless(_)) => Ok(Removed::Gone),
            Err(failure) => Err(failure),
        }
    }
}
