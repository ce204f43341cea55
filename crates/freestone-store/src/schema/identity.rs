//! What ALTER TABLE changes about columns, so that segments need not be rewritten: each column has an id, which is never
//! used again. A segment knows the ids of its columns, so a column keeps its values whatever its name and position
//! become. A column that a segment does not have was added later, with a value for all earlier rows.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use freestone_codec::Kind;
use serde::{Deserialize, Serialize};

use super::{Column, ForeignKey, TableSchema, kind};
use crate::column::{ColumnData, Physical};
use crate::error::{Result, StoreError};

/// The ids of columns. Before the first ALTER TABLE that changes columns, the id of a column is its position.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ColumnIds {
    /// The id of each column. If empty, ids are positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ids: Vec<u32>,
    /// The smallest id that no column has ever had, if ids are not positions.
    #[serde(default, skip_serializing_if = "is_zero")]
    next: u32,
    /// The columns that were added to a table with rows or without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    added: Vec<AddedColumn>,
}

/// A column that was added by ALTER TABLE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AddedColumn {
    id: u32,
    /// Its value in segments that were written before.
    value: StoredValue,
}

/// The DEFAULT of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDefault {
    id: u32,
    /// An SQL expression.
    sql: String,
    /// Whether it is that of an identity column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    /// A sequence that goes with the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<String>,
}

/// The type of a column as SQL declares it, where it says more than the type of the stored values: `text`, `varchar(10)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredType {
    id: u32,
    /// The type in SQL. The store does not read it.
    sql: String,
    /// Whether values that are too long for it are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    enforced: bool,
}

/// `GENERATED … AS IDENTITY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Statements give no other value.
    Always,
    /// Statements may give another value.
    ByDefault,
}

/// A single value as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredValue {
    /// NULL, in a column of any type.
    Null,
    /// An integer, or a type that is stored as one.
    Int(i64),
    #[allow(missing_docs)]
    /// A decimal of more than 18 digits: its upper and lower 64 bits.
    Wide { high: i64, low: u64 },
    /// The bits of a DOUBLE.
    F64(u64),
    /// The bits of a REAL.
    F32(u32),
    /// A string.
    Bytes(Vec<u8>),
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ColumnIds {
    /// Whether ids are positions.
    pub fn is_plain(&self) -> bool {
        *self == ColumnIds::default()
    }
}

impl StoredValue {
    /// The first value of an array, which has the stored type `data_type`; NULL if the array is empty.
    pub fn first_of(array: &ArrayRef, data_type: &DataType) -> StoredValue {
        let column = ColumnData::from_arrays([array], data_type);
        if column.is_empty() || !column.is_valid(0) {
            return StoredValue::Null;
        }
        match &column.values {
            Physical::Int(v) => StoredValue::Int(v[0]),
            Physical::Wide(v) => StoredValue::Wide { high: (v[0] >> 64) as i64, low: v[0] as u64 },
            Physical::F64(v) => StoredValue::F64(v[0].to_bits()),
            Physical::F32(v) => StoredValue::F32(v[0].to_bits()),
            Physical::Bytes { .. } => StoredValue::Bytes(column.bytes(0).to_vec()),
        }
    }

    /// A column of one row with this value. `None` if it is not a value of the kind.
    pub(crate) fn column(&self, kind: Kind) -> Option<ColumnData> {
        let values = match (self, kind) {
            (StoredValue::Null, kind) => return Some(null_row(kind)),
            (StoredValue::Int(v), Kind::Int) => Physical::Int(vec![*v]),
            (StoredValue::Wide { high, low }, Kind::Wide) => {
                Physical::Wide(vec![i128::from(*high) << 64 | i128::from(*low)])
            }
            (StoredValue::F64(bits), Kind::F64) => Physical::F64(vec![f64::from_bits(*bits)]),
            (StoredValue::F32(bits), Kind::F32) => Physical::F32(vec![f32::from_bits(*bits)]),
            (StoredValue::Bytes(bytes), Kind::Bytes) => {
                Physical::Bytes { offsets: vec![0, u32::try_from(bytes.len()).ok()?], data: bytes.clone() }
            }
            _ => return None,
        };
        Some(ColumnData { values, validity: None })
    }
}

