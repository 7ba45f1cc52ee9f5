//! The barrier against a scripted kernel: what it submits, what it waits for, and what it makes of each answer.
#![allow(unsafe_code, reason = "implements the trait whose `publish` is unsafe; nothing here touches memory")]

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use io_uring::squeue::{Entry, PushError};
use rustix::io::Errno;

use super::barrier::{self, End};
use super::operations::{Operation, WRITE_BYTES_MAX, user_data};
use super::ring::{Completion, Queues, Ring};
use super::verdict::{Results, Verdict, judge};
use crate::strategy::{Extent, Form};

const CANCELED: i32 = -125;
const CHILD: &str = "WO_WAL_TEST_ABORT";

/// What the kernel posts.
#[derive(Clone, Copy)]
enum Post {
    Write(i32),
    Fsync(i32),
    /// A completion that an earlier call left behind.
    Earlier(Operation, i32),
}

/// One `io_uring_enter`: takes so many entries, posts completions, answers.
struct Step {
    take: usize,
    post: Vec<Post>,
    answer: Result<(), Errno>,
    panic: bool,
}

fn step(take: usize, post: &[Post]) -> Step {
    Step { take, post: post.to_vec(), answer: Ok(()), panic: false }
}

fn refused(errno: Errno, take: usize, post: &[Post]) -> Step {
    Step { answer: Err(errno), ..step(take, post) }
}

/// A kernel that takes a chain whole and finishes it at once.
fn chain(write: i32, fsync: i32) -> Step {
    step(2, &[Post::Write(write), Post::Fsync(fsync)])
}

#[derive(Default)]
struct Kernel {
    script: VecDeque<Step>,
    generation: u64,
    published: VecDeque<u64>,
    /// Entries taken of which no completion was posted.
    taken: Vec<u64>,
    completions: VecDeque<Completion>,
    /// What each `io_uring_enter` asked for: to submit, to wait for.
    entered: Vec<(u32, u32)>,
}

impl Kernel {
    fn new(script: impl IntoIterator<Item = Step>) -> Self {
        Kernel { script: script.into_iter().collect(), ..Kernel::default() }
    }

    fn post(&mut self, post: Post) {
        let (user_data, result) = match post {
            Post::Write(result) => (user_data(self.generation, Operation::Write), result),
            Post::Fsync(result) => (user_data(self.generation, Operation::Fsync), result),
            Post::Earlier(operation, result) => (user_data(self.generation - 1, operation), result),
        };
        if !matches!(post, Post::Earlier(..)) {
            let place = self.taken.iter().position(|&taken| taken == user_data);
            self.taken.remove(place.expect("the script completes what was taken"));
        }
        self.completions.push_back(Completion { user_data, result });
    }

    fn is_idle(&self) -> bool {
        self.published.is_empty() && self.taken.is_empty() && self.completions.is_empty()
    }
}

impl Queues for Kernel {
    fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    unsafe fn publish(&mut self, entries: &[Entry]) -> Result<(), PushError> {
        self.published.extend(entries.iter().map(Entry::get_user_data));
        Ok(())
    }

    fn untaken(&mut self) -> u32 {
        u32::try_from(self.published.len()).unwrap()
    }

    fn enter(&mut self, submit: u32, wait_for: u32) -> io::Result<()> {
        self.entered.push((submit, wait_for));
        let step = self.script.pop_front().expect("the script has ended");
        assert!(step.take <= submit as usize, "the kernel takes no more than it is given");
        self.taken.extend(self.published.drain(..step.take));
        for &post in &step.post {
            self.post(post);
        }
        assert!(!step.panic, "a planted panic");
        step.answer.map_err(io::Error::from)
    }

    fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

fn barrier_of(kernel: &mut Kernel, form: Form, bytes: &[u8]) -> io::Result<End> {
    let file = File::open("/dev/null").unwrap();
    let end = barrier::run(kernel, Extent::new(file.as_fd(), 4096, bytes), form);
    assert!(kernel.taken.is_empty(), "something is still with the kernel");
    assert!(kernel.script.is_empty(), "the barrier ended before the script");
    end
}

/// A linked barrier of 100 bytes, and what each `io_uring_enter` asked for.
fn linked(script: impl IntoIterator<Item = Step>) -> (io::Result<End>, Vec<(u32, u32)>, Kernel) {
    let mut kernel = Kernel::new(script);
    let end = barrier_of(&mut kernel, Form::Linked, &[1; 100]);
    (end, std::mem::take(&mut kernel.entered), kernel)
}

#[test]
fn a_chain_is_one_enter() {
    let (end, entered, kernel) = linked([chain(100, 0)]);
    assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2)]));
    assert!(kernel.is_idle());
}

#[test]
fn completions_are_told_apart_by_user_data_and_not_by_order() {
    let (end, _, _) = linked([step(2, &[Post::Fsync(0), Post::Write(100)])]);
    assert_eq!(end.unwrap(), End::Stable);
    let (end, _, _) = linked([step(2, &[Post::Fsync(-5), Post::Write(100)])]);
    assert_eq!(end.unwrap_err().raw_os_error(), Some(5));
}

