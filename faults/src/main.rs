//! The heavy layers of the fault suite; `docs/testing.md` says what each can and cannot find.

mod ballast;
mod caller;
mod child;
mod compare;
mod crowd;
mod events;
mod failure;
mod full;
mod fuse;
mod kernel;
mod layers;
mod loops;
mod means;
mod recorder;
mod schedule;
mod shutdown;
mod strategies;
mod support;
mod totals;
mod writer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::layers::{Choice, Layer, WriterArguments};

#[derive(Parser)]
#[command(
    about = "Cuts, fails and kills logs, and checks that nothing acknowledged is lost. Needs root for most."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All layers.
    All(Choice),
    #[command(flatten)]
    One(Layer),
    /// The process that writes; started by the layers.
    #[command(hide = true)]
    Writer(WriterArguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Writer(WriterArguments { seed, kind, dir }) => {
            writer::run(&dir, seed, kind);
            ExitCode::SUCCESS
        }
        Command::All(choice) => layers::run(&layers::all(choice)),
        Command::One(layer) => layers::run(&[layer]),
    }
}
