//! Not asking the ring again at once where it has just done nothing.
//!
//! Without a worker to be had the kernel takes about 57 ms to say so, some hundred times what a barrier costs. Workers,
//! and filters of system calls, belong to threads; so does what is remembered here.

use std::cell::Cell;

/// The most barriers in a row that a thread makes without asking the ring.
const BARRIERS_MAX: u32 = 1023;

thread_local! {
    static DETOUR: Cell<Detour> = const { Cell::new(Detour::NONE) };
}

/// How many of this thread's barriers go around the ring, now and after the next vain attempt.
#[derive(Clone, Copy)]
struct Detour {
    remaining: u32,
    next: u32,
}

impl Detour {
    const NONE: Detour = Detour { remaining: 0, next: 1 };
}

/// Whether this barrier goes around the ring; counts it if so.
pub(super) fn take() -> bool {
    let detour = DETOUR.get();
    if detour.remaining == 0 {
        return false;
    }
    DETOUR.set(Detour { remaining: detour.remaining - 1, ..detour });
    true
}

/// The ring has done nothing for this thread: next time it is left alone for twice as long.
pub(super) fn lengthen() {
    let next = DETOUR.get().next;
    DETOUR.set(Detour { remaining: next, next: (next * 2 + 1).min(BARRIERS_MAX) });
}

/// The ring works for this thread.
pub(super) fn end() {
    DETOUR.set(Detour::NONE);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many barriers pass between two attempts, where every attempt is in vain.
    fn barriers_without_the_ring() -> u32 {
        lengthen();
        let mut passed = 0;
        while take() {
            passed += 1;
        }
        passed
    }

    #[test]
    fn detours_grow_to_a_limit_and_end_with_the_first_success() {
        let lengths: Vec<u32> = (0..12).map(|_| barriers_without_the_ring()).collect();
        assert_eq!(lengths, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023]);
        end();
        assert!(!take());
        assert_eq!(barriers_without_the_ring(), 1);
    }

    #[test]
    fn a_detour_is_one_threads_own() {
        lengthen();
        assert!(!std::thread::spawn(take).join().unwrap());
        assert!(take());
    }
}
