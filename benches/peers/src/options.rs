//! The command line.

use clap::{Parser, ValueEnum};

use crate::peer::Entry;
use crate::peers::PEERS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Several writers, each waits until its record is durable, then appends the next one
    Closed,
    /// One writer, a barrier now and then
    Batch,
}

/// wo-wal beside other logs and engines: the same workload on the same disk in the same run.
#[derive(Debug, Parser)]
#[command(name = "peers")]
pub(crate) struct Options {
    #[arg(long, value_enum, default_value = "closed")]
    pub(crate) workload: Workload,
    /// Numbers of writers, for `closed`
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_parser = at_least_one)]
    pub(crate) threads: Vec<usize>,
    /// Trials of each peer [default: 7, with --quick 1]
    #[arg(long, value_parser = at_least_one)]
    trials: Option<usize>,
    /// Records of a trial, all writers together [default: 2000, 8000, 16000, 32000 for 1, 4, 16, 64 writers; 1000000 for
    /// `batch`; with --quick a twentieth]
    #[arg(long)]
    records: Option<u64>,
    #[arg(long, default_value_t = 256, value_parser = at_least_a_record)]
    pub(crate) record_bytes: usize,
    /// Records of a barrier, for `batch`
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Only these peers. Ratios need wo-wal among them
    #[arg(long, value_delimiter = ',', value_parser = PEERS.iter().map(|entry| entry.name).collect::<Vec<_>>())]
    only: Vec<String>,
    /// One short trial: shows that it works, the figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&value| value > 0).ok_or_else(|| "a number from 1 on".to_owned())
}

fn at_least_a_record(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&value| value >= 16)
        .ok_or_else(|| "a number from 16 on: the writer and the sequence number".to_owned())
}

impl Options {
    pub(crate) fn trials(&self) -> usize {
        self.trials.unwrap_or(if self.quick { 1 } else { 7 })
    }

    /// A multiple of the writers.
    pub(crate) fn closed_loop_records(&self, writers: usize) -> u64 {
        let full = match writers {
            1 => 2_000,
            2..=4 => 8_000,
            5..=16 => 16_000,
            _ => 32_000,
        };
        let records = self.records.unwrap_or(if self.quick { full / 20 } else { full });
        let writers = writers as u64;
        (records / writers).max(1) * writers
    }

    pub(crate) fn batch_records(&self) -> u64 {
        self.records.unwrap_or(if self.quick { 50_000 } else { 1_000_000 })
    }

    pub(crate) fn select(&self, can_run: impl Fn(&Entry) -> bool) -> Vec<&'static Entry> {
        PEERS
            .iter()
            .filter(|entry| self.only.is_empty() || self.only.iter().any(|name| name == entry.name))
            .filter(|entry| can_run(entry))
            .collect()
    }
}
