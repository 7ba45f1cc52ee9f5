//! Why a command ends early, and the exit status that says so.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use wo_wal::Error;

/// The exit statuses other than 0. The numbers from 64 on are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command line, the input or the environment cannot be used like this.
    Usage,
    /// The log is damaged.
    Damaged,
    /// Input or output failed, or the disk is full.
    Io,
    /// Somebody else has the log open for writing.
    Locked,
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        match self {
            Status::Usage => 2,
            Status::Damaged => 65,
            Status::Io => 74,
            Status::Locked => 75,
        }
    }
}

/// Why a command ends early.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Whoever read standard output has gone: the command ends quietly, with status 0.
    ClosedPipe,
    /// A signal has asked for the end: the process ends by it.
    Interrupted {
        /// Its number.
        signal: i32,
    },
    /// Anything else: what, where, and what to do.
    Because {
        /// The exit status.
        status: Status,
        /// The line for standard error, without the program's name.
        message: String,
    },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Because { status: Status::Usage, message: message.into() }
    }

    pub(crate) fn io(message: impl Into<String>) -> Self {
        Failure::Because { status: Status::Io, message: message.into() }
    }

    /// What the system said about a file or directory, with what can be done about it.
    pub(crate) fn at(what: &str, path: &Path, source: &io::Error) -> Self {
        Failure::io(format!("{what} {}: {source}{}", path.display(), remedy(source)))
    }

    /// What the system said about standard output.
    pub(crate) fn output(source: &io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ClosedPipe;
        }
        Failure::io(format!("write to standard output: {source}{}", remedy(source)))
    }

    /// The same failure, with what was being done in front of it.
    pub(crate) fn while_doing(self, what: &str) -> Self {
        match self {
            Failure::Because { status, message } => {
                Failure::Because { status, message: format!("{what}: {message}") }
            }
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Corrupt { .. }
            | Error::MissingSegment { .. }
            | Error::NotASegment { .. }
            | Error::UnsupportedVersion { .. } => Status::Damaged,
            Error::Locked { .. } => Status::Locked,
            Error::Config { .. }
            | Error::StrategyUnavailable { .. }
            | Error::RecordTooLarge { .. }
            | Error::BatchTooLarge { .. } => Status::Usage,
            _ => Status::Io,
        };
        let remedy = match &error {
            Error::Io { source, .. } => remedy(source),
            _ => "",
        };
        Failure::Because { status, message: format!("{error}{remedy}") }
    }
}

/// What can be done about an answer of the system, where that is known.
fn remedy(source: &io::Error) -> &'static str {
    if source.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
        return "; raise the limit on open files (ulimit -n), then try again";
    }
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; check the path",
        io::ErrorKind::PermissionDenied => "; check the owner and the permissions",
        io::ErrorKind::ReadOnlyFilesystem => "; the file system is mounted read-only",
        io::ErrorKind::StorageFull => "; free some space there, then try again",
        io::ErrorKind::QuotaExceeded => "; free some of the quota, then try again",
        io::ErrorKind::FileTooLarge => "; raise the file size limit (ulimit -f), then try again",
        _ => "",
    }
}

/// The text with everything that would break a line, or the terminal, replaced by one space.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|letter: char| letter.is_control() || letter == ' ');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_message_stays_on_one_line_whatever_a_path_holds() {
        assert_eq!(one_line("open a\nb\x1b[31m:  denied\n"), "open a b [31m: denied");
    }
}
