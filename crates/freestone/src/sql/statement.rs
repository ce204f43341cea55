//! From a script to statements, and from a statement to the command to execute.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::scalar::ScalarValue;
use freestone_sql::tree::{self, ColumnConstraintKind, TableConstraintKind, TableElement};
use freestone_sql::{ErrorCode, Lifted, Span, SyntaxError};
pub use freestone_store::design::quoted as quote;

use crate::context::guarded_now;
use crate::duckdb_settings;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::command::{Command, Explained};
use crate::sql::written::Written;
use crate::sql::{depth, names, trees};

/// The first words of a statement that say what it is.
const WORDS: usize = 3;

/// One statement of a script.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The statement's text, without the closing semicolon.
    pub text: String,
    /// The line of the script on which it begins, from 1.
    pub line: usize,
    /// What the statement does.
    pub kind: StatementKind,
    /// The character of that line, from 1.
    column: usize,
    /// Its first words, in upper case.
    words: Vec<String>,
    /// About how many tokens it has.
    tokens: usize,
    /// What it is, which is read once for all of its executions.
    written: Arc<Written>,
    /// Memory reserved for parsing and planning a long text.
    memory: Option<Arc<MemoryReservation>>,
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

/// Splits a script at its semicolons. An unclosed quote makes the rest one statement that fails when it is executed, so
/// the earlier statements can still run.
pub fn parse_script(script: &str) -> Vec<Statement> {
    let (mut line, mut line_start, mut at) = (1, 0, 0);
    let mut statement = |span: Span| {
        let (start, text) = (span.start as usize, span.of(script));
        let between = script.get(at..start).unwrap_or_default();
        line += between.bytes().filter(|byte| *byte == b'\n').count();
        line_start = between.rfind('\n').map_or(line_start, |newline| at + newline + 1);
        at = start;
        let column = script.get(line_start..start).map_or(0, |before| before.chars().count()) + 1;
        Statement::new(text, line, column)
    };
    freestone_sql::split_statements(script).into_iter().map(&mut statement).collect()
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

fn kind_of(text: &str, words: &[String]) -> StatementKind {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match (word(0), word(1), word(2)) {
        ("", ..) if text.starts_with('(') => StatementKind::Query,
        (
            "SELECT" | "WITH" | "VALUES" | "TABLE" | "FROM" | "EXPLAIN" | "DESCRIBE" | "DESC" | "PIVOT" | "UNPIVOT"
            | "PIVOT_WIDER" | "PIVOT_LONGER" | "SUMMARIZE" | "PRAGMA" | "EXECUTE" | "ADVISE" | "WHATIF",
            ..,
        )
        | ("SHOW", "TABLES", _)
        | ("SHOW", "COLUMNS" | "FIELDS", "FROM" | "IN")
        | ("SHOW", "ALL", "TABLES") => StatementKind::Query,
        ("CREATE" | "DROP", "SECRET", _) | ("CREATE" | "DROP", "TEMP" | "TEMPORARY", "SECRET") => {
            StatementKind::Session
        }
        ("INSERT" | "DELETE" | "UPDATE" | "MERGE" | "TRUNCATE" | "COPY" | "REFRESH", ..) => StatementKind::Write,
        ("CREATE" | "DROP" | "ALTER" | "COMMENT", ..) => StatementKind::Definition,
        (
            "SET" | "RESET" | "SHOW" | "PREPARE" | "DEALLOCATE" | "USE" | "ATTACH" | "DETACH" | "BEGIN" | "START"
            | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE",
            ..,
        ) => StatementKind::Session,
        ("VACUUM" | "ANALYZE" | "ANALYSE" | "CHECK" | "CALIBRATE" | "BACKUP" | "RESTORE" | "EXPORT" | "IMPORT", ..) => {
            StatementKind::Maintenance
        }
        _ => StatementKind::Other,
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
    fn new(text: &str, line: usize, column: usize) -> Statement {
        let words = freestone_sql::first_words(text, WORDS);
        Statement {
            kind: kind_of(text, &words),
            tokens: expected_tokens(text),
            written: Arc::new(Written::new(text)),
            text: text.to_owned(),
            line,
            column,
            words,
            memory: None,
        }
    }

    /// The column of the script in which it begins, from 1, in characters.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What it is, and its query.
    pub(crate) fn written(&self) -> Arc<Written> {
        self.written.clone()
    }

    /// Whether it is a query of the dialect, and nothing else.
    pub(crate) fn is_whole_query(&self) -> bool {
        self.whole_query().is_some()
    }

    /// The query that it is.
    pub(crate) fn whole_query(&self) -> Option<&tree::Query> {
        (self.kind == StatementKind::Query || self.begins_with("SHOW")).then(|| self.written.whole_query()).flatten()
    }

    /// The command of the statement.
    pub(crate) fn command(&self) -> Result<Command> {
        depth::with_stack(self.tokens, || guarded_now(|| self.parsed()))
    }

    fn parsed(&self) -> Result<Command> {
        self.parameter_names()?;
        self.written.command().map_err(|found| self.unread(found))?
    }

    /// The error of a text that is no statement, with its place and what was expected there.
    fn unread(&self, found: &SyntaxError) -> Error {
        let error = match found.code {
            ErrorCode::Syntax => {
                return Error::of_syntax(found, &self.text, self.line as u64, self.column as u64);
            }
            // What SQL has and this database has not, under its name.
            ErrorCode::Unsupported => Error::unsupported(&found.message),
            ErrorCode::TooComplex => Error::new(ErrorKind::Resource, &found.message),
        };
        match &found.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn begins_with(&self, word: &str) -> bool {
        self.words.first().is_some_and(|first| first == word)
    }

    fn begins_with_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.begins_with(word))
    }

    /// Whether it is of a kind that names tables. Statements about transactions and settings do not.
    pub(crate) fn may_name_tables(&self) -> bool {
        self.kind != StatementKind::Session || self.begins_with_any(&["SHOW", "PREPARE", "SET"])
    }

    /// Whether it names the schema that every database has.
    pub(crate) fn names_public(&self) -> bool {
        freestone_sql::names_in(&self.text).any(|(name, is_qualifier)| is_qualifier && names::is_ours(&name))
    }

    /// Whether a word says that it makes or names something temporary.
    pub(crate) fn may_be_temporary(&self) -> bool {
        let is_sign = |name: &str| matches!(name, "temp" | "temporary") || name.starts_with("pg_temp");
        freestone_sql::names_in(&self.text).any(|(name, _)| is_sign(&name.to_ascii_lowercase()))
    }

    /// Whether it creates something.
    pub(crate) fn creates(&self) -> bool {
        self.begins_with("CREATE") || matches!(self.written.definition(), Ok(Some(_)))
    }

    /// Whether it ends a transaction or returns to a savepoint. Such statements are accepted after a failed statement.
    pub fn ends_transaction(&self) -> bool {
        self.begins_with_any(&["COMMIT", "END", "ROLLBACK", "ABORT"])
    }

    /// Whether it cannot be a part of a transaction, by its first word.
    pub fn is_alone(&self) -> bool {
        self.begins_with_any(&["VACUUM", "BACKUP", "RESTORE", "IMPORT"])
    }

    /// The prepared statement that this one executes.
    pub fn executes(&self) -> Option<String> {
        match self.begins_with("EXECUTE").then(|| self.command().ok()).flatten() {
            Some(Command::Execute(execute)) => Some(execute.name.text),
            _ => None,
        }
    }

    /// Checks that the statement can be parsed.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_syntax(&self) -> Result<()> {
        self.command().map(drop)
    }

    /// Whether it begins a transaction, or sets or releases a savepoint, by its first word.
    pub(crate) fn marks_transaction(&self) -> bool {
        self.begins_with_any(&["BEGIN", "START", "SAVEPOINT", "RELEASE"])
    }

    /// The statement with parameters instead of its literals, and their values, if it has such a form.
    pub(crate) fn lifted(&self) -> Option<(String, Vec<ScalarValue>)> {
        let (text, values) = freestone_sql::lift_literals(&self.text)?;
        let value = |value| match value {
            Lifted::Integer(number) => ScalarValue::Int64(Some(number)),
            Lifted::Text(text) => ScalarValue::Utf8(Some(text)),
        };
        Some((text, values.into_iter().map(value).collect()))
    }

    /// Holds the memory that was reserved for its text until it is dropped.
    pub(crate) fn hold(&mut self, memory: &Arc<MemoryReservation>) {
        self.memory = Some(memory.clone());
    }

    /// The number of the statement's tokens, which limits its depth.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// The names of the statement's parameters.
    ///
    /// # Errors
    /// The statement mixes forms of parameters.
    pub fn parameter_names(&self) -> Result<ParameterNames> {
        let numbers = self.written.numbers();
        match numbers.names() {
            Ok([]) => Ok(ParameterNames::Numbers(numbers.count())),
            Ok(names) => Ok(ParameterNames::Names(names.to_vec())),
            Err(_) => Err(Error::invalid("the statement has parameters of several kinds")
                .with_hint("write all of them as $1, $2, …, or all as ?, or all as $name")),
        }
    }

    /// Whether the statement is a query, which returns rows and changes nothing.
    ///
    /// # Errors
    /// The statement cannot be parsed.
    pub fn is_query(&self) -> Result<bool> {
        Ok(matches!(self.command()?, Command::Query))
    }

    /// Whether the text of the statement shows that it changes the database. EXECUTE may also change it, but is not
    /// included.
    pub fn writes(&self) -> bool {
        if self.is_whole_query() {
            return false;
        }
        match self.command() {
            Ok(Command::Explain(explanation)) => explanation.analyze && explanation.what != Explained::Query,
            Ok(
                Command::Write
                | Command::WithWrites
                | Command::LockRows
                | Command::Define(_)
                | Command::CopyFrom(_)
                | Command::Restore { .. }
                | Command::ImportDatabase { .. }
                | Command::Vacuum(_),
            ) => true,
            _ => false,
        }
    }

    /// A notice for the user after the statement was executed.
    pub fn notice(&self) -> Option<String> {
        if ["SET", "RESET", "PRAGMA"].iter().any(|word| self.begins_with(word)) {
            let name = match self.written.command().ok()?.ok()? {
                Command::Set { name, .. } | Command::Reset { name } => name,
                _ => return None,
            };
            return duckdb_settings::effect(&name, None).map(|_| duckdb_settings::notice(&name));
        }
        let definition = self.begins_with("CREATE").then(|| self.written.definition().ok()).flatten()??;
        let tree::StatementKind::CreateTable(create) = definition else { return None };
        let is_loose = |element: &TableElement| match element {
            TableElement::Column(column) => column
                .constraints
                .iter()
                .any(|constraint| matches!(constraint.kind, ColumnConstraintKind::PrimaryKey(Some(false)))),
            TableElement::Constraint(key) => {
                key.enforced == Some(false) && matches!(key.kind, TableConstraintKind::PrimaryKey(_))
            }
            TableElement::Like(_) => false,
        };
        let notice = "PRIMARY KEY is declared and not enforced when rows are written: CHECK tells which rows break it";
        create.elements.iter().any(is_loose).then(|| notice.to_owned())
    }

    /// The tables that the statement names, with names folded as in SQL: those without a schema or with the database's
    /// own. Tables that the query defines in WITH are not included, and the table that it changes is not.
    ///
    /// # Errors
    /// The statement cannot be parsed.
    pub fn named_tables(&self) -> Result<Vec<String>> {
        if let Some(query) = self.whole_query() {
            return Ok(names::of_database(query));
        }
        let command = self.command()?;
        Ok(match (command, self.written.write()) {
            // A view sees the tables of the database alone.
            (Command::Define(_), _) => self.written.rows_of_definition().map(names::of_database).unwrap_or_default(),
            (_, Ok(write)) => names::of_database(&trees::parts_of_write(write, Span::default())),
            _ => self.written.query().map(|(query, _)| names::of_database(query)).unwrap_or_default(),
        })
    }

    /// Whether a name stands somewhere in the statement.
    pub(crate) fn names(&self, name: &str) -> bool {
        freestone_sql::names_in(&self.text).any(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

/// A text as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, expected: &[(usize, usize, &str)]) {
        let statements = parse_script(script);
        let found: Vec<_> = statements.iter().map(|s| (s.line, s.column(), s.text.as_str())).collect();
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
            "select 1;\n\n  select ';' -- ; no\n, 2 ; /* ; */ select $$;$$",
            &[(1, 1, "select 1"), (3, 3, "select ';' -- ; no\n, 2"), (4, 15, "select $$;$$")],
        );
        check("select 'é;', \"a;b\"; select 'it''s;'", &[(1, 1, "select 'é;', \"a;b\""), (1, 21, "select 'it''s;'")]);
    }

    #[test]
    fn an_open_quote_leaves_the_statements_before_it() {
        check("select 1; select\n 'abc", &[(1, 1, "select 1"), (1, 11, "select\n 'abc")]);
        let statements = parse_script("select 1; select\n 'abc");
        assert!(statements[0].command().is_ok());
        assert_eq!(statements[1].command().unwrap_err().kind(), crate::ErrorKind::Syntax);
    }

    #[test]
    fn own_statements_are_read() {
        let command = |sql: &str| parse_script(sql).remove(0).command().unwrap();
        let Command::CopyFrom(copy) =
            command("COPY T (a, \"B\") FROM 'x.csv' (FORMAT csv, HEADER, DELIMITER '|', NULL 'NA', skip = -1)")
        else {
            panic!("COPY FROM");
        };
        assert_eq!((copy.table.as_str(), copy.path.as_str()), ("t", "x.csv"));
        assert_eq!(copy.columns, ["a", "B"]);
        let options: Vec<_> = copy.options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(
            options,
            [("format", "csv"), ("header", "true"), ("delimiter", "|"), ("null", "NA"), ("skip", "-1")]
        );
        assert!(matches!(command("copy (select (1)) to 'x.parquet' (format parquet)"), Command::CopyTo(_)));
        assert!(matches!(command("copy t to 'x.csv'"), Command::CopyTo(_)));
        assert!(matches!(command("vacuum"), Command::Vacuum(None)));
        assert!(matches!(command("check t"), Command::Check(Some(t)) if t == "t"));
        for (sql, named, given) in [
            ("set freestone.design = 'row'", "freestone.design", "row"),
            ("SET x TO UTF8", "x", "UTF8"),
            ("SET TIME ZONE - 8", "time_zone", "-8"),
            ("SET x = DEFAULT", "x", "DEFAULT"),
            ("SET x = \"$user\", public", "x", "\"$user\",public"),
        ] {
            let Command::Set { name, value, local: false } = command(sql) else { panic!("{sql}") };
            assert_eq!((name.as_str(), value.as_str()), (named, given), "{sql}");
        }
        for definition in ["alter table t set design (levels = 2)", "truncate t", "select 1 as a into t", "drop type a"]
        {
            assert!(matches!(command(definition), Command::Define(_)), "{definition}");
        }
    }

    #[test]
    fn parameters_are_named() {
        let names = |sql: &str| parse_script(sql)[0].parameter_names().unwrap();
        assert_eq!(names("select '?', \"$1\" -- ?"), ParameterNames::Numbers(0));
        assert_eq!(names("select ? + ?"), ParameterNames::Numbers(2));
        assert_eq!(names("select $2 + $2"), ParameterNames::Numbers(2));
        assert_eq!(names("select $b + $a + $b"), ParameterNames::Names(vec!["b".into(), "a".into()]));
        check_error("select ? + $1", "several kinds");
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
