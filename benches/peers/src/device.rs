//! The machine: how busy it is, and what the block device below the data was really asked to flush.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the kernel's count of completed flushes is in a device's `stat`, from 0.
const FLUSHES_FIELD: usize = 15;

/// The device's own count of flushes, of everybody on this machine. It tells a peer that syncs from one that says so.
#[derive(Debug)]
pub(crate) struct Flushes {
    stat: PathBuf,
}

impl Flushes {
    /// Of the device of this directory. `None` where the file system is not on one device that counts.
    pub(crate) fn below(directory: &Path) -> Option<Flushes> {
        let device = rustix::fs::stat(directory).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        // Flushes are counted for the whole disk, not for its partitions.
        let disk = if device.join("partition").exists() { device.join("..") } else { device };
        let flushes = Flushes { stat: disk.join("stat") };
        flushes.read().map(|_| flushes)
    }

    fn read(&self) -> Option<u64> {
        std::fs::read_to_string(&self.stat).ok()?.split_whitespace().nth(FLUSHES_FIELD)?.parse().ok()
    }

    pub(crate) fn completed(&self) -> u64 {
        self.read().unwrap()
    }
}

/// Waits until the file system of this path owes its device nothing, so that neither what the peer before left behind nor
/// what this one prepared is written on the clock.
pub(crate) fn settle(path: &Path) {
    rustix::fs::syncfs(File::open(path).unwrap()).unwrap();
}

/// Of the last minute: whether somebody else needs the machine too.
pub(crate) fn load_average() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("unknown").to_owned()
}
