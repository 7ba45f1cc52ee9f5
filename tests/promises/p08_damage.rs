//! P8: damage to acked data is reported, and is never taken for a torn tail.

use wo_wal::{Error, Result, Wal};

use crate::support::env::{Env, for_each_disk, lsn};
use crate::support::rng::Rng;
use crate::support::sim::Sim;

type Image = Vec<(String, Vec<u8>)>;
type Records = Vec<Vec<u8>>;

/// A cleanly closed log with groups of one and several records, and where its groups begin and its last one ends.
struct Closed {
    image: Image,
    records: Records,
    first_group: usize,
    closing_group: usize,
}

fn closed_log(env: &Env) -> Closed {
    let (wal, control) = env.open_steered();
    let first_barrier = control.offsets().len();
    wal.append(b"a record").unwrap();
    wal.append_batch([&b"a batch"[..], b"", b"of three"]).unwrap();
    wal.append(b"the last").unwrap();
    let closing_barrier = control.offsets().len();
    wal.close().unwrap();
    drop(wal);
    let offset = |barrier: usize| usize::try_from(control.offsets()[barrier]).unwrap();
    Closed {
        image: env.image(),
        records: [&b"a record"[..], b"a batch", b"", b"of three", b"the last"].map(<[u8]>::to_vec).to_vec(),
        first_group: offset(first_barrier),
        closing_group: offset(closing_barrier),
    }
}

/// What open and a full replay say.
fn read(env: &Env) -> Result<Records> {
    let (wal, _) = env.open_with(env.options())?;
    wal.replay(..)?.map(|record| Ok(record?.payload)).collect()
}

fn flipped(image: &Image, offset: usize, bit: usize) -> Image {
    let mut damaged = image.clone();
    damaged[0].1[offset] ^= 1 << bit;
    damaged
}

