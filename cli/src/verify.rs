//! `wo-wal verify`: read every byte of a log and say what is there.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wo_wal::{Error, Reader};

use crate::failure::{Failure, Status};
use crate::{log_directory, output, probe};

const EXAMPLES: &str = "\
Creates and changes nothing, and takes no lock. Exit status 65 says that the log is damaged: standard error says where.
A torn tail is not damage: it was never acknowledged, and the next open for writing cuts it off. The strategy is the one
that an append would use: 'wo-wal probe' says more.

Example:
  wo-wal verify demo.wal --json | jq .records";

/// Read every record, check every checksum, and say what was found.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory of the log.
    dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What was found. Where the log is damaged, the counts are those of what precedes the damage.
#[derive(Debug, Default, Serialize)]
struct Finding {
    sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    records: u64,
    batches: u64,
    payload_bytes: u64,
    first_lsn: Option<u64>,
    last_lsn: Option<u64>,
    segments: usize,
    segment_bytes: u64,
    closed_cleanly: bool,
    torn_tail_bytes: u64,
    /// What an append would use, and why; none where that cannot be tried.
    strategy: Option<String>,
    strategy_reason: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_directory::require_log(&arguments.dir)?;
    let mut finding = Finding::default();
    let outcome = finding.read(&arguments.dir).map_err(Failure::from);
    match &outcome {
        Ok(()) => finding.sound = true,
        Err(Failure::Because { status: Status::Damaged, message }) => {
            finding.damage = Some(message.clone());
        }
        Err(_) => return outcome,
    }
    (finding.strategy, finding.strategy_reason) = probe::what_append_would_use(&arguments.dir).unzip();
    if arguments.json {
        output::print_json(&finding)?;
    } else {
        output::print(&finding.text(&arguments.dir))?;
    }
    outcome
}

impl Finding {
    fn read(&mut self, dir: &Path) -> Result<(), Error> {
        let (reader, recovery) = Reader::open(dir)?;
        self.segments = reader.segments().len();
        self.segment_bytes = reader.segments().iter().map(|segment| segment.capacity_bytes).sum();
        self.closed_cleanly = recovery.closed_cleanly;
        self.torn_tail_bytes = recovery.cut_bytes;
        let mut replay = reader.replay(..)?;
        while let Some(record) = replay.next_ref()? {
            self.records += 1;
            self.batches += u64::from(record.ends_batch);
            self.payload_bytes += record.payload.len() as u64;
            self.first_lsn.get_or_insert(record.lsn.get());
            self.last_lsn = Some(record.lsn.get());
        }
        Ok(())
    }

    fn text(&self, dir: &Path) -> String {
        let lsns = match (self.first_lsn, self.last_lsn) {
            (Some(first), Some(last)) => format!(", LSN {first} to {last}"),
            _ => String::new(),
        };
        let verdict = if self.sound { "sound" } else { "DAMAGED; what follows is what precedes the damage" };
        let mut text = format!(
            "log:      {}\nverdict:  {verdict}\nrecords:  {}{lsns}\nbatches:  {}\npayload:  {} bytes\n",
            dir.display(),
            self.records,
            self.batches,
            self.payload_bytes,
        );
        if self.sound {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "segments: {}, {} bytes together", self.segments, self.segment_bytes);
            let _ = writeln!(
                text,
                "end:      {}",
                log_directory::describe_end(self.closed_cleanly, self.torn_tail_bytes)
            );
        }
        if let Some(reason) = &self.strategy_reason {
            let _ = writeln!(text, "strategy: {reason}");
        }
        text
    }
}
