//! The workload: what statements ask of native tables, added up as they run. Bounded, without literals unless a session
//! allows them, kept beside the database so that later processes advise on it.

mod log;
mod watch;

pub(crate) use log::WorkloadLog;
pub use log::{LoggedPredicate, LoggedScan};
pub(crate) use watch::{Asked, AskedPath, Watch, Watched, asked, fitted, form};
