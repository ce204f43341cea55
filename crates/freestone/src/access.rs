//! What a session may do, and what it has beside the database: both given by whoever opens sessions for others.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::logical_expr::ScalarUDF;

use crate::error::{Error, ErrorKind, Result};

/// What a session may do besides reading tables. It holds for whatever a statement leads to: prepared statements, views
/// and EXPLAIN too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Change rows, tables, views and designs.
    pub write: bool,
    /// Read and write files of this machine by name.
    pub files: bool,
    /// Bytes that its queries may hold in memory, within the limit of the database.
    pub memory: Option<usize>,
}

impl Default for Access {
    fn default() -> Self {
        Access { write: true, files: true, memory: None }
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
}

/// Schemas and functions that a session has beside those of the database, such as the catalog of a protocol.
#[derive(Debug, Clone, Default)]
pub struct Extension {
    /// Schemas by name. The tables of the first are found without its name, too, after those of the database.
    pub schemas: Vec<(String, Arc<dyn SchemaProvider>)>,
    pub functions: Vec<Arc<ScalarUDF>>,
}

impl Extension {
    pub(crate) fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.schemas.iter().find(|(known, _)| known == name).map(|(_, schema)| schema.clone())
    }
}
