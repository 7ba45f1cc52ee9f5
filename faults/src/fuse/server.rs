//! The file system's side of the kernel's requests: one directory of files.
//!
//! Requests are taken one by one; a WRITE that is held back, and a request that stalls, wait in threads of their own
//! while others are served, so replies come in another order than requests.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, spawn_mount2,
};

use tempfile::TempDir;

use crate::failure::Trouble;
use crate::support::served::{FOPEN_DIRECT_IO, NO_TIME, ROOT, attributes};

use super::storage::{Class, Fault, Storage};

const WRITES_HELD_BACK_PERCENT: u64 = 40;
const HELD_BACK_BELOW_MICROSECONDS: u64 = 1500;

pub(super) fn lock(storage: &Mutex<Storage>) -> MutexGuard<'_, Storage> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mounted file system; unmounted when dropped, before its directory is removed.
pub(super) struct Mounted {
    dir: TempDir,
    _session: BackgroundSession,
}

impl Mounted {
    pub(super) fn new(storage: &Arc<Mutex<Storage>>, work: &Path, direct_io: bool) -> Result<Self, Trouble> {
        let dir = tempfile::tempdir_in(work).map_err(|error| Trouble(format!("a directory: {error}")))?;
        let generation = lock(storage).generation;
        let server = Server { storage: storage.clone(), generation, direct_io };
        let options = [MountOption::FSName("wo-wal-faults".to_owned())];
        let session = spawn_mount2(server, dir.path(), &options)
            .map_err(|error| Trouble(format!("mount FUSE: {error}")))?;
        Ok(Mounted { dir, _session: session })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whoever still has a file open, such as a ring that the kernel has yet to take down, does not keep it here.
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

struct Server {
    storage: Arc<Mutex<Storage>>,
    /// The storage's when this was mounted. After a cut nothing is reached from here any more.
    generation: u64,
    direct_io: bool,
}

fn reach(storage: &Mutex<Storage>, generation: u64) -> Result<MutexGuard<'_, Storage>, i32> {
    let storage = lock(storage);
    if storage.generation == generation { Ok(storage) } else { Err(libc::EIO) }
}

impl Server {
    fn reach(&self) -> Result<MutexGuard<'_, Storage>, i32> {
        reach(&self.storage, self.generation)
    }

    /// Reaches the storage for a request that a fault may hit. A fault that is no plain failure is returned.
    fn request(&self, class: Class) -> Result<(MutexGuard<'_, Storage>, Option<Fault>), i32> {
        let mut storage = self.reach()?;
        match storage.meet(class) {
            Some(Fault::Cut | Fault::Kill) => Err(libc::EIO),
            Some(Fault::Fail(errno)) if class != Class::Sync => {
                storage.happened();
                Err(errno)
            }
            fault => Ok((storage, fault)),
        }
    }

    /// A request that only changes names or lengths.
    fn change<T>(&self, class: Class, change: impl FnOnce(&mut Storage) -> Result<T, i32>) -> Result<T, i32> {
        let (mut storage, _) = self.request(class)?;
        change(&mut storage)
    }

    fn open_flags(&self) -> u32 {
        if self.direct_io { FOPEN_DIRECT_IO } else { 0 }
    }
}

fn attributes_of(storage: &Storage, ino: u64) -> Result<FileAttr, i32> {
    let bytes = if ino == ROOT { Some(0) } else { storage.bytes(ino) };
    Ok(attributes(ino, bytes.ok_or(libc::ENOENT)?))
}

fn text(name: &OsStr) -> Result<&str, i32> {
    name.to_str().ok_or(libc::EINVAL)
}

