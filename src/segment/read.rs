//! Reads and verifies the groups of one segment, through a window.
//!
//! What is verified is always a copy of the file's bytes in this process, and that copy is what is served: a byte that is
//! read again is verified again. No length is believed before the checksum over it was verified and it was bounded by
//! the segment, so nothing in a file can make this allocate more than the window's maximum or one record that the file
//! really has room for.

mod large;
mod window;

pub(crate) use large::{LargeGroup, Payload};
pub(crate) use window::read_at;

use std::ops::Range;

use self::window::Window;
use super::Segment;
use crate::disk::Disk;
use crate::error::Result;
use crate::frame::{BLOCK_BYTES, Flaw, GROUP_HEADER_BYTES, GroupCheck, GroupHeader, memory_bytes};

/// What is read at once, small enough to stay in a core's second-level cache while it is verified and served.
pub(crate) const WINDOW_BYTES: usize = 256 << 10;
/// A group up to this size is held whole. A larger one is verified in pieces and read again to be served.
pub(crate) const HELD_GROUP_BYTES_MAX: usize = 8 << 20;

/// Reads groups, mostly one after the other.
#[derive(Debug)]
pub(crate) struct GroupReader {
    window: Window,
}

/// The outcome of verifying a group.
#[derive(Debug)]
pub(crate) enum Checked {
    /// Verified; its body stands here in the reader, until the reader reads on.
    Held(Range<usize>),
    /// Verified, but too large to be held.
    Large(LargeGroup),
    /// Not as it was written.
    Flawed(Flaw),
}

impl GroupReader {
    /// A reader for a whole segment.
    pub(crate) fn new() -> Self {
        GroupReader { window: Window::new(WINDOW_BYTES) }
    }

    /// A reader for a first group only, which reads no more than it needs.
    pub(crate) fn for_first_groups() -> Self {
        GroupReader { window: Window::new(memory_bytes(BLOCK_BYTES)) }
    }

    /// Lets go of what was read, so that the file is read again: it may have grown since.
    pub(crate) fn forget(&mut self) {
        self.window.forget();
    }

    /// The verified header of the group at this place, or what is wrong with it. Its records are not looked at.
    pub(crate) fn header(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        offset: u64,
    ) -> Result<Result<GroupHeader, Flaw>> {
        let left_bytes = segment.capacity_bytes.saturating_sub(offset);
        if left_bytes < GROUP_HEADER_BYTES {
            return Ok(Err("the segment is at its end without a seal"));
        }
        let bytes = self.window.bytes(disk, segment, offset, memory_bytes(GROUP_HEADER_BYTES))?;
        Ok(match GroupHeader::decode(bytes, segment.id) {
            None => Err("no group header that verifies"),
            Some(header) if u64::from(header.group_bytes) > left_bytes => {
                Err("the group reaches beyond the segment")
            }
            Some(header) => Ok(header),
        })
    }

    /// Verifies the body of the group at this place, whose header came from [`header`](Self::header). The group's bytes,
    /// the very ones that were verified, are appended to `keep`.
    pub(crate) fn check(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        offset: u64,
        header: &GroupHeader,
        keep: Option<&mut Vec<u8>>,
    ) -> Result<Checked> {
        let group_bytes = header.group_bytes as usize;
        if group_bytes > HELD_GROUP_BYTES_MAX {
            return LargeGroup::check(&mut self.window, disk, segment, offset, header, keep);
        }
        if let Err(flaw) = self.check_held(disk, segment, offset, header)? {
            return Ok(Checked::Flawed(flaw));
        }
        let group = self.window.place_of(offset, group_bytes);
        if let Some(keep) = keep {
            keep.extend_from_slice(self.held(group.clone()));
        }
        Ok(Checked::Held(group.start + memory_bytes(GROUP_HEADER_BYTES)..group.end))
    }

    /// Verifies a group in the window. A larger one is verified as it comes in, each part while it is in the cache.
    fn check_held(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        offset: u64,
        header: &GroupHeader,
    ) -> Result<Result<(), Flaw>> {
        let group_bytes = header.group_bytes as usize;
        let header_bytes = memory_bytes(GROUP_HEADER_BYTES);
        if group_bytes <= WINDOW_BYTES {
            let bytes = self.window.bytes(disk, segment, offset, group_bytes)?;
            return Ok(GroupCheck::whole(header, &bytes[header_bytes..]));
        }
        let mut check = GroupCheck::new(header);
        let mut checked = header_bytes;
        self.window.make_room(group_bytes);
        while checked < group_bytes {
            let end = (checked + WINDOW_BYTES).min(group_bytes);
            let bytes = self.window.bytes(disk, segment, offset, end)?;
            if let Err(flaw) = check.push(&bytes[checked..]) {
                return Ok(Err(flaw));
            }
            checked = end;
        }
        Ok(check.finish())
    }

    /// What stands at a place that came with [`Checked::Held`] or from a [`LargeGroup`], before the reader read on.
    pub(crate) fn held(&self, place: Range<usize>) -> &[u8] {
        self.window.held(place)
    }

    pub(crate) fn window(&mut self) -> &mut Window {
        &mut self.window
    }
}
