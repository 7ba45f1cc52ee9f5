//! What several test programs share. Each of them uses a part of it.
#![allow(dead_code, reason = "compiled into each test program, which uses a part")]

pub(crate) mod gate;
pub(crate) mod rng;
pub(crate) mod sim;
