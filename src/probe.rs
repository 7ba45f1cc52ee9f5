//! Which strategy runs, and why: the environment, the kernel, and a self-test in the log's own directory.
//!
//! This is the only reader of the environment. The choice is made once, at open, before the first ack.

mod cause;
mod file_system;
mod kernel;
mod self_test;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

pub(crate) use file_system::FileSystem;
pub use kernel::{Check, Probe};

use crate::disk::{Access, Disk, LOCK_NAME};
use crate::error::{Error, Result};
use crate::strategy::{Fsync, SyncStrategy};

/// The environment variable that says how barriers are made, for one run.
///
/// `auto` (or empty, or unset): `uring` where a self-test in the log's directory passes, else `fsync`. `uring`: that, or
/// an error at open that says why not. `fsync`, also spelled `epoll`: `pwrite` + `fdatasync`, and no `io_uring` system
/// call at all. Anything else is an error at open.
pub const WO_IO: &str = "WO_IO";

/// How barriers are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// `uring` where a self-test in the log's directory passes, else `fsync`.
    #[default]
    Auto,
    /// [`Uring`](crate::strategy::Uring), or an error at open that says why not.
    Uring,
    /// [`Fsync`], without any `io_uring` system call.
    Fsync,
}

/// Which strategy an open log uses, and why. Chosen once, at open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The strategy's [name](crate::SyncStrategy::name).
    pub strategy: String,
    /// Who chose it.
    pub source: Source,
    /// Why, for people: one sentence that begins with the strategy's name.
    pub reason: String,
    /// What the log's directory is on: `ext4`, `xfs`, `tmpfs`; a number where the name is not known.
    pub file_system: String,
    /// What to know about that file system: where syncs do nothing, where a full disk may poison the log.
    pub warnings: Vec<String>,
}

/// Who chose the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The environment variable [`WO_IO`].
    Env,
    /// The program, with [`Options::io`](crate::Options::io).
    Options,
    /// The program, with a strategy of its own: [`Options::strategy`](crate::Options::strategy). The environment was not
    /// read.
    Object,
    /// The log itself.
    Auto,
}

/// A strategy and why it was chosen.
pub(crate) type Chosen = (Arc<dyn SyncStrategy>, Selection);

/// Chooses the strategy for a log whose lock is held. The environment beats the option; a strategy object beats both.
pub(crate) fn choose(
    disk: &dyn Disk,
    object: Option<Arc<dyn SyncStrategy>>,
    option: Option<Io>,
) -> Result<Chosen> {
    let file_system = FileSystem::of(disk);
    let chosen = match object {
        Some(strategy) => {
            let reason = format!("{}, because the program passed it in", strategy.name());
            (strategy, Source::Object, reason)
        }
        None => by_name(disk, option)?,
    };
    let (strategy, source, reason) = chosen;
    let selection = Selection {
        strategy: strategy.name().to_owned(),
        source,
        reason,
        file_system: file_system.name,
        warnings: file_system.warnings,
    };
    for warning in &selection.warnings {
        log::warn!("write-ahead log in {}: {warning}", disk.path().display());
    }
    Ok((strategy, selection))
}

/// Whether the environment variable, if it is set, says something.
pub(crate) fn check_variable(option: Option<Io>) -> Result<()> {
    requested(std::env::var_os(WO_IO).as_deref(), option).map(drop)
}

fn by_name(disk: &dyn Disk, option: Option<Io>) -> Result<(Arc<dyn SyncStrategy>, Source, String)> {
    let (io, source) = requested(std::env::var_os(WO_IO).as_deref(), option)?;
    if io == Io::Fsync {
        let reason = format!("fsync, because {} asks for it", asker(source));
        return Ok((Arc::new(Fsync::new()), source, reason));
    }
    match (self_test::uring_on_lock_block(disk), io) {
        (Ok(uring), Io::Uring) => {
            Ok((Arc::new(uring), source, format!("uring, because {} asks for it", asker(source))))
        }
        (Ok(uring), _) => Ok((Arc::new(uring), Source::Auto, URING_PASSED.to_owned())),
        (Err(refusal), Io::Uring) => Err(Error::StrategyUnavailable {
            reason: format!("uring, which {} asks for, cannot be had: {refusal}", asker(source)),
        }),
        (Err(refusal), _) => Ok((Arc::new(Fsync::new()), Source::Auto, format!("fsync, because {refusal}"))),
    }
}

/// Why the log itself takes the ring.
const URING_PASSED: &str = "uring, because a write and its barrier went through the ring in this directory";

fn asker(source: Source) -> &'static str {
    match source {
        Source::Env => "the environment variable WO_IO",
        _ => "the program",
    }
}

/// What the variable's value and the option ask for together, and whose word counts. Pure, so that tests need not change
/// the environment.
pub(crate) fn requested(value: Option<&OsStr>, option: Option<Io>) -> Result<(Io, Source)> {
    let by_option = match option {
        None | Some(Io::Auto) => (Io::Auto, Source::Auto),
        Some(io) => (io, Source::Options),
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(by_option) };
    match value.to_str() {
        Some("auto") => Ok((Io::Auto, Source::Env)),
        Some("uring") => Ok((Io::Uring, Source::Env)),
        Some("fsync" | "epoll") => Ok((Io::Fsync, Source::Env)),
        _ => Err(Error::config(format!(
            "{WO_IO} is \"{}\"; it must be auto, uring, fsync or epoll (which means fsync), or be unset",
            value.display()
        ))),
    }
}

/// Looks at a directory without opening a log in it: what would run there, and why.
///
/// Works beside an open log, and changes nothing: it writes to a file of its own, which has no name in the directory.
///
/// # Errors
///
/// [`Error::Config`] for a value of [`WO_IO`] that says nothing, [`Error::Io`] where the directory cannot be written to.
/// That a ring cannot be had is no error: it is what the checks say.
pub fn probe(dir: impl AsRef<Path>) -> Result<Probe> {
    kernel::probe(dir.as_ref())
}

/// The file that the self-test writes to, whose block was written when the log was made.
fn open_lock_block(disk: &dyn Disk) -> std::io::Result<std::fs::File> {
    disk.open(LOCK_NAME, Access::ReadWrite)
}

#[cfg(test)]
mod tests;
