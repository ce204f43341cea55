//! CSV files: header, blocks, parallel parsing.
//!
//! One thread at a time reads a block and finds the end of its last record, which only requires a search for quotes.
//! Everything else, from fields to typed columns, is done by all threads in parallel. Positions within a block (lines,
//! rows, bytes) are relative to its start; the consumer adds those of the earlier blocks.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::blocks::{Block, BlockSource, BufferPool, check_head, read_head, replace_returns, utf8_prefix};
use super::columns::{BatchBuilder, CellRules};
use super::csv_tokens::{BadRecord, Dialect, RecordEnd, Tokenizer, count_lines, has_lone_return, last_record_end};
use super::error::{IngestError, Reason};
use super::fields::{Cells, Field, Fields};
use super::headers::is_header_for;
use super::infer;
use super::parallel::{MorselEnd, MorselError, Ordered, Worker};
use super::{FileFormat, IngestOptions, NO_QUOTE};

/// The number of records that are tokenized before their columns are parsed, so that text and fields remain in the
/// second-level cache.
const RECORDS_A_STEP: usize = 1024;

/// The layout of a CSV file, which is determined once for all readers.
#[derive(Debug, Clone)]
pub(crate) struct CsvLayout {
    pub dialect: Dialect,
    /// Whether the first record contains names.
    pub header: bool,
    /// Fields of each record.
    pub columns: usize,
    /// The start of the first record, after a byte order mark, skipped lines, and a line that specifies the delimiter.
    pub start: usize,
    /// Lines end with carriage returns alone.
    pub returns: bool,
}

impl CsvLayout {
    /// The file's blocks.
    pub fn blocks(&self, path: &Path, options: &IngestOptions, pool: BufferPool) -> Result<BlockSource, IngestError> {
        let (dialect, start) = (self.dialect.clone(), self.start);
        let cut = move |bytes: &[u8], first: bool| {
            let start = if first { start } else { 0 };
            last_record_end(bytes.get(start..)?, &dialect).map(|end| start + end)
        };
        let source = BlockSource::open(path, options, pool, Box::new(cut))?;
        Ok(if self.returns { source.with_returns(self.dialect.quote) } else { source })
    }
}

/// Starts the threads that read a CSV file as batches of `schema`.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let name = path.display().to_string();
    let (layout, sources) = layout_for(path, schema, options)?;
    let pool = BufferPool::default();
    let source = layout.blocks(path, options, pool.clone())?;
    let workers = (0..options.threads.max(1))
        .map(|_| {
            let rules =
                CellRules { empty_is_text: layout.dialect.nulls.iter().any(String::is_empty), ..CellRules::CSV };
            let builder = BatchBuilder::new(schema, sources.clone(), |_| rules)?;
            Ok(CsvParser::new(&layout, schema, builder, options, pool.clone()))
        })
        .collect::<Result<Vec<_>, Reason>>()
        .map_err(|reason| IngestError::new(&name, reason))?;
    Ordered::start(name, source, workers)
}

/// The layout of a file for a table, and the field from which each column is read.
fn layout_for(
    path: &Path,
    schema: &SchemaRef,
    options: &IngestOptions,
) -> Result<(CsvLayout, Vec<Option<usize>>), IngestError> {
    let width = schema.fields().len();
    let opened = Opening::of(path, options, Some(width))?;
    let layout = |header, columns| CsvLayout { header, columns, ..opened.layout.clone() };
    let by_position = |header, columns: usize| (layout(header, columns), (0..width).map(Some).collect());
    let Some(first) = opened.first else { return Ok(by_position(false, width)) };
    let header = options.header.unwrap_or_else(|| is_header_for(&first, schema) && extension(path) != "tbl");
    if !header {
        return Ok(by_position(false, width));
    }
    let mut first = first;
    // If the header has dbgen's trailing delimiter, too, it has an additional empty name.
    let ends_empty = first.last().is_some_and(|name| name.as_ref().is_none_or(String::is_empty));
    if opened.layout.dialect.delimiter == b'|' && first.len() == width + 1 && ends_empty {
        first.pop();
    }
    let names = infer::column_names(&first, true);
    let mismatch = |text| IngestError::new(path.display().to_string(), Reason::ColumnMismatch(text)).at_line(1);
    match infer::match_names(&names, schema).map_err(mismatch)? {
        Some(sources) => Ok((layout(true, names.len()), sources)),
        // No name matches, so these are other names for the same columns.
        None => Ok(by_position(true, width)),
    }
}

