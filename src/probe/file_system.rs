//! What the log's directory is on, and what to know about it.

use std::fs::File;
use std::path::Path;

use crate::disk::{Disk, LOCK_NAME};

/// A file system by name, with what to know about it.
#[derive(Debug)]
pub(crate) struct FileSystem {
    pub(crate) name: String,
    pub(crate) warnings: Vec<String>,
}

/// How much of the durability a file system leaves to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Syncs do nothing.
    Memory,
    /// Overwrites need space unless copying on write is off.
    CopiesOnWrite,
    /// Syncs do nothing when mounted so.
    Overlay,
    Network,
}

/// `statfs` magic numbers, names and kinds.
const KNOWN: [(u64, &str, Kind); 20] = [
    (0xef53, "ext4", Kind::Plain),
    (0x5846_5342, "xfs", Kind::Plain),
    (0x9123_683e, "btrfs", Kind::CopiesOnWrite),
    (0xf2f5_2010, "f2fs", Kind::Plain),
    (0x2fc1_2fc1, "zfs", Kind::Plain),
    (0xca45_1a4e, "bcachefs", Kind::Plain),
    (0x0102_1994, "tmpfs", Kind::Memory),
    (0x8584_58f6, "ramfs", Kind::Memory),
    (0x794c_7630, "overlay", Kind::Overlay),
    (0x6573_5546, "fuse", Kind::Plain),
    (0x6969, "nfs", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x517b, "smb", Kind::Network),
    (0x0102_1997, "9p", Kind::Network),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x0bd0_0bd0, "lustre", Kind::Network),
    (0x4750_4653, "gpfs", Kind::Network),
    (0x0116_1970, "gfs2", Kind::Network),
    (0x5346_544e, "ntfs", Kind::Plain),
];

const NOT_ASKED: &str = "not known";

impl FileSystem {
    pub(crate) fn of(disk: &dyn Disk) -> Self {
        // A simulated directory is on nothing.
        File::open(disk.path().join(LOCK_NAME))
            .map_or_else(|_| Self::unknown(), |lock| Self::of_file(&lock, disk.path()))
    }

    fn unknown() -> Self {
        FileSystem { name: NOT_ASKED.to_owned(), warnings: Vec::new() }
    }

    /// Of a file that the log has made, or would make, in the directory.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn of_file(file: &File, directory: &Path) -> Self {
        let Ok(magic) = rustix::fs::fstatfs(file).map(|stat| magic_number(stat.f_type)) else {
            return Self::unknown();
        };
        Self::with_magic(magic, file, directory)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn with_magic(magic: u64, file: &File, directory: &Path) -> Self {
        let Some(&(_, name, kind)) = KNOWN.iter().find(|(known, ..)| *known == magic) else {
            return FileSystem { name: format!("{magic:#x}"), warnings: Vec::new() };
        };
        let warning = match kind {
            Kind::Plain => None,
            Kind::Memory => Some(format!("on {name} a sync does nothing: a power cut loses the whole log")),
            Kind::Network => Some(format!(
                "{name} is a network file system: what its syncs and locks are worth is up to the server"
            )),
            Kind::Overlay => is_volatile_overlay(directory).then(|| {
                "this overlay is mounted volatile: a sync does nothing, a power cut may lose the whole log".to_owned()
            }),
            Kind::CopiesOnWrite => (!overwrites_in_place(file)).then(|| {
                format!("{name} copies on write here: overwriting reserved space needs space, so a full disk may poison the log")
            }),
        };
        FileSystem { name: name.to_owned(), warnings: warning.into_iter().collect() }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn of_file(_file: &File, _directory: &Path) -> Self {
        Self::unknown()
    }
}

/// `f_type` is signed or not, 32 or 64 bits wide, by architecture; the number is 32 bits.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn magic_number(f_type: impl TryInto<i64>) -> u64 {
    let wide: i64 = f_type.try_into().unwrap_or_default();
    wide.cast_unsigned() & 0xffff_ffff
}

/// Whether the mount that the path is on says `volatile`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_volatile_overlay(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_path = mounts.lines().filter_map(|line| {
        let point = line.split(' ').nth(4)?;
        path.starts_with(point).then_some((point.len(), line))
    });
    // The deepest mount point is the one the path is on; of equal ones the last is on top. Kernels say it in two ways.
    let is_volatile = |word| matches!(word, "volatile" | "fsync=volatile");
    of_path.max_by_key(|(depth, _)| *depth).is_some_and(|(_, line)| line.split([' ', ',']).any(is_volatile))
}

/// Whether the file is overwritten in place: the log asks for it while it is empty, and is refused where the mount or an
/// attribute says so.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn overwrites_in_place(file: &File) -> bool {
    use rustix::fs::{IFlags, ioctl_getflags};
    ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of the whole program mount the others; these would need a server.
    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn network_file_systems_are_warned_of_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        for (magic, name) in [(0x6969, "nfs"), (0xfe53_4d42, "smb2"), (0x00c3_6400, "ceph")] {
            let known = FileSystem::with_magic(magic, &file, dir.path());
            assert_eq!(known.name, name);
            assert!(known.warnings[0].starts_with(&format!("{name} is a network file system")));
        }
        assert!(FileSystem::with_magic(0xef53, &file, dir.path()).warnings.is_empty());
    }
}
