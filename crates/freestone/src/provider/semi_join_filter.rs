//! `fk IN (keys of a table)`: the replacement of a join of which one side is used only for its keys. The keys are read
//! when the query is planned, from the snapshot of the query. The scan tests encoded values with them, and prunes by
//! the dimensions of the clustered table.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TableScan, Volatility,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, create_physical_expr, split_conjunction};
use freestone_advisor::PathTest;
use freestone_codec::KeySet;
use freestone_store::Table;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::scan::ColumnPredicate;
use freestone_store::schema::ForeignKey;

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

/// A test whether an integer is among the keys of a table.
#[derive(Debug)]
pub struct InKeys {
    name: String,
    keys: Arc<KeySet>,
    /// The table and the column of the keys, and the tests on its rows: paths of one name, the attribute.
    table: Arc<Table>,
    column: usize,
    asked: Vec<PathTest>,
    signature: Signature,
}

impl PartialEq for InKeys {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.keys == other.keys
    }
}

impl Eq for InKeys {}

impl Hash for InKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl InKeys {
    /// The test whether a value is among those of a column that a scan of `table` returns. `None` if there are too many
    /// rows, the range of the values is too large, or they are not integers.
    ///
    /// # Errors
    ///
    /// The rows cannot be read.
    pub fn of(table: &FreestoneTable, scan: &TableScan, column: usize) -> Result<Option<Self>> {
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
        let name = format!("is_one_of_{}_keys_of_{}", keys.len(), table.name);
        let signature = Signature::any(1, Volatility::Immutable);
        Ok(Some(InKeys { name, keys: Arc::new(keys), table: table.clone(), column, asked, signature }))
    }

    /// The test of an expression.
    pub fn test(self, expression: Expr) -> Expr {
        ScalarUDF::new_from_impl(self).call(vec![expression])
    }

    /// The keys with which a physical expression tests its only argument.
    pub fn in_expression(e: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, &InKeys)> {
        let function = e.downcast_ref::<ScalarFunctionExpr>()?;
        let test = function.fun().inner().as_ref() as &dyn std::any::Any;
        Some((function.args().first()?, test.downcast_ref::<InKeys>()?))
    }

    pub fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    /// The tests on rows of `table` by the keys in some conjuncts of its scan, if these are declared foreign keys of
    /// the table.
    pub fn path_tests(table: &Table, filters: &[Arc<dyn PhysicalExpr>]) -> Vec<PathTest> {
        let mut found = vec![];
        for conjunct in filters.iter().flat_map(split_conjunction) {
            let Some((of, keys)) = InKeys::in_expression(conjunct) else { continue };
            let Some(column) = of.downcast_ref::<Column>() else { continue };
            let (to, named) = (&keys.table.schema, &keys.table.schema.columns[keys.column].name);
            let leads = |key: &ForeignKey| {
                let referenced = key.referenced.first().or(to.primary_key.first());
                key.columns == [column.name()] && key.table == keys.table.name && referenced == Some(named)
            };
            if table.schema.foreign_keys.iter().any(leads) {
                found.extend(keys.asked.iter().map(|test| PathTest {
                    path: [&[column.name().to_owned()], test.path.as_slice()].concat(),
                    ..test.clone()
                }));
            }
        }
        found
    }
}

/// The tests of a scan on its table, of which `share` of the rows were selected.
fn path_tests_of(source: &FreestoneSource, share: f64) -> Vec<PathTest> {
    let (table, predicates) = (source.table(), source.predicates());
    let estimates: Vec<f64> = predicates.iter().map(|p| estimated_share(table, p, table.rows()).max(1e-9)).collect();
    let shares = workload::fitted(&estimates, share.clamp(1e-9, 1.0));
    let test = |(predicate, selectivity): (&ColumnPredicate, f64)| PathTest {
        path: vec![table.schema.columns[predicate.column].name.clone()],
        selectivity,
        form: workload::form(&predicate.predicate),
    };
    predicates.iter().zip(shares).map(test).collect()
}

/// The values of a scan's only column, without NULLs.
fn values(source: &FreestoneSource, data_type: &DataType) -> Result<Vec<i64>> {
    let external = |e| DataFusionError::External(Box::new(e));
    let mut values = vec![];
    let mut take = |batch: &datafusion::arrow::array::RecordBatch| {
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

impl ScalarUDFImpl for InKeys {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let integers = match array.data_type() {
            DataType::Date32 => cast(&cast(&array, &DataType::Int32)?, &DataType::Int64)?,
            _ => cast(&array, &DataType::Int64)?,
        };
        let integers = integers.as_any().downcast_ref::<Int64Array>();
        let integers =
            integers.ok_or_else(|| DataFusionError::Internal("a cast to BIGINT gave something else".into()))?;
        let found = BooleanArray::from_unary(integers, |value| self.keys.contains(value.into()));
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
