//! JSON as one array of objects or as one object a line.
//!
//! Numbers keep every digit: integers and decimals are printed as they are, not by way of a float. JSON has no NaN and
//! no infinity; they are `null`. What is neither number, truth value nor nested is a string.

use std::fmt::Write as _;
use std::io::{self, Write};

use arrow::array::{Array, AsArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;

use super::cell::{Column, value_type};
use super::{ResultWriter, Sink};

pub struct JsonWriter<'a> {
    sink: &'a mut Sink,
    /// `"name":` of each column.
    keys: Vec<String>,
    is_array: bool,
    rows: u64,
    lines: String,
}

impl<'a> JsonWriter<'a> {
    pub fn array(schema: &SchemaRef, sink: &'a mut Sink) -> Self {
        JsonWriter { sink, keys: keys(schema), is_array: true, rows: 0, lines: String::new() }
    }

    pub fn lines(schema: &SchemaRef, sink: &'a mut Sink) -> Self {
        JsonWriter { sink, keys: keys(schema), is_array: false, rows: 0, lines: String::new() }
    }
}

impl ResultWriter for JsonWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let values = batch.columns().iter().map(|array| Values::new(array.as_ref())).collect::<io::Result<Vec<_>>>()?;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            if self.is_array {
                self.lines.push_str(if self.rows == 0 { "[\n" } else { ",\n" });
            }
            self.rows += 1;
            append_object(&self.keys, &values, row, &mut self.lines)?;
            if !self.is_array {
                self.lines.push('\n');
            }
        }
        self.sink.write_all(self.lines.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        match (self.is_array, self.rows) {
            (true, 0) => self.sink.write_all(b"[]\n"),
            (true, _) => self.sink.write_all(b"\n]\n"),
            (false, _) => Ok(()),
        }
    }
}

fn keys(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| key(field.name())).collect()
}

fn key(name: &str) -> String {
    let mut key = String::new();
    append_string(name, &mut key);
    key.push(':');
    key
}

/// One array and how its values are written.
struct Values<'a> {
    column: Column<'a>,
    form: Form<'a>,
}

enum Form<'a> {
    /// The text is valid JSON as it is.
    Literal,
    Float,
    Text,
    List(Vec<std::ops::Range<usize>>, Box<Values<'a>>),
    Struct(Vec<String>, Vec<Values<'a>>),
}

impl<'a> Values<'a> {
    fn new(array: &'a dyn Array) -> io::Result<Self> {
        let form = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Form::List(ranges(list.offsets()), Box::new(Values::new(list.values().as_ref())?))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Form::List(ranges(list.offsets()), Box::new(Values::new(list.values().as_ref())?))
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).map_err(io::Error::other)?;
                let ranges = (0..array.len()).map(|row| row * length..(row + 1) * length).collect();
                Form::List(ranges, Box::new(Values::new(array.as_fixed_size_list().values().as_ref())?))
            }
            DataType::Struct(fields) => {
                let keys = fields.iter().map(|field| key(field.name())).collect();
                let columns = array.as_struct().columns().iter().map(|child| Values::new(child.as_ref()));
                Form::Struct(keys, columns.collect::<io::Result<_>>()?)
            }
            data_type => match value_type(data_type) {
                data_type if data_type.is_floating() => Form::Float,
                data_type if data_type.is_numeric() || *data_type == DataType::Boolean => Form::Literal,
                _ => Form::Text,
            },
        };
        Ok(Values { column: Column::new(array)?, form })
    }

    fn append(&self, row: usize, line: &mut String) -> io::Result<()> {
        if self.column.is_null(row) {
            line.push_str("null");
            return Ok(());
        }
        match &self.form {
            Form::Literal => self.column.append(row, line),
            Form::Float => self.append_float(row, line),
            Form::Text => {
                let mut text = String::new();
                self.column.append(row, &mut text)?;
                append_string(&text, line);
                Ok(())
            }
            Form::List(ranges, items) => {
                line.push('[');
                for (index, item) in ranges[row].clone().enumerate() {
                    if index > 0 {
                        line.push(',');
                    }
                    items.append(item, line)?;
                }
                line.push(']');
                Ok(())
            }
            Form::Struct(keys, columns) => append_object(keys, columns, row, line),
        }
    }

    fn append_float(&self, row: usize, line: &mut String) -> io::Result<()> {
        let start = line.len();
        self.column.append(row, line)?;
        // "NaN", "inf" and "-inf": no finite number ends in a letter.
        if line.ends_with(|last: char| last.is_ascii_alphabetic()) {
            line.truncate(start);
            line.push_str("null");
        }
        Ok(())
    }
}

fn append_object(keys: &[String], columns: &[Values<'_>], row: usize, line: &mut String) -> io::Result<()> {
    line.push('{');
    for (index, (key, column)) in keys.iter().zip(columns).enumerate() {
        if index > 0 {
            line.push(',');
        }
        line.push_str(key);
        column.append(row, line)?;
    }
    line.push('}');
    Ok(())
}

fn append_string(text: &str, line: &mut String) {
    line.push('"');
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        append_escaped(text, line);
    } else {
        line.push_str(text);
    }
    line.push('"');
}

fn append_escaped(text: &str, line: &mut String) {
    for character in text.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            character if character < ' ' => {
                let _ = write!(line, "\\u{:04x}", character as u32);
            }
            character => line.push(character),
        }
    }
}

fn ranges<O: arrow::array::OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Vec<std::ops::Range<usize>> {
    offsets.windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize()).collect()
}
