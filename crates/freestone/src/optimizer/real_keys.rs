//! Floats as keys: in groups, DISTINCT, partitions and the orders of windows and aggregates, all NaNs are equal, and
//! -0.0 equals 0.0. DataFusion compares their bits, so a function gives equal values equal bits.
//!
//! A volatile group key (`GROUP BY random() < 0.5`) is computed once, below the aggregation. DataFusion would compute
//! it again where a filter on the key is pushed down.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ExprSchema, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, GroupingSet};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule. It runs after type coercion.
#[derive(Debug)]
pub(crate) struct GroupKeys;

impl AnalyzerRule for GroupKeys {
    fn name(&self) -> &str {
        "group_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let mut keys = Keys { schema: aggregate.input.schema().clone(), columns: vec![], others: vec![] };
            let group_expr = aggregate.group_expr.iter().map(|e| keys.below(e.clone())).collect::<Result<Vec<_>>>()?;
            if keys.columns.is_empty() && keys.others.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
            }
            let input = Arc::new(keys.projection(aggregate.input)?);
            Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggregate.aggr_expr)?)))
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            // The sort columns of DISTINCT ON are found among these columns by name.
            let mut keys = Keys { schema: on.input.schema().clone(), columns: vec![], others: vec![] };
            for key in on.on_expr.iter().filter(|key| matches!(key, Expr::Column(_))) {
                keys.below(key.clone())?;
            }
            if keys.columns.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
            }
            on.input = Arc::new(keys.projection(on.input)?);
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Group keys that are computed below the aggregation.
struct Keys {
    schema: Arc<DFSchema>,
    /// Float columns, which are replaced.
    columns: Vec<Column>,
    /// Expressions, which are added under the names of the group columns.
    others: Vec<Expr>,
}

impl Keys {
    /// The group key in place of `key`, which is computed below the aggregation if necessary.
    fn below(&mut self, key: Expr) -> Result<Expr> {
        let mut all = |keys: Vec<Expr>| keys.into_iter().map(|key| self.below(key)).collect::<Result<Vec<_>>>();
        match key {
            Expr::GroupingSet(GroupingSet::Rollup(keys)) => Ok(Expr::GroupingSet(GroupingSet::Rollup(all(keys)?))),
            Expr::GroupingSet(GroupingSet::Cube(keys)) => Ok(Expr::GroupingSet(GroupingSet::Cube(all(keys)?))),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                let sets = sets.into_iter().map(all).collect::<Result<Vec<_>>>()?;
                Ok(Expr::GroupingSet(GroupingSet::GroupingSets(sets)))
            }
            key => self.one_below(key),
        }
    }

    fn one_below(&mut self, key: Expr) -> Result<Expr> {
        let is_real = key.get_type(&self.schema)?.is_floating();
        if let (Expr::Column(column), true) = (&key, is_real) {
            if !self.columns.contains(column) {
                self.columns.push(column.clone());
            }
            return Ok(key);
        }
        if !is_real && !key.is_volatile() {
            return Ok(key);
        }
        let (relation, name, inner) = match key {
            Expr::Alias(Alias { expr, relation, name, .. }) => (relation, name, *expr),
            other => {
                let name = other.schema_name().to_string();
                (None, name, other)
            }
        };
        let computed = if is_real { one_value(inner) } else { inner };
        let column = Column::new(relation.clone(), name.clone());
        let named = computed.alias_qualified(relation, name);
        if !self.others.contains(&named) {
            self.others.push(named);
        }
        Ok(Expr::Column(column))
    }

    /// The input with the computed keys.
    fn projection(self, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let column = |column: Column| match self.columns.contains(&column) {
            true => one_value(Expr::Column(column.clone())).alias_qualified(column.relation, column.name),
            false => Expr::Column(column),
        };
        let columns = self.schema.columns().into_iter().map(column);
        let expressions = columns.chain(self.others.iter().cloned()).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(expressions, input)?))
    }
}

/// The rows with normalized floats, and whether there is a float column.
pub(super) fn normalized(plan: Arc<LogicalPlan>) -> Result<(Arc<LogicalPlan>, bool)> {
    let columns = plan.schema().columns();
    let reals = columns.iter().map(|column| real(&plan, column)).collect::<Result<Vec<_>>>()?;
    if !reals.contains(&true) {
        return Ok((plan, false));
    }
    let expressions = columns.into_iter().zip(reals).map(|(column, is_real)| match is_real {
        true => one_value(Expr::Column(column.clone())).alias_qualified(column.relation, column.name),
        false => Expr::Column(column),
    });
    Ok((Arc::new(LogicalPlan::Projection(Projection::try_new(expressions.collect(), plan)?)), true))
}

fn real(plan: &LogicalPlan, column: &Column) -> Result<bool> {
    Ok(plan.schema().field_from_column(column)?.data_type().is_floating())
}

/// Wraps an expression if it has a float type, and returns whether it has one.
pub(super) fn wrap(key: &mut Expr, schema: &DFSchema) -> bool {
    let is_real = key.get_type(schema).is_ok_and(|data_type| data_type.is_floating()) && !is_wrapped(key);
    if is_real {
        *key = one_value(std::mem::take(key));
    }
    is_real
}

fn is_wrapped(key: &Expr) -> bool {
    matches!(key, Expr::ScalarFunction(call) if call.func.inner().is::<RealKey>())
}

fn one_value(key: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(RealKey { signature: Signature::any(1, Volatility::Immutable) })));
    FUNCTION.call(vec![key])
}

/// `real_key(x)`: one bit pattern for all NaNs, 0.0 for -0.0, and `x` otherwise.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RealKey {
    signature: Signature,
}

impl ScalarUDFImpl for RealKey {
    fn name(&self) -> &str {
        "real_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => internal_err!("real_key takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(keys(array)?)),
            [scalar] => {
                let array = keys(&scalar.to_array(1)?)?;
                let value = datafusion::scalar::ScalarValue::try_from_array(&array, 0)?;
                debug_assert!(rows > 0 || array.len() == 1);
                Ok(ColumnarValue::Scalar(value))
            }
            _ => internal_err!("real_key takes one argument"),
        }
    }
}

fn keys(array: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! of {
        ($t:ty) => {{
            type Native = <$t as ArrowPrimitiveType>::Native;
            let one = |value: Native| if value.is_nan() { Native::NAN } else { value + Native::default() };
            Ok(Arc::new(array.as_primitive::<$t>().unary::<_, $t>(one)))
        }};
    }
    match array.data_type() {
        DataType::Float16 => of!(Float16Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        other => internal_err!("real_key of {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Float64Array;

    #[test]
    fn equal_reals_have_equal_bits() {
        let values =
            [Some(-0.0), Some(0.0), Some(-f64::NAN), Some(f64::NAN), None, Some(-1.5), Some(f64::NEG_INFINITY)];
        let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let keys = keys(&array).expect("keys");
        let bits: Vec<Option<u64>> = keys.as_primitive::<Float64Type>().iter().map(|v| v.map(f64::to_bits)).collect();
        let expected =
            [Some(0.0), Some(0.0), Some(f64::NAN), Some(f64::NAN), None, Some(-1.5), Some(f64::NEG_INFINITY)];
        assert_eq!(bits, expected.map(|value| value.map(f64::to_bits)));
    }
}
