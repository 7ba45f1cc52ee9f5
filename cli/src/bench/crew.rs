//! Threads that start together.

use std::io;
use std::sync::OnceLock;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::failure::Failure;

/// Whether the crew starts, and when; set once all threads are there.
type Start = OnceLock<Option<Instant>>;

/// Lets so many threads work, each with its number and the common start; `begin` is called right before they may. Returns
/// what that gave, and what each thread did; the first failure, if there was one.
pub(super) fn run<M, T: Send>(
    size: usize,
    begin: impl FnOnce() -> M,
    work: impl Fn(usize, Instant) -> Result<T, Failure> + Sync,
) -> Result<(M, Vec<T>), Failure> {
    let start = Start::new();
    thread::scope(|scope| {
        let (mut threads, mut refusal) = (Vec::with_capacity(size), None);
        for number in 0..size {
            match spawn(scope, number, &start, &work) {
                Ok(thread) => threads.push(thread),
                Err(source) => refusal = refusal.or(Some(source)),
            }
        }
        if let Some(source) = refusal {
            // Those that are there end without a start.
            let _ = start.set(None);
            return Err(Failure::io(format!(
                "start {size} threads: {source}; ask for fewer with --threads or --workers"
            )));
        }
        let begun = begin();
        let _ = start.set(Some(Instant::now()));
        let results: Vec<_> = threads.into_iter().map(finish).collect();
        let done = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok((begun, done.into_iter().flatten().collect()))
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    number: usize,
    start: &'scope Start,
    work: &'scope (impl Fn(usize, Instant) -> Result<T, Failure> + Sync),
) -> io::Result<ScopedJoinHandle<'scope, Result<Option<T>, Failure>>> {
    Builder::new().name(format!("bench-{number}")).spawn_scoped(scope, move || match start.wait() {
        Some(start) => work(number, *start).map(Some),
        None => Ok(None),
    })
}

fn finish<T>(thread: ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().unwrap_or_else(|_| Err(Failure::io("a thread failed unexpectedly; this is a bug")))
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::failure::Failure;

    #[test]
    fn everybody_starts_at_the_same_moment_and_gives_its_result() {
        let (begun, mut results) = run(4, || "begun", |number, start| Ok((number, start))).unwrap();
        results.sort_unstable();
        assert_eq!(begun, "begun");
        assert_eq!(results.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(results.iter().all(|(_, start)| *start == results[0].1));
    }

    #[test]
    fn a_failure_of_one_is_the_answer() {
        let outcome = run(3, || (), |number, _| if number == 1 { Err(Failure::io("no")) } else { Ok(()) });
        assert!(matches!(outcome, Err(Failure::Because { message, .. }) if message == "no"));
    }
}
