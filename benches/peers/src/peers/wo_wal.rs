//! This log: with its defaults, and with what decides about its speed set otherwise.

use std::path::{Path, PathBuf};

use wo_wal::strategy::Fsync;
use wo_wal::{Cohort, Options, Reader, Wal};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer};

/// The base of all ratios: what `Wal::open` gives.
pub(crate) const DEFAULTS: Entry = Entry::of_both(
    "wo-wal",
    |path, _| Box::new(Log::open(Wal::options(), path)),
    |path, _| Box::new(Log::open(Wal::options(), path)),
);

/// Barriers as all peers make them: a write and an `fdatasync`.
pub(crate) const FSYNC: Entry = Entry::of_both(
    "wo-wal-fsync",
    |path, _| Box::new(Log::open(Wal::options().strategy(Fsync::new()), path)),
    |path, _| Box::new(Log::open(Wal::options().strategy(Fsync::new()), path)),
);

/// Without waiting for the writers that the last barrier released.
pub(crate) const GREEDY: Entry = Entry::of_closed_loop("wo-wal-greedy", |path, _| {
    Box::new(Log::open(Wal::options().cohort(Cohort::Greedy), path))
});

/// What makes the barriers of a log with defaults on this machine, in a sentence.
pub(crate) fn why(path: &Path) -> String {
    let (wal, _) = Wal::open(path).unwrap();
    let reason = wal.strategy().reason.clone();
    wal.close().unwrap();
    reason
}

struct Log {
    path: PathBuf,
    wal: Wal,
}

impl Log {
    fn open(options: Options, path: &Path) -> Log {
        let (wal, _) = options.open(path).unwrap();
        Log { path: path.to_owned(), wal }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        self.wal.close().unwrap();
        drop(self.wal);
        let (reader, _) = Reader::open(&self.path).unwrap();
        for record in reader.replay(..).unwrap() {
            checker.take(&record.unwrap().payload);
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        self.wal.append(record).unwrap();
    }

    fn barriers(&self) -> Option<u64> {
        Some(self.wal.stats().barriers)
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        let _durable_with_the_next_barrier = self.wal.submit(record).unwrap();
    }

    fn barrier(&mut self) {
        self.wal.sync().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
