//! CHECK: reads every byte of every segment and recomputes everything that the footers state.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use arrow_schema::DataType;
use roaring::RoaringBitmap;

use super::Store;
use super::state::State;
use crate::column::{ColumnBuffer, ColumnData, Physical};
use crate::error::{Result, StoreError};
use crate::scan::{ScanRequest, for_each_batch};
use crate::segment::zones::ZoneMap;
use crate::segment::{Segment, SegmentIndex};
use crate::sort::sort_order;
use crate::table::{SegmentEntry, Table};

/// The findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of tables.
    pub tables: usize,
    /// The number of segments.
    pub segments: usize,
    /// The number of pages.
    pub pages: usize,
    /// The number of rows.
    pub rows: u64,
    /// All problems, each with file and page.
    pub problems: Vec<String>,
}

impl Store {
    /// Verifies one table, or all: the checksums of all pages, the decoding of all values, and the zones' aggregates.
    /// Problems are collected in the report and are no errors.
    ///
    /// # Errors
    /// The table does not exist, or the database cannot be read.
    pub fn check(&self, table: Option<&str>) -> Result<CheckReport> {
        match table {
            Some(name) if self.snapshot()?.table(name).is_none() => {
                Err(StoreError::invalid(format!("no table {name}")))
            }
            _ => self.check_tables(&|name| table.is_none_or(|table| table == name)),
        }
    }

    /// The same for the tables with such names.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn check_tables(&self, is_checked: &dyn Fn(&str) -> bool) -> Result<CheckReport> {
        let snapshot = self.snapshot()?;
        let mut report = CheckReport::default();
        for checked in snapshot.tables().filter(|table| is_checked(&table.name)) {
            report.tables += 1;
            let before = report.problems.len();
            check_segments(checked, &mut report);
            if let Err(error) = checked.check_available().and_then(|()| self.pmem.check(checked)) {
                report.problems.push(format!("table {}: {error}", checked.name));
            }
            report.rows += checked.rows();
            let is_sound = report.problems.len() == before;
            snapshot.copies(checked).for_each(|copy| check_copy(checked, copy, is_sound, &mut report));
        }
        Ok(report)
    }
}

/// Verifies some segments of a state.
///
/// # Errors
/// The first problem.
pub(super) fn check_some(state: &State, is_checked: &dyn Fn(u64) -> bool) -> Result<()> {
    let mut report = CheckReport::default();
    for table in state.all() {
        for at in (0..table.segments.len()).filter(|at| is_checked(table.segments[*at].id)) {
            check_segment(table, at, &mut report)?;
        }
    }
    match report.problems.into_iter().next() {
        None => Ok(()),
        Some(reason) => Err(StoreError::Corrupt { file: "a copied segment".into(), reason }),
    }
}

fn check_segments(table: &Arc<Table>, report: &mut CheckReport) {
    for at in 0..table.segments.len() {
        report.segments += 1;
        if let Err(error) = check_segment(table, at, report) {
            let (name, rows) = (&table.name, table.segments[at].live_rows());
            report.problems.push(format!("table {name}, {rows} rows of a segment: {error}"));
        }
    }
}

/// Checks a copy. If it and its table are sound, compares the rows of both.
fn check_copy(table: &Arc<Table>, copy: &Arc<Table>, is_table_sound: bool, report: &mut CheckReport) {
    let before = report.problems.len();
    check_segments(copy, report);
    let is_sound = is_table_sound && report.problems.len() == before;
    report.problems[before..].iter_mut().for_each(|problem| *problem = format!("a copy of {}: {problem}", table.name));
    if let Err(error) = if is_sound && copy.is_current() { compare(table, copy, report) } else { Ok(()) } {
        report.problems.push(format!("table {}: copy {} cannot be compared with it: {error}", table.name, copy.name));
    }
}

/// Compares a copy's rows with its table's, in any order.
fn compare(table: &Arc<Table>, copy: &Arc<Table>, report: &mut CheckReport) -> Result<()> {
    let Some(of) = &copy.copy_of else { return Ok(()) };
    if rows_hash(table, of.columns.clone())? != rows_hash(copy, (0..of.columns.len()).collect())? {
        let (table, copy) = (&table.name, &copy.name);
        report
            .problems
            .push(format!("table {table}: copy {copy} does not have the table's rows; DROP COPY, then ADD COPY again"));
    }
    Ok(())
}

