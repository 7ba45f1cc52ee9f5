//! Signals and refusals in the middle of `io_uring_enter`.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use wo_wal::strategy::{Form, SyncStrategy, Uring};

use crate::again;
use crate::ring::{create, errno_of, pattern, ring, temporary_directory};

const ROUNDS: u64 = 60;
const FORMS: [(&str, Form); 2] = [("linked", Form::Linked), ("dsync", Form::Dsync)];

/// Barriers of different lengths, each behind the one before; every third also fails, on a file that cannot be written.
/// A completion that is taken for another call's shows as a wrong result or a wrong length. Says of each that must succeed
/// whether it was assisted.
fn barriers(dir: &Path, uring: &Uring) -> Vec<bool> {
    let file = create(dir);
    let read_only = std::fs::File::open(dir.join("file")).unwrap();
    let mut expected = Vec::new();
    let mut assisted = Vec::new();
    for round in 0..ROUNDS {
        let bytes = pattern(usize::try_from(round * 97 + 1).unwrap());
        let before = uring.assisted_barriers();
        assert_eq!(errno_of(uring, &file, expected.len() as u64, &bytes), 0, "round {round}");
        assisted.push(uring.assisted_barriers() > before);
        expected.extend_from_slice(&bytes);
        if round % 3 == 0 {
            assert_ne!(errno_of(uring, &read_only, 0, &bytes), 0, "round {round}");
        }
    }
    assert_eq!(std::fs::read(dir.join("file")).unwrap(), expected);
    assisted
}

/// Runs the barriers with some calls of `io_uring_enter` refused, not executed; the child says how many barriers were
/// assisted.
fn injected(test: &str, form: Form, injection: &str) -> Option<u64> {
    if !again::can_trace() {
        return None;
    }
    let dir = temporary_directory();
    let name = match form {
        Form::Dsync => "dsync",
        _ => "linked",
    };
    std::fs::create_dir(dir.path().join(name)).unwrap();
    let trace = dir.path().join("trace");
    let injection = format!("inject=io_uring_enter:{injection}");
    let wrapper =
        ["strace", "-f", "-o", trace.to_str().unwrap(), "-e", "trace=io_uring_enter", "-e", &injection];
    let said = again::run(test, dir.path(), &wrapper)?;
    let injected = std::fs::read_to_string(&trace).unwrap().matches("(INJECTED)").count();
    assert!(injected > 5, "the control: only {injected} calls were refused");
    Some(said[0].parse().unwrap())
}

/// In the child: the barriers, in the form that the directory tells.
fn inside(dir: &Path) {
    for (name, form) in FORMS {
        let dir = dir.join(name);
        if dir.exists()
            && let Some(uring) = ring(form)
        {
            barriers(&dir, &uring);
            again::say(&uring.assisted_barriers().to_string());
        }
    }
}

#[test]
fn an_interrupted_enter_is_repeated() {
    if let Some(dir) = again::directory() {
        return inside(&dir);
    }
    for form in [Form::Linked, Form::Dsync] {
        for injection in ["error=EINTR:when=2+3", "error=EINTR:when=1+2"] {
            let assisted = injected("interruptions::an_interrupted_enter_is_repeated", form, injection);
            assert!(assisted.is_none_or(|assisted| assisted == 0), "{assisted:?}");
        }
    }
}

#[test]
fn an_enter_without_means_at_the_moment_is_repeated() {
    if let Some(dir) = again::directory() {
        return inside(&dir);
    }
    for injection in ["error=EAGAIN:when=2+3", "error=EBUSY:when=1+2"] {
        let test = "interruptions::an_enter_without_means_at_the_moment_is_repeated";
        let assisted = injected(test, Form::Linked, injection);
        assert!(assisted.is_none_or(|assisted| assisted == 0), "{assisted:?}");
    }
}

#[test]
fn an_enter_that_is_refused_leaves_the_barrier_to_plain_calls() {
    if let Some(dir) = again::directory() {
        return inside(&dir);
    }
    for form in [Form::Linked, Form::Dsync] {
        let test = "interruptions::an_enter_that_is_refused_leaves_the_barrier_to_plain_calls";
        let assisted = injected(test, form, "error=EPERM:when=2+3");
        assert!(assisted.is_none_or(|assisted| assisted > 5), "{assisted:?}");
    }
}

