//! CSV files: header, blocks, parallel parsing.
//!
//! One thread at a time reads a block and finds the end of its last record, which only requires a search for quotes.
//! Everything else, from fields to typed columns, is done by all threads in parallel. Positions within a block (lines,
//! rows, bytes) are relative to its start; the consumer adds those of the earlier blocks.

use std::borrow::Cow;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::IngestOptions;
use super::blocks::{Block, BlockSource, BufferPool};
use super::column_names::{column_names, match_names};
use super::columns::{BadCell, BatchBuilder, CellRules};
use super::csv_tokens::{BadRecord, Dialect, RecordEnd, Tokenizer, count_lines, has_lone_return, last_record_end};
use super::delimiters::UNIT;
use super::error::{IngestError, Reason};
use super::fields::{Cells, Field, Fields};
use super::headers::is_header_for;
use super::opening::{NewLine, Opening, extension};
use super::parallel::{MorselEnd, MorselError, Ordered, Worker};
use super::rejects::{Reject, RejectKind, RejectSink};

/// The number of records that are tokenized before their columns are parsed, so that text and fields remain in the
/// second-level cache.
const RECORDS_A_STEP: usize = 1024;

/// The layout of a CSV file, which is determined once for all readers.
#[derive(Debug, Clone)]
pub(crate) struct CsvLayout {
    pub dialect: Dialect,
    /// Whether the first record contains names.
    pub header: bool,
    /// The names of the columns, for errors: as many as a record has fields.
    pub names: Vec<String>,
    /// The start of the first record, after a byte order mark, skipped lines, and a line that specifies the delimiter.
    pub start: usize,
    /// The number of lines before it.
    pub skipped_lines: usize,
    /// Lines end with carriage returns alone.
    pub returns: bool,
    pub new_line: NewLine,
}

impl CsvLayout {
    pub(super) fn new(opening: &Opening, header: bool, names: Vec<String>) -> CsvLayout {
        let Opening { dialect, start, skipped_lines, returns, new_line, .. } = opening;
        let (dialect, start, skipped_lines) = (dialect.clone(), *start, *skipped_lines);
        CsvLayout { dialect, header, names, start, skipped_lines, returns: *returns, new_line: *new_line }
    }

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
            let builder = BatchBuilder::new(schema, sources.clone(), |_| rules, options)?;
            Ok(CsvParser::new(&layout, builder, options, pool.clone()))
        })
        .collect::<Result<Vec<_>, Reason>>()
        .map_err(|reason| IngestError::new(&name, reason))?;
    Ordered::start(name, source, workers)
}

