//! The filters of a scan: those of the query, which every returned row satisfies, and dynamic filters of joins and
//! sorts above, which only save work.

use std::sync::atomic::{AtomicU64, Ordering};

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{and, filter_record_batch, or, prep_null_mask_filter};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::scalar::ScalarValue;

use super::forms::over_forms;
use crate::expressions::dictionary::per_string;
use crate::expressions::partial::is_dynamic;
use crate::expressions::physical::remap;

/// Filters on the table's columns, split into conjuncts.
#[derive(Debug, Clone, Default)]
pub(super) struct Filters {
    /// The filters of the query.
    pub own: Vec<Arc<dyn PhysicalExpr>>,
    /// The filters that change while the scan runs.
    pub dynamic: Vec<Arc<dyn PhysicalExpr>>,
}

impl Filters {
    pub fn add(&mut self, filter: &Arc<dyn PhysicalExpr>) {
        for conjunct in split_conjunction(filter) {
            let changes = is_dynamic(conjunct);
            if changes { &mut self.dynamic } else { &mut self.own }.push(conjunct.clone());
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.own.iter().chain(&self.dynamic)
    }

    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.dynamic.is_empty()
    }

    /// The columns of the table that are tested, in order.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.all().flat_map(collect_columns).map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// The tested rows and the rows that passed, over all partitions of a scan.
#[derive(Debug, Default)]
pub(super) struct Measured {
    tested: AtomicU64,
    passed: AtomicU64,
}

impl Measured {
    pub fn add(&self, tested: usize, passed: usize) {
        self.tested.fetch_add(tested as u64, Ordering::Relaxed);
        self.passed.fetch_add(passed as u64, Ordering::Relaxed);
    }

    /// The share of rows that pass, after enough rows were tested.
    pub fn share(&self) -> Option<f64> {
        const ENOUGH: u64 = 8 << 10;
        let tested = self.tested.load(Ordering::Relaxed);
        (tested >= ENOUGH).then(|| self.passed.load(Ordering::Relaxed) as f64 / tested as f64)
    }
}

/// The tests of one partition, for batches of the tested columns.
#[derive(Debug, Clone)]
pub(super) struct Tests {
    /// Comparisons of a column with a constant, which are cheaper for all rows than for some.
    comparisons: Vec<Arc<dyn PhysicalExpr>>,
    own: Option<Arc<dyn PhysicalExpr>>,
    dynamic: Vec<DynamicTest>,
    measured: Arc<Measured>,
}

/// A dynamic filter. It is skipped for some batches if it accepts nearly all rows.
#[derive(Debug, Clone)]
pub(super) struct DynamicTest {
    filter: Arc<dyn PhysicalExpr>,
    /// The columns of floats that it reads. Joins compare `-0.0` and `0.0` as equal, and their filters do not.
    floats: Vec<usize>,
    tested: usize,
    passed: usize,
    /// The number of batches to skip.
    rest: usize,
}

/// The number of rows after which a dynamic filter is evaluated, the share of accepted rows above which it is useless,
/// and the number of batches until it is tried again.
const JUDGED_ROWS: usize = 32 << 10;
const USELESS_SHARE: f64 = 0.8;
const REST_BATCHES: usize = 32;

impl Tests {
    /// Tests for batches with the columns `tested` of the table, which are read with the types of `read`.
    pub fn new(
        filters: &Filters,
        tested: &[usize],
        table: &Schema,
        read: &Schema,
        measured: Arc<Measured>,
    ) -> Result<Tests> {
        let place = |column: usize| tested.iter().position(|tested| *tested == column).unwrap_or(usize::MAX);
        let (schema, read) = (table.project(tested)?, read.project(tested)?);
        let own = filters.own.iter().map(|filter| {
            // Over columns of codes, expressions are evaluated once per text already.
            per_string(over_forms(remap(filter, place)?, &schema, &read)?, &read)
        });
        let own = own.collect::<Result<Vec<_>>>()?;
        let dynamic = filters.dynamic.iter().map(|filter| DynamicTest::new(filter, tested, &schema, &read));
        let (comparisons, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_comparison);
        let own = (!own.is_empty()).then(|| conjunction(own));
        Ok(Tests { comparisons, own, dynamic: dynamic.collect::<Result<_>>()?, measured })
    }

    /// The rows that pass; `None` if all pass.
    ///
    /// # Errors
    /// A filter fails.
    pub fn passing(&mut self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let rows = batch.num_rows();
        let mut mask = None;
        for comparison in &self.comparisons {
            mask = both(mask, mask_of(comparison, batch)?)?;
        }
        if let Some(filter) = &self.own {
            let own = among(few(mask.as_ref(), rows), batch, |batch| mask_of(filter, batch))?;
            mask = both(mask, own)?;
        }
        for test in &mut self.dynamic {
            if mask.as_ref().is_some_and(|mask| mask.true_count() == 0) {
                break;
            }
            if test.rests() {
                continue;
            }
            mask = both(mask.clone(), test.passing(batch, mask.as_ref())?)?;
        }
        let passed = mask.as_ref().map_or(rows, BooleanArray::true_count);
        self.measured.add(rows, passed);
        Ok(mask.filter(|_| passed < rows))
    }
}

impl DynamicTest {
    /// A dynamic filter on the columns `tested` of the table, whose types are those of `planned`, for arrays of those of
    /// `read`.
    ///
    /// # Errors
    /// The filter cannot be rebuilt.
    pub fn new(filter: &Arc<dyn PhysicalExpr>, tested: &[usize], planned: &Schema, read: &Schema) -> Result<Self> {
        let place = |column: usize| tested.iter().position(|tested| *tested == column).unwrap_or(usize::MAX);
        let filter = over_forms(remap(filter, place)?, planned, read)?;
        let mut floats: Vec<usize> = collect_columns(&filter).iter().map(Column::index).collect();
        floats.retain(|at| planned.field(*at).data_type().is_floating());
        Ok(DynamicTest { filter, floats, tested: 0, passed: 0, rest: 0 })
    }

