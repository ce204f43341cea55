//! The `freestone` command for users and programs: output, exit status, messages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// One row of values and one of NULLs, with every type of the interface.
const EVERY_TYPE: &str = "\
    SELECT true AS b, CAST(-5 AS BIGINT) AS i, CAST('18446744073709551615' AS BIGINT UNSIGNED) AS u, \
           CAST('12.30' AS DECIMAL(38, 2)) AS d, CAST(0.1 AS DOUBLE) AS f, CAST(1.5 AS REAL) AS r, \
           DATE '2024-02-29' AS day, TIME '01:02:03' AS t, TIMESTAMP '2024-02-29T12:00:00.5' AS ts, \
           'a,\"b\"|c' AS s, '' AS e, X'00ff' AS x \
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL \
    ORDER BY b NULLS LAST";

fn freestone(arguments: &[&str]) -> Output {
    freestone_in(Path::new("."), arguments, "")
}

fn freestone_in(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments).current_dir(folder).spawn().expect("the binary starts");
    // The process may end before it has read all input.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the process ends")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
    // Predictions do not depend on a profile that the user has.
    command.env("FREESTONE_PROFILE", "there-is-no-profile.json");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn check(arguments: &[&str], expected: &str) {
    let output = freestone(arguments);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)), "{arguments:?}");
    assert_eq!(text(&output.stdout), expected, "{arguments:?}");
}

