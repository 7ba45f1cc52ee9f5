//! `wo-wal append`: every line of the input becomes a durable record.

mod acks;
mod gate;
mod lines;
mod progress;
mod summary;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use wo_wal::{Recovery, Wal};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{output, values};
use acks::Acks;
use gate::Gate;
use lines::Lines;
use progress::Progress;
use summary::Summary;

/// The largest record, in bytes: the library's default, set here so that a line is never read further than that.
const RECORD_BYTES_MAX: u32 = 16 << 20;

const EXAMPLES: &str = "\
A record is a line without its newline, of any bytes; a last line without a newline counts. Each record is durable before
its writer takes the next line. With several writers, records are in the order in which they were appended, which is not
quite that of the lines; --acks says which line became which record. A summary goes to standard error; also after Ctrl-C,
which ends it when the records on their way are durable.

Examples:
  wo-wal append demo.wal < Cargo.lock
  generate | wo-wal append demo.wal --threads 16 --acks > acks.tsv";

/// Append every line of standard input as a record; create the log if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory of the log; created if it does not exist.
    dir: PathBuf,
    /// Writers that share the input, and share barriers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Print LSN, tab, number of the input line, as soon as that record is durable and never before.
    #[arg(long)]
    acks: bool,
    /// Size of the segment files made from now on, in bytes or with K, M or G [default: 64M].
    #[arg(long, value_name = "B", value_parser = values::bytes)]
    segment_bytes: Option<u64>,
}

/// What the writers share.
struct Shared {
    wal: Wal,
    lines: Mutex<Lines>,
    acks: Option<Acks>,
    gate: Gate,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let lines = Lines::of_standard_input(RECORD_BYTES_MAX)?;
    let acks = if arguments.acks { Some(Acks::to_standard_output()?) } else { None };
    let progress = Progress::on_a_terminal(lines.input_bytes(), arguments.acks);
    let (wal, recovery) = open(arguments)?;
    let interrupt = Interrupt::by_signals()?;
    let barriers_at_start = wal.stats().barriers;
    let start = Instant::now();
    let shared = Arc::new(Shared { wal, lines: Mutex::new(lines), acks, gate: Gate::new()? });
    writer::spawn(&shared, arguments.threads);
    let outcome = shared.gate.wait(|counts| {
        progress.show(counts);
        if let Err(interrupted) = interrupt.check() {
            shared.gate.stop(interrupted);
        }
    });
    let elapsed = start.elapsed();
    progress.clear();
    let stats = shared.wal.stats();
    let barriers = stats.barriers.saturating_sub(barriers_at_start);
    // A writer may still hold the log and wait for a line that never comes: this closes it all the same.
    let closed = shared.wal.close().map_err(Failure::from);
    shared.gate.with_tally(|tally| {
        let (dir, strategy, recovery) = (&arguments.dir, shared.wal.strategy(), &recovery);
        let assisted_barriers = stats.assisted_barriers;
        let summary = Summary { dir, strategy, recovery, tally, barriers, assisted_barriers, elapsed };
        output::note(summary.to_string().trim_end());
    });
    match outcome {
        // Nobody reads the acks any more, which is no failure; a log that could not be closed is one.
        Ok(()) | Err(Failure::ClosedPipe) => closed,
        Err(interrupted @ Failure::Interrupted { .. }) => closed.and(Err(interrupted)),
        Err(failure) => Err(failure),
    }
}

fn open(arguments: &Arguments) -> Result<(Wal, Recovery), Failure> {
    let mut options = Wal::options().max_record_bytes(RECORD_BYTES_MAX);
    if let Some(bytes) = arguments.segment_bytes {
        options = options.segment_bytes(bytes);
    }
    Ok(options.open(&arguments.dir)?)
}
