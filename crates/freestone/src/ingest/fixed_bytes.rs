//! Fixed-size binaries that stand for values of other types: UUIDs of 16 bytes, and the INTERVALs of Parquet of 12.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, RecordBatch, StringViewBuilder};
use arrow::datatypes::{DataType, Field as ColumnField, IntervalMonthDayNano, IntervalUnit, Schema};

use super::column_names::column_index;
use crate::uuids::uuid_text;

/// The type in which an INTERVAL of a file is read.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The type of UUIDs.
pub(crate) const UUID: DataType = DataType::FixedSizeBinary(16);

const UUID_EXTENSION: &str = "arrow.uuid";

/// The schema of an Arrow file, in which columns of UUIDs have the extension type that other readers know.
pub(crate) fn with_uuid_names(schema: &Schema) -> Schema {
    let named = |field: &Arc<ColumnField>| {
        let mut field = field.as_ref().clone();
        if *field.data_type() == UUID {
            let mut metadata = field.metadata().clone();
            metadata.insert("ARROW:extension:name".to_owned(), UUID_EXTENSION.to_owned());
            field.set_metadata(metadata);
        }
        field
    };
    Schema::new_with_metadata(schema.fields().iter().map(named).collect::<Vec<_>>(), schema.metadata().clone())
}

/// Whether the field of an Arrow file holds UUIDs, by its extension type.
pub(crate) fn is_uuid(field: &ColumnField) -> bool {
    field.data_type() == &DataType::FixedSizeBinary(16) && field.extension_type_name() == Some(UUID_EXTENSION)
}

/// The column with values of the type that its bytes stand for.
pub(crate) fn as_declared(column: &ArrayRef, declared: &DataType) -> ArrayRef {
    match (column.data_type(), declared) {
        (DataType::FixedSizeBinary(16), DataType::Utf8View) => uuid_texts(column),
        (DataType::FixedSizeBinary(12), declared) if declared == &INTERVAL => intervals(column),
        _ => Arc::clone(column),
    }
}

/// The batch with its INTERVAL columns as intervals.
pub(super) fn with_intervals(batch: RecordBatch, is_interval: impl Fn(&str) -> bool) -> RecordBatch {
    replaced(batch, |field| is_interval(field.name()), |column| as_declared(column, &INTERVAL))
}

/// The batch with UUIDs as text, except those for a BINARY column of the table.
pub(super) fn with_uuid_texts(
    batch: RecordBatch,
    table: &Schema,
    is_uuid: impl Fn(&ColumnField) -> bool,
) -> RecordBatch {
    let is_text = |field: &ColumnField| {
        let is_bytes = |data_type: &DataType| matches!(data_type, DataType::BinaryView | DataType::FixedSizeBinary(16));
        let bytes = column_index(table, field.name()).map(|at| is_bytes(table.field(at).data_type()));
        is_uuid(field) && bytes != Some(true)
    };
    replaced(batch, is_text, uuid_texts)
}

/// The batch with other arrays for some of its columns.
fn replaced(
    batch: RecordBatch,
    is_meant: impl Fn(&ColumnField) -> bool,
    change: impl Fn(&ArrayRef) -> ArrayRef,
) -> RecordBatch {
    if !batch.schema_ref().fields().iter().any(|field| is_meant(field)) {
        return batch;
    }
    let (schema, mut columns, rows) = batch.into_parts();
    let mut fields = schema.fields().to_vec();
    for (field, column) in fields.iter_mut().zip(&mut columns).filter(|(field, _)| is_meant(field)) {
        *column = change(column);
        *field = Arc::new(ColumnField::new(field.name(), column.data_type().clone(), field.is_nullable()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("columns keep their lengths and have the types of their fields")
}

/// UUIDs as text: 32 digits in five groups.
pub(super) fn uuid_texts(column: &ArrayRef) -> ArrayRef {
    let Some(bytes) = column.as_fixed_size_binary_opt() else { return Arc::clone(column) };
    let mut texts = StringViewBuilder::with_capacity(column.len());
    for uuid in bytes.iter() {
        texts.append_option(uuid.map(uuid_text));
    }
    Arc::new(texts.finish())
}

/// INTERVALs of Parquet: months, days and milliseconds in four bytes each, the least significant first.
fn intervals(column: &ArrayRef) -> ArrayRef {
    let Some(bytes) = column.as_fixed_size_binary_opt() else { return Arc::clone(column) };
    let interval = |value: &[u8]| {
        let (parts, _) = value.as_chunks::<4>();
        let part = |at: usize| parts.get(at).map_or(0, |bytes| i32::from_le_bytes(*bytes));
        IntervalMonthDayNano::new(part(0), part(1), i64::from(part(2)) * 1_000_000)
    };
    Arc::new(IntervalMonthDayNanoArray::from_iter(bytes.iter().map(|value| value.map(interval))))
}

#[cfg(test)]
mod tests {
    use arrow::array::FixedSizeBinaryArray;

    use super::super::values::uuid_of;

    use super::*;

    #[test]
    fn uuids_are_written_in_groups() {
        assert_eq!(
            uuid_text(&[
                0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff
            ]),
            "00112233-4455-6677-8899-aabbccddeeff"
        );
    }

    #[test]
    fn uuids_are_read_in_all_forms() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        for form in [text, "{00112233445566778899AABBCCDDEEFF}", " 0011-2233-4455-6677-8899-aabb-ccdd-eeff "] {
            assert_eq!(uuid_of(form.as_bytes()).map(|uuid| uuid_text(&uuid)).as_deref(), Some(text), "{form}");
        }
        for wrong in ["", "zz", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0", "-"] {
            assert_eq!(uuid_of(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn intervals_have_three_parts() {
        let values = [Some([1, 0, 0, 0, 2, 0, 0, 0, 0xe8, 3, 0, 0]), None, Some([0xff; 12])];
        let stored = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 12).expect("bytes");
        let stored: ArrayRef = Arc::new(stored);
        let expected = [
            Some(IntervalMonthDayNano::new(1, 2, 1_000_000_000)),
            None,
            Some(IntervalMonthDayNano::new(-1, -1, -1_000_000)),
        ];
        let read = as_declared(&stored, &INTERVAL);
        assert_eq!(read.as_ref(), &IntervalMonthDayNanoArray::from_iter(expected) as &dyn Array);
        assert_eq!(as_declared(&stored, &DataType::BinaryView).data_type(), &DataType::FixedSizeBinary(12));
    }
}
