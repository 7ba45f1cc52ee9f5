//! What the benches share: where the data goes, how long a run is, records that can be checked, medians.
#![allow(dead_code, reason = "each bench uses its part")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::path::{Path, PathBuf};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// The data's directory: `WO_WAL_BENCH_DIR`, else cargo's directory for such files under `target/`, which it names to
/// benches; else the directory of the running program, which is under `target/` as well.
const DIRECTORY_VARIABLE: &str = "WO_WAL_BENCH_DIR";
/// Set to anything but 0, a run is one short round: it shows that the bench works, its figures mean nothing.
const SHORT_VARIABLE: &str = "WO_WAL_BENCH_SHORT";
/// Set to 1, tmpfs is accepted, where a barrier does nothing.
const TMPFS_VARIABLE: &str = "WO_WAL_BENCH_ALLOW_TMPFS";

/// How and where this run goes.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) short: bool,
    root: tempfile::TempDir,
}

impl Setup {
    /// Reads the environment, says what will be done, and makes an empty directory that goes away at the end.
    pub(crate) fn announce(bench: &str) -> Setup {
        Setup::announce_length(bench, runs_short())
    }

    /// As `announce`, where something else decides how long the run is.
    pub(crate) fn announce_length(bench: &str, short: bool) -> Setup {
        let parent = std::env::var_os(DIRECTORY_VARIABLE).map_or_else(default_directory, PathBuf::from);
        std::fs::create_dir_all(&parent).unwrap();
        let file_system = file_system_name(&parent);
        let tmpfs_allowed = std::env::var(TMPFS_VARIABLE).is_ok_and(|value| value == "1");
        assert!(
            file_system != "tmpfs" || tmpfs_allowed,
            "{} is on tmpfs, where a barrier does nothing; set {DIRECTORY_VARIABLE}, or {TMPFS_VARIABLE}=1",
            parent.display()
        );
        let mode = if short { "one short round, the figures mean nothing" } else { "full run" };
        println!("{bench}: {mode}; data on {file_system}, {}", parent.display());
        Setup { short, root: tempfile::tempdir_in(parent).unwrap() }
    }

    /// A path below the directory where nothing is yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The first number in a full run, the second in a short one.
    pub(crate) fn pick<T>(&self, full: T, short: T) -> T {
        if self.short { short } else { full }
    }
}

fn default_directory() -> PathBuf {
    option_env!("CARGO_TARGET_TMPDIR")
        .map_or_else(|| std::env::current_exe().unwrap().parent().unwrap().to_owned(), PathBuf::from)
}

/// `cargo bench` passes `--bench`; `cargo test` does not, and wants to know only that the bench works.
fn runs_short() -> bool {
    let asked = std::env::var(SHORT_VARIABLE).is_ok_and(|value| value != "0");
    asked || !std::env::args().any(|argument| argument == "--bench")
}

fn file_system_name(path: &Path) -> String {
    let magic = rustix::fs::statfs(path).unwrap().f_type;
    match magic {
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "XFS".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("a file system with magic {other:#x}"),
    }
}

