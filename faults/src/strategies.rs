//! The strategies under test, and those that must be found out.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wo_wal::strategy::{Form, Fsync, Uring};
use wo_wal::{Extent, SyncStrategy};

const PATIENCE: Duration = Duration::from_secs(10);

/// How a writer makes its groups durable, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Fsync,
    Uring,
    /// Only writes: a negative control.
    NoSync,
    /// WRITE and FSYNC in one go without the link between them: a negative control.
    Unlinked,
    /// Writes and syncs, and takes what was refused, or done in part, for done: a negative control.
    Blind,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Fsync => "fsync",
            Kind::Uring => "uring",
            Kind::NoSync => "no-sync",
            Kind::Unlinked => "unlinked",
            Kind::Blind => "blind",
        }
    }

    pub(crate) fn is_control(self) -> bool {
        matches!(self, Kind::NoSync | Kind::Unlinked | Kind::Blind)
    }

    /// Whom a second recovery is left to: a log written through one strategy opens through the other.
    pub(crate) fn other(self) -> Kind {
        match self {
            Kind::Fsync => Kind::Uring,
            Kind::Uring | Kind::NoSync | Kind::Unlinked | Kind::Blind => Kind::Fsync,
        }
    }

    /// As [`make`](Self::make); asks again for a while. The switch that refuses rings is the machine's, and somebody else's
    /// tests may be turning it.
    pub(crate) fn make_patiently(self) -> io::Result<Arc<dyn SyncStrategy>> {
        let start = Instant::now();
        loop {
            match self.make() {
                Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
                made => return made,
            }
        }
    }

    pub(crate) fn make(self) -> io::Result<Arc<dyn SyncStrategy>> {
        Ok(match self {
            Kind::Fsync => Arc::new(Fsync::new()),
            Kind::Uring => Arc::new(Uring::new()?),
            Kind::NoSync => Arc::new(NoSync),
            Kind::Unlinked => Arc::new(Uring::with_form(Form::Unlinked)?),
            Kind::Blind => Arc::new(Blind),
        })
    }
}

/// Says that it is durable when it is written.
#[derive(Debug)]
struct NoSync;

impl SyncStrategy for NoSync {
    fn name(&self) -> &'static str {
        "no-sync"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = std::fs::File::from(extent.file().try_clone_to_owned()?);
        file.write_all_at(extent.bytes(), extent.offset())
    }
}

/// Does not look at the answers.
#[derive(Debug)]
struct Blind;

impl SyncStrategy for Blind {
    fn name(&self) -> &'static str {
        "blind"
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = std::fs::File::from(extent.file().try_clone_to_owned()?);
        let _ = file.write_at(extent.bytes(), extent.offset());
        let _ = file.sync_data();
        Ok(())
    }
}
