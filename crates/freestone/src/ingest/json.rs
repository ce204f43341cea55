//! JSON files: objects one after the other (NDJSON or not) or in one array; each a row, each member a column.
//!
//! As with CSV, one thread at a time cuts the file into blocks of whole objects and all threads parse them. Numbers
//! keep their text until the column's type reads it, so that no digit passes through a double.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field as ColumnField, Schema, SchemaRef};

use super::IngestOptions;
use super::blocks::{Block, BlockSource, BufferPool, check_head, mark_bytes, read_head, utf8_prefix};
use super::columns::{BatchBuilder, CellRules};
use super::csv_tokens::count_lines;
use super::error::{IngestError, Reason, ValueProblem, sql_type_name};
use super::fields::{Field, Fields};
use super::infer::{Kinds, column_index};
use super::parallel::{MorselEnd, MorselError, Ordered, Worker};
use super::values::hex_digit;

/// Objects parsed before their columns are.
const OBJECTS_A_STEP: usize = 1024;

/// Bytes at the file's start that tell its columns.
const SAMPLE_BYTES: usize = 16 << 20;

/// What a JSON file tells of itself.
#[derive(Debug, Clone)]
pub(crate) struct JsonFile {
    /// The objects are in one array.
    pub array: bool,
    /// The members of its first objects, and what their values read as.
    pub columns: Vec<(String, Kinds)>,
    /// Bytes of a row, about.
    pub row_bytes: usize,
}

/// The blocks of a JSON file.
pub(crate) fn blocks(path: &Path, options: &IngestOptions, pool: BufferPool) -> Result<BlockSource, IngestError> {
    BlockSource::open(path, options, pool, Box::new(last_object_end))
}

/// Starts the threads that read a JSON file as batches of `schema`.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let name = path.display().to_string();
    let array = is_array(&checked_head(path, 64 << 10)?);
    let pool = BufferPool::default();
    let source = blocks(path, options, pool.clone())?;
    let workers = (0..options.threads.max(1))
        .map(|_| {
            let sources = (0..schema.fields().len()).map(Some).collect();
            let builder = BatchBuilder::new(schema, sources, |_| CellRules::default())?;
            Ok(JsonParser::new(array, schema, vec![false; schema.fields().len()], builder, options, pool.clone()))
        })
        .collect::<Result<Vec<_>, Reason>>()
        .map_err(|reason| IngestError::new(&name, reason))?;
    Ordered::start(name, source, workers)
}

