//! `COPY … FROM` files and `COPY … TO` a file.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::Value;
use freestone_store::WriteTransaction;
use freestone_store::plain::Strings;
use freestone_store::schema::TableSchema;

use crate::dml;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{self, FileFormat, FileReader, IngestOptions};
use crate::session::{Outcome, Progress, WriteContext};
use crate::statement::{CopyFrom, CopyTo, OptionList};

const FROM_OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, SAMPLE_ROWS, MAX_RECORD_BYTES";
const TO_OPTIONS: &str =
    "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_SIZE";

/// `COPY table [(columns)] FROM 'file' (options)`. The name may be a folder or a pattern; files are read in the order
/// of their names, and of a file's columns those that the table has, by name.
pub(crate) fn copy_from(
    transaction: &mut WriteTransaction<'_>,
    context: &WriteContext,
    request: &CopyFrom,
    progress: Option<&dyn Progress>,
) -> Result<Outcome> {
    let table = dml::find(transaction, &request.table)?;
    context.prepare_append(transaction, None)?;
    let memory_bytes = context.prepare_parse()?;
    let options = IngestOptions { memory_bytes, ..from_options(&request.options, context.threads())? };
    let paths = ingest::expand_paths(&request.path)?;
    let loading = Loading {
        read: read_schema(&table.schema, &request.columns)?,
        table: table.schema.to_arrow(),
        paths: paths.into_iter(),
        reader: None,
        bytes_before: 0,
        options,
    };
    let watched = Watched::new(progress, &request.table, loading);
    let rows = dml::append(transaction, context, &request.table, &table.schema, watched)?;
    Ok(Outcome::Affected { verb: "COPY", rows })
}

/// The columns to read: those named, in that order, else the table's.
fn read_schema(table: &TableSchema, columns: &[String]) -> Result<SchemaRef> {
    let schema = table.to_arrow();
    if columns.is_empty() {
        return Ok(schema);
    }
    let indices = columns.iter().map(|column| table.index_of(column)).collect::<Result<Vec<_>, _>>()?;
    if let Some(missing) = table.columns.iter().find(|column| !column.nullable && !columns.contains(&column.name)) {
        let message = format!("column {} is NOT NULL and not among the columns to load", missing.name);
        return Err(Error::new(ErrorKind::Constraint, message));
    }
    Ok(Arc::new(schema.project(&indices)?))
}

/// The batches of all files, one file after the other.
struct Loading {
    read: SchemaRef,
    table: SchemaRef,
    paths: std::vec::IntoIter<PathBuf>,
    reader: Option<FileReader>,
    /// Bytes of the files before the one that is read.
    bytes_before: u64,
    options: IngestOptions,
}

impl Loading {
    /// Bytes of the files whose rows have been delivered.
    fn bytes_done(&self) -> u64 {
        self.bytes_before + self.reader.as_ref().map_or(0, FileReader::bytes_done)
    }

    /// A batch with the table's columns: those not read are NULL.
    fn completed(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.read.fields().len() == self.table.fields().len() && self.read == self.table {
            return Ok(batch);
        }
        let columns = self.table.fields().iter().map(|field| match batch.column_by_name(field.name()) {
            Some(column) => column.clone(),
            None => new_null_array(field.data_type(), batch.num_rows()),
        });
        Ok(RecordBatch::try_new(self.table.clone(), columns.collect())?)
    }
}

impl Iterator for Loading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.reader.as_mut().and_then(Iterator::next) {
                return Some(batch.map_err(Error::from).and_then(|batch| self.completed(batch)));
            }
            let path = self.paths.next()?;
            self.bytes_before = self.bytes_done();
            match ingest::read_file(&path, self.read.clone(), &self.options) {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Tells how many bytes of the files are loaded.
struct Watched<'a> {
    progress: Option<&'a dyn Progress>,
    loading: Loading,
}

impl<'a> Watched<'a> {
    fn new(progress: Option<&'a dyn Progress>, table: &str, loading: Loading) -> Self {
        if let Some(progress) = progress {
            let sizes = loading.paths.as_slice().iter().map(|path| std::fs::metadata(path).map(|data| data.len()));
            progress.begin(&format!("COPY {table}"), sizes.sum::<Result<u64, _>>().ok());
        }
        Watched { progress, loading }
    }
}