fn null_row(kind: Kind) -> ColumnData {
    let values = match kind {
        Kind::Int => Physical::Int(vec![0]),
        Kind::Wide => Physical::Wide(vec![0]),
        Kind::F64 => Physical::F64(vec![0.0]),
        Kind::F32 => Physical::F32(vec![0.0]),
        Kind::Bytes => Physical::Bytes { offsets: vec![0, 0], data: vec![] },
    };
    ColumnData { values, validity: Some(vec![0]) }
}

impl TableSchema {
    /// The id of the column at a position.
    pub fn id(&self, position: usize) -> u32 {
        self.column_ids.ids.get(position).copied().unwrap_or(position as u32)
    }

    /// The position of the column with an id.
    pub fn position_of(&self, id: u32) -> Option<usize> {
        (0..self.columns.len()).find(|at| self.id(*at) == id)
    }

    /// Whether a column had this id at some time.
    pub(crate) fn has_used(&self, id: u32) -> bool {
        let next = if self.column_ids.is_plain() { self.columns.len() as u32 } else { self.column_ids.next };
        id < next
    }

    /// The value of an added column in segments that do not have it. `None` if it was not added.
    pub(crate) fn value_before(&self, id: u32) -> Option<&StoredValue> {
        self.column_ids.added.iter().find(|added| added.id == id).map(|added| &added.value)
    }

    /// The schema that a segment keeps: without what only the table needs to know.
    pub(crate) fn of_segment(&self) -> TableSchema {
        let ids = ColumnIds { added: vec![], ..self.column_ids.clone() };
        TableSchema { column_ids: ids, defaults: vec![], declared: vec![], ..self.clone() }
    }

    fn make_ids_explicit(&mut self) {
        let ids = &mut self.column_ids;
        if ids.ids.is_empty() {
            ids.ids = (0..self.columns.len() as u32).collect();
        }
        ids.next = ids.next.max(ids.ids.iter().max().map_or(0, |last| last + 1));
    }

    /// Adds a column after the others. Rows of earlier segments have `value` in it.
    pub fn add_column(&mut self, column: Column, value: StoredValue) {
        self.make_ids_explicit();
        let id = self.column_ids.next;
        self.column_ids.next += 1;
        self.column_ids.ids.push(id);
        self.column_ids.added.push(AddedColumn { id, value });
        self.columns.push(column);
    }

    /// Removes a column, which no key may name.
    pub fn drop_column(&mut self, position: usize) {
        self.make_ids_explicit();
        let id = self.column_ids.ids.remove(position);
        self.column_ids.added.retain(|added| added.id != id);
        self.defaults.retain(|default| default.id != id);
        self.declared.retain(|declared| declared.id != id);
        self.columns.remove(position);
    }

    /// Renames a column, also in the keys of this table. Conditions of CHECK remain as they are.
    pub fn rename_column(&mut self, position: usize, new: &str) {
        let old = std::mem::replace(&mut self.columns[position].name, new.to_owned());
        let own = self.foreign_keys.iter_mut().flat_map(|key| &mut key.columns);
        let unique = self.unique_keys.iter_mut().flat_map(|key| &mut key.columns);
        own.chain(unique)
            .chain(&mut self.primary_key)
            .filter(|name| **name == old)
            .for_each(|name| *name = new.to_owned());
    }

    /// Renames a column of another table where the foreign keys of this one reference it. Returns whether one does.
    pub fn rename_referenced(&mut self, table: &str, old: &str, new: &str) -> bool {
        let keys = self.foreign_keys.iter_mut().filter(|key| key.table == table);
        let named: Vec<&mut String> = keys.flat_map(|key| &mut key.referenced).filter(|name| **name == old).collect();
        let is_named = !named.is_empty();
        named.into_iter().for_each(|name| *name = new.to_owned());
        is_named
    }

    /// Renames a table where the foreign keys of this one reference it. Returns whether one does.
    pub fn rename_referenced_table(&mut self, old: &str, new: &str) -> bool {
        let named: Vec<&mut ForeignKey> = self.foreign_keys.iter_mut().filter(|key| key.table == old).collect();
        let is_named = !named.is_empty();
        named.into_iter().for_each(|key| key.table = new.to_owned());
        is_named
    }

