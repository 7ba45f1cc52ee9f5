//! Any bytes as a segment file, as they are and with the checksums put right: `cargo +nightly fuzz run segment`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = wo_wal::fuzzing::segment(bytes);
    let _ = wo_wal::fuzzing::signed_segment(bytes);
});
