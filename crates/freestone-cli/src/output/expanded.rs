//! Each row as lines of names and values, for rows that are wider than the terminal.

use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use unicode_width::UnicodeWidthStr;

use super::{ResultWriter, Sink, cell};

pub struct ExpandedWriter<'a> {
    sink: &'a mut Sink,
    names: Vec<String>,
    /// The rows to print; the others are counted.
    max_rows: usize,
    rows: usize,
}

impl<'a> ExpandedWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink, max_rows: Option<usize>) -> Self {
        let visible = |name: &str| {
            let mut text = String::new();
            cell::append_visible(name, &mut text);
            text
        };
        let names: Vec<String> = schema.fields().iter().map(|field| visible(field.name())).collect();
        let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let padded = |name: &String| format!("{name}{}", " ".repeat(width - name.width()));
        ExpandedWriter {
            sink,
            names: names.iter().map(padded).collect(),
            max_rows: max_rows.unwrap_or(usize::MAX),
            rows: 0,
        }
    }
}

impl ResultWriter for ExpandedWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cell::columns(batch)?;
        let mut lines = String::new();
        let mut text = String::new();
        let printed = batch.num_rows().min(self.max_rows.saturating_sub(self.rows));
        for row in 0..printed {
            lines.push_str(&format!("─── row {} ───\n", self.rows + row + 1));
            for (name, column) in self.names.iter().zip(&columns) {
                text.clear();
                if column.is_null(row) {
                    text.push_str("NULL");
                } else {
                    column.append(row, &mut text);
                }
                for (at, line) in text.split('\n').enumerate() {
                    let blank = " ".repeat(name.width());
                    lines.push_str(if at == 0 { name } else { &blank });
                    lines.push_str(" │ ");
                    cell::append_visible(line, &mut lines);
                    lines.push('\n');
                }
            }
        }
        self.rows += batch.num_rows();
        self.sink.write_all(lines.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.rows > self.max_rows {
            writeln!(self.sink, "{} rows ({} shown)", self.rows, self.max_rows)?;
        }
        Ok(())
    }
}
