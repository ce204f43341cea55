//! Files as users have them: Parquet bounds that are less exact than they seem, damaged files, patterns that match
//! several files; and files that Freestone wrote, read back.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::record_batch::RecordBatch;
use freestone::display::ValueTexts;
use freestone::{Database, Options, Session};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

/// A folder of files, and a session.
pub(crate) struct Place {
    folder: TempDir,
    session: Session,
}

impl Place {
    pub(crate) fn new() -> Place {
        let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
        Place { folder: tempfile::tempdir().expect("a folder"), session: database.session() }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        path
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    /// A Parquet file with this many rows per row group.
    pub(crate) fn parquet(&self, name: &str, columns: Vec<(&str, ArrayRef)>, group_rows: usize) {
        self.parquet_with(
            name,
            columns,
            WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build(),
        );
    }

    fn parquet_with(&self, name: &str, columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) {
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let file = File::create(self.path(name)).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a file");
    }

    /// Runs a statement in which `@` is the folder: rows as `a|b`, NULL as `~`; an error without the folder's name.
    pub(crate) async fn run(&self, sql: &str) -> Result<Vec<String>, String> {
        let folder = self.folder.path().display().to_string();
        let sql = sql.replace('@', &folder);
        let shown = |error: freestone::Error| error.to_string().replace(&format!("{folder}/"), "");
        let batches = self.session.sql(&sql).await.map_err(shown)?.collect().await.map_err(shown)?;
        let mut rows = vec![];
        for batch in &batches {
            let columns: Vec<_> =
                batch.columns().iter().map(|array| ValueTexts::new(array.as_ref()).expect("text")).collect();
            for row in 0..batch.num_rows() {
                let cell = |column: &ValueTexts<'_>| {
                    let mut text = String::new();
                    if column.is_null(row) {
                        text.push('~')
                    } else {
                        column.append(row, &mut text)
                    }
                    text
                };
                rows.push(columns.iter().map(cell).collect::<Vec<_>>().join("|"));
            }
        }
        Ok(rows)
    }

    pub(crate) async fn check(&self, sql: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(self.run(sql).await, Ok(expected), "{sql}");
    }

    /// The error of a statement.
    pub(crate) async fn failure(&self, sql: &str) -> freestone::Error {
        match self.session.sql(sql).await {
            Ok(rows) => rows.collect().await.expect_err(sql),
            Err(error) => error,
        }
    }

    pub(crate) async fn check_error(&self, sql: &str, part: &str) {
        match self.run(sql).await {
            Ok(rows) => panic!("{sql}: {rows:?} instead of an error with {part}"),
            Err(error) => assert!(error.contains(part), "{sql}: {error}\nexpected {part}"),
        }
    }
}

fn doubles(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

pub(crate) fn longs(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[tokio::test]
async fn bounds_say_nothing_of_nan() {
    let place = Place::new();
    let nan = f64::NAN;
    place.parquet("n.parquet", vec![("id", longs(&[1, 2, 3, 4, 5])), ("x", doubles(&[2.0, nan, 2.0, nan, 7.0]))], 3);
    place.check("SELECT id, x FROM '@/n.parquet'", &["1|2.0", "2|NaN", "3|2.0", "4|NaN", "5|7.0"]).await;
    place.check("SELECT id FROM '@/n.parquet' WHERE x <> 2 ORDER BY id", &["2", "4", "5"]).await;
    place.check("SELECT id FROM '@/n.parquet' WHERE NOT (x < 10) ORDER BY id", &["2", "4"]).await;
    place.check("SELECT id FROM '@/n.parquet' WHERE x > 100 ORDER BY id", &["2", "4"]).await;
    place.check("SELECT count(*) FROM '@/n.parquet' WHERE x = 'NaN'::DOUBLE", &["2"]).await;
    place.check("SELECT id FROM '@/n.parquet' ORDER BY x DESC, id LIMIT 2", &["2", "4"]).await;
    place.check("SELECT max(x), min(x) FROM '@/n.parquet'", &["NaN|2.0"]).await;
    let singles: ArrayRef = Arc::new(Float32Array::from(vec![f32::NAN, 2.5]));
    place.parquet("s.parquet", vec![("x", singles)], 2);
    place.check("SELECT count(*) FROM '@/s.parquet' WHERE x > 2", &["2"]).await;
}

#[tokio::test]
async fn zero_has_two_signs() {
    let place = Place::new();
    let bloom = WriterProperties::builder().set_bloom_filter_enabled(true).set_max_row_group_row_count(Some(2)).build();
    place.parquet_with("z.parquet", vec![("id", longs(&[1, 2, 3, 4])), ("x", doubles(&[-0.0, 1.0, -0.0, 5.0]))], bloom);
    place.check("SELECT id FROM '@/z.parquet' WHERE x = 0.0 ORDER BY id", &["1", "3"]).await;
    place.check("SELECT count(*) FROM '@/z.parquet' WHERE x >= 0", &["4"]).await;
    place.check("SELECT count(*) FROM '@/z.parquet' WHERE x < 0", &["0"]).await;
    place.check("SELECT count(*) FROM '@/z.parquet' WHERE x IN (0.0, 9.0)", &["2"]).await;
    place.check("SELECT id FROM '@/z.parquet' WHERE x = 5.0", &["4"]).await;
}

#[tokio::test]
async fn joins_find_both_zeros() {
    let place = Place::new();
    for (name, values) in [("a.parquet", vec![-0.0, 1.0, 0.0, -0.0, f64::NAN]), ("b.parquet", vec![-0.0, -0.0])] {
        place.parquet(name, vec![("x", doubles(&values))], 1);
    }
    place.parquet("c.parquet", vec![("x", doubles(&[f64::NAN, 1.0]))], 1);
    place.check("SELECT count(*) FROM '@/a.parquet' a JOIN '@/b.parquet' b ON a.x = b.x", &["6"]).await;
    place.check("SELECT count(*) FROM '@/a.parquet' WHERE x IN (SELECT x FROM '@/b.parquet')", &["3"]).await;
    place.check("SELECT count(*) FROM '@/a.parquet' a JOIN '@/c.parquet' b ON a.x = b.x", &["2"]).await;
    place.check("SELECT count(*) FROM '@/a.parquet' a JOIN '@/b.parquet' b ON a.x + 1 = b.x + 1", &["6"]).await;
    place.check("SELECT x FROM '@/a.parquet' ORDER BY x DESC LIMIT 3", &["NaN", "1.0", "0.0"]).await;
}

#[tokio::test]
async fn missing_and_shortened_bounds_leave_nothing_out() {
    let place = Place::new();
    let long = "k".repeat(9000);
    let values = [Some("m"), Some("m"), Some(long.as_str()), None];
    let some = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_statistics_truncate_length(Some(2))
        .build();
    place.parquet_with("t.parquet", vec![("id", longs(&[1, 2, 3, 4])), ("s", texts(&values))], some);
    let none = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    place.parquet_with("u.parquet", vec![("id", longs(&[1, 2, 3, 4])), ("s", texts(&values))], none);
    for name in ["t", "u"] {
        let from = format!("FROM '@/{name}.parquet'");
        place.check(&format!("SELECT id, length(s) {from}"), &["1|1", "2|1", "3|9000", "4|~"]).await;
        place.check(&format!("SELECT id {from} WHERE s > 'kk' ORDER BY id"), &["1", "2", "3"]).await;
        place.check(&format!("SELECT id {from} WHERE s < 'kl'"), &["3"]).await;
        place.check(&format!("SELECT id {from} WHERE s = repeat('k', 9000)"), &["3"]).await;
        place.check(&format!("SELECT id {from} WHERE s IS NULL"), &["4"]).await;
        place.check(&format!("SELECT count(s) {from}"), &["3"]).await;
    }
}

#[tokio::test]
async fn types_that_parquet_stores_otherwise() {
    let place = Place::new();
    let uuid = FixedSizeBinaryArray::try_from_iter([[7u8; 16]].into_iter()).expect("bytes");
    place.parquet("plain.parquet", vec![("u", Arc::new(uuid) as ArrayRef)], 9);
    place.check("SELECT u FROM '@/plain.parquet'", &["07070707070707070707070707070707"]).await;
    let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![1, u32::MAX]));
    place.parquet("unsigned.parquet", vec![("u", unsigned)], 1);
    place.check("SELECT u FROM '@/unsigned.parquet' WHERE u > 3000000000", &["4294967295"]).await;
    let decimals =
        Decimal128Array::from(vec![-(10i128.pow(36)), 1, 0]).with_precision_and_scale(38, 3).expect("decimals");
    place.parquet("decimal.parquet", vec![("d", Arc::new(decimals) as ArrayRef)], 1);
    place.check("SELECT count(*) FROM '@/decimal.parquet' WHERE d > 0.0005", &["1"]).await;
    place.check("SELECT count(*) FROM '@/decimal.parquet' WHERE d < 0", &["1"]).await;
    int96(&place, "old.parquet", &[(5_373_484, 7_200_000_000_000), (1_721_426, 0)]);
    place.check("SELECT t FROM '@/old.parquet'", &["9999-12-31T02:00:00", "0001-01-01T00:00:00"]).await;
    place
        .check(
            "SELECT t FROM '@/old.parquet' WHERE t > arrow_cast('9000-01-01T00:00:00', 'Timestamp(Microsecond, None)')",
            &["9999-12-31T02:00:00"],
        )
        .await;
}

