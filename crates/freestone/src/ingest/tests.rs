//! Whole files through [`infer_schema`] and [`read_file`]: what is written is read, what is wrong is named.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
};
use ::arrow::compute::concat_batches;
use ::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit};
use ::arrow::ipc::writer::{FileWriter, StreamWriter};
use ::arrow::util::display::array_value_to_string;
use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::type_names::type_name;

/// A file in a folder of its own that vanishes with it.
struct TestFile {
    _folder: TempDir,
    path: PathBuf,
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> TestFile {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a file");
    TestFile { _folder: folder, path }
}

fn options(threads: usize, block_bytes: usize) -> IngestOptions {
    IngestOptions { threads, block_bytes, ..Default::default() }
}

fn schema(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let field = |(name, data_type, nullable): &(&str, DataType, bool)| Field::new(*name, data_type.clone(), *nullable);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// All batches of a file as one, or the error without the folder's name.
fn read(file: &TestFile, schema: &SchemaRef, options: &IngestOptions) -> Result<RecordBatch, String> {
    let shown = |error: IngestError| without_folder(file, &error);
    let mut batches = Vec::new();
    let mut reader = read_file(&file.path, Arc::clone(schema), options).map_err(shown)?;
    for batch in &mut reader {
        let batch = batch.map_err(shown)?;
        assert_eq!(batch.schema_ref(), schema);
        assert!((1..=options.batch_rows).contains(&batch.num_rows()));
        batches.push(batch);
    }
    assert_eq!(reader.bytes_done(), reader.bytes_total());
    Ok(concat_batches(schema, &batches).expect("batches of one schema"))
}

fn without_folder(file: &TestFile, error: &IngestError) -> String {
    assert!(!error.hint().is_empty());
    let folder = file.path.parent().expect("a folder").display().to_string();
    error.to_string().replace(&format!("{folder}/"), "")
}

fn infer(file: &TestFile) -> Result<String, String> {
    let schema = infer_schema(&file.path, &IngestOptions::default()).map_err(|error| without_folder(file, &error))?;
    let column = |field: &Arc<Field>| format!("{} {}", field.name(), type_name(field.data_type()));
    Ok(schema.fields().iter().map(column).collect::<Vec<_>>().join(", "))
}

/// Rows as text, cells apart by `|` and NULL as `~`.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let cell = |column: &ArrayRef, row: usize| match column.is_null(row) {
        true => "~".to_string(),
        false => array_value_to_string(column, row).expect("a value that can be shown"),
    };
    let row = |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// Reads a text file with one and with four threads, in blocks of every size, and expects one result of all.
fn check_text(
    name: &str,
    text: impl AsRef<[u8]>,
    schema: &SchemaRef,
    base: &IngestOptions,
    expected: Result<&[&str], &str>,
) {
    let file = file(name, text);
    let expected = expected
        .map(|rows| rows.iter().map(|row| row.to_string()).collect::<Vec<_>>())
        .map_err(|error| format!("{name}{error}"));
    for (threads, block_bytes) in [(1, 4 << 20), (1, 1), (4, 7), (4, 64)] {
        for batch_rows in [1, 3, 65_536] {
            let options = IngestOptions { threads, block_bytes, batch_rows, ..base.clone() };
            let found = read(&file, schema, &options).map(|batch| rows(&batch));
            assert_eq!(found, expected, "{threads} threads, blocks of {block_bytes}, batches of {batch_rows}");
        }
    }
}

fn check_csv(text: impl AsRef<[u8]>, columns: &[(&str, DataType, bool)], expected: Result<&[&str], &str>) {
    check_text("t.csv", text, &schema(columns), &IngestOptions::default(), expected);
}

fn check_json(text: impl AsRef<[u8]>, columns: &[(&str, DataType, bool)], expected: Result<&[&str], &str>) {
    check_text("t.json", text, &schema(columns), &IngestOptions::default(), expected);
}

const INT: DataType = DataType::Int32;
const TEXT: DataType = DataType::Utf8View;

#[test]
fn csv_forms() {
    let columns = [("a", INT, true), ("b", TEXT, true)];
    check_csv("a,b\n1,x\n2,\"y\"\"z\n,\"\n", &columns, Ok(&["1|x", "2|y\"z\n,"]));
    check_csv("1,x\r\n\r\n2,\"y\"\r\n\n\n3,z", &columns, Ok(&["1|x", "2|y", "3|z"]));
    check_csv("\u{feff}a,b\n,\n7,\"\"\n", &columns, Ok(&["~|~", "7|"]));
    check_csv("\u{feff}\"1\",\"a\nb\"\n", &columns, Ok(&["1|a\nb"]));
    check_csv("B,A\nx,1\n", &columns, Ok(&["1|x"]));
    check_csv("b\nx\n", &columns, Ok(&["~|x"]));
    check_csv("first,second\n1,x\n", &columns, Ok(&["1|x"]));
    check_csv("", &columns, Ok(&[]));
    check_csv("a,b", &columns, Ok(&[]));
    check_csv("\n\n", &columns, Ok(&[]));
    check_csv("\u{feff}", &columns, Ok(&[]));
    check_csv("\"\u{feff}a\",\u{feff}b\n", &[("a", TEXT, true), ("b", TEXT, true)], Ok(&["\u{feff}a|\u{feff}b"]));
    check_csv("b\n\n\"\"\ny", &[("b", TEXT, true)], Ok(&["~", "", "y"]));
    check_csv("1,\n", &[("a", INT, false), ("b", TEXT, false)], Ok(&["1|"]));
    check_csv("1,\"x\ry\"", &columns, Ok(&["1|x\ry"]));
}

#[test]
fn csv_options() {
    let columns = schema(&[("a", INT, true), ("b", TEXT, true)]);
    let base = IngestOptions::default();
    check_text("t.tbl", "1|x|\n2|a b|\n", &columns, &base, Ok(&["1|x", "2|a b"]));
    check_text("t.tbl", "1|x\n2|\n", &columns, &base, Ok(&["1|x", "2|~"]));
    check_text("t.tbl", "1|x|y|\n", &columns, &base, Err(", line 1 has 4 fields, expected 2"));
    check_text("t.tsv", "1\tx,y\n", &columns, &base, Ok(&["1|x,y"]));
    let other = IngestOptions {
        delimiter: Some(b';'),
        quote: b'\'',
        escape: Some(b'\\'),
        nulls: vec!["NULL".into()],
        header: Some(true),
        ..base.clone()
    };
    check_text("t.csv", "1;2\n3;'it\\'s'\nNULL;'NULL'\n4;\n", &columns, &other, Ok(&["3|it's", "~|NULL", "4|"]));
    let with_header = IngestOptions { header: Some(false), ..base.clone() };
    check_text("t.csv", "a,b\n", &columns, &with_header, Err(", line 1, column a: 'a' is not an INTEGER"));
    let wrong = IngestOptions { delimiter: Some(b'"'), ..base };
    check_text("t.csv", "", &columns, &wrong, Err(": DELIMITER must differ from QUOTE and ESCAPE"));
}

#[test]
fn csv_errors() {
    let columns = [("a", INT, false), ("b", DataType::Decimal128(15, 2), true)];
    check_csv("1,2\n2,abc\n", &columns, Err(", line 2, column b: 'abc' is not a DECIMAL(15,2)"));
    check_csv("a,b\n\n1,2\n\nx,2\ny,z\n", &columns, Err(", line 5, column a: 'x' is not an INTEGER"));
    check_csv("1,x\n2,3,4\n", &columns, Err(", line 1, column b: 'x' is not a DECIMAL(15,2)"));
    check_csv("1,1\n2,3,4\nx,x\n", &columns, Err(", line 2 has 3 fields, expected 2"));
    check_csv("1,1\n2\n", &columns, Err(", line 2 has 1 field, expected 2"));
    check_csv("1,1\n,2\n", &columns, Err(", line 2, column a: NULL in a NOT NULL column"));
    check_csv("1,1\n3000000000,2\n", &columns, Err(", line 2, column a: '3000000000' is out of range for an INTEGER"));
    check_csv("1,0.001\n", &columns, Err(", line 1, column b: '0.001' does not fit a DECIMAL(15,2) without loss"));
    check_csv("\"\",1\n", &columns, Err(", line 1, column a: NULL in a NOT NULL column"));
    check_csv("1,1\n\n2,\"3\n4\n5", &columns, Err(", line 3: a quote opened here is never closed"));
    check_csv("1,1\n\"2\"x,3\n", &columns, Err(", line 2: text after a closing quote"));
    check_csv(b"1,1\n2,2\n\n3,\xff\n4,x\n", &columns, Err(", line 4: invalid UTF-8 at byte 11 of the file"));
    check_csv(b"1,x\n2,2\n3,\xff\n", &columns, Err(", line 1, column b: 'x' is not a DECIMAL(15,2)"));
    check_csv(b"1,2\xc3", &columns, Err(", line 1: invalid UTF-8 at byte 3 of the file"));
    check_csv(
        b"\xff\xfe1\0",
        &columns,
        Err(
            ": the file is UTF-16, not UTF-8: for CSV, say ENCODING 'utf-16', or convert it with iconv -f UTF-16 -t UTF-8",
        ),
    );
    check_csv("1\r2\r3,4", &columns, Err(", line 1 has 1 field, expected 2"));
    check_csv("a,c\n1,1\n", &columns, Err(", line 1: the header names 'c', which is no column of the table (a, b)"));
    check_csv("b\n1\n", &columns, Err(", line 1: the header lacks column 'a', which is NOT NULL"));
    let long = format!("1,{}\n", "é".repeat(100));
    check_csv(&long, &columns, Err(&format!(", line 1, column b: '{}…' is not a DECIMAL(15,2)", "é".repeat(60))));
    let lines = "2,\"multi\nline\n\"\n".repeat(50);
    check_csv(
        format!("{lines}x,y\n"),
        &[("a", INT, true), ("b", TEXT, true)],
        Err(", line 151, column a: 'x' is not an INTEGER"),
    );
}

#[test]
fn long_records_are_refused() {
    let options = IngestOptions { max_record_bytes: 1 << 20, block_bytes: 1 << 10, threads: 3, ..Default::default() };
    let columns = schema(&[("a", INT, true), ("b", TEXT, true)]);
    let unclosed = file("t.csv", format!("1,x\n2,\"{}", "long line\n".repeat(200_000)));
    let expected = "t.csv, line 2: a record longer than 1 MiB";
    assert_eq!(read(&unclosed, &columns, &options).map(|_| ()), Err(expected.into()));
    let unclosed = file("t.json", format!("{{\"a\":1}}\n{{\"b\":\"{}", "long ".repeat(300_000)));
    let expected = "t.json, line 2: a record longer than 1 MiB";
    assert_eq!(read(&unclosed, &columns, &options).map(|_| ()), Err(expected.into()));
}

#[test]
fn every_type() {
    let micros = TimeUnit::Microsecond;
    let columns = [
        ("bo", DataType::Boolean, true),
        ("i8", DataType::Int8, true),
        ("i16", DataType::Int16, true),
        ("i64", DataType::Int64, true),
        ("u8", DataType::UInt8, true),
        ("u64", DataType::UInt64, true),
        ("f4", DataType::Float32, true),
        ("f8", DataType::Float64, true),
        ("de", DataType::Decimal128(38, 10), true),
        ("da", DataType::Date32, true),
        ("ti", DataType::Time64(micros), true),
        ("ts", DataType::Timestamp(micros, None), true),
        ("tz", DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())), true),
        ("te", DataType::Utf8View, true),
        ("bi", DataType::BinaryView, true),
    ];
    let text = "\
t,-128,-32768,-9223372036854775808,0,0,-3.4028235e38,-1.7976931348623157e308,-9999999999999999999999999999.9999999999,\
0001-01-01,00:00:00,0001-01-01 00:00:00,1677-09-21T00:12:43.145224192Z,,\n\
FALSE,127,32767,9223372036854775807,255,18446744073709551615,1e-45,5e-324,9999999999999999999999999999.9999999999,\
9999-12-31,23:59:59.999999,9999-12-31T23:59:59.999999,2262-04-11 23:47:16.854775807+00,\"\",\\xDEad\n";
    let expected = [
        "true|-128|-32768|-9223372036854775808|0|0|-3.4028235e38|-1.7976931348623157e308|\
         -9999999999999999999999999999.9999999999|0001-01-01|00:00:00|0001-01-01T00:00:00|\
         1677-09-21T00:12:43.145224192Z|~|~",
        "false|127|32767|9223372036854775807|255|18446744073709551615|1e-45|5e-324|\
         9999999999999999999999999999.9999999999|9999-12-31|23:59:59.999999|9999-12-31T23:59:59.999999|\
         2262-04-11T23:47:16.854775807Z||dead",
    ];
    check_csv(text, &columns, Ok(&expected));
    let refused = [
        ("i8", DataType::Int8, "128", "'128' is out of range for a TINYINT"),
        ("u8", DataType::UInt8, "-1", "'-1' is out of range for a UTINYINT"),
        ("f4", DataType::Float32, "1e39", "'1e39' is out of range for a FLOAT"),
        ("de", DataType::Decimal128(3, 1), "100", "'100' is out of range for a DECIMAL(3,1)"),
        ("da", DataType::Date32, "2023-02-29", "'2023-02-29' is out of range for a DATE"),
        ("da", DataType::Date32, "2023-02-28 12:00", "'2023-02-28 12:00' does not fit a DATE without loss"),
        (
            "ts",
            DataType::Timestamp(micros, None),
            "2023-01-01 00:00Z",
            "'2023-01-01 00:00Z' has a time zone, a TIMESTAMP has none",
        ),
        ("bi", DataType::BinaryView, "\\xabc", "'\\xabc' is not a BLOB"),
        ("bo", DataType::Boolean, "maybe", "'maybe' is not a BOOLEAN"),
    ];
    for (name, data_type, value, message) in refused {
        let line = format!(", line 3, column {name}: {message}");
        check_csv(format!("x\n\n{value}\n"), &[(name, data_type, true)], Err(&line));
    }
}

