//! Real file systems on loop devices.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::Trouble;
use crate::means::{succeeds, text};

/// How long a killed process's last files may keep a mount.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The smallest that its mkfs makes without complaint, and that holds the logs of this program.
    fn image_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 48 << 20,
            FileSystem::Xfs => 320 << 20,
            FileSystem::Btrfs => 128 << 20,
        }
    }

    /// True where the shutdown request works.
    pub(crate) fn can_be_shut_down(self) -> bool {
        self != FileSystem::Btrfs
    }

    /// A new file system in a new image file.
    pub(crate) fn make(self, work: &Path) -> Result<PathBuf, Trouble> {
        let (_, image) = tempfile::Builder::new()
            .prefix("image")
            .tempfile_in(work)
            .and_then(|file| file.keep().map_err(Into::into))
            .map_err(|error| Trouble(format!("an image file: {error}")))?;
        let file = File::options().write(true).open(&image);
        file.and_then(|file| file.set_len(self.image_bytes()))
            .map_err(|error| Trouble(format!("an image: {error}")))?;
        succeeds(&format!("mkfs.{}", self.name()), &["-q", text(&image)?])?;
        Ok(image)
    }
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    dir: TempDir,
    is_mounted: bool,
}

impl Mount {
    pub(crate) fn new(image: &Path, work: &Path) -> Result<Self, Trouble> {
        Self::with(&["-o", "loop", text(image)?], work)
    }

    /// As [`new`](Self::new), with a file system that never asks its device to write out its cache.
    pub(crate) fn without_flushes(image: &Path, work: &Path) -> Result<Self, Trouble> {
        Self::with(&["-o", "loop,nobarrier", text(image)?], work)
    }

    /// A file system in memory.
    pub(crate) fn in_memory(mebibytes: u32, work: &Path) -> Result<Self, Trouble> {
        Self::with(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"], work)
    }

    fn with(arguments: &[&str], work: &Path) -> Result<Self, Trouble> {
        let dir = tempfile::tempdir_in(work).map_err(|error| Trouble(format!("a directory: {error}")))?;
        succeeds("mount", &[arguments, &[text(dir.path())?]].concat())?;
        Ok(Mount { dir, is_mounted: true })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the log is.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Stops the file system at once: what it has not sent to its device never gets there.
    pub(crate) fn shut_down(&self) -> Result<(), Trouble> {
        let directory =
            File::open(self.dir.path()).map_err(|error| Trouble(format!("open to shut down: {error}")))?;
        shut_down(&directory).map_err(|error| Trouble(format!("shut down: {error}")))
    }

    /// Unmounts, once whoever was killed there is gone: two mounts of one image at once would damage it.
    pub(crate) fn unmount(mut self) -> Result<(), Trouble> {
        self.try_unmount()
    }

    fn try_unmount(&mut self) -> Result<(), Trouble> {
        let start = Instant::now();
        loop {
            match rustix::mount::unmount(self.dir.path(), rustix::mount::UnmountFlags::empty()) {
                Ok(()) => {
                    self.is_mounted = false;
                    return Ok(());
                }
                Err(errno) if start.elapsed() > PATIENCE => return Err(Trouble(format!("unmount: {errno}"))),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted && self.try_unmount().is_err() {
            // Better left behind than its files removed with the directory.
            self.dir.disable_cleanup(true);
        }
    }
}

#[allow(unsafe_code, reason = "no safe call makes this request")]
fn shut_down(directory: &File) -> std::io::Result<()> {
    /// `_IOR('X', 125, u32)`; ext4 takes the request of XFS.
    const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
    // The log of the file system is not written out first.
    let no_log_flush: u32 = 2;
    // SAFETY: the request reads one u32 behind the pointer, which lives across the call.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN, &raw const no_log_flush) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
