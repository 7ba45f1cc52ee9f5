//! okaywal: entries of several threads share barriers; the file is zero-filled when it is made. It is made large enough
//! here that nothing is checkpointed, and so reused, during a trial: what it reuses it does not give back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use okaywal::{Configuration, Entry as LogEntry, EntryId, LogManager, SegmentReader, WriteAheadLog};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, Plan};

/// What an entry of one record takes at most besides its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

pub(crate) const ENTRY: Entry = Entry::of_both(
    "okaywal",
    |path, plan| Box::new(Log::open(path, plan)),
    |path, plan| Box::new(Log::open(path, plan)),
);

struct Log {
    path: PathBuf,
    plan: Plan,
    wal: WriteAheadLog,
    staged: Vec<u8>,
}

/// Keeps what is recovered.
#[derive(Debug, Default)]
struct Recovered(Arc<Mutex<Vec<Vec<u8>>>>);

impl LogManager for Recovered {
    fn recover(&mut self, entry: &mut LogEntry<'_>) -> io::Result<()> {
        let chunks = entry.read_all_chunks()?;
        self.0.lock().unwrap().extend(chunks.into_iter().flatten());
        Ok(())
    }

    fn checkpoint_to(&mut self, _: EntryId, _: &mut SegmentReader, _: &WriteAheadLog) -> io::Result<()> {
        unreachable!("the file is large enough")
    }
}

fn open(path: &Path, plan: Plan, manager: Recovered) -> WriteAheadLog {
    let bytes = (1 << 20) + plan.records * (plan.record_bytes as u64 + ENTRY_OVERHEAD_BYTES);
    Configuration::default_for(path)
        .preallocate_bytes(u32::try_from(bytes).expect("a file of okaywal is smaller than 4 GiB"))
        .checkpoint_after_bytes(bytes)
        .open(manager)
        .unwrap()
}

impl Log {
    fn open(path: &Path, plan: Plan) -> Log {
        Log { path: path.to_owned(), plan, wal: open(path, plan, Recovered::default()), staged: Vec::new() }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        self.wal.shutdown().unwrap();
        let recovered = Arc::default();
        open(&self.path, self.plan, Recovered(Arc::clone(&recovered))).shutdown().unwrap();
        for record in recovered.lock().unwrap().iter() {
            checker.take(record);
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let mut entry = self.wal.begin_entry().unwrap();
        entry.write_chunk(record).unwrap();
        entry.commit().unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        self.staged.extend_from_slice(record);
    }

    fn barrier(&mut self) {
        let mut entry = self.wal.begin_entry().unwrap();
        for record in self.staged.chunks_exact(self.plan.record_bytes) {
            entry.write_chunk(record).unwrap();
        }
        entry.commit().unwrap();
        self.staged.clear();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
