//! A strategy that a test steers: it holds barriers, fails or panics where the test says, and counts.

use std::collections::HashSet;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use wo_wal::{Extent, SyncStrategy};

use super::gate::Gate;

/// Runs another strategy under a test's control.
#[derive(Debug)]
pub(crate) struct Steered {
    inner: Arc<dyn SyncStrategy>,
    max_in_flight: NonZeroUsize,
    control: Arc<Control>,
}

/// The test's side.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Where barriers stop when their bytes are written and stable but nobody has been told.
    pub(crate) gate: Gate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    barriers: u64,
    plan: Option<(u64, Act)>,
    running: HashSet<RawFd>,
    most_running: usize,
    /// Two barriers at once on one open file.
    shared: bool,
    offsets: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Fail(Errno),
    Panic,
}

impl Steered {
    pub(crate) fn new(inner: Arc<dyn SyncStrategy>, control: Arc<Control>) -> Self {
        Steered { max_in_flight: inner.max_in_flight(), inner, control }
    }

    pub(crate) fn with_max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = NonZeroUsize::new(max_in_flight).expect("at least one in flight");
        self
    }
}

impl Control {
    /// The barrier after `barriers` more ones writes its bytes and then answers this error.
    pub(crate) fn fail_after(&self, barriers: u64, errno: Errno) {
        let mut state = self.lock();
        state.plan = Some((state.barriers + barriers + 1, Act::Fail(errno)));
    }

    /// The barrier after `barriers` more ones panics.
    pub(crate) fn panic_after(&self, barriers: u64) {
        let mut state = self.lock();
        state.plan = Some((state.barriers + barriers + 1, Act::Panic));
    }

    /// How many barriers were asked for.
    pub(crate) fn barriers(&self) -> u64 {
        self.lock().barriers
    }

    /// The most barriers that ran at once; fails the test where two of them shared an open file.
    pub(crate) fn most_at_once(&self) -> usize {
        let (shared, most_running) = {
            let state = self.lock();
            (state.shared, state.most_running)
        };
        assert!(!shared, "two barriers at once on one open file");
        most_running
    }

    /// Where in its file each barrier so far began.
    pub(crate) fn offsets(&self) -> Vec<u64> {
        self.lock().offsets.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn begin(&self, extent: Extent<'_>) -> Option<Act> {
        let mut state = self.lock();
        state.barriers += 1;
        state.offsets.push(extent.offset());
        state.shared |= !state.running.insert(extent.file().as_raw_fd());
        state.most_running = state.most_running.max(state.running.len());
        let (at, act) = state.plan?;
        (at == state.barriers).then_some(act)
    }
}

struct Running<'a> {
    control: &'a Control,
    fd: RawFd,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.control.lock().running.remove(&self.fd);
    }
}

impl SyncStrategy for Steered {
    fn name(&self) -> &'static str {
        "steered"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let act = self.control.begin(extent);
        let _running = Running { control: &self.control, fd: extent.file().as_raw_fd() };
        let done = self.inner.persist(extent);
        self.control.gate.pass();
        match act {
            Some(Act::Panic) => panic!("a strategy that panics, on purpose"),
            Some(Act::Fail(errno)) => Err(errno.into()),
            None => done,
        }
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        self.max_in_flight
    }
}
