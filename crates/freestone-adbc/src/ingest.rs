//! Bulk ingestion: rows of the caller that are loaded into a new or an existing table.
//!
//! In this process, one statement does this, so either all rows are loaded or none. A server loads rows into an
//! existing table. A new table is therefore created first, and dropped if the rows do not arrive completely.

use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::{IngestMode, OptionValue};
use arrow::datatypes::Schema;
use freestone::quote;

use crate::error::{invalid, not_found};
use crate::link::{Backend, Link, Reader, empty_query, literal};
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
        (Backend::Embedded(_), false) => {
            let create = create(&ingestion, &table);
            link.command_on(rows, |source| format!("{create} AS SELECT * FROM {source}")).await
        }
        (Backend::Remote(_), true) => link.upload(&ingestion.table, rows).await,
        (Backend::Remote(_), false) if exists && matches!(ingestion.mode, IngestMode::Replace) => {
            replace(link, &ingestion, rows).await
        }
        (Backend::Remote(_), false) => {
            link.command(&format!("{} AS {}", create(&ingestion, &table), empty_query(&rows.schema())?)).await?;
            fill(link, &ingestion.table, rows).await
        }
    }
}

/// The statement that creates the table, up to `AS`.
fn create(ingestion: &Ingestion, table: &str) -> String {
    let replace = if matches!(ingestion.mode, IngestMode::Replace) { "OR REPLACE " } else { "" };
    let with = if ingestion.design.is_empty() { String::new() } else { format!(" WITH ({})", ingestion.design) };
    format!("CREATE {replace}TABLE {table}{with}")
}

/// Replaces a table of a server. The rows are loaded into another table first, so that the old rows exist until the new
/// ones do.
async fn replace(link: &Arc<Link>, ingestion: &Ingestion, rows: Reader) -> Result<u64> {
    let temporary = format!("{}$ingested", ingestion.table);
    let source = quote(&temporary);
    link.command(&format!("CREATE OR REPLACE TABLE {source} AS {}", empty_query(&rows.schema())?)).await?;
    let undo = Undo { link: link.clone(), table: Some(temporary.clone()) };
    let replaced = match link.upload(&temporary, rows).await {
        Ok(_) => {
            let create = create(ingestion, &quote(&ingestion.table));
            link.command(&format!("{create} AS SELECT * FROM {source}")).await
        }
        Err(error) => Err(error),
    };
    undo.drop_table().await;
    replaced
}

/// Sends rows to a table that was created for them. The table is dropped if they do not arrive.
async fn fill(link: &Arc<Link>, table: &str, rows: Reader) -> Result<u64> {
    let undo = Undo { link: link.clone(), table: Some(table.to_owned()) };
    let sent = link.upload(table, rows).await;
    match sent {
        Ok(count) => {
            undo.keep();
            Ok(count)
        }
        Err(error) => {
            undo.drop_table().await;
            Err(error)
        }
    }
}

/// Drops a table that was created for an ingestion, also if the ingestion was cancelled.
struct Undo {
    link: Arc<Link>,
    table: Option<String>,
}

impl Undo {
    fn keep(mut self) {
        self.table = None;
    }

    async fn drop_table(mut self) {
        if let Some(table) = self.table.take() {
            // The caller gets the first error, not one of this statement.
            _ = self.link.command(&format!("DROP TABLE {}", quote(&table))).await;
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            let (link, text) = (self.link.clone(), format!("DROP TABLE {}", quote(&table)));
            self.link.lane.leave(async move { link.undo(&text).await });
        }
    }
}

/// Whether a table of this name exists.
async fn exists(link: &Arc<Link>, table: &str) -> Result<bool> {
    let named = format!("SELECT name FROM freestone_tables() WHERE name = {}", literal(table));
    Ok(!link.records(&named).await?.is_empty())
}

fn columns(schema: &Schema) -> String {
    schema.fields().iter().map(|field| quote(field.name())).collect::<Vec<_>>().join(", ")
}
