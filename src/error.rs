//! What can go wrong, and what is then true of the log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Lsn;

/// A result whose error is this crate's [`enum@Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
///
/// One failure can reach many waiters, so errors are cheap to clone: sources are shared.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed. Nothing was acknowledged because of it; whether the log goes on is said by the call that
    /// returned it (a failed barrier gives [`Error::Poisoned`] instead).
    #[error("{op} {}: {source}", path.display())]
    #[non_exhaustive]
    Io {
        /// The operation, as a verb: "open", "sync directory".
        op: &'static str,
        /// The file or directory it was done to.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },

    /// A write, a sync or a rotation step failed earlier. The log acknowledges nothing any more; close it and open it
    /// again. Records from `first_lsn` on were not acknowledged, and whether they are in the log is indeterminate until
    /// then: each may or may not be there after the reopen, in order and without a hole.
    #[error(
        "the log is poisoned, records from LSN {first_lsn} on are not acknowledged and may or may not be there after a \
         reopen (close and open the log again to find out): {cause}"
    )]
    #[non_exhaustive]
    Poisoned {
        /// The first record that was not acknowledged.
        first_lsn: Lsn,
        /// The failure that came first.
        #[source]
        cause: Arc<Error>,
    },

    /// Bytes that were acknowledged, or a segment header, are damaged. Nothing was changed or deleted.
    #[error(
        "{}: damaged at offset {offset}, LSN {lsn}: {what}; restore the file from a copy, nothing was changed",
        segment.display()
    )]
    #[non_exhaustive]
    Corrupt {
        /// The file.
        segment: PathBuf,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// The record that was expected there.
        lsn: Lsn,
        /// What does not hold.
        what: &'static str,
    },

    /// A segment in the middle, or the one after a seal, is not there. Nothing was changed or deleted.
    #[error("{}: segment {number:020}.wal is missing; restore it from a copy, nothing was changed", dir.display())]
    #[non_exhaustive]
    MissingSegment {
        /// The log's directory.
        dir: PathBuf,
        /// The missing segment's number.
        number: u64,
    },

    /// A segment was written by a newer version of this crate. Nothing was changed.
    #[error(
        "{}: format version {found} is not one that this build reads; use a build that does",
        segment.display()
    )]
    #[non_exhaustive]
    UnsupportedVersion {
        /// The file.
        segment: PathBuf,
        /// The version it names.
        found: u32,
    },

    /// A file has a segment's name but is none. Nothing was changed; move the file away if it is foreign.
    #[error("{}: has a segment's name but is not a segment; move it away if it is not the log's", path.display())]
    #[non_exhaustive]
    NotASegment {
        /// The file.
        path: PathBuf,
    },

    /// Another handle, of this process or another, has the log open for writing.
    #[error("{}: the log is open for writing elsewhere; close that handle or end that process first", dir.display())]
    #[non_exhaustive]
    Locked {
        /// The log's directory.
        dir: PathBuf,
    },

    /// There is no room for the record. Nothing was staged, no LSN was given out, and the log goes on: reads and trim
    /// work, and appends work again once there is space (a trim makes some).
    #[error(
        "no space left for {needed_bytes} bytes; trim the log or free space on its file system, then append again"
    )]
    #[non_exhaustive]
    StorageFull {
        /// How much room the segment that was needed would have taken, in bytes.
        needed_bytes: u64,
    },

    /// The record is larger than [`Options::max_record_bytes`](crate::Options::max_record_bytes). Nothing was staged; the
    /// log goes on.
    #[error("a record of {bytes} bytes is larger than the maximum of {max_bytes}")]
    #[non_exhaustive]
    RecordTooLarge {
        /// The record's size.
        bytes: u64,
        /// The maximum.
        max_bytes: u64,
    },

    /// The batch is larger than [`Options::max_batch_bytes`](crate::Options::max_batch_bytes). Nothing was staged; the log
    /// goes on.
    #[error(
        "a batch of {bytes} bytes (record headers and padding included) is larger than the maximum of {max_bytes}"
    )]
    #[non_exhaustive]
    BatchTooLarge {
        /// The batch's size on disk, as far as it was looked at.
        bytes: u64,
        /// The maximum.
        max_bytes: u64,
    },

    /// The record asked for was dropped by a trim.
    #[error("the records before LSN {oldest} have been trimmed")]
    #[non_exhaustive]
    Trimmed {
        /// The oldest record that is still there, or the next one where none is.
        oldest: Lsn,
    },

    /// An option or an argument is out of its range. Nothing was done.
    #[error("{what}")]
    #[non_exhaustive]
    Config {
        /// What is wrong, and what is allowed.
        what: String,
    },

    /// The durability strategy that was asked for cannot be had here. Nothing was opened.
    #[error("{reason}")]
    #[non_exhaustive]
    StrategyUnavailable {
        /// Why.
        reason: String,
    },

    /// The call would have to wait, and it was one that never does. Nothing was staged.
    #[error("the call would have to wait for a barrier or for a segment")]
    WouldBlock,

    /// A call that needs the log to go on was made from inside the publish hook, which the log waits for.
    #[error("the log waits for the publish hook this call was made from")]
    InHook,

    /// The process was forked after the log was opened; only the process that opened it may use it.
    #[error("the log was opened before this process was forked; open it in the process that uses it")]
    Forked,

    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

impl Error {
    /// Wraps what the system said about `op` on `path`.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { op, path: path.into(), source: Arc::new(source) }
    }

    /// An argument that is out of its range.
    pub(crate) fn config(what: impl Into<String>) -> Self {
        Error::Config { what: what.into() }
    }

    /// True when the system answered that there is no space, or no quota, left.
    pub(crate) fn is_storage_full(source: &io::Error) -> bool {
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        use io::ErrorKind;
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::Corrupt { .. } | Error::NotASegment { .. } => ErrorKind::InvalidData,
            Error::MissingSegment { .. } | Error::Trimmed { .. } => ErrorKind::NotFound,
            Error::UnsupportedVersion { .. } | Error::StrategyUnavailable { .. } => ErrorKind::Unsupported,
            Error::Locked { .. } => ErrorKind::ResourceBusy,
            Error::StorageFull { .. } => ErrorKind::StorageFull,
            Error::RecordTooLarge { .. } | Error::BatchTooLarge { .. } | Error::Config { .. } => {
                ErrorKind::InvalidInput
            }
            Error::WouldBlock => ErrorKind::WouldBlock,
            Error::InHook => ErrorKind::Deadlock,
            Error::Poisoned { .. } | Error::Forked | Error::Closed => ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
