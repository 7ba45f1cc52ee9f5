//! Barriers on the simulated disk.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use wo_wal::{Extent, SyncStrategy};

use super::disk::describe;
use super::faults::Refusal;
use super::{Machine, inode};

/// Lets another strategy make its system calls, and does to the simulated disk what an answer of Ok means.
pub(crate) struct SimStrategy {
    machine: Arc<Machine>,
    life: u64,
    inner: Arc<dyn SyncStrategy>,
    max_in_flight: NonZeroUsize,
}

impl SimStrategy {
    pub(super) fn new(machine: Arc<Machine>, life: u64, inner: Arc<dyn SyncStrategy>) -> Self {
        let max_in_flight = inner.max_in_flight();
        SimStrategy { machine, life, inner, max_in_flight }
    }

    /// Several barriers at once; each has its own open file description.
    pub(crate) fn with_max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = NonZeroUsize::new(max_in_flight).expect("at least one in flight");
        self
    }

    /// The write reaches the page cache before the inner strategy does the same again, so that each sector's versions
    /// are known in their order. Returns the write's number.
    fn write(&self, extent: Extent<'_>) -> io::Result<u64> {
        let mut state = self.machine.lock();
        let fd = extent.file().as_raw_fd();
        let known = state.description(fd, extent.file());
        let what = || {
            format!(
                "barrier, write {} at {} of {}",
                extent.bytes().len(),
                extent.offset(),
                describe(fd, &known)
            )
        };
        let verdict = state.enter_change(self.life, what);
        if let Err(Refusal::Dead) = verdict {
            return Err(Refusal::Dead.into());
        }
        let number = known?.inode;
        state.write(verdict, number, extent.offset(), extent.bytes())
    }

    fn sync(&self, extent: Extent<'_>, write: u64) -> io::Result<()> {
        let fd = extent.file().as_raw_fd();
        let (description, verdict) = {
            let mut state = self.machine.lock();
            let known = state.description(fd, extent.file());
            let verdict = state.enter_sync(self.life, || format!("barrier, sync {}", describe(fd, &known)));
            if let Err(refusal @ (Refusal::Dead | Refusal::Dies)) = verdict {
                return Err(refusal.into());
            }
            let description = known?;
            if verdict.is_ok() {
                let offset = usize::try_from(extent.offset()).expect("written before");
                let sectors = inode::sectors(offset, extent.bytes().len());
                state.inode(description.inode).make_stable(sectors, write);
            } else {
                state.fail_write_back(description.inode);
            }
            (description, verdict)
        };
        // Another barrier may collect its error between this one's write-back and its own look at the errors.
        std::thread::yield_now();
        let report = self.machine.lock().report(fd, description);
        verdict?;
        report
    }
}

impl SyncStrategy for SimStrategy {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let write = self.write(extent)?;
        let done = self.inner.persist(extent);
        self.machine.gate.pass();
        done?;
        self.sync(extent, write)
    }

    fn max_in_flight(&self) -> NonZeroUsize {
        self.max_in_flight
    }
}

impl fmt::Debug for SimStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStrategy").field("inner", &self.inner).finish_non_exhaustive()
    }
}
