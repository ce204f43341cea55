//! Rows that a client brings: a statement inserts them while they come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use freestone::{ArrowTable, Error, ErrorKind, Inputs, Session, quote};
use freestone_wire::server::UploadStream;
use tokio::sync::mpsc;

use crate::running::{self, Answer};
use crate::shared::Shared;

/// The name of the rows in the statement that inserts them.
const ROWS: &str = "uploaded rows";
/// Batches that wait to be taken.
pub const BATCHES_AHEAD: usize = 2;

/// Inserts rows into the columns of a table that have their names; all of them or, after an error, none.
pub async fn insert(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    target: &str,
    schema: SchemaRef,
    rows: UploadStream,
) -> freestone::Result<u64> {
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let table = table(&schema, batches);
    let columns = schema.fields().iter().map(|field| quote(field.name())).collect::<Vec<_>>().join(", ");
    let sql = format!("INSERT INTO {} ({columns}) SELECT {columns} FROM {}", quote(target), quote(ROWS));
    let [statement] = freestone::parse_script(&sql)
        .try_into()
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("rows cannot be uploaded to {target:?}")))?;
    let inputs = Inputs { tables: Arc::new(HashMap::from([(ROWS.to_owned(), table)])), ..Inputs::default() };
    let inserting = running::execute_stored(shared, session, &statement, inputs, None);
    match tokio::join!(inserting, bring(rows, sender)).0? {
        Answer::Affected { rows, .. } => Ok(rows),
        _ => Err(Error::new(ErrorKind::Internal, "internal error: an upload gave rows")),
    }
}

/// Passes rows on as they come, for as long as somebody takes them.
pub async fn bring(mut rows: UploadStream, sender: mpsc::Sender<Result<RecordBatch, ArrowError>>) {
    loop {
        let next = tokio::select! {
            next = rows.next() => next.transpose(),
            () = sender.closed() => return,
        };
        let Some(next) = next else { return };
        let ends = next.is_err();
        let next = next.map_err(|error| ArrowError::ExternalError(Box::new(error)));
        if sender.send(next).await.is_err() || ends {
            return;
        }
    }
}

/// A table that can be read once, while its rows come.
pub fn table(schema: &Schema, batches: mpsc::Receiver<Result<RecordBatch, ArrowError>>) -> ArrowTable {
    let batches = Mutex::new(Some(batches));
    let own = Arc::new(schema.clone());
    ArrowTable::of_reader(schema, move || {
        let batches = batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches = batches.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "rows that are sent with a statement can be read once, and were")
                .with_hint("name them once in the statement, or load them into a table")
        })?;
        Ok(Box::new(Uploaded { schema: own.clone(), batches }))
    })
}

struct Uploaded {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, ArrowError>>,
}

impl Iterator for Uploaded {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.blocking_recv()
    }
}

impl RecordBatchReader for Uploaded {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
