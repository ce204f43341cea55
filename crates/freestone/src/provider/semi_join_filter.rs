//! `fk IN (keys of a table)`: the replacement of a join of which one side is used only for its keys. The keys are read
//! when the query is planned, from the snapshot of the query. The scan tests encoded values with them, and prunes by
//! the dimensions of the clustered table.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::TableScan;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::physical_expr::create_physical_expr;
use freestone_advisor::PathTest;
use freestone_codec::KeySet;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::scan::ColumnPredicate;

use super::in_keys::InKeys;
use super::keys::is_enumerable;
use super::statistics::estimated_share;
use super::{FreestoneSource, FreestoneTable};
use crate::workload;

/// The maximum rows of a table whose keys are read in planning, and the maximum range of the keys, whose bitmap has one
/// MiB.
const ROWS_MAX: u64 = 1 << 20;
const SPAN_MAX: u64 = 1 << 23;
/// Rows per batch.
const BATCH_ROWS: usize = 64 << 10;

/// The test whether a value is among those of a column that a scan of `table` returns. `None` if there are too many
/// rows, the range of the values is too large, or they are not integers.
///
/// # Errors
///
/// The rows cannot be read.
pub fn key_test(table: &FreestoneTable, scan: &TableScan, column: usize) -> Result<Option<InKeys>> {
    let data_type = &table.table().schema.columns[column].data_type;
    if table.table().rows() > ROWS_MAX || scan.fetch.is_some() || !is_enumerable(data_type) {
        return Ok(None);
    }
    let mut source = FreestoneSource::new(table.snapshot().clone(), table.table().clone(), false, vec![column], 1);
    let schema = DFSchema::try_from(table.table().schema.to_arrow())?;
    for filter in &scan.filters {
        let filter = unnormalize_col(filter.clone());
        source.add_table_filter(create_physical_expr(
            &filter,
            &schema,
            &ExecutionProps::new(),
            &Default::default(),
        )?)?;
    }
    let Some(keys) = key_set(&values(&source, data_type)?) else { return Ok(None) };
    let table = table.table();
    let asked = path_tests_of(&source, keys.len() as f64 / table.rows().max(1) as f64);
    Ok(Some(InKeys::new(keys, table.clone(), column, asked)))
}

/// The tests of a scan on its table, of which `share` of the rows were selected.
fn path_tests_of(source: &FreestoneSource, share: f64) -> Vec<PathTest> {
    let (table, predicates) = (source.table(), source.predicates());
    let estimates: Vec<f64> = predicates.iter().map(|p| estimated_share(table, p, table.rows()).max(1e-9)).collect();
    let shares = workload::fitted(&estimates, share.clamp(1e-9, 1.0));
    let test = |(predicate, selectivity): (&ColumnPredicate, f64)| PathTest {
        path: vec![table.schema.stored_name(predicate.column)],
        selectivity,
        form: workload::form(&predicate.predicate),
    };
    predicates.iter().zip(shares).map(test).collect()
}

/// The values of a scan's only column, without NULLs.
fn values(source: &FreestoneSource, data_type: &DataType) -> Result<Vec<i64>> {
    let external = |e| DataFusionError::External(Box::new(e));
    let mut values = vec![];
    let mut take = |batch: &RecordBatch| {
        let column = ColumnData::from_arrays([batch.column(0)], data_type);
        if let Physical::Int(all) = &column.values {
            values.extend(all.iter().enumerate().filter(|(row, _)| column.is_valid(*row)).map(|(_, value)| *value));
        }
    };
    let mut cursor = source.cursor(BATCH_ROWS);
    for morsel in source.surviving_morsels()? {
        cursor.scan(&morsel, None).map_err(external)?;
        while let Some(batch) = cursor.next_ready() {
            take(&batch);
        }
    }
    cursor.finish().map_err(external)?.iter().for_each(take);
    Ok(values)
}

fn key_set(values: &[i64]) -> Option<KeySet> {
    let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else { return Some(KeySet::default()) };
    let span = high.abs_diff(*low);
    if span >= SPAN_MAX {
        return None;
    }
    let mut words = vec![0u64; span as usize / 64 + 1];
    for value in values {
        let at = value.abs_diff(*low);
        words[at as usize / 64] |= 1 << (at % 64);
    }
    Some(KeySet::new(i128::from(*low), words))
}
