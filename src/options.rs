//! How a log is opened.

use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::frame::{BLOCK_BYTES, RECORD_BYTES_LIMIT};
use crate::ids::Ids;
use crate::probe::Io;
use crate::recovery::Recovery;
use crate::segment::SEGMENT_BYTES_MIN;
use crate::strategy::SyncStrategy;
use crate::wal::Wal;

/// The largest batch, and so the largest group but for padding, that any option allows: 1 GiB.
const BATCH_BYTES_LIMIT: u64 = 1 << 30;
/// The largest ordinary segment that may be configured: 64 GiB.
const SEGMENT_BYTES_LIMIT: u64 = 64 << 30;
const STAGED_BYTES_MIN: usize = 4096;

/// When a leader takes a group: the policy of group commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cohort {
    /// When the writers that the last barrier released have come back with their next records, so that all of them share
    /// the next barrier too. Bounded by three times what recent barriers took, of which none counts for more than 10 ms;
    /// nobody waits for a lone writer, for one that did not come back last time, or while a barrier is in flight.
    /// `docs/group-commit.md` has the rule and what it gains.
    #[default]
    Full,
    /// As soon as it can: whatever is staged when the barrier before has returned goes into the next group.
    Greedy,
}

/// What happens when a barrier fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// The log is poisoned: every waiter gets [`Error::Poisoned`], and nothing is acknowledged any more.
    #[default]
    Poison,
    /// The process ends with exit status 74 after one paragraph on standard error. For programs that rely on being
    /// restarted instead of handling the error.
    Abort,
}

/// Options of a log, with defaults that fit most. Values are checked by [`open`](Options::open).
///
/// ```no_run
/// # fn main() -> wo_wal::Result<()> {
/// let (wal, recovery) = wo_wal::Wal::options().segment_bytes(16 << 20).open("data/wal")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "options do nothing until `open` is called"]
pub struct Options {
    pub(crate) segment_bytes: u64,
    pub(crate) max_record_bytes: u32,
    pub(crate) max_batch_bytes: u64,
    pub(crate) max_staged_bytes: usize,
    pub(crate) recycle_segments: usize,
    pub(crate) own_block_per_group: bool,
    pub(crate) cohort: Cohort,
    pub(crate) on_failure: OnFailure,
    pub(crate) io: Option<Io>,
    pub(crate) strategy: Option<Arc<dyn SyncStrategy>>,
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) ids: Ids,
    /// Whether a thread prepares segments ahead of need.
    pub(crate) prepares_ahead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 64 << 20,
            max_record_bytes: 16 << 20,
            max_batch_bytes: 512 << 20,
            max_staged_bytes: 4 << 20,
            recycle_segments: 1,
            own_block_per_group: false,
            cohort: Cohort::default(),
            on_failure: OnFailure::default(),
            io: None,
            strategy: None,
            disk: None,
            ids: Ids::default(),
            prepares_ahead: true,
        }
    }
}

impl Options {
    /// The size of a segment file, rounded up to a multiple of 4096. A batch that does not fit gets a segment of its own.
    /// Existing segments keep their size.
    ///
    /// Default 64 MiB, minimum 64 KiB, maximum 64 GiB.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The largest record that is accepted. Larger records that are in the log already are read all the same.
    ///
    /// Default 16 MiB, minimum 1, maximum 1 GiB.
    pub fn max_record_bytes(mut self, bytes: u32) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// The largest batch that is accepted, counted as it stands on disk: each record takes 8 bytes more than its payload,
    /// rounded up to 8.
    ///
    /// Default 512 MiB, minimum 4096, maximum 1 GiB.
    pub fn max_batch_bytes(mut self, bytes: u64) -> Self {
        self.max_batch_bytes = bytes;
        self
    }

    /// How many bytes may wait for a barrier, counted as they stand on disk. At the bound a `submit` leads or waits, and a
    /// `try_submit` gives [`Error::WouldBlock`]. One record or batch larger than this is accepted when nothing is staged.
    ///
    /// This is also the size a group can grow to. Default 4 MiB, minimum 4096, maximum 1 GiB.
    pub fn max_staged_bytes(mut self, bytes: usize) -> Self {
        self.max_staged_bytes = bytes;
        self
    }

