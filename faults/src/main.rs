//! The heavy layers of the fault suite; `docs/testing.md` says what each can and cannot find.

mod child;
mod crowd;
mod events;
mod failure;
mod fuse;
mod loops;
mod means;
mod recorder;
mod shutdown;
mod strategies;
mod support;
mod totals;
mod writer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::Trouble;
use crate::means::Means;
use crate::strategies::Kind;
use crate::totals::Totals;

#[derive(Parser)]
#[command(about = "Cuts, fails and kills logs, and checks that nothing acknowledged is lost. Needs root.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Subcommand)]
enum Layer {
    /// A file system that forgets what was not synced.
    Fuse(Choice),
    /// Real file systems that stop at once.
    Shutdown(Choice),
    /// A block device that remembers every write: cuts at any of them, and errors of the device.
    Recorder(Choice),
}

#[derive(Subcommand)]
enum Command {
    /// All layers.
    All(Choice),
    #[command(flatten)]
    One(Layer),
    /// The process that writes; started by the layers.
    #[command(hide = true)]
    Writer {
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        kind: Kind,
        dir: PathBuf,
    },
}

#[derive(Clone, Copy, clap::Args)]
struct Choice {
    /// What all random choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cycles per layer and strategy, instead of the full set.
    #[arg(long)]
    cycles: Option<u64>,
    #[arg(long, value_enum, default_value_t = Strategies::Both)]
    strategy: Strategies,
}

#[derive(Clone, Copy, ValueEnum)]
enum Strategies {
    Fsync,
    Uring,
    Both,
}

impl Strategies {
    fn kinds(self) -> &'static [Kind] {
        match self {
            Strategies::Fsync => &[Kind::Fsync],
            Strategies::Uring => &[Kind::Uring],
            Strategies::Both => &[Kind::Fsync, Kind::Uring],
        }
    }
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Writer { seed, kind, dir } => {
            writer::run(&dir, seed, kind);
            ExitCode::SUCCESS
        }
        Command::All(choice) => run(&[Layer::Fuse(choice), Layer::Shutdown(choice), Layer::Recorder(choice)]),
        Command::One(layer) => run(&[layer]),
    }
}

fn run(layers: &[Layer]) -> ExitCode {
    let means = match Means::find() {
        Ok(means) => means,
        Err(Trouble(why)) => return means::skip("all layers", &why),
    };
    let mut all = Vec::new();
    let mut status = ExitCode::SUCCESS;
    for layer in layers {
        let (name, missing) = match layer {
            Layer::Fuse(_) => ("fuse", Means::missing_for_fuse()),
            Layer::Shutdown(_) => ("shutdown", means.missing_for_shutdown()),
            Layer::Recorder(_) => ("recorder", means.missing_for_recorder()),
        };
        match missing {
            Some(why) => status = means::skip(name, &why),
            None => run_layer(*layer, means.work(), &mut all),
        }
    }
    if totals::table(&all) { status } else { ExitCode::FAILURE }
}

/// A missing link shows only where an FSYNC overtakes its WRITE: not in every cycle.
const UNLINKED_CYCLES: u64 = 40;

/// Runs a layer: where, with which strategy, how many cycles, from which seed.
type Run = fn(&Path, Kind, u64, u64) -> Totals;

/// Cycles per strategy of the full set, and of the negative control.
const FUSE_CYCLES: (u64, u64) = (220, 10);
const SHUTDOWN_CYCLES: (u64, u64) = (80, 12);
const RECORDER_CUTS: (u64, u64) = (80, 16);

fn run_layer(layer: Layer, work: &Path, all: &mut Vec<Totals>) {
    let (run, (cycles, control_cycles), choice): (Run, _, _) = match layer {
        Layer::Fuse(choice) => (fuse::run, FUSE_CYCLES, choice),
        Layer::Shutdown(choice) => (shutdown::run, SHUTDOWN_CYCLES, choice),
        Layer::Recorder(choice) => (recorder::run, RECORDER_CUTS, choice),
    };
    for kind in choice.strategy.kinds() {
        all.push(run(work, *kind, choice.cycles.unwrap_or(cycles), choice.seed));
    }
    all.push(run(work, Kind::NoSync, control_cycles, choice.seed));
    if let Layer::Fuse(_) = layer {
        all.push(run(work, Kind::Unlinked, UNLINKED_CYCLES, choice.seed));
    }
}