#[test]
fn csv_inference() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let expected = expected.map(str::to_string).map_err(|error| format!("t.csv{error}"));
        assert_eq!(infer(&file("t.csv", text)), expected, "{text:?}");
    };
    check(
        "id,f,d,ts,tz,ti,b,s,n\n1,1,2020-01-01,2020-01-01,2020-01-01T00:00:00Z,10:00,true,x,\n\
         2,2.5,2020-01-02,2020-01-01 10:00,2020-01-01 00:00+02,11:00:01,FALSE,1,\n",
        Ok(
            "id BIGINT, f DOUBLE, d DATE, ts TIMESTAMP, tz TIMESTAMP WITH TIME ZONE, ti TIME, b BOOLEAN, s VARCHAR, n VARCHAR",
        ),
    );
    check("1,x\n2,y\n", Ok("column0 BIGINT, column1 VARCHAR"));
    check("a,b\nc,d\n", Ok("a VARCHAR, b VARCHAR"));
    check("a,A,\n1,2,3\n", Ok("a BIGINT, A BIGINT, column2 BIGINT"));
    check("zip,big\n01234,12345678901234567890\n", Ok("zip VARCHAR, big VARCHAR"));
    check("", Err(": the file is empty: it has neither a header nor rows"));
    check("a,\"b", Err(", line 1: a quote opened here is never closed"));
    assert_eq!(infer(&file("t.tbl", "1|x|\n2|y|\n")), Ok("column0 BIGINT, column1 VARCHAR".into()));
    assert_eq!(infer(&file("t.txt", "1\n")), Err("t.txt: cannot tell the format from the file's name".into()));
    // Past the sample of the start, probes see what the file holds.
    let text = format!("a,b\n{}{}", "1,2\n".repeat(1_500_000), "x,2\n".repeat(1_000_000));
    check(&text, Ok("a VARCHAR, b BIGINT"));
}

