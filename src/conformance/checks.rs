//! The checks, one function each.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::strategy::{Extent, SyncStrategy};

/// What did not hold.
type Failure = String;

type CheckFn = fn(&dyn SyncStrategy, &Scratch) -> Result<(), Failure>;

/// Every check with the line of the contract that it is about.
pub(super) const ALL: &[(u8, &str, CheckFn)] = &[
    (1, "what was persisted is there for another description", persisted_bytes_are_there),
    (1, "a file that grows has its new length", a_file_grows),
    (2, "an extent of many sizes and places is written whole", many_sizes),
    #[cfg(target_os = "linux")]
    (2, "a short write that cannot go on is an error", a_short_write_that_cannot_go_on),
    #[cfg(target_os = "linux")]
    (2, "no space is an error, and says so", no_space),
    (2, "a description that cannot be written to is an error", a_read_only_description),
    (3, "the bytes may be reused once the call has returned", bytes_are_free_again),
    (5, "nothing beside the extent changes", nothing_beside_changes),
    (6, "the name stays the same, also after an error", the_name_stays),
    (7, "as many calls at once as it says, each on a description of its own", calls_at_once),
    (7, "any thread may call, also one that never did", any_thread),
];

/// A directory that goes away at the end.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    files: AtomicU64,
}

