//! COPY over the connection: rows as text, CSV or PostgreSQL's binary form, to the client and from it.

use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use freestone::{Error, Inputs, Relation};
use freestone_sql::Span;
use freestone_sql::tree::{Name, ObjectName};
use tokio::sync::mpsc;

use super::Connection;
use super::csv::{CsvFormat, write_quoted};
use super::describe::columns;
use super::execute::Cursor;
use super::failure::Failure;
use super::header::Header;
use super::work::Work;
use crate::execution::{self, Answer, Clock};
use crate::insert::{self, Part, Target};
use crate::pg::copy_binary::{BINARY_HEADER, BinaryRows};
use crate::pg::error::PgError;
use crate::pg::frame::{FRAME_BYTES_MAX, Message};
use crate::pg::parameters;
use crate::pg::types::{self, ColumnType};
use crate::pg::utility::{CopyFormat, CopyHeader, CopyIn, CopyOptions, CopyOut, Forced};
use crate::pg::values::{Column, hex};
use crate::sqlstate;

impl Connection {
    pub async fn copy_out(&mut self, copy: &CopyOut) -> Result<(), Failure> {
        let works = self.understand(&copy.query).await?;
        let works = works.into_iter().map(|work| self.adapted(work, &[])).collect::<Result<Vec<_>, _>>()?;
        let [Work::Statement(statement)] = works.as_slice() else {
            return Err(PgError::syntax("COPY takes one query").into());
        };
        // Checked before it is executed, so that after an error nothing has happened.
        if !statement.is_query()? {
            let error = PgError::unsupported("COPY … TO takes a query that changes nothing");
            return Err(error.with_hint("execute the statement alone, with RETURNING for its rows").into());
        }
        let Answer::Rows(rows) = self.start(statement, Inputs::default()).await? else {
            return Err(PgError::syntax("COPY takes a query that gives rows").into());
        };
        let binary = copy.options.format == CopyFormat::Binary;
        let schema = self.named(&statement.text, rows.schema.clone());
        let names: Vec<String> = columns(&schema).into_iter().map(|(name, ..)| name).collect();
        let options = &copy.options;
        check_named(&options.force_quote, &names)?;
        let forced: Vec<bool> = names.iter().map(|name| options.force_quote.has(name)).collect();
        self.replies.copy(b'H', binary, names.len());
        // The header and the first row are in one message, as psycopg expects from PostgreSQL.
        let mut head = if binary { BINARY_HEADER } else { &[] };
        if options.header != CopyHeader::None {
            self.replies.message(b'd', |out| write_header(out, &names, options));
        }
        let gone = self.gone();
        let mut cursor = Cursor::new(rows, schema, vec![i16::from(binary)], self.settings.styles(), "COPY");
        let mut count = 0u64;
        while let Some((columns, row)) = Connection::while_there(&gone, cursor.row()).await?? {
            self.replies.message(b'd', |out| {
                out.extend(std::mem::take(&mut head));
                write_row(out, columns, row, options, &forced);
            });
            count += 1;
            self.flush_rows_if_full(&cursor).await?;
        }
        if binary {
            self.replies.message(b'd', |out| {
                out.extend(head);
                out.extend((-1i16).to_be_bytes());
            });
        }
        self.replies.bare(b'c');
        self.replies.complete(&format!("COPY {count}"));
        Ok(())
    }

