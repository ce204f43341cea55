//! Queries that one statement reads several times, run once.
//!
//! DataFusion puts the plan of a common table expression, or of a view, in every place that names it. Queries that read each
//! other twice so become plans of exponential size; and where such a query calls `random()`, each place sees other rows. So:
//!
//! 1. While SQL becomes a plan, such a query is a leaf ([`reference`]): a [`Reference`] to its plan.
//! 2. The first rule of the analyzer ([`resolve`]) counts the references of the whole statement. A query that is read once, or
//!    is a cheap scan, takes the place of its references, as in DataFusion. Of the others each reference becomes the scan of a
//!    table, to which the optimizer pushes projections and filters.
//! 3. The query planner ([`planner`]) plans each query once: the columns that any scan wants, and the rows that any of their
//!    filters lets through.
//! 4. While the plan runs ([`exec`]), the first scan that wants rows starts the query. Its rows are kept ([`rows`]) in memory,
//!    or in spill files where the pool has none left, and all scans read them.

mod exec;
mod planner;
mod reference;
mod resolve;
mod rows;

pub(crate) use exec::{Connect, is_scan};
pub(crate) use planner::SharedPlanner;
pub(crate) use reference::{Materialized, SharedRelations, apply, mark, referenced, with_marks};
pub(crate) use resolve::Resolve;
