//! One directory of files: the seam below segments, recovery and readers.
//!
//! Everything the log does to its directory goes through [`Disk`], except the barrier itself, which a strategy makes on
//! the very [`File`] that came from here. The real directory is `RealDisk`; the simulated one lives with the tests.

use std::any::Any;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags, RawMode, flock, openat, renameat, unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};

use crate::frame::{BLOCK_BYTES, memory_bytes};
use crate::planted::{Fault, planted};
use crate::strategy::process_mark;

/// What the log needs of a directory. Names are plain file names in it.
///
/// Nothing here retries a failed sync, and nothing is durable before the sync that the method's documentation names.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The directory, for messages.
    fn path(&self) -> &Path;

    /// Takes the directory for one writer until the returned value is dropped; `None` when somebody else has it.
    ///
    /// # Errors
    ///
    /// What the system said when `LOCK` could not be opened or locked for another reason.
    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;

    /// The names of all files, in no particular order.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file that must not exist yet, open for reading and writing. The name is durable after
    /// [`sync_directory`](Self::sync_directory).
    ///
    /// # Errors
    ///
    /// What the system said.
    fn create(&self, name: &str) -> io::Result<File>;

    /// Opens an existing file: a new open file description at each call.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn open(&self, name: &str, access: Access) -> io::Result<File>;

    /// The file's length in bytes.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn file_bytes(&self, file: &File) -> io::Result<u64>;

    /// Makes an empty file `bytes` long, reading as zeros, with its space reserved: a later write below that length does
    /// not run out of space. Durable after [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// `StorageFull` or `QuotaExceeded` when there is no room; else what the system said.
    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()>;

    /// Reads until the buffer is full or the file ends; returns how many bytes were read.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first range, from an offset on, that may hold anything but zeros; `None` where there is none up to the file's
    /// end. Behind a range that ends before the file does are zeros, of a block at least. Lets a search pass over space
    /// that is only reserved.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn next_data(&self, file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
        let _ = file;
        Ok(Some(offset..u64::MAX))
    }

    /// A hint that the cache need not keep a range of zeros: reading ahead puts reserved blocks there, and from then on
    /// they count as data in [`next_data`](Self::next_data).
    fn uncache(&self, file: &File, range: Range<u64>) {
        let _ = (file, range);
    }

    /// Writes all the bytes at an offset. Durable after [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// What the system said; a part may have been written.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable. Never used on a description that barriers go through, except by a
    /// reader on its own.
    ///
    /// # Errors
    ///
    /// What the system said. What was written before may be lost then, whatever a later call says.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Renames a file over nothing or over another one. Durable after [`sync_directory`](Self::sync_directory).
    ///
    /// # Errors
    ///
    /// What the system said.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Durable after [`sync_directory`](Self::sync_directory).
    ///
    /// # Errors
    ///
    /// What the system said.
    fn unlink(&self, name: &str) -> io::Result<()>;

    /// Makes all name changes so far durable.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn sync_directory(&self) -> io::Result<()>;
}

/// What an opened file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; works on read-only media.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// The name of the lock file. It is never unlinked: a second opener could otherwise lock another file of that name.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// A directory of the operating system: the one that was opened, also when its path leads elsewhere later, because the
/// program has changed its own directory or somebody has moved this one.
#[derive(Debug)]
pub(crate) struct RealDisk {
    /// For messages.
    path: PathBuf,
    directory: File,
}

impl RealDisk {
    /// Opens a directory, creating it, and its parents, where missing; a created name is durable on return.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        create_directory(path)?;
        Self::open(path)
    }

    /// Opens an existing directory and creates nothing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = OpenOptions::new().read(true).custom_flags(directory_flag()).open(path)?;
        Ok(RealDisk { path: path.to_owned(), directory })
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(NEW_FILE_MODE);
        let file = retry_on_intr(|| openat(&self.directory, name, flags | OFlags::CLOEXEC, mode))?;
        if file.as_raw_fd() < ABOVE_STANDARD_STREAMS {
            return Ok(fcntl_dupfd_cloexec(&file, ABOVE_STANDARD_STREAMS)?.into());
        }
        Ok(file.into())
    }
}

/// In a program that has closed its standard streams, what anybody prints would go into the file with such a number.
const ABOVE_STANDARD_STREAMS: RawFd = 3;
/// What the process's own mask leaves of it: as for any new file.
const NEW_FILE_MODE: RawMode = 0o666;

