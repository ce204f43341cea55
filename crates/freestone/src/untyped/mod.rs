//! Texts in quotes that take the type of the other operands, as in PostgreSQL: `coalesce(ts, '2024-01-01')` is a
//! timestamp, `(VALUES (1), ('2'))` has integers, and `d = '1.504'` compares decimals. A text among texts remains a text.
//!
//! Operands that have to be of one type are those of [`of_one_type`]: comparisons, BETWEEN, IN, CASE, and some functions. The
//! rule [`UntypedTexts`] replaces the texts among them, and those in UNION, INTERSECT and EXCEPT, when a plan is analyzed.
//! What DataFusion would refuse before is replaced while SQL is planned: in comparisons and arithmetic by [`UntypedPlanner`], and in
//! functions by [`functions`].

mod functions;
mod sets;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

pub(crate) use functions::register;

use crate::error::{Error, ErrorKind};
use crate::expressions::{OneType, of_one_type, try_changed};
use crate::ingest::values::decimal;
use crate::ingest::{UUID, ValueProblem};
use crate::times;
use crate::type_names::type_name;

/// Gives texts in quotes their types.
#[derive(Debug)]
pub(crate) struct UntypedTexts;

impl AnalyzerRule for UntypedTexts {
    fn name(&self) -> &str {
        "untyped_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        let typed = plan.transform_up_with_subqueries(|plan| {
            let changed = node(plan)?;
            any |= changed.transformed;
            // Types of inputs may have changed as well.
            if any { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        })?;
        Ok(typed.data)
    }
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let changed = try_changed(plan, |mut expression, schema| {
        let mut changed = sets::in_subquery(&mut expression, schema)?;
        for group in of_one_type(&mut expression) {
            changed |= typed(group, schema)?;
        }
        changed |= null_pattern(&mut expression);
        changed |= functions::in_list(&mut expression, schema)?;
        changed |= functions::put_back(&mut expression);
        Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
    })?;
    let transformed = changed.transformed;
    let of_set = sets::in_set_operation(changed.data)?;
    Ok(Transformed::new_transformed(of_set.data, transformed | of_set.transformed))
}

/// Makes a NULL beside LIKE a text. DataFusion gives it the type of the other operand, even where that is a list.
fn null_pattern(expression: &mut Expr) -> bool {
    let Expr::Like(like) = expression else { return false };
    let mut changed = false;
    for operand in [&mut like.expr, &mut like.pattern] {
        if let Expr::Literal(value @ ScalarValue::Null, _) = operand.as_mut() {
            *value = ScalarValue::Utf8View(None);
            changed = true;
        }
    }
    changed
}

/// Gives the texts of a group the type that the others have.
fn typed(group: OneType<'_>, schema: &DFSchema) -> Result<bool> {
    let is_quoted = group.operands.iter().any(|operand| text(operand).is_some());
    let of_uuid = |operand: &Expr| operand.get_type(schema).is_ok_and(|kind| kind == UUID);
    if !is_quoted && !group.operands.iter().any(|operand| of_uuid(operand)) {
        return Ok(false);
    }
    let operands: Vec<Operand> = group.operands.iter().map(|operand| Operand::of(operand, schema)).collect();
    // Times are compared in the finer unit of both, for which their own rule reads the texts.
    let kinds = types(&operands)?.filter(|_| !(group.compared && has_times(&operands)));
    let Some(kinds) = kinds else { return Ok(false) };
    for (operand, kind) in group.operands.into_iter().zip(kinds) {
        if let Some(kind) = kind {
            *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), kind));
        }
    }
    Ok(true)
}

fn has_times(operands: &[Operand]) -> bool {
    operands.iter().any(|operand| operand.kind.is_temporal() || matches!(operand.kind, DataType::Interval(_)))
}

/// What is known of an operand: its type, and its text, if it is one in quotes.
struct Operand {
    kind: DataType,
    text: Option<String>,
}

impl Operand {
    fn of(expression: &Expr, schema: &DFSchema) -> Operand {
        let kind = expression.get_type(schema).unwrap_or(DataType::Null);
        Operand { kind, text: text(expression).map(str::to_owned) }
    }
}

/// The text of a literal in quotes.
fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(value, _) => text_of(value),
        Expr::Alias(alias) => text(&alias.expr),
        _ => None,
    }
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

/// The types that the texts among operands are cast to, by operand; nothing where texts remain texts.
///
/// # Errors
/// A text with a fraction, where the others are integers: a cast that is written rounds it, but none is.
fn types(operands: &[Operand]) -> Result<Option<Vec<Option<DataType>>>> {
    let kinds: Vec<(DataType, bool)> =
        operands.iter().map(|operand| (operand.kind.clone(), operand.text.is_some())).collect();
    if operands.iter().any(|operand| operand.kind == UUID) {
        // A UUID is compared with any text that spells one.
        return Ok(Some(operands.iter().map(|operand| times::is_text(&operand.kind).then_some(UUID)).collect()));
    }
    let Some(common) = times::common_with_texts(&kinds).or_else(|| common_of_others(operands)) else { return Ok(None) };
    if common.is_integer() {
        operands
            .iter()
            .filter_map(|operand| operand.text.as_deref())
            .try_for_each(|text| check_whole(text, &common))?;
    }
    let own = |operand: &Operand| Some(own_type(operand.text.as_ref()?, &common));
    Ok(Some(operands.iter().map(own).collect()))
}

