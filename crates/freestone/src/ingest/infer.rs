//! Types and names of columns that a file does not declare. They are inferred from a sample, and checked again for
//! every row that is read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ColumnField, Schema, SchemaRef, TimeUnit};

use super::blocks::{BufferPool, is_plain, read_head, replace_returns, utf8_prefix};
use super::csv::{CsvLayout, Opening};
use super::csv_tokens::{Dialect, RecordEnd, Tokenizer, count_lines, find_byte, last_record_end};
use super::error::{IngestError, Reason};
use super::fields::{Cells, Fields};
use super::headers::{Below, is_header_above};
use super::parallel::Source;
use super::values::{self, ZoneRule, has_leading_zero, is_digits};
use super::{FileFormat, IngestOptions};
use crate::distinct_names::different_names;

/// The types that all values so far have. Initially all types are set, and each value removes those that it does not
/// have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u16);

const BOOLEAN: u16 = 1;
const BIGINT: u16 = 2;
const DOUBLE: u16 = 4;
const DATE: u16 = 8;
const TIME: u16 = 16;
const TIMESTAMP: u16 = 32;
const TIMESTAMP_ZONE: u16 = 64;
/// No value has been seen.
const UNSEEN: u16 = 128;

impl Kinds {
    /// Only text.
    pub const TEXT: Kinds = Kinds(0);
    pub const ANY: Kinds = Kinds(0xff);

    /// The types that both have: those of a column in two files.
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    pub fn is_seen(self) -> bool {
        self.0 & UNSEEN == 0
    }

    /// Restricts the types by an unquoted CSV value, or any text that may have any type.
    pub fn see_text(&mut self, text: &str) {
        self.see(text, BOOLEAN | BIGINT | DOUBLE | DATE | TIME | TIMESTAMP | TIMESTAMP_ZONE);
    }

    /// Restricts the types by a JSON string: a date or time, but not a number.
    pub fn see_json_string(&mut self, text: &str) {
        self.see(text, DATE | TIME | TIMESTAMP | TIMESTAMP_ZONE);
    }

    /// Restricts the types by a JSON number, `true` or `false`.
    pub fn see_json_literal(&mut self, text: &str) {
        self.see(text, BOOLEAN | BIGINT | DOUBLE);
    }

    fn see(&mut self, text: &str, possible: u16) {
        let mut left = self.0 & possible;
        for kind in [BOOLEAN, BIGINT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMP_ZONE] {
            if left & kind != 0 && !reads_as(text.as_bytes(), kind) {
                left &= !kind;
            }
        }
        self.0 = left;
    }

