//! A failure is told to a logger of the program's, which may misbehave, or call the log. There is one logger for this
//! program, which does what each test wants.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::{Mutex, Once, PoisonError, mpsc};

use rustix::io::Errno;
use serial_test::serial;
use wo_wal::{Error, Wal};

use support::env::Env;
use support::gate::PATIENCE;
use support::sim::{Fault, Sim};

type Reaction = Box<dyn FnOnce() + Send>;

/// What the logger does when it is told of the next failure.
static REACTION: Mutex<Option<Reaction>> = Mutex::new(None);

struct Reacting;

impl log::Log for Reacting {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Error
            && let Some(reaction) = set_reaction(None)
        {
            reaction();
        }
    }

    fn flush(&self) {}
}

/// Returns the one before.
fn set_reaction(reaction: Option<Reaction>) -> Option<Reaction> {
    static LOGGER: Once = Once::new();
    LOGGER.call_once(|| {
        log::set_logger(&Reacting).unwrap();
        log::set_max_level(log::LevelFilter::Error);
    });
    std::mem::replace(&mut *REACTION.lock().unwrap_or_else(PoisonError::into_inner), reaction)
}

fn in_background<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    receiver
}

/// The logger's panic went through the thread that led, before it had woken anybody: the writers of the failed group, and
/// those who waited behind it, slept for ever.
#[test]
#[serial]
fn p10_a_logger_that_panics_leaves_nobody_waiting() {
    let env = Env::simulated(&Sim::new(1), 1);
    let (wal, control) = env.open_steered();
    control.gate.close();
    control.fail_after(0, Errno::IO);
    set_reaction(Some(Box::new(|| panic!("a logger that panics, on purpose"))));
    let append = |writer: u8| {
        let wal = wal.clone();
        in_background(move || wal.append(&[writer]))
    };
    let leader = append(0);
    control.gate.wait_until_held(1);
    let others = [append(1), append(2)];
    control.gate.open();
    for writer in [leader].iter().chain(&others) {
        let answer = writer.recv_timeout(PATIENCE).expect("an answer");
        assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
    }
    assert!(set_reaction(None).is_none(), "the logger was told");
}

/// Appends over several segments, trims all of it twice, goes on, and closes.
fn life(wal: &Wal) -> Result<(), Error> {
    for _ in 0..5 {
        wal.append(&vec![1; 30_000])?;
    }
    wal.trim(wal.durable_lsn())?;
    wal.append_batch([vec![2; 40_000], vec![3; 40_000]])?;
    wal.append(b"last")?;
    wal.trim(wal.durable_lsn())?;
    wal.append(b"after the trim")?;
    wal.close()
}

/// Everything that may wait for somebody else.
fn call_everything(wal: &Wal) {
    assert!(wal.append(b"x").is_err());
    let _ = wal.sync();
    assert!(wal.trim(wal.durable_lsn()).is_err());
    let _ = wal.stats();
    assert!(wal.close().is_err());
}

/// A program that ends its log when it hears of a failure: in the logger, or in what runs at its exit, where the failure is
/// to end the process. It was told with the files' lock held, where a file could not be made or removed or the barrier was
/// one of a trim's; and in the middle of a close, so that its own close waited for that one.
#[test]
#[serial]
fn p10_a_logger_that_closes_the_log_is_answered_whatever_has_failed() {
    let mut told = 0;
    for prepares_ahead in [false, true] {
        for calls in 0.. {
            let sim = Sim::new(calls);
            let env = Env::simulated(&sim, 1);
            let (wal, _) = env.open_with(env.options().prepares_ahead(prepares_ahead)).unwrap();
            sim.fail_after(calls, Fault { errno: Errno::IO, lasting: false });
            let (sender, reacted) = mpsc::channel();
            let in_logger = wal.clone();
            set_reaction(Some(Box::new(move || {
                call_everything(&in_logger);
                let _ = sender.send(());
            })));
            let living = wal.clone();
            let lived = in_background(move || life(&living));
            let case = format!("call {calls} fails, preparing ahead: {prepares_ahead}");
            let answer = lived.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer: {case}"));
            if set_reaction(None).is_none() {
                reacted.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("the logger got none: {case}"));
                told += 1;
            }
            if !sim.fault_happened() {
                answer.unwrap();
                break;
            }
        }
    }
    assert!(told > 50, "told {told} times");
}
