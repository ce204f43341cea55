//! Spreadsheets (`.xlsx`, `.xlsm`). One sheet is converted to an Arrow file, which is read like any other.
//!
//! A column has the type of its cells: BOOLEAN, BIGINT, DOUBLE, DATE, TIME or TIMESTAMP; VARCHAR if they differ. Cells
//! with an error, such as `#N/A`, are NULL.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;
use arrow::temporal_conversions::date32_to_datetime;
use calamine::{Data, DataRef, ExcelDateTime, Reader, Xlsx, XlsxError};

use super::IngestOptions;
use super::error::{IngestError, Reason};
use super::spool::SpooledFile;
use crate::distinct_names::different_names;

/// A sheet with more values than this, NULLs included, is refused: some cells far apart would take all memory.
const VALUES_MAX: usize = 1 << 28;

const BATCH_ROWS: usize = 1 << 16;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Days from Excel's day 0, 1899-12-30, to 1970-01-01.
const EPOCH_DAYS: i64 = 25_569;

type Cells = BTreeMap<u32, Vec<(u32, Data)>>;

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
    let mut reader = book.worksheet_cells_reader(&sheet).map_err(malformed)?;
    while let Some(cell) = reader.next_cell().map_err(malformed)? {
        let (row, column) = cell.get_position();
        let value = match cell.get_value() {
            DataRef::Empty => continue,
            DataRef::SharedString(text) => Data::String((*text).to_owned()),
            other => other.clone().into(),
        };
        columns.entry(column).or_default().push((row, value));
    }
    Ok(columns)
}

/// The batches of a sheet.
fn table(columns: Cells, options: &IngestOptions) -> Result<(SchemaRef, Vec<RecordBatch>), Reason> {
    let rows: BTreeSet<u32> = columns.values().flatten().map(|(row, _)| *row).collect();
    let first = rows.iter().copied().nth(options.skip.min(rows.len())).unwrap_or(0);
    let last = rows.last().copied().unwrap_or(0);
    let has_header = options.header.unwrap_or_else(|| is_header(&columns, first));
    let start = first + u32::from(has_header);
    let count = if rows.is_empty() { 0 } else { (last + 1).saturating_sub(start) as usize };
    if count.saturating_mul(columns.len()) > VALUES_MAX {
        return Err(Reason::Unsupported(format!("a sheet of {count} rows and {} columns", columns.len())));
    }
    let (mut names, mut arrays) = (vec![], vec![]);
    for (at, (column, cells)) in columns.into_iter().enumerate() {
        let header = cells.iter().find(|(row, _)| has_header && *row == first).map(|(_, cell)| text(cell));
        names.push(
            header.flatten().unwrap_or_else(|| if has_header { letters(column) } else { format!("column{}", at + 1) }),
        );
        let mut values = vec![None; count];
        for (row, cell) in cells {
            if row >= start && !matches!(cell, Data::Error(_)) {
                values[(row - start) as usize] = Some(cell);
            }
        }
        arrays.push(array(&values, options.all_varchar));
    }
    let names = different_names(names.into_iter());
    let fields = names.iter().zip(&arrays).map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let whole = RecordBatch::try_new(schema.clone(), arrays).map_err(|error| Reason::Internal(error.to_string()));
    let whole = match schema.fields().is_empty() {
        true => return Err(Reason::Malformed("the sheet is empty".into())),
        false => whole?,
    };
    let part = |start| whole.slice(start, BATCH_ROWS.min(count - start));
    Ok((schema, (0..count).step_by(BATCH_ROWS).map(part).collect()))
}

