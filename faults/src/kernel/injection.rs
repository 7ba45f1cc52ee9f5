//! System calls that `strace` refuses to a process. Operations on a ring are no system calls: of these only the call that
//! submits them can be refused.

use std::path::Path;

use crate::failure::Trouble;
use crate::means::text;
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
    ("renameat", "EIO", 5),
    ("unlinkat", "EIO", 3),
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

/// What a log makes calls of: where a ring makes the barriers, none of them is an `fdatasync`.
fn made_by<T: Copy>(kind: Kind, all: &[T], call: impl Fn(T) -> &'static str) -> Vec<T> {
    all.iter().copied().filter(|one| kind != Kind::Uring || call(*one) != "fdatasync").collect()
}

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
            let (call, error) = rng.pick(&made_by(kind, &INTERRUPTIONS, |(call, _)| call));
            return harmless(call, error, rng);
        }
        let (call, error, below) = rng.pick(&made_by(kind, &FAILURES, |(call, ..)| call));
        Injection { call, error, first: 1 + rng.below(below), step: None }
    }

    /// True where the log must go on as if nothing had happened.
    pub(super) fn is_harmless(self) -> bool {
        self.step.is_some()
    }

    /// What to start the writers behind: the tracer is its own process's child, not the writers' parent. It notes every
    /// such call in the file.
    pub(super) fn wrapper(self, trace: &Path) -> Result<Vec<String>, Trouble> {
        let when = self.step.map_or_else(|| self.first.to_string(), |step| format!("{}+{step}", self.first));
        let Injection { call, error, .. } = self;
        let inject = format!("inject={call}:error={error}:when={when}");
        let which = format!("trace={call}");
        let output = text(trace)?;
        let how = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-s", "0", "-o", output];
        Ok(how.into_iter().chain(["-e", &which, "-e", &inject]).map(str::to_owned).collect())
    }
}

/// How many calls were refused. The tracer notes a call before the thread that made it goes on.
pub(super) fn refused_calls(trace: &Path) -> u64 {
    let noted = std::fs::read(trace).unwrap_or_default();
    String::from_utf8_lossy(&noted).matches("(INJECTED)").count() as u64
}
