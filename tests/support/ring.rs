//! Rings for tests, and the visible skip where the machine has none.
#![allow(dead_code, reason = "compiled into each test program, which uses a part")]

use wo_wal::strategy::{Form, Uring};

/// Every form that is for use.
pub(crate) fn forms() -> [Form; 2] {
    [Form::Linked, Form::Dsync]
}

/// A ring, or a skip.
pub(crate) fn ring(form: Form) -> Option<Uring> {
    match Uring::with_form(form) {
        Ok(uring) => Some(uring),
        Err(failure) => {
            skip(&failure.to_string());
            None
        }
    }
}

/// Says that a test cannot run here; fails it where nothing may be skipped.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("WO_WAL_NO_SKIP").is_none_or(|value| value.is_empty()), "cannot run: {reason}");
    println!("SKIP {reason}");
}
