//! The table.

use std::time::Duration;

use crate::common::{median, span};
use crate::peer::{Entry, ReadBack};
use crate::run::Trial;

/// The trials of one peer.
#[derive(Debug)]
pub(crate) struct Column {
    entry: &'static Entry,
    records: u64,
    pub(crate) trials: Vec<Trial>,
}

impl Column {
    pub(crate) fn new(entry: &'static Entry, records: u64) -> Column {
        Column { entry, records, trials: Vec::new() }
    }

    /// The last trial in a few words.
    pub(crate) fn progress(&self) -> String {
        let last = self.trials.last().map_or(0.0, |trial| trial.records_per_second);
        format!("{} {last:.0} records/s", self.entry.name)
    }

    fn median_of(&self, value: impl Fn(&Trial) -> f64) -> f64 {
        median(&self.trials.iter().map(value).collect::<Vec<_>>())
    }

    /// Records per barrier, or per flush, where all trials know their number.
    fn records_per(&self, count: impl Fn(&Trial) -> Option<u64>) -> String {
        let per: Option<Vec<_>> =
            self.trials.iter().map(|trial| Some(self.records as f64 / count(trial)?.max(1) as f64)).collect();
        per.map_or_else(|| "?".to_owned(), |per| format!("{:.1}", median(&per)))
    }

    /// Trial by trial against the base, since both met the same device then.
    fn ratio(&self, base: Option<&Column>) -> String {
        let Some(base) = base else { return "-".to_owned() };
        let ratios: Vec<_> = self
            .trials
            .iter()
            .zip(&base.trials)
            .map(|(own, base)| own.records_per_second / base.records_per_second)
            .collect();
        let (smallest, largest) = span(&ratios);
        format!("{:.2} ({smallest:.2}..{largest:.2})", median(&ratios))
    }
}

/// Prints the rows, the fastest first. `of` says what the latencies are of.
pub(crate) fn print(columns: &[Column], base: &str, of: &str) {
    let base_column = columns.iter().find(|column| column.entry.name == base);
    println!(
        "| peer | records/s | p50 us | p99 us | CPU us/record | records/barrier | records/flush of the disk | ratio to {base} | read back |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut sorted: Vec<_> = columns.iter().collect();
    sorted.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    for column in sorted {
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.1} | {} | {} | {} | {} |",
            column.entry.name,
            rate(column),
            column.median_of(|trial| microseconds(trial.p50)),
            column.median_of(|trial| microseconds(trial.p99)),
            column.median_of(|trial| microseconds(trial.cpu_per_record)),
            column.records_per(|trial| trial.barriers),
            column.records_per(|trial| trial.device_flushes),
            column.ratio(base_column),
            match column.entry.read_back {
                ReadBack::LogOrder => "log",
                ReadBack::KeyOrder => "by key",
                ReadBack::File => "file",
            },
        );
    }
    println!(
        "\nMedians; the ratio is the median of the trials' ratios (smallest..largest). Latencies are those of {of}. The \
         flushes are those of the whole machine."
    );
}

fn rate(column: &Column) -> f64 {
    column.median_of(|trial| trial.records_per_second)
}

fn microseconds(latency: Duration) -> f64 {
    latency.as_secs_f64() * 1e6
}
