//! Converts operands that are times to types in which they can be compared and combined without loss, before DataFusion
//! converts them. DataFusion converts a date or text that meets a timestamp to nanoseconds, whose range is 1677 to
//! 2262, and compares intervals field by field.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Sort, WindowFunctionDefinition};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{AggregateUDF, Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::arrays::{INTERVAL, finer, is_span, is_text, is_time_of_day, per_second};
use super::interval::{DAY_NS, SECOND_NS};
use super::zone::{UTC, Zone};
use super::{aggregates, casts, convert, interval_text, operators};
use crate::expressions::{OneType, of_one_type};

/// The context of an expression whose operands are converted.
pub(crate) struct Context<'a> {
    pub schema: &'a DFSchema,
    pub options: &'a Arc<ConfigOptions>,
}

impl Context<'_> {
    fn type_of(&self, expression: &Expr) -> DataType {
        expression.get_type(self.schema).unwrap_or(DataType::Null)
    }

    /// The value of a constant expression.
    fn constant(&self, expression: &Expr) -> Option<ScalarValue> {
        if let Expr::Literal(value, _) = expression {
            return Some(value.clone());
        }
        let is_constant = !expression.exists(|e| Ok(varies(e))).ok()?;
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(DFSchema::empty()))
            .with_config_options(self.options.clone())
            .build();
        let simplifier = ExprSimplifier::new(context);
        let coerced = simplifier.coerce(expression.clone(), &DFSchema::empty()).ok().filter(|_| is_constant)?;
        match simplifier.simplify(casts::with_ours(coerced, &DFSchema::empty()).ok()?).ok()? {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }
}

/// Whether the value of an expression depends on rows.
fn varies(expression: &Expr) -> bool {
    match expression {
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Volatile,
        Expr::Literal(..)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::BinaryExpr(_)
        | Expr::Negative(_)
        | Expr::Alias(_) => false,
        _ => true,
    }
}

/// Converts the operands of an expression. Returns false if they have no times.
pub(crate) fn corrected(expression: &mut Expr, context: &Context) -> bool {
    match expression {
        Expr::BinaryExpr(binary) if is_arithmetic(binary.op) => {
            let (left, right) = (context.type_of(&binary.left), context.type_of(&binary.right));
            let Some(call) = arithmetic(binary.op, &binary.left, &left, &binary.right, &right) else { return false };
            *expression = call;
            true
        }
        Expr::Negative(inner) if is_span(&context.type_of(inner)) => {
            *expression = operators::NEGATIVE.call(vec![std::mem::take(&mut **inner)]);
            true
        }
        Expr::AggregateFunction(call) => {
            let function = aggregate(&call.func, &call.params.args, call.params.distinct, context);
            if function.is_some() {
                call.params.distinct &= !is_over_spans(&call.params.args, context);
            }
            let counts = call.params.distinct && call.func.name() == "count";
            let arguments = counts && keyed(call.params.args.iter_mut(), context);
            let ordered = keyed_sorts(&mut call.params.order_by, context);
            if let Some(function) = &function {
                call.func = function.clone();
            }
            function.is_some() || arguments || ordered
        }
        Expr::WindowFunction(window) => {
            let function = match &window.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    aggregate(function, &window.params.args, window.params.distinct, context)
                }
                WindowFunctionDefinition::WindowUDF(_) => None,
            };
            let has_function = function.is_some();
            if has_function {
                window.params.distinct &= !is_over_spans(&window.params.args, context);
            }
            if let Some(function) = function {
                window.fun = WindowFunctionDefinition::AggregateUDF(function);
            }
            let partitions = keyed(window.params.partition_by.iter_mut(), context);
            let ordered = keyed_sorts(&mut window.params.order_by, context);
            has_function || partitions || ordered
        }
        Expr::ScalarFunction(call) if call.args.iter().any(|argument| is_span(&context.type_of(argument))) => {
            match operators::extreme(call.func.name()) {
                Some(function) => {
                    call.func = function;
                    true
                }
                None => comparable(expression, context),
            }
        }
        _ => comparable(expression, context),
    }
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
}

/// An operator over times as a function call. A text operand is an interval, or has the type of the other operand.
pub(crate) fn arithmetic(
    op: Operator,
    left: &Expr,
    left_type: &DataType,
    right: &Expr,
    right_type: &DataType,
) -> Option<Expr> {
    let typed = |operand: &Expr, own: &DataType, other: &DataType| {
        let is_time = matches!(other, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) || is_span(other);
        let text = match operand {
            Expr::Literal(value, _) if is_text(own) && is_time => value.try_as_str().flatten(),
            _ => return (operand.clone(), own.clone()),
        };
        let is_interval = text.is_some_and(|text| interval_text::parse(text, None).is_some());
        let kind = if is_interval || op != Operator::Minus { INTERVAL } else { other.clone() };
        (cast(operand.clone(), &kind), kind)
    };
    let (left, a) = typed(left, left_type, right_type);
    let (right, b) = typed(right, right_type, left_type);
    Some(operators::function(op, &a, &b)?.call(vec![left, right]))
}

