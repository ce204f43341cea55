//! Tables that a client sends for one statement.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use freestone::{ArrowTable, Error, ErrorKind, ReservedMemory, Result, Session};
use freestone_wire::WireError;
use freestone_wire::server::{Input, UploadStream};
use tokio::task::JoinSet;

use super::upload::bring;
use crate::insert;

/// The tables of one statement, with the tasks and the memory that they need while it runs.
#[derive(Default)]
pub struct ReceivedTables {
    pub tables: Arc<HashMap<String, ArrowTable>>,
    /// Tasks that pass rows on. They end when this is dropped.
    bringing: JoinSet<()>,
    /// The memory of tables that are stored here as a whole.
    _memory: Option<ReservedMemory>,
}

/// Receives the rows of whole inputs, and starts to pass on those of the others.
pub async fn receive(session: &Session, inputs: Vec<Input>) -> Result<ReceivedTables> {
    if inputs.is_empty() {
        return Ok(ReceivedTables::default());
    }
    let (mut tables, mut received, memory) = (HashMap::new(), ReceivedTables::default(), session.reserve_memory());
    for Input { name, whole, schema, rows } in inputs {
        let table = match whole {
            true => collect(&schema, rows, &memory).await?,
            false => {
                let (sender, parts) = insert::channel();
                received.bringing.spawn(bring(rows, sender));
                insert::table(&schema, parts)
            }
        };
        tables.insert(name, table);
    }
    Ok(ReceivedTables { tables: Arc::new(tables), _memory: Some(memory), ..received })
}

/// The same tables without rows, for planning.
pub fn columns(inputs: &[Input]) -> Result<Arc<HashMap<String, ArrowTable>>> {
    let table = |input: &Input| Ok((input.name.clone(), ArrowTable::of_batches(&input.schema, [])?));
    inputs.iter().map(table).collect::<Result<_>>().map(Arc::new)
}

async fn collect(schema: &SchemaRef, mut rows: UploadStream, memory: &ReservedMemory) -> Result<ArrowTable> {
    let mut batches = vec![];
    while let Some(batch) = rows.next().await.map_err(lost)? {
        memory.grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    ArrowTable::of_batches(schema, batches)
}

/// The error of a client that sends no more rows.
fn lost(error: WireError) -> Error {
    match error {
        WireError::Cancelled => Error::cancelled(),
        other => Error::new(ErrorKind::Io, other.to_string()),
    }
}
