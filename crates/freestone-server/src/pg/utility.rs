//! PostgreSQL's own statements, which the connection executes: settings, transactions, cursors, and COPY over the
//! connection.

use freestone::quote;
use freestone_sql::{Lexeme, LexemeKind, first_words, tokens};

use super::connection::ChannelChange;
use super::error::PgError;
use super::settings::level;
use crate::sqlstate;

type Result<T, E = PgError> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Utility {
    Begin(Modes),
    Commit,
    Rollback,
    SetTransaction(Modes),
    Set {
        name: String,
        value: Option<String>,
    },
    /// Valid until the end of the transaction.
    SetLocal {
        name: String,
        value: Option<String>,
    },
    Show(String),
    Reset(String),
    DiscardAll,
    /// Drops the temporary tables of the session.
    DiscardTemp,
    Prepare(Prepare),
    /// One prepared statement, or all.
    Deallocate(Option<String>),
    CopyOut(CopyOut),
    CopyIn(CopyIn),
    Declare(Declare),
    Fetch(Fetch),
    /// One cursor, or all.
    Close(Option<String>),
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// LISTEN, UNLISTEN and NOTIFY, with the tag.
    Channel(ChannelChange, &'static str),
    /// `SELECT` without columns: one row, with nothing in it.
    SelectNothing,
    /// Accepted without an effect: DISCARD PLANS.
    Nothing(&'static str),
}

/// The modes of a transaction: its isolation level, and whether it is read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    pub level: Option<&'static str>,
    pub read_only: Option<bool>,
    /// Has no effect: it is for serializable transactions.
    pub deferrable: Option<bool>,
}

/// `COPY … TO STDOUT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOut {
    pub query: String,
    pub options: CopyOptions,
}

/// `DECLARE … CURSOR FOR …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declare {
    pub name: String,
    /// Whether it exists beyond its transaction.
    pub hold: bool,
    /// Whether it can go back.
    pub scroll: bool,
    /// Whether FETCH gives values in binary format.
    pub binary: bool,
    pub query: String,
    /// The whole statement.
    pub text: String,
}

/// `FETCH` and `MOVE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    pub name: String,
    pub movement: Movement,
    pub tag: &'static str,
}

/// Where a cursor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    /// Over this number of rows; `None` means all remaining rows.
    Forward(Option<u64>),
    Backward(Option<u64>),
    /// To a row, counted from 1, or from -1 backwards.
    Absolute(i64),
    /// By this number of rows, of which only the last one is given.
    Relative(i64),
}

/// `PREPARE name (types) AS query`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    pub name: String,
    pub types: Vec<String>,
    pub query: String,
    /// The whole statement.
    pub text: String,
}

/// `COPY … FROM STDIN`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyIn {
    pub table: String,
    pub columns: Vec<String>,
    pub options: CopyOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: CopyHeader,
    pub quote: u8,
    /// What makes a quote within quotes a part of the value.
    pub escape: u8,
    /// The columns that COPY TO writes in quotes.
    pub force_quote: Forced,
    /// The columns in which the text of NULL is that text.
    pub force_not_null: Forced,
    /// The columns in which the text of NULL is NULL even in quotes.
    pub force_null: Forced,
}

/// The first line of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyHeader {
    None,
    /// It has names, which are written, and left out where they are read.
    Skipped,
    /// It must name the columns.
    Compared,
}

/// Columns for which an option holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Forced {
    #[default]
    None,
    All,
    Columns(Vec<String>),
}

impl Forced {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Forced::None => false,
            Forced::All => true,
            Forced::Columns(names) => names.iter().any(|known| known == name),
        }
    }

    /// The columns that are named.
    pub fn named(&self) -> &[String] {
        match self {
            Forced::Columns(names) => names,
            _ => &[],
        }
    }
}

impl CopyOptions {
    /// The options of a format of which none is written.
    pub fn of(format: CopyFormat) -> CopyOptions {
        let (delimiter, null) = if format == CopyFormat::Csv { (b',', "") } else { (b'\t', "\\N") };
        CopyOptions {
            format,
            delimiter,
            null: null.to_owned(),
            header: CopyHeader::None,
            quote: b'"',
            escape: b'"',
            force_quote: Forced::None,
            force_not_null: Forced::None,
            force_null: Forced::None,
        }
    }

    /// Whether the engine reads such CSV as PostgreSQL does.
    pub fn is_plain_csv(&self) -> bool {
        self.escape == self.quote
            && self.header != CopyHeader::Compared
            && [&self.force_not_null, &self.force_null].into_iter().all(|forced| *forced == Forced::None)
    }
}

/// The first words of statements of this kind. Other statements are not read any further.
const FIRST_WORDS: [&str; 22] = [
    "ABORT",
    "BEGIN",
    "CLOSE",
    "COMMIT",
    "COPY",
    "DEALLOCATE",
    "DECLARE",
    "DISCARD",
    "END",
    "FETCH",
    "LISTEN",
    "MOVE",
    "NOTIFY",
    "PREPARE",
    "RELEASE",
    "RESET",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "SHOW",
    "START",
    "UNLISTEN",
];

