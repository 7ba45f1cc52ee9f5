//! A simulated disk under the log: everything that the design assumes of the machine, and no more.
//!
//! Files are real files in memory, so the log reads them, and a real strategy writes and syncs them, with the system
//! calls it always uses; what would be left after a power cut is kept beside them. Which faults it makes:
//!
//! * a power cut ([`Sim::power_cut`]): of each sector written since its last barrier, the old bytes or any version since
//!   may be there, each by its own coin; so may each name change since the last directory sync; a reservation that was
//!   never synced may be gone;
//! * the end of a process ([`Sim::kill`], [`Sim::crash_after`]): the page cache stays, the call it dies in has done a part
//!   of its work, nothing it does afterwards reaches the disk, its lock is free;
//! * a failing call ([`Sim::fail_after`], [`Sim::fail_syncs`]): a failed sync leaves clean pages that read as the new bytes
//!   while some of the old ones are below, and tells each open file description once;
//! * a full disk ([`Sim::take_free_space`]): a neighbour holds every byte that the log has not reserved;
//! * a barrier that hangs between its write and its sync ([`Sim::gate`]).
//!
//! A barrier makes the sectors of its own extent stable and nothing else: less than `fdatasync` does, all that the
//! contract of a strategy promises.

mod barrier;
mod directory;
mod disk;
mod faults;
mod inode;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use wo_wal::SyncStrategy;
use wo_wal::disk::Disk;

pub(crate) use barrier::SimStrategy;
use directory::{Directory, InodeNumber};
pub(crate) use faults::Fault;
use faults::{Faults, Refusal};
use inode::Inode;

use crate::support::gate::Gate;
use crate::support::rng::Rng;

/// The machine: a disk, and the processes that use it one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Sim {
    machine: Arc<Machine>,
}

#[derive(Debug)]
struct Machine {
    state: Mutex<State>,
    /// Where every barrier passes between its write and its sync. Open once the process has ended.
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct State {
    gate: Arc<Gate>,
    directory: Directory,
    inodes: BTreeMap<InodeNumber, Inode>,
    /// Whose memory file this is, by the number that `fstat` gives.
    by_memory: HashMap<u64, InodeNumber>,
    descriptions: HashMap<RawFd, Description>,
    inodes_made: InodeNumber,
    writes: u64,
    rng: Rng,
    /// Which process is running; handles of the earlier ones reach nothing any more.
    life: u64,
    lock_holder: Option<u64>,
    locks_made: u64,
    total_bytes: u64,
    neighbour_bytes: u64,
    faults: Faults,
    calls: u64,
    /// The numbers of the calls that change something: those that write, reserve, sync, or change a name.
    changes: Vec<u64>,
    /// The last calls, for a failed test's message.
    trace: VecDeque<String>,
}

/// An open file description, as the disk knows it.
#[derive(Clone, Copy, Debug)]
struct Description {
    inode: InodeNumber,
    errors_seen: u64,
}

const TRACED_CALLS: usize = 40;

impl Sim {
    /// A machine with an empty directory and more space than any test needs.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_space(seed, 1 << 40)
    }

    /// A machine whose disk has room for so many bytes in files.
    pub(crate) fn with_space(seed: u64, total_bytes: u64) -> Self {
        let gate = Arc::new(Gate::default());
        let state = State {
            gate: gate.clone(),
            directory: Directory::default(),
            inodes: BTreeMap::new(),
            by_memory: HashMap::new(),
            descriptions: HashMap::new(),
            inodes_made: 0,
            writes: 0,
            rng: Rng::new(seed),
            life: 0,
            lock_holder: None,
            locks_made: 0,
            total_bytes,
            neighbour_bytes: 0,
            faults: Faults::default(),
            calls: 0,
            changes: Vec::new(),
            trace: VecDeque::new(),
        };
        Sim { machine: Arc::new(Machine { state: Mutex::new(state), gate }) }
    }

