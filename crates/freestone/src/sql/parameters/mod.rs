//! Parameters of statements. Each has the type that the caller declared, or the type of its value.
//!
//! A value is never narrowed to the type of the other operand: `i = $1` with 1.5 compares fractional numbers, as with a
//! literal. Strings and NULLs without a declared type are like literals in quotes and NULL, whose type depends on the
//! context. So they are written into the statement as literals. All other parameters are planned with their types.

mod inference;
pub(crate) mod literals;
pub(crate) mod places;

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, Query, Statement, TableFactor, Value, VisitorMut,
};

pub(crate) use inference::inferred;

use crate::error::{Error, ErrorKind, Result};
use crate::inputs::{ArrowTable, Inputs};
use crate::sql::types;
use crate::sql::visitor;
use crate::sql::written::Written;

/// The maximum number of parameters of a statement, as in PostgreSQL's protocol.
const NUMBER_MAX: usize = 65_535;

/// Values of `$1`, `$2`, …, their declared types, and the tables of the statement's caller.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    pub types: Vec<Option<DataType>>,
    pub values: Vec<ScalarValue>,
    pub tables: Arc<HashMap<String, ArrowTable>>,
    /// The statement as it was written, for the binder.
    pub written: Option<Arc<Written>>,
}

impl Parameters {
    /// The statement as it was written.
    ///
    /// # Errors
    /// It is not known.
    pub fn written(&self) -> Result<&Arc<Written>> {
        let unknown = || Error::new(ErrorKind::Internal, "internal error: the text of a statement is missing");
        self.written.as_ref().ok_or_else(unknown)
    }

    /// The same for a statement within this one.
    pub fn of_part(&self, written: Written) -> Parameters {
        Parameters { written: Some(Arc::new(written)), ..self.clone() }
    }
}

impl From<Inputs> for Parameters {
    fn from(inputs: Inputs) -> Self {
        Parameters { types: inputs.types, values: inputs.values, tables: inputs.tables, written: None }
    }
}

/// The numbers of a statement's parameters.
///
/// # Errors
/// A number is invalid.
pub(crate) fn numbers(statement: &Statement) -> Result<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    let _ = visitor::expressions(statement, &mut |expr| {
        numbers.extend(placeholder(expr));
        ControlFlow::Continue(())
    });
    match numbers.iter().find(|number| !(1..=NUMBER_MAX).contains(*number)) {
        None => Ok(numbers),
        Some(number) => Err(Error::invalid(format!("there is no parameter ${number}"))
            .with_hint(format!("parameters have numbers from 1 to {NUMBER_MAX}"))),
    }
}

/// The number of the parameter, if the expression is one.
fn placeholder(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    name.strip_prefix('$')?.parse().ok()
}

/// The number of the parameter, if the expression is one, possibly in parentheses.
fn in_parentheses(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => in_parentheses(inner),
        other => placeholder(other),
    }
}

/// Whether the type of a value depends on the context.
fn is_untyped(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Null | ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
}

/// A statement in which untyped parameters were replaced by literals, with the types of the others and the values by
/// number.
pub(crate) struct Filled {
    /// Empty if no parameter is left.
    pub types: Vec<ast::DataType>,
    pub values: Vec<ScalarValue>,
}

/// Replaces untyped values by literals, and determines the types of the others.
///
/// # Errors
/// There are fewer values than parameters, or a value is not one of its declared type.
pub(crate) fn fill(statement: &mut Statement, parameters: &Parameters) -> Result<Filled> {
    let numbers = numbers(statement)?;
    let Some(last) = numbers.last().copied() else { return Ok(Filled { types: vec![], values: vec![] }) };
    if last > parameters.values.len() {
        return Err(count(last, parameters.values.len()));
    }
    let declared = |at: usize| parameters.types.get(at).cloned().flatten();
    let values = converted(&parameters.values[..last], &parameters.types)?;
    let literal = |number: usize| {
        let value = values.get(number - 1).filter(|value| declared(number - 1).is_none() && is_untyped(value))?;
        Some(text_or_null(value))
    };
    visitor::expressions_mut(statement, &mut |expr| {
        if let Some(literal) = placeholder(expr).and_then(literal) {
            *expr = literal;
        }
    });
    arguments_of_tables(statement, &|number| values.get(number - 1).and_then(as_literal));
    let left = !self::numbers(statement)?.is_empty();
    let types = values.iter().filter(|_| left).map(|value| types::parameter_type(&value.data_type())).collect();
    Ok(Filled { types, values })
}

/// The values in their declared types.
///
/// # Errors
/// A value is not one of its declared type.
pub(crate) fn converted(values: &[ScalarValue], types: &[Option<DataType>]) -> Result<Vec<ScalarValue>> {
    let convert = |(at, value): (usize, &ScalarValue)| match types.get(at) {
        Some(Some(declared)) => exactly(value, declared).map_err(|error| error.at(&format!("parameter ${}", at + 1))),
        _ => Ok(value.clone()),
    };
    values.iter().enumerate().map(convert).collect()
}