/// A Parquet file of INT96 timestamps: Julian day numbers, and nanoseconds of the day.
fn int96(place: &Place, name: &str, values: &[(u32, u64)]) {
    let schema = Arc::new(parse_message_type("message m { required int96 t; }").expect("a schema"));
    let file = File::create(place.path(name)).expect("a file");
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("a column");
    let stored = values.iter().map(|(day, nanos)| {
        let mut value = Int96::new();
        value.set_data((*nanos & 0xffff_ffff) as u32, (*nanos >> 32) as u32, *day);
        value
    });
    column.typed::<Int96Type>().write_batch(&stored.collect::<Vec<_>>(), None, None).expect("values");
    column.close().expect("a column");
    group.close().expect("a row group");
    writer.close().expect("a file");
}

#[tokio::test]
async fn columns_of_one_name_and_of_names_that_differ_in_case() {
    let place = Place::new();
    place.parquet("c.parquet", vec![("key", longs(&[1, 2])), ("KEY", longs(&[3, 4]))], 1);
    place.check("SELECT * FROM '@/c.parquet'", &["1|3", "2|4"]).await;
    place.check("SELECT key FROM '@/c.parquet' WHERE \"KEY\" = 4", &["2"]).await;
    place.check("SELECT max(\"KEY\"), max(key) FROM '@/c.parquet'", &["4|2"]).await;
    place.parquet("d.parquet", vec![("x", longs(&[1, 2])), ("x", longs(&[3, 4]))], 1);
    place.check("SELECT * FROM '@/d.parquet'", &["1|3", "2|4"]).await;
    place.check("SELECT x FROM '@/d.parquet' WHERE x_1 = 4", &["2"]).await;
}

#[tokio::test]
async fn files_of_one_pattern() {
    let place = Place::new();
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    place.parquet("a/1.parquet", vec![("v", ints.clone())], 9);
    place.parquet("a/2.parquet", vec![("v", longs(&[5_000_000_000])), ("w", texts(&[Some("more")]))], 9);
    place.check("SELECT v, w FROM '@/a/*.parquet' ORDER BY v", &["1|~", "5000000000|more"]).await;
    place.check("SELECT w FROM '@/a/*.parquet' WHERE v > 4000000000", &["more"]).await;
    place.parquet("b/1.parquet", vec![("v", ints.clone())], 9);
    place.parquet("b/2.parquet", vec![("v", doubles(&[2.5]))], 9);
    place.check("SELECT v FROM '@/b' ORDER BY v", &["1.0", "2.5"]).await;
    place.parquet("c/1.parquet", vec![("v", longs(&[(1 << 53) + 1]))], 9);
    place.parquet("c/2.parquet", vec![("v", doubles(&[2.5]))], 9);
    place.check_error("SELECT v FROM '@/c/*.parquet'", "c/1.parquet, row 1, column v: '9007199254740993'").await;
    place.parquet("d/1.parquet", vec![("v", ints)], 9);
    place.parquet("d/2.parquet", vec![("v", texts(&[Some("five")]))], 9);
    place
        .check_error("SELECT v FROM '@/d/*.parquet'", "column v is INTEGER in d/1.parquet and VARCHAR in d/2.parquet")
        .await;
    place.parquet("e/time:10.parquet", vec![("v", longs(&[1]))], 9);
    place.parquet("e/a b?[1].parquet", vec![("v", longs(&[2]))], 9);
    place.check("SELECT sum(v) FROM '@/e/*.parquet'", &["3"]).await;
    place.check("SELECT v FROM '@/e/time:10.parquet'", &["1"]).await;
    place.check("SELECT v FROM '@/e/a b?[1].parquet'", &["2"]).await;
    place.write("e/empty.parquet", "");
    place.check_error("SELECT v FROM '@/e/*.parquet'", "e/empty.parquet: not a readable Parquet file").await;
}

#[tokio::test]
async fn folders_name_columns() {
    let place = Place::new();
    for (year, city, value) in [(2023, "Oslo", 1), (2024, "Rome", 2), (2024, "__HIVE_DEFAULT_PARTITION__", 3)] {
        place.parquet(&format!("h/year={year}/city={city}/f.parquet"), vec![("v", longs(&[value]))], 9);
    }
    let from = "FROM '@/h/**/*.parquet'";
    place.check(&format!("SELECT * {from} ORDER BY v"), &["1|2023|Oslo", "2|2024|Rome", "3|2024|~"]).await;
    place.check(&format!("SELECT v {from} WHERE year = 2024 AND city = 'Rome'"), &["2"]).await;
    place.check("SELECT sum(year) FROM '@/h'", &["6071"]).await;
    place.check("SELECT v FROM '@/h' WHERE city IS NULL", &["3"]).await;
    place.write("c/day=2024-02-29/x.csv", "v\n1\n");
    place.write("c/day=2024-03-01/x.csv", "v\n2\n");
    place.check("SELECT v, day FROM '@/c' WHERE day > DATE '2024-02-29'", &["2|2024-03-01"]).await;
    place.check("SELECT * FROM read_csv('@/c', hive_partitioning => false) ORDER BY v", &["1", "2"]).await;
    place.run("CREATE TABLE t (day DATE NOT NULL, v INT)").await.expect("made");
    place.run("COPY t FROM '@/c'").await.expect("loaded");
    place.check("SELECT day, v FROM t ORDER BY v", &["2024-02-29|1", "2024-03-01|2"]).await;
}