impl Iterator for Watched<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.loading.next();
        if let Some(progress) = self.progress {
            progress.advance(self.loading.bytes_done());
        }
        batch
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.progress {
            progress.end();
        }
    }
}

fn from_options(given: &OptionList, threads: usize) -> Result<IngestOptions> {
    let mut options = IngestOptions { threads, ..IngestOptions::default() };
    for (name, value) in given {
        match name.to_ascii_lowercase().as_str() {
            "format" => options.format = Some(file_format(value)?),
            "header" => options.header = Some(boolean(name, value)?),
            "delimiter" | "delim" | "sep" => options.delimiter = Some(byte(name, value)?),
            "quote" => options.quote = byte(name, value)?,
            "escape" => options.escape = Some(byte(name, value)?),
            "null" | "nullstr" => options.null = value.clone(),
            "sample_rows" => options.sample_rows = number(name, value)?,
            "max_record_bytes" => options.max_record_bytes = number(name, value)?,
            _ => {
                return Err(Error::invalid(format!("unknown option {name} for COPY FROM"))
                    .with_hint(format!("the options are {FROM_OPTIONS}")));
            }
        }
    }
    Ok(options)
}

fn file_format(name: &str) -> Result<FileFormat> {
    FileFormat::of_path(format!("x.{name}").as_ref()).ok_or_else(|| unknown_format(name))
}

fn unknown_format(name: &str) -> Error {
    Error::invalid(format!("unknown format {name}")).with_hint("the formats are csv, json, parquet, arrow")
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err(Error::invalid(format!("{name} {value} is neither true nor false"))),
    }
}

fn byte(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err(Error::invalid(format!("{name} '{value}' is not one ASCII character"))),
    }
}

fn number(name: &str, value: &str) -> Result<usize> {
    value.parse().map_err(|_| Error::invalid(format!("{name} {value} is not a whole number")))
}

/// `COPY table | (query) TO 'file' (options)` as DataFusion writes it, in parallel, the file complete or absent.
pub(crate) fn copy_to(request: &CopyTo) -> Result<DfStatement> {
    let mut format = None;
    let mut options = Vec::new();
    let (mut codec, mut level) = (None, None);
    for (name, value) in &request.options {
        match name.to_ascii_lowercase().as_str() {
            "format" => format = Some(value.to_ascii_lowercase()),
            "compression" | "codec" => codec = Some(value.to_ascii_lowercase()),
            "compression_level" => level = Some(number(name, value)?),
            name => options.push((name.to_owned(), value.clone())),
        }
    }
    let format = match format {
        Some(format) => format,
        None => extension_of(&request.path)?,
    };
    let stored_as = match format.as_str() {
        "csv" | "tsv" | "tbl" => "csv",
        "json" | "ndjson" | "jsonl" => "json",
        "parquet" => "parquet",
        "arrow" | "feather" | "ipc" => "arrow",
        other => return Err(unknown_format(other)),
    };
    let mut written =
        options.iter().map(|(name, value)| to_option(stored_as, name, value)).collect::<Result<Vec<_>>>()?;
    if codec.is_some() || level.is_some() {
        written.push(("format.compression".into(), text(&compression(stored_as, codec.as_deref(), level)?)));
    }
    let delimiter = match format.as_str() {
        "tsv" => Some("\t"),
        "tbl" => Some("|"),
        _ => None,
    };
    if let Some(delimiter) = delimiter.filter(|_| !options.iter().any(|(name, _)| name == "delimiter")) {
        written.push(("format.delimiter".into(), text(delimiter)));
    }
    Ok(DfStatement::CopyTo(CopyToStatement {
        source: CopyToSource::Query(request.query.clone()),
        target: request.path.clone(),
        partitioned_by: vec![],
        stored_as: Some(stored_as.to_owned()),
        options: written,
    }))
}

