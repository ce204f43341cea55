//! Databases and files at `s3://`, with the credentials of the environment, against a store of our own with planned faults.

use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use freestone_mock_store::{Fault, KEY_ID, SECRET, Server};

/// Runs the command line with a store's environment.
fn run(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
    // The environment of whoever runs the tests must not matter.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    let given = environment.iter().copied();
    command.args(arguments).envs(server.environment()).envs(given).output().expect("the program runs")
}

/// The rows of a script as CSV, without the header.
fn rows(server: &Server, database: &str, sql: &str) -> Vec<String> {
    let output = run(server, &[database, "--format", "csv", "-c", sql], &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {errors}");
    String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_owned).collect()
}

/// The message of a script that fails, which has no secret.
fn failure(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(server, arguments, environment);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
    assert!(!text.contains(SECRET), "{text}");
    text
}

#[test]
fn a_database_lives_in_a_bucket() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    let database = "s3://data/sales";
    rows(&server, database, "CREATE TABLE t (a BIGINT PRIMARY KEY, b VARCHAR)");
    rows(&server, database, "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 50000) AS s(i)");
    assert_eq!(rows(&server, database, "SELECT count(*), sum(a), min(b) FROM t"), ["50000,1250025000,v1"]);
    rows(&server, database, "UPDATE t SET b = 'new' WHERE a = 7; DELETE FROM t WHERE a > 49990");
    assert_eq!(rows(&server, database, "SELECT count(*), count(*) FILTER (b = 'new') FROM t"), ["49990,1"]);
    rows(&server, database, "VACUUM; CHECK");
    assert_eq!(rows(&server, database, "SELECT b FROM t WHERE a = 7"), ["new"]);
    assert!(server.keys("data").iter().all(|key| key.starts_with("sales/")));
}

#[test]
fn writers_share_a_bucket_and_lose_nothing() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    rows(&server, "s3://data/db", "CREATE TABLE t (a BIGINT)");
    thread::scope(|scope| {
        for writer in 0..3 {
            let server = &server;
            scope.spawn(move || {
                let inserts: String =
                    (0..5).map(|at| format!("INSERT INTO t VALUES ({});", writer * 100 + at)).collect();
                rows(server, "s3://data/db", &inserts);
            });
        }
    });
    assert_eq!(rows(&server, "s3://data/db", "SELECT count(*), count(DISTINCT a) FROM t"), ["15,15"]);
}

#[test]
fn commits_survive_what_stores_do() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    rows(&server, "s3://data/db", "CREATE TABLE t (a BIGINT)");
    let faults = [
        Fault::LostAnswer,
        Fault::Status(503, "SlowDown"),
        Fault::Status(409, "ConditionalRequestConflict"),
        Fault::Status(500, "InternalError"),
    ];
    for (at, fault) in faults.iter().enumerate() {
        server.plan(fault.clone(), "PUT", "/data/db/", 0, 1);
        rows(&server, "s3://data/db", &format!("INSERT INTO t VALUES ({at})"));
        assert!(server.is_done(), "{fault:?}");
    }
    server.plan(Fault::Cut, "GET", "/data/db/", 0, 1);
    assert_eq!(rows(&server, "s3://data/db", "SELECT count(*), sum(a) FROM t"), ["4,6"]);
    assert!(server.is_done());
}

