//! What this program shares with the library's tests: the oracle, its random numbers, the visible skip.
#![allow(dead_code, unused_imports, unused_macros, reason = "shared with the tests, which use other parts")]

#[path = "../../tests/support/oracle.rs"]
pub(crate) mod oracle;
#[path = "../../tests/support/rng.rs"]
pub(crate) mod rng;
#[path = "../../tests/support/served.rs"]
pub(crate) mod served;
