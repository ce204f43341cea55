//! Files as other programs write them: types that only some of them have, versions of formats, compressions, encodings.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, Int64Array, ListViewArray, TimestampMicrosecondArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::record_batch::RecordBatch;
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::files::{Place, longs};

/// An Arrow file whose footer declares another version than its messages, as some programs write them.
fn arrow_file(batch: &RecordBatch, options: IpcWriteOptions, footer: MetadataVersion) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).expect("a writer");
    writer.write(batch).expect("rows");
    writer.finish().expect("a file");
    drop(writer);
    let end = bytes.len() - 10;
    let length = i32::from_le_bytes(bytes[end..end + 4].try_into().expect("four bytes"));
    let start = end - usize::try_from(length).expect("a length");
    let declared = arrow::ipc::root_as_footer(&bytes[start..end]).expect("a footer").version();
    // The version is the only number of two bytes in the footer with this value that changes what it declares.
    let places: Vec<usize> = (start..end - 1).filter(|at| bytes[*at..*at + 2] == declared.0.to_le_bytes()).collect();
    for at in places {
        let mut changed = bytes.clone();
        changed[at..at + 2].copy_from_slice(&footer.0.to_le_bytes());
        let version = arrow::ipc::root_as_footer(&changed[start..end]).map(|footer| footer.version());
        if version == Ok(footer) {
            return changed;
        }
    }
    bytes
}

#[tokio::test]
async fn arrow_files_of_older_versions() {
    let place = Place::new();
    let batch = RecordBatch::try_from_iter(vec![("a", longs(&[1, 2, 3]))]).expect("a batch");
    for (name, version, footer) in [
        ("old.arrow", MetadataVersion::V4, MetadataVersion::V4),
        ("mixed.arrow", MetadataVersion::V4, MetadataVersion::V5),
        ("new.arrow", MetadataVersion::V5, MetadataVersion::V4),
    ] {
        let options = IpcWriteOptions::try_new(8, false, version).expect("options");
        place.write(name, arrow_file(&batch, options, footer));
        place.check(&format!("SELECT sum(a) FROM '@/{name}'"), &["6"]).await;
        place.check(&format!("SELECT a FROM '@/{name}' WHERE a > 2"), &["3"]).await;
    }
    place.write("old.feather", b"FEA1\0\0\0\0\0\0\0\0FEA1");
    place.check_error("SELECT * FROM '@/old.feather'", "of Feather's version 1: convert it").await;
}

#[tokio::test]
async fn uuids_of_arrow_files_are_texts() {
    let place = Place::new();
    let values = [Some([0u8; 16]), None, Some([0xff; 16])];
    let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).expect("bytes");
    let field = Field::new("u", DataType::FixedSizeBinary(16), true);
    let uuid = field.clone().with_metadata([("ARROW:extension:name".into(), "arrow.uuid".into())].into());
    let schema = Arc::new(Schema::new(vec![uuid, Field::new("b", DataType::FixedSizeBinary(16), true)]));
    let (bytes, same): (ArrayRef, ArrayRef) = (Arc::new(bytes.clone()), Arc::new(bytes));
    let batch = RecordBatch::try_new(schema.clone(), vec![bytes, same]).expect("a batch");
    let mut file =
        FileWriter::try_new(File::create(place.path("u.arrow")).expect("a file"), &schema).expect("a writer");
    file.write(&batch).expect("rows");
    file.finish().expect("a file");
    let stream = File::create(place.path("u.arrows")).expect("a file");
    let mut stream = StreamWriter::try_new(stream, &schema).expect("a writer");
    stream.write(&batch).expect("rows");
    stream.finish().expect("a file");
    let texts = ["00000000-0000-0000-0000-000000000000", "~", "ffffffff-ffff-ffff-ffff-ffffffffffff"];
    for name in ["u.arrow", "u.arrows"] {
        place.check(&format!("SELECT u FROM '@/{name}'"), &texts).await;
        place.check(&format!("SELECT count(*) FROM '@/{name}' WHERE u > 'f' AND b > x'fe'"), &["1"]).await;
        place.run("CREATE OR REPLACE TABLE t (u VARCHAR, b BLOB)").await.expect("a table");
        place.run(&format!("COPY t FROM '@/{name}'")).await.expect("rows");
        place.check("SELECT u FROM t", &texts).await;
        place.run("CREATE OR REPLACE TABLE t (u BLOB)").await.expect("a table");
        place.run(&format!("COPY t FROM '@/{name}'")).await.expect("rows");
        place.check("SELECT u FROM t WHERE u IS NOT NULL AND u < x'01'", &["00000000000000000000000000000000"]).await;
    }
}

