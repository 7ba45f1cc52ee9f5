//! `wo-wal verify`: read every byte of a log and say what is there.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wo_wal::{Error, Reader, Recovery};

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

#[derive(Debug, Serialize)]
struct Finding {
    sound: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    /// None where the damage kept the log from being opened.
    #[serde(flatten)]
    contents: Option<Contents>,
    /// What an append would use, and why; none where that cannot be tried.
    strategy: Option<String>,
    strategy_reason: Option<String>,
}

/// What was read. Where the log is damaged, the counts are those of what precedes the damage.
#[derive(Debug, Serialize)]
struct Contents {
    records: u64,
    batches: u64,
    payload_bytes: u64,
    first_lsn: Option<u64>,
    last_lsn: Option<u64>,
    segments: usize,
    segment_bytes: u64,
    closed_cleanly: bool,
    torn_tail_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_directory::require_log(&arguments.dir)?;
    let (contents, outcome) = read(&arguments.dir);
    let damage = match &outcome {
        Ok(()) => None,
        Err(Failure::Because { status: Status::Damaged, message }) => Some(message.clone()),
        Err(_) => return outcome,
    };
    let (strategy, strategy_reason) = probe::what_append_would_use(&arguments.dir).unzip();
    let finding = Finding { sound: damage.is_none(), damage, contents, strategy, strategy_reason };
    if arguments.json {
        output::print_json(&finding)?;
    } else {
        output::print(&finding.text(&arguments.dir))?;
    }
    outcome
}

/// What there is up to the end or the damage, and why no more was read.
fn read(dir: &Path) -> (Option<Contents>, Result<(), Failure>) {
    match Reader::open(dir) {
        Ok((reader, recovery)) => {
            let mut contents = Contents::unread(&reader, &recovery);
            let outcome = contents.read(&reader);
            (Some(contents), outcome.map_err(Failure::from))
        }
        Err(error) => (None, Err(error.into())),
    }
}

impl Contents {
    fn unread(reader: &Reader, recovery: &Recovery) -> Self {
        Contents {
            records: 0,
            batches: 0,
            payload_bytes: 0,
            first_lsn: None,
            last_lsn: None,
            segments: reader.segments().len(),
            segment_bytes: reader.segments().iter().map(|segment| segment.capacity_bytes).sum(),
            closed_cleanly: recovery.closed_cleanly,
            torn_tail_bytes: recovery.cut_bytes,
        }
    }

    fn read(&mut self, reader: &Reader) -> Result<(), Error> {
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

    fn counts(&self) -> String {
        let lsns = match (self.first_lsn, self.last_lsn) {
            (Some(first), Some(last)) => format!(", LSN {first} to {last}"),
            _ => String::new(),
        };
        format!(
            "records:  {}{lsns}\nbatches:  {}\npayload:  {} bytes\n",
            self.records, self.batches, self.payload_bytes
        )
    }

    fn extent(&self) -> String {
        let end = log_directory::describe_end(self.closed_cleanly, self.torn_tail_bytes);
        format!("segments: {}, {} bytes together\nend:      {end}\n", self.segments, self.segment_bytes)
    }
}

impl Finding {
    fn text(&self, dir: &Path) -> String {
        let verdict = match &self.contents {
            _ if self.sound => "sound",
            Some(_) => "DAMAGED; what follows is what precedes the damage",
            None => "DAMAGED; it cannot be opened, and its records were not read",
        };
        let mut text = format!("log:      {}\nverdict:  {verdict}\n", dir.display());
        if let Some(contents) = &self.contents {
            text += &contents.counts();
            if self.sound {
                text += &contents.extent();
            }
        }
        if let Some(reason) = &self.strategy_reason {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "strategy: {reason}");
        }
        text
    }
}
