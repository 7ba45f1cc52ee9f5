//! What a kernel, an administrator or a sandbox can do to a ring.
#![allow(unsafe_code, reason = "filters and identities have no safe interface")]

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// An ordinary user: no capabilities, and bound by limits.
const NOBODY: u32 = 65534;

/// From now on this thread, and those it starts, get this errno from a system call.
pub(crate) fn refuse(call: libc::c_long, errno: i32) {
    const LOAD_NUMBER: libc::sock_filter = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const ALLOW: libc::sock_filter =
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let answer = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
    let mut filter = [
        LOAD_NUMBER,
        // Equal: the next one, which refuses; else over it.
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: u32::try_from(call).unwrap() },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: answer },
        ALLOW,
    ];
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions outlive the call, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let installed = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Runs something on a thread of its own that gets this errno from a system call.
pub(crate) fn refused<T: Send>(call: libc::c_long, errno: i32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            refuse(call, errno);
            act()
        });
        filtered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs something on a thread of its own that is an ordinary user's; this process stays root's.
pub(crate) fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let unprivileged = scope.spawn(|| {
            // SAFETY: the bare system call changes the identity of this thread only, which relies on none.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
            act()
        });
        unprivileged.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes this whole process an ordinary user's.
pub(crate) fn become_nobody() {
    // SAFETY: changes the identity of every thread of this process, none of which relies on it.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
}

/// A directory that an ordinary user can reach and write to.
pub(crate) fn directory_of_nobody() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    give_to_nobody(dir.path());
    dir
}

fn give_to_nobody(path: &Path) {
    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Sets a limit of this process; the maximum stays, so that it can be raised again.
pub(crate) fn limit(resource: Resource, current: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(current), maximum }).unwrap();
}

/// Whether this is root; announces the skip if not.
pub(crate) fn is_root(to: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        crate::skip::announce(&format!("needs root, to {to}"));
    }
    root
}
