//! The directory as the log uses it.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use rustix::io::Errno;
use wo_wal::disk::{Access, Disk};

use super::directory::InodeNumber;
use super::faults::Refusal;
use super::{Description, Machine, State};

#[derive(Debug)]
pub(super) struct SimDisk {
    machine: Arc<Machine>,
    life: u64,
}

/// The lock on the directory; it ends with the process that took it.
struct Lock {
    machine: Arc<Machine>,
    number: u64,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.machine.lock();
        if state.lock_holder == Some(self.number) {
            state.lock_holder = None;
        }
    }
}

impl SimDisk {
    pub(super) fn new(machine: Arc<Machine>, life: u64) -> Self {
        SimDisk { machine, life }
    }

    /// Starts a call on a file, which is one of this disk's.
    fn enter_file<'a>(&'a self, file: &File, what: &str) -> io::Result<Entered<'a>> {
        let mut state = self.machine.lock();
        let fd = file.as_raw_fd();
        let known = state.description(fd, file);
        let verdict = state.enter(self.life, || format!("{what} {}", describe(fd, &known)));
        // A dead process's files are forgotten already.
        if matches!(verdict, Err(Refusal::Dead)) {
            return Err(Refusal::Dead.into());
        }
        Ok(Entered { state, fd, description: known?, verdict })
    }
}

struct Entered<'a> {
    state: MutexGuard<'a, State>,
    fd: RawFd,
    description: Description,
    verdict: Result<(), Refusal>,
}

impl Disk for SimDisk {
    fn path(&self) -> &Path {
        Path::new("/simulated")
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let mut state = self.machine.lock();
        state.enter(self.life, || "lock".to_owned())?;
        if state.lock_holder.is_some() {
            return Ok(None);
        }
        state.locks_made += 1;
        let number = state.locks_made;
        state.lock_holder = Some(number);
        Ok(Some(Box::new(Lock { machine: self.machine.clone(), number })))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.machine.lock();
        state.enter(self.life, || "list".to_owned())?;
        // In an order that is of no use to anybody.
        let mut names: Vec<_> = state.directory.names().cloned().collect();
        names.reverse();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut state = self.machine.lock();
        state.enter_change(self.life, || format!("create {name}"))?;
        if state.directory.get(name).is_some() {
            return Err(Errno::EXIST.into());
        }
        let inode = state.make_inode(name)?;
        state.new_description(inode, Access::ReadWrite)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<File> {
        let mut state = self.machine.lock();
        state.enter(self.life, || format!("open {name}"))?;
        let inode = state.directory.get(name).ok_or(Errno::NOENT)?;
        state.new_description(inode, access)
    }

    fn file_bytes(&self, file: &File) -> io::Result<u64> {
        let mut entered = self.enter_file(file, "file_bytes")?;
        entered.verdict?;
        Ok(entered.state.inode(entered.description.inode).cache().len() as u64)
    }

    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        let Entered { mut state, description, verdict, .. } =
            self.enter_file(file, &format!("reserve {bytes} for"))?;
        state.note_change();
        verdict?;
        let now = state.inode(description.inode).cache().len() as u64;
        if bytes.saturating_sub(now) > state.free_bytes() {
            return Err(Errno::NOSPC.into());
        }
        state.inode(description.inode).reserve(usize::try_from(bytes).map_err(|_| Errno::FBIG)?)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.enter_file(file, "read")?.verdict?;
        // The file in memory, so that what is read is what a strategy's system calls wrote.
        let mut filled = 0;
        while filled < buffer.len() {
            let read = file.read_at(&mut buffer[filled..], offset + filled as u64)?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(filled)
    }

    fn next_data(&self, file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
        let Entered { mut state, description, verdict, .. } = self.enter_file(file, "next_data")?;
        verdict?;
        Ok(state.inode(description.inode).next_data(offset))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let what = format!("write {} at {offset} of", bytes.len());
        let Entered { mut state, description, verdict, .. } = self.enter_file(file, &what)?;
        state.note_change();
        state.write(verdict, description.inode, offset, bytes)?;
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.machine.lock();
        let fd = file.as_raw_fd();
        let known = state.description(fd, file);
        let verdict = state.enter_sync(self.life, || format!("sync {}", describe(fd, &known)));
        if let Err(refusal @ (Refusal::Dead | Refusal::Dies)) = verdict {
            return Err(refusal.into());
        }
        let description = known?;
        match verdict {
            Ok(()) => state.inode(description.inode).make_all_stable(),
            Err(_) => state.fail_write_back(description.inode),
        }
        let report = state.report(fd, description);
        verdict?;
        report
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.machine.lock();
        state.enter_change(self.life, || format!("rename {from} to {to}"))?;
        Ok(state.directory.rename(from, to).ok_or(Errno::NOENT)?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let mut state = self.machine.lock();
        state.enter_change(self.life, || format!("unlink {name}"))?;
        Ok(state.directory.unlink(name).ok_or(Errno::NOENT)?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.machine.lock();
        state.enter_sync(self.life, || "sync the directory".to_owned())?;
        state.directory.sync();
        Ok(())
    }
}

impl State {
    fn new_description(&mut self, number: InodeNumber, access: Access) -> io::Result<File> {
        let inode = self.inode(number);
        let path = format!("/proc/self/fd/{}", inode.memory().as_raw_fd());
        let errors_seen = inode.write_back_errors;
        let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path)?;
        self.descriptions.insert(file.as_raw_fd(), Description { inode: number, errors_seen });
        Ok(file)
    }

    /// What the disk knows about an open file. Fails for a duplicated descriptor: the log must not make any, because the
    /// copies share one description.
    pub(super) fn description(&self, fd: RawFd, file: impl AsFd) -> io::Result<Description> {
        let memory_number = rustix::fs::fstat(file)?.st_ino;
        let known = self.descriptions.get(&fd).copied();
        known.filter(|known| self.by_memory.get(&memory_number) == Some(&known.inode)).ok_or_else(|| {
            io::Error::other("a file that the simulated disk has not handed out to this process")
        })
    }

    pub(super) fn fail_write_back(&mut self, number: InodeNumber) {
        let mut rng = self.rng.clone();
        self.inode(number).fail_write_back(&mut rng);
        self.rng = rng;
    }
}

pub(super) fn describe(fd: RawFd, known: &io::Result<Description>) -> String {
    match known {
        Ok(description) => format!("inode {} (descriptor {fd})", description.inode),
        Err(_) => format!("unknown descriptor {fd}"),
    }
}
