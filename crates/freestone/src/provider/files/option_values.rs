//! The values of options of files, as texts: truth values, characters, lists, names, types of columns.

use datafusion::arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::ingest::DELIMITER_BYTES_MAX;

pub(crate) fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err(Error::invalid(format!("{name} {value} is neither true nor false"))),
    }
}

pub(crate) fn byte(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err(Error::invalid(format!("{name} '{value}' is not one ASCII character"))),
    }
}

/// What separates the fields of a CSV file.
pub(crate) enum Delimiter {
    Byte(u8),
    /// Several bytes.
    Wide(String),
}

pub(crate) fn delimiter(name: &str, value: &str) -> Result<Delimiter> {
    let is_wide = (2..=DELIMITER_BYTES_MAX).contains(&value.len()) && !value.contains(['\0', '\n', '\r', '\\']);
    match byte(name, value) {
        Ok(byte) => Ok(Delimiter::Byte(byte)),
        Err(_) if is_wide => Ok(Delimiter::Wide(value.to_owned())),
        Err(_) => Err(Error::invalid(format!("{name} '{value}' is no delimiter"))
            .with_hint("give one character, or up to four bytes without line ends and backslashes")),
    }
}

pub(crate) fn number(name: &str, value: &str) -> Result<usize> {
    value.parse().map_err(|_| Error::invalid(format!("{name} {value} is not a whole number")))
}

/// The end of a line, with its characters or as SQL writes it.
pub(crate) fn line_end(name: &str, value: &str) -> Result<&'static str> {
    Ok(match value {
        "\n" | "\\n" => "\n",
        "\r\n" | "\\r\\n" => "\r\n",
        "\r" | "\\r" => "\r",
        _ => {
            let error = Error::invalid(format!("{name} '{value}' does not end lines"));
            return Err(error.with_hint("lines end with '\\n', '\\r\\n' or '\\r'"));
        }
    })
}

/// The texts of `['a', 'b']`; `None` for a value of another form.
pub(super) fn list(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let item = |part: &&str| Some(part.trim().strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'"));
    let items: Vec<&str> = parts(inner);
    items.iter().map(item).collect()
}

/// The names of a list of columns, `(a, "b c")`, `['a', 'b c']`, or of one column.
pub(crate) fn names(text: &str) -> Vec<String> {
    let text = text.trim();
    let inner =
        [('(', ')'), ('[', ']')].iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    let name = |part: &&str| {
        let part = part.trim();
        let quoted = |quote: char| {
            let inner = part.strip_prefix(quote)?.strip_suffix(quote)?;
            Some(inner.replace(&format!("{quote}{quote}"), &quote.to_string()))
        };
        quoted('"').or_else(|| quoted('\'')).unwrap_or_else(|| part.to_owned())
    };
    parts(inner.unwrap_or(text)).iter().map(name).collect()
}

/// The types of columns: by name, or in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ColumnTypes {
    pub named: Vec<(String, DataType)>,
    pub in_order: Vec<DataType>,
}

impl ColumnTypes {
    /// Parses `a INT, "b c" VARCHAR`, optionally with colons, quotes and braces around it, or `['INT', 'VARCHAR']`.
    pub fn parse(option: &str, text: &str, data_type: &dyn Fn(&str) -> Result<DataType>) -> Result<ColumnTypes> {
        let text = text.trim();
        if let Some(types) = list(text) {
            let in_order = types.iter().map(|name| data_type(name)).collect::<Result<_>>()?;
            return Ok(ColumnTypes { in_order, ..ColumnTypes::default() });
        }
        let inner =
            [('{', '}'), ('(', ')')].iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
        let mut named = vec![];
        for part in parts(inner.unwrap_or(text)) {
            let bad = || {
                Error::invalid(format!("{option}: '{part}' is not a column and its type"))
                    .with_hint(format!("the form is {option} 'column TYPE, …', or in a call, {{'column': 'TYPE', …}}"))
            };
            let (name, rest) = name(part.trim()).ok_or_else(bad)?;
            let wanted = rest.trim_start().trim_start_matches([':', '=']).trim();
            let wanted = match wanted.strip_prefix('\'').and_then(|wanted| wanted.strip_suffix('\'')) {
                Some(quoted) => quoted.replace("''", "'"),
                None => wanted.to_owned(),
            };
            if wanted.is_empty() {
                return Err(bad());
            }
            if named.iter().any(|(other, _)| *other == name) {
                return Err(Error::invalid(format!("{option} names the column {name} twice")));
            }
            named.push((name, data_type(&wanted)?));
        }
        Ok(ColumnTypes { named, ..ColumnTypes::default() })
    }
}

