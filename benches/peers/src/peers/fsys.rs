//! The journal of fsys, without its default window of 500 us, in which a leader waits for up to eight followers even
//! where there are none.

use std::path::{Path, PathBuf};

use fsys::{JournalHandle, JournalOptions, JournalReader};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer, Plan};

pub(crate) const BUFFERED: Entry = Entry::of_both(
    "fsys",
    |path, plan| Box::new(Log::open(path, plan, false)),
    |path, plan| Box::new(Log::open(path, plan, false)),
);

/// `O_DIRECT`, from a buffer of its own.
pub(crate) const DIRECT: Entry = Entry::of_both(
    "fsys-direct",
    |path, plan| Box::new(Log::open(path, plan, true)),
    |path, plan| Box::new(Log::open(path, plan, true)),
);

struct Log {
    path: PathBuf,
    journal: JournalHandle,
    record_bytes: usize,
    staged: Vec<u8>,
}

impl Log {
    fn open(path: &Path, plan: Plan, direct: bool) -> Log {
        let options = JournalOptions::new().group_commit_window(None).direct(direct);
        let journal = fsys::builder().build().unwrap().journal_with(path, options).unwrap();
        assert_eq!(journal.is_direct_active(), direct, "fsys falls back to buffered writes by itself");
        Log { path: path.to_owned(), journal, record_bytes: plan.record_bytes, staged: Vec::new() }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        self.journal.close().unwrap();
        let mut reader = JournalReader::open(&self.path).unwrap();
        for record in reader.iter() {
            checker.take(&record.unwrap().payload);
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        let lsn = self.journal.append(record).unwrap();
        self.journal.sync_through(lsn).unwrap();
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
        let records: Vec<_> = self.staged.chunks_exact(self.record_bytes).collect();
        let lsn = self.journal.append_batch(&records).unwrap();
        self.journal.sync_through(lsn).unwrap();
        self.staged.clear();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
