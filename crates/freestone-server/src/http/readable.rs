//! Rows as a browser reads them: in types that Apache Arrow's JavaScript library knows, and in pieces of bounded size.
//!
//! Texts and lists have 32-bit offsets, which every version of the library reads. It does not know run ends, views of lists, dictionaries with
//! 64-bit keys, and decimals of 32 and 64 bits. They
//! are sent as the nearest types that it reads, with the same values.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use freestone::Strings;

/// The bytes of a piece, unless a single row has more.
const PIECE_BYTES: usize = 1 << 20;

/// The schema that a browser reads.
pub(crate) fn schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| readable_field(field)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn readable_field(field: &Field) -> Field {
    field.clone().with_data_type(readable(field.data_type()))
}

fn readable(data_type: &DataType) -> DataType {
    let nested = |field: &FieldRef| Arc::new(readable_field(field));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => DataType::List(nested(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(nested(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nested).collect()),
        DataType::Map(entries, sorted) => DataType::Map(nested(entries), *sorted),
        DataType::RunEndEncoded(_, values) => readable(values.data_type()),
        DataType::Dictionary(key, value) if matches!(**key, DataType::Int64 | DataType::UInt64) => readable(value),
        DataType::Dictionary(key, value) => DataType::Dictionary(key.clone(), readable(value).into()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        other => other.clone(),
    }
}

/// Rows in a readable schema.
///
/// # Errors
/// A value does not fit the readable type, which has 32-bit offsets.
pub(crate) fn converted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| array(column, field.data_type())).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

fn array(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    let plain = Strings::Plain.array(array.clone())?;
    if plain.data_type() == to { Ok(plain) } else { cast(&plain, to) }
}

/// The rows in pieces, none of which has much more than [`PIECE_BYTES`] unless it is one row.
pub(crate) fn pieces(batch: RecordBatch) -> Vec<RecordBatch> {
    let mut pieces = vec![];
    let mut rest = vec![batch];
    while let Some(batch) = rest.pop() {
        let (rows, bytes) = (batch.num_rows(), weight_of_rows(&batch));
        if bytes <= PIECE_BYTES || rows <= 1 {
            pieces.push(batch);
            continue;
        }
        // Of rows that differ much, some parts are divided again.
        let rows_of_piece = rows.div_ceil(bytes.div_ceil(PIECE_BYTES)).clamp(1, rows - 1);
        let starts = (0..rows).step_by(rows_of_piece);
        rest.extend(starts.rev().map(|start| batch.slice(start, rows_of_piece.min(rows - start))));
    }
    pieces
}

fn weight_of_rows(batch: &RecordBatch) -> usize {
    batch.columns().iter().fold(0, |sum, column| sum.saturating_add(weight(column)))
}

/// The approximate bytes of an array as it is sent.
fn weight(array: &ArrayRef) -> usize {
    let rows = array.len();
    let of_views = |views: &[u128]| {
        let lengths = views.iter().enumerate().map(|(row, view)| match array.is_valid(row) {
            true => *view as u32 as usize,
            false => 0,
        });
        lengths.fold(rows * 4, usize::saturating_add)
    };
    let within = |values: &ArrayRef, from: usize, to: usize| {
        let (from, to) = (from.min(values.len()), to.min(values.len()));
        weight(&values.slice(from, to.saturating_sub(from)))
    };
    match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Utf8 => span(array.as_string::<i32>().value_offsets()) + rows * 4,
        DataType::Binary => span(array.as_binary::<i32>().value_offsets()) + rows * 4,
        DataType::LargeUtf8 => span(array.as_string::<i64>().value_offsets()) + rows * 8,
        DataType::LargeBinary => span(array.as_binary::<i64>().value_offsets()) + rows * 8,
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, to) = ends(list.value_offsets());
            within(list.values(), from, to) + rows * 4
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (from, to) = ends(list.value_offsets());
            within(list.values(), from, to) + rows * 8
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, to) = ends(map.value_offsets());
            within(&(Arc::new(map.entries().clone()) as ArrayRef), from, to) + rows * 4
        }
        DataType::FixedSizeList(..) => weight(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(weight).fold(rows / 8, usize::saturating_add),
        DataType::Dictionary(key, _) => rows * key.primitive_width().unwrap_or(8),
        DataType::FixedSizeBinary(size) => rows * usize::try_from(*size).unwrap_or(0),
        other => rows * other.primitive_width().unwrap_or(1),
    }
}

