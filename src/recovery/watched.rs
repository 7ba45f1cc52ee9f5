//! A directory in which a test steps in before each read, open and rename, and after each listing, and says what a sync answers.

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Access, Disk};

type BeforeRead = dyn Fn(u64) -> io::Result<()> + Send + Sync;
type BeforeOpen = dyn Fn() -> io::Result<()> + Send + Sync;
type BeforeRename = dyn Fn() -> io::Result<()> + Send + Sync;
type OnSync = dyn Fn() -> io::Result<()> + Send + Sync;
type AfterList = dyn Fn(&mut Vec<String>) + Send + Sync;

pub(crate) struct Watched {
    disk: Arc<dyn Disk>,
    before_read: Box<BeforeRead>,
    before_open: Box<BeforeOpen>,
    before_rename: Box<BeforeRename>,
    on_sync: Box<OnSync>,
    after_list: Box<AfterList>,
}

impl Watched {
    fn nothing(disk: Arc<dyn Disk>) -> Self {
        Watched {
            disk,
            before_read: Box::new(|_| Ok(())),
            before_open: Box::new(|| Ok(())),
            before_rename: Box::new(|| Ok(())),
            on_sync: Box::new(|| Ok(())),
            after_list: Box::new(|_| ()),
        }
    }

    /// `before_read` is told the offset, and its error is the read's.
    pub(crate) fn reads(
        disk: Arc<dyn Disk>,
        before_read: impl Fn(u64) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Watched { before_read: Box::new(before_read), ..Self::nothing(disk) }
    }

    /// Its error is the open's.
    pub(crate) fn opens(
        disk: Arc<dyn Disk>,
        before_open: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Watched { before_open: Box::new(before_open), ..Self::nothing(disk) }
    }

    /// Its error is the rename's.
    pub(crate) fn renames(
        disk: Arc<dyn Disk>,
        before_rename: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Watched { before_rename: Box::new(before_rename), ..Self::nothing(disk) }
    }

    pub(crate) fn syncs(
        disk: Arc<dyn Disk>,
        on_sync: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Watched { on_sync: Box::new(on_sync), ..Self::nothing(disk) }
    }

    /// `after_list` may change what was listed.
    pub(crate) fn lists(
        disk: Arc<dyn Disk>,
        after_list: impl Fn(&mut Vec<String>) + Send + Sync + 'static,
    ) -> Self {
        Watched { after_list: Box::new(after_list), ..Self::nothing(disk) }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for Watched {
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.before_read)(offset)?;
        self.disk.read_at(file, buffer, offset)
    }

    fn next_data(&self, file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.disk.next_data(file, offset)
    }

    fn uncache(&self, file: &File, range: Range<u64>) {
        self.disk.uncache(file, range);
    }

    fn path(&self) -> &Path {
        self.disk.path()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        (self.after_list)(&mut names);
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        self.disk.create(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<File> {
        (self.before_open)()?;
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
        (self.on_sync)()?;
        self.disk.sync(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.before_rename)()?;
        self.disk.rename(from, to)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.disk.unlink(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
}
