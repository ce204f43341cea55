//! Table schemas: columns, their types and constraints.

mod constraints;
mod identity;
mod leaves;
mod types;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

pub use self::constraints::{Constraint, ConstraintKind, usual_constraint_name};
pub use self::identity::{ColumnDefault, ColumnIds, DeclaredType, Identity, StoredValue, widens_in_place};
pub use self::types::{kind, normalize, parse_type, type_name};
use crate::error::{Result, StoreError};
use crate::nested::is_ordered;

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
    /// The types of columns as SQL declares them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<DeclaredType>,
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
        if self.stored_count() > self.columns.len() {
            let mut seen = std::collections::HashSet::new();
            if let Some(twice) = self.stored_columns().into_iter().find(|column| !seen.insert(column.name.clone())) {
                let name = twice.name;
                return Err(StoreError::invalid(format!(
                    "{name} is both a column and a field of a struct; give the column another name"
                )));
            }
        }
        let foreign = self.foreign_keys.iter().map(|key| &key.columns);
        let unique = self.unique_keys.iter().map(|key| &key.columns);
        for columns in [&self.primary_key].into_iter().chain(foreign).chain(unique) {
            for (at, name) in columns.iter().enumerate() {
                self.ordered_index_of(name, "a key")?;
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

    /// The position of a column whose values have an order in their stored form, for `what`.
    ///
    /// # Errors
    /// `Invalid`: there is no such column, or it has another type.
    pub fn ordered_index_of(&self, name: &str, what: &str) -> Result<usize> {
        let at = self.index_of(name)?;
        let data_type = &self.columns[at].data_type;
        if is_ordered(data_type) {
            return Ok(at);
        }
        let kind = type_name(data_type);
        Err(StoreError::invalid(format!(
            "column {name} of type {kind} cannot be in {what}; values of this type are only stored and read"
        )))
    }

    /// The Arrow schema of the columns.
    pub fn to_arrow(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
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
