//! The ADBC driver: a library with the C calling convention through which programs in any language use Freestone.
//!
//! A database is a folder, memory of this process, or the address of a server. All work is done through
//! [`Link`](link::Link), which has one variant for the engine in this process and one for a server; the code above it
//! is the same for both. SQL and metadata are implemented by the engine, and the protocol by freestone-wire. This crate
//! implements only ADBC. The driver is synchronous and runs its work on its own threads.
//!
//! Its C functions are in two libraries: that of this crate, for every language, and the Python extension, which has the
//! engine already. A Python package with both would have the engine twice.
//!
//! Programs in Rust may use [`FreestoneDriver`] without the C interface, as `tests/driver.rs` does.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod connection;
mod database;
mod error;
mod exports;
mod info;
mod ingest;
mod link;
mod objects;
mod options;
mod parameters;
mod runtime;
mod statement;
mod statistics;

use adbc_core::error::Result;
use adbc_core::options::{OptionDatabase, OptionValue};

pub use connection::FreestoneConnection;
pub use database::FreestoneDatabase;
pub use options::DATABASE_OPTIONS;
pub use runtime::Rows;
pub use statement::FreestoneStatement;

/// The catalog and the schema of every table.
const CATALOG: &str = "freestone";
const SCHEMA: &str = "public";

/// The driver, which opens databases.
#[derive(Debug, Default, Clone, Copy)]
pub struct FreestoneDriver;

impl adbc_core::Driver for FreestoneDriver {
    type DatabaseType = FreestoneDatabase;

    fn new_database(&mut self) -> Result<FreestoneDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<FreestoneDatabase> {
        FreestoneDatabase::open(options)
    }
}