/// A Parquet file with a column of intervals, each of months, days and milliseconds.
fn intervals(place: &Place, name: &str, values: &[[u32; 3]]) {
    let schema = "message m { required fixed_len_byte_array(12) i (INTERVAL); required int32 n; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = File::create(place.path(name)).expect("a file");
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build())).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let bytes = |value: &[u32; 3]| FixedLenByteArray::from(value.map(u32::to_le_bytes).concat());
    let mut column = group.next_column().expect("a column").expect("a column");
    let stored: Vec<_> = values.iter().map(bytes).collect();
    column.typed::<FixedLenByteArrayType>().write_batch(&stored, None, None).expect("values");
    column.close().expect("a column");
    let mut column = group.next_column().expect("a column").expect("a column");
    let numbers: Vec<i32> = (1..).take(values.len()).collect();
    column.typed::<Int32Type>().write_batch(&numbers, None, None).expect("values");
    column.close().expect("a column");
    group.close().expect("a row group");
    writer.close().expect("a file");
}

#[tokio::test]
async fn intervals_keep_months_days_and_time() {
    let place = Place::new();
    intervals(&place, "i.parquet", &[[14, 3, 4_005], [0, 0, 0], [1, 0, 0]]);
    place
        .check(
            "SELECT i FROM '@/i.parquet' ORDER BY n",
            &["1 year 2 months 3 days 00:00:04.005", "00:00:00", "1 month"],
        )
        .await;
    place.check("SELECT n FROM '@/i.parquet' WHERE i = INTERVAL '1 month'", &["3"]).await;
    place
        .check("SELECT TIMESTAMP '2024-01-31 00:00:00' + i FROM '@/i.parquet' WHERE n = 3", &["2024-02-29T00:00:00"])
        .await;
    place.run("CREATE TABLE t AS SELECT CAST(i AS VARCHAR) AS i, n FROM '@/i.parquet'").await.expect("a table");
    place.check("SELECT i FROM t WHERE n = 3", &["1 month"]).await;
    place.run("CREATE TABLE u (i VARCHAR, n INT)").await.expect("a table");
    place.run("COPY u FROM '@/i.parquet'").await.expect("rows");
    place.check("SELECT i FROM u WHERE n = 3", &["1 month"]).await;
    place.run("CREATE TABLE v (i INTERVAL, n INT)").await.expect("a table");
    place.run("COPY v FROM '@/i.parquet'").await.expect("rows");
    place.check("SELECT n FROM v WHERE i > INTERVAL '1 year'", &["1"]).await;
    // Parquet has no place for microseconds.
    place.check_error("COPY (SELECT i FROM '@/i.parquet') TO '@/o.parquet'", "column i has type INTERVAL").await;
    assert!(!place.path("o.parquet").exists());
    place.run("COPY (SELECT i FROM '@/i.parquet') TO '@/o.arrow'").await.expect("a file");
    place
        .check("SELECT i FROM '@/o.arrow' WHERE i > INTERVAL '1 year'", &["1 year 2 months 3 days 00:00:04.005"])
        .await;
}

