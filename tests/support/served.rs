//! What the file systems that tests serve themselves have in common: one directory of files that anybody may use.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType};

/// The directory's inode number.
pub(crate) const ROOT: u64 = 1;
pub(crate) const FOPEN_DIRECT_IO: u32 = 1;
/// How long the kernel may remember names and attributes.
pub(crate) const NO_TIME: Duration = Duration::ZERO;

/// The attributes of a file of so many bytes, or of the directory.
pub(crate) fn attributes(ino: u64, size: u64) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    let kind = if ino == ROOT { FileType::Directory } else { FileType::RegularFile };
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