fn check_failure(output: &Output, code: i32, parts: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn table_of_every_type() {
    let expected = "\
┌──────┬──────┬──────────────────────┬───────┬──────┬──────┬────────────┬──────────┬─────────────────────────┬─────────┬──────┬──────┐
│ b    │    i │                    u │     d │    f │    r │ day        │ t        │ ts                      │ s       │ e    │ x    │
├──────┼──────┼──────────────────────┼───────┼──────┼──────┼────────────┼──────────┼─────────────────────────┼─────────┼──────┼──────┤
│ true │   -5 │ 18446744073709551615 │ 12.30 │  0.1 │  1.5 │ 2024-02-29 │ 01:02:03 │ 2024-02-29T12:00:00.500 │ a,\"b\"|c │      │ 00ff │
│ NULL │ NULL │                 NULL │  NULL │ NULL │ NULL │ NULL       │ NULL     │ NULL                    │ NULL    │ NULL │ NULL │
└──────┴──────┴──────────────────────┴───────┴──────┴──────┴────────────┴──────────┴─────────────────────────┴─────────┴──────┴──────┘
";
    check(&["-c", EVERY_TYPE], expected);
}

#[test]
fn csv_of_every_type() {
    check(
        &["--format", "csv", "-c", EVERY_TYPE],
        "b,i,u,d,f,r,day,t,ts,s,e,x\n\
         true,-5,18446744073709551615,12.30,0.1,1.5,2024-02-29,01:02:03,2024-02-29T12:00:00.500,\"a,\"\"b\"\"|c\",\"\",00ff\n\
         ,,,,,,,,,,,\n",
    );
}

#[test]
fn json_of_every_type() {
    let values = "{\"b\":true,\"i\":-5,\"u\":18446744073709551615,\"d\":12.30,\"f\":0.1,\"r\":1.5,\
                  \"day\":\"2024-02-29\",\"t\":\"01:02:03\",\"ts\":\"2024-02-29T12:00:00.500\",\
                  \"s\":\"a,\\\"b\\\"|c\",\"e\":\"\",\"x\":\"00ff\"}";
    let nulls = "{\"b\":null,\"i\":null,\"u\":null,\"d\":null,\"f\":null,\"r\":null,\"day\":null,\"t\":null,\
                 \"ts\":null,\"s\":null,\"e\":null,\"x\":null}";
    check(&["--format", "json", "-c", EVERY_TYPE], &format!("[\n{values},\n{nulls}\n]\n"));
    check(&["--format", "ndjson", "-c", EVERY_TYPE], &format!("{values}\n{nulls}\n"));
}

#[test]
fn markdown_of_every_type() {
    check(
        &["--format", "markdown", "-c", EVERY_TYPE],
        "| b | i | u | d | f | r | day | t | ts | s | e | x |\n\
         |---|---:|---:|---:|---:|---:|---|---|---|---|---|---|\n\
         | true | -5 | 18446744073709551615 | 12.30 | 0.1 | 1.5 | 2024-02-29 | 01:02:03 | 2024-02-29T12:00:00.500 \
         | a,\"b\"\\|c |  | 00ff |\n\
         | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL |\n",
    );
}

#[test]
fn binary_formats_go_to_files_and_pipes() {
    let folder = folder();
    let file = folder.path().join("result.parquet");
    check(&["-c", EVERY_TYPE, "--format", "parquet", "--output", path_text(&file)], "");
    let bytes = fs::read(&file).expect("the file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let query = format!("SELECT count(*) AS n, max(u) AS u FROM '{}'", path_text(&file));
    check(&["--format", "csv", "-c", &query], "n,u\n2,18446744073709551615\n");

    let piped = freestone(&["-c", EVERY_TYPE, "--format", "parquet"]);
    assert!(piped.status.success() && piped.stdout.ends_with(b"PAR1"), "{}", text(&piped.stderr));

    let piped = freestone(&["-c", EVERY_TYPE, "--format", "arrow"]);
    let batches = arrow::ipc::reader::StreamReader::try_new(piped.stdout.as_slice(), None).expect("an Arrow stream");
    let rows: usize = batches.map(|batch| batch.expect("valid").num_rows()).sum();
    assert_eq!(rows, 2);
}

#[test]
fn a_parquet_file_holds_one_result() {
    let output = freestone(&["--format", "parquet", "-c", "SELECT 1; SELECT 2"]);
    check_failure(&output, 1, &["error: ", "hint: "]);
}

#[test]
fn format_none_prints_nothing_and_runs_everything() {
    check(&["--format", "none", "-c", "SELECT 1"], "");
    let output = freestone(&["--format", "none", "-c", "SELECT 1 / (v - 5000) FROM generate_series(1, 10000) AS s(v)"]);
    check_failure(&output, 1, &["error: "]);
}

#[test]
fn statements_of_several_options_run_in_their_order() {
    let folder = folder();
    fs::write(folder.path().join("two.sql"), "SELECT 2 AS n;\n").expect("a file");
    let arguments = ["--format", "csv", "-c", "SELECT 1 AS n", "-f", "two.sql", "-c", "SELECT 3 AS n"];
    let output = freestone_in(folder.path(), &arguments, "");
    assert_eq!(text(&output.stdout), "n\n1\nn\n2\nn\n3\n");
}

#[test]
fn memory_has_the_name_that_it_has_elsewhere() {
    let folder = folder();
    let output = freestone_in(folder.path(), &[":memory:", "--format", "csv", "-c", "SELECT 1 AS a"], "");
    assert_eq!(text(&output.stdout), "a\n1\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "no folder of that name");
}

#[test]
fn results_go_to_the_output_file() {
    let folder = folder();
    let arguments = ["--format", "csv", "--output", "out.csv", "-c", "SELECT 1 AS n; SELECT 2 AS m"];
    let output = freestone_in(folder.path(), &arguments, "");
    assert_eq!((text(&output.stdout), output.status.code()), (String::new(), Some(0)));
    assert_eq!(fs::read_to_string(folder.path().join("out.csv")).expect("the file"), "n\n1\nm\n2\n");
}

#[test]
fn a_script_stops_at_the_first_failure_and_names_its_line() {
    let folder = folder();
    let script = "CREATE TABLE t (a INT);\nINSERT INTO t VALUES (1);\n\n-- the next one fails\n\
                  INSERT INTO missing VALUES (1);\nINSERT INTO t VALUES (2);\n";
    fs::write(folder.path().join("script.sql"), script).expect("a file");
    let output = freestone_in(folder.path(), &["db", "-f", "script.sql"], "");
    check_failure(&output, 1, &["error: ", "script.sql:5", "missing"]);
    let output = freestone_in(folder.path(), &["db", "--format", "csv", "-c", "SELECT a FROM t"], "");
    assert_eq!(text(&output.stdout), "a\n1\n", "{}", text(&output.stderr));
}

#[test]
fn a_syntax_error_leaves_earlier_statements_committed() {
    let folder = folder();
    fs::write(folder.path().join("script.sql"), "CREATE TABLE t (a INT);\nSELEC 1;\n").expect("a file");
    let output = freestone_in(folder.path(), &["db", "-f", "script.sql"], "");
    check_failure(&output, 1, &["error: ", "script.sql:2"]);
    let output = freestone_in(folder.path(), &["db", "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], "");
    assert_eq!(text(&output.stdout), "n\n0\n", "{}", text(&output.stderr));
}

#[test]
fn failures_exit_with_1_and_wrong_usage_with_2() {
    check_failure(&freestone(&["-c", "SELECT * FROM missing"]), 1, &["error: ", "missing"]);
    check_failure(&freestone(&["-f", "missing.sql"]), 1, &["error: ", "missing.sql"]);
    check_failure(&freestone(&["--no-such-option"]), 2, &["--no-such-option"]);
    check_failure(&freestone(&["--format", "xml", "-c", "SELECT 1"]), 2, &["xml", "csv"]);
    check_failure(&freestone(&["--threads", "0", "-c", "SELECT 1"]), 2, &["--threads"]);
    check_failure(&freestone(&["--memory-limit", "much", "-c", "SELECT 1"]), 2, &["2GB"]);
}

/// The output of a command that must succeed.
fn run_in(folder: &Path, arguments: &[&str]) -> String {
    let output = freestone_in(folder, arguments, "");
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn advice_follows_what_queries_ask() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), arguments);
    let columns: Vec<String> = (0..20).map(|n| format!("(value * {n} + 7) % 1000 AS c{n}")).collect();
    let list = columns.join(", ");
    run(&["db", "-c", &format!("CREATE TABLE t WITH (design = 'row') AS SELECT {list} FROM range(200000)")]);
    check_failure(&freestone_in(folder.path(), &["advise", "db"], ""), 1, &["error: ", "nothing to advise", "hint: "]);
    check_failure(&freestone_in(folder.path(), &["advise", "db", "--table", "x"], ""), 1, &["error: ", "x", "hint: "]);

    for _ in 0..3 {
        run(&["db", "--format", "csv", "-c", "SELECT sum(c1) FROM t WHERE c2 < 500"]);
    }
    let log =
        run(&["db", "--format", "csv", "-c", "SELECT \"table\", runs, columns, statement FROM freestone_workload()"]);
    assert!(log.contains("t,3,c1,") && log.contains("c2 < ?") && !log.contains("500"), "{log}");

    // Queries read one column of twenty, so a row store is the wrong design.
    let advice: serde_json::Value = serde_json::from_str(&run(&["advise", "db", "--json"])).expect("JSON");
    assert_eq!(advice[0]["table"], "t", "{advice}");
    assert!(advice[0]["designs"][0]["measured_ms"].is_number() && advice[0]["current"]["measured_ms"].is_number());
    // Without measurements, which would depend on other load of the machine.
    let shown = run(&["advise", "db", "--no-verify"]);
    assert!(shown.contains("table t: convert") && shown.contains("ALTER TABLE"), "{shown}");

    let before = run(&["db", "--format", "csv", "-c", "SELECT sum(c3), count(*) FROM t"]);
    run(&["advise", "db", "--table", "t", "--no-verify", "--apply"]);
    let design = run(&["db", "--format", "csv", "-c", "SELECT design FROM freestone_tables()"]);
    assert!(!design.contains("preset = 'row'"), "{design}");
    assert_eq!(run(&["db", "--format", "csv", "-c", "SELECT sum(c3), count(*) FROM t"]), before);
    let again: serde_json::Value =
        serde_json::from_str(&run(&["advise", "db", "--json", "--no-verify"])).expect("JSON");
    assert_eq!(again[0]["keep"], true, "{again}");
}

#[test]
fn workloads_come_from_files_too() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a folder to write in");
    let setup = "CREATE TABLE t AS SELECT value AS a, value % 10 AS b FROM range(50000)";
    assert!(freestone_in(folder.path(), &["db", "-c", setup], "").status.success());
    write("good.sql", "-- weight: 10\nSELECT sum(a) FROM t WHERE b = 3;\nSELECT * FROM t WHERE a = 77;");
    let output = freestone_in(folder.path(), &["advise", "db", "--workload", "good.sql", "--json"], "");
    let advice: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    let weights: Vec<f64> =
        (0..2).map(|at| advice[0]["current"]["queries"][at]["weight"].as_f64().expect("a weight")).collect();
    assert_eq!(weights, [10.0, 1.0]);
    write("bad.sql", "SELECT a FROM t;\nSELECT nothing FROM t");
    let output = freestone_in(folder.path(), &["advise", "db", "--workload", "bad.sql"], "");
    check_failure(&output, 1, &["error: line 2 of the workload", "nothing"]);
    let output = freestone_in(folder.path(), &["advise", "db", "--workload", "none.sql"], "");
    check_failure(&output, 1, &["error: none.sql", "hint: "]);
}

#[test]
fn advised_copies_are_read_and_kept() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), arguments);
    let columns: Vec<String> = (0..12).map(|n| format!("(value * {} + 7) % 1000003 AS c{n}", 7919 + 2 * n)).collect();
    run(&["db", "-c", &format!("CREATE TABLE t AS SELECT {} FROM range(400000)", columns.join(", "))]);
    // Whole rows by keys of several columns: no single order suits all queries.
    let queries = [0, 4, 8].map(|c| format!("SELECT * FROM t WHERE c{c} = {}", 7 + 3 * (7919 + 2 * c)));
    let workload: Vec<String> = queries.iter().map(|query| format!("-- weight: 100\n{query};\n")).collect();
    fs::write(folder.path().join("workload.sql"), workload.concat() + "SELECT sum(c5), max(c6) FROM t;").unwrap();
    let answers = || queries.each_ref().map(|query| run(&["db", "--format", "csv", "-c", query]));
    let before = answers();
    // By prediction only, because measurements depend on other load of the machine.
    let options = ["advise", "db", "--table", "t", "--workload", "workload.sql", "--copies", "4", "--no-verify"];
    let advise = |arguments: &[&str]| run(&[options.as_slice(), arguments].concat());
    let shown = advise(&["--apply"]);
    assert!(shown.contains("each query on its best") && shown.contains("ADD COPY \"copy_1\""), "{shown}");
    let csv = |query: &str| run(&["db", "--format", "csv", "-c", query]);
    let copies = csv("SELECT name, current, rows FROM freestone_copies() ORDER BY name");
    assert!(copies.starts_with("name,current,rows\ncopy_1,true,400000\n"), "{copies}");
    // The table has one of the orders, and copies have the others.
    let on_copies = queries.iter().filter(|query| csv(&format!("EXPLAIN {query}")).contains("copy=copy_"));
    assert_eq!(on_copies.count(), 2, "a key of a copy's order is looked up there");
    assert_eq!(answers(), before);
    let again: serde_json::Value = serde_json::from_str(&advise(&["--json"])).expect("JSON");
    assert!(again[0]["unused"].is_null(), "what was advised is used: {again}");
    run(&["check", "db"]);
}

