//! Where and how trials run, and the logs they make there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wo_wal::{Lsn, Probe, Wal};

use super::records::{self, Checker};
use super::variant::Variant;
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;

/// What all trials have in common.
#[derive(Debug)]
pub(super) struct Setting {
    /// Goes away at the end, with all that is in it.
    pub(super) scratch: TempDir,
    pub(super) record_bytes: usize,
    /// As asked for; else each workload has its own notion.
    pub(super) segment_bytes: Option<u64>,
    /// How long writers go on in a trial.
    pub(super) lasting: Duration,
    pub(super) interrupt: Interrupt,
}

/// Refuses a directory where a barrier does nothing.
pub(super) fn check_file_system(dir: &Path, probe: &Probe, tmpfs_allowed: bool) -> Result<(), Failure> {
    let name = &probe.selection.file_system;
    if tmpfs_allowed || !matches!(name.as_str(), "tmpfs" | "ramfs") {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: is on {name}, where a barrier does nothing, so figures from there say nothing; choose a directory on a disk, \
         or say --allow-tmpfs",
        dir.display()
    )))
}

/// A directory of the trials' own in there.
pub(super) fn scratch_in(dir: &Path) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix("wo-wal-bench-").tempdir_in(dir);
    made.map_err(|source| Failure::at("make a directory in", dir, &source))
}

/// A log of one trial. Its files go when it is dropped.
#[derive(Debug)]
pub(super) struct TrialLog<'a> {
    pub(super) wal: Wal,
    pub(super) path: PathBuf,
    setting: &'a Setting,
    variant: Variant,
    is_kept: bool,
}

impl Setting {
    /// Opens the log with this name; a new one unless it is there.
    pub(super) fn open(
        &self,
        name: &str,
        variant: Variant,
        segment_bytes: Option<u64>,
    ) -> Result<TrialLog<'_>, Failure> {
        let path = self.scratch.path().join(name);
        let mut options = variant.options()?;
        if let Some(bytes) = self.segment_bytes.or(segment_bytes) {
            options = options.segment_bytes(bytes);
        }
        let (wal, _) = options.open(&path)?;
        Ok(TrialLog { wal, path, setting: self, variant, is_kept: false })
    }

    /// Whether a loop that was to go on until then ends now.
    pub(super) fn is_over(&self, until: Instant, now: Instant) -> bool {
        now >= until || self.interrupt.is_asked_for()
    }

    /// A record to be filled.
    pub(super) fn record(&self) -> Vec<u8> {
        vec![0; self.record_bytes]
    }

    /// How many records make so many bytes.
    pub(super) fn records_in(&self, bytes: u64) -> u64 {
        (bytes / self.record_bytes as u64).max(1)
    }
}

impl TrialLog<'_> {
    /// Makes so many records of this writer durable, as fast as can be.
    pub(super) fn preload(&self, writer: u64, records: u64) -> Result<(), Failure> {
        let mut record = self.setting.record();
        for sequence in 0..records {
            records::fill(&mut record, writer, sequence);
            drop(self.wal.submit(&record)?);
        }
        self.wal.sync()?;
        Ok(())
    }

    /// Closes the log and leaves its files for another open.
    pub(super) fn close_and_keep(mut self) -> Result<(), Failure> {
        self.is_kept = true;
        Ok(self.wal.close()?)
    }

    /// Closes the log, opens it again and reads it all: it has exactly what was acknowledged, as many of each writer.
    pub(super) fn close_and_verify(self, acknowledged: &[u64]) -> Result<(), Failure> {
        self.wal.close()?;
        let (wal, _) = self.variant.options()?.open(&self.path)?;
        verify(&wal, self.setting.record_bytes, acknowledged).map_err(|what| Failure::Because {
            status: Status::Damaged,
            message: format!("{}: the log is not as it was acknowledged: {what}", self.path.display()),
        })?;
        wal.close()?;
        Ok(())
    }
}

impl Drop for TrialLog<'_> {
    fn drop(&mut self) {
        // Whatever is left goes with the scratch directory.
        let _ = self.wal.close();
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn verify(wal: &Wal, record_bytes: usize, acknowledged: &[u64]) -> Result<(), String> {
    let mut checker = Checker::new(acknowledged.len(), record_bytes);
    let mut replay = wal.replay(Lsn::FIRST..).map_err(|error| error.to_string())?;
    while let Some(record) = replay.next_ref().map_err(|error| error.to_string())? {
        checker.take(record.payload)?;
    }
    checker.finish(acknowledged)
}

#[cfg(test)]
mod tests {
    use super::{Interrupt, Setting, scratch_in};
    use crate::bench::variant::{Strategy, Variant};
    use crate::failure::{Failure, Status};
    use std::time::Duration;
    use wo_wal::Cohort;

    /// What else the row's "verified" would be worth.
    #[test]
    fn a_log_that_lacks_a_record_or_has_one_more_is_not_verified() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = scratch_in(dir.path()).unwrap();
        let setting = Setting {
            scratch,
            record_bytes: 100,
            segment_bytes: Some(1 << 16),
            lasting: Duration::ZERO,
            interrupt: Interrupt::never(),
        };
        let variant = Variant { strategy: Strategy::Fsync, cohort: Cohort::Full };
        for (acknowledged, sound) in [(10, true), (9, false), (11, false)] {
            let log = setting.open("log", variant, None).unwrap();
            log.preload(0, 10).unwrap();
            let outcome = log.close_and_verify(&[acknowledged]);
            match outcome {
                Ok(()) => assert!(sound),
                Err(Failure::Because { status, .. }) => assert!(!sound && status == Status::Damaged),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
