//! What the file system holds: as processes see it, and as a cut would leave it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::directory::Directory;
use crate::support::rng::Rng;
use crate::support::served::ROOT;

const SECTOR_BYTES: usize = 512;

/// What a request is, for those faults that hit only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Write,
    Sync,
    Directory,
    Name,
    Reserve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The power goes.
    Cut,
    /// The process is killed: what it wrote stays, and nothing it still asks for is done.
    Kill,
    /// The request fails and does nothing; a failed sync also forgets what it was to make durable.
    Fail(i32),
    /// The write is taken and forgotten before it is durable. The next sync of each open file description says so, once.
    Forget(i32),
    /// A write takes only a part.
    Short,
    /// The request takes this long.
    Stall(Duration),
}

/// One fault, at the n-th request of a class, or of any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) class: Option<Class>,
    pub(super) requests_before: u64,
    pub(super) fault: Fault,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors of `live` that no sync has made durable.
    dirty: BTreeSet<usize>,
    /// How often what was written here was forgotten, and what a sync is to say of it.
    forgotten: u64,
    errno: i32,
}

/// An open file description.
#[derive(Clone, Copy, Debug)]
struct Handle {
    /// How many of the inode's errors this open file description has heard of.
    heard: u64,
}

#[derive(Debug)]
pub(super) struct Storage {
    /// Goes up at each cut: requests of an earlier mount reach nothing.
    pub(super) generation: u64,
    pub(super) names: Directory,
    inodes: BTreeMap<u64, Inode>,
    handles: BTreeMap<u64, Handle>,
    /// Whether space can be reserved. Where it cannot, it has to be written.
    pub(super) can_reserve: bool,
    last_number: u64,
    plan: Option<Plan>,
    pub(super) cuts: u64,
    /// Planned faults that have happened.
    pub(super) faults: u64,
    pub(super) rng: Rng,
}

impl Storage {
    pub(super) fn new(seed: u64) -> Self {
        Storage {
            generation: 0,
            names: Directory::default(),
            inodes: BTreeMap::new(),
            handles: BTreeMap::new(),
            can_reserve: true,
            last_number: ROOT,
            plan: None,
            cuts: 0,
            faults: 0,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn plan(&mut self, plan: Option<Plan>) {
        self.plan = plan;
    }

    /// True when the fault that was planned has happened, or none was planned.
    pub(super) fn plan_is_done(&self) -> bool {
        self.plan.is_none()
    }

    /// How many more requests pass before the fault that is planned.
    pub(super) fn requests_before_plan(&self) -> Option<u64> {
        self.plan.map(|plan| plan.requests_before)
    }

    /// Whether the request meets the planned fault. A cut and a kill have happened then; of the others the caller
    /// [says](Self::happened) when they have.
    pub(super) fn meet(&mut self, class: Class) -> Option<Fault> {
        let plan = self.plan.as_mut().filter(|plan| plan.class.is_none_or(|wanted| wanted == class))?;
        if let Some(left) = plan.requests_before.checked_sub(1) {
            plan.requests_before = left;
            return None;
        }
        let fault = plan.fault;
        self.plan = None;
        match fault {
            Fault::Cut => {
                self.cut();
                self.happened();
            }
            Fault::Kill => {
                self.leave_behind();
                self.happened();
            }
            _ => {}
        }
        Some(fault)
    }

    /// The fault that a request has met has been made.
    pub(super) fn happened(&mut self) {
        self.faults += 1;
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn create(&mut self, name: &str) -> u64 {
        let inode = self.number();
        self.inodes.insert(inode, Inode::default());
        self.names.link(name, inode);
        inode
    }

    pub(super) fn open(&mut self, inode: u64) -> Option<u64> {
        let heard = self.inodes.get(&inode)?.forgotten;
        let number = self.number();
        self.handles.insert(number, Handle { heard });
        Some(number)
    }

    pub(super) fn release(&mut self, handle: u64) {
        self.handles.remove(&handle);
    }

    pub(super) fn bytes(&self, inode: u64) -> Option<u64> {
        Some(self.inodes.get(&inode)?.live.len() as u64)
    }

    pub(super) fn resize(&mut self, inode: u64, bytes: usize) -> Option<()> {
        self.inodes.get_mut(&inode)?.live.resize(bytes, 0);
        Some(())
    }

    pub(super) fn read(&self, inode: u64, offset: usize, bytes: usize) -> Option<&[u8]> {
        let live = &self.inodes.get(&inode)?.live;
        let end = offset.saturating_add(bytes).min(live.len());
        Some(live.get(offset..end).unwrap_or_default())
    }

    pub(super) fn write(&mut self, inode: u64, offset: usize, bytes: &[u8]) -> Option<()> {
        let inode = self.inodes.get_mut(&inode)?;
        let end = offset.checked_add(bytes.len())?;
        if inode.live.len() < end {
            inode.live.resize(end, 0);
        }
        inode.live[offset..end].copy_from_slice(bytes);
        inode.dirty.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        Some(())
    }

    /// Forgets what was written and not synced, as file systems do after a write-back that failed: it can still be read.
    pub(super) fn forget(&mut self, inode: u64, errno: i32) {
        if let Some(inode) = self.inodes.get_mut(&inode) {
            inode.dirty.clear();
            inode.forgotten += 1;
            inode.errno = errno;
        }
    }

    /// Makes a file durable, or says what became of it.
    pub(super) fn sync(&mut self, inode: u64, handle: u64) -> Result<(), i32> {
        let inode = self.inodes.get_mut(&inode).ok_or(libc::EIO)?;
        let handle = self.handles.get_mut(&handle).ok_or(libc::EBADF)?;
        let all_heard = std::mem::replace(&mut handle.heard, inode.forgotten) == inode.forgotten;
        inode.durable.resize(inode.live.len(), 0);
        for sector in std::mem::take(&mut inode.dirty) {
            inode.keep(sector);
        }
        if all_heard { Ok(()) } else { Err(inode.errno) }
    }

    /// The power goes: what was not synced is kept or lost by coin, sector by sector and name by name.
    pub(super) fn cut(&mut self) {
        let kept_percent = self.rng.pick(&[0, 10, 50, 90]);
        let rng = &mut self.rng;
        self.names.cut_power(&mut |_| usize::from(rng.percent(kept_percent)));
        let named = self.names.inodes();
        self.inodes.retain(|number, _| named.contains(number));
        for inode in self.inodes.values_mut() {
            inode.cut(&mut self.rng, kept_percent);
        }
        self.leave_behind();
        self.cuts += 1;
    }

    /// As [`cut`](Self::cut), with coins that do not depend on what came before.
    pub(super) fn cut_by(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
        self.cut();
    }

    /// Nothing is reached any more through what is mounted now.
    fn leave_behind(&mut self) {
        self.handles.clear();
        self.plan = None;
        self.generation += 1;
    }
}

impl Inode {
    /// Makes one sector durable, as far as the durable file reaches.
    fn keep(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.live.len()).min(self.durable.len());
        if start < end {
            self.durable[start..end].copy_from_slice(&self.live[start..end]);
        }
    }

    fn cut(&mut self, rng: &mut Rng, kept_percent: u64) {
        if rng.percent(kept_percent) {
            self.durable.resize(self.live.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if rng.percent(kept_percent) {
                self.keep(sector);
            }
        }
        self.live.clone_from(&self.durable);
    }
}