/// The information in the first bytes of a file that does not require types.
pub(super) struct Opening {
    pub layout: CsvLayout,
    /// The fields of the first record, `None` being NULL; `None` for a file without records.
    pub first: Option<Vec<Option<String>>>,
}

impl Opening {
    /// Reads the first bytes of a file. If neither an option nor the extension specifies the delimiter, it is detected;
    /// `expected` is the expected number of fields.
    pub fn of(path: &Path, options: &IngestOptions, expected: Option<usize>) -> Result<Self, IngestError> {
        let mut bytes_wanted = 64 << 10;
        loop {
            let mut head = read_head(path, bytes_wanted)?;
            let complete = head.len() < bytes_wanted;
            let mark = check_head(path, &head)?;
            let returns = replace_returns(&mut head, options.quote);
            let text = utf8_prefix(&head);
            let (start, named) = preamble(text, mark.min(text.len()), options.skip);
            let delimiter = match options.delimiter.or(named).or_else(|| by_extension(path)) {
                Some(delimiter) => delimiter,
                None => found_delimiter(&text[start..], options, expected, complete),
            };
            let dialect = dialect(path, options, delimiter)?;
            let mut fields = Fields::default();
            let found = Tokenizer::new(text, start, &dialect).record(None, &mut fields);
            let is_last = complete || head.len() >= options.record_bytes_max();
            if is_last || matches!(found, Ok(RecordEnd::Record { closed: true })) {
                // A malformed record is reported with its place when it is read.
                let first = matches!(found, Ok(RecordEnd::Record { .. })).then(|| {
                    let cells = Cells { text, fields: &fields, column: 0, columns: 1, rows: usize::MAX };
                    cells.iter().map(|text| text.map(str::to_string)).collect()
                });
                let layout = CsvLayout { dialect, header: false, columns: 0, start, returns };
                return Ok(Opening { layout, first });
            }
            bytes_wanted *= 4;
        }
    }
}

/// The start of the records, and the delimiter of a line `sep=;` before them, which spreadsheets write.
fn preamble(text: &str, mark: usize, skip: usize) -> (usize, Option<u8>) {
    let line_end = |from: usize| text[from..].find('\n').map(|at| from + at + 1);
    let mut start = mark;
    for _ in 0..skip {
        start = line_end(start).unwrap_or(text.len());
    }
    let line = text[start..].lines().next().unwrap_or_default().trim_end_matches('\r');
    match line.as_bytes() {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] if delimiter.is_ascii() => {
            (line_end(start).unwrap_or(text.len()), Some(*delimiter))
        }
        _ => (start, None),
    }
}