#[test]
fn advice_clusters_by_what_foreign_keys_lead_to() {
    let folder = folder();
    let run = |arguments: &[&str]| run_in(folder.path(), arguments);
    let setup = "CREATE TABLE day (id INT PRIMARY KEY, year INT);
        INSERT INTO day SELECT value, 1990 + value / 250 FROM range(2000);
        CREATE TABLE shop (id INT PRIMARY KEY, region VARCHAR);
        INSERT INTO shop SELECT value, 'R' || (value * 7 % 9) FROM range(900);
        CREATE TABLE sale (day INT, shop INT, amount INT, a INT, b INT, c INT,
            FOREIGN KEY (day) REFERENCES day (id), FOREIGN KEY (shop) REFERENCES shop (id) NOT ENFORCED);
        INSERT INTO sale SELECT value * 7919 % 2000, value * 104729 % 900, value % 1000, value, value * 3 % 777, value % 13
            FROM range(400000)";
    run(&["db", "-c", setup]);
    let query = "SELECT sum(amount), sum(a), sum(b), sum(c) FROM sale JOIN day ON sale.day = day.id JOIN shop ON sale.shop = shop.id
        WHERE year = 1993 AND region = 'R4'";
    let before = run(&["db", "--format", "csv", "-c", query]);
    let advice = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&run(&[&["advise", "db", "--table", "sale", "--json"], arguments].concat())).expect("JSON")
    };
    // Verified: a sample is clustered by the codes of years and regions.
    let verified = advice(&[]);
    assert!(verified[0]["designs"][0]["measured_ms"].is_number(), "{verified}");
    let best = advice(&["--no-verify"])[0]["designs"][0]["apply"].as_str().expect("SQL").to_owned();
    assert!(best.contains("cluster = ") && best.contains("day.year") && best.contains("shop.region"), "{best}");
    run(&["advise", "db", "--table", "sale", "--no-verify", "--apply"]);
    let design = run(&["db", "--format", "csv", "-c", "SELECT design FROM freestone_tables() WHERE name = 'sale'"]);
    assert!(design.contains("day.year") && design.contains("shop.region"), "{design}");
    assert_eq!(run(&["db", "--format", "csv", "-c", query]), before);
    assert_eq!(advice(&["--no-verify"])[0]["keep"], true, "it is clustered already");
    // Logged queries on a dropped table are ignored without an error.
    run(&["db", "-c", "DROP TABLE shop"]);
    assert_eq!(advice(&[])[0]["table"], "sale");
}

