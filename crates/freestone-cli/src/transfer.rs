//! Files of this machine into and out of tables: `\copy`, as in psql, and `.import`, as in sqlite and duckdb.
//!
//! For a database in this process they are statements. A server reads and writes no files of its clients. So for a server
//! a database in memory reads the file into a table, whose rows are then sent, or writes the rows that the server returns.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow::array::{RecordBatch, RecordBatchIterator};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use freestone::{ArrowTable, Database, Inputs, Options, Outcome, Session};
use freestone_wire::WireError;
use freestone_wire::blocking::Client;
use freestone_wire::client::{self, Input, ResultStream};
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;

use crate::backend::{Answer, Backend, answer_of};
use crate::failure::Failure;
use crate::run::{Flow, Origin, Runner};

/// The name under which statements know the rows that the other side sends.
const SENT: &str = "freestone_sent_rows";

const COPY_USAGE: &str = "\\copy TABLE [(COLUMNS)] | (QUERY) from | to 'FILE' [(OPTIONS)]";

const IMPORT_USAGE: &str = ".import FILE TABLE [(OPTIONS)]";

impl Runner {
    /// `\copy`, with what follows the word.
    pub(crate) fn copy(&mut self, argument: &str) -> Result<Flow, Failure> {
        let copy = Copy::parse(argument).map_err(|message| Failure::with_hint(message, COPY_USAGE))?;
        let start = Instant::now();
        match self.backend() {
            Backend::Embedded(_) => return self.run_text(&copy.statement(&copy.rows), Origin::Inline),
            Backend::Remote(client) if copy.is_from => {
                let target = Target::Rows(copy.rows.clone());
                self.run_work(load(client.clone(), target, copy.file_rows()), start)?;
            }
            Backend::Remote(client) => self.run_work(store(client.clone(), copy), start)?,
        }
        Ok(Flow::Continue)
    }

    /// `.import`, with what follows the word. The table is created if it does not exist.
    pub(crate) fn import(&mut self, argument: &str) -> Result<Flow, Failure> {
        let import = Import::parse(argument).map_err(|message| Failure::with_hint(message, IMPORT_USAGE))?;
        let exists = self.backend().has_table(&import.table)?;
        let start = Instant::now();
        match self.backend() {
            Backend::Embedded(_) if exists => self.run_text(&import.append(&import.table), Origin::Inline),
            Backend::Embedded(_) => self.run_text(&import.create(&import.table), Origin::Inline),
            Backend::Remote(client) => {
                let (target, rows) = match exists {
                    true => (Target::Rows(import.table.clone()), FileRows::Like(import.append(SENT))),
                    false => (Target::NewTable(import.table.clone()), FileRows::OfFile(import.create(SENT))),
                };
                self.run_work(load(client.clone(), target, rows), start).map(|()| Flow::Continue)
            }
        }
    }
}

/// What `\copy` copies.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    /// A table, with or without a list of columns, or a query in parentheses.
    rows: String,
    is_from: bool,
    file: String,
    /// In parentheses, or empty.
    options: String,
}

impl Copy {
    fn parse(text: &str) -> Result<Copy, String> {
        let (direction, end) = word_outside(text, &["from", "to"]).ok_or("\\copy needs `from` or `to` and a file")?;
        let is_from = text[direction..end].eq_ignore_ascii_case("from");
        let rows = text[..direction].trim();
        if rows.is_empty() {
            return Err("\\copy needs a table, or a query in parentheses".into());
        }
        if is_from && rows.starts_with('(') {
            return Err("\\copy from needs a table, not a query".into());
        }
        let (file, rest) = file_and_rest(text[end..].trim_start())?;
        let options = options(rest)?;
        Ok(Copy { rows: rows.into(), is_from, file, options })
    }

    fn statement(&self, rows: &str) -> String {
        let direction = if self.is_from { "FROM" } else { "TO" };
        format!("COPY {rows} {direction} {} {}", literal(&self.file), self.options)
    }

    /// How a database in memory reads the file for a server's table.
    fn file_rows(&self) -> FileRows {
        FileRows::Like(self.statement(SENT))
    }
}

/// What `.import` imports.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    file: String,
    /// As in SQL.
    table: String,
    options: String,
}

impl Import {
    fn parse(text: &str) -> Result<Import, String> {
        let (file, rest) = file_and_rest(text.trim_start()).map_err(|_| ".import needs a file and a table")?;
        let end = rest.find('(').unwrap_or(rest.len());
        let name = rest[..end].trim();
        if name.is_empty() {
            return Err(format!(".import needs the name of a table for {file}"));
        }
        let is_plain = name.chars().all(|letter| letter.is_alphanumeric() || "_.\"".contains(letter));
        let table = match name.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) {
            Some(name) => freestone::quote(name),
            None if is_plain || name.starts_with('"') => name.into(),
            None => {
                return Err(format!("`{name}` is not the name of a table: put one with other characters in quotes"));
            }
        };
        let options = with_format(options(&rest[end..])?, &file);
        Ok(Import { file, table, options })
    }

    fn create(&self, table: &str) -> String {
        format!("CREATE TABLE {table} AS SELECT * FROM {} {}", literal(&self.file), self.options)
    }

    fn append(&self, table: &str) -> String {
        format!("COPY {table} FROM {} {}", literal(&self.file), self.options)
    }
}

