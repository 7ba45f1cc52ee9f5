//! A file that uses up what is left of a file system.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::failure::Trouble;

/// Steps in which space is reserved, in bytes, then those in which it is written.
const RESERVED_STEPS: [u64; 3] = [16 << 20, 1 << 20, 1 << 16];
const WRITTEN_STEPS: [usize; 4] = [1 << 16, 1 << 12, 1 << 9, 1];

/// XFS counts a few blocks as free that it gives to no file.
const KEPT_BLOCKS: u64 = 8;

#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Ballast {
    pub(crate) fn new(dir: &Path) -> Result<Self, Trouble> {
        let path = dir.join("ballast");
        let file = File::create(&path).map_err(|error| Trouble(format!("a ballast file: {error}")))?;
        Ok(Ballast { path, file, bytes: 0 })
    }

    /// Takes every byte there is.
    pub(crate) fn fill(&mut self) {
        for step in RESERVED_STEPS {
            while rustix::fs::fallocate(&self.file, FallocateFlags::empty(), self.bytes, step).is_ok() {
                self.bytes += step;
            }
        }
        for step in WRITTEN_STEPS {
            while let Ok(written) = self.file.write_at(&vec![b'B'; step], self.bytes) {
                self.bytes += written as u64;
            }
        }
    }

    /// Takes every byte there is, also what the file system only gives out once it has written what it holds back.
    pub(crate) fn fill_for_good(&mut self) -> Result<(), Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble(format!("fill a file system: {error}"));
        for _ in 0..3 {
            self.fill();
            // On a full file system this may well fail.
            let _ = self.file.sync_all();
        }
        let neighbour = self.path.with_extension("neighbour");
        let one_more = self.file.write_at(b"B", self.bytes);
        // btrfs keeps less than a block with the file's name.
        let one_block = File::create(&neighbour).and_then(|file| file.write_at(&[b'B'; 4096], 0));
        let _ = std::fs::remove_file(neighbour);
        for written in [one_more, one_block] {
            match written {
                Ok(_) => return Err(failed(&"there was a byte left")),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        let left = rustix::fs::fstatvfs(&self.file).map_err(|errno| failed(&errno))?.f_bavail;
        if left <= KEPT_BLOCKS { Ok(()) } else { Err(failed(&format!("{left} blocks are left"))) }
    }

    /// Gives all of it back.
    pub(crate) fn empty(&mut self) -> Result<(), Trouble> {
        self.bytes = 0;
        self.file.set_len(0).map_err(|error| Trouble(format!("{}: {error}", self.path.display())))
    }
}
