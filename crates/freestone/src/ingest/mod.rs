//! Files → typed Arrow record batches, with bounded memory, parallel parsing, and errors with row and column.
//!
//! [`infer_schema`] determines the columns of a file. [`read_file`] reads it as batches with a given schema, in file
//! order, parsed by several threads ahead of the consumer. [`conform()`] converts batches of any origin to a table's
//! types. Conversions are exact or errors: nothing is rounded (except decimal text as floats), truncated or wrapped.
//!
//! This module does not depend on tables, SQL or DataFusion. Memory: about `threads + 2` blocks of `block_bytes`, with
//! two batches each (CSV, JSON), or the pages and batches of as many row groups (Parquet).

mod arrow_file;
mod arrow_ipc;
mod arrow_types;
mod assignment;
mod blocks;
mod cells;
mod column_names;
mod columns;
mod convert;
mod convert_nested;
mod csv;
mod csv_tokens;
mod delimiters;
mod elsewhere;
mod encodings;
mod error;
mod fields;
mod fixed_bytes;
mod forms;
mod gzip;
mod headers;
mod infer;
mod json;
mod json_tokens;
mod kinds;
mod nested;
mod opening;
mod parallel;
mod parquet;
mod paths;
mod rejects;
mod shapes;
mod spool;
mod spreadsheet;
mod spreadsheet_cells;
mod stored;
mod text;
pub(crate) mod values;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;

pub use crate::file_format::FileFormat;
pub(crate) use arrow_ipc::{ArrowFile, ArrowReader};
pub(crate) use assignment::Assignment;
pub(crate) use blocks::{Block, BlockSource, BufferPool, CHANGED, Packing};
pub use convert::{ColumnMatch, Location, conform};
pub(crate) use convert::{bare, conform_columns, read_texts};
pub(crate) use csv::{CsvLayout, layout as csv_layout};
pub(crate) use delimiters::{DELIMITER_BYTES_MAX, UNIT};
pub(crate) use elsewhere::{FoundFile, find_files};
pub(crate) use encodings::TextEncoding;
pub use error::{Details, IngestError, Reason, ValueProblem};
pub(crate) use fixed_bytes::{UUID, as_declared, with_uuid_names};
pub(crate) use forms::TextForms;
pub(crate) use kinds::Kinds;
pub use nested::{ArrayItem, array_items};
pub(crate) use opening::NewLine;
pub(crate) use parallel::{MorselEnd, MorselError, Ordered, Source, Worker};
pub(crate) use parquet::{FileChunks, ParquetFile, SECONDS_KEY, requested};
pub use paths::expand_paths;
pub(crate) use paths::{NULL_PARTITION, partitions};
pub(crate) use rejects::{Reject, RejectSink};
pub(crate) use shapes::Shape;
pub(crate) use spool::SpooledFile;
pub(crate) use stored::{STORED, Stored, stored_cell};
pub(crate) use text::{TextFile, TextParser};

/// A byte that no text has, for files in which no character is a quote.
pub(crate) const NO_QUOTE: u8 = 0xff;

