//! Lists and bytes as PostgreSQL writes them, for sessions of its clients: `{1,NULL,"a b"}`, `\x00ff`. Floats are in
//! [`super::float_texts`].

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use datafusion::error::Result;

use super::float_texts::{push_float, push_float32};
use crate::display::ValueTexts;

/// Whether a cast of such values to a text has another result for clients of PostgreSQL.
pub(super) fn differ(of: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeList, Float32, Float64, LargeBinary, LargeList, List};
    matches!(of, Float32 | Float64 | Binary | LargeBinary | BinaryView | List(_) | LargeList(_) | FixedSizeList(..))
}

/// The texts of values, as another type of texts.
///
/// # Errors
/// A type that cannot be written.
pub(super) fn texts(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let writer = Writer::new(values)?;
    let mut texts = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        writer.push(row, &mut text);
        texts.append_value(&text);
    }
    Ok(cast(&(Arc::new(texts.finish()) as ArrayRef), to)?)
}

/// The values of an array, prepared for writing.
enum Writer {
    Float32(ArrayRef),
    Float64(ArrayRef),
    Bytes(ArrayRef),
    Bool(ArrayRef),
    List { lists: ArrayRef, elements: Box<Writer> },
    Others(StringViewArray),
}

impl Writer {
    fn new(values: &ArrayRef) -> Result<Writer> {
        use DataType::{Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, List};
        let of_lists = |field: &Arc<Field>| -> Result<Writer> {
            let lists = cast(values, &LargeList(field.clone()))?;
            let elements = Box::new(Writer::new(lists.as_list::<i64>().values())?);
            Ok(Writer::List { lists, elements })
        };
        Ok(match values.data_type() {
            DataType::Float32 => Writer::Float32(values.clone()),
            DataType::Float64 => Writer::Float64(values.clone()),
            DataType::Boolean => Writer::Bool(values.clone()),
            Binary | LargeBinary | BinaryView => Writer::Bytes(cast(values, &BinaryView)?),
            List(field) | LargeList(field) | FixedSizeList(field, _) => of_lists(field)?,
            _ => {
                let shown = ValueTexts::new(values.as_ref())?;
                let text = |row| {
                    let mut text = String::new();
                    shown.append(row, &mut text);
                    text
                };
                Writer::Others((0..values.len()).map(|row| (!shown.is_null(row)).then(|| text(row))).collect())
            }
        })
    }

    /// Appends the text of a value that is not NULL.
    fn push(&self, row: usize, text: &mut String) {
        match self {
            Writer::Float32(values) => push_float32(text, values.as_primitive::<Float32Type>().value(row)),
            Writer::Float64(values) => push_float(text, values.as_primitive::<Float64Type>().value(row)),
            Writer::Bool(values) => text.push(if values.as_boolean().value(row) { 't' } else { 'f' }),
            Writer::Bytes(values) => {
                text.push_str("\\x");
                for byte in values.as_binary_view().value(row) {
                    let _ = write!(text, "{byte:02x}");
                }
            }
            Writer::List { lists, elements } => {
                let offsets = lists.as_list::<i64>().offsets();
                elements.push_list(offsets[row] as usize..offsets[row + 1] as usize, text);
            }
            Writer::Others(values) => text.push_str(values.value(row)),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Writer::Float32(values) | Writer::Float64(values) | Writer::Bytes(values) | Writer::Bool(values) => {
                values.is_null(row)
            }
            Writer::List { lists, .. } => lists.is_null(row),
            Writer::Others(values) => values.is_null(row),
        }
    }

    /// Appends `{1,NULL,"a b"}`.
    fn push_list(&self, rows: Range<usize>, text: &mut String) {
        text.push('{');
        let mut value = String::new();
        for (at, row) in rows.enumerate() {
            if at > 0 {
                text.push(',');
            }
            if self.is_null(row) {
                text.push_str("NULL");
                continue;
            }
            value.clear();
            self.push(row, &mut value);
            match self {
                Writer::List { .. } => text.push_str(&value),
                _ => push_element(&value, text),
            }
        }
        text.push('}');
    }
}

/// Appends an element, in quotes where it needs them.
fn push_element(value: &str, text: &mut String) {
    let is_special = |c: char| "{},\"\\ \t\n\r\u{b}\u{c}".contains(c);
    if !value.is_empty() && !value.contains(is_special) && !value.eq_ignore_ascii_case("null") {
        return text.push_str(value);
    }
    text.push('"');
    for c in value.chars() {
        if c == '"' || c == '\\' {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BinaryArray, ListArray};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn lists_and_bytes_read_as_postgresqls() {
        let of = |values: ArrayRef| {
            assert!(differ(values.data_type()));
            let texts = texts(&values, &DataType::Utf8).expect("texts");
            texts.as_string::<i32>().iter().map(|text| text.unwrap_or("NULL").to_owned()).collect::<Vec<_>>()
        };
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        assert_eq!(of(Arc::new(lists)), ["{1,NULL}", "NULL", "{}"]);
        assert_eq!(of(Arc::new(BinaryArray::from_opt_vec(vec![Some(&b"\x00\xff"[..]), None]))), ["\\x00ff", "NULL"]);
        let mut text = String::new();
        for value in ["a", "b,c", "", "null", "a\"\\"] {
            push_element(value, &mut text);
        }
        assert_eq!(text, "a\"b,c\"\"\"\"null\"\"a\\\"\\\\\"");
    }
}
