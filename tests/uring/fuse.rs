//! A file system of one file, served by this process: what was not synced is known not to be durable, a WRITE is answered
//! late, and faults come when asked for.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use fuser::{
    BackgroundSession, Filesystem, MountOption, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, spawn_mount2,
};

use crate::served::{FOPEN_DIRECT_IO, NO_TIME, ROOT, attributes};

const FILE: u64 = 2;
const FILE_BYTES: usize = 4 << 20;

/// What the server does, and what it has seen.
#[derive(Default)]
pub(crate) struct State {
    live: Vec<u8>,
    /// What a power cut would leave: the file as it was at the last FSYNC.
    pub(crate) durable: Vec<u8>,
    pub(crate) writes: u64,
    pub(crate) syncs: u64,
    /// The next WRITE takes no more than so many bytes.
    pub(crate) short: Option<usize>,
    /// The next FSYNC answers this.
    pub(crate) sync_errno: Option<i32>,
    direct_io: bool,
}

/// The mounted file system.
pub(crate) struct Mounted {
    state: Arc<Mutex<State>>,
    pub(crate) file: File,
    _session: BackgroundSession,
}

impl Mounted {
    pub(crate) fn new(dir: &Path, direct_io: bool) -> Self {
        let zeros = || vec![0; FILE_BYTES];
        let state = State { live: zeros(), durable: zeros(), direct_io, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let options = [MountOption::FSName("wo-wal-test".to_owned())];
        let session = spawn_mount2(Server { state: state.clone() }, dir, &options).unwrap();
        let file = File::options().write(true).open(dir.join("file")).unwrap();
        Mounted { state, file, _session: session }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

struct Server {
    state: Arc<Mutex<State>>,
}

impl Filesystem for Server {
    fn lookup(&mut self, _request: &Request<'_>, _parent: u64, name: &OsStr, reply: ReplyEntry) {
        if name == "file" {
            reply.entry(&NO_TIME, &attributes(FILE, FILE_BYTES as u64), 0);
        } else {
            reply.error(libc::ENOENT);
        }
    }

    fn getattr(&mut self, _request: &Request<'_>, ino: u64, _fh: Option<u64>, reply: ReplyAttr) {
        reply.attr(&NO_TIME, &attributes(ino, if ino == ROOT { 0 } else { FILE_BYTES as u64 }));
    }

    fn open(&mut self, _request: &Request<'_>, _ino: u64, _flags: i32, reply: ReplyOpen) {
        let direct_io = self.state.lock().unwrap().direct_io;
        reply.opened(0, if direct_io { FOPEN_DIRECT_IO } else { 0 });
    }

    /// Takes the bytes, and the time of another thread: FSYNCs are served meanwhile.
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
        let state = self.state.clone();
        let length = state.lock().unwrap().short.take().map_or(data.len(), |short| short.min(data.len()));
        let data = data[..length].to_vec();
        let offset = usize::try_from(offset).unwrap();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(1));
            let mut state = state.lock().unwrap();
            state.writes += 1;
            state.live[offset..offset + data.len()].copy_from_slice(&data);
            drop(state);
            reply.written(u32::try_from(data.len()).unwrap());
        });
    }

    fn fsync(&mut self, _request: &Request<'_>, _ino: u64, _fh: u64, _datasync: bool, reply: ReplyEmpty) {
        let state = &mut *self.state.lock().unwrap();
        state.syncs += 1;
        if let Some(errno) = state.sync_errno.take() {
            return reply.error(errno);
        }
        state.durable.clone_from(&state.live);
        reply.ok();
    }
}
