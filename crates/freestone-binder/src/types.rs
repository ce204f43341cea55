//! Types by their names, and the common type of several.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use datafusion_expr::type_coercion::binary::type_union_resolution;
use freestone_sql::Span;
use freestone_sql::tree::{ObjectName, Type, TypeKind};

use crate::binder::Binder;
use crate::error::{BindError, Result, invalid, unknown};

/// A type of SQL: its values as Arrow has them, and what else a text must be.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlType {
    /// The values of an Arrow type.
    Plain(DataType),
    /// Bytes, which are read from texts in their own form.
    Blob,
    /// Texts that are JSON.
    Json,
    /// Texts that are labels.
    Enum(Vec<String>),
    /// Texts in the normal form of the type of this name, such as `TIMETZ` or `BIT(3)`.
    Normal(String),
    /// Lists of labels or of texts in a normal form, within this number of other lists.
    Texts(Box<SqlType>, usize),
    /// TIME, or INTERVAL, with this number of digits behind the second.
    Rounded(DataType, u8),
}

impl SqlType {
    /// The Arrow type of its values.
    pub fn data_type(&self) -> DataType {
        match self {
            SqlType::Plain(data_type) | SqlType::Rounded(data_type, _) => data_type.clone(),
            SqlType::Blob => DataType::BinaryView,
            SqlType::Json | SqlType::Enum(_) | SqlType::Normal(_) => DataType::Utf8View,
            SqlType::Texts(item, around) => (0..=*around).fold(item.data_type(), |inner, _| list_of(inner)),
        }
    }
}

/// The names of types without modifiers, each with its other names.
const NAMES: [(&[&str], DataType); 27] = [
    (&["boolean", "bool", "logical"], DataType::Boolean),
    (&["tinyint", "int1"], DataType::Int8),
    (&["smallint", "int2", "int16", "short", "smallserial", "serial2"], DataType::Int16),
    (&["integer", "int", "int4", "int32", "signed", "serial", "serial4"], DataType::Int32),
    (&["bigint", "int8", "int64", "long", "oid", "bigserial", "serial8"], DataType::Int64),
    (&["utinyint", "uint8"], DataType::UInt8),
    (&["usmallint", "uint16"], DataType::UInt16),
    (&["uinteger", "uint", "uint32"], DataType::UInt32),
    (&["ubigint", "uint64"], DataType::UInt64),
    // With 38 of its 39 digits.
    (&["hugeint", "int128"], DataType::Decimal128(38, 0)),
    (&["uhugeint", "uint128"], DataType::Decimal256(39, 0)),
    // The most digits that there are.
    (&["bignum", "varint"], DataType::Decimal256(76, 0)),
    (&["real", "float4", "float32"], DataType::Float32),
    (&["double", "float8", "float64"], DataType::Float64),
    (&["decimal", "numeric", "dec"], DataType::Decimal128(38, 10)),
    (&["varchar", "text", "string", "char", "character", "nchar", "bpchar", "name", "nvarchar"], DataType::Utf8View),
    (&["date", "date32"], DataType::Date32),
    (&["time", "time_ns"], DataType::Time64(TimeUnit::Nanosecond)),
    (&["timestamp", "datetime", "timestamp_us"], DataType::Timestamp(TimeUnit::Microsecond, None)),
    (&["timestamp_s"], DataType::Timestamp(TimeUnit::Second, None)),
    (&["timestamp_ms"], DataType::Timestamp(TimeUnit::Millisecond, None)),
    (&["timestamp_ns"], DataType::Timestamp(TimeUnit::Nanosecond, None)),
    (&["interval"], DataType::Interval(IntervalUnit::MonthDayNano)),
    (&["uuid"], DataType::FixedSizeBinary(16)),
    (&["null"], DataType::Null),
    (&["float"], DataType::Float32),
    (&["date64"], DataType::Date64),
];

/// Other names of types that need more than an Arrow type.
const OTHERS: [&str; 13] = [
    "blob",
    "bytea",
    "binary",
    "varbinary",
    "bytes",
    "json",
    "jsonb",
    "timestamptz",
    "timestamptz_ns",
    "timetz",
    "list",
    "bit",
    "varbit",
];

/// The name of the type of JSON in PostgreSQL's canonical form.
pub(crate) const JSONB: &str = "JSONB";

/// The metadata of a field with the name of the type of its texts, if they have a normal form.
pub const NORMAL: &str = "freestone.normal";

