//! CSV that `COPY … FROM` reads back unchanged: NULL and the empty text are distinguished, and binary values are `\x`
//! and hexadecimal digits.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::times::{FormattedTimes, TimeFormats};
use crate::display::{JsonValues, NonFinite, ValueTexts, value_type};
use crate::error::{Error, Result};
use crate::ingest::{NO_QUOTE, UNIT};

/// The columns whose values are quoted always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ForceQuote {
    None,
    All,
    Columns(Vec<String>),
}

/// The special characters of the file.
#[derive(Debug, Clone)]
pub(super) struct CsvForm {
    pub header: bool,
    pub delimiter: String,
    pub quote: u8,
    /// The character that escapes a quote, or itself, within quotes.
    pub escape: u8,
    /// The text for NULL.
    pub null: String,
    /// The character that begins comments.
    pub comment: Option<u8>,
    pub line_end: &'static str,
    pub force_quote: ForceQuote,
    pub times: TimeFormats,
}

impl CsvForm {
    /// The form of files with an extension.
    pub fn of_extension(extension: &str) -> CsvForm {
        CsvForm {
            header: true,
            delimiter: String::from(match extension {
                "tsv" => "\t",
                "tbl" => "|",
                _ => ",",
            }),
            quote: b'"',
            escape: b'"',
            null: String::new(),
            comment: None,
            line_end: "\n",
            force_quote: ForceQuote::None,
            times: TimeFormats::default(),
        }
    }

    /// Refuses characters with several meanings.
    pub fn check(&self) -> Result<()> {
        let usable = |byte: u8| byte == NO_QUOTE || byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r');
        let is_delimiter = |byte: u8| self.delimiter.as_bytes().contains(&byte);
        let marks = [self.quote, self.escape, self.comment.unwrap_or(b'#')];
        if !marks.into_iter().all(usable) || is_delimiter(b'\n') || is_delimiter(b'\r') {
            return Err(Error::invalid(
                "QUOTE, ESCAPE and COMMENT must be single ASCII characters, and DELIMITER without line ends",
            ));
        }
        if is_delimiter(self.quote) || is_delimiter(self.escape) {
            return Err(Error::invalid("DELIMITER must differ from QUOTE and ESCAPE"));
        }
        if self.comment.is_some_and(|comment| is_delimiter(comment) || [self.quote, self.escape].contains(&comment)) {
            return Err(Error::invalid("COMMENT must differ from DELIMITER, QUOTE and ESCAPE"));
        }
        if self.null.bytes().any(|byte| self.is_special(byte)) {
            return Err(Error::invalid("NULL must hold no DELIMITER, QUOTE, COMMENT or line end"));
        }
        Ok(())
    }

    /// Whether each column is quoted always.
    ///
    /// # Errors
    /// There is no such column.
    pub fn forced(&self, schema: &Schema) -> Result<Vec<bool>> {
        let mut forced = vec![self.force_quote == ForceQuote::All; schema.fields().len()];
        let ForceQuote::Columns(columns) = &self.force_quote else { return Ok(forced) };
        let fields = || schema.fields().iter().map(|field| field.name().as_str());
        for name in columns {
            let found = fields().position(|field| field == name);
            let found = found.or_else(|| fields().position(|field| field.eq_ignore_ascii_case(name)));
            forced[found.ok_or_else(|| Error::not_found("column", name, fields()))?] = true;
        }
        Ok(forced)
    }

    /// The line with the names.
    pub fn head(&self, names: &[&str], forced: &[bool]) -> String {
        let mut line = String::new();
        if self.header {
            for (index, name) in names.iter().enumerate() {
                self.append_delimiter(index, &mut line);
                self.append_field(name, forced[index], &mut line);
            }
            line.push_str(self.line_end);
        }
        line
    }