    /// The name of a table into which rows are copied, with the schema in which it is found.
    pub fn copied_name(&self, name: &str) -> String {
        let Some(schemas) = self.search_path().filter(|_| !name.contains('.')) else { return name.to_owned() };
        let own = Name { text: name.to_owned(), quoted: true, span: Span::default() };
        let written = ObjectName { parts: vec![own], span: Span::default() };
        let found = self.with_search_path(&schemas, |path| path.found(&written));
        let joined =
            |found: ObjectName| found.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".");
        found.map_or_else(|| name.to_owned(), joined)
    }

    /// Receives the client's data. Text is written to a file and loaded when it is complete; binary rows are inserted
    /// as they arrive.
    pub async fn copy_in(&mut self, copy: &CopyIn) -> Result<(), Failure> {
        let table = self.copied(copy).await?;
        if !table.is_temporary {
            if !self.session.access().write {
                return Err(PgError::new(sqlstate::INSUFFICIENT_PRIVILEGE, "this user may only read").into());
            }
            self.check_writable()?;
        }
        let schema = copied_columns(copy, &table)?;
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        check_named(&copy.options.force_not_null, &names)?;
        check_named(&copy.options.force_null, &names)?;
        let binary = copy.options.format == CopyFormat::Binary;
        let spool = if binary { None } else { Some(Spool::new(&copy.options, &schema)?) };
        self.replies.copy(b'G', binary, schema.fields().len());
        self.flush().await?;
        let clock = Clock::start(self.settings.statement_limit());
        let loaded = match spool {
            None => self.copy_binary(&copy.table, schema, clock).await?,
            Some(mut spool) => {
                self.receive(&mut spool, clock).await.map_err(|failure| failure.in_data(&copy.table, spool.line))?;
                self.load(copy, spool, clock).await?
            }
        };
        self.replies.complete(&format!("COPY {loaded}"));
        Ok(())
    }

    /// The table into which rows are copied. A temporary one comes before others of the same name.
    async fn copied(&self, copy: &CopyIn) -> Result<Relation, Failure> {
        let session = self.session.clone();
        let mut relations =
            execution::on_workers(
                &self.shared,
                self.settings.statement_limit(),
                async move { session.relations().await },
            )
            .await?;
        let public = copy.table.strip_prefix("public.").or(copy.table.strip_prefix("main."));
        let is_own = |relation: &Relation| relation.own_name() == copy.table && relation.is_temporary;
        let own = relations.iter().position(is_own).filter(|_| public.is_none());
        let name = public.unwrap_or(&copy.table);
        match own.or_else(|| relations.iter().position(|relation| relation.name == name)) {
            Some(at) => Ok(relations.swap_remove(at)),
            None => Err(PgError::new(sqlstate::UNDEFINED_TABLE, format!("no table {}", copy.table)).into()),
        }
    }

    /// Inserts binary rows as they arrive.
    async fn copy_binary(&mut self, table: &str, schema: SchemaRef, clock: Clock) -> Result<u64, Failure> {
        let (sender, parts) = insert::channel();
        let (shared, session) = (self.shared.clone(), self.session.clone());
        let inserting = insert::insert(&shared, &session, Target::Table(table), &schema, parts, clock);
        let bringing = self.receive_binary(&schema, sender, clock);
        let (inserted, brought) = tokio::join!(inserting, bringing);
        // An error in the client's data is more informative than the error of the insertion that it ended.
        brought?;
        Ok(inserted?)
    }

    async fn receive_binary(
        &mut self,
        schema: &SchemaRef,
        sender: mpsc::Sender<Part>,
        clock: Clock,
    ) -> Result<(), Failure> {
        let mut rows = BinaryRows::new(schema.clone());
        let mut failed: Option<PgError> = None;
        loop {
            match clock.within(self.next_message()).await?? {
                // After an error, the remaining data is read and discarded, because the client has sent it already.
                Message::CopyData(_) if failed.is_some() => {}
                Message::CopyData(bytes) => match rows.push(&bytes) {
                    Ok(()) => {
                        while let Some(batch) = rows.full_batch()? {
                            // If the insertion has failed, its own result says why.
                            let _ = sender.send(Ok(Some(batch))).await;
                        }
                    }
                    Err(error) => failed = Some(error),
                },
                Message::Unread { kind: b'd', reason } => failed = Some(PgError::unread(&reason)),
                Message::CopyDone => break,
                Message::CopyFail(reason) => return Err(given_up(&reason).into()),
                Message::Flush | Message::Sync => {}
                message => return Err(out_of_place(&message).into()),
            }
        }
        // After an error, the sender is dropped without the end of the rows, so that nothing is inserted.
        if let Some(error) = failed {
            return Err(error.into());
        }
        let last = rows.finish()?;
        let _ = sender.send(Ok(Some(last))).await;
        let _ = sender.send(Ok(None)).await;
        Ok(())
    }

    async fn receive(&mut self, spool: &mut Spool, clock: Clock) -> Result<(), Failure> {
        let mut failed = None;
        loop {
            match clock.within(self.next_message()).await?? {
                // After an error, the remaining data is read and discarded, because the client has sent it already.
                Message::CopyData(bytes) => {
                    if failed.is_none() {
                        failed = self.plain(&bytes).and_then(|bytes| spool.push(&bytes)).err();
                    }
                }
                Message::Unread { kind: b'd', reason } => failed = Some(PgError::unread(&reason)),
                Message::CopyDone => break,
                Message::CopyFail(reason) => {
                    return Err(given_up(&reason).into());
                }
                Message::Flush | Message::Sync => {}
                message => return Err(out_of_place(&message).into()),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(spool.end()?),
        }
    }

    /// A part of the client's data as UTF-8. In the encodings that need this, each byte is a character.
    fn plain<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, PgError> {
        let encoding = self.replies.encoding;
        if encoding.is_plain() {
            return Ok(Cow::Borrowed(bytes));
        }
        match encoding.decode(bytes) {
            Some(text) => Ok(Cow::Owned(text.into_owned().into_bytes())),
            None => {
                let message = format!("the data of COPY is not in encoding {}", encoding.name());
                Err(PgError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message))
            }
        }
    }

    async fn load(&mut self, copy: &CopyIn, spool: Spool, clock: Clock) -> Result<u64, Failure> {
        let (options, data) = (spool.load_options(&copy.options), spool.data());
        let file = spool.finish()?;
        // It has no other name.
        let path = format!("/dev/fd/{}", file.as_raw_fd());
        let ours = path.clone();
        let (session, table, columns) = (self.session.clone(), copy.table.clone(), copy.columns.clone());
        let loading = execution::on_workers(&self.shared, None, async move {
            session.load_file(&table, columns, &path, options).await
        });
        let loading = clock.within(loading);
        match Connection::while_there(&self.gone(), loading)
            .await?
            .flatten()
            .map_err(|error| of_client(&error, &ours, (copy.table.as_str(), data, &copy.options)))?
        {
            freestone::Outcome::Affected { rows, .. } => Ok(rows),
            _ => Ok(0),
        }
    }
}

