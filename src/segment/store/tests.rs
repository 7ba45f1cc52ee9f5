//! The limit on open files is a passing reason: whoever meets it hears of it, and the log goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use super::{Fill, Prepared, SEGMENT_BYTES_MIN, SegmentStore, StoreFailure, StoreResult};
use crate::disk::RealDisk;
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
