//! Pages that the `parquet` crate writes come back as the arrays that it was given, whatever is read and left out.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::*;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::*;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::SerializedPageReader;
use proptest::prelude::*;
use proptest::sample::select;

use super::column::{Column, Content};
use super::values::Kind;

const ROWS: usize = 700;

/// What a file is written with.
#[derive(Debug, Clone)]
struct Written {
    has_dictionary: bool,
    dictionary_bytes: usize,
    page_rows: usize,
    version: WriterVersion,
    compression: Compression,
}

fn written() -> impl Strategy<Value = Written> {
    let versions = select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    let compressions = select(vec![Compression::UNCOMPRESSED, Compression::SNAPPY]);
    (any::<bool>(), select(vec![64, 1 << 20]), 1usize..300, versions, compressions).prop_map(
        |(has_dictionary, dictionary_bytes, page_rows, version, compression)| Written {
            has_dictionary,
            dictionary_bytes,
            page_rows,
            version,
            compression,
        },
    )
}

/// Values with and without NULL, in the types of columns.
fn columns(numbers: &[Option<i64>]) -> Vec<ArrayRef> {
    let ints: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let texts = numbers
        .iter()
        .map(|v| v.map(|v| "ä long text of many bytes, ".repeat((v % 3).unsigned_abs() as usize) + &v.to_string()));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
    let decimals = |digits, scale| {
        let values = numbers.iter().map(|v| v.map(|v| i128::from(v) * if digits > 18 { 1 << 70 } else { 1 }));
        let array = Decimal128Array::from_iter(values).with_precision_and_scale(digits, scale).expect("a decimal");
        Arc::new(array) as ArrayRef
    };
    let casts = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        DataType::Time64(TimeUnit::Microsecond),
    ];
    let mut all: Vec<ArrayRef> = casts.iter().map(|to| cast(&ints, to).expect("a cast")).collect();
    all.push(cast(&all[2], &DataType::Date32).expect("dates"));
    all.push(cast(&texts, &DataType::BinaryView).expect("bytes"));
    all.extend([decimals(9, 2), decimals(18, 3), decimals(38, 0), texts, ints]);
    all
}