/// The most bits of a type, as in PostgreSQL.
const BITS_MAX: u32 = 83_886_080;

impl Binder<'_> {
    /// The type of a name.
    pub fn sql_type(&mut self, written: &Type) -> Result<SqlType> {
        let span = written.span;
        match &written.kind {
            TypeKind::List(item) => {
                let item = self.sql_type(item)?;
                list_type(item, span)
            }
            TypeKind::Array(item, length) => {
                let item = Arc::new(Field::new("item", self.part_type(item)?, true));
                let length = length.parse().map_err(|_| invalid(span, "an array has fewer items"))?;
                Ok(SqlType::Plain(DataType::FixedSizeList(item, length)))
            }
            TypeKind::Struct(fields) => {
                let field = |binder: &mut Self, field: &freestone_sql::tree::TypeField| {
                    Ok(Field::new(&field.name.text, binder.part_type(&field.data_type)?, true))
                };
                let fields = fields.iter().map(|one| field(self, one)).collect::<Result<Vec<_>>>()?;
                Ok(SqlType::Plain(DataType::Struct(fields.into())))
            }
            TypeKind::Map(key, value) => {
                let key = Field::new("key", self.part_type(key)?, false);
                let value = Field::new("value", self.part_type(value)?, true);
                let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
                Ok(SqlType::Plain(DataType::Map(Arc::new(entries), false)))
            }
            TypeKind::Enum(labels) => labels_of(labels.iter().map(|label| label.value.clone()), span),
            TypeKind::Named { name, modifiers } => {
                let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
                match parts.as_slice() {
                    [only] => self.named_type(only, modifiers, span),
                    [schema, only] if matches!(*schema, "main" | "public" | "pg_catalog") => {
                        self.named_type(only, modifiers, span)
                    }
                    [_, _] if modifiers.is_empty() => {
                        self.own_type(&parts.join(".").to_lowercase(), span)?.ok_or_else(|| missing(name, span))
                    }
                    _ => Err(missing(name, span)),
                }
            }
        }
    }

    /// The type of a part of a nested value.
    fn part_type(&mut self, written: &Type) -> Result<DataType> {
        let known = self.sql_type(written)?;
        whole(known, written.span)
    }

    /// The type that CREATE TYPE has given a name.
    fn own_type(&mut self, name: &str, span: Span) -> Result<Option<SqlType>> {
        let Some(text) = self.world.catalog.type_text(name) else { return Ok(None) };
        let parsed = freestone_sql::parse_type(&text).map_err(|error| invalid(span, error.to_string()))?;
        self.in_level(span, |binder| binder.sql_type(&parsed)).map(Some)
    }

    fn named_type(&mut self, name: &str, modifiers: &[String], span: Span) -> Result<SqlType> {
        // Clients that quote all names also quote those of types, in upper case.
        let (written, name) = (name, &*name.to_lowercase());
        if modifiers.is_empty() {
            let own = self.own_type(written, span)?;
            if let Some(own) = own.map_or_else(|| self.own_type(name, span), |own| Ok(Some(own)))? {
                return Ok(own);
            }
        }
        // DuckDB's name for bits.
        let name = if name == "bitstring" { "bit" } else { name };
        match name {
            "blob" | "bytea" | "binary" | "varbinary" | "bytes" => return Ok(SqlType::Blob),
            "json" => return Ok(SqlType::Json),
            "decimal" | "numeric" | "dec" if !modifiers.is_empty() => return decimal(modifiers, span),
            "timestamp" | "datetime" | "timestamptz" => return timestamp(name, modifiers, span),
            "timestamptz_ns" if modifiers.is_empty() => {
                return Ok(SqlType::Plain(DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))));
            }
            "time" if !modifiers.is_empty() => {
                return Ok(SqlType::Rounded(DataType::Time64(TimeUnit::Nanosecond), digits(name, modifiers, span)?));
            }
            "interval" if !modifiers.is_empty() => {
                let data_type = DataType::Interval(IntervalUnit::MonthDayNano);
                return Ok(SqlType::Rounded(data_type, digits(name, modifiers, span)?));
            }
            "timetz" | "bit" | "varbit" | "inet" | "cidr" | "jsonb" => {
                return normal_name(name, modifiers, span).map(SqlType::Normal);
            }
            "union" | "variant" | "geometry" => return Err(missing_type(name, span)),
            _ => {}
        }
        let found = NAMES.iter().find(|(names, _)| names.contains(&name));
        match found {
            Some((_, data_type)) => Ok(SqlType::Plain(data_type.clone())),
            None => {
                // PostgreSQL's names of arrays.
                if let Some(item) = name.strip_prefix('_').filter(|item| !item.starts_with('_') && modifiers.is_empty())
                    && let Ok(known) = self.named_type(item, modifiers, span)
                {
                    return list_type(known, span);
                }
                let known = NAMES.iter().flat_map(|(names, _)| names.iter().copied()).chain(OTHERS);
                Err(unknown(span, "type", name, known))
            }
        }
    }
}