/// Converts an error of loading our temporary file to one about the data, because its name means nothing to the client.
fn of_client(error: &Error, path: &str, (table, data, options): (&str, Data, &CopyOptions)) -> PgError {
    let mut told = PgError::from(error.clone());
    told.message = told.message.replace(path, "the data of COPY");
    told.hint = told.hint.map(|hint| hint.replace(path, "the data of COPY"));
    let subject = error.subject();
    let line = match data {
        Data::Records => subject.record.or(subject.line),
        Data::Lines => subject.line.or(subject.record),
    };
    if let Some(line) = line {
        let is_left_out = data == Data::Records || !options.is_plain_csv();
        let line = line + u64::from(is_left_out && options.header != CopyHeader::None);
        // The message counts the lines of the file.
        if let Some(counted) = subject.line {
            told.message = told.message.replacen(&format!("line {counted}"), &format!("line {line}"), 1);
        }
        let column = subject.column.as_ref().map_or_else(String::new, |column| format!(", column {column}"));
        told.fields.push((b'W', format!("COPY {table}, line {line}{column}")));
    }
    told
}

/// Refuses options for columns that are not copied.
fn check_named(forced: &Forced, names: &[String]) -> Result<(), PgError> {
    match forced.named().iter().find(|name| !names.contains(name)) {
        Some(name) => Err(PgError::new(sqlstate::UNDEFINED_COLUMN, format!("column {name} is not copied"))),
        None => Ok(()),
    }
}

/// A message that ends COPY, because it has no place in its data.
fn out_of_place(message: &Message) -> PgError {
    match message {
        Message::Unread { kind: b'f', reason } => PgError::unread(reason),
        _ => PgError::new(sqlstate::PROTOCOL_VIOLATION, "this message has no place in COPY"),
    }
}

fn given_up(reason: &str) -> PgError {
    PgError::new(sqlstate::QUERY_CANCELED, format!("the client ended COPY: {reason}"))
}

fn write_header(out: &mut Vec<u8>, names: &[String], options: &CopyOptions) {
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            out.push(options.delimiter);
        }
        write_field(out, name.as_bytes(), options);
    }
    out.push(b'\n');
}

/// Writes a row. The values of `forced` columns are in quotes.
fn write_row(out: &mut Vec<u8>, columns: &[Column], row: usize, options: &CopyOptions, forced: &[bool]) {
    if options.format == CopyFormat::Binary {
        out.extend((columns.len() as i16).to_be_bytes());
        columns.iter().for_each(|column| column.write_sized(row, out));
        return;
    }
    let mut value = vec![];
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.push(options.delimiter);
        }
        if column.is_null(row) {
            out.extend(options.null.as_bytes());
            continue;
        }
        value.clear();
        column.write(row, &mut value);
        match forced.get(at) {
            Some(true) => write_quoted(out, &value, options.quote, options.escape),
            _ => write_field(out, &value, options),
        }
    }
    out.push(b'\n');
}

