//! The Freestone engine: SQL over native tables in any layout, and over files.
//!
//! A [`Database`] is one folder, or memory. Its [`Session`]s parse scripts into [`Statement`]s and execute them one by
//! one; each commits by itself, and reads the one snapshot that was there when it began. An [`Outcome`] holds rows that
//! are computed while they are read, or a count.
//!
//! ```
//! # async fn example() -> freestone::Result<()> {
//! let database = freestone::Database::in_memory(freestone::Options::default())?;
//! let session = database.session();
//! session.sql("CREATE TABLE t WITH (design = 'row') AS SELECT 1 AS a").await?;
//! let batches = session.sql("SELECT sum(a) FROM t").await?.collect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here knows a protocol, prints, or reads a stored page: those are the server's, the shells' and the store's.

mod access;
mod advise;
mod aggregates;
mod cap;
mod catalog;
mod check;
mod copy;
mod database;
mod ddl;
mod depth;
mod describe;
mod dialect;
pub mod display;
mod dml;
mod error;
mod error_sqlstate;
mod exact;
mod explain;
mod export;
mod expressions;
mod fetch;
mod file_calls;
mod files;
mod from_first;
mod functions;
#[doc(hidden)]
pub mod fuzz;
pub mod ingest;
mod inputs;
mod like_escape;
mod many;
mod memory;
mod merger;
mod names;
mod once_per_text;
mod optimizer;
mod options;
mod parameters;
mod planning;
mod plans;
mod provider;
mod real_operands;
mod session;
mod session_advise;
mod settings;
mod shared;
mod sql_forms;
mod sql_windows;
mod statement;
mod stoppable;
mod stored;
mod stored_values;
mod supported;
mod times;
mod using;
#[doc(hidden)]
pub use times::calendar;
#[doc(hidden)]
pub mod visitor;
mod windows;
mod workload;

pub use access::{Access, Extension};
pub use advise::{AdviseOptions, Calibration, calibrate, profile_path};
pub use database::Database;
pub use datafusion::scalar::ScalarValue;
pub use depth::THREAD_STACK_BYTES;
pub use describe::{Description, Reference, Relation};
pub use error::{Error, ErrorKind, Result};
pub use freestone_advisor::{Advice, Profile};
pub use freestone_store::plain::Strings;
pub use freestone_store::scan::{StoredColumn, StoredPiece, StoredRows};
pub use freestone_store::schema::type_name;
pub use inputs::{ArrowTable, Held, Inputs, OpenReader};
pub use options::{Options, parse_size};
pub use planning::Counting;
pub use session::{CancelHandle, Outcome, Progress, Session};
pub use statement::{ParameterNames, Statement, StatementKind, is_complete, parse_script, quote};
pub use stored::{Answer, StoredQuery};
pub use workload::{LoggedPredicate, LoggedScan};
