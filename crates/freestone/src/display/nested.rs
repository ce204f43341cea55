//! Texts of nested values, as DuckDB writes and reads them: `[1, NULL]`, `{'a': 1}`, `{key=1}`. A text within them is in
//! quotes if it could be read as something else.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::ValueTexts;

/// The values of an array, prepared for writing inside others.
pub(super) struct NestedTexts<'a> {
    array: &'a dyn Array,
    form: Form<'a>,
}

enum Form<'a> {
    Flat(Box<ValueTexts<'a>>),
    /// The items, and the ends of each value among them.
    List(Box<NestedTexts<'a>>, &'a [i32]),
    FixedList(Box<NestedTexts<'a>>, usize),
    Struct(Vec<(String, NestedTexts<'a>)>),
    Map(Box<NestedTexts<'a>>, Box<NestedTexts<'a>>, &'a [i32]),
}

/// Whether values of a type are written by this module. Others have no parts, or are not stored.
pub(crate) fn has_parts(data_type: &DataType) -> bool {
    use DataType::{FixedSizeList, List, Map, Struct};
    matches!(data_type, List(_) | FixedSizeList(_, _) | Struct(_) | Map(_, _))
}

impl<'a> NestedTexts<'a> {
    /// # Errors
    /// A type that cannot be written.
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let inner = |array: &'a ArrayRef| Ok::<_, ArrowError>(Box::new(NestedTexts::new(array.as_ref())?));
        let form = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Form::List(inner(list.values())?, list.value_offsets())
            }
            DataType::FixedSizeList(_, length) => {
                Form::FixedList(inner(array.as_fixed_size_list().values())?, *length as usize)
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let named =
                    columns.map(|(field, column)| Ok((quoted(field.name()), NestedTexts::new(column.as_ref())?)));
                Form::Struct(named.collect::<Result<_, ArrowError>>()?)
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                Form::Map(inner(map.keys())?, inner(map.values())?, map.value_offsets())
            }
            _ => Form::Flat(Box::new(ValueTexts::new(array)?)),
        };
        Ok(NestedTexts { array, form })
    }

    /// Appends a value inside another one.
    fn append_inside(&self, row: usize, text: &mut String) {
        let is_null = match &self.form {
            Form::Flat(texts) => texts.is_null(row),
            _ => self.array.is_null(row),
        };
        match &self.form {
            _ if is_null => text.push_str("NULL"),
            Form::Flat(texts) => {
                let start = text.len();
                texts.append(row, text);
                if needs_quotes(&text[start..]) {
                    let plain = text.split_off(start);
                    text.push_str(&quoted(&plain));
                }
            }
            _ => self.append(row, text),
        }
    }

    /// Appends a value that is not NULL.
    pub fn append(&self, row: usize, text: &mut String) {
        let mut separate = Separator::default();
        match &self.form {
            Form::Flat(texts) => texts.append(row, text),
            Form::List(items, ends) => {
                text.push('[');
                for item in ends[row] as usize..ends[row + 1] as usize {
                    separate.write(text);
                    items.append_inside(item, text);
                }
                text.push(']');
            }
            Form::FixedList(items, length) => {
                text.push('[');
                for item in row * length..(row + 1) * length {
                    separate.write(text);
                    items.append_inside(item, text);
                }
                text.push(']');
            }
            Form::Struct(fields) => {
                text.push('{');
                for (name, values) in fields {
                    separate.write(text);
                    text.push_str(name);
                    text.push_str(": ");
                    values.append_inside(row, text);
                }
                text.push('}');
            }
            Form::Map(keys, values, ends) => {
                text.push('{');
                for entry in ends[row] as usize..ends[row + 1] as usize {
                    separate.write(text);
                    keys.append_inside(entry, text);
                    text.push('=');
                    values.append_inside(entry, text);
                }
                text.push('}');
            }
        }
    }
}

/// Writes ", " before all items but the first.
#[derive(Default)]
struct Separator(bool);

impl Separator {
    fn write(&mut self, text: &mut String) {
        if std::mem::replace(&mut self.0, true) {
            text.push_str(", ");
        }
    }
}

fn needs_quotes(text: &str) -> bool {
    let is_special =
        |byte: u8| matches!(byte, b',' | b'\'' | b'"' | b'[' | b']' | b'{' | b'}' | b'(' | b')' | b'=' | b':' | b'\\');
    text.is_empty() || text.trim() != text || text.eq_ignore_ascii_case("NULL") || text.bytes().any(is_special)
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('\'');
    out
}