/// Whether the first row has only texts.
fn is_header(columns: &Cells, first: u32) -> bool {
    let of_first = |(row, _): &&(u32, Data)| *row == first;
    let cells: Vec<&Data> = columns.values().flat_map(|cells| cells.iter().filter(of_first)).map(|(_, c)| c).collect();
    !cells.is_empty() && cells.iter().all(|cell| matches!(cell, Data::String(_)))
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

/// The values of a column in the type that all have.
fn array(values: &[Option<Data>], is_text: bool) -> ArrayRef {
    let all = |test: &dyn Fn(&Data) -> bool| !is_text && values.iter().flatten().all(test);
    let each = |number: &dyn Fn(&Data) -> Option<i64>| values.iter().map(|v| v.as_ref().and_then(number)).collect();
    if values.iter().flatten().next().is_none() {
        return Arc::new(StringViewArray::from(vec![None::<&str>; values.len()]));
    }
    if all(&|cell| matches!(cell, Data::Bool(_))) {
        let bools = values.iter().map(|v| match v {
            Some(Data::Bool(value)) => Some(*value),
            _ => None,
        });
        return Arc::new(BooleanArray::from_iter(bools));
    }
    if all(&|cell| whole(cell).is_some()) {
        let numbers: Vec<Option<i64>> = each(&whole);
        return Arc::new(Int64Array::from(numbers));
    }
    if all(&|cell| matches!(cell, Data::Int(_) | Data::Float(_))) {
        let number = |cell: &Data| match cell {
            Data::Int(number) => *number as f64,
            Data::Float(number) => *number,
            _ => f64::NAN,
        };
        return Arc::new(Float64Array::from_iter(values.iter().map(|v| v.as_ref().map(number))));
    }
    if all(&|cell| moment(cell).is_some_and(|at| (0..DAY).contains(&at))) {
        let times: Vec<Option<i64>> = each(&moment);
        return Arc::new(Time64MicrosecondArray::from(times));
    }
    if all(&|cell| moment(cell).is_some_and(|at| at % DAY == 0)) {
        let day = |cell: &Data| moment(cell).map(|at| at / DAY - EPOCH_DAYS);
        let days = values.iter().map(|v| v.as_ref().and_then(day).and_then(|day| i32::try_from(day).ok()));
        return Arc::new(Date32Array::from_iter(days));
    }
    if all(&|cell| moment(cell).is_some()) {
        let instants: Vec<Option<i64>> = each(&|cell| moment(cell).map(|at| at - EPOCH_DAYS * DAY));
        return Arc::new(TimestampMicrosecondArray::from(instants));
    }
    Arc::new(StringViewArray::from_iter(values.iter().map(|v| v.as_ref().and_then(text))))
}

/// An integer that a double represents exactly.
fn whole(cell: &Data) -> Option<i64> {
    match cell {
        Data::Int(number) => Some(*number),
        Data::Float(number) if number.trunc() == *number && number.abs() < 9e15 => Some(*number as i64),
        _ => None,
    }
}

/// The microseconds since Excel's day 0.
fn moment(cell: &Data) -> Option<i64> {
    match cell {
        Data::DateTime(at) => microseconds(at),
        _ => None,
    }
}

fn microseconds(at: &ExcelDateTime) -> Option<i64> {
    // Excel's numbers of days are exact to about a microsecond; what is shown is exact to the millisecond.
    let milliseconds = (at.as_f64() * 86_400_000.0).round();
    (!at.is_duration() && (0.0..=9e13).contains(&milliseconds)).then(|| milliseconds as i64 * 1000)
}

/// The text of a cell, as it would be in a CSV file.
fn text(cell: &Data) -> Option<String> {
    match cell {
        Data::Empty | Data::Error(_) => None,
        Data::Float(_) | Data::Int(_) => {
            Some(whole(cell).map_or_else(|| cell.to_string(), |number| number.to_string()))
        }
        Data::DateTime(at) => match microseconds(at) {
            Some(at) if at < DAY => Some(time_text(at)),
            Some(at) => {
                let day = date32_to_datetime((at / DAY - EPOCH_DAYS) as i32)?.format("%Y-%m-%d").to_string();
                Some(if at % DAY == 0 { day } else { format!("{day} {}", time_text(at % DAY)) })
            }
            None => Some(cell.to_string()),
        },
        other => Some(other.to_string()),
    }
}

fn time_text(at: i64) -> String {
    let (seconds, fraction) = (at / 1_000_000, at % 1_000_000);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 { text } else { format!("{text}.{:03}", fraction / 1000) }
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

    #[test]
    fn columns_take_the_type_of_their_cells() {
        use arrow::datatypes::DataType;
        let kind = |cells: Vec<Data>| array(&cells.into_iter().map(Some).chain([None]).collect::<Vec<_>>(), false);
        let type_of = |cells: Vec<Data>| kind(cells).data_type().clone();
        assert_eq!(type_of(vec![Data::Float(1.0), Data::Int(2)]), DataType::Int64);
        assert_eq!(type_of(vec![Data::Float(1.5), Data::Int(2)]), DataType::Float64);
        assert_eq!(type_of(vec![Data::Float(1e300)]), DataType::Float64);
        assert_eq!(type_of(vec![Data::Bool(true)]), DataType::Boolean);
        assert_eq!(type_of(vec![Data::Bool(true), Data::Int(1)]), DataType::Utf8View);
        assert_eq!(type_of(vec![]), DataType::Utf8View);
        assert_eq!(kind(vec![Data::Float(7.0), Data::String("x".into())]).null_count(), 1);
    }
}
