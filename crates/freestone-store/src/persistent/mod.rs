//! Tables in persistent memory (Götze, Baumann and Sattler 2018): rows that change in place, durable without a log.
//!
//! A [`Pool`] is one region of persistent memory, cut into units. A [`Tree`] is a B+-tree whose leaves are persistent
//! and whose inner nodes are rebuilt when it is opened. A [`PTable`] has rows in blocks, clustered by several columns, and
//! a tree that finds them by their key.
//!
//! **What is safe.** One thread writes at a time; the writers' lock sees to that. Threads that read at the same time see each
//! change of one word wholly or not at all.
//!
//! **What survives.** What an operation acknowledged survives every crash, and what it had not is there as a whole or not
//! at all. The tests check this for every content of the memory that a crash can leave.

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod crashes;
mod directory;
mod link;
mod pool;
mod table;
mod tree;

pub use pool::{Pool, PoolOptions, UnitKind, UnitState};
pub use table::{
    BlockVersion, Costs, Dimension, IteratorKind, PTable, PTableOptions, Place, Plan, Published, Request, ScanReport,
    Transaction, sampled_bins,
};
pub(crate) use table::{key_prefixes, slots_of};
pub use tree::{Entry, Tree, TreeOptions};

use crate::error::StoreError;
use crate::media::region::Region;

/// The error of bytes that this version cannot have written.
pub(crate) fn damaged(region: &dyn Region, offset: u64, reason: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { file: region.place(), reason: format!("at byte {offset}: {reason}") }
}
