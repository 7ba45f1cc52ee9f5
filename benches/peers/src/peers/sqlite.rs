//! `SQLite`: a table, a transaction per record, write-ahead log, `synchronous=FULL`, one connection behind a mutex.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer};

pub(crate) const ENTRY: Entry = Entry::of_both(
    "sqlite",
    |path, _| Box::new(Store::create(path)),
    |path, _| Box::new(Store::create(path)),
);

/// With more in the first transaction than the log may hold before it is checkpointed and written from its start again
/// (1000 pages), so that the trial runs in a log file that has its size.
const CREATE: &str = "
    CREATE TABLE record (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
    BEGIN;
    CREATE TABLE filler (bytes BLOB NOT NULL);
    INSERT INTO filler VALUES (zeroblob(8000000));
    COMMIT;
    PRAGMA wal_checkpoint(RESTART);
";
const INSERT: &str = "INSERT INTO record (bytes) VALUES (?1)";

struct Store {
    path: PathBuf,
    connection: Mutex<Connection>,
    in_transaction: bool,
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path.join("database")).unwrap();
    // Without locks and shared memory for other processes, of which there are none.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
}

impl Store {
    fn create(path: &Path) -> Store {
        std::fs::create_dir(path).unwrap();
        let connection = connect(path);
        connection.execute_batch(CREATE).unwrap();
        Store { path: path.to_owned(), connection: Mutex::new(connection), in_transaction: false }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        self.connection.into_inner().unwrap().close().unwrap();
        let connection = connect(&self.path);
        let mut query = connection.prepare("SELECT bytes FROM record ORDER BY number").unwrap();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            checker.take(row.get_ref(0).unwrap().as_blob().unwrap());
        }
    }
}

impl Peer for Store {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let connection = self.connection.lock().unwrap();
        connection.prepare_cached(INSERT).unwrap().execute([record]).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Store {
    fn stage(&mut self, record: &[u8]) {
        let connection = self.connection.get_mut().unwrap();
        if !self.in_transaction {
            connection.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
            self.in_transaction = true;
        }
        connection.prepare_cached(INSERT).unwrap().execute([record]).unwrap();
    }

    fn barrier(&mut self) {
        let connection = self.connection.get_mut().unwrap();
        connection.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
        self.in_transaction = false;
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
