//! `wo-wal probe`: which strategy would make the barriers of a log in a directory, why, and what they cost there.

mod cost;
mod report;

use std::path::{Path, PathBuf};

use wo_wal::{Error, Probe};

use crate::failure::Failure;
use crate::output;
use report::Report;

const EXAMPLES: &str = "\
Creates and changes nothing, and takes no lock: it writes to a file of its own that has no name. WO_IO counts as it would
for a log: auto, uring, fsync, or epoll, which means fsync. Costs are those of an idle log: a group of one small record, or
of a block; on written zeros, as prepared segments are. Exit status 2 says that a log could not be opened with this WO_IO.

Examples:
  wo-wal probe /var/lib/engine
  WO_IO=uring wo-wal probe demo.wal --json | jq .reason";

/// Say which strategy a log in a directory would use, why, and what a barrier costs there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory to look at: a log's, or one that a log could be in.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let probe = wo_wal::probe(&arguments.dir)?;
    let unavailable = probe.selection.strategy == "none";
    let reason = probe.selection.reason.clone();
    let (costs, measured) = cost::measure(&arguments.dir, &probe);
    let report = Report::new(&arguments.dir, probe, costs);
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    if unavailable { Err(Failure::usage(reason)) } else { measured }
}

/// Whether this machine and the environment let a log in the directory have a ring.
pub(crate) fn has_ring(probe: &Probe) -> bool {
    probe.checks.iter().any(|check| check.passed && check.name == "self-test")
}

/// What an append to the log in a directory would use, for other commands: the strategy and why. `None` where that cannot
/// be tried, as in a directory that this user may not write to.
pub(crate) fn what_append_would_use(dir: &Path) -> Option<(String, String)> {
    match wo_wal::probe(dir) {
        Ok(probe) => Some((probe.selection.strategy, probe.selection.reason)),
        Err(Error::Config { what, .. }) => Some(("none".to_owned(), format!("none, because {what}"))),
        Err(_) => None,
    }
}
