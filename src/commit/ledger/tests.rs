use super::*;
use crate::commit::Item;
use crate::frame::{BLOCK_BYTES, SEGMENT_HEADER_BYTES};

const SEGMENT_BYTES: u64 = 64 * 1024;

fn note(number: u64) -> SegmentNote {
    SegmentNote {
        number,
        id: number * 1000,
        capacity_bytes: SEGMENT_BYTES,
        first_lsn: None,
        has_records: false,
        stable: false,
        written_until: SEGMENT_BYTES,
    }
}

fn ledger(in_flight: usize, segments: u64) -> Ledger {
    let limits =
        Limits { staged_bytes: 1 << 20, segment_bytes: SEGMENT_BYTES, in_flight, own_block_per_group: false };
    let start = Start {
        segments: (1..=segments).map(note).collect(),
        active: 0,
        offset: SEGMENT_HEADER_BYTES,
        chain: 0,
        next_lsn: Lsn::FIRST,
        unvouched: false,
        has_spare: true,
        session_id: 7,
    };
    Ledger::new(limits, start)
}

fn stage(ledger: &mut Ledger, payload_bytes: usize) -> (Lsn, GroupNumber) {
    let payload = vec![b'x'; payload_bytes];
    let item = Item::record(&payload, u32::MAX).unwrap();
    match ledger.admit(item.encoded_bytes()) {
        Admission::Room { segment_number } => ledger.stage(segment_number, &item),
        other => panic!("no room: {other:?}"),
    }
}

fn failure() -> Error {
    Error::io("make durable", "segment", std::io::Error::other("planted"))
}

#[test]
fn p01_durable_lsn_moves_only_when_the_barrier_has_returned() {
    let mut ledger = ledger(1, 1);
    stage(&mut ledger, 10);
    let taken = ledger.take().unwrap();
    assert_eq!(ledger.durable_lsn(), Lsn::ZERO);
    ledger.settle(taken.number, Ok(())).unwrap();
    assert_eq!(ledger.durable_lsn(), Lsn::FIRST);
}

#[test]
fn acks_stay_in_lsn_order_whatever_finishes_first() {
    let mut ledger = ledger(2, 1);
    stage(&mut ledger, 10);
    let first = ledger.take().unwrap();
    stage(&mut ledger, 10);
    let second = ledger.take().unwrap();
    assert_eq!(ledger.settle(second.number, Ok(())), None);
    assert_eq!(ledger.durable_lsn(), Lsn::ZERO);
    let settled = ledger.settle(first.number, Ok(())).unwrap();
    assert_eq!((settled.first, settled.last), (first.number, second.number));
    assert_eq!(ledger.durable_lsn(), Lsn::new(2));
}

#[test]
fn p06_a_failure_also_fails_a_group_with_a_lower_lsn_whose_barrier_returns_ok_later() {
    let mut ledger = ledger(2, 1);
    stage(&mut ledger, 10);
    let first = ledger.take().unwrap();
    stage(&mut ledger, 10);
    let second = ledger.take().unwrap();
    ledger.settle(second.number, Err(failure()));
    assert_eq!(ledger.settle(first.number, Ok(())), None);
    assert_eq!(ledger.durable_lsn(), Lsn::ZERO);
    assert!(ledger.poison().is_some() && ledger.is_idle());
}

#[test]
fn p06_the_first_failure_stays_the_cause_and_staged_records_are_never_taken() {
    let mut ledger = ledger(1, 1);
    stage(&mut ledger, 10);
    let taken = ledger.take().unwrap();
    stage(&mut ledger, 10);
    ledger.settle(taken.number, Err(failure()));
    ledger.fail(Error::Closed);
    match ledger.poison() {
        Some(Error::Poisoned { first_lsn, cause }) => {
            assert_eq!(*first_lsn, Lsn::FIRST);
            assert!(matches!(**cause, Error::Io { .. }));
        }
        other => panic!("not poisoned: {other:?}"),
    }
    assert_eq!(ledger.next_step(), Step::Nothing);
    assert!(ledger.take().is_none());
}