/// The layout of a file for a table.
///
/// # Errors
/// The file cannot be read, or its columns do not match those of the table.
pub(crate) fn layout(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<CsvLayout, IngestError> {
    layout_for(path, schema, options).map(|(layout, _)| layout)
}

/// The layout of a file for a table, and the field from which each column is read.
fn layout_for(
    path: &Path,
    schema: &SchemaRef,
    options: &IngestOptions,
) -> Result<(CsvLayout, Vec<Option<usize>>), IngestError> {
    let width = schema.fields().len();
    let opened = Opening::of(path, options, Some(schema))?;
    let by_position = |header| {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        (CsvLayout::new(&opened, header, names), (0..width).map(Some).collect())
    };
    let Some(first) = &opened.first else { return Ok(by_position(false)) };
    let is_header = || is_header_for(first, schema, &options.forms) && extension(path) != "tbl";
    if !options.header.unwrap_or_else(is_header) {
        return Ok(by_position(false));
    }
    let mut first = first.clone();
    // If the header has dbgen's trailing delimiter, too, it has an additional empty name.
    let ends_empty = first.last().is_some_and(|name| name.as_ref().is_none_or(String::is_empty));
    if opened.dialect.delimiter == b'|' && first.len() == width + 1 && ends_empty {
        first.pop();
    }
    let names = column_names(&first, true, options.normalize_names);
    let line = opened.skipped_lines as u64 + 1;
    let mismatch = |text| IngestError::new(path.display().to_string(), Reason::ColumnMismatch(text)).at_line(line);
    match match_names(&names, schema).map_err(mismatch)? {
        Some(sources) => Ok((CsvLayout::new(&opened, true, names), sources)),
        // No name matches, so these are other names for the same columns.
        None => Ok(by_position(true)),
    }
}

/// Parses blocks of one file.
pub(crate) struct CsvParser {
    layout: CsvLayout,
    batch_rows: usize,
    builder: BatchBuilder,
    fields: Fields,
    pool: BufferPool,
    /// Whether malformed records, and those with a value that has no place in its column, are left out.
    ignores_errors: bool,
    /// What is left out.
    sink: Option<RejectSink>,
    wide_delimiter: Option<String>,
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
    pub fn new(layout: &CsvLayout, builder: BatchBuilder, options: &IngestOptions, pool: BufferPool) -> Self {
        Self {
            layout: layout.clone(),
            batch_rows: options.batch_rows.max(1),
            builder,
            fields: Fields::default(),
            pool,
            ignores_errors: options.ignore_errors,
            sink: options.rejects.clone(),
            wide_delimiter: options.wide_delimiter.clone(),
        }
    }

    /// Parses the records of a block, and returns the number of rows.
    fn parse(&mut self, block: &Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, MorselError> {
        let text = BlockText::of(block, self.ignores_errors);
        let columns = self.layout.names.len();
        let start = if block.first { self.layout.start.min(text.text.len()) } else { 0 };
        let dialect = self.layout.dialect.clone();
        let mut tokenizer = Tokenizer::new(&text.text, start, &dialect);
        let mut rows = 0;
        if block.first && self.layout.header {
            self.fields.clear();
            let header = tokenizer.record(None, &mut self.fields);
            let header = check_record(&header, start, &text.ends_early).and(header);
            header.map_err(|bad| MorselError { row: None, ..record_error(&text.text, bad, 0) })?;
        }
        loop {
            let step = RECORDS_A_STEP.min(self.batch_rows - self.builder.rows());
            let (mut ended, mut bad) = tokenize(&mut tokenizer, columns, step, &text.ends_early, &mut self.fields);
            let returned = if text.mixes_ends { cut_at_return(&text.text, &mut self.fields, columns) } else { None };
            if let Some(returned) = returned {
                (ended, bad) = (true, Some(returned));
            }
            if self.ignores_errors {
                ended = self.leave_out(block, &text, bad.take(), &mut tokenizer)? && ended;
            }
            let refused = self.builder.append(&text.text, &self.fields, columns);
            let refused = refused.map_err(|cell| self.cell_error(&text.text, cell, rows))?;
            self.note_cells(block, &text, refused);
            rows += self.fields.rows() as u64;
            if let Some(bad) = bad {
                return Err(record_error(&text.text, bad, rows));
            }
            if self.builder.rows() > 0 && (ended || self.builder.rows() >= self.batch_rows) {
                let batch = self.builder.finish().map_err(|error| MorselError { error, line: None, row: None })?;
                if batch.num_rows() > 0 && !emit(batch) {
                    return Ok(rows);
                }
            }
            if ended {
                return Ok(rows);
            }
        }
    }

    fn cell_error(&self, text: &str, cell: BadCell, rows: u64) -> MorselError {
        let line = count_lines(&text.as_bytes()[..self.fields.starts[cell.row] as usize]);
        let column = self.builder.schema().field(cell.column).name().clone();
        let error = IngestError::new("", cell.reason).in_column(column);
        MorselError { error, line: Some(line), row: Some(rows + cell.row as u64) }
    }
}

/// Leaving out records that are wrong.
impl CsvParser {
    /// Leaves out a malformed record, and those with bytes that are no text. False if there are more records behind the
    /// malformed one.
    fn leave_out(
        &mut self,
        block: &Block,
        text: &BlockText<'_>,
        bad: Option<BadRecord>,
        tokenizer: &mut Tokenizer<'_>,
    ) -> Result<bool, MorselError> {
        // Of a malformed record, some fields may be there.
        self.fields.truncate(self.fields.rows(), self.layout.names.len());
        let mut rejects = vec![];
        let end = bad.as_ref().map_or(tokenizer.position(), |bad| bad.start);
        let starts = self.fields.starts.clone();
        let is_marked = |row: usize| {
            let next = starts.get(row + 1).map_or(end, |next| *next as usize);
            text.marks.iter().any(|mark| (starts[row] as usize..next).contains(mark))
        };
        if !text.marks.is_empty() {
            for row in (0..starts.len()).filter(|row| is_marked(*row)) {
                let reason = Reason::InvalidUtf8 { byte: 0 };
                rejects.push(text.reject(block, starts[row] as usize, &reason, &self.layout.names));
            }
            self.fields.retain_rows(self.layout.names.len(), |row| !is_marked(row));
        }
        let mut is_end = true;
        if let Some(bad) = bad {
            if matches!(bad.reason, Reason::RecordTooLong { .. }) {
                return Err(record_error(&text.text, bad, 0));
            }
            rejects.push(text.reject(block, bad.start, &bad.reason, &self.layout.names));
            if !matches!(bad.reason, Reason::FieldCount { .. }) {
                tokenizer.recover(bad.start);
            }
            is_end = false;
        }
        self.keep(rejects);
        Ok(is_end)
    }

    /// Keeps what is left out, if it is asked for.
    fn keep(&self, mut rejects: Vec<Reject>) {
        let Some(sink) = &self.sink else { return };
        if let Some(delimiter) = &self.wide_delimiter {
            rejects.iter_mut().for_each(|reject| reject.text = reject.text.replace(char::from(UNIT), delimiter));
        }
        sink.add(rejects);
    }

    /// Keeps the records with values that their columns refuse.
    fn note_cells(&self, block: &Block, text: &BlockText<'_>, refused: Vec<BadCell>) {
        if self.sink.is_none() {
            return;
        }
        let reject = |cell: BadCell| {
            let name = self.builder.schema().field(cell.column).name().clone();
            let (value, expected) = match &cell.reason {
                Reason::Value { value, expected, .. } => (value.as_str(), expected.as_str()),
                _ => ("", ""),
            };
            let message = format!(
                "Error when converting column \"{name}\". Could not convert string \"{value}\" to '{expected}'"
            );
            let start = self.fields.starts[cell.row] as usize;
            let place = self.builder.source(cell.column).map(|source| source as u64 + 1);
            let kind = RejectKind::Cast;
            Reject { column: place, name: Some(name), kind, message, ..text.reject(block, start, &cell.reason, &[]) }
        };
        self.keep(refused.into_iter().map(reject).collect());
    }
}

/// The text of a block.
struct BlockText<'a> {
    text: Cow<'a, str>,
    /// Where bytes were that are not UTF-8, if such records are left out.
    marks: Vec<usize>,
    /// Why the rest of the block is not text.
    ends_early: Option<Reason>,
    /// There are carriage returns that are not part of a line end.
    mixes_ends: bool,
}

impl<'a> BlockText<'a> {
    fn of(block: &'a Block, is_marked: bool) -> BlockText<'a> {
        let (text, marks, ends_early) = match is_marked {
            true => {
                let (text, marks) = block.marked_text();
                (text, marks, block.too_long.map(|limit_bytes| Reason::RecordTooLong { limit_bytes }))
            }
            false => {
                let (text, ends_early) = block.valid_text();
                (Cow::Borrowed(text), vec![], ends_early)
            }
        };
        let mixes_ends = has_lone_return(text.as_bytes());
        BlockText { text, marks, ends_early, mixes_ends }
    }

    /// A record that is left out.
    fn reject(&self, block: &Block, start: usize, reason: &Reason, names: &[String]) -> Reject {
        let rest = &self.text[start..];
        let blank = rest.len() - rest.trim_start_matches(['\n', '\r']).len();
        let start = start + blank;
        let line = self.text[start..].lines().next().unwrap_or_default();
        let (column, name, message) = match reason {
            Reason::FieldCount { found, expected } => {
                let place = if found < expected { *found } else { expected + 1 };
                let message = format!("Expected Number of Columns: {expected} Found: {found}");
                (Some(place as u64), names.get(*found).filter(|_| found < expected).cloned(), message)
            }
            Reason::InvalidUtf8 { .. } => (
                None,
                None,
                "Invalid unicode (byte sequence mismatch) detected. This file is not utf-8 encoded.".into(),
            ),
            other => (None, None, other.to_string()),
        };
        Reject {
            line: block.first_line + count_lines(&self.text.as_bytes()[..start]) + 1,
            line_byte: block.first_byte + start as u64 + 1,
            column,
            name,
            kind: RejectKind::of_record(reason),
            text: line.to_owned(),
            message,
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
    Some(BadRecord { start: offset, offset, reason: Reason::Malformed(text.into()), at_end: false })
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
        Some(reason) if at_end => Err(BadRecord { start, offset: start, reason: reason.clone(), at_end }),
        _ => Ok(()),
    }
}

fn record_error(text: &str, bad: BadRecord, row: u64) -> MorselError {
    // The search for the record may have begun before empty lines, but the reported line is that of the record.
    let mut offset = bad.offset;
    while let Some(b'\n' | b'\r') = text.as_bytes().get(offset) {
        offset += 1;
    }
    let line = count_lines(&text.as_bytes()[..offset.min(text.len())]);
    MorselError { error: IngestError::new("", bad.reason), line: Some(line), row: Some(row) }
}
