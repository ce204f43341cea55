//! Files elsewhere, by HTTP and in memory, with what goes wrong on the way. S3's protocol is tested with the command line, whose
//! environment has the credentials.

use std::time::Duration;

use freestone_mock_store::{Fault, KEY_ID, SECRET, Server};

use super::files::{Place, longs};

const GROUP_ROWS: usize = 5000;

/// A server with the Parquet file of 10 row groups and two columns `public/x.parquet`.
fn served(place: &Place) -> Server {
    let values: Vec<i64> = (0..10 * GROUP_ROWS as i64).collect();
    let squares: Vec<i64> = values.iter().map(|value| value.wrapping_mul(0x5851_f42d_4c95_7f2d)).collect();
    place.parquet("x.parquet", vec![("a", longs(&values)), ("b", longs(&squares))], GROUP_ROWS);
    let server = Server::start().expect("a server");
    server.put("public", "x.parquet", std::fs::read(place.path("x.parquet")).expect("the file"));
    server
}

#[tokio::test]
async fn parquet_is_read_by_ranges() {
    let place = Place::new();
    let server = served(&place);
    let file = format!("'{}/public/x.parquet?signature=s3cr3t'", server.endpoint());
    let filtered = |file: &str| format!("SELECT count(*), sum(a), min(b) FROM {file} WHERE a < 5000");
    assert_eq!(place.run(&filtered(&file)).await, place.run(&filtered("'@/x.parquet'")).await);
    assert_eq!(server.take_traffic().total(), 2, "the metadata, and the only row group");
    let _ = server.take_traffic();
    place.check(&format!("SELECT sum(a) FROM {file}"), &["1249975000"]).await;
    // The end of the file with its metadata, and one request per row group, of one column only.
    let traffic = server.take_traffic();
    let whole = server.get("public", "x.parquet").expect("the file").len() as u64;
    assert!((2..11).contains(&traffic.total()), "{traffic:?}");
    assert!(traffic.sent_bytes < whole + (128 << 10), "{traffic:?} of {whole}");
    // The plan counts requests and bytes, and shows no signature.
    let plan = place.run(&format!("EXPLAIN ANALYZE SELECT sum(a) FROM {file}")).await.expect("a plan").join("\n");
    let traffic = server.take_traffic();
    assert!(plan.contains(&format!("requests={}", traffic.total())), "{plan}\n{traffic:?}");
    assert!(plan.contains("bytes_requested=") && !plan.contains("s3cr3t"), "{plan}");
    // Nothing but metadata is read to count rows.
    place.check(&format!("SELECT count(*) FROM {file}"), &["50000"]).await;
    assert_eq!(server.take_traffic().total(), 1);
    place
        .check(&format!("SELECT path_in_schema FROM parquet_metadata({file}) WHERE row_group_id = 9"), &["a", "b"])
        .await;
    place.check(&format!("SELECT name FROM parquet_schema({file})"), &["arrow_schema", "a", "b"]).await;
}

#[tokio::test]
async fn row_groups_that_do_not_fit_memory_are_read_page_by_page() {
    let place = Place::new();
    let values: Vec<i64> = (0..1_500_000i64).map(|value| value.wrapping_mul(0x5851_f42d_4c95_7f2d)).collect();
    place.parquet("x.parquet", vec![("a", longs(&values)), ("b", longs(&values))], values.len());
    let server = Server::start().expect("a server");
    server.put("public", "x.parquet", std::fs::read(place.path("x.parquet")).expect("the file"));
    let options = freestone::Options { threads: 1, memory_limit: Some(16 << 20), ..freestone::Options::default() };
    let session = freestone::Database::in_memory(options).expect("a database").session();
    let query = format!("SELECT count(DISTINCT a % 10), max(b) FROM '{}/public/x.parquet'", server.endpoint());
    let rows = session.sql(&query).await.expect("a query").collect().await.expect("rows");
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    assert!(server.take_traffic().total() > 10);
}

