//! Freestone's advisor: it measures the machine ([`profile`]), predicts what a scan costs in a design ([`model`]), and
//! searches for the designs that a workload wants ([`advise`]). It writes no table and runs no SQL: who calls it brings
//! statistics and a workload, and applies what it says.

pub mod cost;
pub mod error;
pub mod workload;

pub use cost::{Cost, CostModel};
pub use error::{AdvisorError, Result};
pub use workload::{Output, PredicateForm, Query, QueryPredicate, Workload};
