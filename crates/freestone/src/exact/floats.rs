//! A single NaN, which is equal to itself and greater than all other values.
//!
//! Arrow compares floats by their bits, and processors produce NaNs with different bits: the NaN of `0.0 / 0.0` has a
//! sign and sorts before all numbers. So expressions that compute floats, and scans of files and callers' tables,
//! convert every NaN to the one that sorts last. Stored columns contain only this NaN. DataFusion compares and groups
//! `-0.0` as `0.0`, but sorts it first. So `-0.0` becomes `0.0` in a sort key that is followed by another key.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Sort, TableScan, TryCast, Volatility,
};

use super::IsStored;
use super::{Exact, function};
use crate::exact::normal_form::{normal_form, replaced};

/// Functions whose result is one of their arguments, or never NaN.
const KEEPING: [&str; 11] =
    ["abs", "ceil", "coalesce", "floor", "greatest", "least", "nullif", "pi", "random", "round", "trunc"];

/// Replaces every NaN by the single one and, with `zeros`, every value by its [`normal_form`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Canonical {
    zeros: bool,
    signature: Signature,
}

impl Canonical {
    fn function(zeros: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(Canonical { zeros, signature: Signature::any(1, Volatility::Immutable) })
    }

    fn call(zeros: bool, operand: Expr) -> Expr {
        Canonical::function(zeros).call(vec![operand])
    }

    /// Whether it gives equal values equal bits.
    pub fn changes_zeros(&self) -> bool {
        self.zeros
    }

    fn of(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match self.zeros {
            true => normal_form(array),
            false => Ok(one_nan(array)),
        }
    }
}

/// An expression whose equal values are identical: the normal form of a key.
pub(crate) fn key(operand: Expr) -> Expr {
    Canonical::call(true, operand)
}

/// The function of [`key`].
pub(crate) fn key_function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(Canonical::function(true)));
    FUNCTION.clone()
}

/// Whether an expression is a [`key`] already.
pub(crate) fn is_key(e: &Expr) -> bool {
    matches!(e, Expr::ScalarFunction(call) if call.func.inner().downcast_ref::<Canonical>().is_some_and(|own| own.zeros))
}

/// Floats with a single NaN.
fn one_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let differs = |v: f64| v.is_nan() && v.to_bits() != f64::NAN.to_bits();
            replaced::<Float64Type>(array, differs, |_| f64::NAN)
        }
        DataType::Float32 => {
            let differs = |v: f32| v.is_nan() && v.to_bits() != f32::NAN.to_bits();
            replaced::<Float32Type>(array, differs, |_| f32::NAN)
        }
        _ => array.clone(),
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        "one_nan"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|operand| operand.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(
        &self,
        args: datafusion::logical_expr::ReturnFieldArgs,
    ) -> Result<datafusion::arrow::datatypes::FieldRef> {
        let operand = args.arg_fields.first().cloned();
        operand.ok_or_else(|| datafusion::error::DataFusionError::Internal("one_nan takes one operand".to_owned()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [operand] => function::unary(operand, |array| self.of(array)),
            _ => datafusion::common::internal_err!("one_nan takes one operand"),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |operand| operand.sort_properties))
    }
}

/// An expression that computes floats, with a single NaN. Nested expressions need this only once.
pub(super) fn canonical(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::Literal(ScalarValue::Float64(Some(v)), metadata) if v.is_nan() && v.to_bits() != f64::NAN.to_bits() => {
            Transformed::yes(Expr::Literal(ScalarValue::Float64(Some(f64::NAN)), metadata))
        }
        Expr::Literal(ScalarValue::Float32(Some(v)), metadata) if v.is_nan() && v.to_bits() != f32::NAN.to_bits() => {
            Transformed::yes(Expr::Literal(ScalarValue::Float32(Some(f32::NAN)), metadata))
        }
        Expr::Case(case) if case.expr.as_ref().is_some_and(|operand| is_float(operand, schema)) => {
            Transformed::yes(Expr::Case(of_case(case)))
        }
        other if computes_float(&other, schema) => Transformed::yes(Canonical::call(false, with_plain_operands(other))),
        other => Transformed::no(other),
    }
}

