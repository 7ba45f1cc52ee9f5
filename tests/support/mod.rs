//! What several test programs share. Each of them uses a part of it.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "compiled into each test program, which uses a part"
)]

pub(crate) mod env;
pub(crate) mod gate;
pub(crate) mod oracle;
pub(crate) mod rng;
pub(crate) mod sim;
pub(crate) mod skip;
pub(crate) mod steered;
pub(crate) mod strategies;