/// Parses a statement of this kind; `None` if it is a statement of the engine.
pub fn utility(sql: &str) -> Result<Option<Utility>> {
    let first = first_words(sql, 1).pop().unwrap_or_default();
    if first == "SELECT" {
        let is_alone = tokens(sql).nth(1).is_none_or(|next| next.is_ok_and(|next| is_sign(&next, ";")));
        return Ok(is_alone.then_some(Utility::SelectNothing));
    }
    if !FIRST_WORDS.contains(&first.as_str()) {
        return Ok(None);
    }
    let Ok(mut tokens) = tokens(sql).collect::<std::result::Result<Vec<Lexeme>, _>>() else { return Ok(None) };
    tokens.retain(|token| !is_sign(token, ";"));
    let mut words = Tokens { text: sql, tokens: &tokens };
    words.next_word();
    of_words(&first, words)
}

/// Parses what follows the first word.
fn of_words(first: &str, mut words: Tokens) -> Result<Option<Utility>> {
    let second = words.peek();
    Ok(match first {
        "BEGIN" => Some(Utility::Begin(words.modes()?)),
        "START" if second == "TRANSACTION" => Some(Utility::Begin(words.modes()?)),
        "COMMIT" | "END" | "ROLLBACK" | "ABORT" if words.has("CHAIN") && !words.has("NO") => {
            return Err(PgError::unsupported("AND CHAIN is not available").with_hint("BEGIN the next transaction"));
        }
        "COMMIT" if second == "PREPARED" => return Err(two_phases()),
        "ROLLBACK" if second == "PREPARED" => return Err(two_phases()),
        "PREPARE" if second == "TRANSACTION" => return Err(two_phases()),
        "PREPARE" => Some(Utility::Prepare(prepare(words)?)),
        "COMMIT" | "END" => Some(Utility::Commit),
        "ROLLBACK" | "ABORT" if words.has("TO") => {
            while !words.skip("TO") && !words.tokens.is_empty() {
                words.next_word();
            }
            words.skip("SAVEPOINT");
            Some(Utility::RollbackTo(words.savepoint()?))
        }
        "SAVEPOINT" => Some(Utility::Savepoint(words.savepoint()?)),
        "RELEASE" => {
            words.skip("SAVEPOINT");
            Some(Utility::Release(words.savepoint()?))
        }
        "ROLLBACK" | "ABORT" => Some(Utility::Rollback),
        "SET" => set(words)?,
        "SHOW" if matches!(second.as_str(), "TABLES" | "COLUMNS" | "CREATE" | "FUNCTIONS") => None,
        "SHOW" => Some(Utility::Show(words.setting())),
        "RESET" => Some(Utility::Reset(words.setting())),
        "DISCARD" => match second.as_str() {
            "ALL" => Some(Utility::DiscardAll),
            "TEMP" | "TEMPORARY" => Some(Utility::DiscardTemp),
            _ => Some(Utility::Nothing("DISCARD")),
        },
        "DEALLOCATE" => {
            words.skip("PREPARE");
            let all = words.peek() == "ALL";
            Some(Utility::Deallocate((!all).then(|| words.name()).flatten()))
        }
        "LISTEN" => Some(Utility::Channel(ChannelChange::Listen(words.channel()?), "LISTEN")),
        "UNLISTEN" if words.is_at("*") => Some(Utility::Channel(ChannelChange::Unlisten(None), "UNLISTEN")),
        "UNLISTEN" => Some(Utility::Channel(ChannelChange::Unlisten(Some(words.channel()?)), "UNLISTEN")),
        "NOTIFY" => {
            let channel = words.channel()?;
            let payload = if words.skip_sign(",") { words.next_value() } else { None };
            Some(Utility::Channel(ChannelChange::Notify(channel, payload.unwrap_or_default()), "NOTIFY"))
        }
        "DECLARE" => Some(Utility::Declare(declare(words)?)),
        "FETCH" => Some(Utility::Fetch(fetch(words, "FETCH")?)),
        "MOVE" => Some(Utility::Fetch(fetch(words, "MOVE")?)),
        "CLOSE" => {
            let all = words.peek() == "ALL";
            Some(Utility::Close((!all).then(|| words.name()).flatten()))
        }
        "COPY" => copy(words)?,
        _ => None,
    })
}

/// The name of a table in SQL, whose schema is that before the first point.
pub fn sql_name(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) => format!("{}.{}", quote(schema), quote(table)),
        None => quote(name),
    }
}

fn set(mut words: Tokens) -> Result<Option<Utility>> {
    let local = words.skip("LOCAL");
    words.skip("SESSION");
    Ok(set_value(words)?.map(|set| match set {
        Utility::Set { name, value } if local => Utility::SetLocal { name, value },
        set => set,
    }))
}

