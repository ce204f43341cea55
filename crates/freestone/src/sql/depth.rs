//! Statements of any length, on stacks that are large enough for them.
//!
//! Plans of long statements are deep trees, and every function that visits or drops such a tree needs a stack frame per level.
//! A few thousand terms, as query builders write them, would overflow the stack of a thread and end the process. Therefore
//! long statements are read and planned on a stack of their own.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Statements with more tokens than this get a stack of their own.
const TOKENS_MAX: usize = 120;
/// The number of tokens of work that needs such a stack, whatever its statement.
pub(crate) const LONG_TOKENS: usize = TOKENS_MAX + 1;

/// The bytes of that stack. The system allocates only the used part.
const STACK_BYTES: usize = 512 << 20;

/// The bytes that the stack of a thread for queries should have, because plans of long statements are visited there.
pub const THREAD_STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// The number of tokens of the statement that this thread processes.
    static TOKENS: Cell<usize> = const { Cell::new(0) };
}

/// Calls `work` on a stack that is large enough for a statement of `tokens` tokens.
pub(crate) fn with_stack<T>(tokens: usize, work: impl FnOnce() -> T) -> T {
    if tokens <= TOKENS_MAX || TOKENS.get() > TOKENS_MAX {
        return work();
    }
    /// Restores the count, even if `work` panics.
    struct DepthGuard(usize);
    impl Drop for DepthGuard {
        fn drop(&mut self) {
            TOKENS.set(self.0);
        }
    }
    let _restored = DepthGuard(TOKENS.replace(tokens));
    stacker::grow(STACK_BYTES, work)
}

/// The number of tokens of the statement that this thread processes, for work that continues in another thread.
pub(crate) fn tokens_here() -> usize {
    TOKENS.get()
}

/// A future that is polled and dropped on a stack that is large enough for a statement of `tokens` tokens.
pub(crate) struct OnStack<'a, T> {
    tokens: usize,
    future: Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
}

impl<'a, T> OnStack<'a, T> {
    pub(crate) fn new(tokens: usize, future: impl Future<Output = T> + Send + 'a) -> Self {
        OnStack { tokens, future: Some(Box::pin(future)) }
    }
}

impl<T> Future for OnStack<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let tokens = self.tokens;
        match &mut self.future {
            Some(future) => with_stack(tokens, || future.as_mut().poll(context)),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for OnStack<'_, T> {
    fn drop(&mut self) {
        let future = self.future.take();
        with_stack(self.tokens, || drop(future));
    }
}