#[test]
fn a_seal_waits_for_what_is_in_flight_and_nothing_passes_it() {
    let mut ledger = ledger(2, 2);
    stage(&mut ledger, 60_000);
    let first = ledger.take().unwrap();
    stage(&mut ledger, 10_000); // does not fit beside the first: goes to segment 2
    assert_eq!(ledger.next_step(), Step::Nothing);
    ledger.settle(first.number, Ok(()));
    assert_eq!(ledger.next_step(), Step::Seal);
    let seal = ledger.take_empty(true, false);
    assert_eq!((seal.segment_number, ledger.next_step()), (1, Step::Nothing));
    ledger.settle(seal.number, Ok(()));
    assert_eq!(ledger.next_step(), Step::Write);
    let second = ledger.take().unwrap();
    assert_eq!((second.segment_number, second.offset), (2, SEGMENT_HEADER_BYTES));
}

#[test]
fn while_a_seal_is_in_flight_records_are_staged_for_the_next_segment() {
    let mut ledger = ledger(1, 2);
    let seal = ledger.take_empty(true, false);
    stage(&mut ledger, 10);
    ledger.settle(seal.number, Ok(()));
    assert_eq!(ledger.take().unwrap().segment_number, 2);
}

#[test]
fn p09_room_for_two_empty_groups_is_always_kept() {
    let mut ledger = ledger(1, 2);
    let free = SEGMENT_BYTES - SEGMENT_HEADER_BYTES;
    let largest = free - 3 * GROUP_HEADER_BYTES;
    assert_eq!(ledger.admit(largest), Admission::Room { segment_number: 1 });
    // Larger than an ordinary segment takes: the empty active segment is replaced.
    assert!(matches!(ledger.admit(largest + 8), Admission::Needs(FileNeed::Larger { number: 1, .. })));
    let payload_bytes = usize::try_from(largest - crate::frame::RECORD_HEADER_BYTES).unwrap();
    stage(&mut ledger, payload_bytes);
    let taken = ledger.take().unwrap();
    ledger.settle(taken.number, Ok(()));
    let close = ledger.take_empty(false, true);
    ledger.settle(close.number, Ok(()));
    let seal = ledger.take_empty(true, false);
    assert_eq!(seal.offset + GROUP_HEADER_BYTES, SEGMENT_BYTES);
}

#[test]
fn p09_the_prepared_segment_is_used_up_only_while_the_spare_exists() {
    let mut ledger = ledger(1, 2);
    ledger.set_spare(false);
    stage(&mut ledger, 60_000);
    assert_eq!(ledger.admit(10_000), Admission::Needs(FileNeed::Spare));
    ledger.set_spare(true);
    assert_eq!(ledger.admit(10_000), Admission::Room { segment_number: 2 });
}

#[test]
fn staging_is_bounded_but_a_huge_item_is_admitted_alone() {
    let mut ledger = ledger(1, 1);
    stage(&mut ledger, 10);
    assert_eq!(ledger.admit(1 << 20), Admission::Wait);
    ledger.take().unwrap();
    assert_ne!(ledger.admit(1 << 20), Admission::Wait);
}

#[test]
fn a_trim_needs_a_stable_group_in_the_next_segment() {
    let mut ledger = ledger(1, 2);
    stage(&mut ledger, 10);
    let taken = ledger.take().unwrap();
    ledger.settle(taken.number, Ok(()));
    let seal = ledger.take_empty(true, false);
    ledger.settle(seal.number, Ok(()));
    assert!(!ledger.trim_oldest(Lsn::FIRST), "segment 2 holds no group");
    let anchor = ledger.take_empty(false, false);
    assert!(!ledger.trim_oldest(Lsn::FIRST), "its group is not stable");
    ledger.settle(anchor.number, Ok(()));
    assert!(ledger.trim_oldest(Lsn::FIRST));
    assert_eq!(ledger.oldest_lsn(), Lsn::new(2));
}