/// The place of the first of `words` that is outside of parentheses and quotes.
fn word_outside(text: &str, words: &[&str]) -> Option<(usize, usize)> {
    let (mut depth, mut quote, mut start) = (0_usize, None, None);
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        let is_word = letter.is_alphanumeric() || letter == '_';
        if quote.is_none() && is_word {
            start = start.or(Some(at));
            continue;
        }
        if let Some(start) = start.take()
            && depth == 0
            && words.iter().any(|word| text[start..at].eq_ignore_ascii_case(word))
        {
            return Some((start, at));
        }
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// A file name, quoted or not, and what follows it.
fn file_and_rest(text: &str) -> Result<(String, &str), String> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        let mut name = String::new();
        let mut letters = text.char_indices().skip(1).peekable();
        while let Some((at, letter)) = letters.next() {
            if letter != quote {
                name.push(letter);
            } else if letters.next_if(|(_, next)| *next == quote).is_some() {
                name.push(quote);
            } else {
                return Ok((name, text[at + 1..].trim_start()));
            }
        }
        return Err(format!("the file name has no closing {quote}"));
    }
    let mut is_escaped = false;
    let ends = |letter: char| {
        let is_end = letter.is_whitespace() && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    };
    let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    match word.to_ascii_lowercase().as_str() {
        "" => Err("\\copy needs the name of a file".into()),
        "stdin" | "stdout" | "pstdin" | "pstdout" | "program" => {
            Err(format!("\\copy has no {word}: name a file (/dev/stdin and /dev/stdout are files, too)"))
        }
        _ => Ok((crate::command::file_name(word), rest.trim_start())),
    }
}

/// Options in parentheses, from those or from psql's older form `csv header delimiter ';'`.
fn options(text: &str) -> Result<String, String> {
    let text = text.trim();
    let text =
        word_outside(text, &["with"]).filter(|(start, _)| *start == 0).map_or(text, |(_, end)| &text[end..]).trim();
    if text.is_empty() || text.starts_with('(') {
        return Ok(text.into());
    }
    let mut options: Vec<String> = vec![];
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        match name.to_ascii_lowercase().as_str() {
            "csv" => options.push("FORMAT csv".into()),
            "header" => options.push("HEADER true".into()),
            word @ ("delimiter" | "null" | "quote" | "escape" | "encoding") => {
                let (value, after) = file_and_rest(rest.strip_prefix("as ").unwrap_or(rest))?;
                options.push(format!("{word} {}", literal(&value)));
                rest = after;
            }
            _ => return Err(format!("`{name}` is not an option: write options as (HEADER true, DELIMITER ';')")),
        }
    }
    Ok(format!("({})", options.join(", ")))
}

/// The extensions of files whose format the engine knows.
const EXTENSIONS: [&str; 18] = [
    "csv", "tsv", "tbl", "json", "ndjson", "jsonl", "parquet", "pq", "parq", "arrow", "arrows", "ipc", "feather",
    "xlsx", "xlsm", "gz", "zst", "bz2",
];

