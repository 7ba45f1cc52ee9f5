//! The kernel's part of the probe, and the probe of a directory for people.

use std::fs::File;
use std::path::Path;

use once_cell::sync::OnceCell;

use super::cause::{Refusal, errno_name};
use super::{Io, Selection, Source, URING_PASSED, WO_IO, asker, requested, self_test};
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::probe::FileSystem;
use crate::strategy::Uring;

/// That this kernel gives this process rings. A refusal is not kept: limits and filters differ by thread and by time.
static KERNEL_GIVES_RINGS: OnceCell<()> = OnceCell::new();

/// A ring of one's own, for a log.
pub(super) fn make_ring() -> std::result::Result<Uring, Refusal> {
    KERNEL_GIVES_RINGS.get_or_try_init(|| new_ring().map(drop))?;
    new_ring()
}

fn new_ring() -> std::result::Result<Uring, Refusal> {
    Uring::new().map_err(|failure| Refusal::new(failure.call, failure.source))
}

/// What was found about a directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Probe {
    /// What would run, and why. Its strategy is `none` where opening a log would fail, because [`WO_IO`] asks for what
    /// cannot be had.
    pub selection: Selection,
    /// Each thing that was looked at, in order.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// What was looked at: "`io_uring_setup`", "self-test".
    pub name: String,
    /// Whether it was as the ring needs it.
    pub passed: bool,
    /// What was found, for people.
    pub detail: String,
    /// The errno, where a call failed.
    pub errno: Option<i32>,
}

impl Check {
    fn good(name: &str, detail: impl Into<String>) -> Self {
        Check { name: name.to_owned(), passed: true, detail: detail.into(), errno: None }
    }

    fn bad(name: &str, refusal: &Refusal) -> Self {
        Check { name: name.to_owned(), passed: false, detail: refusal.to_string(), errno: refusal.errno() }
    }
}

/// A file in the directory without a name, so that nothing is left behind however the process ends.
fn scratch_file(dir: &Path) -> Result<File> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(file) = unnamed_file(dir) {
        return Ok(file);
    }
    let named = RealDisk::open(dir).and_then(|disk| {
        let name = format!("wo-wal-probe-{}-{:x}.tmp", std::process::id(), Ids::System.next()?);
        let file = disk.create(&name)?;
        disk.unlink(&name)?;
        Ok(file)
    });
    named.map_err(|source| Error::io("create a file in", dir, source))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn unnamed_file(dir: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    let file =
        std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(dir)?;
    crate::disk::forbid_copy_on_write(&file);
    Ok(file)
}

pub(super) fn probe(dir: &Path) -> Result<Probe> {
    let value = std::env::var_os(WO_IO);
    let (io, source) = requested(value.as_deref(), None)?;
    let scratch = scratch_file(dir)?;
    let file_system = FileSystem::of_file(&scratch, dir);
    let mut checks = vec![Check::good(
        WO_IO,
        value.map_or_else(|| "not set".to_owned(), |value| format!("set to {}", value.display())),
    )];
    let refusal = if io == Io::Fsync { None } else { Some(check_ring(&scratch, &mut checks)) };
    let (strategy, source, reason) = match refusal {
        None => ("fsync", source, format!("fsync, because {} asks for it", asker(source))),
        Some(Ok(())) if io == Io::Uring => {
            ("uring", source, format!("uring, because {} asks for it", asker(source)))
        }
        Some(Ok(())) => ("uring", Source::Auto, URING_PASSED.to_owned()),
        Some(Err(refusal)) if io == Io::Uring => {
            let asker = asker(source);
            ("none", source, format!("none, because uring, which {asker} asks for, cannot be had: {refusal}"))
        }
        Some(Err(refusal)) => ("fsync", Source::Auto, format!("fsync, because {refusal}")),
    };
    let selection = Selection {
        strategy: strategy.to_owned(),
        source,
        reason,
        file_system: file_system.name,
        warnings: file_system.warnings,
    };
    Ok(Probe { selection, checks })
}

fn check_ring(file: &File, checks: &mut Vec<Check>) -> std::result::Result<(), Refusal> {
    let uring = new_ring().inspect_err(|refusal| checks.push(Check::bad("io_uring_setup", refusal)))?;
    checks.push(Check::good("io_uring_setup", "a ring can be made"));
    let tested = self_test::run(&uring, file);
    match &tested {
        Ok(()) => checks
            .push(Check::good("self-test", "a write and its barrier went through the ring and read back")),
        Err(refusal) => checks.push(Check::bad("self-test", refusal)),
    }
    tested
}

/// For the checks' readers: an errno as its symbol.
impl Check {
    /// The errno's symbol, `EPERM`, where a call failed.
    pub fn errno_name(&self) -> Option<String> {
        self.errno.map(errno_name)
    }
}