fn set_value(mut words: Tokens) -> Result<Option<Utility>> {
    match words.peek().as_str() {
        "TRANSACTION" => return Ok(Some(Utility::SetTransaction(words.modes()?))),
        "CONSTRAINTS" if words.has("DEFERRED") => {
            return Err(PgError::unsupported("constraints hold at the end of each statement: none can be deferred")
                .with_hint("change the rows that belong together in one statement"));
        }
        "CONSTRAINTS" => return Ok(Some(Utility::Nothing("SET CONSTRAINTS"))),
        "CHARACTERISTICS" => {
            let modes = words.modes()?;
            let set = |name: &str, value: &str| Utility::Set { name: name.into(), value: Some(value.into()) };
            let switch = |is_on: bool| if is_on { "on" } else { "off" };
            // Drivers do not set several at once.
            return Ok(Some(match (modes.level, modes.read_only, modes.deferrable) {
                (None, None, None) => Utility::Nothing("SET"),
                (Some(level), None, None) => set("default_transaction_isolation", level),
                (None, Some(read_only), None) => set("default_transaction_read_only", switch(read_only)),
                (None, None, Some(deferrable)) => set("default_transaction_deferrable", switch(deferrable)),
                _ => {
                    return Err(PgError::unsupported("several modes of transactions in one SET SESSION")
                        .with_hint("say each in a statement of its own"));
                }
            }));
        }
        "NAMES" => {
            words.next_word();
            return Ok(Some(Utility::Set { name: "client_encoding".into(), value: words.value() }));
        }
        "AUTHORIZATION" => {
            words.next_word();
            return Ok(Some(Utility::Set { name: "session_authorization".into(), value: words.value() }));
        }
        "ROLE" if words.tokens.len() == 2 => {
            words.next_word();
            return Ok(Some(Utility::Set { name: "role".into(), value: words.value() }));
        }
        "TIME" => {
            words.next_word();
            words.skip("ZONE");
            words.skip_sign("=");
            return Ok(Some(Utility::Set { name: "timezone".into(), value: words.value() }));
        }
        _ => {}
    }
    let name = words.setting_name();
    if !words.skip_sign("=") && !words.skip("TO") {
        return Err(PgError::syntax("syntax error: expected SET name = value"));
    }
    Ok(Some(Utility::Set { name, value: words.value() }))
}

fn two_phases() -> PgError {
    PgError::unsupported("transactions are not prepared: each statement commits on its own")
}

fn prepare(mut words: Tokens) -> Result<Prepare> {
    let form = || PgError::syntax("syntax error: expected PREPARE name [(types)] AS query");
    let name = words.name().ok_or_else(form)?;
    let types = if words.is_at("(") { words.parenthesized_list() } else { vec![] };
    if !words.skip("AS") {
        return Err(form());
    }
    let query = words.written(words.tokens);
    Ok(Prepare { name, types, query, text: words.text.to_owned() })
}

fn declare(mut words: Tokens) -> Result<Declare> {
    let name = words.name().ok_or_else(|| PgError::syntax("syntax error: expected a name after DECLARE"))?;
    let (mut hold, mut scroll, mut binary) = (false, false, false);
    loop {
        match words.next_word().as_str() {
            "CURSOR" | "INSENSITIVE" | "ASENSITIVE" | "HOLD" => {}
            "WITHOUT" => {
                words.skip("HOLD");
            }
            "NO" if words.skip("SCROLL") => {}
            "SCROLL" => scroll = true,
            "BINARY" => binary = true,
            "WITH" => hold = true,
            "FOR" => break,
            _ => {
                let form = "DECLARE name [BINARY] [SCROLL] CURSOR [WITH HOLD] FOR query";
                return Err(PgError::syntax(format!("syntax error: expected {form}")));
            }
        }
    }
    let query = words.written(words.tokens);
    Ok(Declare { name, hold, scroll, binary, query, text: words.text.to_owned() })
}

fn fetch(mut words: Tokens, tag: &'static str) -> Result<Fetch> {
    let movement = movement(&mut words)?;
    if !words.skip("FROM") {
        words.skip("IN");
    }
    let name = words.name().ok_or_else(|| PgError::syntax("syntax error: expected the name of a cursor"))?;
    Ok(Fetch { name, movement, tag })
}

fn movement(words: &mut Tokens) -> Result<Movement> {
    let no_count = || PgError::syntax("syntax error: expected a number of rows");
    let direction = words.peek();
    // Without a direction, the name of the cursor or a count follows.
    let is_name = words.tokens.len() < 2;
    if is_name
        || !["NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD"]
            .contains(&direction.as_str())
    {
        return Ok(words.number()?.map_or(Movement::Forward(Some(1)), counted));
    }
    words.next_word();
    Ok(match direction.as_str() {
        "NEXT" => Movement::Forward(Some(1)),
        "PRIOR" => Movement::Backward(Some(1)),
        "FIRST" => Movement::Absolute(1),
        "LAST" => Movement::Absolute(-1),
        "ABSOLUTE" => Movement::Absolute(words.number()?.ok_or_else(no_count)?),
        "RELATIVE" => Movement::Relative(words.number()?.ok_or_else(no_count)?),
        "ALL" => Movement::Forward(None),
        "FORWARD" if words.skip("ALL") => Movement::Forward(None),
        "BACKWARD" if words.skip("ALL") => Movement::Backward(None),
        "FORWARD" => counted(words.number()?.unwrap_or(1)),
        _ => match words.number()? {
            Some(count) => counted(count.checked_neg().ok_or_else(no_count)?),
            None => Movement::Backward(Some(1)),
        },
    })
}

/// Forward over a number of rows, or backward if it is negative.
fn counted(count: i64) -> Movement {
    match count {
        0.. => Movement::Forward(Some(count.unsigned_abs())),
        _ => Movement::Backward(Some(count.unsigned_abs())),
    }
}