/// Options that name a format. A file whose name says none is CSV, as in sqlite.
fn with_format(options: String, file: &str) -> String {
    let path = Path::new(file);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    let is_known = path.is_dir() || EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension));
    if is_known || options.to_ascii_lowercase().contains("format") {
        return options;
    }
    match options.strip_prefix('(') {
        Some(others) => format!("(FORMAT csv, {others}"),
        None => "(FORMAT csv)".into(),
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Where rows go on a server.
enum Target {
    /// A table, with or without a list of columns.
    Rows(String),
    NewTable(String),
}

/// How a database in memory gets the rows of a file.
enum FileRows {
    /// The statement reads them into a table with the columns of the target.
    Like(String),
    /// The statement creates their table.
    OfFile(String),
}

/// Reads a file into a database in memory, and sends its rows to a table of a server.
async fn load(client: Arc<Client>, target: Target, rows: FileRows) -> Result<Answer, Failure> {
    let session = Database::in_memory(Options::default())?.session();
    let reading = match rows {
        FileRows::OfFile(reading) => reading,
        FileRows::Like(reading) => {
            let columns = columns_of(&client, &target).await?;
            let name = String::from("freestone_columns_of_target");
            let create = format!("CREATE TABLE {SENT} AS SELECT * FROM {name}");
            let tables = HashMap::from([(name, ArrowTable::of_batches(&columns, [])?)]);
            run(&session, &create, tables).await?;
            reading
        }
    };
    run(&session, &reading, HashMap::new()).await?;
    let Outcome::Rows { schema, stream } = run(&session, &format!("SELECT * FROM {SENT}"), HashMap::new()).await?
    else {
        return Err(Failure::error("internal error: a query without rows"));
    };
    let statement = match &target {
        Target::Rows(table) => format!("INSERT INTO {table} SELECT * FROM {SENT}"),
        Target::NewTable(table) => format!("CREATE TABLE {table} AS SELECT * FROM {SENT}"),
    };
    let mut stream = stream.map_err(|error| WireError::Io {
        what: "cannot read the rows of the file".into(),
        source: io::Error::other(freestone::Error::from(error)),
    });
    let handle = Handle::current();
    let batches = Box::new(std::iter::from_fn(move || handle.block_on(stream.next())));
    let tables = vec![Input { name: SENT.into(), schema, whole: false, batches }];
    let inputs = client::Inputs { tables, ..Default::default() };
    let sent = client.client().query_with_inputs(&statement, inputs).await?;
    answer_of(sent, client.clone()).await
}

/// The columns of a target that exists.
async fn columns_of(client: &Client, target: &Target) -> Result<Schema, Failure> {
    let (Target::Rows(table) | Target::NewTable(table)) = target;
    let query = format!("{} LIMIT 0", table_query(table));
    let mut rows = client.client().query(&query, None).await?;
    let schema = rows.schema().await?;
    while rows.next().await?.is_some() {}
    Ok(schema.as_ref().clone())
}

/// Writes the rows of a server to a file.
async fn store(client: Arc<Client>, copy: Copy) -> Result<Answer, Failure> {
    let query = if copy.rows.starts_with('(') { copy.rows.clone() } else { table_query(&copy.rows) };
    let mut rows = client.client().query(&query, None).await?;
    let schema = rows.schema().await?;
    let session = Database::in_memory(Options::default())?.session();
    let handle = Handle::current();
    let received = Mutex::new(Some(rows));
    let columns = schema.clone();
    let table = ArrowTable::of_reader(&schema, move || {
        let received = received.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches = received.into_iter().flat_map({
            let handle = handle.clone();
            move |rows| batches(rows, handle.clone())
        });
        Ok(Box::new(RecordBatchIterator::new(batches, columns.clone())))
    });
    let tables = HashMap::from([(SENT.to_owned(), table)]);
    match run(&session, &copy.statement(&format!("(SELECT * FROM {SENT})")), tables).await? {
        Outcome::Affected { verb, rows } => Ok(Answer::Affected { verb: verb.into(), rows }),
        _ => Ok(Answer::Done { verb: "COPY".into() }),
    }
}

/// `t (a, b)` as a query.
fn table_query(rows: &str) -> String {
    match rows.strip_suffix(')').and_then(|rows| rows.rsplit_once('(')) {
        Some((table, columns)) => format!("SELECT {columns} FROM {table}"),
        None => format!("SELECT * FROM {rows}"),
    }
}

fn batches(mut rows: ResultStream, handle: Handle) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
    let failed = |error| ArrowError::from_external_error(Box::new(error));
    std::iter::from_fn(move || handle.block_on(rows.next()).map_err(failed).transpose())
}

async fn run(session: &Session, sql: &str, tables: HashMap<String, ArrowTable>) -> Result<Outcome, Failure> {
    let statement = session.prepare(sql).await?;
    let inputs = Inputs { tables: Arc::new(tables), ..Inputs::default() };
    Ok(session.execute_with_inputs(&statement, inputs).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_names_rows_a_direction_and_a_file() {
        for (text, expected) in [
            ("t from 'a b.csv'", "COPY t FROM 'a b.csv' "),
            ("t (a, \"from\") FROM x.csv (HEADER true)", "COPY t (a, \"from\") FROM 'x.csv' (HEADER true)"),
            ("(select 'to' from t) to 'it''s.parquet'", "COPY (select 'to' from t) TO 'it''s.parquet' "),
            ("t to x.csv with (format csv)", "COPY t TO 'x.csv' (format csv)"),
            ("t to x.csv csv header delimiter as ';'", "COPY t TO 'x.csv' (FORMAT csv, HEADER true, delimiter ';')"),
        ] {
            assert_eq!(Copy::parse(text).map(|copy| copy.statement(&copy.rows)), Ok(expected.into()), "{text}");
        }
        for text in
            ["", "t", "from x.csv", "t from", "t from stdin", "t from 'x", "(select 1) from x", "t to x nonsense"]
        {
            assert!(Copy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn import_names_a_file_and_a_table() {
        for (text, expected) in [
            ("x.csv t", "COPY t FROM 'x.csv' "),
            ("a\\ b.csv t", "COPY t FROM 'a b.csv' "),
            ("'a b.csv' s.t (HEADER false)", "COPY s.t FROM 'a b.csv' (HEADER false)"),
            ("x.txt t (HEADER)", "COPY t FROM 'x.txt' (FORMAT csv, HEADER)"),
            ("a\\ b.csv 'my table'", "COPY \"my table\" FROM 'a b.csv' "),
        ] {
            assert_eq!(Import::parse(text).map(|import| import.append(&import.table)), Ok(expected.into()), "{text}");
        }
        for text in ["", "x.csv", "x.csv my table", "x.csv t;u"] {
            assert!(Import::parse(text).is_err(), "{text}");
        }
    }
}
