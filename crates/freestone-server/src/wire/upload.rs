//! Rows that a client sends over the Freestone protocol.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use freestone::Session;
use freestone_wire::server::UploadStream;
use tokio::sync::mpsc;

use crate::execution::Clock;
use crate::insert::{self, Part, Target};
use crate::shared::Shared;

/// Inserts rows into the columns of a table with the same names. After an error, none of them is inserted.
///
/// # Errors
///
/// The table does not exist, a value does not fit its column, or the client has disconnected.
pub async fn insert(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    target: &str,
    schema: SchemaRef,
    rows: UploadStream,
) -> freestone::Result<u64> {
    let (sender, parts) = insert::channel();
    let clock = Clock::start(shared.limits.statement);
    let inserting = insert::insert(shared, session, Target::Table(target), &schema, parts, clock);
    insert::while_brought(inserting, bring(rows, sender)).await
}

/// Passes rows on as they arrive, until the receiver is dropped.
pub async fn bring(mut rows: UploadStream, sender: mpsc::Sender<Part>) {
    loop {
        let next = tokio::select! {
            next = rows.next() => next.map_err(|error| ArrowError::ExternalError(Box::new(error))),
            () = sender.closed() => return,
        };
        let ends = !matches!(next, Ok(Some(_)));
        if sender.send(next).await.is_err() || ends {
            return;
        }
    }
}
