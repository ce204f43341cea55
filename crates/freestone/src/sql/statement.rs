//! From a script to statements, and from a statement to the command to execute.
//!
//! SQL that sqlparser supports is parsed by it. Freestone's own statements (`COPY … FROM`, `ALTER TABLE … SET DESIGN`,
//! `VACUUM`, `CHECK`, `SET`, …) are parsed here from the same tokens, so that strings, comments and dollar quotes have
//! the same meaning everywhere.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word};
use freestone_sql::ErrorCode;
use freestone_sql::tree::{self, Write};
pub use freestone_store::design::quoted as quote;

use crate::context::guarded_now;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::dialect::SqlDialect;
use crate::sql::locking::LockingQuery;
use crate::sql::parameters::literals;
use crate::sql::transactions::TransactionCommand;
use crate::sql::user_types;
use crate::sql::with_writes::WithWrites;
use crate::sql::written::Written;
use crate::sql::{
    case_results, collations, depth, explain_options, extensions, fetch, file_calls, forms, frame_exclusion,
    from_first, function_macros, like_escape, locking, materialized, merge_forms, named_windows, names, spellings,
    struct_fields, supported, token_forms, transactions, trees, using, values, with_writes,
};
use crate::times;

const DIALECT: SqlDialect = SqlDialect;

/// One statement of a script.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The statement's text, without the closing semicolon.
    pub text: String,
    /// The line of the script on which it begins, from 1.
    pub line: usize,
    /// What the statement does.
    pub kind: StatementKind,
    tokens: Arc<Vec<TokenWithSpan>>,
    /// Its query, which is read once for all of its executions.
    written: Arc<Written>,
    /// Memory reserved for parsing and planning a long text.
    memory: Option<Arc<MemoryReservation>>,
    /// The error that ends the tokens early, such as an unclosed quote.
    broken: Option<Error>,
}

/// How a statement names its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterNames {
    /// `$1`, `$2`, …, or one `?` for each; the largest number.
    Numbers(usize),
    /// `$name`: the names in the order of their first appearance, which is that of their numbers.
    Names(Vec<String>),
}

/// What a statement does, from its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Returns rows and changes nothing.
    Query,
    /// Changes rows.
    Write,
    /// Changes tables, views or designs.
    Definition,
    /// Changes or shows the session.
    Session,
    /// VACUUM, CHECK, CALIBRATE, BACKUP, RESTORE, EXPORT DATABASE and IMPORT DATABASE.
    Maintenance,
    /// Anything else; executing it gives the error.
    Other,
}

/// A statement as the session executes it.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Sql(Box<ast::Statement>),
    /// SELECT … FOR UPDATE.
    LockRows(Box<LockingQuery>),
    /// A statement that has others which write within its WITH.
    WithWrites(Box<WithWrites>),
    CopyFrom(CopyFrom),
    CopyTo(CopyTo),
    SetDesign {
        table: String,
        options: OptionList,
    },
    AddCopy(AddCopy),
    DropCopy {
        table: String,
        name: String,
        if_exists: bool,
    },
    /// `CREATE TYPE name AS type`.
    CreateType {
        /// The name.
        name: String,
        /// The type in SQL.
        text: String,
        /// Whether a type of this name is replaced.
        or_replace: bool,
        /// Whether one that exists is no error.
        if_not_exists: bool,
    },
    /// `DROP MACRO name`.
    DropMacro {
        name: String,
        if_exists: bool,
    },
    Vacuum(Option<String>),
    /// BACKUP TO 'folder'.
    Backup {
        folder: String,
    },
    /// RESTORE FROM 'folder'.
    Restore {
        folder: String,
    },
    /// ATTACH 'folder' AS name (READ_ONLY).
    Attach {
        folder: String,
        name: Option<String>,
        if_not_exists: bool,
    },
    /// DETACH name.
    Detach {
        name: String,
        if_exists: bool,
    },
    /// EXPORT DATABASE 'folder' (options).
    ExportDatabase {
        folder: String,
        options: OptionList,
    },
    /// IMPORT DATABASE 'folder'.
    ImportDatabase {
        folder: String,
    },
    /// ANALYZE, for which there is nothing to do.
    Analyze(Option<String>),
    Check(Option<String>),
    Set {
        name: String,
        value: String,
        /// Whether it holds until the end of the transaction only.
        local: bool,
    },
    /// SET VARIABLE, with a query of one value.
    SetVariable {
        name: String,
        value: Box<ast::Statement>,
    },
    ResetVariable {
        name: String,
    },
    Reset {
        name: String,
    },
    Show {
        name: String,
    },
    /// USE of a schema, of which only ours is possible.
    Use,
    Calibrate,
    Transaction(TransactionCommand),
    Advise(AdviseRequest),
    WhatIf(Box<WhatIfRequest>),
}

/// `ALTER TABLE table ADD COPY name [(columns)] [WITH (options)]`; without a list, all columns.
#[derive(Debug, Clone)]
pub(crate) struct AddCopy {
    pub table: String,
    pub name: String,
    pub columns: Vec<String>,
    pub options: OptionList,
}

/// `ADVISE [table] [COPIES n] [BUDGET 'size']`; without a name, all tables.
#[derive(Debug, Clone)]
pub(crate) struct AdviseRequest {
    pub table: Option<String>,
    /// The maximum number of copies of a table, including the table.
    pub copies: Option<usize>,
    /// The maximum bytes of a table with its copies.
    pub budget: Option<usize>,
}

/// `WHATIF table DESIGN (options) FOR query`.
#[derive(Debug, Clone)]
pub(crate) struct WhatIfRequest {
    pub table: String,
    pub options: OptionList,
    pub query: ast::Statement,
}

/// Options in parentheses, in the order written. An option without a value has the value `true`.
pub(crate) type OptionList = Vec<(String, String)>;

#[derive(Debug, Clone)]
pub(crate) struct CopyFrom {
    pub table: String,
    pub columns: Vec<String>,
    pub path: String,
    pub options: OptionList,
}

#[derive(Debug, Clone)]
pub(crate) struct CopyTo {
    pub query: Box<ast::Query>,
    pub path: String,
    pub options: OptionList,
}

/// Splits a script at its semicolons. An unclosed quote makes the rest one statement that fails when it is executed, so
/// the earlier statements can still run.
pub fn parse_script(script: &str) -> Vec<Statement> {
    let mut tokens = Vec::new();
    let broken = Tokenizer::new(&DIALECT, script).tokenize_with_location_into_buf(&mut tokens).err();
    let offsets = Offsets::new(script);
    let mut statements = Vec::new();
    let mut current: Vec<TokenWithSpan> = Vec::new();
    for token in token_forms::decimal(tokens) {
        match token.token {
            Token::SemiColon => finish(&mut statements, std::mem::take(&mut current), &offsets),
            Token::Whitespace(_) | Token::EOF => {}
            _ => current.push(token),
        }
    }
    match broken {
        None => finish(&mut statements, current, &offsets),
        Some(error) => {
            let start = current.first().map_or(error.location, |t| t.span.start);
            let text = script[offsets.of(start)..].trim_end().to_owned();
            let error = Error::from(ParserError::from(error));
            let kind = kind_of(&current);
            let (line, tokens) = (start.line as usize, Arc::new(current));
            let written = Arc::new(Written::new(&text));
            statements.push(Statement { text, line, kind, tokens, written, memory: None, broken: Some(error) });
        }
    }
    statements
}

/// The approximate number of tokens of a text, counted without tokenizing it: words and other characters. Text in
/// quotes counts as one.
pub(crate) fn expected_tokens(text: &str) -> usize {
    let (mut tokens, mut in_word, mut quote) = (0, false, None);
    for byte in text.bytes() {
        match quote {
            Some(open) => quote = (byte != open).then_some(open),
            None => {
                let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..);
                tokens += usize::from(!(byte.is_ascii_whitespace() || is_word && in_word));
                in_word = is_word;
                quote = matches!(byte, b'\'' | b'"').then_some(byte);
            }
        }
    }
    tokens
}

