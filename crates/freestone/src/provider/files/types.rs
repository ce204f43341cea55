//! The common type of a column of several files, which represents the values of all of them.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

use crate::ingest::bare;

/// The smallest type that represents all values of both; `None` if there is none, or if values would become another
/// kind.
pub(super) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Float32, Float64, Null, Time32, Time64, Timestamp};
    match (a, b) {
        _ if a == b => Some(a.clone()),
        _ if a.is_nested() && bare(a) == bare(b) => Some(bare(a)),
        (Null, other) | (other, Null) => Some(other.clone()),
        (Float32 | Float64, Float32 | Float64) => Some(Float64),
        // An integer or decimal that a double does not represent exactly is an error when it is read.
        (Float32 | Float64, other) | (other, Float32 | Float64) if digits(other).is_some() => Some(Float64),
        _ if a.is_integer() && b.is_integer() => Some(integer(a, b)),
        _ if digits(a).is_some() && digits(b).is_some() => {
            let ((whole_a, scale_a), (whole_b, scale_b)) = (digits(a)?, digits(b)?);
            let (whole, scale) = (whole_a.max(whole_b), scale_a.max(scale_b));
            (whole + scale <= 38).then_some(Decimal128(whole + scale, scale as i8))
        }
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) if zone.is_none() => {
            Some(Timestamp(*unit, None))
        }
        (Timestamp(unit_a, zone_a), Timestamp(unit_b, zone_b)) if zone_a.is_some() == zone_b.is_some() => {
            Some(Timestamp(finer(*unit_a, *unit_b), zone_a.clone()))
        }
        (Time32(unit_a) | Time64(unit_a), Time32(unit_b) | Time64(unit_b)) => Some(match finer(*unit_a, *unit_b) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(unit),
            unit => Time64(unit),
        }),
        _ => None,
    }
}

/// The integer digits and fraction digits of exact numbers.
fn digits(kind: &DataType) -> Option<(u8, u8)> {
    Some(match kind {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) if (0..=*precision as i8).contains(scale) => {
            (precision - scale.unsigned_abs(), scale.unsigned_abs())
        }
        _ => return None,
    })
}

/// The smallest integer type for both, or a decimal above 64 bits.
fn integer(a: &DataType, b: &DataType) -> DataType {
    let bits = |kind: &DataType| kind.primitive_width().unwrap_or(8) * 8;
    if a.is_signed_integer() == b.is_signed_integer() {
        return if bits(a) >= bits(b) { a.clone() } else { b.clone() };
    }
    let (signed, unsigned) = if a.is_signed_integer() { (a, b) } else { (b, a) };
    match bits(signed).max(bits(unsigned) + 1) {
        ..=8 => DataType::Int8,
        9..=16 => DataType::Int16,
        17..=32 => DataType::Int32,
        33..=64 => DataType::Int64,
        _ => DataType::Decimal128(20, 0),
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: DataType, b: DataType, expected: Option<DataType>) {
        assert_eq!(common_type(&a, &b), expected, "{a} {b}");
        assert_eq!(common_type(&b, &a), expected, "{b} {a}");
    }

    #[test]
    fn common_types_lose_nothing() {
        use DataType::*;
        check(Int32, Int64, Some(Int64));
        check(UInt32, Int32, Some(Int64));
        check(UInt64, Int8, Some(Decimal128(20, 0)));
        check(UInt8, UInt32, Some(UInt32));
        check(Int64, Float64, Some(Float64));
        check(Int64, Decimal128(10, 2), Some(Decimal128(21, 2)));
        check(Decimal128(38, 0), Decimal128(10, 5), None);
        check(Decimal128(4, 2), Decimal128(5, 1), Some(Decimal128(6, 2)));
        check(Date32, Timestamp(TimeUnit::Millisecond, None), Some(Timestamp(TimeUnit::Millisecond, None)));
        check(Date32, Timestamp(TimeUnit::Second, Some("UTC".into())), None);
        check(Time32(TimeUnit::Second), Time64(TimeUnit::Nanosecond), Some(Time64(TimeUnit::Nanosecond)));
        check(Int64, Utf8View, None);
        check(Boolean, Int8, None);
        check(Utf8View, BinaryView, None);
        check(Null, Utf8View, Some(Utf8View));
    }
}
