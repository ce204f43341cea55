//! The context of a running statement, for all parts of the engine: its outcome, its cancellation and its progress.
//! Nothing here knows SQL, sessions or tables.

mod budget;
mod cancellation;
mod current;
mod outcome;
mod panics;
mod reads;
mod running;
mod snapshots;

pub(crate) use budget::{Budget, Claimed, claim, claim_rows, folding, is_folding};
pub use cancellation::CancelHandle;
pub(crate) use cancellation::{CancellableStream, Cancellation, Canceller, check_heap};
pub use current::{RunningHandle, check};
pub(crate) use current::{current, inherit, within};
pub(crate) use outcome::Failure;
pub use outcome::{Outcome, Progress};
pub(crate) use panics::{guarded_now, panicked};
pub(crate) use reads::ScanWork;
pub(crate) use running::{Running, RunningStatement, Statements};
pub(crate) use snapshots::{Holders, HoldsSnapshot};
