//! Decimal-float coercion: decimals that are compared with floats become floats, and the common type of both is DOUBLE:
//! in the results of CASE, in lists, in UNION, INTERSECT and EXCEPT, also within lists and structs. DataFusion converts
//! the floats to `DECIMAL(30, 15)` instead: floats from 1e15 on are an error, those below 1e-15 become zero, and a float
//! column that could be compared as stored is converted row by row.
//!
//! Decimals and integers whose common type needs more than 38 digits (`DECIMAL(38, 3)` and `DECIMAL(4, 4)`) are
//! compared with up to 76 digits. DataFusion compares them with 38, which is an error for the largest values.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, FieldRef, Fields};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, Join, LogicalPlan, Projection, Subquery, Union};
use datafusion::optimizer::AnalyzerRule;

use super::set_operations::is_set_operation;
use crate::expressions;
use crate::expressions::{OneType, of_one_type};

/// DataFusion's functions over lists and values of one type.
const LIST_FUNCTIONS: [(&str, ListForm); 12] = {
    use ListForm::{Lists, ValueAt, Values};
    [
        ("make_array", Values),
        ("array_has", ValueAt(1)),
        ("array_positions", ValueAt(1)),
        ("array_remove", ValueAt(1)),
        ("array_remove_all", ValueAt(1)),
        ("array_remove_n", ValueAt(1)),
        ("array_replace", ValueAt(1)),
        ("array_replace_all", ValueAt(1)),
        ("array_replace_n", ValueAt(1)),
        ("array_resize", ValueAt(2)),
        ("array_union", Lists),
        ("array_except", Lists),
    ]
};

/// What the arguments of a function are.
#[derive(Clone, Copy)]
enum ListForm {
    Values,
    Lists,
    /// A list, and values from a position on.
    ValueAt(usize),
}

/// Converts decimals to floats if they are compared with floats, or are branches of one result with floats.
#[derive(Debug)]
pub(crate) struct DecimalFloatCoercion;

impl AnalyzerRule for DecimalFloatCoercion {
    fn name(&self) -> &str {
        "decimal_float_coercion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        let coerced = plan.transform_up_with_subqueries(|plan| {
            let expressions = expressions::try_changed(plan, in_expression)?;
            let inputs = in_set_operation(expressions.data)?;
            any |= expressions.transformed | inputs.transformed;
            // The types of inputs may have changed as well.
            if any { inputs.data.recompute_schema().map(Transformed::yes) } else { Ok(inputs) }
        })?;
        Ok(coerced.data)
    }
}

fn in_expression(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = with_plain_digits(&mut expression);
    changed |= in_subquery(&mut expression, schema)?;
    changed |= in_list_function(&mut expression, schema);
    for group in of_one_type(&mut expression) {
        let types: Vec<_> = group.operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        match widest(&types).filter(|_| group.compared) {
            Some(wide) => {
                group.operands.into_iter().zip(types).for_each(|(operand, from)| as_wide(operand, &from, &wide));
                changed = true;
            }
            None => changed |= as_reals(group, types),
        }
    }
    Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
}

/// `x IN (SELECT …)` and `x = ANY (SELECT …)`, whose sides are compared as by an operator.
fn in_subquery(expression: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let (value, subquery) = match expression {
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => (expr, subquery),
        Expr::SetComparison(set) => (&mut set.expr, &mut set.subquery),
        _ => return Ok(false),
    };
    let [field] = subquery.subquery.schema().fields().as_ref() else { return Ok(false) };
    let types = [value.get_type(schema)?, field.data_type().clone()];
    let Some(common) = compared_as(&types) else { return Ok(false) };
    if types[0].is_decimal() || common.is_nested() && types[0] != common {
        **value = converted(std::mem::take(&mut **value), &common);
    }
    if types[1].is_decimal() || common.is_nested() && types[1] != common {
        let plan = with_types(subquery.subquery.clone(), &[Some(common)])?;
        *subquery = Subquery { subquery: plan, ..subquery.clone() };
    }
    Ok(true)
}

/// Gives the values and lists of a function one type.
pub(crate) fn in_list_function(expression: &mut Expr, schema: &DFSchema) -> bool {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else { return false };
    let Some((_, form)) = LIST_FUNCTIONS.iter().find(|(name, _)| *name == func.name()) else { return false };
    let is_value = |at: usize| match form {
        ListForm::Values => true,
        ListForm::Lists => false,
        ListForm::ValueAt(value) => at >= *value,
    };
    let types: Vec<DataType> = args.iter().map(|arg| arg.get_type(schema).unwrap_or(DataType::Null)).collect();
    let items: Vec<DataType> =
        types.iter().enumerate().map(|(at, own)| if is_value(at) { own.clone() } else { item(own) }).collect();
    let Some(common) = common_of_mixed(&items) else { return false };
    for (at, (arg, own)) in args.iter_mut().zip(types).enumerate() {
        let to = if is_value(at) { common.clone() } else { DataType::new_list(common.clone(), true) };
        // Positions and counts remain integers, as do NULLs.
        if own != to && own != DataType::Null && (matches!(form, ListForm::Values) || !own.is_integer()) {
            *arg = converted(std::mem::take(arg), &to);
        }
    }
    true
}