impl Scratch {
    pub(super) fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wo-wal-conformance-{}-{run}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Scratch { path, files: AtomicU64::new(0) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file of so many bytes, all `fill`.
    fn file(&self, bytes: usize, fill: u8) -> Result<PathBuf, Failure> {
        let path = self.path.join(format!("file-{}", self.files.fetch_add(1, Ordering::Relaxed)));
        fs::write(&path, vec![fill; bytes]).map_err(setting_up)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn setting_up(error: io::Error) -> Failure {
    format!("the check could not be set up: {error}")
}

fn writable(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().read(true).write(true).open(path).map_err(setting_up)
}

fn persist(strategy: &dyn SyncStrategy, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    strategy.persist(Extent::new(file.as_fd(), offset, bytes))
}

fn persist_ok(strategy: &dyn SyncStrategy, file: &File, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
    let length = bytes.len();
    persist(strategy, file, offset, bytes)
        .map_err(|error| format!("{length} bytes at {offset} gave an error: {error}"))
}

/// The file's bytes must be these.
fn expect(path: &Path, expected: &[u8], when: &str) -> Result<(), Failure> {
    let found = fs::read(path).map_err(setting_up)?;
    if found.len() != expected.len() {
        return Err(format!("{when} the file has {} bytes instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("{when} byte {at} is {:#04x} instead of {:#04x}", found[at], expected[at])),
    }
}

/// Bytes that differ from place to place.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 31 + seed * 17 + at / 251).to_le_bytes()[0] | 1;
    (0..length).map(byte).collect()
}

fn persisted_bytes_are_there(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(8192, 0)?;
    let bytes = pattern(4096, 1);
    persist_ok(strategy, &writable(&path)?, 4096, &bytes)?;
    expect(&path, &[vec![0; 4096], bytes].concat(), "afterwards")
}

fn a_file_grows(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(100, 9)?;
    let bytes = pattern(5000, 2);
    persist_ok(strategy, &writable(&path)?, 100, &bytes)?;
    expect(&path, &[vec![9; 100], bytes].concat(), "afterwards")
}

fn many_sizes(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    const FILE_BYTES: usize = 3 << 20;
    let path = scratch.file(FILE_BYTES, 0)?;
    let file = writable(&path)?;
    let mut expected = vec![0; FILE_BYTES];
    let sizes = [0, 1, 7, 8, 64, 511, 512, 513, 4095, 4096, 4097, 65_536, (1 << 20) + 3];
    for (seed, &size) in sizes.iter().enumerate() {
        for offset in [0, 1, 4095, 4096, 70_001] {
            let bytes = pattern(size, seed + offset);
            persist_ok(strategy, &file, offset as u64, &bytes)?;
            expected[offset..offset + size].copy_from_slice(&bytes);
        }
    }
    expect(&path, &expected, "after all of them")
}

/// A memory file that may not grow takes a part of an extent that reaches beyond its end, and then refuses.
#[cfg(target_os = "linux")]
fn a_short_write_that_cannot_go_on(strategy: &dyn SyncStrategy, _scratch: &Scratch) -> Result<(), Failure> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let sealed = memfd_create("wo-wal-conformance", MemfdFlags::ALLOW_SEALING)
        .map_err(|errno| setting_up(errno.into()))?;
    let file = File::from(sealed);
    file.set_len(8192).map_err(setting_up)?;
    fcntl_add_seals(&file, SealFlags::GROW).map_err(|errno| setting_up(errno.into()))?;
    match persist(strategy, &file, 4096, &pattern(8192, 3)) {
        Err(_) => Ok(()),
        Ok(()) => Err("it answered Ok, and half of the bytes are nowhere".to_owned()),
    }
}

#[cfg(target_os = "linux")]
fn no_space(strategy: &dyn SyncStrategy, _scratch: &Scratch) -> Result<(), Failure> {
    let full = writable(Path::new("/dev/full"))?;
    match persist(strategy, &full, 0, &pattern(512, 4)) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        Err(error) => Err(format!("the error is not the system's ENOSPC: {error}")),
        Ok(()) => Err("it answered Ok where nothing can be written".to_owned()),
    }
}

fn a_read_only_description(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(4096, 5)?;
    let read_only = File::open(&path).map_err(setting_up)?;
    if persist(strategy, &read_only, 0, &pattern(100, 5)).is_ok() {
        return Err("it answered Ok".to_owned());
    }
    expect(&path, &[5; 4096], "afterwards")
}

fn bytes_are_free_again(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(1 << 20, 0)?;
    let file = writable(&path)?;
    let mut bytes = pattern(1 << 20, 6);
    let expected = bytes.clone();
    persist_ok(strategy, &file, 0, &bytes)?;
    bytes.fill(0xff);
    thread::sleep(Duration::from_millis(20));
    expect(&path, &expected, "after the buffer was reused")
}

fn nothing_beside_changes(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(16_384, 0xaa)?;
    let bytes = pattern(777, 7);
    let before = bytes.clone();
    persist_ok(strategy, &writable(&path)?, 5001, &bytes)?;
    if bytes != before {
        return Err("the caller's bytes were changed".to_owned());
    }
    let mut expected = vec![0xaa; 16_384];
    expected[5001..5778].copy_from_slice(&bytes);
    expect(&path, &expected, "afterwards")
}

fn the_name_stays(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let name = strategy.name().to_owned();
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let path = scratch.file(4096, 0)?;
    let _ = persist(strategy, &File::open(&path).map_err(setting_up)?, 0, &[1]);
    persist_ok(strategy, &writable(&path)?, 0, &[1])?;
    if strategy.name() == name { Ok(()) } else { Err(format!("`{name}` became `{}`", strategy.name())) }
}

fn calls_at_once(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    const PIECE_BYTES: usize = 10_000;
    const ROUNDS: usize = 10;
    let calls = strategy.max_in_flight().get().min(8);
    let path = scratch.file(calls * ROUNDS * PIECE_BYTES, 0)?;
    let results: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let caller = |call: usize| {
            let path = &path;
            move || {
                let file = writable(path)?;
                (0..ROUNDS).try_for_each(|round| {
                    let piece = round * calls + call;
                    persist_ok(strategy, &file, (piece * PIECE_BYTES) as u64, &pattern(PIECE_BYTES, piece))
                })
            }
        };
        let threads: Vec<_> = (0..calls).map(|call| scope.spawn(caller(call))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".to_owned())))
            .collect()
    });
    results.into_iter().collect::<Result<(), Failure>>()?;
    let expected: Vec<u8> = (0..calls * ROUNDS).flat_map(|piece| pattern(PIECE_BYTES, piece)).collect();
    expect(&path, &expected, "after all calls")
}

fn any_thread(strategy: &dyn SyncStrategy, scratch: &Scratch) -> Result<(), Failure> {
    let path = scratch.file(4096, 0)?;
    let file = writable(&path)?;
    for number in 1..=4_u8 {
        let called = thread::scope(|scope| {
            scope.spawn(|| persist_ok(strategy, &file, u64::from(number), &[number])).join()
        });
        called.unwrap_or_else(|_| Err("it panicked".to_owned()))?;
    }
    let mut head = [0; 5];
    file.read_exact_at(&mut head, 0).map_err(setting_up)?;
    if head == [0, 1, 2, 3, 4] { Ok(()) } else { Err(format!("the bytes are {head:?}")) }
}
