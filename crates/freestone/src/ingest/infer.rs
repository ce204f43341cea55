//! Types and names of columns that a file does not declare. They are inferred from a sample, and checked again for
//! every row that is read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field as ColumnField, Schema, SchemaRef};

use super::blocks::{BufferPool, is_plain, read_head, replace_returns, utf8_prefix};
use super::column_names::column_names;
use super::csv::CsvLayout;
use super::csv_tokens::{Dialect, RecordEnd, Tokenizer, count_lines, find_byte, last_record_end};
use super::error::{IngestError, Reason};
use super::fields::{Cells, Fields};
use super::headers::{Below, is_header_above};
use super::kinds::Kinds;
use super::opening::Opening;
use super::parallel::Source;
use super::{FileFormat, IngestOptions};

/// The bytes of the first sample, and the number and bytes of those at equal distances through the file.
const HEAD_BYTES: usize = 4 << 20;
const PROBES: u64 = 16;
const PROBE_BYTES: usize = 64 << 10;

/// The inferred properties of a CSV file.
#[derive(Debug, Clone)]
pub(crate) struct CsvFile {
    pub layout: CsvLayout,
    /// The distinct names of the columns: from the header, or `column0`, ….
    pub names: Vec<String>,
    /// The types that the values of each column have.
    pub kinds: Vec<Kinds>,
    /// The approximate bytes of a row.
    pub row_bytes: usize,
}