fn directory_flag() -> i32 {
    rustix::fs::OFlags::DIRECTORY.bits().cast_signed()
}

/// Creates the directory where it is missing. A directory that exists is synced by its owner at open anyway, but its own
/// name may come from a crash right after `mkdir`: the parent is synced in both cases where that is allowed.
fn create_directory(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let parent = absolute.parent();
    match fs::create_dir(&absolute) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = parent else { return Err(error) };
            create_directory(parent)?;
            match fs::create_dir(&absolute) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Err(error) => return Err(error),
    }
    let Some(parent) = parent.filter(|_| !planted(Fault::ParentNotSynced)) else { return Ok(()) };
    match File::open(parent).and_then(|parent| parent.sync_all()) {
        Err(error) if is_not_ours_to_sync(&error) => Ok(()),
        other => other,
    }
}

/// True where this user may not open the directory, or its file system has nothing that could be written out, as with a
/// mount point on a read-only image. Then no name in it was made by this call.
fn is_not_ours_to_sync(error: &io::Error) -> bool {
    let read_only = [Errno::ROFS, Errno::INVAL];
    error.kind() == io::ErrorKind::PermissionDenied
        || read_only.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Disk for RealDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let file = self.open_file(LOCK_NAME, OFlags::RDWR | OFlags::CREATE)?;
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {
                fill_lock(&file);
                Ok(Some(Box::new(DirectoryLock { file, process: process_mark() })))
            }
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            // A name that is not UTF-8 is not one of the log's, nor are the directory itself and the one above it.
            if !["", ".", ".."].contains(&name) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        forbid_copy_on_write(&file);
        Ok(file)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<File> {
        let flags = if access == Access::ReadWrite { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_file(name, flags)
    }

    fn file_bytes(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            Ok(()) => Ok(()),
            // Not every file system can reserve; really written zeros hold their place everywhere.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_zeros(file, bytes),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset.checked_add(filled as u64).ok_or(io::ErrorKind::InvalidInput)?;
            match file.read_at(&mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn next_data(&self, file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        // Where the file system does not tell, for whatever reason, everything is to be read, and a read says what is wrong.
        let start = match seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(_) => offset,
        };
        let end = seek(file, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
        Ok(Some(start..end))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn uncache(&self, file: &File, range: Range<u64>) {
        let bytes = range.end.checked_sub(range.start).and_then(NonZeroU64::new);
        if let Some(bytes) = bytes {
            let _ = rustix::fs::fadvise(file, range.start, Some(bytes), rustix::fs::Advice::DontNeed);
        }
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.directory, from, &self.directory, to)?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

/// Writes zeros from the start of an empty file.
fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    const STEP: usize = 64 * memory_bytes(BLOCK_BYTES);
    let zeros = vec![0; STEP];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(STEP as u64);
        file.write_all(&zeros[..memory_bytes(step)])?;
        left -= step;
    }
    Ok(())
}

/// Asks btrfs to overwrite in place, which must be done while the file is empty: only then does overwriting a reserved
/// block need no space. Refused by file systems that always do, which is fine.
pub(crate) fn forbid_copy_on_write(file: &File) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(flags) = rustix::fs::ioctl_getflags(file) {
        use rustix::fs::{IFlags, fstatfs};
        const BTRFS_SUPER_MAGIC: u64 = 0x9123_683e;
        if fstatfs(file).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(BTRFS_SUPER_MAGIC)) {
            let _ = rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW);
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = file;
}

/// Gives a new `LOCK` file the block that the self-test of a strategy writes again at each open. Where there is no space
/// for it now, the self-test knows how to do without.
fn fill_lock(file: &File) {
    const TEXT: &[u8] =
        b"wo-wal: locked while the log in this directory is open for writing. Do not remove.\n";
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        forbid_copy_on_write(file);
        let mut block = vec![b'\n'; memory_bytes(BLOCK_BYTES)];
        block[..TEXT.len()].copy_from_slice(TEXT);
        let _ = file.write_all_at(&block, 0);
    }
}

/// The lock on a directory: `flock` on its `LOCK` file, so the kernel releases it when the process dies.
#[derive(Debug)]
struct DirectoryLock {
    file: File,
    /// The process that took the lock. A forked child shares the open file description and must not unlock it.
    process: u32,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.process == process_mark() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}
