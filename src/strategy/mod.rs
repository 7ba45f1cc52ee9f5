//! Durability barriers: the seam between the log and the kernel.
//!
//! * [`Fsync`]: `pwrite` + `fdatasync`, the reference implementation.
//! * [`Uring`]: a WRITE and the FSYNC linked to it, in one `io_uring_enter`.
//!
//! # The contract of a strategy
//!
//! 1. `Ok` means that every byte of the extent, and the file length needed to read it back, is on stable storage.
//! 2. All or an error: a short write is continued; no progress is an error.
//! 3. Nothing outlives the call: on return, and while unwinding, the kernel holds no request that refers to the bytes or
//!    the file.
//! 4. An interrupted call (`EINTR`) is repeated. A sync that ran and failed is returned at once and never repeated: the
//!    kernel drops the dirty pages it could not write, so the next sync would answer Ok for bytes that are not there.
//! 5. Bytes are written unchanged and only where asked. A strategy that needs alignment copies.
//! 6. The name and the meaning of results never change while the strategy lives; how a call reaches the kernel may.
//! 7. The log never runs two calls at once on one open file description: a write-back error is reported once per
//!    description, and the wrong call might hear of it. It runs at most [`max_in_flight`](SyncStrategy::max_in_flight)
//!    calls at once.
//!
//! Everything that decides about acknowledgements lives above this seam, once: a strategy cannot make an ack mean less
//! than it says unless it breaks line 1.

mod fsync;
mod positioned;
mod uring;

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use fsync::Fsync;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use uring::testing;
pub(crate) use uring::{CHAIN, Obstacle, process_mark};
pub use uring::{Form, SetupFailure, Uring};

/// Puts bytes at an offset of a file and returns once a power cut can no longer take them away.
///
/// See the [module](self) for the contract in numbered lines.
pub trait SyncStrategy: Send + Sync + fmt::Debug {
    /// The name for people and logs: `fsync`, `uring`.
    fn name(&self) -> &str;

    /// Writes the extent and makes it durable. Blocks until that is done or has failed.
    ///
    /// # Errors
    ///
    /// What the system said. The log treats every error as final: it is poisoned, nothing is acknowledged any more, and the
    /// strategy is not asked to try again.
    fn persist(&self, extent: Extent<'_>) -> io::Result<()>;

    /// How many [`persist`](Self::persist) calls may run at once. Default 1; the log uses at most 8.
    fn max_in_flight(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// How many barriers were finished by other means than the strategy's own, because those executed nothing. The ack
    /// means the same.
    ///
    /// 0 unless the strategy says otherwise; see [`Uring`].
    fn assisted_barriers(&self) -> u64 {
        0
    }
}

impl<S: SyncStrategy + ?Sized> SyncStrategy for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        (**self).persist(extent)
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        (**self).max_in_flight()
    }

    fn assisted_barriers(&self) -> u64 {
        (**self).assisted_barriers()
    }
}

/// Bytes, and where they belong: an open file and an offset in it.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    file: BorrowedFd<'a>,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Extent<'a> {
    /// The bytes that belong at `offset` of `file`.
    pub fn new(file: BorrowedFd<'a>, offset: u64, bytes: &'a [u8]) -> Self {
        Extent { file, offset, bytes }
    }

    /// The file, open for writing.
    pub fn file(&self) -> BorrowedFd<'a> {
        self.file
    }

    /// Where the first byte goes, in bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes. At most `0x7fff_f000` of them: one system call can write that many.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