#[test]
fn calibration_is_kept_and_shown() {
    let folder = folder();
    let profile = folder.path().join("profile.json");
    let run = |arguments: &[&str]| {
        let mut command = command(arguments);
        let output =
            command.current_dir(folder.path()).env("FREESTONE_PROFILE", &profile).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let rows = "SELECT count(*) > 50, bool_or(name LIKE '%(assumed)%') FROM freestone_profile()";
    assert!(run(&["--format", "csv", "-c", rows]).contains("true,true"));
    let shown = run(&["calibrate", "--quick", "--output", "page.html"]);
    let topics: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(topics, ["caches", "memory", "disk", "scans", "trust"], "{shown}");
    let shown = run(&["calibrate", "--quick", "--verbose"]);
    assert!(shown.contains("L1 size") && shown.contains("(measured)"), "{shown}");
    assert!(std::fs::read_to_string(folder.path().join("page.html")).expect("the page").contains("<svg"));
    assert!(run(&["--format", "csv", "-c", rows]).contains("true,false"));
    // A profile of an earlier version is like a missing one.
    std::fs::write(&profile, "{\"version\": 3}").expect("the folder is writable");
    assert!(run(&["--format", "csv", "-c", rows]).contains("true,true"));
    std::fs::write(&profile, "{}").expect("the folder is writable");
    let mut damaged = command(&["-c", "SELECT * FROM freestone_profile()"]);
    let output = damaged.env("FREESTONE_PROFILE", &profile).output().expect("the program runs");
    check_failure(&output, 1, &["profile.json"]);
}

#[test]
fn timing_is_one_line_for_each_statement() {
    let folder = folder();
    let arguments = ["--timing", "--format", "none", "-c", "SELECT 1; CREATE TABLE t (a INT); SELECT * FROM t"];
    let output = freestone_in(folder.path(), &arguments, "");
    let lines = text(&output.stderr);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    for line in lines.lines() {
        let number = line.strip_prefix("time: ").and_then(|rest| rest.strip_suffix(" ms")).expect("`time: … ms`");
        assert!(number.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 3), "{line}");
        assert!(number.parse::<f64>().is_ok_and(|time_ms| time_ms > 0.0), "{line}");
    }
}

