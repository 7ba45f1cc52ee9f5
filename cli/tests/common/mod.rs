//! The built command, run as a person would.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far more than anything here takes: a command that hangs is killed and fails its test.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn wo_wal() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wo-wal"))
}

/// A directory for a log, which does not exist yet, in a directory of its own.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { dir: TempDir::new().unwrap() }
    }

    /// A log of these lines, closed cleanly.
    pub(crate) fn with_lines(lines: &[u8]) -> Self {
        let place = Place::new();
        place.append(&["--segment-bytes", "64K"], lines).succeeded();
        place
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("demo.wal")
    }

    /// Segment files in the order of their numbers.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.log()).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<PathBuf> =
            entries.filter(|path| path.extension() == Some("wal".as_ref())).collect();
        segments.sort();
        segments
    }

    pub(crate) fn command(&self, command: &str, options: &[&str]) -> Command {
        let mut line = wo_wal();
        line.arg(command).arg(self.log()).args(options);
        line
    }

    pub(crate) fn append(&self, options: &[&str], input: &[u8]) -> Ran {
        run(&mut self.command("append", options), input)
    }

    pub(crate) fn cat(&self, options: &[&str]) -> Ran {
        run(&mut self.command("cat", options), b"")
    }

    pub(crate) fn run(&self, command: &str, options: &[&str]) -> Ran {
        run(&mut self.command(command, options), b"")
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    /// Exit status 0, or the test fails with what the command said.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.status.code(), Some(0), "{}", self.stderr);
        self
    }

    /// This exit status, and one line on standard error that starts with the command's name; returns the line.
    pub(crate) fn failed_with(&self, code: i32) -> &str {
        assert_eq!(self.status.code(), Some(code), "{}", self.stderr);
        let mut errors = self.stderr.lines().filter(|line| line.starts_with("wo-wal: "));
        let error = errors.next().expect("an error on standard error");
        assert_eq!(errors.next(), None, "more than one line: {}", self.stderr);
        assert!(self.stderr.ends_with(&format!("{error}\n")), "the error comes last: {}", self.stderr);
        error
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// What follows a label of the summary.
    pub(crate) fn summary(&self, label: &str) -> &str {
        let line = self.stderr.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label} in {}", self.stderr)).trim()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        Ran { status: output.status, stdout: output.stdout, stderr }
    }
}

/// Runs a command to its end with this standard input.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || ignore_closed_pipe(stdin.write_all(input)));
        child.wait_with_output().unwrap().into()
    })
}

/// A command that ends early does not read all of its input.
pub(crate) fn ignore_closed_pipe(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => {}
    }
}

/// A command that is still at work; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts it with no signal ignored: whoever runs the tests in the background has some ignored, and the command, which
    /// would leave them so, could not be interrupted.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut listening = Command::new("env");
        listening.arg("--default-signal").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => listening.env(name, value),
                None => listening.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            listening.current_dir(dir);
        }
        let mut child =
            listening.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Running { child, stdin, stdout }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next line of standard output, with its newline; empty at the end.
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn read_to_end(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        rest
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; its standard error is small enough for a pipe.
    pub(crate) fn wait(mut self) -> Ran {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the command hangs");
            thread::sleep(Duration::from_millis(5));
        };
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Ran { status, stdout: Vec::new(), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says on the real standard error, which the test runner does not capture, that a test could not run here.
pub(crate) fn skip(test: &str, reason: &str) {
    assert!(
        std::env::var_os("WO_WAL_NO_SKIP").is_none_or(|value| value != "1"),
        "{test} must not be skipped: {reason}"
    );
    let line = format!("SKIP {test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

pub(crate) fn is_root() -> bool {
    let ran = Command::new("id").arg("-u").output().unwrap();
    ran.stdout == b"0\n"
}

/// The lines of a text, sorted.
pub(crate) fn sorted_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// `count` numbered lines.
pub(crate) fn numbered(count: usize) -> Vec<u8> {
    (1..=count).flat_map(|number| format!("record {number}\n").into_bytes()).collect()
}

/// `count` numbered lines of 1000 bytes: about 60 fill a segment of the smallest size.
pub(crate) fn long_lines(count: usize) -> Vec<u8> {
    (1..=count).flat_map(|number| format!("{number:0>999}\n").into_bytes()).collect()
}
