//! Decimals beside reals become reals. DataFusion makes decimals of the reals, `DECIMAL(30, 15)`: reals of 1e15 and more are an error
//! there, those below 1e-15 are zero, and a column of reals is converted row by row where it can be compared as it is stored.
//! Times of day of different units are compared in the finest of them, which holds all of the others: DataFusion knows no common
//! type of theirs.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Between, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use crate::exact::ExactNumbers;
use crate::expressions;
use crate::optimizer::{AggregateCalls, GroupKeys, Guards, InLists, SetOperations, Unnesting};

/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// DataFusion's rules, with this one before operands get one type, and ours for subqueries, lists and guards behind.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let at = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(at, Arc::new(RealOperands));
    rules.insert(0, Arc::new(SetOperations));
    rules.push(Arc::new(Unnesting));
    rules.push(Arc::new(ExactNumbers));
    rules.push(Arc::new(InLists));
    rules.push(Arc::new(Guards));
    rules.push(Arc::new(AggregateCalls));
    rules.push(Arc::new(GroupKeys));
    rules
}

/// Makes decimals that are compared with reals, or that are a result beside reals, reals of the same width.
#[derive(Debug)]
struct RealOperands;

impl AnalyzerRule for RealOperands {
    fn name(&self) -> &str {
        "real_operands"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let changed = expressions::changed(plan, in_expression)?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}

fn in_expression(mut expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = with_plain_digits(&mut expression);
    for operands in of_one_type(&mut expression) {
        let types: Vec<_> = operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        changed |= match finest_time(&types) {
            Some(finest) => as_times(operands, &types, &finest),
            None => as_reals(operands, types),
        };
    }
    if changed { Transformed::yes(expression) } else { Transformed::no(expression) }
}

/// The digits that `round` keeps, of the type that it takes: below a cast, they are no literal for DataFusion, and the type
/// of a rounded decimal is another before and after constants are computed.
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

/// The operands of an expression, together where they have to be of one type.
fn of_one_type(expression: &mut Expr) -> Vec<Vec<&mut Expr>> {
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => vec![vec![&mut binary.left, &mut binary.right]],
        Expr::Between(Between { expr, low, high, .. }) => vec![vec![expr, low, high]],
        Expr::InList(list) => vec![std::iter::once(&mut *list.expr).chain(&mut list.list).collect()],
        Expr::Case(case) => {
            let (whens, thens): (Vec<_>, Vec<_>) =
                case.when_then_expr.iter_mut().map(|(when, then)| (&mut **when, &mut **then)).unzip();
            let compared = case.expr.iter_mut().map(|e| &mut **e).chain(whens).collect();
            vec![compared, thens.into_iter().chain(case.else_expr.iter_mut().map(|e| &mut **e)).collect()]
        }
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.func.name()) => vec![call.args.iter_mut().collect()],
        _ => vec![],
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The type with the finest unit, where there are times of day of different units.
fn finest_time(types: &[DataType]) -> Option<DataType> {
    let unit = |kind: &DataType| match kind {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    };
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    let mut times = types.iter().filter(|kind| unit(kind).is_some());
    let first = times.next()?;
    let differ = times.clone().any(|kind| kind != first);
    let finest = times.chain([first]).max_by_key(|kind| unit(kind).map(rank))?;
    differ.then(|| finest.clone())
}

fn as_times(operands: Vec<&mut Expr>, types: &[DataType], finest: &DataType) -> bool {
    for (operand, kind) in operands.into_iter().zip(types) {
        if matches!(kind, DataType::Time32(_) | DataType::Time64(_)) && kind != finest {
            *operand = Expr::Cast(Cast::new(Box::new(std::mem::take(operand)), finest.clone()));
        }
    }
    true
}

fn as_reals(operands: Vec<&mut Expr>, types: Vec<DataType>) -> bool {
    let Some(real) = [DataType::Float64, DataType::Float32].into_iter().find(|real| types.contains(real)) else {
        return false;
    };
    let mut changed = false;
    for (operand, kind) in operands.into_iter().zip(types) {
        if kind.is_decimal() {
            *operand = as_real(std::mem::take(operand), &real);
            changed = true;
        }
    }
    changed
}

/// Literals by their digits: the quotient of a cast may differ from them in its last digit.
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
