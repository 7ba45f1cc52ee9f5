//! `wo-wal trim`: drop the records an application no longer needs.

use std::path::{Path, PathBuf};

use wo_wal::{Lsn, Reader, Wal};

use crate::failure::Failure;
use crate::{log_directory, output, values};

const EXAMPLES: &str = "\
Drops whole segments: some records up to LSN stay where they share a segment with later ones. What is dropped cannot be
had back.

Example:
  wo-wal trim demo.wal --up-to 1000";

/// Drop records up to an LSN, and give their space back or use it again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory of the log.
    dir: PathBuf,
    /// Last record that is no longer needed.
    #[arg(long, value_name = "LSN", value_parser = values::lsn)]
    up_to: Lsn,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_directory::require_log(&arguments.dir)?;
    let mut options = Wal::options();
    if let Some(bytes) = segment_bytes(&arguments.dir)? {
        options = options.segment_bytes(bytes);
    }
    let (wal, _) = options.open(&arguments.dir)?;
    let before = wal.oldest_lsn();
    let trimmed = trim(&wal, arguments.up_to);
    let after = wal.oldest_lsn();
    let closed = wal.close().map_err(Failure::from);
    trimmed.and(closed)?;
    output::print(&format!("oldest LSN before: {before}\noldest LSN after:  {after}\n"))
}

/// A number that is too large by mistake would drop every record, so it is refused.
fn trim(wal: &Wal, up_to: Lsn) -> Result<(), Failure> {
    let last = wal.durable_lsn();
    if up_to > last {
        return Err(Failure::usage(format!(
            "--up-to {up_to} is greater than the last record's LSN, {last}; nothing was trimmed"
        )));
    }
    Ok(wal.trim(up_to)?)
}

/// A trim is to give space back, so the segments that it may have to make are no larger than those that are there.
fn segment_bytes(dir: &Path) -> Result<Option<u64>, Failure> {
    let (reader, _) = Reader::open(dir)?;
    Ok(reader.segments().iter().map(|segment| segment.capacity_bytes).min())
}
