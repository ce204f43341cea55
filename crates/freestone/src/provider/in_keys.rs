//! A test whether a value is among the keys of a table, as a function in a plan.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use freestone_advisor::PathTest;
use freestone_codec::KeySet;
use freestone_store::Table;
use freestone_store::schema::ForeignKey;

/// A test whether an integer is among the keys of a table.
#[derive(Debug)]
pub struct InKeys {
    name: String,
    keys: Arc<KeySet>,
    /// Where the keys come from, if they are those of a table.
    origin: Option<Origin>,
    signature: Signature,
}

/// The table and the column of keys, and the tests on its rows: paths of one name, the attribute.
#[derive(Debug)]
struct Origin {
    table: Arc<Table>,
    column: usize,
    asked: Vec<PathTest>,
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
    /// The test by the keys of a column of `table`, on whose rows the tests `asked` were made.
    pub fn new(keys: KeySet, table: Arc<Table>, column: usize, asked: Vec<PathTest>) -> Self {
        let name = format!("is_one_of_{}_keys_of_{}", keys.len(), table.name);
        InKeys { origin: Some(Origin { table, column, asked }), ..InKeys::named(name, keys) }
    }

    /// The test by the keys that a join has found.
    pub fn of_join(keys: KeySet) -> Self {
        InKeys::named(format!("is_one_of_{}_keys", keys.len()), keys)
    }

    fn named(name: String, keys: KeySet) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        InKeys { name, keys: Arc::new(keys), origin: None, signature }
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
            let Some(origin) = &keys.origin else { continue };
            let (to, named) = (&origin.table.schema, &origin.table.schema.columns[origin.column].name);
            let leads = |key: &ForeignKey| {
                let referenced = key.referenced.first().or(to.primary_key.first());
                key.columns == [column.name()] && key.table == origin.table.name && referenced == Some(named)
            };
            if table.schema.foreign_keys.iter().any(leads) {
                found.extend(origin.asked.iter().map(|test| PathTest {
                    path: [&[column.name().to_owned()], test.path.as_slice()].concat(),
                    ..test.clone()
                }));
            }
        }
        found
    }
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
