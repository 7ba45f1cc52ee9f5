//! The flight and the barrier against a scripted kernel.
