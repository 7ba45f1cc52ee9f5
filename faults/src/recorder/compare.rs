//! The comparison of strategies on a real file system whose device fails a group, or is cut right after an answer.

use std::path::Path;

use super::server::Recorder;
use super::tape::{Entry, Image, Player, Unflushed};
use super::{ImageFile, new_image};
use crate::caller::Caller;
use crate::compare::{Pair, compare};
use crate::failure::{Outcome, Trouble};
use crate::loops::{FileSystem, Mount};
use crate::schedule::{STEPS, Schedule, Transcript};
use crate::strategies::Kind;
use crate::support::rng::Rng;
use crate::totals::Totals;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The device refuses the next write that holds a group.
    Fail(i32),
    /// The power goes, and with it all that was not flushed.
    Cut,
}

const FAULTS: [(FileSystem, Fault); 6] = [
    (FileSystem::Ext4, Fault::Fail(libc::EIO)),
    (FileSystem::Ext4, Fault::Cut),
    (FileSystem::Xfs, Fault::Fail(libc::ENOSPC)),
    (FileSystem::Btrfs, Fault::Cut),
    (FileSystem::Ext4, Fault::Fail(libc::ENOSPC)),
    (FileSystem::Xfs, Fault::Cut),
];

/// Each fault in turn, after a step that the seed picks.
pub(crate) fn run(work: &Path, pair: Pair, count: u64, seed: u64, totals: &mut Totals) {
    for number in 0..count {
        let cycle_seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let (file_system, fault) = FAULTS[usize::try_from(number).unwrap_or(0) % FAULTS.len()];
        let step = 1 + Rng::new(cycle_seed).below(STEPS - 1);
        if let Fault::Cut = fault {
            totals.cuts += 2;
        }
        let what = format!("{} {fault:?} after step {step}", file_system.name());
        compare(pair, totals, &what, cycle_seed, |kind| {
            live(work, file_system, fault, kind, cycle_seed, step)
        });
    }
}

fn live(
    work: &Path,
    file_system: FileSystem,
    fault: Fault,
    kind: Kind,
    seed: u64,
    step: u64,
) -> Outcome<Transcript> {
    let before = new_image(work, file_system)?;
    let recorder = Recorder::new(before.clone(), work)?;
    let mounted = Mount::new(&recorder.file(), work)?;
    let mut schedule = Schedule::new(seed, kind);
    let mut left = None;
    let mut fault_happened = false;
    if let Some(wal) = schedule.open(&mounted.log())? {
        schedule.steps(&wal, step);
        match fault {
            Fault::Fail(errno) => {
                recorder.device().fail_group = Some(errno);
                let has_failed = |_: &Caller| recorder.device().fail_group.is_none();
                fault_happened = schedule.steps_until(&wal, STEPS - step, || (), has_failed);
                schedule.caller.close(&wal);
            }
            Fault::Cut => {
                left = Some(cut(before, &recorder.device().tape));
                fault_happened = true;
            }
        }
    }
    mounted.unmount()?;
    let image = left.unwrap_or_else(|| recorder.device().image.clone());
    drop(recorder);
    let file = ImageFile(work.join("compared.image"));
    image.store(&file.0).map_err(|error| Trouble(format!("write an image: {error}")))?;
    let mounted = Mount::new(&file.0, work)?;
    let transcript = schedule.recover(&mounted.log(), fault_happened)?;
    mounted.unmount()?;
    Ok(transcript)
}

/// What is left of a device: all that was written before the last flush.
fn cut(before: Image, tape: &[Entry]) -> Image {
    Player::new(before, tape).cut(tape.len(), Unflushed::None, &mut Rng::new(0))
}
