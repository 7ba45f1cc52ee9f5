//! P9: a full disk costs no acked record, and a trim gets the log going again.

use std::path::{Path, PathBuf};
use std::process::Command;

use wo_wal::{Error, Lsn, Wal};

use crate::support::env::{Env, SEGMENT_BYTES, lsn, payloads};
use crate::support::sim::Sim;
use crate::support::skip::skip;

/// Appends until there is no room; returns the last LSN.
fn fill(wal: &Wal) -> Lsn {
    loop {
        match wal.append(&[b'A'; 9000]) {
            Ok(_) => {}
            Err(Error::StorageFull { needed_bytes, .. }) => {
                assert!(needed_bytes > 0);
                return wal.durable_lsn();
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The log that `open` opens lives on a full disk: it opens, replays, trims, and appends again after the trim.
fn survives_without_space(open: impl Fn() -> Wal, last: Lsn) {
    let wal = open();
    assert_eq!(wal.durable_lsn(), last);
    assert_eq!(payloads(&wal).len() as u64, last.get());
    assert!(matches!(wal.append(&vec![b'B'; 50_000]), Err(Error::StorageFull { .. })));
    wal.trim(lsn(last.get() / 2)).unwrap();
    assert_eq!(wal.append(&vec![b'B'; 50_000]).unwrap().get(), last.get() + 1);
    drop(wal);
    let wal = open();
    assert_eq!(payloads(&wal).last().unwrap().len(), 50_000);
    wal.trim(wal.durable_lsn()).unwrap();
    let next = wal.durable_lsn().get() + 1;
    assert_eq!(wal.append(&vec![b'C'; 50_000]).unwrap(), lsn(next), "after a trim of everything");
    drop(wal);
    assert_eq!(payloads(&open()).last().unwrap(), &vec![b'C'; 50_000]);
}

#[test]
fn p09_a_full_simulated_disk() {
    for max_in_flight in [1, 2] {
        for segments in 3..9 {
            let sim = Sim::with_space(1, segments * SEGMENT_BYTES);
            let env = Env::simulated(&sim, max_in_flight);
            let wal = env.open();
            let last = fill(&wal);
            drop(wal);
            sim.power_cut(segments);
            sim.take_free_space();
            survives_without_space(|| env.open(), last);
        }
    }
}

/// A log that never grew beyond its first segment has nothing but its spare to go on in.
#[test]
fn p09_a_trim_of_everything_makes_room_without_any_free_byte() {
    for (max_in_flight, segment_bytes) in [(1, SEGMENT_BYTES), (2, SEGMENT_BYTES), (1, 2 * SEGMENT_BYTES)] {
        let sim = Sim::with_space(1, 10 * SEGMENT_BYTES);
        let env = Env::simulated(&sim, max_in_flight);
        let (wal, _) = env.open_with(env.options().segment_bytes(segment_bytes)).unwrap();
        sim.take_free_space();
        // An ordinary batch that the spare, of the smallest segment's size, may be too small for.
        let batch = vec![b'B'; usize::try_from(segment_bytes).unwrap() / 4 * 3];
        for round in 0..5 {
            let last = fill(&wal);
            wal.trim(last).unwrap();
            assert_eq!(wal.append(&batch).unwrap().get(), last.get() + 1, "round {round}");
        }
    }
}

#[test]
fn p09_running_out_is_an_answer_of_submit_and_not_of_a_ticket() {
    let sim = Sim::with_space(1, 4 * SEGMENT_BYTES);
    let wal = Env::simulated(&sim, 1).open();
    let mut tickets = Vec::new();
    let error = loop {
        match wal.submit(&[b'A'; 9000]) {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::StorageFull { .. }), "{error:?}");
    let given = tickets.len() as u64;
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(wal.durable_lsn(), lsn(given));
    // No number is lost to those that were refused.
    let small = wal.append(b"a small one").map_or(given + 1, Lsn::get);
    assert_eq!(small, given + 1);
}

#[test]
fn p09_appends_go_on_when_somebody_else_makes_room() {
    let sim = Sim::with_space(1, 4 * SEGMENT_BYTES);
    let wal = Env::simulated(&sim, 1).open();
    let last = fill(&wal);
    sim.give_space_back();
    wal.trim(lsn(last.get() / 2)).unwrap();
    for number in 1..=3 {
        assert_eq!(wal.append(&[b'B'; 9000]).unwrap().get(), last.get() + number);
    }
}

#[test]
fn p09_a_new_log_without_room_says_so_and_leaves_nothing() {
    let sim = Sim::with_space(1, SEGMENT_BYTES / 2);
    let env = Env::simulated(&sim, 1);
    for _ in 0..3 {
        let Err(error) = env.open_with(env.options()) else { panic!("no room") };
        assert!(matches!(error, Error::StorageFull { .. }), "{error:?}");
    }
    assert!(env.segments().is_empty());
}

/// Without its spare a log would have no file that a trim could go on in: there has to be room for both from the start.
#[test]
fn p09_a_new_log_opens_only_where_there_is_room_for_its_spare_too() {
    for free_bytes in (0..=2 * SEGMENT_BYTES + 4096).step_by(4096) {
        let sim = Sim::with_space(1, free_bytes);
        let env = Env::simulated(&sim, 1);
        let opened = env.open_with(env.options());
        assert_eq!(opened.is_ok(), free_bytes >= 2 * SEGMENT_BYTES, "{free_bytes} bytes free: {opened:?}");
        let Ok((wal, _)) = opened else { continue };
        let last = fill(&wal);
        wal.trim(last).unwrap();
        assert_eq!(wal.append(&vec![b'B'; 50_000]).unwrap().get(), last.get() + 1);
    }
}

/// A file system of its own, gone when this is dropped.
struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    /// `None`, with the reason printed as a skip would, where this cannot be mounted.
    fn new(arguments: &[&str]) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        run("mount", &[arguments, &[directory.path().to_str().expect("a name in UTF-8")]].concat())?;
        Ok(Mount { directory })
    }

    /// Uses up every free byte, with a file beside the log.
    fn fill(&self) {
        use std::io::Write;
        let mut neighbour = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("neighbour"))
            .unwrap();
        for step in [1 << 16, 1 << 12, 1 << 9, 1] {
            while neighbour.write_all(&vec![1; step]).is_ok() {}
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", self.directory.path().to_str().expect("a name in UTF-8")]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

fn open(directory: &Path) -> Wal {
    Wal::options().segment_bytes(SEGMENT_BYTES).open(directory).unwrap().0
}

fn survives_on(mount: &Mount) {
    let log = mount.log();
    let wal = open(&log);
    let last = fill(&wal);
    mount.fill();
    drop(wal);
    survives_without_space(
        || {
            mount.fill();
            let wal = open(&log);
            mount.fill();
            wal
        },
        last,
    );
}

#[test]
fn p09_a_full_tmpfs() {
    match Mount::new(&["-t", "tmpfs", "-o", "size=2m", "tmpfs"]) {
        Ok(mount) => survives_on(&mount),
        Err(reason) => skip!("needs a small tmpfs: {reason}"),
    }
}

#[test]
fn p09_a_full_ext4() {
    let images = tempfile::tempdir().unwrap();
    let image = images.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let image = image.to_str().expect("a name in UTF-8");
    let mounted =
        run("mkfs.ext4", &["-q", "-m", "0", image]).and_then(|()| Mount::new(&["-o", "loop", image]));
    match mounted {
        Ok(mount) => survives_on(&mount),
        Err(reason) => skip!("needs an ext4 image on a loop device: {reason}"),
    }
}
