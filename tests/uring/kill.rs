//! A killed process: what its last chain still writes, it writes before the lock is free.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::fs::{FlockOperation, flock};
use wo_wal::strategy::{Form, SyncStrategy};

use crate::again;
use crate::ring::{errno_of, ring, temporary_directory};

const BYTES: usize = 64 << 20;
const ROUNDS: u8 = 20;
const TEST: &str = "kill::a_killed_process_writes_nothing_after_its_lock_is_free";

#[test]
fn a_killed_process_writes_nothing_after_its_lock_is_free() {
    if let Some(dir) = again::directory() {
        return write_until_killed(&dir);
    }
    if ring(Form::Linked).is_none() {
        return;
    }
    let dir = temporary_directory();
    File::create(dir.path().join("LOCK")).unwrap();
    let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("file")).unwrap();
    let mut cut = 0;
    for round in 1..=ROUNDS {
        file.set_len(0).unwrap();
        file.set_len(BYTES as u64).unwrap();
        let mut killed = kill_in_mid_write(dir.path(), round);
        let first = image(&file);
        cut += usize::from(first[0] == 0 || first[0] != first[BYTES - 1]);
        // What is still on its way has time to come: a barrier and two reads of everything.
        file.sync_all().unwrap();
        assert!(image(&file) == first, "round {round}: the file changed after the lock was free");
        assert!(image(&file) == first, "round {round}: the file changed after the lock was free");
        killed.wait().unwrap();
    }
    assert!(cut > 0, "the control: no kill came before a chain had ended");
}

/// Starts a child, kills it shortly after it began to write, and returns when its lock is free.
fn kill_in_mid_write(dir: &Path, round: u8) -> Child {
    let mut child = again::command(TEST, dir, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"child> writing\n") {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    std::thread::sleep(std::time::Duration::from_millis(u64::from(round)));
    child.kill().unwrap();
    // Not `wait`: that the process is gone is to be had from the lock alone.
    let lock = File::open(dir.join("LOCK")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    child
}

/// In the child: writes the whole file again and again, each time with another byte, until killed.
fn write_until_killed(dir: &Path) {
    let lock = File::open(dir.join("LOCK")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let uring = ring(Form::Linked).unwrap();
    let file = File::options().write(true).open(dir.join("file")).unwrap();
    let mut bytes = vec![0; BYTES];
    again::say("writing");
    for number in (1..=u8::MAX).cycle() {
        bytes.fill(number);
        assert_eq!(errno_of(&uring, &file, 0, &bytes), 0);
        assert_eq!(uring.assisted_barriers(), 0);
    }
}

fn image(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}
