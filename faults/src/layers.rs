//! The layers, how much of each makes the full set, and which can run here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use crate::failure::Trouble;
use crate::means::{self, Means};
use crate::strategies::Kind;
use crate::totals::{self, Totals};
use crate::{compare, full, fuse, kernel, recorder, shutdown};

#[derive(Clone, Copy, Subcommand)]
pub(crate) enum Layer {
    /// A file system that forgets what was not synced.
    Fuse(Choice),
    /// Real file systems that stop at once.
    Shutdown(Choice),
    /// A block device that remembers every write: cuts at any of them, and errors of the device.
    Recorder(Choice),
    /// Kills, limits, refused system calls and a full file system in memory: what needs no root.
    Kernel(Choice),
    /// File systems without a free byte.
    Full(Choice),
    /// One schedule under one fault through both strategies, compared answer by answer and record by record.
    Compare(Seeded),
}

#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Seeded {
    /// What all random choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cycles per layer and strategy, instead of the full set.
    #[arg(long)]
    cycles: Option<u64>,
}

#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Choice {
    #[command(flatten)]
    seeded: Seeded,
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

/// Cycles per strategy of the full set.
const FUSE_CYCLES: u64 = 220;
const SHUTDOWN_CYCLES: u64 = 80;
const RECORDER_CUTS: u64 = 80;
const KERNEL_CYCLES: u64 = 120;
const FULL_CYCLES: u64 = 24;

/// Runs a layer: where, with which strategy, how many cycles, from which seed.
type Run = fn(&Path, Kind, u64, u64) -> Totals;

/// A run of a layer that must find losses, and in how many cycles.
struct Control {
    cycles: u64,
    run: fn(&Path, u64, u64) -> Totals,
}

const FUSE_CONTROLS: &[Control] = &[
    Control { cycles: 10, run: |work, cycles, seed| fuse::run(work, Kind::NoSync, cycles, seed) },
    // A missing link shows only where an FSYNC overtakes its WRITE: not in every cycle.
    Control { cycles: 40, run: |work, cycles, seed| fuse::run(work, Kind::Unlinked, cycles, seed) },
];
const SHUTDOWN_CONTROLS: &[Control] =
    &[Control { cycles: 12, run: |work, cycles, seed| shutdown::run(work, Kind::NoSync, cycles, seed) }];
const RECORDER_CONTROLS: &[Control] = &[
    Control { cycles: 16, run: |work, cycles, seed| recorder::run(work, Kind::NoSync, cycles, seed) },
    Control { cycles: 16, run: recorder::run_without_flushes },
];
const KERNEL_CONTROLS: &[Control] =
    &[Control { cycles: 10, run: |work, cycles, seed| kernel::run(work, Kind::Blind, cycles, seed) }];

/// All layers, in the order in which they run.
pub(crate) fn all(choice: Choice) -> Vec<Layer> {
    vec![
        Layer::Fuse(choice),
        Layer::Shutdown(choice),
        Layer::Recorder(choice),
        Layer::Kernel(choice),
        Layer::Full(choice),
        Layer::Compare(choice.seeded),
    ]
}

pub(crate) fn run(layers: &[Layer]) -> ExitCode {
    let means = match Means::find() {
        Ok(means) => means,
        Err(Trouble(why)) => return means::skip("all layers", &why),
    };
    let mut all = Vec::new();
    let mut status = ExitCode::SUCCESS;
    for layer in layers {
        match layer.missing(&means) {
            Some(why) => status = means::skip(layer.name(), &why),
            None => layer.run(means.work(), &mut all),
        }
    }
    if totals::table(&all) { status } else { ExitCode::FAILURE }
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Layer::Fuse(_) => "fuse",
            Layer::Shutdown(_) => "shutdown",
            Layer::Recorder(_) => "recorder",
            Layer::Kernel(_) => "kernel",
            Layer::Full(_) => "full",
            Layer::Compare(_) => "compare",
        }
    }

    fn missing(self, means: &Means) -> Option<String> {
        match self {
            Layer::Fuse(_) => Means::missing_for_fuse(),
            Layer::Shutdown(_) => means.missing_for_shutdown(),
            Layer::Kernel(_) => means.missing_for_kernel(),
            Layer::Full(_) => means.missing_for_full(),
            Layer::Recorder(_) | Layer::Compare(_) => means.missing_for_recorder(),
        }
    }

    fn run(self, work: &Path, all: &mut Vec<Totals>) {
        let (run, cycles, controls, choice): (Run, _, _, _) = match self {
            Layer::Fuse(choice) => (fuse::run, FUSE_CYCLES, FUSE_CONTROLS, choice),
            Layer::Shutdown(choice) => (shutdown::run, SHUTDOWN_CYCLES, SHUTDOWN_CONTROLS, choice),
            Layer::Recorder(choice) => (recorder::run, RECORDER_CUTS, RECORDER_CONTROLS, choice),
            Layer::Kernel(choice) => (kernel::run, KERNEL_CYCLES, KERNEL_CONTROLS, choice),
            Layer::Full(choice) => (full::run, FULL_CYCLES, &[] as &[Control], choice),
            Layer::Compare(Seeded { seed, cycles }) => return all.extend(compare::run(work, cycles, seed)),
        };
        let Seeded { seed, cycles: chosen } = choice.seeded;
        for kind in choice.strategy.kinds() {
            all.push(run(work, *kind, chosen.unwrap_or(cycles), seed));
        }
        all.extend(controls.iter().map(|control| (control.run)(work, control.cycles, seed)));
    }
}

/// The writer process's arguments.
#[derive(clap::Args)]
pub(crate) struct WriterArguments {
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) kind: Kind,
    pub(crate) dir: PathBuf,
}
