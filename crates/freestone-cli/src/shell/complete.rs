//! Completion for the line editor: the possible ends of a word.

use std::cell::RefCell;
use std::rc::Rc;

use clap::ValueEnum;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::backend::Backend;
use crate::command::COMMANDS;
use crate::output::Format;

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
    "freestone_profile()",
    "freestone_segments(",
    "freestone_tables()",
    "freestone_views()",
    "freestone_transactions()",
    "freestone_workload()",
    "freestone_zones(",
];

pub struct Assistant {
    files: FilenameCompleter,
    backend: Backend,
    /// Tables, views and columns. They are read when they are first needed after a statement.
    names: RefCell<Option<Rc<Vec<String>>>>,
}

impl Assistant {
    pub fn new(backend: Backend) -> Self {
        Assistant { files: FilenameCompleter::new(), backend, names: RefCell::new(None) }
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
        let Some((name, _)) = line.split_once(char::is_whitespace) else { return Place::CommandName };
        match name.get(1..) {
            Some("i" | "o" | "read" | "output") => return Place::FileName,
            Some("mode") => return Place::FormatName(start_of_word(before)),
            _ => return Place::Word(start_of_word(before)),
        }
    }
    if before.matches('\'').count() % 2 == 1 { Place::FileName } else { Place::Word(start_of_word(before)) }
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
            ("se", vec!["selection", "Sex", "select", "semi", "sequence", "set"]),
            ("", vec!["selection", "Sex"]),
            ("é", vec![]),
        ] {
            let found: Vec<_> = words(&names, prefix).into_iter().map(|pair| pair.replacement).collect();
            assert_eq!(found, expected, "{prefix}");
        }
    }
}
