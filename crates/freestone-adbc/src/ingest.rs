//! Bulk ingestion: a table from the caller's rows, or more rows for one.
//!
//! In this process one statement does it, so that all rows are there afterwards or none. A server takes rows into a table
//! that is there: so one is made first, and dropped again if the rows do not arrive.

use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::{IngestMode, OptionValue};
use arrow::datatypes::Schema;

use crate::error::{invalid, not_found};
use crate::link::{Backend, Link, Reader, empty_query, literal, quote};
use crate::options::text;

/// What an ingestion is told.
#[derive(Clone)]
pub struct Ingestion {
    pub table: String,
    pub mode: IngestMode,
    /// Options of the design of a table that is made: what stands in `WITH (…)`.
    pub design: String,
}

impl Default for Ingestion {
    fn default() -> Self {
        Ingestion { table: String::new(), mode: IngestMode::Create, design: String::new() }
    }
}

/// A mode from its name.
pub fn mode(value: &OptionValue) -> Result<IngestMode> {
    let name = text("adbc.ingest.mode", value)?;
    name.parse().map_err(|_: Error| {
        invalid(format!(
            "adbc.ingest.mode cannot be {name:?}; it is adbc.ingest.mode.create, .append, .replace or .create_append"
        ))
    })
}

/// Ingests rows; how many there were.
pub async fn run(link: &Arc<Link>, ingestion: Ingestion, rows: Reader) -> Result<u64> {
    if ingestion.table.is_empty() {
        return Err(invalid("adbc.ingest.target_table is empty; name a table"));
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

/// The statement that makes the table, up to `AS`.
fn create(ingestion: &Ingestion, table: &str) -> String {
    let replace = if matches!(ingestion.mode, IngestMode::Replace) { "OR REPLACE " } else { "" };
    let with = if ingestion.design.is_empty() { String::new() } else { format!(" WITH ({})", ingestion.design) };
    format!("CREATE {replace}TABLE {table}{with}")
}

/// Replaces a table of a server: the rows go to one beside it, so that the old rows are there until the new ones are.
async fn replace(link: &Arc<Link>, ingestion: &Ingestion, rows: Reader) -> Result<u64> {
    let beside = format!("{}$ingested", ingestion.table);
    let source = quote(&beside);
    link.command(&format!("CREATE OR REPLACE TABLE {source} AS {}", empty_query(&rows.schema())?)).await?;
    let undo = Undo { link: link.clone(), table: Some(beside.clone()) };
    let replaced = match link.upload(&beside, rows).await {
        Ok(_) => {
            let create = create(ingestion, &quote(&ingestion.table));
            link.command(&format!("{create} AS SELECT * FROM {source}")).await
        }
        Err(error) => Err(error),
    };
    undo.drop_table().await;
    replaced
}

/// Sends rows to a table that was made for them, which goes if they do not arrive.
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

/// Drops a table again, also where the ingestion was cancelled.
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
            // What went wrong first is what the caller is told.
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

/// Whether there is a table of this name.
async fn exists(link: &Arc<Link>, table: &str) -> Result<bool> {
    let named = format!("SELECT name FROM freestone_tables() WHERE name = {}", literal(table));
    Ok(!link.records(&named).await?.is_empty())
}

fn columns(schema: &Schema) -> String {
    schema.fields().iter().map(|field| quote(field.name())).collect::<Vec<_>>().join(", ")
}
