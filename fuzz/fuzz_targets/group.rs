//! Any bytes as a group: `cargo +nightly fuzz run group`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| wo_wal::fuzzing::group(bytes));
