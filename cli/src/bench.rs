//! `wo-wal bench`: what the log does in a directory, measured and verified.

mod copy;
mod crew;
mod measure;
mod plan;
mod plot;
mod records;
mod row;
mod schedule;
mod setting;
mod table;
mod variant;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{output, values};
use plan::Rate;
use plot::Plot;
use row::Row;
use setting::Setting;
use variant::{Cohorts, Strategy, Variant};
use workload::{Kind, Measured, Work};

/// The largest record that the log takes by default.
const RECORD_BYTES_MAX: u64 = 16 << 20;
const TRIALS: u16 = 3;
const SECONDS: f64 = 0.7;
const QUICK_SECONDS: f64 = 0.05;
const SECONDS_MAX: f64 = 3600.0;

const EXAMPLES: &str = "\
Every trial makes a log of its own below DIR, which is removed afterwards. It is closed, opened again and read: it must have
exactly the records that were acknowledged, or the run ends with exit status 65. Trials of the variants alternate; rows are
medians of them, but for max and the largest group, which are the largest of all trials.

Workloads:
  closed    writers (--threads) that wait for each record
  open      records that arrive at random at a fixed rate (--rate), whatever becomes of those before them; times count from
            the arrival, so that a stall delays all that arrive meanwhile. All are served, so a rate that is more than the
            log takes lasts longer. In percent, the rate is that part of what the first strategy does in a closed loop of 16
            writers with greedy cohorts
  batch     --batch records submitted, then a sync; a time is that of such a round
  recovery  open and replay 32 MiB of records in 8 MiB segments that nobody closed; a time is that of both together
  rotation  16 writers that wait for each record, with 1 MiB segments
  mixed     one writer that waits for each record (mixed-append), and a reader that replays 100 records at a time from
            random places in the same log (mixed-read), or in a log that the writer leaves alone (apart-read); a time of a
            read includes the way from the start of its segment to the place

Columns: by: the strategy; CPU us: of the whole process, for each record; written: bytes written by barriers, for each byte
of a record (on its way through a first segment, which is only reserved, a barrier now and then fills the stretch ahead).

Examples:
  wo-wal bench /var/tmp
  wo-wal bench /var/tmp --workload closed --cohort both --plot closed.svg
  wo-wal bench /var/tmp --workload open --rate 5000,30%,70% --json | jq .p99_us";

/// Measure how fast records become durable in a directory, with each strategy, and verify each log.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directory to make logs in.
    dir: PathBuf,
    /// What to measure, separated by commas [default: all].
    #[arg(long, value_name = "W", value_delimiter = ',', hide_possible_values = true)]
    workload: Vec<Kind>,
    /// How barriers are made: fsync, uring [default: what the environment and this machine allow].
    #[arg(long, value_name = "S", value_delimiter = ',', hide_possible_values = true)]
    strategy: Vec<Strategy>,
    /// Whether leaders wait for the writers that the last barrier released.
    #[arg(long, value_name = "C", default_value = "full")]
    cohort: Cohorts,
    /// Writers of the closed loop.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,16,64",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Arrivals of the open loop, in records per second or in percent.
    #[arg(long, value_name = "R", value_delimiter = ',', default_value = "30%,70%", value_parser = plan::rate)]
    rate: Vec<Rate>,
    /// Threads that append what arrives in the open loop.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Records of a batch.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Size of a record, in bytes or with K or M, from 16.
    #[arg(long, value_name = "B", default_value = "256", value_parser = record_bytes)]
    record_bytes: u64,
    /// Size of the segment files, in bytes or with K, M or G [default: 64M; rotation 1M, recovery 8M].
    #[arg(long, value_name = "B", value_parser = values::bytes)]
    segment_bytes: Option<u64>,
    /// Trials of each variant [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    trials: Option<u16>,
    /// How long a trial lasts [default: 0.7].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// One short trial of each: shows that it works; the figures mean little.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object for each row instead of a table.
    #[arg(long)]
    json: bool,
    /// Draw throughput and p99 of the closed loop against the number of writers, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Go on where a barrier does nothing, because the directory is in memory.
    #[arg(long)]
    allow_tmpfs: bool,
}

