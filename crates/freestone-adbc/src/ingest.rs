//! Bulk ingestion: rows of the caller that are loaded into a new or an existing table.
//!
//! One statement does this, in this process or on a server, so either all rows are loaded or none, and a table is made or
//! replaced with them or not at all.

use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::{IngestMode, OptionValue};
use arrow::datatypes::Schema;
use freestone::quote;

use crate::error::{invalid, not_found};
use crate::link::{Backend, Link, Reader, literal};
use crate::options::text;

/// The parameters of an ingestion.
#[derive(Clone)]
pub struct Ingestion {
    pub table: String,
    pub mode: IngestMode,
    /// Whether the table is, or becomes, a temporary one.
    pub temporary: bool,
    /// The design options of a new table: the text within `WITH (…)`.
    pub design: String,
}

impl Default for Ingestion {
    fn default() -> Self {
        Ingestion { table: String::new(), mode: IngestMode::Create, temporary: false, design: String::new() }
    }
}

/// Parses the name of a mode.
///
/// # Errors
///
/// The mode is unknown.
pub fn mode(value: &OptionValue) -> Result<IngestMode> {
    let name = text("adbc.ingest.mode", value)?;
    name.parse().map_err(|_: Error| {
        invalid(format!(
            "adbc.ingest.mode cannot be {name:?}; it is adbc.ingest.mode.create, .append, .replace or .create_append"
        ))
    })
}

/// Ingests rows and returns their number.
///
/// # Errors
///
/// The table exists or does not exist, contrary to the mode; a value does not fit its column; or the caller's stream or
/// the server fails.
pub async fn run(link: &Arc<Link>, mut ingestion: Ingestion, rows: Reader) -> Result<u64> {
    if ingestion.table.is_empty() {
        return Err(invalid("adbc.ingest.target_table is empty; name a table"));
    }
    if ingestion.temporary {
        ingestion.table = format!("pg_temp.{}", ingestion.table);
    }
    let exists = exists(link, &ingestion.table).await?;
    let appends = match ingestion.mode {
        IngestMode::Append if !exists => {
            return Err(not_found(format!("no table {}; ingest with another mode to make it", ingestion.table)));
        }
        IngestMode::Append => true,
        IngestMode::CreateAppend => exists,
        IngestMode::Create | IngestMode::Replace => false,
    };
    if appends && !ingestion.design.is_empty() {
        return Err(invalid(format!(
            "table {} exists, so its design is not chosen here; convert it: ALTER TABLE … SET DESIGN (…)",
            ingestion.table
        )));
    }
    let table = quote(&ingestion.table);
    match (&link.backend, appends) {
        (Backend::Embedded(_), true) => {
            let columns = columns(&rows.schema());
            link.command_on(rows, |source| format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {source}"))
                .await
        }
        (Backend::Remote(_), true) => link.upload(&ingestion.table, rows).await,
        (_, false) => {
            let create = create(&ingestion, &table);
            link.command_on(rows, |source| format!("{create} AS SELECT * FROM {source}")).await
        }
    }
}

/// The statement that creates the table, up to `AS`.
fn create(ingestion: &Ingestion, table: &str) -> String {
    let replace = if matches!(ingestion.mode, IngestMode::Replace) { "OR REPLACE " } else { "" };
    let with = if ingestion.design.is_empty() { String::new() } else { format!(" WITH ({})", ingestion.design) };
    format!("CREATE {replace}TABLE {table}{with}")
}

/// Whether a table of this name exists.
async fn exists(link: &Arc<Link>, table: &str) -> Result<bool> {
    let named = format!("SELECT name FROM freestone_tables() WHERE name = {}", literal(table));
    Ok(!link.records(&named).await?.is_empty())
}

fn columns(schema: &Schema) -> String {
    schema.fields().iter().map(|field| quote(field.name())).collect::<Vec<_>>().join(", ")
}
