//! What a barrier costs with each strategy that can be had, by making some.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use wo_wal::Probe;
use wo_wal::strategy::{Extent, Fsync, SyncStrategy, Uring};

use crate::failure::Failure;

/// How many barriers of each size and strategy.
const BARRIERS: usize = 200;
const SIZES: [usize; 2] = [256, 4096];
const LARGEST: usize = 4096;

/// What so many barriers of one size took with one strategy.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    pub(super) strategy: String,
    pub(super) bytes: usize,
    pub(super) barriers: usize,
    /// Of them, finished without the ring.
    pub(super) assisted: u64,
    pub(super) p50_nanos: u64,
    pub(super) p99_nanos: u64,
}

/// The costs, as far as they could be measured, and why no further.
pub(super) fn measure(dir: &Path, probe: &Probe) -> (Vec<Cost>, Result<(), Failure>) {
    let mut costs = Vec::new();
    let strategies = strategies(probe);
    let measured = scratch_file(dir).and_then(|file| {
        for bytes in SIZES {
            costs.extend(measure_size(&file, &strategies, bytes)?);
        }
        Ok(())
    });
    (costs, measured.map_err(|source| Failure::at("measure barriers in", dir, &source)))
}

/// Those that can be had. Where the environment asks for `fsync`, no ring is made here either.
fn strategies(probe: &Probe) -> Vec<Arc<dyn SyncStrategy>> {
    let mut strategies: Vec<Arc<dyn SyncStrategy>> = vec![Arc::new(Fsync::new())];
    if super::has_ring(probe)
        && let Ok(uring) = Uring::new()
    {
        strategies.push(Arc::new(uring));
    }
    strategies
}

/// A file without a name, of zeros that are really there, as in a prepared segment.
fn scratch_file(dir: &Path) -> io::Result<File> {
    let file = tempfile::tempfile_in(dir)?;
    overwrite_in_place(&file);
    let zeros = vec![0; LARGEST];
    for block in 0..BARRIERS {
        file.write_all_at(&zeros, (block * LARGEST) as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// What the log asks btrfs for; other file systems refuse, or always do.
fn overwrite_in_place(file: &File) {
    #[cfg(target_os = "linux")]
    if let Ok(flags) = rustix::fs::ioctl_getflags(file) {
        let _ = rustix::fs::ioctl_setflags(file, flags | rustix::fs::IFlags::NOCOW);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// One barrier with each strategy in turn, so that all meet the same weather; who begins changes from round to round.
fn measure_size(file: &File, strategies: &[Arc<dyn SyncStrategy>], bytes: usize) -> io::Result<Vec<Cost>> {
    let assisted_before: Vec<u64> = strategies.iter().map(SyncStrategy::assisted_barriers).collect();
    let mut took = vec![Vec::with_capacity(BARRIERS); strategies.len()];
    for round in 0..BARRIERS {
        let record = vec![u8::try_from(round % 251 + 1).unwrap_or(1); bytes];
        for turn in 0..strategies.len() {
            let index = (round + turn) % strategies.len();
            let start = Instant::now();
            strategies[index].persist(Extent::new(file.as_fd(), (round * bytes) as u64, &record))?;
            took[index].push(start.elapsed());
        }
    }
    let costs = strategies.iter().zip(took).zip(assisted_before).map(|((strategy, mut took), before)| {
        took.sort_unstable();
        Cost {
            strategy: strategy.name().to_owned(),
            bytes,
            barriers: took.len(),
            assisted: strategy.assisted_barriers() - before,
            p50_nanos: nanos(took[took.len() / 2 - 1]),
            p99_nanos: nanos(took[took.len() * 99 / 100 - 1]),
        }
    });
    Ok(costs.collect())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