fn finish(statements: &mut Vec<Statement>, tokens: Vec<TokenWithSpan>, offsets: &Offsets) {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return };
    let text = offsets.script[offsets.of(first.span.start)..offsets.of(last.span.end)].to_owned();
    let (line, kind) = (first.span.start.line as usize, kind_of(&tokens));
    let (tokens, written) = (Arc::new(tokens), Arc::new(Written::new(&text)));
    statements.push(Statement { text, line, kind, tokens, written, memory: None, broken: None });
}

fn kind_of(tokens: &[TokenWithSpan]) -> StatementKind {
    match (Cursor { tokens }).upper(0).as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" | "FROM" | "(" | "EXPLAIN" | "DESCRIBE" | "DESC" | "PIVOT"
        | "UNPIVOT" | "PIVOT_WIDER" | "PIVOT_LONGER" | "SUMMARIZE" | "PRAGMA" => StatementKind::Query,
        "INSERT" | "DELETE" | "UPDATE" | "MERGE" | "TRUNCATE" | "COPY" => StatementKind::Write,
        "CREATE" | "DROP" | "ALTER" | "COMMENT" => StatementKind::Definition,
        "SHOW" if is_listing(&(Cursor { tokens }).after(1)) => StatementKind::Query,
        "SET" | "RESET" | "SHOW" | "PREPARE" | "DEALLOCATE" | "USE" | "ATTACH" | "DETACH" => StatementKind::Session,
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => StatementKind::Session,
        "EXECUTE" => StatementKind::Query,
        "VACUUM" | "ANALYZE" | "ANALYSE" | "CHECK" | "CALIBRATE" | "BACKUP" | "RESTORE" | "EXPORT" | "IMPORT" => {
            StatementKind::Maintenance
        }
        "ADVISE" | "WHATIF" => StatementKind::Query,
        _ => StatementKind::Other,
    }
}

/// Whether SHOW shows tables or columns, which the binder plans.
fn is_listing(rest: &Cursor) -> bool {
    match rest.upper(0).as_str() {
        "TABLES" => true,
        "COLUMNS" | "FIELDS" => matches!(rest.upper(1).as_str(), "FROM" | "IN"),
        "ALL" => rest.upper(1) == "TABLES",
        _ => false,
    }
}

impl ParameterNames {
    /// The number of values that the statement needs.
    pub fn count(&self) -> usize {
        match self {
            ParameterNames::Numbers(count) => *count,
            ParameterNames::Names(names) => names.len(),
        }
    }
}

impl Statement {
    /// The column of the script in which it begins, from 1, in characters.
    pub fn column(&self) -> usize {
        self.tokens.first().map_or(1, |token| token.span.start.column as usize)
    }

    /// Its query, for the binder.
    pub(crate) fn written(&self) -> Arc<Written> {
        self.written.clone()
    }

    /// Whether it is a query of the dialect, and nothing else.
    pub(crate) fn is_whole_query(&self) -> bool {
        self.whole_query().is_some()
    }

    fn whole_query(&self) -> Option<&tree::Query> {
        let may_be = self.kind == StatementKind::Query && self.broken.is_none();
        may_be.then(|| self.written.whole_query()).flatten()
    }

    /// The command of the statement.
    pub(crate) fn command(&self) -> Result<Command> {
        depth::with_stack(self.tokens.len(), || guarded_now(|| self.parsed())).map_err(|error| self.explained(error))
    }

    /// The error of a text that is no statement, with its place and what was expected there, if the dialect's grammar
    /// refuses it, too.
    fn explained(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Syntax || error.excerpt().is_some() {
            return error;
        }
        match freestone_sql::parse_statement(&self.text) {
            Err(found) if found.code == ErrorCode::Syntax => {
                let start = self.tokens.first().map(|token| token.span.start);
                let (line, column) = start.map_or((self.line as u64, 1), |start| (start.line, start.column));
                Error::of_syntax(&found, &self.text, line, column)
            }
            // What SQL has and this database has not, under its name.
            Err(found) if found.code == ErrorCode::Unsupported => {
                let error = Error::unsupported(found.message);
                match found.hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            }
            _ => error,
        }
    }

    /// The command, after other work on it; both on a stack that is large enough.
    pub(crate) fn command_with<T>(&self, work: impl FnOnce(&mut Command) -> Result<T>) -> Result<(Command, T)> {
        depth::with_stack(self.tokens.len(), || {
            let mut command = guarded_now(|| self.parsed())?;
            let done = work(&mut command)?;
            Ok((command, done))
        })
        .map_err(|error| self.explained(error))
    }

    /// Whether it is of a kind that names tables. Statements about transactions and settings do not.
    pub(crate) fn may_name_tables(&self) -> bool {
        let first = (Cursor { tokens: &self.tokens }).upper(0);
        self.kind != StatementKind::Session || matches!(first.as_str(), "SHOW" | "PREPARE" | "SET")
    }

    /// Whether it names the schema that every database has.
    pub(crate) fn names_public(&self) -> bool {
        let is_schema = |pair: &[TokenWithSpan]| match &pair[0].token {
            Token::Word(word) => pair[1].token == Token::Period && names::is_ours(&fold(word)),
            _ => false,
        };
        self.tokens.windows(2).any(is_schema)
    }

