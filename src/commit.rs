//! From staged records to acknowledgements. Everything that decides about acks is here, once, above the strategy seam:
//! the poison latch, the settling guard and the durable LSN.
//!
//! * [`ledger`]: the state machine, without threads, locks or I/O.
//! * [`lead`]: the ledger among threads: who leads, who sleeps, what happens when a barrier fails or a leader panics.
//! * [`events`]: what sleeping threads sleep on.
//! * [`provide`]: files ahead of need, and on demand when there is no room.
//! * [`trim`] and [`close`]: the two callers besides writers that put groups on the log.

mod batch;
mod close;
mod events;
mod lead;
mod ledger;
mod provide;
mod trim;

pub(crate) use batch::{EncodedBatch, Item};
pub(crate) use lead::{Commit, CommitParts, IN_FLIGHT_MAX, Stage, Staged};
pub(crate) use ledger::{Ledger, Limits, SegmentNote, Start};

pub use lead::Stats;