#[tokio::test]
async fn csv_files_of_one_pattern() {
    let place = Place::new();
    place.write("r/a.csv", "name,age\nBo,31\n");
    place.write("r/b.csv", "age,name\n54,Al\n");
    place.check("SELECT name, age FROM '@/r/*.csv' ORDER BY age", &["Bo|31", "Al|54"]).await;
    place.write("m/a.csv", "a,b\n1,2\n");
    place.write("m/b.csv", "b,c\n7.5,x\n");
    place.check("SELECT * FROM '@/m/*.csv'", &["1|2.0|~", "~|7.5|x"]).await;
    place.write("o/a.csv", "x,y\n1,2\n");
    place.write("o/b.csv", "p,q\n3,4\n");
    place.check_error("SELECT * FROM '@/o/*.csv'", "o/a.csv and o/b.csv have no column in common").await;
}

#[tokio::test]
async fn one_rule_for_a_value() {
    let place = Place::new();
    // The type is inferred from the first rows and from samples of the rest. A value elsewhere is converted to that
    // type, or is an error.
    for (name, first, late, shown, error) in [
        ("code", "12345", "00501", "00501", "'00501' is not a BIGINT"),
        ("big", "1.5", "9007199254740993", "9007199254740993", "'9007199254740993' does not fit a DOUBLE without loss"),
        ("truth", "true", "yes", "yes", "'yes' is not a BOOLEAN"),
        ("day", "2024-01-01", "2024-01-02 00:00:00", "2024-01-02T00:00:00", "does not fit a DATE without loss"),
        ("under", "1", "1_000", "1_000", "'1_000' is not a BIGINT"),
    ] {
        let first = format!("{first}\n");
        place.write("short.csv", format!("{name}\n{}{late}\n", first.repeat(30_000)));
        place.check("SELECT * FROM '@/short.csv' OFFSET 30000", &[shown]).await;
        let rest = first.repeat((6 << 20) / first.len());
        place.write("long.csv", format!("{name}\n{}{late}\n{rest}", first.repeat(30_000)));
        let place_and_reason = format!("long.csv, line 30002, column {name}: ");
        place.check_error(&format!("SELECT count({name}) FROM '@/long.csv'"), &place_and_reason).await;
        place.check_error(&format!("SELECT {name} FROM '@/long.csv' OFFSET 30000"), error).await;
        let declared = format!("SELECT * FROM '@/long.csv' (TYPES '{name} VARCHAR') OFFSET 30000 LIMIT 1");
        place.check(&declared, &[late]).await;
    }
}

#[tokio::test]
async fn csv_as_programs_write_it() {
    let place = Place::new();
    place.write("index.csv", ",city,n\n0,Oslo,3\n1,Rome,5\n");
    place.check("SELECT sum(n), max(column0) FROM '@/index.csv'", &["8|1"]).await;
    place.write("texts.csv", ",city\n0,Oslo\n1,Rome\n");
    place.check("SELECT column0, city FROM '@/texts.csv'", &["0|Oslo", "1|Rome"]).await;
    place.write("data.csv", ",Oslo\nx,Rome\n");
    place.check("SELECT column0, column1 FROM '@/data.csv'", &["~|Oslo", "x|Rome"]).await;
    for name in ["index.csv", "texts.csv"] {
        let sql = format!("CREATE TABLE t AS SELECT * FROM '@/{name}'");
        place.run(&sql).await.expect("a table");
        place.run(&format!("COPY t FROM '@/{name}'")).await.expect("rows");
        place.check("SELECT count(*), count(DISTINCT city), sum(column0) FROM t", &["4|2|2"]).await;
        place.run("DROP TABLE t").await.expect("no table");
    }
    place.write("digits.csv", "a,b\n12345678901234567.89,1\n1.5,12345678901234568.0\n");
    place.check("SELECT a, b FROM '@/digits.csv'", &["12345678901234567.89|1.0", "1.5|1.2345678901234568e16"]).await;
    place.write("days.csv", "d\n2024-01-01\ninfinity\n+12345-06-07\n");
    place
        .check("SELECT d, arrow_typeof(d) FROM '@/days.csv' OFFSET 1", &["infinity|Date32", "+12345-06-07|Date32"])
        .await;
    place.write("twice.csv", "id,name,name\n1,a,b\n");
    place.check("SELECT id, name, name_1 FROM '@/twice.csv'", &["1|a|b"]).await;
    place.write("years.csv", "id,2023,2024\n1,5,6\n");
    place.check("SELECT \"2023\" FROM '@/years.csv'", &["5"]).await;
    place.write("trailing.csv", "id,name,\n1,a\n2,b\n");
    place.check("SELECT * FROM '@/trailing.csv'", &["1|a", "2|b"]).await;
    place.write("sep.csv", "sep=;\r\nid;name\r\n1;a,b\r\n");
    place.check("SELECT id, name FROM '@/sep.csv'", &["1|a,b"]).await;
    place.write("semicolon.csv", "id;price\n1;2,5\n2;3\n");
    place.check("SELECT id, price FROM '@/semicolon.csv'", &["1|2,5", "2|3"]).await;
    place.write("returns.csv", "id,v\r\r\n1,x\r\r\n2,\"y\"\r\r\n");
    place.check("SELECT id, v, length(v) FROM '@/returns.csv'", &["1|x|1", "2|y|1"]).await;
    place.write("old.csv", "id,v\r1,x\r2,\"a\rb\"\r");
    place.check("SELECT id, length(v) FROM '@/old.csv'", &["1|1", "2|3"]).await;
    place.write("mixed.csv", "id,v\n1,x\r2,y\n");
    place.check_error("SELECT * FROM '@/mixed.csv'", "mixed.csv, line 2").await;
    place.write("quoted.csv", "\"id\",\"v\",\"t\"\n\"1\",\"12\",\"a\"\n\"2\",\"\",\"\"\n");
    place.check("SELECT sum(v), count(t) FROM '@/quoted.csv'", &["12|2"]).await;
    place.check("SELECT * FROM '@/quoted.csv' (HEADER false) LIMIT 1", &["id|v|t"]).await;
    place.check("SELECT * FROM '@/quoted.csv' (SKIP 1)", &["1|12|a", "2|~|"]).await;
    place.check("SELECT v FROM '@/quoted.csv' (ALL_VARCHAR true)", &["12", ""]).await;
    place.check_error("SELECT * FROM '@/quoted.csv' (COLOUR 'red')", "unknown option colour").await;
    place.check_error("SELECT * FROM '@/quoted.csv' (TYPES 'none INT')", "none").await;
}

#[tokio::test]
async fn json_as_programs_write_it() {
    let place = Place::new();
    place.write("n.json", "{\"v\": NaN, \"w\": 1}\n{\"v\": 1.5}\n{\"v\": -Infinity, \"w\": null}\n");
    place.check("SELECT v, w FROM '@/n.json'", &["NaN|1", "1.5|~", "-inf|~"]).await;
    place.check("SELECT count(*) FROM '@/n.json'", &["3"]).await;
    place.check("SELECT w FROM read_json(['@/n.json', '@/n.json']) WHERE v > 100 ORDER BY w", &["1", "1"]).await;
}

