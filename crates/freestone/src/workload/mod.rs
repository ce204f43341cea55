//! The workload log: what statements read of native tables, summed up as they run. It has a bounded size, no literals
//! unless a session allows them, and is stored in the database's folder, so that later processes can use it for advice.

mod log;
mod watch;

pub(crate) use log::WorkloadLog;
pub use log::{LoggedPredicate, LoggedScan};
pub(crate) use watch::{AskedPath, TableReads, Watch, Watched, asked, fitted, form};