/// The aggregate that replaces a function: ours for intervals, or the one behind a placeholder.
fn aggregate(function: &AggregateUDF, args: &[Expr], distinct: bool, context: &Context) -> Option<Arc<AggregateUDF>> {
    let spans = is_over_spans(args, context);
    let ours = if spans { aggregates::over_intervals(function.name(), distinct) } else { None };
    ours.filter(|ours| **ours != *function).or_else(|| aggregates::behind(function))
}

fn is_over_spans(args: &[Expr], context: &Context) -> bool {
    args.first().is_some_and(|argument| is_span(&context.type_of(argument)))
}

/// Replaces intervals by the values by which they are compared.
pub(crate) fn keyed<'a>(expressions: impl Iterator<Item = &'a mut Expr>, context: &Context) -> bool {
    let mut changed = false;
    for expression in expressions {
        if is_span(&context.type_of(expression)) {
            *expression = operators::KEY.call(vec![std::mem::take(expression)]);
            changed = true;
        }
    }
    changed
}

pub(crate) fn keyed_sorts(sorts: &mut [Sort], context: &Context) -> bool {
    keyed(sorts.iter_mut().map(|sort| &mut sort.expr), context)
}

fn comparable(expression: &mut Expr, context: &Context) -> bool {
    if narrowed(expression, context) {
        return true;
    }
    let mut changed = false;
    for group in of_one_type(expression) {
        changed |= aligned(group, context);
    }
    changed
}

/// Converts operands to a common type or, for a comparison, to comparable values.
pub(crate) fn aligned(group: OneType, context: &Context) -> bool {
    let OneType { operands, compared } = group;
    let kinds: Vec<(DataType, bool)> =
        operands.iter().map(|e| (context.type_of(e), matches!(e, Expr::Literal(..)))).collect();
    let Some(common) = common(&kinds, compared) else { return false };
    // If the time zone has a constant offset, it preserves the order of local times, so only the constant operands are
    // converted.
    let common = match &common {
        Common::Type(DataType::Timestamp(unit, Some(_))) if compared && is_fixed(context) => {
            let zoned_are_constant = operands.iter().zip(&kinds).all(|(operand, (kind, _))| {
                !matches!(kind, DataType::Timestamp(_, Some(_))) || !operand.any_column_refs()
            });
            let has_local =
                kinds.iter().any(|(kind, _)| matches!(kind, DataType::Timestamp(_, None) | DataType::Date32));
            if zoned_are_constant && has_local { Common::Type(DataType::Timestamp(*unit, None)) } else { common }
        }
        _ => common,
    };
    let mut changed = false;
    for (operand, (kind, _)) in operands.into_iter().zip(&kinds) {
        if *kind == DataType::Null {
            continue;
        }
        match &common {
            Common::Type(to) if same(kind, to) => {}
            Common::Type(to) => {
                *operand = cast(std::mem::take(operand), to);
                changed = true;
            }
            Common::Key(text) => {
                let value = std::mem::take(operand);
                let value = if is_text(kind) { cast(value, text) } else { value };
                *operand = operators::KEY.call(vec![value]);
                changed = true;
            }
        }
    }
    changed
}

fn is_fixed(context: &Context) -> bool {
    matches!(Zone::of_session(context.options), Zone::Fixed(_))
}

/// Whether two types have the same ticks, regardless of the names of their zones.
fn same(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Timestamp(a, a_zone), DataType::Timestamp(b, b_zone)) => {
            a == b && a_zone.is_some() == b_zone.is_some()
        }
        _ => a == b,
    }
}

pub(crate) fn cast(expression: Expr, to: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expression), to.clone()))
}

/// The form to which operands are converted.
#[derive(Debug, PartialEq)]
enum Common {
    Type(DataType),
    /// A number for comparisons; texts are first parsed as this type.
    Key(DataType),
}

/// The common type of result columns with different time types.
pub(crate) fn common_result(types: &[DataType]) -> Option<DataType> {
    common_with_texts(&types.iter().map(|kind| (kind.clone(), false)).collect::<Vec<_>>())
}

/// The type that operands of these types are brought to, of which some are texts in quotes, if the others are times.
pub(crate) fn common_with_texts(kinds: &[(DataType, bool)]) -> Option<DataType> {
    match common(kinds, false)? {
        Common::Type(to) => Some(to),
        Common::Key(_) => None,
    }
}