#[test]
fn p08_every_flip_in_a_closed_log_is_reported() {
    let sim = Sim::new(1);
    let env = Env::simulated(&sim, 1);
    let closed = closed_log(&env);
    for offset in closed.first_group..closed.closing_group {
        for bit in 0..8 {
            env.restore(&flipped(&closed.image, offset, bit));
            match read(&env) {
                Err(Error::Corrupt { segment, offset: reported, lsn, .. }) => {
                    assert_eq!(segment.file_name().unwrap().to_str().unwrap(), closed.image[0].0);
                    assert!(reported <= offset as u64 && lsn.get() <= 5, "{offset}.{bit}: {reported}, {lsn}");
                }
                other => panic!("{offset}.{bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn p08_a_flip_in_or_after_the_closing_group_changes_nothing_that_is_replayed() {
    let sim = Sim::new(1);
    let env = Env::simulated(&sim, 1);
    let closed = closed_log(&env);
    for offset in closed.closing_group..closed.closing_group + 200 {
        for bit in 0..8 {
            env.restore(&flipped(&closed.image, offset, bit));
            let records = read(&env).unwrap_or_else(|error| panic!("{offset}.{bit}: {error}"));
            assert_eq!(records, closed.records, "{offset}.{bit}");
        }
    }
}

/// Also through the real strategy, at a few places.
#[test]
fn p08_a_flip_is_reported_on_every_disk() {
    for_each_disk(|env| {
        let closed = closed_log(env);
        let mut rng = Rng::new(1);
        for _ in 0..40 {
            let offset = closed.first_group + rng.index(closed.closing_group - closed.first_group);
            env.restore(&flipped(&closed.image, offset, rng.index(8)));
            assert!(matches!(read(env), Err(Error::Corrupt { .. })), "{offset}");
        }
        env.restore(&closed.image);
        assert_eq!(read(env).unwrap(), closed.records);
    });
}

#[test]
fn p08_a_flip_in_a_segment_header_is_reported() {
    for_each_disk(|env| {
        let closed = closed_log(env);
        for offset in (0..4096).step_by(if env.sim().is_some() { 1 } else { 61 }) {
            env.restore(&flipped(&closed.image, offset, offset % 8));
            match read(env) {
                Err(Error::Corrupt { offset: 0, .. } | Error::NotASegment { .. }) => {}
                other => panic!("{offset}: {other:?}"),
            }
        }
    });
}

/// A log over several segments, closed.
fn several_segments(env: &Env) -> (Image, Records) {
    let wal = env.open();
    let records: Records = (0..17_u8).map(|byte| vec![byte; 15_000]).collect();
    for record in &records {
        wal.append(record).unwrap();
    }
    wal.close().unwrap();
    drop(wal);
    assert!(env.segments().len() >= 4);
    (env.image(), records)
}

#[test]
fn p08_a_missing_middle_segment_is_reported() {
    for_each_disk(|env| {
        let (image, _) = several_segments(env);
        env.remove(&env.segments()[1]);
        assert!(matches!(read(env), Err(Error::MissingSegment { number: 2, .. })));
        env.restore(&image);
        read(env).unwrap();
    });
}

#[test]
fn p08_the_segments_after_a_seal_may_not_be_missing() {
    for_each_disk(|env| {
        several_segments(env);
        for name in &env.segments()[2..] {
            env.remove(name);
        }
        assert!(matches!(read(env), Err(Error::MissingSegment { number: 3, .. })));
    });
}

/// Damage in a sealed segment is met by the replay that passes it, if not by open; what lies before it is served.
#[test]
fn p08_a_replay_that_meets_damage_stops_with_an_error() {
    for_each_disk(|env| {
        let (mut image, records) = several_segments(env);
        // Inside the second segment's second record.
        image[1].1[4096 + 20_000] ^= 1;
        env.restore(&image);
        let (wal, _) = env.open_with(env.options()).unwrap();
        let mut replay = wal.replay(..).unwrap();
        let mut served = Vec::new();
        let error = loop {
            match replay.next().expect("an error before the end") {
                Ok(record) => served.push(record.payload),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(!served.is_empty() && records.starts_with(&served));
        assert!(replay.next().is_none(), "fused");
    });
}

#[test]
fn p08_a_refused_log_is_left_as_it_is() {
    for_each_disk(|env| {
        let closed = closed_log(env);
        let damaged = flipped(&closed.image, closed.first_group + 8, 3);
        env.restore(&damaged);
        for _ in 0..3 {
            assert!(matches!(read(env), Err(Error::Corrupt { .. })));
        }
        assert!(env.image() == damaged, "open changed a log that it refused");
    });
}

/// A log that was not closed: every acked group but the last is covered by the durable LSN of a later one.
#[test]
fn p08_damage_before_the_last_group_of_an_unclosed_log_is_reported() {
    for_each_disk(|env| {
        let (wal, control) = env.open_steered();
        let first_barrier = control.offsets().len();
        for record in [&b"first"[..], b"second", b"third"] {
            wal.append(record).unwrap();
        }
        env.kill();
        drop(wal);
        let image = env.image();
        let offsets = &control.offsets()[first_barrier..];
        for offset in offsets[0]..offsets[2] {
            env.restore(&flipped(&image, usize::try_from(offset).unwrap(), 5));
            assert!(matches!(read(env), Err(Error::Corrupt { .. })), "{offset}");
        }
        env.restore(&image);
        assert_eq!(env.open().durable_lsn(), lsn(3));
    });
}

/// A torn group may leave a header whose durable LSN is the only one that covers the last acked record. Open writes zeros
/// over that header, so close must not count on it.
#[test]
fn p08_close_vouches_for_what_only_an_erased_header_vouched_for() {
    let mut erased = 0;
    for seed in 0..40 {
        let sim = Sim::new(seed);
        let env = Env::simulated(&sim, 1);
        let wal = env.open();
        wal.append(b"the last acked").unwrap();
        sim.crash_after(1);
        wal.append(&[7; 3000]).unwrap_err();
        drop(wal);
        sim.power_cut(seed);
        let (wal, recovery) = env.open_with(env.options()).unwrap();
        erased += u64::from(recovery.cut_bytes > 3000);
        let whole = recovery.last > lsn(1);
        wal.close().unwrap();
        drop(wal);
        if whole {
            continue;
        }
        let mut image = env.image();
        let bytes = &mut image[0].1;
        let place = bytes.windows(14).position(|window| window == b"the last acked").unwrap();
        bytes[place] ^= 1;
        env.restore(&image);
        assert!(
            matches!(read(&env), Err(Error::Corrupt { .. })),
            "seed {seed}: the flip was taken for a torn tail"
        );
    }
    assert!(erased > 0, "no header was left of a torn group");
}

/// A replay does not keep its log open. Another open trimmed what it still had to read and used the files again: that was
/// called damage, or a file that could not be opened.
#[test]
fn p08_a_replay_that_outlives_its_log_does_not_take_a_recycled_file_for_a_damaged_one() {
    for_each_disk(|env| {
        let open = || env.open_with(env.options().segment_bytes(1 << 20).recycle_segments(3)).unwrap().0;
        let fill = |wal: &Wal, kind: u8| {
            for _ in 0..200 {
                wal.append(&vec![kind; 20_000]).unwrap();
            }
        };
        let wal = open();
        fill(&wal, b'A');
        let (mut in_first, mut in_second) = (wal.replay(..).unwrap(), wal.replay(..).unwrap());
        for replay in [&mut in_first, &mut in_second] {
            replay.next().unwrap().unwrap();
        }
        in_second.nth(60).unwrap().unwrap();
        drop(wal);
        let wal = open();
        wal.trim(wal.durable_lsn()).unwrap();
        fill(&wal, b'B');
        for replay in [in_first, in_second] {
            let (served, refused): (Vec<_>, Vec<_>) = replay.partition(Result::is_ok);
            assert!(served.iter().flatten().all(|record| record.payload == vec![b'A'; 20_000]));
            assert!(matches!(refused[..], [Err(Error::Trimmed { .. })]), "{refused:?}");
        }
    });
}
