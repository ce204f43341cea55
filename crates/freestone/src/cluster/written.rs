//! Rows of a query that become segments where they are made: on workers, and on the server for what no worker does.
//!
//! Who writes answers with a row per segment. So what is true of other tasks is true here: nothing of a task that fails is
//! used, and its parts are written again, by another worker and under other numbers.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BinaryArray, RecordBatch, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use freestone_store::{SegmentNumbers, SegmentTarget, Store, WrittenSegment};
use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::stored_rows;
use crate::exec::stored_values::Places;
use crate::text_types::written_schema;

/// The batches that wait until they are encoded.
const WAITING: usize = 2;

/// What a task writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    table: SegmentTarget,
    numbers: Range<u64>,
}

/// Where the rows of a run go.
#[derive(Debug)]
pub(crate) struct Written {
    table: SegmentTarget,
    numbers: SegmentNumbers,
    /// The memory for writing in this process.
    write_bytes: usize,
}

impl Written {
    /// The segments of a table. `write_bytes`: the memory for those that this process writes.
    pub fn new(table: SegmentTarget, numbers: SegmentNumbers, write_bytes: usize) -> Written {
        Written { table, numbers, write_bytes }
    }

    /// The target of another task.
    pub fn target(&self) -> Target {
        Target { table: self.table.clone(), numbers: self.numbers.next() }
    }

    /// Writes rows in this process.
    pub fn here(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        written(self.numbers.store().clone(), self.target(), (self.write_bytes, None), rows)
    }
}

/// The columns of an answer, whose rows are segments.
pub(super) fn answer_schema() -> SchemaRef {
    let column = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        column("id", DataType::UInt64),
        column("rows", DataType::UInt32),
        column("bytes", DataType::UInt64),
        column("summary", DataType::Binary),
    ]))
}

fn answer(segments: &[WrittenSegment]) -> Result<RecordBatch> {
    let ids = UInt64Array::from_iter_values(segments.iter().map(|segment| segment.id));
    let rows = UInt32Array::from_iter_values(segments.iter().map(|segment| segment.rows));
    let bytes = UInt64Array::from_iter_values(segments.iter().map(|segment| segment.bytes));
    let summaries = BinaryArray::from_iter_values(segments.iter().map(|segment| &segment.summary));
    let columns = vec![Arc::new(ids) as _, Arc::new(rows) as _, Arc::new(bytes) as _, Arc::new(summaries) as _];
    Ok(RecordBatch::try_new(answer_schema(), columns)?)
}

pub(super) fn segments_of(batch: &RecordBatch) -> Result<Vec<WrittenSegment>> {
    let schema = answer_schema();
    let is_answer =
        batch.schema().fields().iter().map(|f| f.data_type()).eq(schema.fields().iter().map(|f| f.data_type()));
    if !is_answer {
        return Err(Error::new(
            ErrorKind::Cluster,
            "a worker was asked to write rows, and has answered something else",
        ));
    }
    let (ids, bytes) = (batch.column(0).as_primitive::<UInt64Type>(), batch.column(2).as_primitive::<UInt64Type>());
    let (rows, summaries) = (batch.column(1).as_primitive::<UInt32Type>(), batch.column(3).as_binary::<i32>());
    let segment = |at: usize| WrittenSegment {
        id: ids.value(at),
        rows: rows.value(at),
        bytes: bytes.value(at),
        summary: summaries.value(at).to_vec(),
    };
    Ok((0..batch.num_rows()).map(segment).collect())
}

/// Bytes for writing, and the memory that was taken for them.
type WriteMemory = (usize, Option<MemoryReservation>);

/// Writes the rows of a query as segments, and gives a row per segment.
pub(crate) fn written(
    store: Store,
    target: Target,
    (write_bytes, taken): WriteMemory,
    rows: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let write_bytes = taken.as_ref().map_or(write_bytes, MemoryReservation::size);
    let answer = async move {
        let segments = segments(store, target, write_bytes, rows).await;
        drop(taken);
        Ok(answer(&segments?)?)
    };
    Box::pin(RecordBatchStreamAdapter::new(answer_schema(), answer.into_stream()))
}

async fn segments(
    store: Store,
    target: Target,
    write_bytes: usize,
    mut rows: SendableRecordBatchStream,
) -> Result<Vec<WrittenSegment>> {
    let (sender, mut receiver) = mpsc::channel::<Option<RecordBatch>>(WAITING);
    let writing = tokio::task::spawn_blocking(move || {
        let Target { table, numbers } = target;
        let (schema, places) = (written_schema(table.schema()), Places::all(table.schema()));
        let mut appender = store.segment_appender(&table, numbers, write_bytes)?;
        let mut before = 0;
        while let Some(batch) = receiver.blocking_recv() {
            // Without the last message nobody waits for the segments, and they are removed.
            let Some(batch) = batch else { return Ok(appender.finish()?) };
            appender.push(&stored_rows(&batch, &places, &schema, before)?)?;
            before += batch.num_rows() as u64;
        }
        Err(Error::cancelled())
    });
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 && sender.send(Some(batch)).await.is_err() {
            break;
        }
    }
    // If writing has ended early, its error is the reason.
    let _ = sender.send(None).await;
    drop(sender);
    match writing.await {
        Ok(written) => written,
        Err(error) => Err(Error::new(ErrorKind::Internal, format!("the rows of a task were not written: {error}"))),
    }
}
