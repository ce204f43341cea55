//! Functions about values, the session and the system: types, users, versions.

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Volatility;

use super::function::Scalar;
use super::kinds::Kind::{Any, Text};
use super::kinds::TEXT;
use super::rows::{invalid, texts};
use crate::sql::names::{CATALOG, SCHEMA};
use crate::times::Call;
use crate::type_names::type_name;

pub(super) fn all() -> Vec<Scalar> {
    let constant = |names: &[&'static str], value: String| {
        Scalar::new(names, &[&[]], TEXT, move |call| text(call, &value)).of_volatility(Volatility::Stable)
    };
    vec![
        Scalar::new(&["typeof"], &[&[Any]], TEXT, |call| text(call, &type_name(call.array(0)?.data_type()))),
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
        kind => type_name(kind).to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names() {
        let list = DataType::new_list(DataType::Int32, true);
        assert_eq!(postgres_type(&list), "integer[]");
        assert_eq!(postgres_type(&DataType::Decimal128(10, 2)), "numeric");
    }
}
