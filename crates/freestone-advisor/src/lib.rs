//! Freestone's advisor. It measures the machine ([`profile`]), predicts the cost of a scan in a design ([`model`]), and
//! searches for the best designs for a workload ([`advise`]). It writes no table and runs no SQL: the caller supplies
//! statistics and a workload, and applies the advice.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

pub mod advice;
pub mod calibrate;
pub mod cost;
pub mod error;
pub mod halverson;
pub mod hyrise;
pub mod model;
pub mod pattern;
pub mod profile;
pub mod search;
pub mod statistics;
pub mod workload;

pub use advice::{Advice, Options, advise, what_if};
pub use calibrate::{CalibrateOptions, Effort, Reference, calibrate};
pub use cost::{Cost, CostModel};
pub use error::{AdvisorError, Result};
pub use model::{ScanModel, Setting};
pub use profile::Profile;
pub use statistics::TableStatistics;
pub use workload::{Output, PathTest, PredicateForm, Query, QueryPredicate, Workload};
