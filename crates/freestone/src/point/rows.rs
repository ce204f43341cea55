//! Finding the rows of point statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use freestone_advisor::Output;
use freestone_store::scan::{self, ColumnPredicate, ScanMetrics, ScanRequest};
use freestone_store::{Snapshot, Table};

use super::recognition::is_compared;
use super::{Action, Condition, Operand, Point, Select};
use crate::error::{Error, ErrorKind, Result};
use crate::provider;
use crate::type_names::type_name;
use crate::workload::{TableReads, Watch, WorkloadLog};

/// Rows of one key fill no batch.
const BATCH_ROWS: usize = 1024;

/// What the conditions of a statement leave for some values.
pub(super) enum Tests {
    /// The predicates of its rows.
    Predicates(Vec<ColumnPredicate>),
    /// No row: a comparison with NULL, or with a number that the column's type does not have.
    Nothing,
}

/// The conditions for some values; `None` if the store cannot test one of them.
pub(super) fn tests(table: &Table, conditions: &[Condition], values: &[ScalarValue]) -> Option<Tests> {
    let mut predicates = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let data_type = &table.schema.columns[condition.column].data_type;
        let Some(value) = of_type(condition.value.value(values)?, data_type) else { return Some(Tests::Nothing) };
        let predicate = provider::comparison(Operator::Eq, &value, data_type)?;
        predicates.push(ColumnPredicate { column: condition.column, predicate });
    }
    Some(Tests::Predicates(predicates))
}

/// A value in the type of the column with which it is compared; `None` if it is equal to none of the column's values.
fn of_type(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    if value.is_null() {
        return None;
    }
    if value.data_type() == *data_type || !data_type.is_integer() {
        return Some(value.clone());
    }
    value.cast_to(data_type).ok().filter(|cast| !cast.is_null())
}

/// The rows of a table that satisfy predicates: some columns, and the row ids if they are asked for.
pub(super) fn found(
    table: &Arc<Table>,
    tests: Tests,
    columns: Vec<usize>,
    row_ids: bool,
    metrics: &Arc<ScanMetrics>,
) -> Result<Vec<RecordBatch>> {
    let Tests::Predicates(predicates) = tests else { return Ok(vec![]) };
    let request = ScanRequest { predicates, row_ids, batch_rows: BATCH_ROWS, ..ScanRequest::columns(columns) };
    Ok(scan::lookup(table, &Arc::new(request), metrics)?)
}

/// The rows of a table with these values in the columns of its primary key. There is no row where a value is none that
/// its column can have.
///
/// # Errors
/// The table has no primary key, or one of other columns; or a value of another type; or the table cannot be read.
pub(crate) fn lookup(table: &Arc<Table>, key: &[ScalarValue]) -> Result<Vec<RecordBatch>> {
    let columns = table.schema.positions(&table.schema.primary_key)?;
    if columns.is_empty() {
        return Err(Error::invalid(format!("table {} has no primary key", table.name)));
    }
    if columns.len() != key.len() {
        let (expected, given) = (columns.len(), key.len());
        let message = format!("the primary key of table {} has {expected} columns, and got {given} values", table.name);
        return Err(Error::invalid(message));
    }
    let mut conditions = vec![];
    for (number, (column, value)) in columns.into_iter().zip(key).enumerate() {
        let declared = &table.schema.columns[column];
        if !value.is_null() && !is_compared(&value.data_type(), &declared.data_type) {
            let (name, wanted, found) = (&declared.name, &declared.data_type, value.data_type());
            let message =
                format!("a lookup by column {name} of type {} takes no {}", type_name(wanted), type_name(&found));
            return Err(Error::new(ErrorKind::Type, message));
        }
        conditions.push(Condition { column, value: Operand::Parameter(number) });
    }
    let tests = tests(table, &conditions, key);
    let tests = tests.ok_or_else(|| Error::unsupported(format!("lookups in table {} by such a key", table.name)))?;
    found(table, tests, (0..table.schema.columns.len()).collect(), false, &Arc::default())
}

/// Whether the lookups of a database are answered from memory.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// How many lookups from memory it takes until no further one is expected to read from the medium.
    cold: AtomicU32,
}

impl Lookups {
    /// The number of lookups for which one that had to read counts.
    const MEMORY: u32 = 64;

    /// Whether the next lookup may have to read from the medium.
    pub fn may_read(&self) -> bool {
        self.cold.load(Ordering::Relaxed) > 0
    }

    /// Notes how many pages a lookup has read.
    fn note(&self, pages_read: u64) {
        let less = |cold: u32| Some(cold.saturating_sub(1));
        match pages_read {
            0 if self.may_read() => {
                let _ = self.cold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            0 => {}
            _ => self.cold.store(Self::MEMORY, Ordering::Relaxed),
        }
    }
}

impl Select {
    /// What the query reads, for the workload log.
    fn asked(&self, table: &Arc<Table>, tests: &Tests, metrics: &Arc<ScanMetrics>) -> Vec<TableReads> {
        let Tests::Predicates(predicates) = tests else { return vec![] };
        vec![TableReads {
            table: table.clone(),
            scanned: table.clone(),
            columns: self.reads.clone(),
            predicates: predicates.clone(),
            row_filters: vec![],
            is_partial: false,
            paths: vec![],
            order: vec![],
            output: Output::Columns,
            metrics: metrics.clone(),
        }]
    }
}

impl Point {
    /// The rows of a query for some values, with the columns of [`Point::schema`]; `None` if they do not fit the
    /// statement. The query is logged as others are.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn query(
        &self,
        snapshot: &Snapshot,
        values: &[ScalarValue],
        log: &Arc<WorkloadLog>,
        lookups: &Lookups,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let (Action::Select(select), Some(table)) = (&self.action, self.table(snapshot)) else { return Ok(None) };
        let Some(tests) = tests(table, &select.conditions, values) else { return Ok(None) };
        let metrics: Arc<ScanMetrics> = Arc::default();
        let watch =
            self.logged.as_ref().and_then(|text| Watch::begin(log, text, select.asked(table, &tests, &metrics)));
        let batches = found(table, tests, select.reads.clone(), false, &metrics)?;
        lookups.note(metrics.pages_read.load(Ordering::Relaxed));
        if let Some(watch) = watch {
            watch.end();
        }
        let arranged = |batch: RecordBatch| {
            let columns = select.places.iter().map(|place| batch.column(*place).clone()).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(select.schema.clone(), columns, &options)
        };
        Ok(Some(batches.into_iter().map(arranged).collect::<Result<_, _>>()?))
    }
}