/// The number of rows, and the sum of the hashes of some of their columns.
fn rows_hash(table: &Arc<Table>, columns: Vec<usize>) -> Result<(u64, u64)> {
    let columns = table.schema.with_fields(&columns);
    let types: Vec<DataType> = columns.iter().map(|c| table.schema.stored_type(*c).clone()).collect();
    let (mut rows, mut sum) = (0, 0u64);
    for_each_batch(
        table,
        Arc::new(ScanRequest::columns(columns)),
        |_| true,
        |batch| {
            let mut hashers = vec![DefaultHasher::new(); batch.num_rows()];
            for (array, data_type) in batch.columns().iter().zip(&types) {
                ColumnData::from_arrays([array], data_type).hash_rows(&mut hashers);
            }
            rows += batch.num_rows() as u64;
            sum = hashers.iter().fold(sum, |sum, hasher| sum.wrapping_add(hasher.finish()));
            Ok(())
        },
    )?;
    Ok((rows, sum))
}

fn check_segment(table: &Arc<Table>, at: usize, report: &mut CheckReport) -> Result<()> {
    // Whether it is one of the table's.
    table.open_segment(at)?;
    let segment = table.open_stored(at)?;
    let checked =
        Checked { table, segment: &segment, place: format!("segment {at}"), empty: empty_slots(&table.segments[at]) };
    let Some(columns) = check_pages(&checked, report)? else { return Ok(()) };
    for index in segment.indexes() {
        if let Err(error) = check_index(table, &segment, at, index, &columns, report) {
            report.problems.push(format!("table {}, segment {at}: {error}", table.name));
        }
    }
    Ok(())
}

/// Reads a whole index, and compares it with the values of the segment's columns.
fn check_index(
    table: &Arc<Table>,
    segment: &Segment,
    at: usize,
    index: &SegmentIndex,
    columns: &[ColumnData],
    report: &mut CheckReport,
) -> Result<()> {
    let names: Vec<&str> =
        index.columns().iter().map(|c| segment.footer.description.schema.columns[*c].name.as_str()).collect();
    let place = format!("segment {at}, index on ({})", names.join(", "));
    index.check_padding(segment)?;
    let entries = index.entries(segment)?;
    let of_index = Checked { table, segment: &entries, place: place.clone(), empty: None };
    let Some(found) = check_pages(&of_index, report)? else { return Ok(()) };
    let keys: Vec<&ColumnData> = index.columns().iter().map(|c| &columns[*c]).collect();
    if !names_every_row(&keys, &found) {
        let file = segment.name();
        let problem = format!("{file}: its {} bytes do not name the rows by their values", index.bytes());
        report.problems.push(format!("table {}, {place}: {problem}", table.name));
    }
    Ok(())
}

/// Whether the entries of an index are `keys`, the key columns of the rows, in ascending order, each with its row.
fn names_every_row(keys: &[&ColumnData], entries: &[ColumnData]) -> bool {
    let order = sort_order(keys);
    let (found, Some(rows)) = (entries, entries.last()) else { return false };
    let Physical::Int(rows) = &rows.values else { return false };
    rows.iter().copied().eq(order.iter().map(|row| i64::from(*row)))
        && keys.iter().zip(found).all(|(key, found)| {
            found.len() == order.len()
                && order.iter().enumerate().all(|(at, row)| found.compare_with(at, key, *row as usize).is_eq())
        })
}

/// The slots of blocks in persistent memory that hold no row, and so no value either. Deleted rows of other segments are
/// rows.
fn empty_slots(entry: &SegmentEntry) -> Option<&RoaringBitmap> {
    entry.deleted.as_deref().filter(|_| entry.is_in_pool())
}

/// A segment, or an index as one, whose pages are checked.
struct Checked<'a> {
    table: &'a Arc<Table>,
    segment: &'a Segment,
    /// How problems name it.
    place: String,
    empty: Option<&'a RoaringBitmap>,
}

impl Checked<'_> {
    /// The positions of the rows of a page that have values; `None`: all.
    fn rows_of(&self, group: usize, page: usize) -> Option<Vec<u32>> {
        let empty = self.empty?;
        let rows = self.segment.page_rows(group, page);
        let first = rows.start as u32;
        Some((first..rows.end as u32).filter(|row| !empty.contains(*row)).map(|row| row - first).collect())
    }
}

