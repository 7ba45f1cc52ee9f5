//! raft-engine: each writer is a Raft group, each record an entry of it. Writers share barriers through a queue. Files
//! are recycled ones, made of written zeros when the engine starts.

use std::path::{Path, PathBuf};

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, Plan, ReadBack};

pub(crate) const ENTRY: Entry = Entry::of_both(
    "raft-engine",
    |path, plan| Box::new(Log::open(path, plan)),
    |path, plan| Box::new(Log::open(path, plan)),
)
.read_back(ReadBack::KeyOrder);

#[derive(Debug)]
struct RecordEntry;

impl MessageExt for RecordEntry {
    type Entry = BytesValue;

    /// The sequence number, which begins at 0, while the index of an entry begins at 1.
    fn index(entry: &BytesValue) -> u64 {
        u64::from_le_bytes(entry.value[8..16].try_into().unwrap()) + 1
    }
}

struct Log {
    path: PathBuf,
    plan: Plan,
    engine: Engine,
    staged: Vec<BytesValue>,
}

/// The size of a file that is full, by default.
const FILE_MEBIBYTES: u64 = 128;
/// What an entry takes at most besides its bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

fn open(path: &Path, config: Config) -> Engine {
    Engine::open(Config { dir: path.to_str().unwrap().to_owned(), ..config }).unwrap()
}

/// A new engine, with enough files prepared for the whole trial.
fn create(path: &Path, plan: Plan) -> Engine {
    let bytes = plan.records * (plan.record_bytes as u64 + ENTRY_OVERHEAD_BYTES);
    let files = bytes.div_ceil(FILE_MEBIBYTES << 20);
    let prefill_limit = Some(ReadableSize::mb(files * FILE_MEBIBYTES));
    open(path, Config { prefill_for_recycle: true, prefill_limit, ..Config::default() })
}

fn entry(record: &[u8]) -> BytesValue {
    let mut entry = BytesValue::new();
    entry.set_value(record.to_vec());
    entry
}

impl Log {
    fn open(path: &Path, plan: Plan) -> Log {
        Log { path: path.to_owned(), plan, engine: create(path, plan), staged: Vec::new() }
    }

    fn write(&self, writer: usize, entries: &[BytesValue]) {
        let mut batch = LogBatch::default();
        batch.add_entries::<RecordEntry>(writer as u64, entries).unwrap();
        self.engine.write(&mut batch, true).unwrap();
    }

    fn close_and_verify(self, checker: &mut Checker) {
        drop(self.engine);
        let engine = open(&self.path, Config::default());
        let last = self.plan.records / self.plan.writers as u64;
        for writer in 0..self.plan.writers as u64 {
            assert_eq!((engine.first_index(writer), engine.last_index(writer)), (Some(1), Some(last)));
            let mut entries = Vec::new();
            engine.fetch_entries_to::<RecordEntry>(writer, 1, last + 1, None, &mut entries).unwrap();
            for entry in entries {
                checker.take(&entry.value);
            }
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, writer: usize, record: &[u8]) {
        self.write(writer, &[entry(record)]);
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        self.staged.push(entry(record));
    }

    fn barrier(&mut self) {
        self.write(0, &self.staged);
        self.staged.clear();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
