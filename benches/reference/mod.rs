//! What the log is measured against, in the same run: the least that any durable log must do.
//!
//! Neither frames nor checksums anything, neither can be recovered. Both write into a file of zeros that were really
//! written and synced before the clock starts, in steps of a record and 8 bytes.
#![allow(dead_code, reason = "each bench uses its part")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use crate::common::Checker;

/// What a record takes in the file besides its own bytes.
const STEP_OVERHEAD_BYTES: usize = 8;

/// A file of written zeros.
fn zeroed_file(path: &Path, bytes: u64) -> File {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(zeros.len() as u64);
        file.write_all(&zeros[..usize::try_from(step).unwrap()]).unwrap();
        left -= step;
    }
    file.sync_all().unwrap();
    file
}

fn step_bytes(record_bytes: usize) -> usize {
    record_bytes + STEP_OVERHEAD_BYTES
}

/// Reads every record back from its step.
fn verify_steps(file: &File, records: u64, record_bytes: usize, checker: &mut Checker) {
    let step_bytes = step_bytes(record_bytes);
    let mut step = vec![0; step_bytes];
    for index in 0..records {
        file.read_exact_at(&mut step, index * step_bytes as u64).unwrap();
        checker.take(&step[..record_bytes]);
    }
}

/// *Bare loop*: `pwrite` and `fdatasync` for each record, one thread.
#[derive(Debug)]
pub(crate) struct BareLoop {
    file: File,
    record_bytes: usize,
    step: Vec<u8>,
    records: u64,
}

impl BareLoop {
    pub(crate) fn create(path: &Path, records: u64, record_bytes: usize) -> BareLoop {
        let file = zeroed_file(path, records * step_bytes(record_bytes) as u64);
        BareLoop { file, record_bytes, step: vec![0; step_bytes(record_bytes)], records: 0 }
    }

    pub(crate) fn append(&mut self, record: &[u8]) {
        self.step[..self.record_bytes].copy_from_slice(record);
        self.file.write_all_at(&self.step, self.records * self.step.len() as u64).unwrap();
        self.file.sync_data().unwrap();
        self.records += 1;
    }

    pub(crate) fn verify(&self, checker: &mut Checker) {
        verify_steps(&self.file, self.records, self.record_bytes, checker);
    }
}

/// *Batch loop*: the bare loop for many records per barrier. They are collected in memory and written at once.
#[derive(Debug)]
pub(crate) struct BatchLoop {
    file: File,
    record_bytes: usize,
    staged: Vec<u8>,
    records: u64,
    durable_bytes: u64,
}

impl BatchLoop {
    pub(crate) fn create(path: &Path, records: u64, record_bytes: usize) -> BatchLoop {
        let file = zeroed_file(path, records * step_bytes(record_bytes) as u64);
        BatchLoop { file, record_bytes, staged: Vec::new(), records: 0, durable_bytes: 0 }
    }

    pub(crate) fn stage(&mut self, record: &[u8]) {
        self.staged.extend_from_slice(record);
        self.staged.extend_from_slice(&[0; STEP_OVERHEAD_BYTES]);
        self.records += 1;
    }

    pub(crate) fn sync(&mut self) {
        self.file.write_all_at(&self.staged, self.durable_bytes).unwrap();
        self.file.sync_data().unwrap();
        self.durable_bytes += self.staged.len() as u64;
        self.staged.clear();
    }

    pub(crate) fn verify(&self, checker: &mut Checker) {
        verify_steps(&self.file, self.records, self.record_bytes, checker);
    }
}

/// *Greedy reference*: leader and followers by one mutex and one condition variable. Whoever finds nobody leading writes
/// and syncs everything that is there.
#[derive(Debug)]
pub(crate) struct Greedy {
    file: File,
    record_bytes: usize,
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    staged: Vec<u8>,
    /// The buffer that is not being filled: the leader's while it leads.
    other: Vec<u8>,
    staged_records: u64,
    durable_records: u64,
    leading: bool,
    barriers: u64,
}

impl Greedy {
    pub(crate) fn create(path: &Path, records: u64, record_bytes: usize) -> Greedy {
        let file = zeroed_file(path, records * step_bytes(record_bytes) as u64);
        Greedy { file, record_bytes, state: Mutex::default(), settled: Condvar::new() }
    }

    pub(crate) fn append(&self, record: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.staged.extend_from_slice(record);
        state.staged.extend_from_slice(&[0; STEP_OVERHEAD_BYTES]);
        state.staged_records += 1;
        let mine = state.staged_records;
        while state.durable_records < mine {
            if state.leading {
                state = self.settled.wait(state).unwrap();
                continue;
            }
            state.leading = true;
            let next = std::mem::take(&mut state.other);
            let mut taken = std::mem::replace(&mut state.staged, next);
            let (from, to) = (state.durable_records, state.staged_records);
            drop(state);
            self.file.write_all_at(&taken, from * step_bytes(self.record_bytes) as u64).unwrap();
            self.file.sync_data().unwrap();
            taken.clear();
            state = self.state.lock().unwrap();
            state.other = taken;
            state.durable_records = to;
            state.leading = false;
            state.barriers += 1;
            self.settled.notify_all();
        }
    }

    pub(crate) fn barriers(&self) -> u64 {
        self.state.lock().unwrap().barriers
    }

    pub(crate) fn verify(&self, checker: &mut Checker) {
        let records = self.state.lock().unwrap().durable_records;
        verify_steps(&self.file, records, self.record_bytes, checker);
    }
}