/// The value of a literal that has the same type in every context: an integer, text, a truth value or NULL.
pub(crate) fn literal(expression: &Expr) -> Option<ScalarValue> {
    let Expr::Value(value) = expression else { return None };
    match &value.value {
        Value::Number(digits, false) => digits.parse().ok().map(|number| ScalarValue::Int64(Some(number))),
        Value::SingleQuotedString(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
        Value::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
        Value::Null => Some(ScalarValue::Null),
        _ => None,
    }
}

/// The error of a wrong number of values.
pub(crate) fn count(expected: usize, given: usize) -> Error {
    Error::invalid(format!("the statement has {expected} parameters and was given {given}"))
}

/// Converts a value to another type, if the conversion is exact.
///
/// # Errors
/// The conversion would lose information.
pub(crate) fn exactly(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    let from = value.data_type();
    if from == *to {
        return Ok(value.clone());
    }
    let lost = || Error::new(ErrorKind::Type, format!("{value} is no value of its declared type"));
    let cast = value.cast_to(to).map_err(|error| lost().with_hint(error.strip_backtrace()))?;
    // Text is parsed as the type. Any other value must be equal to the result of the conversion back.
    if is_untyped(value) || cast.cast_to(&from).is_ok_and(|back| back == *value) { Ok(cast) } else { Err(lost()) }
}

fn text_or_null(value: &ScalarValue) -> Expr {
    let value = match value.try_as_str() {
        Some(Some(text)) => Value::SingleQuotedString(text.to_owned()),
        _ => Value::Null,
    };
    Expr::Value(value.with_empty_span())
}

/// A value as a literal for an argument of a table function, which is needed in planning.
fn as_literal(value: &ScalarValue) -> Option<Expr> {
    let number = |text: String| match text.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: Box::new(Expr::Value(Value::Number(digits.to_owned(), false).with_empty_span())),
        },
        None => Expr::Value(Value::Number(text, false).with_empty_span()),
    };
    match value {
        value if value.is_null() => Some(Expr::Value(Value::Null.with_empty_span())),
        ScalarValue::Boolean(Some(value)) => Some(Expr::Value(Value::Boolean(*value).with_empty_span())),
        value if value.data_type().is_integer() => Some(number(value.to_string())),
        value => {
            let text = Value::SingleQuotedString(value.to_string()).with_empty_span();
            Some(cast(Expr::Value(text), &value.data_type()))
        }
    }
}

fn cast(expr: Expr, data_type: &DataType) -> Expr {
    let Some(data_type) = types::arrow_type(data_type) else { return expr };
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Replaces parameters in the arguments of table functions by literals.
fn arguments_of_tables(statement: &mut Statement, literal: &dyn Fn(usize) -> Option<Expr>) {
    struct Arguments<'a>(&'a dyn Fn(usize) -> Option<Expr>);
    impl Arguments<'_> {
        fn fill(&self, arguments: &mut [FunctionArg]) {
            for argument in arguments {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
                | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. } = argument
                {
                    visitor::expressions_mut(expr, &mut |part| {
                        if let Some(literal) = placeholder(part).and_then(self.0) {
                            *part = literal;
                        }
                    });
                }
            }
        }
    }
    impl VisitorMut for Arguments<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { args: Some(args), .. } => self.fill(&mut args.args),
                TableFactor::Function { args, .. } => self.fill(args),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(statement, &mut Arguments(literal));
}

/// A statement to be described. Parameters of unknown types have the type NULL, and those in ANY and ALL are lists of
/// NULL.
pub(crate) struct Described {
    pub types: Vec<DataType>,
    /// Whether all types are known.
    pub complete: bool,
}

/// Prepares a statement whose values are not known yet. `known` are the types that the caller has declared.
///
/// # Errors
/// A number of a parameter is invalid.
pub(crate) fn describe(statement: &mut Statement, known: &[Option<DataType>]) -> Result<Described> {
    let last = numbers(statement)?.last().copied().unwrap_or(0).max(known.len());
    let mut types: Vec<DataType> =
        (0..last).map(|at| known.get(at).cloned().flatten().unwrap_or(DataType::Null)).collect();
    let chosen = |types: &[DataType], number: usize| types.get(number - 1).is_some_and(|t| *t != DataType::Null);
    let mut lists = vec![];
    let _ = visitor::expressions(statement, &mut |expr| {
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr {
            lists.extend(in_parentheses(right));
        }
        ControlFlow::Continue(())
    });
    for number in lists {
        if !chosen(&types, number) {
            types[number - 1] = DataType::new_list(DataType::Null, true);
        }
    }
    for number in in_limits(statement) {
        if !chosen(&types, number) {
            types[number - 1] = DataType::Int64;
        }
    }
    let mut in_tables = vec![];
    let asked = std::cell::RefCell::new(&mut in_tables);
    arguments_of_tables(statement, &|number| {
        asked.borrow_mut().push(number);
        let value = types.get(number - 1).filter(|known| **known != DataType::Null);
        let value = value.map_or(Ok(ScalarValue::Int64(Some(1))), ScalarValue::new_default).ok()?;
        as_literal(&value)
    });
    for number in in_tables {
        if !chosen(&types, number) {
            types[number - 1] = DataType::Int64;
        }
    }
    let complete = types.iter().all(is_known);
    Ok(Described { types, complete })
}

