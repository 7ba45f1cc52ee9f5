//! The kernel's part of the probe, and the probe of a directory for people.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use once_cell::sync::OnceCell;

use super::cause::{Refusal, errno_name};
use super::{Io, Selection, Source, WO_IO, asker, requested, self_test};
use crate::error::{Error, Result};
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
    /// What would run, and why.
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

/// The scratch file of a probe: removed when it goes out of scope.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn create(dir: &Path) -> Result<Self> {
        let path = dir.join(format!("wo-wal-probe-{}.tmp", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|source| Error::io("create", &path, source))?;
        Ok(Scratch { path, file })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(super) fn probe(dir: &Path) -> Result<Probe> {
    let value = std::env::var_os(WO_IO);
    let (io, source) = requested(value.as_deref(), None)?;
    let scratch = Scratch::create(dir)?;
    let directory = File::open(dir).map_err(|source| Error::io("open directory", dir, source))?;
    let file_system = FileSystem::of_directory(&directory, dir);
    let mut checks = vec![Check::good(
        WO_IO,
        value.map_or_else(|| "not set".to_owned(), |value| format!("set to {}", value.display())),
    )];
    let refusal = if io == Io::Fsync { None } else { Some(check_ring(&scratch.file, &mut checks)) };
    let (strategy, source, reason) = match refusal {
        None => ("fsync", source, format!("fsync, because {} asks for it", asker(source))),
        Some(Ok(())) if io == Io::Uring => {
            ("uring", source, format!("uring, because {} asks for it", asker(source)))
        }
        Some(Ok(())) => {
            ("uring", Source::Auto, "uring, because the self-test went through the ring".to_owned())
        }
        Some(Err(refusal)) if io == Io::Uring => {
            ("none", source, format!("opening a log would fail: uring cannot be had: {refusal}"))
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