/// The common type of the operands that are no texts in quotes, if it is one that texts are read as.
fn common_of_others(operands: &[Operand]) -> Option<DataType> {
    let others = operands.iter().filter(|operand| operand.text.is_none() && operand.kind != DataType::Null);
    let mut kinds: Vec<DataType> = vec![];
    for other in others {
        if times::is_text(&other.kind) {
            return None;
        }
        if !kinds.contains(&other.kind) {
            kinds.push(other.kind.clone());
        }
    }
    let common = if kinds.len() > 1 { type_union_resolution(&kinds)? } else { kinds.pop()? };
    let is_nested = common.is_nested() && !matches!(common, DataType::Dictionary(..));
    (common.is_numeric() || common == DataType::Boolean || common == UUID || is_nested).then_some(common)
}

/// The type as which a text is read if the other values have a type: a decimal has the digits of the text, of which none is lost.
fn own_type(text: &str, common: &DataType) -> DataType {
    match common {
        DataType::Decimal128(..) => decimal_of(text).unwrap_or_else(|| common.clone()),
        other => other.clone(),
    }
}

/// That a text which becomes an integer has no fraction.
fn check_whole(text: &str, to: &DataType) -> Result<()> {
    if !matches!(decimal(text.trim().as_bytes(), 0, 10i128.pow(38)), Err(ValueProblem::Precision)) {
        return Ok(());
    }
    let to = type_name(to);
    let message = format!("Cannot cast string '{text}' to value of {to} type");
    Err(Error::new(ErrorKind::Type, message).with_hint(format!("CAST('{text}' AS {to}) rounds it")).into())
}

/// The type of a text that is a decimal number without an exponent.
fn decimal_of(text: &str) -> Option<DataType> {
    let digits = text.trim();
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scale = u8::try_from(fraction.len()).ok()?;
    let precision = u8::try_from(whole.trim_start_matches('0').len()).ok()?.checked_add(scale)?.max(1);
    (precision <= DECIMAL128_MAX_PRECISION).then_some(DataType::Decimal128(precision, i8::try_from(scale).ok()?))
}

/// Comparisons and arithmetic with a text that DataFusion would refuse when it plans them.
#[derive(Debug)]
pub(crate) struct UntypedPlanner;

impl ExprPlanner for UntypedPlanner {
    fn plan_binary_op(&self, mut binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
        // Operators of times read their own texts.
        if matches!(binary.op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo) {
            let operands = vec![&mut binary.left, &mut binary.right];
            typed(OneType { operands, compared: true }, schema)?;
        }
        Ok(PlannerResult::Original(binary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operands: &[(DataType, Option<&str>)], expected: Option<&[Option<DataType>]>) {
        let given: Vec<Operand> =
            operands.iter().map(|(kind, text)| Operand { kind: kind.clone(), text: text.map(str::to_owned) }).collect();
        assert_eq!(types(&given).expect("types").as_deref(), expected, "{operands:?}");
    }

    #[test]
    fn texts_take_the_type_of_the_others() {
        use DataType::{Boolean, Decimal128, Float64, Int32, Int64, Null, Utf8};
        check(&[(Int32, None), (Utf8, Some("1"))], Some(&[None, Some(Int32)]));
        check(&[(Utf8, Some("t")), (Boolean, None)], Some(&[Some(Boolean), None]));
        check(&[(Int32, None), (Int64, None), (Utf8, Some("x"))], Some(&[None, None, Some(Int64)]));
        check(&[(Null, None), (Float64, None), (Utf8, Some("NaN"))], Some(&[None, None, Some(Float64)]));
        check(&[(Decimal128(4, 2), None), (Utf8, Some("1.504"))], Some(&[None, Some(Decimal128(4, 3))]));
        check(&[(Decimal128(4, 2), None), (Utf8, Some("1e3"))], Some(&[None, Some(Decimal128(4, 2))]));
        check(&[(Null, None), (Utf8, Some("x"))], None);
        check(&[(Utf8, None), (Utf8, Some("x"))], None);
        check(&[(Utf8, None), (Int32, None), (Utf8, Some("1"))], None);
        check(&[], None);
    }

    #[test]
    fn a_decimal_has_the_digits_of_its_text() {
        for (text, expected) in [
            ("1.50", Some((3, 2))),
            (" -007 ", Some((1, 0))),
            ("0", Some((1, 0))),
            (".5", Some((1, 1))),
            ("1.", Some((1, 0))),
            ("99999999999999999999999999999999999999", Some((38, 0))),
            ("999999999999999999999999999999999999999", None),
            ("", None),
            ("-", None),
            (".", None),
            ("1e3", None),
            ("NaN", None),
        ] {
            let expected = expected.map(|(precision, scale)| DataType::Decimal128(precision, scale));
            assert_eq!(decimal_of(text), expected, "{text}");
        }
    }
}