/// The options for reading a file. The defaults are those of a comma-separated file, and depend on the extension.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// `None`: by extension.
    pub format: Option<FileFormat>,
    /// CSV: whether the first record contains names. `None`: detected; never for `.tbl` files.
    pub header: Option<bool>,
    /// CSV: `None` is `|` for `.tbl` files, a tab for `.tsv` files, and otherwise the one of `,`, `;`, tab and `|` that
    /// splits all of the first records into equal numbers of fields.
    pub delimiter: Option<u8>,
    /// CSV: a delimiter of several bytes, for which [`UNIT`] stands.
    pub(crate) wide_delimiter: Option<String>,
    /// CSV: the quote character; [`NO_QUOTE`] if no character is a quote.
    pub quote: u8,
    /// CSV: `None` means that quotes are doubled.
    pub escape: Option<u8>,
    /// CSV: the unquoted texts that are NULL.
    pub nulls: Vec<String>,
    /// CSV: whether these texts are NULL in quotes, too.
    pub(crate) quoted_nulls: bool,
    /// CSV: the columns in which they are texts nevertheless.
    pub(crate) force_not_null: Vec<String>,
    /// CSV: the number of lines to skip before the first record; for spreadsheets, of rows. `None`: lines above a header
    /// that have fewer fields than the records.
    pub skip: Option<usize>,
    /// CSV: the character that begins a comment, to the end of its line.
    pub(crate) comment: Option<u8>,
    /// CSV: whether missing fields at the end of a record are NULL.
    pub(crate) null_padding: bool,
    /// CSV and spreadsheets: whether names of the header become identifiers.
    pub(crate) normalize_names: bool,
    /// CSV: whether malformed records, and those with a value that has no place in its column, are left out.
    pub(crate) ignore_errors: bool,
    /// CSV: the number of columns that are declared. Otherwise, it is that of the first record, or of the widest one if
    /// short ones are filled.
    pub(crate) columns: Option<usize>,
    /// CSV: receives what is left out.
    pub(crate) rejects: Option<RejectSink>,
    /// CSV: how numbers and times are written.
    pub(crate) forms: TextForms,
    /// Text files: how the session reads dates and times that have PostgreSQL's spellings.
    pub(crate) reading: Assignment,
    /// CSV: the types of which one is found for a column; `None`: all that are known.
    pub(crate) candidates: Option<Kinds>,
    /// CSV: the encoding.
    pub(crate) encoding: TextEncoding,
    /// CSV: how lines must end; `None`: in any way.
    pub(crate) new_line: Option<NewLine>,
    /// Text files: the compression that they must have; `None`: any.
    pub(crate) packing: Option<Packing>,
    /// Spreadsheets: the name of the sheet. `None`: the first one.
    pub sheet: Option<String>,
    /// CSV, JSON and spreadsheets: all columns without a declared type are VARCHAR.
    pub all_varchar: bool,
    /// Parsing threads; 0 counts as 1.
    pub threads: usize,
    /// The maximum number of rows of a batch. A batch ends at the latest with its block of the file.
    pub batch_rows: usize,
    /// The number of rows at the start of the file from which types are inferred.
    pub sample_rows: usize,
    /// Bytes of text that one thread parses at a time.
    pub block_bytes: usize,
    /// Longest record of a text file, in bytes.
    pub max_record_bytes: usize,
    /// The approximate maximum bytes of memory for a read, with smaller blocks and batches and fewer threads. `None`:
    /// no limit.
    pub memory_bytes: Option<usize>,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            format: None,
            header: None,
            delimiter: None,
            wide_delimiter: None,
            quote: b'"',
            escape: None,
            nulls: vec![String::new()],
            quoted_nulls: false,
            force_not_null: vec![],
            skip: None,
            comment: None,
            null_padding: false,
            normalize_names: false,
            ignore_errors: false,
            columns: None,
            rejects: None,
            forms: TextForms::default(),
            reading: Assignment::default(),
            candidates: None,
            encoding: TextEncoding::Utf8,
            new_line: None,
            packing: None,
            sheet: None,
            all_varchar: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            batch_rows: 65_536,
            sample_rows: 20_480,
            block_bytes: 4 << 20,
            max_record_bytes: 64 << 20,
            memory_bytes: None,
        }
    }
}

impl IngestOptions {
    /// Whether records may have another number of fields than there are columns.
    fn is_lenient(&self) -> bool {
        self.ignore_errors || self.null_padding
    }

    pub(crate) fn format_of(&self, path: &Path) -> Result<FileFormat, IngestError> {
        self.format
            .or_else(|| FileFormat::of_path(path))
            .ok_or_else(|| IngestError::new(path.display().to_string(), Reason::UnknownFormat))
    }

    /// Bytes of text that one thread parses at a time: a block and its batches take about four times as much.
    fn block_bytes(&self) -> usize {
        const LEAST: usize = 64 << 10;
        let share = self.memory_bytes.map_or(usize::MAX, |bytes| bytes / (4 * (self.threads.max(1) + 2)));
        self.block_bytes.min(share.max(LEAST))
    }

