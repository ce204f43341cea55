//! Rows that a client brings over Freestone wire.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use freestone::Session;
use freestone_wire::server::UploadStream;

use crate::insert::{self, Target};
use crate::shared::Shared;

/// Inserts rows into the columns of a table that have their names; all of them or, after an error, none.
pub async fn insert(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    target: &str,
    schema: SchemaRef,
    mut rows: UploadStream,
) -> freestone::Result<u64> {
    let (sender, parts) = insert::channel();
    let inserting = insert::insert(shared, session, Target::Table(target), &schema, parts);
    let bringing = async move {
        loop {
            let next = rows.next().await.map_err(|error| ArrowError::ExternalError(Box::new(error)));
            let ends = !matches!(next, Ok(Some(_)));
            if sender.send(next).await.is_err() || ends {
                return;
            }
        }
    };
    tokio::join!(inserting, bringing).0
}
