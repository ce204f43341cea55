//! A Markdown table, written row by row.

use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use super::{ResultWriter, Sink, cell};

pub struct MarkdownWriter<'a> {
    sink: &'a mut Sink,
    lines: String,
    text: String,
}

impl<'a> MarkdownWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink) -> io::Result<Self> {
        let mut lines = String::from("|");
        for field in schema.fields() {
            append_cell(field.name(), &mut lines);
        }
        lines.push_str("\n|");
        for field in schema.fields() {
            lines.push_str(if cell::is_number(field.data_type()) { "---:|" } else { "---|" });
        }
        lines.push('\n');
        sink.write_all(lines.as_bytes())?;
        Ok(MarkdownWriter { sink, lines, text: String::new() })
    }
}

impl ResultWriter for MarkdownWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cell::columns(batch)?;
        self.lines.clear();
        for row in 0..batch.num_rows() {
            self.lines.push('|');
            for column in &columns {
                self.text.clear();
                if column.is_null(row) {
                    self.text.push_str("NULL");
                } else {
                    column.append(row, &mut self.text);
                }
                append_cell(&self.text, &mut self.lines);
            }
            self.lines.push('\n');
        }
        self.sink.write_all(self.lines.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_cell(text: &str, lines: &mut String) {
    lines.push(' ');
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            lines.push_str("<br>");
        }
        cell::append_visible(&line.replace('\\', "\\\\").replace('|', "\\|"), lines);
    }
    lines.push_str(" |");
}
