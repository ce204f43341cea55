//! The Freestone server: one database for many clients, over Freestone wire, PostgreSQL's protocol and Arrow
//! Flight SQL.
//!
//! [`Plan::of`] checks a configuration, users and certificates included, before anything listens. [`Plan::bind`] opens the
//! addresses, and [`Server::run`] serves them until it is told to stop. A protocol is a file or folder here that
//! implements [`protocol::Protocol`]; none of them reaches below `freestone`.

mod authority;
mod descriptors;
mod error;
mod flight;
#[doc(hidden)]
pub mod fuzz;
mod insert;
pub mod log;
mod metrics;
mod options;
mod pg;
mod protocol;
mod running;
mod scram;
mod server;
mod shared;
mod tls;
mod users;
mod wire;

pub use freestone_wire::{ByteCodec, Preference};

pub use error::{Result, ServerError};
pub use options::{Limits, ServerOptions};
pub use server::{Plan, Server};
pub use users::{Role, User, Users};
