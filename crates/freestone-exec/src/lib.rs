//! The executor: queries as pipelines over morsels, on vectors of stored values.
//!
//! It knows no SQL, no plans and no catalog. The engine compiles the parts of a plan that it knows into [`Stage`]s and
//! [`Program`]s, and runs them on its threads.
//!
//! [`Stage`]: pipeline::Stage
//! [`Program`]: program::Program

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

pub mod accumulators;
pub mod aggregate;
pub mod arithmetic;
pub mod bitwise;
pub mod choices;
pub mod convert;
pub mod direct;
pub mod distinct;
mod divided;
pub mod division;
pub mod error;
pub mod first_rows;
mod frames;
pub mod frequencies;
pub mod full_sort;
pub mod grouping_sets;
pub mod groups;
pub mod hash;
pub mod join;
mod kept;
pub mod meter;
pub mod moments;
pub mod pipeline;
pub mod places;
pub mod prefixes;
pub mod program;
pub mod quantiles;
mod ranges;
mod ranked;
pub mod recursion;
mod repeats;
pub mod rows;
pub mod run;
pub mod scan;
pub mod several;
pub mod sort;
mod states;
pub mod steps;
mod stretches;
pub mod threads;
pub mod unnest;
pub mod vector;
pub mod whole;
pub mod windows;
