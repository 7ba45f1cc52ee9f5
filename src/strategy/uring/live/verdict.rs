//! What a pair of results means: the error matrix of `docs/ring-layout.md`.

use std::io;

use rustix::io::Errno;

/// The results of a chain's operations: what the completion said, a count or a negated errno.
///
/// An operation that the kernel has not taken was not executed, which is what `ECANCELED` says. A chain of one WRITE
/// with `RWF_DSYNC` has synced when it completes; its `fsync` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) write: i32,
    pub(super) fsync: i32,
}

/// What an operation that never started reports.
pub(super) const NOT_EXECUTED: i32 = -Errno::CANCELED.raw_os_error();

/// What to do next.
#[derive(Debug)]
pub(super) enum Verdict {
    /// All of it is stable.
    Stable,
    /// So many bytes are written, fewer than asked; the rest needs a chain of its own, with its own FSYNC.
    Short(usize),
    /// The WRITE was interrupted before it wrote anything: the same chain again.
    Again,
    /// The ring has not done it and nothing has failed: no worker could start, or the kernel took no entry.
    NotExecuted,
    /// Final.
    Failed(io::Error),
}

/// Judges a chain that was to write `length` bytes. Success is both results exactly right, nothing else: a short WRITE does
/// not always break the link, so the FSYNC's result alone proves nothing.
pub(super) fn judge(length: usize, results: Results) -> Verdict {
    // A sync that ran and failed is final, whatever was written: the kernel may have dropped what it could not write.
    if results.fsync != 0 && results.fsync != NOT_EXECUTED {
        return Verdict::Failed(error_of(results.fsync));
    }
    match usize::try_from(results.write) {
        Ok(written) if written == length && results.fsync == 0 => Verdict::Stable,
        Ok(written) if written == length => Verdict::NotExecuted,
        Ok(0) => Verdict::Failed(io::ErrorKind::WriteZero.into()),
        Ok(written) if written < length => Verdict::Short(written),
        Ok(_) => Verdict::Failed(io::Error::other("the kernel reports more bytes written than it was given")),
        Err(_) => match Errno::from_raw_os_error(results.write.saturating_neg()) {
            Errno::CANCELED => Verdict::NotExecuted,
            Errno::INTR | Errno::AGAIN => Verdict::Again,
            errno => Verdict::Failed(errno.into()),
        },
    }
}

/// The error of a result that is neither 0 nor a count.
fn error_of(result: i32) -> io::Error {
    if result < 0 {
        return Errno::from_raw_os_error(result.saturating_neg()).into();
    }
    io::Error::other("the kernel reports a count for a sync")
}

/// The verdict in the document's words.
#[cfg(feature = "testing")]
pub fn describe(length: usize, write: i32, fsync: i32) -> String {
    match judge(length, Results { write, fsync }) {
        Verdict::Stable => "Ok".to_owned(),
        Verdict::Short(_) => "continue".to_owned(),
        Verdict::Again => "again".to_owned(),
        Verdict::NotExecuted => "assist".to_owned(),
        Verdict::Failed(error) => match error.raw_os_error() {
            Some(errno) => format!("error {errno}"),
            None => format!("error {:?}", error.kind()),
        },
    }
}
