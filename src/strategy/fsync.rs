//! `pwrite` + `fdatasync`: the reference implementation of the contract.

use std::io;

use super::{Extent, SyncStrategy, positioned};

/// Writes with `pwrite` and waits for `fdatasync`.
///
/// `fdatasync` also makes a changed file length stable, which is all that reading the bytes back needs. Works wherever
/// files do; needs nothing from the kernel that a container could refuse.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fsync;

impl Fsync {
    /// The strategy. There is nothing to set up.
    pub fn new() -> Self {
        Fsync
    }
}

impl SyncStrategy for Fsync {
    fn name(&self) -> &'static str {
        "fsync"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        positioned::write_and_sync(extent)
    }
}
