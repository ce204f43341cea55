//! Shared queries: common table expressions and views that a statement reads several times and runs once.
//!
//! DataFusion inlines the plan of a common table expression or view at every reference. If such queries read each other
//! twice, plans become exponentially large; and if one calls `random()`, each reference sees other rows. Therefore:
//!
//! 1. While SQL is planned, a reference to such a query is a leaf ([`reference`]): a [`Reference`] to its plan.
//! 2. The first analyzer rule ([`resolve`]) counts the references in the whole statement. A query that is read once, or
//!    is a cheap scan, replaces its references, as in DataFusion. For any other query, each reference becomes the scan
//!    of a table, into which the optimizer pushes projections and filters.
//! 3. The query planner ([`planner`]) plans each query once, with the columns that any scan reads and the rows that any
//!    scan's filters accept.
//! 4. While the plan runs ([`exec`]), the first scan that requests rows starts the query. Its rows are stored
//!    ([`rows`]) in memory, or in spill files if the pool has no memory left, and all scans read them.

mod exec;
mod order;
mod planner;
mod reference;
mod resolve;
mod rows;

pub(crate) use exec::{Connect, SharedQueriesExec, SharedScanExec, is_scan};
pub(crate) use order::{dealt, passes_rows};
pub(crate) use planner::SharedPlanner;
pub(crate) use reference::{Materialized, apply, referenced};
pub(crate) use resolve::Resolve;
