//! The laboratory: the papers' experiments and peers of the benchmarks. No product path needs this crate.
//!
//! | module | what |
//! |---|---|
//! | [`experiments`] | the papers' experiments, each a name, a run and [`freestone_report::findings::Findings`] |
//! | [`link`], [`flight`] | a slow network between two namespaces; a peer of the export benchmark |

mod error;
pub mod experiments;
pub mod flight;
#[cfg(target_os = "linux")]
pub mod link;

pub use error::{LabError, Result};
pub use freestone_demo::Notify;
