//! How the blocks of a new file are provided.

use std::fs::File;

use super::{NEXT, SegmentStore, StoreFailure, StoreResult};
use crate::error::Error;
use crate::frame::{SEGMENT_HEADER_BYTES, memory_bytes};
use crate::sync::{AtomicBool, AtomicUsize, Instant, Ordering, thread};

/// How much is zero-filled with one write, and between two syncs: small steps, so that a barrier of the commit path never
/// queues behind a whole segment of dirty pages.
const FILL_STEP_BYTES: usize = 256 * 1024;
const FILL_SYNC_BYTES: u64 = 1024 * 1024;

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

impl SegmentStore {
    /// Returns up to where it got. Removes the file where that fails.
    pub(super) fn fill_with_zeros(&self, file: &File, capacity_bytes: u64, pace: &Pace) -> StoreResult<u64> {
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
}
