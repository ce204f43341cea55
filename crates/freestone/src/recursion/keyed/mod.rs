//! Recursive queries that keep one row for each key: `WITH RECURSIVE … USING KEY`.
//!
//! Rows that a step makes are candidates. Each changes the row of its key: columns take its values, or an aggregate of the values of all
//! candidates of the key so far. The step reads the rows of the step before, and as `recurring.name` the row of each key, both as they
//! were when the step began. The form of SQL is that of Bamberg, Hirn and Grust, "How DuckDB is USING KEY to unlock recursive
//! query performance", SIGMOD 2025.

mod exec;
mod node;
mod state;

pub(crate) use exec::KeyedRecursionExec;
pub(crate) use node::{KeyedPlans, KeyedQuery};
