//! The outcome of a statement, and the progress of long work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::Running;
use crate::error::Result;

/// The result of a statement.
pub enum Outcome {
    /// Rows, computed while they are read.
    #[allow(missing_docs)]
    Rows { schema: SchemaRef, stream: SendableRecordBatchStream },
    /// The number of rows that were written or removed.
    #[allow(missing_docs)]
    Affected { verb: &'static str, rows: u64 },
    /// The statement is complete and has no count.
    #[allow(missing_docs)]
    Done { verb: &'static str },
}

impl Outcome {
    /// Rows that were computed already.
    pub(crate) fn batch(batch: RecordBatch) -> Outcome {
        let schema = batch.schema();
        let stream = futures::stream::iter([Ok(batch)]);
        let stream = RecordBatchStreamAdapter::new(schema.clone(), stream);
        Outcome::Rows { schema, stream: Box::pin(stream) }
    }

    /// The same outcome. An error while its rows are read also fails the transaction.
    pub(crate) fn telling(self, failed: Failure) -> Outcome {
        self.inspected(move |rows| {
            if rows.is_err() {
                failed.set();
            }
        })
    }

    /// The same outcome, of a statement that runs until its rows are read.
    pub(crate) fn of_running(self, running: Running) -> Outcome {
        self.inspected(move |rows| {
            if let Ok(rows) = rows {
                running.returned(rows.num_rows());
            }
        })
    }

    /// The same outcome, whose rows are looked at while they are read.
    fn inspected(self, look: impl FnMut(&Result<RecordBatch, DataFusionError>) + Send + 'static) -> Outcome {
        let Outcome::Rows { schema, stream } = self else { return self };
        let stream = RecordBatchStreamAdapter::new(schema.clone(), stream.inspect(look));
        Outcome::Rows { schema, stream: Box::pin(stream) }
    }

    /// All rows; none where the statement returns none.
    ///
    /// # Errors
    /// The error of the statement, which may occur while rows are read.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        let Outcome::Rows { mut stream, .. } = self else { return Ok(vec![]) };
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

/// Whether a statement of a transaction has failed, which may also happen later while its rows are read.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<AtomicBool>);

impl Failure {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Receives the progress of long work, in units of the work (bytes of input for COPY). Called from worker threads.
pub trait Progress: Send + Sync {
    /// Work of `total` units begins; `None` if the amount is unknown.
    fn begin(&self, task: &str, total: Option<u64>);
    /// The number of units that are complete.
    fn advance(&self, done: u64);
    /// The work has ended, successfully or not.
    fn end(&self);
    /// What the user may want to know before the work begins.
    fn notice(&self, _text: &str) {}
}
