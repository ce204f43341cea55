//! UUIDs (RFC 9562): random ones, and what is in them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int64Array, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::Volatility;
use uuid::Uuid;

use super::function::Scalar;
use super::kinds::INT;
use super::rows::invalid;
use crate::ingest::UUID;
use crate::times::{Call, exact_cast, is_text, timestamptz};

pub(super) fn all() -> Vec<Scalar> {
    let none = |types: &[DataType]| types.is_empty().then(Vec::new);
    let made = |names: &[&'static str], make: fn() -> [u8; 16]| {
        let values = move |call: &Call| {
            let values = (0..call.rows()).map(|_| make());
            Ok(Arc::new(FixedSizeBinaryArray::try_from_iter(values)?) as ArrayRef)
        };
        Scalar::with_coercion(names, "no arguments", none, |_, _| Ok(UUID), values).of_volatility(Volatility::Volatile)
    };
    vec![
        made(&["uuid"], random),
        made(&["uuidv7"], of_now),
        of_uuid("uuid_extract_version", INT, |call| {
            let values = uuids(call)?;
            let version = |row| values.is_valid(row).then(|| i64::from(values.value(row)[6] >> 4));
            Ok(Arc::new((0..values.len()).map(version).collect::<Int64Array>()))
        }),
        of_uuid("uuid_extract_timestamp", timestamptz(), extract_time),
    ]
}

/// A function of one UUID, which may be a text.
fn of_uuid(name: &'static str, to: DataType, kernel: fn(&Call) -> Result<ArrayRef>) -> Scalar {
    let accepts = |types: &[DataType]| match types {
        [given] if *given == UUID || *given == DataType::Null || is_text(given) => Some(vec![UUID]),
        _ => None,
    };
    Scalar::with_coercion(&[name], "a UUID", accepts, move |_, _| Ok(to.clone()), kernel)
}

fn uuids(call: &Call) -> Result<FixedSizeBinaryArray> {
    Ok(exact_cast(&call.array(0)?, &UUID)?.as_fixed_size_binary().clone())
}

/// Version 4.
fn random() -> [u8; 16] {
    Uuid::new_v4().into_bytes()
}

/// Version 7: the milliseconds since 1970 in 48 bits, then random bits.
fn of_now() -> [u8; 16] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let mut bytes = random();
    bytes[..6].copy_from_slice(&now.to_be_bytes()[10..]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes
}

/// The time in a UUID of version 7.
fn extract_time(call: &Call) -> Result<ArrayRef> {
    let values = uuids(call)?;
    let time = |row: usize| -> Result<Option<i64>> {
        if values.is_null(row) {
            return Ok(None);
        }
        let bytes = values.value(row);
        if bytes[6] >> 4 != 7 {
            return invalid(format!("a UUID of version {} has no time, version 7 has one", bytes[6] >> 4));
        }
        Ok(Some(bytes[..6].iter().fold(0, |time, byte| time << 8 | i64::from(*byte)) * 1000))
    };
    let times = (0..values.len()).map(time).collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(times.with_data_type(call.to.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let (random, now) = (random(), of_now());
        assert_eq!((random[6] >> 4, random[8] >> 6), (4, 2));
        assert_eq!((now[6] >> 4, now[8] >> 6), (7, 2));
    }
}