/// The columns of a JSON file, in the order in which its first objects name them. All may be NULL.
pub(super) fn schema(path: &Path, options: &IngestOptions) -> Result<SchemaRef, IngestError> {
    let columns = json_file(path, options)?.columns.into_iter();
    let fields: Vec<_> = columns.map(|(name, kinds)| ColumnField::new(name, kinds.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Looks at a JSON file's first objects.
pub(crate) fn json_file(path: &Path, options: &IngestOptions) -> Result<JsonFile, IngestError> {
    let name = path.display().to_string();
    let mut wanted = SAMPLE_BYTES;
    let head = loop {
        let head = checked_head(path, wanted)?;
        if head.len() < wanted || wanted >= options.record_bytes_max() || last_object_end(&head, true).is_some() {
            break head;
        }
        wanted = options.record_bytes_max();
    };
    let whole = head.len() < wanted;
    let complete = if whole { head.len() } else { last_object_end(&head, true).unwrap_or(head.len()) };
    let text = utf8_prefix(&head[..complete]);
    let mut columns: Vec<(String, Kinds)> = Vec::new();
    let mut objects = Objects::new(text, is_array(&head), true, whole);
    let located = |offset: usize, reason| IngestError::new(&name, reason).at_line(count_lines(&head[..offset]) + 1);
    let mut rows = 0;
    for _ in 0..options.sample_rows.max(1) {
        let mut nested = None;
        let found = objects.next(|text, key, value| {
            let index = columns.iter().position(|(name, _)| *name == key).unwrap_or_else(|| {
                columns.push((key.to_string(), Kinds::ANY));
                columns.len() - 1
            });
            let (name, kinds) = &mut columns[index];
            match value {
                Value::Null => {}
                Value::Literal { start, end } => kinds.see_json_literal(&text[start..end]),
                Value::Text { start, end, escaped: false } => kinds.see_json_string(&text[start..end]),
                Value::Text { .. } => kinds.see_json_string("text with escapes"),
                Value::Nested { .. } => nested = nested.take().or(Some(name.clone())),
            }
            Ok(())
        });
        if let (Some(column), Ok(Some(start))) = (nested, &found) {
            let reason = Reason::Unsupported("nested values are not supported".into());
            return Err(located(*start, reason).in_column(column));
        }
        match found {
            Ok(Some(_)) => rows += 1,
            Ok(None) => break,
            // The sample ends where the text stops being UTF-8: that is the error, not what it cuts.
            Err(bad) if text.len() < complete && bad.at_end => {
                return Err(located(text.len(), Reason::InvalidUtf8 { byte: text.len() as u64 }));
            }
            Err(bad) => return Err(located(bad.offset, bad.reason)),
        }
    }
    if columns.is_empty() {
        let reason = Reason::Malformed("the file has no members to make columns of".into());
        return Err(IngestError::new(name, reason));
    }
    if options.all_varchar {
        columns.iter_mut().for_each(|(_, kinds)| *kinds = Kinds::TEXT);
    }
    let row_bytes = (objects.position / rows.max(1)).max(1);
    Ok(JsonFile { array: is_array(&head), columns, row_bytes })
}

fn checked_head(path: &Path, bytes_wanted: usize) -> Result<Vec<u8>, IngestError> {
    let head = read_head(path, bytes_wanted)?;
    check_head(path, &head)?;
    Ok(head)
}

fn is_array(head: &[u8]) -> bool {
    head[mark_bytes(head)..].trim_ascii_start().starts_with(b"[")
}

/// Where the last complete object ends that is not within another. A line end within a string is an error of the file,
/// and starts the search anew.
fn last_object_end(bytes: &[u8], first: bool) -> Option<usize> {
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
                Some(close) if bytes[close] == b'"' => at = close,
                Some(close) => {
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

/// The quote that closes a string, or the control character that breaks it.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' | 0..=0x1f => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Parses blocks of one file.
pub(crate) struct JsonParser {
    array: bool,
    batch_rows: usize,
    /// All members that objects may have.
    members: SchemaRef,
    /// Members that are numbers or booleans, by inference: a string in them is an error, though it could be converted.
    unquoted: Vec<bool>,
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
        unquoted: Vec<bool>,
        builder: BatchBuilder,
        options: &IngestOptions,
        pool: BufferPool,
    ) -> Self {
        let (members, batch_rows) = (Arc::clone(members), options.batch_rows.max(1));
        Self { array, batch_rows, members, unquoted, builder, fields: Fields::default(), pool }
    }

    /// Parses a block's objects; the number of rows.
    fn parse(&mut self, block: &Block, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, MorselError> {
        let (text, ends_early) = block.valid_text();
        let mut objects = Objects::new(text, self.array, block.first, block.last && ends_early.is_none());
        let mut rows = 0;
        loop {
            let step = OBJECTS_A_STEP.min(self.batch_rows - self.builder.rows());
            let (ended, bad) = take_objects(&mut objects, &self.members, &self.unquoted, step, &mut self.fields);
            if let Err(cell) = self.builder.append(text, &self.fields, self.members.fields().len()) {
                let line = block.lines_before(self.fields.starts[cell.row] as usize);
                let column = self.builder.schema().field(cell.column).name().clone();
                let error = IngestError::new("", cell.reason).in_column(column);
                return Err(MorselError { error, line: Some(line), row: Some(rows + cell.row as u64) });
            }
            rows += self.fields.rows() as u64;
            let stopped = match (bad, &ends_early) {
                (Some(bad), Some(reason)) if bad.at_end => Some((bad.offset, reason.clone())),
                (Some(bad), _) => Some((bad.offset, bad.reason)),
                (None, Some(reason)) if ended => Some((text.len(), reason.clone())),
                (None, _) => None,
            };
            if let Some((offset, reason)) = stopped {
                let error = IngestError::new("", reason);
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
    unquoted: &[bool],
    step: usize,
    fields: &mut Fields,
) -> (bool, Option<BadObject>) {
    fields.clear();
    let columns = schema.fields().len();
    while fields.rows() < step {
        let row_start = fields.fields.len();
        fields.fields.resize(row_start + columns, Field::NULL);
        // Members mostly come in the order of the columns: the next one is tried first.
        let mut next = 0;
        let found = objects.next(|text, key, value| {
            let column = match schema.fields().get(next) {
                Some(field) if field.name().as_str() == key => next,
                _ => column_index(schema, key).ok_or_else(|| {
                    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                    Reason::ColumnMismatch(format!("member '{key}' is no column, there are: {}", names.join(", ")))
                })?,
            };
            next = column + 1;
            fields.fields[row_start + column] = match value {
                Value::Null => Field::NULL,
                Value::Literal { start, end } => Field::plain(start, end, false),
                Value::Text { start, end, .. } if unquoted[column] => {
                    let expected = sql_type_name(schema.field(column).data_type());
                    let value = format!("\"{}\" in column {}", &text[start..end], schema.field(column).name());
                    return Err(Reason::Value { value, expected, problem: ValueProblem::Syntax });
                }
                Value::Text { start, end, escaped: false } => Field::quoted(start, end),
                Value::Text { start, end, escaped: true } => {
                    let side_start = fields.side.len();
                    unescape(&text[start..end], &mut fields.side)?;
                    fields.side_field(side_start)
                }
                Value::Nested { start, end } => {
                    let field = schema.field(column);
                    return Err(Reason::Value {
                        value: format!("{} of column {}", &text[start..end], field.name()),
                        expected: sql_type_name(field.data_type()),
                        problem: ValueProblem::Nested,
                    });
                }
            };
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

/// A member's value, as a place in the text.
#[derive(Debug, Clone, Copy)]
enum Value {
    Null,
    /// A number, `true` or `false`.
    Literal {
        start: usize,
        end: usize,
    },
    /// What is between a string's quotes.
    Text {
        start: usize,
        end: usize,
        escaped: bool,
    },
    /// The start of an array or an object.
    Nested {
        start: usize,
        end: usize,
    },
}

/// What is not JSON, or no object that makes a row.
#[derive(Debug)]
struct BadObject {
    offset: usize,
    reason: Reason,
    /// The fault is that the text ends here.
    at_end: bool,
}

/// Walks over a block's objects.
struct Objects<'a> {
    text: &'a str,
    position: usize,
    array: bool,
    /// The array's `[` is still to come.
    before_array: bool,
    /// No object has been read since the array's `[`.
    before_first: bool,
    after_array: bool,
    last: bool,
}

impl<'a> Objects<'a> {
    /// `first` and `last` say whether the text starts and ends with the file.
    fn new(text: &'a str, array: bool, first: bool, last: bool) -> Self {
        let position = if first { mark_bytes(text.as_bytes()) } else { 0 };
        let before = array && first;
        Self { text, position, array, before_array: before, before_first: before, after_array: false, last }
    }

    /// Gives the next object's members to `member` and returns where the object starts; `None` at the text's end.
    fn next(
        &mut self,
        mut member: impl FnMut(&str, &str, Value) -> Result<(), Reason>,
    ) -> Result<Option<usize>, BadObject> {
        if !self.find_object()? {
            return Ok(None);
        }
        let start = self.position;
        self.expect(b'{')?;
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(Some(start));
        }
        loop {
            self.skip_blanks();
            let key = self.key()?;
            self.skip_blanks();
            self.expect(b':')?;
            self.skip_blanks();
            let value = self.value()?;
            let refused = |reason| BadObject { offset: start, reason, at_end: false };
            member(self.text, &key, value).map_err(refused)?;
            if let Value::Nested { .. } = value {
                self.skip_nested()?;
            }
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(Some(start));
                }
                _ => return Err(self.unexpected("',' or '}'")),
            }
        }
    }

    /// Moves to the next object's brace; false at the end of the text.
    fn find_object(&mut self) -> Result<bool, BadObject> {
        self.skip_blanks();
        if std::mem::take(&mut self.before_array) {
            if self.peek().is_none() && !self.last {
                return Ok(false);
            }
            self.expect(b'[')?;
            self.skip_blanks();
        }
        if self.after_array {
            return if self.peek().is_none() { Ok(false) } else { Err(self.unexpected("nothing after the array")) };
        }
        match self.peek() {
            None if self.array && self.last => Err(self.unexpected("',' or ']'")),
            None => Ok(false),
            Some(b']') if self.array => {
                self.position += 1;
                self.after_array = true;
                self.find_object()
            }
            Some(_) if self.array && !std::mem::take(&mut self.before_first) => {
                self.expect(b',')?;
                self.skip_blanks();
                if self.peek() == Some(b'{') { Ok(true) } else { Err(self.unexpected("an object")) }
            }
            Some(b'{') => Ok(true),
            Some(_) => Err(self.unexpected("an object")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), BadObject> {
        if self.peek() == Some(byte) {
            self.position += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("'{}'", byte as char)))
    }

    fn unexpected(&self, expected: &str) -> BadObject {
        let found = match self.text.get(self.position..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("'{}'", c.escape_debug()),
            None => "the end".to_string(),
        };
        BadObject {
            offset: self.position,
            reason: Reason::Malformed(format!("not valid JSON: expected {expected}, found {found}")),
            at_end: self.position >= self.text.len(),
        }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, BadObject> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a member's name in quotes"));
        }
        let offset = self.position;
        let (start, end, escaped) = self.string()?;
        let raw = &self.text[start..end];
        if !escaped {
            return Ok(Cow::Borrowed(raw));
        }
        let mut key = String::new();
        unescape(raw, &mut key).map_err(|reason| BadObject { offset, reason, at_end: false })?;
        Ok(Cow::Owned(key))
    }

    fn value(&mut self) -> Result<Value, BadObject> {
        let start = self.position;
        match self.peek() {
            Some(b'"') => {
                let (start, end, escaped) = self.string()?;
                Ok(Value::Text { start, end, escaped })
            }
            Some(b'{' | b'[') => {
                let end = self.text[start..].char_indices().nth(20).map_or(self.text.len(), |(at, _)| start + at);
                Ok(Value::Nested { start, end })
            }
            _ => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                let length = self.text.as_bytes()[start..].iter().take_while(|byte| is_part(byte)).count();
                let end = start + length;
                match &self.text.as_bytes()[start..end] {
                    b"null" => self.position = end,
                    literal if matches!(literal, b"true" | b"false") || is_number(literal) || is_special(literal) => {
                        self.position = end;
                        return Ok(Value::Literal { start, end });
                    }
                    _ => {
                        let mut bad = self.unexpected("a value");
                        bad.at_end = end >= self.text.len();
                        return Err(bad);
                    }
                }
                Ok(Value::Null)
            }
        }
    }

    /// Passes the string at the position: what is between its quotes, and whether there are escapes in it.
    fn string(&mut self) -> Result<(usize, usize, bool), BadObject> {
        let bytes = self.text.as_bytes();
        let start = self.position + 1;
        match string_end(bytes, start) {
            Some(end) if bytes[end] == b'"' => {
                self.position = end + 1;
                Ok((start, end, bytes[start..end].contains(&b'\\')))
            }
            Some(_) => {
                let reason = Reason::Malformed("not valid JSON: a line end or control character in a string".into());
                Err(BadObject { offset: self.position, reason, at_end: false })
            }
            None => {
                let reason = Reason::Malformed("not valid JSON: a string is never closed".into());
                Err(BadObject { offset: self.position, reason, at_end: true })
            }
        }
    }

    /// Passes an array or object without looking at its grammar; only the inference of a schema comes here, to name it.
    fn skip_nested(&mut self) -> Result<(), BadObject> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') if depth == 1 => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'}' | b']') => depth -= 1,
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(_) => {}
                None => return Err(self.unexpected("'}' or ']'")),
            }
            self.position += 1;
        }
    }
}

/// Numbers that JSON does not have and programs write none the less.
fn is_special(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"-Infinity")
}

/// A number as JSON writes it: no leading `+`, zeros or point.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let [b'.', after @ ..] = rest {
        let fraction = digits(after);
        if fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    }
    if let [b'e' | b'E', b'+' | b'-', after @ ..] | [b'e' | b'E', after @ ..] = rest {
        return !after.is_empty() && digits(after) == after.len();
    }
    rest.is_empty()
}

