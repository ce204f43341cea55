//! CSV that `COPY … FROM` reads back unchanged: NULL and the empty text are distinguished, and binary values are `\x`
//! and hexadecimal digits.

use arrow::array::Array;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::display::{JsonValues, NonFinite, ValueTexts, value_type};

/// The special characters of the file.
#[derive(Debug, Clone)]
pub(super) struct CsvForm {
    pub header: bool,
    pub delimiter: u8,
    pub quote: u8,
    /// The character that escapes a quote, or itself, within quotes.
    pub escape: u8,
    /// The text for NULL.
    pub null: String,
}

impl CsvForm {
    /// The line with the names.
    pub fn head(&self, names: &[&str]) -> String {
        let mut line = String::new();
        if self.header {
            for (index, name) in names.iter().enumerate() {
                self.append_delimiter(index, &mut line);
                self.append_field(name, &mut line);
            }
            line.push('\n');
        }
        line
    }

    /// The lines of a batch.
    pub fn lines(&self, batch: &RecordBatch) -> Result<String, ArrowError> {
        let columns = batch.columns().iter().map(|array| Column::new(array.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let mut lines = String::with_capacity(batch.num_rows() * columns.len() * 8);
        let mut field = String::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                self.append_delimiter(index, &mut lines);
                if column.is_null(row) {
                    lines.push_str(&self.null);
                    continue;
                }
                field.clear();
                column.append(row, &mut field);
                self.append_field(&field, &mut lines);
            }
            lines.push('\n');
        }
        Ok(lines)
    }

    fn append_delimiter(&self, index: usize, line: &mut String) {
        if index > 0 {
            line.push(char::from(self.delimiter));
        }
    }

    /// Appends a field, which is quoted if it would be read as something else without quotes.
    fn append_field(&self, field: &str, line: &mut String) {
        let is_special = |byte: u8| byte == self.delimiter || byte == self.quote || byte == b'\n' || byte == b'\r';
        // A byte order mark at the start would be read as that of the file.
        let is_plain = !field.bytes().any(is_special) && field != self.null && !field.is_empty();
        if is_plain && !field.starts_with('\u{feff}') {
            return line.push_str(field);
        }
        let (quote, escape) = (char::from(self.quote), char::from(self.escape));
        line.push(quote);
        for character in field.chars() {
            if character == quote || character == escape {
                line.push(escape);
            }
            line.push(character);
        }
        line.push(quote);
    }
}

/// One column of a batch. Lists, structs and maps are written as JSON.
enum Column<'a> {
    Plain(ValueTexts<'a>),
    Binary(ValueTexts<'a>),
    Nested(&'a dyn Array, JsonValues<'a>),
}

impl<'a> Column<'a> {
    fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(match value_type(array.data_type()) {
            nested if nested.is_nested() => Column::Nested(array, JsonValues::new(array, NonFinite::Named)?),
            DataType::FixedSizeBinary(16) => Column::Plain(ValueTexts::new(array)?),
            DataType::FixedSizeBinary(_) => Column::Binary(ValueTexts::new(array)?),
            binary if binary.is_binary() => Column::Binary(ValueTexts::new(array)?),
            _ => Column::Plain(ValueTexts::new(array)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Plain(texts) | Column::Binary(texts) => texts.is_null(row),
            Column::Nested(array, _) => array.is_null(row),
        }
    }

    fn append(&self, row: usize, field: &mut String) {
        match self {
            Column::Plain(texts) => texts.append(row, field),
            Column::Binary(texts) => {
                field.push_str("\\x");
                texts.append(row, field);
            }
            Column::Nested(_, values) => values.append(row, field),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Int32Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn form() -> CsvForm {
        CsvForm { header: true, delimiter: b',', quote: b'"', escape: b'"', null: String::new() }
    }

    #[test]
    fn null_and_empty_text_differ() {
        let texts = StringArray::from(vec![Some(""), None, Some("a,\"b\""), Some("\u{feff}x"), Some("two\nlines")]);
        let bytes = BinaryArray::from(vec![Some(&b""[..]), None, Some(b"\\x"), Some(b"\x00\xff"), None]);
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("b", DataType::Binary, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(bytes)]).expect("a batch");
        let lines = form().lines(&batch).expect("lines");
        assert_eq!(lines, "\"\",\\x\n,\n\"a,\"\"b\"\"\",\\x5c78\n\"\u{feff}x\",\\x00ff\n\"two\nlines\",\n");
        assert_eq!(form().head(&["a b", ""]), "a b,\"\"\n");
    }

    #[test]
    fn other_quotes_and_nulls() {
        let form = CsvForm { delimiter: b';', quote: b'\'', escape: b'\\', null: "NA".into(), ..form() };
        let texts = StringArray::from(vec![Some("NA"), None, Some("it's \\ ;"), Some("a,b")]);
        let numbers = Int32Array::from(vec![Some(1), None, Some(3), Some(4)]);
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("i", DataType::Int32, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(numbers)]).expect("a batch");
        assert_eq!(form.lines(&batch).expect("lines"), "'NA';1\nNA;NA\n'it\\'s \\\\ ;';3\na,b;4\n");
    }
}
