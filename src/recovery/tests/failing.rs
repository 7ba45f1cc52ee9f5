//! A directory in which the n-th read fails, and all after it.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Access, Disk};

#[derive(Debug)]
pub(super) struct FailingReads {
    disk: Arc<dyn Disk>,
    good: u64,
    reads: AtomicU64,
}

impl FailingReads {
    pub(super) fn after(disk: Arc<dyn Disk>, good: u64) -> Self {
        FailingReads { disk, good, reads: AtomicU64::new(0) }
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Disk for FailingReads {
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.reads.fetch_add(1, Ordering::Relaxed) >= self.good {
            return Err(io::ErrorKind::Other.into());
        }
        self.disk.read_at(file, buffer, offset)
    }

    fn path(&self) -> &Path {
        self.disk.path()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        self.disk.create(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<File> {
        self.disk.open(name, access)
    }

    fn file_bytes(&self, file: &File) -> io::Result<u64> {
        self.disk.file_bytes(file)
    }

    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.disk.reserve(file, bytes)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.write_at(file, bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.disk.sync(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.disk.unlink(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
}