fn ends<T: TryInto<usize> + Copy>(offsets: &[T]) -> (usize, usize) {
    let at = |offset: Option<&T>| offset.and_then(|offset| (*offset).try_into().ok()).unwrap_or(0);
    (at(offsets.first()), at(offsets.last()))
}

fn span<T: TryInto<usize> + Copy>(offsets: &[T]) -> usize {
    let (from, to) = ends(offsets);
    to.saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryViewArray, Decimal32Array, DictionaryArray, Int32Array, Int64Array, LargeListArray, RunArray,
        StringArray, StringViewArray, StructArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type, UInt16Type};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate().map(|(at, column)| (format!("c{at}"), column, true));
        RecordBatch::try_from_iter_with_nullable(named).expect("a batch")
    }

    #[test]
    fn every_value_has_a_type_that_browsers_read() {
        let texts = || Arc::new(StringViewArray::from(vec![Some("a"), None])) as ArrayRef;
        let fields = vec![Arc::new(Field::new("x", DataType::Utf8View, true))];
        let list = [Some(vec![Some(1), None]), None];
        let columns: Vec<ArrayRef> = vec![
            texts(),
            Arc::new(BinaryViewArray::from(vec![Some(&b"\0\xff"[..]), None])),
            Arc::new(StructArray::new(fields.into(), vec![texts()], None)),
            Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(list)),
            Arc::new(Decimal32Array::from(vec![123, -1]).with_precision_and_scale(9, 2).expect("a decimal")),
            Arc::new(vec![Some("x"), None].into_iter().collect::<DictionaryArray<UInt16Type>>()),
            Arc::new(vec![Some("x"), None].into_iter().collect::<DictionaryArray<Int64Type>>()),
            Arc::new(RunArray::<Int32Type>::from_iter(["r", "r"])),
            Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN])),
        ];
        let batch = batch(columns);
        let schema = schema(&batch.schema());
        let types: Vec<String> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
        let unread = ["View", "Large", "RunEnd", "Decimal32", "Dictionary(Int64"];
        for (kind, column) in types.iter().zip(batch.columns()) {
            assert!(!unread.iter().any(|part| kind.contains(part)), "{kind} of {}", column.data_type());
        }
        let converted = converted(&batch, &schema).expect("rows");
        let shown = |batch: &RecordBatch| {
            arrow::util::pretty::pretty_format_batches(std::slice::from_ref(batch)).expect("text").to_string()
        };
        assert_eq!(shown(&converted), shown(&batch));
    }

    #[test]
    fn pieces_are_bounded_and_in_order() {
        let long = "x".repeat(3 * PIECE_BYTES);
        let texts = (0..2000).map(|row| if row == 777 { long.clone() } else { format!("{row:01000}") });
        let plain = StringArray::from_iter_values(texts.clone());
        for column in [Arc::new(plain.clone()) as ArrayRef, Arc::new(StringViewArray::from_iter_values(texts))] {
            let whole = batch(vec![column, Arc::new(Int32Array::from_iter_values(0..2000))]);
            let pieces = pieces(whole.clone());
            assert!(pieces.len() >= 5, "{}", pieces.len());
            let heavy: Vec<_> = pieces.iter().filter(|piece| weight_of_rows(piece) > PIECE_BYTES).collect();
            assert!(heavy.len() == 1 && heavy[0].num_rows() == 1);
            assert_eq!(arrow::compute::concat_batches(&whole.schema(), &pieces).expect("rows"), whole);
        }
        // One text in many rows is larger than offsets can reach, but no piece of it is.
        let shared = StringViewArray::from_iter_values([long.as_str()]);
        let many = arrow::compute::take(&shared, &Int32Array::from(vec![0; 1000]), None).expect("rows");
        let pieces = pieces(batch(vec![many]));
        assert_eq!(pieces.len(), 1000);
        assert!(converted(&pieces[0], &schema(&pieces[0].schema())).is_ok());
    }

    #[test]
    fn rows_without_columns_are_rows() {
        let options = RecordBatchOptions::new().with_row_count(Some(5));
        let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).expect("rows");
        let pieces = pieces(empty);
        assert_eq!(converted(&pieces[0], &schema(&pieces[0].schema())).expect("rows").num_rows(), 5);
    }
}
