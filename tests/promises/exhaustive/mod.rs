//! P1, P2, P3, P4, P7 and P9 for small schedules, without chance: the process dies in every call that the schedule makes to
//! the disk; of everything that is not stable then, every outcome of a power cut is tried; the open that follows dies in
//! every call too, and is cut again. Where there are too many outcomes, the extreme ones and some others are tried.
//!
//! A state that was judged before, with the same past, is not judged again. `WO_WAL_EXHAUSTIVE=1` tries more of the outcomes.

mod explorer;
mod schedules;

use self::explorer::{Bound, Bounds, Explorer};
use self::schedules::Schedule;

const QUICK: Bounds =
    Bounds { first: Bound { all_up_to: 6, else_only: 6 }, second: Bound { all_up_to: 4, else_only: 1 } };
const FULL: Bounds =
    Bounds { first: Bound { all_up_to: 400, else_only: 40 }, second: Bound { all_up_to: 16, else_only: 4 } };

fn explore(name: &str, schedule: Schedule) {
    let full = std::env::var_os("WO_WAL_EXHAUSTIVE").is_some_and(|value| value == "1");
    let mut explorer = Explorer::new(if full { FULL } else { QUICK });
    if let Err(finding) = explorer.explore(schedule) {
        panic!("{name}: {finding}");
    }
    assert!(explorer.has_cut_lives_and_opens(), "{name}: only {explorer}");
    println!("exhaustive, {name}: {explorer}, nothing lost");
}

#[test]
fn appends_and_batches() {
    explore("appends and batches", schedules::APPENDS);
}

#[test]
fn two_groups_in_flight_then_the_same_again() {
    explore("two in flight, then the same again", schedules::IN_FLIGHT_THEN_THE_SAME);
}

#[test]
fn two_groups_in_flight_then_others() {
    explore("two in flight, then others", schedules::IN_FLIGHT_THEN_OTHERS);
}

#[test]
fn rotations() {
    explore("rotations", schedules::ROTATIONS);
}

#[test]
fn trims() {
    explore("trims", schedules::TRIMS);
}

#[test]
fn recycled_segments() {
    explore("recycled segments", schedules::RECYCLED);
}

#[test]
fn trims_of_an_idle_log() {
    explore("idle trims", schedules::IDLE_TRIMS);
}

#[test]
fn trims_of_an_idle_log_without_a_free_byte() {
    explore("idle trims without a free byte", schedules::IDLE_TRIMS_ON_A_FULL_DISK);
}

#[test]
fn jumbo_segments() {
    explore("jumbo segments", schedules::JUMBO);
}

#[test]
fn closes() {
    explore("closes", schedules::CLOSES);
}
