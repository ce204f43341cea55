//! Table schemas: columns, their types and constraints.

mod constraints;
mod identity;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use freestone_codec::Kind;
use serde::{Deserialize, Serialize};

pub use self::constraints::{Constraint, ConstraintKind, usual_constraint_name};
pub use self::identity::{ColumnDefault, ColumnIds, Identity, StoredValue, widens_in_place};
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

/// `PRIMARY KEY (columns)` or `UNIQUE (columns)`, enforced: no two rows have the same values in these columns. A row with
/// NULL in one of them is equal to no other row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    /// The name of the constraint, which is unique in its table.
    pub name: String,
    /// The columns.
    pub columns: Vec<String>,
}

/// `CHECK (condition)`: no row makes the condition false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckConstraint {
    /// The name of the constraint, which is unique in its table.
    pub name: String,
    /// The condition in SQL. The store does not read it.
    pub condition: String,
}

/// `FOREIGN KEY (columns) REFERENCES table (referenced)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The name of the constraint. Empty in tables that were created before keys had names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The columns that reference.
    pub columns: Vec<String>,
    /// The referenced table.
    pub table: String,
    /// The referenced columns.
    pub referenced: Vec<String>,
    /// Whether the referenced row of every row must be there. Then the referenced columns are an enforced key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforced: bool,
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
    /// The keys that are enforced. If it is enforced, the primary key is one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unique_keys: Vec<UniqueKey>,
    /// The conditions that all rows satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckConstraint>,
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

    /// The enforced key of exactly these columns, in any order.
    pub fn enforced_key(&self, columns: &[String]) -> Option<&UniqueKey> {
        let is_of = |key: &&UniqueKey| {
            key.columns.len() == columns.len() && key.columns.iter().all(|name| columns.contains(name))
        };
        self.unique_keys.iter().find(is_of)
    }

    /// The primary key, if it is enforced.
    pub fn enforced_primary_key(&self) -> Option<&UniqueKey> {
        if self.primary_key.is_empty() { None } else { self.unique_keys.iter().find(|k| k.columns == self.primary_key) }
    }

    /// The columns of a key, by position.
    ///
    /// # Errors
    /// `Invalid`, with the name of a column that does not exist.
    pub fn positions(&self, columns: &[String]) -> Result<Vec<usize>> {
        columns.iter().map(|name| self.index_of(name)).collect()
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
        let foreign = self.foreign_keys.iter().map(|key| &key.columns);
        let unique = self.unique_keys.iter().map(|key| &key.columns);
        for columns in [&self.primary_key].into_iter().chain(foreign).chain(unique) {
            for (at, name) in columns.iter().enumerate() {
                self.index_of(name)?;
                if columns[..at].contains(name) {
                    return Err(StoreError::invalid(format!("column {name} appears twice in a key")));
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        let names = self.unique_keys.iter().map(|key| &key.name).chain(self.checks.iter().map(|check| &check.name));
        let references = self.foreign_keys.iter().map(|key| &key.name).filter(|name| !name.is_empty());
        for name in names.chain(references) {
            if !seen.insert(name) {
                return Err(StoreError::invalid(format!("constraint {name} is declared twice")));
            }
        }
        Ok(self)
    }

    /// Some of the columns, with the declared keys that consist of them. Nothing is enforced. Their ids are their
    /// positions: the columns of a copy never change.
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
