//! The keys that a join has found, as a filter of the scans on its other side.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{BinaryExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use freestone_codec::KeySet;
use freestone_exec::join::BuiltKeys;

use super::in_keys::InKeys;
use super::keys::is_enumerable;

/// What a key of the other side must be; `None` if nothing is known.
pub(crate) fn of_built(
    key: &Arc<dyn PhysicalExpr>,
    built: &BuiltKeys,
    schema: &SchemaRef,
) -> Option<Arc<dyn PhysicalExpr>> {
    let data_type = key.data_type(schema).ok()?;
    match built {
        BuiltKeys::Any => None,
        BuiltKeys::None => Some(lit(false)),
        BuiltKeys::Ints { .. } if !is_enumerable(&data_type) => None,
        BuiltKeys::Ints { low, words: Some(words), .. } => {
            let keys = KeySet::new((*low).into(), words.clone());
            let test = Arc::new(ScalarUDF::new_from_impl(InKeys::of_join(keys)));
            let (name, field) = (test.name().to_owned(), Arc::new(Field::new("", DataType::Boolean, true)));
            let options = Arc::new(ConfigOptions::default());
            Some(Arc::new(ScalarFunctionExpr::new(&name, test, vec![key.clone()], field, options)))
        }
        BuiltKeys::Ints { low, high, words: None } => {
            let value = |value: i64| ScalarValue::Int64(Some(value)).cast_to(&data_type).ok();
            let test = |op, value| Arc::new(BinaryExpr::new(key.clone(), op, lit(value))) as Arc<dyn PhysicalExpr>;
            Some(all_of(vec![test(Operator::GtEq, value(*low)?), test(Operator::LtEq, value(*high)?)]))
        }
    }
}

/// The conjunction of some tests.
pub(crate) fn all_of(tests: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
    let and = |a, b| Arc::new(BinaryExpr::new(a, Operator::And, b)) as Arc<dyn PhysicalExpr>;
    tests.into_iter().reduce(and).unwrap_or_else(|| lit(true))
}
