//! Parquet files: row groups are decoded in parallel and delivered in order.
//!
//! Strings are decoded directly to views if the type in the file allows that. All other differences from the types of
//! the table are converted by [`conform`]. Each thread opens the file itself, because duplicated handles share their
//! position.

mod chunks;
mod fetched;
mod file;
mod intervals;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field as ColumnField, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

pub(crate) use chunks::FileChunks;
pub(crate) use fetched::requested;
pub(crate) use file::{ParquetFile, SECONDS_KEY};

use super::IngestOptions;
use super::column_names::column_index;
use super::convert::{ColumnMatch, Location, conform, not_stored};
use super::error::{IngestError, Reason};
use super::fixed_bytes::{with_intervals, with_uuid_texts};
use super::parallel::{MorselEnd, MorselError, Ordered, Source, Worker};

/// The columns of the file, with types that tables support.
///
/// # Errors
///
/// The file cannot be read, or a type is not supported.
pub(super) fn schema(path: &Path) -> Result<SchemaRef, IngestError> {
    let file = ParquetFile::open(path)?;
    let field = |(at, field): (usize, &Arc<ColumnField>)| match file.stored_type(at) {
        Some(data_type) => Ok(ColumnField::new(field.name(), data_type, field.is_nullable())),
        None => Err(unsupported(&file, at)),
    };
    let fields = file.schema().fields().iter().enumerate().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

fn unsupported(file: &ParquetFile, column: usize) -> IngestError {
    let field = file.schema().field(column);
    IngestError::new(file.name(), not_stored(&file.query_type(column))).in_column(field.name())
}

/// Starts the threads that read a Parquet file as batches of `schema`.
///
/// # Errors
///
/// The file cannot be read, or a column is missing.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let file = Arc::new(ParquetFile::open(path)?);
    let roots = projected_roots(&file, schema)?;
    let row_groups: Vec<RowGroup> = row_groups(file.metadata());
    let (threads, batch_rows) = within_memory(file.metadata(), roots.len(), options);
    let threads = threads.clamp(1, row_groups.len().max(1));
    let projection = file.mask(roots);
    let workers = (0..threads)
        .map(|_| RowGroupWorker {
            file: Arc::clone(&file),
            projection: projection.clone(),
            schema: Arc::clone(schema),
            batch_rows,
        })
        .collect();
    Ordered::start(file.name(), RowGroups(row_groups.into_iter()), workers)
}

/// The number of threads and the rows per batch that fit in the memory limit. A thread needs a page and a dictionary of
/// every column, and each row group that is decoded ahead has three batches.
fn within_memory(metadata: &ArrowReaderMetadata, columns: usize, options: &IngestOptions) -> (usize, usize) {
    const COLUMN_BYTES: usize = 1 << 20;
    let (threads, batch_rows) = (options.threads.max(1), options.batch_rows.max(1));
    let Some(memory_bytes) = options.memory_bytes else { return (threads, batch_rows) };
    let threads = threads.min(memory_bytes / 2 / (columns.max(1) * COLUMN_BYTES)).max(1);
    let groups = metadata.metadata().row_groups();
    let bytes: i64 = groups.iter().map(|group| group.total_byte_size()).fold(0, i64::saturating_add);
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    // In memory, a value has eight or sixteen bytes, however small it is in the file.
    let row_bytes = (usize::try_from(bytes / rows.max(1)).unwrap_or(0) * 2).max(columns * 16);
    let rows = memory_bytes / 2 / (3 * (threads + 2)) / row_bytes.max(1);
    (threads, batch_rows.min(rows.max(1024)))
}

/// The file's columns that the table has.
fn projected_roots(file: &ParquetFile, schema: &Schema) -> Result<Vec<usize>, IngestError> {
    let file_schema = file.schema();
    let find = |field: &Arc<ColumnField>| {
        let index = column_index(file_schema, field.name()).ok_or_else(|| {
            let names: Vec<&str> = file_schema.fields().iter().map(|field| field.name().as_str()).collect();
            let text = format!("the file has no column '{}', it has: {}", field.name(), names.join(", "));
            IngestError::new(file.name(), Reason::ColumnMismatch(text))
        })?;
        if file.stored_type(index).is_none() {
            return Err(unsupported(file, index).in_column(field.name()));
        }
        Ok(index)
    };
    schema.fields().iter().map(find).collect()
}

#[derive(Debug, Clone, Copy)]
struct RowGroup {
    index: usize,
    first_row: u64,
    bytes: u64,
}

fn row_groups(metadata: &ArrowReaderMetadata) -> Vec<RowGroup> {
    let mut first_row = 1;
    let groups = metadata.metadata().row_groups().iter().enumerate();
    groups
        .map(|(index, group)| {
            let bytes = group.compressed_size().try_into().unwrap_or(0);
            let this = RowGroup { index, first_row, bytes };
            first_row += u64::try_from(group.num_rows()).unwrap_or(0);
            this
        })
        .collect()
}

struct RowGroups(std::vec::IntoIter<RowGroup>);

impl Source for RowGroups {
    type Morsel = RowGroup;

    fn next_morsel(&mut self) -> Option<RowGroup> {
        self.0.next()
    }
}

struct RowGroupWorker {
    file: Arc<ParquetFile>,
    projection: ProjectionMask,
    schema: SchemaRef,
    batch_rows: usize,
}

impl Worker<RowGroup> for RowGroupWorker {
    fn run(&mut self, group: RowGroup, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<MorselEnd, MorselError> {
        self.decode(group, emit).map_err(|error| MorselError { error, line: None, row: None })
    }
}

impl RowGroupWorker {
    fn is_uuid(&self, name: &str) -> bool {
        self.file.schema().index_of(name).is_ok_and(|at| self.file.is_uuid(at))
    }

    fn is_interval(&self, name: &str) -> bool {
        self.file.schema().index_of(name).is_ok_and(|at| self.file.is_interval(at))
    }

    fn decode(&self, group: RowGroup, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<MorselEnd, IngestError> {
        let metadata = self.file.metadata();
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.chunks()?, metadata.clone())
            .with_row_groups(vec![group.index])
            .with_projection(self.projection.clone())
            .with_batch_size(self.batch_rows)
            .build()
            .map_err(|error| self.file.malformed(&error, group.index))?;
        let mut location = Location { source: self.file.name(), first_row: group.first_row };
        let declared = metadata.metadata().row_group(group.index).num_rows();
        for batch in reader {
            let batch = batch.map_err(|error| self.file.malformed(&error.into(), group.index))?;
            let is_uuid = |field: &ColumnField| self.is_uuid(field.name());
            let batch = with_uuid_texts(with_intervals(batch, |name| self.is_interval(name)), &self.schema, is_uuid);
            let converted = conform(&batch, &self.schema, ColumnMatch::Name, &location)?;
            location.first_row += batch_rows(&converted);
            if !emit(converted) {
                return Ok(MorselEnd::default());
            }
        }
        let rows = location.first_row - group.first_row;
        if i64::try_from(rows) != Ok(declared) {
            let text = format!("damaged: {rows} rows of {declared} (row group {})", group.index);
            return Err(IngestError::new(self.file.name(), Reason::Malformed(text)));
        }
        Ok(MorselEnd { lines: 0, rows, bytes: group.bytes })
    }
}

fn batch_rows(batch: &RecordBatch) -> u64 {
    batch.num_rows() as u64
}