    /// The first remaining type; VARCHAR for a column without values.
    pub fn data_type(self) -> DataType {
        let has = |kind| self.0 & (kind | UNSEEN) == kind;
        if has(BOOLEAN) {
            DataType::Boolean
        } else if has(BIGINT) {
            DataType::Int64
        } else if has(DOUBLE) {
            DataType::Float64
        } else if has(DATE) {
            DataType::Date32
        } else if has(TIME) {
            DataType::Time64(TimeUnit::Microsecond)
        } else if has(TIMESTAMP) {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else if has(TIMESTAMP_ZONE) {
            DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
        } else {
            DataType::Utf8View
        }
    }
}

/// Whether a value clearly has a type. This is stricter than the parsers: 0 and 1 are numbers, 007 is a code.
fn reads_as(bytes: &[u8], kind: u16) -> bool {
    let micros = TimeUnit::Microsecond;
    match kind {
        BOOLEAN => bytes.eq_ignore_ascii_case(b"true") || bytes.eq_ignore_ascii_case(b"false"),
        BIGINT => values::signed(bytes).is_ok() && !has_leading_zero(bytes),
        DOUBLE => is_double(bytes),
        // A time behind it, also midnight, makes a timestamp.
        DATE => !bytes.contains(&b':') && values::date(bytes).is_ok(),
        TIME => values::time(bytes, micros).is_ok(),
        TIMESTAMP => values::timestamp(bytes, micros, ZoneRule::Naive).is_ok(),
        _ => values::timestamp(bytes, micros, ZoneRule::OffsetNeeded).is_ok(),
    }
}

/// Whether a number is exact as DOUBLE if it is an integer, so that long identifiers remain text.
fn is_double(bytes: &[u8]) -> bool {
    const EXACT_MAX: u64 = 1 << 53;
    let value = values::float64(bytes);
    if has_leading_zero(bytes) || value.is_err() || value.is_ok_and(|value| values::loses_whole_digits(bytes, value)) {
        return false;
    }
    match values::signed(bytes) {
        Ok(integer) => integer.unsigned_abs() <= EXACT_MAX,
        Err(_) => !is_digits(bytes),
    }
}

/// The index of a column: by exact name, or otherwise the only one that differs in case.
pub(super) fn column_index(schema: &Schema, name: &str) -> Option<usize> {
    let name = name.trim();
    schema.fields().iter().position(|field| field.name() == name).or_else(|| {
        let mut found =
            (0..schema.fields().len()).filter(|index| schema.field(*index).name().eq_ignore_ascii_case(name));
        found.next().filter(|_| found.next().is_none())
    })
}

/// The field from which each column is read, by the names of the header. `None` if no name is known and their number is
/// that of the columns, which are then matched by position.
pub(super) fn match_names(names: &[String], schema: &Schema) -> Result<Option<Vec<Option<usize>>>, String> {
    let found: Vec<Option<usize>> = names.iter().map(|name| column_index(schema, name)).collect();
    let columns = || schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    if found.iter().all(Option::is_none) && names.len() == schema.fields().len() {
        return Ok(None);
    }
    let mut sources = vec![None; schema.fields().len()];
    for (index, (name, column)) in names.iter().zip(found).enumerate() {
        let Some(column) = column else {
            return Err(format!("the header names '{name}', which is no column of the table ({})", columns()));
        };
        if sources[column].replace(index).is_some() {
            return Err(format!("the header names column '{name}' twice"));
        }
    }
    match (0..sources.len()).find(|column| sources[*column].is_none() && !schema.field(*column).is_nullable()) {
        Some(column) => Err(format!("the header lacks column '{}', which is NOT NULL", schema.field(column).name())),
        None => Ok(Some(sources)),
    }
}

/// The bytes of the first sample, and the number and bytes of those at equal distances through the file.
const HEAD_BYTES: usize = 4 << 20;
const PROBES: u64 = 16;
const PROBE_BYTES: usize = 64 << 10;

/// The inferred properties of a CSV file.
#[derive(Debug, Clone)]
pub(crate) struct CsvFile {
    pub layout: CsvLayout,
    /// The distinct names of the columns: from the header, or `column1`, ….
    pub names: Vec<String>,
    /// The types that the values of each column have.
    pub kinds: Vec<Kinds>,
    /// The approximate bytes of a row.
    pub row_bytes: usize,
}

/// The schema of a CSV file: names from its header (else `column1`, …), types from its first rows and from probes
/// through the rest of it. All columns may be NULL.
pub(super) fn csv_schema(path: &Path, options: &IngestOptions) -> Result<SchemaRef, IngestError> {
    let file = csv_file(path, options, HEAD_BYTES)?;
    let fields = file.names.into_iter().zip(&file.kinds);
    let fields: Vec<_> = fields.map(|(name, kinds)| ColumnField::new(name, kinds.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Samples the first bytes of a CSV file and other parts of it.
pub(crate) fn csv_file(path: &Path, options: &IngestOptions, head_bytes: usize) -> Result<CsvFile, IngestError> {
    let Opening { layout, .. } = Opening::of(path, options, None)?;
    let dialect = &layout.dialect;
    let mut head = read_head(path, head_bytes)?;
    let mut whole = head.len() < head_bytes;
    // If a record is longer than the sample, the sample is extended to the maximum length of a record.
    let first_end = |head: &[u8]| head.get(layout.start..).and_then(|records| last_record_end(records, dialect));
    if !whole && first_end(&head).is_none() {
        head = read_head(path, options.record_bytes_max())?;
        whole = head.len() < options.record_bytes_max();
    }
    if layout.returns {
        replace_returns(&mut head, dialect.quote);
    }
    let text = utf8_prefix(&head);
    let mut sample = Sample { dialect, columns: 0, kinds: Vec::new(), fields: Fields::default(), rows: 0, bytes: 0 };
    let mut tokenizer = Tokenizer::new(text, layout.start.min(text.len()), dialect);
    let located = |offset: usize, reason| {
        IngestError::new(path.display().to_string(), reason).at_line(count_lines(&head[..offset]) + 1)
    };
    match tokenizer.record(None, &mut sample.fields) {
        Err(bad) => return Err(located(bad.offset, bad.reason)),
        Ok(RecordEnd::End) if text.len() < head.len() => {
            return Err(located(text.len(), Reason::InvalidUtf8 { byte: text.len() as u64 }));
        }
        Ok(RecordEnd::End) => {
            let reason = Reason::Malformed("the file is empty: it has neither a header nor rows".into());
            return Err(IngestError::new(path.display().to_string(), reason));
        }
        Ok(RecordEnd::Record { .. }) => {}
    }
    let first = sample.first_record(text, &head, tokenizer.position());
    sample.columns = first.len();
    sample.kinds = vec![Kinds::ANY; first.len()];
    let first_fields = std::mem::take(&mut sample.fields);
    let all = options.sample_rows == usize::MAX;
    let position = tokenizer.position();
    let seen_to = match all && !whole {
        true => text.len(),
        false => sample.see_records(text, tokenizer.position(), whole, options.sample_rows),
    };
    if all && !whole {
        see_file(path, &layout, options, &mut sample)?;
    } else if !whole && is_plain(path) {
        probe(path, &mut sample)?;
    } else if whole {
        probe_text(&text.as_bytes()[seen_to..], &mut sample);
    }
    let is_tbl = FileFormat::extension_of(path).is_some_and(|extension| extension == "tbl");
    let below = || Below::compare(&first, text, position, dialect);
    let header = options.header.unwrap_or_else(|| !is_tbl && is_header_above(&first, &sample.kinds, below));
    if !header {
        sample.fields = first_fields;
        sample.see_fields(text);
    }
    let names = column_names(&first, header);
    let kinds = match options.all_varchar {
        true => vec![Kinds::TEXT; first.len()],
        false => sample.kinds,
    };
    let seen = if all { sample.bytes.max(text.len()) } else { text.len().min(head_bytes) };
    let layout = CsvLayout { header, columns: first.len(), ..layout.clone() };
    Ok(CsvFile { layout, names, kinds, row_bytes: (seen / sample.rows.max(1)).max(1) })
}

/// Distinct names for the columns.
pub(super) fn column_names(first: &[Option<String>], header: bool) -> Vec<String> {
    let given = |(index, name): (usize, &Option<String>)| {
        let given = name.as_deref().map(str::trim).filter(|name| header && !name.is_empty());
        given.map_or_else(|| format!("column{}", index + 1), str::to_string)
    };
    different_names(first.iter().enumerate().map(given))
}

struct Sample<'a> {
    dialect: &'a Dialect,
    columns: usize,
    kinds: Vec<Kinds>,
    fields: Fields,
    rows: usize,
    /// Bytes of the file, where all of it is seen.
    bytes: usize,
}

impl Sample<'_> {
    /// The fields of the first record, without dbgen's empty field after the last `|`, which is detected if it is empty
    /// in the second record as well, or there is no second record. If a header ends with a delimiter and has one more
    /// field than the records, the empty name is removed.
    fn first_record(&mut self, text: &str, head: &[u8], next: usize) -> Vec<Option<String>> {
        let cells = Cells { text, fields: &self.fields, column: 0, columns: 1, rows: usize::MAX };
        let mut first: Vec<Option<String>> = cells.iter().map(|text| text.map(str::to_string)).collect();
        let trailing =
            |fields: &Fields| fields.fields.last().is_some_and(|field| field.is_empty() && !field.is_quoted());
        if first.len() > 1 && trailing(&self.fields) && next <= head.len() {
            let mut second = Fields::default();
            let found = Tokenizer::new(text, next, self.dialect).record(None, &mut second);
            let is_record = matches!(found, Ok(RecordEnd::Record { .. }));
            let is_narrower = is_record && second.fields.len() + 1 == first.len();
            if is_narrower || self.dialect.delimiter == b'|' && (!is_record || trailing(&second)) {
                first.pop();
                self.fields.fields.pop();
            }
        }
        first
    }

    fn see_fields(&mut self, text: &str) {
        let cells = Cells { text, fields: &self.fields, column: 0, columns: 1, rows: self.columns };
        for (kinds, value) in self.kinds.iter_mut().zip(cells.iter()) {
            // Programs that quote all fields write NULL as an empty text, which says nothing about the type.
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                kinds.see_text(value);
            }
        }
        self.rows += 1;
    }

    /// Samples up to `rows` records from `position` on, if they have the expected number of fields and end within the
    /// sample. A bad record is reported when it is read. Returns the end of the last record, or the end of the text if
    /// it cannot continue.
    fn see_records(&mut self, text: &str, position: usize, whole: bool, rows: usize) -> usize {
        let mut tokenizer = Tokenizer::new(text, position, self.dialect);
        for _ in 0..rows {
            self.fields.clear();
            match tokenizer.record(Some(self.columns), &mut self.fields) {
                Ok(RecordEnd::Record { closed }) if closed || whole => self.see_fields(text),
                Err(bad) if !bad.at_end => {
                    // The end of a record with text after a quote is not known.
                    if bad.reason == Reason::AfterQuote {
                        return text.len();
                    }
                }
                _ => return text.len(),
            }
        }
        tokenizer.position()
    }
}

/// Sees all records of a file but the first one.
fn see_file(
    path: &Path,
    layout: &CsvLayout,
    options: &IngestOptions,
    sample: &mut Sample<'_>,
) -> Result<(), IngestError> {
    let pool = BufferPool::default();
    let mut blocks = layout.blocks(path, options, pool.clone())?;
    while let Some(block) = blocks.next_morsel() {
        if let Some(error) = block.failed {
            return Err(error);
        }
        // What is wrong with a text is reported when it is read.
        let (text, _) = block.valid_text();
        let mut position = 0;
        if block.first {
            let mut first = Tokenizer::new(text, layout.start.min(text.len()), sample.dialect);
            // It was read before, so that it is known to be a record.
            let _ = first.record(None, &mut Fields::default());
            position = first.position();
        }
        sample.see_records(text, position, block.last, usize::MAX);
        sample.bytes += block.bytes.len();
        pool.give(block.bytes);
    }
    Ok(())
}

fn probe(path: &Path, sample: &mut Sample<'_>) -> Result<(), IngestError> {
    let failed = |error: std::io::Error| IngestError::io(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::with_capacity(PROBE_BYTES);
    for index in 1..=PROBES {
        let at = (length / PROBES * index).min(length.saturating_sub(PROBE_BYTES as u64));
        bytes.clear();
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        (&file).take(PROBE_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
        // The sample begins after a line end. If this is within quotes, it may not be a record, which at most makes a
        // type less specific.
        let Some(newline) = find_byte(&bytes, 0, b'\n') else { continue };
        let text = utf8_prefix(&bytes[newline + 1..]);
        sample.see_records(text, 0, false, usize::MAX);
    }
    Ok(())
}

/// As [`probe`], for a file that is completely in memory and whose first records were sampled already.
fn probe_text(rest: &[u8], sample: &mut Sample<'_>) {
    if rest.len() <= PROBES as usize * PROBE_BYTES {
        sample.see_records(utf8_prefix(rest), 0, true, usize::MAX);
        return;
    }
    let mut seen_to = 0;
    for index in 1..=PROBES as usize {
        let at = (rest.len() / PROBES as usize * index).min(rest.len() - PROBE_BYTES).max(seen_to);
        let part = &rest[at..rest.len().min(at + PROBE_BYTES)];
        seen_to = at + part.len();
        let Some(newline) = find_byte(part, 0, b'\n') else { continue };
        sample.see_records(utf8_prefix(&part[newline + 1..]), 0, seen_to == rest.len(), usize::MAX);
    }
}
