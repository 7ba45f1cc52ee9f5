//! The log end to end, on a real directory.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use wo_wal::{Error, Lsn, Reader, Wal};

#[test]
fn what_was_appended_is_replayed_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, recovery) = Wal::open(dir.path()).unwrap();
    assert_eq!((recovery.oldest, recovery.last), (Lsn::FIRST, Lsn::ZERO));
    assert_eq!(wal.append(b"one").unwrap(), Lsn::new(1));
    assert_eq!(wal.append_batch([&b"two"[..], b"", b"four"]).unwrap(), Lsn::new(2)..=Lsn::new(4));
    let ticket = wal.submit(b"five").unwrap();
    assert!(ticket.outcome().is_none());
    assert_eq!(wal.sync().unwrap(), Lsn::new(5));
    assert_eq!(ticket.wait().unwrap(), Lsn::new(5));
    assert!(matches!(Wal::open(dir.path()), Err(Error::Locked { .. })));
    wal.close().unwrap();
    assert!(matches!(wal.append(b"six"), Err(Error::Closed)));

    let (wal, recovery) = Wal::open(dir.path()).unwrap();
    assert!(recovery.closed_cleanly);
    let records: Vec<_> = wal.replay(..).unwrap().map(|record| record.unwrap().payload).collect();
    assert_eq!(records, [&b"one"[..], b"two", b"", b"four", b"five"]);
    let (reader, _) = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.replay(Lsn::new(3)..).unwrap().count(), 3);
}

#[test]
fn a_log_rotates_recycles_and_trims() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::options().segment_bytes(64 * 1024).open(dir.path()).unwrap();
    for round in 0..200_u64 {
        for number in 0..20 {
            let _ = wal.submit(&[u8::try_from(number).unwrap(); 1000]).unwrap();
        }
        let last = wal.sync().unwrap();
        assert_eq!(last.get(), (round + 1) * 20);
        if round % 7 == 0 {
            wal.trim(last).unwrap();
        } else if round % 3 == 0 {
            wal.trim(Lsn::new(last.get() - 30.min(last.get()))).unwrap();
        }
        let oldest = wal.oldest_lsn();
        let count = wal.replay(..).unwrap().map(Result::unwrap).count() as u64;
        assert_eq!(count, last.get() + 1 - oldest.get());
    }
    assert!(wal.stats().rotations > 10);
    // A jumbo batch.
    let huge = vec![b'j'; 300_000];
    let lsn = wal.append(&huge).unwrap();
    assert_eq!(wal.replay(lsn..).unwrap().next().unwrap().unwrap().payload, huge);
    wal.append(b"after").unwrap();
    drop(wal);
    let (wal, recovery) = Wal::open(dir.path()).unwrap();
    assert_eq!(recovery.last, Lsn::new(4002));
    assert_eq!(wal.replay(lsn..).unwrap().count(), 2);
    wal.trim(recovery.last).unwrap();
    assert_eq!(wal.oldest_lsn(), Lsn::new(4003));
}

#[test]
fn a_ticket_that_is_printed_shows_nobodys_records() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(dir.path()).unwrap();
    let ticket = wal.submit(&[0xab; 100]).unwrap();
    assert_eq!(format!("{ticket:?}"), "Ticket { first_lsn: Lsn(1), last_lsn: Lsn(1), .. }");
    assert!(format!("{wal:?}").len() < 300);
}
