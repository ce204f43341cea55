//! The fuzz targets on random inputs from seeds, so that they run in every test.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::record_batch::RecordBatch;
use freestone::fuzz::{fuzz_arrow, fuzz_csv, fuzz_json, fuzz_parquet, fuzz_sql};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The number of inputs: `FREESTONE_TEST_ROUNDS`, or the default.
fn rounds(default: usize) -> usize {
    std::env::var("FREESTONE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

const CSV: [&str; 16] = [
    ",",
    "\n",
    "\r\n",
    "\"",
    "\"\"",
    "\\",
    "|",
    "a,b,c\n",
    "1",
    "-17.5e3",
    "2024-02-29",
    "12:30:00",
    "true",
    "NULL",
    "é",
    "\u{feff}",
];

#[test]
fn csv_files() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..rounds(4000) {
        let mut data: Vec<u8> = vec![random.random()];
        for _ in 0..random.random_range(0..40) {
            match random.random_range(0..20) {
                0 => data.push(random.random()),
                _ => data.extend_from_slice(CSV[random.random_range(0..CSV.len())].as_bytes()),
            }
        }
        fuzz_csv(&data);
    }
}

const JSON: [&str; 20] = [
    "{\"a\":1,\"s\":\"b\",\"x\":2.5}\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\"",
    "\"s\"",
    "\"x\"",
    "\"\\u00e9\\n\"",
    "\"\\ud834\\udd1e\"",
    "1",
    "-17.5e3",
    "NaN",
    "null",
    "true",
    "\"2024-02-29\"",
    "\n",
    "\u{feff}",
];

#[test]
fn json_files() {
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..rounds(400) {
        let mut data: Vec<u8> = vec![];
        if round % 2 == 0 {
            data.extend(JSON[0].repeat(random.random_range(0..4)).into_bytes());
        }
        for _ in 0..random.random_range(0..30) {
            match random.random_range(0..20) {
                0 => data.push(random.random()),
                _ => data.extend_from_slice(JSON[random.random_range(0..JSON.len())].as_bytes()),
            }
        }
        fuzz_json(&data);
    }
}

fn batch() -> RecordBatch {
    let rows = 0..120i64;
    let text = |row: i64| (row % 11 != 0).then(|| ["a", "b", "k", "long text of some length"][row as usize % 4]);
    let decimals = Decimal128Array::from_iter(rows.clone().map(|row| (row % 5 != 0).then_some(i128::from(row) * 100)));
    RecordBatch::try_from_iter(vec![
        ("a", Arc::new(Int64Array::from_iter_values(rows.clone())) as ArrayRef),
        ("s", Arc::new(StringArray::from_iter(rows.clone().map(text)))),
        ("x", Arc::new(Float64Array::from_iter(rows.clone().map(|row| (row % 7 != 0).then_some(row as f64 / 3.0))))),
        ("o", Arc::new(BooleanArray::from_iter(rows.map(|row| Some(row % 3 == 0))))),
        ("d", Arc::new(decimals.with_precision_and_scale(20, 2).expect("digits"))),
    ])
    .expect("columns of one length")
}

/// Small Parquet files: versions of pages, dictionaries, indexes, Bloom filters, compression.
fn parquet_files() -> Vec<Vec<u8>> {
    let forms = [
        WriterProperties::builder(),
        WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0).set_compression(Compression::SNAPPY),
        WriterProperties::builder().set_dictionary_enabled(false).set_data_page_row_count_limit(10),
        WriterProperties::builder().set_bloom_filter_enabled(true).set_compression(Compression::LZ4_RAW),
    ];
    let write = |form: parquet::file::properties::WriterPropertiesBuilder| {
        let batch = batch();
        let properties = form.set_max_row_group_row_count(Some(50)).set_write_batch_size(10).build();
        let mut bytes = vec![];
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a file");
        bytes
    };
    forms.into_iter().map(write).collect()
}

