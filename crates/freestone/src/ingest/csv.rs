//! CSV files: header, blocks, parallel parsing.
//!
//! One thread at a time reads a block and looks for the last place where a record ends (a pass over the quotes only);
//! everything else, from fields to typed columns, is done by all threads at once. What a block says about its place in
//! the file (lines, rows, bytes) counts from its own start; the consumer knows what came before.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::IngestOptions;
use super::blocks::{Block, BlockSource, BufferPool, check_head, mark_bytes, read_head, utf8_prefix};
use super::columns::BatchBuilder;
use super::csv_tokens::{BadRecord, Dialect, Found, Tokenizer, count_lines, last_record_end};
use super::error::{IngestError, Reason};
use super::fields::{Cells, Fields};
use super::infer;
use super::parallel::{Ordered, UnitEnd, UnitError, Worker};

/// Records tokenized before their columns are parsed: few enough that text and fields stay in the second-level cache.
const RECORDS_A_STEP: usize = 1024;

/// Starts the threads that read a CSV file as batches of `schema`.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let name = path.display().to_string();
    let dialect = dialect(path, options)?;
    let layout = layout(path, schema, options, &dialect)?;
    let file = File::open(path).map_err(|error| IngestError::io(path, &error))?;
    let pool = BufferPool::default();
    let cut_dialect = dialect.clone();
    let cut = move |bytes: &[u8], first: bool| {
        let start = if first { mark_bytes(bytes) } else { 0 };
        last_record_end(&bytes[start..], &cut_dialect).map(|end| start + end)
    };
    let source = BlockSource::new(path, file, options, pool.clone(), Box::new(cut));
    let workers = (0..options.threads.max(1))
        .map(|_| {
            let sources = layout.sources.clone();
            Ok(CsvWorker {
                dialect: dialect.clone(),
                header: layout.header,
                columns: layout.columns,
                batch_rows: options.batch_rows.max(1),
                builder: BatchBuilder::new(schema, sources, dialect.null.is_empty())?,
                schema: Arc::clone(schema),
                fields: Fields::default(),
                pool: pool.clone(),
            })
        })
        .collect::<Result<Vec<_>, Reason>>()
        .map_err(|reason| IngestError::new(&name, reason))?;
    Ordered::start(name, source, workers)
}

/// The file's structure bytes: as asked, or by extension.
pub(super) fn dialect(path: &Path, options: &IngestOptions) -> Result<Dialect, IngestError> {
    let delimiter = options.delimiter.unwrap_or(match extension(path).as_str() {
        "tbl" => b'|',
        "tsv" => b'\t',
        _ => b',',
    });
    let dialect = Dialect {
        delimiter,
        quote: options.quote,
        escape: options.escape.unwrap_or(options.quote),
        null: options.null.clone(),
    };
    let usable = |byte: u8| byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r');
    let problem = if !usable(delimiter) || !usable(dialect.quote) || !usable(dialect.escape) {
        "DELIMITER, QUOTE and ESCAPE must be single ASCII characters and no line ends"
    } else if delimiter == dialect.quote || delimiter == dialect.escape {
        "DELIMITER must differ from QUOTE and ESCAPE"
    } else {
        return Ok(dialect);
    };
    Err(IngestError::new(path.display().to_string(), Reason::BadOption(problem.into())))
}

fn extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// How the file's fields become the table's columns.
struct Layout {
    header: bool,
    /// Fields of each record.
    columns: usize,
    sources: Vec<Option<usize>>,
}

fn layout(path: &Path, schema: &SchemaRef, options: &IngestOptions, dialect: &Dialect) -> Result<Layout, IngestError> {
    let by_position = |header, columns: usize| Layout { header, columns, sources: (0..columns).map(Some).collect() };
    let width = schema.fields().len();
    let Some(first) = first_record(path, options, dialect)? else {
        return Ok(by_position(false, width));
    };
    let header = options.header.unwrap_or_else(|| infer::is_header_for(&first, schema) && extension(path) != "tbl");
    if !header {
        return Ok(by_position(false, width));
    }
    let mut names: Vec<String> = first.into_iter().map(Option::unwrap_or_default).collect();
    // dbgen's trailing delimiter, if the header has it too.
    if dialect.delimiter == b'|' && names.len() == width + 1 && names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    let mismatch = |text| IngestError::new(path.display().to_string(), Reason::ColumnMismatch(text)).at_line(1);
    match infer::match_names(&names, schema).map_err(mismatch)? {
        Some(sources) => Ok(Layout { header, columns: names.len(), sources }),
        // Not one name is known: these are other names for the same columns.
        None => Ok(by_position(header, width)),
    }
}

