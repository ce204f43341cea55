//! The inputs of a statement: parameter values, and tables whose rows the client sends while the statement runs.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use freestone_store::plain::Strings;
use tokio::sync::{Semaphore, watch};

use super::{Link, Route, UPLOAD_BYTES, lock};
use crate::chunk::RowLimit;
use crate::error::{Result, WireError};
use crate::message;
use crate::sender::{ChunkSender, Context};
use crate::server::codecs;
use crate::types::{describe, wire_schema};

/// The inputs of a statement.
#[derive(Debug, Default)]
pub struct Inputs {
    /// One row with a column per parameter.
    pub parameters: Option<RecordBatch>,
    /// Tables that the statement may name.
    pub tables: Vec<Input>,
    /// The layout of the result's strings.
    pub strings: Strings,
}

impl Inputs {
    /// Parameters only.
    pub fn parameters(row: Option<&RecordBatch>) -> Self {
        Self { parameters: row.cloned(), ..Self::default() }
    }
}

/// A table that a statement may name.
pub struct Input {
    /// In the case to which SQL folds names. A table or view of the database with the same name has precedence.
    pub name: String,
    /// The columns.
    pub schema: SchemaRef,
    /// Whether the server reads all rows before the statement begins, so that the statement may read them several
    /// times; they have to fit the server's memory for this client. Otherwise it reads them once, while they arrive.
    pub whole: bool,
    /// The rows, read on a thread that may block, as the server requests them.
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("whole", &self.whole).finish_non_exhaustive()
    }
}

/// An input while its statement runs.
pub(super) struct InputRoute {
    pub id: u32,
    /// The number of chunks that may be sent.
    pub credit: Arc<Semaphore>,
    pub cancel: watch::Sender<bool>,
}

impl InputRoute {
    pub fn new(id: u32) -> Self {
        Self { id, credit: Arc::new(Semaphore::new(0)), cancel: watch::channel(false).0 }
    }
}

/// The messages that declare the tables that the next statement may name.
pub(super) fn declarations(inputs: &[Input]) -> Result<Vec<message::Input>> {
    let declared = inputs.iter().map(|Input { name, schema, whole, .. }| {
        Ok(message::Input { name: name.clone(), whole: *whole, columns: describe(schema)? })
    });
    declared.collect()
}

/// Sends the rows of inputs as the server requests them.
pub(super) fn send(link: &Arc<Link>, route: &Arc<Route>, inputs: Vec<Input>) {
    let _runtime = link.runtime.enter();
    for (input, InputRoute { id, credit, cancel }) in inputs.into_iter().zip(&route.inputs) {
        let inner = &link.inner;
        let context = Context {
            id: *id,
            schema: wire_schema(&input.schema),
            chunk_bytes_max: inner.frame_bytes_max.min(UPLOAD_BYTES),
            row: RowLimit::of_server(inner.frame_bytes_max),
            growth: None,
            codecs: codecs(inner.capabilities),
            stored: false,
            threads: inner.address.threads,
            pool: inner.pool.clone(),
            credit: credit.clone(),
            cancel: cancel.clone(),
            memory: None,
        };
        let sender = ChunkSender::start(context, vec![inner.main.clone()], inner.address.upload, vec![]);
        let (link, route, id) = (link.clone(), route.clone(), *id);
        let mut cancelled = cancel.subscribe();
        tokio::spawn(async move {
            let sending = send_one(&link, id, sender, input.batches);
            // The returned value locks the channel, and the sender locks it when it is dropped. So the value must not
            // leave this block.
            let ended = async { _ = cancelled.wait_for(|is_cancelled| *is_cancelled).await };
            let sent = tokio::select! {
                sent = sending => sent,
                () = ended => return,
            };
            // It is no failure if the server wants no more rows.
            if let Err(error) = sent
                && !matches!(error, WireError::Cancelled)
            {
                lock(&route.failure).get_or_insert(error);
                _ = link.inner.main.send(id, &message::UploadEnd { commit: false, rows: 0 }).await;
            }
        });
    }
}

async fn send_one(
    link: &Link,
    id: u32,
    mut sender: ChunkSender,
    mut batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
) -> Result<()> {
    loop {
        let read = tokio::task::spawn_blocking(move || (batches.next(), batches)).await;
        let (next, rest) = read.map_err(|error| WireError::Source(format!("the source of rows failed: {error}")))?;
        batches = rest;
        match next {
            Some(batch) => sender.send(batch?.into()).await?,
            None => break,
        }
    }
    sender.finish().await?;
    link.inner.main.send(id, &message::UploadEnd { commit: true, rows: sender.rows() }).await
}
