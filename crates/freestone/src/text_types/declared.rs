//! Types of SQL that say more than the values of their columns: TEXT, VARCHAR(10), CHAR(3), JSONB, NUMERIC without precision.
//!
//! The type is kept with the column, for clients that ask for it. Texts that are longer than it allows are refused only in
//! columns that were declared while `check_lengths` was on, as over PostgreSQL's protocol: in DuckDB the length has no effect.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::Field;
use freestone_sql::tree::{Type, TypeKind};
use freestone_store::schema::TableSchema;

use crate::error::{Error, ErrorKind};
use crate::json_text::start_of;

/// The metadata of a field with the declared type of its column.
const DECLARED: &str = "freestone.declared";
/// The metadata of a field with the number of characters that its texts have at most.
const LENGTH: &str = "freestone.length";

/// The type in SQL that was declared for the column of a field, where it says more than the type of the field.
pub fn declared_type(field: &Field) -> Option<&str> {
    field.metadata().get(DECLARED).map(String::as_str)
}

/// What the table keeps of a type that is declared for a column; `None` if the type of the values says as much.
pub(crate) fn kept(declared: &Type) -> Option<String> {
    says_more(declared, false).then(|| declared.to_string())
}

fn says_more(declared: &Type, is_item: bool) -> bool {
    match &declared.kind {
        TypeKind::List(item) => says_more(item, true),
        TypeKind::Named { name, modifiers } => match name.parts.as_slice() {
            [name] if !name.quoted => match name.text.to_lowercase().as_str() {
                "text" | "char" | "character" | "nchar" | "bpchar" | "name" | "jsonb" | "oid" => true,
                "varchar" | "nvarchar" => is_item || !modifiers.is_empty(),
                "numeric" | "decimal" | "dec" => modifiers.is_empty(),
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// Whether a column is NUMERIC without precision, which keeps all digits.
pub(crate) fn keeps_digits(table: &TableSchema, column: usize) -> bool {
    let is_numeric = |sql: &str| ["numeric", "decimal", "dec"].iter().any(|name| sql.eq_ignore_ascii_case(name));
    table.declared_type(column).is_some_and(|(declared, _)| is_numeric(declared))
}

/// The number of characters that texts of a type have at most.
pub(crate) fn length(declared: &Type) -> Option<usize> {
    let TypeKind::Named { name, modifiers } = &declared.kind else { return None };
    let [name] = name.parts.as_slice() else { return None };
    let length = modifiers.first().and_then(|length| length.parse().ok());
    match name.text.to_lowercase().as_str() {
        "varchar" | "nvarchar" | "bpchar" => length,
        "char" | "character" | "nchar" => Some(length.unwrap_or(1)),
        _ => None,
    }
}

/// The metadata that tells clients the declared type of a column. A length that is not enforced is none.
pub(super) fn metadata(table: &TableSchema, column: usize) -> Option<(String, String)> {
    let (declared, is_enforced) = table.declared_type(column)?;
    let has_length = || freestone_sql::parse_type(declared).is_ok_and(|declared| length(&declared).is_some());
    (is_enforced || !has_length()).then(|| (DECLARED.to_owned(), declared.to_owned()))
}

/// Whether a table has a column whose texts have a length at most.
pub(super) fn has_lengths(table: &TableSchema) -> bool {
    (0..table.columns.len()).any(|at| table.declared_type(at).is_some_and(|(_, enforced)| enforced))
}

/// The metadata by which the texts of a column are refused that are too long.
pub(super) fn length_metadata(table: &TableSchema, column: usize) -> Option<(String, String)> {
    let (declared, _) = table.declared_type(column).filter(|(_, enforced)| *enforced)?;
    let length = length(&freestone_sql::parse_type(declared).ok()?)?;
    Some((LENGTH.to_owned(), length.to_string()))
}

/// The texts of a column as it stores them: spaces behind its length are cut.
///
/// # Errors
/// A text is longer in other characters.
pub(super) fn fitted(values: &ArrayRef, metadata: &HashMap<String, String>, column: &str) -> Result<ArrayRef, Error> {
    let length = metadata.get(LENGTH).and_then(|length| length.parse::<usize>().ok());
    let (Some(length), Some(texts)) = (length, values.as_string_view_opt()) else { return Ok(values.clone()) };
    if texts.iter().flatten().all(|text| text.len() <= length || text.chars().nth(length).is_none()) {
        return Ok(values.clone());
    }
    let fit = |text: &str| match text.char_indices().nth(length) {
        None => Ok(text.to_owned()),
        Some((end, _)) if text[end..].chars().all(|c| c == ' ') => Ok(text[..end].to_owned()),
        Some(_) => Err(too_long(column, text, length)),
    };
    let fitted = texts.iter().map(|text| text.map(fit).transpose()).collect::<Result<StringViewArray, Error>>()?;
    Ok(Arc::new(fitted))
}

/// The error of a text that is too long for its column.
pub(crate) fn too_long(column: &str, text: &str, length: usize) -> Error {
    let message = format!("column {column}: '{}' is too long, it takes {length} characters", start_of(text));
    Error::new(ErrorKind::Type, message).concerning(|subject| subject.column = Some(column.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_say_more_are_kept() {
        let kept_of = |sql: &str| kept(&freestone_sql::parse_type(sql).expect(sql));
        for (sql, expected) in [
            ("text", Some("TEXT")),
            ("character varying(3)", Some("VARCHAR(3)")),
            ("varchar", None),
            ("string", None),
            ("char", Some("CHAR")),
            ("numeric", Some("NUMERIC")),
            ("numeric(5, 1)", None),
            ("jsonb", Some("JSONB")),
            ("json", None),
            ("text[]", Some("TEXT[]")),
            ("varchar[]", Some("VARCHAR[]")),
            ("integer", None),
            ("\"text\"", None),
            ("struct(a text)", None),
        ] {
            assert_eq!(kept_of(sql).as_deref(), expected, "{sql}");
        }
    }

    #[test]
    fn texts_have_lengths() {
        let fit = |text: &str, length: usize| {
            let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some(text), None]));
            let metadata = HashMap::from([(LENGTH.to_owned(), length.to_string())]);
            let fitted = fitted(&values, &metadata, "a")?;
            Ok::<_, Error>(fitted.as_string_view().value(0).to_owned())
        };
        assert_eq!(fit("abc", 3).expect("fits"), "abc");
        assert_eq!(fit("äöü", 3).expect("characters count, not bytes"), "äöü");
        assert_eq!(fit("abc  ", 4).expect("spaces are cut"), "abc ");
        assert_eq!(fit("", 1).expect("fits"), "");
        for text in ["abcd", "abc d"] {
            assert_eq!(fit(text, 3).expect_err("is too long").sqlstate(), "22001", "{text}");
        }
    }
}
