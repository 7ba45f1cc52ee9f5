//! Layer `full`: a log on real file systems without a free byte.
//!
//! Each cycle fills one to the last byte, again after every step. The log must open, replay and trim there, refuse what it
//! has no room for, and go on when there is room, without being opened again.

use std::path::{Path, PathBuf};

use rustix::fs::IFlags;
use wo_wal::{Error, Lsn, Wal};

use crate::ballast::Ballast;
use crate::caller::Caller;
use crate::failure::{Failure, Outcome, Trouble};
use crate::loops::{FileSystem, Mount};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::SEGMENT_BYTES;

const MEMORY_MEBIBYTES: u32 = 8;
const RECORD_BYTES: u64 = 9000;
/// So many segments are written before anything is full: whole ones are among the older half of the records.
const SEGMENTS_BEFORE: u64 = 4;
/// Far more records than fit in what a full file system has reserved.
const RECORDS_MAX: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Device(FileSystem),
}

const PLACES: [Place; 4] = [
    Place::Memory,
    Place::Device(FileSystem::Ext4),
    Place::Device(FileSystem::Xfs),
    Place::Device(FileSystem::Btrfs),
];

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Memory => "tmpfs",
            Place::Device(file_system) => file_system.name(),
        }
    }
}

/// So many cycles with one strategy, on each file system in turn.
pub(crate) fn run(work: &Path, kind: Kind, cycles: u64, seed: u64) -> Totals {
    let mut totals = Totals::new("full", kind, seed);
    for cycle in 0..cycles {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(cycle);
        let place = PLACES[usize::try_from(cycle).unwrap_or(0) % PLACES.len()];
        let mut what = format!("{}: ", place.name());
        let outcome = live(work, kind, place, cycle_seed, &mut what, &mut totals);
        totals.cycle(&what, cycle_seed, &outcome);
    }
    totals.end()
}

struct Image(Option<PathBuf>);

impl Drop for Image {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn live(work: &Path, kind: Kind, place: Place, seed: u64, what: &mut String, totals: &mut Totals) -> Outcome {
    let image = match place {
        Place::Memory => Image(None),
        Place::Device(file_system) => Image(Some(file_system.make(work)?)),
    };
    let mount = || match &image.0 {
        None => Mount::in_memory(MEMORY_MEBIBYTES, work),
        Some(path) => Mount::new(path, work),
    };
    let mounted = mount()?;
    let mut life = Life::new(&mounted, kind, seed)?;
    let outcome = life.live(what);
    totals.acks += life.caller.acks;
    outcome?;
    totals.happened(u64::from(life.caller.was_told(0, "StorageFull")))?;
    let Place::Device(file_system) = place else {
        life.close();
        life.kind = kind.other();
        life.open()?;
        drop(life);
        return Ok(mounted.unmount()?);
    };
    if file_system.can_be_shut_down() {
        mounted.shut_down()?;
        totals.cuts += 1;
    }
    let caller = life.end();
    mounted.unmount()?;
    let mounted = mount()?;
    what.push_str(", and mounted again");
    let mut life = Life { caller, ..Life::new(&mounted, kind.other(), seed)? };
    life.open()?;
    life.end();
    Ok(mounted.unmount()?)
}

/// A log on a full file system.
struct Life {
    kind: Kind,
    rng: Rng,
    /// As large as the spare file, or larger.
    segment_bytes: u64,
    caller: Caller,
    wal: Option<Wal>,
    log: PathBuf,
    ballast: Ballast,
}

impl Life {
    fn new(mounted: &Mount, kind: Kind, seed: u64) -> Result<Self, Trouble> {
        Ok(Life {
            kind,
            rng: Rng::new(seed),
            segment_bytes: SEGMENT_BYTES << (seed % 2),
            caller: Caller::new(),
            wal: None,
            log: mounted.log(),
            ballast: Ballast::new(mounted.path())?,
        })
    }

    /// The steps; `what` says which has been reached.
    fn live(&mut self, what: &mut String) -> Outcome {
        let mut reached = |step: &str| {
            what.truncate(what.find(": ").map_or(0, |end| end + 2));
            what.push_str(step);
        };
        reached("on the way to full");
        self.open()?;
        self.append_some()?;
        reached("full");
        self.ballast.fill_for_good()?;
        let before = self.append_until_full()?;
        reached("open, full");
        self.close();
        self.ballast.fill_for_good()?;
        self.open()?;
        self.refused()?;
        reached("trim, full");
        self.trim(before / 2)?;
        self.ballast.fill_for_good()?;
        self.append_large()?;
        self.append_until_full()?;
        reached("trim of everything, full");
        for _ in 0..3 {
            self.trim(u64::MAX)?;
            self.ballast.fill_for_good()?;
            self.append_large()?;
            self.append_until_full()?;
        }
        reached("open after the trims, full");
        self.close();
        self.ballast.fill_for_good()?;
        self.open()?;
        self.append_until_full()?;
        reached("space again");
        self.ballast.empty()?;
        for _ in 0..30 {
            self.append_one()?;
        }
        self.verdict()
    }

