//! Models of group commit: the code of this directory as it is, on threads that a model checker schedules.
//!
//! * [`every_order`]: two or three threads, every order of their steps up to a bound of preemptions, and what weaker memory
//!   orderings allow (`loom`).
//! * [`random_orders`]: more threads and longer lives, with rotation, trim and the preparer, in random orders (`shuttle`).
//!
//! Whoever sleeps for ever is a deadlock, which the checker reports. The rest is for [`rig`] to judge. The futex is
//! modelled as a mutex and a condition variable that wakes as many as it is told to, time passes only in barriers and in
//! sleeps with a time limit, and files keep nothing: what is on disk is for other tests.

#[cfg(wo_wal_loom)]
mod every_order;
#[cfg(wo_wal_shuttle)]
mod random_orders;
mod rig;
