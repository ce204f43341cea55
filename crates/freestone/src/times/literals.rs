//! Rewrites literals of times, and forms of SQL with them, as function calls before they are planned: `AT TIME ZONE`,
//! intervals in PostgreSQL's forms, timestamps without seconds.

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DateTimeField, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, UnaryOperator, Value,
};

use super::arrays::timestamptz;
use super::convert::{is_zoned_by_name, plain_literal};
use super::interval::Interval;
use super::interval_text::{Fields, Unit, parse};
use super::text;
use crate::sql::types;
use crate::sql::visitor;

/// Rewrites all of them.
pub(crate) fn rewrite(sql: &mut impl ast::VisitMut) {
    visitor::expressions_mut(sql, &mut rewrite_one);
}

fn rewrite_one(expr: &mut Expr) {
    match expr {
        Expr::AtTimeZone { timestamp, time_zone } => {
            let (time, zone) =
                (std::mem::replace(&mut **timestamp, null()), std::mem::replace(&mut **time_zone, null()));
            *expr = call("timezone", vec![zone, time]);
        }
        Expr::Interval(literal) => {
            if let Some(rewritten) = plain_interval(literal) {
                *expr = rewritten;
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            if let Expr::Interval(literal) = inner.as_ref()
                && let Some(negative) = value_of(literal).and_then(Interval::checked_neg)
            {
                *expr = written(negative);
            }
        }
        Expr::TypedString(typed) => {
            if is_of_nanoseconds(&typed.value.value, &typed.data_type) {
                typed.data_type = ast::DataType::Timestamp(Some(9), ast::TimezoneInfo::None);
            }
            if let Some(call) = plain_text(&mut typed.value.value, &typed.data_type) {
                *expr = call;
            }
        }
        Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr: inner, data_type, .. } => {
            if let Expr::Value(value) = inner.as_mut()
                && let Some(call) = plain_text(&mut value.value, data_type)
            {
                *expr = call;
            }
        }
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("age") => {
            if let FunctionArguments::List(list) = &mut function.args
                && list.args.len() == 1
            {
                let today = call("current_date", vec![]);
                list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(today)));
            }
        }
        _ => {}
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Whether a `TIMESTAMP '…'` has a fraction that microseconds do not represent, in a year that nanoseconds do.
fn is_of_nanoseconds(value: &Value, data_type: &ast::DataType) -> bool {
    let ast::DataType::Timestamp(None, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) = data_type else {
        return false;
    };
    matches!(value, Value::SingleQuotedString(text) if has_nanoseconds(text))
}

/// Whether the text of a timestamp has a fraction that microseconds do not represent, in a year that nanoseconds do.
pub(crate) fn has_nanoseconds(text: &str) -> bool {
    let Some(written) = text::parse(text) else { return false };
    let is_in_range = |days| (1678..=2261).contains(&super::calendar::civil(days).year);
    written.days.is_some_and(is_in_range) && written.ns.is_some_and(|ns| ns % 1_000 != 0)
}

/// Rewrites a timestamp literal in the form that DataFusion reads. For one that depends on the session's time zone,
/// returns a call, because DataFusion would use UTC.
fn plain_text(value: &mut Value, data_type: &ast::DataType) -> Option<Expr> {
    let Value::SingleQuotedString(text) = value else { return None };
    let to = types::sql_type(data_type).filter(|to| matches!(to, DataType::Timestamp(..)))?;
    if to == timestamptz() && is_zoned_by_name(text) {
        return Some(call("to_timestamp", vec![Expr::value(value.clone())]));
    }
    if let Some(plain) = plain_literal(text, &to) {
        *text = plain;
    }
    None
}

/// An interval in months, days and nanoseconds. `INTERVAL (n) DAY` becomes a product.
fn plain_interval(literal: &ast::Interval) -> Option<Expr> {
    if let Some(value) = value_of(literal) {
        return Some(written(value));
    }
    let unit = unit_of(literal.leading_field.as_ref()?)?;
    if literal.last_field.is_some() || is_number_or_text(&literal.value) {
        return None;
    }
    let one = parse("1", Some(Fields { first: unit, last: unit }))?;
    let count = match literal.value.as_ref() {
        nested @ Expr::Nested(_) => Box::new(nested.clone()),
        _ => Box::new(Expr::Nested(literal.value.clone())),
    };
    let product = Expr::BinaryOp { left: count, op: BinaryOperator::Multiply, right: Box::new(written(one)) };
    Some(Expr::Nested(Box::new(product)))
}

fn is_number_or_text(value: &Expr) -> bool {
    matches!(value, Expr::Value(_) | Expr::UnaryOp { .. })
}

/// The interval of a literal.
fn value_of(literal: &ast::Interval) -> Option<Interval> {
    let text = match literal.value.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            Value::Number(digits, _) => digits.clone(),
            _ => return None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => format!("-{digits}"),
                _ => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    let fields = match &literal.leading_field {
        None => None,
        Some(first) => {
            let first = unit_of(first)?;
            let last = literal.last_field.as_ref().map_or(Some(first), unit_of)?;
            Some(Fields { first, last })
        }
    };
    parse(&text, fields)
}

fn unit_of(field: &DateTimeField) -> Option<Unit> {
    Unit::named(&field.to_string())
}

fn written(value: Interval) -> Expr {
    let Interval { months, days, ns } = value;
    let text = Expr::value(Value::SingleQuotedString(format!("{months} months {days} days {ns} nanoseconds")));
    Expr::Interval(ast::Interval {
        value: Box::new(text),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn literals_are_put_in_plain_words() {
        for (sql, expected) in [
            ("SELECT INTERVAL '1-2' YEAR TO MONTH", "SELECT INTERVAL '14 months 0 days 0 nanoseconds'"),
            ("SELECT -INTERVAL '1 day 2 hours'", "SELECT INTERVAL '0 months -1 days -7200000000000 nanoseconds'"),
            ("SELECT INTERVAL 3 DAY", "SELECT INTERVAL '0 months 3 days 0 nanoseconds'"),
            ("SELECT INTERVAL (a) DAY FROM t", "SELECT ((a) * INTERVAL '0 months 1 days 0 nanoseconds') FROM t"),
            ("SELECT a AT TIME ZONE 'UTC' FROM t", "SELECT timezone('UTC', a) FROM t"),
            ("SELECT TIMESTAMP '2024-1-5 10:00'", "SELECT TIMESTAMP '2024-01-05 10:00:00'"),
            ("SELECT TIMESTAMPTZ '2024-01-05'", "SELECT to_timestamp('2024-01-05')"),
            ("SELECT TIMESTAMPTZ '2024-01-05 10:00Z'", "SELECT TIMESTAMPTZ '2024-01-05 10:00:00+00:00'"),
            ("SELECT '2024-01-05 10:00'::TIMESTAMP", "SELECT '2024-01-05 10:00:00'::TIMESTAMP"),
            ("SELECT TIMESTAMP '2024-01-05 10:00:00.000000001'", "SELECT TIMESTAMP(9) '2024-01-05 10:00:00.000000001'"),
            ("SELECT TIMESTAMP '2024-01-05 10:00:00.123456000'", "SELECT TIMESTAMP '2024-01-05 10:00:00.123456'"),
            ("SELECT age(a) FROM t", "SELECT age(current_date(), a) FROM t"),
        ] {
            let mut statements = Parser::parse_sql(&GenericDialect {}, sql).expect(sql);
            super::rewrite(&mut statements);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
