//! The keys of a join's other side, for the scan: as a set for testing encoded values, and as the codes of the
//! dimensions by which a table is clustered. They are computed once per change of the dynamic filter, not per row.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use freestone_codec::{BytesPredicate, IntPredicate, KeySet, Predicate};
use freestone_store::cluster::{CodeFilter, DimensionCodes, KeyMap, SegmentDimension};
use freestone_store::scan::{ColumnPredicate, boolean_bits};
use freestone_store::{Snapshot, Table};

use super::statistics::int_bounds;
use crate::expressions::physical::remap;

/// The number of values that are tested at once with a filter.
const STEP: usize = 8192;
/// The values of a column are tested one by one if their range is at most this, or at most a share of the table's rows.
const SPAN_MIN: u64 = 1 << 18;
const SPAN_SHARE: u64 = 4;

/// The keys that satisfy a filter on one integer column, among all integers between the column's minimum and maximum.
/// If keys are dense, this costs less than evaluating the filter for every row. `None` if the filter has no such form,
/// or all keys satisfy it.
///
/// # Errors
///
/// The filter cannot be evaluated.
pub fn key_set(filter: &Arc<dyn PhysicalExpr>, table: &Table, schema: &Schema) -> Result<Option<KeyFilter>> {
    let columns = collect_columns(filter);
    let Some(column) = columns.iter().next().filter(|_| columns.len() == 1).map(|c| c.index()) else {
        return Ok(None);
    };
    let field = schema.field(column);
    let Some((low, high)) = int_bounds(table, column).filter(|_| is_enumerable(field.data_type())) else {
        return Ok(None);
    };
    let span = (high - low).unsigned_abs() as u64;
    if span >= (table.rows() / SPAN_SHARE).max(SPAN_MIN) {
        return Ok(None);
    }
    let on_first = remap(filter, |_| 0)?;
    let schema = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
    let passing = |values: ArrayRef| -> Result<Vec<u64>> {
        let rows = values.len();
        let batch = RecordBatch::try_new(schema.clone(), vec![values])?;
        Ok(boolean_bits(on_first.evaluate(&batch)?.into_array(rows)?.as_boolean()))
    };
    // A filter that accepts NULL is not that of a join.
    if passing(new_null_array(field.data_type(), 1))? != [0] {
        return Ok(None);
    }
    let mut words = Vec::with_capacity(span as usize / 64 + 1);
    for start in (low as i64..=high as i64).step_by(STEP) {
        let end = start.saturating_add(STEP as i64 - 1).min(high as i64);
        let values = Arc::new(Int64Array::from_iter_values(start..=end)) as ArrayRef;
        words.extend(passing(cast_to(&values, field.data_type())?)?);
    }
    let keys = KeySet::new(low, words);
    let kept = keys.len() as f64 / (span + 1) as f64;
    Ok(Some(KeyFilter { column, keys: Arc::new(keys), kept }))
}

/// The result of [`key_set`].
#[derive(Debug)]
pub struct KeyFilter {
    column: usize,
    keys: Arc<KeySet>,
    kept: f64,
}

impl KeyFilter {
    /// The filter as a predicate, unless every value satisfies it.
    pub fn predicate(self) -> Option<ColumnPredicate> {
        let predicate = Predicate::Int(IntPredicate::Keys(self.keys));
        (self.kept < 1.0).then_some(ColumnPredicate { column: self.column, predicate })
    }
}

/// Types whose stored integers are their values.
pub(super) fn is_enumerable(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
}

/// 64-bit integers, cast to the type of a column that is stored as integers.
pub(super) fn cast_to(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Date32 => Ok(cast(&cast(values, &DataType::Int32)?, data_type)?),
        _ => Ok(cast(values, data_type)?),
    }
}

/// The codes of the keys in the predicates, for every dimension with a path through the column of a predicate.
///
/// # Errors
///
/// The codes cannot be read.
pub fn code_filters(snapshot: &Snapshot, table: &Table, predicates: &[ColumnPredicate]) -> Result<Vec<CodeFilter>> {
    let mut filters: Vec<CodeFilter> = vec![];
    let mut known: Vec<u64> = vec![];
    if !predicates.iter().any(names_keys) {
        return Ok(filters);
    }
    let external = |e| DataFusionError::External(Box::new(e));
    for at in 0..table.segments.len() {
        let segment = table.open_segment(at).map_err(external)?;
        for dimension in &segment.footer.dimensions {
            if known.contains(&dimension.fingerprint) {
                continue;
            }
            known.push(dimension.fingerprint);
            let tables = |name: &str| snapshot.table(name).cloned();
            let Some(codes) = DimensionCodes::of(&tables, table, dimension).map_err(external)? else { continue };
            let Some(keys) = &codes.keys else { continue };
            let of_column = predicates.iter().filter(|p| p.column == codes.column);
            filters.extend(of_column.filter_map(|p| code_filter(dimension, keys, &p.predicate)));
        }
    }
    Ok(filters)
}

fn names_keys(predicate: &ColumnPredicate) -> bool {
    matches!(
        predicate.predicate,
        Predicate::Int(IntPredicate::In(_) | IntPredicate::Keys(_)) | Predicate::Bytes(BytesPredicate::In(_))
    )
}

fn code_filter(dimension: &SegmentDimension, keys: &KeyMap, predicate: &Predicate) -> Option<CodeFilter> {
    let codes: Vec<u32> = match predicate {
        Predicate::Int(IntPredicate::In(list)) => list.iter().filter_map(|key| keys.of_int(*key)).collect(),
        Predicate::Int(IntPredicate::Keys(set)) => set.iter().filter_map(|key| keys.of_int(key)).collect(),
        Predicate::Bytes(BytesPredicate::In(list)) => list.iter().filter_map(|key| keys.of_bytes(key)).collect(),
        _ => return None,
    };
    Some(CodeFilter::new(dimension, codes))
}