/// The form for operands of these types, some of which are literals; `None` if nothing needs to be converted.
fn common(kinds: &[(DataType, bool)], compared: bool) -> Option<Common> {
    let texts_are_read = kinds.iter().all(|(kind, is_literal)| !is_text(kind) || compared || *is_literal);
    let known: Vec<&DataType> = kinds.iter().map(|(kind, _)| kind).filter(|kind| **kind != DataType::Null).collect();
    let times: Vec<&DataType> = known.iter().copied().filter(|kind| !is_text(kind)).collect();
    let first = *times.first()?;
    if !texts_are_read {
        return None;
    }
    let has_text = times.len() < known.len();
    if times.iter().all(|kind| is_span(kind)) {
        let alike = times.iter().all(|kind| *kind == first) && !has_text;
        return match (compared, alike) {
            (true, true) if matches!(first, DataType::Duration(_)) => None,
            (true, _) => Some(Common::Key(INTERVAL)),
            (false, true) => None,
            (false, false) => Some(Common::Type(INTERVAL)),
        };
    }
    let alike = times.iter().all(|kind| *kind == first) && !has_text;
    if alike {
        return None;
    }
    if times.iter().all(|kind| is_time_of_day(kind)) {
        let finest = times.iter().max_by_key(|kind| unit(kind).map_or(0, per_second))?;
        return Some(Common::Type((*finest).clone()));
    }
    let is_date = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
    if times.iter().all(|kind| *kind == &DataType::Date32) {
        return Some(Common::Type(DataType::Date32));
    }
    if !times.iter().all(|kind| is_date(kind) || matches!(kind, DataType::Timestamp(..))) {
        return None;
    }
    let zone = times.iter().any(|kind| matches!(kind, DataType::Timestamp(_, Some(_)))).then(|| Arc::<str>::from(UTC));
    let units: Vec<TimeUnit> = times.iter().filter_map(|kind| unit(kind)).collect();
    let coarse = has_text || times.iter().any(|kind| is_date(kind));
    let least = if coarse { TimeUnit::Microsecond } else { TimeUnit::Second };
    let finest = units.iter().copied().fold(least, finer);
    let loses = compared && finest == TimeUnit::Nanosecond && times.iter().any(|kind| unit(kind) != Some(finest));
    let to = DataType::Timestamp(finest, zone);
    // The range of nanoseconds does not contain all values of the other types.
    Some(if loses && !to_be_moved(&times) { Common::Key(to) } else { Common::Type(to) })
}

/// Whether only some types have a time zone, so that the others are converted before the comparison.
fn to_be_moved(times: &[&DataType]) -> bool {
    let zoned = times.iter().filter(|kind| matches!(kind, DataType::Timestamp(_, Some(_)))).count();
    zoned > 0 && zoned < times.len()
}

fn unit(kind: &DataType) -> Option<TimeUnit> {
    match kind {
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    }
}

/// Replaces comparisons so that columns are compared in their own unit, if [`in_coarse_unit`] supports them.
pub(crate) fn narrowed(expression: &mut Expr, context: &Context) -> bool {
    let narrowed = in_coarse_unit(expression, context);
    let changes = narrowed.is_some();
    narrowed.into_iter().for_each(|narrowed| *expression = narrowed);
    changes
}

/// A comparison of a date or timestamp column with constants of another unit, converted to the column's own unit, so
/// that the column is compared as stored.
fn in_coarse_unit(expression: &Expr, context: &Context) -> Option<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let flipped = op.swap()?;
            compared_with_constant(left, *op, right, context)
                .or_else(|| compared_with_constant(right, flipped, left, context))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let low = compared_with_constant(expr, Operator::GtEq, low, context)?;
            let high = compared_with_constant(expr, Operator::LtEq, high, context)?;
            let within = low.and(high);
            Some(if *negated { Expr::Not(Box::new(within)) } else { within })
        }
        Expr::InList(list) => {
            let (column, column_type) = uncast(&list.expr, context)?;
            let mut values = vec![];
            for value in &list.list {
                let (floor, exact) = floor(value, &column_type, context)?;
                values.extend(exact.then(|| Expr::Literal(floor, None)));
            }
            let mut list = list.clone();
            (*list.expr, list.list) = (column, values);
            (!list.list.is_empty()).then_some(Expr::InList(list))
        }
        _ => None,
    }
}

fn compared_with_constant(column: &Expr, op: Operator, constant: &Expr, context: &Context) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let (column, column_type) = uncast(column, context)?;
    let (floor, exact) = floor(constant, &column_type, context)?;
    let op = match (op, exact) {
        (Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom | Lt | LtEq | Gt | GtEq, true) => op,
        (Lt | LtEq, false) => LtEq,
        (Gt | GtEq, false) => Gt,
        _ => return None,
    };
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(column), op, Box::new(Expr::Literal(floor, None)))))
}