    /// Whether it accepted nearly all rows, and leaves out this batch.
    pub fn rests(&mut self) -> bool {
        let rests = self.rest > 0;
        self.rest -= usize::from(rests);
        rests
    }

    /// The rows of a batch that may pass, tested only for those of `before` if they are few; `None` if all may.
    ///
    /// # Errors
    /// The filter fails.
    pub fn passing(&mut self, batch: &RecordBatch, before: Option<&BooleanArray>) -> Result<Option<BooleanArray>> {
        let few = few(before, batch.num_rows());
        let Some(own) = among(few, batch, |batch| self.mask(batch))? else { return Ok(None) };
        let rows = few.map_or(batch.num_rows(), BooleanArray::true_count);
        self.tested += rows;
        self.passed += own.true_count();
        if self.tested >= JUDGED_ROWS {
            if self.passed as f64 >= USELESS_SHARE * self.tested as f64 {
                self.rest = REST_BATCHES;
            }
            (self.tested, self.passed) = (0, 0);
        }
        Ok(Some(own))
    }
}

impl DynamicTest {
    /// The rows that may pass; `None` if all may.
    fn mask(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let Some(mut mask) = mask_of(&self.filter, batch)? else { return Ok(None) };
        for column in &self.floats {
            mask = or(&mask, &zeros(batch.column(*column)))?;
        }
        Ok(Some(mask))
    }
}

/// Whether a filter compares a column with a constant.
pub(super) fn is_comparison(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(binary) = filter.downcast_ref::<BinaryExpr>() else { return false };
    let compares = matches!(
        binary.op(),
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    );
    compares && binary.left().is::<Column>() && binary.right().is::<Literal>()
}

/// The rows that are left, if they are few: then only these are tested.
fn few(left: Option<&BooleanArray>, rows: usize) -> Option<&BooleanArray> {
    left.filter(|mask| mask.true_count() * 4 < rows)
}

/// The rows of a batch that pass a test, which is made for those of `few` only, if it is given. `None`: all pass.
fn among(
    few: Option<&BooleanArray>,
    batch: &RecordBatch,
    test: impl Fn(&RecordBatch) -> Result<Option<BooleanArray>>,
) -> Result<Option<BooleanArray>> {
    let Some(few) = few else { return test(batch) };
    Ok(test(&filter_record_batch(batch, few)?)?.map(|mask| spread(few, &mask)))
}

/// The rows of both masks, of which `None` has all.
fn both(a: Option<BooleanArray>, b: Option<BooleanArray>) -> Result<Option<BooleanArray>> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => Some(and(&a, &b)?),
        (a, b) => a.or(b),
    })
}

/// The rows with `0.0` or `-0.0`. NULL counts as either.
fn zeros(array: &ArrayRef) -> BooleanArray {
    let rows = array.len();
    let zeros = match array.data_type() {
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            BooleanBuffer::collect_bool(rows, |row| values[row] == 0.0)
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            BooleanBuffer::collect_bool(rows, |row| values[row] == 0.0)
        }
        _ => BooleanBuffer::new_set(rows),
    };
    BooleanArray::new(zeros, None)
}

/// The rows for which a filter is true; `None` if it is true for all. NULL is not true.
pub(super) fn mask_of(filter: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
    Ok(match filter.evaluate(batch)? {
        ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => None,
        ColumnarValue::Scalar(_) => Some(BooleanArray::from(vec![false; batch.num_rows()])),
        ColumnarValue::Array(array) => {
            let mask = array.as_boolean();
            Some(match mask.nulls() {
                Some(_) => prep_null_mask_filter(mask),
                None => mask.clone(),
            })
        }
    })
}

/// Converts a mask over the rows selected by another mask to one over all rows.
fn spread(all: &BooleanArray, of_left: &BooleanArray) -> BooleanArray {
    let mut values = vec![false; all.len()];
    for (left, at) in all.values().set_indices().enumerate() {
        values[at] = of_left.value(left);
    }
    BooleanArray::from(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_left_rows_are_spread() {
        let all = BooleanArray::from(vec![true, false, true, true, false]);
        let left = BooleanArray::from(vec![false, true, true]);
        assert_eq!(spread(&all, &left), BooleanArray::from(vec![false, false, true, true, false]));
    }

    #[test]
    fn both_zeros_are_zeros() {
        use datafusion::arrow::array::{Float32Array, Float64Array};
        let expected = BooleanArray::from(vec![true, true, false, false]);
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 5e-324]));
        let reals: ArrayRef = Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, 1e-45]));
        assert_eq!((zeros(&doubles), zeros(&reals)), (expected.clone(), expected));
    }

    #[test]
    fn shares_are_known_after_enough_rows() {
        let measured = Measured::default();
        measured.add(100, 1);
        assert_eq!(measured.share(), None);
        measured.add(9_900, 99);
        assert_eq!(measured.share(), Some(0.01));
    }
}
