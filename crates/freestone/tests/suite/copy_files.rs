//! Which files COPY TO writes, in which order their rows are, and what the statement returns.

use crate::copy_options::{files, text};
use crate::files::Place;

async fn numbers(place: &Place, rows: usize) {
    place.run(&format!("CREATE TABLE t AS SELECT i, i % 3 AS j FROM range({rows}) r(i)")).await.expect("rows");
}

#[tokio::test]
async fn rows_of_each_file_have_an_order() {
    let place = Place::new();
    numbers(&place, 7).await;
    place.run("COPY t TO '@/all' (FORMAT csv, ORDER_BY (i DESC))").await.expect("a file");
    assert_eq!(files(&place, "all"), ["data_0.csv"]);
    assert_eq!(text(&place, "all/data_0.csv"), "i,j\n6,0\n5,2\n4,1\n3,0\n2,2\n1,1\n0,0\n");
    place.run("COPY t TO '@/p' (FORMAT csv, PARTITION_BY j, ORDER BY (i + 1 DESC))").await.expect("files");
    assert_eq!(text(&place, "p/j=0/data_0.csv"), "i\n6\n3\n0\n");
    assert_eq!(text(&place, "p/j=1/data_0.csv"), "i\n4\n1\n");
    place
        .run("COPY t TO '@/w' (FORMAT csv, PARTITION BY (j), ORDER_BY i, WRITE_PARTITION_COLUMNS)")
        .await
        .expect("files");
    assert_eq!(text(&place, "w/j=2/data_0.csv"), "i,j\n2,2\n5,2\n");
    place.run("COPY t (j) TO '@/some' (FORMAT csv, ORDER_BY (j DESC), FILENAME_PATTERN 'x')").await.expect("a file");
    assert_eq!(text(&place, "some/x0.csv"), "j\n2\n2\n1\n1\n0\n0\n0\n");
    let values = "(VALUES (NULL::DOUBLE), ('NaN'), ('-0.0'), (1), ('-Infinity'), ('Infinity')) v(x)";
    place.run(&format!("COPY (FROM {values}) TO '@/n' (FORMAT csv, ORDER_BY (x))")).await.expect("a file");
    assert_eq!(text(&place, "n/data_0.csv"), "x\n-inf\n-0.0\n1.0\ninf\nNaN\n\n");
    let first = "ORDER_BY (x DESC NULLS FIRST, x)";
    place.run(&format!("COPY (FROM {values}) TO '@/f' (FORMAT csv, {first})")).await.expect("a file");
    assert_eq!(text(&place, "f/data_0.csv"), "x\n\nNaN\ninf\n1.0\n-0.0\n-inf\n");
    let twice =
        "COPY (SELECT i, i FROM t WHERE i < 2) TO '@/twice' (FORMAT csv, PARTITION_BY i_1, ORDER_BY (1 - i DESC))";
    place.check_error(twice, "ambiguous").await;
    place
        .run("COPY (SELECT i, i FROM t WHERE i < 2) TO '@/twice' (FORMAT csv, PARTITION_BY i_1)")
        .await
        .expect("files");
    assert_eq!(files(&place, "twice"), ["i_1=0/data_0.csv", "i_1=1/data_0.csv"]);
    place.run("COPY (FROM t LIMIT 0) TO '@/none' (FORMAT csv, ORDER_BY i)").await.expect("a folder");
    assert!(files(&place, "none").is_empty());
    for (options, part) in [
        ("ORDER_BY (1)", "no positions"),
        ("ORDER_BY (nope)", "nope"),
        ("ORDER_BY i, ORDER_BY j", "given twice"),
        ("ORDER_BY i, PER_THREAD_OUTPUT", "exclude each other"),
        ("ORDER_BY i, WRITE_EMPTY_FILE false", "exclude each other"),
    ] {
        place.check_error(&format!("COPY t TO '@/x' (FORMAT csv, {options})"), part).await;
    }
}

