//! `pwrite` + `fdatasync`: the reference implementation of the contract.

use std::io;

use rustix::io::Errno;

use super::{Extent, SyncStrategy};

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
        write_all_at(extent)?;
        Ok(rustix::io::retry_on_intr(|| rustix::fs::fdatasync(extent.file()))?)
    }
}

/// Writes the whole extent, going on after short writes (contract line 2) and interruptions (line 4).
fn write_all_at(extent: Extent<'_>) -> io::Result<()> {
    let mut bytes = extent.bytes();
    let mut offset = extent.offset();
    while !bytes.is_empty() {
        match rustix::io::pwrite(extent.file(), bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset = offset.checked_add(written as u64).ok_or(io::ErrorKind::InvalidInput)?;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