/// The date or timestamp that was widened for a comparison, and its type.
fn uncast(expression: &Expr, context: &Context) -> Option<(Expr, DataType)> {
    let cast = match expression {
        Expr::Cast(cast) => Some(cast.expr.as_ref()),
        _ => convert::argument(expression),
    };
    let widened = cast.filter(|inner| match (context.type_of(inner), context.type_of(expression)) {
        (DataType::Date32, DataType::Timestamp(_, None)) => true,
        (DataType::Timestamp(a, from), DataType::Timestamp(b, to)) => {
            from.is_some() == to.is_some() && per_second(a) < per_second(b)
        }
        _ => false,
    });
    let inner = widened.unwrap_or(expression);
    let kind = context.type_of(inner);
    let has_column = inner.any_column_refs() || matches!(inner, Expr::OuterReferenceColumn(..));
    let is_time = matches!(kind, DataType::Date32 | DataType::Timestamp(..));
    (is_time && has_column).then(|| (inner.clone(), kind))
}

/// The largest value of a type that is not after a constant timestamp of another type, and whether the two are equal.
fn floor(constant: &Expr, to: &DataType, context: &Context) -> Option<(ScalarValue, bool)> {
    let kind = context.type_of(constant);
    let DataType::Timestamp(unit, zone) = &kind else { return None };
    let is_alike = match to {
        DataType::Date32 => zone.is_none(),
        DataType::Timestamp(to, to_zone) => to != unit && to_zone.is_some() == zone.is_some(),
        _ => false,
    };
    if !is_alike {
        return None;
    }
    let value = context.constant(constant).filter(|value| !value.is_null())?;
    let ScalarValue::Int64(Some(ticks)) = value.cast_to(&DataType::Int64).ok()? else { return None };
    let ns = i128::from(ticks) * i128::from(SECOND_NS / per_second(*unit));
    let tick = match to {
        DataType::Timestamp(unit, _) => SECOND_NS / per_second(*unit),
        _ => DAY_NS,
    };
    let (floor, exact) = (ns.div_euclid(i128::from(tick)), ns.rem_euclid(i128::from(tick)) == 0);
    let floor = match to {
        DataType::Date32 => ScalarValue::Date32(Some(i32::try_from(floor).ok()?)),
        _ => ScalarValue::Int64(Some(i64::try_from(floor).ok()?)).cast_to(to).ok()?,
    };
    Some((floor, exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(unit: TimeUnit, zone: Option<&str>) -> DataType {
        DataType::Timestamp(unit, zone.map(Into::into))
    }

    #[test]
    fn operands_meet_where_all_of_them_fit() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let plain = |unit| timestamp(unit, None);
        let zoned = |unit| timestamp(unit, Some(UTC));
        let (date, text, duration) = (DataType::Date32, DataType::Utf8View, DataType::Duration(Microsecond));
        let to = |kind: DataType| Some(Common::Type(kind));
        for (types, compared, expected) in [
            (vec![date.clone(), plain(Second)], true, to(plain(Microsecond))),
            (vec![date.clone(), plain(Nanosecond)], true, Some(Common::Key(plain(Nanosecond)))),
            (vec![date.clone(), plain(Nanosecond)], false, to(plain(Nanosecond))),
            (vec![date.clone(), text.clone()], true, to(date.clone())),
            (vec![date.clone(), text.clone()], false, None),
            (vec![date.clone(), date.clone()], true, None),
            (vec![plain(Second), plain(Millisecond)], true, to(plain(Millisecond))),
            (vec![plain(Microsecond), zoned(Second)], true, to(zoned(Microsecond))),
            (vec![zoned(Microsecond), date.clone(), DataType::Null], false, to(zoned(Microsecond))),
            (vec![plain(Second), text.clone()], true, to(plain(Microsecond))),
            (vec![INTERVAL, duration.clone()], true, Some(Common::Key(INTERVAL))),
            (vec![INTERVAL, INTERVAL], true, Some(Common::Key(INTERVAL))),
            (vec![INTERVAL, INTERVAL], false, None),
            (vec![duration.clone(), duration], true, None),
            (vec![DataType::Time32(Second), DataType::Time64(Microsecond)], true, to(DataType::Time64(Microsecond))),
            (vec![date, DataType::Int64], true, None),
            (vec![text, DataType::Null], true, None),
        ] {
            let kinds: Vec<(DataType, bool)> = types.iter().map(|kind| (kind.clone(), false)).collect();
            assert_eq!(common(&kinds, compared), expected, "{types:?}");
        }
    }
}
