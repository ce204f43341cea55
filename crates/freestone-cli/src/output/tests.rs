//! The exact output of every text format, and the content of the binary formats when read back.

use std::fs::{self, File};
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use freestone::Strings;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;

fn check(format: Format, layout: TableLayout, batches: &[RecordBatch], expected: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("result");
    write(format, layout, batches, &path);
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(text, expected, "\n{text}");
}

fn write(format: Format, layout: TableLayout, batches: &[RecordBatch], path: &std::path::Path) {
    let mut sink = Sink::file(path);
    sink.open().expect("a new file");
    let mut writer = writer(format, &batches[0].schema(), &mut sink, &layout).expect("writer");
    for batch in batches {
        writer.write(batch).expect("write");
    }
    writer.finish().expect("finish");
    drop(writer);
    std::io::Write::flush(&mut sink).expect("flush");
}

/// One row of values and one of NULLs, with every type of stored tables and two that occur only in queries.
fn every_type() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("i", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
        ("u", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
        ("r", Arc::new(Float32Array::from(vec![Some(1.5), None]))),
        ("f", Arc::new(Float64Array::from(vec![Some(0.1), None]))),
        ("d", decimals(&[Some(-12_345_678_901_234_567_890_123_456_789_i128), None], 38, 4)),
        ("day", Arc::new(Date32Array::from(vec![Some(19_782), None]))),
        ("t", Arc::new(Time64MicrosecondArray::from(vec![Some(3_600_000_001), None]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_700_000_000_500_000), None]))),
        (
            "tz",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1_700_000_000_000_000), None]).with_timezone("+00:00")),
        ),
        ("s", Arc::new(StringViewArray::from(vec![Some("a,\"b\"|\nc"), None]))),
        ("x", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255]), None]))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None]), None]))),
        ("k", Arc::new([Some("key"), None].into_iter().collect::<DictionaryArray<Int32Type>>())),
    ];
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("equal lengths")
}

fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).expect("valid precision"))
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_from_iter([("n", array)]).expect("one column")
}

fn texts(values: &[Option<&str>]) -> RecordBatch {
    let array: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    let other: ArrayRef = Arc::new(Int32Array::from_iter_values(0..values.len() as i32));
    RecordBatch::try_from_iter_with_nullable([("text", array, true), ("n", other, false)]).expect("equal lengths")
}

#[test]
fn csv_of_every_type() {
    check(
        Format::Csv,
        TableLayout::default(),
        &[every_type()],
        "b,i,u,r,f,d,day,t,ts,tz,s,x,l,k\n\
         true,-9223372036854775808,18446744073709551615,1.5,0.1,-1234567890123456789012345.6789,2024-02-29,\
         01:00:00.000001,2023-11-14T22:13:20.500,2023-11-14T22:13:20Z,\"a,\"\"b\"\"|\nc\",00ff,\"[1, NULL]\",key\n\
         ,,,,,,,,,,,,,\n",
    );
}

#[test]
fn csv_quotes_only_what_it_must() {
    check(
        Format::Csv,
        TableLayout::default(),
        &[texts(&[Some(""), None, Some(" a b "), Some("\""), Some("x\r"), Some("NULL"), Some("é")])],
        "text,n\n\"\",0\n,1\n a b ,2\n\"\"\"\",3\n\"x\r\",4\nNULL,5\né,6\n",
    );
}

#[test]
fn json_of_every_type() {
    let objects = [
        "{\"b\":true,\"i\":-9223372036854775808,\"u\":18446744073709551615,\"r\":1.5,\"f\":0.1,\
         \"d\":-1234567890123456789012345.6789,\"day\":\"2024-02-29\",\"t\":\"01:00:00.000001\",\
         \"ts\":\"2023-11-14T22:13:20.500\",\"tz\":\"2023-11-14T22:13:20Z\",\"s\":\"a,\\\"b\\\"|\\nc\",\
         \"x\":\"00ff\",\"l\":[1,null],\"k\":\"key\"}",
        "{\"b\":null,\"i\":null,\"u\":null,\"r\":null,\"f\":null,\"d\":null,\"day\":null,\"t\":null,\"ts\":null,\
         \"tz\":null,\"s\":null,\"x\":null,\"l\":null,\"k\":null}",
    ];
    check(Format::Json, TableLayout::default(), &[every_type()], &format!("[\n{}\n]\n", objects.join(",\n")));
    check(Format::Ndjson, TableLayout::default(), &[every_type()], &format!("{}\n", objects.join("\n")));
}

