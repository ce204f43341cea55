//! Structs as columns of their own: which rows are not NULL, and the fields.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::column::ColumnBuffer;
use crate::schema::TableSchema;

/// The values of a column, and the rows in which the structs around them are not NULL.
pub(crate) type Part = (ArrayRef, Option<NullBuffer>);

/// Appends the fields of structs, in the order of [`TableSchema::stored_columns`].
pub(crate) fn push_fields(array: &ArrayRef, outer: Option<&NullBuffer>, parts: &mut Vec<Part>) {
    let Some(structs) = array.as_struct_opt() else { return };
    let nulls = NullBuffer::union(outer, structs.nulls());
    for column in structs.columns() {
        parts.push((column.clone(), nulls.clone()));
        push_fields(column, nulls.as_ref(), parts);
    }
}

/// The stored columns that are read for columns of a table, and how these become one array each.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The requested columns, and after them the fields of those that are structs.
    pub stored: Vec<usize>,
    /// For each requested column that is a struct, its type, and the place of its first field.
    structs: Vec<Option<(DataType, usize)>>,
}

impl Reading {
    pub fn of(schema: &TableSchema, columns: &[usize]) -> Reading {
        let stored = schema.with_fields(columns);
        let mut place = columns.len();
        let structs = columns.iter().map(|column| {
            let data_type = &schema.columns.get(*column)?.data_type;
            let start = place;
            place += schema.fields_of(*column).len();
            matches!(data_type, DataType::Struct(_)).then(|| (data_type.clone(), start))
        });
        let structs = structs.collect();
        Reading { stored, structs }
    }

    /// The arrays of the requested columns.
    ///
    /// # Errors
    /// Values are damaged.
    pub fn finish(&self, buffers: Vec<ColumnBuffer>) -> Result<Vec<ArrayRef>, String> {
        let mut arrays = buffers.into_iter().map(ColumnBuffer::finish).collect::<Result<Vec<_>, String>>()?;
        for (at, of) in self.structs.iter().enumerate() {
            let Some((data_type, place)) = of else { continue };
            let mut fields = arrays[*place..].iter().cloned();
            arrays[at] = assembled(&arrays[at].clone(), data_type, &mut fields)?;
        }
        arrays.truncate(self.structs.len());
        Ok(arrays)
    }
}

/// The structs that are not NULL where `valid` is not, with the next of the fields.
fn assembled(
    valid: &ArrayRef,
    data_type: &DataType,
    parts: &mut dyn Iterator<Item = ArrayRef>,
) -> Result<ArrayRef, String> {
    let DataType::Struct(fields) = data_type else { return Ok(valid.clone()) };
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = parts.next().ok_or("a struct without its fields")?;
        columns.push(assembled(&column, field.data_type(), parts)?);
    }
    let structs = StructArray::try_new_with_length(fields.clone(), columns, valid.nulls().cloned(), valid.len());
    Ok(Arc::new(structs.map_err(|e| e.to_string())?))
}
