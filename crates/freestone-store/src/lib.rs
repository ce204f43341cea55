//! Freestone's store: designs, page formats, media, segments, snapshots and scans.
//!
//! A [`Store`] is one database folder. [`Store::snapshot`] gives readers the tables of one commit, and [`scan::Cursor`]
//! reads them. [`Store::write`] begins a transaction that appends, deletes, converts and commits. This crate knows no
//! SQL.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod bitmap;
pub mod cache;
pub mod cluster;
mod collected;
pub mod column;
pub mod design;
pub mod error;
pub mod format;
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
pub mod log;
pub mod media;
pub mod memory;
pub mod nested;
pub mod page;
pub mod persistent;
pub mod plain;
pub mod scan;
pub mod schema;
pub mod segment;
mod sort;
mod store;
mod struct_fields;
mod table;

pub use error::StoreError;
pub use store::{
    Appended, Appender, BackupReport, CheckReport, ColumnUse, Comments, Definition, Emulation, GeneratedColumn,
    LockMode, MaterializedView, Object, ObjectKind, OpenTransaction, PmemOptions, PoolList, PoolState, Position,
    RETENTION, Repaired, Savepoint, SegmentAppender, SegmentNumbers, SegmentTarget, Sequence, Snapshot, Store,
    StoreOptions, TransactionList, User, Uses, VacuumReport, Waiting, WriteTransaction, WrittenSegment, is_comparable,
};
pub use table::{CopyOf, SegmentEntry, Table};
