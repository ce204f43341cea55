//! The Freestone engine: SQL over native tables in any layout, and over files.
//!
//! A [`Database`] is a folder, in object storage, or in memory. Its [`Session`]s parse scripts into [`Statement`]s and execute them one by
//! one. Unless a statement belongs to a transaction of several, it reads the snapshot that was committed when it began,
//! and commits when it succeeds. An [`Outcome`] has rows, which are computed while they are read, or a count.
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
//! A statement that comes again with other values is parsed once ([`Session::prepare`]) and executed with them
//! ([`Session::execute_with`]); one that reads or changes the row of a key is not planned again. [`Session::lookup`]
//! reads the row of a key without SQL.
//!
//! This crate knows no protocol, prints nothing, and does not decode stored pages: these are tasks of the server, the
//! shell and the store.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod access;
mod advise;
mod aggregates;
mod array_forms;
mod attached;
mod binding;
mod bucket;
mod catalog;
pub mod cluster;
mod compaction;
mod context;
mod database;
mod definitions;
mod dependencies;
pub mod display;
mod distinct_names;
mod duckdb_settings;
mod durations;
mod error;
mod error_sqlstate;
mod exact;
mod exec;
mod export;
mod expressions;
mod file_format;
mod fusion;
#[doc(hidden)]
pub mod fuzz;
mod growth;
mod heap;
mod hosted;
pub mod ingest;
mod inputs;
mod internal_names;
mod json_text;
mod known_workers;
mod limits;
mod memory;
mod normal_texts;
mod nullable_sides;
mod optimizer;
mod options;
mod own_settings;
mod planning;
mod point;
mod profile;
mod provider;
mod recursion;
mod scalars;
mod sequences;
mod session;
mod settings;
mod shared;
mod small_batches;
mod spilling;
mod sql;
mod table_functions;
mod temp_schema;
mod text_types;
mod times;
mod type_names;
#[doc(hidden)]
pub use times::{DateOrder, TextOf, Zone, calendar, plain_text, value_of_text};
mod unordered;
mod untyped;
mod uuids;
mod variables;
mod windows;
mod workload;

pub use access::{Access, Extension};
pub use advise::AdviseOptions;
pub use bucket::{check_store, is_bucket};
pub use context::{CancelHandle, Outcome, Progress, RunningHandle, check as check_statement};
pub use database::Database;
pub use datafusion::scalar::ScalarValue;
pub use error::{Error, ErrorKind, Result, Subject, closest};
pub use exact::{push_float, push_float32};
pub use exec::stored::{Answer, StoredQuery};
pub use freestone_advisor::{Advice, Profile};
pub use freestone_sql::{is_complete, without_secrets};
pub use freestone_store::Emulation;
pub use freestone_store::log::FORMAT_VERSION;
pub use freestone_store::media::block_cache::BlockCounters;
pub use freestone_store::plain::Strings;
pub use freestone_store::scan::{StoredColumn, StoredPiece, StoredRows};
pub use heap::{Counting, limit_heap, release_memory_by};
pub use hosted::{HostFunction, HostKernel};
pub use inputs::{ArrowTable, Inputs, OpenReader, ReservedMemory};
pub use normal_texts::{NormalText, ZonedTime};
pub use options::{DiskCache, Options, parse_size};
pub use profile::{Calibration, calibrate, profile_path};
pub use scalars::unescaped_bytes;
pub use sequences::SequenceRelation;
pub use session::Session;
pub use session::describe::{Description, NamedRelation, Reference, Relation};
pub use session::tasks::TaskRunner;
pub use session::transaction::TransactionStatus;
pub use sql::depth::THREAD_STACK_BYTES;
pub use sql::statement::{ParameterNames, Statement, StatementKind, parse_script, quote};
pub use text_types::{declared_type, is_json, labels_of, normal_of};
pub use type_names::type_name;
pub use workload::{LoggedPredicate, LoggedScan};
