//! Rows that clients send, by any protocol. A statement inserts them while they arrive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use freestone::{ArrowTable, Error, ErrorKind, Inputs, Session, quote};
use tokio::sync::mpsc;

use crate::execution::{self, Answer, Clock};
use crate::shared::Shared;

/// The name of the rows in the statement that inserts them.
const ROWS: &str = "uploaded rows";
/// The number of batches that may wait to be inserted.
const BATCHES_AHEAD: usize = 2;

/// The destination of rows.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An existing table. Columns are matched by name.
    Table(&'a str),
    /// A new table, which is created for the rows.
    NewTable(&'a str),
    /// The same in place of a table that exists until then.
    Replaced(&'a str),
}

/// A batch, or the end. If the channel closes without the end, the client has disconnected, and nothing is stored.
pub type Part = Result<Option<RecordBatch>, ArrowError>;

/// The channel for the rows.
pub fn channel() -> (mpsc::Sender<Part>, mpsc::Receiver<Part>) {
    mpsc::channel(BATCHES_AHEAD)
}

/// Inserts the rows and returns their number. After an error, none of them is inserted.
///
/// # Errors
///
/// The table does not exist, a value does not fit its column, or the client has disconnected.
pub async fn insert(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    target: Target<'_>,
    schema: &Schema,
    parts: mpsc::Receiver<Part>,
    clock: Clock,
) -> freestone::Result<u64> {
    let columns = schema.fields().iter().map(|field| quote(field.name())).collect::<Vec<_>>().join(", ");
    let sql = match target {
        Target::Table(name) => {
            let name = match name.strip_prefix("public.") {
                Some(table) => format!("public.{}", quote(table)),
                None => quote(name),
            };
            format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {}", quote(ROWS))
        }
        Target::NewTable(name) => format!("CREATE TABLE {} AS SELECT {columns} FROM {}", quote(name), quote(ROWS)),
        Target::Replaced(name) => {
            format!("CREATE OR REPLACE TABLE {} AS SELECT {columns} FROM {}", quote(name), quote(ROWS))
        }
    };
    let [statement] = freestone::parse_script(&sql)
        .try_into()
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("rows cannot be inserted into {target:?}")))?;
    let tables = HashMap::from([(ROWS.to_owned(), table(schema, parts))]);
    let inputs = Inputs { tables: Arc::new(tables), ..Inputs::default() };
    match execution::execute_stored(shared, session, &statement, inputs, clock).await? {
        Answer::Affected { rows, .. } => Ok(rows),
        Answer::Done { .. } => Ok(0),
        Answer::Rows(_) => Err(Error::new(ErrorKind::Internal, "internal error: an insertion gave rows")),
    }
}

/// Inserts rows while they are brought. Where the insertion ends before them, nobody waits for a client that stalls.
pub async fn while_brought<T>(inserting: impl Future<Output = T>, bringing: impl Future<Output = ()>) -> T {
    tokio::pin!(inserting, bringing);
    tokio::select! {
        biased;
        inserted = &mut inserting => inserted,
        () = &mut bringing => inserting.await,
    }
}

/// A table that can be read once, while its rows arrive.
pub fn table(schema: &Schema, parts: mpsc::Receiver<Part>) -> ArrowTable {
    let parts = Mutex::new(Some(parts));
    let own = Arc::new(schema.clone());
    ArrowTable::of_reader(schema, move || {
        let parts = parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let parts = parts.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "rows that are sent with a statement can be read once, and were")
                .with_hint("name them once in the statement, or load them into a table")
        })?;
        Ok(Box::new(ReceivedParts { schema: own.clone(), parts, ended: false }))
    })
}

struct ReceivedParts {
    schema: SchemaRef,
    parts: mpsc::Receiver<Part>,
    ended: bool,
}

impl Iterator for ReceivedParts {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let part = self.parts.blocking_recv();
        self.ended = !matches!(part, Some(Ok(Some(_))));
        match part {
            Some(part) => part.transpose(),
            None => Some(Err(ArrowError::ExternalError(Box::new(Error::cancelled())))),
        }
    }
}

impl RecordBatchReader for ReceivedParts {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
