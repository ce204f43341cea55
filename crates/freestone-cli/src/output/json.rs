//! JSON as one array of objects, or as one object per line.
//!
//! Integers and decimals are printed with all digits, without conversion to floats. JSON has no NaN and infinity, so
//! these are `null`. Values other than numbers, booleans, lists and structs are strings.

use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use freestone::display::{JsonValues, NonFinite, json_key};

use super::{ResultWriter, Sink};

pub struct JsonWriter<'a> {
    sink: &'a mut Sink,
    /// The text `"name":` for each column.
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
        let values = batch.columns().iter().map(|array| JsonValues::new(array.as_ref(), NonFinite::Null));
        let values = values.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            if self.is_array {
                self.lines.push_str(if self.rows == 0 { "[\n" } else { ",\n" });
            }
            self.rows += 1;
            JsonValues::append_object(&self.keys, &values, row, &mut self.lines);
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
    schema.fields().iter().map(|field| json_key(field.name())).collect()
}
