//! The options of COPY TO. Names and meanings are those of DuckDB.

use std::fs;

use crate::files::Place;

/// The files below a folder.
pub(crate) fn files(place: &Place, folder: &str) -> Vec<String> {
    fn below(folder: &std::path::Path, root: &std::path::Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => below(&path, root, found),
                false => found.push(path.strip_prefix(root).expect("below").display().to_string()),
            }
        }
    }
    let (root, mut found) = (place.path(folder), vec![]);
    below(&root, &root, &mut found);
    found.sort();
    found
}

pub(crate) fn text(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path(name)).expect("a file")
}

#[tokio::test]
async fn csv_files_are_written_as_wanted() {
    let place = Place::new();
    let query = "SELECT 1 AS id, 'a,\"b' AS s, NULL AS n, DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29 13:05:00' AS t";
    for (options, expected) in [
        ("", "id,s,n,d,t\n1,\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\n"),
        (
            "FORCE_QUOTE *",
            "\"id\",\"s\",\"n\",\"d\",\"t\"\n\"1\",\"a,\"\"b\",,\"2024-02-29\",\"2024-02-29T13:05:00\"\n",
        ),
        ("FORCE_QUOTE (ID, n)", "\"id\",s,\"n\",d,t\n\"1\",\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\n"),
        ("FORCE_QUOTE id, HEADER false", "\"1\",\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\n"),
        ("NEW_LINE '\\r\\n', HEADER false", "1,\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\r\n"),
        ("QUOTE '', HEADER false", "1,a,\"b,,2024-02-29,2024-02-29T13:05:00\n"),
        ("DATEFORMAT '%d/%m/%Y', HEADER false", "1,\"a,\"\"b\",,29/02/2024,2024-02-29T13:05:00\n"),
        ("TIMESTAMPFORMAT '%H:%M', HEADER false, DELIM ';'", "1;\"a,\"\"b\";;2024-02-29;13:05\n"),
        ("DATEFORMAT '%d,%m', HEADER false", "1,\"a,\"\"b\",,\"29,02\",2024-02-29T13:05:00\n"),
        ("COMMENT '2', HEADER false, NULLSTR 'NA'", "1,\"a,\"\"b\",NA,\"2024-02-29\",\"2024-02-29T13:05:00\"\n"),
        ("OVERWRITE", "id,s,n,d,t\n1,\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\n"),
        ("OVERWRITE_OR_IGNORE true, ENCODING 'utf-8'", "id,s,n,d,t\n1,\"a,\"\"b\",,2024-02-29,2024-02-29T13:05:00\n"),
    ] {
        let options = if options.is_empty() { String::new() } else { format!("({options})") };
        place.run(&format!("COPY ({query}) TO '@/x.csv' {options}")).await.expect(&options);
        assert_eq!(text(&place, "x.csv"), expected, "{options}");
    }
    for (options, part) in [
        ("FORCE_QUOTE (nope)", "no column nope"),
        ("DATEFORMAT '%Q'", "format"),
        ("NEW_LINE 'x'", "does not end lines"),
        ("NEW_LINE '\\r'", "lines are written with"),
        ("HEADER true, HEADER false", "given twice"),
        ("DELIM ',', SEP ';'", "same option"),
        ("OVERWRITE, APPEND", "exclude each other"),
        ("APPEND", "x.csv exists"),
        ("FILENAME_PATTERN 'x'", "beside PARTITION_BY"),
        ("WRITE_PARTITION_COLUMNS", "beside PARTITION_BY"),
        ("SKIP 1", "says how files are read"),
        ("IGNORE_ERRORS", "says how files are read"),
        ("NOPE 1", "unknown option nope"),
        ("ENCODING 'latin-1'", "files are written in UTF-8"),
        ("NULLSTR ','", "NULL must hold no DELIMITER"),
        ("COMMENT ','", "COMMENT must differ"),
        ("FORMAT json, FORCE_QUOTE *", "unknown option force_quote"),
        ("FORMAT parquet, DATEFORMAT '%d'", "unknown option dateformat"),
    ] {
        place.check_error(&format!("COPY ({query}) TO '@/x.csv' ({options})"), part).await;
    }
    place.run(&format!("COPY ({query}) TO '@/new.csv' (APPEND)")).await.expect("a file");
}