fn write_field(out: &mut Vec<u8>, value: &[u8], options: &CopyOptions) {
    if options.format == CopyFormat::Csv {
        let special = |byte: &u8| [options.delimiter, options.quote, b'\n', b'\r'].contains(byte);
        if value == options.null.as_bytes() || value == b"\\." || value.iter().any(special) {
            write_quoted(out, value, options.quote, options.escape);
        } else {
            out.extend(value);
        }
        return;
    }
    for byte in value {
        match byte {
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            8 => out.extend(b"\\b"),
            11 => out.extend(b"\\v"),
            12 => out.extend(b"\\f"),
            byte if *byte == options.delimiter => out.extend([b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
}

/// A client's data, written as CSV to a temporary file that has no name.
struct Spool {
    file: std::io::BufWriter<File>,
    format: SpoolFormat,
    /// The line of the client's data that came last, from 1; unknown if the engine reads it first.
    line: Option<u64>,
}

/// How a client's data becomes CSV that the engine reads.
enum SpoolFormat {
    /// It is that already.
    Plain,
    Text(TextFormat),
    Csv(CsvFormat),
}

/// What counts the places of errors in the file: its records, or its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Records,
    Lines,
}

impl Spool {
    fn new(options: &CopyOptions, schema: &SchemaRef) -> Result<Spool, PgError> {
        let file = tempfile::tempfile().map_err(disk)?;
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let header = Header::new(options.header, &names);
        let format = match options.format {
            CopyFormat::Text => SpoolFormat::Text(TextFormat::new(options, bytes_of(schema), header)),
            _ if options.is_plain_csv() => SpoolFormat::Plain,
            _ => SpoolFormat::Csv(CsvFormat::new(options, &names, header)),
        };
        Ok(Spool { file: std::io::BufWriter::new(file), format, line: None })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        let converted = match &mut self.format {
            SpoolFormat::Text(text) => text.convert(bytes),
            SpoolFormat::Csv(csv) => csv.convert(bytes),
            SpoolFormat::Plain => return self.file.write_all(bytes).map_err(disk),
        };
        self.write(converted)
    }

    fn write(&mut self, converted: Result<Vec<u8>, PgError>) -> Result<(), PgError> {
        self.line = match &self.format {
            SpoolFormat::Text(text) => Some(text.line),
            SpoolFormat::Csv(csv) => Some(csv.line),
            SpoolFormat::Plain => None,
        };
        self.file.write_all(&converted?).map_err(disk)
    }

    /// Converts what is left at the end of the data.
    fn end(&mut self) -> Result<(), PgError> {
        let rest = match &mut self.format {
            SpoolFormat::Text(text) => text.finish(),
            SpoolFormat::Csv(csv) => csv.finish(),
            SpoolFormat::Plain => return Ok(()),
        };
        self.write(rest)
    }

    fn data(&self) -> Data {
        if matches!(self.format, SpoolFormat::Text(_)) { Data::Records } else { Data::Lines }
    }

    fn finish(self) -> Result<File, PgError> {
        self.file.into_inner().map_err(|error| disk(error.into_error()))
    }

    /// The engine's options for loading the file.
    fn load_options(&self, options: &CopyOptions) -> Vec<(String, String)> {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        // As in PostgreSQL, the columns of the statement decide, and the header is left out.
        let mut all = vec![option("format", "csv"), option("header", "false")];
        if matches!(self.format, SpoolFormat::Plain) {
            if options.header != CopyHeader::None {
                all.push(option("skip", "1"));
            }
            all.push(option("delimiter", &char::from(options.delimiter).to_string()));
            all.push(option("quote", &char::from(options.quote).to_string()));
            all.push(option("null", &options.null));
        }
        all
    }
}

fn disk(error: std::io::Error) -> PgError {
    Error::new(freestone::ErrorKind::Io, format!("cannot keep the data of COPY: {error}")).into()
}

/// Converts PostgreSQL's text format to CSV, line by line.
pub struct TextFormat {
    delimiter: u8,
    null: Arc<str>,
    /// Whether each column is of bytes, whose text has backslashes of its own.
    bytes: Vec<bool>,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
    header: Header,
    /// The current line, from 1.
    line: u64,
    ended: bool,
}

impl TextFormat {
    pub fn new(options: &CopyOptions, bytes: Vec<bool>, header: Header) -> TextFormat {
        let (delimiter, null) = (options.delimiter, options.null.as_str().into());
        TextFormat { delimiter, null, bytes, partial: vec![], header, line: 1, ended: false }
    }

    pub fn convert(&mut self, bytes: &[u8]) -> Result<Vec<u8>, PgError> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let mut line = std::mem::take(&mut self.partial);
            line.extend(&rest[..end]);
            rest = &rest[end + 1..];
            self.convert_line(&line, &mut out)?;
            self.line += 1;
        }
        if self.partial.len() + rest.len() > FRAME_BYTES_MAX {
            return Err(PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "a line of COPY's data is too long"));
        }
        self.partial.extend(rest);
        Ok(out)
    }

    pub fn finish(&mut self) -> Result<Vec<u8>, PgError> {
        let mut out = vec![];
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.convert_line(&line, &mut out)?;
        }
        Ok(out)
    }

    fn convert_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), PgError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.ended |= line == b"\\.";
        if self.ended {
            return Ok(());
        }
        if self.header.takes() {
            let fields: Vec<Vec<u8>> = fields_of(line, self.delimiter).map(unescaped).collect();
            return self.header.check(fields.iter().map(Vec::as_slice));
        }
        let mut start = 0;
        for at in 0.. {
            let end = field_end(line, start, self.delimiter);
            let field = &line[start..end];
            if field != self.null.as_bytes() {
                let value = unescaped(field);
                match self.bytes.get(at) {
                    Some(true) => write_quoted(out, &bytes_text(&value)?, b'"', b'"'),
                    _ => write_quoted(out, &value, b'"', b'"'),
                }
            }
            if end == line.len() {
                break;
            }
            out.push(b',');
            start = end + 1;
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Which columns are of bytes.
fn bytes_of(schema: &SchemaRef) -> Vec<bool> {
    schema.fields().iter().map(|field| ColumnType::of(field.data_type()) == ColumnType::plain(types::BYTEA)).collect()
}

/// Bytes in hex form from either of PostgreSQL's forms, of which the engine has that one.
fn bytes_text(value: &[u8]) -> Result<Vec<u8>, PgError> {
    let bad = |reason: String| {
        PgError::new(sqlstate::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type bytea: {reason}"))
    };
    let bytes = parameters::bytes_of_text(value).map_err(bad)?;
    let mut text = b"\\x".to_vec();
    bytes.iter().for_each(|byte| text.extend(hex(*byte)));
    Ok(text)
}

/// The fields of a line, as they are written.
fn fields_of(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let end = field_end(line, from, delimiter);
        start = (end < line.len()).then_some(end + 1);
        line.get(from..end)
    })
}

