//! Functions about values, the session and the system: types, users, versions.

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Volatility;

use super::function::Scalar;
use super::kinds::Kind::{Any, Text};
use super::kinds::TEXT;
use super::rows::{invalid, texts};
use crate::catalog::{CATALOG, SCHEMA};
use crate::times::Call;

pub(super) fn all() -> Vec<Scalar> {
    let constant = |names: &[&'static str], value: String| {
        Scalar::new(names, &[&[]], TEXT, move |call| text(call, &value)).of_volatility(Volatility::Stable)
    };
    vec![
        Scalar::new(&["typeof"], &[&[Any]], TEXT, |call| text(call, &type_text(call.array(0)?.data_type()))),
        Scalar::new(&["pg_typeof"], &[&[Any]], TEXT, |call| text(call, &postgres_type(call.array(0)?.data_type()))),
        Scalar::new(&["error"], &[&[Text]], DataType::Null, error),
        constant(&["version"], format!("Freestone v{}", env!("CARGO_PKG_VERSION"))),
        constant(&["current_database"], CATALOG.to_owned()),
        constant(&["current_schema"], SCHEMA.to_owned()),
        constant(&["current_user"], CATALOG.to_owned()),
    ]
}

fn text(call: &Call, text: &str) -> Result<ArrayRef> {
    Ok(std::sync::Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, call.rows()))))
}

/// Fails with the first text that is not NULL.
fn error(call: &Call) -> Result<ArrayRef> {
    match texts(call, 0)?.iter().flatten().next() {
        Some(message) => invalid(message),
        None => ScalarValue::Null.to_array_of_size(call.rows()),
    }
}

/// The name of a type in DuckDB.
fn type_text(kind: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "_S",
        TimeUnit::Millisecond => "_MS",
        TimeUnit::Microsecond => "",
        TimeUnit::Nanosecond => "_NS",
    };
    match kind {
        DataType::Null => "\"NULL\"".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "UTINYINT".to_owned(),
        DataType::UInt16 => "USMALLINT".to_owned(),
        DataType::UInt32 => "UINTEGER".to_owned(),
        DataType::UInt64 => "UBIGINT".to_owned(),
        DataType::Float16 | DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Timestamp(of, None) => format!("TIMESTAMP{}", unit(of)),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
        kind if kind.is_binary() => "BLOB".to_owned(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => {
            format!("{}[]", type_text(field.data_type()))
        }
        DataType::FixedSizeList(field, length) => format!("{}[{length}]", type_text(field.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{} {}", name(field.name()), type_text(field.data_type()))).collect();
            format!("STRUCT({})", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("MAP({}, {})", type_text(fields[0].data_type()), type_text(fields[1].data_type()))
            }
            other => other.to_string(),
        },
        DataType::Dictionary(_, values) => type_text(values),
        _ => "VARCHAR".to_owned(),
    }
}

/// The name of a field, quoted if necessary.
fn name(name: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_word { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name of a type in PostgreSQL, or its DuckDB name in lower case if PostgreSQL has none.
fn postgres_type(kind: &DataType) -> String {
    match kind {
        DataType::Null => "unknown".to_owned(),
        DataType::Float16 | DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        kind if kind.is_decimal() => "numeric".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone".to_owned(),
        DataType::Timestamp(_, None) => "timestamp without time zone".to_owned(),
        kind if kind.is_binary() => "bytea".to_owned(),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::List(field) | DataType::LargeList(field) => format!("{}[]", postgres_type(field.data_type())),
        DataType::Struct(_) => "record".to_owned(),
        kind => type_text(kind).to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names() {
        let list = DataType::new_list(DataType::Int32, true);
        assert_eq!(type_text(&list), "INTEGER[]");
        assert_eq!(postgres_type(&list), "integer[]");
        assert_eq!(type_text(&DataType::Decimal128(10, 2)), "DECIMAL(10,2)");
        assert_eq!(postgres_type(&DataType::Decimal128(10, 2)), "numeric");
    }
}
