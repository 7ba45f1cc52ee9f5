//! This test program, run again as a process of its own that a test may kill.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;

use wo_wal::strategy::Fsync;
use wo_wal::{Error, Lsn, OnFailure, Wal};

use crate::support::env::SEGMENT_BYTES;
use crate::support::oracle::signed_record;
use crate::support::steered::{Control, Steered};
use crate::support::strategies::strategy_under_test;

const ROLE: &str = "WO_WAL_TEST_ROLE";
const DIRECTORY: &str = "WO_WAL_TEST_DIRECTORY";
const SEED: &str = "WO_WAL_TEST_SEED";
pub(crate) const WRITERS: u16 = 8;
pub(crate) const RECORD_BYTES_BELOW: u64 = 700;

/// A child process, killed and waited for when it goes out of scope.
pub(crate) struct Process {
    child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(role: &str, directory: &Path, seed: u64) -> Self {
        Self::start_telling(role, directory, seed, Stdio::piped())
    }

    /// What it says on standard error goes elsewhere.
    pub(crate) fn start_telling(role: &str, directory: &Path, seed: u64, stderr: Stdio) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child::process_with_a_role", "--nocapture"])
            .envs([(ROLE, role), (SEED, &seed.to_string())])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Process { child, lines }
    }

    /// The next line that the child itself wrote, without its mark; the test harness writes others.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("the child's output") == 0 {
                return None;
            }
            // A line without an end is one that the kill cut.
            if let Some(said) = line.strip_suffix('\n').and_then(|line| line.split_once(MARK)) {
                return Some(said.1.to_owned());
            }
        }
    }

    /// Waits for the end of the child; also returns what it said on standard error, if that came here.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            stderr.read_to_string(&mut said).expect("text");
        }
        (self.child.wait().expect("a child"), said)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killing a child");
        self.child.wait().expect("a child that was killed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        if std::thread::panicking() {
            eprintln!("the child said: {}", self.end().1);
        } else {
            let _ = self.child.wait();
        }
    }
}

const MARK: &str = "child> ";

/// One line in one call, so that a kill cuts it or leaves it whole.
fn say(line: &str) {
    let _ = std::io::stdout().write_all(format!("{MARK}{line}\n").as_bytes());
}

/// Does nothing unless this program was started by [`Process::start`].
#[test]
fn process_with_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = std::env::var(DIRECTORY).expect("a directory");
    let seed = std::env::var(SEED).expect("a seed").parse().expect("a number");
    match role.as_str() {
        "append for ever" => append_for_ever(Path::new(&directory), seed),
        "open" => say(match Wal::open(&directory) {
            Ok(_) => "opened",
            Err(Error::Locked { .. }) => "locked",
            Err(_) => "failed",
        }),
        "fail and abort" => fail_and_abort(Path::new(&directory)),
        "fork" => fork(Path::new(&directory)),
        "close standard streams" => close_standard_streams(Path::new(&directory)),
        other => panic!("no such role: {other}"),
    }
}

/// Has a barrier fail in a log that was told to end the process then.
fn fail_and_abort(directory: &Path) {
    let control = Arc::<Control>::default();
    let options = Wal::options()
        .on_failure(OnFailure::Abort)
        .strategy(Steered::new(strategy_under_test(), control.clone()));
    let (wal, _) = options.open(directory).expect("the log opens");
    wal.append(b"acked").expect("an append");
    say("acked");
    control.fail_after(0, rustix::io::Errno::IO);
    let _ = wal.append(b"fails");
    say("still here");
}

