//! Signals and refusals in the middle of `io_uring_enter`.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use wo_wal::strategy::{Form, SyncStrategy};

use crate::again;
use crate::ring::{create, errno_of, pattern, ring, temporary_directory};

const ROUNDS: u64 = 60;

/// Barriers of different lengths, each behind the one before; every third also fails, on a file that cannot be written.
/// A completion that is taken for another call's shows as a wrong result or a wrong length.
fn barriers(dir: &Path, form: Form) -> Option<u64> {
    let uring = ring(form)?;
    let file = create(dir);
    let read_only = std::fs::File::open(dir.join("file")).unwrap();
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        let bytes = pattern(usize::try_from(round * 97 + 1).unwrap());
        assert_eq!(errno_of(&uring, &file, expected.len() as u64, &bytes), 0, "round {round}");
        expected.extend_from_slice(&bytes);
        if round % 3 == 0 {
            assert_ne!(errno_of(&uring, &read_only, 0, &bytes), 0, "round {round}");
        }
    }
    assert_eq!(std::fs::read(dir.join("file")).unwrap(), expected);
    Some(uring.assisted_barriers())
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
    for (name, form) in [("linked", Form::Linked), ("dsync", Form::Dsync)] {
        let dir = dir.join(name);
        if dir.exists()
            && let Some(assisted) = barriers(&dir, form)
        {
            again::say(&assisted.to_string());
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

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends this thread a signal every 150 microseconds, for the rest of the process.
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
        let period = libc::timespec { tv_sec: 0, tv_nsec: 150_000 };
        let times = libc::itimerspec { it_interval: period, it_value: period };
        assert_eq!(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_storm_of_signals_loses_no_completion() {
    let Some(dir) = again::directory() else {
        let dir = temporary_directory();
        again::run("interruptions::a_storm_of_signals_loses_no_completion", dir.path(), &[]);
        return;
    };
    start_storm();
    for (name, form) in [("linked", Form::Linked), ("dsync", Form::Dsync)] {
        let dir = dir.join(name);
        std::fs::create_dir(&dir).unwrap();
        let Some(assisted) = barriers(&dir, form) else { return };
        // The kernel starts no worker for a thread with a signal pending: on a busy machine a barrier or two is done by
        // plain calls, which loses nothing either.
        assert!(assisted < ROUNDS / 2, "{form:?}: {assisted} of {ROUNDS} assisted");
    }
    let signals = SIGNALS.load(Ordering::Relaxed);
    assert!(signals > 50, "the control: only {signals} signals came");
    again::say("done");
}
