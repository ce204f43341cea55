//! What an error says in addition to its place.

use super::Parser;
use crate::keyword::Keyword as K;
use crate::lexer::TokenKind;

/// The words that begin statements.
const STATEMENTS: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "ALTER",
    "DROP",
    "WITH",
    "FROM",
    "VALUES",
    "EXPLAIN",
    "DESCRIBE",
    "SUMMARIZE",
    "MERGE",
    "COPY",
    "TRUNCATE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SHOW",
    "PIVOT",
    "UNPIVOT",
    "PREPARE",
    "EXECUTE",
    "VACUUM",
    "ANALYZE",
    "ADVISE",
    "WHATIF",
    "BACKUP",
    "RESTORE",
    "EXPORT",
    "IMPORT",
    "CALIBRATE",
    "PRAGMA",
];

/// Words that are misspelt within statements.
const CLAUSES: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "CROSS",
    "VALUES",
    "RETURNING",
    "DISTINCT",
    "QUALIFY",
    "WINDOW",
    "BETWEEN",
    "PARTITION",
    "TABLE",
    "VIEW",
    "PRIMARY",
    "REFERENCES",
    "FOREIGN",
    "UNIQUE",
    "CONSTRAINT",
    "DEFAULT",
    "CONFLICT",
    "MATCHED",
    "COLUMN",
    "RENAME",
    "SCHEMA",
    "SEQUENCE",
    "INDEX",
    "MACRO",
    "RECURSIVE",
    "MATERIALIZED",
    "USING",
    "INTO",
];

/// `a`, `a or b`, `a, b or c`. Words and signs are as they are written; other things are in words.
pub(super) fn alternatives(what: &[&'static str]) -> String {
    let quoted: Vec<String> = what
        .iter()
        .map(|word| match word.chars().any(char::is_alphabetic) {
            true => (*word).to_owned(),
            false => format!("\"{word}\""),
        })
        .collect();
    match quoted.as_slice() {
        [] => "something else".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

impl Parser<'_> {
    /// The keyword that was probably meant by the next word, or by the one before it, which was read as a name.
    pub(super) fn near_keyword(&self) -> Option<&'static str> {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        let words = [Some(self.token(0)), before.copied()];
        words.into_iter().flatten().enumerate().find_map(|(index, token)| {
            if token.kind != TokenKind::Word(None) {
                return None;
            }
            let begins = self.at == index;
            let known = if begins { STATEMENTS } else { CLAUSES };
            near(token.span.of(self.text), known)
        })
    }

    /// Refuses a statement by its first word, if it is one of other systems.
    pub(super) fn refused_statement(&self) -> Option<(&'static str, &'static str)> {
        Some(match self.keyword(0)? {
            K::GRANT | K::REVOKE => ("GRANT", "users and their roles are settings of the server: docs/server.md"),
            K::LOAD | K::INSTALL => ("an extension", "docs/functions.md lists the functions, which are always there"),
            K::CALL => ("CALL", "write SELECT * FROM function(…)"),
            K::LISTEN | K::NOTIFY => ("LISTEN and NOTIFY", "ask again by a query"),
            K::LOCK => ("LOCK", "SELECT … FOR UPDATE locks rows"),
            K::REPLACE => ("REPLACE INTO", "write INSERT OR REPLACE INTO"),
            K::CHECKPOINT => ("CHECKPOINT", "commits are durable at once; VACUUM merges segments"),
            K::REINDEX | K::CLUSTER => ("REINDEX and CLUSTER", "VACUUM writes the segments of a table again"),
            _ => return None,
        })
    }
}

/// The word of a list that is nearest to a misspelt one, if it is near enough.
fn near(word: &str, known: &[&'static str]) -> Option<&'static str> {
    // A name with digits or underscores is one.
    if !(3..=20).contains(&word.len()) || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let upper = word.to_ascii_uppercase();
    let most = if word.len() < 8 { 1 } else { 2 };
    let near = known.iter().map(|known| (distance(upper.as_bytes(), known.as_bytes()), *known));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The number of letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row[j + 1] = least;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_are_near() {
        let near = |word| near(word, CLAUSES);
        assert_eq!(near("form"), Some("FROM"));
        assert_eq!(near("whre"), Some("WHERE"));
        assert_eq!(near("GROPU"), Some("GROUP"));
        assert_eq!(near("refrenecs"), Some("REFERENCES"));
        assert_eq!(near("customer"), None);
        assert_eq!(near("table1"), None);
        assert_eq!(super::near("SELCT", STATEMENTS), Some("SELECT"));
    }
}