/// The refusal of a type that only DuckDB has, with what to write instead.
fn missing_type(name: &str, span: Span) -> Box<BindError> {
    let hint = match name {
        "geometry" => "keep coordinates in columns or lists, or the text or bytes of a geometry as VARCHAR or BLOB",
        _ => "write a STRUCT with a field for each type",
    };
    invalid(span, format!("type {} is not available", name.to_uppercase())).with_hint(hint)
}

fn missing(name: &ObjectName, span: Span) -> Box<BindError> {
    unknown(span, "type", &crate::reading::shown(name), std::iter::empty())
}

/// The Arrow type of a part of a struct, map or list. Casts to it do not check texts.
fn whole(known: SqlType, span: Span) -> Result<DataType> {
    let name = match &known {
        SqlType::Enum(_) => "an ENUM".to_owned(),
        SqlType::Normal(name) if name != JSONB => name.clone(),
        SqlType::Texts(..) => "a list of ENUMs or of texts of such a type".to_owned(),
        SqlType::Rounded(..) => {
            return Err(invalid(span, "a time with a number of digits is no part of another type")
                .with_hint("write TIME or INTERVAL without digits there"));
        }
        known => return Ok(known.data_type()),
    };
    Err(invalid(span, format!("{name} in a struct or map is not available")).with_hint("write VARCHAR there"))
}

/// The full name of a type of texts in a normal form.
fn normal_name(name: &str, modifiers: &[String], span: Span) -> Result<String> {
    let size = match modifiers {
        [] => None,
        [size] if matches!(name, "timetz" | "bit" | "varbit") => {
            Some(size.parse::<u32>().map_err(|_| invalid(span, format!("{name}({size}) is no type")))?)
        }
        _ => return Err(invalid(span, format!("{name}({}) is no type", modifiers.join(", ")))),
    };
    let bits = |name: &str, size: u32| match size {
        1..=BITS_MAX => Ok(format!("{name}({size})")),
        _ => Err(invalid(span, format!("{name}({size}): the number of bits is from 1 to {BITS_MAX}"))),
    };
    match (name, size) {
        // PostgreSQL, too, takes more digits for six.
        ("timetz", Some(digits @ 0..6)) => Ok(format!("TIMETZ({digits})")),
        ("bit", Some(size)) => bits("BIT", size),
        ("varbit", Some(size)) => bits("VARBIT", size),
        // Without a number there can be any, as in DuckDB; in PostgreSQL it is one.
        ("bit" | "varbit", None) => Ok("VARBIT".to_owned()),
        (name, _) => Ok(name.to_uppercase()),
    }
}