    /// The lines of a batch.
    pub fn lines(&self, batch: &RecordBatch, forced: &[bool]) -> Result<String, ArrowError> {
        let columns = batch.columns().iter().map(|array| Column::new(array, &self.times));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
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
                self.append_field(&field, forced[index], &mut lines);
            }
            lines.push_str(self.line_end);
        }
        Ok(lines)
    }

    fn append_delimiter(&self, index: usize, line: &mut String) {
        if index > 0 {
            line.push_str(&self.delimiter);
        }
    }

    fn is_special(&self, byte: u8) -> bool {
        let is_delimiter = self.delimiter.as_bytes().contains(&byte) || self.delimiter.len() > 1 && byte == UNIT;
        is_delimiter || byte == self.quote || Some(byte) == self.comment || byte == b'\n' || byte == b'\r'
    }

    /// Appends a field, which is quoted if it would be read as something else without quotes.
    fn append_field(&self, field: &str, is_forced: bool, line: &mut String) {
        if self.quote == NO_QUOTE {
            return line.push_str(field);
        }
        let is_special = |byte: u8| self.is_special(byte);
        // A byte order mark at the start would be read as that of the file.
        let is_plain = !is_forced && !field.bytes().any(is_special) && field != self.null && !field.is_empty();
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
    Times(FormattedTimes<'a>),
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, times: &TimeFormats) -> Result<Self, ArrowError> {
        if let Some(times) = FormattedTimes::of(array, times)? {
            return Ok(Column::Times(times));
        }
        Ok(match value_type(array.data_type()) {
            nested if nested.is_nested() => {
                Column::Nested(array.as_ref(), JsonValues::new(array.as_ref(), NonFinite::Named)?)
            }
            DataType::FixedSizeBinary(16) => Column::Plain(ValueTexts::new(array.as_ref())?),
            DataType::FixedSizeBinary(_) => Column::Binary(ValueTexts::new(array.as_ref())?),
            binary if binary.is_binary() => Column::Binary(ValueTexts::new(array.as_ref())?),
            _ => Column::Plain(ValueTexts::new(array.as_ref())?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Plain(texts) | Column::Binary(texts) => texts.is_null(row),
            Column::Nested(array, _) => array.is_null(row),
            Column::Times(times) => times.is_null(row),
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
            Column::Times(times) => times.append(row, field),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Int32Array, StringArray};
    use arrow::datatypes::Field;

    use super::*;

    fn lines(form: &CsvForm, batch: &RecordBatch) -> String {
        let forced = form.forced(batch.schema_ref()).expect("columns");
        form.lines(batch, &forced).expect("lines")
    }

    #[test]
    fn null_and_empty_text_differ() {
        let texts = StringArray::from(vec![Some(""), None, Some("a,\"b\""), Some("\u{feff}x"), Some("two\nlines")]);
        let bytes = BinaryArray::from(vec![Some(&b""[..]), None, Some(b"\\x"), Some(b"\x00\xff"), None]);
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("b", DataType::Binary, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(bytes)]).expect("a batch");
        let form = CsvForm::of_extension("csv");
        let expected = "\"\",\\x\n,\n\"a,\"\"b\"\"\",\\x5c78\n\"\u{feff}x\",\\x00ff\n\"two\nlines\",\n";
        assert_eq!(lines(&form, &batch), expected);
        assert_eq!(form.head(&["a b", ""], &[false, false]), "a b,\"\"\n");
    }

    #[test]
    fn other_quotes_and_nulls() {
        let csv = CsvForm::of_extension("csv");
        let form = CsvForm { delimiter: ";".into(), quote: b'\'', escape: b'\\', null: "NA".into(), ..csv };
        let texts = StringArray::from(vec![Some("NA"), None, Some("it's \\ ;"), Some("a,b")]);
        let numbers = Int32Array::from(vec![Some(1), None, Some(3), Some(4)]);
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("i", DataType::Int32, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(numbers)]).expect("a batch");
        assert_eq!(lines(&form, &batch), "'NA';1\nNA;NA\n'it\\'s \\\\ ;';3\na,b;4\n");
        let columns = ForceQuote::Columns(vec!["I".into()]);
        let form = CsvForm { force_quote: columns, line_end: "\r\n", comment: Some(b','), ..form };
        assert_eq!(lines(&form, &batch), "'NA';'1'\r\nNA;NA\r\n'it\\'s \\\\ ;';'3'\r\n'a,b';'4'\r\n");
        assert_eq!(form.head(&["s", "i"], &[false, true]), "s;'i'\r\n");
        let all = CsvForm { force_quote: ForceQuote::All, ..form.clone() };
        assert_eq!(all.forced(batch.schema_ref()).ok(), Some(vec![true, true]));
        let none = CsvForm { force_quote: ForceQuote::Columns(vec!["x".into()]), ..form };
        assert!(none.forced(batch.schema_ref()).is_err());
    }
}
