//! The types of columns: which can be stored, as which kind of values, and under which names.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use freestone_codec::Kind;

use crate::nested::{FIXED_LENGTH_MAX, TYPE_DEPTH_MAX, is_encoded};

/// The stored type for an Arrow type: strings become `Utf8View`, binaries `BinaryView`, small decimals `Decimal128`,
/// lists of any layout `List`. Fields of nested types are nullable and have no metadata.
///
/// # Errors
/// The type cannot be stored.
pub fn normalize(data_type: &DataType) -> Result<DataType, String> {
    normalized(data_type, 0)
}

fn normalized(data_type: &DataType, depth: usize) -> Result<DataType, String> {
    use DataType::*;
    if depth > TYPE_DEPTH_MAX {
        return Err(format!("a type nested more than {TYPE_DEPTH_MAX} deep cannot be stored; store it as JSON text"));
    }
    let inner = |field: &FieldRef| normalized(field.data_type(), depth + 1);
    Ok(match data_type {
        Boolean
        | Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | UInt64
        | Float32
        | Float64
        | Date32
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _)
        | Utf8View
        | BinaryView
        | FixedSizeBinary(16) => data_type.clone(),
        Float16 => Float32,
        Date64 => Date32,
        Utf8 | LargeUtf8 => Utf8View,
        Binary | LargeBinary | FixedSizeBinary(_) => BinaryView,
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) => Decimal128(*p, *s),
        Decimal256(p, s) if *p <= 38 => Decimal128(*p, *s),
        Decimal256(p, s) => Decimal256(*p, *s),
        Interval(_) => Interval(IntervalUnit::MonthDayNano),
        Dictionary(_, value) => normalized(value, depth)?,
        RunEndEncoded(_, value) => normalized(value.data_type(), depth)?,
        // A column of NULLs whose type is unknown.
        Null => Utf8View,
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) => list(inner(item)?),
        FixedSizeList(item, length) if (1..=FIXED_LENGTH_MAX).contains(length) => array(inner(item)?, *length),
        FixedSizeList(_, length) => {
            return Err(format!(
                "arrays of {length} items cannot be stored; the length is from 1 to {FIXED_LENGTH_MAX}"
            ));
        }
        Struct(fields) => {
            let named = |field: &FieldRef| Ok((field.name().clone(), inner(field)?));
            structure(fields.iter().map(named).collect::<Result<Vec<_>, String>>()?)?
        }
        Map(entries, _) => match entries.data_type() {
            Struct(pair) if pair.len() == 2 => {
                let inside = |field: &FieldRef| normalized(field.data_type(), depth + 1);
                map(inside(&pair[0])?, inside(&pair[1])?)
            }
            other => return Err(format!("a map of {other} cannot be stored")),
        },
        Union(_, _) => return Err(format!("type {data_type} cannot be stored; store it as a STRUCT or as JSON text")),
        other => return Err(format!("type {other} cannot be stored; cast it to a supported type")),
    })
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn array(item: DataType, length: i32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), length)
}

fn map(key: DataType, value: DataType) -> DataType {
    let pair = vec![Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair.into()), false)), false)
}

fn structure(fields: Vec<(String, DataType)>) -> Result<DataType, String> {
    if fields.is_empty() {
        return Err("a struct without fields cannot be stored".into());
    }
    for (at, (name, _)) in fields.iter().enumerate() {
        if fields[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("a struct with two fields {name} cannot be stored"));
        }
    }
    let fields: Vec<Field> = fields.into_iter().map(|(name, inner)| Field::new(name, inner, true)).collect();
    Ok(DataType::Struct(fields.into()))
}

/// The physical kind of a stored type.
pub fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Float64 => Kind::F64,
        DataType::Float32 => Kind::F32,
        DataType::Utf8View | DataType::BinaryView | DataType::Utf8 | DataType::Binary => Kind::Bytes,
        DataType::Decimal128(precision, _) if *precision > 18 => Kind::Wide,
        other if is_encoded(other) => Kind::Bytes,
        _ => Kind::Int,
    }
}