/// A copy whose strings are such as every reader of its file knows: a file of Arrow has types of its own, and so has one of
/// Parquet for readers that are Arrow's.
pub(crate) fn with_plain_strings(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(mut copy) = plan else { return Ok(plan) };
    if ["parquet", "arrow"].contains(&copy.file_type.get_ext().as_str()) {
        let schema = copy.input.schema();
        let plain = schema.iter().map(|(table, field)| {
            let data_type = Strings::Plain.data_type(field.data_type());
            (table.cloned(), Arc::new(field.as_ref().clone().with_data_type(data_type)))
        });
        let plain = DFSchema::new_with_metadata(plain.collect(), schema.metadata().clone())?;
        copy.input = Arc::new(coerce_plan_expr_for_schema(Arc::unwrap_or_clone(copy.input), &plain)?);
    }
    Ok(LogicalPlan::Copy(copy))
}

/// Codecs of Parquet: their name as users write it and as the writer has it, their least, default and greatest level.
type ParquetCodec = (&'static str, &'static str, Option<(usize, usize, usize)>);
const PARQUET_CODECS: [ParquetCodec; 9] = [
    ("zstd", "zstd", Some((1, 3, 22))),
    ("gzip", "gzip", Some((0, 6, 9))),
    ("brotli", "brotli", Some((0, 4, 11))),
    ("snappy", "snappy", None),
    // What Parquet calls LZ4 is deprecated, and other readers refuse it.
    ("lz4", "lz4_raw", None),
    ("lz4_raw", "lz4_raw", None),
    ("none", "uncompressed", None),
    ("uncompressed", "uncompressed", None),
    ("false", "uncompressed", None),
];

/// COMPRESSION and COMPRESSION_LEVEL as DataFusion's writer takes them. `zstd(3)` says both at once.
fn compression(format: &str, codec: Option<&str>, level: Option<usize>) -> Result<String> {
    let codec = codec.unwrap_or("zstd");
    let (name, inside) = match codec.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((name, inside)) => (name.trim(), Some(number("COMPRESSION_LEVEL", inside.trim())?)),
        None => (codec, None),
    };
    let known = PARQUET_CODECS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
        Error::invalid(format!("unknown compression {name}"))
            .with_hint("the compressions are zstd, gzip, brotli, snappy, lz4, none")
    })?;
    let (_, written, levels) = *known;
    if format != "parquet" {
        return match written {
            "uncompressed" => Ok(written.to_owned()),
            _ => Err(Error::unsupported(format!("{format} files are not compressed by this version"))
                .with_hint("write parquet, or compress the file afterwards")),
        };
    }
    match (levels, level.or(inside)) {
        (None, None) => Ok(written.to_owned()),
        (None, Some(_)) => Err(Error::invalid(format!("compression {name} has no levels"))),
        (Some((least, default, greatest)), level) => match level.unwrap_or(default) {
            level if (least..=greatest).contains(&level) => Ok(format!("{written}({level})")),
            level => Err(Error::invalid(format!("compression {name} has levels {least} to {greatest}, not {level}"))),
        },
    }
}

fn text(value: &str) -> Value {
    Value::SingleQuotedString(value.to_owned())
}

fn extension_of(path: &str) -> Result<String> {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).ok_or_else(|| {
        Error::invalid(format!("cannot tell the format of {path} from its name"))
            .with_hint("say it: (FORMAT csv | json | parquet | arrow)")
    })
}

/// An option of COPY … TO under the name that DataFusion's writer has for it.
fn to_option(format: &str, name: &str, value: &str) -> Result<(String, Value)> {
    let known = match (format, name) {
        ("csv", "header") => Some("format.has_header"),
        ("csv", "delimiter") => Some("format.delimiter"),
        ("csv", "quote") => Some("format.quote"),
        ("csv", "escape") => Some("format.escape"),
        ("csv", "null") => Some("format.null_value"),
        ("parquet", "row_group_size") => Some("format.max_row_group_size"),
        _ => None,
    };
    match known {
        Some(known) => Ok((known.to_owned(), text(value))),
        None => Err(Error::invalid(format!("unknown option {name} for COPY TO {format}"))
            .with_hint(format!("the options are {TO_OPTIONS}, each where its format has it"))),
    }
}
