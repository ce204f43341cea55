//! CSV as in RFC 4180, with line feeds. A field is quoted only if this is necessary. NULL is an empty field, and the
//! empty text is `""`, so that the two can be distinguished.

use std::io::{self, Write};

use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;

use super::{ResultWriter, Sink, cell};

pub struct CsvWriter<'a> {
    sink: &'a mut Sink,
    /// Whether the column has strings, which may need quotes.
    is_text: Vec<bool>,
    lines: String,
    field: String,
}

impl<'a> CsvWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink) -> io::Result<Self> {
        let mut lines = String::new();
        for (index, field) in schema.fields().iter().enumerate() {
            append_separator(index, &mut lines);
            append_field(field.name(), &mut lines);
        }
        lines.push('\n');
        sink.write_all(lines.as_bytes())?;
        let is_text = schema.fields().iter().map(|field| may_need_quotes(field.data_type())).collect();
        Ok(CsvWriter { sink, is_text, lines, field: String::new() })
    }
}

impl ResultWriter for CsvWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cell::columns(batch)?;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                append_separator(index, &mut self.lines);
                if column.is_null(row) {
                    continue;
                }
                if self.is_text[index] {
                    self.field.clear();
                    column.append(row, &mut self.field);
                    append_field(&self.field, &mut self.lines);
                } else {
                    column.append(row, &mut self.lines);
                }
            }
            self.lines.push('\n');
        }
        self.sink.write_all(self.lines.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_separator(index: usize, lines: &mut String) {
    if index > 0 {
        lines.push(',');
    }
}

fn append_field(field: &str, lines: &mut String) {
    let plain = !field.is_empty() && !field.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
    if plain {
        return lines.push_str(field);
    }
    lines.push('"');
    for (index, part) in field.split('"').enumerate() {
        if index > 0 {
            lines.push_str("\"\"");
        }
        lines.push_str(part);
    }
    lines.push('"');
}

fn may_need_quotes(data_type: &DataType) -> bool {
    let data_type = cell::value_type(data_type);
    !(data_type.is_numeric() || *data_type == DataType::Boolean || matches!(data_type, DataType::Date32))
}
