//! A progress bar for people who watch.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::gate::Counts;
use super::summary::ratio;

const WITH_LENGTH: &str = "{bar:30} {percent:>3}% {msg}, {eta} left";
const WITHOUT_LENGTH: &str = "{spinner} {elapsed} {msg}";

/// Shows something only where standard error is a terminal that nobody types into and no acks go to.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `input_bytes` is the length of the input where that is known.
    pub(super) fn on_a_terminal(input_bytes: Option<u64>, with_acks: bool) -> Self {
        let shared = io::stdin().is_terminal() || (with_acks && io::stdout().is_terminal());
        let watched = io::stderr().is_terminal() && !shared;
        Progress { bar: watched.then(|| new_bar(input_bytes)) }
    }

    pub(super) fn show(&self, counts: Counts) {
        let Some(bar) = &self.bar else { return };
        let records_per_second = ratio(counts.records, bar.elapsed().as_secs_f64());
        // The newlines were taken too.
        bar.set_position(counts.payload_bytes.saturating_add(counts.records));
        bar.set_message(format!("{} records durable, {records_per_second:.0}/s", counts.records));
    }

    /// Takes the bar off the screen.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(input_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match input_bytes {
        Some(bytes) => (ProgressBar::new(bytes), WITH_LENGTH),
        None => (ProgressBar::new_spinner(), WITHOUT_LENGTH),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
