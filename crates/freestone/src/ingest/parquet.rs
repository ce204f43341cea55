//! Parquet files: row groups are decoded in parallel and delivered in order.
//!
//! Strings are decoded directly to views if the type in the file allows that. All other differences from the types of
//! the table are converted by [`conform`]. Each thread opens the file itself, because duplicated handles share their
//! position.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field as ColumnField, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use super::IngestOptions;
use super::convert::{ColumnMatch, Location, conform, table_fields, table_type};
use super::error::{IngestError, Reason};
use super::infer::column_index;
use super::parallel::{Ordered, Source, UnitEnd, UnitError, Worker, guarded};

/// The columns of the file, with types that tables support.
///
/// # Errors
///
/// The file cannot be read, or a type is not supported.
pub(super) fn schema(path: &Path) -> Result<SchemaRef, IngestError> {
    let metadata = metadata(path)?;
    Ok(Arc::new(Schema::new(table_fields(&path.display().to_string(), metadata.schema().fields())?)))
}

/// Starts the threads that read a Parquet file as batches of `schema`.
///
/// # Errors
///
/// The file cannot be read, or a column is missing.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let name = path.display().to_string();
    let metadata = metadata(path)?;
    let roots = projected_roots(&name, &metadata, schema)?;
    let metadata = with_views(metadata);
    let row_groups: Vec<RowGroup> = row_groups(&metadata);
    let (threads, batch_rows) = within_memory(&metadata, roots.len(), options);
    let threads = threads.clamp(1, row_groups.len().max(1));
    let projection = ProjectionMask::roots(metadata.parquet_schema(), roots);
    let workers = (0..threads)
        .map(|_| RowGroupWorker {
            path: path.to_path_buf(),
            metadata: metadata.clone(),
            projection: projection.clone(),
            schema: Arc::clone(schema),
            batch_rows,
        })
        .collect();
    Ordered::start(name, RowGroups(row_groups.into_iter()), workers)
}

/// The number of threads and the rows per batch that fit in the memory limit. A thread needs a page and a dictionary of
/// every column, and each row group that is decoded ahead has three batches.
fn within_memory(metadata: &ArrowReaderMetadata, columns: usize, options: &IngestOptions) -> (usize, usize) {
    const COLUMN_BYTES: usize = 1 << 20;
    let (threads, batch_rows) = (options.threads.max(1), options.batch_rows.max(1));
    let Some(memory_bytes) = options.memory_bytes else { return (threads, batch_rows) };
    let threads = threads.min(memory_bytes / 2 / (columns.max(1) * COLUMN_BYTES)).max(1);
    let groups = metadata.metadata().row_groups();
    let bytes: i64 = groups.iter().map(|group| group.total_byte_size()).sum();
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    // In memory, a value has eight or sixteen bytes, however small it is in the file.
    let row_bytes = (usize::try_from(bytes / rows.max(1)).unwrap_or(0) * 2).max(columns * 16);
    let rows = memory_bytes / 2 / (3 * (threads + 2)) / row_bytes.max(1);
    (threads, batch_rows.min(rows.max(1024)))
}

fn metadata(path: &Path) -> Result<ArrowReaderMetadata, IngestError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| IngestError::io(path, &error))?;
    guarded(&name, || {
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|error| IngestError::new(&name, Reason::Malformed(parquet_text(&error))))
    })
}

fn parquet_text(error: &ParquetError) -> String {
    let text = error.to_string();
    format!("not a readable Parquet file: {}", text.split_once(": ").map_or(text.as_str(), |(_, text)| text))
}

/// The columns of the file that the table has.
fn projected_roots(name: &str, metadata: &ArrowReaderMetadata, schema: &Schema) -> Result<Vec<usize>, IngestError> {
    let file_schema = metadata.schema();
    let find = |field: &Arc<ColumnField>| {
        let index = column_index(file_schema, field.name()).ok_or_else(|| {
            let names: Vec<&str> = file_schema.fields().iter().map(|field| field.name().as_str()).collect();
            let text = format!("the file has no column '{}', it has: {}", field.name(), names.join(", "));
            IngestError::new(name, Reason::ColumnMismatch(text))
        })?;
        let data_type = file_schema.field(index).data_type();
        if table_type(data_type).is_none() {
            let reason = Reason::Unsupported(format!("type {data_type} is not supported"));
            return Err(IngestError::new(name, reason).in_column(field.name()));
        }
        Ok(index)
    };
    schema.fields().iter().map(find).collect()
}

/// Requests views for strings and binary, and no dictionaries. If the reader does not support that, the types of the
/// file remain.
fn with_views(metadata: ArrowReaderMetadata) -> ArrowReaderMetadata {
    let as_view = |field: &Arc<ColumnField>| match field.data_type() {
        DataType::FixedSizeBinary(_) => Arc::clone(field),
        data_type => match table_type(data_type) {
            Some(view @ (DataType::Utf8View | DataType::BinaryView)) if data_type != &DataType::Null => {
                Arc::new(field.as_ref().clone().with_data_type(view))
            }
            _ => Arc::clone(field),
        },
    };
    let schema = metadata.schema();
    let fields: Vec<_> = schema.fields().iter().map(as_view).collect();
    let hinted = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(hinted);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).unwrap_or(metadata)
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
    type Unit = RowGroup;

    fn next_unit(&mut self) -> Option<RowGroup> {
        self.0.next()
    }
}

struct RowGroupWorker {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    projection: ProjectionMask,
    schema: SchemaRef,
    batch_rows: usize,
}

impl Worker<RowGroup> for RowGroupWorker {
    fn run(&mut self, group: RowGroup, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<UnitEnd, UnitError> {
        self.decode(group, emit).map_err(|error| UnitError { error, line: None, row: None })
    }
}

impl RowGroupWorker {
    fn decode(&self, group: RowGroup, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<UnitEnd, IngestError> {
        let malformed = |text| IngestError::new("", Reason::Malformed(format!("{text} (row group {})", group.index)));
        let file = File::open(&self.path).map_err(|error| IngestError::io(&self.path, &error))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![group.index])
            .with_projection(self.projection.clone())
            .with_batch_size(self.batch_rows)
            .build()
            .map_err(|error| malformed(parquet_text(&error)))?;
        let mut location = Location { source: String::new(), first_row: group.first_row };
        let declared = self.metadata.metadata().row_group(group.index).num_rows();
        for batch in reader {
            let batch = batch.map_err(|error| malformed(format!("not a readable Parquet file: {error}")))?;
            let converted = conform(&batch, &self.schema, ColumnMatch::Name, &location)?;
            location.first_row += batch.num_rows() as u64;
            if !emit(converted) {
                return Ok(UnitEnd::default());
            }
        }
        let rows = location.first_row - group.first_row;
        if i64::try_from(rows) != Ok(declared) {
            return Err(malformed(format!("damaged: {rows} rows of {declared}")));
        }
        Ok(UnitEnd { lines: 0, rows, bytes: group.bytes })
    }
}
