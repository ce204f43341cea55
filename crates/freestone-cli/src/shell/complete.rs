//! Completion for the line editor: the possible ends of a word.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::backend::Backend;
use crate::command::{COMMANDS, canonical};
use crate::output::Format;
use crate::terminal;

const KEYWORDS: &[&str] = &[
    "ADVISE",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "AS",
    "ASC",
    "ASOF",
    "AVG",
    "BACKUP",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BINARY",
    "BOOLEAN",
    "BY",
    "CALIBRATE",
    "CASE",
    "CAST",
    "CHECK",
    "COLLATE",
    "COLUMNS",
    "COMMENT ON",
    "COMMIT",
    "CONSTRAINT",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS JOIN",
    "DATE",
    "DECIMAL",
    "DEFAULT",
    "DELETE FROM",
    "DESC",
    "DESCRIBE",
    "DESIGN",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXCLUDE",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXPORT DATABASE",
    "EXTRACT",
    "FALSE",
    "FOREIGN KEY",
    "FORMAT",
    "FROM",
    "FULL JOIN",
    "GENERATED ALWAYS AS",
    "GLOB",
    "GROUP BY",
    "HAVING",
    "IDENTITY",
    "IMPORT DATABASE",
    "IN",
    "INDEX",
    "INNER JOIN",
    "INSERT INTO",
    "INT",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "ISOLATION LEVEL",
    "JOIN",
    "KEY",
    "LATERAL",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "MACRO",
    "MATCHED",
    "MATERIALIZED VIEW",
    "MAX",
    "MERGE INTO",
    "MIN",
    "NAME",
    "NOT",
    "NULL",
    "NULLS FIRST",
    "NULLS LAST",
    "OFFSET",
    "ON",
    "ON CONFLICT",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "PERCENT",
    "PIVOT",
    "POSITIONAL",
    "PRAGMA",
    "PREPARE",
    "PRIMARY KEY",
    "QUALIFY",
    "READ COMMITTED",
    "READ ONLY",
    "REAL",
    "REFERENCES",
    "REFRESH",
    "RELEASE",
    "RENAME",
    "REPLACE",
    "RESTORE",
    "RIGHT JOIN",
    "ROLLBACK",
    "ROLLBACK TO",
    "SAMPLE",
    "SAVEPOINT",
    "SCHEMA",
    "SECRET",
    "SELECT",
    "SEMI",
    "SEQUENCE",
    "SET",
    "SHOW",
    "START TRANSACTION",
    "SUM",
    "SUMMARIZE",
    "TABLE",
    "TABLESAMPLE",
    "THEN",
    "TIES",
    "TIME",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNPIVOT",
    "UPDATE",
    "USE",
    "USING",
    "VACUUM",
    "VALUES",
    "VARCHAR",
    "VARIABLE",
    "VIEW",
    "WHATIF",
    "WHEN",
    "WHERE",
    "WITH",
    "freestone_columns(",
    "freestone_design(",
    "freestone_keys()",
    "freestone_materialized_views()",
    "freestone_profile()",
    "freestone_segments(",
    "freestone_tables()",
    "freestone_views()",
    "freestone_transactions()",
    "freestone_workload()",
    "freestone_pages(",
    "freestone_parts(",
    "freestone_zones(",
];

pub struct Assistant {
    files: FilenameCompleter,
    backend: Backend,
    /// Tables, views and columns. They are read when they are first needed after a statement.
    names: RefCell<Option<Rc<Vec<String>>>>,
    keys: Cell<Keys>,
}

/// When the keys of the line arrived.
#[derive(Debug, Clone, Copy)]
struct Keys {
    begun: Instant,
    /// Whether the first key was there when the line began. `None` before the first one.
    follows: Option<bool>,
    last: Instant,
}

/// Keys that follow each other faster were not typed but pasted.
const TYPING: Duration = Duration::from_millis(15);

impl Keys {
    fn of_new_line() -> Keys {
        let now = Instant::now();
        Keys { begun: now, follows: None, last: now }
    }

    fn with_next(self) -> Keys {
        let follows = self.follows.or_else(|| Some(self.begun.elapsed() < TYPING));
        Keys { follows, last: Instant::now(), ..self }
    }

    /// Whether a tab that follows `before` was pasted with the text around it, and completes nothing. A program that
    /// sends keys at once may ask for the completion of the first line, and of a word.
    fn have_pasted_tab(self, before: &str) -> bool {
        let is_in_burst = self.last.elapsed() < TYPING;
        let is_after_word = before.ends_with(|last: char| !last.is_whitespace());
        is_in_burst && (!is_after_word || self.follows == Some(true) || terminal::has_input())
    }
}

impl Assistant {
    pub fn new(backend: Backend) -> Self {
        Assistant {
            files: FilenameCompleter::new(),
            backend,
            names: RefCell::new(None),
            keys: Cell::new(Keys::of_new_line()),
        }
    }

    /// Completes the names of another database.
    pub fn use_backend(&mut self, backend: Backend) {
        self.backend = backend;
        self.forget_names();
    }

    /// Notes that a line begins.
    pub fn begin_line(&self) {
        self.keys.set(Keys::of_new_line());
    }

    /// Discards the names, because a statement may have changed the tables.
    pub fn forget_names(&mut self) {
        self.names.replace(None);
    }