#[tokio::test]
async fn text_is_unpacked() {
    use std::io::Write;
    let place = Place::new();
    let file = File::create(place.path("z.csv.gz")).expect("a file");
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(b"a,b\n1,x\n2,y\n").expect("bytes");
    packed.finish().expect("a file");
    place.check("SELECT * FROM '@/z.csv.gz'", &["1|x", "2|y"]).await;
    place.run("COPY (SELECT 1 AS a) TO '@/w.json.zst'").await.expect("written");
    place.check("SELECT a FROM '@/w.json.zst'", &["1"]).await;
    // `printf 'a,b\n3,z\n' | bzip2`
    let bytes = [
        0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, 0xc8, 0x93, 0x47, 0xb8, 0x00, 0x00, 0x02, 0xd9,
        0x80, 0x00, 0x10, 0x00, 0x04, 0x08, 0x00, 0x30, 0x00, 0x00, 0x10, 0x20, 0x00, 0x21, 0xa6, 0x99, 0xa0, 0xc0,
        0x28, 0x15, 0x0b, 0x0b, 0xb9, 0x22, 0x9c, 0x28, 0x48, 0x64, 0x49, 0xa3, 0xdc, 0x00,
    ];
    place.write("b.csv.bz2", bytes);
    place.check("SELECT * FROM '@/b.csv.bz2'", &["3|z"]).await;
    place.run("COPY (SELECT 3 AS a, 'z' AS b) TO '@/c.csv.bz2'").await.expect("written");
    place.check("SELECT * FROM '@/c.csv.bz2'", &["3|z"]).await;
    assert!(fs::read(place.path("c.csv.bz2")).expect("a file").starts_with(b"BZh9"));
    place.check_error("COPY (SELECT 1 AS a) TO '@/c.parquet' (COMPRESSION bzip2)", "not compressed by bzip2").await;
    let whole = fs::read(place.path("z.csv.gz")).expect("a file");
    place.write("cut.csv.gz", &whole[..whole.len() - 9]);
    place.check_error("SELECT * FROM '@/cut.csv.gz'", "cut.csv.gz").await;
}

#[tokio::test]
async fn copies_are_whole_or_not_there() {
    let place = Place::new();
    for name in ["k.parquet", "k.csv", "k.json", "k.arrow"] {
        place.run(&format!("COPY (SELECT * FROM generate_series(1, 3) t(i)) TO '@/{name}'")).await.expect("written");
        place
            .check_error(
                &format!("COPY (SELECT 10 / (i - 90000) AS i FROM generate_series(1, 100000) t(i)) TO '@/{name}'"),
                "zero",
            )
            .await;
        place.check(&format!("SELECT count(*), sum(i) FROM '@/{name}'"), &["3|6"]).await;
        place
            .check_error(
                &format!("COPY (SELECT 1 / (i - 2) AS i FROM generate_series(1, 3) t(i)) TO '@/new-{name}'"),
                "zero",
            )
            .await;
        place.check_error(&format!("SELECT * FROM '@/new-{name}'"), "no such file").await;
    }
    let left = fs::read_dir(place.folder.path()).expect("a folder").count();
    assert_eq!(left, 4, "nothing but the files is left");
}

#[tokio::test]
async fn names_are_names() {
    let place = Place::new();
    for name in ["a b", "100%", "a%20b", "x#1", "q?z", "t:00", "x[1]", "naïve", "d''q", "*st"] {
        for ending in ["csv", "parquet"] {
            place.run(&format!("COPY (SELECT 1 AS i) TO '@/{name}.{ending}'")).await.expect("written");
            assert!(place.path(&format!("{}.{ending}", name.replace("''", "'"))).is_file(), "{name}.{ending}");
        }
    }
    place.run("COPY (SELECT 1 AS i) TO '@/noext' (FORMAT parquet)").await.expect("written");
    assert!(place.path("noext").is_file());
    place.check("SELECT i FROM '@/noext' (FORMAT parquet)", &["1"]).await;
    place.check_error("COPY (SELECT 1 AS i) TO '@/' (FORMAT parquet)", "is a folder").await;
    place.check_error("COPY (SELECT 1 AS i) TO '@/x'", "cannot tell the format").await;
}

#[tokio::test]
async fn damaged_files_are_named() {
    let place = Place::new();
    place.parquet("ok.parquet", vec![("a", longs(&(0..3000).collect::<Vec<_>>()))], 1000);
    let whole = fs::read(place.path("ok.parquet")).expect("a file");
    for cut in (0..whole.len()).step_by(whole.len() / 40).chain([whole.len() - 1, whole.len() - 9]) {
        place.write("cut.parquet", &whole[..cut]);
        place.check_error("SELECT sum(a) FROM '@/cut.parquet'", "cut.parquet").await;
    }
    // A changed byte causes an error or another value, but never a panic.
    for at in (0..whole.len()).step_by(whole.len() / 300 + 1) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5a;
        place.write("flip.parquet", &bytes);
        if let Err(error) = place.run("SELECT sum(a), count(*) FROM '@/flip.parquet' WHERE a > 5").await {
            assert!(
                error.contains("flip.parquet") || error.contains("column") || error.contains("type"),
                "{at}: {error}"
            );
            assert!(!error.contains("internal error"), "{at}: {error}");
        }
    }
    place.write("text.parquet", "a,b\n1,2\n");
    place.check_error("SELECT * FROM '@/text.parquet'", "text.parquet: not a readable Parquet file").await;
    place.write("short.arrow", b"ARROW1\0\0");
    place.check_error("SELECT * FROM '@/short.arrow'", "short.arrow: not a readable Arrow file").await;
    place.write("parquet.csv", &whole);
    place.check_error("SELECT * FROM '@/parquet.csv'", "parquet.csv: the file is a Parquet file").await;
    fs::create_dir(place.path("folder.parquet")).expect("a folder");
    place.check_error("SELECT * FROM '@/folder.parquet'", "the folder holds no data file").await;
}

#[tokio::test]
async fn filters_and_limits_reach_row_groups() {
    let place = Place::new();
    let ids: Vec<i64> = (0..50_000).collect();
    let names: Vec<String> = ids.iter().map(|id| format!("name {id}")).collect();
    let names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    place.parquet("big.parquet", vec![("id", longs(&ids)), ("name", texts(&names))], 4_000);
    place.check("SELECT name FROM '@/big.parquet' WHERE id = 31234", &["name 31234"]).await;
    place.check("SELECT count(*), min(name) FROM '@/big.parquet' WHERE id % 1000 = 7", &["50|name 10007"]).await;
    place.check("SELECT name FROM '@/big.parquet' LIMIT 2 OFFSET 7999", &["name 7999", "name 8000"]).await;
    place.check("SELECT id FROM '@/big.parquet' ORDER BY id DESC LIMIT 2", &["49999", "49998"]).await;
    place.run("CREATE TABLE few AS SELECT 31234::BIGINT AS k UNION ALL SELECT 17").await.expect("made");
    let join = "SELECT name FROM '@/big.parquet' f JOIN few ON f.id = few.k ORDER BY k";
    place.check(join, &["name 17", "name 31234"]).await;
    place.check("SELECT count(*) FROM '@/big.parquet' WHERE 1 = 0", &["0"]).await;
    let explained =
        place.run("EXPLAIN ANALYZE SELECT name FROM '@/big.parquet' WHERE id = 31234").await.expect("a plan");
    assert!(explained.join("").contains("row_groups_pruned=12"), "{explained:?}");
}