#[test]
fn a_missing_database_is_created_unless_read_only() {
    let folder = folder();
    let output = freestone_in(folder.path(), &["db", "--read-only", "-c", "SELECT 1"], "");
    check_failure(&output, 1, &["error: ", "db"]);
    assert!(!folder.path().join("db").exists());
    let output = freestone_in(folder.path(), &["db", "-c", "CREATE TABLE t (a INT)"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = freestone_in(folder.path(), &["db", "--read-only", "-c", "INSERT INTO t VALUES (1)"], "");
    check_failure(&output, 1, &["error: "]);
    let output = freestone_in(folder.path(), &["db", "--read-only", "-c", "SELECT * FROM t"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_folder_with_other_files_becomes_no_database() {
    let folder = folder();
    fs::write(folder.path().join("sales.csv"), "a\n1\n").expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    for arguments in [&[".", "-c", "CREATE TABLE t (a INT)"][..], &[".", "--read-only", "-c", "SELECT 1"]] {
        let output = freestone_in(folder.path(), arguments, "");
        check_failure(&output, 1, &["error: ", "."]);
    }
    let output = freestone_in(folder.path(), &[".", "-c", "CREATE TABLE t (a INT)"], "");
    check_failure(&output, 1, &["no database", "it has sales.csv, src/"]);
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["sales.csv", "src"]);
    // A database whose folder has other files opens, and so does a new one in an empty folder.
    let output = freestone_in(folder.path(), &["src", "-c", "CREATE TABLE t AS SELECT 1 AS a"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fs::write(folder.path().join("src/notes.txt"), "").expect("a file");
    let output = freestone_in(folder.path(), &["src", "--format", "csv", "-c", "SELECT * FROM t"], "");
    assert_eq!(text(&output.stdout), "a\n1\n", "{}", text(&output.stderr));
}

#[test]
fn copy_to_a_missing_folder_makes_none() {
    let folder = folder();
    for arguments in [&["-c"][..], &["db", "-c"], &["db", "--read-only", "-c"]] {
        for target in ["new/x.csv", "new/deep/x.parquet", "new/p' (FORMAT csv, PARTITION_BY (a)); SELECT '"] {
            let sql = format!("COPY (SELECT 1 AS a, 2 AS b) TO '{target}'");
            let output = freestone_in(folder.path(), &[arguments, &[&sql]].concat(), "");
            check_failure(&output, 1, &["error: "]);
            assert!(!folder.path().join("new").exists(), "{sql}");
        }
        let _ = freestone_in(folder.path(), &["db", "-c", "CREATE TABLE IF NOT EXISTS t (a INT)"], "");
    }
}

#[test]
fn a_mistyped_name_creates_nothing() {
    let folder = folder();
    let output = freestone_in(folder.path(), &["shpo", "-c", "SELECT 1 AS one", "-c", "SELECT * FROM t"], "");
    check_failure(
        &output,
        1,
        &["note: nothing was stored, so no database shpo was created", "error: no table or view t"],
    );
    let output = freestone_in(folder.path(), &["advize", "shop"], "");
    check_failure(&output, 2, &["error: there is no command advize", "hint: did you mean `freestone advise shop`?"]);
    let output = freestone_in(folder.path(), &["above/shop", "-c", "CREATE TABLE t (a INT)"], "");
    check_failure(&output, 1, &["no folder above in which to create it", "hint: correct the path"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_database_may_be_named_like_a_command() {
    let folder = folder();
    let output = freestone_in(folder.path(), &["./demo", "-c", "CREATE TABLE t (a INT)"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(folder.path().join("demo").is_dir());
}

#[test]
fn standard_input_is_run_statement_by_statement() {
    let mut child = command(&["--format", "csv", "--timing"]).spawn().expect("the binary starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut line = || output.next().expect("a line").expect("UTF-8");
    // Each result is awaited before the next statement is sent.
    for number in ["1", "2", "3"] {
        writeln!(input, "SELECT {number}\n AS n;").expect("the process reads");
        assert_eq!([line(), line()], ["n", number]);
        assert!(messages.next().expect("a line").expect("UTF-8").starts_with("time: "));
    }
    write!(input, "SELECT 4 AS n").expect("the process reads");
    drop(input);
    assert_eq!([line(), line()], ["n", "4"]);
    assert_eq!(child.wait().expect("the process ends").code(), Some(0));
}

#[test]
fn standard_input_stops_at_the_first_failure() {
    let output = freestone_in(Path::new("."), &["--format", "csv"], "SELECT 1 AS n;\nSELECT oops;\nSELECT 2 AS n;\n");
    check_failure(&output, 1, &["error: ", "stdin:2", "oops"]);
    assert_eq!(text(&output.stdout), "n\n1\n");
}

#[test]
fn shell_commands_work_in_scripts() {
    let script = ".mode csv\nCREATE TABLE t (a INT, b VARCHAR);\nCREATE VIEW v AS SELECT a FROM t;\n\\dt\n\\dv\n\\d t\n\\q\nSELECT 1;";
    let output = freestone_in(Path::new("."), &[], script);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.starts_with("name,rows,bytes,design\nt,0,0,"), "{printed}");
    assert!(printed.contains("\nname\nv\ncolumn_name,column_type,"), "{printed}");
    assert!(printed.contains("\na,INTEGER,") && printed.contains("\nb,VARCHAR,"), "{printed}");
    assert!(!printed.contains('1'), "{printed}");
    check_failure(&freestone_in(Path::new("."), &[], "\\nonsense\n"), 1, &["error: stdin:1: ", "hint: "]);
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    for format in ["csv", "table", "json", "markdown", "arrow", "parquet"] {
        let query = "SELECT v, v * 2 AS w FROM generate_series(1, 3000000) AS s(v)";
        let mut child = command(&["--format", format, "-c", query]).spawn().expect("the binary starts");
        let mut output = child.stdout.take().expect("a pipe");
        output.read_exact(&mut [0; 4]).expect("a result");
        drop(output);
        let mut messages = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut messages).expect("UTF-8");
        let status = child.wait().expect("the process ends");
        assert_eq!((messages.as_str(), status.code()), ("", Some(0)), "{format}");
    }
}

#[test]
fn check_passes_a_sound_database_and_names_what_is_wrong_in_another() {
    let folder = folder();
    let sql =
        "CREATE TABLE t AS SELECT v AS a, 'text ' || (v * 7919 % 100003) AS b FROM generate_series(1, 100000) AS s(v)";
    let output = freestone_in(folder.path(), &["db", "-c", sql], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = freestone_in(folder.path(), &["check", "db"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    let segment = largest_file(&folder.path().join("db"));
    let mut bytes = fs::read(&segment).expect("the segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).expect("the segment");
    let name = segment.file_name().and_then(|name| name.to_str()).expect("a name");
    let output = freestone_in(folder.path(), &["check", "db"], "");
    check_failure(&output, 1, &["error: ", name, "page"]);
}

/// A database of three commits: a table, rows in the log, and rows in a segment file.
fn three_commits(folder: &Path) {
    let sql = "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2); INSERT INTO t SELECT value FROM generate_series(1, 100000)";
    let output = freestone_in(folder, &["db", "-c", sql], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn log_of(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("db")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    entries.filter(is_log).max().expect("a log")
}

fn count(folder: &Path) -> String {
    let output = freestone_in(folder, &["db", "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], "");
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn repair_of_a_sound_database_changes_nothing() {
    let folder = folder();
    three_commits(folder.path());
    let output = freestone_in(folder.path(), &["check", "db", "--repair"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).starts_with("commit log: sound, 3 commits\nsound: tables 1"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(count(folder.path()), "n\n100002\n");
    check_failure(&freestone(&["check", "db", "--repair", "--read-only"]), 2, &["--repair"]);
    check_failure(&freestone_in(folder.path(), &["check", "missing", "--repair"], ""), 1, &["error: ", "missing"]);
}

#[test]
fn repair_keeps_the_commits_before_the_damage_and_tells_what_is_lost() {
    let folder = folder();
    three_commits(folder.path());
    let log = log_of(folder.path());
    let mut bytes = fs::read(&log).expect("the log");
    let second = bytes.windows(4).enumerate().filter(|(_, magic)| *magic == b"RCRD").map(|(at, _)| at).nth(1);
    bytes[second.expect("three records") + 30] ^= 1;
    fs::write(&log, bytes).expect("the log");
    let output = freestone_in(folder.path(), &["check", "db"], "");
    check_failure(&output, 1, &["error: ", "is damaged at byte", "--repair"]);

    let output = freestone_in(folder.path(), &["check", "db", "--repair"], "");
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    for part in [
        "commit log: repaired, 1 commits are kept\n",
        "saved as manifest-0000000001.log.cut-1\n",
        "lost: commit 2 cannot be read\n",
        "lost: commit 3: adds 100000 rows to t (segments/",
        "kept, of no commit now: segments/",
        "sound: tables 1, segments 0",
    ] {
        assert!(printed.contains(part), "`{part}` is missing in: {printed}");
    }
    // The next writer removes files without a commit, but not those that were set aside.
    let output = freestone_in(folder.path(), &["db", "-c", "INSERT INTO t VALUES (7); VACUUM"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(count(folder.path()), "n\n1\n");
    let segments = fs::read_dir(folder.path().join("db/segments")).expect("a folder");
    let names = segments.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    assert!(names.into_iter().any(|name| name.ends_with(".lost-1")));
    assert!(log.with_file_name("manifest-0000000001.log.cut-1").exists());
}

#[test]
fn repair_writes_current_again_and_cuts_a_torn_tail() {
    let folder = folder();
    three_commits(folder.path());
    fs::remove_file(folder.path().join("db/CURRENT")).expect("CURRENT");
    check_failure(&freestone_in(folder.path(), &["db", "-c", "SELECT 1"], ""), 1, &["CURRENT is missing", "--repair"]);
    let output = freestone_in(folder.path(), &["check", "db", "--repair"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("3 commits are kept\nCURRENT was missing"), "{}", text(&output.stdout));
    assert_eq!(count(folder.path()), "n\n100002\n");

    let log = log_of(folder.path());
    let mut bytes = fs::read(&log).expect("the log");
    bytes.extend_from_slice(b"RCRDtorn");
    fs::write(&log, bytes).expect("the log");
    let output = freestone_in(folder.path(), &["check", "db", "--repair"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains(": 8 bytes, saved as") && printed.contains("no acknowledged commit is lost"), "{printed}");
    assert_eq!(count(folder.path()), "n\n100002\n");
}

#[test]
fn repair_names_missing_segments_and_leaves_them() {
    let folder = folder();
    three_commits(folder.path());
    let segment = largest_file(&folder.path().join("db/segments"));
    fs::remove_file(&segment).expect("a segment");
    let name = segment.file_name().and_then(|name| name.to_str()).expect("a name");
    let output = freestone_in(folder.path(), &["check", "db", "--repair"], "");
    check_failure(&output, 1, &["error: table t, 100000 rows of a segment: ", name, "hint: restore the named files"]);
    assert!(text(&output.stdout).starts_with("commit log: sound"), "{}", text(&output.stdout));
}

#[test]
fn check_refuses_a_missing_database() {
    let folder = folder();
    check_failure(&freestone_in(folder.path(), &["check", "db"], ""), 1, &["error: ", "db"]);
    assert!(!folder.path().join("db").exists());
}

fn largest_file(folder: &Path) -> PathBuf {
    let mut folders = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("metadata");
            if metadata.is_dir() { folders.push(entry.path()) } else { files.push((metadata.len(), entry.path())) }
        }
    }
    files.into_iter().max().expect("a file").1
}

#[test]
fn help_and_version_are_complete() {
    let help = text(&freestone(&["--help"]).stdout);
    for part in
        ["Examples:", "--format", "--output", "--timing", "--memory-limit", "--threads", "--read-only", "check", "demo"]
    {
        assert!(help.contains(part), "{part}");
    }
    let version = text(&freestone(&["--version"]).stdout);
    assert!(version.starts_with(concat!("freestone ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(version.contains("DataFusion 55.") && version.contains("Arrow 59."), "{version}");
}

/// Limits of the system (`ulimit`): the answer, or one error; never a signal or a panic.
#[test]
fn limits_of_the_system_are_no_end_of_the_process() {
    let folder = folder();
    let db = folder.path().join("db");
    let make = "CREATE TABLE t AS SELECT value AS a, md5(value::VARCHAR) AS b FROM generate_series(1, 40000)";
    run_in(folder.path(), &["db", "-c", make]);
    let limited = |limits: &str, sql: &str| {
        let script = format!("{limits}; exec \"$0\" \"$@\"");
        let program = env!("CARGO_BIN_EXE_freestone");
        let arguments = ["-c", &script, program, path_text(&db), "--format", "csv", "-c", sql];
        Command::new("sh").args(arguments).output().expect("the shell runs")
    };
    let count = "SELECT count(*) AS n FROM t";
    for (limits, is_answered) in [("ulimit -s 64", true), ("ulimit -n 8", false), ("ulimit -v 200000", false)] {
        let output = limited(limits, count);
        match is_answered || output.status.success() {
            true => assert_eq!(text(&output.stdout), "n\n40000\n", "{limits}: {}", text(&output.stderr)),
            false => check_failure(&output, 1, &["error: cannot start"]),
        }
    }
    let full = limited("ulimit -f 100", &make.replace("TABLE t", "TABLE u"));
    check_failure(&full, 1, &["File too large", "DROP TABLE"]);
    assert_eq!(text(&limited("ulimit -f 100", count).stdout), "n\n40000\n");
}
