//! Columns of text formats: values as [`freestone::display`] writes them.

use std::fmt::Write as _;
use std::io;

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
pub use freestone::display::{ValueTexts as Column, value_type};

/// The columns of `batch`.
pub fn columns(batch: &RecordBatch) -> io::Result<Vec<Column<'_>>> {
    batch.columns().iter().map(|array| Column::new(array.as_ref()).map_err(io::Error::other)).collect()
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