#[tokio::test]
async fn files_end_when_they_are_large() {
    let place = Place::new();
    numbers(&place, 10_000).await;
    for (folder, options, count) in [
        ("r1", "FORMAT parquet, ROW_GROUP_SIZE 2000, ROW_GROUPS_PER_FILE 1", 5),
        ("r2", "FORMAT parquet, ROW_GROUP_SIZE 4000, ROW_GROUPS_PER_FILE 1", 3),
        ("r3", "FORMAT parquet, ROW_GROUP_SIZE 2000, ROW_GROUPS_PER_FILE 2", 3),
        ("c1", "FORMAT csv, FILE_SIZE_BYTES 1_000", 5),
        ("c2", "FORMAT csv, FILE_SIZE_BYTES '1MB'", 1),
        ("j1", "FORMAT json, ARRAY true, FILE_SIZE_BYTES '1kb'", 5),
        ("a1", "FORMAT arrow, FILE_SIZE_BYTES '1KiB'", 5),
        ("p1", "FORMAT parquet, ROW_GROUP_SIZE 2000, FILE_SIZE_BYTES '1kb'", 5),
        ("t1", "FORMAT csv, PER_THREAD_OUTPUT", 1),
        ("b1", "FORMAT parquet, PARTITION_BY j, ROW_GROUP_SIZE 1000, ROW_GROUPS_PER_FILE 2", 6),
    ] {
        place.run(&format!("COPY t TO '@/{folder}' ({options})")).await.expect(options);
        assert_eq!(files(&place, folder).len(), count, "{options}");
        let expected = ["10000|49995000|9999"];
        place.check(&format!("SELECT count(*), sum(i), sum(j) FROM '@/{folder}'"), &expected).await;
    }
    assert_eq!(files(&place, "r2"), ["data_0.parquet", "data_1.parquet", "data_2.parquet"]);
    place.check("SELECT row_group_num_rows FROM parquet_metadata('@/r2/data_2.parquet') LIMIT 1", &["2000"]).await;
    place.check_error("COPY t TO '@/r2' (FORMAT parquet, ROW_GROUPS_PER_FILE 1)", "not an empty folder").await;
    place.run("COPY t TO '@/r2' (FORMAT parquet, ROW_GROUPS_PER_FILE 1, OVERWRITE)").await.expect("files");
    assert_eq!(files(&place, "r2"), ["data_0.parquet"]);
    for (options, part) in [
        ("FORMAT parquet, ROW_GROUPS_PER_FILE 0", "at least 1"),
        ("FORMAT parquet, ROW_GROUPS_PER_FILE -1", "not a whole number"),
        ("FORMAT csv, ROW_GROUPS_PER_FILE 1", "unknown option"),
        ("FORMAT csv, FILE_SIZE_BYTES 0", "is not a size"),
        ("FORMAT csv, FILE_SIZE_BYTES 'x'", "is not a size"),
        ("FORMAT csv, PER_THREAD_OUTPUT, PARTITION_BY j", "exclude each other"),
    ] {
        place.check_error(&format!("COPY t TO '@/x' ({options})"), part).await;
    }
    assert!(!place.path("x").exists());
    // A statement that fails leaves nothing.
    let failing = "COPY (SELECT 1 // (9000 - i), i FROM t) TO '@/x' (FORMAT csv, FILE_SIZE_BYTES 1000, ORDER_BY i)";
    let failed = place.run(&failing.replace("1 // (9000 - i)", "CAST(CASE i WHEN 9000 THEN 'x' END AS INT)")).await;
    assert!(failed.is_err() && !place.path("x").exists());
}

#[tokio::test]
async fn no_rows_are_a_file_or_none() {
    let place = Place::new();
    numbers(&place, 3).await;
    place.run("COPY t TO '@/old.csv' (WRITE_EMPTY_FILE false)").await.expect("a file");
    for name in ["new.csv", "new.parquet", "new.json", "old.csv"] {
        place.run(&format!("COPY (FROM t LIMIT 0) TO '@/{name}' (WRITE_EMPTY_FILE false)")).await.expect("no file");
        assert_eq!(place.path(name).exists(), name == "old.csv", "{name}");
    }
    assert_eq!(text(&place, "old.csv"), "i,j\n0,0\n1,1\n2,2\n");
    for (folder, options, expected) in [
        ("a", "PER_THREAD_OUTPUT", &["data_0.csv"][..]),
        ("b", "FILE_SIZE_BYTES '1kb'", &["data_0.csv"]),
        ("c", "FILE_SIZE_BYTES '1kb', WRITE_EMPTY_FILE false", &[]),
        ("d", "PARTITION_BY j", &[]),
    ] {
        place.run(&format!("COPY (FROM t LIMIT 0) TO '@/{folder}' (FORMAT csv, {options})")).await.expect(options);
        assert_eq!(files(&place, folder), expected, "{options}");
    }
    assert_eq!(text(&place, "b/data_0.csv"), "i,j\n");
}

#[tokio::test]
async fn statements_return_the_names_of_files() {
    let place = Place::new();
    numbers(&place, 4).await;
    let file = |name: &str| place.path(name).display().to_string();
    let expected = [format!("4|[{}]", file("x.csv"))];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    place.check(&format!("COPY t TO '{}' (RETURN_FILES)", file("x.csv")), &expected).await;
    let names = ["j=0/data_0.csv", "j=1/data_0.csv", "j=2/data_0.csv"].map(|name| format!("'{}/{name}'", file("p")));
    let expected = format!("4|[{}]", names.join(", "));
    let copy = format!("COPY t TO '{}' (FORMAT csv, RETURN_FILES true, PARTITION_BY j)", file("p"));
    place.check(&copy, &[&expected]).await;
    place.check("COPY (FROM t LIMIT 0) TO '@/e.csv' (RETURN_FILES, WRITE_EMPTY_FILE false)", &["0|[]"]).await;
    place.check_error("COPY t TO '@/e.csv' (RETURN_FILES 2)", "neither true nor false").await;
    place.check_error("COPY t TO '@/e.parquet' (RETURN_STATS)", "statistics are not returned").await;
    assert!(!place.path("e.csv").exists());
}

