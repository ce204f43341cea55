//! The laboratory: the papers' experiments and peers of the benchmarks. The product does not need this crate.
//!
//! | module | content |
//! |---|---|
//! | [`experiments`] | the papers' experiments, each a name, a run and [`freestone_report::findings::Findings`] |
//! | [`compare`] | two results of one experiment side by side, from two machines or two builds |
//! | [`link`], [`flight`] | an emulated slow network between two namespaces; a peer in the export benchmark |

pub mod compare;
mod error;
pub mod experiments;
pub mod flight;
// The build script's, here for its tests.
#[cfg(test)]
mod identity;
#[cfg(target_os = "linux")]
pub mod link;

pub use error::{LabError, Result};
pub use freestone_demo::Notify;
