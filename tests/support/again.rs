//! This program, run again for one test, as a child process that may ruin itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIRECTORY: &str = "WO_WAL_TEST_AGAIN";
const MARK: &str = "child> ";

/// In the child: the directory it was given.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// In the child: says a line, past the test harness's capture.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    std::io::stdout().write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
}

/// The command that runs one test of this program again, behind a wrapper such as `strace -f`.
pub(crate) fn command(test: &str, dir: &Path, wrapper: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(&program),
        [first, others @ ..] => {
            let mut command = Command::new(first);
            command.args(others).arg(&program);
            command
        }
    };
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(DIRECTORY, dir);
    command
}

/// Runs one test of this program again and returns what it said; it must succeed and say something. `None` where it
/// was skipped, which has been announced.
pub(crate) fn run(test: &str, dir: &Path, wrapper: &[&str]) -> Option<Vec<String>> {
    outcome(&mut command(test, dir, wrapper))
}

/// As [`run`], for a command that was made ready.
pub(crate) fn outcome(command: &mut Command) -> Option<Vec<String>> {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some(skip) = stderr.lines().find(|line| line.starts_with("SKIP ")) {
        crate::skip::announce(skip.split_once(": ").map_or(skip, |(_, reason)| reason));
        return None;
    }
    let said = said(&output);
    assert!(
        output.status.success() && !said.is_empty(),
        "{}\n{}\n{stderr}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    Some(said)
}

fn said(output: &Output) -> Vec<String> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    stdout.lines().filter_map(|line| line.split_once(MARK)).map(|(_, said)| said.to_owned()).collect()
}

/// Runs one test of this program again where a shell script has prepared its directory, in a mount namespace of its own:
/// mounts and loop devices go with the process. In the script `$DIR` is the directory. Skips where the script fails.
pub(crate) fn run_mounted(test: &str, script: &str) -> Option<Vec<String>> {
    run_mounted_with(test, script, |command| command)
}

/// As [`run_mounted`], with more said about the command.
pub(crate) fn run_mounted_with(
    test: &str,
    script: &str,
    more: impl FnOnce(&mut Command) -> &mut Command,
) -> Option<Vec<String>> {
    if !can(&["unshare", "--mount", "true"]) {
        return None;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Whatever fails before the command is a mount that cannot be had here.
    let script = format!(
        "DIR=\"${DIRECTORY}\"\ntrap 'echo \"SKIP cannot mount\" >&2' EXIT\nset -e\n{script}\nset +e\ntrap - EXIT\nexec \"$@\""
    );
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    outcome(more(&mut command(test, dir.path(), &wrapper)))
}

/// Mounts a new file system of so many MiB at `$DIR/mnt`.
pub(crate) fn loop_mount(file_system: &str, mebibytes: u32) -> String {
    format!(
        "mkdir -p \"$DIR/mnt\" && truncate -s {mebibytes}M \"$DIR/image\" && \
         mkfs.{file_system} -q \"$DIR/image\" && mount -o loop \"$DIR/image\" \"$DIR/mnt\""
    )
}

/// Whether a program is there.
pub(crate) fn has(program: &str) -> bool {
    can(&[program, "-V"])
}

/// Whether a process may be traced.
pub(crate) fn can_trace() -> bool {
    can(&["strace", "-o", "/dev/null", "true"])
}

/// Whether a command succeeds here; announces the skip if not.
fn can(command: &[&str]) -> bool {
    let output = Command::new(command[0]).args(&command[1..]).output();
    let can = output.is_ok_and(|output| output.status.success());
    if !can {
        crate::skip::announce(&format!("this fails here: {}", command.join(" ")));
    }
    can
}