#[tokio::test]
async fn names_and_metadata_are_computed() {
    let place = Place::new();
    numbers(&place, 2).await;
    place.run(&format!("SET VARIABLE f = '{}'", place.path("v").display())).await.expect("a variable");
    place.run("COPY t TO (getvariable('f') || '.csv')").await.expect("a file");
    assert_eq!(text(&place, "v.csv"), "i,j\n0,0\n1,1\n");
    let pairs = "{a: 'b', n: 42, \"Q q\": 1 < 2, bytes: 'x'::BLOB, empty: '', list: [1, 2], t: TIMESTAMP '2024-01-01 10:00:00'}";
    place.run(&format!("COPY t TO (getvariable('f') || '.parquet') (KV_METADATA {pairs})")).await.expect("a file");
    place.check("SELECT sum(i) FROM '@/v.parquet'", &["1"]).await;
    let pairs = "SELECT decode(key), decode(value), typeof(value) FROM parquet_kv_metadata('@/v.parquet') \
                 WHERE decode(key) <> 'ARROW:schema'";
    place
        .check(
            pairs,
            &[
                "a|b|BLOB",
                "n|42|BLOB",
                "Q q|true|BLOB",
                "bytes|x|BLOB",
                "empty||BLOB",
                "list|[1, 2]|BLOB",
                "t|2024-01-01 10:00:00|BLOB",
            ],
        )
        .await;
    for (statement, part) in [
        ("COPY t TO (NULL) (FORMAT csv)", "the name of the file is NULL"),
        ("COPY t TO (?) (FORMAT csv)", "parameters with numbers only"),
        ("COPY t TO ('a', 'b')", ""),
        ("COPY t TO '@/x.csv' (KV_METADATA {a: 1})", "an option of Parquet files"),
        ("COPY t TO '@/x.parquet' (KV_METADATA 'a')", "is no struct"),
        ("COPY t TO '@/x.parquet' (KV_METADATA {a: NULL})", "is NULL"),
        ("COPY t TO '@/x.parquet' (KV_METADATA {a: '\\xFF'::BLOB})", "is no UTF-8"),
        ("COPY t TO '@/x.parquet' (KV_METADATA {\"ARROW:schema\": 'x'})", "under the key"),
        ("COPY t TO '@/x.parquet' (KV_METADATA)", "needs keys and values"),
        ("COPY t TO '@/x.csv' (HEADER NULL)", "cannot be NULL"),
        ("COPY t TO '@/x.json' (ARRAY NULL)", "cannot be NULL"),
        ("COPY t FROM '@/v.csv' (DELIM NULL)", "cannot be NULL"),
        ("COPY t TO '@/x.parquet' (WRITE_TIMESTAMP_AS_INT96 true)", "integers of 64 bits"),
    ] {
        place.check_error(statement, part).await;
    }
    assert!(!place.path("x.parquet").exists());
}

#[tokio::test]
async fn columns_of_folders_have_declared_types() {
    let place = Place::new();
    let rows = "SELECT i, 2024 + i AS year, '0' || i AS code, CASE i WHEN 0 THEN DATE '2024-02-29' END AS d FROM range(2) r(i)";
    place.run(&format!("COPY ({rows}) TO '@/h' (FORMAT parquet, PARTITION_BY (year, code, d))")).await.expect("files");
    let types = "SELECT DISTINCT typeof(year), typeof(code), typeof(d) FROM read_parquet('@/h'";
    for (options, expected) in [
        ("", "BIGINT|VARCHAR|DATE"),
        (", hive_types_autocast => false", "VARCHAR|VARCHAR|VARCHAR"),
        (", hive_types_autocast => 0, hive_types => {'year': INT}", "INTEGER|VARCHAR|VARCHAR"),
        (", hive_types => {'year': 'SMALLINT', d: 'TIMESTAMP'}", "SMALLINT|VARCHAR|TIMESTAMP"),
        (", hive_types => {year: VARCHAR, code: INTEGER}", "VARCHAR|INTEGER|DATE"),
    ] {
        place.check(&format!("{types}{options})"), &[expected]).await;
    }
    let read = "SELECT i, year, code, d FROM read_parquet('@/h', hive_types => {code: 'INT', year: 'VARCHAR'})";
    place.check(&format!("{read} ORDER BY i"), &["0|2024|0|2024-02-29", "1|2025|1|~"]).await;
    place.check(&format!("{read} WHERE code = 1 AND year = '2025' AND d IS NULL"), &["1|2025|1|~"]).await;
    for (options, part) in [
        ("hive_types => {nope: 'INT'}", "no folders"),
        ("hive_types => {i: 'INT'}", "no folders"),
        ("hive_types => {code: 'DATE'}", "code"),
        ("hive_types => {code: 'NOPE'}", "NOPE"),
        ("hive_types => {year: 'INT'}, hive_partitioning => false", "HIVE_PARTITIONING false"),
        ("hive_types_autocast => 'x'", "neither true nor false"),
    ] {
        place.check_error(&format!("FROM read_parquet('@/h', {options})"), part).await;
    }
}