    fn names(&self) -> Rc<Vec<String>> {
        let mut names = self.names.borrow_mut();
        names.get_or_insert_with(|| Rc::new(self.backend.names())).clone()
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        if self.keys.get().have_pasted_tab(before) {
            return Ok((position, vec![Pair { display: "\t".into(), replacement: "\t".into() }]));
        }
        match place_of(before) {
            Place::CommandName => Ok((start_of_line(before), command_names(&before[start_of_line(before)..]))),
            Place::FileName => self.files.complete(line, position, context),
            Place::FormatName(start) => {
                Ok((start, pairs(Format::value_variants().iter().map(|f| f.name()), &before[start..])))
            }
            Place::Word(start) => Ok((start, words(&self.names(), &before[start..]))),
        }
    }
}

// Each line is read on its own, so that a command of the shell can follow the lines of an unfinished statement.
impl Validator for Assistant {}

impl Hinter for Assistant {
    type Hint = String;

    /// Hints at nothing, but is called for each key.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        if !line.is_empty() {
            self.keys.set(self.keys.get().with_next());
        }
        None
    }
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}

/// The syntactic position of the cursor.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    CommandName,
    FileName,
    FormatName(usize),
    Word(usize),
}

fn place_of(before: &str) -> Place {
    let line = before[start_of_line(before)..].trim_start();
    if line.starts_with(['\\', '.']) {
        let Some((name, argument)) = line.split_once(char::is_whitespace) else { return Place::CommandName };
        let is_file = match canonical(name) {
            Some("\\mode") => return Place::FormatName(start_of_word(before)),
            Some("\\i" | "\\o" | "\\c" | "\\e" | "\\!") => true,
            Some("\\import") => is_first_word(argument),
            Some("\\copy") => follows_direction(argument) || argument.matches('\'').count() % 2 == 1,
            _ => false,
        };
        return if is_file { Place::FileName } else { Place::Word(start_of_word(before)) };
    }
    if before.matches('\'').count() % 2 == 1 { Place::FileName } else { Place::Word(start_of_word(before)) }
}

/// Whether an argument that ends here is the first one, which may be in quotes or have escaped spaces.
fn is_first_word(argument: &str) -> bool {
    let argument = argument.trim_start();
    match argument.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        Some(quote) => !argument[1..].contains(quote),
        None => !argument.replace("\\ ", "").contains(char::is_whitespace),
    }
}

/// Whether the word that ends here follows `from` or `to`.
fn follows_direction(argument: &str) -> bool {
    let before = argument.trim_end_matches(|last: char| !last.is_whitespace()).trim_end();
    let word = before.rsplit(char::is_whitespace).next().unwrap_or("");
    before.len() < argument.len() && ["from", "to"].iter().any(|direction| word.eq_ignore_ascii_case(direction))
}

fn start_of_line(before: &str) -> usize {
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    start + (before.len() - start - before[start..].trim_start().len())
}

fn start_of_word(before: &str) -> usize {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    before
        .char_indices()
        .rev()
        .take_while(|(_, character)| is_word(*character))
        .last()
        .map_or(before.len(), |(at, _)| at)
}

fn command_names(prefix: &str) -> Vec<Pair> {
    let names = COMMANDS.iter().flat_map(|(name, others, ..)| std::iter::once(name).chain(others.iter()));
    pairs(names.copied(), prefix)
}

fn words(names: &[String], prefix: &str) -> Vec<Pair> {
    if prefix.is_empty() {
        return pairs(names.iter().map(String::as_str), "");
    }
    let mut words = pairs(names.iter().map(String::as_str), prefix);
    // A keyword is completed in the case of its first letters.
    let is_lower = prefix.chars().all(|character| !character.is_uppercase());
    words.extend(pairs(KEYWORDS.iter().copied(), prefix).into_iter().map(|mut pair| {
        if is_lower {
            pair.replacement = pair.replacement.to_lowercase();
            pair.display = pair.display.to_lowercase();
        }
        pair
    }));
    words
}

fn pairs<'a>(candidates: impl Iterator<Item = &'a str>, prefix: &str) -> Vec<Pair> {
    let matches =
        |candidate: &&str| candidate.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let pair = |candidate: &str| Pair { display: candidate.into(), replacement: candidate.into() };
    candidates.filter(matches).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_cursor_decides_what_is_completed() {
        for (before, expected) in [
            ("\\ti", Place::CommandName),
            (".mo", Place::CommandName),
            ("\\i da", Place::FileName),
            (".mode c", Place::FormatName(6)),
            (".open sh", Place::FileName),
            ("\\c sh", Place::FileName),
            (".import my\\ fi", Place::FileName),
            (".import 'my fi", Place::FileName),
            (".import 'my file' t", Place::Word(18)),
            ("\\copy t", Place::Word(6)),
            ("\\copy t from x", Place::FileName),
            ("\\copy t from 'x", Place::FileName),
            ("\\copy t from 'x' (HE", Place::Word(18)),
            ("select * from 'da", Place::FileName),
            ("select * from 'a' wh", Place::Word(18)),
            ("\\d ta", Place::Word(3)),
            ("sel", Place::Word(0)),
            ("select t.", Place::Word(9)),
        ] {
            assert_eq!(place_of(before), expected, "{before}");
        }
    }

    #[test]
    fn words_keep_the_case_in_which_they_were_begun() {
        let names = ["selection".to_string(), "Sex".to_string()];
        for (prefix, expected) in [
            ("sel", vec!["selection", "select"]),
            ("SEL", vec!["selection", "SELECT"]),
            ("se", vec!["selection", "Sex", "secret", "select", "semi", "sequence", "set"]),
            ("", vec!["selection", "Sex"]),
            ("é", vec![]),
        ] {
            let found: Vec<_> = words(&names, prefix).into_iter().map(|pair| pair.replacement).collect();
            assert_eq!(found, expected, "{prefix}");
        }
    }
}