#[test]
fn only_an_empty_group_vouches_for_the_last_records() {
    let mut ledger = ledger(1, 1);
    stage(&mut ledger, 10);
    let taken = ledger.take().unwrap();
    ledger.settle(taken.number, Ok(()));
    assert!(ledger.is_unvouched());
    let close = ledger.take_empty(false, true);
    ledger.settle(close.number, Ok(()));
    assert!(!ledger.is_unvouched());
}

#[test]
fn an_empty_group_does_not_vouch_for_records_that_were_taken_while_it_was_in_flight() {
    let mut ledger = ledger(2, 1);
    let anchor = ledger.take_empty(false, false);
    stage(&mut ledger, 10);
    let records = ledger.take().unwrap();
    ledger.settle(anchor.number, Ok(()));
    ledger.settle(records.number, Ok(()));
    assert!(ledger.is_unvouched());
}

#[test]
fn a_group_that_enters_reserved_blocks_takes_zeros_for_the_stretch_along() {
    let mut ledger = ledger(1, 1);
    ledger.segments[0].written_until = SEGMENT_HEADER_BYTES;
    let mut place = || {
        stage(&mut ledger, 10);
        let taken = ledger.take().unwrap();
        ledger.settle(taken.number, Ok(()));
        (taken.offset, taken.offset + taken.buffer.bytes.len() as u64)
    };
    let (first_offset, first_end) = place();
    assert_eq!((first_offset, first_end), (SEGMENT_HEADER_BYTES, STRETCH_BYTES));
    let (second_offset, second_end) = place();
    assert_eq!(second_offset, SEGMENT_HEADER_BYTES + 64 + 24, "the zeros belong to no group");
    assert_eq!(second_end, second_offset + 64 + 24);
}

/// A recycled segment whose bytes the kernel's cache has dropped: writing a part of a page reads the rest of it from disk
/// first. With 4 KiB records a barrier took 1.6 times as long (`cargo bench --bench blocks`).
#[test]
fn a_group_that_enters_a_page_of_written_blocks_takes_zeros_for_the_rest_of_it_along() {
    let mut ledger = ledger(1, 2);
    let place = |ledger: &mut Ledger, payload_bytes| {
        stage(ledger, payload_bytes);
        let taken = ledger.take().unwrap();
        ledger.settle(taken.number, Ok(()));
        (taken.offset, taken.offset + taken.buffer.bytes.len() as u64)
    };
    assert_eq!(place(&mut ledger, 10), (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + PAGE_BYTES));
    let second_offset = SEGMENT_HEADER_BYTES + 64 + 24;
    let second_end = second_offset + 64 + 24;
    assert_eq!(place(&mut ledger, 10), (second_offset, second_end), "the page has been written whole");
    let third_end = SEGMENT_HEADER_BYTES + 2 * PAGE_BYTES;
    assert_eq!(place(&mut ledger, 4096), (second_end, third_end), "across the end of the page");

    let seal = ledger.take_empty(true, false);
    assert_eq!(seal.buffer.bytes.len() as u64, GROUP_HEADER_BYTES, "a seal may have no more room than that");
    ledger.settle(seal.number, Ok(()));
    assert_eq!(place(&mut ledger, 10), (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + PAGE_BYTES));
}

#[test]
fn zeros_are_never_written_where_another_group_may_be_in_flight() {
    let mut ledger = ledger(2, 1);
    ledger.segments[0].written_until = SEGMENT_HEADER_BYTES;
    stage(&mut ledger, 10);
    assert_eq!(ledger.take().unwrap().buffer.bytes.len(), 64 + 24);
}

#[test]
fn each_group_starts_on_its_own_block_when_asked_to() {
    let mut ledger = ledger(1, 1);
    ledger.limits.own_block_per_group = true;
    for group in 0..3 {
        stage(&mut ledger, 10);
        let taken = ledger.take().unwrap();
        assert_eq!(taken.offset, SEGMENT_HEADER_BYTES + group * BLOCK_BYTES);
        assert_eq!(taken.buffer.bytes.len() as u64, BLOCK_BYTES);
        ledger.settle(taken.number, Ok(()));
    }
}
