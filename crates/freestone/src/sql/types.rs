//! Types in SQL: the names that DataFusion does not have, or has with another unit.

use std::fmt::Display;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect;
use super::names::identifier;
use super::statement::quote;
use crate::error::Error;

/// The text of a part of sqlparser's tree in our grammar: it prints the fields of the type STRUCT in angle brackets, and their
/// names behind a value in single quotes.
pub(crate) fn text_of(part: &impl Display) -> String {
    let text = part.to_string();
    if !text.contains("STRUCT<") && !text.contains(".'") {
        return text;
    }
    let Ok(tokens) = Tokenizer::new(&dialect::SqlDialect, &text).with_unescape(false).tokenize() else { return text };
    let (mut depth, mut after_struct, mut after_dot, mut written) = (0usize, false, false, String::new());
    for token in tokens {
        match &token {
            Token::Lt if after_struct => {
                depth += 1;
                written.push('(');
            }
            Token::Gt if depth > 0 => {
                depth -= 1;
                written.push(')');
            }
            Token::ShiftRight if depth > 1 => {
                depth -= 2;
                written.push_str("))");
            }
            Token::SingleQuotedString(field) if after_dot => written.push_str(&quote(field)),
            other => written.push_str(&other.to_string()),
        }
        after_dot = token == Token::Period;
        after_struct = matches!(&token, Token::Word(word) if word.value == "STRUCT" && word.quote_style.is_none());
    }
    written
}

/// Type names beyond DataFusion's, and timestamps in microseconds, whose range is 290,000 years around 1970.
#[derive(Debug)]
pub(crate) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql: &ast::DataType) -> Result<Option<FieldRef>> {
        if let Some((name, hint)) = missing(sql) {
            return Err(Error::unsupported(format!("type {name} is not available")).with_hint(hint).into());
        }
        Ok(sql_type(sql).map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

/// A type of DuckDB or PostgreSQL that does not exist here, and what to write instead.
fn missing(sql: &ast::DataType) -> Option<(&'static str, &'static str)> {
    use ast::DataType as Sql;
    Some(match sql {
        Sql::Union(_) => ("UNION", "write a STRUCT with a field for each type"),
        // Where a statement names them in a cast or for a column, they are texts by now.
        Sql::Bit(_) | Sql::BitVarying(_) | Sql::VarBit(_) => ("BIT", "it is one in casts and of columns of tables"),
        Sql::Time(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
            ("TIME WITH TIME ZONE", "it is one in casts and of columns of tables")
        }
        _ => return None,
    })
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
        Sql::Uuid => DataType::FixedSizeBinary(16),
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
        Sql::Array(ast::ArrayElemTypeDef::SquareBracket(..) | ast::ArrayElemTypeDef::AngleBracket(_))
        | Sql::Struct(..)
        | Sql::Map(..) => return nested_type(sql),
        Sql::UHugeInt => DataType::Decimal256(39, 0),
        Sql::Custom(name, modifiers) => match name.to_string().to_ascii_lowercase().as_str() {
            "uint" | "uinteger" => DataType::UInt32,
            "int1" => DataType::Int8,
            "short" => DataType::Int16,
            "signed" => DataType::Int32,
            "long" => DataType::Int64,
            "logical" => DataType::Boolean,
            "oid" => DataType::Int64,
            "bpchar" | "name" => DataType::Utf8View,
            "list" => list(item_type(modifiers)?),
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

/// A nested type whose parts have any type that tables can store.
fn nested_type(sql: &ast::DataType) -> Option<DataType> {
    use ast::{ArrayElemTypeDef, DataType as Sql};
    Some(match sql {
        Sql::Array(ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, None)) => {
            list(part_type(item)?)
        }
        Sql::Array(ArrayElemTypeDef::SquareBracket(item, Some(length))) => {
            let item = Arc::new(Field::new("item", part_type(item)?, true));
            DataType::FixedSizeList(item, i32::try_from(*length).ok()?)
        }
        Sql::Struct(fields, _) => {
            let field = |(at, field): (usize, &ast::StructField)| {
                let name = field.field_name.as_ref().map_or_else(|| format!("c{at}"), identifier);
                Some(Field::new(name, part_type(&field.field_type)?, true))
            };
            DataType::Struct(fields.iter().enumerate().map(field).collect::<Option<Vec<_>>>()?.into())
        }
        Sql::Map(key, value) => {
            let pair = vec![Field::new("key", part_type(key)?, false), Field::new("value", part_type(value)?, true)];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
        }
        _ => return None,
    })
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// The type in `LIST(type)`.
fn item_type(modifiers: &[String]) -> Option<DataType> {
    let text = modifiers.join(" ");
    let mut parser = Parser::new(&dialect::SqlDialect).try_with_sql(&text).ok()?;
    part_type(&parser.parse_data_type().ok()?)
}

/// The type of a part of a nested value.
fn part_type(sql: &ast::DataType) -> Option<DataType> {
    use ast::DataType as Sql;
    if let Some(known) = sql_type(sql) {
        return Some(known);
    }
    Some(match sql {
        Sql::Boolean | Sql::Bool => DataType::Boolean,
        Sql::TinyInt(_) => DataType::Int8,
        Sql::SmallInt(_) | Sql::Int2(_) => DataType::Int16,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) => DataType::Int32,
        Sql::BigInt(_) | Sql::Int8(_) => DataType::Int64,
        Sql::TinyIntUnsigned(_) => DataType::UInt8,
        Sql::SmallIntUnsigned(_) | Sql::Int2Unsigned(_) => DataType::UInt16,
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::Int4Unsigned(_) => DataType::UInt32,
        Sql::BigIntUnsigned(_) | Sql::Int8Unsigned(_) => DataType::UInt64,
        Sql::Float(_) | Sql::Real | Sql::Float4 => DataType::Float32,
        Sql::Double(ast::ExactNumberInfo::None) | Sql::DoublePrecision | Sql::Float8 => DataType::Float64,
        Sql::Varchar(_) | Sql::Char(_) | Sql::Text | Sql::String(_) => DataType::Utf8View,
        Sql::Date => DataType::Date32,
        Sql::Time(None, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Nanosecond)
        }
        Sql::Interval { fields: None, precision: None } => DataType::Interval(IntervalUnit::MonthDayNano),
        Sql::Numeric(digits) | Sql::Decimal(digits) | Sql::Dec(digits) => {
            let (precision, scale) = match digits {
                ast::ExactNumberInfo::None => (38, 10),
                ast::ExactNumberInfo::Precision(precision) => (*precision, 0),
                ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            let scale = i8::try_from(scale).ok().filter(|scale| *scale >= 0 && *scale as u64 <= precision)?;
            match u8::try_from(precision).ok()? {
                precision @ 1..=38 => DataType::Decimal128(precision, scale),
                precision @ 39..=76 => DataType::Decimal256(precision, scale),
                _ => return None,
            }
        }
        _ => return None,
    })
}