    fn record_bytes_max(&self) -> usize {
        self.max_record_bytes.clamp(1, fields::BLOCK_BYTES_MAX)
    }
}

/// The schema of a file. Parquet and Arrow files declare theirs; it is given in the types that tables have (text as
/// `Utf8View`, dictionaries as their values). That of CSV and JSON files is inferred from a sample: BOOLEAN, BIGINT,
/// DOUBLE, DATE, TIME, TIMESTAMP with and without zone, else VARCHAR; a later value that does not fit is an error of
/// the read.
///
/// # Errors
/// Unreadable, damaged or empty files, unknown formats, and columns of types that tables do not have.
pub fn infer_schema(path: &Path, options: &IngestOptions) -> Result<SchemaRef, IngestError> {
    match options.format_of(path)? {
        FileFormat::Csv => infer::csv_schema(path, options),
        FileFormat::Json => json::schema(path, options),
        FileFormat::Parquet => parquet::schema(path),
        FileFormat::Arrow => arrow_ipc::schema(path),
        FileFormat::Excel => arrow_ipc::schema(spreadsheet::converted(path, options)?.path()),
    }
}

/// What is read in place of a file: the complete content of a pipe or of a file elsewhere, or the Arrow file of a spreadsheet,
/// with its format. `None`: the file itself.
///
/// # Errors
/// The file cannot be read, or the disk is full.
pub(crate) fn replaced(
    file: &FoundFile,
    options: &IngestOptions,
) -> Result<Option<(SpooledFile, Option<FileFormat>)>, IngestError> {
    let path = file.path.as_path();
    let spooled = match file.downloaded()? {
        Some(file) => Some(file),
        None => spool::spooled(path)?,
    };
    if options.format.or_else(|| FileFormat::of_path(path)) != Some(FileFormat::Excel) {
        return Ok(spooled.map(|file| (file, None)));
    }
    let sheet = spreadsheet::converted(spooled.as_ref().map_or(path, SpooledFile::path), options);
    let sheet = sheet.map_err(|error| error.in_source(path.display().to_string()))?;
    Ok(Some((sheet, Some(FileFormat::Arrow))))
}

/// Reads a file as batches of exactly `schema`, whose types are Boolean, Int8 to UInt64, Float32, Float64, Decimal128,
/// Date32, Time32, Time64, Timestamp, Utf8View and BinaryView. Columns are matched by name; those of a CSV file without
/// a header, or with a header of other names only, by position.
///
/// # Errors
/// What can be told from the file's start is an error here, the rest an error of the iterator, which then ends.
pub fn read_file(path: &Path, schema: SchemaRef, options: &IngestOptions) -> Result<FileReader, IngestError> {
    let bytes_total = std::fs::metadata(path).map_err(|error| IngestError::io(path, &error))?.len();
    let batches = match options.format_of(path)? {
        FileFormat::Csv => csv::read(path, &schema, options)?,
        FileFormat::Json => json::read(path, &schema, options)?,
        FileFormat::Parquet => parquet::read(path, &schema, options)?,
        FileFormat::Arrow => arrow_ipc::read(path, &schema, options)?,
        FileFormat::Excel => arrow_ipc::read(spreadsheet::converted(path, options)?.path(), &schema, options)?,
    };
    Ok(FileReader { path: path.to_path_buf(), schema, batches, bytes_total, ended: false })
}

/// The batches of one file. Dropping it stops its threads.
pub struct FileReader {
    path: PathBuf,
    schema: SchemaRef,
    batches: parallel::Ordered,
    bytes_total: u64,
    ended: bool,
}

impl FileReader {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Size of the file.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Bytes of the file whose rows have been delivered, for progress bars; `bytes_total` at the end.
    pub fn bytes_done(&self) -> u64 {
        if self.ended { self.bytes_total } else { self.batches.bytes_done().min(self.bytes_total) }
    }
}

impl Iterator for FileReader {
    type Item = Result<RecordBatch, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.batches.next();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