#[tokio::test]
async fn rows_are_loaded_from_elsewhere() {
    let place = Place::new();
    let server = served(&place);
    server.put("public", "t.csv", b"k,v\n1,one\n2,two\n".to_vec());
    server.put("public", "t.json", b"{\"k\":1,\"v\":\"one\"}\n{\"k\":2,\"v\":\"two\"}\n".to_vec());
    place.run("COPY (SELECT 1 AS k, 'one' AS v UNION ALL SELECT 2, 'two') TO '@/t.arrow'").await.expect("a file");
    server.put("public", "t.arrow", std::fs::read(place.path("t.arrow")).expect("the file"));
    let at = |name: &str| format!("'{}/public/{name}'", server.endpoint());
    for name in ["t.csv", "t.json", "t.arrow"] {
        place.check(&format!("SELECT k, v FROM {} ORDER BY k", at(name)), &["1|one", "2|two"]).await;
    }
    place.check(&format!("SELECT size FROM read_blob({})", at("t.csv")), &["16"]).await;
    place.check(&format!("SELECT content LIKE 'k,v%' FROM read_text({})", at("t.csv")), &["true"]).await;
    place.run("CREATE TABLE t (k INT, v VARCHAR)").await.expect("a table");
    place.run(&format!("COPY t FROM {}", at("t.csv"))).await.expect("rows");
    place.run(&format!("INSERT INTO t SELECT k + 10, v FROM {}", at("t.json"))).await.expect("rows");
    place.check("SELECT k, v FROM t ORDER BY k", &["1|one", "2|two", "11|one", "12|two"]).await;
    place.run(&format!("CREATE TABLE x AS SELECT * FROM {}", at("x.parquet"))).await.expect("a table");
    place.run(&format!("COPY x FROM {}", at("x.parquet"))).await.expect("rows");
    place.check("SELECT count(*), sum(a) FROM x", &["100000|2499950000"]).await;
    // A server that sends only whole files.
    server.ignore_ranges();
    place.check(&format!("SELECT count(*), max(a) FROM {}", at("x.parquet")), &["50000|49999"]).await;
}

