//! The ring: a WRITE and the FSYNC linked to it, handed to the kernel and waited for in one `io_uring_enter`.
//!
//! What the entries look like, and what each pair of results means, is normative in `docs/ring-layout.md`. `live` is the
//! strategy itself; `absent` stands in for it in a build without the feature `uring` or for another system, so that
//! nobody else has to know the condition.

#[cfg(all(
    feature = "uring",
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "powerpc64"
    )
))]
#[path = "uring/live/mod.rs"]
mod implementation;

#[cfg(not(all(
    feature = "uring",
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "powerpc64"
    )
)))]
#[path = "uring/absent.rs"]
mod implementation;

use std::io;

pub use implementation::*;

/// What a barrier asks of the ring. The ack means the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// A WRITE, and linked to it an FSYNC of the file's data: right on every file system.
    #[default]
    Linked,
    /// One WRITE with `RWF_DSYNC`.
    ///
    /// Half the completions, and nothing to link. It trusts the file system with the flag: on FUSE with direct I/O the
    /// kernel sends no FSYNC for it, so only the server's own care makes the bytes stable there.
    Dsync,
    /// The ordering mistake that [`Form::Linked`] is not: both operations without the link. For tests of the tests.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    Unlinked,
}

/// Why no ring could be made.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {source}")]
#[non_exhaustive]
pub struct SetupFailure {
    /// The call that failed, or that told of a feature that is missing: `io_uring_setup`, or `io_uring_setup or mmap`
    /// where both answer alike.
    pub call: &'static str,
    /// What it said. [`Unsupported`](io::ErrorKind::Unsupported) without an errno: a kernel without a feature that
    /// [`Uring`] needs, or a build without `io_uring`.
    pub source: io::Error,
}

impl From<SetupFailure> for io::Error {
    fn from(failure: SetupFailure) -> Self {
        io::Error::new(failure.source.kind(), failure)
    }
}

/// Why the ring has executed nothing of a barrier.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// The call that was refused; [`CHAIN`] where none was, and the operations were canceled.
    pub(crate) call: &'static str,
    pub(crate) source: io::Error,
}

/// A chain whose calls went well, for an [`Obstacle`].
pub(crate) const CHAIN: &str = "the chain of WRITE and FSYNC";