    /// Forgets the value that an added column has in earlier segments, because all were rewritten.
    pub(crate) fn forget_value_before(&mut self, position: usize) {
        let id = self.id(position);
        self.column_ids.added.retain(|added| added.id != id);
    }

    /// The DEFAULT of the column at a position, as an SQL expression.
    pub fn default_of(&self, position: usize) -> Option<&str> {
        self.default_at(position).map(|default| default.sql.as_str())
    }

    /// Sets or removes the DEFAULT of the column at a position.
    pub fn set_default(&mut self, position: usize, sql: Option<String>) {
        let id = self.id(position);
        self.defaults.retain(|default| default.id != id);
        self.defaults.extend(sql.map(|sql| ColumnDefault { id, sql, identity: None, sequence: None }));
    }

    /// Gives the column at a position a DEFAULT from a sequence that goes with the column.
    pub fn set_generated(&mut self, position: usize, sql: String, identity: Option<Identity>, sequence: String) {
        let id = self.id(position);
        self.defaults.retain(|default| default.id != id);
        self.defaults.push(ColumnDefault { id, sql, identity, sequence: Some(sequence) });
    }

    fn default_at(&self, position: usize) -> Option<&ColumnDefault> {
        let id = self.id(position);
        self.defaults.iter().find(|default| default.id == id)
    }

    /// The type that SQL declares for the column at a position, where it says more than the stored type, and whether values
    /// that are too long for it are refused.
    pub fn declared_type(&self, position: usize) -> Option<(&str, bool)> {
        let id = self.id(position);
        let declared = self.declared.iter().find(|declared| declared.id == id)?;
        Some((&declared.sql, declared.enforced))
    }

    /// Sets or removes the declared type of the column at a position.
    pub fn declare_type(&mut self, position: usize, declared: Option<(String, bool)>) {
        let id = self.id(position);
        self.declared.retain(|known| known.id != id);
        self.declared.extend(declared.map(|(sql, enforced)| DeclaredType { id, sql, enforced }));
    }

    /// Whether the column at a position is an identity column.
    pub fn identity_of(&self, position: usize) -> Option<Identity> {
        self.default_at(position)?.identity
    }

    /// The sequence that goes with the column at a position.
    pub fn sequence_of(&self, position: usize) -> Option<&str> {
        self.default_at(position)?.sequence.as_deref()
    }

    /// The sequences that go with columns.
    pub fn sequences(&self) -> Vec<String> {
        (0..self.columns.len()).filter_map(|at| self.sequence_of(at)).map(str::to_owned).collect()
    }

    /// For each column, its position in a segment with the schema `stored`; `None` if it was added later.
    ///
    /// # Errors
    /// A reason why this is not a segment of the table.
    pub(crate) fn places_in(&self, stored: &TableSchema) -> Result<Vec<Option<usize>>, String> {
        if let Some(id) = (0..stored.columns.len()).map(|at| stored.id(at)).find(|id| !self.has_used(*id)) {
            return Err(format!("it has a column with id {id}, which the table never had"));
        }
        let place = |(at, column): (usize, &Column)| {
            let id = self.id(at);
            let Some(place) = stored.position_of(id) else {
                return match self.value_before(id) {
                    Some(_) => Ok(None),
                    None => Err(format!("it has no column {}", column.name)),
                };
            };
            let found = &stored.columns[place].data_type;
            match *found == column.data_type || widens_in_place(found, &column.data_type) {
                true => Ok(Some(place)),
                false => Err(format!("its column {} is of type {found}, not {}", column.name, column.data_type)),
            }
        };
        let mut places = self.columns.iter().enumerate().map(place).collect::<Result<Vec<_>, String>>()?;
        for column in 0..self.columns.len() {
            let fields = self.fields_of(column);
            match places[column] {
                Some(place) => places.extend(stored.fields_of(place).map(Some)),
                None => places.extend(fields.map(|_| None)),
            }
        }
        Ok(places)
    }