    /// The directory, for the process that runs now.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(disk::SimDisk::new(self.machine.clone(), self.lock().life))
    }

    /// A barrier for the process that runs now: `inner` makes its system calls on the memory files, and what they answer
    /// decides about the simulated disk.
    pub(crate) fn strategy(&self, inner: Arc<dyn SyncStrategy>) -> SimStrategy {
        SimStrategy::new(self.machine.clone(), self.lock().life, inner)
    }

    /// Where every barrier passes between its write and its sync.
    pub(crate) fn gate(&self) -> &Gate {
        &self.machine.gate
    }

    /// How many calls the disk has taken: each [`Disk`] call is one, a barrier is two (its write and its sync).
    pub(crate) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// The numbers of the calls so far that change something. A process that ends between two of them leaves the same,
    /// wherever that is.
    pub(crate) fn changes(&self) -> Vec<u64> {
        self.lock().changes.clone()
    }

    /// The call after `calls` more ones fails, once or with all that follow it.
    pub(crate) fn fail_after(&self, calls: u64, fault: Fault) {
        let mut state = self.lock();
        let at = state.calls + calls + 1;
        state.faults.fail(at, fault);
    }

    /// So many of a hundred syncs fail, those of barriers, files and directories.
    pub(crate) fn fail_syncs(&self, percent: u64) {
        self.lock().faults.failing_syncs_percent = percent;
    }

    /// The process ends inside the call after `calls` more ones. Drop what it had open, then cut the power or `kill`.
    pub(crate) fn crash_after(&self, calls: u64) {
        let mut state = self.lock();
        state.faults.crash_at = Some(state.calls + calls + 1);
    }

    /// The process ends now: no call of it does anything any more.
    pub(crate) fn crash(&self) {
        self.lock().faults.dead = true;
        self.machine.gate.open();
    }

    /// True when a fault that was asked for has happened: a call failed, or the process has ended.
    pub(crate) fn fault_happened(&self) -> bool {
        let state = self.lock();
        state.faults.happened || state.faults.dead
    }

    /// Takes back every fault that was asked for.
    pub(crate) fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Ends the process; the machine and its page cache stay.
    pub(crate) fn kill(&self) {
        self.next_life(|state| {
            for inode in state.inodes.values_mut() {
                inode.detach()?;
            }
            Ok(())
        });
    }

    /// Ends the process and takes away whatever the disk does not hold. The seed decides what that is.
    pub(crate) fn power_cut(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        self.cut_power(|choices| rng.index(choices));
    }

    /// Among how many outcomes a power cut chooses now for each change of a name, each sector and each length that no sync
    /// has made stable.
    pub(crate) fn undecided(&self) -> Vec<usize> {
        self.lock().undecided()
    }

    /// Ends the process as a power cut does, with these outcomes, in the order of [`undecided`](Self::undecided): 0 is
    /// the old state.
    pub(crate) fn power_cut_with(&self, outcomes: &[usize]) {
        let mut outcomes = outcomes.iter();
        self.cut_power(|choices| {
            let outcome = *outcomes.next().expect("an outcome for everything undecided");
            assert!(outcome < choices, "outcome {outcome} of {choices}");
            outcome
        });
        assert!(outcomes.next().is_none(), "more outcomes than there is to decide");
    }

    fn cut_power(&self, mut choose: impl FnMut(usize) -> usize) {
        self.next_life(|state| {
            state.forget_unreachable();
            state.directory.cut_power(&mut choose);
            state.inodes.values_mut().try_for_each(|inode| inode.cut_power(&mut choose))?;
            state.forget_unreachable();
            Ok(())
        });
    }

    /// A number for what is on the disk and in the page cache, equal for equal states.
    pub(crate) fn fingerprint(&self) -> u64 {
        let state = self.lock();
        let mut hasher = DefaultHasher::new();
        state.directory.hash(&mut hasher);
        state.neighbour_bytes.hash(&mut hasher);
        for (number, inode) in &state.inodes {
            if state.directory.reaches(*number) {
                number.hash(&mut hasher);
                inode.hash_into(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Another machine with the same disk and page cache, and no process on it.
    pub(crate) fn copy(&self) -> Self {
        let state = self.lock();
        let copy = Self::with_space(state.rng.clone().next(), state.total_bytes);
        {
            let mut copied = copy.lock();
            copied.directory = state.directory.clone();
            copied.neighbour_bytes = state.neighbour_bytes;
            copied.inodes_made = state.inodes_made;
            copied.writes = state.writes;
            for (number, inode) in &state.inodes {
                copied.inodes.insert(*number, inode.copy().expect("memory for files"));
            }
            copied.index_memory().expect("memory files have numbers");
        }
        copy
    }

    /// A neighbour takes every byte that is free.
    pub(crate) fn take_free_space(&self) {
        let mut state = self.lock();
        state.neighbour_bytes += state.free_bytes();
    }

    /// The neighbour goes.
    pub(crate) fn give_space_back(&self) {
        self.lock().neighbour_bytes = 0;
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.lock().free_bytes()
    }

    /// The names a process sees, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().directory.names().cloned().collect()
    }

    /// A file's bytes as a process sees them.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.inodes[&state.directory.get(name).expect("a file of that name")].cache().to_vec()
    }

    /// Puts other bytes into a file, on the disk and in the page cache; makes the file where there is none.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        let mut state = self.lock();
        if state.directory.get(name).is_none() {
            state.make_inode(name).expect("memory for a file");
            state.directory.sync();
        }
        let number = state.directory.get(name).expect("a file of that name");
        state.inodes.get_mut(&number).expect("its inode").replace(bytes).expect("memory for a file");
    }

    /// Removes a file, on the disk too.
    pub(crate) fn remove(&self, name: &str) {
        let mut state = self.lock();
        state.directory.sync();
        state.directory.unlink(name).expect("a file of that name");
        state.directory.sync();
    }

    /// What the disk was asked last, for messages.
    pub(crate) fn trace(&self) -> String {
        let state = self.lock();
        let lines: Vec<_> = state.trace.iter().map(|line| format!("    {line}\n")).collect();
        format!("the last calls to the disk:\n{}", lines.concat())
    }

    fn next_life(&self, change: impl FnOnce(&mut State) -> io::Result<()>) {
        {
            let mut state = self.lock();
            state.life += 1;
            state.lock_holder = None;
            state.descriptions.clear();
            state.faults.clear();
            change(&mut state).expect("memory for files");
            state.index_memory().expect("memory files have numbers");
        }
        self.machine.gate.open();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.machine.lock()
    }
}

