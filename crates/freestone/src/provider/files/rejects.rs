//! `reject_errors` and `reject_scans`: the records that the scans of a session have left out, and how these files were
//! read, with the columns that DuckDB gives them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringViewArray, UInt32Array, UInt64Array};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use parking_lot::Mutex;

use super::layout::Layout;
use super::options::RejectNames;
use crate::error::Result;
use crate::ingest::{Reject, RejectSink};

/// The tables of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct RejectTables(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    next_scan: u64,
    files: Vec<ScannedFile>,
}

/// A file that was read.
#[derive(Debug)]
struct ScannedFile {
    tables: RejectNames,
    /// Whether the tables with its records and with how it was read are still there.
    in_errors: bool,
    in_scans: bool,
    scan: u64,
    file: u64,
    layout: Layout,
    sink: RejectSink,
}

impl RejectTables {
    /// Begins a scan of files. Returns what receives the records of each.
    pub fn begin(&self, tables: &RejectNames, files: Vec<Layout>) -> Vec<RejectSink> {
        let mut kept = self.0.lock();
        let scan = kept.next_scan;
        kept.next_scan += 1;
        let mut sinks = vec![];
        for (file, layout) in files.into_iter().enumerate() {
            let sink = RejectSink::new(tables.limit);
            sinks.push(sink.clone());
            let (tables, file) = (tables.clone(), file as u64);
            kept.files.push(ScannedFile { tables, in_errors: true, in_scans: true, scan, file, layout, sink });
        }
        sinks
    }

    /// A table of this name.
    pub fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let kept = self.0.lock();
        let batch = if kept.files.iter().any(|file| file.is_in_errors(name)) {
            errors(kept.files.iter().filter(|file| file.is_in_errors(name)))?
        } else if kept.files.iter().any(|file| file.is_in_scans(name)) {
            scans(kept.files.iter().filter(|file| file.is_in_scans(name)))?
        } else {
            return Ok(None);
        };
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    /// Drops the table of a name. Returns whether there was one.
    pub fn drop_table(&self, name: &str) -> bool {
        let mut kept = self.0.lock();
        let mut was_there = false;
        for file in &mut kept.files {
            if file.is_in_errors(name) {
                (file.in_errors, was_there) = (false, true);
            } else if file.is_in_scans(name) {
                (file.in_scans, was_there) = (false, true);
            }
        }
        kept.files.retain(|file| file.in_errors || file.in_scans);
        was_there
    }
}

impl ScannedFile {
    fn is_in_errors(&self, name: &str) -> bool {
        self.in_errors && self.tables.errors == name
    }

    fn is_in_scans(&self, name: &str) -> bool {
        self.in_scans && self.tables.scans == name
    }
}

fn errors<'a>(files: impl Iterator<Item = &'a ScannedFile>) -> Result<RecordBatch> {
    let of_file = |file: &'a ScannedFile| file.sink.rejects().into_iter().map(move |reject| (file, reject));
    let rows: Vec<(&ScannedFile, Reject)> = files.flat_map(of_file).collect();
    let number = |of: &dyn Fn(&ScannedFile, &Reject) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(rows.iter().map(|(file, reject)| of(file, reject))))
    };
    let text = |of: &dyn Fn(&Reject) -> Option<String>| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(rows.iter().map(|(_, reject)| of(reject))))
    };
    batch(vec![
        ("scan_id", number(&|file, _| Some(file.scan))),
        ("file_id", number(&|file, _| Some(file.file))),
        ("line", number(&|_, reject| Some(reject.line))),
        ("line_byte_position", number(&|_, reject| Some(reject.line_byte))),
        ("byte_position", number(&|_, reject| Some(reject.line_byte))),
        ("column_idx", number(&|_, reject| reject.column)),
        ("column_name", text(&|reject| reject.name.clone())),
        ("error_type", text(&|reject| Some(reject.kind.name().to_owned()))),
        ("csv_line", text(&|reject| Some(reject.text.clone()))),
        ("error_message", text(&|reject| Some(reject.message.clone()))),
    ])
}

fn scans<'a>(files: impl Iterator<Item = &'a ScannedFile>) -> Result<RecordBatch> {
    let files: Vec<&ScannedFile> = files.collect();
    let number = |of: &dyn Fn(&ScannedFile) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(files.iter().map(|file| of(file))))
    };
    let text = |of: &dyn Fn(&Layout) -> Option<String>| -> ArrayRef {
        Arc::new(StringViewArray::from_iter(files.iter().map(|file| of(&file.layout))))
    };
    let skipped = files.iter().map(|file| u32::try_from(file.layout.skip_rows).unwrap_or(u32::MAX));
    let headers = BooleanArray::from_iter(files.iter().map(|file| Some(file.layout.has_header)));
    batch(vec![
        ("scan_id", number(&|file| file.scan)),
        ("file_id", number(&|file| file.file)),
        ("file_path", text(&|layout| Some(layout.path.clone()))),
        ("delimiter", text(&|layout| Some(layout.delimiter.clone()))),
        ("quote", text(&|layout| Some(layout.quote.clone()))),
        ("escape", text(&|layout| Some(layout.escape.clone()))),
        ("newline_delimiter", text(&|layout| Some(layout.new_line.to_owned()))),
        ("skip_rows", Arc::new(UInt32Array::from_iter_values(skipped))),
        ("has_header", Arc::new(headers)),
        ("columns", text(&|layout| Some(layout.columns_text()))),
        ("date_format", text(&|layout| layout.date_format.clone())),
        ("timestamp_format", text(&|layout| layout.timestamp_format.clone())),
        ("user_arguments", text(&|layout| layout.arguments.clone())),
    ])
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))?)
}
