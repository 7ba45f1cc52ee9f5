//! The rings that no call uses at the moment.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::process::process_mark;
use super::ring::Ring;
use crate::strategy::uring::SetupFailure;

/// More are never idle at once: the log runs no more calls at once.
pub(super) const RINGS_MAX: usize = 8;

/// Rings of the process that made the pool.
pub(super) struct Pool {
    idle: Mutex<Vec<Ring>>,
    owner: u32,
}

impl Pool {
    /// A pool of one ring: it is the proof that a ring can be made.
    pub(super) fn new() -> Result<Self, SetupFailure> {
        let mut idle = Vec::with_capacity(RINGS_MAX);
        idle.push(Ring::new()?);
        Ok(Pool { idle: Mutex::new(idle), owner: process_mark() })
    }

    /// Whether this process made the pool. In another one not even the lock may be touched: whoever held it at the
    /// fork does not exist there.
    pub(super) fn is_ours(&self) -> bool {
        process_mark() == self.owner
    }

    /// An idle ring, or a new one.
    pub(super) fn take(&self) -> Result<Ring, SetupFailure> {
        let idle = self.lock().pop();
        idle.map_or_else(Ring::new, Ok)
    }

    /// Keeps the ring for the next call, or closes it (rule 5).
    pub(super) fn give_back(&self, mut ring: Ring) {
        if !ring.is_idle() {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < RINGS_MAX {
            idle.push(ring);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ring>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.is_ours() {
            // Rule 6: in a forked child the mappings are not there, and something else may be in their place.
            let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(idle));
        }
    }
}
