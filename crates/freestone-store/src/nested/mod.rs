//! Types whose values are stored as bytes: lists, maps, intervals, UUIDs, and decimals of more than 38 digits.
//!
//! ```text
//! value of a type of fixed width    its bytes in Arrow, little endian; BOOLEAN: 1 byte; UUID: 16 bytes in their order
//! text, binary                      varint length, bytes
//! list, map                         varint 2 · n + (1 if an item is NULL) | NULL bits | n items without the NULLs
//! list of a fixed size n            u8 1 if an item is NULL | NULL bits | items without the NULLs
//! struct                            NULL bits of the fields | fields without the NULLs
//! ```
//! NULL bits are ⌈n / 8⌉ bytes, lowest bit first, 1 for a value that is not NULL; lists without NULLs have none. The
//! items of a map are structs of key and value. A column's own NULLs are in its validity, as those of other columns. A
//! struct that is a column, or a field of one, has columns for its fields instead (`struct_fields`).

mod decode;
mod encode;

use arrow_schema::DataType;

pub(crate) use self::decode::decode;
pub(crate) use self::encode::encode;

/// The maximum number of types inside each other in the type of a column.
pub const TYPE_DEPTH_MAX: usize = 32;
/// The maximum length of lists of a fixed size.
pub const FIXED_LENGTH_MAX: i32 = 100_000;

/// Whether a stored column has the values of a column of the table as they are.
pub fn is_flat(data_type: &DataType) -> bool {
    !is_encoded(data_type) && !matches!(data_type, DataType::Struct(_))
}

/// Whether the values of a stored column of this type are encoded as bytes. A struct has a column for each field; but
/// structs in lists are encoded with these. Their order is not that of the bytes, and zones bound the
/// bytes only.
pub fn is_encoded(data_type: &DataType) -> bool {
    let is_struct = matches!(data_type, DataType::Struct(_));
    data_type.is_nested() && !is_struct
        || matches!(data_type, DataType::Interval(_) | DataType::Decimal256(_, _) | DataType::FixedSizeBinary(_))
}

/// Whether equal values have equal stored forms, and ordered values ordered forms, so that a column can be in a key, an
/// index or a sort order.
pub fn is_ordered(data_type: &DataType) -> bool {
    is_flat(data_type) || matches!(data_type, DataType::FixedSizeBinary(_))
}

/// The bytes of the NULL bits of `count` values.
fn null_bytes(count: usize) -> usize {
    count.div_ceil(8)
}

#[cfg(test)]
mod tests;
