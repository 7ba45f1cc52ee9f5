//! What a probe found, for people and for programs.
#![expect(clippy::cast_precision_loss, reason = "figures for people, of three digits or so")]

use std::fmt;
use std::path::Path;

use serde::Serialize;
use wo_wal::{Probe, Source};

use super::cost::Cost;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    directory: String,
    file_system: String,
    /// `none` where opening a log would fail.
    strategy: String,
    /// Who chose it: `auto` or `env`.
    source: &'static str,
    reason: String,
    checks: Vec<CheckReport>,
    warnings: Vec<String>,
    barriers: Vec<Cost>,
}

#[derive(Debug, Serialize)]
struct CheckReport {
    name: String,
    passed: bool,
    detail: String,
    errno: Option<i32>,
    errno_name: Option<String>,
}

impl Report {
    pub(super) fn new(dir: &Path, probe: Probe, barriers: Vec<Cost>) -> Self {
        let Probe { selection, checks, .. } = probe;
        let checks = checks.into_iter().map(|check| CheckReport {
            errno_name: check.errno_name(),
            name: check.name,
            passed: check.passed,
            detail: check.detail,
            errno: check.errno,
        });
        Report {
            directory: dir.display().to_string(),
            file_system: selection.file_system,
            strategy: selection.strategy,
            source: if selection.source == Source::Env { "env" } else { "auto" },
            reason: selection.reason,
            checks: checks.collect(),
            warnings: selection.warnings,
            barriers,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "directory:   {}", self.directory)?;
        writeln!(f, "file system: {}", self.file_system)?;
        writeln!(f, "strategy:    {}", self.reason)?;
        for check in &self.checks {
            let result = match (check.passed, check.errno) {
                (true, _) => "ok".to_owned(),
                (false, Some(errno)) => format!("errno {errno}"),
                (false, None) => "failed".to_owned(),
            };
            writeln!(f, "check:       {}: {result}, {}", check.name, check.detail)?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning:     {warning}")?;
        }
        for cost in &self.barriers {
            let millis = |nanos: u64| nanos as f64 / 1e6;
            let Cost { strategy, bytes, barriers, .. } = cost;
            let (p50, p99) = (millis(cost.p50_nanos), millis(cost.p99_nanos));
            write!(
                f,
                "barrier:     {strategy} {bytes:4} bytes: p50 {p50:.4} ms, p99 {p99:.4} ms of {barriers}"
            )?;
            match cost.assisted {
                0 => writeln!(f)?,
                assisted => writeln!(f, ", {assisted} without the ring")?,
            }
        }
        Ok(())
    }
}
