//! What a layer did and found, as one line and as a row of the table at the end.

use std::time::{Duration, Instant};

use crate::child::History;
use crate::failure::{Failure, Outcome, Trouble};
use crate::strategies::Kind;

/// The count of one layer with one strategy.
#[derive(Debug)]
pub(crate) struct Totals {
    layer: &'static str,
    /// The strategy, or what else the row is about.
    name: &'static str,
    /// What chooses this row among its layer's on the command line.
    choice: String,
    /// It must find losses.
    is_control: bool,
    seed: u64,
    pub(crate) cycles: u64,
    pub(crate) acks: u64,
    pub(crate) cuts: u64,
    /// Faults that have happened, counted where they were made. A cut that no plan picks is not among them.
    pub(crate) faults: u64,
    /// Faults that are no cuts and that failed the log.
    pub(crate) failed_logs: u64,
    losses: u64,
    /// Cycles in which the machine did not do what the layer needs.
    troubles: u64,
    start: Instant,
    time: Duration,
}

impl Totals {
    pub(crate) fn new(layer: &'static str, kind: Kind, seed: u64) -> Self {
        let choice = if kind.is_control() { String::new() } else { format!(" --strategy {}", kind.name()) };
        Totals { choice, ..Self::named(layer, kind.name(), kind.is_control(), seed) }
    }

    /// A row that is not about one strategy.
    pub(crate) fn named(layer: &'static str, name: &'static str, is_control: bool, seed: u64) -> Self {
        let start = Instant::now();
        Totals {
            layer,
            name,
            choice: String::new(),
            is_control,
            seed,
            cycles: 0,
            acks: 0,
            cuts: 0,
            faults: 0,
            failed_logs: 0,
            losses: 0,
            troubles: 0,
            start,
            time: Duration::ZERO,
        }
    }

    pub(crate) fn heard(&mut self, history: &History) {
        self.acks += history.acks();
    }

    /// Counts how often a cycle's fault has happened. A cycle in which it has not shows nothing.
    pub(crate) fn happened(&mut self, times: u64) -> Result<(), Trouble> {
        self.faults += times;
        if times == 0 { Err(Trouble("the fault never happened".to_owned())) } else { Ok(()) }
    }

    /// Notes a cycle's end. What went wrong is said at once, with what it takes to see it again; the losses of a negative
    /// control are what it is for.
    pub(crate) fn cycle(&mut self, what: &str, cycle_seed: u64, outcome: &Outcome) {
        self.cycles += 1;
        let (word, why) = match outcome {
            Ok(()) => return,
            Err(Failure::Promise(why)) => ("LOSS", why),
            Err(Failure::Trouble(why)) => ("TROUBLE", why),
        };
        let is_loss = word == "LOSS";
        *if is_loss { &mut self.losses } else { &mut self.troubles } += 1;
        if is_loss && self.is_control {
            return;
        }
        let (layer, name, seed, cycle) = (self.layer, self.name, self.seed, self.cycles - 1);
        println!("{word} {layer} {name}, cycle {cycle} (seed {cycle_seed}), {what}: {why}");
        println!("  again: {layer}{} --seed {seed}", self.choice);
    }

    /// Ends the count and says it in one line.
    pub(crate) fn end(mut self) -> Self {
        self.time = self.start.elapsed();
        println!("{}", self.line());
        self
    }

    fn line(&self) -> String {
        format!(
            "{:9} {:9} {:6} cycles {:8} acks {:6} cuts {:6} faults {:5} failed logs {:4} losses{}  {:4} s, seed {}",
            self.layer,
            self.name,
            self.cycles,
            self.acks,
            self.cuts,
            self.faults,
            self.failed_logs,
            self.losses,
            if self.is_control { " (wanted: it is a negative control)" } else { "" },
            self.time.as_secs(),
            self.seed,
        )
    }

    /// Nothing lost by a strategy that syncs, something lost by one that does not.
    pub(crate) fn is_as_it_should_be(&self) -> bool {
        self.cycles > 0 && self.troubles == 0 && (self.losses > 0) == self.is_control
    }
}

/// Prints the table and says whether all is as it should be.
pub(crate) fn table(all: &[Totals]) -> bool {
    println!("\n== totals");
    for totals in all {
        println!(
            "{}{}",
            totals.line(),
            if totals.is_as_it_should_be() { "" } else { "  NOT AS IT SHOULD BE" }
        );
    }
    let tested = || all.iter().filter(|totals| !totals.is_control);
    println!(
        "together: {} cycles, {} acks, {} cuts, {} losses",
        tested().map(|totals| totals.cycles).sum::<u64>(),
        tested().map(|totals| totals.acks).sum::<u64>(),
        tested().map(|totals| totals.cuts).sum::<u64>(),
        tested().map(|totals| totals.losses).sum::<u64>(),
    );
    all.iter().all(Totals::is_as_it_should_be)
}
