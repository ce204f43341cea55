//! Arrow arrays ↔ vectors.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray, StringArray, StringViewArray,
    make_array,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::error::{ExecError, Result};
use crate::vector::{Dictionary, Form, Texts, Values, Vector};

/// Added to the bits of unsigned 64-bit integers, so that their order is that of signed ones.
const U64_SHIFT: u64 = 1 << 63;
/// The most digits of a decimal of 64 bits.
const INT_DIGITS: u8 = 18;

/// The form of a type's vectors.
pub fn form_of(data_type: &DataType) -> Form {
    use DataType::*;
    match data_type {
        Boolean => Form::Bits,
        Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | UInt64
        | Date32
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _) => Form::Int,
        Decimal128(precision, _) if *precision <= INT_DIGITS => Form::Int,
        Decimal128(_, _) => Form::Wide,
        Float64 | Float32 => Form::Float,
        Utf8View | Utf8 => Form::Text,
        _ => Form::Arrow,
    }
}

/// The vector of an array, in the form of its type.
pub fn from_arrow(array: &ArrayRef) -> Vector {
    fn widened<T: ArrowPrimitiveType>(array: &ArrayRef, f: impl Fn(T::Native) -> i64) -> Values {
        Values::Int(array.as_primitive::<T>().values().iter().map(|v| f(*v)).collect::<Vec<_>>().into())
    }
    fn same<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> Values {
        Values::Int(array.as_primitive::<T>().values().clone())
    }
    use DataType::*;
    let values = match array.data_type() {
        Boolean => Values::Bits(array.as_boolean().values().clone()),
        Int8 => widened::<Int8Type>(array, i64::from),
        Int16 => widened::<Int16Type>(array, i64::from),
        Int32 => widened::<Int32Type>(array, i64::from),
        Int64 => same::<Int64Type>(array),
        UInt8 => widened::<UInt8Type>(array, i64::from),
        UInt16 => widened::<UInt16Type>(array, i64::from),
        UInt32 => widened::<UInt32Type>(array, i64::from),
        UInt64 => widened::<UInt64Type>(array, |v| (v ^ U64_SHIFT) as i64),
        Date32 => widened::<Date32Type>(array, i64::from),
        Time32(TimeUnit::Second) => widened::<Time32SecondType>(array, i64::from),
        Time32(_) => widened::<Time32MillisecondType>(array, i64::from),
        Time64(TimeUnit::Microsecond) => same::<Time64MicrosecondType>(array),
        Time64(_) => same::<Time64NanosecondType>(array),
        Timestamp(TimeUnit::Second, _) => same::<TimestampSecondType>(array),
        Timestamp(TimeUnit::Millisecond, _) => same::<TimestampMillisecondType>(array),
        Timestamp(TimeUnit::Microsecond, _) => same::<TimestampMicrosecondType>(array),
        Timestamp(TimeUnit::Nanosecond, _) => same::<TimestampNanosecondType>(array),
        Decimal128(precision, _) if *precision <= INT_DIGITS => widened::<Decimal128Type>(array, |v| v as i64),
        Decimal64(_, _) => same::<Decimal64Type>(array),
        Decimal128(_, _) => Values::Wide(array.as_primitive::<Decimal128Type>().values().clone()),
        Float64 => Values::Float(array.as_primitive::<Float64Type>().values().clone()),
        Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            Values::Float(values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>().into())
        }
        Utf8View => Values::Text(Texts::of(array.as_string_view())),
        Utf8 => Values::Text(Texts::of(&StringViewArray::from(array.as_string::<i32>()))),
        _ => return Vector::new(Values::Arrow(array.clone())).with_validity(array.logical_nulls()),
    };
    Vector::with_nulls(values, array.nulls().cloned())
}

/// The vector of codes of texts. `dictionary` makes that of the texts, or knows it.
pub fn from_codes(
    array: &DictionaryArray<UInt32Type>,
    dictionary: impl FnOnce(&ArrayRef) -> Arc<Dictionary>,
) -> Vector {
    // All rows are NULL.
    if array.values().is_empty() {
        return from_arrow(&(Arc::new(StringViewArray::new_null(array.len())) as ArrayRef));
    }
    let codes = Values::Codes(array.keys().values().clone(), dictionary(array.values()));
    Vector::with_nulls(codes, array.nulls().cloned())
}

impl Vector {
    fn with_validity(self, valid: Option<NullBuffer>) -> Vector {
        Vector::with_nulls(self.values, valid)
    }
}

