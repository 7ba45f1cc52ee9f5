//! The least that any durable log must do. See `benches/reference`.

use std::sync::Mutex;

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, Plan, ReadBack};
use crate::reference::{BareLoop, BatchLoop, Greedy};

pub(crate) const BARE_LOOP: Entry = Entry::of_closed_loop("bare-loop", |path, plan: Plan| {
    let bare = BareLoop::create(path, plan.records, plan.record_bytes);
    Box::new(OneWriter(Mutex::new(bare)))
})
.for_a_single_writer()
.read_back(ReadBack::File);

pub(crate) const BATCH_LOOP: Entry = Entry::of_batch("batch-loop", |path, plan: Plan| {
    Box::new(BatchLoop::create(path, plan.records, plan.record_bytes))
})
.read_back(ReadBack::File);

pub(crate) const GREEDY: Entry = Entry::of_closed_loop("greedy-reference", |path, plan: Plan| {
    Box::new(Greedy::create(path, plan.records, plan.record_bytes))
})
.read_back(ReadBack::File);

/// A mutex that nobody else takes.
#[derive(Debug)]
struct OneWriter(Mutex<BareLoop>);

impl Peer for OneWriter {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        self.0.lock().unwrap().append(record);
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.0.lock().unwrap().verify(checker);
    }
}

impl Peer for Greedy {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        self.append(record);
    }

    fn barriers(&self) -> Option<u64> {
        Some(self.barriers())
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.verify(checker);
    }
}

impl BatchPeer for BatchLoop {
    fn stage(&mut self, record: &[u8]) {
        self.stage(record);
    }

    fn barrier(&mut self) {
        self.sync();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.verify(checker);
    }
}
