//! Freestone's advisor: it measures the machine ([`profile`]), predicts what a scan costs in a design ([`model`]), and
//! searches for the designs that a workload wants ([`advise`]). It writes no table and runs no SQL: who calls it brings
//! statistics and a workload, and applies what it says.

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
