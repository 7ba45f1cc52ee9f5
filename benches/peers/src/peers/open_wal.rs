//! open-wal has a single writer by type. So several need a mutex around it, or a queue before a thread that owns it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use open_wal::{Lsn, Wal, WalConfig};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, Plan};

pub(crate) const MUTEX: Entry =
    Entry::of_closed_loop("open-wal-mutex", |path, _| Box::new(Locked(Mutex::new(Log::open(path)))));

pub(crate) const QUEUE: Entry =
    Entry::of_closed_loop("open-wal-queue", |path, plan| Box::new(Queued::start(Log::open(path), plan)));

/// For a single thread, so without either.
pub(crate) const SINGLE: Entry = Entry::of_batch("open-wal", |path, _| Box::new(Log::open(path)));

struct Log {
    path: PathBuf,
    wal: Wal,
}

impl Log {
    fn open(path: &Path) -> Log {
        let (wal, _) = Wal::open(path, WalConfig::default()).unwrap();
        Log { path: path.to_owned(), wal }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        drop(self.wal);
        let (wal, _) = Wal::open(&self.path, WalConfig::default()).unwrap();
        let mut reader = wal.reader_from(Lsn(0)).unwrap();
        while let Some(record) = reader.next() {
            checker.take(record.unwrap().1);
        }
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        self.wal.append(record).unwrap();
    }

    fn barrier(&mut self) {
        self.wal.commit().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

/// A barrier for each record, one after the other.
struct Locked(Mutex<Log>);

impl Peer for Locked {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let mut log = self.0.lock().unwrap();
        log.wal.append(record).unwrap();
        log.wal.commit().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.0.into_inner().unwrap().close_and_verify(checker);
    }
}

/// Group commit by a thread that takes everything that has come while it made the barrier before.
struct Queued {
    queue: Arc<Queue>,
    committer: JoinHandle<Log>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    work: Condvar,
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    staged: Vec<u8>,
    staged_records: u64,
    durable_records: u64,
    barriers: u64,
    committer_waits: bool,
    closed: bool,
}

impl Queued {
    fn start(log: Log, plan: Plan) -> Queued {
        let queue = Arc::new(Queue::default());
        let committer = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.commit_all(log, plan.record_bytes)
        });
        Queued { queue, committer }
    }
}

impl Queue {
    fn commit_all(&self, mut log: Log, record_bytes: usize) -> Log {
        let mut taken = Vec::new();
        let mut state = self.state.lock().unwrap();
        loop {
            if state.staged.is_empty() {
                if state.closed {
                    return log;
                }
                state.committer_waits = true;
                state = self.work.wait(state).unwrap();
                state.committer_waits = false;
                continue;
            }
            std::mem::swap(&mut taken, &mut state.staged);
            let to = state.staged_records;
            drop(state);
            for record in taken.chunks_exact(record_bytes) {
                log.wal.append(record).unwrap();
            }
            log.wal.commit().unwrap();
            taken.clear();
            state = self.state.lock().unwrap();
            state.durable_records = to;
            state.barriers += 1;
            self.settled.notify_all();
        }
    }
}

impl Peer for Queued {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let mut state = self.queue.state.lock().unwrap();
        state.staged.extend_from_slice(record);
        state.staged_records += 1;
        let mine = state.staged_records;
        if state.committer_waits {
            self.queue.work.notify_one();
        }
        while state.durable_records < mine {
            state = self.queue.settled.wait(state).unwrap();
        }
    }

    fn barriers(&self) -> Option<u64> {
        Some(self.queue.state.lock().unwrap().barriers)
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.queue.state.lock().unwrap().closed = true;
        self.queue.work.notify_one();
        self.committer.join().unwrap().close_and_verify(checker);
    }
}
