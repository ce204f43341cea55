//! Constants, and intervals.

use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, IntervalUnit, Literal};

use crate::binder::Binder;
use crate::error::{At, Result, invalid, unsupported};

/// The value of a constant.
///
/// # Errors
/// A number has too many digits, or hexadecimal digits are not in pairs.
pub(crate) fn value(literal: &Literal, negative: bool, span: Span) -> Result<Expr> {
    let value = match literal {
        Literal::Null => ScalarValue::Null,
        Literal::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Literal::Text(text) => ScalarValue::Utf8(Some(text.clone())),
        Literal::Number(digits) => number(digits, negative, span)?,
        Literal::Hexadecimal(digits) => ScalarValue::Binary(Some(bytes(digits, span)?)),
        // Its type is given by who binds it.
        Literal::Bits(digits) => ScalarValue::Utf8(Some(digits.clone())),
    };
    Ok(Expr::Literal(value, None))
}

/// The smallest type that holds a number: BIGINT, UBIGINT, DECIMAL, or DOUBLE where it has an exponent.
fn number(written: &str, negative: bool, span: Span) -> Result<ScalarValue> {
    let digits: String = written.chars().filter(|c| *c != '_').collect();
    let sign = if negative { "-" } else { "" };
    if let Some(value) = of_base(&digits) {
        return whole(&format!("{sign}{value}"), span);
    }
    if digits.contains(['e', 'E']) {
        let text = format!("{sign}{digits}");
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        return match value {
            Some(value) => Ok(ScalarValue::Float64(Some(value))),
            None => Err(invalid(span, format!("{written} is out of range for DOUBLE"))),
        };
    }
    whole(&format!("{sign}{digits}"), span)
}

/// The value of `0x1F`, `0o17` and `0b11`.
fn of_base(digits: &str) -> Option<u128> {
    let (base, rest) = match digits.get(..2)? {
        "0x" | "0X" => (16, digits.get(2..)?),
        "0o" | "0O" => (8, digits.get(2..)?),
        "0b" | "0B" => (2, digits.get(2..)?),
        _ => return None,
    };
    u128::from_str_radix(rest, base).ok()
}

/// A number without an exponent.
fn whole(text: &str, span: Span) -> Result<ScalarValue> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(ScalarValue::UInt64(Some(value)));
    }
    let unsigned = text.trim_start_matches('-');
    let (before, behind) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let significant = format!("{before}{behind}");
    let precision = significant.trim_start_matches('0').len().max(behind.len()).max(1);
    let too_long =
        || invalid(span, format!("{text} has more digits than a DECIMAL")).with_hint("write it as '…'::DOUBLE");
    let (precision, scale) = (u8::try_from(precision).map_err(|_| too_long())?, behind.len());
    let scale = i8::try_from(scale).map_err(|_| too_long())?;
    let data_type = match precision {
        1..=DECIMAL128_MAX_PRECISION => DataType::Decimal128(precision, scale),
        ..=DECIMAL256_MAX_PRECISION => DataType::Decimal256(precision, scale),
        _ => return Err(too_long()),
    };
    ScalarValue::try_from_string(text.to_owned(), &data_type).at(span)
}

/// The bytes of hexadecimal digits.
fn bytes(digits: &str, span: Span) -> Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    });
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| invalid(span, "hexadecimal digits stand in pairs"))
}

impl Binder<'_> {
    /// `INTERVAL '1 day'`, `INTERVAL 3 HOUR`, `INTERVAL (a) DAY`.
    pub fn interval(
        &mut self,
        value: &tree::Expr,
        unit: Option<IntervalUnit>,
        negative: bool,
        span: Span,
    ) -> Result<Expr> {
        if let Some(text) = written_amount(value) {
            let text = if negative { negated(&text) } else { Some(text) };
            let known = text.as_deref().and_then(|text| self.world.functions.interval(text, unit));
            if let Some(interval) = known {
                return Ok(Expr::Literal(interval, None));
            }
            if !negative {
                return Err(invalid(span, format!("this is no interval: {}", text.unwrap_or_default()))
                    .with_hint("INTERVAL '1 day 2 hours', INTERVAL '1' DAY, INTERVAL (n) DAY"));
            }
            let positive = self.interval(value, unit, false, span)?;
            return Ok(Expr::Negative(Box::new(positive)));
        }
        let Some(unit) = unit.filter(|unit| unit.last.is_none()) else {
            return Err(invalid(span, "an interval of a value has one unit: INTERVAL (n) DAY"));
        };
        let Some(one) = self.world.functions.interval("1", Some(unit)) else {
            return Err(unsupported(span, "an interval of this unit"));
        };
        let (amount, schema) = (self.expression(value)?, self.schema());
        let one = Expr::Literal(one, None);
        let product = self.world.functions.binary(BinaryOperator::Multiply, amount, one, &schema).at(span)?;
        Ok(if negative { Expr::Negative(Box::new(product)) } else { product })
    }
}

/// The amount of an interval that is written as a number or a text.
fn written_amount(value: &tree::Expr) -> Option<String> {
    match &value.kind {
        ExprKind::Literal(Literal::Text(text) | Literal::Number(text)) => Some(text.clone()),
        ExprKind::Unary { operator: tree::UnaryOperator::Minus, operand } => match &operand.kind {
            ExprKind::Literal(Literal::Number(digits)) => Some(format!("-{digits}")),
            _ => None,
        },
        _ => None,
    }
}

/// A single number with the other sign; `None` for other texts.
fn negated(text: &str) -> Option<String> {
    let text = text.trim();
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    match text.strip_prefix('-') {
        Some(digits) if is_number(digits) => Some(digits.to_owned()),
        None if is_number(text) => Some(format!("-{text}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_smallest_type() {
        let shown = |text: &str, negative| match value(&Literal::Number(text.into()), negative, Span::default()) {
            Ok(Expr::Literal(value, _)) => format!("{value:?}"),
            Ok(other) => other.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown("1", false), "Int64(1)");
        assert_eq!(shown("9223372036854775808", true), "Int64(-9223372036854775808)");
        assert_eq!(shown("9223372036854775808", false), "UInt64(9223372036854775808)");
        assert_eq!(shown("0.06", false), "Decimal128(0.06,2,2)");
        assert_eq!(shown("1_000.5", true), "Decimal128(-1000.5,5,1)");
        assert_eq!(shown("0x1F", false), "Int64(31)");
        assert_eq!(shown("1e3", true), "Float64(-1000)");
        assert_eq!(shown("1e999", false), "1e999 is out of range for DOUBLE");
        assert!(shown(&"9".repeat(300), false).contains("more digits than a DECIMAL"));
    }
}