/// The type of the items of a list.
fn item(list: &DataType) -> DataType {
    match list {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type().clone()
        }
        _ => DataType::Null,
    }
}

/// Gives the columns of the queries of a set operation one type.
fn in_set_operation(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(with_own_types).collect::<Result<Vec<_>>>()?;
            // The schema of a union is that of its first input when it was planned.
            let is_first = |inputs: &[Arc<LogicalPlan>]| {
                let first = inputs.first().map(|input| input.schema().fields());
                let types = |fields: &Fields| fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
                first.is_none_or(|first| types(first) == types(union.schema.fields()))
            };
            match aligned(&inputs)? {
                None if is_first(&inputs) => Ok(Transformed::no(LogicalPlan::Union(union))),
                aligned => {
                    let union = Union::try_new_with_loose_types(aligned.unwrap_or(inputs))?;
                    Ok(Transformed::yes(LogicalPlan::Union(union)))
                }
            }
        }
        LogicalPlan::Join(join) if is_set_operation(&join) => {
            let Some(mut inputs) = aligned(&[join.left.clone(), join.right.clone()])? else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            let (right, left) = (inputs.pop().unwrap_or(join.right), inputs.pop().unwrap_or(join.left));
            let (kind, how, nulls) = (join.join_type, join.join_constraint, join.null_equality);
            let join = Join::try_new(left, right, join.on, join.filter, kind, how, nulls, join.null_aware)?;
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// An input whose schema has the types of its expressions. Those of UNION BY NAME are planned with the types of the union.
fn with_own_types(input: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    match input.as_ref() {
        LogicalPlan::Projection(projection) => {
            let Projection { expr, input, .. } = projection.clone();
            Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(expr, input)?)))
        }
        _ => Ok(input.clone()),
    }
}

/// The inputs with columns of one type; nothing where no column has floats and decimals.
fn aligned(inputs: &[Arc<LogicalPlan>]) -> Result<Option<Vec<Arc<LogicalPlan>>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(None);
    }
    let types = |at: usize| inputs.iter().map(|input| input.schema().field(at).data_type().clone()).collect::<Vec<_>>();
    let common: Vec<Option<DataType>> = (0..width).map(|at| common_of_mixed(&types(at))).collect();
    if common.iter().all(Option::is_none) {
        return Ok(None);
    }
    inputs.iter().map(|input| with_types(input.clone(), &common)).collect::<Result<_>>().map(Some)
}

/// A query whose columns have these types.
fn with_types(input: Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let schema = input.schema().clone();
    let is_other = |(own, to): (&FieldRef, &Option<DataType>)| to.as_ref().is_some_and(|to| own.data_type() != to);
    if !schema.fields().iter().zip(types).any(is_other) {
        return Ok(input);
    }
    let columns = schema.columns().into_iter().zip(types).map(|(column, to)| match to {
        Some(to) => {
            let value = converted(Expr::Column(column.clone()), to);
            value.alias_qualified(column.relation, column.name)
        }
        None => Expr::Column(column),
    });
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns.collect(), input)?)))
}

/// The type that values of these types have in common, if there are floats and decimals among them (DOUBLE) or dates and
/// timestamps (a timestamp of as many digits; DataFusion's has nanoseconds, which end in the year 2262). NULL has every
/// type.
pub(crate) fn common_of_mixed(types: &[DataType]) -> Option<DataType> {
    let types: Vec<DataType> = types.iter().filter(|own| **own != DataType::Null).cloned().collect();
    let first = types.first()?;
    let items = |fields: Vec<DataType>| common_of_mixed(&fields);
    match first {
        DataType::List(field) => {
            let all: Option<Vec<DataType>> = types.iter().map(|own| own.is_list().then(|| item(own))).collect();
            let common = items(all?)?;
            Some(DataType::List(Arc::new(field.as_ref().clone().with_data_type(common).with_nullable(true))))
        }
        DataType::Struct(fields) => {
            let mut is_mixed = false;
            let mut common = vec![];
            for (at, field) in fields.iter().enumerate() {
                let own = |own: &DataType| match own {
                    DataType::Struct(others) if others.len() == fields.len() => others
                        .get(at)
                        .filter(|other| other.name() == field.name())
                        .map(|other| other.data_type().clone()),
                    _ => None,
                };
                let own: Vec<DataType> = types.iter().map(own).collect::<Option<_>>()?;
                let mixed = common_of_mixed(&own);
                is_mixed |= mixed.is_some();
                let data_type = mixed.or_else(|| type_union_resolution(&own))?;
                common.push(Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(true)));
            }
            is_mixed.then(|| DataType::Struct(common.into()))
        }
        DataType::Date32 | DataType::Timestamp(..) => timestamp_of_mixed(&types),
        _ => {
            let is_mixed = types.iter().any(DataType::is_floating) && types.iter().any(DataType::is_decimal);
            (is_mixed && types.iter().all(DataType::is_numeric)).then_some(DataType::Float64)
        }
    }
}

