//! The `uring` strategy on the running kernel.
//!
//! What changes a whole process (limits, signals, mounts, privileges), or is to be looked at from outside, happens in a
//! child: this program, run again for one test (see [`again`]).

#![cfg(all(target_os = "linux", feature = "uring"))]
#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

#[path = "../support/skip.rs"]
#[allow(unused, reason = "its macro is for programs that take all of the support")]
mod skip;

#[path = "../support/raw_ring.rs"]
mod raw_ring;

#[path = "../support/served.rs"]
mod served;

#[path = "../support/again.rs"]
#[allow(dead_code, reason = "shared with another program, which uses another part")]
mod again;
mod basic;
mod descriptors;
mod enter_count;
mod errors;
mod fork;
mod fuse;
mod interruptions;
mod kill;
mod missing_link;
mod refusals;
mod ring;
