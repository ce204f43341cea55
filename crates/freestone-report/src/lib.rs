//! Measurements as data, as text and as one HTML page. The command line's `calibrate` and `demo` use this crate, and so
//! does the laboratory.
//!
//! | module | content |
//! |---|---|
//! | [`findings`] | tables, charts and checks, as data that is written as JSON |
//! | [`calibration`] | a machine's profile as findings |
//! | [`page`], [`terminal`] | findings as HTML, and as text |

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod axis;
pub mod calibration;
mod chart;
mod csv;
pub mod findings;
mod host;
pub mod page;
mod rules;
pub mod terminal;

pub use host::Host;