#[test]
fn json_forms() {
    let columns = [("a", INT, true), ("b", TEXT, true), ("c", DataType::Decimal128(20, 3), true)];
    check_json("", &columns, Ok(&[]));
    check_json("[]", &columns, Ok(&[]));
    check_json(" [ ] \n", &columns, Ok(&[]));
    check_json("{}\n{\"a\":1}\n", &columns, Ok(&["~|~|~", "1|~|~"]));
    check_json("{\"b\":\"x\",\"a\":2}{\"c\":1.250,\"A\":null}", &columns, Ok(&["2|x|~", "~|~|1.250"]));
    check_json(
        "\u{feff}[{\"a\":1,\n\"b\":\"}{\\\"[\"},\n {\"b\" : \"\\u00e9\\ud83d\\ude00\\n\"}]",
        &columns,
        Ok(&["1|}{\"[|~", "~|é😀\n|~"]),
    );
    check_json("{\"b\":true,\"c\":12345678901234567.125}\n", &columns, Ok(&["~|true|12345678901234567.125"]));
    check_json("{\"\\u0061\":5}", &columns, Ok(&["5|~|~"]));
}

#[test]
fn json_within_json() {
    let columns = [("a", INT, true), ("b", TEXT, true)];
    let value = "{\"x\": [1, {\"y\":\"}]\\\"\"}, [], {}, null, -1e5]}";
    check_json(format!("{{\"b\":{value},\"a\":1}}\n{{\"b\":[]}}"), &columns, Ok(&[&format!("1|{value}"), "~|[]"]));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    check_json(format!("{{\"b\":{deep}}}"), &columns, Ok(&[&format!("~|{deep}")]));
}

