//! The execution of statements: one file per kind. Nothing here knows a session.

pub(crate) mod alter;
pub(crate) mod batch_insert;
pub(crate) mod check;
pub(crate) mod constraints;
pub(crate) mod copy;
pub(crate) mod ddl;
pub(crate) mod defaults;
pub(crate) mod dml;
pub(crate) mod explain;
pub(crate) mod merge;
pub(crate) mod returning;
pub(crate) mod row_checks;
pub(crate) mod sequences;
pub(crate) mod stored;
pub(crate) mod stored_values;
pub(crate) mod upsert;
mod view_columns;
pub(crate) mod write;