#[tokio::test]
async fn odd_values_print_and_come_back() {
    let place = Place::new();
    let stamps = TimestampMicrosecondArray::from(vec![Some(i64::MAX), None, Some(0)]);
    place.parquet("odd.parquet", vec![("t", Arc::new(stamps) as ArrayRef)], 9);
    place.check("SELECT t FROM '@/odd.parquet'", &["infinity", "~", "1970-01-01T00:00:00"]).await;
    place.run("CREATE TABLE s (a TIMESTAMP(0), b VARCHAR, c BINARY, d DOUBLE)").await.expect("made");
    let rows = "(TIMESTAMP '9999-12-31 23:59:59', '', x'', 'NaN'::DOUBLE), (NULL, NULL, NULL, NULL), \
                (TIMESTAMP '0001-01-01 00:00:00', 'a,\"b\"', x'5c7800', '-inf'::DOUBLE)";
    place.run(&format!("INSERT INTO s VALUES {rows}")).await.expect("inserted");
    for ending in ["parquet", "arrow", "csv", "json", "tsv", "csv.gz"] {
        place.run(&format!("COPY s TO '@/s.{ending}'")).await.expect("written");
        place.run("CREATE TABLE back (a TIMESTAMP(0), b VARCHAR, c BINARY, d DOUBLE)").await.expect("made");
        place.run(&format!("COPY back FROM '@/s.{ending}'")).await.unwrap_or_else(|error| panic!("{ending}: {error}"));
        let differ =
            "(SELECT * FROM s EXCEPT SELECT * FROM back) UNION ALL (SELECT * FROM back EXCEPT SELECT * FROM s)";
        place.check(differ, &[]).await;
        place.check("SELECT count(*), count(b), count(c) FROM back", &["3|2|2"]).await;
        place.run("DROP TABLE back").await.expect("dropped");
    }
    place.run("CREATE TABLE again AS SELECT * FROM '@/s.parquet'").await.expect("made");
    place
        .check(
            "SELECT a FROM again WHERE a > arrow_cast('9000-01-01T00:00:00', 'Timestamp(Second, None)')",
            &["9999-12-31T23:59:59"],
        )
        .await;
    place
        .check(
            "SELECT column_name, column_type FROM (DESCRIBE again)",
            &["a|TIMESTAMP_S", "b|VARCHAR", "c|BLOB", "d|DOUBLE"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipes_are_read_to_their_end() {
    let place = Place::new();
    let pipe = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let fill = || {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, format!("a\n{}", "7\n".repeat(100_000))).expect("written"))
    };
    let filled = fill();
    place.check("SELECT sum(a), count(*) FROM '@/pipe' (FORMAT csv)", &["700000|100000"]).await;
    filled.join().expect("filled");
    place.run("CREATE TABLE t (a INT)").await.expect("made");
    let filled = fill();
    place.run("COPY t FROM '@/pipe' (FORMAT csv)").await.expect("loaded");
    filled.join().expect("filled");
    place.check("SELECT count(*) FROM t", &["100000"]).await;
    let filled = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "a\nx\n").expect("written")
    });
    place.check_error("COPY t FROM '@/pipe' (FORMAT csv)", "pipe, line 2, column a: 'x' is not an INTEGER").await;
    filled.join().expect("filled");
    place.run("COPY t TO '/dev/null' (FORMAT parquet)").await.expect("written");
    assert!(std::path::Path::new("/dev/null").metadata().is_ok_and(|null| !null.is_file()));
    let read = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("read")
    });
    place.run("COPY (SELECT 1 AS a) TO '@/pipe' (FORMAT csv)").await.expect("written");
    assert_eq!(read.join().expect("read"), "a\n1\n");
}

#[tokio::test]
async fn nested_json_without_a_common_type_is_text() {
    let place = Place::new();
    place.write(
        "n.json",
        "{\"id\":1,\"v\":[1, {\"k\":\"x\"}],\"w\":\"s\"}\n{\"id\":2,\"v\":\"s\",\"w\":null}\n{\"id\":3,\"v\":7.50}",
    );
    place.check("SELECT id, v, w FROM '@/n.json'", &["1|[1, {\"k\":\"x\"}]|s", "2|\"s\"|~", "3|7.50|~"]).await;
    place.check("SELECT v FROM read_json('@/n.json', types => {'v': 'VARCHAR'}) WHERE id = 2", &["s"]).await;
    place.run("CREATE TABLE n AS SELECT * FROM '@/n.json'").await.expect("a table");
    place.check("SELECT count(*) FROM n WHERE v LIKE '[1%'", &["1"]).await;
    place.run("CREATE TABLE m (id INT, v VARCHAR, w INT)").await.expect("a table");
    place.check_error("COPY m FROM '@/n.json'", "n.json, line 1, column w: 's' is not an INTEGER").await;
    // A value after the sample that could be confused with a string.
    place.write("late.json", format!("{}{{\"v\":[1]}}\n", "{\"v\":\"[1]\"}\n".repeat(3)));
    place
        .check_error("SELECT * FROM '@/late.json' (SAMPLE_ROWS 2)", "late.json, line 4, column v: nested value [1]")
        .await;
    place.check("SELECT count(*) FROM '@/late.json' (SAMPLE_ROWS 2, TYPES 'v VARCHAR') WHERE v = '[1]'", &["4"]).await;
    let deep = format!("{}1{}", "{\"a\":[".repeat(500), "]}".repeat(500));
    place.write("deep.json", format!("{{\"v\":{deep}}}"));
    place.check("SELECT length(v) FROM '@/deep.json'", &[&deep.len().to_string()]).await;
    place.write("a/1.json", "{\"v\":{\"k\":1}}\n");
    place.write("a/2.json", "{\"v\":\"text\"}\n");
    place.check("SELECT v FROM '@/a' ORDER BY v", &["\"text\"", "{\"k\":1}"]).await;
}

#[tokio::test]
async fn values_past_the_sample_are_errors_with_a_way_out() {
    let place = Place::new();
    // Five megabytes, so that the unusual value is in a part that the sample does not contain.
    let lines = "12345,abcdefghijklmnopqrstuvwxyz\n".repeat(320_000);
    let cut = lines.len() / 2 + 17 * 33 * 1024 + 33;
    let at = lines[..cut].rfind('\n').expect("lines") + 1;
    place.write("z.csv", format!("c,t\n{}00501,x\n{}", &lines[..at], &lines[at..]));
    let line = 2 + lines[..at].lines().count();
    place.check_error("SELECT sum(c) FROM '@/z.csv'", &format!("z.csv, line {line}, column c: '00501' is not")).await;
    place.check("SELECT count(*) FROM '@/z.csv' (TYPES 'c VARCHAR') WHERE c = '00501'", &["1"]).await;
    // A statement that writes runs again, with types that fit all rows.
    place.run("CREATE TABLE z AS SELECT * FROM '@/z.csv'").await.expect("a table");
    place.check("SELECT c, t FROM z WHERE c <> '12345'", &["00501|x"]).await;
    place.check("SELECT count(*) FROM z", &["320001"]).await;
    place.run("COPY (SELECT c FROM '@/z.csv') TO '@/z.parquet'").await.expect("a file");
    place.check("SELECT c FROM '@/z.parquet' WHERE c < '1'", &["00501"]).await;
    place.run("INSERT INTO z SELECT * FROM '@/z.csv' WHERE c = '00501'").await.expect("a row");
    place.check("SELECT count(*) FROM z WHERE t = 'x'", &["2"]).await;
    // If that does not help, the error is the first one. In a transaction, nothing runs again.
    place.check_error("CREATE TABLE s AS SELECT sum(c) AS s FROM '@/z.csv'", "column c: '00501' is not").await;
    place.run("BEGIN").await.expect("a transaction");
    place.check_error("CREATE TABLE s AS SELECT * FROM '@/z.csv'", "column c: '00501' is not").await;
    place.run("ROLLBACK").await.expect("no transaction");
}

