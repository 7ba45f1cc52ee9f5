//! fjall: each record is a write batch with `PersistMode::SyncData`. Its journal is locked during a barrier.

use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, ReadBack, key};

pub(crate) const ENTRY: Entry =
    Entry::of_both("fjall", |path, _| Box::new(Store::open(path)), |path, _| Box::new(Store::open(path)))
        .read_back(ReadBack::KeyOrder);

struct Store {
    path: PathBuf,
    database: Database,
    records: Keyspace,
    staged: OwnedWriteBatch,
}

fn open(path: &Path) -> (Database, Keyspace) {
    let database = Database::builder(path).open().unwrap();
    let records = database.keyspace("records", KeyspaceCreateOptions::default).unwrap();
    (database, records)
}

impl Store {
    fn open(path: &Path) -> Store {
        let (database, records) = open(path);
        let staged = durable_batch(&database);
        Store { path: path.to_owned(), database, records, staged }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        drop((self.staged, self.records, self.database));
        let (_database, records) = open(&self.path);
        for record in records.iter() {
            checker.take(&record.value().unwrap());
        }
    }
}

fn durable_batch(database: &Database) -> OwnedWriteBatch {
    database.batch().durability(Some(PersistMode::SyncData))
}

impl Peer for Store {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let mut batch = durable_batch(&self.database);
        batch.insert(&self.records, key(record), record);
        batch.commit().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Store {
    fn stage(&mut self, record: &[u8]) {
        self.staged.insert(&self.records, key(record), record);
    }

    fn barrier(&mut self) {
        let next = durable_batch(&self.database);
        std::mem::replace(&mut self.staged, next).commit().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