/// Rewrites `CASE x WHEN …`, which compares bits.
fn of_case(mut case: Case) -> Case {
    let compared = |operand: Box<Expr>| match *operand {
        Expr::Literal(ScalarValue::Float64(Some(v)), metadata) => {
            Box::new(Expr::Literal(ScalarValue::Float64(Some(v + 0.0)), metadata))
        }
        Expr::Literal(ScalarValue::Float32(Some(v)), metadata) => {
            Box::new(Expr::Literal(ScalarValue::Float32(Some(v + 0.0)), metadata))
        }
        other => Box::new(Canonical::call(true, other)),
    };
    case.expr = case.expr.map(compared);
    let branches = case.when_then_expr.into_iter();
    case.when_then_expr = branches.map(|(when, then)| (compared(when), then)).collect();
    case
}

fn computes_float(expression: &Expr, schema: &DFSchema) -> bool {
    let computes = match expression {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
        }
        Expr::Negative(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            return expr.get_type(schema).is_ok_and(|data_type| data_type.is_string()) && is_float(expression, schema);
        }
        Expr::ScalarFunction(call) => {
            let function = call.func.inner();
            !KEEPING.contains(&call.func.name())
                && !function.is::<Canonical>()
                && !function.is::<Exact>()
                && call.func.signature().volatility == Volatility::Immutable
        }
        _ => false,
    };
    computes && is_float(expression, schema)
}

fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| is_float_type(&data_type))
}

fn is_float_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float64 | DataType::Float32)
}

/// Removes the conversion from operands of arithmetic, to which the kind of NaN does not matter.
fn with_plain_operands(mut expression: Expr) -> Expr {
    match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            plain(left);
            plain(right);
        }
        Expr::Negative(operand) => plain(operand),
        _ => {}
    }
    expression
}

fn plain(operand: &mut Expr) {
    if let Expr::ScalarFunction(call) = operand
        && call.func.inner().is::<Canonical>()
        && call.args.len() == 1
    {
        *operand = call.args.swap_remove(0);
    }
}

/// A sort in which `-0.0` and `0.0` are equal in keys that are followed by another key.
pub(super) fn in_sort(mut sort: Sort) -> Result<LogicalPlan> {
    let schema = sort.input.schema().clone();
    let keys = sort.expr.len();
    for (at, key) in sort.expr.iter_mut().enumerate() {
        let expression = super::exact(std::mem::take(&mut key.expr), &schema)?;
        let is_decided_later = at + 1 < keys && is_float(&expression, &schema);
        key.expr = if is_decided_later { Canonical::call(true, expression) } else { expression };
    }
    Ok(LogicalPlan::Sort(sort))
}

/// A scan of data that is not stored in the database, which may contain any NaN.
pub(super) fn in_scan(scan: TableScan, is_stored: IsStored) -> Result<Transformed<LogicalPlan>> {
    let has_floats = scan.projected_schema.fields().iter().any(|field| is_float_type(field.data_type()));
    if !has_floats || is_stored(&scan) {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    }
    let columns: Vec<Expr> = scan
        .projected_schema
        .iter()
        .map(|(relation, field)| {
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            match is_float_type(field.data_type()) {
                true => Canonical::call(false, column).alias_qualified(relation.cloned(), field.name()),
                false => column,
            }
        })
        .collect();
    let plan = LogicalPlanBuilder::from(LogicalPlan::TableScan(scan)).project(columns)?.build()?;
    Ok(Transformed::yes(plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, AsArray, Float64Array};

    #[test]
    fn nans_are_one_and_zeros_where_asked() {
        let minus_nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63);
        let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(minus_nan), None, Some(-0.0), Some(1.0)]));
        for (zeros, third) in [(false, -0.0f64), (true, 0.0)] {
            let function = Canonical { zeros, signature: Signature::any(1, Volatility::Immutable) };
            let canonical = function.of(&array).expect("an array");
            let canonical = canonical.as_primitive::<Float64Type>();
            assert_eq!(canonical.value(0).to_bits(), f64::NAN.to_bits());
            assert!(canonical.is_null(1));
            assert_eq!(canonical.value(2).to_bits(), third.to_bits());
        }
        let plain: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY]));
        let function = Canonical { zeros: true, signature: Signature::any(1, Volatility::Immutable) };
        assert!(Arc::ptr_eq(&function.of(&plain).expect("an array"), &plain));
    }
}