/// The array of a type. Integers may have any type that is stored as such, and a decimal that needs fewer bits than its
/// type has may be of 64.
///
/// # Errors
/// The vector does not have a form of the type.
pub fn to_arrow(vector: &Vector, data_type: &DataType) -> Result<ArrayRef> {
    let nulls = vector.valid.clone();
    let wrong = || ExecError::foreign(format!("values of another form than those of {data_type}"));
    Ok(match (&vector.values, data_type) {
        (Values::Arrow(array), _) => with_nulls(array, nulls)?,
        (Values::Bits(v), DataType::Boolean) => Arc::new(BooleanArray::new(v.clone(), nulls)),
        (Values::Int(v), _) => return int_array(v, nulls, data_type).ok_or_else(wrong),
        (Values::Wide(v), DataType::Decimal128(..)) => {
            Arc::new(PrimitiveArray::<Decimal128Type>::new(v.clone(), nulls).with_data_type(data_type.clone()))
        }
        (Values::Float(v), DataType::Float64) => Arc::new(PrimitiveArray::<Float64Type>::new(v.clone(), nulls)),
        (Values::Float(v), DataType::Float32) => {
            let values: Vec<f32> = v.iter().map(|v| *v as f32).collect();
            Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls))
        }
        (Values::Text(_) | Values::Codes(..), DataType::Utf8) => {
            let texts = to_arrow(vector, &DataType::Utf8View)?;
            Arc::new(texts.as_string_view().iter().collect::<StringArray>())
        }
        (Values::Text(_) | Values::Codes(..), DataType::Utf8View) => {
            let Texts { views, buffers } = vector.to_texts();
            // SAFETY: the views and their buffers come from arrays whose texts were checked, or were copied from such
            // with their bytes unchanged. NULL rows have a view of the same kind, or zero, which is the empty text.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers.to_vec(), nulls) })
        }
        _ => return Err(wrong()),
    })
}

/// An array in which rows are NULL that a step above it has made NULL.
fn with_nulls(array: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let own = array.nulls();
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > own.map_or(0, NullBuffer::null_count)) else {
        return Ok(array.clone());
    };
    if *array.data_type() == DataType::Null {
        return Ok(array.clone());
    }
    let nulls = NullBuffer::union(own, Some(&nulls));
    Ok(make_array(array.to_data().into_builder().nulls(nulls).build().map_err(ExecError::foreign)?))
}

fn int_array(values: &ScalarBuffer<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Option<ArrayRef> {
    fn narrowed<T: ArrowPrimitiveType>(
        values: &[i64],
        nulls: Option<NullBuffer>,
        data_type: &DataType,
        f: impl Fn(i64) -> T::Native,
    ) -> Option<ArrayRef> {
        let values: Vec<T::Native> = values.iter().map(|v| f(*v)).collect();
        Some(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone())))
    }
    fn same<T: ArrowPrimitiveType<Native = i64>>(
        values: &ScalarBuffer<i64>,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Option<ArrayRef> {
        Some(Arc::new(PrimitiveArray::<T>::new(values.clone(), nulls).with_data_type(data_type.clone())))
    }
    use DataType::*;
    match data_type {
        Int8 => narrowed::<Int8Type>(values, nulls, data_type, |v| v as i8),
        Int16 => narrowed::<Int16Type>(values, nulls, data_type, |v| v as i16),
        Int32 => narrowed::<Int32Type>(values, nulls, data_type, |v| v as i32),
        Int64 => same::<Int64Type>(values, nulls, data_type),
        UInt8 => narrowed::<UInt8Type>(values, nulls, data_type, |v| v as u8),
        UInt16 => narrowed::<UInt16Type>(values, nulls, data_type, |v| v as u16),
        UInt32 => narrowed::<UInt32Type>(values, nulls, data_type, |v| v as u32),
        UInt64 => narrowed::<UInt64Type>(values, nulls, data_type, |v| v as u64 ^ U64_SHIFT),
        Date32 => narrowed::<Date32Type>(values, nulls, data_type, |v| v as i32),
        Time32(TimeUnit::Second) => narrowed::<Time32SecondType>(values, nulls, data_type, |v| v as i32),
        Time32(_) => narrowed::<Time32MillisecondType>(values, nulls, data_type, |v| v as i32),
        Time64(TimeUnit::Microsecond) => same::<Time64MicrosecondType>(values, nulls, data_type),
        Time64(_) => same::<Time64NanosecondType>(values, nulls, data_type),
        Timestamp(TimeUnit::Second, _) => same::<TimestampSecondType>(values, nulls, data_type),
        Timestamp(TimeUnit::Millisecond, _) => same::<TimestampMillisecondType>(values, nulls, data_type),
        Timestamp(TimeUnit::Microsecond, _) => same::<TimestampMicrosecondType>(values, nulls, data_type),
        Timestamp(TimeUnit::Nanosecond, _) => same::<TimestampNanosecondType>(values, nulls, data_type),
        Decimal128(..) => narrowed::<Decimal128Type>(values, nulls, data_type, i128::from),
        _ => None,
    }
}