/// Reads all pages of a segment, or of an index, and compares the zones with the values. Returns the values, if all
/// pages are sound.
fn check_pages(checked: &Checked<'_>, report: &mut CheckReport) -> Result<Option<Vec<ColumnData>>> {
    let Checked { table, segment, place, empty } = checked;
    let columns = segment.footer.description.schema.stored_columns();
    let mut buffers: Vec<ColumnBuffer> = columns.iter().map(|c| ColumnBuffer::new(&c.data_type)).collect();
    for group in 0..segment.group_count() {
        for page in 0..segment.page_count(group) {
            report.pages += 1;
            let positions = checked.rows_of(group, page);
            // Past the cache, so that the bytes on the medium are checked.
            let appended = segment.append_page(table.cache(), (group, page), positions.as_deref(), &mut buffers);
            if let Err(error) = appended {
                let rows = page_rows(segment, group, page);
                report.problems.push(format!("table {}, {place}, {rows}: {error}", table.name));
            }
        }
    }
    let rows = segment.rows() - empty.map_or(0, |empty| empty.len() as usize);
    if buffers.iter().any(|b| b.len() != rows) {
        // Pages are missing, which was reported. The aggregates cannot be compared.
        return Ok(None);
    }
    let mut values = Vec::with_capacity(columns.len());
    for ((buffer, column), zones) in buffers.into_iter().zip(&columns).zip(&segment.footer.zones) {
        let wrong = |reason: String| StoreError::Corrupt { file: segment.name().to_owned(), reason };
        let data = segment.column_values(buffer, column)?;
        // The aggregates of hot rows are made from the rows when these are read from the log, and may have wider bounds.
        // So may those of blocks.
        if segment.has_exact_zones() && &ZoneMap::of(&data, segment.zone_rows()) != zones {
            let problem = wrong(format!("column {}: the zones' aggregates are not those of the values", column.name));
            report.problems.push(format!("table {}, {place}: {problem}", table.name));
        }
        values.push(data);
    }
    Ok(Some(values))
}

/// A description of the rows and columns of a page.
fn page_rows(segment: &Segment, group: usize, page: usize) -> String {
    let rows = segment.page_rows(group, page);
    let description = &segment.footer.description;
    let columns = description.groups[group].columns.iter().map(|c| description.schema.stored_name(*c as usize));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("rows {} to {} of ({columns})", rows.start, rows.end.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, RecordBatch};

    use super::*;
    use crate::design::Design;
    use crate::schema::TableSchema;
    use crate::store::{Store, StoreOptions};

    #[test]
    fn an_index_that_names_other_rows_is_found() {
        let ints = |values: &[i64]| ColumnData { values: Physical::Int(values.to_vec()), validity: None };
        let key = ints(&[30, 10, 20, 10]);
        assert!(names_every_row(&[&key], &[ints(&[10, 10, 20, 30]), ints(&[1, 3, 2, 0])]));
        for (values, rows) in [
            ([10, 10, 20, 30], [1, 3, 0, 2]),
            ([10, 10, 20, 30], [3, 1, 2, 0]),
            ([10, 10, 21, 30], [1, 3, 2, 0]),
            ([10, 10, 20, 30], [1, 1, 2, 0]),
        ] {
            assert!(!names_every_row(&[&key], &[ints(&values), ints(&rows)]), "{values:?} of {rows:?}");
        }
        assert!(!names_every_row(&[&key], &[ints(&[10, 10, 20]), ints(&[1, 3, 2])]));
    }

    #[test]
    fn a_copy_without_the_rows_of_its_table_is_found() {
        let rows = |values: &[i64]| {
            let array = Arc::new(Int64Array::from(values.to_vec())) as _;
            RecordBatch::try_from_iter([("a", array)]).unwrap()
        };
        let store = Store::in_memory(StoreOptions::default()).unwrap();
        let mut transaction = store.write().unwrap();
        let schema = TableSchema::from_arrow(&rows(&[1]).schema()).unwrap();
        transaction.create_table("t", schema, Design::default()).unwrap();
        transaction.create_copy("t", "c", vec![0], Design::default()).unwrap();
        let mut appender = transaction.appender("t").unwrap();
        appender.push(&rows(&[1, 2, 3])).unwrap();
        let mut appended = appender.finish().unwrap();
        // As if the copy had received other rows.
        let copy = transaction.copies(&transaction.table("t").unwrap())[0].clone();
        let mut of_copy = transaction.appender_of(&copy, Design::default(), None).unwrap();
        of_copy.push(&rows(&[1, 2, 4])).unwrap();
        appended.copies = vec![of_copy.finish().unwrap()];
        transaction.append(appended).unwrap();
        transaction.commit().unwrap();
        let problems = store.check(None).unwrap().problems;
        assert_eq!(problems, ["table t: copy c does not have the table's rows; DROP COPY, then ADD COPY again"]);
    }
}