    /// Leaves the log to its fate and keeps nothing open, so that the file system can be unmounted.
    fn end(self) -> Caller {
        self.caller
    }

    fn verdict(&self) -> Outcome {
        Ok(self.caller.verdict()?)
    }

    fn wal(&self) -> Outcome<Wal> {
        self.wal.clone().ok_or_else(|| Failure::Promise("no log is open".to_owned()))
    }

    fn open(&mut self) -> Outcome {
        let strategy = self.kind.make_patiently();
        let strategy =
            strategy.map_err(|error| Trouble(format!("strategy {}: {error}", self.kind.name())))?;
        let opened = Wal::options().segment_bytes(self.segment_bytes).strategy(strategy).open(&self.log);
        self.wal = self.caller.opened(opened);
        let wal = self.wal().map_err(|_| self.last_answer("does not open"))?;
        self.caller.replay(&wal);
        must_be_overwritten_in_place(&self.log)?;
        self.verdict()
    }

    fn close(&mut self) {
        if let Some(wal) = self.wal.take() {
            self.caller.close(&wal);
        }
    }

    fn last_answer(&self, what: &str) -> Failure {
        Failure::Promise(format!("{what}: {:?}", self.caller.answers.last()))
    }

    fn append_some(&mut self) -> Outcome {
        for _ in 0..SEGMENTS_BEFORE * self.segment_bytes * 2 / RECORD_BYTES {
            self.append_one()?;
        }
        Ok(())
    }

    fn append_one(&mut self) -> Outcome {
        let bytes = usize::try_from(self.rng.below(RECORD_BYTES)).unwrap_or(0);
        self.append(bytes)
    }

    fn try_append(&mut self, bytes: usize) -> Outcome<wo_wal::Result<()>> {
        let wal = self.wal()?;
        let mut record = vec![0; bytes];
        self.rng.fill(&mut record);
        Ok(self.caller.append(&wal, record))
    }

    fn append(&mut self, bytes: usize) -> Outcome {
        self.try_append(bytes)?
            .map_err(|error| Failure::Promise(format!("an append of {bytes} bytes: {error}")))
    }

    /// Appends what takes most of a segment.
    fn append_large(&mut self) -> Outcome {
        self.append(self.large_bytes())
    }

    fn large_bytes(&self) -> usize {
        usize::try_from(self.segment_bytes / 4 * 3).unwrap_or(0)
    }

    fn refused(&mut self) -> Outcome {
        let bytes = self.large_bytes();
        match self.try_append(bytes)? {
            Err(Error::StorageFull { .. }) => Ok(()),
            other => Err(Failure::Promise(format!("an append of {bytes} bytes without room: {other:?}"))),
        }
    }

    /// Appends until there is no room; the last LSN.
    fn append_until_full(&mut self) -> Outcome<u64> {
        for _ in 0..RECORDS_MAX {
            let bytes = usize::try_from(self.rng.below(RECORD_BYTES)).unwrap_or(0);
            match self.try_append(bytes)? {
                Ok(()) => {}
                Err(Error::StorageFull { .. }) => {
                    // What is served while there is no room.
                    let wal = self.wal()?;
                    self.caller.replay(&wal);
                    self.verdict()?;
                    return Ok(wal.durable_lsn().get());
                }
                Err(error) => return Err(Failure::Promise(format!("without room: {error}"))),
            }
        }
        Err(Failure::Promise("the file system is full, and appends go on".to_owned()))
    }

    fn trim(&mut self, up_to_lsn: u64) -> Outcome {
        let wal = self.wal()?;
        let (up_to, oldest) = (Lsn::new(up_to_lsn.min(wal.durable_lsn().get())), wal.oldest_lsn());
        self.caller.trim(&wal, up_to).map_err(|error| Failure::Promise(format!("trim: {error}")))?;
        if wal.oldest_lsn() <= oldest {
            return Err(Failure::Promise(format!("a trim up to {up_to} dropped nothing from {oldest} on")));
        }
        Ok(())
    }
}

/// On btrfs every segment must have been made without copy-on-write: else a full disk means something else there.
fn must_be_overwritten_in_place(log: &Path) -> Result<(), Trouble> {
    let failed = |error: std::io::Error| Trouble(format!("look at the segments: {error}"));
    let btrfs = rustix::fs::statfs(log).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(0x9123_683e));
    if !btrfs {
        return Ok(());
    }
    for entry in std::fs::read_dir(log).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let file = std::fs::File::open(&path).map_err(failed)?;
        let flags = rustix::fs::ioctl_getflags(&file).map_err(|errno| failed(errno.into()))?;
        if !flags.contains(IFlags::NOCOW) {
            return Err(Trouble(format!("{} is copied on write", path.display())));
        }
    }
    Ok(())
}
