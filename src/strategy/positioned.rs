//! A barrier in plain system calls, for [`Fsync`](super::Fsync) and for whoever has to finish one without a ring.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Extent;
use crate::planted::{Fault, planted};

/// Writes the whole extent and waits until it is stable.
pub(super) fn write_and_sync(extent: Extent<'_>) -> io::Result<()> {
    write_all_at(extent)?;
    sync(extent.file())
}

/// Waits until what was written is stable. A sync that fails is not repeated (contract line 4).
pub(super) fn sync(file: BorrowedFd<'_>) -> io::Result<()> {
    if planted(Fault::BarrierSkipped) {
        return Ok(());
    }
    let synced = rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file));
    if planted(Fault::SyncRepeated) && synced.is_err() {
        return Ok(rustix::fs::fdatasync(file)?);
    }
    Ok(synced?)
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
