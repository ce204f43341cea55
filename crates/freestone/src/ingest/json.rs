//! JSON files: objects one after the other (NDJSON or not) or in one array. Each object is a row, each member a column.
//!
//! As with CSV, one thread at a time splits the file into blocks of whole objects, and all threads parse them. Numbers
//! remain text until they are parsed as the column's type, so that no digit is lost in a double. Arrays within a row
//! become lists and objects structs; text, as it is in the file, if their values have no type in common.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field as ColumnField, Schema, SchemaRef};

use super::IngestOptions;
use super::blocks::{Block, BlockSource, BufferPool, check_head, mark_bytes, read_head, utf8_prefix};
use super::column_names::column_index;
use super::columns::{BatchBuilder, CellRules};
use super::csv_tokens::{count_lines, find_last_newline};
use super::error::{IngestError, Reason, ValueProblem};
use super::fields::{Field, Fields};
use super::json_tokens::{BadObject, Objects, Refused, Value, string_end, unescape};
use super::kinds::Kinds;
use super::parallel::{MorselEnd, MorselError, Ordered, Source, Worker};
use super::shapes::Shape;
use crate::type_names::type_name;

/// Objects parsed before their columns are.
const OBJECTS_A_STEP: usize = 1024;

/// The bytes at the file's start from which its columns are inferred: the first number if they have enough rows, the second at most.
const SAMPLE_BYTES: usize = 2 << 20;
const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// The inferred properties of a JSON file.
#[derive(Debug, Clone)]
pub(crate) struct JsonFile {
    /// Whether the objects are in one array.
    pub array: bool,
    /// The members of the first objects, and the types that their values have.
    pub columns: Vec<(String, Shape)>,
    /// The approximate bytes of a row.
    pub row_bytes: usize,
}

/// The blocks of a JSON file.
pub(crate) fn blocks(path: &Path, options: &IngestOptions, pool: BufferPool) -> Result<BlockSource, IngestError> {
    BlockSource::open(path, options, pool, Box::new(last_object_end))
}

/// Starts the threads that read a JSON file as batches of `schema`.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let name = path.display().to_string();
    let array = is_array(&checked_head(path, options, 64 << 10)?);
    let pool = BufferPool::default();
    let source = blocks(path, options, pool.clone())?;
    let workers = (0..options.threads.max(1))
        .map(|_| {
            let sources = (0..schema.fields().len()).map(Some).collect();
            let builder = BatchBuilder::new(schema, sources, |_| CellRules::JSON, options)?;
            Ok(JsonParser::new(array, schema, vec![Member::Any; schema.fields().len()], builder, options, pool.clone()))
        })
        .collect::<Result<Vec<_>, Reason>>()
        .map_err(|reason| IngestError::new(&name, reason))?;
    Ordered::start(name, source, workers)
}

