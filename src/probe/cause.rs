//! Why a ring cannot be had, for people: the call, what it said, and the likely cause.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::strategy::{CHAIN, Obstacle};

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
        Some(match errno {
            Errno::CANCELED if self.call == CHAIN => {
                "no worker thread can start, as under RLIMIT_NPROC or a pids limit of the control group"
                    .into()
            }
            Errno::PERM if self.is_set_up() => by_sandbox_or_switch(),
            Errno::NOMEM if self.is_set_up() => match getrlimit(Resource::Memlock).current {
                Some(bytes) => format!(
                    "RLIMIT_MEMLOCK, which is {bytes} bytes here for all rings of the user, or the machine is short of memory"
                ),
                None => "the machine is short of memory".into(),
            },
            Errno::MFILE => match getrlimit(Resource::Nofile).current {
                Some(files) => format!("RLIMIT_NOFILE, which is {files} here"),
                None => "too many open files".into(),
            },
            Errno::NFILE => "fs.file-max, the whole system's limit on open files".into(),
            Errno::NOSYS => "a kernel without io_uring, or a sandbox that hides it".into(),
            Errno::ACCESS => "a security module's policy".into(),
            Errno::INVAL => "a kernel that is too old".into(),
            _ if self.is_call_of_the_ring() => "a sandbox, such as a container's seccomp filter".into(),
            _ => return None,
        })
    }

    fn is_set_up(&self) -> bool {
        self.call.starts_with("io_uring_setup")
    }

    fn is_call_of_the_ring(&self) -> bool {
        self.call.starts_with("io_uring_")
    }
}

impl From<Obstacle> for Refusal {
    fn from(obstacle: Obstacle) -> Self {
        Refusal::new(obstacle.call, obstacle.source)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.to_string();
        match self.errno() {
            Some(errno) => {
                let meaning = source.split(" (os error").next().unwrap_or_default();
                write!(f, "{} returned {} ({meaning})", self.call, errno_name(errno))?;
            }
            None => write!(f, "{}: {source}", self.call)?,
        }
        match self.likely_cause() {
            Some(cause) => write!(f, "; likely cause: {cause}"),
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

/// Both answer EPERM; the switch can be read, a filter cannot.
fn by_sandbox_or_switch() -> String {
    const FILTER: &str = "a container's seccomp filter";
    let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    match switch.as_deref().map(str::trim) {
        Ok("0") => format!("{FILTER} (kernel.io_uring_disabled reads 0 here, which allows it)"),
        Ok(value) => format!("kernel.io_uring_disabled, which reads {value} here, or {FILTER}"),
        Err(_) => format!("{FILTER} or kernel.io_uring_disabled, which cannot be read here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(call: &'static str, errno: Errno) -> String {
        Refusal::new(call, errno.into()).to_string()
    }

    #[test]
    fn a_refusal_names_call_errno_and_a_likely_cause() {
        let text = said("io_uring_setup", Errno::PERM);
        assert!(
            text.starts_with("io_uring_setup returned EPERM (Operation not permitted); likely "),
            "{text}"
        );
        assert!(text.contains("seccomp") && text.contains("kernel.io_uring_disabled"), "{text}");
        assert!(
            !said("io_uring_enter", Errno::PERM).contains("io_uring_disabled"),
            "the switch is not for it"
        );
        assert!(said("io_uring_setup or mmap", Errno::NOMEM).contains("RLIMIT_MEMLOCK, which is"));
        assert!(said("io_uring_setup", Errno::MFILE).contains("RLIMIT_NOFILE, which is"));
        assert!(said(CHAIN, Errno::CANCELED).contains("RLIMIT_NPROC"));
    }

    #[test]
    fn what_is_no_answer_of_the_ring_is_not_blamed_on_a_sandbox() {
        assert_eq!(said("self-test", Errno::IO), "self-test returned EIO (Input/output error)");
        let text = Refusal::new("self-test", io::Error::other("other bytes")).to_string();
        assert_eq!(text, "self-test: other bytes");
    }
}