#[tokio::test]
async fn members_past_the_sample_become_columns_of_tables() {
    let place = Place::new();
    let rows = "{\"a\":1}\n".repeat(30_000);
    place.write("m.json", format!("{rows}{{\"a\":2.5,\"b\":[7]}}\n"));
    place.check_error("SELECT * FROM '@/m.json'", "m.json, line 30001").await;
    place.run("CREATE TABLE m AS SELECT * FROM '@/m.json'").await.expect("a table");
    place.check("SELECT * FROM m WHERE b IS NOT NULL", &["2.5|[7]"]).await;
    place.check("SELECT count(*), sum(a) FROM m", &["30001|30002.5"]).await;
}

/// Keeps what a statement reports.
#[derive(Default)]
struct Reports(std::sync::Mutex<Vec<(Option<u64>, u64)>>, std::sync::atomic::AtomicUsize);

impl freestone::Progress for Reports {
    fn begin(&self, task: &str, total: Option<u64>) {
        assert_eq!(task, "reading files");
        self.0.lock().expect("reports").push((total, 0));
    }

    fn advance(&self, done: u64) {
        self.0.lock().expect("reports").last_mut().expect("work that began").1 = done;
    }

    fn end(&self) {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_files_report_progress() {
    let place = Place::new();
    let rows = "1,abcdefghijklmnopqrstuvwxyz\n".repeat(300_000);
    place.write("p.csv", format!("a,b\n{rows}"));
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, format!("a,b\n{rows}").as_bytes()).expect("bytes");
    place.write("p.csv.gz", packed.finish().expect("bytes"));
    let random: Vec<i64> =
        (0..200_000).map(|at: i64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed())).collect();
    place.parquet("p.parquet", vec![("a", longs(&random))], 50_000);
    for name in ["p.csv", "p.csv.gz", "p.parquet"] {
        for sql in ["SELECT count(a) FROM '@/NAME'", "CREATE TABLE t AS SELECT * FROM '@/NAME'"] {
            let reports = Arc::new(Reports::default());
            place.session.set_progress(Some(reports.clone()));
            place.run(&sql.replace("NAME", name)).await.expect("a result");
            place.session.set_progress(None);
            let told = reports.0.lock().expect("reports").clone();
            let whole = |(total, done): &(Option<u64>, u64)| *total == Some(*done) && *done > 1_000;
            assert!(told.len() == 1 && whole(&told[0]), "{sql} {name}: {told:?}");
            assert_eq!(reports.1.load(std::sync::atomic::Ordering::Relaxed), 1, "{sql} {name}");
        }
        place.run("DROP TABLE t").await.expect("no table");
    }
}

#[tokio::test]
async fn all_rows_can_decide() {
    let place = Place::new();
    let sample = "(SAMPLE_ROWS 2)";
    place.write("t.json", format!("{}{{\"a\":\"x\",\"b\":2}}\n", "{\"a\":1}\n".repeat(5)));
    place.check_error(&format!("SELECT a FROM '@/t.json' {sample}"), "t.json, line 6, column a: '\"x\"'").await;
    place.check_error(&format!("SELECT count(*) FROM '@/t.json' {sample}"), "line 6: member 'b' is no column").await;
    for (name, rows) in [("t.json", "5|1|2"), ("u.json", "300000|1|2")] {
        if name == "u.json" {
            place.write(name, format!("[{}{{\"a\":\"x\",\"b\":2}}]", "{\"a\":100000000},\n".repeat(300_000)));
        }
        let all = format!("FROM '@/{name}' (SAMPLE_ROWS -1)");
        let sql =
            format!("SELECT count(CASE WHEN a <> 'x' THEN 1 END), count(CASE WHEN a = 'x' THEN 1 END), max(b) {all}");
        place.check(&sql, &[rows]).await;
    }
    place.write("cut.json", format!("[{}", "{\"a\":100000000},\n".repeat(10_000)));
    place.check_error("SELECT * FROM '@/cut.json' (SAMPLE_ROWS -1)", "cut.json, line 10001").await;
    let lines = "12345,abcdefghijklmnopqrstuvwxyz\n".repeat(400_000);
    let middle = lines.len() / 33 / 2 * 33 + 33 * 4_321;
    place.write("z.csv", format!("c,t\n{}00501,x\n{}", &lines[..middle], &lines[middle..]));
    place.check_error("SELECT sum(c) FROM '@/z.csv'", "column c: '00501' is not").await;
    place.check("SELECT count(*), min(c) FROM read_csv('@/z.csv', sample_size => -1)", &["400001|00501"]).await;
    place.check("SELECT sum(c) FROM '@/z.csv' (SAMPLE_ROWS -1, TYPES 'c BIGINT')", &["4938000501"]).await;
}

#[tokio::test]
async fn files_of_other_programs() {
    let place = Place::new();
    for (name, hint) in [("a.xls", ".xlsx"), ("a.csv.xz", "decompress"), ("a.orc", "Parquet"), ("a.txt", "FORMAT csv")]
    {
        place.write(name, "a,b\n1,2\n");
        let path = place.path(name).display().to_string();
        for sql in [format!("SELECT * FROM '{path}'"), format!("COPY t FROM '{path}'")] {
            place.run("CREATE TABLE IF NOT EXISTS t (a INT, b INT)").await.expect("a table");
            let error = place.failure(&sql).await;
            assert!(
                error.hint().is_some_and(|text| text.contains(hint) || text.contains("FORMAT")),
                "{sql}: {error:?}"
            );
        }
    }
    place.check("SELECT * FROM read_csv('@/a.txt')", &["1|2"]).await;
}

#[tokio::test]
async fn members_whose_names_differ_in_case() {
    let place = Place::new();
    place.write("c.json", "{\"a\":1}\n{\"A\":2}\n{\"a\":3}\n{\"a\":4,\"A\":5}\n");
    place.check("SELECT a, \"A\" FROM '@/c.json'", &["1|~", "~|2", "3|~", "4|5"]).await;
    let error = "c.json, line 4: two members are column 'a'";
    place.check_error("SELECT a FROM '@/c.json' (SAMPLE_ROWS 1)", error).await;
    place.run("CREATE TABLE c (a INT)").await.expect("a table");
    place.check_error("COPY c FROM '@/c.json'", error).await;
    place.write("d.json", "{\"A\":5,\"a\":4}\n");
    place.check_error("COPY c FROM '@/d.json'", "d.json, line 1: two members are column 'a'").await;
}

#[tokio::test]
async fn members_of_one_name_within_an_object() {
    let place = Place::new();
    place.write(
        "d.json",
        "{\"o\":{\"x\":1,\"x\":2},\"l\":[{\"y\":1,\"y\":2,\"z\":3}],\"m\":{\"k\":1,\"k\":null,\"k\":5}}\n",
    );
    place.check("SELECT o.x, l[1].y, l[1].z, m.k FROM '@/d.json'", &["2|2|3|5"]).await;
    place
        .run("CREATE TABLE t (o STRUCT(x INT), l STRUCT(y INT, z INT)[], m MAP(VARCHAR, INT))")
        .await
        .expect("a table");
    place.run("COPY t FROM '@/d.json'").await.expect("a row");
    place.check("SELECT o.x, l[1].y, l[1].z, m['k'] FROM t", &["2|2|3|5"]).await;
    // The texts of CSV files have no such rule.
    place.write("d.csv", "o\n\"{\"\"x\"\": 1, \"\"x\"\": 2}\"\n");
    place.check_error("SELECT * FROM read_csv('@/d.csv', types={'o': 'STRUCT(x INT)'})", "is not a STRUCT").await;
}