fn answer(reply: ReplyEmpty, result: Result<(), i32>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// A WRITE that was taken from the kernel and is not yet done.
struct Write {
    inode: u64,
    offset: usize,
    bytes: Vec<u8>,
    forget: Option<i32>,
}

impl Write {
    fn apply(&self, storage: &mut Storage) -> Result<u32, i32> {
        storage.write(self.inode, self.offset, &self.bytes).ok_or(libc::EIO)?;
        if let Some(errno) = self.forget {
            storage.forget(self.inode, errno);
            storage.happened();
        }
        u32::try_from(self.bytes.len()).map_err(|_| libc::EFBIG)
    }
}

fn answer_write(reply: ReplyWrite, result: Result<u32, i32>) {
    match result {
        Ok(bytes) => reply.written(bytes),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Server {
    fn lookup(&mut self, _request: &Request<'_>, _parent: u64, name: &OsStr, reply: ReplyEntry) {
        let found = self.reach().and_then(|storage| {
            let inode = storage.names.get(text(name)?).ok_or(libc::ENOENT)?;
            attributes_of(&storage, inode)
        });
        match found {
            Ok(attributes) => reply.entry(&NO_TIME, &attributes, 0),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&mut self, _request: &Request<'_>, ino: u64, _fh: Option<u64>, reply: ReplyAttr) {
        match self.reach().and_then(|storage| attributes_of(&storage, ino)) {
            Ok(attributes) => reply.attr(&NO_TIME, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &mut self,
        _request: &Request<'_>,
        ino: u64,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<u64>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<u32>,
        reply: ReplyAttr,
    ) {
        let done = self.reach().and_then(|mut storage| {
            if let Some(bytes) = size {
                storage.resize(ino, usize::try_from(bytes).map_err(|_| libc::EFBIG)?).ok_or(libc::ENOENT)?;
            }
            attributes_of(&storage, ino)
        });
        match done {
            Ok(attributes) => reply.attr(&NO_TIME, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &mut self,
        _request: &Request<'_>,
        _parent: u64,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.change(Class::Name, |storage| {
            let inode = storage.create(text(name)?);
            Ok((inode, storage.open(inode).ok_or(libc::EIO)?))
        });
        match created {
            Ok((inode, handle)) => {
                reply.created(&NO_TIME, &attributes(inode, 0), 0, handle, self.open_flags());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&mut self, _request: &Request<'_>, _parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let done = self.change(Class::Name, |storage| storage.names.unlink(text(name)?).ok_or(libc::ENOENT));
        answer(reply, done);
    }

    fn rename(
        &mut self,
        _request: &Request<'_>,
        _parent: u64,
        name: &OsStr,
        _new_parent: u64,
        new_name: &OsStr,
        _flags: u32,
        reply: ReplyEmpty,
    ) {
        let done = self.change(Class::Name, |storage| {
            storage.names.rename(text(name)?, text(new_name)?).ok_or(libc::ENOENT)
        });
        answer(reply, done);
    }

    fn open(&mut self, _request: &Request<'_>, ino: u64, _flags: i32, reply: ReplyOpen) {
        match self.reach().and_then(|mut storage| storage.open(ino).ok_or(libc::ENOENT)) {
            Ok(handle) => reply.opened(handle, self.open_flags()),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &mut self,
        _request: &Request<'_>,
        _ino: u64,
        fh: u64,
        _flags: i32,
        _lock_owner: Option<u64>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Ok(mut storage) = self.reach() {
            storage.release(fh);
        }
        reply.ok();
    }

    fn flush(&mut self, _request: &Request<'_>, _ino: u64, _fh: u64, _lock_owner: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &mut self,
        _request: &Request<'_>,
        ino: u64,
        _fh: u64,
        offset: i64,
        size: u32,
        _flags: i32,
        _lock_owner: Option<u64>,
        reply: ReplyData,
    ) {
        let storage = self.reach();
        let place = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let bytes = storage
            .as_ref()
            .ok()
            .zip(place)
            .and_then(|(storage, (offset, size))| storage.read(ino, offset, size));
        match bytes {
            Some(bytes) => reply.data(bytes),
            None => reply.error(libc::EIO),
        }
    }

    fn write(
        &mut self,
        _request: &Request<'_>,
        ino: u64,
        _fh: u64,
        offset: i64,
        data: &[u8],
        _write_flags: u32,
        _flags: i32,
        _lock_owner: Option<u64>,
        reply: ReplyWrite,
    ) {
        let (mut storage, fault) = match self.request(Class::Write) {
            Ok(reached) => reached,
            Err(errno) => return reply.error(errno),
        };
        let length = if fault == Some(Fault::Short) { data.len().div_ceil(2) } else { data.len() };
        if length < data.len() {
            storage.happened();
        }
        let forget = if let Some(Fault::Forget(errno)) = fault { Some(errno) } else { None };
        let Ok(offset) = usize::try_from(offset) else { return reply.error(libc::EINVAL) };
        let write = Write { inode: ino, offset, bytes: data[..length].to_vec(), forget };
        let is_stalled = matches!(fault, Some(Fault::Stall(_)));
        let delay = match fault {
            Some(Fault::Stall(time)) => time,
            _ if storage.rng.percent(WRITES_HELD_BACK_PERCENT) => {
                Duration::from_micros(storage.rng.below(HELD_BACK_BELOW_MICROSECONDS))
            }
            _ => return answer_write(reply, write.apply(&mut storage)),
        };
        drop(storage);
        let (storage, generation) = (self.storage.clone(), self.generation);
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            let result = reach(&storage, generation).and_then(|mut storage| {
                if is_stalled {
                    storage.happened();
                }
                write.apply(&mut storage)
            });
            answer_write(reply, result);
        });
    }

    fn fsync(&mut self, _request: &Request<'_>, ino: u64, fh: u64, _datasync: bool, reply: ReplyEmpty) {
        let (mut storage, fault) = match self.request(Class::Sync) {
            Ok(reached) => reached,
            Err(errno) => return reply.error(errno),
        };
        match fault {
            Some(Fault::Fail(errno)) => {
                storage.forget(ino, errno);
                storage.happened();
            }
            Some(Fault::Stall(time)) => {
                drop(storage);
                let (storage, generation) = (self.storage.clone(), self.generation);
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    let synced = reach(&storage, generation).and_then(|mut storage| {
                        storage.happened();
                        storage.sync(ino, fh)
                    });
                    answer(reply, synced);
                });
                return;
            }
            _ => {}
        }
        answer(reply, storage.sync(ino, fh));
    }

    fn fallocate(
        &mut self,
        _request: &Request<'_>,
        ino: u64,
        _fh: u64,
        offset: i64,
        length: i64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.change(Class::Reserve, |storage| {
            if mode != 0 || !storage.can_reserve {
                return Err(libc::EOPNOTSUPP);
            }
            let end =
                offset.checked_add(length).and_then(|end| usize::try_from(end).ok()).ok_or(libc::EINVAL)?;
            let bytes = storage.bytes(ino).ok_or(libc::ENOENT)?;
            if bytes < end as u64 { storage.resize(ino, end).ok_or(libc::ENOENT) } else { Ok(()) }
        });
        answer(reply, done);
    }

    fn readdir(
        &mut self,
        _request: &Request<'_>,
        ino: u64,
        _fh: u64,
        offset: i64,
        mut reply: ReplyDirectory,
    ) {
        let Ok(storage) = self.reach() else { return reply.error(libc::EIO) };
        let dots = [(ino, FileType::Directory, "."), (ino, FileType::Directory, "..")];
        // In the order of inode numbers, which is nobody's order of names.
        let names = storage.names.names();
        let mut files: Vec<_> = names
            .filter_map(|name| Some((storage.names.get(name)?, FileType::RegularFile, name.as_str())))
            .collect();
        files.sort_unstable_by_key(|(inode, ..)| std::cmp::Reverse(*inode));
        let already = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (inode, kind, name)) in (1..).zip(dots.into_iter().chain(files)).skip(already) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(&mut self, _request: &Request<'_>, _ino: u64, _fh: u64, _datasync: bool, reply: ReplyEmpty) {
        let done = self.change(Class::Directory, |storage| {
            storage.names.sync();
            Ok(())
        });
        answer(reply, done);
    }
}
