//! The corpus of the fuzz targets, and neighbours of it, as a plain test through the same functions: every byte string as a
//! segment file gives an error or fewer records, never a panic, an endless loop or an allocation above what the file has
//! room for (bug report F07: a length in a damaged file made the process ask for gigabytes).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};

use wo_wal::fuzzing;

/// What a group is held in at most.
const WINDOW_BYTES_MAX: usize = 8 << 20;

struct Largest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    LARGEST.set(LARGEST.get().max(bytes));
}

// SAFETY: hands every call on to the system's allocator unchanged; a test needs an allocator of its own to measure.
#[allow(unsafe_code, reason = "the allocator interface is unsafe; this one only measures")]
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// The size of the largest single allocation that a call makes.
fn largest_allocation(call: impl FnOnce()) -> usize {
    LARGEST.set(0);
    call();
    LARGEST.get()
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{} has a corpus", directory.display());
    files
}

fn run_segment(bytes: &[u8]) {
    let _ = fuzzing::segment(bytes);
    let _ = fuzzing::signed_segment(bytes);
}

/// The length of the segment as the target makes it of the bytes.
fn file_bytes(bytes: &[u8]) -> usize {
    let capacity_bytes = bytes.get(24..32).map_or(0, |field| u64::from_le_bytes(field.try_into().unwrap()));
    let extended = usize::try_from(capacity_bytes).unwrap_or(usize::MAX);
    bytes.len().max(if extended <= 16 << 20 { extended } else { 0 })
}

#[test]
fn f07_the_corpus_of_segments_needs_no_more_memory_than_the_window_or_the_file() {
    for (path, bytes) in corpus("segment") {
        let largest = largest_allocation(|| run_segment(&bytes));
        let bound = WINDOW_BYTES_MAX.max(file_bytes(&bytes));
        assert!(largest <= bound, "{}: an allocation of {largest} bytes", path.display());
    }
}

#[test]
fn f07_the_corpus_of_groups_needs_no_more_memory_than_the_group() {
    for (path, bytes) in corpus("group") {
        let largest = largest_allocation(|| fuzzing::group(&bytes));
        assert!(largest <= bytes.len().max(64), "{}: an allocation of {largest} bytes", path.display());
    }
}

/// A small generator, so that a finding comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }
}

/// Flips, overwrites and cuts a few places, mostly where headers are.
fn neighbour(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    const INTERESTING: [u32; 8] = [0, 1, 7, 8, 64, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    let mut neighbour = bytes.to_vec();
    for _ in 0..=random.below(3) {
        if neighbour.len() < 8 {
            break;
        }
        // The block of the segment header is mostly padding, which only one test in sixteen touches.
        let start = if neighbour.len() > 4200 && random.below(16) > 0 { 4096 } else { 0 };
        let at = start + random.below(neighbour.len() - start);
        let word = (at & !3).min(neighbour.len() - 4);
        match random.below(5) {
            0 => neighbour[at] ^= 1 << random.below(8),
            1 => neighbour[at] = u8::try_from(random.below(256)).unwrap(),
            2 => neighbour[word..word + 4].copy_from_slice(&INTERESTING[random.below(8)].to_le_bytes()),
            3 => neighbour.truncate(at.max(1)),
            _ => {
                let from = start + random.below(neighbour.len() - start);
                let length = random.below(128).min(neighbour.len() - at.max(from));
                neighbour.copy_within(from..from + length, at);
            }
        }
    }
    neighbour
}

#[test]
fn f07_neighbours_of_the_corpus_of_segments_give_an_error_or_a_log() {
    let corpus: Vec<_> =
        corpus("segment").into_iter().filter(|(_, bytes)| file_bytes(bytes) <= 1 << 20).collect();
    let mut random = Random(0x5eed);
    for round in 0..3000 {
        let (path, bytes) = &corpus[random.below(corpus.len())];
        let bytes = neighbour(bytes, &mut random);
        let largest = largest_allocation(|| run_segment(&bytes));
        let bound = WINDOW_BYTES_MAX.max(file_bytes(&bytes));
        assert!(largest <= bound, "round {round}, {}: an allocation of {largest} bytes", path.display());
    }
}

#[test]
fn f07_neighbours_of_the_corpus_of_groups_agree_whole_and_in_pieces() {
    let corpus = corpus("group");
    let mut random = Random(0x5eed);
    for _ in 0..20_000 {
        let (_, bytes) = &corpus[random.below(corpus.len())];
        fuzzing::group(&neighbour(bytes, &mut random));
    }
}