#[test]
fn json_errors() {
    let columns = [("a", INT, false), ("b", TEXT, true)];
    let good = "{\"a\":1}\n\n";
    let cases: [(&str, &str); 20] = [
        ("{\"a\":\"x\"}\n{", ", line 3, column a: 'x' is not an INTEGER"),
        ("{\"a\":1.5}", ", line 3, column a: '1.5' is not an INTEGER"),
        ("{\"b\":\"x\"}", ", line 3, column a: NULL in a NOT NULL column"),
        ("{\"a\":1,\"z\":2}", ", line 3: member 'z' is no column, there are: a, b"),
        ("{\"a\":[1]}", ", line 3, column a: nested value [1] is not an INTEGER"),
        ("{\"a\":1,\"b\":[1,}", ", line 3: not valid JSON: expected a value, found '}'"),
        ("{\"a\":1,\"b\":{\"c\" 2}}", ", line 3: not valid JSON: expected ':', found '2'"),
        ("{\"a\":1,\"b\":[[1]", ", line 3: not valid JSON: expected ',' or ']', found the end"),
        ("{\"a\":1,\"b\":[\"\\q\"]}", ", line 3: not valid JSON: escape '\\q' in a string"),
        ("{\"a\":1", ", line 3: not valid JSON: expected ',' or '}', found the end"),
        ("{\"a\" 1}", ", line 3: not valid JSON: expected ':', found '1'"),
        ("{a:1}", ", line 3: not valid JSON: expected a member's name in quotes, found 'a'"),
        ("{\"a\":01}", ", line 3: not valid JSON: expected a value, found '0'"),
        ("{\"a\":1}}", ", line 3: not valid JSON: expected an object, found '}'"),
        (
            "{\"a\":1,\n\"b\":\"x\ny\"}\n{\"a\":2}",
            ", line 4: not valid JSON: a line end or control character in a string",
        ),
        ("{\"a\":1,\"b\":\"\\ud800\"}", ", line 3, column b: not valid JSON: escape '\\ud800' in a string"),
        ("{\"a\":1,\"b\":\"\\q\"}", ", line 3, column b: not valid JSON: escape '\\q' in a string"),
        ("{\"a\":1,\"b\":\"x", ", line 3: not valid JSON: a string is never closed"),
        ("1", ", line 3: not valid JSON: expected an object, found '1'"),
        ("{\"a\":1},{\"a\":2}", ", line 3: not valid JSON: expected an object, found ','"),
    ];
    for (bad, expected) in cases {
        check_json(format!("{good}{bad}"), &columns, Err(expected));
    }
    check_json(b"{\"a\":1}\n{\"a\":1,\"b\":\"\xff\"}", &columns, Err(", line 2: invalid UTF-8 at byte 20 of the file"));
    check_json("[{\"a\":1}", &columns, Err(", line 1: not valid JSON: expected ',' or ']', found the end"));
    check_json("[{\"a\":1}\n{\"a\":1}]", &columns, Err(", line 2: not valid JSON: expected ',', found '{'"));
    check_json("[{\"a\":1}] x", &columns, Err(", line 1: not valid JSON: expected nothing after the array, found 'x'"));
    check_json("[{\"a\":1},]", &columns, Err(", line 1: not valid JSON: expected an object, found ']'"));
}

#[test]
fn json_inference() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let expected = expected.map(str::to_string).map_err(|error| format!("t.json{error}"));
        assert_eq!(infer(&file("t.json", text)), expected, "{text:?}");
    };
    check(
        "{\"i\":1,\"f\":1,\"d\":\"2020-01-01\",\"s\":\"1\",\"b\":true,\"n\":null}\n{\"x\":\"\\n\",\"f\":1e3}",
        Ok("i BIGINT, f DOUBLE, d DATE, s VARCHAR, b BOOLEAN, n VARCHAR, x VARCHAR"),
    );
    check("[{\"i\":1},{\"i\":\"x\"}]", Ok("i VARCHAR"));
    check("{\"i\":1}\n{\"i\":{\"a\":[\"}\"]}}", Ok("i VARCHAR"));
    check("{\"i\":1}\n{\"i\":{\"a\":[\"}\"}}", Err(", line 2: not valid JSON: expected ',' or ']', found '}'"));
    check("{}", Err(": the file has no members to make columns of"));
    check("{\"i\":1}\n{\"i\":", Err(", line 2: not valid JSON: expected a value, found the end"));
}

