//! Skipping a test so that everybody can see it.

use std::io::Write;

/// Prints a line that starts with `SKIP`, past the test harness's capture. A panic where `WO_WAL_NO_SKIP` is 1: the
/// project's own checks set it, so that a green run there has skipped nothing.
pub(crate) fn announce(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(
        std::env::var_os("WO_WAL_NO_SKIP").is_none_or(|value| value != "1"),
        "may not be skipped: {reason}"
    );
    // Not println: the harness would keep it to itself.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}

/// Ends the test that cannot run here, visibly.
macro_rules! skip {
    ($($reason:tt)*) => {{
        crate::support::skip::announce(&format!($($reason)*));
        return;
    }};
}
pub(crate) use skip;
