//! Parquet files. Several threads encode columns at the same time.
//!
//! Parquet has no timestamps in seconds. They are written in milliseconds, and the Arrow schema in the file says that
//! they were seconds, so that they are read back as seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, ConvertedType, LogicalType, Type as PhysicalType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::target::Target;
use crate::error::Error;
use crate::ingest::SECONDS_KEY;
use crate::type_names::type_name;

/// The encoded bytes in memory at which a row group ends, whatever its number of rows.
const GROUP_BYTES: usize = 256 << 20;

/// Refuses columns that a Parquet file cannot hold.
///
/// # Errors
/// The first column with a type that Parquet does not have.
pub(super) fn check_types(schema: &Schema) -> crate::error::Result<()> {
    match schema.fields().iter().find(|field| is_foreign(field.data_type())) {
        Some(field) => {
            let (name, kind) = (field.name(), type_name(field.data_type()));
            let text = format!("column {name} has type {kind}, which Parquet files do not hold without loss");
            Err(Error::unsupported(text).with_hint("convert it to VARCHAR in the query, or write an Arrow file"))
        }
        None => Ok(()),
    }
}

/// Whether Parquet does not have a type.
pub(crate) fn is_foreign(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Union(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_foreign(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_foreign(field.data_type())),
        _ => false,
    }
}

/// The options of a file.
#[derive(Debug, Clone)]
pub(super) struct ParquetForm {
    pub compression: Compression,
    pub row_group_rows: usize,
    pub threads: usize,
    /// Texts under keys in the file.
    pub metadata: Vec<(String, String)>,
}

/// A file that is being written.
pub(super) struct ParquetOut {
    writer: SerializedFileWriter<Target>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    /// A writer per stored column of the current row group.
    columns: Vec<ColumnOut>,
    rows: usize,
    form: ParquetForm,
}

/// The writers of one column. A nested column has several.
type ColumnOut = Vec<ArrowColumnWriter>;

impl ParquetOut {
    pub fn new(target: Target, schema: &SchemaRef, form: ParquetForm) -> Result<Self> {
        let written = stored_schema(schema);
        let seconds: Vec<String> = schema.fields().iter().enumerate().filter_map(seconds_at).collect();
        let seconds = (!seconds.is_empty()).then(|| KeyValue::new(SECONDS_KEY.to_owned(), seconds.join(",")));
        let given = form.metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let metadata: Vec<KeyValue> = given.chain(seconds).collect();
        let metadata = (!metadata.is_empty()).then_some(metadata);
        let properties = WriterProperties::builder()
            .set_compression(form.compression)
            .set_created_by(concat!("freestone ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(metadata)
            .build();
        let columns = ArrowSchemaConverter::new().convert(&written)?;
        let columns = SchemaDescriptor::new(Arc::new(with_uuids(columns.root_schema())?));
        let options = ArrowWriterOptions::new().with_properties(properties).with_parquet_schema(columns);
        let writer = ArrowWriter::try_new_with_options(target, written.clone(), options)?;
        let (writer, factory) = writer.into_serialized_writer()?;
        Ok(Self { writer, factory, schema: written, columns: vec![], rows: 0, form })
    }

    /// Writes rows, and ends row groups when they are full.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let taken = (batch.num_rows() - from).min(self.form.row_group_rows.max(1) - self.rows);
            self.encode(&batch.slice(from, taken))?;
            from += taken;
            self.rows += taken;
            if self.rows >= self.form.row_group_rows.max(1) || self.group_bytes() >= GROUP_BYTES {
                self.end_group()?;
            }
        }
        Ok(())
    }

    /// The bytes of the row group that is not complete yet.
    fn group_bytes(&self) -> usize {
        self.columns.iter().flatten().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    /// The bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.group_bytes()) as u64
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            let mut writers = self.factory.create_column_writers(self.writer.flushed_row_groups().len())?.into_iter();
            let leaves = |field: &Arc<Field>| leaves(field.data_type());
            self.columns = self.schema.fields().iter().map(|f| writers.by_ref().take(leaves(f)).collect()).collect();
        }
        let work: Vec<Mutex<&mut ColumnOut>> = self.columns.iter_mut().map(Mutex::new).collect();
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<ParquetError>> = Mutex::default();
        let fields = self.schema.fields();
        let encode_columns = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(column), None) = (work.get(at), failed.lock().as_ref()) else { return };
                let written = stored(batch.column(at), &fields[at]).and_then(|array| {
                    let leaves = compute_leaves(&fields[at], &array)?;
                    column.lock().iter_mut().zip(&leaves).try_for_each(|(writer, leaf)| writer.write(leaf))
                });
                if let Err(error) = written {
                    *failed.lock() = Some(error);
                }
            }
        };
        let threads = self.form.threads.min(fields.len());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Without more threads, this one encodes all columns.
                if std::thread::Builder::new().spawn_scoped(scope, encode_columns).is_err() {
                    break;
                }
            }
            encode_columns();
        });
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn end_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in self.columns.drain(..).flatten() {
            column.close()?.append_to_row_group(&mut group)?;
        }
        group.close().map(drop)
    }

    /// Completes the file.
    pub fn finish(mut self) -> Result<Target> {
        self.end_group()?;
        self.writer.into_inner()
    }
}

/// The number of stored columns of a type.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => leaves(item.data_type()),
        _ => 1,
    }
}

fn seconds_at((at, field): (usize, &Arc<Field>)) -> Option<String> {
    matches!(field.data_type(), DataType::Timestamp(TimeUnit::Second, _)).then(|| at.to_string())
}

/// The columns with types that Parquet supports.
fn stored_schema(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        let data_type = match field.data_type() {
            DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
            DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(data_type)
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The columns with the logical type of UUIDs, which are the only values of ours that have 16 bytes.
fn with_uuids(of: &Type) -> Result<Type> {
    let info = of.get_basic_info();
    let id = info.has_id().then(|| info.id());
    match of {
        Type::PrimitiveType { physical_type: PhysicalType::FIXED_LEN_BYTE_ARRAY, type_length: 16, .. }
            if info.logical_type_ref().is_none() && info.converted_type() == ConvertedType::NONE =>
        {
            Type::primitive_type_builder(of.name(), PhysicalType::FIXED_LEN_BYTE_ARRAY)
                .with_repetition(info.repetition())
                .with_length(16)
                .with_logical_type(Some(LogicalType::Uuid))
                .with_id(id)
                .build()
        }
        Type::PrimitiveType { .. } => Ok(of.clone()),
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| with_uuids(field).map(Arc::new)).collect::<Result<Vec<_>>>()?;
            let group = Type::group_type_builder(of.name())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_fields(fields)
                .with_id(id);
            if info.has_repetition() { group.with_repetition(info.repetition()).build() } else { group.build() }
        }
    }
}

fn stored(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(array.clone());
    }
    Ok(cast_with_options(array, field.data_type(), &CastOptions { safe: false, ..CastOptions::default() })?)
}