#[tokio::test]
async fn options_that_people_use() {
    let place = Place::new();
    place.write("o.csv", "1;NA;'x'\n2;-;y\n");
    let from = "read_csv('@/o.csv', delim => ';', quote => '''', nullstr => ['NA', '-'], header => false";
    place.check(&format!("SELECT * FROM {from})"), &["1|~|x", "2|~|y"]).await;
    place
        .check(
            &format!("SELECT a, b || c FROM {from}, names => ['a'], types => {{'a': 'INT'}}) t(a, b, c)"),
            &["1|~", "2|~"],
        )
        .await;
    place
        .check(
            &format!("SELECT n FROM {from}, columns => {{'n': 'INT', 'm': 'VARCHAR', 'o': 'VARCHAR'}})"),
            &["1", "2"],
        )
        .await;
    place
        .check_error(&format!("FROM {from}, names => ['a', 'b', 'c', 'd'])"), "o.csv has 3 columns, and NAMES has 4")
        .await;
    place.check_error(&format!("FROM {from}, union_by_name => false)"), "always matched by name").await;
    place.write("q.csv", "a,b\n\"x,1\n");
    place.check("SELECT a, b FROM '@/q.csv' (QUOTE '')", &["\"x|1"]).await;
    place.write("f/1.csv", "x\n1\n");
    place.write("f/2.csv", "x\n2\n");
    place
        .check(
            "SELECT x, split_part(filename, '/', -1) FROM read_csv('@/f/*.csv', filename => true)",
            &["1|1.csv", "2|2.csv"],
        )
        .await;
    place.check("SELECT x FROM read_csv('@/f', filename => 'of') WHERE of LIKE '%2.csv'", &["2"]).await;
    place.check_error("FROM read_csv('@/f/1.csv', filename => 'x')", "the files have a column x").await;
    file_names(&place).await;
    place.write("g/notes.txt", "x");
    place.check_error("SELECT * FROM '@/g/'", "the folder holds no data file, only notes.txt").await;
    place.write("h/1.csv", "x\n1\n");
    place.write("h/2.json", "{\"x\":1}");
    place.check_error("SELECT * FROM '@/h'", "files of several formats: 1 .csv, 1 .json").await;
}

/// The name of each row's file, which no star means.
async fn file_names(place: &Place) {
    let both = &["1|1.csv", "2|2.csv"];
    place.check("SELECT x, split_part(filename, '/', -1) FROM '@/f/*.csv'", both).await;
    place.check("SELECT x, split_part(f.FileName, '/', -1) FROM read_csv('@/f/*.csv') AS f", both).await;
    place.check("SELECT * FROM '@/f/*.csv' WHERE filename LIKE '%2.csv'", &["2"]).await;
    place.check("SELECT count(*) FROM (FROM '@/f/*.csv') GROUP BY ALL ORDER BY 1 -- filename", &["2"]).await;
    let joined = "SELECT count(*), count(DISTINCT a.filename) FROM '@/f/*.csv' a JOIN '@/f/*.csv' b USING (x)";
    place.check(joined, &["2|2"]).await;
    place.check("SELECT * FROM '@/f/*.csv' a NATURAL JOIN '@/f/1.csv' b WHERE a.filename <> ''", &["1"]).await;
    place.check("WITH w AS (SELECT filename AS f, x FROM '@/f') SELECT x FROM w WHERE f LIKE '%1.csv'", &["1"]).await;
    place.write("own/1.csv", "filename,y\nmine,1\n");
    place.check("SELECT * FROM '@/own/1.csv' WHERE filename = 'mine'", &["mine|1"]).await;
    place.check_error("SELECT filename FROM (FROM '@/f/*.csv')", "no column filename").await;
    place.check_error("SELECT filename FROM (SELECT 1 AS x)", "no column filename").await;
}

#[tokio::test]
async fn folders_by_values() {
    let place = Place::new();
    place.run("CREATE TABLE t (k INT, s VARCHAR, v DOUBLE)").await.expect("a table");
    place
        .run("INSERT INTO t VALUES (1, 'a/b', 1), (2, 'x', 2), (1, NULL, 3), (NULL, 'x', 4), (1, 'a/b', 5)")
        .await
        .expect("rows");
    for (format, ending) in [("parquet", "parquet"), ("csv", "csv"), ("json", "json"), ("arrow", "arrow")] {
        let to = format!("'@/{format}' (FORMAT {format}, PARTITION_BY (k, s))");
        place.run(&format!("COPY t TO {to}")).await.expect("files");
        assert!(place.path(&format!("{format}/k=1/s=a%2Fb")).join(format!("data_0.{ending}")).is_file());
        assert!(
            place
                .path(&format!("{format}/k=__HIVE_DEFAULT_PARTITION__/s=x"))
                .join(format!("data_0.{ending}"))
                .is_file()
        );
        place
            .check(
                &format!("SELECT k, s, v FROM '@/{format}' ORDER BY v"),
                &["1|a/b|1.0", "2|x|2.0", "1|~|3.0", "~|x|4.0", "1|a/b|5.0"],
            )
            .await;
        place.check(&format!("SELECT sum(v) FROM '@/{format}' WHERE k = 1 AND s IS NOT NULL"), &["6.0"]).await;
        place.check_error(&format!("COPY t TO {to}"), "is not an empty folder").await;
    }
    place.check_error("COPY t TO '@/e' (FORMAT csv, PARTITION_BY (none))", "no column none").await;
    place.check_error("COPY t TO '@/e' (FORMAT csv, PARTITION_BY (k, s, v))", "names all columns").await;
    // If one file of a COPY fails, no file remains.
    place
        .check_error(
            "COPY (SELECT k, 1 / (3 - v::INT) AS q FROM t) TO '@/half' (FORMAT csv, PARTITION_BY k)",
            "division by zero",
        )
        .await;
    assert!(!place.folder.path().join("half").exists());
    place.check_error("COPY t TO '@/new/folder/f.csv'", "there is no folder new/folder").await;
    assert!(!place.folder.path().join("new").exists());
}

