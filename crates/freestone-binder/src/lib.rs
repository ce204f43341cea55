//! Freestone's binder: from the syntax tree of a query to a typed logical plan.
//!
//! [`bind`] visits each query block once and makes DataFusion's `LogicalPlan` and `Expr` of it. It knows no tables and no
//! functions of its own: it asks a [`World`] for them, which the engine implements. What it makes is a [`Bound`].
//!
//! - **Names** resolve in scopes, from the innermost query block to the outermost. Every relation of a plan gets a qualifier
//!   of its own, so that no rule of an optimizer can take a column for another one with the same name. The headings of the
//!   result are kept apart from the names in the plan, so they may repeat.
//! - **Correlated columns** are outer references where they stand, at any depth, also in LATERAL tables.
//! - **Errors** have a place in the text, and near names where one is unknown. A form that the binder does not make yet is an
//!   error of [`ErrorKind::Unsupported`] with the form's name.
//!
//! ```text
//! tree ──▶ tables ──▶ scope ──▶ items, conditions, groups, windows ──▶ plan
//! ```

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]
#![forbid(unsafe_code)]

mod aggregates;
mod binder;
mod bound;
mod calls;
mod casts;
mod chains;
mod collations;
mod collections;
mod columns;
mod conditions;
mod ctes;
mod definitions;
mod error;
mod expressions;
mod frames;
mod full_joins;
mod headings;
mod joins;
mod keyed_ctes;
mod lambdas;
mod limits;
mod listings;
mod literals;
mod macros;
mod names;
mod order_joins;
mod orders;
mod origins;
pub mod patterns;
mod pivots;
mod plans;
mod qualifiers;
mod queries;
mod reading;
mod row_comparisons;
mod samples;
mod scopes;
mod select;
mod sets;
mod special;
mod stars;
mod subqueries;
mod table_calls;
mod tables;
mod types;
mod unnests;
mod unpivots;
mod values;
mod windows;
mod world;

pub use binder::{Options, Parameter, bind, bind_expression, bind_type};
pub use bound::{Bound, Heading};
pub use collations::{COLLATED, COLLATION, collation_metadata, collation_name};
pub use error::{BindError, ErrorKind};
pub use reading::{
    Named, Place, PlacedParameter, Reference, all_of, each_expression, each_reference, named_tables, placed_parameters,
};
pub use types::{NORMAL, SqlType};
pub use world::{
    Catalog, Definition, FILE_NAME, FILE_NAMES, Functions, JSON, KeyedColumn, KeyedRecursion, Macro, MacroBody, PLACES,
    ROW_ID, SUMMARIZED, Settings, TableArgument, World,
};

/// Begins the suffix that makes the name of a column in a plan different from others. A number follows. It is no part of what
/// users see.
pub const MARK: char = '\u{1}';
