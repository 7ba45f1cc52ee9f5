//! The list. One file for each.

mod fjall;
mod fsys;
mod okaywal;
mod open_wal;
mod raft_engine;
mod references;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;
mod wal_db;
pub(crate) mod wo_wal;
mod writeahead;

use crate::peer::Entry;

/// All that can be run.
pub(crate) const PEERS: &[Entry] = &[
    wo_wal::DEFAULTS,
    wo_wal::FSYNC,
    wo_wal::GREEDY,
    references::BARE_LOOP,
    references::BATCH_LOOP,
    references::GREEDY,
    wal_db::ENTRY,
    fsys::BUFFERED,
    fsys::DIRECT,
    open_wal::MUTEX,
    open_wal::QUEUE,
    open_wal::SINGLE,
    writeahead::ENTRY,
    raft_engine::ENTRY,
    okaywal::ENTRY,
    fjall::ENTRY,
    #[cfg(feature = "rocksdb")]
    rocksdb::ENTRY,
    #[cfg(feature = "sqlite")]
    sqlite::ENTRY,
];