    /// Whether a segment with the schema `stored` has exactly these columns.
    pub(crate) fn is_schema_of(&self, stored: &TableSchema) -> bool {
        self.columns == stored.columns && (0..self.columns.len()).all(|at| self.id(at) == stored.id(at))
    }

    /// Refuses a name that a column has already.
    ///
    /// # Errors
    /// `Invalid`, with the name.
    pub fn check_free(&self, name: &str) -> Result<()> {
        match self.columns.iter().any(|column| column.name == name) {
            true => Err(StoreError::invalid(format!("column {name} appears twice: the table has one already"))),
            false => Ok(()),
        }
    }
}

/// Whether values of one type are stored exactly as equal values of the other type, which has all of them. Then a
/// column can change from one to the other without being rewritten.
pub fn widens_in_place(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let bits = |data_type: &DataType| match data_type {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        // Stored with another zero point than all others.
        _ => None,
    };
    match (from, to) {
        (Decimal128(p, s), Decimal128(q, t)) => p <= q && s == t && kind(from) == kind(to),
        _ => match (bits(from), bits(to)) {
            (Some((signed, narrow)), Some((to_signed, wide))) => narrow < wide && (to_signed || !signed),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn schema(names: &[&str]) -> TableSchema {
        let column = |name: &&str| Column { name: (*name).into(), data_type: DataType::Int32, nullable: true };
        TableSchema { columns: names.iter().map(column).collect(), ..TableSchema::default() }
    }

    #[test]
    fn ids_are_never_used_again() {
        let stored = schema(&["a", "b", "c"]);
        let mut table = stored.clone();
        table.drop_column(2);
        table.add_column(stored.columns[2].clone(), StoredValue::Int(5));
        table.drop_column(0);
        assert_eq!((0..2).map(|at| table.id(at)).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(table.places_in(&stored), Ok(vec![Some(1), None]));
        assert_eq!(table.value_before(3), Some(&StoredValue::Int(5)));
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<TableSchema>(&json).unwrap(), table);
        // The table was written before the segment's last columns existed: these are another table's.
        assert!(schema(&["a"]).places_in(&stored).unwrap_err().contains("never had"));
        assert!(schema(&["a", "b", "c", "d"]).places_in(&stored).unwrap_err().contains("no column d"));
    }

    #[test]
    fn only_equal_stored_numbers_widen_in_place() {
        use DataType::*;
        assert!(widens_in_place(&Int8, &Int64) && widens_in_place(&UInt32, &Int64) && widens_in_place(&UInt8, &UInt16));
        assert!(widens_in_place(&Decimal128(9, 2), &Decimal128(18, 2)));
        assert!(widens_in_place(&Decimal128(19, 2), &Decimal128(38, 2)));
        for (from, to) in [
            (Int64, Int32),
            (Int32, UInt64),
            (UInt32, Int32),
            (UInt32, UInt64),
            (Float32, Float64),
            (Date32, Int32),
            (Boolean, Int32),
            (Decimal128(9, 2), Decimal128(19, 2)),
            (Decimal128(9, 2), Decimal128(12, 3)),
        ] {
            assert!(!widens_in_place(&from, &to), "{from} to {to}");
        }
    }

    #[test]
    fn values_are_kept_exactly() {
        let wide = i128::MIN + 7;
        let column = ColumnData { values: Physical::Wide(vec![wide]), validity: None };
        let value = StoredValue::Wide { high: (wide >> 64) as i64, low: wide as u64 };
        let json = serde_json::to_string(&value).unwrap();
        let read: StoredValue = serde_json::from_str(&json).unwrap();
        assert!(read.column(Kind::Wide).unwrap().compare_with(0, &column, 0).is_eq());
        assert!(read.column(Kind::Int).is_none());
        let text: ArrayRef = Arc::new(arrow_array::StringViewArray::from(vec![Some("ä")]));
        assert_eq!(StoredValue::first_of(&text, &DataType::Utf8View), StoredValue::Bytes("ä".into()));
        assert!(!StoredValue::Null.column(Kind::Bytes).unwrap().is_valid(0));
    }
}