fn copy(mut words: Tokens) -> Result<Option<Utility>> {
    let (query, table, columns) = match words.is_at("(") {
        true => (Some(words.parenthesized()), String::new(), vec![]),
        false => {
            let Some(table) = words.qualified_name() else { return Ok(None) };
            (None, table, words.columns())
        }
    };
    let direction = words.next_word();
    match (direction.as_str(), words.next_word().as_str()) {
        ("TO", "STDOUT") => {
            let query = query.unwrap_or_else(|| {
                let quoted: Vec<String> = columns.iter().map(|column| quote(column)).collect();
                let list = if quoted.is_empty() { "*".to_owned() } else { quoted.join(", ") };
                format!("SELECT {list} FROM {}", sql_name(&table))
            });
            Ok(Some(Utility::CopyOut(CopyOut { query, options: copy_options(words, false)? })))
        }
        ("FROM", "STDIN") if query.is_none() => {
            Ok(Some(Utility::CopyIn(CopyIn { table, columns, options: copy_options(words, true)? })))
        }
        // A file, or a text for which the engine has a better error message.
        _ => Ok(None),
    }
}

/// The options of a COPY that reads or writes.
fn copy_options(mut words: Tokens, reads: bool) -> Result<CopyOptions> {
    let (mut options, mut null, mut delimiter) = (CopyOptions::of(CopyFormat::Text), None, None);
    let (mut quote, mut escape) = (None, None);
    words.skip("WITH");
    let in_parentheses = words.is_at("(");
    loop {
        while ["(", ")", ","].iter().any(|sign| words.skip_sign(sign)) {}
        if words.tokens.is_empty() {
            break;
        }
        let word = words.next_word();
        match word.as_str() {
            "DELIMITER" | "QUOTE" | "ESCAPE" | "NULL" => words.skip("AS"),
            _ => false,
        };
        match word.as_str() {
            "FORMAT" => options.format = copy_format(&words.next_value().unwrap_or_default())?,
            "CSV" => options.format = CopyFormat::Csv,
            "BINARY" => options.format = CopyFormat::Binary,
            "HEADER" => options.header = copy_header(&mut words, in_parentheses)?,
            "DELIMITER" => delimiter = Some(one_byte("DELIMITER", words.next_value())?),
            "QUOTE" => quote = Some(one_byte("QUOTE", words.next_value())?),
            "ESCAPE" => escape = Some(one_byte("ESCAPE", words.next_value())?),
            "NULL" => null = words.next_value(),
            "FORCE_QUOTE" => options.force_quote = words.forced()?,
            "FORCE_NOT_NULL" => options.force_not_null = words.forced()?,
            "FORCE_NULL" => options.force_null = words.forced()?,
            "FORCE" => match (words.next_word().as_str(), words.peek().as_str()) {
                ("QUOTE", _) => options.force_quote = words.forced()?,
                ("NULL", _) => options.force_null = words.forced()?,
                ("NOT", "NULL") => {
                    words.next_word();
                    options.force_not_null = words.forced()?;
                }
                _ => return Err(PgError::syntax("syntax error: expected FORCE QUOTE, FORCE NULL or FORCE NOT NULL")),
            },
            "ENCODING" => {
                let encoding = words.next_value().unwrap_or_default();
                if !matches!(encoding.to_ascii_lowercase().replace('-', "").as_str(), "utf8" | "unicode") {
                    return Err(PgError::unsupported(format!("encoding {encoding}: there is UTF-8 only")));
                }
            }
            // What PostgreSQL writes at once, is written at once here anyway.
            "FREEZE" => {
                let written = in_parentheses && !words.is_at(",") && !words.is_at(")");
                if written {
                    words.next_value();
                }
            }
            "" => return Err(PgError::syntax("syntax error in the options of COPY")),
            other => {
                let hint = "there are FORMAT text, csv and binary, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, FORCE_QUOTE, \
                            FORCE_NOT_NULL, FORCE_NULL and ENCODING";
                return Err(PgError::syntax(format!("COPY has no option {other} here")).with_hint(hint));
            }
        }
    }
    let usual = CopyOptions::of(options.format);
    let is_quoted = quote.is_some() || escape.is_some();
    let quote = quote.unwrap_or(usual.quote);
    let options = CopyOptions {
        delimiter: delimiter.unwrap_or(usual.delimiter),
        null: null.unwrap_or(usual.null),
        quote,
        escape: escape.unwrap_or(quote),
        ..options
    };
    check_copy_options(&options, is_quoted, reads)?;
    Ok(options)
}

/// Refuses options that mean nothing together.
fn check_copy_options(options: &CopyOptions, is_quoted: bool, reads: bool) -> Result<()> {
    let CopyOptions { format, header, force_quote, force_not_null, force_null, .. } = options;
    let of_reads = *force_not_null != Forced::None || *force_null != Forced::None;
    let refused = match (format, header) {
        (CopyFormat::Binary, CopyHeader::Skipped | CopyHeader::Compared) => "HEADER is not for the binary format",
        (_, CopyHeader::Compared) if !reads => "HEADER MATCH is of COPY FROM",
        (CopyFormat::Text | CopyFormat::Binary, _) if is_quoted => "QUOTE and ESCAPE are of the format csv",
        (CopyFormat::Text | CopyFormat::Binary, _) if of_reads || *force_quote != Forced::None => {
            "FORCE_QUOTE, FORCE_NOT_NULL and FORCE_NULL are of the format csv"
        }
        _ if reads && *force_quote != Forced::None => "FORCE_QUOTE is of COPY TO",
        _ if !reads && of_reads => "FORCE_NOT_NULL and FORCE_NULL are of COPY FROM",
        _ => return Ok(()),
    };
    Err(PgError::unsupported(refused))
}

