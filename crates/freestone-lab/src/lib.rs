//! The laboratory: data of the papers and of TPC-H, what is measured on it, and how that is shown. No product path needs
//! this crate.
//!
//! | module | what |
//! |---|---|
//! | [`generate`], [`queries`] | tables and SQL |
//! | [`calibration`] | a machine's profile as findings |
//! | [`demo`] | the main job on generated data, with a report |
//! | [`experiments`] | the papers' experiments, each a name, a run and [`findings::Findings`] |
//! | [`link`], [`flight`] | a slow network between two namespaces; a peer of the export benchmark |
//! | [`findings`] | what was found, as data: tables, charts, checks |
//! | [`page`], [`terminal`] | findings as one HTML page, and as text |

pub mod calibration;
mod chart;
pub mod demo;
mod engine;
mod error;
pub mod experiments;
pub mod findings;
pub mod flight;
pub mod generate;
mod host;
#[cfg(target_os = "linux")]
pub mod link;
pub mod page;
pub mod queries;
pub mod terminal;

pub use error::{LabError, Result};
pub use host::Host;

/// Told in a few words what is being done; called now and then.
pub type Notify<'a> = &'a dyn Fn(&str);