/// Decimals of at most 18 digits are read as 64-bit integers where the executor takes them; the answers are those of a
/// table with the same rows.
#[tokio::test]
async fn small_decimals_are_those_of_a_table() {
    let place = Place::new();
    let rows = "SELECT i AS k, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'group ' || (i % 3) END AS g, \
         CASE WHEN i % 7 = 0 THEN NULL ELSE (i % 1000) / 100 END::DECIMAL(9, 2) AS p, \
         CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 99999999999999.9999 WHEN 2 THEN -99999999999999.9999 ELSE i * 0.0001 END\
         ::DECIMAL(18, 4) AS q, (i * 12345678901234)::DECIMAL(20, 2) AS w, (i % 40)::DECIMAL(4, 0) AS n, \
         DATE '2024-01-01' + (i % 50)::INT AS d FROM range(9000) r(i)";
    place.run(&format!("CREATE TABLE t AS {rows}")).await.expect("a table");
    for (name, filter) in [("all/1", "true"), ("two/1", "k < 4000"), ("empty/1", "false")] {
        let select = format!("SELECT * FROM t WHERE {filter} ORDER BY k");
        place.path(&format!("{name}.parquet"));
        let copy = format!("COPY ({select}) TO '@/{name}.parquet' (ROW_GROUP_SIZE 1500)");
        place.run(&copy).await.expect("a file");
    }
    // The second file has other types of decimals, and no column n.
    let other = "SELECT k, g, p::DECIMAL(12, 3) AS p, q::DECIMAL(22, 4) AS q, w, d FROM t WHERE k >= 4000 ORDER BY k";
    place.run(&format!("COPY ({other}) TO '@/two/2.parquet'")).await.expect("a file");
    place.run("CREATE VIEW two AS SELECT k, g, p::DECIMAL(12, 3) AS p, q::DECIMAL(22, 4) AS q, w, CASE WHEN k < 4000 THEN n END AS n, d FROM t").await.expect("made");
    place.run("CREATE VIEW empty AS SELECT * FROM t WHERE false").await.expect("made");
    let statements = [
        "SELECT count(*), sum(p), sum(q), sum(w), avg(p), min(q), max(q), count(p) FROM @@ WHERE d < DATE '2024-02-10'",
        "SELECT sum(p * q), sum(p * (1 - n)), max(p), min(n) FROM @@ WHERE p >= 1.5 AND p < 7.505",
        "SELECT sum(q) FROM @@ WHERE p BETWEEN 1 AND 2 AND q <> 99999999999999.9999 AND 3 < n",
        "SELECT count(*) FROM @@ WHERE p = n OR q IS NULL OR p IN (0.5, 1.25)",
        "SELECT count(*) FROM @@ WHERE p > 99999999999 OR p < -1e30 OR n = 0.5",
        "SELECT g, sum(p), sum(q), avg(n), count(*), min(p), max(w) FROM @@ GROUP BY g ORDER BY g NULLS FIRST",
        "SELECT g, n, sum(p * 2), sum(CASE WHEN p > 5 THEN q ELSE 0 END) FROM @@ WHERE k % 2 = 0 GROUP BY g, n \
         ORDER BY g NULLS FIRST, n NULLS FIRST",
        "SELECT p, count(*) FROM @@ GROUP BY p ORDER BY p NULLS FIRST LIMIT 9",
        "SELECT a.p, count(*), sum(b.q) FROM @@ a JOIN @@ b ON a.p = b.p AND a.k = b.k GROUP BY a.p ORDER BY 1 LIMIT 9",
        "SELECT a.k, b.n, a.q FROM @@ a JOIN @@ b ON a.k = b.n WHERE b.k > 8000 ORDER BY a.k, b.k LIMIT 9",
        "SELECT k, p, q FROM @@ WHERE g = 'group 1' AND p < 0.2 ORDER BY p, k LIMIT 7",
        "SELECT sum(x.p) FROM (SELECT p, n FROM @@ WHERE q < 0.5 UNION ALL SELECT n, p FROM @@) x",
    ];
    for (table, files) in [("t", "'@/all/*.parquet'"), ("two", "'@/two/*.parquet'"), ("empty", "'@/empty/1.parquet'")] {
        for statement in statements {
            let of_table = place.run(&statement.replace("@@", table)).await;
            let of_files = place.run(&statement.replace("@@", files)).await;
            assert!(of_table.is_ok(), "{statement}: {of_table:?}");
            assert_eq!(of_files, of_table, "{files}: {statement}");
        }
    }
}

/// A file whose footer states bounds that its values do not keep: what would rely on them runs without them.
#[tokio::test]
async fn bounds_that_lie_change_no_sums() {
    let place = Place::new();
    let (low, high) = (1_000_000_007i64, 1_000_000_999i64);
    let values: Vec<i64> = (0..5000).map(|row| low + row * 7919 % (high - low + 1)).collect();
    let groups: Vec<Option<&str>> = (0..5000).map(|row| [None, Some("a"), Some("b")][row % 3]).collect();
    let write = |name: &str, nulls: usize| {
        let longs: ArrayRef =
            Arc::new((0..5000).map(|row| (row >= nulls).then(|| values[row])).collect::<Int64Array>());
        place.parquet(name, vec![("x", longs), ("g", texts(&groups))], 5000);
    };
    write("true.parquet", 0);
    write("false.parquet", 0);
    let path = place.path("false.parquet");
    let mut bytes = fs::read(&path).expect("bytes");
    let at = bytes.len() - 8;
    let footer = at - u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    let mut changed = 0;
    for from in footer..at - 8 {
        if bytes[from..from + 8] == high.to_le_bytes() {
            bytes[from..from + 8].copy_from_slice(&(low + 3).to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0, "the footer has the bound");
    fs::write(&path, bytes).expect("written");
    for statement in [
        "SELECT g, count(*), sum(x), min(x + 1), max(x) FROM @@ GROUP BY g ORDER BY g",
        "SELECT x, count(*) FROM @@ GROUP BY x ORDER BY x LIMIT 5",
        "SELECT count(*), sum(a.x - b.x), max(b.x) FROM @@ a JOIN @@ b ON a.x = b.x",
        "SELECT count(*) FROM @@ a WHERE EXISTS (SELECT 1 FROM @@ b WHERE a.x = b.x + 1)",
    ] {
        let expected = place.run(&statement.replace("@@", "'@/true.parquet'")).await;
        assert!(expected.as_ref().is_ok_and(|rows| !rows.is_empty()), "{statement}: {expected:?}");
        assert_eq!(place.run(&statement.replace("@@", "'@/false.parquet'")).await, expected, "{statement}");
    }
}

/// Texts of few values are read as codes: filters and groups of them, with NULL, empty texts, and row groups of other
/// dictionaries.
#[tokio::test]
async fn few_texts_are_those_of_a_table() {
    let place = Place::new();
    let rows = "SELECT i AS k, CASE i % 6 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'É' ELSE 'mode ' || (i // 1000 % 4) END \
         AS m, CASE WHEN i < 4000 THEN NULL ELSE 'a longer text ' || i % 3 END AS n, 'same' AS o, i % 9 AS v FROM range(9000) r(i)";
    place.run(&format!("CREATE TABLE t AS {rows}")).await.expect("a table");
    place.run("COPY (SELECT * FROM t ORDER BY k) TO '@/t.parquet' (ROW_GROUP_SIZE 1500)").await.expect("a file");
    for statement in [
        "SELECT m, n, o, count(*), sum(v), min(n), max(m) FROM @@ GROUP BY m, n, o ORDER BY m NULLS FIRST, n NULLS FIRST",
        "SELECT m, sum(v) FROM @@ WHERE m IS NULL OR m = '' GROUP BY m ORDER BY m NULLS FIRST",
        "SELECT m, sum(v) FROM @@ WHERE coalesce(m, 'mode 2') LIKE 'mode%' GROUP BY m ORDER BY m NULLS FIRST",
        "SELECT m, sum(v) FROM @@ WHERE m IN ('É', 'mode 1') AND n <> 'a longer text 1' GROUP BY m ORDER BY m",
        "SELECT m, sum(v) FROM @@ WHERE m < n OR length(m) > 4 AND v = 3 GROUP BY m ORDER BY m",
        "SELECT upper(m) AS u, n || '!' AS w, count(*) FROM @@ WHERE NOT m > 'mode 1' GROUP BY u, w ORDER BY u, w",
        "SELECT a.m, count(*) FROM @@ a JOIN @@ b ON a.m = b.m AND a.k = b.k WHERE b.n IS NOT NULL GROUP BY a.m ORDER BY 1",
        "SELECT a.m, b.n FROM @@ a LEFT JOIN @@ b ON a.m = b.n OR a.k = b.k + 1 WHERE a.k IN (3, 4503) ORDER BY 1, 2",
        "SELECT count(*), count(n), count(DISTINCT m) FROM @@ WHERE n LIKE '%2' OR n IS NULL AND m BETWEEN 'm' AND 'mode 3'",
    ] {
        let of_table = place.run(&statement.replace("@@", "t")).await;
        assert!(of_table.as_ref().is_ok_and(|rows| !rows.is_empty()), "{statement}: {of_table:?}");
        assert_eq!(place.run(&statement.replace("@@", "'@/t.parquet'")).await, of_table, "{statement}");
    }
}