    /// Whether a word says that it makes or names something temporary.
    pub(crate) fn may_be_temporary(&self) -> bool {
        let is_sign = |word: &Word| {
            let lower = word.value.to_ascii_lowercase();
            matches!(lower.as_str(), "temp" | "temporary") || lower.starts_with("pg_temp")
        };
        self.tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_sign(word)))
    }

    /// Whether it creates something, by its first word or by INTO of a query.
    pub(crate) fn creates(&self) -> bool {
        let cursor = Cursor { tokens: &self.tokens };
        cursor.upper(0) == "CREATE" || self.kind == StatementKind::Query && self.names("into")
    }

    /// Whether it ends a transaction or returns to a savepoint. Such statements are accepted after a failed statement.
    pub fn ends_transaction(&self) -> bool {
        matches!((Cursor { tokens: &self.tokens }).upper(0).as_str(), "COMMIT" | "END" | "ROLLBACK" | "ABORT")
    }

    /// Whether it cannot be a part of a transaction, by its first word.
    pub fn is_alone(&self) -> bool {
        matches!((Cursor { tokens: &self.tokens }).upper(0).as_str(), "VACUUM" | "BACKUP" | "RESTORE" | "IMPORT")
    }

    /// The prepared statement that this one executes.
    pub fn executes(&self) -> Option<String> {
        let cursor = Cursor { tokens: &self.tokens };
        if cursor.upper(0) != "EXECUTE" {
            return None;
        }
        match &self.tokens.get(1)?.token {
            Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
            Token::Word(word) => Some(word.value.to_lowercase()),
            _ => None,
        }
    }

    /// Checks that the statement can be parsed.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_syntax(&self) -> Result<()> {
        if self.is_whole_query() {
            return Ok(());
        }
        self.command().map(drop)
    }

    /// Whether it begins a transaction, or sets or releases a savepoint, by its first word.
    pub(crate) fn marks_transaction(&self) -> bool {
        let first = (Cursor { tokens: &self.tokens }).upper(0);
        matches!(first.as_str(), "BEGIN" | "START" | "SAVEPOINT" | "RELEASE")
    }

    /// The statement with parameters instead of its literals, and their values, if it has such a form.
    pub(crate) fn lifted(&self) -> Option<(String, Vec<ScalarValue>)> {
        if self.broken.is_none() { literals::lifted(&self.tokens) } else { None }
    }

    /// Holds the memory that was reserved for its text until it is dropped.
    pub(crate) fn hold(&mut self, memory: &Arc<MemoryReservation>) {
        self.memory = Some(memory.clone());
    }

    /// The number of the statement's tokens, which limits its depth.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens.len()
    }

    fn parsed(&self) -> Result<Command> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let numbered = numbered(&self.tokens)?;
        let cursor = Cursor { tokens: &numbered };
        let rest = cursor.after(1);
        match cursor.upper(0).as_str() {
            "COPY" => copy(rest),
            "ALTER" => alter(cursor),
            "VACUUM" => vacuum(rest),
            "BACKUP" => Ok(Command::Backup { folder: rest.folder("TO", "BACKUP TO 'folder'")? }),
            "RESTORE" => Ok(Command::Restore { folder: rest.folder("FROM", "RESTORE FROM 'folder'")? }),
            "ATTACH" => attach(rest),
            "DETACH" => detach(rest),
            "EXPORT" => export_database(rest),
            "IMPORT" => Ok(Command::ImportDatabase { folder: rest.folder("DATABASE", "IMPORT DATABASE 'folder'")? }),
            "ANALYZE" | "ANALYSE" => analyze(rest),
            "CHECK" => Ok(Command::Check(rest.optional_name("CHECK [table]")?)),
            "SET" => set(rest),
            "RESET" if rest.upper(0) == "VARIABLE" => reset_variable(rest.after(1)),
            "RESET" => Ok(Command::Reset { name: rest.setting_name()? }),
            "SHOW" => show(cursor),
            "DESCRIBE" | "DESC" | "SUMMARIZE" => Err(Error::syntax("expected a table, a file in quotes, or a query")),
            "CREATE" if is_create_type(&rest) => create_type(rest),
            "DROP" if matches!(rest.upper(0).as_str(), "MACRO" | "FUNCTION") => drop_macro(rest.after(1)),
            "PRAGMA" => pragma(rest),
            "USE" => use_schema(rest),
            "CALIBRATE" => rest.expect_end().map(|()| Command::Calibrate),
            "ADVISE" => advise(rest),
            "WHATIF" => what_if(rest),
            word @ ("BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE") => {
                transactions::parse(word, rest)
            }
            _ => cursor.sql_or_lock(),
        }
    }

    /// The names of the statement's parameters.
    ///
    /// # Errors
    /// The statement mixes forms of parameters.
    pub fn parameter_names(&self) -> Result<ParameterNames> {
        parameter_names(&self.tokens)
    }

    /// Whether the statement is a query, which returns rows and changes nothing.
    ///
    /// # Errors
    /// The statement cannot be parsed.
    pub fn is_query(&self) -> Result<bool> {
        if self.is_whole_query() {
            return Ok(true);
        }
        Ok(matches!(self.command()?, Command::Sql(sql) if matches!(*sql, ast::Statement::Query(_))))
    }

    /// Whether the text of the statement shows that it changes the database. EXECUTE may also change it, but is not
    /// included.
    pub fn writes(&self) -> bool {
        if self.is_whole_query() {
            return false;
        }
        match self.command() {
            Ok(Command::Sql(sql)) => match *sql {
                ast::Statement::Explain { analyze, statement, .. } => analyze && is_write(&statement),
                sql => is_write(&sql),
            },
            Ok(
                Command::CopyFrom(_)
                | Command::SetDesign { .. }
                | Command::AddCopy(_)
                | Command::DropCopy { .. }
                | Command::DropMacro { .. }
                | Command::CreateType { .. }
                | Command::LockRows(_)
                | Command::WithWrites(_)
                | Command::Restore { .. }
                | Command::Vacuum(_),
            ) => true,
            _ => false,
        }
    }

    /// A notice for the user after the statement was executed.
    pub fn notice(&self) -> Option<String> {
        let first = Cursor { tokens: &self.tokens };
        if first.upper(0) != "CREATE" {
            return None;
        }
        let Ok(Command::Sql(sql)) = self.command() else { return None };
        let ast::Statement::CreateTable(create) = *sql else { return None };
        let is_loose = |characteristics: &Option<ast::ConstraintCharacteristics>| {
            characteristics.as_ref().is_some_and(|characteristics| characteristics.enforced == Some(false))
        };
        let is_key = |constraint: &ast::TableConstraint| matches!(constraint, ast::TableConstraint::PrimaryKey(key) if is_loose(&key.characteristics));
        let is_primary = |option: &ast::ColumnOptionDef| matches!(&option.option, ast::ColumnOption::PrimaryKey(key) if is_loose(&key.characteristics));
        let declared = create.constraints.iter().any(is_key)
            || create.columns.iter().any(|column| column.options.iter().any(is_primary));
        let notice = "PRIMARY KEY is declared and not enforced when rows are written: CHECK tells which rows break it";
        declared.then(|| notice.to_owned())
    }

    /// The tables that the statement names, with names folded as in SQL: those without a schema or with the database's
    /// own. Tables that the query defines in WITH are not included.
    ///
    /// # Errors
    /// The statement cannot be parsed.
    pub fn named_tables(&self) -> Result<Vec<String>> {
        if let Some(query) = self.whole_query() {
            return Ok(names::of_database(query));
        }
        if let Ok(Write::Merge(merge)) = self.written.write() {
            return Ok(names::of_database(&trees::rows_of_source(merge)));
        }
        let sql = match self.command()? {
            Command::Sql(sql) => *sql,
            Command::CopyTo(request) => ast::Statement::Query(request.query),
            _ => return Ok(vec![]),
        };
        // The target of a statement is always a table of the database.
        let sql = match sql {
            ast::Statement::CreateTable(ast::CreateTable { query, .. }) => query.map(ast::Statement::Query),
            ast::Statement::Insert(ast::Insert { source, .. }) => source.map(ast::Statement::Query),
            ast::Statement::CreateView(_)
            | ast::Statement::Drop { .. }
            | ast::Statement::Truncate(_)
            | ast::Statement::AlterTable(_) => None,
            other => Some(other),
        };
        let Some(sql) = sql else { return Ok(vec![]) };
        let sql = datafusion::sql::parser::Statement::Statement(Box::new(sql));
        let (named, _) = datafusion::sql::resolve::resolve_table_references(&sql, true)?;
        let ours = |name: &TableReference| name.schema().is_none_or(|schema| schema == names::SCHEMA);
        Ok(named.into_iter().filter(ours).map(|name| name.table().to_owned()).collect())
    }

    /// Whether a name stands somewhere in the statement.
    pub(crate) fn names(&self, name: &str) -> bool {
        let is_name =
            |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name));
        self.tokens.iter().any(is_name)
    }

    /// The text of the statement after its first top-level `AS`: a view's query as it was written.
    pub(crate) fn text_after_as(&self) -> Option<&str> {
        let start = self.tokens.first()?.span.start;
        let mut depth = 0;
        for token in self.tokens.iter() {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::Word(word) if depth == 0 && is_word(word, "AS") => {
                    let end = token.span.end;
                    let relative = Location {
                        line: end.line - start.line + 1,
                        column: if end.line == start.line { end.column - start.column + 1 } else { end.column },
                    };
                    return Some(self.text[Offsets::new(&self.text).of(relative)..].trim());
                }
                _ => {}
            }
        }
        None
    }
}

/// The parameter names, from a statement's tokens.
fn parameter_names(tokens: &[TokenWithSpan]) -> Result<ParameterNames> {
    let (mut marks, mut numbers, mut names) = (0, 0, Vec::<String>::new());
    for token in tokens {
        let Token::Placeholder(text) = &token.token else { continue };
        match text.strip_prefix('$') {
            None => marks += 1,
            Some(rest) => match rest.parse::<usize>() {
                Ok(number) => numbers = numbers.max(number),
                Err(_) if names.iter().any(|name| name == rest) => {}
                Err(_) => names.push(rest.to_owned()),
            },
        }
    }
    match (marks, numbers, names.is_empty()) {
        (marks, 0, true) => Ok(ParameterNames::Numbers(marks)),
        (0, numbers, true) => Ok(ParameterNames::Numbers(numbers)),
        (0, 0, false) => Ok(ParameterNames::Names(names)),
        _ => Err(Error::invalid("the statement has parameters of several kinds")
            .with_hint("write all of them as $1, $2, …, or all as ?, or all as $name")),
    }
}

