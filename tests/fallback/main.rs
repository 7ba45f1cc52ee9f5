//! Fallback is proven, not assumed: whatever refuses the ring, `auto` works and says why, `uring` fails at open and says
//! why, and nothing is left behind.
//!
//! The environment of the test command may set `WO_IO`. So every case happens in a child process, this program run again
//! for one test, whose environment the test decides.

#![cfg(all(target_os = "linux", feature = "uring"))]
#![allow(clippy::unwrap_used, reason = "a failure is the answer here")]

#[path = "../support/skip.rs"]
#[allow(unused, reason = "its macro is for programs that take all of the support")]
mod skip;

#[path = "../support/again.rs"]
#[allow(dead_code, reason = "shared with another program, which uses another part")]
mod again;

mod cases;
mod conditions;
mod full_disk;
mod injected;
mod leftovers;
mod limits;
mod seccomp;
mod switch;
mod system_calls;
mod variable;
mod warnings;
