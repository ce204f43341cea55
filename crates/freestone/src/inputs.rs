//! The inputs of a statement besides its text: parameter values, and Arrow tables by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::scalar::ScalarValue;

use crate::array_forms::{in_usual_form, usual_type_of};
use crate::distinct_names::different_names;
use crate::durations::{as_intervals, without_durations};
use crate::error::{Error, Result};

/// The maximum number of rows in a batch of a table in memory. Larger batches are divided, so that all threads get a
/// share.
const BATCH_ROWS: usize = 64 << 10;

/// The number of batches that are read ahead.
const BATCHES_AHEAD: usize = 2;

/// The parameter values of a statement by number, and the tables that it may name.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The values of the parameters.
    pub values: Vec<ScalarValue>,
    /// The declared types of the parameters by number. A value without a declared type has its own type; but a string
    /// or NULL gets its type from the context, like a literal.
    pub types: Vec<Option<DataType>>,
    /// The tables by their names in SQL's case. A table or view of the database with the same name takes precedence.
    pub tables: Arc<HashMap<String, ArrowTable>>,
}

/// Rows in Arrow form that statements read in place, without a copy. The names, types and nullability of the columns
/// matter; their metadata does not.
#[derive(Clone)]
pub struct ArrowTable {
    schema: SchemaRef,
    rows: Rows,
}

#[derive(Clone)]
enum Rows {
    InMemory(Arc<Vec<RecordBatch>>),
    Reader(Arc<OpenReader>),
}

/// Opens the rows of a table from the first one, once per scan. Called on a thread that may block.
pub type OpenReader = dyn Fn() -> Result<Box<dyn RecordBatchReader + Send>> + Send + Sync;

impl ArrowTable {
    /// A table in memory. Statements may scan it repeatedly, and its number of rows is known.
    ///
    /// # Errors
    /// A batch does not fit the schema.
    pub fn of_batches(schema: &Schema, batches: impl IntoIterator<Item = RecordBatch>) -> Result<ArrowTable> {
        let schema = plain(schema);
        let mut parts = Vec::new();
        for batch in batches {
            let batch = conformed(batch, &schema)?;
            let starts = (0..batch.num_rows()).step_by(BATCH_ROWS);
            parts.extend(starts.map(|start| batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start))));
        }
        Ok(ArrowTable { schema, rows: Rows::InMemory(Arc::new(parts)) })
    }

    /// A table whose rows are read during the scan, a few batches at a time.
    pub fn of_reader(
        schema: &Schema,
        open: impl Fn() -> Result<Box<dyn RecordBatchReader + Send>> + Send + Sync + 'static,
    ) -> ArrowTable {
        ArrowTable { schema: plain(schema), rows: Rows::Reader(Arc::new(open)) }
    }

    /// The columns, without metadata.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether the rows are in memory, so that they can be read repeatedly.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.rows, Rows::InMemory(_))
    }

    /// Opens the rows from the first one. Must be called and read on a thread that may block.
    ///
    /// # Errors
    /// The reader cannot be opened.
    pub fn read(&self) -> Result<Box<dyn RecordBatchReader + Send>> {
        match &self.rows {
            Rows::InMemory(batches) => {
                let batches: Vec<_> = batches.iter().cloned().map(Ok).collect();
                Ok(Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
            }
            Rows::Reader(open) => Ok(Box::new(Conforming { reader: open()?, schema: self.schema.clone() })),
        }
    }

    pub(crate) fn provider(&self) -> Result<Arc<dyn TableProvider>> {
        let schema = self.schema.clone();
        Ok(match &self.rows {
            Rows::InMemory(batches) => Arc::new(MemTable::try_new(schema, vec![batches.to_vec()])?),
            Rows::Reader(open) => {
                let partition = Reading { schema: schema.clone(), open: open.clone() };
                Arc::new(StreamingTable::try_new(schema, vec![Arc::new(partition)])?)
            }
        })
    }
}

/// Memory of a session that is reserved for its input tables or result rows until this is dropped.
#[derive(Debug)]
pub struct ReservedMemory(pub(crate) MemoryReservation);

impl ReservedMemory {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// The memory limit is reached.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        let error = |error| Error::from(error).with_hint("load the rows into a table, or ask for more memory");
        self.0.try_grow(bytes).map_err(error)
    }

    /// Reserves more bytes, even above the limit, for work that must continue.
    pub fn grow_unchecked(&self, bytes: usize) {
        self.0.grow(bytes);
    }

    /// Returns some of the reserved bytes.
    pub fn release(&self, bytes: usize) {
        self.0.shrink(bytes.min(self.0.size()));
    }
}

impl fmt::Debug for ArrowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowTable").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The columns under distinct names, with INTERVAL for Arrow's durations, values in their usual forms, and without metadata, because metadata about a
/// whole table may not be true of a query's result.
fn plain(schema: &Schema) -> SchemaRef {
    let names = different_names(schema.fields().iter().map(|field| field.name().clone()));
    let field = |(field, name): (&Arc<Field>, String)| {
        Field::new(name, without_durations(&usual_type_of(field)), field.is_nullable())
    };
    Arc::new(Schema::new(schema.fields().iter().zip(names).map(field).collect::<Vec<_>>()))
}

fn conformed(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let given = batch.schema();
    let column = |(column, field): (_, &Arc<Field>)| as_intervals(&in_usual_form(column, field)?);
    let columns = batch.columns().iter().zip(given.fields()).map(column).collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// A reader whose batches have the columns of a table.
struct Conforming {
    reader: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
}

impl Iterator for Conforming {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let conformed = |batch| conformed(batch, &self.schema).map_err(|error| ArrowError::ExternalError(error.into()));
        self.reader.next().map(|batch| batch.and_then(conformed))
    }
}

impl RecordBatchReader for Conforming {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The single partition of a table that is read from a reader.
struct Reading {
    schema: SchemaRef,
    open: Arc<OpenReader>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading")
    }
}

impl PartitionStream for Reading {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), BATCHES_AHEAD);
        let (sender, open, schema) = (builder.tx(), self.open.clone(), self.schema.clone());
        builder.spawn_blocking(move || {
            for batch in open()? {
                let batch = conformed(batch.map_err(Error::from)?, &schema)?;
                if sender.blocking_send(Ok(batch)).is_err() {
                    // The receiver was dropped, because a LIMIT was reached or the statement was cancelled.
                    return Ok(());
                }
            }
            Ok(())
        });
        builder.build()
    }
}
