//! Entry points for fuzzing: for any input, nothing may panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

use crate::ingest::{FileFormat, IngestOptions, infer_schema, read_file};
use crate::sql::statement::{StatementKind, parse_script};
use crate::{Database, ErrorKind, Options, Session};

/// A CSV file, through inference and parsing. The first byte selects the dialect and the size of the blocks.
#[doc(hidden)]
pub fn fuzz_csv(data: &[u8]) {
    let Some((select, data)) = data.split_first() else { return };
    let path = scratch_file("csv");
    if fs::write(&path, data).is_err() {
        return;
    }
    let bit = |n: u8| select >> n & 1 == 1;
    let options = IngestOptions {
        format: Some(FileFormat::Csv),
        header: bit(0).then(|| bit(1)),
        delimiter: bit(2).then_some(b'|'),
        escape: bit(3).then_some(b'\\'),
        nulls: vec![if bit(4) { "NULL".into() } else { String::new() }],
        threads: 1,
        batch_rows: if bit(5) { 3 } else { 1000 },
        sample_rows: if bit(6) { 2 } else { 1000 },
        block_bytes: if bit(7) { 16 } else { 1 << 20 },
        ..IngestOptions::default()
    };
    let rows = read(&path, &options);
    let lines = data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!(rows <= lines + 1, "{rows} rows of {lines} lines");
}

/// The number of rows before the first error.
fn read(path: &Path, options: &IngestOptions) -> usize {
    let Ok(schema) = infer_schema(path, options) else { return 0 };
    let Ok(reader) = read_file(path, schema, options) else { return 0 };
    reader.map_while(Result::ok).map(|batch| batch.num_rows()).sum()
}

/// A JSON file, through inference, parsing and a query.
#[doc(hidden)]
pub fn fuzz_json(data: &[u8]) {
    scan("json", data);
}

/// A Parquet file: footer, pages, bounds and indexes, through reading and queries with filters.
#[doc(hidden)]
pub fn fuzz_parquet(data: &[u8]) {
    scan("parquet", data);
}

/// An Arrow file or stream.
#[doc(hidden)]
pub fn fuzz_arrow(data: &[u8]) {
    scan("arrow", data);
}

/// Reads a file as COPY does and as queries do. A file is never the cause of an internal error.
fn scan(extension: &str, data: &[u8]) {
    static ENGINE: OnceLock<(Runtime, Session)> = OnceLock::new();
    let path = scratch_file(extension);
    if fs::write(&path, data).is_err() {
        return;
    }
    let options = IngestOptions { threads: 1, batch_rows: 100, block_bytes: 512, ..IngestOptions::default() };
    read(&path, &options);
    let (runtime, session) = ENGINE.get_or_init(engine);
    let file = path.display();
    for sql in [
        format!("SELECT * FROM '{file}'"),
        format!("SELECT count(*) FROM '{file}'"),
        format!("SELECT s, max(a) FROM '{file}' WHERE a > 20 AND x < 1e3 AND s <> 'k' GROUP BY s"),
        format!("SELECT x FROM '{file}' WHERE s = 'b' OR a IN (1, 7) ORDER BY a LIMIT 3"),
    ] {
        let ran = runtime.block_on(async { session.sql(&sql).await?.collect().await.map(drop) });
        if let Err(error) = ran {
            assert!(error.kind() != ErrorKind::Internal, "{sql}: {error}");
        }
    }
}

/// One file per thread, which is overwritten each time.
fn scratch_file(extension: &str) -> PathBuf {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(format!("freestone-fuzz-{process}-{thread:?}.{extension}"))
}

/// A script: it is split and parsed, and its queries are planned with two small tables. Nothing is executed.
#[doc(hidden)]
pub fn fuzz_sql(script: &str) {
    static ENGINE: OnceLock<(Runtime, Session)> = OnceLock::new();
    let (runtime, session) = ENGINE.get_or_init(engine);
    let _ = freestone_sql::is_complete(script);
    let _ = freestone_sql::parse_statements(script);
    for statement in parse_script(script) {
        assert!(script.contains(&statement.text), "a statement's text is part of the script");
        let _ = statement.command();
        if statement.kind == StatementKind::Query && !statement.text.to_ascii_uppercase().contains("EXPLAIN") {
            let explain = format!("EXPLAIN {}", statement.text);
            runtime.block_on(async { drop(session.sql(&explain).await) });
        }
    }
}

fn engine() -> (Runtime, Session) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let options = Options { threads: 1, cache_bytes: 1 << 20, memory_limit: Some(64 << 20), ..Options::default() };
    let session = Database::in_memory(options).expect("a database in memory opens").session();
    for sql in [
        "CREATE TABLE t (a INT, b VARCHAR, c DOUBLE, d DATE, e DECIMAL(20, 3)) WITH (design = 'row', sort = 'a')",
        "CREATE TABLE u (a INT, f TIMESTAMP, g BOOLEAN)",
        "INSERT INTO t VALUES (1, 'x', 1.5, DATE '2024-01-01', 1.5), (NULL, NULL, NULL, NULL, NULL)",
    ] {
        runtime.block_on(session.sql(sql)).expect("valid SQL");
    }
    (runtime, session)
}
