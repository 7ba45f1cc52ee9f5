//! System calls that `strace` refuses to a process. Operations on a ring are no system calls: of these only the call that
//! submits them can be refused.

use crate::strategies::Kind;
use crate::support::rng::Rng;

#[derive(Clone, Copy, Debug)]
pub(super) struct Injection {
    call: &'static str,
    error: &'static str,
    /// The first call of each thread that is refused.
    first: u64,
    /// Each so-manyth call after it is refused as well.
    step: Option<u64>,
}

/// What is refused once, and may fail a log or one call of it.
const FAILURES: [(&str, &str, u64); 9] = [
    ("fdatasync", "EIO", 40),
    ("fdatasync", "ENOSPC", 40),
    ("pwrite64", "EIO", 40),
    ("pwrite64", "ENOSPC", 40),
    ("fsync", "EIO", 12),
    ("fallocate", "ENOSPC", 5),
    ("fallocate", "EIO", 5),
    ("rename", "EIO", 5),
    ("unlink", "EIO", 3),
];
/// What is to be asked again.
const INTERRUPTIONS: [(&str, &str); 3] =
    [("fdatasync", "EINTR"), ("pwrite64", "EINTR"), ("fallocate", "EINTR")];
/// A refused submission leaves the barrier to plain calls, so that none of these fails a log.
const RING_REFUSALS: [(&str, &str); 4] = [
    ("io_uring_enter", "EINTR"),
    ("io_uring_enter", "EAGAIN"),
    ("io_uring_enter", "EBUSY"),
    ("io_uring_enter", "EIO"),
];

impl Injection {
    pub(super) fn pick(kind: Kind, rng: &mut Rng) -> Self {
        let harmless = |call, error, rng: &mut Rng| Injection {
            call,
            error,
            first: 1 + rng.below(6),
            step: Some(2 + rng.below(4)),
        };
        if kind == Kind::Uring && rng.percent(60) {
            let (call, error) = rng.pick(&RING_REFUSALS);
            return harmless(call, error, rng);
        }
        if rng.percent(30) {
            let (call, error) = rng.pick(&INTERRUPTIONS);
            return harmless(call, error, rng);
        }
        let (call, error, below) = rng.pick(&FAILURES);
        Injection { call, error, first: 1 + rng.below(below), step: None }
    }

    /// True where the log must go on as if nothing had happened.
    pub(super) fn is_harmless(self) -> bool {
        self.step.is_some()
    }

    /// What to start the writers behind: the tracer is its own process's child, not the writers' parent.
    pub(super) fn wrapper(self) -> Vec<String> {
        let when = self.step.map_or_else(|| self.first.to_string(), |step| format!("{}+{step}", self.first));
        let Injection { call, error, .. } = self;
        let inject = format!("inject={call}:error={error}:when={when}");
        let trace = format!("trace={call}");
        ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]
            .map(str::to_owned)
            .to_vec()
    }
}