#[test]
fn completions_of_an_earlier_call_count_for_nothing() {
    let earlier = [Post::Earlier(Operation::Write, 100), Post::Earlier(Operation::Fsync, 0)];
    let (end, entered, kernel) =
        linked([step(2, &earlier), step(0, &[Post::Write(-5), Post::Fsync(CANCELED)])]);
    assert_eq!(end.unwrap_err().raw_os_error(), Some(5));
    assert_eq!(entered, [(2, 2), (0, 2)]);
    assert!(kernel.is_idle());
}

#[test]
fn a_wait_cut_short_goes_on_without_submitting_again() {
    let (end, entered, _) = linked([
        step(2, &[]),
        refused(Errno::INTR, 0, &[]),
        refused(Errno::INTR, 0, &[Post::Write(100)]),
        step(0, &[Post::Fsync(0)]),
    ]);
    assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2), (0, 2), (0, 2), (0, 1)]));
}

#[test]
fn an_interrupted_submission_is_repeated_whole() {
    let interrupted = (0..100).map(|_| refused(Errno::INTR, 0, &[]));
    let (end, entered, _) = linked(interrupted.chain([chain(100, 0)]));
    assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2); 101]));
}

#[test]
fn a_passing_refusal_is_tried_again() {
    for errno in [Errno::AGAIN, Errno::BUSY] {
        let (end, entered, _) = linked([refused(errno, 0, &[]), refused(errno, 0, &[]), chain(100, 0)]);
        assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2); 3]), "{errno}");
    }
}

#[test]
fn a_lasting_refusal_leaves_the_barrier_to_others_and_the_ring_not_idle() {
    let (end, entered, kernel) = linked((0..16).map(|_| refused(Errno::AGAIN, 0, &[])));
    assert_eq!((end.unwrap(), entered), (End::Unfinished, vec![(2, 2); 16]));
    assert!(!kernel.is_idle(), "its entries must never be submitted");
    for errno in [Errno::PERM, Errno::NOMEM, Errno::BADF] {
        let (end, entered, kernel) = linked([refused(errno, 0, &[])]);
        assert_eq!((end.unwrap(), entered), (End::Unfinished, vec![(2, 2)]), "{errno}");
        assert!(!kernel.is_idle());
    }
}

#[test]
fn an_enter_that_takes_nothing_and_says_so_is_bounded() {
    let (end, entered, _) = linked((0..16).map(|_| step(0, &[])));
    assert_eq!((end.unwrap(), entered.len()), (End::Unfinished, 16));
}

#[test]
fn an_error_does_not_hide_that_the_kernel_took_the_chain() {
    let (end, entered, _) = linked([refused(Errno::PERM, 2, &[]), chain_completes()]);
    assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2), (0, 2)]));
    let (end, _, _) = linked([refused(Errno::NOMEM, 2, &[Post::Write(-28), Post::Fsync(CANCELED)])]);
    assert_eq!(end.unwrap_err().raw_os_error(), Some(28));
}

fn chain_completes() -> Step {
    step(0, &[Post::Write(100), Post::Fsync(0)])
}

#[test]
fn an_fsync_that_was_not_taken_with_its_write_is_never_submitted() {
    let (end, entered, kernel) = linked([step(1, &[]), step(0, &[Post::Write(100)])]);
    assert_eq!((end.unwrap(), entered), (End::Unfinished, vec![(2, 2), (0, 1)]));
    assert_eq!(kernel.published.len(), 1, "the ring is to be closed with it");
}

#[test]
fn a_refusal_to_wait_ends_by_watching_the_queue() {
    let (end, entered, _) = linked([
        step(2, &[]),
        refused(Errno::PERM, 0, &[]),
        refused(Errno::PERM, 0, &[Post::Write(100)]),
        refused(Errno::PERM, 0, &[Post::Fsync(0)]),
    ]);
    assert_eq!((end.unwrap(), entered.len()), (End::Stable, 4));
}

#[test]
fn an_fsync_that_ran_behind_a_short_write_does_not_count() {
    for fsync in [0, CANCELED] {
        let (end, entered, _) = linked([chain(60, fsync), chain(39, fsync), chain(1, 0)]);
        assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2); 3]), "{fsync}");
    }
}

#[test]
fn the_rest_of_a_short_write_can_fail() {
    let (end, _, _) = linked([chain(60, 0), chain(-28, CANCELED)]);
    assert_eq!(end.unwrap_err().raw_os_error(), Some(28));
}

#[test]
fn a_short_dsync_write_goes_on_with_an_fsync_behind_its_last_byte() {
    let mut kernel = Kernel::new([step(1, &[Post::Write(60)]), chain(40, 0)]);
    assert_eq!(barrier_of(&mut kernel, Form::Dsync, &[1; 100]).unwrap(), End::Stable);
    assert_eq!(kernel.entered, [(1, 1), (2, 2)]);
}