/// The types, with INTERVAL for every unknown parameter that is added to something. If a plan fails with NULL there,
/// the other operand may be a date or time.
pub(crate) fn with_intervals(statement: &Statement, types: &[DataType]) -> Vec<DataType> {
    let mut types = types.to_vec();
    let _ = visitor::expressions(statement, &mut |expr| {
        if let Expr::BinaryOp { left, op: ast::BinaryOperator::Plus | ast::BinaryOperator::Minus, right } = expr {
            for number in [left, right].into_iter().filter_map(|operand| in_parentheses(operand)) {
                if let Some(open) = types.get_mut(number - 1).filter(|open| **open == DataType::Null) {
                    *open = DataType::Interval(IntervalUnit::MonthDayNano);
                }
            }
        }
        ControlFlow::Continue(())
    });
    types
}

/// Whether a type is completely known.
pub(crate) fn is_known(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => false,
        DataType::List(field) => *field.data_type() != DataType::Null,
        _ => true,
    }
}

/// The parameters that are numbers of rows in LIMIT and OFFSET.
fn in_limits(statement: &Statement) -> Vec<usize> {
    struct Limits(Vec<usize>);
    impl ast::Visitor for Limits {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let counts = match &query.limit_clause {
                Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                    vec![limit.as_ref(), offset.as_ref().map(|offset| &offset.value)]
                }
                Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => vec![Some(offset), Some(limit)],
                None => vec![],
            };
            self.0.extend(counts.into_iter().flatten().filter_map(in_parentheses));
            ControlFlow::Continue(())
        }
    }
    let mut limits = Limits(vec![]);
    let _ = visitor::visit(statement, &mut limits);
    limits.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statement::parse_query;

    fn filled(sql: &str, values: Vec<ScalarValue>) -> Result<String> {
        let mut statement = Statement::Query(parse_query(sql)?);
        fill(&mut statement, &Parameters { values, ..Parameters::default() })?;
        Ok(statement.to_string())
    }

    #[test]
    fn texts_and_nulls_become_literals() {
        let text = |text: &str| ScalarValue::Utf8(Some(text.into()));
        let sql = "SELECT a FROM t WHERE a = $1 AND b = $2 AND c = $3";
        let values = vec![text("it's"), ScalarValue::Int64(Some(1)), ScalarValue::Null];
        let expected = "SELECT a FROM t WHERE a = 'it''s' AND b = $2 AND c = NULL";
        assert_eq!(filled(sql, values).expect(sql), expected);
        let sql = "SELECT a FROM t WHERE a SIMILAR TO $1 AND date_trunc($2, d) = d";
        let expected =
            "SELECT a FROM t WHERE a SIMILAR TO freestone_similar('x%', '\\') AND date_trunc('months', d) = d";
        assert_eq!(filled(sql, vec![text("x%"), text("months")]).expect(sql), expected);
        let sql = "SELECT * FROM generate_series($1, $2)";
        let values = vec![ScalarValue::Int64(Some(-3)), ScalarValue::Int32(Some(4))];
        let call = "generate_series(-3, 4)";
        assert_eq!(
            filled(sql, values).expect(sql),
            format!("SELECT * FROM {call} AS generate_series (generate_series)")
        );
    }

    #[test]
    fn wrong_numbers_are_errors() {
        assert!(filled("SELECT $2", vec![ScalarValue::Null]).expect_err("few").to_string().contains("2 parameters"));
        assert!(filled("SELECT $0", vec![]).is_err());
        assert!(filled("SELECT $99999999", vec![]).is_err());
    }

    #[test]
    fn values_become_declared_types_exactly_or_not_at_all() {
        let check = |value: ScalarValue, to: DataType, expected: Option<ScalarValue>| {
            assert_eq!(exactly(&value, &to).ok(), expected, "{value} to {to}");
        };
        check(ScalarValue::Int64(Some(7)), DataType::Int16, Some(ScalarValue::Int16(Some(7))));
        check(ScalarValue::Int64(Some(70_000)), DataType::Int16, None);
        check(ScalarValue::Float64(Some(1.5)), DataType::Int64, None);
        check(ScalarValue::Float64(Some(2.0)), DataType::Int64, Some(ScalarValue::Int64(Some(2))));
        check(ScalarValue::Decimal128(Some(15), 2, 1), DataType::Int32, None);
        check(ScalarValue::Utf8(Some("12".into())), DataType::Int32, Some(ScalarValue::Int32(Some(12))));
        check(ScalarValue::Utf8(Some("x".into())), DataType::Int32, None);
    }
}
