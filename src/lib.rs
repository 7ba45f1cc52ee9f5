//! A write-ahead log with shared group commit and interchangeable durability barriers.

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod disk;
#[cfg(not(feature = "testing"))]
mod disk;
mod error;
mod frame;
mod lsn;
mod reader;
mod recovery;
mod segment;
pub mod strategy;

pub use error::{Error, Result};
pub use frame::FORMAT_VERSION;
pub use lsn::Lsn;
pub use reader::{Reader, Record, RecordRef, Replay, SegmentInfo};
pub use recovery::Recovery;
pub use strategy::{Extent, SyncStrategy};