    /// How many files of trimmed segments may be kept for later segments, besides the prepared next one and the spare that
    /// the log always keeps. A kept file takes its space, and saves writing zeros over a new one.
    ///
    /// Default 1, minimum 0, maximum 1000.
    pub fn recycle_segments(mut self, count: usize) -> Self {
        self.recycle_segments = count;
        self
    }

    /// Whether every group starts on a block (4096 bytes) of its own, for those who do not want to rely on the device
    /// leaving bytes alone that it rewrites unchanged. Costs up to a block per group.
    ///
    /// Default false.
    pub fn own_block_per_group(mut self, yes: bool) -> Self {
        self.own_block_per_group = yes;
        self
    }

    /// When a leader takes a group. Default [`Cohort::Full`].
    pub fn cohort(mut self, cohort: Cohort) -> Self {
        self.cohort = cohort;
        self
    }

    /// What happens when a barrier fails. Default [`OnFailure::Poison`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// How barriers are made. The environment variable [`WO_IO`](crate::WO_IO) beats it, so that an operator can switch
    /// for one run.
    ///
    /// Default [`Io::Auto`].
    pub fn io(mut self, io: Io) -> Self {
        self.io = Some(io);
        self
    }

    /// Makes barriers with this strategy, whatever the environment says. See the
    /// [contract](crate::strategy#the-contract-of-a-strategy).
    ///
    /// Default: none, so that [`io`](Self::io) and the environment decide.
    pub fn strategy(mut self, strategy: impl SyncStrategy + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// Works on this directory instead of one of the operating system's.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Draws segment and session ids from a fixed sequence, so that equal schedules give equal bytes.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn ids(mut self, seed: u64) -> Self {
        self.ids = Ids::sequence(seed);
        self
    }

    /// Whether a thread prepares segments ahead of need, as it does by default. Without it the log goes on as where no
    /// thread can start, and one caller makes all calls to the disk, in an order that its own calls decide.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn prepares_ahead(mut self, prepares_ahead: bool) -> Self {
        self.prepares_ahead = prepares_ahead;
        self
    }

    /// Opens the log in a directory for writing; creates the directory, and a log in it, where there is none.
    ///
    /// When it returns, everything that [`Wal::replay`] will serve has been made durable again. A torn, unacknowledged
    /// tail is cut. Needs no space on disk for a log that exists.
    ///
    /// # Errors
    ///
    /// * [`Error::Config`]: an option, or the value of [`WO_IO`](crate::WO_IO), is out of its range. Nothing was opened.
    /// * [`Error::StrategyUnavailable`]: [`Io::Uring`] was asked for and cannot be had; it says why. Nothing was opened.
    /// * [`Error::Locked`]: the log is open for writing elsewhere. Nothing was touched.
    /// * [`Error::Corrupt`], [`Error::MissingSegment`], [`Error::NotASegment`], [`Error::UnsupportedVersion`]: what is
    ///   there is damaged or not a log. Nothing was deleted or changed, except that leftovers of an interrupted preparation
    ///   may be gone where all segment headers are sound.
    /// * [`Error::StorageFull`]: a new log has no room. An existing log opens with zero free bytes.
    /// * [`Error::Io`]: a system call failed. Opening again is safe.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<(Wal, Recovery)> {
        let options = self.checked()?;
        Wal::open_with(options, dir.as_ref())
    }

    fn checked(mut self) -> Result<Self> {
        check_range("segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN, SEGMENT_BYTES_LIMIT)?;
        check_range("max_record_bytes", u64::from(self.max_record_bytes), 1, u64::from(RECORD_BYTES_LIMIT))?;
        check_range("max_batch_bytes", self.max_batch_bytes, 4096, BATCH_BYTES_LIMIT)?;
        let staged_bytes = self.max_staged_bytes as u64;
        check_range("max_staged_bytes", staged_bytes, STAGED_BYTES_MIN as u64, BATCH_BYTES_LIMIT)?;
        check_range("recycle_segments", self.recycle_segments as u64, 0, 1000)?;
        self.segment_bytes = self.segment_bytes.next_multiple_of(BLOCK_BYTES);
        Ok(self)
    }
}

fn check_range(name: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::config(format!("{name} is {value}; it must be from {min} to {max}")))
}
