//! wo-wal beside other logs and engines: the same workload on the same disk in the same run, each read back and checked.
//!
//! Prints Markdown. What each peer's configuration is, and what cannot be compared, is in the README beside this.
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../../common/mod.rs"]
mod common;
mod device;
mod options;
mod peer;
mod peers;
#[path = "../../reference/mod.rs"]
mod reference;
mod report;
mod run;

use clap::Parser;

use crate::common::{Setup, order};
use crate::device::Flushes;
use crate::options::{Options, Workload};
use crate::peer::{Entry, Plan};
use crate::report::Column;
use crate::run::Trial;

/// The peer that all others are divided by.
const BASE: &str = "wo-wal";

fn main() {
    let options = Options::parse();
    let setup = Setup::announce_length("peers", options.quick);
    let device = Flushes::below(&setup.path("."));
    let machine = rustix::system::uname();
    println!(
        "\n{} processors, {} {}, load average at the start {}. Barriers of wo-wal: {}\n\n`peers {}`",
        std::thread::available_parallelism().unwrap(),
        machine.sysname().to_string_lossy(),
        machine.release().to_string_lossy(),
        device::load_average(),
        peers::wo_wal::why(&setup.path("selection")),
        std::env::args().skip(1).collect::<Vec<_>>().join(" ")
    );
    match options.workload {
        Workload::Closed => {
            for &writers in &options.threads {
                let records = options.closed_loop_records(writers);
                let trials = options.trials();
                println!(
                    "\n## {writers} writers, {records} records of {} bytes, each durable before the next; {trials} trials\n",
                    options.record_bytes
                );
                let plan = Plan { writers, records, record_bytes: options.record_bytes };
                let entries = options.select(|entry| entry.closed_loop_open(writers).is_some());
                let columns = run_trials(&setup, &entries, plan, trials, |entry, path| {
                    let peer = entry.closed_loop_open(writers).unwrap()(path, plan);
                    device::settle(path);
                    run::closed_loop(peer, plan, device.as_ref())
                });
                report::print(&columns, BASE, "records");
            }
        }
        Workload::Batch => {
            let (records, each) = (options.batch_records(), options.batch);
            let trials = options.trials();
            println!(
                "\n## {records} records of {} bytes by one thread, a barrier each {each}; {trials} trials\n",
                options.record_bytes
            );
            let plan = Plan { writers: 1, records, record_bytes: options.record_bytes };
            let entries = options.select(|entry| entry.batch.is_some());
            let columns = run_trials(&setup, &entries, plan, trials, |entry, path| {
                let peer = entry.batch.unwrap()(path, plan);
                device::settle(path);
                run::batches(peer, plan, each, device.as_ref())
            });
            report::print(&columns, BASE, "batches");
        }
    }
}

/// Runs every peer once per trial, in an order that changes from trial to trial.
fn run_trials(
    setup: &Setup,
    entries: &[&'static Entry],
    plan: Plan,
    trials: usize,
    run: impl Fn(&Entry, &std::path::Path) -> Trial,
) -> Vec<Column> {
    let mut columns: Vec<_> = entries.iter().map(|entry| Column::new(entry, plan.records)).collect();
    for trial in 0..trials {
        for index in order(trial, entries.len()) {
            let path = setup.path(entries[index].name);
            columns[index].trials.push(run(entries[index], &path));
            remove(&path);
            eprintln!("trial {trial}: {}", columns[index].progress());
        }
    }
    columns
}

/// What a peer left: a directory or a file.
fn remove(path: &std::path::Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
}