/// The end of a field: the first delimiter without a backslash before it.
fn field_end(line: &[u8], start: usize, delimiter: u8) -> usize {
    let mut at = start;
    while at < line.len() {
        match line[at] {
            b'\\' => at += 2,
            byte if byte == delimiter => return at,
            _ => at += 1,
        }
    }
    line.len()
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let [kind, after @ ..] = rest else { break };
        rest = after;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut value = u32::from(kind - b'0');
                for _ in 0..2 {
                    let [digit @ b'0'..=b'7', after @ ..] = rest else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    rest = after;
                }
                out.push(value as u8);
            }
            b'x' => {
                let mut value = None;
                for _ in 0..2 {
                    let [digit, after @ ..] = rest else { break };
                    let Some(digit) = char::from(*digit).to_digit(16) else { break };
                    value = Some(value.unwrap_or(0) * 16 + digit);
                    rest = after;
                }
                // Without a digit it is the letter.
                out.push(value.map_or(b'x', |value| value as u8));
            }
            other => out.push(*other),
        }
    }
    out
}

/// The columns into which rows are copied.
fn copied_columns(copy: &CopyIn, table: &Relation) -> Result<SchemaRef, Failure> {
    let Some(schema) = &table.schema else {
        return Err(PgError::new(sqlstate::UNDEFINED_TABLE, format!("no table {}", copy.table)).into());
    };
    let place = |column: &String| {
        let missing = || PgError::new(sqlstate::UNDEFINED_COLUMN, format!("no column {column} in {}", copy.table));
        schema.index_of(column).map_err(|_| missing())
    };
    if copy.columns.is_empty() {
        return Ok(schema.clone());
    }
    let places = copy.columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let chosen = schema.project(&places);
    Ok(Arc::new(chosen.map_err(|error| PgError::new(sqlstate::DUPLICATE_COLUMN, error.to_string()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_format(bytes: Vec<bool>) -> TextFormat {
        let options = CopyOptions::of(CopyFormat::Text);
        TextFormat::new(&options, bytes, Header::new(options.header, &[]))
    }

    #[test]
    fn escapes_of_text_are_bytes() {
        for (text, expected) in [
            ("\\x42\\x4Aa", "BJa"),
            ("\\x4", "\u{4}"),
            ("\\x414", "A4"),
            ("\\xyz", "xyz"),
            ("\\x", "x"),
            ("\\101\\1012", "AA2"),
            ("\\b\\f\\v\\q\\\\", "\u{8}\u{c}\u{b}q\\"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn headers_of_text_are_left_out_or_compared() {
        let convert = |header: CopyHeader, data: &[u8]| {
            let options = CopyOptions { header, ..CopyOptions::of(CopyFormat::Text) };
            let mut format = TextFormat::new(&options, vec![], Header::new(header, &["a", "b\tc"]));
            format.convert(data).map(|csv| String::from_utf8(csv).expect("text")).map_err(|error| error.code)
        };
        assert_eq!(convert(CopyHeader::Skipped, b"x\n1\t2\n").as_deref(), Ok("\"1\",\"2\"\n"));
        assert_eq!(convert(CopyHeader::Compared, b"a\tb\\tc\n1\t2\n").as_deref(), Ok("\"1\",\"2\"\n"));
        assert_eq!(convert(CopyHeader::Compared, b"a\tb\n1\t2\n"), Err("22P04"));
    }

    #[test]
    fn text_becomes_csv_however_it_is_cut() {
        let text = b"1\ta\\tb\n\\N\t\\\\N\r\n2\t\\101\"\n\n3\tlast\n\\.\nignored\n";
        let expected = "\"1\",\"a\tb\"\n,\"\\N\"\n\"2\",\"A\"\"\"\n\"\"\n\"3\",\"last\"\n";
        for cut in 0..text.len() {
            let mut format = text_format(vec![]);
            let mut csv = format.convert(&text[..cut]).expect("lines");
            csv.extend(format.convert(&text[cut..]).expect("lines"));
            csv.extend(format.finish().expect("lines"));
            assert_eq!(String::from_utf8(csv).expect("text"), expected, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_are_read_in_both_forms() {
        let mut format = text_format(vec![true, false]);
        let csv = format.convert(b"a\\\\001b\t\\\\001\n\\\\xFF\t\\N\n").expect("lines");
        assert_eq!(String::from_utf8(csv).expect("text"), "\"\\x610162\",\"\\001\"\n\"\\xff\",\n");
        assert!(format.convert(b"\\\\9\tx\n").is_err());
    }

    #[test]
    fn errors_do_not_name_the_file_that_holds_the_data() {
        let path = "/tmp/freestone-copy-x1.csv";
        let error =
            Error::new(freestone::ErrorKind::Type, format!("{path}:3: no number")).with_hint(format!("see {path}"));
        let told = of_client(&error, path, ("t", Data::Lines, &CopyOptions::of(CopyFormat::Csv)));
        assert_eq!(told.message, "the data of COPY:3: no number");
        assert_eq!((told.hint.as_deref(), told.code), (Some("see the data of COPY"), error.sqlstate()));
    }

    #[test]
    fn fields_are_escaped_or_quoted() {
        for (format, value, expected) in [
            (CopyFormat::Text, "a\tb\\\n", "a\\tb\\\\\\n"),
            (CopyFormat::Csv, "a,\"b\"", "\"a,\"\"b\"\"\""),
            (CopyFormat::Csv, "", "\"\""),
            (CopyFormat::Csv, "plain", "plain"),
        ] {
            let mut out = vec![];
            write_field(&mut out, value.as_bytes(), &CopyOptions::of(format));
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }
}