fn file(batch: &RecordBatch, written: &Written) -> Bytes {
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(written.has_dictionary)
        .set_dictionary_page_size_limit(written.dictionary_bytes)
        .set_data_page_row_count_limit(written.page_rows)
        .set_write_batch_size(written.page_rows)
        .set_writer_version(written.version)
        .set_compression(written.compression)
        .build();
    let mut writer = ArrowWriter::try_new(vec![], batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("rows");
    writer.into_inner().expect("a file").into()
}

/// The rows of a column by these steps, of which every second one leaves rows out, and the places of what was read.
fn read(bytes: &Bytes, leaf: usize, data_type: &DataType, steps: &[usize]) -> Option<(Vec<ArrayRef>, Vec<u32>)> {
    let reader = SerializedFileReader::new(bytes.clone()).expect("a file");
    let group = reader.metadata().row_group(0);
    let descriptor = reader.metadata().file_metadata().schema_descr().column(leaf);
    let kind = Kind::of(&descriptor, data_type).expect("a known type");
    if !super::has_known_encodings(group.column(leaf)) {
        return None;
    }
    let pages = SerializedPageReader::new(Arc::new(bytes.clone()), group.column(leaf), ROWS, None).expect("pages");
    let mut column = Column::new(Box::new(pages), kind, descriptor.max_def_level() == 1);
    let (mut arrays, mut places, mut at) = (vec![], vec![], 0);
    for (number, step) in steps.iter().cycle().enumerate() {
        let step = (*step).min(ROWS - at);
        if step == 0 {
            break;
        }
        if number % 2 == 1 {
            column.skip(step);
        } else {
            let piece = column.read(step).expect("rows");
            let values = match piece.content {
                Content::Values(values) => values,
                Content::Codes(codes) => column.dictionary().expect("a dictionary").at(&codes, None),
            };
            arrays.push(values.into_array(piece.valid.map(Into::into), data_type).expect("an array"));
            places.extend(at as u32..(at + step) as u32);
        }
        at += step;
    }
    Some((arrays, places))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_written_comes_back(
        written in written(),
        few in select(vec![1i64, 4, 120]),
        seeds in proptest::collection::vec(any::<u8>(), ROWS),
        has_nulls in any::<bool>(),
        steps in proptest::collection::vec(1usize..150, 1..8),
    ) {
        let number = |seed: &u8| (!has_nulls || !seed.is_multiple_of(5)).then_some(i64::from(*seed) % few);
        let numbers: Vec<Option<i64>> = seeds.iter().map(number).collect();
        let columns = columns(&numbers);
        let fields = columns.iter().enumerate().map(|(at, column)| Field::new(format!("c{at}"), column.data_type().clone(), has_nulls));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns.clone()).expect("rows");
        let bytes = file(&batch, &written);
        let mut known = 0;
        for (leaf, column) in columns.iter().enumerate() {
            let Some((arrays, places)) = read(&bytes, leaf, column.data_type(), &steps) else { continue };
            known += 1;
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            let found = datafusion::arrow::compute::concat(&arrays).expect("one array");
            let expected = take(column, &UInt32Array::from(places), None).expect("rows");
            prop_assert_eq!(&found, &expected, "{:?}", column.data_type());
        }
        // Version 2 has other encodings where there is no dictionary.
        prop_assert!(known > 0 && (written.version == WriterVersion::PARQUET_2_0 || known == columns.len()));
    }

    #[test]
    fn damaged_pages_are_errors(written in written(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let numbers: Vec<Option<i64>> = (0..ROWS as i64).map(|v| (v % 7 > 0).then_some(v % 50)).collect();
        let columns = columns(&numbers);
        let field = |(at, column): (usize, &ArrayRef)| Field::new(format!("c{at}"), column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns.clone()).expect("rows");
        let whole = file(&batch, &Written { compression: Compression::UNCOMPRESSED, ..written });
        let reader = SerializedFileReader::new(whole.clone()).expect("a file");
        for (leaf, data_type) in columns.iter().map(|column| column.data_type()).enumerate() {
            let (start, length) = reader.metadata().row_group(0).column(leaf).byte_range();
            let mut bytes = whole.to_vec();
            bytes[start as usize + at.index(length as usize)] = byte;
            let group = reader.metadata().row_group(0);
            let descriptor = reader.metadata().file_metadata().schema_descr().column(leaf);
            let kind = Kind::of(&descriptor, data_type).expect("a known type");
            let bytes = Arc::new(Bytes::from(bytes));
            let Ok(pages) = SerializedPageReader::new(bytes, group.column(leaf), ROWS, None) else { continue };
            let mut column = Column::new(Box::new(pages), kind, true);
            // Other values, or an error; never a panic.
            let _ = column.read(300).and_then(|piece| match piece.content {
                Content::Values(values) => values.into_array(piece.valid.map(Into::into), data_type),
                Content::Codes(codes) => column.dictionary()?.at(&codes, None).into_array(None, data_type),
            });
            column.skip(100);
            let _ = column.read(300);
        }
    }
}

/// The first page has each of 256 values in each byte of its header, and is skipped.
#[test]
fn damaged_headers_are_errors() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let batch = RecordBatch::try_from_iter([("c", column)]).expect("rows");
    let written = Written {
        has_dictionary: false,
        dictionary_bytes: 64,
        page_rows: 100,
        version: WriterVersion::PARQUET_1_0,
        compression: Compression::UNCOMPRESSED,
    };
    let whole = file(&batch, &written);
    let reader = SerializedFileReader::new(whole.clone()).expect("a file");
    let group = reader.metadata().row_group(0);
    let descriptor = reader.metadata().file_metadata().schema_descr().column(0);
    let kind = Kind::of(&descriptor, &DataType::Int64).expect("a known type");
    let (start, _) = group.column(0).byte_range();
    let mut failed = 0;
    for (at, byte) in (0..20).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
        let mut bytes = whole.to_vec();
        bytes[start as usize + at] = byte;
        let pages = SerializedPageReader::new(Arc::new(Bytes::from(bytes)), group.column(0), ROWS, None);
        let mut column = Column::new(Box::new(pages.expect("pages")), kind, false);
        column.skip(ROWS - 1);
        failed += usize::from(column.read(1).is_err());
    }
    assert!(failed > 1000, "{failed}");
}
