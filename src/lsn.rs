//! The log sequence number.

use std::fmt;

/// A log sequence number: the position of a record in the log.
///
/// Records are numbered consecutively from [`Lsn::FIRST`] (1). [`Lsn::ZERO`] stands before the first record and means
/// "nothing yet": it is the durable LSN of an empty log. A number is given out once and never again while the log is
/// open; the number of a record that was never acknowledged may be given to another record after a reopen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// Before the first record: nothing yet.
    pub const ZERO: Lsn = Lsn(0);
    /// The first record of a log.
    pub const FIRST: Lsn = Lsn(1);
    /// The largest number there is; no record ever gets it.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The LSN with this number.
    pub const fn new(number: u64) -> Self {
        Lsn(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The LSN `records` further on, or `None` where the numbers end.
    pub(crate) const fn checked_add(self, records: u64) -> Option<Lsn> {
        match self.0.checked_add(records) {
            Some(number) => Some(Lsn(number)),
            None => None,
        }
    }

    /// The LSN after this one. [`Lsn::MAX`] stays where it is: it is never given out.
    pub(crate) const fn next(self) -> Lsn {
        Lsn(self.0.saturating_add(1))
    }

    /// The LSN before this one; [`Lsn::ZERO`] stays where it is.
    pub(crate) const fn previous(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Lsn> for u64 {
    fn from(lsn: Lsn) -> u64 {
        lsn.0
    }
}
