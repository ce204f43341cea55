//! An open Parquet file: its metadata, and the types in which its columns are read.
//!
//! Strings and binaries are read as views, regardless of the Arrow schema in the file. INT96, which old writers use for
//! timestamps, is read in microseconds, because nanoseconds end in 2262. A UUID becomes its text. INTERVALs are read as
//! bytes, and converted afterwards.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::{DataType, Field as ColumnField, Schema, SchemaRef, TimeUnit};
use freestone_bucket::{Object, RemoteFile};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use super::chunks::FileChunks;
use super::fetched::Fetched;
use super::intervals;
use crate::durations::without_durations;
use crate::ingest::arrow_types;
use crate::ingest::blocks::CHANGED;
use crate::ingest::convert::{stored_type, table_type};
use crate::ingest::elsewhere::failure;
use crate::ingest::error::{IngestError, Reason};
use crate::ingest::fixed_bytes::INTERVAL;
use crate::ingest::parallel::guarded;

/// Identifies the state of a file, to detect changes after its metadata was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    length: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Identity { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// The bytes of a file elsewhere that are read at its end with its metadata.
const TAIL_BYTES: u64 = 128 << 10;

/// Where the bytes of a file are.
#[derive(Debug)]
enum Origin {
    Here(Identity),
    /// With its end, which was read with the metadata.
    Elsewhere(RemoteFile, Arc<Fetched>),
}

impl Origin {
    /// Why bytes of a file elsewhere could not be read, of which decoders keep only the text.
    fn failure(&self) -> Option<std::io::Error> {
        match self {
            Origin::Here(_) => None,
            Origin::Elsewhere(file, _) => file.failure(),
        }
    }
}

/// A file's metadata, read once for all threads.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    path: PathBuf,
    origin: Origin,
    metadata: ArrowReaderMetadata,
    columns: Vec<FileColumn>,
}

/// The metadata key under which our own files list the columns whose timestamps are whole seconds.
pub(crate) const SECONDS_KEY: &str = "freestone:seconds";

/// A top-level column of a file.
#[derive(Debug, Clone)]
struct FileColumn {
    /// Its position among the stored columns, unless it is nested.
    leaf: Option<usize>,
    is_uuid: bool,
    is_interval: bool,
    /// Timestamps are whole seconds, written in milliseconds.
    is_seconds: bool,
    /// Whether the file's bounds are valid for the type in which the column is read.
    has_bounds: bool,
}

