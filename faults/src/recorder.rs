//! Layer `recorder`: a real file system on a device that remembers every write and flush.
//!
//! One run of writers per file system is recorded; then it is cut at many places of the recording. What a cut leaves is
//! all that was written before the last flush, and of the rest all, nothing, or each sector by coin. A write that reached
//! the device before a flush counts as flushed, also where the file system had not waited for it.

pub(crate) mod compare;
mod server;
mod tape;

use std::path::{Path, PathBuf};
use std::time::Duration;

use server::Recorder;
use tape::{Entry, Image, Player, Unflushed};

use crate::child::{History, Writers};
use crate::crowd::Crowd;
use crate::failure::{Failure, Outcome, Trouble};
use crate::loops::{FileSystem, Mount};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;
use crate::writer::open;

const RECORDED_TIME: Duration = Duration::from_millis(1500);
/// How long a write to the device that must fail may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Cuts so often with one strategy, and lets the device fail.
pub(crate) fn run(work: &Path, kind: Kind, cuts: u64, seed: u64) -> Totals {
    let mut totals = Totals::new("recorder", kind, seed);
    let btrfs_cuts = cuts / 8;
    let xfs_cuts = cuts / 6;
    let shares = [
        (FileSystem::Ext4, cuts - btrfs_cuts - xfs_cuts),
        (FileSystem::Xfs, xfs_cuts),
        (FileSystem::Btrfs, btrfs_cuts),
    ];
    for (file_system, cuts) in shares {
        if let Err(why) = cut_recording(work, kind, file_system, Mount::new, cuts, seed, &mut totals) {
            totals.cycle(file_system.name(), seed, &Err(why));
        }
    }
    if !kind.is_control() {
        for (file_system, errno) in [(FileSystem::Ext4, libc::EIO), (FileSystem::Xfs, libc::ENOSPC)] {
            let verdict = fail_device(work, kind, file_system, errno, seed, &mut totals);
            totals.cycle(&format!("{} errno {errno}", file_system.name()), seed, &verdict);
        }
    }
    totals.end()
}

/// A negative control: a file system that never asks its device to write out its cache, as one does that was told that
/// there is none. Nothing is ever flushed then, whatever the log does.
pub(crate) fn run_without_flushes(work: &Path, cuts: u64, seed: u64) -> Totals {
    let mut totals = Totals::named("recorder", "nobarrier", true, seed);
    let (kind, file_system) = (Kind::Fsync, FileSystem::Ext4);
    if let Err(why) = cut_recording(work, kind, file_system, Mount::without_flushes, cuts, seed, &mut totals)
    {
        totals.cycle(file_system.name(), seed, &Err(why));
    }
    totals.end()
}

/// How the recorded file system is mounted.
type MountIt = fn(&Path, &Path) -> Result<Mount, Trouble>;

/// A new file system on a recorded device, and writers on it for as long as the caller says.
fn record(
    work: &Path,
    kind: Kind,
    file_system: FileSystem,
    mount: MountIt,
    seed: u64,
    end: impl FnOnce(&Recorder, Writers) -> Outcome<History>,
) -> Outcome<(Image, Recorder, History)> {
    let before = new_image(work, file_system)?;
    let recorder = Recorder::new(before.clone(), work)?;
    let mounted = mount(&recorder.file(), work)?;
    let writers = Writers::start(&mounted.log(), seed, kind, recorder.clock())?;
    let history = end(&recorder, writers)?;
    mounted.unmount()?;
    Ok((before, recorder, history))
}

/// A new file system, as its mkfs leaves it.
fn new_image(work: &Path, file_system: FileSystem) -> Result<Image, Trouble> {
    let made = ImageFile(file_system.make(work)?);
    Image::load(&made.0).map_err(|error| Trouble(format!("read an image: {error}")))
}

fn cut_recording(
    work: &Path,
    kind: Kind,
    file_system: FileSystem,
    mount: MountIt,
    cuts: u64,
    seed: u64,
    totals: &mut Totals,
) -> Outcome {
    let (before, recorder, history) = record(work, kind, file_system, mount, seed, |_, writers| {
        writers.wait_until(RECORDED_TIME, Writers::has_failed);
        Ok(writers.kill())
    })?;
    totals.heard(&history);
    // Nothing reads the device any more, and the recording does not grow.
    let tape: Vec<Entry> = std::mem::take(&mut recorder.device().tape);
    drop(recorder);
    let mut rng = Rng::new(seed ^ file_system.name().len() as u64);
    let mut positions: Vec<usize> = (0..cuts).map(|_| rng.index(tape.len() + 1)).collect();
    positions.sort_unstable();
    let mut player = Player::new(before, &tape);
    for position in positions {
        let unflushed = rng.pick(&[Unflushed::All, Unflushed::None, Unflushed::Torn, Unflushed::Torn]);
        let image = player.cut(position, unflushed, &mut rng);
        let mut crowd = Crowd::default();
        let verdict = history
            .tell_until(&mut crowd, position as u64)
            .map_err(Failure::from)
            .and_then(|()| check(work, kind, file_system, &image, &mut crowd));
        totals.cuts += 1;
        totals.cycle(
            &format!("{} cut at {position} of {}, {unflushed:?}", file_system.name(), tape.len()),
            seed,
            &verdict,
        );
    }
    Ok(())
}

/// Opens what a cut has left and asks the oracle; then again after another cut.
fn check(work: &Path, kind: Kind, file_system: FileSystem, image: &Image, crowd: &mut Crowd) -> Outcome {
    let file = ImageFile(work.join("cut.image"));
    image.store(&file.0).map_err(|error| Trouble(format!("write an image: {error}")))?;
    for (kind, cut) in [(kind, file_system.can_be_shut_down()), (kind.other(), false)] {
        let mounted = Mount::new(&file.0, work).map_err(|Trouble(why)| format!("does not mount: {why}"))?;
        let verdict = open(&mounted.log(), kind).and_then(|(wal, recovery)| {
            crowd.opened(&wal, &recovery)?;
            if cut { Ok(mounted.shut_down()?) } else { Ok(()) }
        });
        mounted.unmount()?;
        verdict?;
    }
    Ok(())
}

struct ImageFile(PathBuf);

impl Drop for ImageFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The device fails one write of the log's: the log must fail for good, and recovery return what was acked, and of the
/// rest only what was appended.
fn fail_device(
    work: &Path,
    kind: Kind,
    file_system: FileSystem,
    errno: i32,
    seed: u64,
    totals: &mut Totals,
) -> Outcome {
    let (_, recorder, history) = record(work, kind, file_system, Mount::new, seed, |recorder, writers| {
        writers.wait_until(Duration::from_millis(300), Writers::has_failed);
        recorder.device().fail_group = Some(errno);
        writers.wait_until(PATIENCE, Writers::has_failed);
        if !writers.has_failed() {
            return Err(Failure::Promise("the device failed, the log did not".to_owned()));
        }
        Ok(writers.end()?)
    })?;
    totals.happened(u64::from(recorder.device().fail_group.is_none()))?;
    totals.heard(&history);
    totals.failed_logs += 1;
    if !history.ended() {
        return Err(format!("the writers did not end as they should: {:?}", history.failures()).into());
    }
    let mut crowd = Crowd::default();
    history.tell(&mut crowd, |_, _| true)?;
    let image = recorder.device().image.clone();
    check(work, kind, file_system, &image, &mut crowd)
}