/// The tokens with numbered parameters: `?` gets the next number, `$name` that of its first appearance.
fn numbered(tokens: &[TokenWithSpan]) -> Result<Cow<'_, [TokenWithSpan]>> {
    let is_parameter = |token: &TokenWithSpan| matches!(token.token, Token::Placeholder(_));
    if !tokens.iter().any(is_parameter) {
        return Ok(Cow::Borrowed(tokens));
    }
    let names = match parameter_names(tokens)? {
        ParameterNames::Names(names) => names,
        ParameterNames::Numbers(_) => vec![],
    };
    let mut marks = 0;
    let number = |token: &TokenWithSpan| {
        let Token::Placeholder(text) = &token.token else { return token.clone() };
        let number = match text.strip_prefix('$') {
            None => {
                marks += 1;
                Some(marks)
            }
            Some(name) => names.iter().position(|other| other == name).map(|at| at + 1),
        };
        let text = number.map_or_else(|| text.clone(), |number| format!("${number}"));
        TokenWithSpan::new(Token::Placeholder(text), token.span)
    };
    Ok(Cow::Owned(tokens.iter().map(number).collect()))
}

/// The text with `?` in place of each literal. Empty for text that is not SQL, because it may contain literals.
pub(crate) fn without_literals(sql: &str) -> String {
    let Ok(tokens) = Tokenizer::new(&DIALECT, sql).tokenize() else { return String::new() };
    let is_literal = |token: &Token| {
        use Token::*;
        let is_text = matches!(token, SingleQuotedString(_) | DollarQuotedString(_) | EscapedStringLiteral(_));
        let is_other_text = matches!(token, NationalStringLiteral(_) | HexStringLiteral(_) | UnicodeStringLiteral(_));
        is_text || is_other_text || matches!(token, Number(..) | DoubleQuotedByteStringLiteral(_))
    };
    tokens.iter().map(|token| if is_literal(token) { "?".to_owned() } else { token.to_string() }).collect()
}

/// Whether a statement changes the database.
pub(crate) fn is_write(sql: &ast::Statement) -> bool {
    use ast::Statement as Sql;
    let changes_objects = matches!(
        sql,
        Sql::Truncate(_)
            | Sql::AlterTable(_)
            | Sql::CreateTable(_)
            | Sql::CreateView(_)
            | Sql::CreateIndex(_)
            | Sql::Comment { .. }
            | Sql::CreateSchema { .. }
            | Sql::CreateSequence { .. }
            | Sql::CreateMacro { .. }
            | Sql::Drop { .. }
    );
    changes_objects || changes_rows(sql)
}

/// Whether a statement changes rows of a table.
pub(crate) fn changes_rows(sql: &ast::Statement) -> bool {
    use ast::Statement as Sql;
    matches!(sql, Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_))
}

/// Parses one query, for views.
pub(crate) fn parse_query(text: &str) -> Result<Box<ast::Query>> {
    let tokens = Tokenizer::new(&DIALECT, text).tokenize_with_location().map_err(ParserError::from)?;
    let tokens = token_forms::decimal(tokens);
    depth::with_stack(tokens.len(), || {
        let mut query = parser(&tokens)?.parse_query()?;
        put_in_our_form(&mut *query)?;
        Ok(query)
    })
}

/// Parses one expression, for defaults and conditions.
pub(crate) fn parse_expression(text: &str) -> Result<ast::Expr> {
    let item = match *parse_query(&format!("SELECT ({text})"))?.body {
        ast::SetExpr::Select(select) => select.projection.into_iter().next(),
        _ => None,
    };
    match item {
        Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => Ok(match expr {
            ast::Expr::Nested(inner) => *inner,
            other => other,
        }),
        _ => Err(Error::syntax(format!("{text} is no expression"))),
    }
}

/// Processes every parsed query and statement: limits its depth, and rewrites forms that DataFusion plans differently
/// or not at all.
fn put_in_our_form<T: ast::Visit + ast::VisitMut>(sql: &mut T) -> Result<()> {
    refuse_others(sql)?;
    rewrite(sql)
}

/// Limits the depth, and refuses forms that nothing executes.
fn refuse_others<T: ast::Visit + ast::VisitMut>(sql: &mut T) -> Result<()> {
    depth::bound(sql)?;
    explain_options::rewrite(sql);
    extensions::rewrite(sql)?;
    collations::rewrite(sql)?;
    supported::check(sql)
}

fn rewrite<T: ast::Visit + ast::VisitMut>(sql: &mut T) -> Result<()> {
    // This comes before all rewrites, because columns are named by the original text.
    names::give(sql);
    fetch::rewrite(sql);
    like_escape::rewrite(sql);
    forms::rewrite(sql);
    struct_fields::rewrite(sql);
    function_macros::rewrite(sql);
    times::rewrite_literals(sql);
    using::check(sql)?;
    named_windows::rewrite(sql)?;
    names::rename_shadowing(sql);
    values::rewrite(sql);
    case_results::rewrite(sql);
    Ok(())
}

/// A parser for tokens in which `FROM t` is completed, files with options are calls, and `1e300` is a DOUBLE.
/// DataFusion would make it a decimal, whose scale is limited.
fn parser(tokens: &[TokenWithSpan]) -> Result<Parser<'static>> {
    depth::check_nesting(tokens)?;
    let mut read = Vec::with_capacity(tokens.len());
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let words = merge_forms::written(words.cloned().collect());
    let words = spellings::written(spellings::with_columns(token_forms::written(words)));
    let words = frame_exclusion::written(words);
    for token in materialized::written(file_calls::written(from_first::completed(&words))) {
        match &token.token {
            Token::Number(digits, _) if digits.contains(['e', 'E']) => {
                let literal = Token::SingleQuotedString(digits.clone());
                let word = |word| Token::make_keyword(word);
                let cast = [word("CAST"), Token::LParen, literal, word("AS"), word("DOUBLE"), Token::RParen];
                read.extend(cast.map(|part| TokenWithSpan::new(part, token.span)));
            }
            _ => read.push(token),
        }
    }
    Ok(Parser::new(&DIALECT).with_recursion_limit(depth::PARSER_LEVELS_MAX).with_tokens_with_locations(read))
}

fn attach(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "ATTACH 'folder' AS name (READ_ONLY)";
    cursor.skip_word("DATABASE");
    let if_not_exists = cursor.skip_word("IF");
    if if_not_exists && !(cursor.skip_word("NOT") && cursor.skip_word("EXISTS")) {
        return Err(cursor.unexpected(FORM));
    }
    let folder = cursor.string(FORM)?;
    let name = if cursor.skip_word("AS") { Some(cursor.identifier(FORM)?) } else { None };
    let mut reads_only = false;
    for (option, value) in cursor.optional_options()? {
        match (option.as_str(), value.to_ascii_lowercase().as_str()) {
            ("read_only" | "readonly", "true") => reads_only = true,
            ("type", "freestone") | ("read_only" | "readonly", "false") => {}
            ("type", other) => {
                return Err(Error::unsupported(format!("databases of type {other} cannot be attached"))
                    .with_hint("export them to Parquet files, which are read by name: FROM 'file.parquet'"));
            }
            (other, _) => {
                return Err(Error::invalid(format!("unknown option {other} of ATTACH")).with_hint(FORM));
            }
        }
    }
    cursor.expect_end()?;
    if !reads_only {
        return Err(Error::unsupported("other databases are attached for reading only").with_hint(FORM));
    }
    Ok(Command::Attach { folder, name, if_not_exists })
}

fn detach(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "DETACH [DATABASE] [IF EXISTS] name";
    cursor.skip_word("DATABASE");
    let if_exists = cursor.skip_word("IF");
    if if_exists && !cursor.skip_word("EXISTS") {
        return Err(cursor.unexpected(FORM));
    }
    let name = cursor.identifier(FORM)?;
    cursor.expect_end()?;
    Ok(Command::Detach { name, if_exists })
}

