//! One file, the device's, served so that every write and flush of it is known.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{
    BackgroundSession, FileAttr, Filesystem, MountOption, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, spawn_mount2,
};
use tempfile::TempDir;

use crate::failure::Trouble;
use crate::support::served::{NO_TIME, ROOT, attributes};

use super::tape::{Entry, Image};

const DEVICE: u64 = 2;
const DEVICE_NAME: &str = "device";
/// What every group of a log begins with: so its writes are told from the file system's own.
const GROUP_MAGIC: &[u8] = b"WOGR";

/// The device's state.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) image: Image,
    pub(super) tape: Vec<Entry>,
    /// The next write of a log's group fails with this.
    pub(super) fail_group: Option<i32>,
}

/// The mounted file; unmounted when dropped, before its directory is removed.
pub(super) struct Recorder {
    device: Arc<Mutex<Device>>,
    dir: TempDir,
    _session: BackgroundSession,
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    pub(super) fn new(image: Image, work: &Path) -> Result<Self, Trouble> {
        let dir = tempfile::tempdir_in(work).map_err(|error| Trouble(format!("a directory: {error}")))?;
        let device = Arc::new(Mutex::new(Device { image, ..Device::default() }));
        let options = [MountOption::FSName("wo-wal-recorder".to_owned())];
        let session = spawn_mount2(Server { device: device.clone() }, dir.path(), &options);
        let session = session.map_err(|error| Trouble(format!("mount FUSE: {error}")))?;
        Ok(Recorder { device, dir, _session: session })
    }

    /// The file to put a loop device on.
    pub(super) fn file(&self) -> PathBuf {
        self.dir.path().join(DEVICE_NAME)
    }

    pub(super) fn device(&self) -> MutexGuard<'_, Device> {
        lock(&self.device)
    }

    /// How many writes and flushes there have been.
    pub(super) fn clock(&self) -> impl Fn() -> u64 + Send + 'static {
        let device = self.device.clone();
        move || lock(&device).tape.len() as u64
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.dir.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

struct Server {
    device: Arc<Mutex<Device>>,
}

impl Server {
    fn attributes(&self, ino: u64) -> FileAttr {
        attributes(ino, if ino == ROOT { 0 } else { lock(&self.device).image.bytes })
    }
}

impl Filesystem for Server {
    fn lookup(&mut self, _request: &Request<'_>, _parent: u64, name: &OsStr, reply: ReplyEntry) {
        if name == DEVICE_NAME {
            reply.entry(&NO_TIME, &self.attributes(DEVICE), 0);
        } else {
            reply.error(libc::ENOENT);
        }
    }

    fn getattr(&mut self, _request: &Request<'_>, ino: u64, _fh: Option<u64>, reply: ReplyAttr) {
        reply.attr(&NO_TIME, &self.attributes(ino));
    }

    fn open(&mut self, _request: &Request<'_>, _ino: u64, _flags: i32, reply: ReplyOpen) {
        reply.opened(0, 0);
    }

    fn flush(&mut self, _request: &Request<'_>, _ino: u64, _fh: u64, _lock_owner: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &mut self,
        _request: &Request<'_>,
        _ino: u64,
        _fh: u64,
        offset: i64,
        size: u32,
        _flags: i32,
        _lock_owner: Option<u64>,
        reply: ReplyData,
    ) {
        match u64::try_from(offset).ok().zip(usize::try_from(size).ok()) {
            Some((offset, size)) => reply.data(&lock(&self.device).image.read(offset, size)),
            None => reply.error(libc::EINVAL),
        }
    }

    fn write(
        &mut self,
        _request: &Request<'_>,
        _ino: u64,
        _fh: u64,
        offset: i64,
        data: &[u8],
        _write_flags: u32,
        _flags: i32,
        _lock_owner: Option<u64>,
        reply: ReplyWrite,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(libc::EINVAL) };
        let mut device = lock(&self.device);
        let holds_group = || data.windows(GROUP_MAGIC.len()).any(|window| window == GROUP_MAGIC);
        if device.fail_group.is_some()
            && holds_group()
            && let Some(errno) = device.fail_group.take()
        {
            return reply.error(errno);
        }
        device.image.write(offset, data);
        device.tape.push(Entry::Write { offset, bytes: data.to_vec() });
        match u32::try_from(data.len()) {
            Ok(bytes) => reply.written(bytes),
            Err(_) => reply.error(libc::EFBIG),
        }
    }

    fn fsync(&mut self, _request: &Request<'_>, _ino: u64, _fh: u64, _datasync: bool, reply: ReplyEmpty) {
        lock(&self.device).tape.push(Entry::Flush);
        reply.ok();
    }
}