fn sample_batch(rows: usize) -> RecordBatch {
    let texts = (0..rows).map(|row| (row % 5 != 0).then(|| format!("text number {row}")));
    let keys: DictionaryArray<Int32Type> = (0..rows).map(|row| Some(["red", "green", "blue"][row % 3])).collect();
    RecordBatch::try_from_iter(vec![
        ("I", Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef),
        ("s", Arc::new(StringArray::from_iter(texts)) as ArrayRef),
        ("k", Arc::new(keys) as ArrayRef),
        ("d", Arc::new(Date32Array::from_iter_values(0..rows as i32)) as ArrayRef),
    ])
    .expect("columns of one length")
}

fn parquet_bytes(batch: &RecordBatch, group_rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("a batch written");
    writer.close().expect("a file");
    bytes
}

fn arrow_bytes(batch: &RecordBatch, stream: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let halves =
        [batch.slice(0, batch.num_rows() / 2), batch.slice(batch.num_rows() / 2, batch.num_rows().div_ceil(2))];
    if stream {
        let mut writer = StreamWriter::try_new(&mut bytes, batch.schema_ref()).expect("a writer");
        halves.iter().for_each(|half| writer.write(half).expect("a batch written"));
        writer.finish().expect("a stream");
    } else {
        let mut writer = FileWriter::try_new(&mut bytes, batch.schema_ref()).expect("a writer");
        halves.iter().for_each(|half| writer.write(half).expect("a batch written"));
        writer.finish().expect("a file");
    }
    bytes
}

#[test]
fn parquet_and_arrow_files() {
    let batch = sample_batch(1000);
    let columns =
        schema(&[("d", DataType::Date32, false), ("s", TEXT, true), ("i", DataType::Int16, false), ("k", TEXT, false)]);
    let too_narrow = schema(&[("i", DataType::Int8, false)]);
    let not_null = schema(&[("s", TEXT, false)]);
    let unknown = schema(&[("q", TEXT, true)]);
    for (name, bytes) in [
        ("t.parquet", parquet_bytes(&batch, 90)),
        ("t.arrow", arrow_bytes(&batch, false)),
        ("t.arrows", arrow_bytes(&batch, true)),
    ] {
        let file = file(name, bytes);
        assert_eq!(infer(&file), Ok("I BIGINT, s VARCHAR, k VARCHAR, d DATE".into()));
        for threads in [1, 4] {
            let options = IngestOptions { threads, batch_rows: 64, ..Default::default() };
            let found = read(&file, &columns, &options).expect("a good file");
            assert_eq!(found.num_rows(), 1000);
            let texts = rows(&found);
            assert_eq!(texts[0], "1970-01-01|~|0|red");
            assert_eq!(texts[999], "1972-09-26|text number 999|999|red");
            assert!(
                found.column(2).as_primitive::<::arrow::datatypes::Int16Type>().values().iter().copied().eq(0..1000)
            );
            let error = |schema| read(&file, schema, &options).map(|_| ()).expect_err("a bad schema");
            assert_eq!(error(&too_narrow), format!("{name}, row 129, column i: '128' is out of range for a TINYINT"));
            assert_eq!(error(&not_null), format!("{name}, row 1, column s: NULL in a NOT NULL column"));
            assert!(error(&unknown).contains("column 'q'"), "{}", error(&unknown));
        }
    }
    let empty = file("t.parquet", parquet_bytes(&sample_batch(0), 10));
    assert_eq!(read(&empty, &columns, &options(2, 1)).expect("an empty table").num_rows(), 0);
}

#[test]
fn columns_that_cannot_be_read_are_named() {
    let lists = ::arrow::array::ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)])]);
    let durations = ::arrow::array::DurationMicrosecondArray::from(vec![1]);
    let of = |column: ArrayRef| RecordBatch::try_from_iter([("l", column)]).expect("a batch");
    let (lists, durations) = (of(Arc::new(lists)), of(Arc::new(durations)));
    let files = |batch: &RecordBatch| {
        [("t.parquet", parquet_bytes(batch, 10)), ("t.arrow", arrow_bytes(batch, false))]
            .map(|(name, bytes)| (name, file(name, bytes)))
    };
    for (_, file) in files(&durations) {
        assert_eq!(infer(&file).as_deref(), Ok("l INTERVAL"));
        let read = read(&file, &schema(&[("l", DataType::Date32, true)]), &options(1, 1));
        assert!(read.is_err_and(|error| error.contains("column l: ")));
    }
    for (_, file) in files(&lists) {
        assert_eq!(infer(&file).as_deref(), Ok("l BIGINT[]"));
        let read = read(&file, &schema(&[("l", DataType::Int64, true)]), &options(1, 1));
        assert!(read.is_err_and(|error| error.contains("column l: no conversion from BIGINT[] to BIGINT")));
    }
}

#[test]
fn truncated_files() {
    let batch = sample_batch(1000);
    let columns = schema(&[("I", DataType::Int64, true), ("s", TEXT, true)]);
    for (name, bytes) in [("t.parquet", parquet_bytes(&batch, 90)), ("t.arrow", arrow_bytes(&batch, false))] {
        for length in [0, 1, 4, 7, 8, 12, 100, bytes.len() / 2, bytes.len() - 1] {
            let file = file(name, &bytes[..length]);
            assert!(infer(&file).is_err_and(|error| error.starts_with(name)), "{name} of {length} bytes");
            assert!(read(&file, &columns, &options(2, 1)).is_err_and(|error| error.starts_with(name)));
        }
    }
    // A stream has no end of its own: what is cut between two messages is a shorter stream, the rest is an error.
    let bytes = arrow_bytes(&batch, true);
    let file = file("t.arrows", &bytes[..bytes.len() / 2]);
    assert!(read(&file, &columns, &options(2, 1)).is_err_and(|error| error.contains("not a readable Arrow file")));
}

