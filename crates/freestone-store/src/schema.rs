//! Table schemas: columns, their types and constraints.

mod identity;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use freestone_codec::Kind;
use serde::{Deserialize, Serialize};

pub use self::identity::{ColumnDefault, ColumnIds, StoredValue, widens_in_place};
use crate::error::{Result, StoreError};

/// One column of a table. Its type is one of the types that [`normalize`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type in Arrow.
    pub data_type: DataType,
    /// Whether values may be NULL.
    pub nullable: bool,
}

/// `FOREIGN KEY (columns) REFERENCES table (referenced)`: declared, but not enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The columns that reference.
    pub columns: Vec<String>,
    /// The referenced table.
    pub table: String,
    /// The referenced columns.
    pub referenced: Vec<String>,
}

/// The columns and declared constraints of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableSchema {
    /// The columns in order.
    pub columns: Vec<Column>,
    /// The columns of the primary key; empty if none is declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primary_key: Vec<String>,
    /// The declared foreign keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// The ids of the columns.
    #[serde(default, skip_serializing_if = "ColumnIds::is_plain")]
    pub column_ids: ColumnIds,
    /// The values of columns that an INSERT does not name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<ColumnDefault>,
}

impl TableSchema {
    /// The table schema for an Arrow schema, with normalized types.
    ///
    /// # Errors
    /// Names the column whose type cannot be stored.
    pub fn from_arrow(schema: &Schema) -> Result<Self> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let data_type = normalize(field.data_type())
                .map_err(|e| StoreError::invalid(format!("column {}: {e}", field.name())))?;
            columns.push(Column { name: field.name().clone(), data_type, nullable: field.is_nullable() });
        }
        TableSchema { columns, ..Default::default() }.validated()
    }

    /// Checks that there is a column, that names are unique, and that keys name columns.
    ///
    /// # Errors
    /// `Invalid`, with the name.
    pub fn validated(self) -> Result<Self> {
        if self.columns.is_empty() {
            return Err(StoreError::invalid("a table needs at least one column"));
        }
        let mut seen = std::collections::HashSet::new();
        for column in &self.columns {
            if !seen.insert(column.name.as_str()) {
                return Err(StoreError::invalid(format!("column {} is declared twice", column.name)));
            }
        }
        let keys = self.primary_key.iter().chain(self.foreign_keys.iter().flat_map(|k| &k.columns));
        for name in keys {
            self.index_of(name)?;
        }
        Ok(self)
    }

    /// Some of the columns, with the keys that consist of them. Their ids are their positions: the columns of a copy
    /// never change.
    pub fn of_columns(&self, columns: &[usize]) -> TableSchema {
        let columns: Vec<Column> = columns.iter().map(|column| self.columns[*column].clone()).collect();
        let has = |key: &[String]| key.iter().all(|name| columns.iter().any(|column| column.name == *name));
        let primary_key = if has(&self.primary_key) { self.primary_key.clone() } else { vec![] };
        let foreign_keys = self.foreign_keys.iter().filter(|key| has(&key.columns)).cloned().collect();
        TableSchema { columns, primary_key, foreign_keys, ..TableSchema::default() }
    }

    /// The position of a column.
    ///
    /// # Errors
    /// `Invalid`, with a list of the columns.
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|c| c.name == name).ok_or_else(|| {
            let names: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
            StoreError::invalid(format!("no column {name}; the columns are {}", names.join(", ")))
        })
    }

    /// The Arrow schema of the columns.
    pub fn to_arrow(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// The stored type for an Arrow type: strings become `Utf8View`, binaries `BinaryView`, small decimals `Decimal128`.
///
/// # Errors
/// Nested types cannot be stored.
pub fn normalize(data_type: &DataType) -> Result<DataType, String> {
    use DataType::*;
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
        | BinaryView => data_type.clone(),
        Float16 => Float32,
        Date64 => Date32,
        Utf8 | LargeUtf8 => Utf8View,
        Binary | LargeBinary | FixedSizeBinary(_) => BinaryView,
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) => Decimal128(*p, *s),
        Decimal256(p, s) if *p <= 38 => Decimal128(*p, *s),
        Dictionary(_, value) => normalize(value)?,
        RunEndEncoded(_, value) => normalize(value.data_type())?,
        // A column of NULLs whose type is unknown.
        Null => Utf8View,
        List(_)
        | LargeList(_)
        | ListView(_)
        | LargeListView(_)
        | FixedSizeList(_, _)
        | Struct(_)
        | Map(_, _)
        | Union(_, _) => {
            return Err(format!("nested type {data_type} cannot be stored; flatten it, or store it as JSON text"));
        }
        other => return Err(format!("type {other} cannot be stored; cast it to a supported type")),
    })
}

/// The physical kind of a stored type.
pub fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Float64 => Kind::F64,
        DataType::Float32 => Kind::F32,
        DataType::Utf8View | DataType::BinaryView | DataType::Utf8 | DataType::Binary => Kind::Bytes,
        DataType::Decimal128(precision, _) if *precision > 18 => Kind::Wide,
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
        Decimal128(p, s) => format!("decimal({p},{s})"),
        Time32(unit) | Time64(unit) => format!("time({})", unit_name(unit)),
        Timestamp(unit, None) => format!("timestamp({})", unit_name(unit)),
        Timestamp(unit, Some(zone)) => format!("timestamp({},{zone})", unit_name(unit)),
        other => other.to_string(),
    }
}

/// The type with a name of [`type_name`].
pub fn parse_type(name: &str) -> Option<DataType> {
    use DataType::*;
    let (base, arguments) = match name.split_once('(') {
        Some((base, rest)) => (base, rest.strip_suffix(')')?),
        None => (name, ""),
    };
    Some(match base {
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
        "decimal" => {
            let (p, s) = arguments.split_once(',')?;
            Decimal128(p.parse().ok().filter(|p| (1..=38).contains(p))?, s.parse().ok()?)
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

#[derive(Serialize, Deserialize)]
struct ColumnRecord {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
    #[serde(default)]
    nullable: bool,
}

impl Serialize for Column {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record =
            ColumnRecord { name: self.name.clone(), data_type: type_name(&self.data_type), nullable: self.nullable };
        record.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = ColumnRecord::deserialize(deserializer)?;
        let data_type = parse_type(&record.data_type)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown type {}", record.data_type)))?;
        Ok(Column { name: record.name, data_type, nullable: record.nullable })
    }
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
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
            DataType::BinaryView,
        ];
        for data_type in types {
            assert_eq!(parse_type(&type_name(&data_type)), Some(data_type));
        }
        assert_eq!(parse_type("decimal(39,2)"), None);
        assert_eq!(parse_type("list"), None);
    }

    #[test]
    fn nested_types_are_refused() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        assert!(normalize(&list).unwrap_err().contains("nested"));
    }
}
