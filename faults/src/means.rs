//! What the layers need of the machine, found out by doing.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use tempfile::TempDir;

use crate::failure::Trouble;
use crate::loops::{FileSystem, Mount};

const NAMESPACE: &str = "WO_WAL_FAULTS_NAMESPACE";

/// A write beyond the limit for files is to be answered, not to end this program or those it starts.
const WITHOUT_FILE_SIZE_SIGNAL: &str = "trap '' XFSZ; exec \"$@\"";

/// Says visibly that a layer is left out; a failure where `WO_WAL_NO_SKIP` is 1.
pub(crate) fn skip(layer: &str, why: &str) -> ExitCode {
    println!("SKIP {layer}: {why}");
    if std::env::var_os("WO_WAL_NO_SKIP").is_some_and(|value| value == "1") {
        println!("it may not be skipped");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A mount namespace of this program's own, and a directory in memory in it. Mounts and loop devices go with the process.
#[derive(Debug)]
pub(crate) struct Means {
    work: TempDir,
}

impl Means {
    /// Moves this program into the namespace: it starts again there.
    pub(crate) fn find() -> Result<Self, Trouble> {
        if std::env::var_os(NAMESPACE).is_none() {
            let program =
                std::env::current_exe().map_err(|error| Trouble(format!("this program: {error}")))?;
            let mut again = Command::new("unshare");
            again.args(Self::namespace()?).args(["sh", "-c", WITHOUT_FILE_SIZE_SIGNAL, "sh"]);
            again.arg(program).args(std::env::args_os().skip(1)).env(NAMESPACE, "1");
            return Err(Trouble(format!("unshare: {}", again.exec())));
        }
        let work = tempfile::tempdir().map_err(|error| Trouble(format!("a temporary directory: {error}")))?;
        succeeds("mount", &["-t", "tmpfs", "-o", "size=4g", "tmpfs", text(work.path())?])?;
        Ok(Means { work })
    }

    /// How to get one: as root, or else as root of a user namespace, which is enough for file systems in memory.
    fn namespace() -> Result<&'static [&'static str], Trouble> {
        const AS_ROOT: &[&str] = &["--mount"];
        const AS_USER: &[&str] = &["--user", "--map-root-user", "--mount"];
        let works = |arguments: &[&str]| succeeds("unshare", &[arguments, &["true"]].concat());
        works(AS_ROOT).map(|()| AS_ROOT).or_else(|_| works(AS_USER).map(|()| AS_USER))
    }

    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    pub(crate) fn missing_for_fuse() -> Option<String> {
        let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
        device.err().map(|error| format!("/dev/fuse: {error}")).or_else(Self::missing_ring)
    }

    pub(crate) fn missing_for_shutdown(&self) -> Option<String> {
        let all = [FileSystem::Ext4, FileSystem::Xfs];
        all.into_iter()
            .find_map(|one| self.can_shut_down(one).err().map(|Trouble(why)| why))
            .or_else(Self::missing_ring)
    }

    pub(crate) fn missing_for_kernel(&self) -> Option<String> {
        let mounted = Mount::in_memory(1, self.work()).and_then(Mount::unmount);
        mounted
            .and_then(|()| succeeds("strace", &["-o", "/dev/null", "true"]))
            .err()
            .map(|Trouble(why)| why)
            .or_else(Self::missing_ring)
    }

    pub(crate) fn missing_for_recorder(&self) -> Option<String> {
        Self::missing_for_fuse().or_else(|| self.missing_for_full())
    }

    pub(crate) fn missing_for_full(&self) -> Option<String> {
        let all = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
        all.into_iter()
            .find_map(|one| self.can_shut_down(one).err().map(|Trouble(why)| why))
            .or_else(Self::missing_ring)
    }

    /// Makes, mounts and, where that works, shuts down a file system.
    fn can_shut_down(&self, file_system: FileSystem) -> Result<(), Trouble> {
        let image = file_system.make(self.work())?;
        let mounted = Mount::new(&image, self.work())?;
        if file_system.can_be_shut_down() {
            mounted.shut_down()?;
        }
        mounted.unmount()?;
        std::fs::remove_file(image).map_err(|error| Trouble(format!("remove an image: {error}")))
    }

    fn missing_ring() -> Option<String> {
        crate::strategies::Kind::Uring.make().err().map(|error| format!("io_uring: {error}"))
    }
}

impl Drop for Means {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.work.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

pub(crate) fn text(path: &Path) -> Result<&str, Trouble> {
    path.to_str().ok_or_else(|| Trouble(format!("{}: not UTF-8", path.display())))
}

/// Runs a program that must succeed.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> Result<(), Trouble> {
    let line = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| Trouble(format!("{}: {error}", line())))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Trouble(format!("{}: {}", line(), String::from_utf8_lossy(&output.stderr).trim())))
}