impl ParquetFile {
    pub fn open(path: &Path) -> Result<Self, IngestError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| IngestError::io(path, &error))?;
        let found = file.metadata().map_err(|error| IngestError::io(path, &error))?;
        if found.is_dir() {
            return Err(IngestError::new(name, Reason::Io("it is a folder".into())));
        }
        let identity = Identity::of(&found);
        let chunks = FileChunks::new(file, identity.length);
        Self::of_chunks(path, &chunks, Origin::Here(identity))
    }

    /// Opens a file elsewhere. `None`: it cannot be read by ranges.
    pub fn open_elsewhere(object: &Object) -> Result<Option<Self>, IngestError> {
        let path = Path::new(object.name());
        let opened = object.open(TAIL_BYTES).map_err(|error| failure(path, &error))?;
        let Some((file, tail)) = opened else { return Ok(None) };
        let fetched = Arc::new(Fetched::of_tail(file.length().saturating_sub(tail.len() as u64), tail));
        let chunks = FileChunks::elsewhere(file.clone(), fetched.clone());
        Self::of_chunks(path, &chunks, Origin::Elsewhere(file, fetched)).map(Some)
    }

    fn of_chunks(path: &Path, chunks: &FileChunks, origin: Origin) -> Result<Self, IngestError> {
        let name = path.display().to_string();
        guarded(&name, || {
            let malformed = |error: ParquetError| {
                let failed = origin.failure().map(|error| failure(path, &error));
                failed.unwrap_or_else(|| IngestError::new(&name, Reason::Malformed(parquet_text(&error))))
            };
            let (metadata, columns) = load(chunks).map_err(malformed)?;
            check_counts(&metadata).map_err(|text| IngestError::new(&name, Reason::Malformed(text)))?;
            let columns = with_bounds(columns, &metadata);
            Ok(Self { path: path.to_path_buf(), origin, metadata, columns })
        })
    }

    /// The file elsewhere, and what of it is in memory.
    pub fn elsewhere(&self) -> Option<(&RemoteFile, &Arc<Fetched>)> {
        match &self.origin {
            Origin::Here(_) => None,
            Origin::Elsewhere(file, tail) => Some((file, tail)),
        }
    }

    /// The bytes of a row group's columns in the file.
    pub fn ranges(&self, row_group: usize, columns: impl IntoIterator<Item = usize>) -> Vec<Range<u64>> {
        let mask = self.mask(columns);
        let chunks = self.metadata.metadata().row_group(row_group).columns().iter().enumerate();
        let range = |chunk: &ColumnChunkMetaData| {
            let (start, length) = chunk.byte_range();
            start..start.saturating_add(length)
        };
        chunks.filter(|(leaf, _)| mask.leaf_included(*leaf)).map(|(_, chunk)| range(chunk)).collect()
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub fn metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// The columns in the types in which they are read.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The type of the column in a table; `None` if tables cannot store it.
    pub fn table_type(&self, column: usize) -> Option<DataType> {
        match (&self.columns[column], self.schema().field(column).data_type()) {
            (FileColumn { is_uuid: true, .. }, _) => Some(DataType::Utf8View),
            (FileColumn { is_interval: true, .. }, _) => None,
            (FileColumn { is_seconds: true, .. }, DataType::Timestamp(TimeUnit::Millisecond, zone)) => {
                Some(DataType::Timestamp(TimeUnit::Second, zone.clone()))
            }
            (_, data_type) => table_type(data_type),
        }
    }

    /// The type in which a table stores the column, which may be nested; `None` if it cannot.
    pub fn stored_type(&self, column: usize) -> Option<DataType> {
        match &self.columns[column] {
            FileColumn { is_interval: true, .. } => Some(INTERVAL),
            _ => self.table_type(column).or_else(|| stored_type(self.schema().field(column).data_type())),
        }
    }

    pub fn is_interval(&self, column: usize) -> bool {
        self.columns[column].is_interval
    }

    /// The type of the column in a query, which may be one that tables cannot store.
    pub fn query_type(&self, column: usize) -> DataType {
        match self.schema().field(column).data_type() {
            DataType::Null => DataType::Null,
            _ if self.columns[column].is_interval => INTERVAL,
            own => self.table_type(column).unwrap_or_else(|| without_durations(own)),
        }
    }

    /// The place of a column among those that are stored; `None` for a nested one.
    pub fn leaf(&self, column: usize) -> Option<usize> {
        self.columns[column].leaf
    }

    /// The place among the stored columns of one whose bounds are those of the values that are read.
    pub fn bounded_leaf(&self, column: usize) -> Option<usize> {
        let column = &self.columns[column];
        column.leaf.filter(|_| column.has_bounds)
    }

    pub fn is_uuid(&self, column: usize) -> bool {
        self.columns[column].is_uuid
    }

    /// The projection for these columns.
    pub fn mask(&self, columns: impl IntoIterator<Item = usize>) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), columns)
    }

    /// Opens the file for reading its rows. An error if it has changed since its metadata was read.
    pub fn chunks(&self) -> Result<FileChunks, IngestError> {
        let identity = match &self.origin {
            Origin::Here(identity) => identity,
            Origin::Elsewhere(file, tail) => return Ok(FileChunks::elsewhere(file.clone(), tail.clone())),
        };
        let failed = |error: std::io::Error| IngestError::io(&self.path, &error);
        let file = File::open(&self.path).map_err(failed)?;
        if Identity::of(&file.metadata().map_err(failed)?) != *identity {
            return Err(IngestError::new(self.name(), Reason::Io(CHANGED.into())));
        }
        Ok(FileChunks::new(file, identity.length))
    }

    /// The error of bytes that cannot be decoded.
    pub fn malformed(&self, error: &ParquetError, row_group: usize) -> IngestError {
        if let Some(error) = self.origin.failure() {
            return failure(&self.path, &error);
        }
        let reason = Reason::Malformed(format!("{} (row group {row_group})", parquet_text(error)));
        IngestError::new(self.name(), reason)
    }
}

pub(super) fn parquet_text(error: &ParquetError) -> String {
    let text = error.to_string();
    format!("not a readable Parquet file: {}", text.split_once(": ").map_or(text.as_str(), |(_, text)| text))
}

/// The metadata of a file, and its columns.
fn load(chunks: &FileChunks) -> ParquetResult<(ArrowReaderMetadata, Vec<FileColumn>)> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(chunks)?;
    let columns = columns(&metadata);
    // Without the writer's Arrow schema, the types are those of Parquet.
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let declared = pairs.filter(|pair| pair.key == ARROW_SCHEMA_META_KEY).find_map(|pair| pair.value.as_deref());
    let is_unknown = declared.is_some_and(|schema| !arrow_types::is_readable(schema));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(is_unknown);
    let metadata = ArrowReaderMetadata::try_new(Arc::new(intervals::as_bytes(metadata)?), options)?;
    Ok((in_our_types(metadata, &columns), columns))
}

