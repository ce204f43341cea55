//! What is in Parquet files, as rows: `parquet_schema('x.parquet')`, `parquet_metadata('*.parquet')` and
//! `parquet_kv_metadata('*.parquet')`, with the columns that DuckDB gives them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use freestone_bucket::Stores;
use parquet::basic::Repetition;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{Type, TypePtr};

use super::functions::texts;
use crate::access::Access;
use crate::error::{Error, Result};
use crate::ingest::{self, FoundFile, IngestError, ParquetFile, Reason, SpooledFile};

type Rows = fn(&[(PathBuf, Arc<ParquetMetaData>)]) -> Result<RecordBatch>;

/// The functions by name.
pub(crate) const FUNCTIONS: [(&str, Rows); 3] = [
    ("parquet_schema", parquet_schema),
    ("parquet_metadata", parquet_metadata),
    ("parquet_kv_metadata", parquet_kv_metadata),
];

/// A function over files that are named or match a pattern.
#[derive(Debug)]
pub(crate) struct InspectionFunction {
    name: &'static str,
    rows: Rows,
    access: Access,
    stores: Stores,
}

impl InspectionFunction {
    pub fn new(name: &'static str, rows: Rows, access: Access, stores: Stores) -> Self {
        Self { name, rows, access, stores }
    }
}

impl TableFunctionImpl for InspectionFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        self.access.check_files()?;
        let form = || Error::invalid(format!("{0} takes the names of files: {0}('file'), {0}(['a', 'b'])", self.name));
        let [names] = arguments.exprs() else { return Err(form().into()) };
        let mut files = vec![];
        for name in texts(names).ok_or_else(form)? {
            files.extend(expanded(&name, &self.stores)?);
        }
        let metadata = files.into_iter().map(|file| Ok((file.path.clone(), metadata_of(&file)?)));
        let batch = (self.rows)(&metadata.collect::<Result<Vec<_>>>()?)?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// The file, or the files of a pattern. Unlike for tables, a folder does not stand for its data files.
fn expanded(name: &str, stores: &Stores) -> Result<Vec<FoundFile>> {
    let path = Path::new(name);
    if path.is_dir() {
        return Err(Error::invalid(format!("{name} is a folder")).with_hint("write a pattern, as in 'folder/*.txt'"));
    }
    match path.exists() {
        true => Ok(vec![FoundFile { path: path.to_owned(), object: None }]),
        false => Ok(ingest::find_files(name, stores)?),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    IngestError::io(path, error).into()
}

fn names(paths: &[PathBuf]) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(paths.iter().map(|path| path.display().to_string())))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))?)
}

fn metadata_of(file: &FoundFile) -> Result<Arc<ParquetMetaData>> {
    if let Some(object) = &file.object
        && let Some(parquet) = ParquetFile::open_elsewhere(object)?
    {
        return Ok(parquet.metadata().metadata().clone());
    }
    let spooled = file.downloaded()?;
    let path = spooled.as_ref().map_or(file.path.as_path(), SpooledFile::path);
    let opened = File::open(path).map_err(|error| failed(&file.path, &error))?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&opened).map_err(|error| {
        let reason = Reason::Malformed(format!("not a Parquet file, or damaged: {error}"));
        IngestError::new(file.path.display().to_string(), reason)
    })?;
    Ok(Arc::new(metadata))
}

fn parquet_schema(files: &[(PathBuf, Arc<ParquetMetaData>)]) -> Result<RecordBatch> {
    let mut fields: Vec<(PathBuf, TypePtr)> = vec![];
    for (path, metadata) in files {
        let mut waiting = vec![metadata.file_metadata().schema_descr().root_schema_ptr()];
        while let Some(field) = waiting.pop() {
            if field.is_group() {
                waiting.extend(field.get_fields().iter().rev().cloned());
            }
            fields.push((path.clone(), field));
        }
    }
    let text = |of: &dyn Fn(&Type) -> Option<String>| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(fields.iter().map(|(_, field)| of(field))))
    };
    let number = |of: &dyn Fn(&Type) -> Option<i64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter(fields.iter().map(|(_, field)| of(field))))
    };
    let repetition = |field: &Type| {
        let info = field.get_basic_info();
        let known = |repetition: Repetition| repetition.to_string();
        info.has_repetition().then(|| known(info.repetition()))
    };
    let paths: Vec<PathBuf> = fields.iter().map(|(path, _)| path.clone()).collect();
    let digits = |field: &Type, of: fn(i32, i32) -> i32| match field {
        Type::PrimitiveType { precision, scale, .. } if *precision > 0 => Some(i64::from(of(*precision, *scale))),
        _ => None,
    };
    batch(vec![
        ("file_name", names(&paths)),
        ("name", text(&|field| Some(field.name().to_owned()))),
        ("type", text(&|field| field.is_primitive().then(|| field.get_physical_type().to_string()))),
        ("repetition_type", text(&repetition)),
        ("num_children", number(&|field| field.is_group().then(|| field.get_fields().len() as i64))),
        ("precision", number(&|field| digits(field, |precision, _| precision))),
        ("scale", number(&|field| digits(field, |_, scale| scale))),
        ("logical_type", text(&|field| field.get_basic_info().logical_type_ref().map(|kind| format!("{kind:?}")))),
    ])
}

