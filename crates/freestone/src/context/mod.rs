//! What every part of the engine shares about a running statement: its outcome, its cancellation and its progress. Nothing
//! here knows SQL, sessions or tables.

mod cancellation;
mod outcome;
mod panics;
mod snapshots;

pub use cancellation::CancelHandle;
pub(crate) use cancellation::{CancellableStream, Cancellation, Canceller};
pub(crate) use outcome::Failure;
pub use outcome::{Outcome, Progress};
pub(crate) use panics::{guarded_now, panicked};
pub(crate) use snapshots::{Holders, HoldsSnapshot};