#[test]
fn missing_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["x.csv", "x.json", "x.parquet", "x.arrow"] {
        let path = folder.path().join(name);
        let error = infer_schema(&path, &IngestOptions::default()).expect_err("no file");
        assert!(matches!(error.details().reason, Reason::Io(_)), "{error}");
        let read = read_file(&path, schema(&[("a", INT, true)]), &IngestOptions::default());
        assert!(read.is_err_and(|error| matches!(error.details().reason, Reason::Io(_))));
    }
}

#[test]
fn a_reader_may_be_dropped_early() {
    let file = file("t.csv", "1,x\n".repeat(100_000));
    let columns = schema(&[("a", INT, true), ("b", TEXT, true)]);
    for taken in [0, 1, 3] {
        let reader = read_file(&file.path, Arc::clone(&columns), &options(4, 1 << 10)).expect("a reader");
        assert_eq!(reader.take(taken).filter(Result::is_ok).count(), taken);
    }
}

fn conform_one(array: ArrayRef, target: DataType, nullable: bool) -> Result<Vec<String>, String> {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).expect("a batch");
    let at = Location { source: "INSERT".into(), first_row: 11 };
    conform(&batch, &schema(&[("c", target, nullable)]), ColumnMatch::Position, &at)
        .map(|batch| rows(&batch))
        .map_err(|error| error.to_string())
}

#[test]
fn conversions() {
    let check = |array: ArrayRef, target: DataType, expected: Result<&[&str], &str>| {
        let expected = expected.map(|rows| rows.iter().map(|row| row.to_string()).collect()).map_err(str::to_string);
        assert_eq!(conform_one(array, target, true), expected);
    };
    let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let doubles = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let texts = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let decimal = |values: Vec<i128>| {
        let array = Decimal128Array::from(values).with_precision_and_scale(10, 2).expect("a valid scale");
        Arc::new(array) as ArrayRef
    };
    let range = |value: &str, row: u32, name: &str| {
        format!("INSERT, row {row}, column c: '{value}' is out of range for {name}")
    };
    let lost = |value: &str, row: u32, name: &str| {
        format!("INSERT, row {row}, column c: '{value}' does not fit {name} without loss")
    };

    check(ints(vec![Some(1), None]), DataType::Int8, Ok(&["1", "~"]));
    check(ints(vec![Some(1), Some(200)]), DataType::Int8, Err(&range("200", 12, "a TINYINT")));
    check(ints(vec![Some(-1)]), DataType::UInt64, Err(&range("-1", 11, "a UBIGINT")));
    check(ints(vec![Some(1 << 53)]), DataType::Float64, Ok(&["9007199254740992.0"]));
    check(ints(vec![Some((1 << 53) + 1)]), DataType::Float64, Err(&lost("9007199254740993", 11, "a DOUBLE")));
    check(ints(vec![Some(i64::MAX)]), DataType::Float64, Err(&lost("9223372036854775807", 11, "a DOUBLE")));
    check(ints(vec![Some(2)]), DataType::Boolean, Err(&lost("2", 11, "a BOOLEAN")));
    check(ints(vec![Some(12)]), DataType::Decimal128(4, 2), Ok(&["12.00"]));
    check(ints(vec![Some(100)]), DataType::Decimal128(4, 2), Err(&range("100", 11, "a DECIMAL(4,2)")));
    check(ints(vec![Some(5)]), TEXT, Ok(&["5"]));
    check(ints(vec![Some(5)]), DataType::Date32, Err("INSERT, column c: no conversion from BIGINT to DATE"));
    check(
        Arc::new(UInt64Array::from(vec![u64::MAX])),
        DataType::Int64,
        Err(&range("18446744073709551615", 11, "a BIGINT")),
    );
    check(doubles(vec![1.0, -0.0]), DataType::Int32, Ok(&["1", "0"]));
    check(doubles(vec![1.0, 2.5]), DataType::Int32, Err(&lost("2.5", 12, "an INTEGER")));
    check(doubles(vec![f64::NAN]), DataType::Int32, Err(&range("NaN", 11, "an INTEGER")));
    check(doubles(vec![0.1, f64::INFINITY]), DataType::Float32, Ok(&["0.1", "inf"]));
    check(doubles(vec![1e300]), DataType::Float32, Err(&range("1e300", 11, "a FLOAT")));
    check(doubles(vec![0.1, 1.15]), DataType::Decimal128(15, 2), Ok(&["0.10", "1.15"]));
    check(doubles(vec![1.005]), DataType::Decimal128(15, 2), Err(&lost("1.005", 11, "a DECIMAL(15,2)")));
    check(Arc::new(Float32Array::from(vec![0.1f32])), DataType::Decimal128(5, 2), Ok(&["0.10"]));
    check(decimal(vec![1200]), DataType::Int32, Ok(&["12"]));
    check(decimal(vec![1250]), DataType::Int32, Err(&lost("12.50", 11, "an INTEGER")));
    check(decimal(vec![1250]), DataType::Decimal128(10, 1), Ok(&["12.5"]));
    check(decimal(vec![1251]), DataType::Decimal128(10, 1), Err(&lost("12.51", 11, "a DECIMAL(10,1)")));
    check(texts(vec!["1", "x"]), DataType::Int32, Err("INSERT, row 12, column c: 'x' is not an INTEGER"));
    check(texts(vec!["2020-01-01"]), DataType::Date32, Ok(&["2020-01-01"]));
    check(texts(vec!["a"]), TEXT, Ok(&["a"]));
    check(texts(vec!["\\x6162"]), DataType::BinaryView, Ok(&["6162"]));
    check(
        Arc::new(StringViewArray::from(vec![""])),
        DataType::Int32,
        Err("INSERT, row 11, column c: '' is not an INTEGER"),
    );
    let micros = |values: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(values)) as ArrayRef;
    check(micros(vec![86_400_000_000]), DataType::Date32, Ok(&["1970-01-02"]));
    check(micros(vec![1]), DataType::Date32, Err(&lost("1970-01-01T00:00:00.000001", 11, "a DATE")));
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![1001])) as ArrayRef;
    let expected = lost("1970-01-01T00:00:00.000001001", 11, "a TIMESTAMP");
    check(nanos, DataType::Timestamp(TimeUnit::Microsecond, None), Err(&expected));
    let far = Arc::new(Date32Array::from(vec![2_000_000])) as ArrayRef;
    assert!(conform_one(far, DataType::Timestamp(TimeUnit::Nanosecond, None), true).is_err());
    let bytes = |values: Vec<&[u8]>| Arc::new(::arrow::array::BinaryArray::from(values)) as ArrayRef;
    check(bytes(vec![b"ab"]), TEXT, Ok(&["ab"]));
    check(bytes(vec![b"ab", b"\xff"]), TEXT, Err("INSERT, row 12, column c: 'ff' is not a VARCHAR"));
    let dictionary: DictionaryArray<Int32Type> = vec![Some("7"), None, Some("7")].into_iter().collect();
    check(Arc::new(dictionary), DataType::Int32, Ok(&["7", "~", "7"]));
    check(::arrow::array::new_null_array(&DataType::Null, 2), DataType::Int32, Ok(&["~", "~"]));
    check(Arc::new(BooleanArray::from(vec![true])), TEXT, Ok(&["true"]));

    let not_null = conform_one(Arc::new(Int8Array::from(vec![Some(1), None])), DataType::Int8, false);
    assert_eq!(not_null, Err("INSERT, row 12, column c: NULL in a NOT NULL column".into()));
    let two = RecordBatch::try_from_iter([
        ("a", Arc::new(Int32Array::from(vec![1, 1000])) as ArrayRef),
        ("b", Arc::new(Int16Array::from(vec![1000, 1])) as ArrayRef),
    ])
    .expect("a batch");
    let at = Location { source: String::new(), first_row: 1 };
    let target = schema(&[("B", DataType::Int8, true), ("a", DataType::Int8, true)]);
    let message = |matching| conform(&two, &target, matching, &at).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(message(ColumnMatch::Name), Err("row 1, column B: '1000' is out of range for a TINYINT".into()));
    assert_eq!(message(ColumnMatch::Position), Err("row 1, column a: '1000' is out of range for a TINYINT".into()));
}