#[test]
fn json_is_valid_whatever_the_values() {
    let floats: ArrayRef =
        Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0, 1e-7]));
    let batch = RecordBatch::try_from_iter([("a \"b\"", floats)]).expect("one column");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("result");
    write(Format::Json, TableLayout::default(), &[batch], &path);
    let value: serde_json::Value = serde_json::from_reader(File::open(&path).expect("file")).expect("valid JSON");
    let numbers: Vec<_> = (0..6).map(|row| value[row]["a \"b\""].as_f64()).collect();
    assert_eq!(numbers, [None, None, None, Some(1e300), Some(-0.0), Some(1e-7)]);
}

#[test]
fn json_strings_come_back_as_they_were() {
    let all: String = (0..0x300).filter_map(char::from_u32).chain("日\u{1f600}\u{2028}".chars()).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("result");
    write(Format::Ndjson, TableLayout::default(), &[texts(&[Some(&all)])], &path);
    let value: serde_json::Value = serde_json::from_reader(File::open(&path).expect("file")).expect("valid JSON");
    assert_eq!(value["text"].as_str(), Some(all.as_str()));
}

#[test]
fn an_empty_result_is_well_formed() {
    let empty = numbers(0..0);
    check(Format::Csv, TableLayout::default(), std::slice::from_ref(&empty), "n\n");
    check(Format::Json, TableLayout::default(), std::slice::from_ref(&empty), "[]\n");
    check(Format::Ndjson, TableLayout::default(), std::slice::from_ref(&empty), "");
    check(Format::Markdown, TableLayout::default(), std::slice::from_ref(&empty), "| n |\n|---:|\n");
    check(Format::Table, TableLayout::default(), &[empty], "┌───┐\n│ n │\n├───┤\n└───┘\n");
}

#[test]
fn markdown_escapes_what_would_break_the_table() {
    check(
        Format::Markdown,
        TableLayout::default(),
        &[texts(&[Some("a|b"), None, Some("c\nd"), Some("\\")])],
        "| text | n |\n|---|---:|\n| a\\|b | 0 |\n| NULL | 1 |\n| c<br>d | 2 |\n| \\\\ | 3 |\n",
    );
}

