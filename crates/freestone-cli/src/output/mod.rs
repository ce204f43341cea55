//! Writes results: one writer per format, behind [`ResultWriter`], which gets the batches as the engine produces them.
//!
//! Only `table` buffers rows, at most [`table::BUFFER_ROWS`], to find the widths of the columns.

mod binary;
mod cell;
mod csv;
mod expanded;
mod json;
mod markdown;
mod pager;
mod plan;
mod sink;
mod table;

use std::io;
use std::path::Path;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

pub use sink::Sink;
pub use table::TableLayout;

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns in a frame
    Table,
    /// Each row as lines of names and values
    #[value(alias = "line", alias = "vertical")]
    Expanded,
    /// RFC 4180 with a header line; NULL is empty, the empty text is ""
    Csv,
    /// One array of objects
    Json,
    /// One object per line
    Ndjson,
    /// A table for a Markdown page
    Markdown,
    /// An Arrow IPC stream
    Arrow,
    /// A Parquet file
    Parquet,
    /// Runs to the last row and prints nothing
    None,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Expanded => "expanded",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Ndjson => "ndjson",
            Format::Markdown => "markdown",
            Format::Arrow => "arrow",
            Format::Parquet => "parquet",
            Format::None => "none",
        }
    }

    /// The format for which the extension of a file's name stands, if it stands for one.
    pub fn of_file(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "txt" => Format::Table,
            "csv" => Format::Csv,
            "json" => Format::Json,
            "ndjson" | "jsonl" => Format::Ndjson,
            "md" | "markdown" => Format::Markdown,
            "arrow" | "arrows" | "ipc" => Format::Arrow,
            "parquet" | "pq" | "parq" => Format::Parquet,
            _ => return None,
        })
    }

    /// Whether the format has bytes that a terminal cannot show.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Arrow | Format::Parquet)
    }
}

/// Writes the batches of one result in order. `finish` is called once, at the end.
pub trait ResultWriter {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()>;
    fn finish(&mut self) -> io::Result<()>;
}

/// A writer into `sink` for one result with this schema.
pub fn writer<'a>(
    format: Format,
    schema: &SchemaRef,
    sink: &'a mut Sink,
    layout: &TableLayout,
) -> io::Result<Box<dyn ResultWriter + 'a>> {
    Ok(match format {
        Format::Table => match layout.max_width {
            // On a terminal, a plan is easier to read without a frame.
            Some(width) if plan::is_plan(schema) => Box::new(plan::PlanWriter::new(sink, width)),
            _ => Box::new(table::TableWriter::new(schema, sink, layout.clone())),
        },
        Format::Expanded => Box::new(expanded::ExpandedWriter::new(schema, sink, layout.max_rows)),
        Format::Csv => Box::new(csv::CsvWriter::new(schema, sink)?),
        Format::Json => Box::new(json::JsonWriter::array(schema, sink)),
        Format::Ndjson => Box::new(json::JsonWriter::lines(schema, sink)),
        Format::Markdown => Box::new(markdown::MarkdownWriter::new(schema, sink)?),
        Format::Arrow => Box::new(binary::ArrowWriter::new(schema, sink)?),
        Format::Parquet => Box::new(binary::ParquetWriter::new(schema, sink)?),
        Format::None => Box::new(Discard),
    })
}

struct Discard;

impl ResultWriter for Discard {
    fn write(&mut self, _: &RecordBatch) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
