//! The contract of a [strategy](crate::strategy) as a suite that anybody can run against their own.
//!
//! ```no_run
//! use wo_wal::strategy::Fsync;
//!
//! wo_wal::conformance::run(|_dir| Fsync::new()).assert_passed();
//! ```
//!
//! What a process can see of line 1 is checked: that the bytes and the length are there for another description. Whether
//! they are on stable storage only a power cut shows, real or simulated; line 4 needs signals and failing devices. The
//! suite says so instead of passing them.

mod checks;

use std::fmt;
use std::path::Path;

use crate::strategy::SyncStrategy;

/// What became of the checks.
#[derive(Clone, Debug)]
#[must_use = "a report that nobody looks at checks nothing"]
pub struct Report {
    strategy: String,
    checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// The line of the contract.
    pub line: u8,
    /// What was done.
    pub what: &'static str,
    /// What did not hold, for people; `None` where all did.
    pub failure: Option<String>,
}

impl Report {
    /// All checks, in the order of the contract's lines.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.failure.is_none())
    }

    /// Panics unless every check passed.
    ///
    /// # Panics
    ///
    /// With the whole report, where a check failed.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.passed(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the contract of SyncStrategy, checked on `{}`:", self.strategy)?;
        for Check { line, what, failure } in &self.checks {
            match failure {
                None => writeln!(f, "  line {line}: ok      {what}")?,
                Some(failure) => writeln!(f, "  line {line}: FAILED  {what}: {failure}")?,
            }
        }
        writeln!(
            f,
            "  not checked here: that bytes are on stable storage (line 1), interrupted and failing syncs (line 4)"
        )
    }
}

/// Puts a strategy through the contract. `make` gets an empty directory on the file system that is tested (that of the
/// temporary directory) and is called once for each check.
///
/// # Panics
///
/// Where no temporary directory can be made.
pub fn run<S: SyncStrategy + 'static>(make: impl Fn(&Path) -> S) -> Report {
    let scratch = checks::Scratch::new();
    let strategy = make(scratch.path()).name().to_owned();
    let checks = checks::ALL
        .iter()
        .map(|&(line, what, check)| {
            let failure = check(&make(scratch.path()), &scratch).err();
            Check { line, what, failure }
        })
        .collect();
    Report { strategy, checks }
}
