//! Why a ring cannot be had, for people: the call, what it said, and the likely cause.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Why the candidate was not taken.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The call that failed, or the step of the self-test.
    pub(crate) call: &'static str,
    pub(crate) source: io::Error,
}

impl Refusal {
    pub(crate) fn new(call: &'static str, source: io::Error) -> Self {
        Refusal { call, source }
    }

    /// The errno's number, where the system gave one.
    pub(crate) fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    fn likely_cause(&self) -> Option<String> {
        let errno = Errno::from_raw_os_error(self.errno()?);
        let sandbox =
            || format!("a container's seccomp filter or kernel.io_uring_disabled ({})", disabled_reads());
        let cause = match (self.call, errno) {
            (_, Errno::PERM) => sandbox(),
            (_, Errno::NOSYS) => "a kernel without io_uring, or a sandbox that hides it".to_owned(),
            (_, Errno::OPNOTSUPP) => "a sandbox that does not offer it".to_owned(),
            (_, Errno::ACCESS) => "a security module's policy".to_owned(),
            ("self-test", Errno::CANCELED) => {
                "no worker thread can start, as under RLIMIT_NPROC or a pids limit of the control group"
                    .to_owned()
            }
            (_, Errno::NOMEM) => format!(
                "RLIMIT_MEMLOCK, which {}, counts the rings of all the user's processes",
                memlock_reads()
            ),
            (_, Errno::MFILE | Errno::NFILE) => "too many open files".to_owned(),
            (_, Errno::INVAL) => "a kernel that is too old".to_owned(),
            _ => return None,
        };
        Some(cause)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno() {
            Some(errno) => write!(f, "{} returned {} ({})", self.call, errno_name(errno), self.source)?,
            None => write!(f, "{}: {}", self.call, self.source)?,
        }
        match self.likely_cause() {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// The symbol of the errnos that are seen here; the number of any other.
pub(crate) fn errno_name(errno: i32) -> String {
    let name = match Errno::from_raw_os_error(errno) {
        Errno::PERM => "EPERM",
        Errno::NOSYS => "ENOSYS",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::ACCESS => "EACCES",
        Errno::CANCELED => "ECANCELED",
        Errno::NOMEM => "ENOMEM",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::INVAL => "EINVAL",
        Errno::AGAIN => "EAGAIN",
        Errno::IO => "EIO",
        Errno::NOSPC => "ENOSPC",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}

fn disabled_reads() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
        Ok(value) => format!("reads {} here", value.trim()),
        Err(_) => "cannot be read here".to_owned(),
    }
}

fn memlock_reads() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => format!("is {bytes} bytes here"),
        None => "is unlimited here".to_owned(),
    }
}
