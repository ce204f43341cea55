//! Refuses to mix times with numbers: a date compared with an integer would be compared by its days since 1970, so
//! `d > 20240101` would be true of no row.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::arrays::{is_span, is_time_of_day};
use super::calendar::checked_days;
use super::text::date_text;
use crate::error::{Error, ErrorKind};
use crate::expressions::{OneType, of_one_type};
use crate::type_names::type_name;

/// Checks the operands of an expression that have to be of one type.
///
/// # Errors
/// Times are mixed with numbers. The hint writes the number as a date if it looks like one.
pub(crate) fn check(expression: &mut Expr, schema: &DFSchema) -> Result<()> {
    if let Expr::Negative(operand) = expression
        && let kind @ (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) = operand.get_type(schema)?
    {
        return Err(Error::new(ErrorKind::Type, format!("there is no operator - {}", type_name(&kind))).into());
    }
    for OneType { operands, compared } in of_one_type(expression) {
        let types: Vec<DataType> = operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect();
        let is_mixed = check_types(&types, compared);
        let number = operands.iter().find_map(|operand| as_date(operand));
        is_mixed.map_err(|error| match number {
            Some(hint) => error.with_hint(hint),
            None => error,
        })?;
    }
    Ok(())
}

/// Checks types that are compared with each other, or are those of one result.
///
/// # Errors
/// As for [`check`].
pub(crate) fn check_types(types: &[DataType], compared: bool) -> std::result::Result<(), Error> {
    let is_time = |kind: &&DataType| {
        matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
            || is_time_of_day(kind)
            || is_span(kind)
    };
    let (Some(time), Some(number)) = (types.iter().find(is_time), types.iter().find(|kind| kind.is_numeric())) else {
        return Ok(());
    };
    let (time, number) = (type_name(time), type_name(number));
    let message = match compared {
        true => format!("{time} and {number} cannot be compared"),
        false => format!("{time} and {number} have no common type"),
    };
    let hint = match time.as_str() {
        "DATE" => "write a date as DATE '2024-01-31'; DATE '1970-01-01' + n is the date n days after it",
        "INTERVAL" => "write an interval as INTERVAL '3 days'; INTERVAL '1 day' * n has n days",
        "TIME" => "write a time as TIME '10:00:00'",
        _ => "write a timestamp as TIMESTAMP '2024-01-31 10:00:00'; to_timestamp(n) is n seconds after 1970",
    };
    Err(Error::new(ErrorKind::Type, message).with_hint(hint))
}

/// What to write in place of `20240131`.
fn as_date(operand: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = operand else { return None };
    let ScalarValue::Int64(Some(number)) = value else { return None };
    let is_plausible = (10_000_101..=99_991_231).contains(number);
    let days = checked_days(number / 10_000, number / 100 % 100, number % 100).filter(|_| is_plausible)?;
    Some(format!("write DATE '{}' instead of {number}", date_text(days)))
}