/// A random cell of each type, as CSV text and as shown.
fn cell(kind: usize) -> BoxedStrategy<(String, String)> {
    let same = |text: String| (text.clone(), text);
    match kind {
        0 => any::<i64>().prop_map(move |value| same(value.to_string())).boxed(),
        1 => ".{0,30}".prop_map(same).boxed(),
        2 => "[,\"\n\r|x]{0,8}".prop_map(same).boxed(),
        3 => any::<i64>()
            .prop_map(|value| {
                let digits = format!("{:03}", value.unsigned_abs());
                let (whole, fraction) = digits.split_at(digits.len() - 2);
                let text = format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" });
                (text.clone(), text)
            })
            .boxed(),
        _ => any::<bool>().prop_map(move |value| same(value.to_string())).boxed(),
    }
}

const KINDS: [DataType; 5] =
    [DataType::Int64, DataType::Utf8View, DataType::Utf8View, DataType::Decimal128(38, 2), DataType::Boolean];

#[derive(Debug, Clone)]
struct Table {
    kinds: Vec<usize>,
    /// NULL, or text, what it is shown as, and whether to quote it even if it need not be.
    rows: Vec<Vec<Option<(String, String, bool)>>>,
}

fn table() -> impl Strategy<Value = Table> {
    proptest::collection::vec(0usize..5, 1..6).prop_flat_map(|kinds| {
        let cells: Vec<_> = kinds
            .iter()
            .map(|kind| {
                // NUL in every other byte would be UTF-16.
                let plain = |text: String| text.replace('\0', "\u{1}");
                let value = (cell(*kind), any::<bool>());
                let value = value.prop_map(move |((text, shown), quoted)| (plain(text), plain(shown), quoted));
                proptest::option::weighted(0.9, value)
            })
            .collect();
        proptest::collection::vec(cells, 0..40).prop_map(move |rows| Table { kinds: kinds.clone(), rows })
    })
}

