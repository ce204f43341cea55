//! COPY reads back the rows that it wrote: random tables of all types, through every format.
//!
//! `FREESTONE_TEST_ROUNDS` is the number of tables, `FREESTONE_TEST_SEED` the seed of the first one. A failure prints
//! its seed.

use std::fmt::Write as _;

use freestone::display::ValueTexts;
use freestone::{Database, Options, Session};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A type of a column, and a function that returns a random value as SQL text.
type Kind = (&'static str, fn(&mut StdRng) -> String);

const KINDS: &[Kind] = &[
    ("BOOLEAN", |r| r.random_bool(0.5).to_string()),
    ("TINYINT", |r| pick(r, &["-128", "127", "0", "-7"])),
    ("SMALLINT", |r| pick(r, &["-32768", "32767", "0", "11"])),
    ("INT", |r| pick(r, &["-2147483648", "2147483647", "0", "42"])),
    ("BIGINT", |r| match r.random_range(0..4) {
        0 => "(-9223372036854775807 - 1)".to_owned(),
        1 => "9223372036854775807".to_owned(),
        _ => r.random_range(-1_000_000..1_000_000).to_string(),
    }),
    ("TINYINT UNSIGNED", |r| pick(r, &["0", "255", "9"])),
    ("SMALLINT UNSIGNED", |r| pick(r, &["0", "65535", "9"])),
    ("INT UNSIGNED", |r| pick(r, &["0", "4294967295", "9"])),
    ("BIGINT UNSIGNED", |r| pick(r, &["0", "18446744073709551615", "9"])),
    ("REAL", |r| format!("'{}'::REAL", pick(r, &["NaN", "inf", "-inf", "-0.0", "1e-45", "3.4e38", "0.1", "16777216"]))),
    ("DOUBLE", |r| match r.random_range(0..3) {
        0 => format!("'{:e}'::DOUBLE", f64::from_bits(r.random::<u64>() & 0x7fe_ffff_ffff_ffff)),
        _ => format!(
            "'{}'::DOUBLE",
            pick(r, &["NaN", "inf", "-inf", "-0.0", "5e-324", "1.7976931348623157e308", "1e21", "0.1"])
        ),
    }),
    ("DECIMAL(10, 2)", |r| pick(r, &["99999999.99", "-0.01", "0", "12.50"])),
    ("DECIMAL(38, 10)", |r| pick(r, &["1234567890123456789012345678.0123456789", "-0.0000000001", "0"])),
    ("DECIMAL(38, 38)", |r| pick(r, &["0.99999999999999999999999999999999999999", "-1e-38::DECIMAL(38, 38)", "0"])),
    ("DATE", |r| match r.random_range(0..6) {
        // Years outside the range of literals.
        0 => format!("DATE '2024-02-29' + INTERVAL '{} years'", pick(r, &["9000", "-2100", "100000"])),
        _ => format!("DATE '{}'", pick(r, &["0001-01-01", "9999-12-31", "1970-01-01", "1582-10-15", "2024-02-29"])),
    }),
    ("TIME", |r| format!("TIME '{}'", pick(r, &["00:00:00", "23:59:59.999999", "12:00:00.5"]))),
    ("TIMESTAMP(0)", |r| {
        format!("TIMESTAMP '{}'", pick(r, &["0001-01-01 00:00:00", "9999-12-31 23:59:59", "1969-12-31 23:59:59"]))
    }),
    ("TIMESTAMP(3)", |r| format!("TIMESTAMP '{}'", pick(r, &["0001-01-01 00:00:00.001", "9999-12-31 23:59:59.999"]))),
    ("TIMESTAMP", |r| match r.random_range(0..6) {
        0 => format!("TIMESTAMP '2024-02-29 01:02:03' + INTERVAL '{} years'", pick(r, &["9000", "-2100", "100000"])),
        _ => format!(
            "TIMESTAMP '{}'",
            pick(r, &["0001-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.5"])
        ),
    }),
    ("TIMESTAMP(9)", |r| {
        format!("TIMESTAMP '{}'", pick(r, &["1677-09-22 00:00:00.000000001", "2262-04-11 00:00:00.999999999"]))
    }),
    ("TIMESTAMP WITH TIME ZONE", |r| {
        format!("TIMESTAMP WITH TIME ZONE '{}'", pick(r, &["2024-06-01T12:00:00+02:00", "1969-12-31T23:59:59.5Z"]))
    }),
    ("VARCHAR", |r| {
        let text: String = (0..r.random_range(0..6))
            .map(|_| {
                let parts = [
                    "a", ",", "\"", "''", "\n", "\r\n", "\r", " ", "ü", "\\", ";", "|", "NULL", "1", "\u{feff}",
                    "\u{1}", "\t", "{}", "[1]", "null", "𝄞",
                ];
                pick(r, &parts)
            })
            .collect();
        match r.random_range(0..20) {
            0 => format!("repeat('{text}x', 3000)"),
            _ => format!("'{text}'"),
        }
    }),
    ("BINARY", |r| format!("x'{}'", pick(r, &["", "00", "ff41", "5c78", "22", "0a"]))),
];

fn pick(random: &mut StdRng, values: &[&str]) -> String {
    values[random.random_range(0..values.len())].to_owned()
}

/// The columns of a random table, and its rows as SQL text.
fn table(random: &mut StdRng) -> (String, Vec<String>) {
    let kinds: Vec<&Kind> =
        (0..random.random_range(1..7)).map(|_| &KINDS[random.random_range(0..KINDS.len())]).collect();
    let columns: Vec<String> = kinds.iter().enumerate().map(|(at, (name, _))| format!("c{at} {name}")).collect();
    let count = random_rows(random);
    let row = |_| {
        let values = kinds.iter().map(|(_, value)| match random.random_range(0..5) {
            0 => "NULL".to_owned(),
            _ => value(random),
        });
        format!("({})", values.collect::<Vec<_>>().join(", "))
    };
    (columns.join(", "), (0..count).map(row).collect())
}

fn random_rows(random: &mut StdRng) -> usize {
    if random.random_bool(0.1) { 0 } else { random.random_range(1..30) }
}

async fn shown(session: &Session, sql: &str) -> Result<String, String> {
    let failed = |error: freestone::Error| format!("{sql}: {error}");
    let batches = session.sql(sql).await.map_err(failed)?.collect().await.map_err(failed)?;
    let mut text = String::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| ValueTexts::new(c.as_ref()).expect("texts")).collect();
        for row in 0..batch.num_rows() {
            for column in &columns {
                let mut cell = String::new();
                column.append(row, &mut cell);
                let _ = write!(text, "{:?} ", (!column.is_null(row)).then_some(cell));
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// The extension of a file, the options for writing it, and the options for reading it.
const FORMS: [(&str, &str, &str); 20] = [
    ("parquet", "", ""),
    ("parquet", "(COMPRESSION none, ROW_GROUP_SIZE 7)", ""),
    ("parquet", "(COMPRESSION snappy)", ""),
    ("parquet", "(COMPRESSION gzip)", ""),
    ("parquet", "(COMPRESSION lz4)", ""),
    ("parquet", "(COMPRESSION brotli)", ""),
    ("arrow", "", ""),
    ("arrow", "(COMPRESSION zstd)", ""),
    ("feather", "(COMPRESSION lz4)", ""),
    ("json", "", ""),
    ("ndjson.gz", "", ""),
    ("json.zst", "(COMPRESSION_LEVEL 3)", ""),
    ("ndjson.bz2", "", ""),
    ("csv", "(HEADER true)", "(HEADER true)"),
    ("csv", "(HEADER false)", "(HEADER false)"),
    ("tsv", "(HEADER true, NULL 'n/a')", "(HEADER true, NULL 'n/a')"),
    ("csv", QUOTED, QUOTED),
    ("csv.gz", "(HEADER true)", "(HEADER true)"),
    ("csv.zst", "(HEADER true)", "(HEADER true)"),
    ("csv.bz2", "(HEADER true)", "(HEADER true)"),
];

const QUOTED: &str = "(HEADER true, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'NULL')";

async fn check(session: &Session, folder: &str, seed: u64) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let (columns, rows) = table(&mut random);
    let run = async |sql: String| shown(session, &sql).await;
    run(format!("CREATE TABLE t ({columns})")).await?;
    if !rows.is_empty() {
        run(format!("INSERT INTO t VALUES {}", rows.join(", "))).await?;
    }
    let before = run("SELECT * FROM t".into()).await?;
    for (ending, to, from) in FORMS {
        // A JSON file without objects has no columns.
        if rows.is_empty() && ending.contains("json") {
            continue;
        }
        run(format!("COPY t TO '{folder}/f.{ending}' {to}")).await?;
        run(format!("CREATE TABLE u ({columns})")).await?;
        run(format!("COPY u FROM '{folder}/f.{ending}' {from}")).await?;
        let after = run("SELECT * FROM u".into()).await?;
        if before != after {
            return Err(format!("{ending} {to}, columns {columns}\nbefore:\n{before}\nafter:\n{after}"));
        }
        run("DROP TABLE u".into()).await?;
        if matches!(ending, "parquet" | "arrow" | "feather") {
            run(format!("CREATE TABLE u AS SELECT * FROM '{folder}/f.{ending}'")).await?;
            let (old, new) = (run("DESCRIBE t".into()).await?, run("DESCRIBE u".into()).await?);
            if old != new || before != run("SELECT * FROM u".into()).await? {
                return Err(format!("{ending} {to}: CREATE TABLE AS differs\n{old}\n{new}"));
            }
            run("DROP TABLE u".into()).await?;
        }
    }
    run("DROP TABLE t".into()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_tables_come_back() {
    let setting = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count) = (setting("FREESTONE_TEST_SEED", 1), setting("FREESTONE_TEST_ROUNDS", 25));
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
    let session = database.session();
    for seed in first..first + count {
        if let Err(error) = check(&session, &folder.path().display().to_string(), seed).await {
            panic!("seed {seed}: {error}");
        }
    }
}
