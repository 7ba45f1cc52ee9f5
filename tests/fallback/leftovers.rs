//! What is left of a log that was closed: nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use serial_test::parallel;
use wo_wal::Io;

use crate::cases::{has_ring, in_child, options};

/// How long threads may take to end. It bounds a failing test and decides nothing.
const PATIENCE: Duration = Duration::from_secs(60);

fn entries(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = std::fs::read_link(&path).ok().map(|target| target.to_string_lossy().into_owned());
        // A thread's name; gone where the thread has ended meanwhile.
        name.or_else(|| std::fs::read_to_string(path.join("comm")).ok())
    });
    let mut entries: Vec<_> = entries.filter(|name| !name.ends_with("/fd")).collect();
    entries.sort_unstable();
    entries
}

#[test]
#[parallel]
fn a_thousand_opens_and_closes_leave_nothing_behind() {
    in_child("leftovers::a_thousand_opens_and_closes_leave_nothing_behind", |dir| {
        if !has_ring() {
            return;
        }
        // In memory where that can be had: a sync costs nothing there.
        let memory = tempfile::tempdir_in("/dev/shm");
        let dir = memory.as_ref().map_or(dir, |memory| memory.path());
        let descriptors = entries("/proc/self/fd");
        let threads = entries("/proc/self/task");
        // On a thread of its own: the kernel's workers are those of the thread that submits, and end with it.
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000).for_each(|_| open_and_close(dir))).join().unwrap();
        });
        assert_eq!(entries("/proc/self/fd"), descriptors);
        let start = Instant::now();
        while entries("/proc/self/task") != threads {
            assert!(start.elapsed() < PATIENCE, "{:?}, and before {threads:?}", entries("/proc/self/task"));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn open_and_close(dir: &Path) {
    let (wal, _) = options(Io::Uring).open(dir).unwrap();
    assert!(
        entries("/proc/self/fd").iter().any(|name| name.contains("io_uring")),
        "the control: a ring is seen"
    );
    wal.append(&[7; 500]).unwrap();
    assert_eq!(wal.stats().assisted_barriers, 0);
    wal.close().unwrap();
}
