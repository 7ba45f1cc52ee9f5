//! Who may still append, and what has been acknowledged.
//!
//! A writer that waits for input cannot be woken, so nobody joins writers. Each append goes through the gate instead: the
//! first reason to stop closes it, and whoever waits for the end needs only the appends under way to be over, with their
//! acks printed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use wo_wal::Lsn;

use crate::failure::Failure;

const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Significant decimal digits of the times of appends.
const TIME_DIGITS: u8 = 3;
/// A longer append counts as one of this length.
const TIME_NANOS_MAX: u64 = 3600 * 1_000_000_000;

/// How much has been acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) payload_bytes: u64,
    pub(super) first: Option<Lsn>,
    pub(super) last: Option<Lsn>,
}

/// What has been acknowledged, and how long each append took in nanoseconds.
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) append_nanos: Histogram<u64>,
}

/// An append that was acknowledged.
pub(super) struct Acked {
    pub(super) lsn: Lsn,
    pub(super) payload_bytes: usize,
    pub(super) took: Duration,
}

pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Writers that have started and not ended.
    writers: usize,
    /// Appends that entered and have not left.
    under_way: usize,
    stop: Option<Failure>,
    tally: Tally,
}

impl State {
    fn is_over(&self) -> bool {
        self.writers == 0 || (self.stop.is_some() && self.under_way == 0)
    }
}

impl Gate {
    pub(super) fn new() -> Result<Self, Failure> {
        let append_nanos = Histogram::new_with_bounds(1, TIME_NANOS_MAX, TIME_DIGITS)
            .map_err(|error| Failure::io(error.to_string()))?;
        let tally = Tally { counts: Counts::default(), append_nanos };
        let state = State { writers: 0, under_way: 0, stop: None, tally };
        Ok(Gate { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// A writer is about to start.
    pub(super) fn add_writer(&self) {
        self.state().writers += 1;
    }

    /// A writer has ended, or could not be started.
    pub(super) fn remove_writer(&self) {
        let mut state = self.state();
        state.writers -= 1;
        self.announce_end(&state);
    }

    /// An append may begin: false when there is a reason to stop. Every `true` is followed by [`Gate::leave`].
    pub(super) fn enter(&self) -> bool {
        let mut state = self.state();
        let may = state.stop.is_none();
        state.under_way += usize::from(may);
        may
    }

    /// The append was acknowledged, which is counted even if a reason to stop has come up since.
    pub(super) fn count(&self, acked: &Acked) {
        let mut state = self.state();
        let Tally { counts, append_nanos } = &mut state.tally;
        counts.records += 1;
        counts.payload_bytes += acked.payload_bytes as u64;
        counts.first = Some(counts.first.map_or(acked.lsn, |first| first.min(acked.lsn)));
        counts.last = counts.last.max(Some(acked.lsn));
        append_nanos.saturating_record(u64::try_from(acked.took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The append is over and its ack printed, or either failed.
    pub(super) fn leave(&self, outcome: Result<(), Failure>) {
        let mut state = self.state();
        state.under_way -= 1;
        note_failure(&mut state, outcome);
        self.announce_end(&state);
    }

    /// A reason to stop that is not of an append.
    pub(super) fn stop(&self, failure: Failure) {
        let mut state = self.state();
        note_failure(&mut state, Err(failure));
        self.announce_end(&state);
    }

    /// Waits until no append is under way and none will be, and has a look at the counts now and then. Afterwards the
    /// gate stays closed.
    pub(super) fn wait(&self, mut look: impl FnMut(Counts)) -> Result<(), Failure> {
        let mut state = self.state();
        while !state.is_over() {
            (state, _) =
                self.changed.wait_timeout(state, LOOK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            let counts = state.tally.counts;
            drop(state);
            look(counts);
            state = self.state();
        }
        state.stop.clone().map_or(Ok(()), Err)
    }

    /// Hands out what has been acknowledged.
    pub(super) fn with_tally<T>(&self, see: impl FnOnce(&Tally) -> T) -> T {
        see(&self.state().tally)
    }

    fn announce_end(&self, state: &State) {
        if state.is_over() {
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first failure is the one that is reported. A signal is none while there is one, and a pipe that was closed even less.
fn note_failure(state: &mut State, outcome: Result<(), Failure>) {
    let Err(failure) = outcome else { return };
    if state.stop.as_ref().is_none_or(|noted| weight(&failure) > weight(noted)) {
        state.stop = Some(failure);
    }
}

fn weight(failure: &Failure) -> u8 {
    match failure {
        Failure::ClosedPipe => 0,
        Failure::Interrupted { .. } => 1,
        Failure::Because { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::{Acked, Failure, Gate};
    use std::time::Duration;
    use wo_wal::Lsn;

    fn acked(lsn: u64) -> Acked {
        Acked { lsn: Lsn::new(lsn), payload_bytes: 10, took: Duration::from_micros(5) }
    }

    #[test]
    fn a_writer_that_waits_for_input_does_not_hold_up_a_stop() {
        let gate = Gate::new().unwrap();
        gate.add_writer();
        gate.add_writer();
        assert!(gate.enter());
        gate.leave(Err(Failure::ClosedPipe));
        assert!(matches!(gate.wait(|_| ()), Err(Failure::ClosedPipe)));
        assert!(!gate.enter());
    }

    #[test]
    fn an_ack_after_the_stop_is_counted() {
        let gate = Gate::new().unwrap();
        gate.add_writer();
        assert!(gate.enter());
        gate.stop(Failure::usage("input line 7"));
        gate.count(&acked(3));
        gate.leave(Ok(()));
        assert!(gate.wait(|_| ()).is_err());
        assert_eq!(gate.with_tally(|tally| tally.counts.records), 1);
    }

    #[test]
    fn a_failure_outranks_a_closed_pipe_a_signal_and_a_later_failure() {
        let gate = Gate::new().unwrap();
        gate.stop(Failure::ClosedPipe);
        gate.stop(Failure::Interrupted { signal: 2 });
        gate.stop(Failure::ClosedPipe);
        assert!(matches!(gate.wait(|_| ()), Err(Failure::Interrupted { signal: 2 })));
        gate.stop(Failure::usage("first"));
        gate.stop(Failure::usage("second"));
        let Err(Failure::Because { message, .. }) = gate.wait(|_| ()) else { panic!("no failure") };
        assert_eq!(message, "first");
    }

    #[test]
    fn acks_of_several_writers_give_one_range() {
        let gate = Gate::new().unwrap();
        for lsn in [5, 4, 6] {
            gate.count(&acked(lsn));
        }
        let (first, last) = gate.with_tally(|tally| (tally.counts.first, tally.counts.last));
        assert_eq!((first, last), (Some(Lsn::new(4)), Some(Lsn::new(6))));
    }

    #[test]
    fn times_keep_three_digits() {
        let gate = Gate::new().unwrap();
        gate.count(&acked(1));
        assert_eq!(gate.with_tally(|tally| tally.append_nanos.value_at_quantile(0.5)) / 10, 500);
    }
}
