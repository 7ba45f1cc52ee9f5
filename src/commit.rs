//! From staged records to acknowledgements. Everything that decides about acks is here, once, above the strategy seam:
//! the poison latch, the settling guard and the durable LSN.
//!
//! * [`ledger`]: the state machine, without threads, locks or I/O.
//! * [`wait`]: what callers do: stage, wait, and lead where nobody else does.
//! * [`lead`]: a group's way through its barrier, what happens when it fails or the leader panics, and who is woken.
//! * [`cohort`]: whether the next leader waits for the writers that the last barrier has released.
//! * [`events`]: what sleeping threads sleep on.
//! * [`provide`]: files ahead of need, and on demand when there is no room.
//! * [`trim`] and [`close`]: the two callers besides writers that put groups on the log.

mod batch;
mod close;
mod cohort;
mod events;
mod lead;
mod ledger;
mod provide;
mod state;
mod trim;
mod wait;

pub(crate) use batch::{EncodedBatch, Item};
pub(crate) use lead::{Commit, CommitParts, IN_FLIGHT_MAX};
pub(crate) use ledger::{Ledger, Limits, SegmentNote, Start};
pub(crate) use wait::{Stage, Staged};

pub use state::Stats;
