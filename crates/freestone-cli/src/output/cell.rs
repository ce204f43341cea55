//! Values as text, the same in every text format: dates and timestamps in ISO 8601, decimals digit by digit, bytes in
//! hexadecimal.

use std::fmt::Write as _;
use std::io;

use arrow::array::Array;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// One column of a batch, ready to be printed.
pub struct Column<'a> {
    array: &'a dyn Array,
    formatter: ArrayFormatter<'a>,
}

/// The columns of `batch`.
pub fn columns(batch: &RecordBatch) -> io::Result<Vec<Column<'_>>> {
    batch.columns().iter().map(|array| Column::new(array.as_ref())).collect()
}

impl<'a> Column<'a> {
    pub fn new(array: &'a dyn Array) -> io::Result<Self> {
        let formatter = ArrayFormatter::try_new(array, &FormatOptions::new()).map_err(io::Error::other)?;
        Ok(Column { array, formatter })
    }

    /// Logical nulls: a dictionary's null value counts.
    pub fn is_null(&self, row: usize) -> bool {
        match self.array.data_type() {
            DataType::Null => true,
            DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) | DataType::Union(_, _) => {
                self.array.logical_nulls().is_some_and(|nulls| nulls.is_null(row))
            }
            _ => self.array.is_null(row),
        }
    }

    /// Appends the value's text; nothing for NULL.
    pub fn append(&self, row: usize, text: &mut String) -> io::Result<()> {
        self.formatter.value(row).write(text).map_err(io::Error::other)
    }
}

/// The type of the values, whatever they are wrapped in.
pub fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        other => other,
    }
}

pub fn is_number(data_type: &DataType) -> bool {
    value_type(data_type).is_numeric()
}

/// Appends `text` with control characters made visible, so that a value can neither break the frame of a table nor
/// steer the terminal.
pub fn append_visible(text: &str, line: &mut String) {
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            character if character.is_control() => {
                let _ = write!(line, "\\u{{{:x}}}", character as u32);
            }
            character => line.push(character),
        }
    }
}
