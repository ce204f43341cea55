//! Threads that are kept for the next work. A new thread begins with an empty heap, whose first pages would cost more than
//! a small query.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

type Work = Box<dyn FnOnce() + Send>;

/// The threads without work, the last one to become idle at the end.
static IDLE: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// A thread without work ends after this time.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Where a thread waits for work.
#[derive(Default)]
struct Slot {
    work: Mutex<Option<Work>>,
    given: Condvar,
}

/// Runs work on a thread of its own, at once.
///
/// # Errors
/// The system has no more threads.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let idle = IDLE.lock().pop();
    match idle {
        Some(slot) => {
            *slot.work.lock() = Some(Box::new(work));
            slot.given.notify_one();
            Ok(())
        }
        None => {
            let thread = std::thread::Builder::new().name("query".to_owned());
            thread.spawn(move || serve(Box::new(work))).map(drop)
        }
    }
}

/// Does work until there was none for some time.
fn serve(first: Work) {
    let slot = Arc::new(Slot::default());
    let mut work = first;
    loop {
        // Who waits for the result is told of a panic by `Task`.
        let _ = catch_unwind(AssertUnwindSafe(work));
        IDLE.lock().push(slot.clone());
        let mut given = slot.work.lock();
        loop {
            if let Some(next) = given.take() {
                work = next;
                break;
            }
            let waited = slot.given.wait_for(&mut given, IDLE_TIME);
            if waited.timed_out() && given.is_none() && left(&slot) {
                return;
            }
        }
    }
}

/// Takes a thread from those without work. `false`: it was chosen for work, which is about to come.
fn left(slot: &Arc<Slot>) -> bool {
    let mut idle = IDLE.lock();
    let at = idle.iter().position(|known| Arc::ptr_eq(known, slot));
    at.map(|at| idle.remove(at)).is_some()
}

/// Work on another thread, whose result is wanted.
pub struct Task<T>(Receiver<Result<T, Box<dyn Any + Send>>>);

impl<T: Send + 'static> Task<T> {
    /// Begins the work.
    ///
    /// # Errors
    /// As for [`spawn`].
    pub fn new(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<Task<T>> {
        let (sender, receiver) = channel();
        spawn(move || {
            // Nobody may want the result any more.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        })?;
        Ok(Task(receiver))
    }

    /// Waits for the result. A panic of the work goes on here.
    pub fn wait(self) -> T {
        match self.0.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => unreachable!("work sends its result"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_kept_threads_and_panics_come_back() {
        let tasks: Vec<Task<usize>> = (0..20).map(|at| Task::new(move || at * 2).expect("a thread")).collect();
        let results: Vec<usize> = tasks.into_iter().map(Task::wait).collect();
        assert_eq!(results, (0..20).map(|at| at * 2).collect::<Vec<_>>());
        let task: Task<()> = Task::new(|| panic!("as intended")).expect("a thread");
        let panic = catch_unwind(AssertUnwindSafe(|| task.wait())).expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as intended"));
        assert_eq!(Task::new(|| 1).expect("a thread").wait(), 1);
    }
}
