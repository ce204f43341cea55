//! Several machines for the queries of one server.
//!
//! A [`Worker`] has a database open for reading, and runs parts of queries that servers send it. A [`Cluster`] is what a
//! server knows of its workers: who they are ([`Hosts`]), and which of them may get work. It is the
//! [`Workers`](freestone::cluster::Workers) of the server's database. The engine decides which parts are sent, and does what
//! is to be done if a worker is lost.
//!
//! Messages are those of Arrow Flight: `DoGet` runs a task, whose rows come back, and `DoAction` says who somebody is, or
//! joins a cluster. All of them are signed with the cluster's secret ([`Token`]), which is never sent. A task also has the rights
//! of its statement, which expire. On public addresses there is TLS, too.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod address;
mod client;
mod cluster;
mod error;
mod flight;
mod listener;
mod members;
mod messages;
mod metrics;
mod token;
mod worker;

pub use address::{DEFAULT_PORT, Hosts};
pub use cluster::{Cluster, ClusterOptions};
pub use error::{ClusterError, Result};
pub use messages::{PROTOCOL, VERSION};
pub use token::Token;
pub use worker::{Worker, WorkerOptions};
