//! `RocksDB`: each record is a put with `WriteOptions::sync`. Writers share barriers: the first one of a group writes and
//! syncs for all.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rocksdb::{DB, IteratorMode, Options, WriteBatch, WriteOptions};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, ReadBack, key};

pub(crate) const ENTRY: Entry =
    Entry::of_both("rocksdb", |path, _| Box::new(Store::open(path)), |path, _| Box::new(Store::open(path)))
        .read_back(ReadBack::KeyOrder);

struct Store {
    path: PathBuf,
    database: DB,
    /// A mutex only because a batch may not be shared; the one thread that stages does not lock it.
    staged: Mutex<WriteBatch>,
}

fn open(path: &Path) -> DB {
    let mut options = Options::default();
    options.create_if_missing(true);
    DB::open(&options, path).unwrap()
}

fn durable() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

impl Store {
    fn open(path: &Path) -> Store {
        Store { path: path.to_owned(), database: open(path), staged: Mutex::default() }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        drop(self.database);
        for entry in open(&self.path).iterator(IteratorMode::Start) {
            checker.take(&entry.unwrap().1);
        }
    }
}

impl Peer for Store {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        self.database.put_opt(key(record), record, &durable()).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Store {
    fn stage(&mut self, record: &[u8]) {
        self.staged.get_mut().unwrap().put(key(record), record);
    }

    fn barrier(&mut self) {
        let batch = std::mem::take(self.staged.get_mut().unwrap());
        self.database.write_opt(batch, &durable()).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
