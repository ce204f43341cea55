//! The Freestone engine: SQL over native tables in any layout, and over files.
//!
//! A [`Database`] is one folder, or memory. Its [`Session`]s parse scripts into [`Statement`]s and execute them one by
//! one; each commits on its own, and reads the one snapshot that was there when it began. An [`Outcome`] holds rows that
//! are computed while they are read, or a count.
//!
//! ```
//! # async fn example() -> freestone::Result<()> {
//! let database = freestone::Database::in_memory(freestone::Options::default())?;
//! let session = database.session();
//! session.sql("CREATE TABLE t WITH (preset = 'row') AS SELECT 1 AS a").await?;
//! let batches = session.sql("SELECT sum(a) FROM t").await?.collect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here knows a protocol, prints, or reads a stored page: those are the server's, the shells' and the store's.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod advise;
mod aggregates;
mod catalog;
mod compaction;
mod context;
mod database;
mod definitions;
pub mod display;
mod error;
mod error_sqlstate;
mod exact;
mod exec;
mod export;
#[doc(hidden)]
pub mod fuzz;
mod growth;
mod heap;
pub mod ingest;
mod inputs;
mod memory;
mod optimizer;
mod options;
mod planning;
mod provider;
mod scalars;
mod session;
mod shared;
mod sql;
mod times;
#[doc(hidden)]
pub use times::calendar;
mod untyped;
mod windows;
mod workload;

pub use advise::{AdviseOptions, Calibration, calibrate, profile_path};
pub use context::{CancelHandle, Outcome, Progress};
pub use database::Database;
pub use datafusion::scalar::ScalarValue;
pub use error::{Error, ErrorKind, Result};
pub use exec::stored::{Answer, StoredQuery};
pub use freestone_advisor::{Advice, Profile};
pub use freestone_store::plain::Strings;
pub use freestone_store::scan::{StoredColumn, StoredPiece, StoredRows};
pub use freestone_store::schema::type_name;
pub use heap::{Counting, limit_heap};
pub use inputs::{ArrowTable, Inputs, OpenReader, ReservedMemory};
pub use options::{Options, parse_size};
pub use session::Session;
pub use session::access::{Access, Extension};
pub use session::describe::{Description, Reference, Relation};
pub use session::transaction::TransactionStatus;
pub use sql::depth::THREAD_STACK_BYTES;
pub use sql::statement::{ParameterNames, Statement, StatementKind, is_complete, parse_script, quote};
#[doc(hidden)]
pub use sql::visitor;
pub use workload::{LoggedPredicate, LoggedScan};