/// The fields of the first record, `None` being NULL; `None` for a file without records.
fn first_record(
    path: &Path,
    options: &IngestOptions,
    dialect: &Dialect,
) -> Result<Option<Vec<Option<String>>>, IngestError> {
    let mut bytes_wanted = 64 << 10;
    loop {
        let head = read_head(path, bytes_wanted)?;
        let complete = head.len() < bytes_wanted;
        let start = check_head(path, &head)?;
        let text = utf8_prefix(&head);
        let mut fields = Fields::default();
        let found = Tokenizer::new(text, start.min(text.len()), dialect).record(None, &mut fields);
        if complete || matches!(found, Ok(Found::Record { closed: true })) || head.len() >= options.record_bytes_max() {
            // A record that is not well formed is reported when it is read, with its place.
            return Ok(matches!(found, Ok(Found::Record { .. })).then(|| {
                let cells = Cells { text, fields: &fields, column: 0, columns: 1, rows: usize::MAX };
                cells.iter().map(|text| text.map(str::to_string)).collect()
            }));
        }
        bytes_wanted *= 4;
    }
}

struct CsvWorker {
    dialect: Dialect,
    header: bool,
    columns: usize,
    batch_rows: usize,
    schema: SchemaRef,
    builder: BatchBuilder,
    fields: Fields,
    pool: BufferPool,
}

impl Worker<Block> for CsvWorker {
    fn run(&mut self, block: Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<UnitEnd, UnitError> {
        if let Some(error) = block.failed {
            return Err(UnitError { error, line: None, row: None });
        }
        let rows = self.parse(&block, emit)?;
        let end = UnitEnd { lines: count_lines(&block.bytes), rows, bytes: block.bytes.len() as u64 };
        self.pool.give(block.bytes);
        Ok(end)
    }
}

impl CsvWorker {
    /// Parses a block's records; the number of rows.
    fn parse(&mut self, block: &Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, UnitError> {
        let (text, ends_early) = block.valid_text();
        let start = if block.first { mark_bytes(text.as_bytes()) } else { 0 };
        let mut tokenizer = Tokenizer::new(text, start, &self.dialect);
        let mut rows = 0;
        if block.first && self.header {
            self.fields.clear();
            let header = tokenizer.record(None, &mut self.fields);
            let header = check_record(&header, start, &ends_early).and(header);
            header.map_err(|bad| UnitError { row: None, ..record_error(block, bad, 0) })?;
        }
        loop {
            let step = RECORDS_A_STEP.min(self.batch_rows - self.builder.rows());
            let (ended, bad) = tokenize(&mut tokenizer, self.columns, step, &ends_early, &mut self.fields);
            if let Err(cell) = self.builder.append(text, &self.fields, self.columns) {
                let line = block.lines_before(self.fields.starts[cell.row] as usize);
                let column = self.schema.field(cell.column).name().clone();
                let error = IngestError::new("", cell.reason).in_column(column);
                return Err(UnitError { error, line: Some(line), row: Some(rows + cell.row as u64) });
            }
            rows += self.fields.rows() as u64;
            if let Some(bad) = bad {
                return Err(record_error(block, bad, rows));
            }
            if self.builder.rows() > 0 && (ended || self.builder.rows() >= self.batch_rows) {
                let batch = self.builder.finish().map_err(|error| UnitError { error, line: None, row: None })?;
                if !emit(batch) {
                    return Ok(rows);
                }
            }
            if ended {
                return Ok(rows);
            }
        }
    }
}

/// Tokenizes up to `step` records; true at the end of the text, and the record that could not be.
fn tokenize(
    tokenizer: &mut Tokenizer<'_>,
    columns: usize,
    step: usize,
    ends_early: &Option<Reason>,
    fields: &mut Fields,
) -> (bool, Option<BadRecord>) {
    fields.clear();
    while fields.rows() < step {
        let start = tokenizer.position();
        let found = tokenizer.record(Some(columns), fields);
        if let Err(bad) = check_record(&found, start, ends_early) {
            // A record that runs into the end of a text that ends early is not one of the rows.
            if found.is_ok_and(|found| found != Found::End) {
                fields.starts.pop();
            }
            return (true, Some(bad));
        }
        match found {
            Ok(Found::End) => return (true, None),
            Ok(Found::Record { .. }) => {}
            Err(bad) => return (true, Some(bad)),
        }
    }
    (false, None)
}

/// Where the text ends early, whatever touches its end is bad for that reason.
fn check_record(found: &Result<Found, BadRecord>, start: usize, ends_early: &Option<Reason>) -> Result<(), BadRecord> {
    let at_end = match found {
        Ok(Found::End | Found::Record { closed: false }) => true,
        Ok(Found::Record { closed: true }) => false,
        Err(bad) => bad.at_end,
    };
    match ends_early {
        Some(reason) if at_end => Err(BadRecord { offset: start, reason: reason.clone(), at_end }),
        _ => Ok(()),
    }
}

fn record_error(block: &Block, bad: BadRecord, row: u64) -> UnitError {
    // The search for the record may have started before empty lines: the line is the record's own.
    let mut offset = bad.offset;
    while let Some(b'\n' | b'\r') = block.bytes.get(offset) {
        offset += 1;
    }
    UnitError { error: IngestError::new("", bad.reason), line: Some(block.lines_before(offset)), row: Some(row) }
}
