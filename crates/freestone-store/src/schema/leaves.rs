//! The columns of a table as they are stored: those of its schema, and after them the fields of structs. A struct's own
//! column holds only which of its rows are not NULL. The fields of a struct inside another one follow it.

use std::ops::Range;

use arrow_schema::DataType;

use super::{Column, TableSchema};
use crate::design::quote;
use crate::error::{Result, StoreError};

/// The number of fields of a struct, and of the structs in it.
fn count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| 1 + count(field.data_type())).sum(),
        _ => 0,
    }
}

/// The type of a field by its position among those of a struct and of the structs in it.
fn type_at(data_type: &DataType, mut at: usize) -> Option<&DataType> {
    let DataType::Struct(fields) = data_type else { return None };
    for field in fields {
        let inner = field.data_type();
        match at.checked_sub(1) {
            None => return Some(inner),
            Some(rest) if rest < count(inner) => return type_at(inner, rest),
            Some(rest) => at = rest - count(inner),
        }
    }
    None
}

/// The fields of a struct as columns, with names such as `s.a`.
fn push_fields(name: &str, data_type: &DataType, columns: &mut Vec<Column>) {
    let DataType::Struct(fields) = data_type else { return };
    for field in fields {
        let name = format!("{name}.{}", quote(field.name()));
        columns.push(Column { name: name.clone(), data_type: field.data_type().clone(), nullable: true });
        push_fields(&name, field.data_type(), columns);
    }
}

impl TableSchema {
    /// The number of stored columns.
    pub fn stored_count(&self) -> usize {
        self.columns.len() + self.columns.iter().map(|column| count(&column.data_type)).sum::<usize>()
    }

    /// The positions of the fields of a struct among the stored columns; empty for other columns.
    pub fn fields_of(&self, column: usize) -> Range<usize> {
        let before: usize = self.columns[..column].iter().map(|column| count(&column.data_type)).sum();
        let start = self.columns.len() + before;
        start..start + count(&self.columns[column].data_type)
    }

    /// The column of the table to which a stored column belongs.
    pub fn column_of(&self, stored: usize) -> usize {
        self.located(stored).map_or(stored, |(column, _)| column)
    }

    /// The column of a field, and its place among the fields of the column; `None` for a column.
    fn located(&self, stored: usize) -> Option<(usize, usize)> {
        let mut place = stored.checked_sub(self.columns.len())?;
        for (at, column) in self.columns.iter().enumerate() {
            let fields = count(&column.data_type);
            if place < fields {
                return Some((at, place));
            }
            place -= fields;
        }
        None
    }

    /// The type of a stored column.
    pub fn stored_type(&self, stored: usize) -> &DataType {
        if let Some(column) = self.columns.get(stored) {
            return &column.data_type;
        }
        let found = self.located(stored).and_then(|(column, place)| type_at(&self.columns[column].data_type, place));
        found.unwrap_or(&DataType::Null)
    }

    /// All stored columns, with names such as `s.a` for fields.
    pub fn stored_columns(&self) -> Vec<Column> {
        let mut columns = self.columns.clone();
        for column in &self.columns {
            push_fields(&quote(&column.name), &column.data_type, &mut columns);
        }
        columns
    }

    /// Whether a stored column can have NULLs.
    pub fn stored_nullable(&self, stored: usize) -> bool {
        self.columns.get(stored).is_none_or(|column| column.nullable)
    }

    /// The name of a stored column.
    pub fn stored_name(&self, stored: usize) -> String {
        match self.columns.get(stored) {
            Some(column) => column.name.clone(),
            None => self.stored_columns().get(stored).map(|column| column.name.clone()).unwrap_or_default(),
        }
    }

    /// The position of a stored column.
    ///
    /// # Errors
    /// `Invalid`, with a list of the columns.
    pub fn stored_index_of(&self, name: &str) -> Result<usize> {
        let columns = self.stored_columns();
        columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            StoreError::invalid(format!("no column {name}; the columns are {}", names.join(", ")))
        })
    }

    /// The position of the field to which a path of names leads from a column of structs.
    pub fn field_at(&self, column: usize, path: &[&str]) -> Option<usize> {
        let (mut at, mut data_type) = (self.fields_of(column).start, &self.columns.get(column)?.data_type);
        for (depth, name) in path.iter().enumerate() {
            let DataType::Struct(fields) = data_type else { return None };
            if depth > 0 {
                at += 1;
            }
            let place = fields.iter().position(|field| field.name() == name)?;
            at += fields[..place].iter().map(|field| 1 + count(field.data_type())).sum::<usize>();
            data_type = fields[place].data_type();
        }
        (!path.is_empty()).then_some(at)
    }

    /// These columns, and after them the fields of those that are structs.
    pub fn with_fields(&self, columns: &[usize]) -> Vec<usize> {
        let structs = columns.iter().filter(|column| **column < self.columns.len());
        columns.iter().copied().chain(structs.flat_map(|column| self.fields_of(*column))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::parse_type;

    #[test]
    fn fields_follow_the_columns() {
        let column = |name: &str, data_type: &str| Column {
            name: name.into(),
            data_type: parse_type(data_type).unwrap(),
            nullable: true,
        };
        let columns = vec![
            column("s", "struct(\"a\" int8,\"t\" struct(\"x\" date,\"y z\" list(int8)),\"b\" varchar)"),
            column("i", "int32"),
            column("S", "struct(\"a\" double)"),
        ];
        let schema = TableSchema { columns, ..TableSchema::default() };
        let names: Vec<String> = (0..schema.stored_count()).map(|at| schema.stored_name(at)).collect();
        assert_eq!(names, ["s", "i", "S", "s.a", "s.t", "s.t.x", "s.t.\"y z\"", "s.b", "\"S\".a"]);
        assert_eq!((schema.fields_of(0), schema.fields_of(1), schema.fields_of(2)), (3..8, 8..8, 8..9));
        for (at, column) in schema.stored_columns().iter().enumerate() {
            assert_eq!(*schema.stored_type(at), column.data_type, "{at}");
            assert_eq!(schema.stored_index_of(&column.name).unwrap(), at);
        }
        assert_eq!(schema.field_at(0, &["a"]), Some(3));
        assert_eq!(schema.field_at(0, &["t", "y z"]), Some(6));
        assert_eq!(schema.field_at(0, &["b"]), Some(7));
        assert_eq!(schema.field_at(2, &["a"]), Some(8));
        assert_eq!(
            (schema.field_at(0, &["c"]), schema.field_at(0, &[]), schema.field_at(1, &["a"])),
            (None, None, None)
        );
        assert_eq!(schema.with_fields(&[1, 2]), [1, 2, 8]);
        assert_eq!((schema.column_of(1), schema.column_of(6), schema.column_of(8)), (1, 0, 2));
    }
}