#[test]
fn stores_are_checked() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    let output = run(&server, &["store", "check", "s3://data/check", "--rounds", "10"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn errors_say_what_to_do_and_no_secret() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    let query = ["-c", "SELECT 1"];
    let error = failure(&server, &["s3://none/db", query[0], query[1]], &[]);
    assert!(error.contains("there is no such bucket"), "{error}");
    let error = failure(&server, &["s3://data/db", query[0], query[1]], &[("AWS_ACCESS_KEY_ID", "another")]);
    assert!(error.contains("credentials") || error.contains("denies"), "{error}");
    server.plan(Fault::Redirect("http://localhost:1/".to_owned()), "", "/data", 0, 100);
    let error = failure(&server, &["s3://data/db", query[0], query[1]], &[]);
    assert!(error.contains("another host"), "{error}");
}

#[test]
fn what_a_store_refuses_is_one_line_that_names_the_place() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    rows(&server, "s3://data/db", "CREATE TABLE t (a BIGINT)");
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "0123456789-0123456789").expect("written");
    let token = token.path().to_str().expect("UTF-8");
    let programs: [&[&str]; 3] = [
        &["s3://data/db", "-c", "SELECT * FROM t"],
        &["serve", "s3://data/db", "--no-auth", "--listen", "127.0.0.1:0"],
        &["worker", "--store", "s3://data/db", "--token-file", token, "--listen", "127.0.0.1:0"],
    ];
    let wrong_region = "AuthorizationHeaderMalformed: the region 'us-east-1' is wrong; expecting 'eu-west-1'";
    for (fault, part) in [
        (Fault::Status(400, "ExpiredToken"), "the credentials have expired; renew them"),
        (Fault::Status(400, wrong_region), "the bucket is in another region; set AWS_REGION to that"),
        (Fault::Status(403, "AccessDenied"), "the store denies it; check the rights of the credentials"),
    ] {
        for arguments in programs {
            server.plan(fault.clone(), "", "/data", 0, 1000);
            let error = failure(&server, arguments, &[]);
            let line = error.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
            assert!(line.contains("s3://data/db") && line.contains(part), "{arguments:?}: {error}");
            server.forget_plans();
        }
    }
    server.put("data", "newer/FREESTONE", br#"{ "format": 99, "other": true }"#.to_vec());
    let error = failure(&server, &["s3://newer-bucket/db", "-c", "SELECT 1"], &[]);
    assert!(error.contains("there is no such bucket"), "{error}");
    let error = failure(&server, &["s3://data/newer", "-c", "SELECT 1"], &[]);
    assert!(error.contains("format version 99") && error.contains("newer program"), "{error}");
}

#[test]
fn slow_answers_are_waited_for_and_plans_have_no_secret() {
    let server = Server::start().expect("a store");
    server.create_bucket("data");
    rows(&server, "s3://data/db", "CREATE TABLE t AS SELECT a FROM range(50000) AS r(a)");
    server.plan(Fault::Slow(Duration::from_millis(400)), "GET", "/data/db/", 0, 4);
    assert_eq!(rows(&server, "s3://data/db", "SELECT count(*), sum(a) FROM t WHERE a >= 0"), ["50000,1249975000"]);
    assert!(server.is_done());
    for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
        let plan = rows(&server, "s3://data/db", &format!("{explain} SELECT sum(a) FROM t WHERE a > 7")).join("\n");
        assert!(!plan.contains(SECRET) && !plan.contains(KEY_ID), "{plan}");
    }
}

#[test]
fn files_are_read_with_the_environment() {
    let server = Server::start().expect("a store");
    for at in 0..120 {
        server.put("data", &format!("in/part-{at:03}.csv"), format!("k,v\n{at},x\n").into_bytes());
    }
    server.put("data", "in/other.txt", b"no".to_vec());
    let count = "SELECT count(*), sum(k) FROM 's3://data/in/*.csv'";
    assert_eq!(rows(&server, ":memory:", count), ["120,7140"]);
    assert_eq!(rows(&server, ":memory:", "SELECT k FROM 's3://data/in/part-007.csv'"), ["7"]);
    for (file, part) in [
        ("s3://data/in/none.csv", "s3://data/in/none.csv: no such file"),
        ("s3://none/x.csv", "s3://none/x.csv: there is no such bucket"),
        ("s3://data/none/*.csv", "s3://data/none/*.csv: no file matches"),
        ("s3://data/x.parquet", "s3://data/x.parquet: no such file"),
    ] {
        let error = failure(&server, &[":memory:", "-c", &format!("SELECT * FROM '{file}'")], &[]);
        assert!(error.contains(part), "{error}");
    }
    let wrong = [("AWS_ACCESS_KEY_ID", "another")];
    let error = failure(&server, &[":memory:", "-c", count], &wrong);
    assert!(error.contains("s3://data/in/*.csv: ") && !error.contains(KEY_ID), "{error}");
}