/// Fills `record` with bytes that follow from the writer and the sequence number, which stand in its first 16 bytes.
pub(crate) fn fill_record(record: &mut [u8], writer: u64, sequence: u64) {
    let mut state = writer.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence;
    for chunk in record.chunks_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = (state ^ (state >> 33)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    record[..8].copy_from_slice(&writer.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
}

/// Checks that the records of every writer are all there, whole, once, in the writer's order.
#[derive(Debug)]
pub(crate) struct Checker {
    next_sequence: Vec<u64>,
    expected: Vec<u8>,
}

impl Checker {
    pub(crate) fn new(writers: usize, record_bytes: usize) -> Checker {
        Checker { next_sequence: vec![0; writers], expected: vec![0; record_bytes] }
    }

    pub(crate) fn take(&mut self, record: &[u8]) {
        let writer = u64::from_le_bytes(record[..8].try_into().unwrap());
        let next_sequence = &mut self.next_sequence[usize::try_from(writer).unwrap()];
        fill_record(&mut self.expected, writer, *next_sequence);
        assert_eq!(record, self.expected, "record {next_sequence} of writer {writer}");
        *next_sequence += 1;
    }

    pub(crate) fn finish(self, records_per_writer: u64) {
        assert!(
            self.next_sequence.iter().all(|&records| records == records_per_writer),
            "records are missing"
        );
    }
}

/// Reads a whole log back: every record of every writer.
pub(crate) fn verify(path: &Path, writers: usize, record_bytes: usize, records_per_writer: u64) {
    let mut checker = Checker::new(writers, record_bytes);
    read_back(path, &mut checker);
    checker.finish(records_per_writer);
}

pub(crate) fn read_back(path: &Path, checker: &mut Checker) {
    let (reader, _) = wo_wal::Reader::open(path).unwrap();
    for record in reader.replay(..).unwrap() {
        checker.take(&record.unwrap().payload);
    }
}

/// What a closed loop has measured.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    pub(crate) took: Duration,
    pub(crate) usage: Usage,
    /// When each call began, and when it returned.
    pub(crate) calls: Vec<(Instant, Instant)>,
}

impl ClosedLoop {
    pub(crate) fn sorted_us(&self) -> Vec<f64> {
        let mut sorted_us: Vec<f64> =
            self.calls.iter().map(|(began, returned)| (*returned - *began).as_secs_f64() * 1e6).collect();
        sorted_us.sort_by(f64::total_cmp);
        sorted_us
    }
}

/// Lets writers run against each other: each makes its next call, with its number and a record, as soon as the one before
/// has returned. `at_end` runs off the clock, while all their threads are still there.
pub(crate) fn closed_loop(
    writers: usize,
    records_per_writer: u64,
    record_bytes: usize,
    append: impl Fn(usize, &[u8]) + Sync,
    at_end: impl FnOnce(),
) -> ClosedLoop {
    let (start, end) = (Barrier::new(writers + 1), Barrier::new(writers + 1));
    let calls = Mutex::new(Vec::new());
    let (took, usage) = std::thread::scope(|scope| {
        for writer in 0..writers {
            let (append, start, end, calls) = (&append, &start, &end, &calls);
            scope.spawn(move || {
                let mut record = vec![0; record_bytes];
                let mut own = Vec::with_capacity(usize::try_from(records_per_writer).unwrap());
                start.wait();
                for sequence in 0..records_per_writer {
                    fill_record(&mut record, writer as u64, sequence);
                    let began = Instant::now();
                    append(writer, &record);
                    own.push((began, Instant::now()));
                }
                end.wait();
                calls.lock().unwrap().extend(own);
                end.wait();
            });
        }
        let (before, started) = (Usage::now(), Instant::now());
        start.wait();
        end.wait();
        let measured = (started.elapsed(), Usage::now().since(&before));
        at_end();
        end.wait();
        measured
    });
    ClosedLoop { took, usage, calls: calls.into_inner().unwrap() }
}

/// Whether a word, or a number, is among the arguments.
pub(crate) fn is_asked(name: &str) -> bool {
    std::env::args().skip(1).any(|argument| argument == name)
}

/// The numbers of writers to go through: all, or those that are asked for.
pub(crate) fn asked_writers(all: &[usize]) -> Vec<usize> {
    let asked: Vec<usize> = all.iter().copied().filter(|writers| is_asked(&writers.to_string())).collect();
    if asked.is_empty() { all.to_vec() } else { asked }
}

/// In which order a trial meets the sides: each comes first in turn, and the direction changes, so that whatever the device
/// does over time hits all, and none always follows the same one.
pub(crate) fn order(trial: usize, sides: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    order.rotate_left(trial / 2 % sides.max(1));
    if trial % 2 == 1 {
        order.reverse();
    }
    order
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The value below which so many percent of the sorted values lie.
pub(crate) fn at_percent(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// The smallest and the largest, for a table: how far trials lie apart.
pub(crate) fn span(values: &[f64]) -> (f64, f64) {
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (smallest, largest)
}

/// What the process has used so far, the kernel's workers for its rings included.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) switches: u64,
}

impl Usage {
    #[allow(unsafe_code, reason = "getrusage has no safe wrapper among the dependencies")]
    pub(crate) fn now() -> Usage {
        // SAFETY: the structure is plain numbers, for which zero is a value, and `getrusage` writes nothing else.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
            usage
        };
        let time = |value: libc::timeval| {
            Duration::from_secs(u64::try_from(value.tv_sec).unwrap())
                + Duration::from_micros(u64::try_from(value.tv_usec).unwrap())
        };
        Usage {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            switches: u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).unwrap(),
        }
    }

    pub(crate) fn since(&self, before: &Usage) -> Usage {
        Usage { cpu: self.cpu.saturating_sub(before.cpu), switches: self.switches - before.switches }
    }
}
