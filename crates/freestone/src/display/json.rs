//! Values as JSON. Integers and decimals are written with all digits, without conversion to floats. Lists are arrays;
//! structs and maps are objects. Values other than numbers, booleans and nested ones are strings.

use std::ops::Range;

use arrow::array::{Array, AsArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::json_parts::part_of_json;
use super::{ValueTexts, value_type};
use crate::json_text::append_json_string;

/// The form of NaN and infinities, which JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFinite {
    /// `null`, which every reader accepts. The value is lost.
    Null,
    /// `NaN`, `Infinity` and `-Infinity`, which Python, JavaScript and this engine read.
    Named,
}

/// The values of one array, and how they are written.
pub struct JsonValues<'a> {
    texts: ValueTexts<'a>,
    form: Form<'a>,
    non_finite: NonFinite,
}

enum Form<'a> {
    /// The text is valid JSON.
    Literal,
    Float,
    Text,
    Binary,
    List(Vec<Range<usize>>, Box<JsonValues<'a>>),
    Struct(Vec<String>, Vec<JsonValues<'a>>),
    Map(Vec<Range<usize>>, Box<(ValueTexts<'a>, JsonValues<'a>)>),
}

impl<'a> JsonValues<'a> {
    /// # Errors
    /// A type that cannot be written.
    pub fn new(array: &'a dyn Array, non_finite: NonFinite) -> Result<Self, ArrowError> {
        if let Some(parts) = part_of_json(array) {
            return Ok(JsonValues { texts: ValueTexts::new(parts)?, form: Form::Literal, non_finite });
        }
        let boxed = |array: &'a dyn Array| JsonValues::new(array, non_finite).map(Box::new);
        let form = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Form::List(ranges(list.offsets()), boxed(list.values().as_ref())?)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Form::List(ranges(list.offsets()), boxed(list.values().as_ref())?)
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                Form::List(spans(list.offsets(), list.sizes()), boxed(list.values().as_ref())?)
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                Form::List(spans(list.offsets(), list.sizes()), boxed(list.values().as_ref())?)
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).map_err(|error| ArrowError::CastError(error.to_string()))?;
                let ranges = (0..array.len()).map(|row| row * length..(row + 1) * length).collect();
                Form::List(ranges, boxed(array.as_fixed_size_list().values().as_ref())?)
            }
            DataType::Struct(fields) => {
                let keys = fields.iter().map(|field| json_key(field.name())).collect();
                let columns = array.as_struct().columns().iter();
                let columns = columns.map(|child| JsonValues::new(child.as_ref(), non_finite));
                Form::Struct(keys, columns.collect::<Result<_, _>>()?)
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let keys = ValueTexts::new(map.keys().as_ref())?;
                let values = JsonValues::new(map.values().as_ref(), non_finite)?;
                Form::Map(ranges(map.offsets()), Box::new((keys, values)))
            }
            data_type => match value_type(data_type) {
                data_type if data_type.is_floating() => Form::Float,
                data_type if data_type.is_numeric() || *data_type == DataType::Boolean => Form::Literal,
                DataType::FixedSizeBinary(16) => Form::Text,
                data_type if data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_)) => Form::Binary,
                _ => Form::Text,
            },
        };
        Ok(JsonValues { texts: ValueTexts::new(array)?, form, non_finite })
    }

    /// Appends a value; `null` for NULL.
    pub fn append(&self, row: usize, line: &mut String) {
        if self.texts.is_null(row) {
            return line.push_str("null");
        }
        match &self.form {
            Form::Literal => self.texts.append(row, line),
            Form::Float => self.append_float(row, line),
            Form::Text => self.append_text(row, "", line),
            Form::Binary => self.append_text(row, if self.non_finite == NonFinite::Named { "\\x" } else { "" }, line),
            Form::List(ranges, items) => {
                line.push('[');
                for (index, item) in ranges[row].clone().enumerate() {
                    if index > 0 {
                        line.push(',');
                    }
                    items.append(item, line);
                }
                line.push(']');
            }
            Form::Struct(keys, columns) => JsonValues::append_object(keys, columns, row, line),
            Form::Map(ranges, entries) => {
                let (keys, values) = entries.as_ref();
                line.push('{');
                for (index, entry) in ranges[row].clone().enumerate() {
                    if index > 0 {
                        line.push(',');
                    }
                    let mut key = String::new();
                    keys.append(entry, &mut key);
                    line.push_str(&json_key(&key));
                    values.append(entry, line);
                }
                line.push('}');
            }
        }
    }

    /// Appends one object of a row's columns, whose keys end in their colons.
    pub fn append_object(keys: &[String], columns: &[JsonValues<'_>], row: usize, line: &mut String) {
        line.push('{');
        for (index, (key, column)) in keys.iter().zip(columns).enumerate() {
            if index > 0 {
                line.push(',');
            }
            line.push_str(key);
            column.append(row, line);
        }
        line.push('}');
    }

    fn append_text(&self, row: usize, prefix: &str, line: &mut String) {
        let mut text = prefix.to_owned();
        self.texts.append(row, &mut text);
        append_json_string(&text, line);
    }

    fn append_float(&self, row: usize, line: &mut String) {
        let start = line.len();
        self.texts.append(row, line);
        // "NaN", "inf" and "-inf": no finite number ends in a letter.
        if line.ends_with(|last: char| last.is_ascii_alphabetic()) {
            let written = match (&line[start..], self.non_finite) {
                (_, NonFinite::Null) => "null",
                ("inf", _) => "Infinity",
                ("-inf", _) => "-Infinity",
                _ => "NaN",
            };
            line.truncate(start);
            line.push_str(written);
        }
    }
}

/// `"name":`, as in each object.
pub fn json_key(name: &str) -> String {
    let mut key = String::new();
    append_json_string(name, &mut key);
    key.push(':');
    key
}

fn spans<O: OffsetSizeTrait>(offsets: &[O], sizes: &[O]) -> Vec<Range<usize>> {
    let span = |(offset, size): (&O, &O)| offset.as_usize()..offset.as_usize() + size.as_usize();
    offsets.iter().zip(sizes).map(span).collect()
}

fn ranges<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Vec<Range<usize>> {
    offsets.windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize()).collect()
}