/// The type of the timestamps among dates and timestamps of one type.
fn timestamp_of_mixed(types: &[DataType]) -> Option<DataType> {
    let mut times = types.iter().filter(|own| **own != DataType::Date32);
    let first = times.next().filter(|own| matches!(own, DataType::Timestamp(..)))?;
    (types.contains(&DataType::Date32) && times.all(|own| own == first)).then(|| first.clone())
}

/// Makes the digits argument of `round` a literal of its final type. DataFusion does not see a literal below a cast, so
/// the type of a rounded decimal would change when constants are computed.
fn with_plain_digits(expression: &mut Expr) -> bool {
    if let Expr::ScalarFunction(call) = expression
        && call.func.name() == "round"
        && let [_, Expr::Literal(digits, _)] = call.args.as_mut_slice()
        && let ScalarValue::Int64(Some(value)) = digits
        && let Ok(value) = i32::try_from(*value)
    {
        *digits = ScalarValue::Int32(Some(value));
        return true;
    }
    false
}

/// The decimal type that holds all values of some integer and decimal types, if it has more than 38 digits. NULL has
/// every type.
fn widest(types: &[DataType]) -> Option<DataType> {
    if !types.iter().any(|kind| matches!(kind, DataType::Decimal128(..))) {
        return None;
    }
    let (mut whole, mut scale) = (0u8, 0i8);
    for kind in types.iter().filter(|kind| **kind != DataType::Null) {
        let (own_whole, own_scale) = match kind {
            DataType::Decimal128(precision, scale @ 0..) => (precision.checked_sub(scale.unsigned_abs())?, *scale),
            DataType::UInt64 => (20, 0),
            kind if kind.is_integer() => (19, 0),
            _ => return None,
        };
        (whole, scale) = (whole.max(own_whole), scale.max(own_scale));
    }
    let digits = whole + scale.unsigned_abs();
    (digits > 38).then_some(DataType::Decimal256(digits, scale))
}

fn as_wide(operand: &mut Expr, from: &DataType, wide: &DataType) {
    if *from != DataType::Null {
        *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), wide.clone()));
    }
}

/// The type of floats as which floats and decimals are compared, also within lists and structs.
fn compared_as(types: &[DataType]) -> Option<DataType> {
    if types.iter().any(DataType::is_nested) {
        return common_of_mixed(types);
    }
    let real = [DataType::Float64, DataType::Float32].into_iter().find(|real| types.contains(real));
    real.filter(|_| types.iter().any(DataType::is_decimal))
}

/// Gives operands of one type that type, if there are floats and decimals among them.
fn as_reals(group: OneType, types: Vec<DataType>) -> bool {
    let common = if group.compared { compared_as(&types) } else { common_of_mixed(&types) };
    let Some(common) = common else { return false };
    for (operand, own) in group.operands.into_iter().zip(types) {
        if own.is_decimal() || !common.is_numeric() && own != common && own != DataType::Null {
            *operand = converted(std::mem::take(operand), &common);
        }
    }
    true
}

/// Converts an expression to a type that has floats in the place of decimals.
pub(crate) fn converted(value: Expr, to: &DataType) -> Expr {
    match (value, to) {
        (Expr::Alias(alias), to) => {
            let value = converted(*alias.expr, to);
            value.alias_qualified(alias.relation, alias.name)
        }
        (value, to) if to.is_floating() => as_real(value, to),
        (value, to) => Expr::Cast(Cast::new(Box::new(value), to.clone())),
    }
}

/// Converts a number to a float. Literals are converted from their text, because dividing by a power of ten can differ
/// in the last digit.
fn as_real(decimal: Expr, real: &DataType) -> Expr {
    let digits = match &decimal {
        Expr::Literal(ScalarValue::Decimal128(Some(v), precision, scale), _) => {
            Decimal128Type::format_decimal(*v, *precision, *scale)
        }
        Expr::Literal(ScalarValue::Decimal256(Some(v), precision, scale), _) => {
            Decimal256Type::format_decimal(*v, *precision, *scale)
        }
        _ => String::new(),
    };
    let literal = match real {
        DataType::Float32 => digits.parse::<f32>().ok().map(ScalarValue::from),
        _ => digits.parse::<f64>().ok().map(ScalarValue::from),
    };
    literal.map_or_else(|| Expr::Cast(Cast::new(Box::new(decimal), real.clone())), |value| Expr::Literal(value, None))
}