/// The comma-separated parts, except for commas within parentheses or quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0i32, None, 0);
    let mut parts = vec![];
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A name at the start of a text, quoted or not, and the rest of the text.
fn name(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let mut end = 1;
        loop {
            end += text[end..].find(quote)?;
            match text[end + 1..].starts_with(quote) {
                true => end += 2,
                false => break,
            }
        }
        let name = text[1..end].replace(&format!("{quote}{quote}"), &quote.to_string());
        return Some((name, &text[end + 1..]));
    }
    let end = text.find([' ', ':', '='])?;
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_lists_of_columns() {
        let data_type = |name: &str| match name {
            "INT" => Ok(DataType::Int32),
            "DECIMAL(10, 2)" => Ok(DataType::Decimal128(10, 2)),
            other => Err(Error::invalid(other.to_owned())),
        };
        let read = |text: &str| ColumnTypes::parse("TYPES", text, &data_type).map_err(|error| error.to_string());
        let both = vec![("a".to_owned(), DataType::Int32), ("b c".to_owned(), DataType::Decimal128(10, 2))];
        let both = ColumnTypes { named: both, in_order: vec![] };
        assert_eq!(read("a INT, \"b c\" DECIMAL(10, 2)"), Ok(both.clone()));
        assert_eq!(read("{'a': 'INT', 'b c': 'DECIMAL(10, 2)'}"), Ok(both));
        assert_eq!(read(""), Ok(ColumnTypes::default()));
        let in_order = vec![DataType::Int32, DataType::Decimal128(10, 2)];
        assert_eq!(read("[ 'INT' , 'DECIMAL(10, 2)' ]"), Ok(ColumnTypes { named: vec![], in_order }));
        let quoted = vec![("it's".to_owned(), DataType::Int32)];
        assert_eq!(read("{'it''s': 'INT'}"), Ok(ColumnTypes { named: quoted, in_order: vec![] }));
        for wrong in ["a", "a =", "a TREE", "a INT, a INT", "['TREE']", "'a INT"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_are_quoted_texts_in_brackets() {
        assert_eq!(list("[ 'a' , 'b, c' , '' ]"), Some(vec!["a".into(), "b, c".into(), String::new()]));
        assert_eq!(list("['it''s']"), Some(vec!["it's".into()]));
        assert_eq!(list("[]"), Some(vec![]));
        for text in ["NA", "", "[NA]", "['a'", "['a', b]"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    #[test]
    fn columns_are_named() {
        assert_eq!(names("( a , \"b \"\"c\" )"), ["a", "b \"c"]);
        assert_eq!(names("['a', 'it''s']"), ["a", "it's"]);
        assert_eq!(names("a"), ["a"]);
        assert_eq!(names("a, b"), ["a", "b"]);
        assert_eq!(names("*"), ["*"]);
        assert_eq!(names("()"), Vec::<String>::new());
    }

    #[test]
    fn line_ends_are_characters_or_escapes() {
        for (text, expected) in [("\\n", "\n"), ("\r\n", "\r\n"), ("\\r", "\r")] {
            assert_eq!(line_end("NEW_LINE", text).ok(), Some(expected));
        }
        assert!(line_end("NEW_LINE", "x").is_err());
    }
}
