//! P6: the first failed barrier poisons the log; nothing is acked afterwards.

use rustix::io::Errno;
use wo_wal::{Error, Result, Wal};

use crate::child::Process;
use crate::support::env::{Env, for_each_disk, lsn, payloads};
use crate::support::sim::{Fault, Sim};

fn assert_poisoned<T: std::fmt::Debug>(answer: Result<T>) {
    match answer {
        Err(Error::Poisoned { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn p06_failed_sync_poisons_every_waiter() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        control.gate.close();
        control.fail_after(0, Errno::IO);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8_u8)
                .map(|writer| {
                    scope.spawn({
                        let wal = &wal;
                        move || wal.append(&[writer; 100])
                    })
                })
                .collect();
            control.gate.wait_until_held(1);
            control.gate.open();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        answers.into_iter().for_each(assert_poisoned);
        assert_eq!(wal.durable_lsn(), lsn(1));
        assert_eq!(payloads(&wal), [b"acked"]);
    });
}

#[test]
fn p06_nothing_is_acked_or_written_after_a_failure() {
    for errno in [Errno::IO, Errno::NOSPC] {
        for_each_disk(|env| {
            let (wal, control) = env.open_steered();
            wal.append(b"acked").unwrap();
            let earlier = wal.submit(b"submitted before").unwrap();
            control.fail_after(0, errno);
            assert_poisoned(wal.append(b"fails"));
            let (barriers, image) = (control.barriers(), env.image());
            assert_poisoned(wal.append(b"after"));
            assert_poisoned(wal.append_batch([b"after"]));
            assert_poisoned(wal.submit(b"after"));
            assert_poisoned(wal.try_submit(b"after"));
            assert_poisoned(wal.sync());
            assert_poisoned(wal.wait(lsn(2)));
            assert_poisoned(earlier.wait());
            assert_eq!(wal.wait(lsn(1)).ok(), Some(()), "acked is acked");
            assert_poisoned(wal.close());
            assert_eq!(wal.durable_lsn(), lsn(1));
            assert_eq!(control.barriers(), barriers, "no barrier is tried again");
            drop(wal);
            assert!(env.image() == image, "nothing is written after a failure");
        });
    }
}

#[test]
fn p06_the_error_names_the_first_unacked_record_and_the_cause() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append_batch([b"a", b"b"]).unwrap();
        control.fail_after(0, Errno::IO);
        let Err(Error::Poisoned { first_lsn, cause, .. }) = wal.append(b"c") else { panic!("not poisoned") };
        assert_eq!(first_lsn, lsn(3));
        let Error::Io { source, .. } = &*cause else { panic!("{cause:?}") };
        assert_eq!(source.raw_os_error(), Some(Errno::IO.raw_os_error()));
    });
}

/// Once a barrier has failed, an earlier one that is still in flight fails too, though its own sync says Ok.
#[test]
fn p06_an_earlier_group_in_flight_fails_too() {
    let sim = Sim::new(1);
    let wal = Env::simulated(&sim, 2).open();
    sim.gate().close();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| wal.append(b"first"));
        sim.gate().wait_until_held(1);
        let second = scope.spawn(|| wal.append(b"second"));
        sim.gate().wait_until_held(2);
        sim.fail_syncs(100);
        sim.gate().release(1);
        assert_poisoned(second.join().unwrap());
        sim.fail_syncs(0);
        sim.gate().open();
        assert_poisoned(first.join().unwrap());
    });
    assert_eq!(wal.durable_lsn(), lsn(0));
}

#[test]
fn p06_a_log_can_be_told_to_end_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Process::start("fail and abort", directory.path(), 0);
    assert_eq!(child.next_line().as_deref(), Some("acked"));
    assert_eq!(child.next_line(), None, "the process goes on after a failure");
    let (status, said) = child.end();
    assert_eq!(status.code(), Some(74), "{said}");
    assert!(said.contains("LSN 1 is durable") && said.contains("make durable"), "{said}");
    let (wal, _) = Wal::open(directory.path()).unwrap();
    assert_eq!(payloads(&wal)[0], b"acked");
}

/// A supervisor restarts the program when it ends, and reads its standard error no longer, or on a disk that is full: the
/// paragraph could not be written, which was a panic of the writer that led, and the process went on with the others asleep.
#[cfg(target_os = "linux")]
#[test]
fn p06_the_process_ends_also_where_standard_error_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut child = Process::start_telling("fail and abort", directory.path(), 0, full.into());
    assert_eq!(child.next_line().as_deref(), Some("acked"));
    assert_eq!(child.next_line(), None, "the process goes on after a failure");
    assert_eq!(child.end().0.code(), Some(74));
}

/// The outcome of the failed records is open until the log is opened again; then it is settled.
#[test]
fn p06_a_reopen_settles_what_was_indeterminate() {
    let mut there = 0;
    let mut gone = 0;
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 1);
        let wal = env.open();
        wal.append(b"acked").unwrap();
        sim.fail_after(1, Fault { errno: Errno::IO, lasting: false });
        assert_poisoned(wal.append(&[7; 800]));
        drop(wal);
        sim.power_cut(seed);
        match payloads(&env.open()).len() {
            1 => gone += 1,
            2 => there += 1,
            more => panic!("seed {seed}: {more} records"),
        }
    }
    assert!(there > 0 && gone > 0, "{there} there, {gone} gone");
}

#[test]
fn p06_the_log_works_again_after_a_reopen() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        wal.append(b"acked").unwrap();
        control.fail_after(0, Errno::IO);
        assert_poisoned(wal.append(b"fails"));
        drop(wal);
        let wal = env.open();
        let next = wal.append(b"works").unwrap();
        assert_eq!(next.get(), payloads(&wal).len() as u64);
        assert_eq!(payloads(&wal).last().unwrap(), b"works");
    });
}
