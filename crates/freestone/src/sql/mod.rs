//! From text to statements: the parser, its dialect, and rewrites of parsed statements before they are planned.

pub(crate) mod case_results;
pub(crate) mod depth;
pub(crate) mod dialect;
pub(crate) mod explain_options;
pub(crate) mod expressions;
pub(crate) mod extensions;
pub(crate) mod fetch;
pub(crate) mod file_calls;
pub(crate) mod forms;
pub(crate) mod fragments;
pub(crate) mod frame_exclusion;
pub(crate) mod from_first;
pub(crate) mod function_macros;
pub(crate) mod laterals;
pub(crate) mod like_escape;
pub(crate) mod locking;
pub(crate) mod macros;
pub(crate) mod materialized;
pub(crate) mod merge_forms;
pub(crate) mod named_windows;
pub(crate) mod names;
pub(crate) mod parameters;
mod sequence_options;
pub(crate) mod spellings;
pub(crate) mod statement;
pub(crate) mod subquery_columns;
pub(crate) mod summary;
pub(crate) mod supported;
pub(crate) mod temp_names;
pub(crate) mod transactions;
pub(crate) mod type_names;
pub(crate) mod types;
pub(crate) mod using;
pub(crate) mod values;
#[doc(hidden)]
pub mod visitor;