/// An integer in Thrift's compact form: seven bits per byte, with the sign in the lowest bit (zigzag).
fn varint(value: i64) -> Vec<u8> {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    let mut bytes = vec![];
    while rest > 127 {
        bytes.push(rest as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// Truncates a file, flips or overwrites bytes, or changes numbers in its last part, whose length remains correct.
fn damage(random: &mut StdRng, file: &[u8], is_parquet: bool) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let place = random.random_range(0..bytes.len());
    match random.random_range(0..6) {
        0 => bytes.truncate(place),
        1 => bytes[place] ^= 1 << random.random_range(0..8),
        2 => bytes[place..].iter_mut().take(8).for_each(|byte| *byte = random.random()),
        3 => drop(bytes.splice(place..(place + 9).min(file.len()), (i64::MAX - 1).to_le_bytes())),
        _ if is_parquet => {
            let footer = u32::from_le_bytes(bytes[file.len() - 8..][..4].try_into().expect("four bytes")) as usize;
            let start = file.len() - 8 - footer;
            for _ in 0..random.random_range(1..3) {
                let at = start + random.random_range(0..footer);
                let values = [0, -1, 1, 127, i64::MAX, i64::MIN, 1 << 31, 1 << 40, file.len() as i64];
                let number = varint(values[random.random_range(0..values.len())]);
                let old = bytes[at..].iter().take_while(|byte| **byte > 127).count() + 1;
                bytes.splice(at..(at + old).min(bytes.len() - 8), number);
            }
            let length = (bytes.len() - 8 - start) as u32;
            let end = bytes.len() - 8;
            bytes[end..end + 4].copy_from_slice(&length.to_le_bytes());
        }
        _ => bytes[place] = 255,
    }
    bytes
}

#[test]
fn damaged_parquet_files() {
    let mut random = StdRng::seed_from_u64(4);
    let files = parquet_files();
    files.iter().for_each(|file| fuzz_parquet(file));
    for _ in 0..rounds(200).min(20_000) {
        let file = &files[random.random_range(0..files.len())];
        fuzz_parquet(&damage(&mut random, file, true));
    }
}

#[test]
fn damaged_arrow_files() {
    let mut random = StdRng::seed_from_u64(5);
    let batch = batch();
    let (mut file, mut stream) = (vec![], vec![]);
    let mut writer = FileWriter::try_new(&mut file, &batch.schema()).expect("a writer");
    (0..3).for_each(|at| writer.write(&batch.slice(at * 40, 40)).expect("rows"));
    writer.finish().expect("a file");
    drop(writer);
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.finish().expect("a stream");
    drop(writer);
    for round in 0..rounds(300).min(20_000) {
        fuzz_arrow(&damage(&mut random, if round % 2 == 0 { &file } else { &stream }, false));
    }
}

const SQL: [&str; 12] = [
    "SELECT a, sum(c) FROM t WHERE b LIKE 'x%' AND d BETWEEN DATE '2024-01-01' AND '2024-12-31' GROUP BY a HAVING count(*) > 1",
    "SELECT * FROM t JOIN u USING (a) WHERE f > now() - INTERVAL '1' DAY ORDER BY 1 NULLS LAST LIMIT 5 OFFSET 2",
    "WITH x AS (SELECT e * 2 AS y FROM t) SELECT max(y) OVER (PARTITION BY y) FROM x UNION ALL SELECT 1",
    "CREATE TABLE IF NOT EXISTS z (a INT NOT NULL, PRIMARY KEY (a)) WITH (design = 'row', sort = 'a', levels = 1)",
    "INSERT INTO t (a, b) VALUES (1, 'it''s'), (2, $tag$ ; $tag$)",
    "UPDATE t SET b = upper(b) WHERE a IN (SELECT a FROM u)",
    "DELETE FROM t WHERE a IS NULL",
    "COPY t FROM 'file.csv' (FORMAT csv, HEADER true, DELIMITER '|', NULL '')",
    "COPY (SELECT 1) TO 'x.parquet' (FORMAT parquet)",
    "ALTER TABLE t SET DESIGN (groups = '(a, b), (c)', page_size = '64KiB')",
    "VACUUM t; CHECK; TRUNCATE t; DROP TABLE IF EXISTS t; SHOW ALL",
    "SET batch_size = 100; PREPARE p AS SELECT $1; EXECUTE p(1)",
];

/// Words of several statements in random order, with some characters changed.
#[test]
fn scripts() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..rounds(3000) {
        let mut words: Vec<String> = SQL[random.random_range(0..SQL.len())].split(' ').map(str::to_owned).collect();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..words.len());
            match random.random_range(0..5) {
                0 => drop(words.remove(at)),
                1 => {
                    let other: Vec<&str> = SQL[random.random_range(0..SQL.len())].split(' ').collect();
                    words.insert(at, other[random.random_range(0..other.len())].to_owned());
                }
                2 => words[at].push([';', '\'', '"', '(', ')', 'é', '\0', '-', '$', '\n'][random.random_range(0..10)]),
                3 => words[at] = words[at].repeat(2),
                _ => {
                    words[at] = ["NULL", "9223372036854775808", "''", "*", "--", "/*", "(((((((((", "t", "1e999"]
                        [random.random_range(0..9)]
                    .into()
                }
            }
            if words.is_empty() {
                words.push(";".into());
            }
        }
        fuzz_sql(&words.join(" "));
    }
}
