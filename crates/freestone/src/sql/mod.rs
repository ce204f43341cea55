//! From text to statements, and what the engine makes of their trees.

pub(crate) mod command;
mod copied_rows;
mod definition_names;
pub(crate) mod depth;
pub(crate) mod function_macros;
pub(crate) mod json_conversion;
pub(crate) mod locking;
pub(crate) mod names;
pub(crate) mod option_lists;
pub(crate) mod parameters;
pub(crate) mod room;
pub(crate) mod statement;
pub(crate) mod summary;
pub(crate) mod temp_names;
pub(crate) mod text_types;
pub(crate) mod transactions;
pub(crate) mod trees;
pub(crate) mod written;