#[tokio::test]
async fn views_of_lists_are_written_as_lists() {
    let place = Place::new();
    let (offsets, sizes) = (ScalarBuffer::from(vec![1, 0, 0]), ScalarBuffer::from(vec![2, 1, 0]));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]));
    let lists = ListViewArray::new(item, offsets, sizes, values, None);
    let schema = Arc::new(Schema::new(vec![Field::new("l", lists.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(lists) as ArrayRef]).expect("a batch");
    let mut file =
        FileWriter::try_new(File::create(place.path("l.arrow")).expect("a file"), &schema).expect("a writer");
    file.write(&batch).expect("rows");
    file.finish().expect("a file");
    place.run("COPY (SELECT l FROM '@/l.arrow') TO '@/l.json'").await.expect("a file");
    place.check("SELECT l FROM '@/l.json'", &["[NULL, 9]", "[7]", "[]"]).await;
}

#[tokio::test]
async fn compressed_texts_with_padding() {
    let place = Place::new();
    let member = |text: &str| {
        let mut out = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        out.write_all(text.as_bytes()).expect("bytes");
        out.finish().expect("bytes")
    };
    let (first, second) = (member("id,v\n1,a\n"), member("2,b\n"));
    place.write("p.csv.gz", [&first[..], &second, &[0; 512]].concat());
    place.check("SELECT * FROM '@/p.csv.gz'", &["1|a", "2|b"]).await;
    place.write("z.csv.gz", [&first[..], &[0; 100], &second].concat());
    place.check("SELECT * FROM '@/z.csv.gz'", &["1|a", "2|b"]).await;
    place.write("g.csv.gz", [&first[..], b"garbage"].concat());
    place.check_error("SELECT * FROM '@/g.csv.gz'", "g.csv.gz: the compressed file cannot be unpacked").await;
}

#[tokio::test]
async fn texts_of_other_encodings_and_documents() {
    let place = Place::new();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let utf32 = |text: &str| text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect::<Vec<u8>>();
    place.write("mark.csv", utf16("\u{feff}a,b\n1,2\n"));
    place.write("plain.csv", utf16("a,b\n1,2\n"));
    place.write("wide.json", utf32("\u{feff}{}"));
    place.write("sheet.csv", [&b"PK\x03\x04"[..], &[0; 26], b"[Content_Types].xml"].concat());
    place.write("zip.csv", [&b"PK\x03\x04"[..], &[0; 26], b"data.csv"].concat());
    place.write("old.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0");
    for (name, text) in [
        ("mark.csv", "the file is UTF-16, not UTF-8: for CSV, say ENCODING 'utf-16', or convert it"),
        ("plain.csv", "or convert it with iconv -f UTF-16LE"),
        ("wide.json", "the file is UTF-32"),
        ("sheet.csv", "the file is a spreadsheet: say FORMAT xlsx"),
        ("zip.csv", "the file is a zip archive: unpack it first"),
        ("old.csv", "an Office document, such as an Excel sheet"),
    ] {
        place.check_error(&format!("SELECT * FROM '@/{name}'"), text).await;
    }
    let error = place.failure("SELECT * FROM read_excel('@/x.xlsx')").await;
    assert!(error.hint().is_some_and(|hint| hint.contains("read_xlsx")), "{error}");
    let error = place.failure("SELECT * FROM 'hdfs://bucket/x.parquet'").await;
    assert!(error.hint().is_some_and(|hint| hint.contains("check the URL")), "{error}");
}

#[tokio::test]
async fn folders_of_values_that_look_like_null() {
    let place = Place::new();
    place.run("CREATE TABLE t (k VARCHAR, x DOUBLE, v INT)").await.expect("a table");
    place
        .run("INSERT INTO t VALUES (NULL, 1, 1), ('__HIVE_DEFAULT_PARTITION__', 1, 2), ('%5F', 'NaN', 3), ('', '-inf', 4)")
        .await
        .expect("rows");
    place.run("COPY t TO '@/k' (FORMAT csv, PARTITION_BY k)").await.expect("files");
    place.check("SELECT v, k FROM '@/k' ORDER BY v", &["1|~", "2|__HIVE_DEFAULT_PARTITION__", "3|%5F", "4|"]).await;
    // The two kinds of NaN have one name and are not neighbors.
    place
        .run("COPY (SELECT CASE WHEN v = 4 THEN '-NaN'::DOUBLE ELSE x END AS x, v FROM t) TO '@/x' (FORMAT csv, PARTITION_BY x)")
        .await
        .expect("files");
    place.check("SELECT count(*), sum(v) FROM '@/x'", &["4|10"]).await;
}

#[tokio::test]
async fn headers_above_texts() {
    let place = Place::new();
    // Names that are empty, repeated, or numbers, above columns of texts.
    for (name, text, columns) in [
        ("empty.csv", "name,,city\nAnn,x,Oslo\nBob,y,Rome\n", "name|column1|city"),
        ("last.csv", "name,city,\nAnn,Oslo,\nBob,Rome,\n", "name|city|column2"),
        ("twice.csv", "name,city,name\nAnn,Oslo,x\nBob,Rome,y\n", "name|city|name_1"),
        ("same.csv", "a,a\nx,y\n", "a|a_1"),
        ("number.csv", "name,1,2\nAnn,x,Oslo\nBob,y,Rome\n", "name|1|2"),
        ("boolean.csv", "true,b\nx,y\nz,w\n", "true|b"),
        ("years.csv", ",2020,2021\n0,5,6\n1,7,8\n", "column0|2020|2021"),
        // The first record has values that its columns have again, or a number above numbers.
        ("flags.csv", "N,N,Y\nY,N,N\n", "column0|column1|column2"),
        ("codes.csv", "1,abc,abc\n2a,def,x\n3,ghi,y\n", "column0|column1|column2"),
        ("first.csv", ",Oslo\nx,Rome\n", "column0|column1"),
        ("null.csv", ",2020,2021\n5,2020,2021\n", "column0|column1|column2"),
        ("one.csv", "1\nx\ny\n", "column0"),
    ] {
        place.write(name, text);
        let described = place.run(&format!("DESCRIBE SELECT * FROM '@/{name}'")).await.expect("columns");
        let names: Vec<&str> = described.iter().filter_map(|row| row.split('|').next()).collect();
        assert_eq!(names.join("|"), columns, "{name}");
    }
}

#[tokio::test]
async fn unknown_time_zones_are_shown_as_utc() {
    let place = Place::new();
    let instants = TimestampMicrosecondArray::from(vec![Some(1_000_000), None]).with_timezone("Nowhere/Land");
    let batch = RecordBatch::try_from_iter(vec![("t", Arc::new(instants) as ArrayRef)]).expect("a batch");
    let mut file =
        FileWriter::try_new(File::create(place.path("t.arrow")).expect("a file"), &batch.schema()).expect("a writer");
    file.write(&batch).expect("rows");
    file.finish().expect("a file");
    place.check("SELECT t FROM '@/t.arrow'", &["1970-01-01T00:00:01Z", "~"]).await;
    place.run("CREATE TABLE t AS SELECT * FROM '@/t.arrow'").await.expect("a table");
    place.check("SELECT t FROM t WHERE t < '2000-01-01 00:00:00+00'", &["1970-01-01T00:00:01Z"]).await;
    place.run("CREATE TABLE u (t TIMESTAMP WITH TIME ZONE)").await.expect("a table");
    place.run("COPY u FROM '@/t.arrow'").await.expect("rows");
    place.check("SELECT count(t), count(*) FROM u", &["1|2"]).await;
}