impl Machine {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the simulated disk panicked earlier")
    }
}

impl State {
    /// The start of every call. An error says that the call fails, or that its process has ended.
    fn enter(&mut self, life: u64, what: impl FnOnce() -> String) -> Result<(), Refusal> {
        if life != self.life || self.faults.dead {
            return Err(Refusal::Dead);
        }
        self.calls += 1;
        let verdict = self.faults.verdict(self.calls);
        if self.trace.len() == TRACED_CALLS {
            self.trace.pop_front();
        }
        if let Err(Refusal::Dies) = verdict {
            self.gate.open();
        }
        let outcome = match verdict {
            Ok(()) => String::new(),
            Err(refusal) => format!(" -> {refusal:?}"),
        };
        self.trace.push_back(format!("{}: {}{outcome}", self.calls, what()));
        verdict
    }

    /// As [`enter`](Self::enter), for a call that changes something.
    fn enter_change(&mut self, life: u64, what: impl FnOnce() -> String) -> Result<(), Refusal> {
        let verdict = self.enter(life, what);
        if !matches!(verdict, Err(Refusal::Dead)) {
            self.note_change();
        }
        verdict
    }

    /// The call that has just started changes something.
    fn note_change(&mut self) {
        self.changes.push(self.calls);
    }

    /// As [`enter`](Self::enter), for a sync.
    fn enter_sync(&mut self, life: u64, what: impl FnOnce() -> String) -> Result<(), Refusal> {
        self.enter_change(life, what)?;
        if self.faults.failing_syncs_percent > 0 && self.rng.percent(self.faults.failing_syncs_percent) {
            self.faults.happened = true;
            if let Some(line) = self.trace.back_mut() {
                line.push_str(" -> fails");
            }
            return Err(Refusal::Fails(Errno::IO));
        }
        Ok(())
    }

    fn make_inode(&mut self, name: &str) -> io::Result<InodeNumber> {
        let inode = Inode::new()?;
        self.inodes_made += 1;
        self.by_memory.insert(inode.memory_number()?, self.inodes_made);
        self.inodes.insert(self.inodes_made, inode);
        self.directory.link(name, self.inodes_made);
        Ok(self.inodes_made)
    }

    fn undecided(&mut self) -> Vec<usize> {
        self.forget_unreachable();
        let names = std::iter::repeat_n(2, self.directory.undecided());
        names.chain(self.inodes.values().flat_map(Inode::undecided)).collect()
    }

    /// Drops the files that no name leads to, whatever a power cut does.
    fn forget_unreachable(&mut self) {
        let directory = &self.directory;
        self.inodes.retain(|number, _| directory.reaches(*number));
    }

    fn index_memory(&mut self) -> io::Result<()> {
        self.by_memory.clear();
        for (number, inode) in &self.inodes {
            self.by_memory.insert(inode.memory_number()?, *number);
        }
        Ok(())
    }

    fn inode(&mut self, number: InodeNumber) -> &mut Inode {
        self.inodes.get_mut(&number).expect("a description's inode")
    }

    /// Writes through a description. An error of the call leaves a part of it done.
    fn write(
        &mut self,
        verdict: Result<(), Refusal>,
        number: InodeNumber,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<u64> {
        let offset = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let grows_by = (offset + bytes.len()).saturating_sub(self.inode(number).cache().len()) as u64;
        let bytes = match verdict {
            Ok(()) => bytes,
            // Cut off before a sector, or not begun.
            Err(Refusal::Dies | Refusal::Fails(_)) if grows_by == 0 && !bytes.is_empty() => {
                let sector = inode::SECTOR_BYTES;
                let whole = self.rng.index(inode::sectors(offset, bytes.len()).len());
                &bytes[..(whole * sector).saturating_sub(offset % sector)]
            }
            Err(_) => &[],
        };
        if verdict.is_ok() && grows_by > self.free_bytes() {
            return Err(Errno::NOSPC.into());
        }
        self.writes += 1;
        let write = self.writes;
        if !bytes.is_empty() {
            self.inode(number).write(write, offset, bytes)?;
        }
        verdict?;
        Ok(write)
    }

    /// Gives a write-back error to a description that has not heard of it, once.
    fn report(&mut self, fd: RawFd, description: Description) -> io::Result<()> {
        let errors = self.inode(description.inode).write_back_errors;
        let Some(known) = self.descriptions.get_mut(&fd) else { return Ok(()) };
        if known.errors_seen < errors {
            known.errors_seen = errors;
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    fn free_bytes(&self) -> u64 {
        let used: usize =
            self.directory.inodes().iter().map(|number| self.inodes[number].cache().len()).sum();
        self.total_bytes.saturating_sub(self.neighbour_bytes).saturating_sub(used as u64)
    }
}
