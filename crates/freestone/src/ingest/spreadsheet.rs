//! Spreadsheets (`.xlsx`, `.xlsm`). One sheet is converted to an Arrow file, which is read like any other.
//!
//! A column has the type of its cells ([`Cell`]). Cells with an error, such as `#N/A`, are NULL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;
use calamine::{DataRef, Reader, Xlsx, XlsxError};

use super::IngestOptions;
use super::column_names::identifier;
use super::error::{IngestError, Reason};
use super::spool::SpooledFile;
use super::spreadsheet_cells::{Cell, array};
use crate::distinct_names::different_names;

/// A sheet with more values than this, NULLs included, is refused: some cells far apart would take all memory.
const VALUES_MAX: usize = 1 << 28;

const BATCH_ROWS: usize = 1 << 16;

/// The cells of each column, with their rows.
type Cells = BTreeMap<u32, Vec<(u32, Cell)>>;

/// A sheet as an Arrow file.
///
/// # Errors
/// The file is no spreadsheet, or there is no such sheet.
pub(crate) fn converted(path: &Path, options: &IngestOptions) -> Result<SpooledFile, IngestError> {
    let wrong = |reason| IngestError::new(path.display().to_string(), reason);
    let read = || cells(path, options);
    // The library for spreadsheets is not ours, and files come from anywhere.
    let columns = catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Reason::Malformed("the spreadsheet is damaged".into())))
        .map_err(wrong)?;
    let (schema, batches) = table(columns, options).map_err(wrong)?;
    let spooled = SpooledFile::new().map_err(|error| IngestError::io(path, &error))?;
    let file = spooled.file();
    let write = || {
        let mut writer = FileWriter::try_new(file, &schema)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()
    };
    write().map_err(|error| wrong(Reason::Io(error.to_string())))?;
    Ok(spooled)
}

/// The cells of the sheet that have a value, by column.
fn cells(path: &Path, options: &IngestOptions) -> Result<Cells, Reason> {
    let file = File::open(path).map_err(|error| Reason::Io(error.to_string()))?;
    let malformed = |error: XlsxError| Reason::Malformed(format!("no spreadsheet in the form of Excel: {error}"));
    let mut book = Xlsx::new(BufReader::new(file)).map_err(malformed)?;
    let sheets = book.sheet_names();
    let sheet = match &options.sheet {
        Some(wanted) => sheets.iter().find(|sheet| sheet.eq_ignore_ascii_case(wanted)),
        None => sheets.first(),
    };
    let Some(sheet) = sheet.cloned() else {
        let wanted = options.sheet.as_deref().unwrap_or("1");
        return Err(Reason::BadOption(format!("there is no sheet {wanted}; the sheets are {}", sheets.join(", "))));
    };
    let mut columns = Cells::new();
    let from_1904 = book.has_1904_epoch();
    let mut reader = book.worksheet_cells_reader(&sheet).map_err(malformed)?;
    while let Some(cell) = reader.next_cell().map_err(malformed)? {
        let (row, column) = cell.get_position();
        if !matches!(cell.get_value(), DataRef::Empty) {
            columns.entry(column).or_default().push((row, Cell::new(cell.get_value(), from_1904)));
        }
    }
    Ok(columns)
}

/// The batches of a sheet.
fn table(mut columns: Cells, options: &IngestOptions) -> Result<(SchemaRef, Vec<RecordBatch>), Reason> {
    // Rows of the sheet count, whether they have cells or not. The table begins with the first one that has.
    let skipped = u32::try_from(options.skip.unwrap_or(0)).unwrap_or(u32::MAX);
    columns.retain(|_, cells| cells.iter().any(|(row, _)| *row >= skipped));
    let rows = || columns.values().flatten().map(|(row, _)| *row).filter(|row| *row >= skipped);
    let (first, last) = (rows().min(), rows().max());
    let has_header = options.header.unwrap_or_else(|| first.is_some_and(|first| is_header(&columns, first)));
    let start = first.map_or(0, |first| first + u32::from(has_header));
    let count = last.map_or(0, |last| (last + 1).saturating_sub(start) as usize);
    if count.saturating_mul(columns.len()) > VALUES_MAX {
        return Err(Reason::Unsupported(format!("a sheet of {count} rows and {} columns", columns.len())));
    }
    let (mut names, mut arrays) = (vec![], vec![]);
    for (at, (column, cells)) in columns.into_iter().enumerate() {
        let header = cells.iter().find(|(row, _)| has_header && Some(*row) == first).and_then(|(_, cell)| cell.text());
        names.push(match header {
            Some(name) if options.normalize_names => identifier(&name),
            Some(name) => name,
            None if has_header => letters(column),
            None => format!("column{at}"),
        });
        let mut values = vec![None; count];
        for (row, cell) in cells {
            if row >= start && first.is_some() && !matches!(cell, Cell::Error) {
                values[(row - start) as usize] = Some(cell);
            }
        }
        arrays.push(array(&values, options.all_varchar));
    }
    let names = different_names(names.into_iter());
    let fields = names.iter().zip(&arrays).map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    if first.is_none() {
        return Err(Reason::Malformed("the sheet is empty".into()));
    }
    let whole = RecordBatch::try_new(schema.clone(), arrays).map_err(|error| Reason::Internal(error.to_string()))?;
    let part = |start| whole.slice(start, BATCH_ROWS.min(count - start));
    Ok((schema, (0..count).step_by(BATCH_ROWS).map(part).collect()))
}

/// Whether the first row has only texts.
fn is_header(columns: &Cells, first: u32) -> bool {
    let of_first = |(row, _): &&(u32, Cell)| *row == first;
    let cells: Vec<&Cell> = columns.values().flat_map(|cells| cells.iter().filter(of_first)).map(|(_, c)| c).collect();
    !cells.is_empty() && cells.iter().all(|cell| matches!(cell, Cell::Text(_)))
}

/// The letters of a column, as a spreadsheet shows them.
fn letters(mut column: u32) -> String {
    let mut name = String::new();
    loop {
        name.insert(0, char::from(b'A' + (column % 26) as u8));
        match column / 26 {
            0 => return name,
            rest => column = rest - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_letters() {
        for (column, expected) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")] {
            assert_eq!(letters(column), expected);
        }
    }
}