fn copy_header(words: &mut Tokens, in_parentheses: bool) -> Result<CopyHeader> {
    let is_written = in_parentheses && !words.is_at(",") && !words.is_at(")");
    let value = if is_written { words.next_value().unwrap_or_default() } else { "true".into() };
    match value.to_ascii_lowercase().as_str() {
        "false" | "off" | "0" => Ok(CopyHeader::None),
        "true" | "on" | "1" => Ok(CopyHeader::Skipped),
        "match" => Ok(CopyHeader::Compared),
        _ => Err(PgError::syntax(format!("HEADER is true, false or match, and not {value}"))),
    }
}

fn copy_format(name: &str) -> Result<CopyFormat> {
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        _ => Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("COPY has no format {name}"))
            .with_hint("over a connection there are text, csv and binary")),
    }
}

fn one_byte(option: &str, value: Option<String>) -> Result<u8> {
    match value.as_deref().map(str::as_bytes) {
        Some([byte]) => Ok(*byte),
        _ => Err(PgError::unsupported(format!("{option} of COPY is one byte"))),
    }
}

fn is_sign(token: &Lexeme, sign: &str) -> bool {
    matches!(token.kind, LexemeKind::Sign(found) if found == sign)
}

/// The remaining tokens of a text.
struct Tokens<'a> {
    text: &'a str,
    tokens: &'a [Lexeme],
}