fn by_extension(path: &Path) -> Option<u8> {
    match extension(path).as_str() {
        "tbl" => Some(b'|'),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}

/// The delimiters that are detected, most likely first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// The maximum number of records for detecting the delimiter.
const DELIMITED_RECORDS: usize = 64;

/// The delimiter that splits all of the first records into equal numbers of fields: the expected number, or otherwise
/// the largest. A comma if there is none.
fn found_delimiter(text: &str, options: &IngestOptions, expected: Option<usize>, complete: bool) -> u8 {
    let fields_of = |delimiter: u8| {
        let dialect =
            Dialect { delimiter, quote: options.quote, escape: options.escape.unwrap_or(options.quote), nulls: vec![] };
        let mut tokenizer = Tokenizer::new(text, 0, &dialect);
        let mut width = None;
        for _ in 0..DELIMITED_RECORDS {
            let mut fields = Fields::default();
            match tokenizer.record(None, &mut fields) {
                Ok(RecordEnd::Record { closed }) if closed || complete => {
                    let found = fields.fields.len();
                    if width.is_some_and(|width| width != found) {
                        return None;
                    }
                    width = Some(found);
                }
                Ok(_) => break,
                Err(bad) if bad.at_end && !complete => break,
                Err(_) => return None,
            }
        }
        width
    };
    let usable = |delimiter: &u8| *delimiter != options.quote && Some(*delimiter) != options.escape;
    let widths: Vec<(u8, usize)> = DELIMITERS
        .into_iter()
        .filter(usable)
        .filter_map(|delimiter| Some((delimiter, fields_of(delimiter)?)))
        .collect();
    if let Some(expected) = expected {
        let fits = widths.iter().find(|(_, width)| *width == expected);
        return fits.map_or(b',', |(delimiter, _)| *delimiter);
    }
    // Among those with the most fields, the first is chosen.
    let best = widths.iter().rev().max_by_key(|(_, width)| *width);
    best.filter(|(_, width)| *width > 1).map_or(b',', |(delimiter, _)| *delimiter)
}

/// The delimiter, quote and escape character of a file.
fn dialect(path: &Path, options: &IngestOptions, delimiter: u8) -> Result<Dialect, IngestError> {
    let dialect = Dialect {
        delimiter,
        quote: options.quote,
        escape: options.escape.unwrap_or(options.quote),
        nulls: options.nulls.clone(),
    };
    let usable = |byte: u8| byte == NO_QUOTE || byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r');
    let problem = if !usable(delimiter) || !usable(dialect.quote) || !usable(dialect.escape) {
        "DELIMITER, QUOTE and ESCAPE must be single ASCII characters and no line ends"
    } else if delimiter == dialect.quote || delimiter == dialect.escape {
        "DELIMITER must differ from QUOTE and ESCAPE"
    } else {
        return Ok(dialect);
    };
    Err(IngestError::new(path.display().to_string(), Reason::BadOption(problem.into())))
}

/// The extension of a file, without that of its compression.
fn extension(path: &Path) -> String {
    FileFormat::extension_of(path).unwrap_or_default()
}

/// Parses blocks of one file.
pub(crate) struct CsvParser {
    layout: CsvLayout,
    batch_rows: usize,
    schema: SchemaRef,
    builder: BatchBuilder,
    fields: Fields,
    pool: BufferPool,
}

impl Worker<Block> for CsvParser {
    fn run(&mut self, block: Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<MorselEnd, MorselError> {
        if let Some(error) = block.failed {
            return Err(MorselError { error, line: None, row: None });
        }
        let rows = self.parse(&block, emit)?;
        let end = MorselEnd { lines: count_lines(&block.bytes), rows, bytes: block.bytes.len() as u64 };
        self.pool.give(block.bytes);
        Ok(end)
    }
}

impl CsvParser {
    pub fn new(
        layout: &CsvLayout,
        schema: &SchemaRef,
        builder: BatchBuilder,
        options: &IngestOptions,
        pool: BufferPool,
    ) -> Self {
        let (layout, schema, batch_rows) = (layout.clone(), Arc::clone(schema), options.batch_rows.max(1));
        Self { layout, batch_rows, schema, builder, fields: Fields::default(), pool }
    }

    /// Parses the records of a block, and returns the number of rows.
    fn parse(&mut self, block: &Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, MorselError> {
        let (text, ends_early) = block.valid_text();
        let columns = self.layout.columns;
        let start = if block.first { self.layout.start.min(text.len()) } else { 0 };
        let mixes_ends = has_lone_return(text.as_bytes());
        let mut tokenizer = Tokenizer::new(text, start, &self.layout.dialect);
        let mut rows = 0;
        if block.first && self.layout.header {
            self.fields.clear();
            let header = tokenizer.record(None, &mut self.fields);
            let header = check_record(&header, start, &ends_early).and(header);
            header.map_err(|bad| MorselError { row: None, ..record_error(block, bad, 0) })?;
        }
        loop {
            let step = RECORDS_A_STEP.min(self.batch_rows - self.builder.rows());
            let (mut ended, mut bad) = tokenize(&mut tokenizer, columns, step, &ends_early, &mut self.fields);
            if let Some(mixed) =
                Some(&mut self.fields).filter(|_| mixes_ends).and_then(|f| cut_at_return(text, f, columns))
            {
                (ended, bad) = (true, Some(mixed));
            }
            if let Err(cell) = self.builder.append(text, &self.fields, columns) {
                let line = block.lines_before(self.fields.starts[cell.row] as usize);
                let column = self.schema.field(cell.column).name().clone();
                let error = IngestError::new("", cell.reason).in_column(column);
                return Err(MorselError { error, line: Some(line), row: Some(rows + cell.row as u64) });
            }
            rows += self.fields.rows() as u64;
            if let Some(bad) = bad {
                return Err(record_error(block, bad, rows));
            }
            if self.builder.rows() > 0 && (ended || self.builder.rows() >= self.batch_rows) {
                let batch = self.builder.finish().map_err(|error| MorselError { error, line: None, row: None })?;
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

/// Truncates the records before one with a carriage return in an unquoted value, because it was probably a line end.
fn cut_at_return(text: &str, fields: &mut Fields, columns: usize) -> Option<BadRecord> {
    let cells = Cells { text, fields, column: 0, columns: 1, rows: usize::MAX };
    let is_cut = |field: Field| !field.is_quoted() && cells.text_of(field).is_some_and(|text| text.contains('\r'));
    let row = cells.raw().position(is_cut)? / columns.max(1);
    let offset = *fields.starts.get(row)? as usize;
    fields.truncate(row, columns);
    let text = "a carriage return in a value that is not quoted: the file's line ends are mixed";
    Some(BadRecord { offset, reason: Reason::Malformed(text.into()), at_end: false })
}

/// Tokenizes up to `step` records. Returns true at the end of the text, and the malformed record, if any.
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
            // If the text ends early, a record that touches its end is not counted as a row.
            if found.is_ok_and(|found| found != RecordEnd::End) {
                fields.starts.pop();
            }
            return (true, Some(bad));
        }
        match found {
            Ok(RecordEnd::End) => return (true, None),
            Ok(RecordEnd::Record { .. }) => {}
            Err(bad) => return (true, Some(bad)),
        }
    }
    (false, None)
}

/// If the text ends early, a record at its end is malformed for that reason.
fn check_record(
    found: &Result<RecordEnd, BadRecord>,
    start: usize,
    ends_early: &Option<Reason>,
) -> Result<(), BadRecord> {
    let at_end = match found {
        Ok(RecordEnd::End | RecordEnd::Record { closed: false }) => true,
        Ok(RecordEnd::Record { closed: true }) => false,
        Err(bad) => bad.at_end,
    };
    match ends_early {
        Some(reason) if at_end => Err(BadRecord { offset: start, reason: reason.clone(), at_end }),
        _ => Ok(()),
    }
}

fn record_error(block: &Block, bad: BadRecord, row: u64) -> MorselError {
    // The search for the record may have begun before empty lines, but the reported line is that of the record.
    let mut offset = bad.offset;
    while let Some(b'\n' | b'\r') = block.bytes.get(offset) {
        offset += 1;
    }
    MorselError { error: IngestError::new("", bad.reason), line: Some(block.lines_before(offset)), row: Some(row) }
}