#[test]
fn tables_are_aligned_and_show_control_characters() {
    check(
        Format::Table,
        TableLayout::default(),
        &[texts(&[Some("a\tb"), None, Some("日本"), Some("\u{1b}[1m")])],
        "\
┌───────────┬───┐
│ text      │ n │
├───────────┼───┤
│ a\\tb      │ 0 │
│ NULL      │ 1 │
│ 日本      │ 2 │
│ \\u{1b}[1m │ 3 │
└───────────┴───┘
",
    );
}

#[test]
fn values_of_several_lines_take_several() {
    let expected = "\
┌───────────┬───┐
│ text      │ n │
├───────────┼───┤
│ one      ↵│ 0 │
│  two\\r    │   │
│ three    ↵│ 1 │
│          ↵│   │
│           │ 2 │
│ long line │ 3 │
└───────────┴───┘
";
    let values = texts(&[Some("one\n two\r"), Some("three\n\n"), Some(""), Some("long line")]);
    check(Format::Table, TableLayout::default(), std::slice::from_ref(&values), expected);
    let capped = TableLayout { max_rows: Some(4), max_width: Some(17), footer: false, screen_rows: None };
    check(Format::Table, capped, &[values], expected);
}

#[test]
fn the_lines_of_a_plan_are_wrapped_to_the_terminal() {
    let layout = TableLayout { max_rows: Some(40), max_width: Some(40), footer: false, screen_rows: None };
    let kinds: ArrayRef = Arc::new(StringArray::from(vec!["physical_plan"]));
    let plans: ArrayRef =
        Arc::new(StringArray::from(vec!["Sort: a, b\n  Scan: table=t, columns=[a, b], x=0123456789\n"]));
    let batch = RecordBatch::try_from_iter([("plan_type", kinds), ("plan", plans)]).expect("two columns");
    let expected = "\
── physical plan ──
Sort: a, b
  Scan: table=t, columns=[a, b],
      x=0123456789
";
    check(Format::Table, layout, &[batch], expected);
}

#[test]
fn columns_that_do_not_fit_are_left_out_in_the_middle() {
    let column = |at: i64| (format!("column{at}"), Arc::new(Int64Array::from(vec![at])) as ArrayRef);
    let batch = RecordBatch::try_from_iter((0..20).map(column)).expect("columns");
    let layout = TableLayout { max_rows: Some(4), max_width: Some(40), footer: true, screen_rows: None };
    let expected = "\
┌─────────┬─────────┬───┬──────────┐
│ column0 │ column1 │ … │ column19 │
├─────────┼─────────┼───┼──────────┤
│       0 │       1 │ … │       19 │
└─────────┴─────────┴───┴──────────┘
1 row, 20 columns (3 shown)
";
    check(Format::Table, layout.clone(), std::slice::from_ref(&batch), expected);
    for max_width in 0..400 {
        let layout = TableLayout { max_width: Some(max_width), ..layout.clone() };
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(Format::Table, layout, std::slice::from_ref(&batch), &folder.path().join("result"));
        let text = fs::read_to_string(folder.path().join("result")).expect("text");
        let width = text.lines().next().map_or(0, |line| line.chars().count());
        assert!(width <= max_width.max(15), "{max_width}: {width}");
    }
}

#[test]
fn expanded_rows_have_a_line_for_each_value() {
    let layout = TableLayout { max_rows: Some(2), ..TableLayout::default() };
    let values = texts(&[Some("one\ntwo"), None, Some("x")]);
    let expected = "\
─── row 1 ───
text │ one
     │ two
n    │ 0
─── row 2 ───
text │ NULL
n    │ 1
3 rows (2 shown)
";
    check(Format::Expanded, layout, &[values], expected);
}

#[test]
fn a_terminal_gets_both_ends_of_a_long_table() {
    let layout = TableLayout { max_rows: Some(4), max_width: None, footer: true, screen_rows: None };
    let expected = "\
┌──────┐
│    n │
├──────┤
│    0 │
│    1 │
│    ⋮ │
│ 1998 │
│ 1999 │
└──────┘
2,000 rows (4 shown)
";
    check(Format::Table, layout.clone(), &[numbers(0..2000)], expected);
    check(
        Format::Table,
        layout.clone(),
        &[numbers(0..3), numbers(3..5), numbers(5..1999), numbers(1999..2000)],
        expected,
    );
    let ends = "┌───┐\n│ n │\n├───┤\n│ 0 │\n│ 1 │\n│ ⋮ │\n│ 3 │\n│ 4 │\n└───┘\n5 rows (4 shown)\n";
    check(Format::Table, layout.clone(), &[numbers(0..5)], ends);
    check(Format::Table, layout.clone(), &[numbers(0..1)], "┌───┐\n│ n │\n├───┤\n│ 0 │\n└───┘\n1 row\n");
    let none = TableLayout { max_rows: Some(0), ..layout };
    check(Format::Table, none, &[numbers(0..5)], "┌───┐\n│ n │\n├───┤\n│ ⋮ │\n└───┘\n5 rows (0 shown)\n");
}

#[test]
fn wide_values_are_cut_to_the_terminal() {
    let layout = TableLayout { max_rows: Some(40), max_width: Some(20), footer: false, screen_rows: None };
    let expected = "\
┌──────────────┬───┐
│ text         │ n │
├──────────────┼───┤
│ 0123456789a… │ 0 │
│ 日本日本日…  │ 1 │
└──────────────┴───┘
";
    check(Format::Table, layout, &[texts(&[Some("0123456789abcdefgh"), Some("日本日本日本日本")])], expected);
}

#[test]
fn rows_after_the_buffer_keep_its_widths() {
    let rows = table::BUFFER_ROWS as i64;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("result");
    write(Format::Table, TableLayout::default(), &[numbers(0..rows), numbers(rows..rows + 1), numbers(7..8)], &path);
    let text = fs::read_to_string(&path).expect("text");
    let last: Vec<_> = text.lines().rev().take(4).collect();
    assert_eq!(last, ["└──────┘", "│    7 │", "│ 10000 │", "│ 9999 │"]);
}

#[test]
fn binary_formats_give_the_same_batch_back_with_plain_strings() {
    let batch = every_type();
    let plain = Strings::Plain.batch(batch.clone()).expect("few strings");
    assert!(plain.schema().fields().iter().all(|field| *field.data_type() != DataType::Utf8View));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("result");

    write(Format::Arrow, TableLayout::default(), std::slice::from_ref(&batch), &path);
    let mut reader = StreamReader::try_new(File::open(&path).expect("file"), None).expect("an Arrow stream");
    assert_eq!(reader.next().expect("a batch").expect("valid"), plain);

    write(Format::Parquet, TableLayout::default(), std::slice::from_ref(&batch), &path);
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("file")).expect("a Parquet file");
    let read = builder.build().expect("reader").next().expect("a batch").expect("valid");
    assert_eq!(read, plain);
    assert_eq!(read.schema().field(1).data_type(), &DataType::Int64);
}
