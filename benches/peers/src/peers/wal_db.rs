//! wal-db: leader and followers inside, one growing file.

use std::path::{Path, PathBuf};

use wal_db::Wal;

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer};

pub(crate) const ENTRY: Entry =
    Entry::of_both("wal-db", |path, _| Box::new(Log::open(path)), |path, _| Box::new(Log::open(path)));

struct Log {
    path: PathBuf,
    wal: Wal,
}

impl Log {
    fn open(path: &Path) -> Log {
        Log { path: path.to_owned(), wal: Wal::open(path).unwrap() }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        drop(self.wal);
        for record in Wal::open(&self.path).unwrap().iter().unwrap() {
            checker.take(record.unwrap().data());
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let _ = self.wal.append_and_sync(record).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        let _ = self.wal.append(record).unwrap();
    }

    fn barrier(&mut self) {
        self.wal.sync().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
