//! A write-ahead log with shared group commit and interchangeable durability barriers.
//!
//! An engine drops this log underneath itself. Any number of threads append records; they share barriers (group commit),
//! and [`Wal::append`] returns when the record it was given survives power loss. How a barrier reaches the disk is a
//! [`SyncStrategy`]; what an ack means is decided above it, once, so it means the same on each.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("wal");
//! use wo_wal::{Lsn, Wal};
//!
//! let (wal, recovery) = Wal::open(&dir)?;                   // everything in it is durable
//! for record in wal.replay(..)? {
//!     let record = record?;                                 // apply to the engine's state
//! }
//! let lsn = wal.append(b"put k1 v1")?;                      // durable when it returns
//! let batch = wal.append_batch([b"put k2 v2", b"put k3 v3"])?; // replayed whole or not at all
//! let ticket = wal.submit(b"put k4 v4")?;                   // staged; does not wait
//! ticket.wait()?;                                           // durable now
//! wal.trim(lsn)?;                                           // the engine has flushed up to here
//! wal.close()?;
//! # assert_eq!((lsn, *batch.end()), (Lsn::new(1), Lsn::new(3)));
//! # Ok(())
//! # }
//! ```
//!
//! # When something fails
//!
//! The first barrier that fails poisons the log: everybody who waits, and every later call, gets [`Error::Poisoned`], and
//! nothing is acknowledged any more. There is no retry, because after a failed sync the kernel may drop what it could not
//! write and answer Ok to the next. Close the log and open it again: what was acknowledged is there, and what was not may
//! or may not be. A full disk is not such a failure: space is reserved before a record gets its LSN, so running out is an
//! answer of `append` or `submit` ([`Error::StorageFull`]), and the log goes on after a [`trim`](Wal::trim).
//!
//! What is promised, and what is assumed of the machine, is in `docs/durability.md`; the bytes on disk are in
//! `docs/format.md`.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("wo-wal is for 64-bit targets: files and offsets are larger than 32 bits");

mod commit;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod disk;
#[cfg(not(feature = "testing"))]
#[allow(unreachable_pub, reason = "public with the feature `testing`, for a simulated disk")]
mod disk;
mod error;
mod frame;
#[cfg(all(feature = "testing", target_os = "linux"))]
#[doc(hidden)]
pub mod fuzzing;
mod ids;
mod lsn;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod measuring;
mod options;
mod planted;
mod probe;
mod reader;
mod recovery;
mod segment;
pub mod strategy;
mod sync;
mod ticket;
mod wal;

pub use commit::Stats;
pub use error::{Error, Result};
pub use frame::FORMAT_VERSION;
pub use lsn::Lsn;
pub use options::{Cohort, OnFailure, Options};
pub use probe::{Check, Io, Probe, Selection, Source, WO_IO, probe};
pub use reader::{Reader, Record, RecordRef, Replay, SegmentInfo};
pub use recovery::Recovery;
pub use strategy::{Extent, SyncStrategy};
pub use ticket::Ticket;
pub use wal::Wal;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