/// The digits behind the second.
fn digits(name: &str, modifiers: &[String], span: Span) -> Result<u8> {
    let wrong =
        || invalid(span, format!("{name}({}) is no type", modifiers.join(", "))).with_hint("TIME(3), INTERVAL(3)");
    match modifiers {
        [digits] => digits.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// The labels of an ENUM.
fn labels_of(labels: impl Iterator<Item = String>, span: Span) -> Result<SqlType> {
    let mut all: Vec<String> = vec![];
    for label in labels {
        if all.contains(&label) {
            return Err(invalid(span, format!("'{label}' is a label of the ENUM twice")));
        }
        all.push(label);
    }
    if all.is_empty() {
        return Err(invalid(span, "an ENUM has at least one label"));
    }
    Ok(SqlType::Enum(all))
}

/// `DECIMAL(p, s)`.
fn decimal(modifiers: &[String], span: Span) -> Result<SqlType> {
    let wrong = || {
        invalid(span, format!("DECIMAL({}) is no type", modifiers.join(", ")))
            .with_hint("DECIMAL(precision, scale): 1 to 76 digits, of which up to the precision behind the point")
    };
    let number = |at: usize| modifiers.get(at).map(|text| text.parse::<u8>().map_err(|_| wrong())).transpose();
    let precision = number(0)?.unwrap_or(38);
    let scale = number(1)?.unwrap_or(0);
    if precision == 0 || precision > 76 || scale > precision || modifiers.len() > 2 {
        return Err(wrong());
    }
    let scale = i8::try_from(scale).map_err(|_| wrong())?;
    Ok(SqlType::Plain(match precision {
        1..=38 => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    }))
}

/// `TIMESTAMP(p)`, with or without a time zone.
fn timestamp(name: &str, modifiers: &[String], span: Span) -> Result<SqlType> {
    let unit = match modifiers.first().map(|digits| digits.parse::<u8>()) {
        None | Some(Ok(4..=6)) => TimeUnit::Microsecond,
        Some(Ok(0)) => TimeUnit::Second,
        Some(Ok(1..=3)) => TimeUnit::Millisecond,
        Some(Ok(7..=9)) => TimeUnit::Nanosecond,
        _ => return Err(invalid(span, "a timestamp has up to 9 digits behind the point")),
    };
    let zone = (name == "timestamptz").then(|| "+00:00".into());
    Ok(SqlType::Plain(DataType::Timestamp(unit, zone)))
}

/// The type of lists with items of a type.
fn list_type(item: SqlType, span: Span) -> Result<SqlType> {
    match item {
        of_texts @ (SqlType::Enum(_) | SqlType::Normal(_)) => Ok(SqlType::Texts(Box::new(of_texts), 0)),
        SqlType::Texts(item, around) => Ok(SqlType::Texts(item, around + 1)),
        known => Ok(SqlType::Plain(list_of(whole(known, span)?))),
    }
}

/// A list of values of a type.
pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// Whether values of a type are texts.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// Whether an expression is a text in quotes, which takes its type from where it stands.
pub(crate) fn is_quoted(value: &Expr) -> bool {
    matches!(value, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// The type that values have in common. Texts in quotes (`true`) take the type of the others.
pub(crate) fn common(types: &[(DataType, bool)]) -> Option<DataType> {
    let typed: Vec<DataType> = types
        .iter()
        .filter(|(data_type, is_quoted)| !is_quoted && *data_type != DataType::Null)
        .map(|(data_type, _)| data_type.clone())
        .collect();
    let has_texts = types.iter().any(|(_, is_quoted)| *is_quoted);
    match typed.as_slice() {
        [] if has_texts => Some(DataType::Utf8View),
        [] => Some(DataType::Null),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => Some(first.clone()),
        // Booleans among numbers are 0 and 1.
        several if several.contains(&DataType::Boolean) && several.iter().any(DataType::is_numeric) => {
            let others = types.iter().filter(|(data_type, _)| *data_type != DataType::Boolean);
            common(&others.cloned().collect::<Vec<_>>())
        }
        several if several.iter().any(DataType::is_floating) && several.iter().all(DataType::is_numeric) => {
            let is_single = several.iter().all(|one| *one == DataType::Float32 || is_small_integer(one));
            Some(if is_single { DataType::Float32 } else { DataType::Float64 })
        }
        several => type_union_resolution(several),
    }
}

fn is_small_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Boolean, Decimal128, Float32, Float64, Int16, Int32, Int64, Null, Utf8, Utf8View};

    #[test]
    fn values_have_a_common_type() {
        let typed = |types: &[DataType]| types.iter().map(|one| (one.clone(), false)).collect::<Vec<_>>();
        assert_eq!(common(&typed(&[Int32, Int64])), Some(Int64));
        assert_eq!(common(&typed(&[Null, Int32])), Some(Int32));
        assert_eq!(common(&typed(&[Decimal128(4, 2), Float64])), Some(Float64));
        assert_eq!(common(&typed(&[Int16, Float32])), Some(Float32));
        assert_eq!(common(&[(Int32, false), (Utf8, true)]), Some(Int32));
        assert_eq!(common(&[(Utf8, true), (Null, false)]), Some(Utf8View));
        assert_eq!(common(&typed(&[Boolean, Int32])), Some(Int32));
        assert_eq!(common(&typed(&[Boolean, Boolean])), Some(Boolean));
        assert_eq!(common(&[]), Some(Null));
    }
}
