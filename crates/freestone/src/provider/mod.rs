//! Native tables as DataFusion sees them: a `TableProvider` whose scan is a `DataSource`, so that filters, projections,
//! orders and dynamic filters of joins reach the store's scan.

mod aggregate;
mod copies;
pub(crate) mod files;
mod filter;
mod in_keys;
mod keys;
mod paths;
mod source;
mod statistics;
mod stream;
mod table;
mod unneeded;

pub use aggregate::{AggregateInScan, ScanAggregateExec};
pub use copies::ChooseCopies;
pub use filter::comparison;
pub use paths::PathPredicates;
pub(crate) use paths::path_tests;
pub use source::FreestoneSource;
pub(crate) use source::with_sources;
pub use statistics::estimated_share;
pub use table::{FreestoneTable, ROW_ID_COLUMN};
pub use unneeded::UnneededJoins;
