//! A process that is killed at a random moment has acked nothing that is not there.

use std::collections::BTreeMap;
use std::time::Duration;

use wo_wal::{Result, Wal};

use crate::child::{Process, RECORD_BYTES_BELOW};
use crate::support::env::SEGMENT_BYTES;
use crate::support::oracle::signature;
use crate::support::rng::Rng;

const ROUNDS: u64 = 200;
/// After so many rounds the log starts anew, so that reading it stays quick.
const ROUNDS_PER_LOG: u64 = 10;

#[test]
fn p01_a_killed_writer_loses_no_acked_record() {
    let mut rng = Rng::new(7);
    let mut acked_at_all = 0;
    for log in 0..ROUNDS / ROUNDS_PER_LOG {
        let directory = tempfile::tempdir().unwrap();
        // By LSN: which round's record it is, by its signature.
        let mut acked = BTreeMap::new();
        for round in 0..ROUNDS_PER_LOG {
            let seed = log * ROUNDS_PER_LOG + round;
            let mut child = Process::start("append for ever", directory.path(), seed);
            assert_eq!(child.next_line().as_deref(), Some("open"), "round {seed}");
            std::thread::sleep(Duration::from_micros(rng.below(20_000)));
            child.kill();
            while let Some(line) = child.next_line() {
                let (lsn, writer, sequence) = parse(&line);
                assert_eq!(acked.insert(lsn, (seed, writer, sequence)), None, "LSN {lsn} twice");
                acked_at_all += 1;
            }
            check(directory.path(), &acked, seed);
        }
    }
    assert!(acked_at_all > ROUNDS, "the children were killed before they did anything");
}

fn parse(line: &str) -> (u64, u16, u64) {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("a child said {line:?}"));
    (word().parse().unwrap(), word().parse().unwrap(), word().parse().unwrap())
}

/// Every acked record that no trim has dropped is there, and every record there is one that some round appended, once.
fn check(directory: &std::path::Path, acked: &BTreeMap<u64, (u64, u16, u64)>, last_seed: u64) {
    let (wal, _) = Wal::options().segment_bytes(SEGMENT_BYTES).open(directory).unwrap();
    let oldest = wal.oldest_lsn().get();
    let records = wal.replay(..).unwrap().collect::<Result<Vec<_>>>().unwrap();
    let first_seed = last_seed - last_seed % ROUNDS_PER_LOG;
    let mut seen = BTreeMap::new();
    for (expected, record) in (oldest..).zip(&records) {
        assert_eq!(record.lsn.get(), expected);
        let source = (first_seed..=last_seed)
            .find_map(|seed| {
                let (writer, sequence) = signature(seed, &record.payload, RECORD_BYTES_BELOW)?;
                Some((seed, writer, sequence))
            })
            .unwrap_or_else(|| panic!("round {last_seed}: record {expected} was never appended"));
        if let Some(acked) = acked.get(&expected) {
            assert_eq!(*acked, source, "round {last_seed}: another record at LSN {expected}");
        }
        assert_eq!(seen.insert(source, expected), None, "round {last_seed}: record {expected} twice");
    }
    let end = wal.durable_lsn().get();
    assert_eq!(end, oldest + records.len() as u64 - 1, "round {last_seed}");
    if let Some((last_acked, _)) = acked.last_key_value() {
        assert!(*last_acked <= end, "round {last_seed}: LSN {last_acked} was acked, the log ends at {end}");
    }
}
