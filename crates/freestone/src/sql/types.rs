//! Types in SQL: the names that DataFusion does not have, or has with another unit.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;

/// Type names beyond DataFusion's, and timestamps in microseconds, whose range is 290,000 years around 1970.
#[derive(Debug)]
pub(crate) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql: &ast::DataType) -> Result<Option<FieldRef>> {
        Ok(sql_type(sql).map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

/// The name of a type that stands as Arrow writes it, for parameters that have one.
const ARROW_TYPE: &str = "freestone$arrow";

/// A type of SQL that is planned as this one; nothing where Arrow does not read what it writes.
pub(crate) fn arrow_type(data_type: &DataType) -> Option<ast::DataType> {
    let text = data_type.to_string();
    let is_read = text.parse::<DataType>().is_ok_and(|read| read == *data_type);
    let name = ast::ObjectName::from(vec![ast::Ident::new(ARROW_TYPE)]);
    is_read.then(|| ast::DataType::Custom(name, vec![text]))
}

/// The type of a parameter; where SQL cannot write it, NULL, of which its value becomes once it is put in its place.
pub(crate) fn parameter_type(data_type: &DataType) -> ast::DataType {
    let name = ast::ObjectName::from(vec![ast::Ident::new(ARROW_TYPE)]);
    arrow_type(data_type).unwrap_or_else(|| ast::DataType::Custom(name, vec![DataType::Null.to_string()]))
}

/// The type of a name that is not DataFusion's, or that it gives another unit.
pub(crate) fn sql_type(sql: &ast::DataType) -> Option<DataType> {
    use ast::DataType as Sql;
    Some(match sql {
        Sql::Binary(_) | Sql::Varbinary(_) | Sql::Blob(_) | Sql::Bytes(_) | Sql::Bytea => DataType::BinaryView,
        // JSON is text; a cast to it is a function that checks the text.
        Sql::JSON | Sql::JSONB => DataType::Utf8View,
        Sql::UTinyInt | Sql::UInt8 => DataType::UInt8,
        Sql::USmallInt | Sql::UInt16 => DataType::UInt16,
        Sql::UInt32 => DataType::UInt32,
        Sql::UBigInt | Sql::UInt64 => DataType::UInt64,
        Sql::Int16 => DataType::Int16,
        Sql::Int32 => DataType::Int32,
        Sql::Int64 => DataType::Int64,
        // With 38 of its 39 digits.
        Sql::HugeInt => DataType::Decimal128(38, 0),
        Sql::Float32 => DataType::Float32,
        Sql::Float64 => DataType::Float64,
        Sql::Nvarchar(_) | Sql::CharacterVarying(_) | Sql::CharVarying(_) | Sql::Character(_) => DataType::Utf8View,
        Sql::Datetime(None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Sql::Timestamp(precision, zone) => {
            let unit = match precision {
                None | Some(4..=6) => TimeUnit::Microsecond,
                Some(0) => TimeUnit::Second,
                Some(1..=3) => TimeUnit::Millisecond,
                Some(7..=9) => TimeUnit::Nanosecond,
                Some(_) => return None,
            };
            let zoned = matches!(zone, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz);
            DataType::Timestamp(unit, zoned.then(|| "+00:00".into()))
        }
        Sql::Custom(name, modifiers) => match name.to_string().to_ascii_lowercase().as_str() {
            "uint" | "uinteger" => DataType::UInt32,
            "int1" => DataType::Int8,
            "short" => DataType::Int16,
            "signed" => DataType::Int32,
            "long" => DataType::Int64,
            "logical" => DataType::Boolean,
            ARROW_TYPE => return modifiers.first()?.parse().ok(),
            "timestamp_s" => DataType::Timestamp(TimeUnit::Second, None),
            "timestamp_ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
            "timestamp_us" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            _ => return None,
        },
        _ => return None,
    })
}