#[tokio::test]
async fn patterns_of_stores_are_listed() {
    let place = Place::new();
    let bucket = freestone_bucket::open("memory://suite-patterns", true).expect("a memory");
    for (name, rows) in [("y=1/a.csv", "v\n1\n"), ("y=2/b.csv", "v\n2\n3\n"), ("y=2/notes.txt", "no")] {
        bucket.put(name, rows.as_bytes()).expect("an object");
    }
    let rows = ["1|1", "2|2", "2|3"];
    place.check("SELECT y, v FROM 'memory://suite-patterns/*/*.csv' ORDER BY v", &rows).await;
    place.check("SELECT y, v FROM 'memory://suite-patterns/' ORDER BY v", &rows).await;
    place.check("SELECT count(*) FROM glob('memory://suite-patterns/**/*.csv')", &["2"]).await;
    place
        .check(
            "SELECT filename FROM read_text('memory://suite-patterns/y=1/*')",
            &["memory://suite-patterns/y=1/a.csv"],
        )
        .await;
    place.check_error("SELECT * FROM 'memory://suite-patterns/*.json'", "no file matches").await;
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let place = Place::new();
    let server = served(&place);
    let query = format!("SELECT sum(a), sum(b) FROM '{}/public/x.parquet'", server.endpoint());
    let expected = place.run("SELECT sum(a), sum(b) FROM '@/x.parquet'").await.expect("rows");
    let faults = [
        (Fault::Status(503, "SlowDown"), 0),
        (Fault::Status(503, "SlowDown"), 2),
        (Fault::Cut, 0),
        (Fault::Cut, 1),
        (Fault::Slow(Duration::from_millis(200)), 1),
    ];
    for (fault, skip) in faults {
        server.plan(fault.clone(), "GET", "x.parquet", skip, 1);
        assert_eq!(place.run(&query).await.as_ref(), Ok(&expected), "{fault:?}");
        assert!(server.is_done(), "{fault:?}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_an_error_with_the_name() {
    let place = Place::new();
    let server = served(&place);
    let at = |name: &str| format!("'{}/public/{name}'", server.endpoint());
    let query = format!("SELECT sum(a), sum(b) FROM {}", at("x.parquet"));
    // The file changes between its metadata and its rows.
    server.plan(Fault::Changed, "GET", "x.parquet", 1, 1);
    let error = place.failure(&query).await;
    assert!(error.to_string().ends_with("public/x.parquet: the file changed while it was read"), "{error}");
    assert_eq!(error.kind(), freestone::ErrorKind::Io);
    place.run("CREATE TABLE t (a BIGINT, b BIGINT)").await.expect("a table");
    let server = served(&place);
    let at = |name: &str| format!("'{}/public/{name}'", server.endpoint());
    server.plan(Fault::Changed, "GET", "x.parquet", 3, 1);
    place
        .check_error(&format!("INSERT INTO t SELECT * FROM {}", at("x.parquet")), "the file changed while it was read")
        .await;
    place.check("SELECT count(*) FROM t", &["0"]).await;
    server.put("public", "x.parquet", std::fs::read(place.path("x.parquet")).expect("the file"));
    let elsewhere = Server::start().expect("another server");
    elsewhere.put("public", "x.parquet", std::fs::read(place.path("x.parquet")).expect("the file"));
    for (fault, skip, part) in [
        (Fault::Redirect(format!("{}/public/x.parquet", elsewhere.endpoint())), 0, "redirects to another host"),
        (Fault::Redirect("http://localhost:1/x".to_owned()), 1, "redirects to another host"),
        (Fault::Status(403, "AccessDenied"), 0, "the store denies it"),
        (Fault::Status(404, "NoSuchKey"), 0, "no such file"),
    ] {
        // A statement that fails leaves requests behind, which must not meet the next fault.
        let server = served(&place);
        let at = |name: &str| format!("'{}/public/{name}'", server.endpoint());
        server.plan(fault.clone(), "", "x.parquet", skip, 1);
        let error = place.failure(&format!("SELECT sum(a), sum(b) FROM {}", at("x.parquet"))).await;
        assert!(
            error.to_string().contains("/public/x.parquet: ") && error.to_string().contains(part),
            "{fault:?}: {error}"
        );
    }
    assert_eq!(elsewhere.take_traffic().total(), 0);
    // A redirect within the server is followed.
    server.plan(Fault::Redirect(format!("{}/public/x.parquet", server.endpoint())), "", "y.parquet", 0, 1);
    place.check(&format!("SELECT count(*) FROM {}", at("y.parquet")), &["50000"]).await;
    // Bytes that stay away.
    server.plan(Fault::Cut, "GET", "t.csv", 0, 100);
    server.put("public", "t.csv", b"k,v\n1,one\n2,two\n".to_vec());
    place.check_error(&format!("SELECT * FROM {}", at("t.csv")), "public/t.csv: it ended early: ").await;
    server.put("public", "bad.parquet", b"PAR1 is no Parquet file".to_vec());
    place
        .check_error(&format!("SELECT * FROM {}", at("bad.parquet")), "bad.parquet: not a readable Parquet file")
        .await;
    server.put("public", "empty.parquet", vec![]);
    place
        .check_error(&format!("SELECT * FROM {}", at("empty.parquet")), "empty.parquet: not a readable Parquet file")
        .await;
    let error = place.failure("SELECT * FROM 'hdfs://host/x.parquet'").await;
    assert!(error.to_string().contains("files are not read from hdfs://"), "{error}");
    assert!(!error.to_string().contains(SECRET));
    let closed = "SELECT * FROM 'http://127.0.0.1:1/x.parquet'";
    place.check_error(closed, "http://127.0.0.1:1/x.parquet: the store cannot be reached").await;
}

#[tokio::test]
async fn sessions_without_files_read_none_elsewhere() {
    let place = Place::new();
    let server = served(&place);
    let access = freestone::Access { files: false, ..freestone::Access::default() };
    let session = place.session().database().session_with(access);
    for query in ["SELECT * FROM '@'", "SELECT * FROM read_parquet('@')", "SELECT * FROM read_text('@')"] {
        let query = query.replace('@', &format!("{}/public/x.parquet", server.endpoint()));
        let error = session.sql(&query).await.err().expect("an error");
        assert_eq!(error.kind(), freestone::ErrorKind::Denied, "{query}: {error}");
    }
    assert_eq!(server.take_traffic().total(), 0);
}

#[tokio::test]
async fn secrets_open_stores_and_are_not_shown() {
    let place = Place::new();
    let server = served(&place);
    server.put("data", "x.parquet", server.get("public", "x.parquet").expect("the file"));
    let endpoint = server.endpoint().replace("http://", "");
    let given =
        format!("TYPE s3, KEY_ID '{KEY_ID}', SECRET '{SECRET}', REGION 'r', ENDPOINT '{endpoint}', USE_SSL false");
    place.run(&format!("CREATE SECRET mine ({given}, SCOPE 's3://data')")).await.expect("a secret");
    place.check("SELECT count(*), sum(a) FROM 's3://data/*.parquet'", &["50000|1249975000"]).await;
    // Another secret for a part of the bucket, of a key that the store does not know.
    let wrong = given.replace(KEY_ID, "another");
    place.run(&format!("CREATE SECRET wrong ({wrong}, SCOPE 's3://data/x.parquet')")).await.expect("a secret");
    let error = place.failure("SELECT count(*) FROM 's3://data/x.parquet'").await;
    assert!(error.to_string().starts_with("s3://data/x.parquet: "), "{error}");
    place
        .check(
            "SELECT name, type, provider, persistent FROM duckdb_secrets()",
            &["mine|s3|config|false", "wrong|s3|config|false"],
        )
        .await;
    let shown = place.run("SELECT secret_string FROM duckdb_secrets() WHERE name = 'mine'").await.expect("rows");
    assert!(shown[0].contains(&format!("key_id={KEY_ID};secret=redacted;region=r;endpoint={endpoint}")), "{shown:?}");
    place.check("SELECT scope FROM duckdb_secrets() WHERE name = 'wrong'", &["['s3://data/x.parquet']"]).await;
    place.run("DROP SECRET wrong").await.expect("it is there");
    // Files of a pattern are opened together, and read in the order of their names.
    let file = server.get("public", "x.parquet").expect("the file");
    (0..30).for_each(|at| server.put("data", &format!("many/{at:02}.parquet"), file.clone()));
    server.take_traffic();
    let many = "FROM read_parquet('s3://data/many/*.parquet', filename => true)";
    place.check(&format!("SELECT count(*), count(DISTINCT filename) {many}"), &["1500000|30"]).await;
    place
        .check(&format!("SELECT a, filename {many} ORDER BY filename, a LIMIT 1"), &["0|s3://data/many/00.parquet"])
        .await;
    server.put("data", "many/05.parquet", b"no Parquet file".to_vec());
    server.put("data", "many/20.parquet", b"no Parquet file".to_vec());
    place.check_error(&format!("SELECT count(*) {many}"), "s3://data/many/05.parquet: ").await;
    place.check("SELECT count(*) FROM 's3://data/x.parquet'", &["50000"]).await;
    for (sql, part) in [
        (format!("CREATE SECRET mine ({given})"), "a secret mine exists"),
        (format!("CREATE SECRET ({given}, PASSPHRASE '{SECRET}')"), "passphrase is no option of a secret of type s3"),
        (format!("CREATE SECRET x (TYPE s3, SECRET '{SECRET}' {SECRET}"), "syntax error at line 1, column"),
        (format!("EXPLAIN CREATE SECRET x (TYPE s3, SECRET '{SECRET}')"), "EXPLAIN of this statement"),
        (format!("EXPLAIN CREATE SECRET x (TYPE s3, SECRET '{SECRET}' 1)"), "syntax error at line 1, column"),
        (format!("CREATE PERSISTENT SECRET x (TYPE s3, SECRET '{SECRET}')"), "PERSISTENT"),
        ("DROP SECRET none".to_owned(), "none"),
    ] {
        let error = place.failure(&sql).await;
        let all = format!("{error} {error:?} {:?} {:?}", error.hint(), error.excerpt());
        assert!(all.contains(part) && !all.contains(SECRET), "{all}");
    }
    place.run(&format!("CREATE OR REPLACE SECRET mine ({wrong})")).await.expect("a secret");
    place.run(&format!("CREATE SECRET IF NOT EXISTS mine ({given})")).await.expect("nothing");
    place.check_error("SELECT * FROM 's3://data/x.parquet'", "s3://data/x.parquet: ").await;
    place.run("DROP SECRET IF EXISTS none").await.expect("nothing");
    let access = freestone::Access { files: false, ..freestone::Access::default() };
    let other = place.session().database().session_with(access);
    for sql in [format!("CREATE SECRET s ({given})"), "DROP SECRET mine".to_owned()] {
        assert_eq!(other.sql(&sql).await.err().expect("an error").kind(), freestone::ErrorKind::Denied);
    }
    let rows = other.sql("SELECT * FROM duckdb_secrets()").await.expect("rows").collect().await.expect("rows");
    assert!(rows.iter().all(|batch| batch.num_rows() == 0), "secrets are of a session");
}

#[tokio::test]
async fn tokens_are_sent_by_http() {
    let place = Place::new();
    let server = Server::start().expect("a server");
    // The store takes what names its key for signed.
    server.put("private", "t.csv", b"k\n1\n".to_vec());
    let file = format!("'{}/private/t.csv'", server.endpoint());
    place.check_error(&format!("SELECT * FROM {file}"), "the store denies it").await;
    let token = format!(
        "CREATE SECRET (TYPE http, BEARER_TOKEN 'Credential={KEY_ID}/', SCOPE '{}/private')",
        server.endpoint()
    );
    place.run(&token).await.expect("a secret");
    place.check(&format!("SELECT * FROM {file}"), &["1"]).await;
    place.check("SELECT name FROM duckdb_secrets()", &["__default_http"]).await;
}

#[tokio::test]
async fn results_are_written_elsewhere() {
    let place = Place::new();
    let server = Server::start().expect("a store");
    server.create_bucket("out");
    let endpoint = server.endpoint();
    let secret = format!("CREATE SECRET (TYPE s3, KEY_ID '{KEY_ID}', SECRET '{SECRET}', ENDPOINT '{endpoint}')");
    place.run(&secret).await.expect("a secret");
    place
        .run("CREATE TABLE t AS SELECT i AS a, hash(i)::VARCHAR AS b FROM generate_series(1, 400000) AS s(i)")
        .await
        .expect("rows");
    for name in ["t.parquet", "t.csv", "t.json", "t.arrow"] {
        place.run(&format!("COPY t TO 's3://out/{name}'")).await.expect(name);
        place
            .check(
                &format!("SELECT count(*), sum(a), count(DISTINCT b) FROM 's3://out/{name}'"),
                &["400000|80000200000|400000"],
            )
            .await;
    }
    // A text of several parts is uploaded part by part.
    assert!(server.get("out", "t.json").expect("a file").len() > 8 << 20);
    assert!(server.take_traffic().requests["PUT"] > 5);
    place.run("COPY (SELECT 1 AS a) TO 's3://out/t.csv'").await.expect("another file in its place");
    place.check("SELECT a FROM 's3://out/t.csv'", &["1"]).await;
    // What fails leaves nothing.
    let before = server.keys("out");
    let fails = "COPY (SELECT a, b, CASE WHEN a = 399999 THEN error('late') END FROM t) TO 's3://out/x.json'";
    place.check_error(fails, "late").await;
    server.plan(Fault::Status(403, "AccessDenied"), "PUT", "partNumber=2", 0, 1);
    place.check_error("COPY t TO 's3://out/x.json'", "cannot write s3://out/x.json: the store denies it").await;
    server.plan(Fault::Status(403, "AccessDenied"), "POST", "uploadId", 0, 1);
    place.check_error("COPY t TO 's3://out/x.json'", "cannot write s3://out/x.json: the store denies it").await;
    assert_eq!((server.keys("out"), server.open_uploads()), (before, 0));
    for (sql, part) in [
        ("COPY t TO 's3://none/x.csv'", "there is no such bucket"),
        ("COPY t TO 's3://out/folder/' (FORMAT csv)", "is a folder"),
        ("COPY t TO 's3://out/x' (FORMAT csv, PARTITION_BY a)", "several files are written to folders of this machine"),
        ("COPY t TO 'https://host/x.csv'", "files are written to s3://"),
        ("COPY t TO 'hdfs://host/x.csv'", "files are not read from hdfs://"),
    ] {
        place.check_error(sql, part).await;
    }
    let access = freestone::Access { files: false, ..freestone::Access::default() };
    let other = place.session().database().session_with(access);
    assert_eq!(
        other.sql("COPY t TO 's3://out/y.csv'").await.err().expect("an error").kind(),
        freestone::ErrorKind::Denied
    );
}
