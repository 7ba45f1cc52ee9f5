//! The promise of an ack.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::Lsn;
use crate::commit::Commit;
use crate::error::Result;

/// A record, or a batch, that has its LSNs and waits for its barrier.
///
/// A ticket is the log's state and two numbers: cheap, `Send`, and it keeps neither the log open nor its directory
/// locked. A submitted record on which nobody waits is durable after the next barrier, [`sync`](crate::Wal::sync) or
/// [`close`](crate::Wal::close).
///
/// # Cancellation
///
/// Dropping a ticket does not take the record back: it stays staged and becomes durable with its group.
#[derive(Clone)]
#[must_use = "the record is durable when `wait` has returned Ok, not before"]
pub struct Ticket {
    commit: Arc<Commit>,
    first_lsn: Lsn,
    last_lsn: Lsn,
}

/// The numbers only: the log's state holds other writers' records.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("first_lsn", &self.first_lsn)
            .field("last_lsn", &self.last_lsn)
            .finish_non_exhaustive()
    }
}

impl Ticket {
    pub(crate) fn new(commit: Arc<Commit>, first_lsn: Lsn, last_lsn: Lsn) -> Self {
        Ticket { commit, first_lsn, last_lsn }
    }

    /// The LSN of the record, or of the last record of the batch. For an empty batch the one before it.
    pub fn lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// The LSNs of the records. Empty for an empty batch.
    pub fn lsns(&self) -> RangeInclusive<Lsn> {
        self.first_lsn..=self.last_lsn
    }

    /// What became of the record: `None` while it waits for its barrier. Never blocks for a barrier.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn outcome(&self) -> Option<Result<Lsn>> {
        if let Err(error) = self.commit.check_process() {
            return Some(Err(error));
        }
        Some(self.commit.outcome(self.last_lsn)?.map(|()| self.last_lsn))
    }

    /// Waits until the record is durable, leading its group if nobody else does. Returns [`lsn`](Self::lsn).
    ///
    /// # Errors
    ///
    /// * [`Poisoned`](crate::Error::Poisoned): a barrier failed before the record was durable. Whether it is in the log
    ///   is indeterminate until the log is opened again; the log acknowledges nothing any more.
    /// * [`Forked`](crate::Error::Forked): called in a forked child. Nothing was touched.
    pub fn wait(self) -> Result<Lsn> {
        self.commit.wait(self.last_lsn)?;
        Ok(self.last_lsn)
    }
}
