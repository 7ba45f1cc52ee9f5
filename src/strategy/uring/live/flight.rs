//! One chain on its way through the kernel: published, submitted, and not let go before every completion is in hand.
#![allow(unsafe_code, reason = "publishes entries that point to borrowed memory; see the folder's rules")]

use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::operations::{Chain, Operation};
use super::ring::Queues;
use super::verdict::{NOT_EXECUTED, Results};

/// How often a submission is tried again that the kernel has no means for at the moment.
const SUBMIT_ATTEMPTS: u32 = 16;
/// The pause between two looks, where the kernel refuses to wait or to submit.
const PAUSE: Duration = Duration::from_millis(1);
/// How many looks at the completion queue without any completion, while the kernel refuses to wait, end the process.
const LOOKS: u32 = if cfg!(test) { 50 } else { 60_000 };

/// Runs one chain: returns when everything that the kernel has taken of it is reaped.
pub(super) fn run<Q: Queues>(queues: &mut Q, chain: Chain<'_>) -> Results {
    let entries = chain.entries();
    let count = entries.count();
    let mut flight = Flight {
        queues,
        chain,
        count,
        published: false,
        write: None,
        fsync: None,
        given_up: false,
        refusals: 0,
    };
    // SAFETY: rules 1 and 2. The flight holds the borrows of memory and file, and rule 3 keeps it until every completion
    // of an entry that was taken is reaped; the pool closes a ring with one that was not (rule 5).
    flight.published = unsafe { flight.queues.publish(entries.as_slice()) }.is_ok();
    flight.land();
    flight.results()
}

/// A chain that the kernel may have. Owns the right to the memory and the file that the entries name (rules 1 and 2).
struct Flight<'a, 'q, Q: Queues> {
    queues: &'q mut Q,
    chain: Chain<'a>,
    count: u32,
    published: bool,
    write: Option<i32>,
    fsync: Option<i32>,
    /// Submit nothing more; only wait for what was taken.
    given_up: bool,
    /// Refusals by `io_uring_enter` since it last did something.
    refusals: u32,
}

impl<Q: Queues> Flight<'_, '_, Q> {
    /// Submits, and waits until nothing of this chain is with the kernel.
    ///
    /// `io_uring_enter` may return with less than it was asked for: a signal cuts the wait short, and then it still reports
    /// what it submitted. So the queues alone say how far things are.
    fn land(&mut self) {
        while self.published {
            self.reap();
            let taken = self.count.saturating_sub(self.queues.untaken());
            let outstanding = taken.saturating_sub(self.reaped());
            if outstanding == 0 && (taken > 0 || self.given_up) {
                return;
            }
            // A link does not reach beyond one `enter`: what was not taken together with the WRITE would run beside it.
            let submit = if taken == 0 { self.count } else { 0 };
            let wait_for = if taken == 0 { self.count } else { outstanding };
            if let Err(error) = self.enter(submit, wait_for) {
                self.after_refusal(&error, outstanding);
            }
        }
    }

    fn enter(&mut self, submit: u32, wait_for: u32) -> io::Result<()> {
        self.queues.enter(submit, wait_for)?;
        if submit > 0 && self.queues.untaken() == self.count {
            return Err(Errno::AGAIN.into());
        }
        Ok(())
    }

    /// Takes every completion that is there. Others are those of an earlier call, or nobody's: ignored.
    fn reap(&mut self) {
        while let Some(completion) = self.queues.next_completion() {
            let slot = match self.chain.operation_of(completion.user_data) {
                Some(Operation::Write) => &mut self.write,
                Some(Operation::Fsync) => &mut self.fsync,
                None => continue,
            };
            slot.get_or_insert(completion.result);
            self.refusals = 0;
        }
    }

    fn reaped(&self) -> u32 {
        u32::from(self.write.is_some()) + u32::from(self.fsync.is_some())
    }

    /// An error of `io_uring_enter` tells nothing about what was taken (rule 4): the loop looks at the queues again.
    fn after_refusal(&mut self, error: &io::Error, outstanding: u32) {
        let errno = Errno::from_io_error(error);
        if errno == Some(Errno::INTR) {
            return;
        }
        self.refusals += 1;
        if outstanding == 0 {
            let passing = matches!(errno, Some(Errno::AGAIN | Errno::BUSY));
            self.given_up = !passing || self.refusals >= SUBMIT_ATTEMPTS;
        } else if self.refusals >= LOOKS {
            // Rule 3.
            log::error!(
                "io_uring_enter refuses to wait for a write in progress, and it does not end: {error}"
            );
            process::abort();
        }
        if !self.given_up {
            thread::sleep(PAUSE);
        }
    }

    fn results(&self) -> Results {
        let fsync = if self.count == 1 { self.write.map(|_| 0) } else { self.fsync };
        Results { write: self.write.unwrap_or(NOT_EXECUTED), fsync: fsync.unwrap_or(NOT_EXECUTED) }
    }
}

impl<Q: Queues> Drop for Flight<'_, '_, Q> {
    fn drop(&mut self) {
        // Does nothing after a landing; while unwinding it is the landing (rule 3).
        self.given_up = true;
        self.land();
    }
}