#[test]
fn a_dsync_barrier_is_one_write() {
    let mut kernel = Kernel::new([step(1, &[Post::Write(100)])]);
    assert_eq!(barrier_of(&mut kernel, Form::Dsync, &[1; 100]).unwrap(), End::Stable);
    let mut kernel = Kernel::new([step(1, &[Post::Write(CANCELED)])]);
    assert_eq!(barrier_of(&mut kernel, Form::Dsync, &[1; 100]).unwrap(), End::Unfinished);
}

#[test]
fn a_write_without_progress_is_an_error() {
    for fsync in [0, CANCELED] {
        let (end, _, _) = linked([chain(0, fsync)]);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}

#[test]
fn a_sync_that_failed_is_final_whatever_was_written() {
    for write in [100, 60, -4, CANCELED] {
        let (end, entered, _) = linked([chain(write, -5)]);
        assert_eq!(end.unwrap_err().raw_os_error(), Some(5), "{write}");
        assert_eq!(entered.len(), 1);
    }
}

#[test]
fn an_interrupted_write_is_submitted_again_but_not_for_ever() {
    for errno in [-4, -11] {
        let (end, entered, _) = linked([chain(errno, CANCELED), chain(100, 0)]);
        assert_eq!((end.unwrap(), entered), (End::Stable, vec![(2, 2); 2]));
        let (end, entered, _) = linked((0..17).map(|_| chain(errno, CANCELED)));
        assert_eq!((end.unwrap(), entered.len()), (End::Unfinished, 17));
    }
}

#[test]
fn what_no_worker_could_do_is_left_to_others() {
    for write in [CANCELED, 100] {
        let (end, _, kernel) = linked([chain(write, CANCELED)]);
        assert_eq!(end.unwrap(), End::Unfinished, "{write}");
        assert!(kernel.is_idle());
    }
}

#[test]
fn unwinding_waits_for_what_the_kernel_has() {
    let planted = Step { panic: true, ..step(2, &[]) };
    let mut kernel = Kernel::new([planted, step(0, &[Post::Write(100)]), step(0, &[Post::Fsync(0)])]);
    let end = catch_unwind(AssertUnwindSafe(|| barrier_of(&mut kernel, Form::Linked, &[1; 100])));
    assert!(end.is_err());
    assert_eq!(kernel.entered, [(2, 2), (0, 2), (0, 1)]);
    assert!(kernel.is_idle());
}

#[test]
fn unwinding_before_the_submission_submits_nothing() {
    let planted = Step { panic: true, ..step(0, &[]) };
    let mut kernel = Kernel::new([planted]);
    let end = catch_unwind(AssertUnwindSafe(|| barrier_of(&mut kernel, Form::Linked, &[1; 100])));
    assert!(end.is_err());
    assert_eq!((kernel.entered.len(), kernel.published.len()), (1, 2));
}

#[test]
fn where_waiting_is_impossible_the_process_is_aborted() {
    if std::env::var_os(CHILD).is_some() {
        let refusals = (0..10_000).map(|_| refused(Errno::PERM, 0, &[]));
        let _ = linked([step(2, &[])].into_iter().chain(refusals));
        println!("came back");
        return;
    }
    let name = "strategy::uring::implementation::tests::where_waiting_is_impossible_the_process_is_aborted";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&child.status);
    let stderr = String::from_utf8_lossy(&child.stderr);
    assert_eq!(signal, Some(6), "{}{stderr}", String::from_utf8_lossy(&child.stdout));
    assert!(!stderr.contains("panicked"), "it was no panic that ended it: {stderr}");
}

#[test]
fn an_extent_larger_than_one_write_is_cut() {
    let bytes = vec![0; WRITE_BYTES_MAX + 100];
    let first = i32::try_from(WRITE_BYTES_MAX).unwrap();
    let mut kernel = Kernel::new([chain(first, 0), chain(100, 0)]);
    assert_eq!(barrier_of(&mut kernel, Form::Linked, &bytes).unwrap(), End::Stable);
}

#[test]
fn chains_of_one_ring_have_different_user_data() {
    // Where the kernel gives no ring, there is nothing to tell apart; the live tests say so.
    let Ok(mut ring) = Ring::new() else { return };
    let generations: HashSet<u64> = (0..1000).map(|_| ring.next_generation()).collect();
    assert_eq!(generations.len(), 1000);
    assert!(!generations.contains(&0), "what the kernel zeroes is no chain's");
}

#[test]
fn nothing_but_the_exact_pair_is_success() {
    for write in -140..=110 {
        for fsync in -140..=10 {
            let stable = matches!(judge(100, Results { write, fsync }), Verdict::Stable);
            assert_eq!(stable, (write, fsync) == (100, 0), "{write}, {fsync}");
        }
    }
}
