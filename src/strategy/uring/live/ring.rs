//! One ring: set-up, and the four things a flight does with it.
#![allow(unsafe_code, reason = "publishing entries is the kernel's contract; see the folder's rules")]

use std::io;

use io_uring::squeue::{Entry, PushError};
use io_uring::{EnterFlags, IoUring, Parameters};
use rustix::io::Errno;

use crate::strategy::uring::SetupFailure;

/// Enough for a chain, and small: a locked-memory limit counts every page of every ring of the user.
const ENTRIES: u32 = 8;

/// A completion as the kernel posts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
}

/// What a flight needs of a ring. The unit tests put a scripted kernel here.
pub(super) trait Queues {
    /// A number that no earlier chain of this ring had.
    fn next_generation(&mut self) -> u64;

    /// Publishes all entries, or none. The kernel has them from the next [`enter`](Self::enter) that submits.
    ///
    /// # Safety
    ///
    /// Rules 1 and 2: memory and files that the entries name stay as they are until each completion was handed out by
    /// [`next_completion`](Self::next_completion), or the ring is gone with the entries not taken.
    unsafe fn publish(&mut self, entries: &[Entry]) -> Result<(), PushError>;

    /// How many published entries the kernel has not taken.
    fn untaken(&mut self) -> u32;

    /// Calls `io_uring_enter`: submits so many published entries, waits for so many completions.
    fn enter(&mut self, submit: u32, wait_for: u32) -> io::Result<()>;

    /// Takes the oldest completion from its queue.
    fn next_completion(&mut self) -> Option<Completion>;
}

/// A ring and what is known of it.
pub(super) struct Ring {
    queues: IoUring,
    generation: u64,
    /// Entries published and completions reaped since set-up. Every entry that is taken has exactly one completion.
    published: u64,
    reaped: u64,
    /// What the last `io_uring_enter` answered, where it refused.
    refusal: Option<Errno>,
}

impl Ring {
    /// Makes a ring: no flags, so that any thread may use it; not inherited by a fork (rule 6).
    pub(super) fn new() -> Result<Self, SetupFailure> {
        let queues = IoUring::builder().dontfork().build(ENTRIES).map_err(set_up_failed)?;
        check_features(queues.params())?;
        Ok(Ring { queues, generation: 0, published: 0, reaped: 0, refusal: None })
    }

    /// What the last `io_uring_enter` answered, where it refused.
    pub(super) fn refusal(&self) -> Option<Errno> {
        self.refusal
    }

    /// Whether nothing is published, and nothing with the kernel (rule 5).
    pub(super) fn is_idle(&mut self) -> bool {
        self.untaken() == 0 && self.published == self.reaped
    }
}

/// The crate makes the ring and maps it in one step, and both can run out of memory.
fn set_up_failed(source: io::Error) -> SetupFailure {
    let memory = source.raw_os_error() == Some(Errno::NOMEM.raw_os_error());
    SetupFailure { call: if memory { "io_uring_setup or mmap" } else { "io_uring_setup" }, source }
}

/// Completions are never lost (`NODROP`), a wait can be bounded (`EXT_ARG`), and the kernel is past the lost wake-ups of
/// 5.11 to 5.15, which hung other databases (`CQE_SKIP` came with 5.17; a version number would refuse fixed kernels).
fn check_features(params: &Parameters) -> Result<(), SetupFailure> {
    let features = [
        ("NODROP", params.is_feature_nodrop()),
        ("EXT_ARG", params.is_feature_ext_arg()),
        ("CQE_SKIP", params.is_feature_skip_cqe_on_success()),
    ];
    for (name, there) in features {
        if !there {
            let message = format!("the kernel is too old: it lacks IORING_FEAT_{name}");
            let source = io::Error::new(io::ErrorKind::Unsupported, message);
            return Err(SetupFailure { call: "io_uring_setup", source });
        }
    }
    Ok(())
}

impl Queues for Ring {
    fn next_generation(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    unsafe fn publish(&mut self, entries: &[Entry]) -> Result<(), PushError> {
        // SAFETY: rules 1 and 2, upheld by the caller.
        unsafe { self.queues.submission().push_multiple(entries) }?;
        self.published += entries.len() as u64;
        Ok(())
    }

    fn untaken(&mut self) -> u32 {
        // At most `ENTRIES`.
        u32::try_from(self.queues.submission().len()).unwrap_or(ENTRIES)
    }

    fn enter(&mut self, submit: u32, wait_for: u32) -> io::Result<()> {
        let flags = if wait_for > 0 { EnterFlags::GETEVENTS } else { EnterFlags::empty() };
        // SAFETY: rule 7, no pointer is given; what is submitted was published under rules 1 and 2.
        let entered = unsafe { self.queues.submitter().enter::<()>(submit, wait_for, flags.bits(), None) };
        self.refusal = entered.as_ref().err().and_then(Errno::from_io_error);
        entered.map(drop)
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let entry = self.queues.completion().next()?;
        self.reaped += 1;
        Some(Completion { user_data: entry.user_data(), result: entry.result() })
    }
}
