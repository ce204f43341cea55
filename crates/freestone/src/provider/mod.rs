//! Native tables as DataFusion sees them: a `TableProvider` whose scan is a `DataSource`, so that filters, projections,
//! orders and dynamic filters of joins reach the store's scan.

mod aggregate;
mod claims;
pub(crate) mod columns;
mod copies;
mod duckdb_functions;
mod fields;
pub(crate) mod files;
mod filter;
mod in_keys;
pub(crate) mod information;
pub(crate) mod key_filter;
mod keys;
mod layout;
pub(crate) mod metadata;
mod paths;
mod read_fields;
mod secrets;
pub(crate) mod semi_join_filter;
mod source;
mod statistics;
mod stream;
mod table;
pub(crate) mod versions;

pub use aggregate::{AggregateInScan, ScanAggregateExec};
pub(crate) use claims::Claims;
pub use copies::ChooseCopies;
pub use filter::comparison;
pub use paths::PathPredicates;
pub(crate) use paths::path_tests;
pub use read_fields::ReadFields;
pub use source::{FreestoneSource, Piece};
pub(crate) use source::{scan_work, sources, with_source, with_sources};
pub use statistics::estimated_share;
pub use table::FreestoneTable;
pub(crate) use table::is_stored;
pub(crate) use versions::AtVersion;
