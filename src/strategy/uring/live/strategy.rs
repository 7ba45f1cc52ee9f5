//! [`Uring`]: the strategy that the log sees.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::barrier::{self, End};
use super::detour;
use super::pool::{Pool, RINGS_MAX};
use crate::strategy::uring::{CHAIN, Form, Obstacle, SetupFailure};
use crate::strategy::{Extent, SyncStrategy, positioned};

/// A barrier through `io_uring`: one chain of WRITE and FSYNC, submitted and waited for in one `io_uring_enter`.
///
/// A value of this type is the proof that a ring could be made. Any thread may use it; each call in flight has a small ring
/// of its own, kept for the next call.
///
/// *Assisted barriers.* A ring that works for one thread need not work for the next: the kernel's workers belong to the
/// thread that submits, and limits change. Where the ring has executed nothing (no worker could start, `io_uring_enter` or
/// another ring was refused), the call is finished with `pwrite` and `fdatasync`. That is not a retry: nothing has failed,
/// and all bytes of the call are written again before they are synced. The ack means the same, and
/// [`assisted_barriers`](SyncStrategy::assisted_barriers) counts them. A thread for which the ring has just done nothing goes
/// around it for its next barriers: for one at first, for at most 1023 where attempt after attempt is in vain.
///
/// *Fork.* The rings belong to the process that made the value. In a forked child every call is an error.
pub struct Uring {
    pool: Pool,
    form: Form,
    max_in_flight: NonZeroUsize,
    assisted: AtomicU64,
}

impl Uring {
    /// Makes the first ring. Takes the default form, [`Form::Linked`], and one call at a time.
    ///
    /// # Errors
    ///
    /// [`SetupFailure`] where the kernel gives no ring or lacks a feature: it names the call and what it said.
    pub fn new() -> Result<Self, SetupFailure> {
        Self::with_form(Form::default())
    }

    /// Makes the first ring, and asks it for barriers of this form.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_form(form: Form) -> Result<Self, SetupFailure> {
        let pool = Pool::new()?;
        Ok(Uring { pool, form, max_in_flight: NonZeroUsize::MIN, assisted: AtomicU64::new(0) })
    }

    /// How many calls may run at once. Default 1, minimum 1, maximum 8; more than that counts as 8.
    #[must_use]
    pub fn with_max_in_flight(mut self, calls: NonZeroUsize) -> Self {
        self.max_in_flight = NonZeroUsize::new(RINGS_MAX).map_or(calls, |maximum| calls.min(maximum));
        self
    }

    /// What a barrier asks of the ring.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Makes the barrier through the ring alone, or says what was in the way. The ring is asked whatever it did before.
    pub(crate) fn persist_unassisted(&self, extent: Extent<'_>) -> io::Result<Result<(), Obstacle>> {
        let mut ring = match self.pool.take() {
            Ok(ring) => ring,
            Err(SetupFailure { call, source }) => return Ok(Err(Obstacle { call, source })),
        };
        let end = barrier::run(&mut ring, extent, self.form);
        let refusal = ring.refusal();
        self.pool.give_back(ring);
        Ok(match end? {
            End::Stable => Ok(()),
            End::Unfinished => Err(match refusal {
                Some(errno) => Obstacle { call: "io_uring_enter", source: errno.into() },
                None => Obstacle { call: CHAIN, source: Errno::CANCELED.into() },
            }),
        })
    }
}

impl SyncStrategy for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        if !self.pool.is_ours() {
            return Err(io::Error::other(
                "the ring belongs to the process that made it, not to a fork of it",
            ));
        }
        if extent.bytes().is_empty() {
            return positioned::sync(extent.file());
        }
        if !detour::take() {
            match self.persist_unassisted(extent)? {
                Ok(()) => {
                    detour::end();
                    return Ok(());
                }
                Err(Obstacle { call, source }) => {
                    log::debug!("the ring did nothing for a barrier: {call}: {source}");
                    detour::lengthen();
                }
            }
        }
        self.assisted.fetch_add(1, Ordering::Relaxed);
        positioned::write_and_sync(extent)
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        self.max_in_flight
    }

    fn assisted_barriers(&self) -> u64 {
        self.assisted.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("form", &self.form)
            .field("max_in_flight", &self.max_in_flight)
            .field("assisted_barriers", &self.assisted)
            .finish_non_exhaustive()
    }
}