impl<'a> Tokens<'a> {
    /// The next token as an upper-case word; empty if it is not a word.
    fn peek(&self) -> String {
        match self.tokens.first() {
            Some(Lexeme { kind: LexemeKind::Word, span }) => span.of(self.text).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    /// Takes the next token.
    fn next(&mut self) -> Option<&'a Lexeme> {
        let (token, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(token)
    }

    fn next_word(&mut self) -> String {
        let word = self.peek();
        self.next();
        word
    }

    fn is_at(&self, sign: &str) -> bool {
        self.tokens.first().is_some_and(|token| is_sign(token, sign))
    }

    fn skip_sign(&mut self, sign: &str) -> bool {
        let found = self.is_at(sign);
        if found {
            self.next();
        }
        found
    }

    /// A part of the statement as it is written.
    fn written(&self, part: &[Lexeme]) -> String {
        match part {
            [] => String::new(),
            [first, ..] => first.span.to(part[part.len() - 1].span).of(self.text).to_owned(),
        }
    }

    fn skip(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        if found {
            self.next_word();
        }
        found
    }

    fn has(&self, word: &str) -> bool {
        let is_it =
            |token: &Lexeme| token.kind == LexemeKind::Word && token.span.of(self.text).eq_ignore_ascii_case(word);
        self.tokens.iter().any(is_it)
    }

    /// Parses READ ONLY and READ WRITE among the words.
    fn modes(&self) -> Result<Modes> {
        let words: Vec<String> =
            self.tokens.iter().map(|token| token.span.of(self.text).to_ascii_lowercase()).collect();
        let read_only = words.windows(2).filter(|pair| pair[0] == "read").find_map(|pair| match pair[1].as_str() {
            "only" => Some(true),
            "write" => Some(false),
            _ => None,
        });
        let level = match words.iter().position(|word| word == "level") {
            Some(at) => {
                let word = |at: usize| words.get(at).map_or("", String::as_str);
                let two = matches!(word(at + 1), "read" | "repeatable");
                let text = if two { format!("{} {}", word(at + 1), word(at + 2)) } else { word(at + 1).to_owned() };
                Some(level(&text)?)
            }
            None => None,
        };
        let deferrable = words.iter().position(|word| word == "deferrable");
        let deferrable = deferrable.map(|at| at == 0 || words[at - 1] != "not");
        Ok(Modes { level, read_only, deferrable })
    }

    /// Parses the columns of FORCE_QUOTE and its kin.
    fn forced(&mut self) -> Result<Forced> {
        if self.skip_sign("*") {
            return Ok(Forced::All);
        }
        if self.is_at("(") {
            return Ok(Forced::Columns(self.columns()));
        }
        let mut names = vec![];
        while names.is_empty() || self.skip_sign(",") {
            names.push(self.name().ok_or_else(|| PgError::syntax("syntax error: expected the name of a column"))?);
        }
        Ok(Forced::Columns(names))
    }

    fn savepoint(&mut self) -> Result<String> {
        self.name().ok_or_else(|| PgError::syntax("syntax error: expected the name of a savepoint"))
    }

    fn channel(&mut self) -> Result<String> {
        self.name().ok_or_else(|| PgError::syntax("syntax error: expected the name of a channel"))
    }

    /// Parses a number of rows, with its sign, if one follows.
    fn number(&mut self) -> Result<Option<i64>> {
        let sign = ["-", "+"].into_iter().find(|sign| self.is_at(sign)).unwrap_or_default();
        let at = usize::from(!sign.is_empty());
        let Some(Lexeme { kind: LexemeKind::Number, span }) = self.tokens.get(at) else { return Ok(None) };
        self.tokens = &self.tokens[at + 1..];
        let text = format!("{sign}{}", span.of(self.text));
        let count = text.parse().map_err(|_| PgError::syntax(format!("syntax error: {text} is no count of rows")))?;
        Ok(Some(count))
    }

    /// What is between parentheses, separated at its commas.
    fn parenthesized_list(&mut self) -> Vec<String> {
        let inner = self.in_parentheses();
        let (mut items, mut depth, mut start) = (vec![], 0usize, 0);
        for (at, token) in inner.iter().enumerate() {
            match token.kind {
                LexemeKind::Sign("(") => depth += 1,
                LexemeKind::Sign(")") => depth = depth.saturating_sub(1),
                LexemeKind::Sign(",") if depth == 0 => {
                    items.push(self.written(&inner[start..at]));
                    start = at + 1;
                }
                _ => {}
            }
        }
        items.push(self.written(&inner[start..]));
        items
    }

    /// Takes the tokens between parentheses, and these.
    fn in_parentheses(&mut self) -> &'a [Lexeme] {
        let (mut depth, mut end) = (0usize, self.tokens.len());
        for (at, token) in self.tokens.iter().enumerate() {
            match token.kind {
                LexemeKind::Sign("(") => depth += 1,
                LexemeKind::Sign(")") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                end = at;
                break;
            }
        }
        let inner = self.tokens.get(1..end).unwrap_or_default();
        self.tokens = self.tokens.get(end + 1..).unwrap_or_default();
        inner
    }

    /// The text between parentheses.
    fn parenthesized(&mut self) -> String {
        let inner = self.in_parentheses();
        self.written(inner)
    }

    fn name(&mut self) -> Option<String> {
        let name = match self.tokens.first()? {
            Lexeme { kind: LexemeKind::Word, span } => span.of(self.text).to_lowercase(),
            Lexeme { kind: LexemeKind::Name(name), .. } => name.clone(),
            _ => return None,
        };
        self.next();
        Some(name)
    }

    /// The name of a table, with its schema if that is written.
    fn qualified_name(&mut self) -> Option<String> {
        let mut parts = vec![self.name()?];
        while self.skip_sign(".") {
            parts.push(self.name()?);
        }
        let from = parts.len().saturating_sub(2);
        Some(parts[from..].join("."))
    }

    fn columns(&mut self) -> Vec<String> {
        let mut columns = vec![];
        if self.skip_sign("(") {
            while let Some(name) = self.name() {
                columns.push(name);
                let more = self.is_at(",");
                self.next();
                if !more {
                    break;
                }
            }
        }
        columns
    }

    /// A string, a number or a word.
    fn next_value(&mut self) -> Option<String> {
        let token = self.next()?;
        Some(match &token.kind {
            LexemeKind::Text(value) | LexemeKind::Name(value) => value.clone(),
            _ => token.span.of(self.text).to_owned(),
        })
    }

    /// All remaining tokens as one value; `None` for DEFAULT.
    fn value(&mut self) -> Option<String> {
        let mut parts = vec![];
        while let Some(part) = self.next_value() {
            parts.push(part);
        }
        let text = parts.join(" ").replace(" , ", ", ").replace("- ", "-");
        (!text.eq_ignore_ascii_case("default")).then_some(text)
    }

    fn setting_name(&mut self) -> String {
        let mut name = self.name().unwrap_or_default();
        while self.skip_sign(".") {
            name = format!("{name}.{}", self.name().unwrap_or_default());
        }
        name.to_lowercase()
    }

    /// The name of a setting in SHOW and RESET.
    fn setting(&mut self) -> String {
        match (self.peek().as_str(), self.tokens.len()) {
            ("TIME", 2) => "timezone".into(),
            ("TRANSACTION", 3) => "transaction_isolation".into(),
            ("SESSION", 2) => "session_authorization".into(),
            _ => self.setting_name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: Option<Utility>) {
        assert_eq!(utility(sql).expect(sql), expected, "{sql}");
    }

    #[test]
    fn postgresqls_own_statements_are_recognized() {
        let set = |name: &str, value: &str| Utility::Set { name: name.into(), value: Some(value.into()) };
        let modes = |level, read_only| Modes { level, read_only, deferrable: None };
        let deferrable = Modes { deferrable: Some(false), ..modes(None, Some(true)) };
        check("BEGIN READ ONLY, NOT DEFERRABLE", Some(Utility::Begin(deferrable)));
        assert!(utility("begin isolation level serializable").is_err());
        check("BEGIN", Some(Utility::Begin(Modes::default())));
        check("START TRANSACTION READ ONLY;", Some(Utility::Begin(modes(None, Some(true)))));
        let committed = modes(Some("read committed"), Some(false));
        check("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE", Some(Utility::Begin(committed)));
        check("begin isolation level repeatable read", Some(Utility::Begin(modes(Some("repeatable read"), None))));
        check("SET TRANSACTION READ ONLY", Some(Utility::SetTransaction(modes(None, Some(true)))));
        let level = set("default_transaction_isolation", "read committed");
        check("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", Some(level));
        check("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", Some(set("default_transaction_read_only", "on")));
        check("/* x */ ROLLBACK", Some(Utility::Rollback));
        check("SET DateStyle TO 'ISO'", Some(set("datestyle", "ISO")));
        check("set session search_path = a, \"B\"", Some(set("search_path", "a, B")));
        check("SET NAMES 'utf8'", Some(set("client_encoding", "utf8")));
        check("SET TIME ZONE 'UTC'", Some(set("timezone", "UTC")));
        check("SET TIME ZONE = '+07:00'", Some(set("timezone", "+07:00")));
        check("SET TIME ZONE -3.5", Some(set("timezone", "-3.5")));
        check("SET extra_float_digits = -3", Some(set("extra_float_digits", "-3")));
        let local = Utility::SetLocal { name: "statement_timeout".into(), value: Some("5s".into()) };
        check("SET LOCAL statement_timeout = '5s'", Some(local));
        check("SET SESSION AUTHORIZATION ann", Some(set("session_authorization", "ann")));
        let default = Utility::Set { name: "session_authorization".into(), value: None };
        check("SET SESSION AUTHORIZATION DEFAULT", Some(default));
        check("SET ROLE NONE", Some(set("role", "NONE")));
        check("SET role = none", Some(set("role", "none")));
        check("SET x TO DEFAULT", Some(Utility::Set { name: "x".into(), value: None }));
        check("SHOW TRANSACTION ISOLATION LEVEL", Some(Utility::Show("transaction_isolation".into())));
        check("SHOW freestone.design", Some(Utility::Show("freestone.design".into())));
        check("SHOW TABLES", None);
        check("DEALLOCATE ALL", Some(Utility::Deallocate(None)));
        check("DEALLOCATE PREPARE s1", Some(Utility::Deallocate(Some("s1".into()))));
        check("SELECT 1", None);
        check("select /* nothing */ ;", Some(Utility::SelectNothing));
        check("SELECT 'open", None);
        check("savepoint a", Some(Utility::Savepoint("a".into())));
        check("RELEASE SAVEPOINT A", Some(Utility::Release("a".into())));
        check("ROLLBACK TO SAVEPOINT \"A\"", Some(Utility::RollbackTo("A".into())));
        check("ROLLBACK WORK TO a", Some(Utility::RollbackTo("a".into())));
        check("ROLLBACK AND NO CHAIN", Some(Utility::Rollback));
        assert!(utility("COMMIT AND CHAIN").is_err() && utility("PREPARE TRANSACTION 'x'").is_err());
        check("CLOSE ALL", Some(Utility::Close(None)));
        check("CLOSE \"C\"", Some(Utility::Close(Some("C".into()))));
        let listen = ChannelChange::Listen("a".into());
        check("LISTEN A", Some(Utility::Channel(listen, "LISTEN")));
        check("UNLISTEN *", Some(Utility::Channel(ChannelChange::Unlisten(None), "UNLISTEN")));
        let notify =
            |payload: &str| Some(Utility::Channel(ChannelChange::Notify("a".into(), payload.into()), "NOTIFY"));
        check("NOTIFY a", notify(""));
        check("NOTIFY a, 'it''s'", notify("it's"));
        check("COPY t FROM 'file.csv'", None);
        assert!(utility("SET x").is_err());
    }

    #[test]
    fn cursors_move_as_in_postgresql() {
        use Movement::{Absolute, Backward, Forward, Relative};
        let fetch = |name: &str, movement, tag| Some(Utility::Fetch(Fetch { name: name.into(), movement, tag }));
        check("FETCH c", fetch("c", Forward(Some(1)), "FETCH"));
        check("FETCH next", fetch("next", Forward(Some(1)), "FETCH"));
        check("FETCH NEXT FROM c", fetch("c", Forward(Some(1)), "FETCH"));
        check("fetch forward 100 from \"C\"", fetch("C", Forward(Some(100)), "FETCH"));
        check("FETCH FORWARD ALL IN c", fetch("c", Forward(None), "FETCH"));
        check("FETCH 7 c", fetch("c", Forward(Some(7)), "FETCH"));
        check("FETCH -7 c", fetch("c", Backward(Some(7)), "FETCH"));
        check("MOVE ALL FROM c", fetch("c", Forward(None), "MOVE"));
        check("MOVE BACKWARD ALL IN c", fetch("c", Backward(None), "MOVE"));
        check("FETCH BACKWARD c", fetch("c", Backward(Some(1)), "FETCH"));
        check("FETCH PRIOR FROM c", fetch("c", Backward(Some(1)), "FETCH"));
        check("FETCH LAST c", fetch("c", Absolute(-1), "FETCH"));
        check("FETCH ABSOLUTE 3 c", fetch("c", Absolute(3), "FETCH"));
        check("MOVE RELATIVE -2 FROM c", fetch("c", Relative(-2), "MOVE"));
        let declared = |sql: &str| match utility(sql).expect(sql) {
            Some(Utility::Declare(declare)) => {
                assert_eq!(declare.text, sql);
                Declare { text: String::new(), ..declare }
            }
            other => panic!("{sql}: {other:?}"),
        };
        let declare = |name: &str, query: &str| Declare {
            name: name.into(),
            hold: false,
            scroll: false,
            binary: false,
            query: query.into(),
            text: String::new(),
        };
        assert_eq!(declared("DECLARE c CURSOR FOR SELECT 1"), declare("c", "SELECT 1"));
        let held = "declare \"x y\" no scroll cursor with hold for select $1";
        assert_eq!(declared(held), Declare { hold: true, ..declare("x y", "select $1") });
        let scrolled = "DECLARE c BINARY SCROLL CURSOR WITHOUT HOLD FOR SELECT 1";
        assert_eq!(declared(scrolled), Declare { scroll: true, binary: true, ..declare("c", "SELECT 1") });
        for wrong in ["DECLARE c", "DECLARE", "FETCH", "FETCH ABSOLUTE c", "FETCH 99999999999999999999 FROM c"] {
            assert!(utility(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_are_prepared_with_types() {
        let prepared = |sql: &str| match utility(sql).expect(sql) {
            Some(Utility::Prepare(Prepare { name, types, query, .. })) => (name, types.join("; "), query),
            other => panic!("{sql}: {other:?}"),
        };
        let expected = ("p".into(), "int; numeric(10,2); double precision; int[]".into(), "SELECT $1".into());
        assert_eq!(prepared("PREPARE P (int, numeric(10,2), double precision, int[]) AS SELECT $1"), expected);
        assert_eq!(prepared("prepare \"P\" as select 1"), ("P".into(), String::new(), "select 1".into()));
        let commented = prepared("PREPARE p (bit varying (3)) AS SELECT 'a' /* b */ , $1");
        assert_eq!(commented, ("p".into(), "bit varying (3)".into(), "SELECT 'a' /* b */ , $1".into()));
        assert!(utility("PREPARE p SELECT 1").is_err());
    }

    #[test]
    fn copy_over_the_connection_has_postgresqls_options() {
        let options = |sql: &str| match utility(sql).expect(sql) {
            Some(Utility::CopyOut(copy)) => (copy.query, copy.options),
            other => panic!("{sql}: {other:?}"),
        };
        let text = CopyOptions::of(CopyFormat::Text);
        assert_eq!(options("COPY t TO STDOUT"), ("SELECT * FROM \"t\"".into(), text.clone()));
        let csv = CopyOptions {
            delimiter: b';',
            null: "x".into(),
            header: CopyHeader::Skipped,
            quote: b'\'',
            escape: b'\'',
            ..CopyOptions::of(CopyFormat::Csv)
        };
        let sql = "COPY public.t (a, \"B\") TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x', QUOTE '''')";
        assert_eq!(options(sql), ("SELECT \"a\", \"B\" FROM \"public\".\"t\"".into(), csv));
        let (query, chosen) = options("COPY (SELECT 'a)' , (1)) TO STDOUT (FORMAT BINARY)");
        assert_eq!((query.as_str(), chosen.format), ("SELECT 'a)' , (1)", CopyFormat::Binary));
        let (query, _) = options("COPY (SELECT 'te''xt', E'\\n\\'\\\\', \"x\"\"y\" FROM t) TO STDOUT");
        assert_eq!(query, "SELECT 'te''xt', E'\\n\\'\\\\', \"x\"\"y\" FROM t");
        assert_eq!(options("COPY t TO STDOUT CSV HEADER").1.format, CopyFormat::Csv);
        let columns = |names: &[&str]| Forced::Columns(names.iter().map(|name| (*name).to_owned()).collect());
        let csv = || CopyOptions::of(CopyFormat::Csv);
        let written = options("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (a, \"B\"), ESCAPE '\\')").1;
        assert_eq!(written, CopyOptions { force_quote: columns(&["a", "B"]), escape: b'\\', ..csv() });
        let all = options("COPY t TO STDOUT WITH CSV HEADER FORCE QUOTE *").1;
        assert_eq!(all, CopyOptions { force_quote: Forced::All, header: CopyHeader::Skipped, ..csv() });
        let read = |sql: &str| match utility(sql) {
            Ok(Some(Utility::CopyIn(copy))) => Ok(copy.options),
            Err(error) => Err(error.code),
            other => panic!("{sql}: {other:?}"),
        };
        let forced = CopyOptions { force_not_null: columns(&["a", "b"]), force_null: columns(&["c"]), ..csv() };
        assert_eq!(read("COPY t FROM STDIN (FORMAT csv, FORCE_NOT_NULL (a, b), FORCE_NULL (c))"), Ok(forced.clone()));
        let old = "COPY t FROM STDIN CSV FORCE NOT NULL a, b FORCE NULL c";
        assert_eq!(read(old), Ok(forced));
        let compared = CopyOptions { header: CopyHeader::Compared, ..CopyOptions::of(CopyFormat::Text) };
        assert_eq!(read("COPY t FROM STDIN (HEADER match)"), Ok(compared));
        for (wrong, code) in [
            ("COPY t FROM STDIN (QUOTE 'x')", "0A000"),
            ("COPY t FROM STDIN (FORCE_NULL (a))", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "0A000"),
            ("COPY t FROM STDIN (FORMAT binary, HEADER)", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, HEADER x)", "42601"),
            ("COPY t FROM STDIN (FORMAT csv, ESCAPE 'ab')", "0A000"),
        ] {
            assert_eq!(read(wrong), Err(code), "{wrong}");
        }
        assert!(utility("COPY t TO STDOUT (FORMAT parquet)").is_err());
        assert!(utility("COPY t TO STDOUT (DELIMITER 'ab')").is_err());
        match utility("copy t(a) from stdin with csv").expect("a copy") {
            Some(Utility::CopyIn(copy)) => assert_eq!((copy.table.as_str(), copy.columns.len()), ("t", 1)),
            other => panic!("{other:?}"),
        }
    }
}