/// The schema of a CSV file: names from its header (else `column0`, …), types from its first rows and from probes
/// through the rest of it. All columns may be NULL.
pub(super) fn csv_schema(path: &Path, options: &IngestOptions) -> Result<SchemaRef, IngestError> {
    let file = csv_file(path, options, HEAD_BYTES)?;
    let fields = file.names.into_iter().zip(&file.kinds);
    let fields: Vec<_> = fields.map(|(name, kinds)| ColumnField::new(name, kinds.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Samples the first bytes of a CSV file and other parts of it.
pub(crate) fn csv_file(path: &Path, options: &IngestOptions, head_bytes: usize) -> Result<CsvFile, IngestError> {
    let opening = Opening::of(path, options, None)?;
    let (head, whole) = sampled_head(path, options, head_bytes, &opening)?;
    let lossy = options.ignore_errors.then(|| String::from_utf8_lossy(&head));
    let text = lossy.as_deref().unwrap_or_else(|| utf8_prefix(&head));
    let dialect = &opening.dialect;
    let mut sample = Sample::new(dialect, options);
    let mut tokenizer = Tokenizer::new(text, opening.start.min(text.len()), dialect);
    let located = |offset: usize, reason| {
        IngestError::new(path.display().to_string(), reason).at_line(count_lines(&text.as_bytes()[..offset]) + 1)
    };
    match tokenizer.record(None, &mut sample.fields) {
        Err(bad) => return Err(located(bad.offset, bad.reason)),
        Ok(RecordEnd::End) if lossy.is_none() && text.len() < head.len() => {
            return Err(located(text.len(), Reason::InvalidUtf8 { byte: text.len() as u64 }));
        }
        Ok(RecordEnd::End) => return without_records(path, &opening, options),
        Ok(RecordEnd::Record { .. }) => {}
    }
    let position = tokenizer.position();
    let mut first = sample.first_record(text, text.len(), position);
    let columns = match options.columns.filter(|_| options.is_lenient()) {
        Some(columns) => columns,
        None if options.null_padding => widest(text, position, dialect, options).max(first.len()),
        None => first.len(),
    };
    first.resize(columns, None);
    sample.columns = columns;
    sample.kinds = vec![Kinds::initial(options); columns];
    let first_fields = std::mem::take(&mut sample.fields);
    let all = options.sample_rows == usize::MAX;
    let seen_to = match all && !whole {
        true => text.len(),
        false => sample.see_records(text, position, whole, options.sample_rows),
    };
    if all && !whole {
        let layout = CsvLayout::new(&opening, false, vec![]);
        see_file(path, &layout, options, &mut sample)?;
    } else if !whole && is_plain(path, options) {
        probe(path, &mut sample)?;
    } else if whole {
        probe_text(&text.as_bytes()[seen_to..], &mut sample);
    }
    let is_tbl = FileFormat::extension_of(path).is_some_and(|extension| extension == "tbl");
    let below = || Below::compare(&first, text, position, dialect, &options.forms);
    let is_header = || !is_tbl && is_header_above(&first, &sample.kinds, &options.forms, below);
    let header = options.header.unwrap_or_else(is_header);
    if !header {
        sample.fields = first_fields;
        sample.see_fields(text);
    }
    let names = column_names(&first, header, options.normalize_names);
    let kinds = if options.all_varchar { vec![Kinds::TEXT; columns] } else { sample.kinds };
    let seen = if all { sample.bytes.max(text.len()) } else { text.len().min(head_bytes) };
    let row_bytes = (seen / sample.rows.max(1)).max(1);
    let layout = CsvLayout::new(&opening, header, names.clone());
    Ok(CsvFile { layout, names, kinds, row_bytes })
}

/// A file without records, which has columns only if they are declared.
fn without_records(path: &Path, opening: &Opening, options: &IngestOptions) -> Result<CsvFile, IngestError> {
    let Some(columns) = options.columns else {
        let reason = Reason::Malformed("the file is empty: it has neither a header nor rows".into());
        return Err(IngestError::new(path.display().to_string(), reason));
    };
    let names = column_names(&vec![None; columns], false, false);
    let layout = CsvLayout::new(opening, false, names.clone());
    Ok(CsvFile { layout, names, kinds: vec![Kinds::initial(options); columns], row_bytes: 1 })
}

/// The first bytes of a file, and whether they are all of it. If a record is longer than the sample, the sample is
/// extended to the maximum length of a record.
fn sampled_head(
    path: &Path,
    options: &IngestOptions,
    head_bytes: usize,
    opening: &Opening,
) -> Result<(Vec<u8>, bool), IngestError> {
    let mut head = read_head(path, options, head_bytes)?;
    let mut whole = head.len() < head_bytes;
    let dialect = &opening.dialect;
    let first_end = |head: &[u8]| head.get(opening.start..).and_then(|records| last_record_end(records, dialect));
    if !whole && first_end(&head).is_none() {
        head = read_head(path, options, options.record_bytes_max())?;
        whole = head.len() < options.record_bytes_max();
    }
    if opening.returns {
        replace_returns(&mut head, dialect.quote);
    }
    Ok((head, whole))
}

/// The largest number of fields of the sampled records.
fn widest(text: &str, position: usize, dialect: &Dialect, options: &IngestOptions) -> usize {
    let mut tokenizer = Tokenizer::new(text, position, dialect);
    let (mut fields, mut widest) = (Fields::default(), 0);
    for _ in 0..options.sample_rows {
        fields.clear();
        match tokenizer.record(None, &mut fields) {
            Ok(RecordEnd::Record { .. }) => widest = widest.max(fields.fields.len()),
            _ => break,
        }
    }
    widest
}

struct Sample<'a> {
    dialect: &'a Dialect,
    options: &'a IngestOptions,
    columns: usize,
    kinds: Vec<Kinds>,
    fields: Fields,
    rows: usize,
    /// Bytes of the file, where all of it is seen.
    bytes: usize,
}

impl<'a> Sample<'a> {
    fn new(dialect: &'a Dialect, options: &'a IngestOptions) -> Self {
        Sample { dialect, options, columns: 0, kinds: vec![], fields: Fields::default(), rows: 0, bytes: 0 }
    }

    /// The fields of the first record, without dbgen's empty field after the last `|`, which is detected if it is empty
    /// in the second record as well, or there is no second record. If a header ends with a delimiter and has one more
    /// field than the records, the empty name is removed. Columns that are declared are all there.
    fn first_record(&mut self, text: &str, length: usize, next: usize) -> Vec<Option<String>> {
        let cells = Cells { text, fields: &self.fields, column: 0, columns: 1, rows: usize::MAX };
        let mut first: Vec<Option<String>> = cells.iter().map(|text| text.map(str::to_string)).collect();
        let trailing =
            |fields: &Fields| fields.fields.last().is_some_and(|field| field.is_empty() && !field.is_quoted());
        let is_declared = self.options.columns == Some(first.len());
        if first.len() > 1 && !is_declared && trailing(&self.fields) && next <= length {
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
                kinds.see_text(value, &self.options.forms);
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
                        if !self.options.ignore_errors {
                            return text.len();
                        }
                        tokenizer.recover(bad.start);
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
