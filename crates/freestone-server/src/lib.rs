//! The Freestone server: one database for many clients, over the Freestone protocol, PostgreSQL's protocol, Arrow Flight
//! SQL, and HTTP for browsers.
//!
//! [`Plan::of`] checks a configuration, with users and certificates, before the server listens. [`Plan::bind`] opens
//! the addresses, and [`Server::run`] serves them until it is stopped. Each protocol is a file or folder here that
//! implements [`protocol::Protocol`]. The protocols use only the crate `freestone`, not the crates below it.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod advisory;
mod authority;
mod channels;
mod descriptors;
mod error;
mod execution;
mod flight;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod insert;
pub mod log;
mod metrics;
mod options;
mod pg;
mod place;
mod protocol;
mod scram;
mod server;
mod sessions;
mod shared;
mod sqlstate;
mod text_place;
mod tls;
mod traces;
mod users;
mod wire;

pub use freestone_wire::{ByteCodec, Preference};

pub use error::{Result, ServerError};
pub use metrics::MetricsSource;
pub use options::{Limits, ServerOptions};
pub use server::{MetricsAddress, Plan, Server};
pub use users::{Role, User, Users};