#[tokio::test]
async fn json_is_an_array_or_lines() {
    let place = Place::new();
    let query = "SELECT i, DATE '2024-02-29' AS d FROM range(2) r(i)";
    place.run(&format!("COPY ({query}) TO '@/a.json' (ARRAY true, DATEFORMAT '%d.%m.')")).await.expect("a file");
    assert_eq!(text(&place, "a.json"), "[\n{\"i\":0,\"d\":\"29.02.\"},\n{\"i\":1,\"d\":\"29.02.\"}\n]\n");
    place.check("SELECT sum(i), min(d) FROM '@/a.json'", &["1|29.02."]).await;
    place.run(&format!("COPY ({query}) TO '@/l.json'")).await.expect("a file");
    assert_eq!(text(&place, "l.json"), "{\"i\":0,\"d\":\"2024-02-29\"}\n{\"i\":1,\"d\":\"2024-02-29\"}\n");
    place.run("COPY (SELECT 1 AS i WHERE false) TO '@/e.json' (ARRAY)").await.expect("a file");
    assert_eq!(text(&place, "e.json"), "[\n\n]\n");
    // Several batches.
    place.run("COPY (SELECT i FROM range(200000) r(i)) TO '@/big.json' (ARRAY)").await.expect("a file");
    place.check("SELECT count(*), sum(i) FROM '@/big.json'", &["200000|19999900000"]).await;
}

#[tokio::test]
async fn folders_are_replaced_or_extended() {
    let place = Place::new();
    place
        .run("CREATE TABLE t AS SELECT i AS id, 'u' || i % 2 AS u, i % 2 = 0 AS k FROM range(4) r(i)")
        .await
        .expect("rows");
    let copy = |options: &str| format!("COPY t TO '@/p' (FORMAT csv, PARTITION_BY (u){options})");
    let both = |name: &str| ["u=u0", "u=u1"].map(|folder| format!("{folder}/{name}")).to_vec();
    place.run(&copy("")).await.expect("files");
    assert_eq!(files(&place, "p"), both("data_0.csv"));
    place.check_error(&copy(""), "not an empty folder").await;
    place.run(&copy(", APPEND")).await.expect("more files");
    place.check("SELECT count(*), sum(id) FROM '@/p'", &["8|12"]).await;
    assert_eq!(files(&place, "p").len(), 4);
    place.check_error(&copy(", APPEND, FILENAME_PATTERN 'x_{i}'"), "needs {uuid}").await;
    place.run(&copy(", APPEND, FILENAME_PATTERN 'x_{uuidv7}'")).await.expect("more files");
    place.check("SELECT count(*) FROM '@/p'", &["12"]).await;
    place.run(&copy(", OVERWRITE_OR_IGNORE")).await.expect("files");
    place.check("SELECT count(*) FROM '@/p'", &["12"]).await;
    place.write("p/readme.txt", "kept");
    place.run("COPY t TO '@/p' (FORMAT csv, PARTITION_BY (k), OVERWRITE)").await.expect("files");
    assert_eq!(files(&place, "p"), ["k=false/data_0.csv", "k=true/data_0.csv", "readme.txt"]);
    assert!(!place.path("p").join("u=u0").exists());
    place.check("SELECT typeof(k), count(*) FROM '@/p' GROUP BY 1", &["BOOLEAN|4"]).await;
    place.run("COPY t TO '@/p' (FORMAT csv, PARTITION_BY (k), OVERWRITE)").await.expect("the same files");
    place.check("SELECT count(*), sum(id) FROM '@/p' WHERE k", &["2|2"]).await;
    place.run(&copy(", OVERWRITE, FILENAME_PATTERN 'part', FILE_EXTENSION 'txt'")).await.expect("files");
    assert_eq!(files(&place, "p"), [&["readme.txt".to_owned()][..], &both("part0.txt")].concat());
    for (options, part) in [
        (", OVERWRITE, OVERWRITE_OR_IGNORE", "exclude each other"),
        (", OVERWRITE, FILENAME_PATTERN 'a/b'", "does not name files"),
        (", OVERWRITE, FILENAME_PATTERN ''", "does not name files"),
        (", OVERWRITE 2", "neither true nor false"),
    ] {
        place.check_error(&copy(options), part).await;
    }
    // A statement that fails changes nothing.
    let failing = "COPY (SELECT CASE WHEN id = 3 THEN 1 / (id - 3) ELSE id END AS id, u FROM t) TO '@/p' (FORMAT csv, PARTITION_BY (u), OVERWRITE)";
    let before = files(&place, "p");
    assert!(place.run(failing).await.is_err());
    assert_eq!(files(&place, "p"), before);
}

