//! The limit on open files, and a directory that has no room to grow, are passing reasons: whoever meets them hears of
//! it, and the log goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;

use super::{Fill, Prepared, Removed, SEGMENT_BYTES_MIN, SegmentStore, StoreFailure, StoreResult};
use crate::disk::{Disk, RealDisk};
use crate::frame::SEGMENT_HEADER_BYTES;
use crate::ids::Ids;
use crate::recovery::watched::Watched;

/// A store in which the open after so many more ones, and all that follow, meet the limit.
struct Limited {
    store: SegmentStore,
    left_opens: Arc<AtomicUsize>,
    _directory: tempfile::TempDir,
}

fn limited() -> Limited {
    let directory = tempfile::tempdir().unwrap();
    let left_opens = Arc::new(AtomicUsize::new(usize::MAX));
    let left = Arc::clone(&left_opens);
    let disk = Watched::opens(Arc::new(RealDisk::open(directory.path()).unwrap()), move || {
        let took = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        took.map(drop).map_err(|_| Errno::MFILE.into())
    });
    let store = SegmentStore::open(Arc::new(disk), Ids::System, SEGMENT_BYTES_MIN, 2, 1).unwrap();
    Limited { store, left_opens, _directory: directory }
}

impl Limited {
    /// Does it with each number of opens that is not enough, and then once more without a limit.
    fn retry_below_limit(
        &mut self,
        mut make: impl FnMut(&mut SegmentStore) -> StoreResult<Prepared>,
    ) -> Prepared {
        // One for the header, and one for each of the two barriers.
        for enough in 0..3 {
            self.left_opens.store(enough, Ordering::Relaxed);
            let refused = make(&mut self.store).expect_err("a limit");
            assert!(matches!(refused, StoreFailure::Harmless(_)), "{enough} opens: {refused:?}");
        }
        self.left_opens.store(usize::MAX, Ordering::Relaxed);
        make(&mut self.store).unwrap()
    }
}

#[test]
fn a_new_segment_can_be_made_after_the_limit_on_open_files_was_met() {
    let mut limited = limited();
    let made = limited.retry_below_limit(|store| store.prepare(1, SEGMENT_BYTES_MIN, Fill::Reserve));
    assert_eq!((made.segment.number, made.barrier_files.len()), (1, 2));
}

#[test]
fn a_recycled_file_is_kept_when_the_limit_on_open_files_is_met() {
    let mut limited = limited();
    assert!(limited.store.ensure_spare().unwrap());
    let old = limited.store.prepare(1, SEGMENT_BYTES_MIN, Fill::Reserve).unwrap();
    limited.store.remove(old.segment, None).unwrap();
    assert_eq!(limited.store.recycled.len(), 1);
    limited.retry_below_limit(|store| store.prepare(2, SEGMENT_BYTES_MIN, Fill::Reserve));
    assert_eq!(limited.store.recycled.len(), 0);
}

#[test]
fn the_spare_is_kept_when_the_limit_on_open_files_is_met() {
    let mut limited = limited();
    assert!(limited.store.ensure_spare().unwrap());
    limited
        .retry_below_limit(|store| store.prepare_from_spare(1).map(|made| made.expect("there is a spare")));
    assert_eq!(limited.store.spare_bytes(), None);
}

/// A store in a directory that cannot take another name, while the switch is on.
fn store_in_full_directory() -> (SegmentStore, Arc<AtomicBool>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let is_full = Arc::clone(&full);
    let disk = Watched::renames(Arc::new(RealDisk::open(directory.path()).unwrap()), move || {
        if is_full.load(Ordering::Relaxed) { Err(Errno::NOSPC.into()) } else { Ok(()) }
    });
    let store = SegmentStore::open(Arc::new(disk), Ids::System, SEGMENT_BYTES_MIN, 1, 1).unwrap();
    (store, full, directory)
}

fn names(store: &SegmentStore) -> Vec<String> {
    let mut names = store.disk.list().unwrap();
    names.sort_unstable();
    names
}

/// A rename adds the new name before it drops the old one, and on a full ext4 the directory cannot always grow for that. A
/// trim met it, and the log was poisoned.
#[test]
fn p09_a_segment_goes_where_the_directory_has_no_room_for_another_name_of_its_file() {
    // For each of the lives that a removed file may have next: the spare, the next segment, and a recycled one.
    for (has_spare, next_number) in [(false, None), (true, Some(2)), (true, None)] {
        let (mut store, full, _directory) = store_in_full_directory();
        if has_spare {
            assert!(store.ensure_spare().unwrap());
        }
        let old = store.prepare(1, SEGMENT_BYTES_MIN, Fill::Reserve).unwrap();
        full.store(true, Ordering::Relaxed);
        let removed = store.remove(old.segment, next_number).unwrap();
        assert!(matches!(removed, Removed::Gone), "{removed:?}");
        let left = if has_spare { vec!["spare.tmp".to_owned()] } else { Vec::new() };
        assert_eq!(names(&store), left);
    }
}

#[test]
fn p09_a_segment_or_spare_that_the_directory_has_no_room_for_is_no_room_and_leaves_nothing() {
    let (mut store, full, _directory) = store_in_full_directory();
    full.store(true, Ordering::Relaxed);
    assert!(!store.ensure_spare().unwrap());
    let refused = store.prepare(1, SEGMENT_BYTES_MIN, Fill::Reserve).unwrap_err();
    assert!(matches!(refused, StoreFailure::Full { .. }), "{refused:?}");
    assert_eq!(names(&store), [""; 0]);
    full.store(false, Ordering::Relaxed);
    assert!(store.ensure_spare().unwrap());
    full.store(true, Ordering::Relaxed);
    let refused = store.prepare_from_spare(1).unwrap_err();
    assert!(matches!(refused, StoreFailure::Full { .. }), "{refused:?}");
    assert_eq!(names(&store), ["spare.tmp"]);
    full.store(false, Ordering::Relaxed);
    assert!(store.prepare_from_spare(1).unwrap().is_some());
}

/// A trim that drops everything removes the active segment, too, which was half used and never filled with zeros. In its
/// next life all of its blocks counted as written, so that each group in the other half paid for blocks of its own.
#[test]
fn a_recycled_file_counts_as_written_only_as_far_as_it_was_used() {
    const SEGMENT_BYTES: u64 = 4 * SEGMENT_BYTES_MIN;
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
    let mut store =
        SegmentStore::open(Arc::clone(&disk) as Arc<dyn Disk>, Ids::System, SEGMENT_BYTES, 1, 1).unwrap();
    assert!(store.ensure_spare().unwrap());
    let used = store.prepare(1, SEGMENT_BYTES, Fill::Reserve).unwrap();
    disk.write_at(&used.barrier_files[0], &[1; 8192], SEGMENT_HEADER_BYTES).unwrap();
    let Removed::Next(next) = store.remove(used.segment, Some(2)).unwrap() else { panic!("not used again") };
    assert_eq!(next.written_until, SEGMENT_HEADER_BYTES + 8192);
    store.remove(next.segment, None).unwrap();
    let recycled = store.prepare(3, SEGMENT_BYTES, Fill::Reserve).unwrap();
    assert_eq!(recycled.written_until, SEGMENT_HEADER_BYTES + 8192);
}