impl Table {
    fn schema(&self) -> SchemaRef {
        let field = |(index, kind): (usize, &usize)| Field::new(format!("c{index}"), KINDS[*kind].clone(), true);
        Arc::new(Schema::new(self.kinds.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    fn shown(&self) -> Vec<String> {
        let cell =
            |cell: &Option<(String, String, bool)>| cell.as_ref().map_or("~".into(), |(_, shown, _)| shown.clone());
        self.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
    }

    /// The file's text and the line on which each row starts.
    fn csv(&self, delimiter: char, line_end: &str, final_line_end: bool) -> (String, Vec<usize>) {
        let mut text = String::new();
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            lines.push(text.matches('\n').count() + 1);
            let cell = |cell: &Option<(String, String, bool)>| match cell {
                None => "NULL".to_string(),
                Some((text, _, quoted)) => {
                    // Where a file begins, these characters are the byte-order mark, and half of one in UTF-16.
                    let is_mark = text.starts_with(['\u{feff}', '\0']);
                    let special =
                        text.contains([delimiter, '"', '\n', '\r']) || text.is_empty() || text == "NULL" || is_mark;
                    if *quoted || special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() }
                }
            };
            text.push_str(&row.iter().map(cell).collect::<Vec<_>>().join(&delimiter.to_string()));
            if final_line_end || index + 1 < self.rows.len() {
                text.push_str(line_end);
            }
        }
        (text, lines)
    }

    fn json(&self, array: bool) -> String {
        let quoted = |text: &str| {
            let escaped: String = text
                .chars()
                .map(|c| match c {
                    '"' | '\\' => format!("\\{c}"),
                    c if c.is_control() || (c as u32) > 0xffff => {
                        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                    }
                    c => c.to_string(),
                })
                .collect();
            format!("\"{escaped}\"")
        };
        let object = |row: &Vec<Option<(String, String, bool)>>| {
            let members = row.iter().enumerate().map(|(index, cell)| match cell {
                None => format!("\"c{index}\":null"),
                Some((text, _, as_text)) => {
                    let plain = !matches!(KINDS[self.kinds[index]], DataType::Utf8View) && !as_text;
                    format!("\"c{index}\": {}", if plain { text.clone() } else { quoted(text) })
                }
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        };
        let objects: Vec<String> = self.rows.iter().map(object).collect();
        if array { format!("[{}]\n", objects.join(",\n")) } else { objects.join("\n") }
    }
}

fn check_table(name: &str, table: &Table, text: &str, base: &IngestOptions) -> Result<(), TestCaseError> {
    let file = file(name, text);
    for (threads, block_bytes) in [(1, 4 << 20), (1, 5), (4, 16), (4, 200)] {
        let options = IngestOptions { threads, block_bytes, ..base.clone() };
        let found = read(&file, &table.schema(), &options).map(|batch| rows(&batch));
        prop_assert_eq!(found, Ok(table.shown()), "{} threads, blocks of {}", threads, block_bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn csv_reads_back(table in table(), delimiter in prop_oneof![Just(','), Just(';'), Just('\t')], crlf: bool, end: bool) {
        let (text, _) = table.csv(delimiter, if crlf { "\r\n" } else { "\n" }, end);
        let base = IngestOptions {
            header: Some(false),
            delimiter: Some(delimiter as u8),
            nulls: vec!["NULL".into()],
            ..Default::default()
        };
        check_table("t.csv", &table, &text, &base)?;
    }

    #[test]
    fn json_reads_back(table in table(), array: bool) {
        check_table("t.json", &table, &table.json(array), &IngestOptions::default())?;
    }

    /// One bad cell anywhere is reported with its line and row, however the file is cut.
    #[test]
    fn the_bad_row_is_named(mut table in table(), at: proptest::sample::Index, second: proptest::sample::Index) {
        table.kinds.push(0);
        for (row, cells) in table.rows.iter_mut().enumerate() {
            cells.push(Some((row.to_string(), row.to_string(), row % 3 == 0)));
        }
        prop_assume!(!table.rows.is_empty());
        let (first, second) = (at.index(table.rows.len()), second.index(table.rows.len()));
        for bad in [first, second] {
            if let Some(cell) = table.rows[bad].last_mut() {
                *cell = Some(("oops".into(), String::new(), false));
            }
        }
        let (text, lines) = table.csv(',', "\n", true);
        let (row, column) = (first.min(second), table.kinds.len() - 1);
        let expected = format!("t.csv, line {}, column c{column}: 'oops' is not a BIGINT", lines[row]);
        let file = file("t.csv", text);
        for (threads, block_bytes) in [(1, 4 << 20), (1, 5), (4, 16), (4, 200)] {
            let options = IngestOptions {
                header: Some(false), nulls: vec!["NULL".into()], threads, block_bytes, batch_rows: 7, ..Default::default()
            };
            let reader = read_file(&file.path, table.schema(), &options).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let errors: Vec<IngestError> = reader.filter_map(Result::err).collect();
            prop_assert_eq!(errors.len(), 1);
            prop_assert_eq!(without_folder(&file, &errors[0]), expected.clone());
            prop_assert_eq!(errors[0].details().row, Some(row as u64 + 1));
        }
    }

    /// Any bytes under any name give rows or an error, never a panic.
    #[test]
    fn any_bytes(bytes: Vec<u8>, text in "[a1,\"\n\\[\\]{}:\\\\ é]{0,60}", flip: proptest::sample::Index, byte: u8) {
        let columns = schema(&[("a", INT, true), ("I", DataType::Int64, true)]);
        let batch = sample_batch(50);
        let mut damaged = vec![parquet_bytes(&batch, 20), arrow_bytes(&batch, false), arrow_bytes(&batch, true)];
        for file in &mut damaged {
            let at = flip.index(file.len());
            file[at] = byte;
        }
        let contents = [bytes.as_slice(), text.as_bytes(), b"PAR1PAR1", b"ARROW1\0\0ARROW1"];
        for name in ["t.csv", "t.tbl", "t.json", "t.parquet", "t.arrow"] {
            for bytes in contents.into_iter().chain(damaged.iter().map(Vec::as_slice)) {
                let file = file(name, bytes);
                let inferred = infer_schema(&file.path, &IngestOptions::default());
                for schema in inferred.into_iter().chain([Arc::clone(&columns)]) {
                    let _ = read(&file, &schema, &options(2, 16));
                }
            }
        }
    }
}
