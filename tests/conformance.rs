//! The crate's own strategies keep the contract, and the suite notices those that do not.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use wo_wal::conformance::{self, Report};
use wo_wal::strategy::{Form, Fsync, Uring};
use wo_wal::{Extent, SyncStrategy};

#[test]
fn fsync_keeps_the_contract() {
    conformance::run(|_| Fsync::new()).assert_passed();
}

#[test]
fn uring_keeps_the_contract() {
    if let Err(refusal) = Uring::new() {
        assert_ne!(std::env::var("WO_WAL_NO_SKIP").as_deref(), Ok("1"), "no ring: {refusal}");
        println!("SKIP no ring: {refusal}");
        return;
    }
    for form in [Form::Linked, Form::Dsync] {
        conformance::run(|_| {
            Uring::with_form(form).unwrap().with_max_in_flight(std::num::NonZeroUsize::new(4).unwrap())
        })
        .assert_passed();
    }
}

/// Breaks one line of the contract.
#[derive(Debug)]
struct Broken {
    how: How,
    renamed: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    WritesNothing,
    WritesOnlyWhatFitsOneBlock,
    IgnoresErrors,
    WritesAPaddedBlock,
    IgnoresTheOffset,
    WritesLater,
    ChangesItsName,
    Panics,
}

impl SyncStrategy for Broken {
    fn name(&self) -> &str {
        if self.renamed.load(Ordering::Relaxed) { "another" } else { "broken" }
    }

    fn persist(&self, extent: Extent<'_>) -> io::Result<()> {
        let file = File::from(extent.file().try_clone_to_owned()?);
        let (bytes, offset) = (extent.bytes(), extent.offset());
        match self.how {
            How::WritesNothing => {}
            How::WritesOnlyWhatFitsOneBlock => file.write_all_at(&bytes[..bytes.len().min(4096)], offset)?,
            How::IgnoresErrors => drop(file.write_all_at(bytes, offset)),
            How::WritesAPaddedBlock => {
                let mut padded = bytes.to_vec();
                padded.resize(bytes.len().next_multiple_of(512), 0);
                file.write_all_at(&padded, offset)?;
            }
            How::IgnoresTheOffset => file.write_all_at(bytes, 0)?,
            How::WritesLater => {
                let bytes = bytes.to_vec();
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    let _ = file.write_all_at(&bytes, offset);
                });
                return Ok(());
            }
            How::ChangesItsName => {
                self.renamed.store(true, Ordering::Relaxed);
                file.write_all_at(bytes, offset)?;
            }
            How::Panics if std::thread::current().name().is_none() => panic!("not on this thread"),
            How::Panics => file.write_all_at(bytes, offset)?,
        }
        Ok(())
    }
}

fn report(how: How) -> Report {
    conformance::run(move |_: &Path| Broken { how, renamed: AtomicBool::new(false) })
}

fn failed_lines(report: &Report) -> Vec<u8> {
    let mut lines: Vec<u8> =
        report.checks().iter().filter(|check| check.failure.is_some()).map(|check| check.line).collect();
    lines.dedup();
    lines
}

#[test]
fn each_broken_line_is_named() {
    for (how, line) in [
        (How::WritesNothing, 1),
        (How::WritesOnlyWhatFitsOneBlock, 2),
        (How::IgnoresErrors, 2),
        (How::WritesAPaddedBlock, 5),
        (How::IgnoresTheOffset, 5),
        (How::WritesLater, 1),
        (How::ChangesItsName, 6),
        (How::Panics, 7),
    ] {
        let report = report(how);
        assert!(!report.passed(), "{how:?} passed");
        assert!(failed_lines(&report).contains(&line), "{how:?}: {report}");
    }
}

#[test]
fn a_report_reads_like_one() {
    let report = report(How::IgnoresErrors);
    let text = report.to_string();
    assert!(
        text.contains("`broken`") && text.contains("line 2: FAILED") && text.contains("line 5: ok"),
        "{text}"
    );
}
