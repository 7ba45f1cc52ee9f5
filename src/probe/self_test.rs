//! One real write with its barrier, through the very strategy that will run.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use super::cause::Refusal;
use crate::disk::Disk;
use crate::error::Error;
use crate::frame::BLOCK_BYTES;
use crate::strategy::{Extent, Uring};

/// A ring for this log, proven on the block inside `LOCK`. That block was written when the log was made, so a full disk
/// does not change the pick; and nothing is left behind.
pub(super) fn uring_on_lock_block(disk: &dyn Disk) -> Result<Uring, Refusal> {
    let uring = super::kernel::make_ring()?;
    let file = super::open_lock_block(disk)
        .map_err(|source| Refusal::new("opening LOCK for the self-test", source))?;
    run(&uring, &file)?;
    Ok(uring)
}

/// Writes the file's first block again, as it is, and reads it back.
pub(super) fn run(uring: &Uring, file: &File) -> Result<(), Refusal> {
    let failed = |source| Refusal::new("self-test", source);
    let mut block = [0; crate::frame::memory_bytes(BLOCK_BYTES)];
    let length = read(file, &mut block).map_err(failed)?;
    if length < block.len() {
        // Made by a process that had no space for the block, or ended before it wrote it.
        block[length..].fill(b'\n');
    }
    match uring.persist_unassisted(Extent::new(file.as_fd(), 0, &block)) {
        Ok(through_the_ring) => through_the_ring?,
        // The ring has done what it was asked to, and the disk is full: that says nothing against the ring.
        Err(error) if Error::is_storage_full(&error) => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    let mut found = [0; crate::frame::memory_bytes(BLOCK_BYTES)];
    let length = read(file, &mut found).map_err(failed)?;
    if found[..length] != block[..] {
        return Err(failed(io::Error::other("what was read back is not what was written")));
    }
    Ok(())
}

fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
