//! What an error concerns, besides its message: for protocols and programs that show it or react to it.

use freestone_sql::Span;
use freestone_store::StoreError;

use super::Error;

/// What an error concerns, where that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The table, with its schema unless that is the default one.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The constraint of the table that is violated.
    pub constraint: Option<String>,
    /// The values that violate it, in PostgreSQL's words, which programs read.
    pub detail: Option<String>,
    /// The line of the data that was read, from 1.
    pub line: Option<u64>,
    /// The record of that data, from 1.
    pub record: Option<u64>,
    /// The part of the statement that is wrong.
    span: Option<Span>,
}

/// That of errors that concern nothing in particular.
const NOTHING: &Subject =
    &Subject { table: None, column: None, constraint: None, detail: None, line: None, record: None, span: None };

impl Error {
    /// What the error concerns, where that is known.
    pub fn subject(&self) -> &Subject {
        self.subject.as_deref().unwrap_or(NOTHING)
    }

    /// Where the error is in the text of a statement, in bytes from its start. Nothing if that is not known, or if the error is
    /// in another text, such as that of a view.
    pub fn offset_in(&self, text: &str) -> Option<usize> {
        let (span, excerpt) = (self.subject().span?, self.excerpt.as_deref()?);
        let start = usize::try_from(span.start).ok()?;
        (text.is_char_boundary(start) && span.excerpt(text) == excerpt).then_some(start)
    }

    /// Says more about what the error concerns.
    pub(crate) fn concerning(mut self, say: impl FnOnce(&mut Subject)) -> Error {
        say(self.subject.get_or_insert_default());
        self
    }

    /// Names the table of the column that the error concerns.
    pub(crate) fn in_table(mut self, table: &str) -> Error {
        if let Some(subject) = &mut self.subject
            && subject.column.is_some()
        {
            subject.table.get_or_insert_with(|| table.to_owned());
        }
        self
    }

    /// Adds the part of the statement that has the error, and its line with a caret below.
    pub(crate) fn in_part(self, span: Span, text: &str) -> Error {
        let excerpt = span.excerpt(text);
        self.with_excerpt(excerpt).concerning(|subject| subject.span = Some(span))
    }
}

impl Subject {
    /// The same with other words in the names, which are those of temporary tables.
    pub(super) fn replacing(&mut self, from: &str, to: &str) {
        for name in [&mut self.table, &mut self.detail].into_iter().flatten() {
            *name = name.replace(from, to);
        }
    }
}

/// What an error of the store concerns.
pub(super) fn of_store(error: &StoreError) -> Option<Subject> {
    let (table, constraint, detail): (&str, &str, String) = match error {
        StoreError::DuplicateKey { table, constraint, columns, key } => {
            (table, constraint, format!("Key ({columns})=({key}) already exists."))
        }
        StoreError::MissingReference { table, constraint, columns, referenced, key } => {
            (table, constraint, format!("Key ({columns})=({key}) is not present in table \"{}\".", own(referenced)))
        }
        StoreError::StillReferenced { table, constraint, to_columns, key, .. } => (
            table,
            constraint,
            format!("Key ({to_columns})=({key}) is still referenced from table \"{}\".", own(table)),
        ),
        _ => return None,
    };
    let (table, constraint) = (Some(table.to_owned()), Some(constraint.to_owned()));
    Some(Subject { table, constraint, detail: Some(detail), ..Subject::default() })
}

/// The name of a table without its schema.
fn own(table: &str) -> &str {
    table.rsplit_once('.').map_or(table, |(_, own)| own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn places_are_of_the_text_that_has_them() {
        let text = "SELECT 'ä',\n  b FROM t";
        let at = text.find('b').expect("a column");
        let span = Span::new(at as u32, at as u32 + 1);
        let error = Error::new(ErrorKind::NotFound, "no column b").in_part(span, text);
        assert_eq!(error.offset_in(text), Some(at));
        // Other texts, in which there is something else, or nothing.
        for other in ["SELECT 1", "", "SELECT 'ä',\n  c FROM t", "SELECT 'ää',\n b FROM t"] {
            assert_eq!(error.offset_in(other), None, "{other}");
        }
        assert_eq!(Error::new(ErrorKind::NotFound, "no column b").offset_in(text), None);
    }

    #[test]
    fn only_columns_have_the_table_of_their_statement() {
        let of_column = Error::new(ErrorKind::Constraint, "x").concerning(|subject| subject.column = Some("a".into()));
        assert_eq!(of_column.in_table("t").subject().table.as_deref(), Some("t"));
        assert_eq!(Error::new(ErrorKind::Constraint, "x").in_table("t").subject(), &Subject::default());
    }
}
