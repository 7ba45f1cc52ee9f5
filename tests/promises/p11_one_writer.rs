//! P11: one writer at a time, in one process.

use wo_wal::{Error, Wal};

use crate::child::Process;
use crate::support::env::{for_each_disk, lsn, payloads};

#[test]
fn p11_a_second_open_in_the_process_is_refused() {
    for_each_disk(|env| {
        let wal = env.open();
        for _ in 0..3 {
            let refused = env.open_with(env.options()).expect_err("open elsewhere");
            assert!(matches!(refused, Error::Locked { .. }), "{refused:?}");
        }
        wal.append(b"still works").unwrap();
        let clone = wal.clone();
        drop(wal);
        assert!(matches!(env.open_with(env.options()), Err(Error::Locked { .. })), "a clone lives");
        clone.close().unwrap();
        assert_eq!(payloads(&env.open()), [b"still works"]);
    });
}

#[test]
fn p11_a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(directory.path()).unwrap();
    assert_eq!(Process::start("open", directory.path(), 0).next_line().as_deref(), Some("locked"));
    wal.close().unwrap();
    assert_eq!(Process::start("open", directory.path(), 0).next_line().as_deref(), Some("opened"));
}

#[test]
fn p11_the_lock_is_free_once_its_process_is_dead() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Process::start("append for ever", directory.path(), 1);
    assert_eq!(child.next_line().as_deref(), Some("open"));
    assert!(matches!(Wal::open(directory.path()), Err(Error::Locked { .. })));
    child.kill();
    Wal::open(directory.path()).unwrap();
}

#[test]
fn p11_tickets_and_replays_do_not_keep_the_lock() {
    for_each_disk(|env| {
        let wal = env.open();
        wal.append(b"one").unwrap();
        let ticket = wal.submit(b"two").unwrap();
        let replay = wal.replay(..=lsn(1)).unwrap();
        drop(wal);
        let again = env.open();
        assert_eq!(again.durable_lsn(), lsn(2));
        assert_eq!(ticket.wait().unwrap(), lsn(2));
        assert_eq!(replay.count(), 1);
    });
}

/// The child of a fork shares memory and open files with its parent; it may use neither.
#[test]
fn p11_a_forked_child_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Process::start("fork", directory.path(), 0);
    assert_eq!(child.next_line().as_deref(), Some("the child was refused everything"));
    assert_eq!(child.next_line().as_deref(), Some("the parent goes on"));
}
