//! The types that an Arrow schema declares, checked before it is decoded: the decoder stops at types that it does not
//! know.

use arrow::ipc::{Field, Schema, Type, root_as_message};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The columns of an Arrow schema with integers of other widths than 64 bits and below, as some programs have them.
pub(super) fn wide_integers(schema: Schema<'_>) -> Vec<String> {
    let fields = schema.fields().into_iter().flatten();
    fields.filter(has_wide_integer).map(|field| field.name().unwrap_or_default().to_owned()).collect()
}

fn has_wide_integer(field: &Field<'_>) -> bool {
    let is_wide = field.type_type() == Type::Int
        && field.type_as_int().is_some_and(|int| !matches!(int.bitWidth(), 8 | 16 | 32 | 64));
    is_wide || field.children().into_iter().flatten().any(|child| has_wide_integer(&child))
}

/// Whether the Arrow schema in the metadata of a Parquet file can be decoded.
pub(super) fn is_readable(encoded: &str) -> bool {
    let Ok(bytes) = BASE64_STANDARD.decode(encoded) else { return false };
    // Four bytes 0xff and the length may precede the message.
    let message = match bytes.as_slice() {
        [0xff, 0xff, 0xff, 0xff, _, _, _, _, message @ ..] => message,
        message => message,
    };
    let Ok(message) = root_as_message(message) else { return false };
    message.header_as_schema().is_some_and(|schema| wide_integers(schema).is_empty())
}