/// Closes its standard streams, as some daemons do, opens the log, and prints something all the same.
#[allow(unsafe_code, reason = "nobody owns the standard streams, so nothing safe closes them")]
fn close_standard_streams(directory: &Path) {
    for stream in 0..3 {
        // SAFETY: whoever uses a stream by its number afterwards gets an error, or whatever file has that number then,
        // which is what the test is about.
        unsafe { libc::close(stream) };
    }
    let (wal, _) = Wal::options().strategy(Fsync).open(directory).expect("the log opens");
    wal.append(b"acked").expect("an append");
    let text = "nobody reads this ".repeat(1000);
    let _ = writeln!(std::io::stdout(), "{text}");
    let _ = writeln!(std::io::stderr(), "{text}");
    wal.append(b"acked as well").expect("an append");
    std::process::exit(0);
}

/// Says `LSN writer sequence` after each ack, never before.
fn append_for_ever(directory: &Path, seed: u64) {
    let (wal, _) = Wal::options().segment_bytes(SEGMENT_BYTES).open(directory).expect("the log opens");
    say("open");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let wal = &wal;
            scope.spawn(move || {
                for sequence in 0.. {
                    let record = signed_record(seed, writer, sequence, RECORD_BYTES_BELOW);
                    let lsn = wal.append(&record).expect("an append");
                    say(&format!("{lsn} {writer} {sequence}"));
                    if sequence % 64 == 63 && writer == 0 {
                        wal.trim(Lsn::new(lsn.get() / 2)).expect("a trim");
                    }
                }
            });
        }
    });
}

#[allow(unsafe_code, reason = "there is no safe fork, and a test needs one")]
/// Forks with a log open. The child tries everything and may do nothing; the parent's log is as it was.
fn fork(directory: &Path) {
    let open = || Wal::options().segment_bytes(SEGMENT_BYTES).open(directory);
    let (wal, _) = open().expect("the log opens");
    wal.append(b"before").expect("an append");
    let ticket = wal.submit(b"submitted").expect("a submit");
    let image = files(directory);
    // SAFETY: the child calls the log, whose calls in a forked child take no lock and start no thread, and leaves by
    // `_exit`. Nothing else in this process holds a lock that it needs: the other thread, the harness's, only waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = everything_is_refused(&wal, ticket);
        drop(wal);
        // Else the directory would stay locked for as long as the child lives, also when the parent is dead.
        let lets_go = !has_open(&directory.join("LOCK"));
        // SAFETY: ends the child without running what the parent has registered to run at its own exit.
        unsafe { libc::_exit(i32::from(!(refused && lets_go))) };
    }
    let child = rustix::process::Pid::from_raw(child).expect("a fork");
    let (_, status) = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())
        .expect("waiting for the child")
        .expect("its status");
    if status.exit_status() == Some(0) {
        say("the child was refused everything");
    }
    let untouched = files(directory) == image;
    let locked = matches!(open(), Err(Error::Locked { .. }));
    let goes_on = ticket_and_append(&wal);
    if untouched && locked && goes_on {
        say("the parent goes on");
    }
}

fn has_open(path: &Path) -> bool {
    let path = path.canonicalize().expect("the lock file");
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux");
    descriptors.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|open| open == path))
}

fn ticket_and_append(wal: &Wal) -> bool {
    wal.sync().is_ok_and(|lsn| lsn.get() == 2) && wal.append(b"after").is_ok() && wal.close().is_ok()
}

fn everything_is_refused(wal: &Wal, ticket: wo_wal::Ticket) -> bool {
    let first = Lsn::FIRST;
    let refused = [
        wal.append(b"x").err(),
        wal.append_batch([b"x"]).err(),
        wal.submit(b"x").err(),
        wal.submit_batch([b"x"]).err(),
        wal.try_submit(b"x").err(),
        wal.try_submit_batch([b"x"]).err(),
        wal.sync().err(),
        wal.wait(first).err(),
        wal.replay(..).err(),
        wal.trim(first).err(),
        wal.close().err(),
        ticket.outcome().and_then(std::result::Result::err),
        ticket.wait().err(),
    ];
    refused.iter().all(|error| matches!(error, Some(Error::Forked)))
}

fn files(directory: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let paths =
        std::fs::read_dir(directory).expect("the directory").map(|entry| entry.expect("an entry").path());
    paths.map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}
