//! The rights of a session, and schemas and functions that it has in addition to the database. Both are set by the code
//! that opens sessions for other users.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::error::{Error, ErrorKind, Result};

/// The rights of a session in addition to reading tables. They apply to everything that a statement executes, including
/// prepared statements, views and EXPLAIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Changing rows, tables, views and designs.
    pub write: bool,
    /// Reading and writing files of this machine by name.
    pub files: bool,
    /// Settings of the whole database, and what other users do.
    pub admin: bool,
    /// The maximum bytes of memory of its queries, within the limit of the database.
    pub memory: Option<usize>,
}

impl Default for Access {
    fn default() -> Self {
        Access { write: true, files: true, admin: true, memory: None }
    }
}

impl Access {
    pub(crate) fn check_write(&self) -> Result<()> {
        if self.write {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Denied, "this session may only read")
            .with_hint("a user with the role write or admin can change data"))
    }

    pub(crate) fn check_files(&self) -> Result<()> {
        if self.files {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Denied, "this session may not read or write files of the server")
            .with_hint("a user with the role admin can; others load and fetch data over their connection"))
    }

    /// `what` completes "this session may not …".
    pub(crate) fn check_admin(&self, what: &str) -> Result<()> {
        if self.admin {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Denied, format!("this session may not {what}"))
            .with_hint("a user with the role admin can"))
    }
}

/// Schemas and functions that a session has in addition to those of the database, such as the catalog of a protocol.
#[derive(Debug, Clone, Default)]
pub struct Extension {
    /// Schemas by name. The tables of the first schema are also found without its name, after those of the database.
    pub schemas: Vec<(String, Arc<dyn SchemaProvider>)>,
    /// Scalar functions.
    pub functions: Vec<Arc<ScalarUDF>>,
    /// Aggregate functions.
    pub aggregates: Vec<Arc<AggregateUDF>>,
    /// Whether casts give PostgreSQL's texts of floats, such as `1e+20`.
    pub postgres_texts: bool,
}

impl Extension {
    pub(crate) fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.schemas.iter().find(|(known, _)| known == name).map(|(_, schema)| schema.clone())
    }
}
