//! A stretch of a segment's bytes, copied into memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::frame::memory_bytes;
use crate::segment::Segment;

#[derive(Debug)]
pub(crate) struct Window {
    /// Only ever grows, to the largest stretch that was asked for.
    buffer: Vec<u8>,
    /// Which segment it holds bytes of.
    segment_id: u64,
    /// That segment's file.
    file: Option<Arc<File>>,
    /// Where in the segment the first byte of the buffer stands.
    offset: u64,
    filled_bytes: usize,
    /// What is read at once where less is asked for.
    step_bytes: usize,
}

impl Window {
    pub(super) fn new(step_bytes: usize) -> Self {
        Window { buffer: Vec::new(), segment_id: 0, file: None, offset: 0, filled_bytes: 0, step_bytes }
    }

    pub(super) fn forget(&mut self) {
        self.filled_bytes = 0;
    }

    /// These bytes of the segment, which the caller has bounded by its capacity. Bytes that are held already are not read
    /// again.
    pub(super) fn bytes(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        offset: u64,
        wanted_bytes: usize,
    ) -> Result<&[u8]> {
        if self.kept_bytes(segment, offset) < wanted_bytes {
            self.load(disk, segment, offset, wanted_bytes)?;
        }
        Ok(self.held(self.place_of(offset, wanted_bytes)))
    }

    /// Where in the buffer bytes stand that were just asked for.
    pub(super) fn place_of(&self, offset: u64, bytes: usize) -> Range<usize> {
        let start = memory_bytes(offset - self.offset);
        start..start + bytes
    }

    pub(super) fn held(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[..self.filled_bytes][place]
    }

    /// How many of the bytes from this offset on are held.
    fn kept_bytes(&self, segment: &Segment, offset: u64) -> usize {
        if segment.id != self.segment_id || offset < self.offset {
            return 0;
        }
        self.filled_bytes.saturating_sub(memory_bytes(offset - self.offset))
    }

    /// Moves what is held from `offset` on to the front, and reads what follows it.
    fn load(&mut self, disk: &dyn Disk, segment: &Segment, offset: u64, wanted_bytes: usize) -> Result<()> {
        let kept = self.kept_bytes(segment, offset);
        let file = match &self.file {
            Some(file) if self.segment_id == segment.id => Arc::clone(file),
            _ => segment.open_for_reading(disk)?,
        };
        self.file = Some(Arc::clone(&file));
        if kept < self.filled_bytes {
            self.buffer.copy_within(self.filled_bytes - kept..self.filled_bytes, 0);
        }
        self.segment_id = segment.id;
        self.offset = offset;
        self.filled_bytes = kept;

        let left = memory_bytes(segment.capacity_bytes.saturating_sub(offset));
        let target = wanted_bytes.max(self.step_bytes).min(left);
        self.make_room(target);
        let from = offset.saturating_add(kept as u64);
        let read = read_at(disk, segment, &file, &mut self.buffer[kept..target], from)?;
        self.filled_bytes = kept + read;
        Ok(())
    }

    /// Lets the buffer hold so many bytes. In powers of two, so that windows that grow step by step do not copy each time.
    pub(super) fn make_room(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            let target = bytes.next_power_of_two();
            self.buffer.reserve_exact(target - self.buffer.len());
            self.buffer.resize(target, 0);
        }
    }
}

/// Fills the buffer from a segment. The file was at least as long as its capacity when it was opened, so one that ends
/// earlier now is a failed read and never the end of the log.
pub(crate) fn read_at(
    disk: &dyn Disk,
    segment: &Segment,
    file: &File,
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize> {
    let failed = |source| Error::io("read", &segment.path, source);
    let read = disk.read_at(file, buffer, offset).map_err(failed)?;
    if read == buffer.len() { Ok(read) } else { Err(failed(io::ErrorKind::UnexpectedEof.into())) }
}
