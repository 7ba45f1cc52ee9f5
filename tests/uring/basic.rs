//! Where nothing goes wrong.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use wo_wal::strategy::{Extent, Form, SyncStrategy};

use crate::ring::{FORMS, create, pattern, ring, temporary_directory};

#[test]
fn the_bytes_are_where_they_belong_and_nowhere_else() {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        let dir = temporary_directory();
        let file = create(dir.path());
        file.write_all_at(&vec![7; 100_000], 0).unwrap();
        let bytes = pattern(70_001);
        uring.persist(Extent::new(file.as_fd(), 513, &bytes)).unwrap();
        let mut expected = vec![7; 100_000];
        expected[513..513 + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), expected, "{form:?}");
        assert_eq!(uring.assisted_barriers(), 0, "{form:?}");
    }
}

#[test]
fn a_file_grows_by_what_is_written_behind_its_end() {
    for form in FORMS {
        let Some(uring) = ring(form) else { return };
        let dir = temporary_directory();
        let file = create(dir.path());
        uring.persist(Extent::new(file.as_fd(), 10_000, b"end")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 10_003, "{form:?}");
    }
}

#[test]
fn an_empty_extent_changes_nothing() {
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    uring.persist(Extent::new(file.as_fd(), 10_000, b"")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn an_offset_that_no_file_has_is_an_error_and_not_the_file_position() {
    let Some(uring) = ring(Form::Linked) else { return };
    let dir = temporary_directory();
    let file = create(dir.path());
    for offset in [u64::MAX, u64::MAX - 3, 1 << 63, (1 << 63) - 2] {
        let error = uring.persist(Extent::new(file.as_fd(), offset, b"four")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{offset}");
    }
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn many_threads_use_one_strategy_at_once() {
    let Some(uring) = ring(Form::Linked) else { return };
    let uring = Arc::new(uring.with_max_in_flight(NonZeroUsize::new(8).unwrap()));
    let dir = temporary_directory();
    create(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let (uring, path) = (uring.clone(), dir.path().join("file"));
            scope.spawn(move || {
                // Contract line 7: a description of its own for each call in flight.
                let file = File::options().write(true).open(path).unwrap();
                for round in 0..20_u64 {
                    let bytes = (thread << 32 | round).to_le_bytes();
                    uring.persist(Extent::new(file.as_fd(), (thread * 20 + round) * 8, &bytes)).unwrap();
                }
            });
        }
    });
    let bytes = std::fs::read(dir.path().join("file")).unwrap();
    let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert!(words.eq((0..16).flat_map(|thread| (0..20).map(move |round| thread << 32 | round))));
}