// Signals cut waits for a completion short. None may be lost by that, or taken for another's. No barrier should be assisted
// either, but now and then some were, and more of them where the machine was busy.
//
// The kernel makes no worker while a signal is pending for the thread that needs it. It tries some more times, and if the
// thread has no worker at all then, it cancels what was submitted: the ring has done nothing, the barrier is made by plain
// calls, and the thread goes around the ring for 1, 3, 7... barriers after each attempt in vain. How many attempts are in
// vain is luck. But the last worker of a thread stays as long as the thread does, and a barrier that the ring has made
// is made by a worker: its FSYNC never runs anywhere else. So after the first of these none is assisted, whatever comes.

/// Often enough that most waits end early, far from so often that nothing else is done.
const SIGNAL_PERIOD_NANOS: libc::c_long = 100_000;
/// Threads that start without a worker. Only some of them will have a signal pending when they need one.
const FRESH_THREADS: usize = 5;

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends this thread signals for the rest of its life.
#[allow(unsafe_code, reason = "timers and handlers of signals have no safe interface")]
fn start_storm() {
    // SAFETY: the handler only counts; the structures are zeroed, which is valid for them, and outlive the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        // No `SA_RESTART`: system calls are to end early.
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::ptr::null_mut();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
        let period = libc::timespec { tv_sec: 0, tv_nsec: SIGNAL_PERIOD_NANOS };
        let times = libc::itimerspec { it_interval: period, it_value: period };
        assert_eq!(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()), 0);
    }
}

/// Whether the thread in the storm has made a barrier before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    There,
    None,
}

/// Makes the barriers in a thread of its own, which starts without a worker, and says of each whether it was assisted.
/// `None` where there is no ring.
fn in_a_storm(dir: &Path, form: Form, worker: Worker) -> Option<Vec<bool>> {
    let life = || {
        let uring = ring(form)?;
        if worker == Worker::There {
            let linked = ring(Form::Linked)?;
            assert_eq!(errno_of(&linked, create(dir), 0, b"a barrier without a signal"), 0);
            assert_eq!(linked.assisted_barriers(), 0, "without a signal");
            std::fs::remove_file(dir.join("file")).unwrap();
        }
        let before = SIGNALS.load(Ordering::Relaxed);
        start_storm();
        let assisted = barriers(dir, &uring);
        let signals = SIGNALS.load(Ordering::Relaxed) - before;
        assert!(signals > 50, "the control: only {signals} signals came");
        Some(assisted)
    };
    std::thread::scope(|scope| scope.spawn(life).join().unwrap())
}

/// In the child: each form in so many threads, one after the other.
fn in_storms(dir: &Path, worker: Worker, threads: usize, judge: impl Fn(&[bool])) {
    for (name, form) in FORMS {
        for thread in 0..threads {
            let dir = dir.join(format!("{name}{thread}"));
            std::fs::create_dir(&dir).unwrap();
            let Some(assisted) = in_a_storm(&dir, form, worker) else { return };
            judge(&assisted);
        }
    }
    again::say("done");
}

#[test]
fn a_storm_of_signals_loses_no_completion() {
    if let Some(dir) = again::directory() {
        return in_storms(&dir, Worker::There, 1, |assisted| {
            assert!(!assisted.contains(&true), "{assisted:?}");
        });
    }
    let test = "interruptions::a_storm_of_signals_loses_no_completion";
    again::run(test, temporary_directory().path(), &[]);
}

#[test]
fn a_storm_of_signals_keeps_from_the_ring_only_what_comes_before_its_first_barrier() {
    if let Some(dir) = again::directory() {
        return in_storms(&dir, Worker::None, FRESH_THREADS, |assisted| {
            let first = assisted.iter().position(|assisted| !assisted).unwrap_or(assisted.len());
            assert!(!assisted[first..].contains(&true), "{assisted:?}");
        });
    }
    let test =
        "interruptions::a_storm_of_signals_keeps_from_the_ring_only_what_comes_before_its_first_barrier";
    again::run(test, temporary_directory().path(), &[]);
}