#[tokio::test]
async fn partition_columns_are_written_on_request() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT i AS id, 'u' || i % 2 AS u FROM range(4) r(i)").await.expect("rows");
    place.run("COPY t TO '@/w' (FORMAT csv, PARTITION_BY (u), WRITE_PARTITION_COLUMNS)").await.expect("files");
    assert_eq!(text(&place, "w/u=u0/data_0.csv"), "id,u\n0,u0\n2,u0\n");
    place.check("SELECT count(*), min(u) FROM '@/w'", &["4|u0"]).await;
    place.check_error("COPY t TO '@/a' (FORMAT csv, PARTITION_BY (id, u))", "PARTITION_BY names all columns").await;
    place.run("COPY t TO '@/a' (FORMAT csv, PARTITION_BY *, WRITE_PARTITION_COLUMNS true)").await.expect("files");
    assert_eq!(files(&place, "a").len(), 4);
    place.check_error("COPY t TO '@/b' (FORMAT csv, PARTITION_BY (u, u))", "twice").await;
    place.check_error("COPY t TO '@/b' (FORMAT csv, PARTITION_BY (nope))", "no column nope").await;
    // Without rows, the folder is there.
    place.run("COPY (SELECT * FROM t WHERE false) TO '@/e' (FORMAT csv, PARTITION_BY (u))").await.expect("a folder");
    assert!(place.path("e").is_dir() && files(&place, "e").is_empty());
}

#[tokio::test]
async fn missing_folders_are_errors() {
    let place = Place::new();
    for target in ["'@/nope/x.csv'", "'@/nope/x' (FORMAT csv, PARTITION_BY (a))", "'@/nope/x.parquet'"] {
        place.check_error(&format!("COPY (SELECT 1 AS a, 2 AS b) TO {target}"), "there is no folder nope").await;
    }
    assert!(!place.path("x").with_file_name("nope").exists());
    place.run("COPY (SELECT 1 AS a, 2 AS b) TO '@/new' (FORMAT csv, PARTITION_BY (a))").await.expect("a folder");
    place.write("file", "");
    place.check_error("COPY (SELECT 1 AS a, 2 AS b) TO '@/file' (FORMAT csv, PARTITION_BY (a))", "is a file").await;
}

#[tokio::test]
async fn files_of_parquet_say_what_is_in_their_row_groups() {
    let place = Place::new();
    place.run("COPY (SELECT i, 'x' || i AS s FROM range(5) t(i)) TO '@/m.parquet'").await.expect("a file");
    place
        .check(
            "SELECT path_in_schema, row_group_num_rows, row_group_num_columns, stats_min_value, stats_max_value, \
             row_group_bytes > 0, data_page_offset > 0, index_page_offset, \
             row_group_compressed_bytes = sum(total_compressed_size) OVER () FROM parquet_metadata('@/m.parquet')",
            &["i|5|2|0|4|true|true|~|true", "s|5|2|x0|x4|true|true|~|true"],
        )
        .await;
}
