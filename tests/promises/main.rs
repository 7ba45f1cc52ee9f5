//! The promises of the design, P1 to P12, each by tests that carry its number.
//!
//! A test body runs through the strategy under test on a real directory and on the simulated disk, with one and with two
//! barriers in flight, unless it says that it needs one of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod child;
mod exhaustive;
mod p01_ack_is_durable;
mod p01_kill;
mod p02_prefix;
mod p03_batches;
mod p04_nothing_invented;
mod p05_same_on_every_strategy;
mod p05_same_schedule;
mod p06_every_call_fails;
mod p06_failure_is_final;
mod p07_open_is_durable;
mod p08_damage;
mod p09_disk_full;
mod p10_liveness;
mod p11_one_writer;
mod p12_any_payload;
mod random_lives;
mod reported_cases;