fn record_bytes(text: &str) -> Result<u64, String> {
    match values::bytes(text) {
        Ok(bytes) if (records::RECORD_BYTES_MIN as u64..=RECORD_BYTES_MAX).contains(&bytes) => Ok(bytes),
        Ok(_) => Err("a record has from 16 bytes to 16M".to_owned()),
        Err(refusal) => Err(refusal),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a trial lasts for a number of seconds above 0, up to an hour".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.plot.is_some() && !plan::kinds(arguments).contains(&Kind::Closed) {
        return Err(Failure::usage("--plot draws the closed loop; add it with --workload closed"));
    }
    let found = wo_wal::probe(&arguments.dir)?;
    setting::check_file_system(&arguments.dir, &found, arguments.allow_tmpfs)?;
    let variants = variant::choose(&arguments.strategy, arguments.cohort, &found)?;
    let plot = arguments.plot.as_deref().map(Plot::create).transpose()?;
    let setting = arguments.setting(Interrupt::by_signals()?)?;
    announce(arguments, &found.selection, &setting);
    let rows = measure(arguments, &setting, &variants)?;
    // The trials' directory is gone before the process ends, however it does.
    drop(setting);
    plot.map_or(Ok(()), |plot| plot.write(&rows))
}

/// Runs the plan, and prints each row when it is there.
fn measure(arguments: &Arguments, setting: &Setting, variants: &[Variant]) -> Result<Vec<Row>, Failure> {
    let capacity = match variants.first() {
        Some(&first) if plan::needs_capacity(arguments) => capacity(setting, first)?,
        _ => 0.0,
    };
    if !arguments.json {
        output::print(&table::heading())?;
    }
    let mut all = Vec::new();
    for work in plan::plan(arguments, capacity) {
        let trials = run_alternating(setting, work, variants, arguments.trials())?;
        for (&variant, trials) in variants.iter().zip(trials) {
            for row in row::rows(setting, work, variant, trials) {
                if arguments.json {
                    output::print_json(&row)?;
                } else {
                    output::print(&table::line(&row))?;
                }
                all.push(row);
            }
        }
    }
    Ok(all)
}

fn capacity(setting: &Setting, variant: Variant) -> Result<f64, Failure> {
    let per_second = workload::capacity(setting, variant)?;
    let strategy = variant.strategy.name();
    output::note(&format!(
        "capacity:  {per_second:.0} records/s, {strategy} with 16 writers and greedy cohorts"
    ));
    Ok(per_second)
}

/// The trials of each variant. Who goes first changes, and the direction: whatever the device does over time hits all, and
/// none always follows the same one.
fn run_alternating(
    setting: &Setting,
    work: Work,
    variants: &[Variant],
    trials: usize,
) -> Result<Vec<Vec<Vec<Measured>>>, Failure> {
    let mut results: Vec<Vec<Vec<Measured>>> = variants.iter().map(|_| Vec::new()).collect();
    for trial in 0..trials {
        for turn in 0..variants.len() {
            let place = if trial % 2 == 0 { turn } else { variants.len() - 1 - turn };
            let index = (trial / 2 + place) % variants.len();
            results[index].push(work.run(setting, variants[index])?);
            // What was cut short is not counted.
            setting.interrupt.check()?;
        }
    }
    Ok(results)
}

fn announce(arguments: &Arguments, selection: &wo_wal::Selection, setting: &Setting) {
    output::note(&format!("directory: {}, on {}", arguments.dir.display(), selection.file_system));
    for warning in &selection.warnings {
        output::note(&format!("warning:   {warning}"));
    }
    output::note(&format!(
        "trials:    {} of {:.2} s for each row, records of {} bytes",
        arguments.trials(),
        setting.lasting.as_secs_f64(),
        setting.record_bytes
    ));
}

impl Arguments {
    fn setting(&self, interrupt: Interrupt) -> Result<Setting, Failure> {
        let seconds = if self.quick { QUICK_SECONDS } else { SECONDS };
        Ok(Setting {
            scratch: setting::scratch_in(&self.dir)?,
            record_bytes: usize::try_from(self.record_bytes).unwrap_or(usize::MAX),
            segment_bytes: self.segment_bytes,
            lasting: self.seconds.unwrap_or_else(|| Duration::from_secs_f64(seconds)),
            interrupt,
        })
    }

    fn trials(&self) -> usize {
        usize::from(self.trials.unwrap_or(if self.quick { 1 } else { TRIALS }))
    }
}
