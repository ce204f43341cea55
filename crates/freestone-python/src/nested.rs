//! Collections of Python values: elements of a list, fields of a dict, one parameter of many executions. They become
//! arrays of their common type.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use freestone::{ArrowTable, Error, ErrorKind, Result, ScalarValue, type_name};

/// The maximum number of digits of a decimal.
const DECIMAL_DIGITS: u8 = 38;

/// A list as one value.
pub fn list(elements: Vec<ScalarValue>) -> Result<ScalarValue> {
    let offsets = OffsetBuffer::from_lengths([elements.len()]);
    let values = array(elements)?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?)))
}

/// A dict as one value: a struct with a field for each key.
pub fn structure(fields: Vec<(String, ScalarValue)>) -> Result<ScalarValue> {
    let (mut named, mut arrays) = (vec![], vec![]);
    for (name, value) in fields {
        let array = value.to_array()?;
        named.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let structure = StructArray::try_new_with_length(Fields::from(named), arrays, None, 1)?;
    Ok(ScalarValue::Struct(Arc::new(structure)))
}

/// Sets of parameters as tables whose columns are named by their numbers, from 1. Consecutive sets whose values have
/// types in common are one table.
pub fn tables(sets: Vec<Vec<ScalarValue>>, width: usize) -> Result<Vec<ArrowTable>> {
    let (mut tables, mut group) = (vec![], Group::new(width));
    for (at, set) in sets.into_iter().enumerate() {
        if set.len() != width {
            let message = format!("the statement has {width} parameters and set {} has {}", at + 1, set.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some(types) = group.types_with(&set) {
            group.push(set, types);
            continue;
        }
        tables.push(std::mem::replace(&mut group, Group::new(width)).table()?);
        let types = set.iter().map(ScalarValue::data_type).collect();
        group.push(set, types);
    }
    tables.push(group.table()?);
    Ok(tables)
}

/// Sets of parameters whose values have types in common.
struct Group {
    types: Vec<DataType>,
    columns: Vec<Vec<ScalarValue>>,
    rows: usize,
}

impl Group {
    fn new(width: usize) -> Self {
        Group { types: vec![DataType::Null; width], columns: vec![vec![]; width], rows: 0 }
    }

    /// The types of the columns with one more set; `None` if a type has none in common with the others.
    fn types_with(&self, set: &[ScalarValue]) -> Option<Vec<DataType>> {
        self.types.iter().zip(set).map(|(common, value)| united(common, &value.data_type())).collect()
    }

    fn push(&mut self, set: Vec<ScalarValue>, types: Vec<DataType>) {
        self.types = types;
        self.columns.iter_mut().zip(set).for_each(|(column, value)| column.push(value));
        self.rows += 1;
    }

    fn table(self) -> Result<ArrowTable> {
        let (mut fields, mut arrays) = (vec![], vec![]);
        for (at, column) in self.columns.into_iter().enumerate() {
            let placed = |error: Error| Error::new(error.kind(), format!("parameter ${}: {error}", at + 1));
            let array = array(column).map_err(placed)?;
            fields.push(Field::new((at + 1).to_string(), array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
        ArrowTable::of_batches(&schema, [batch])
    }
}

/// Values as one array of their common type.
fn array(values: Vec<ScalarValue>) -> Result<ArrayRef> {
    let mut common = DataType::Null;
    for value in &values {
        let data_type = value.data_type();
        if common != data_type {
            common = united(&common, &data_type).ok_or_else(|| {
                let message = format!("{} and {} have no type in common", type_name(&common), type_name(&data_type));
                Error::new(ErrorKind::Type, message)
            })?;
        }
    }
    if values.is_empty() {
        return Ok(arrow::array::new_empty_array(&common));
    }
    let values = values.into_iter().map(|value| {
        let same = value.data_type() == common;
        if same { Ok(value) } else { value.cast_to(&common) }
    });
    Ok(ScalarValue::iter_to_array(values.collect::<std::result::Result<Vec<_>, _>>()?)?)
}

/// The common type of two types.
fn united(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Decimal128, Float64, Int64, List, Null, Struct, Timestamp, UInt64};
    Some(match (a, b) {
        _ if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Int64, UInt64) | (UInt64, Int64) => Decimal128(DECIMAL_DIGITS, 0),
        (Float64, Int64 | UInt64 | Decimal128(..)) | (Int64 | UInt64 | Decimal128(..), Float64) => Float64,
        (Decimal128(_, scale), Int64 | UInt64) | (Int64 | UInt64, Decimal128(_, scale)) => {
            Decimal128(DECIMAL_DIGITS, *scale)
        }
        (Decimal128(_, one), Decimal128(_, other)) => Decimal128(DECIMAL_DIGITS, *one.max(other)),
        (Timestamp(_, one), Timestamp(_, other)) if one == other => Timestamp(TimeUnit::Nanosecond, one.clone()),
        (List(one), List(other)) => List(Arc::new(united_field(one, other)?)),
        (Struct(ones), Struct(others)) if ones.len() == others.len() => {
            let pairs = ones.iter().zip(others).map(|(one, other)| united_field(one, other));
            Struct(pairs.collect::<Option<Vec<_>>>()?.into())
        }
        _ => return None,
    })
}

fn united_field(one: &Field, other: &Field) -> Option<Field> {
    let same = one.name() == other.name();
    same.then_some(Field::new(one.name(), united(one.data_type(), other.data_type())?, true))
}