/// Appends what a string's inside stands for.
fn unescape(raw: &str, into: &mut String) -> Result<(), Reason> {
    let bad = |escape: &str| Reason::Malformed(format!("not valid JSON: escape '\\{escape}' in a string"));
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        into.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let Some(kind) = escape.chars().next() else { return Err(bad("")) };
        let mut used = kind.len_utf8();
        match kind {
            '"' | '\\' | '/' => into.push(kind),
            'b' => into.push('\u{8}'),
            'f' => into.push('\u{c}'),
            'n' => into.push('\n'),
            'r' => into.push('\r'),
            't' => into.push('\t'),
            'u' => {
                let shown = || escape.chars().take(5).collect::<String>();
                let high = hex_unit(&escape.as_bytes()[1..]).ok_or_else(|| bad(&shown()))?;
                used = 5;
                // Characters above 0xffff are written as two surrogates; half of one is no character.
                let code = match (high, escape.as_bytes().get(5..7)) {
                    (0xd800..=0xdbff, Some(b"\\u")) => {
                        used = 11;
                        let low = hex_unit(&escape.as_bytes()[7..]).filter(|low| (0xdc00..=0xdfff).contains(low));
                        low.map(|low| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                    }
                    _ => Some(high),
                };
                into.push(code.and_then(char::from_u32).ok_or_else(|| bad(&shown()))?);
            }
            other => return Err(bad(&other.to_string())),
        }
        rest = &escape[used..];
    }
    into.push_str(rest);
    Ok(())
}

fn hex_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | u32::from(hex_digit(*digit)?)))
}
