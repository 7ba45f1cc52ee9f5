//! The writer process, from its parent's side.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::crowd::Crowd;
use crate::events::Event;
use crate::failure::Trouble;
use crate::strategies::Kind;
use crate::support::oracle::Verdict;

/// How long a process may take to end by itself once its log has failed: far longer than any call takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event, and the time it was read at the latest, on the clock that the layer brings along.
pub(crate) type Heard = (u64, Result<Event, String>);

/// A running writer process.
pub(crate) struct Writers {
    process: Child,
    session: u64,
    heard: Arc<Mutex<Vec<Heard>>>,
    listener: Option<JoinHandle<()>>,
}

impl Writers {
    /// Starts a process that writes to the log in `dir`. Each of its events gets the time that `clock` says after the
    /// event was read, so never one that is too early.
    pub(crate) fn start(
        dir: &Path,
        session: u64,
        kind: Kind,
        clock: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, Trouble> {
        let program = std::env::current_exe().map_err(|error| Trouble(format!("this program: {error}")))?;
        Self::start_command(Command::new(&program), dir, session, kind, clock)
    }

    /// As [`start`](Self::start), behind a program such as `strace` that becomes, and does not only start, the writers.
    pub(crate) fn start_behind(
        wrapper: &[&str],
        dir: &Path,
        session: u64,
        kind: Kind,
    ) -> Result<Self, Trouble> {
        let program = std::env::current_exe().map_err(|error| Trouble(format!("this program: {error}")))?;
        let [first, others @ ..] = wrapper else { return Err(Trouble("no wrapper".to_owned())) };
        let mut command = Command::new(first);
        command.args(others).arg(program);
        Self::start_command(command, dir, session, kind, || 0)
    }

    fn start_command(
        mut command: Command,
        dir: &Path,
        session: u64,
        kind: Kind,
        clock: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, Trouble> {
        let mut process = command
            .args(["writer", "--seed", &session.to_string(), "--kind", kind.name()])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Trouble(format!("a writer process: {error}")))?;
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let mut listener = None;
        if let (Some(output), Some(input)) = (process.stdout.take(), process.stdin.take()) {
            let heard = heard.clone();
            listener = Some(std::thread::spawn(move || listen(BufReader::new(output), input, &heard, clock)));
        }
        Ok(Writers { process, session, heard, listener })
    }

    /// What was heard so far.
    pub(crate) fn heard(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn acks(&self) -> usize {
        self.heard().iter().filter(|(_, event)| matches!(event, Ok(Event::Acked { .. }))).count()
    }

    pub(crate) fn refusals(&self) -> usize {
        self.heard().iter().filter(|(_, event)| matches!(event, Ok(Event::Refused { .. }))).count()
    }

    /// True once the log has failed, or could not be opened.
    pub(crate) fn has_failed(&self) -> bool {
        self.heard().iter().any(|(_, event)| matches!(event, Ok(Event::Failed { .. })))
    }

    /// Waits until the condition holds or so much time has passed.
    pub(crate) fn wait_until(&self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while start.elapsed() < limit && !condition(self) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the process and waits until it is gone.
    pub(crate) fn kill(mut self) -> History {
        let _ = self.process.kill();
        self.collect()
    }

    /// Waits for a process whose log has failed: everybody in it must get an answer, so that it ends.
    pub(crate) fn end(mut self) -> Result<History, String> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return Ok(self.collect());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let history = self.kill();
        Err(format!("no answer: the log failed, and the process did not end: {:?}", history.failures()))
    }

    fn collect(&mut self) -> History {
        let ended = self.process.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let was_killed = ended.is_ok_and(|status| status.signal() == Some(libc::SIGKILL));
        History { session: self.session, heard: std::mem::take(&mut *self.heard()), was_killed }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn listen(
    mut lines: BufReader<impl std::io::Read>,
    mut answers: ChildStdin,
    heard: &Mutex<Vec<Heard>>,
    clock: impl Fn() -> u64,
) {
    let mut line = String::new();
    // A line without an end is one that the kill cut.
    while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
        let event = line.trim_end().parse();
        let answer = matches!(event, Ok(Event::Trimming { .. }));
        heard.lock().unwrap_or_else(PoisonError::into_inner).push((clock(), event));
        if answer {
            // A process that was killed needs none.
            let _ = answers.write_all(b"!");
        }
        line.clear();
    }
}

/// All that a writer process has said.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) session: u64,
    heard: Vec<Heard>,
    /// By a signal that is not to be caught, in the middle of what it did.
    pub(crate) was_killed: bool,
}

impl History {
    /// Tells the oracle what was said. Acks count where `counts` says so of their number and time.
    pub(crate) fn tell(&self, crowd: &mut Crowd, counts: impl Fn(usize, u64) -> bool) -> Verdict {
        crowd.session(self.session);
        self.heard.iter().enumerate().try_for_each(|(number, (time, event))| {
            event.clone()?.tell(crowd, self.session, counts(number, *time))
        })
    }

    /// As [`tell`](Self::tell), as if nothing had been said after that time, except for refusals: those are said before
    /// the record that follows is appended, but may have been heard later.
    pub(crate) fn tell_until(&self, crowd: &mut Crowd, until: u64) -> Verdict {
        crowd.session(self.session);
        let known = |time: u64, event: &Event| time <= until || matches!(event, Event::Refused { .. });
        self.heard.iter().try_for_each(|(time, event)| {
            let event = event.clone()?;
            if known(*time, &event) { event.tell(crowd, self.session, true) } else { Ok(()) }
        })
    }

    pub(crate) fn acks(&self) -> u64 {
        self.heard.iter().filter(|(_, event)| matches!(event, Ok(Event::Acked { .. }))).count() as u64
    }

    /// True when the process ended by itself and without a complaint.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.heard.last(), Some((_, Ok(Event::Ended))))
    }

    pub(crate) fn failures(&self) -> Vec<&str> {
        let failed = self.heard.iter().filter_map(|(_, event)| match event {
            Ok(Event::Failed { why }) => Some(why.as_str()),
            _ => None,
        });
        failed.collect()
    }
}
