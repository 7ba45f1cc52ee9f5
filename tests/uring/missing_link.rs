//! On a file system that knows what was synced: the FSYNC follows the last byte, or the test sees it.

use std::os::fd::AsFd;
use std::path::Path;

use wo_wal::strategy::{Extent, Form, Fsync, SyncStrategy};

use crate::again;
use crate::fuse::Mounted;
use crate::ring::{errno_of, pattern, ring};

const BARRIERS: u64 = 150;
const BYTES: usize = 5000;

/// Runs a test again where `$DIR/mnt` is a directory that a server may mount on.
fn mounted(test: &str) {
    if !std::path::Path::new("/dev/fuse").exists() {
        return crate::skip::announce("there is no /dev/fuse");
    }
    again::run_mounted(&format!("missing_link::{test}"), "mkdir \"$DIR/mnt\"");
}

/// How many of the barriers said Ok for bytes that a power cut would have taken away.
fn lost(dir: &Path, form: Form, direct_io: bool) -> Option<u64> {
    let uring = ring(form)?;
    let lost = lost_by(&uring, dir, direct_io);
    assert_eq!(uring.assisted_barriers(), 0);
    Some(lost)
}

fn lost_by(strategy: &dyn SyncStrategy, dir: &Path, direct_io: bool) -> u64 {
    let mounted = Mounted::new(dir, direct_io);
    let mut lost = 0;
    for barrier in 0..BARRIERS {
        let offset = barrier * BYTES as u64;
        let bytes = vec![u8::try_from(barrier % 255).unwrap() + 1; BYTES];
        strategy.persist(Extent::new(mounted.file.as_fd(), offset, &bytes)).unwrap();
        let range = usize::try_from(offset).unwrap();
        lost += u64::from(mounted.state().durable[range..range + BYTES] != bytes);
    }
    lost
}

#[test]
fn p1_the_reference_strategy_syncs_what_it_wrote() {
    let Some(dir) = again::directory() else {
        return mounted("p1_the_reference_strategy_syncs_what_it_wrote");
    };
    for direct_io in [false, true] {
        assert_eq!(lost_by(&Fsync, &dir.join("mnt"), direct_io), 0, "direct I/O: {direct_io}");
    }
    again::say("done");
}

#[test]
fn p1_the_fsync_follows_the_write() {
    let Some(dir) = again::directory() else { return mounted("p1_the_fsync_follows_the_write") };
    for direct_io in [false, true] {
        let Some(lost) = lost(&dir.join("mnt"), Form::Linked, direct_io) else { return };
        assert_eq!(lost, 0, "direct I/O: {direct_io}");
    }
    again::say("done");
}

#[test]
fn p1_a_missing_link_is_noticed_here() {
    let Some(dir) = again::directory() else { return mounted("p1_a_missing_link_is_noticed_here") };
    let Some(lost) = lost(&dir.join("mnt"), Form::Unlinked, false) else { return };
    assert!(lost > 0, "this file system does not notice a missing link, so the test beside it shows nothing");
    again::say(&format!("{lost} of {BARRIERS} acknowledged barriers lost"));
}

#[test]
fn p1_the_dsync_form_is_durable_where_the_kernel_sends_an_fsync_for_it() {
    let Some(dir) = again::directory() else {
        return mounted("p1_the_dsync_form_is_durable_where_the_kernel_sends_an_fsync_for_it");
    };
    let Some(lost) = lost(&dir.join("mnt"), Form::Dsync, false) else { return };
    assert_eq!(lost, 0);
    again::say("done");
}

#[test]
fn a_short_write_is_continued_and_synced_behind_its_last_byte() {
    let Some(dir) = again::directory() else {
        return mounted("a_short_write_is_continued_and_synced_behind_its_last_byte");
    };
    for form in crate::ring::FORMS {
        let Some(uring) = ring(form) else { return };
        let mounted = Mounted::new(&dir.join("mnt"), false);
        let bytes = pattern(BYTES);
        for (round, short) in [1, 2048, BYTES - 1].into_iter().enumerate() {
            mounted.state().short = Some(short);
            let writes = mounted.state().writes;
            let offset = round * BYTES;
            assert_eq!(errno_of(&uring, &mounted.file, offset as u64, &bytes), 0);
            let state = mounted.state();
            assert!(state.short.is_none() && state.writes > writes + 1, "the control: a WRITE was short");
            assert!(state.durable[offset..offset + BYTES] == bytes, "{form:?}, {short}");
        }
        assert_eq!(uring.assisted_barriers(), 0);
    }
    again::say("done");
}

#[test]
fn p6_a_failed_sync_is_returned_at_once_and_not_repeated() {
    let Some(dir) = again::directory() else {
        return mounted("p6_a_failed_sync_is_returned_at_once_and_not_repeated");
    };
    for form in crate::ring::FORMS {
        let Some(uring) = ring(form) else { return };
        each_failed_sync_is_the_only_one(&uring, &dir);
        assert_eq!(uring.assisted_barriers(), 0);
    }
    again::say("done");
}

#[test]
fn p6_the_reference_strategy_does_not_repeat_a_failed_sync() {
    let Some(dir) = again::directory() else {
        return mounted("p6_the_reference_strategy_does_not_repeat_a_failed_sync");
    };
    each_failed_sync_is_the_only_one(&Fsync, &dir);
    again::say("done");
}

fn each_failed_sync_is_the_only_one(strategy: &dyn SyncStrategy, dir: &Path) {
    let mounted = Mounted::new(&dir.join("mnt"), false);
    for errno in [libc::EIO, libc::ENOSPC] {
        let syncs = mounted.state().syncs;
        mounted.state().sync_errno = Some(errno);
        assert_eq!(errno_of(strategy, &mounted.file, 0, b"bytes"), errno, "{strategy:?}");
        assert_eq!(mounted.state().syncs, syncs + 1, "{strategy:?}");
    }
}
