//! The rule of the full cohort, with a clock of the test's own.

use super::*;
use crate::commit::ledger::Waiters;

const LOG: usize = 0x10_0000;
const BARRIER: Duration = Duration::from_micros(100);

fn settled(group: GroupNumber, released: u32) -> Settled {
    let waiters = Waiters { all: released, asleep: 0 };
    Settled { first: group, last: group, waiters, ..Settled::default() }
}

struct Round {
    gathering: Gathering,
    now: Instant,
    group: GroupNumber,
}

impl Round {
    fn new(policy: Cohort) -> Self {
        Round { gathering: Gathering::new(policy), now: Instant::now(), group: 0 }
    }

    /// A barrier releases so many writers, and so many others wait already. True if the lead waits.
    fn barrier(&mut self, released: u32, waiting: u32) -> bool {
        self.now += BARRIER;
        self.group += 1;
        let settled = settled(self.group, released);
        self.gathering.begin(&settled, waiting, BARRIER, self.now);
        self.gathering.is_on()
    }

    fn come_back_often(&mut self, times: u32) {
        for _ in 0..times {
            assert!(self.gathering.is_on());
            note_release(LOG, self.group);
            self.gathering.arrive(LOG, self.now);
        }
    }

    /// Lets the timekeeper sleep until it gives up; returns how long it slept.
    fn give_up(&mut self) -> Duration {
        let since = self.now;
        while let Some(until) = self.gathering.keep_time(self.now) {
            self.now = until;
        }
        assert!(!self.gathering.is_on());
        self.now - since
    }
}

#[test]
fn the_lead_waits_until_everybody_is_back_who_was_released() {
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(4, 2));
    round.come_back_often(3);
    assert!(round.gathering.is_on());
    round.come_back_often(1);
    assert!(!round.gathering.is_on());
}

#[test]
fn a_lone_writer_is_never_waited_for() {
    let mut round = Round::new(Cohort::Full);
    assert!(!round.barrier(1, 0));
    assert!(!round.barrier(0, 1));
    assert!(round.barrier(1, 1), "two writers that take turns ride together");
}

#[test]
fn greedy_waits_for_nobody() {
    assert!(!Round::new(Cohort::Greedy).barrier(16, 16));
}

#[test]
fn only_those_count_whom_the_last_barrier_of_this_log_has_released() {
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(1, 1));
    note_release(LOG, round.group - 1);
    round.gathering.arrive(LOG, round.now);
    assert!(round.gathering.is_on(), "released by the barrier before");
    note_release(LOG + 1, round.group);
    round.gathering.arrive(LOG, round.now);
    assert!(round.gathering.is_on(), "released by another log");
    note_release(LOG, round.group);
    round.gathering.arrive(LOG, round.now);
    assert!(!round.gathering.is_on());
}

#[test]
fn nobody_is_waited_for_longer_than_a_quarter_of_a_barrier_when_nobody_comes_back() {
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(8, 0));
    assert_eq!(round.give_up(), BARRIER / 4);
}

#[test]
fn stragglers_are_waited_for_half_a_barrier_each_and_two_barriers_in_all() {
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(8, 0));
    round.come_back_often(1);
    assert_eq!(round.give_up(), BARRIER / 2);
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(100, 0));
    let since = round.now;
    while round.gathering.is_on() {
        round.now += BARRIER * 4 / 10;
        if round.gathering.keep_time(round.now).is_some() {
            round.come_back_often(1);
        }
    }
    assert!(round.now - since <= BARRIER * 5 / 2, "{:?}", round.now - since);
}

#[test]
fn those_who_have_come_back_eight_times_in_a_row_are_waited_for_twice_as_long() {
    let mut round = Round::new(Cohort::Full);
    for _ in 0..8 {
        assert!(round.barrier(4, 0));
        round.come_back_often(4);
    }
    assert!(round.barrier(4, 0));
    assert_eq!(round.give_up(), BARRIER / 2);
    round.gathering.absent = 0;
    assert!(round.barrier(4, 0));
    assert_eq!(round.give_up(), BARRIER / 4, "not after one that did not");
}

#[test]
fn a_barrier_that_hung_for_a_minute_does_not_make_anybody_wait_long() {
    let mut round = Round::new(Cohort::Full);
    round.barrier(4, 0);
    round.group += 1;
    let settled = settled(round.group, 4);
    round.gathering.absent = 0;
    round.gathering.begin(&settled, 0, Duration::from_secs(60), round.now);
    assert!(round.gathering.is_on());
    assert!(round.give_up() <= BARRIER_MAX / 4);
}

#[test]
fn who_did_not_come_back_is_not_expected_next_time_but_later_again() {
    let mut round = Round::new(Cohort::Full);
    assert!(round.barrier(8, 0));
    round.come_back_often(5);
    round.give_up();
    assert!(round.barrier(8, 0));
    round.come_back_often(5);
    assert!(!round.gathering.is_on(), "five of eight are enough");
    let mut expected = 5;
    for _ in 0..200 {
        round.barrier(8, 0);
        assert!(round.gathering.expected >= expected);
        expected = round.gathering.expected;
    }
    assert_eq!(expected, 8);
}

#[test]
fn writers_that_never_come_back_are_hardly_ever_waited_for() {
    let mut round = Round::new(Cohort::Full);
    let mut waited = Duration::ZERO;
    for barrier in 0..1000 {
        if round.barrier(1 + barrier % 7, 2) {
            waited += round.give_up();
        }
    }
    assert!(waited < BARRIER * 10, "{waited:?} in a thousand barriers");
}

/// The cohorts of those who come back, complete without the others, each set the patience with the others back: every
/// thirty-second barrier waited for them in vain.
#[test]
fn those_who_never_come_back_are_hardly_ever_waited_for_beside_others_who_do() {
    let mut round = Round::new(Cohort::Full);
    let mut waits_in_vain = 0;
    for _ in 0..10_000 {
        assert!(round.barrier(8, 0));
        round.come_back_often(round.gathering.expected.min(5));
        if round.gathering.is_on() {
            round.give_up();
            waits_in_vain += 1;
        }
    }
    assert!(waits_in_vain < 20, "{waits_in_vain}");
}

/// On a busy machine some came too late again and again, for a while; then they were not expected for a thousand barriers,
/// each of which went without them.
#[test]
fn those_who_come_late_are_soon_expected_again() {
    let mut round = Round::new(Cohort::Full);
    while round.gathering.forgiven_after < FORGIVEN_AFTER_BARRIERS_MAX {
        round.barrier(8, 0);
        round.come_back_often(round.gathering.expected.min(5));
        if round.gathering.is_on() {
            round.give_up();
        }
    }
    let absent = round.gathering.absent;
    for (late, forgiven_after) in
        [(absent - 1, FORGIVEN_AFTER_BARRIERS_MAX), (absent, FORGIVEN_AFTER_BARRIERS)]
    {
        note_release(LOG, round.group);
        for _ in 0..late {
            round.gathering.arrive_late(LOG);
        }
        round.barrier(8, late);
        assert_eq!(round.gathering.forgiven_after, forgiven_after, "{late} of {absent} came late");
    }
}