/// A type's name in files and messages. [`parse_type`] parses it.
pub fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Boolean => "boolean".into(),
        Int8 => "int8".into(),
        Int16 => "int16".into(),
        Int32 => "int32".into(),
        Int64 => "int64".into(),
        UInt8 => "uint8".into(),
        UInt16 => "uint16".into(),
        UInt32 => "uint32".into(),
        UInt64 => "uint64".into(),
        Float32 => "real".into(),
        Float64 => "double".into(),
        Date32 => "date".into(),
        Utf8View => "varchar".into(),
        BinaryView => "binary".into(),
        FixedSizeBinary(16) => "uuid".into(),
        Interval(IntervalUnit::MonthDayNano) => "interval".into(),
        Decimal128(p, s) | Decimal256(p, s) => format!("decimal({p},{s})"),
        Time32(unit) | Time64(unit) => format!("time({})", unit_name(unit)),
        Timestamp(unit, None) => format!("timestamp({})", unit_name(unit)),
        Timestamp(unit, Some(zone)) => format!("timestamp({},{zone})", unit_name(unit)),
        List(item) => format!("list({})", type_name(item.data_type())),
        FixedSizeList(item, length) => format!("array({},{length})", type_name(item.data_type())),
        Struct(fields) => {
            let field = |field: &FieldRef| {
                format!("\"{}\" {}", field.name().replace('"', "\"\""), type_name(field.data_type()))
            };
            format!("struct({})", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Map(entries, _) => match entries.data_type() {
            Struct(pair) if pair.len() == 2 => {
                format!("map({},{})", type_name(pair[0].data_type()), type_name(pair[1].data_type()))
            }
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// The type with a name of [`type_name`].
pub fn parse_type(name: &str) -> Option<DataType> {
    let mut names = Names { rest: name };
    let data_type = names.data_type(0)?;
    names.rest.is_empty().then_some(data_type)
}

/// The text of a type, read from the front.
struct Names<'a> {
    rest: &'a str,
}

impl<'a> Names<'a> {
    fn data_type(&mut self, depth: usize) -> Option<DataType> {
        if depth > TYPE_DEPTH_MAX {
            return None;
        }
        let end = self.rest.find(['(', ',', ')']).unwrap_or(self.rest.len());
        let (base, rest) = self.rest.split_at(end);
        self.rest = rest;
        let nested = depth + 1;
        Some(match base {
            "list" => {
                self.expect("(")?;
                let item = self.data_type(nested)?;
                self.expect(")")?;
                list(item)
            }
            "array" => {
                self.expect("(")?;
                let item = self.data_type(nested)?;
                self.expect(",")?;
                let length = self.arguments()?.parse().ok().filter(|n| (1..=FIXED_LENGTH_MAX).contains(n))?;
                array(item, length)
            }
            "map" => {
                self.expect("(")?;
                let key = self.data_type(nested)?;
                self.expect(",")?;
                let value = self.data_type(nested)?;
                self.expect(")")?;
                map(key, value)
            }
            "struct" => {
                self.expect("(")?;
                let mut fields = vec![];
                loop {
                    let name = self.quoted()?;
                    self.expect(" ")?;
                    fields.push((name, self.data_type(nested)?));
                    if self.expect(",").is_none() {
                        break;
                    }
                }
                self.expect(")")?;
                structure(fields).ok()?
            }
            base => {
                let arguments = if self.expect("(").is_some() { self.arguments()? } else { "" };
                flat_type(base, arguments)?
            }
        })
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// What comes before the next parenthesis.
    fn arguments(&mut self) -> Option<&'a str> {
        let (arguments, rest) = self.rest.split_once(')')?;
        self.rest = rest;
        Some(arguments)
    }

    /// A name in quotes.
    fn quoted(&mut self) -> Option<String> {
        self.expect("\"")?;
        let mut name = String::new();
        loop {
            let (part, rest) = self.rest.split_once('"')?;
            name.push_str(part);
            self.rest = rest;
            if self.expect("\"").is_none() {
                return Some(name);
            }
            name.push('"');
        }
    }
}

fn flat_type(base: &str, arguments: &str) -> Option<DataType> {
    use DataType::*;
    let plain = match base {
        "boolean" => Boolean,
        "int8" => Int8,
        "int16" => Int16,
        "int32" => Int32,
        "int64" => Int64,
        "uint8" => UInt8,
        "uint16" => UInt16,
        "uint32" => UInt32,
        "uint64" => UInt64,
        "real" => Float32,
        "double" => Float64,
        "date" => Date32,
        "varchar" => Utf8View,
        "binary" => BinaryView,
        "uuid" => FixedSizeBinary(16),
        "interval" => Interval(IntervalUnit::MonthDayNano),
        _ => return parameterized(base, arguments),
    };
    arguments.is_empty().then_some(plain)
}

fn parameterized(base: &str, arguments: &str) -> Option<DataType> {
    use DataType::*;
    Some(match base {
        "decimal" => {
            let (p, s) = arguments.split_once(',')?;
            match p.parse().ok()? {
                p @ 1..=38 => Decimal128(p, s.parse().ok()?),
                p @ 39..=76 => Decimal256(p, s.parse().ok()?),
                _ => return None,
            }
        }
        "time" => match unit(arguments)? {
            u @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(u),
            u => Time64(u),
        },
        "timestamp" => match arguments.split_once(',') {
            Some((u, zone)) => Timestamp(unit(u)?, Some(zone.into())),
            None => Timestamp(unit(arguments)?, None),
        },
        _ => return None,
    })
}

fn unit_name(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn unit(name: &str) -> Option<TimeUnit> {
    Some(match name {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_read_back() {
        let types = [
            DataType::Boolean,
            DataType::UInt64,
            DataType::Decimal128(38, -2),
            DataType::Decimal256(76, 10),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::FixedSizeBinary(16),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
            DataType::BinaryView,
            list(list(DataType::Timestamp(TimeUnit::Second, Some("UTC".into())))),
            array(map(DataType::Utf8View, array(DataType::Decimal128(9, 2), 1)), 100),
            structure(vec![("a".into(), list(DataType::Int8)), ("\"b\"), ".into(), DataType::Date32)]).unwrap(),
        ];
        for data_type in types {
            assert_eq!(parse_type(&type_name(&data_type)), Some(data_type));
        }
        assert_eq!(parse_type("decimal(77,2)"), None);
        assert_eq!(parse_type("list"), None);
        assert_eq!(parse_type("int8(1)"), None);
        assert_eq!(parse_type("int8)"), None);
    }
}
