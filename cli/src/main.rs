//! `wo-wal`: append to, read, verify and trim a write-ahead log from the command line.

mod append;
mod bench;
mod cat;
mod failure;
mod interrupt;
mod log_directory;
mod output;
mod probe;
mod stat;
mod trim;
mod values;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Status};

const EXIT_STATUSES: &str = "\
Exit status:
   0  fine; also when whoever read the output has gone (| head)
   2  the command line, the input or the environment cannot be used like this
  65  the log is damaged; nothing was changed
  74  input or output failed, or the disk is full
  75  the log is open for writing elsewhere

Environment:
  WO_IO  how barriers are made: auto (as if unset), uring, fsync, or epoll, which means fsync; see 'wo-wal probe'

Example:
  wo-wal append demo.wal < Cargo.lock
  wo-wal cat demo.wal | diff - Cargo.lock";

/// Append to, read, verify and trim a write-ahead log.
///
/// A log is a directory. A record is any string of bytes; on this command line, a line.
/// What append has acknowledged survives a crash and a power cut.
#[derive(Debug, Parser)]
#[command(name = "wo-wal", version, verbatim_doc_comment, after_help = EXIT_STATUSES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Append(append::Arguments),
    Cat(cat::Arguments),
    Verify(verify::Arguments),
    Stat(stat::Arguments),
    Trim(trim::Arguments),
    Probe(probe::Arguments),
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => report(run(&arguments.command)),
        Err(refusal) => refuse(&refusal),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Append(arguments) => append::run(arguments),
        Command::Cat(arguments) => cat::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Trim(arguments) => trim::run(arguments),
        Command::Probe(arguments) => probe::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
    }
}

fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Interrupted { signal }) => {
            interrupt::end_by(signal);
            ExitCode::from(Status::Io.code())
        }
        Err(Failure::Because { status, message }) => {
            output::note(&format!("wo-wal: {}", failure::one_line(&message)));
            ExitCode::from(status.code())
        }
    }
}

/// Help and version go to standard output. What is wrong with a command line goes on one line, as every error does.
fn refuse(refusal: &clap::Error) -> ExitCode {
    if !refusal.use_stderr()
        || refusal.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        // Whoever asked for help and closed the pipe has seen enough of it.
        let _ = refusal.print();
        let code = if refusal.use_stderr() { Status::Usage.code() } else { 0 };
        return ExitCode::from(code);
    }
    let text = refusal.to_string();
    let what = text.split("\n\nUsage:").next().unwrap_or(&text);
    let what = what.split("\n\nFor more information").next().unwrap_or(what);
    let what = failure::one_line(what.trim_start_matches("error: "));
    report(Err(Failure::usage(format!("{what}; see 'wo-wal --help'"))))
}
