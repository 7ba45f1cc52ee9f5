//! writeahead: one thread of its own drains a queue, a group per barrier; files are zero-filled ahead.

use std::path::{Path, PathBuf};

use futures::executor::{block_on, block_on_stream};
use writeahead::{WriteAhead, WriteAheadOptions, WriteHandle};

use crate::common::Checker;
use crate::peer::{BatchPeer, Entry, Peer};

pub(crate) const ENTRY: Entry =
    Entry::of_both("writeahead", |path, _| Box::new(Log::open(path)), |path, _| Box::new(Log::open(path)));

struct Log {
    path: PathBuf,
    wal: WriteAhead,
    handle: WriteHandle,
    staged: Vec<Vec<u8>>,
}

impl Log {
    fn open(path: &Path) -> Log {
        let wal = start(path);
        let handle = wal.writer().unwrap();
        Log { path: path.to_owned(), wal, handle, staged: Vec::new() }
    }

    fn close_and_verify(self, checker: &mut Checker) {
        // The last of them waits for the thread.
        drop(self.wal);
        drop(self.handle);
        for record in block_on_stream(start(&self.path).create_stream().unwrap()) {
            checker.take(&record.unwrap().1);
        }
    }
}

fn start(path: &Path) -> WriteAhead {
    let mut wal =
        WriteAhead::with_options(WriteAheadOptions { log_dir: path.to_owned(), ..Default::default() });
    wal.start().unwrap();
    wal
}

impl Peer for Log {
    fn append_durable(&self, _writer: usize, record: &[u8]) {
        block_on(self.handle.write(record.to_vec())).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}

impl BatchPeer for Log {
    fn stage(&mut self, record: &[u8]) {
        self.staged.push(record.to_vec());
    }

    fn barrier(&mut self) {
        block_on(self.handle.write_batch(std::mem::take(&mut self.staged))).unwrap();
    }

    fn finish_and_verify(self: Box<Self>, checker: &mut Checker) {
        self.close_and_verify(checker);
    }
}
