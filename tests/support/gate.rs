//! A gate that barriers pass: open, or held so that a test decides which of them goes on, and when.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a test waits for something that must come. It bounds a hanging test and decides nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Who stands at the gate, in order of arrival.
    held: Vec<u64>,
    arrivals: u64,
}

/// A gate that is closed while this lives.
#[must_use]
pub(crate) struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Gate {
    /// From now on everybody stops at the gate.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Closes the gate until the returned value is dropped, also by a test that fails.
    pub(crate) fn closed(&self) -> Closed<'_> {
        self.close();
        Closed(self)
    }

    /// Lets everybody through, now and later.
    pub(crate) fn open(&self) {
        let mut state = self.lock();
        state.closed = false;
        state.held.clear();
        self.changed.notify_all();
    }

    /// Lets the one through who stands at this place of the line; nobody, where the gate has been opened meanwhile, as the
    /// end of a simulated process does.
    pub(crate) fn release(&self, place: usize) {
        let mut state = self.lock();
        if state.closed {
            state.held.remove(place);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// How many stand at the gate.
    pub(crate) fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Waits until at least so many stand at the gate.
    pub(crate) fn wait_until_held(&self, count: usize) {
        assert!(self.wait_until_held_for(count, PATIENCE), "fewer than {count} barriers came to the gate");
    }

    /// Waits for so many, but no longer than this; true when they are there.
    pub(crate) fn wait_until_held_for(&self, count: usize, patience: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |state| state.held.len() < count);
        !waited.expect("nobody panics at the gate").1.timed_out()
    }

    /// Passes, or stands at the gate until released.
    pub(crate) fn pass(&self) {
        let mut state = self.lock();
        if !state.closed {
            return;
        }
        let me = state.arrivals;
        state.arrivals += 1;
        state.held.push(me);
        self.changed.notify_all();
        let passed = self.changed.wait_while(state, |state| state.held.contains(&me));
        drop(passed.expect("nobody panics at the gate"));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics at the gate")
    }
}