/// The columns of a JSON file, in the order in which its first objects name them. All may be NULL.
pub(super) fn schema(path: &Path, options: &IngestOptions) -> Result<SchemaRef, IngestError> {
    let columns = json_file(path, options)?.columns.into_iter();
    let fields: Vec<_> = columns.map(|(name, shape)| ColumnField::new(name, shape.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Looks at a JSON file's first objects: in its first bytes, or in more of them where these are few objects; or at all
/// objects, if that is what the options say.
pub(crate) fn json_file(path: &Path, options: &IngestOptions) -> Result<JsonFile, IngestError> {
    if options.sample_rows == usize::MAX {
        return whole_file(path, options);
    }
    for wanted in [SAMPLE_BYTES, SAMPLE_BYTES_MAX] {
        let head = checked_head(path, options, wanted)?;
        let whole = head.len() < wanted;
        if whole || last_object_end(&head, true).is_some() {
            let (file, rows) = file_of(path, &head, whole, options)?;
            if whole || rows >= options.sample_rows || wanted == SAMPLE_BYTES_MAX {
                return Ok(file);
            }
        }
    }
    let wanted = options.record_bytes_max();
    let head = checked_head(path, options, wanted)?;
    let whole = head.len() < wanted;
    file_of(path, &head, whole, options).map(|(file, _)| file)
}

/// The properties inferred from the first bytes of a JSON file, and the number of objects in them.
fn file_of(path: &Path, head: &[u8], whole: bool, options: &IngestOptions) -> Result<(JsonFile, usize), IngestError> {
    let name = path.display().to_string();
    let complete = if whole { head.len() } else { last_object_end(head, true).unwrap_or(head.len()) };
    let text = utf8_prefix(&head[..complete]);
    let mut sample = Sample::default();
    let mut objects = Objects::new(text, is_array(head), true, whole);
    let located = |offset: usize, reason| IngestError::new(&name, reason).at_line(count_lines(&head[..offset]) + 1);
    match sample.see(&mut objects, options.sample_rows.max(1)) {
        Ok(()) => {}
        // The sample ends where the text stops being UTF-8: that is the error, not what it cuts.
        Err(bad) if text.len() < complete && bad.at_end => {
            return Err(located(text.len(), Reason::InvalidUtf8 { byte: text.len() as u64 }));
        }
        Err(bad) => return Err(located(bad.offset, bad.reason)),
    }
    let (rows, bytes) = (sample.rows, objects.position);
    Ok((sample.file(name, is_array(head), bytes, options)?, rows))
}

/// What all objects of a JSON file tell.
fn whole_file(path: &Path, options: &IngestOptions) -> Result<JsonFile, IngestError> {
    let name = path.display().to_string();
    let array = is_array(&checked_head(path, options, 64 << 10)?);
    let pool = BufferPool::default();
    let mut blocks = blocks(path, options, pool.clone())?;
    let (mut sample, mut bytes) = (Sample::default(), 0);
    while let Some(block) = blocks.next_morsel() {
        if let Some(error) = block.failed {
            return Err(error);
        }
        let (text, ends_early) = block.valid_text();
        let mut objects = Objects::new(text, array, block.first, block.last && ends_early.is_none());
        let seen = sample.see(&mut objects, usize::MAX);
        let (offset, reason) = match (seen, ends_early) {
            (Err(bad), Some(reason)) if bad.at_end => (bad.offset, reason),
            (Err(bad), _) => (bad.offset, bad.reason),
            (Ok(()), Some(reason)) => (text.len(), reason),
            (Ok(()), None) => {
                bytes += block.bytes.len();
                pool.give(block.bytes);
                continue;
            }
        };
        let reason = match reason {
            Reason::InvalidUtf8 { byte } => Reason::InvalidUtf8 { byte: block.first_byte + byte },
            other => other,
        };
        return Err(IngestError::new(name, reason).at_line(block.first_line + block.lines_before(offset) + 1));
    }
    sample.file(name, array, bytes, options)
}

/// What objects tell of their members.
#[derive(Default)]
struct Sample {
    columns: Vec<(String, Shape)>,
    rows: usize,
}

impl Sample {
    /// Sees up to `rows` objects.
    fn see(&mut self, objects: &mut Objects<'_>, rows: usize) -> Result<(), BadObject> {
        let columns = &mut self.columns;
        for _ in 0..rows {
            // Members mostly come in the order of the columns: the next one is tried first.
            let mut next = 0;
            let found = objects.next(|text, key, value| {
                let known = || columns.iter().position(|(name, _)| *name == key);
                let is_next = columns.get(next).is_some_and(|(name, _)| *name == key);
                let index = if is_next { Some(next) } else { known() }.unwrap_or_else(|| {
                    columns.push((key.to_string(), Shape::default()));
                    columns.len() - 1
                });
                next = index + 1;
                let shape = &mut columns[index].1;
                match value {
                    Value::Null => {}
                    Value::Literal { start, end } => shape.see_literal(&text[start..end]),
                    Value::Text { start, end, escaped: false } => shape.see_string(&text[start..end]),
                    Value::Text { .. } => shape.see_string("text with escapes"),
                    Value::Nested { start, end } => shape.see_nested(&text[start..end]),
                }
                Ok(())
            })?;
            if found.is_none() {
                break;
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// What is known of a file of which this many bytes were seen.
    fn file(self, name: String, array: bool, bytes: usize, options: &IngestOptions) -> Result<JsonFile, IngestError> {
        let Sample { mut columns, rows } = self;
        if columns.is_empty() {
            let reason = Reason::Malformed("the file has no members to make columns of".into());
            return Err(IngestError::new(name, reason));
        }
        if options.all_varchar {
            columns.iter_mut().for_each(|(_, shape)| *shape = Kinds::TEXT.into());
        }
        Ok(JsonFile { array, columns, row_bytes: (bytes / rows.max(1)).max(1) })
    }
}

fn checked_head(path: &Path, options: &IngestOptions, bytes_wanted: usize) -> Result<Vec<u8>, IngestError> {
    let head = read_head(path, options, bytes_wanted)?;
    check_head(path, &head)?;
    Ok(head)
}

fn is_array(head: &[u8]) -> bool {
    head[mark_bytes(head)..].trim_ascii_start().starts_with(b"[")
}

/// The end of the last complete top-level object. A line end within a string is an error of the file, and restarts the
/// search.
fn last_object_end(bytes: &[u8], first: bool) -> Option<usize> {
    if let Some(end) = last_line_end(bytes) {
        return Some(end);
    }
    let start = if first { mark_bytes(bytes) } else { 0 };
    let mut end = None;
    let mut depth = 0u32;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    end = Some(at + 1);
                }
            }
            b'"' => match string_end(bytes, at + 1) {
                Some((close, _)) if bytes[close] == b'"' => at = close,
                Some((close, _)) => {
                    depth = 0;
                    at = close;
                }
                None => return end,
            },
            _ => {}
        }
        at += 1;
    }
    end
}

/// The end of the last object that is followed by a line end and the next object. Strings contain no line ends, and
/// within an object or array a comma would separate the two.
fn last_line_end(bytes: &[u8]) -> Option<usize> {
    let mut before = bytes.len();
    loop {
        before = find_last_newline(&bytes[..before])?;
        let object_end = bytes[..before].trim_ascii_end();
        if object_end.last() == Some(&b'}') && bytes[before..].trim_ascii_start().first() == Some(&b'{') {
            return Some(object_end.len());
        }
    }
}

/// The values that are accepted for a member, in addition to the rules of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    /// The type was declared: everything that can be parsed as the type. Objects and arrays are text.
    Any,
    /// The type was inferred as a number or boolean: a string is an error, even if it could be converted.
    Unquoted,
    /// The type was inferred from strings: an object or array is an error, because it could be mistaken for a string.
    Plain,
    /// The type was inferred from objects and arrays: the JSON text of every value, with the quotes of strings.
    Json,
}

/// Parses blocks of one file.
pub(crate) struct JsonParser {
    array: bool,
    batch_rows: usize,
    /// All members that objects may have.
    members: SchemaRef,
    rules: Vec<Member>,
    builder: BatchBuilder,
    fields: Fields,
    pool: BufferPool,
}

impl Worker<Block> for JsonParser {
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

impl JsonParser {
    pub fn new(
        array: bool,
        members: &SchemaRef,
        rules: Vec<Member>,
        builder: BatchBuilder,
        options: &IngestOptions,
        pool: BufferPool,
    ) -> Self {
        let (members, batch_rows) = (Arc::clone(members), options.batch_rows.max(1));
        Self { array, batch_rows, members, rules, builder, fields: Fields::default(), pool }
    }

    /// Parses a block's objects; the number of rows.
    fn parse(&mut self, block: &Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, MorselError> {
        let (text, ends_early) = block.valid_text();
        let mut objects = Objects::new(text, self.array, block.first, block.last && ends_early.is_none());
        let mut rows = 0;
        loop {
            let step = OBJECTS_A_STEP.min(self.batch_rows - self.builder.rows());
            let (ended, bad) = take_objects(&mut objects, &self.members, &self.rules, step, &mut self.fields);
            if let Err(cell) = self.builder.append(text, &self.fields, self.members.fields().len()) {
                let line = block.lines_before(self.fields.starts[cell.row] as usize);
                let column = self.builder.schema().field(cell.column).name().clone();
                let error = IngestError::new("", cell.reason).in_column(column);
                return Err(MorselError { error, line: Some(line), row: Some(rows + cell.row as u64) });
            }
            rows += self.fields.rows() as u64;
            let stopped = match (bad, &ends_early) {
                (Some(bad), Some(reason)) if bad.at_end => Some((bad.offset, reason.clone(), None)),
                (Some(bad), _) => Some((bad.offset, bad.reason, bad.column)),
                (None, Some(reason)) if ended => Some((text.len(), reason.clone(), None)),
                (None, _) => None,
            };
            if let Some((offset, reason, column)) = stopped {
                let error = IngestError::new("", reason);
                let error = column.into_iter().fold(error, IngestError::in_column);
                return Err(MorselError { error, line: Some(block.lines_before(offset)), row: Some(rows) });
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

/// Appends up to `step` objects; true at the end of the text, and the object that could not be.
fn take_objects(
    objects: &mut Objects<'_>,
    schema: &Schema,
    rules: &[Member],
    step: usize,
    fields: &mut Fields,
) -> (bool, Option<BadObject>) {
    fields.clear();
    let columns = schema.fields().len();
    while fields.rows() < step {
        let row_start = fields.fields.len();
        fields.fields.resize(row_start + columns, Field::NULL);
        // Members are mostly in the order of the columns, so the next column is tried first.
        let mut next = 0;
        // The columns of members whose names differ from theirs in case.
        let mut alike: Vec<usize> = vec![];
        let found = objects.next(|text, key, value| {
            let column = match schema.fields().get(next) {
                Some(field) if field.name().as_str() == key => next,
                _ => column_index(schema, key).ok_or_else(|| {
                    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    let text = format!("member '{key}' is no column, there are: {}", names.join(", "));
                    Refused { reason: Reason::ColumnMismatch(text), column: None }
                })?,
            };
            next = column + 1;
            let is_exact = schema.field(column).name().as_str() == key;
            if alike.contains(&column) || !is_exact && !fields.fields[row_start + column].is_null() {
                let name = schema.field(column).name();
                let text = format!("two members are column '{name}': their names differ only in case");
                return Err(Refused { reason: Reason::ColumnMismatch(text), column: None });
            }
            if !is_exact {
                alike.push(column);
            }
            let field = field(text, value, rules[column], schema.field(column), &mut fields.side);
            let refused = |reason| Refused { reason, column: Some(schema.field(column).name().clone()) };
            fields.fields[row_start + column] = field.map_err(refused)?;
            Ok(())
        });
        match found {
            Ok(Some(start)) => fields.starts.push(start as u32),
            Ok(None) => return (true, None),
            Err(bad) => return (true, Some(bad)),
        }
    }
    (false, None)
}

/// The field of a member's value. Strings with escapes are appended to `side`.
fn field(text: &str, value: Value, rule: Member, column: &ColumnField, side: &mut String) -> Result<Field, Reason> {
    let refused = |value: &str, problem| Reason::Value {
        value: value.to_owned(),
        expected: type_name(column.data_type()),
        problem,
    };
    Ok(match value {
        Value::Null => Field::NULL,
        Value::Text { start, end, .. } if rule == Member::Json => Field::plain(start - 1, end + 1, false),
        Value::Literal { start, end } => Field::plain(start, end, false),
        Value::Text { start, end, .. } if rule == Member::Unquoted => {
            return Err(refused(&text[start - 1..end + 1], ValueProblem::Syntax));
        }
        Value::Text { start, end, escaped: false } => Field::quoted(start, end),
        Value::Text { start, end, escaped: true } => {
            let side_start = side.len();
            unescape(&text[start..end], side)?;
            Field::on_side(side_start, side.len())
        }
        Value::Nested { start, end }
            if column.data_type().is_nested() || column.data_type().is_string() && rule != Member::Plain =>
        {
            Field::quoted(start, end)
        }
        Value::Nested { start, end } => return Err(refused(&text[start..end], ValueProblem::Nested)),
    })
}
