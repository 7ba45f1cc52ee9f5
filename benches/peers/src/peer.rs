//! What a peer must be able to do.

use std::path::Path;

use crate::common::Checker;

/// What a run will do, for peers that can make use of it when they are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) writers: usize,
    /// Of all writers together.
    pub(crate) records: u64,
    pub(crate) record_bytes: usize,
}

/// A log that several writers append to, each waiting until its record is durable.
pub(crate) trait Peer: Sync {
    /// Returns when the record would survive a power cut.
    fn append_durable(&self, writer: usize, record: &[u8]);

    /// The barriers since it was opened, where they can be counted from outside.
    fn barriers(&self) -> Option<u64> {
        None
    }

    /// Closes it, opens it again, and gives everything that is in it to the checker.
    fn finish_and_verify(self: Box<Self>, checker: &mut Checker);
}

/// A log that one thread appends to, with a barrier now and then.
pub(crate) trait BatchPeer {
    fn stage(&mut self, record: &[u8]);

    /// Returns when everything staged would survive a power cut.
    fn barrier(&mut self);

    /// As [`Peer::finish_and_verify`].
    fn finish_and_verify(self: Box<Self>, checker: &mut Checker);
}

pub(crate) type OpenPeer = fn(&Path, Plan) -> Box<dyn Peer>;
pub(crate) type OpenBatchPeer = fn(&Path, Plan) -> Box<dyn BatchPeer>;

/// Where the order comes from in which records are read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadBack {
    /// The log gives its records in the order in which they were appended.
    LogOrder,
    /// An engine that orders by key: the key is the writer's number and the sequence number. That each record is there,
    /// once and whole, is checked; the order in which they were appended is not known any more.
    KeyOrder,
    /// The file that was written, without closing it: there is nothing to recover.
    File,
}

/// A peer in the list.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) read_back: ReadBack,
    pub(crate) closed_loop: Option<OpenPeer>,
    /// Whether the closed loop has a single writer only.
    pub(crate) single_writer: bool,
    pub(crate) batch: Option<OpenBatchPeer>,
}

impl Entry {
    /// A peer for both workloads.
    pub(crate) const fn of_both(name: &'static str, open: OpenPeer, batch: OpenBatchPeer) -> Entry {
        Entry {
            name,
            read_back: ReadBack::LogOrder,
            closed_loop: Some(open),
            single_writer: false,
            batch: Some(batch),
        }
    }

    pub(crate) const fn of_closed_loop(name: &'static str, open: OpenPeer) -> Entry {
        Entry {
            name,
            read_back: ReadBack::LogOrder,
            closed_loop: Some(open),
            single_writer: false,
            batch: None,
        }
    }

    pub(crate) const fn of_batch(name: &'static str, batch: OpenBatchPeer) -> Entry {
        Entry {
            name,
            read_back: ReadBack::LogOrder,
            closed_loop: None,
            single_writer: false,
            batch: Some(batch),
        }
    }

    pub(crate) const fn read_back(mut self, read_back: ReadBack) -> Entry {
        self.read_back = read_back;
        self
    }

    pub(crate) const fn for_a_single_writer(mut self) -> Entry {
        self.single_writer = true;
        self
    }

    /// How it is opened for the closed loop of so many writers; `None` where it cannot have as many.
    pub(crate) fn closed_loop_open(&self, writers: usize) -> Option<OpenPeer> {
        if self.single_writer && writers > 1 { None } else { self.closed_loop }
    }
}

/// The key of a record in an engine: its writer and its sequence number, in an order that sorts.
pub(crate) fn key(record: &[u8]) -> [u8; 16] {
    let writer = u64::from_le_bytes(record[..8].try_into().unwrap());
    let sequence = u64::from_le_bytes(record[8..16].try_into().unwrap());
    let mut key = [0; 16];
    key[..8].copy_from_slice(&writer.to_be_bytes());
    key[8..].copy_from_slice(&sequence.to_be_bytes());
    key
}