fn columns(metadata: &ParquetMetaData) -> Vec<FileColumn> {
    let descriptor = metadata.file_metadata().schema_descr();
    let roots = descriptor.root_schema().get_fields();
    let pairs = metadata.file_metadata().key_value_metadata();
    let seconds =
        pairs.into_iter().flatten().find(|pair| pair.key == SECONDS_KEY).and_then(|pair| pair.value.as_deref());
    let in_seconds = |at: usize| seconds.is_some_and(|list| list.split(',').any(|place| place.parse() == Ok(at)));
    let mut leaves = vec![None; roots.len()];
    for leaf in 0..descriptor.num_columns() {
        leaves[descriptor.get_column_root_idx(leaf)].get_or_insert(leaf);
    }
    let column = |(at, root): (usize, &Arc<parquet::schema::types::Type>)| {
        let leaf = leaves[at].filter(|_| root.is_primitive());
        let is_uuid = root.is_primitive() && root.get_basic_info().logical_type_ref() == Some(&LogicalType::Uuid);
        let is_interval = root.is_primitive() && intervals::has_interval(root);
        FileColumn { leaf, is_uuid, is_interval, is_seconds: in_seconds(at), has_bounds: false }
    };
    roots.iter().enumerate().map(column).collect()
}

/// Configures the reader to return strings and binaries as views, no dictionaries, and INT96 in microseconds. If it
/// refuses, the types of the file remain.
fn in_our_types(metadata: ArrowReaderMetadata, columns: &[FileColumn]) -> ArrowReaderMetadata {
    let descriptor = metadata.parquet_schema();
    let is_int96 = |at: usize| {
        let leaf = columns.get(at).and_then(|column| column.leaf);
        leaf.is_some_and(|leaf| descriptor.column(leaf).physical_type() == PhysicalType::INT96)
    };
    let schema = metadata.schema();
    let hinted = |(at, field): (usize, &Arc<ColumnField>)| {
        let data_type = match field.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) if is_int96(at) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::FixedSizeBinary(_) | DataType::Null => return Arc::clone(field),
            data_type => match table_type(data_type) {
                Some(view @ (DataType::Utf8View | DataType::BinaryView)) => view,
                _ => return Arc::clone(field),
            },
        };
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(hinted).collect();
    if fields.iter().zip(schema.fields()).all(|(hinted, field)| hinted == field) {
        return metadata;
    }
    let hinted = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(hinted);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).unwrap_or(metadata)
}

/// Bounds refer to values as they are stored. If the writer's Arrow schema changes the type (seconds that are stored as
/// milliseconds), they are not valid for the values that are read.
fn with_bounds(columns: Vec<FileColumn>, metadata: &ArrowReaderMetadata) -> Vec<FileColumn> {
    let descriptor = metadata.parquet_schema();
    let plain = parquet_to_arrow_schema(descriptor, None);
    let mut columns = columns;
    for (at, column) in columns.iter_mut().enumerate() {
        let Some(leaf) = column.leaf else { continue };
        let (Ok(plain), Some(read)) = (&plain, metadata.schema().fields().get(at)) else { continue };
        let Some(plain) = plain.fields().get(at) else { continue };
        let is_same = plain.data_type() == read.data_type() || same_bytes(plain.data_type(), read.data_type());
        let has_other_type = column.is_uuid || column.is_interval;
        column.has_bounds =
            is_same && !has_other_type && descriptor.column(leaf).physical_type() != PhysicalType::INT96;
    }
    columns
}

fn same_bytes(stored: &DataType, read: &DataType) -> bool {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_binary = |kind: &DataType| matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let is_timestamp = |kind: &DataType| match kind {
        DataType::Timestamp(morsel, _) => Some(*morsel),
        _ => None,
    };
    is_text(stored) && is_text(read)
        || is_binary(stored) && is_binary(read)
        || is_timestamp(stored).is_some() && is_timestamp(stored) == is_timestamp(read)
}

/// Refuses impossible numbers of rows.
fn check_counts(metadata: &ArrowReaderMetadata) -> Result<(), String> {
    let metadata = metadata.metadata();
    let mut rows = 0i64;
    for (at, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return Err(format!("damaged: row group {at} claims {} rows", group.num_rows()));
        }
        rows = rows.checked_add(group.num_rows()).ok_or("damaged: it claims more rows than can be counted")?;
        let narrow = group.columns().iter().find(|column| column.num_values() < 0 || column.compressed_size() < 0);
        if let Some(column) = narrow {
            return Err(format!("damaged: column {} of row group {at} claims less than nothing", column.column_path()));
        }
    }
    match metadata.file_metadata().num_rows() {
        claimed if claimed == rows => Ok(()),
        claimed => Err(format!("damaged: it claims {claimed} rows, its row groups {rows}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_and_read_types_agree_or_do_not() {
        use TimeUnit::{Millisecond, Second};
        assert!(same_bytes(&DataType::Utf8, &DataType::Utf8View));
        assert!(!same_bytes(&DataType::Utf8, &DataType::BinaryView));
        assert!(same_bytes(
            &DataType::Timestamp(Second, Some("UTC".into())),
            &DataType::Timestamp(Second, Some("Asia/Tokyo".into()))
        ));
        assert!(!same_bytes(&DataType::Timestamp(Millisecond, None), &DataType::Timestamp(Second, None)));
    }
}
