//! What threads meet on: locks, atomics, threads, the clock. The standard library's, and a place to sleep on a word.
//!
//! A build with `--cfg wo_wal_loom` or `--cfg wo_wal_shuttle`, made for the models of group commit and for nothing else
//! (`.ci/threads`), has a model checker's instead. The checker decides at each use of them which thread goes on, so
//! whatever threads share from record to ack goes through here: it sees nothing else.

#[cfg(any(wo_wal_loom, wo_wal_shuttle))]
mod model;
#[cfg(not(any(wo_wal_loom, wo_wal_shuttle)))]
mod real;

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(any(wo_wal_loom, wo_wal_shuttle)))))]
#[path = "sync/sleepers_portable.rs"]
mod sleepers;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(any(wo_wal_loom, wo_wal_shuttle))))]
#[path = "sync/sleepers_futex.rs"]
mod sleepers;

#[cfg(any(wo_wal_loom, wo_wal_shuttle))]
pub(crate) use model::*;
#[cfg(not(any(wo_wal_loom, wo_wal_shuttle)))]
pub(crate) use real::*;
pub(crate) use sleepers::Sleepers;