fn advise(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "ADVISE [table] [COPIES n] [BUDGET 'size']";
    cursor.skip_word("TABLE");
    // A table may be named like a clause.
    let is_clause = matches!(cursor.upper(0).as_str(), "COPIES" | "BUDGET") && cursor.tokens.len() > 1;
    let table = if cursor.tokens.is_empty() || is_clause { None } else { Some(cursor.object_name(FORM)?) };
    let copies = match cursor.skip_word("COPIES") {
        true => Some(cursor.count(FORM)?),
        false => None,
    };
    let budget = match cursor.skip_word("BUDGET") {
        true => Some(crate::options::parse_size(&cursor.string(FORM)?)?),
        false => None,
    };
    cursor.expect_end()?;
    Ok(Command::Advise(AdviseRequest { table, copies, budget }))
}

fn what_if(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "WHATIF table DESIGN (option = value, …) FOR SELECT …";
    cursor.skip_word("TABLE");
    let table = cursor.object_name(FORM)?;
    if !cursor.skip_word("DESIGN") {
        return Err(cursor.unexpected(FORM));
    }
    let options = cursor.optional_options()?;
    if options.is_empty() || !cursor.skip_word("FOR") {
        return Err(cursor.unexpected(FORM));
    }
    let query = cursor.sql()?;
    if !matches!(query, ast::Statement::Query(_)) {
        return Err(Error::syntax(format!("syntax error: expected {FORM}")));
    }
    Ok(Command::WhatIf(Box::new(WhatIfRequest { table, options, query })))
}

fn copy(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "COPY table [(columns)] FROM 'file' [(options)], or COPY table | (query) TO 'file' [(options)]";
    let (source, columns) = if cursor.is(&Token::LParen) {
        (Source::Query(cursor.parenthesized_query()?), vec![])
    } else {
        let name = cursor.object_name(FORM)?;
        (Source::Table(name), cursor.optional_columns(FORM)?)
    };
    let direction = cursor.upper(0);
    if !matches!(direction.as_str(), "FROM" | "TO") {
        return Err(cursor.unexpected(FORM));
    }
    cursor.advance();
    let path = cursor.string(FORM)?;
    cursor.skip_word("WITH");
    let options = cursor.optional_options()?;
    cursor.expect_end()?;
    match (direction.as_str(), source) {
        ("FROM", Source::Table(table)) => Ok(Command::CopyFrom(CopyFrom { table, columns, path, options })),
        ("TO", Source::Query(query)) => Ok(Command::CopyTo(CopyTo { query, path, options })),
        ("TO", Source::Table(table)) => {
            let list = if columns.is_empty() {
                "*".to_owned()
            } else {
                columns.iter().map(|c| quote(c)).collect::<Vec<_>>().join(", ")
            };
            let query = parse_query(&format!("SELECT {list} FROM {}", quote(&table)))?;
            Ok(Command::CopyTo(CopyTo { query, path, options }))
        }
        _ => Err(Error::syntax(format!("syntax error: expected {FORM}"))),
    }
}

fn export_database(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "EXPORT DATABASE 'folder' [(FORMAT parquet | csv | json | arrow, …)]";
    if !cursor.skip_word("DATABASE") {
        return Err(cursor.unexpected(FORM));
    }
    let folder = cursor.string(FORM)?;
    cursor.skip_word("WITH");
    let options = cursor.optional_options()?;
    cursor.expect_end()?;
    Ok(Command::ExportDatabase { folder, options })
}

enum Source {
    Table(String),
    Query(Box<ast::Query>),
}

fn alter(cursor: Cursor) -> Result<Command> {
    const FORM: &str = "ALTER TABLE table SET DESIGN (option = value, …), ADD COPY name [(columns)] [WITH (…)], \
                        or DROP COPY [IF EXISTS] name";
    let mut rest = cursor.after(1);
    if rest.upper(0) == "VIEW" {
        return alter_view(rest.after(1));
    }
    if !rest.skip_word("TABLE") {
        return Err(Error::unsupported(format!("ALTER {} is not available", rest.upper(0)))
            .with_hint("ALTER TABLE changes columns, designs and copies of tables"));
    }
    if !changes_design(rest) {
        return alter_columns(cursor).map(|statement| Command::Sql(Box::new(statement)));
    }
    let table = rest.object_name(FORM)?;
    let (verb, what) = (rest.upper(0), rest.upper(1));
    let mut rest = rest.after(2);
    let command = match (verb.as_str(), what.as_str()) {
        ("SET", "DESIGN") => {
            let options = rest.optional_options()?;
            if options.is_empty() {
                return Err(Error::syntax(format!("syntax error: expected {FORM}")));
            }
            Command::SetDesign { table, options }
        }
        ("ADD", "COPY") => {
            let (name, columns) = (rest.object_name(FORM)?, rest.optional_columns(FORM)?);
            let options = if rest.skip_word("WITH") { rest.optional_options()? } else { vec![] };
            Command::AddCopy(AddCopy { table, name, columns, options })
        }
        ("DROP", "COPY") => {
            let if_exists = rest.skip_word("IF") && rest.skip_word("EXISTS");
            Command::DropCopy { table, name: rest.object_name(FORM)?, if_exists }
        }
        _ => return Err(Error::syntax(format!("syntax error: expected {FORM}"))),
    };
    rest.expect_end()?;
    Ok(command)
}

/// `ALTER VIEW [IF EXISTS] view RENAME TO new`, which ALTER TABLE does for views, too.
fn alter_view(rest: Cursor) -> Result<Command> {
    const FORM: &str = "ALTER VIEW view RENAME TO new";
    let mut named = rest;
    let _ = named.skip_word("IF") && named.skip_word("EXISTS");
    named.object_name(FORM)?;
    if named.upper(0) != "RENAME" {
        return Err(named.unexpected(FORM));
    }
    let words = ["ALTER", "TABLE"].map(|word| TokenWithSpan::wrap(Token::make_keyword(word)));
    let tokens: Vec<TokenWithSpan> = words.into_iter().chain(rest.tokens.iter().cloned()).collect();
    Cursor { tokens: &tokens }.sql().map(|statement| Command::Sql(Box::new(statement)))
}

/// ALTER TABLE in which the parser does not read USING behind a type.
fn alter_columns(cursor: Cursor) -> Result<ast::Statement> {
    let mut depth = 0usize;
    let using = cursor.tokens.iter().position(|token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) => return depth == 0 && is_word(word, "USING"),
            _ => {}
        }
        false
    });
    let Some(using) = using else { return cursor.sql() };
    let mut statement = Cursor { tokens: &cursor.tokens[..using] }.sql()?;
    let mut parser = parser(&cursor.tokens[using + 1..])?;
    let mut value = parser.parse_expr()?;
    put_in_our_form(&mut value)?;
    if parser.peek_token().token != Token::EOF {
        return Err(unexpected("the end of the statement", Some(&parser.peek_token())));
    }
    match &mut statement {
        ast::Statement::AlterTable(ast::AlterTable { operations, .. }) => match operations.as_mut_slice() {
            [
                ast::AlterTableOperation::AlterColumn {
                    op: ast::AlterColumnOperation::SetDataType { using, .. }, ..
                },
            ] => {
                *using = Some(value);
                Ok(statement)
            }
            _ => Err(cursor.after(using).unexpected("ALTER TABLE t ALTER c TYPE type USING value, alone")),
        },
        _ => Err(cursor.after(using).unexpected("the end of the statement")),
    }
}

/// Whether what follows ALTER TABLE is a table with SET DESIGN, ADD COPY or DROP COPY.
fn changes_design(mut rest: Cursor) -> bool {
    if rest.object_name("ALTER TABLE table").is_err() {
        return false;
    }
    let forms = [("SET", "DESIGN"), ("ADD", "COPY"), ("DROP", "COPY")];
    forms.contains(&(rest.upper(0).as_str(), rest.upper(1).as_str()))
}

fn set(mut cursor: Cursor) -> Result<Command> {
    let local = cursor.skip_word("LOCAL");
    if cursor.upper(0) == "TRANSACTION" {
        return transactions::parse_set(cursor.after(1));
    }
    cursor.skip_word("SESSION");
    if cursor.upper(0) == "VARIABLE" && cursor.tokens.len() > 3 {
        return set_variable(cursor.after(1));
    }
    if cursor.upper(0) == "TIME" && cursor.upper(1) == "ZONE" {
        return set_time_zone(cursor.after(2), local);
    }
    let name = cursor.setting_name_part()?;
    if !cursor.skip(&Token::Eq) && !cursor.skip_word("TO") {
        return Err(Error::syntax("syntax error: expected SET name = value"));
    }
    let value = cursor.rest_text();
    if value.is_empty() && cursor.tokens.is_empty() {
        return Err(Error::syntax(format!("syntax error: SET {name} = … misses the value")));
    }
    Ok(Command::Set { name, value, local })
}

