//! Bounds of integers and decimals, from their types and from literals. Operations whose bounds rule out an overflow
//! need no check.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::{casts, decimals};

/// The minimum and maximum, in units of the last digit of a type.
type Range = (i128, i128);

/// The type of an expression, and the range of values that it would have without the type's limits.
struct ValueRange {
    data_type: DataType,
    range: Option<Range>,
}

impl ValueRange {
    /// The range of its values: others are errors, because they are outside of the type.
    fn values(&self) -> Option<Range> {
        let all = casts::range(&self.data_type)?;
        let (low, high) = self.range.unwrap_or(all);
        Some((low.max(all.0), high.min(all.1)))
    }
}

/// Whether the result of an operation fits its type for all operands.
pub(super) fn rule_out_overflow(operation: &Expr, schema: &DFSchema) -> bool {
    let Some(known) = known(operation, schema) else { return false };
    let Some((all, found)) = casts::range(&known.data_type).zip(known.range) else { return false };
    found.0 >= all.0 && found.1 <= all.1
}

fn known(expression: &Expr, schema: &DFSchema) -> Option<ValueRange> {
    match expression {
        Expr::Literal(value, _) => {
            let range = integer(value).map(|value| (value, value));
            Some(ValueRange { data_type: value.data_type(), range })
        }
        Expr::Alias(alias) => known(&alias.expr, schema),
        Expr::Negative(operand) => {
            let operand = known(operand, schema)?;
            let range = operand.values().map(|(low, high)| (-high, -low));
            Some(ValueRange { range, ..operand })
        }
        Expr::Cast(cast) => {
            let (operand, data_type) = (known(&cast.expr, schema)?, cast.field.data_type().clone());
            let digits = decimals::scale(&data_type)? - decimals::scale(&operand.data_type)?;
            let range = operand.values().and_then(|values| rescaled(values, digits));
            Some(ValueRange { data_type, range })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (known(left, schema)?, known(right, schema)?);
            let result = BinaryTypeCoercer::new(&left.data_type, op, &right.data_type).get_result_type();
            let data_type = result.ok()?;
            let range = combined(*op, &left, &right, decimals::scale(&data_type)?);
            Some(ValueRange { data_type, range })
        }
        other => Some(ValueRange { data_type: other.get_type(schema).ok()?, range: None }),
    }
}

fn combined(op: Operator, left: &ValueRange, right: &ValueRange, scale: i8) -> Option<Range> {
    let scales = (decimals::scale(&left.data_type)?, decimals::scale(&right.data_type)?);
    let (mut a, mut b) = (left.values()?, right.values()?);
    match op {
        Operator::Plus | Operator::Minus => {
            a = rescaled(a, scale - scales.0)?;
            b = rescaled(b, scale - scales.1)?;
        }
        Operator::Multiply if scales.0 + scales.1 == scale => {}
        _ => return None,
    }
    result_range(op, a, b)
}

/// The range of a sum, difference or product of two ranges; `None` beyond 128 bits.
pub(crate) fn result_range(op: Operator, a: Range, b: Range) -> Option<Range> {
    let f = match op {
        Operator::Plus => i128::checked_add,
        Operator::Minus => i128::checked_sub,
        Operator::Multiply => i128::checked_mul,
        _ => return None,
    };
    let ends = [f(a.0, b.0)?, f(a.0, b.1)?, f(a.1, b.0)?, f(a.1, b.1)?];
    Some((*ends.iter().min()?, *ends.iter().max()?))
}

/// The range in units with more digits after the point.
fn rescaled((low, high): Range, digits: i8) -> Option<Range> {
    let by = 10i128.checked_pow(u32::try_from(digits).ok()?)?;
    Some((low.checked_mul(by)?, high.checked_mul(by)?))
}

/// An integer, or a decimal in units of its last digit.
pub(crate) fn integer(value: &ScalarValue) -> Option<i128> {
    use ScalarValue::*;
    Some(match value {
        Int8(Some(v)) => (*v).into(),
        Int16(Some(v)) => (*v).into(),
        Int32(Some(v)) => (*v).into(),
        Int64(Some(v)) => (*v).into(),
        UInt8(Some(v)) => (*v).into(),
        UInt16(Some(v)) => (*v).into(),
        UInt32(Some(v)) => (*v).into(),
        UInt64(Some(v)) => (*v).into(),
        Decimal128(Some(v), ..) => *v,
        _ => return None,
    })
}

/// The largest number of digits of an integer type's values.
pub(crate) fn integer_digits(data_type: &DataType) -> Option<i16> {
    match data_type {
        DataType::Int8 | DataType::UInt8 => Some(3),
        DataType::Int16 | DataType::UInt16 => Some(5),
        DataType::Int32 | DataType::UInt32 => Some(10),
        DataType::Int64 => Some(19),
        DataType::UInt64 => Some(20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::{cast, col, lit};

    use super::*;

    #[test]
    fn types_and_literals_bound_what_is_computed() {
        let column = |name: &str, data_type| Field::new(name, data_type, true);
        let schema = DFSchema::try_from(Schema::new(vec![
            column("i", DataType::Int32),
            column("b", DataType::Int64),
            column("u", DataType::UInt8),
            column("d", DataType::Decimal128(15, 2)),
            column("w", DataType::Decimal128(38, 2)),
        ]))
        .expect("a schema");
        let wide = |name: &str| cast(col(name), DataType::Int64);
        let one = || lit(ScalarValue::Decimal128(Some(1), 20, 0));
        for (expression, expected) in [
            (wide("i") + lit(1i64), true),
            (wide("i") * wide("i"), true),
            (wide("i") * wide("i") * lit(1i64), true),
            (wide("i") * wide("i") * lit(2i64), false),
            (col("i") + col("i"), false),
            (col("b") + lit(1i64), false),
            (col("u") - lit(1u8), false),
            (cast(col("u"), DataType::Int16) - lit(1i16), true),
            (col("d") * (one() - col("d")), true),
            (col("d") * (one() - col("d")) * (one() + col("d")), false),
            (col("w") + col("d"), false),
            (-wide("i"), true),
            (-col("b"), false),
        ] {
            assert_eq!(rule_out_overflow(&expression, &schema), expected, "{expression}");
        }
    }
}