/// A column chunk with its file and row group.
struct Chunk<'a> {
    path: &'a PathBuf,
    row_group: i64,
    group: &'a RowGroupMetaData,
    column: i64,
    metadata: &'a ColumnChunkMetaData,
}

fn parquet_metadata(files: &[(PathBuf, Arc<ParquetMetaData>)]) -> Result<RecordBatch> {
    let mut chunks = vec![];
    for (path, file) in files {
        for (at, group) in file.row_groups().iter().enumerate() {
            let of_group = group.columns().iter().enumerate().map(|(column, metadata)| Chunk {
                path,
                row_group: at as i64,
                group,
                column: column as i64,
                metadata,
            });
            chunks.extend(of_group);
        }
    }
    let text = |of: &dyn Fn(&Chunk<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(chunks.iter().map(of)))
    };
    let number =
        |of: &dyn Fn(&Chunk<'_>) -> Option<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter(chunks.iter().map(of))) };
    let range = |chunk: &Chunk<'_>| chunk.metadata.statistics().map_or((None, None), range_of);
    let nulls = |chunk: &Chunk<'_>| chunk.metadata.statistics()?.null_count_opt().and_then(|n| i64::try_from(n).ok());
    let distinct =
        |chunk: &Chunk<'_>| chunk.metadata.statistics()?.distinct_count_opt().and_then(|n| i64::try_from(n).ok());
    let encodings = |chunk: &Chunk<'_>| {
        let names: Vec<String> = chunk.metadata.encodings().map(|encoding| encoding.to_string()).collect();
        Some(names.join(", "))
    };
    batch(vec![
        ("file_name", text(&|chunk| Some(chunk.path.display().to_string()))),
        ("row_group_id", number(&|chunk| Some(chunk.row_group))),
        ("row_group_num_rows", number(&|chunk| Some(chunk.group.num_rows()))),
        ("row_group_num_columns", number(&|chunk| Some(chunk.group.num_columns() as i64))),
        ("row_group_bytes", number(&|chunk| Some(chunk.group.total_byte_size()))),
        ("row_group_compressed_bytes", number(&|chunk| Some(chunk.group.compressed_size()))),
        ("column_id", number(&|chunk| Some(chunk.column))),
        ("path_in_schema", text(&|chunk| Some(chunk.metadata.column_path().string()))),
        ("type", text(&|chunk| Some(chunk.metadata.column_type().to_string()))),
        ("num_values", number(&|chunk| Some(chunk.metadata.num_values()))),
        ("stats_min", text(&|chunk| range(chunk).0)),
        ("stats_max", text(&|chunk| range(chunk).1)),
        ("stats_min_value", text(&|chunk| range(chunk).0)),
        ("stats_max_value", text(&|chunk| range(chunk).1)),
        ("stats_null_count", number(&nulls)),
        ("stats_distinct_count", number(&distinct)),
        ("compression", text(&|chunk| Some(chunk.metadata.compression().to_string()))),
        ("encodings", text(&encodings)),
        ("index_page_offset", number(&|chunk| chunk.metadata.index_page_offset())),
        ("dictionary_page_offset", number(&|chunk| chunk.metadata.dictionary_page_offset())),
        ("data_page_offset", number(&|chunk| Some(chunk.metadata.data_page_offset()))),
        ("bloom_filter_offset", number(&|chunk| chunk.metadata.bloom_filter_offset())),
        ("bloom_filter_length", number(&|chunk| chunk.metadata.bloom_filter_length().map(i64::from))),
        ("total_compressed_size", number(&|chunk| Some(chunk.metadata.compressed_size()))),
        ("total_uncompressed_size", number(&|chunk| Some(chunk.metadata.uncompressed_size()))),
    ])
}

fn parquet_kv_metadata(files: &[(PathBuf, Arc<ParquetMetaData>)]) -> Result<RecordBatch> {
    let pairs = files.iter().flat_map(|(path, metadata)| {
        let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
        pairs.iter().map(move |pair| (path.clone(), pair))
    });
    let (paths, pairs): (Vec<PathBuf>, Vec<_>) = pairs.unzip();
    let keys = pairs.iter().map(|pair| pair.key.as_bytes());
    let keys: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(keys));
    let values = pairs.iter().map(|pair| pair.value.as_ref().map(String::as_bytes));
    let values: ArrayRef = Arc::new(BinaryViewArray::from_iter(values));
    batch(vec![("file_name", names(&paths)), ("key", keys), ("value", values)])
}

/// The least and the greatest value of a column chunk, as far as its file says.
fn range_of(statistics: &Statistics) -> (Option<String>, Option<String>) {
    fn texts<T: ToString>(least: Option<&T>, greatest: Option<&T>) -> (Option<String>, Option<String>) {
        (least.map(T::to_string), greatest.map(T::to_string))
    }
    match statistics {
        Statistics::Boolean(values) => texts(values.min_opt(), values.max_opt()),
        Statistics::Int32(values) => texts(values.min_opt(), values.max_opt()),
        Statistics::Int64(values) => texts(values.min_opt(), values.max_opt()),
        Statistics::Float(values) => texts(values.min_opt(), values.max_opt()),
        Statistics::Double(values) => texts(values.min_opt(), values.max_opt()),
        Statistics::Int96(_) => (None, None),
        other => (other.min_bytes_opt().map(shown), other.max_bytes_opt().map(shown)),
    }
}

/// Bytes as text, or as hexadecimal digits if they are no text.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