/// `SET VARIABLE name = value`.
fn set_variable(mut cursor: Cursor) -> Result<Command> {
    const FORM: &str = "SET VARIABLE name = value";
    let name = cursor.identifier(FORM)?;
    if !cursor.skip(&Token::Eq) && !cursor.skip_word("TO") {
        return Err(cursor.unexpected(FORM));
    }
    let select = TokenWithSpan::wrap(Token::make_keyword("SELECT"));
    let tokens: Vec<TokenWithSpan> = std::iter::once(select).chain(cursor.tokens.iter().cloned()).collect();
    let value = Cursor { tokens: &tokens }.sql()?;
    let columns = match &value {
        ast::Statement::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Select(select) if select.from.is_empty() => select.projection.len(),
            _ => 0,
        },
        _ => 0,
    };
    if columns != 1 {
        return Err(cursor.unexpected("one value"));
    }
    Ok(Command::SetVariable { name, value: Box::new(value) })
}

/// `RESET VARIABLE name`.
fn reset_variable(mut cursor: Cursor) -> Result<Command> {
    let name = cursor.identifier("RESET VARIABLE name")?;
    cursor.expect_end()?;
    Ok(Command::ResetVariable { name })
}

/// Parses the rest of `SET TIME ZONE`.
fn set_time_zone(mut cursor: Cursor, local: bool) -> Result<Command> {
    const FORM: &str = "SET TIME ZONE 'name', 'offset', hours, INTERVAL 'offset' HOUR TO MINUTE, LOCAL or DEFAULT";
    let _ = cursor.skip(&Token::Eq) || cursor.skip_word("TO");
    let is_interval = cursor.skip_word("INTERVAL");
    let value = if is_interval { cursor.string(FORM)? } else { cursor.rest_text() };
    if is_interval {
        let _ = cursor.skip_word("HOUR") && cursor.skip_word("TO") && cursor.skip_word("MINUTE");
        cursor.expect_end()?;
    }
    if value.is_empty() {
        return Err(Error::syntax(format!("syntax error: expected {FORM}")));
    }
    Ok(Command::Set { name: "time_zone".into(), value, local })
}

/// `DROP MACRO [TABLE] [IF EXISTS] name`.
/// `VACUUM [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [table]`: PostgreSQL's options change nothing.
fn vacuum(mut rest: Cursor) -> Result<Command> {
    const FORM: &str = "VACUUM [table]";
    const OPTIONS: [&str; 5] = ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"];
    for (name, _) in rest.optional_options()? {
        if !OPTIONS.contains(&name.to_ascii_uppercase().as_str()) {
            return Err(Error::unsupported(format!("the option {name} of VACUUM is not available"))
                .with_hint("there are FULL, FREEZE, VERBOSE and ANALYZE, which change nothing"));
        }
    }
    // The last word may be the name of a table.
    while rest.tokens.len() > 1 && OPTIONS.iter().any(|option| rest.skip_word(option)) {}
    if OPTIONS.contains(&rest.upper(0).as_str()) {
        rest.advance();
    }
    Ok(Command::Vacuum(rest.optional_name(FORM)?))
}

/// `ANALYZE [VERBOSE] [table [(columns)]]`.
fn analyze(mut rest: Cursor) -> Result<Command> {
    const FORM: &str = "ANALYZE [table]";
    rest.skip_word("VERBOSE");
    if rest.tokens.is_empty() {
        return Ok(Command::Analyze(None));
    }
    let table = rest.object_name(FORM)?;
    rest.optional_columns(FORM)?;
    rest.expect_end()?;
    Ok(Command::Analyze(Some(table)))
}

fn drop_macro(mut cursor: Cursor) -> Result<Command> {
    cursor.skip_word("TABLE");
    let if_exists = cursor.skip_word("IF") && cursor.skip_word("EXISTS");
    let name = cursor.object_name("DROP MACRO [IF EXISTS] name")?;
    cursor.expect_end()?;
    Ok(Command::DropMacro { name, if_exists })
}

