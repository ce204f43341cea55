//! The statement that a thread works for.
//!
//! Operators look at the cancellation of their statement between batches. A function can take minutes for one batch, or one
//! row, so long loops in functions call [`check`]. Threads know their statement because its stream says so whenever it is
//! polled, and because tasks of DataFusion inherit it from the task that starts them.

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;

use super::Cancellation;
use crate::error::Result;

thread_local! {
    static CURRENT: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

/// Whether the statement that this thread works for goes on; always so where it works for none.
///
/// # Errors
/// The statement was cancelled, timed out, or has nobody any more who waits for it.
pub fn check() -> Result<()> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), Cancellation::check))
}

/// The statement that a thread works for, as other threads see it.
#[derive(Clone)]
pub struct RunningHandle(Option<Cancellation>);

impl RunningHandle {
    /// The statement that this thread works for, if any.
    pub fn of_thread() -> RunningHandle {
        RunningHandle(current())
    }

    /// Whether the statement was cancelled, timed out, or has nobody any more who waits for it.
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(Cancellation::is_cancelled)
    }
}

/// Works for a statement.
pub(crate) fn within<T>(statement: Option<Cancellation>, work: impl FnOnce() -> T) -> T {
    /// Ends it also when the work panics.
    struct EndGuard(Option<Cancellation>);
    impl Drop for EndGuard {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _ended = EndGuard(CURRENT.replace(statement));
    work()
}

/// The statement that this thread works for.
pub(crate) fn current() -> Option<Cancellation> {
    CURRENT.with_borrow(Clone::clone)
}

/// Lets tasks of DataFusion inherit their statement. Where the program has given DataFusion another tracer, they do not.
pub(crate) fn inherit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = set_join_set_tracer(&Inherit);
    });
}

struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, future: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(statement) => Box::pin(Inheriting { future, statement }),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(statement) => Box::new(move || within(Some(statement), block)),
            None => block,
        }
    }
}

/// A task that works for a statement.
struct Inheriting {
    future: BoxFuture<'static, Box<dyn Any + Send>>,
    statement: Cancellation,
}

impl Future for Inheriting {
    type Output = Box<dyn Any + Send>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let statement = self.statement.clone();
        within(Some(statement), || self.future.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::runtime::SpawnedTask;

    use super::super::{Budget, Canceller};
    use super::*;

    #[tokio::test]
    async fn tasks_work_for_the_statement_that_starts_them() {
        inherit();
        let canceller = Canceller::new(Budget::default());
        let statement = canceller.statement();
        let task = within(Some(statement), || {
            assert!(check().is_ok());
            SpawnedTask::spawn(async {
                let before = check().is_ok();
                tokio::task::yield_now().await;
                (before, SpawnedTask::spawn_blocking(|| check().is_ok()).await.expect("no panic"), check().is_ok())
            })
        });
        assert!(check().is_ok());
        canceller.handle().cancel();
        assert_eq!(task.await.expect("no panic"), (false, false, false));
        assert!(check().is_ok(), "this thread works for no statement");
        let free = SpawnedTask::spawn(async { check().is_ok() });
        assert!(free.await.expect("no panic"));
    }
}
