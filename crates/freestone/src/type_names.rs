//! The names of types in SQL, as results, DESCRIBE, table functions and errors show them: DuckDB's. `CREATE TABLE` and casts read each
//! of those that tables can have.

use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit};
use freestone_sql::{Class, Keyword};

/// The name of a type. Arrow's variants of a type have one name.
pub fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "\"NULL\"",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => return format!("DECIMAL({p},{s})"),
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(unit, zone) => timestamp_name(*unit, zone.is_some()),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::FixedSizeBinary(16) => "UUID",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "BLOB",
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            return format!("{}[]", type_name(item.data_type()));
        }
        DataType::FixedSizeList(item, length) => return format!("{}[{length}]", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| format!("{} {}", field_name(field.name()), type_name(field.data_type()));
            return format!("STRUCT({})", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                return format!("MAP({}, {})", type_name(fields[0].data_type()), type_name(fields[1].data_type()));
            }
            other => return other.to_string(),
        },
        DataType::Dictionary(_, values) => return type_name(values),
        DataType::RunEndEncoded(_, values) => return type_name(values.data_type()),
        other => return other.to_string(),
    };
    name.to_owned()
}

fn timestamp_name(unit: TimeUnit, has_zone: bool) -> &'static str {
    match (unit, has_zone) {
        (TimeUnit::Second, false) => "TIMESTAMP_S",
        (TimeUnit::Millisecond, false) => "TIMESTAMP_MS",
        (TimeUnit::Microsecond, false) => "TIMESTAMP",
        (TimeUnit::Nanosecond, false) => "TIMESTAMP_NS",
        (TimeUnit::Second, true) => "TIMESTAMP(0) WITH TIME ZONE",
        (TimeUnit::Millisecond, true) => "TIMESTAMP(3) WITH TIME ZONE",
        (TimeUnit::Microsecond, true) => "TIMESTAMP WITH TIME ZONE",
        (TimeUnit::Nanosecond, true) => "TIMESTAMP(9) WITH TIME ZONE",
    }
}

/// The name of a struct's field, in quotes if it is no word, or one that has a meaning where a name can stand.
fn field_name(name: &str) -> String {
    let has_meaning = Keyword::of(name).is_some_and(|keyword| keyword.class() != Class::Unreserved);
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_word && !has_meaning { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn types_have_duckdbs_names() {
        let list = DataType::new_list(DataType::Int32, true);
        let fields = ["a", "B c", "select", "INT"].map(|name| Field::new(name, list.clone(), true)).to_vec();
        let pair = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Float32, true)];
        let entries = Field::new("entries", DataType::Struct(pair.into()), false);
        let zoned = |unit| DataType::Timestamp(unit, Some("+00:00".into()));
        for (data_type, name) in [
            (list, "INTEGER[]"),
            (
                DataType::Struct(fields.into()),
                "STRUCT(a INTEGER[], \"B c\" INTEGER[], \"select\" INTEGER[], \"INT\" INTEGER[])",
            ),
            (DataType::Map(Arc::new(entries), false), "MAP(VARCHAR, FLOAT)"),
            (DataType::new_fixed_size_list(DataType::UInt8, 2, true), "UTINYINT[2]"),
            (DataType::Decimal128(10, 2), "DECIMAL(10,2)"),
            (DataType::Timestamp(TimeUnit::Second, None), "TIMESTAMP_S"),
            (zoned(TimeUnit::Microsecond), "TIMESTAMP WITH TIME ZONE"),
            (zoned(TimeUnit::Nanosecond), "TIMESTAMP(9) WITH TIME ZONE"),
            (DataType::FixedSizeBinary(16), "UUID"),
            (DataType::FixedSizeBinary(4), "BLOB"),
            (DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()), "VARCHAR"),
        ] {
            assert_eq!(type_name(&data_type), name);
        }
    }
}