fn is_create_type(rest: &Cursor) -> bool {
    let mut rest = rest.after(0);
    let _ = rest.skip_word("OR") && rest.skip_word("REPLACE");
    let _ = rest.skip_word("TEMP") || rest.skip_word("TEMPORARY");
    rest.upper(0) == "TYPE"
}

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS type`.
fn create_type(mut rest: Cursor) -> Result<Command> {
    const FORM: &str = "CREATE TYPE name AS ENUM ('a', 'b'), or AS the name of a type";
    let or_replace = rest.skip_word("OR") && rest.skip_word("REPLACE");
    if !rest.skip_word("TYPE") {
        return Err(Error::unsupported("a TEMPORARY type is not available").with_hint("DROP TYPE drops one"));
    }
    let if_not_exists = rest.skip_word("IF") && rest.skip_word("NOT") && rest.skip_word("EXISTS");
    let name = rest.object_name(FORM)?;
    if !rest.skip_word("AS") {
        return Err(rest.unexpected(FORM));
    }
    if rest.upper(0) == "ENUM" && matches!(rest.after(2).upper(0).as_str(), "SELECT" | "WITH" | "FROM") {
        return Err(Error::unsupported("an ENUM of the rows of a query is not available")
            .with_hint("list the labels: CREATE TYPE name AS ENUM ('a', 'b')"));
    }
    let mut parser = parser(rest.tokens)?;
    let data_type = parser.parse_data_type()?;
    if parser.peek_token().token != Token::EOF {
        return Err(unexpected("the end of the statement", Some(&parser.peek_token())));
    }
    user_types::labels(&data_type)?;
    let written: Vec<String> = rest.tokens.iter().map(|token| token.token.to_string()).collect();
    let text = match freestone_sql::parse_type(&written.join(" ")) {
        Ok(known) => known.to_string(),
        Err(_) => data_type.to_string(),
    };
    Ok(Command::CreateType { name, text, or_replace, if_not_exists })
}

/// `USE schema`: only our schema is allowed.
fn use_schema(mut cursor: Cursor) -> Result<Command> {
    let schema = cursor.identifier("USE public")?;
    cursor.expect_end()?;
    match schema.as_str() {
        "public" | "main" | "freestone" => Ok(Command::Use),
        other => Err(Error::unsupported(format!("USE {other}: names without a schema are those of public"))
            .with_hint(format!("write {other} before the names of its tables"))),
    }
}

/// The PRAGMAs of DuckDB and SQLite that return information.
fn pragma(mut cursor: Cursor) -> Result<Command> {
    let name = cursor.identifier("PRAGMA table_info('table')")?;
    match name.as_str() {
        "table_info" if cursor.skip(&Token::LParen) => {
            let form = "PRAGMA table_info('table')";
            let table = cursor.string(form).or_else(|_| cursor.object_name(form))?;
            if !cursor.skip(&Token::RParen) {
                return Err(cursor.unexpected("a closing parenthesis"));
            }
            cursor.expect_end()?;
            let table = table.replace('\'', "''");
            let query = parse_query(&format!("SELECT * FROM pragma_table_info('{table}')"))?;
            Ok(Command::Sql(Box::new(ast::Statement::Query(query))))
        }
        "version" => Ok(Command::Sql(Box::new(ast::Statement::Query(parse_query("SELECT version()")?)))),
        other => Err(Error::unsupported(format!("PRAGMA {other} is not available"))
            .with_hint("SET name = value changes a setting, SHOW name shows it")),
    }
}

fn show(cursor: Cursor) -> Result<Command> {
    let rest = cursor.after(1);
    match (rest.upper(0).as_str(), rest.tokens.len()) {
        ("DATABASES" | "SCHEMAS", 1) => {
            let text = match rest.upper(0).as_str() {
                "DATABASES" => "SELECT database_name FROM duckdb_databases() ORDER BY 1",
                _ => "SELECT schema_name FROM information_schema.schemata ORDER BY 1",
            };
            Ok(Command::Sql(Box::new(ast::Statement::Query(parse_query(text)?))))
        }
        ("TABLES" | "COLUMNS", _) => Err(rest.after(1).unexpected("SHOW TABLES, or SHOW COLUMNS FROM table")),
        ("CREATE" | "FUNCTIONS", _) => cursor.sql().map(|statement| Command::Sql(Box::new(statement))),
        ("TIME", 2) => Ok(Command::Show { name: "time_zone".into() }),
        _ => Ok(Command::Show { name: rest.setting_name()? }),
    }
}

/// The remaining tokens.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    tokens: &'a [TokenWithSpan],
}

impl<'a> Cursor<'a> {
    pub(super) fn after(&self, count: usize) -> Cursor<'a> {
        Cursor { tokens: self.tokens.get(count..).unwrap_or_default() }
    }

    pub(super) fn advance(&mut self) {
        *self = self.after(1);
    }

    /// The token at an index as upper-case text; empty after the end or for a quoted word.
    pub(super) fn upper(&self, index: usize) -> String {
        match self.tokens.get(index).map(|t| &t.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            Some(Token::LParen) => "(".into(),
            _ => String::new(),
        }
    }

    fn is(&self, token: &Token) -> bool {
        self.tokens.first().is_some_and(|t| t.token == *token)
    }

    fn skip(&mut self, token: &Token) -> bool {
        let found = self.is(token);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn skip_comma(&mut self) -> bool {
        self.skip(&Token::Comma)
    }

    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = self.upper(0) == word;
        if found {
            self.advance();
        }
        found
    }

    /// Parses the rest with sqlparser.
    fn sql(&self) -> Result<ast::Statement> {
        self.sql_in_form(|mut statement| {
            put_in_our_form(&mut statement)?;
            Ok(statement)
        })
    }

    /// The same for a whole statement, which may be a query with FOR UPDATE, or have others within its WITH.
    fn sql_or_lock(&self) -> Result<Command> {
        if self.upper(0) == "WITH"
            && let Some(command) = self.with_writes()?
        {
            return Ok(command);
        }
        self.sql_in_form(|mut statement| {
            if let Some(locking) = locking::of(&statement)? {
                return Ok(Command::LockRows(Box::new(locking)));
            }
            refuse_others(&mut statement)?;
            // Statements that change rows are planned from their own tree.
            if !changes_rows(&statement) {
                rewrite(&mut statement)?;
            }
            Ok(Command::Sql(Box::new(statement)))
        })
    }

    /// A statement that has others within its WITH.
    fn with_writes(&self) -> Result<Option<Command>> {
        const WRITES: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "MERGE"];
        let begins = |pair: &[TokenWithSpan]| {
            let [open, next] = pair else { return false };
            open.token == Token::LParen
                && WRITES.iter().any(|word| matches!(&next.token, Token::Word(w) if is_word(w, word)))
        };
        if !self.tokens.windows(2).any(begins) {
            return Ok(None);
        }
        // The rows of such a part are always kept.
        let is_word = |at: usize, word: &str| self.after(at).upper(0) == word;
        let is_kept = |at: usize| {
            is_word(at, "MATERIALIZED") && begins(self.tokens.get(at + 1..at + 3).unwrap_or(&self.tokens[..1]))
        };
        let tokens: Vec<TokenWithSpan> =
            (0..self.tokens.len()).filter(|at| !is_kept(*at)).map(|at| self.tokens[at].clone()).collect();
        let mut parser = parser(&tokens)?;
        let ast::Statement::Query(query) = parser.parse_statement()? else { return Ok(None) };
        let Some(mut found) = with_writes::parts(&query)? else { return Ok(None) };
        if parser.peek_token().token != Token::EOF {
            return Err(unexpected("the end of the statement", Some(&parser.peek_token())));
        }
        found.parts.iter_mut().try_for_each(|part| refuse_others(&mut part.statement))?;
        refuse_others(&mut found.main)?;
        Ok(Some(Command::WithWrites(Box::new(found))))
    }

    fn sql_in_form<T>(&self, form: impl FnOnce(ast::Statement) -> Result<T>) -> Result<T> {
        let mut parser = parser(self.tokens)?;
        let parsed = form(extensions::statement(parser.parse_statement()?)?)?;
        match parser.peek_token().token {
            Token::EOF => Ok(parsed),
            _ => Err(unexpected("the end of the statement", Some(&parser.peek_token()))),
        }
    }

    /// Parses a query in parentheses, including the closing one.
    fn parenthesized_query(&mut self) -> Result<Box<ast::Query>> {
        let mut depth = 0usize;
        for (i, token) in self.tokens.iter().enumerate() {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let mut parser = parser(&self.tokens[1..i])?;
                let mut query = parser.parse_query()?;
                put_in_our_form(&mut *query)?;
                if parser.peek_token().token != Token::EOF {
                    return Err(unexpected("the query's closing parenthesis", Some(&parser.peek_token())));
                }
                *self = self.after(i + 1);
                return Ok(query);
            }
        }
        Err(self.unexpected("a closing parenthesis"))
    }

    /// Parses the name of a table: lower case if unquoted, optionally with our schema.
    fn object_name(&mut self, form: &str) -> Result<String> {
        let mut name = self.identifier(form)?;
        while self.skip(&Token::Period) {
            name = match name.as_str() {
                "public" | "main" | "freestone" => self.identifier(form)?,
                schema => names::name_in(schema, &self.identifier(form)?),
            };
        }
        Ok(name)
    }

    pub(super) fn identifier(&mut self, form: &str) -> Result<String> {
        let name = match self.tokens.first().map(|t| &t.token) {
            Some(Token::Word(word)) => fold(word),
            _ => return Err(self.unexpected(form)),
        };
        self.advance();
        Ok(name)
    }

    /// A word and the name of a folder, which end the statement.
    fn folder(mut self, word: &str, form: &str) -> Result<String> {
        if !self.skip_word(word) {
            return Err(self.unexpected(form));
        }
        let folder = self.string(form)?;
        self.expect_end()?;
        Ok(folder)
    }

    fn optional_name(mut self, form: &str) -> Result<Option<String>> {
        self.skip_word("TABLE");
        if self.tokens.is_empty() {
            return Ok(None);
        }
        let name = self.object_name(form)?;
        self.expect_end()?;
        Ok(Some(name))
    }

    fn optional_columns(&mut self, form: &str) -> Result<Vec<String>> {
        let mut columns = Vec::new();
        if self.skip(&Token::LParen) {
            loop {
                columns.push(self.identifier(form)?);
                if self.skip(&Token::RParen) {
                    break;
                }
                if !self.skip(&Token::Comma) {
                    return Err(self.unexpected("a comma or a closing parenthesis"));
                }
            }
        }
        Ok(columns)
    }

    fn string(&mut self, form: &str) -> Result<String> {
        let text = match self.tokens.first().map(|t| &t.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            _ => return Err(self.unexpected(form)),
        };
        self.advance();
        Ok(text)
    }

    /// Parses a count, from 1 on.
    fn count(&mut self, form: &str) -> Result<usize> {
        let count = match self.tokens.first().map(|t| &t.token) {
            Some(Token::Number(text, _)) => text.parse().ok().filter(|count| *count > 0),
            _ => None,
        };
        let count = count.ok_or_else(|| self.unexpected(form))?;
        self.advance();
        Ok(count)
    }

    /// Parses `(name value, name = value, name, …)`, if present.
    fn optional_options(&mut self) -> Result<OptionList> {
        let mut options = Vec::new();
        if !self.skip(&Token::LParen) {
            return Ok(options);
        }
        loop {
            let name = self.identifier("an option's name")?;
            self.skip(&Token::Eq);
            options.push((name, self.option_value()?));
            if self.skip(&Token::RParen) {
                return Ok(options);
            }
            if !self.skip(&Token::Comma) {
                return Err(self.unexpected("a comma or a closing parenthesis"));
            }
        }
    }

    fn option_value(&mut self) -> Result<String> {
        let sign = if self.skip(&Token::Minus) { "-" } else { "" };
        let value = match self.tokens.first().map(|t| &t.token) {
            Some(Token::Comma | Token::RParen) => return Ok("true".into()),
            Some(Token::LParen | Token::LBracket) => return self.option_list(),
            Some(Token::Mul) => "*".into(),
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            Some(Token::Number(digits, _)) => format!("{sign}{digits}"),
            Some(Token::Word(word)) => match self.tokens.get(1..4).map(|rest| [0, 1, 2].map(|at| &rest[at].token)) {
                // A codec with its level, such as zstd(3).
                Some([Token::LParen, Token::Number(level, _), Token::RParen]) => {
                    *self = self.after(3);
                    format!("{}({level})", word.value)
                }
                _ => word.value.clone(),
            },
            _ => return Err(self.unexpected("an option's value")),
        };
        self.advance();
        Ok(value)
    }

    /// A list in parentheses or brackets as text, such as `(a, "b c")`.
    fn option_list(&mut self) -> Result<String> {
        let (mut text, mut depth) = (String::new(), 0);
        loop {
            let Some(token) = self.tokens.first().map(|t| t.token.clone()) else {
                return Err(self.unexpected("a closing parenthesis"));
            };
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth -= 1,
                _ => {}
            }
            text.push_str(&token.to_string());
            self.advance();
            if depth == 0 {
                return Ok(text);
            }
            text.push(' ');
        }
    }

    /// Parses the dotted name of a setting at the end of the statement.
    fn setting_name(mut self) -> Result<String> {
        let name = self.setting_name_part()?;
        self.expect_end()?;
        Ok(name)
    }

    fn setting_name_part(&mut self) -> Result<String> {
        let mut name = self.identifier("a setting's name")?;
        while self.skip(&Token::Period) {
            name.push('.');
            name.push_str(&self.identifier("a setting's name")?);
        }
        Ok(name.to_ascii_lowercase())
    }

    /// The rest as a plain value: a string without its quotes, or the tokens as written.
    fn rest_text(&self) -> String {
        match self.tokens {
            [TokenWithSpan { token: Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text), .. }] => {
                text.clone()
            }
            tokens => tokens.iter().map(|t| t.token.to_string()).collect(),
        }
    }

    pub(super) fn expect_end(&self) -> Result<()> {
        match self.tokens.is_empty() {
            true => Ok(()),
            false => Err(self.unexpected("the end of the statement")),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> Error {
        unexpected(expected, self.tokens.first())
    }
}

fn unexpected(expected: &str, found: Option<&TokenWithSpan>) -> Error {
    match found.filter(|t| t.token != Token::EOF) {
        Some(TokenWithSpan { token, span: Span { start, .. } }) => {
            let (line, column) = (start.line, start.column);
            Error::syntax(format!("syntax error at line {line}, column {column}: expected {expected}, found: {token}"))
        }
        None => Error::syntax(format!("syntax error: expected {expected}, found the end of the statement")),
    }
}

fn is_word(word: &Word, keyword: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword)
}

/// An identifier as SQL folds it: in lower case unless quoted.
fn fold(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// Byte offsets for the tokenizer's positions (lines and characters from 1).
struct Offsets<'a> {
    script: &'a str,
    lines: Vec<usize>,
}

impl<'a> Offsets<'a> {
    fn new(script: &'a str) -> Self {
        let breaks = script.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(i, _)| i + 1);
        Offsets { script, lines: std::iter::once(0).chain(breaks).collect() }
    }

    fn of(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1);
        let Some(&start) = self.lines.get(line) else { return self.script.len() };
        let column = (location.column as usize).saturating_sub(1);
        self.script[start..].char_indices().nth(column).map_or(self.script.len(), |(i, _)| start + i)
    }
}

/// A text as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, expected: &[(usize, &str)]) {
        let statements = parse_script(script);
        let found: Vec<_> = statements.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    fn check_error(script: &str, part: &str) {
        let error = parse_script(script)[0].command().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn scripts_split_at_semicolons_only() {
        check("", &[]);
        check(" ; ;; -- nothing\n", &[]);
        check(
            "select 1;\n\nselect ';' -- ; no\n, 2 ; /* ; */ select $$;$$",
            &[(1, "select 1"), (3, "select ';' -- ; no\n, 2"), (4, "select $$;$$")],
        );
        check("select 'é;', \"a;b\"; select 'it''s;'", &[(1, "select 'é;', \"a;b\""), (1, "select 'it''s;'")]);
    }

    #[test]
    fn an_open_quote_leaves_the_statements_before_it() {
        check("select 1; select\n 'abc", &[(1, "select 1"), (1, "select\n 'abc")]);
        let statements = parse_script("select 1; select\n 'abc");
        assert!(statements[0].command().is_ok());
        assert_eq!(statements[1].command().unwrap_err().kind(), crate::ErrorKind::Syntax);
    }

    #[test]
    fn own_statements_are_read() {
        let command = |sql: &str| parse_script(sql).remove(0).command().unwrap();
        let Command::CopyFrom(copy) =
            command("COPY T (a, \"B\") FROM 'x.csv' (FORMAT csv, HEADER, DELIMITER '|', NULL '', skip = -1)")
        else {
            panic!("COPY FROM");
        };
        assert_eq!((copy.table.as_str(), copy.path.as_str()), ("t", "x.csv"));
        assert_eq!(copy.columns, ["a", "B"]);
        let options: Vec<_> = copy.options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(options, [("format", "csv"), ("header", "true"), ("delimiter", "|"), ("null", ""), ("skip", "-1")]);
        assert!(matches!(command("copy (select (1)) to 'x.parquet' (format parquet)"), Command::CopyTo(_)));
        assert!(matches!(command("copy t to 'x.csv'"), Command::CopyTo(_)));
        assert!(matches!(command("vacuum"), Command::Vacuum(None)));
        assert!(matches!(command("check t"), Command::Check(Some(t)) if t == "t"));
        assert!(matches!(command("set freestone.design = 'row'"), Command::Set { name, value, local: false }
            if name == "freestone.design" && value == "row"));
        assert!(
            matches!(command("alter table t set design (design = 'row', levels = 2)"), Command::SetDesign { options, .. }
            if options[1] == ("levels".to_owned(), "2".to_owned()))
        );
        let view = &parse_script("create view v (\"as\") as -- why\n select 1 as x;")[0];
        assert_eq!(view.text_after_as(), Some("-- why\n select 1 as x"));
    }

    #[test]
    fn parameters_are_numbered() {
        let names = |sql: &str| parse_script(sql)[0].parameter_names().unwrap();
        assert_eq!(names("select '?', \"$1\" -- ?"), ParameterNames::Numbers(0));
        assert_eq!(names("select ? + ?"), ParameterNames::Numbers(2));
        assert_eq!(names("select $2 + $2"), ParameterNames::Numbers(2));
        assert_eq!(names("select $b + $a + $b"), ParameterNames::Names(vec!["b".into(), "a".into()]));
        check_error("select ? + $1", "several kinds");
        let shown = |sql: &str| match parse_script(sql)[0].command() {
            Ok(Command::Sql(mut sql)) => {
                names::take_back(&mut sql);
                sql.to_string()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(shown("select ? + ?"), "SELECT $1 + $2");
        assert_eq!(shown("select $b + $a + $b"), "SELECT $1 + $2 + $1");
    }

    #[test]
    fn errors_say_where() {
        check_error("select 1 +) from t", "line 1, column");
        check_error("copy t\nfrom x", "syntax error at line 2, column 6: expected a file in quotes or STDIN");
        check_error("copy t from", "found the end of the text");
        check_error("advise t budget 3", "expected a size in quotes");
        check_error("whatif t design (page = dense)", "expected FOR");
        check_error("calibrate now", "the end of the statement");
        check_error("begin isolation level high", "expected");
        check_error("select 1 select 2", "the end of the statement");
    }
}
