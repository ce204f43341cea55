//! Small tables in memory, and scans of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::design::Design;
use freestone_store::limits::{GRANULE_ROWS, MORSEL_ROWS};
use freestone_store::media::Memory;
use freestone_store::scan::{ColumnPredicate, Cursor, Morsel, ScanMetrics, ScanRequest, morsels};
use freestone_store::schema::TableSchema;
use freestone_store::{Store, StoreOptions, Table};

use super::timing::Timing;
use crate::error::Result;
use crate::profile::Measured;

/// Rows per granule.
pub const GRANULE: f64 = GRANULE_ROWS as f64;

/// A table for scans only.
pub struct Bench {
    _store: Store,
    pub table: Arc<Table>,
    pub rows: f64,
}

/// A column of a table: its name, its values, and its encoding.
pub type Named = (String, ArrayRef, &'static str);

impl Bench {
    /// Stores columns in memory. `options` are those of a design. With `cached`, pages are verified once, otherwise at
    /// each use.
    pub fn new(columns: &[Named], options: &[(&str, &str)], cached: bool) -> Result<Bench> {
        let fields = columns.iter().map(|(name, array, _)| Field::new(name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let arrays = columns.iter().map(|(_, array, _)| array.clone()).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays).expect("columns of the same length");
        let table_schema = TableSchema::from_arrow(&schema)?;
        let pinned: Vec<String> = columns
            .iter()
            .filter(|c| !c.2.is_empty())
            .map(|(name, _, encoding)| format!("{name}: {encoding}"))
            .collect();
        let pinned = pinned.join(", ");
        let mut all: Vec<(&str, &str)> = options.to_vec();
        if !pinned.is_empty() {
            all.push(("encode", &pinned));
        }
        let design = Design::default().with_options(all, &table_schema)?;
        let cache_bytes = if cached { 1 << 30 } else { 0 };
        let store_options = StoreOptions { cache_bytes, ..StoreOptions::default() };
        let store = Store::on_medium(Arc::new(Memory::new()), store_options)?;
        let mut write = store.write()?;
        write.create_table("t", table_schema, design)?;
        let mut appender = write.appender("t")?;
        for start in (0..batch.num_rows()).step_by(MORSEL_ROWS) {
            appender.push(&batch.slice(start, MORSEL_ROWS.min(batch.num_rows() - start)))?;
        }
        write.append(appender.finish()?)?;
        write.commit()?;
        let table = store.snapshot()?.table("t").expect("it was committed").clone();
        Ok(Bench { _store: store, table, rows: batch.num_rows() as f64 })
    }

    /// Nanoseconds of a scan in one thread.
    pub fn time(&self, request: ScanRequest, timing: &Timing) -> Result<Measured> {
        self.time_morsels(request, MORSEL_ROWS, timing)
    }

    /// The same with morsels of `morsel_rows` rows.
    pub fn time_morsels(&self, request: ScanRequest, morsel_rows: usize, timing: &Timing) -> Result<Measured> {
        let request = Arc::new(request);
        let all = morsels(&self.table, morsel_rows);
        timing.measure_each(|| self.run(&request, &all).map(|()| 1.0))
    }

    /// One scan, whose rows are discarded.
    pub fn run(&self, request: &Arc<ScanRequest>, morsels: &[Morsel]) -> Result<()> {
        let mut cursor = Cursor::new(self.table.clone(), request.clone(), Arc::new(ScanMetrics::default()));
        for morsel in morsels {
            cursor.scan(morsel, None)?;
            while let Some(batch) = cursor.next_ready() {
                drop(batch);
            }
        }
        drop(cursor.finish()?);
        Ok(())
    }

    /// A scan of some columns of the rows that satisfy some predicates.
    pub fn scan(&self, columns: &[usize], predicates: &[ColumnPredicate], timing: &Timing) -> Result<Measured> {
        self.time(ScanRequest { predicates: predicates.to_vec(), ..ScanRequest::columns(columns.to_vec()) }, timing)
    }

    /// The share of the rows that satisfy some predicates.
    pub fn share_of(&self, predicates: &[ColumnPredicate]) -> Result<f64> {
        let request = ScanRequest { predicates: predicates.to_vec(), ..ScanRequest::columns(vec![]) };
        let metrics = Arc::new(ScanMetrics::default());
        let mut cursor = Cursor::new(self.table.clone(), Arc::new(request), metrics.clone());
        for morsel in morsels(&self.table, MORSEL_ROWS) {
            cursor.scan(&morsel, None)?;
        }
        Ok(metrics.totals().rows_selected as f64 / self.rows)
    }

    /// The number of pages of a column's group per granule, and the bytes of all its pages.
    pub fn pages(&self, column: usize) -> Result<(f64, f64)> {
        let segment = self.table.open_segment(0)?;
        let (group, _) = segment.place(column);
        let mut visits = 0;
        for start in (0..segment.rows()).step_by(GRANULE as usize) {
            let run = segment.pages_of(group, start..segment.rows().min(start + GRANULE as usize));
            visits += run.last - run.first + 1;
        }
        Ok((visits as f64, segment.group_bytes(group) as f64))
    }

    /// The number of granules.
    pub fn granules(&self) -> f64 {
        (self.rows / GRANULE).ceil()
    }
}

/// `low <= column <= high`.
pub fn between(column: usize, low: i128, high: i128) -> ColumnPredicate {
    ColumnPredicate { column, predicate: Predicate::Int(IntPredicate::Range { low, high }) }
}
