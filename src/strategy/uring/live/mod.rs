//! The strategy on a kernel with rings.
//!
//! ```text
//! extent -> barrier (pieces, what to do with the rest) -> flight (submit, reap) -> verdict -> Ok or error
//!                                                                                        \--> assisted
//! ```
//!
//! # Safety
//!
//! This folder is the only place in the crate with `unsafe`. Each block cites the rules it rests on.
//!
//! 1. *Memory.* The bytes of a WRITE stay borrowed until its completion is reaped: the flight holds the borrow. The kernel
//!    only reads them, so a shared borrow is enough.
//! 2. *File.* The descriptor stays open until both completions are reaped: the linked FSYNC looks its number up when it
//!    starts, not when it is submitted. The flight holds that borrow too.
//! 3. *No early way out.* A flight ends only when every entry that the kernel has taken is reaped; dropping it, which
//!    unwinding does, waits for that. Where the kernel refuses to wait, the completion queue is watched; where nothing comes
//!    of that either, the process is aborted: memory that the kernel may still read is never given back.
//! 4. *Taken or not* is read from the head of the submission queue, never guessed from an error of `io_uring_enter`.
//! 5. *Nothing is submitted by accident.* A ring goes back to the pool only when it is idle. One with an entry that the
//!    kernel has not taken is closed, which discards the entry.
//! 6. *One owner.* A ring is used by one call at a time (`&mut`), and only in the process that made it: its mappings are
//!    not inherited by a fork, and a forked child neither uses nor unmaps them.
//! 7. `io_uring_enter` is given no pointer: no signal mask and no timeout.
//! 8. *The mark of the process* is a page of its own that stays mapped as long as the process lives; it is only ever used as
//!    one atomic word.

mod barrier;
mod detour;
mod flight;
mod operations;
mod pool;
mod process;
mod ring;
mod strategy;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use process::process_mark;
pub use strategy::Uring;

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    //! What a test of `docs/ring-layout.md` looks at.
    pub use super::operations::entry_bytes;
    pub use super::verdict::describe;
}
