//! `wo-wal cat`: print records.

mod follow;
mod format;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

use wo_wal::{Error, Lsn, Reader};

use crate::failure::Failure;
use crate::{log_directory, output, values};
use format::Format;

const EXAMPLES: &str = "\
Creates and changes nothing, and takes no lock: it may run next to a writer and on a read-only directory.

Examples:
  wo-wal cat demo.wal --from 100 --to 199 --format lsn
  wo-wal cat demo.wal --follow --format json | jq .payload";

/// Print records, in the order of their LSNs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory of the log.
    dir: PathBuf,
    /// First record to print [default: the oldest one].
    #[arg(long, value_name = "LSN", value_parser = values::lsn)]
    from: Option<Lsn>,
    /// Last record to print [default: the last one].
    #[arg(long, value_name = "LSN", value_parser = values::lsn)]
    to: Option<Lsn>,
    /// How to print a record.
    #[arg(long, value_enum, default_value_t = Format::Raw)]
    format: Format,
    /// Go on and print records as they become durable, until interrupted.
    #[arg(long)]
    follow: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let (Some(from), Some(to)) = (arguments.from, arguments.to)
        && from > to
    {
        return Err(Failure::usage(format!("--from {from} is greater than --to {to}; swap them")));
    }
    log_directory::require_log(&arguments.dir)?;
    let mut printer = Printer {
        out: output::buffered()?,
        format: arguments.format,
        from: arguments.from,
        to: arguments.to,
        last: None,
    };
    if arguments.follow {
        return follow::run(&arguments.dir, &mut printer);
    }
    let (reader, _) = Reader::open(&arguments.dir)?;
    printer.print(&reader)
}

/// Prints records once each, in order, over any number of readers of the same log.
struct Printer {
    out: BufWriter<File>,
    format: Format,
    /// The next record to print; `None` for the oldest there is.
    from: Option<Lsn>,
    to: Option<Lsn>,
    /// The last record printed.
    last: Option<Lsn>,
}

impl Printer {
    /// Prints what the reader has and was not printed yet, and flushes. What precedes a damaged place is printed too.
    fn print(&mut self, reader: &Reader) -> Result<(), Failure> {
        let read = self.print_records(reader);
        let flushed = self.out.flush().map_err(|source| Failure::output(&source));
        read.and(flushed)?;
        if self.from.is_none() {
            // Nothing is there yet: the record after this is the one to go on with.
            self.from = Some(next(reader.durable_lsn()));
        }
        Ok(())
    }

    fn print_records(&mut self, reader: &Reader) -> Result<(), Failure> {
        let start = self.from.map_or(Bound::Unbounded, Bound::Included);
        let end = self.to.map_or(Bound::Unbounded, Bound::Included);
        let mut replay = reader.replay((start, end)).map_err(|error| self.refusal(error))?;
        loop {
            match replay.next_ref() {
                Ok(Some(record)) => {
                    format::write(&mut self.out, self.format, &record)
                        .map_err(|source| Failure::output(&source))?;
                    self.last = Some(record.lsn);
                    self.from = Some(next(record.lsn));
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.refusal(error)),
            }
        }
    }

    /// True when the last record asked for has been printed.
    fn is_done(&self) -> bool {
        self.to.is_some() && self.last >= self.to
    }

    /// A trim is the user's mistake only where the user named the record.
    fn refusal(&self, error: Error) -> Failure {
        let Error::Trimmed { oldest, .. } = error else { return error.into() };
        match (self.last, self.from) {
            (None, Some(from)) => Failure::usage(format!(
                "--from {from}: the records before LSN {oldest} have been trimmed; start there"
            )),
            _ => Failure::io(format!(
                "the records before LSN {oldest} were trimmed before they could be printed; start there"
            )),
        }
    }
}

fn next(lsn: Lsn) -> Lsn {
    Lsn::new(lsn.get().saturating_add(1))
}
