//! What opening does with files that an earlier process was working on.

use std::sync::Arc;

use super::{NEXT, RECYCLED_PREFIX, REPLACEMENT, SPARE, SPARE_BEING_MADE, SegmentStore, TEMPORARY_SUFFIX};
use crate::disk::{Access, Disk};
use crate::error::Error;
use crate::ids::Ids;
use crate::planted::{Fault, planted};

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
            let recycled = self.next_recycled_name();
            if name != recycled {
                let renamed = self.disk.rename(&name, &recycled);
                renamed.map_err(|source| self.error("rename", Some(&name), source))?;
                changed = true;
            }
            self.recycled.push(recycled);
        }
        Ok(changed)
    }

    fn length_of(&self, name: &str) -> Result<u64, Error> {
        self.disk
            .open(name, Access::Read)
            .and_then(|file| self.disk.file_bytes(&file))
            .map_err(|source| self.error("read the length of", Some(name), source))
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
