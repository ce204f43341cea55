//! Operations that a session's permissions exclude, in all their forms; and the parameters and columns that statements
//! are described with.

use std::fs;

use freestone::{Access, Database, ErrorKind, Options, Session};

async fn check_denied(session: &Session, sql: &str) {
    match session.sql(sql).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{sql}: {error}"),
        Ok(_) => panic!("{sql} was executed"),
    }
}

fn tables() -> std::sync::Arc<Database> {
    Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database")
}

#[tokio::test]
async fn readers_change_nothing() {
    let database = tables();
    database.session().sql("CREATE TABLE t AS SELECT 1 AS a").await.expect("made");
    let reader = database.session_with(Access { write: false, ..Access::default() });
    assert_eq!(reader.sql("SELECT a FROM t").await.expect("rows").collect().await.expect("rows")[0].num_rows(), 1);
    for sql in [
        "INSERT INTO t VALUES (2)",
        "DELETE FROM t",
        "UPDATE t SET a = 3",
        "TRUNCATE t",
        "DROP TABLE t",
        "CREATE TABLE u (a INT)",
        "CREATE VIEW v AS SELECT a FROM t",
        "ALTER TABLE t SET DESIGN (design = 'row')",
        "VACUUM",
    ] {
        check_denied(&reader, sql).await;
    }
    reader.sql("PREPARE p AS INSERT INTO t VALUES ($1)").await.expect("prepared");
    check_denied(&reader, "EXECUTE p(4)").await;
}

#[tokio::test]
async fn files_are_for_those_who_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.csv");
    fs::write(&file, "a\n1\n").expect("written");
    let file = file.display();
    let database = tables();
    let owner = database.session();
    owner.sql(&format!("CREATE VIEW v AS SELECT a FROM '{file}'")).await.expect("made");
    owner.sql("CREATE TABLE t (a INT)").await.expect("made");
    assert!(owner.sql("SELECT a FROM v").await.is_ok());
    let guest = database.session_with(Access { files: false, ..Access::default() });
    for sql in [
        format!("SELECT * FROM '{file}'"),
        format!("SELECT * FROM '{file}' (HEADER true)"),
        format!("SELECT * FROM read_csv('{file}')"),
        format!("SELECT * FROM read_parquet(['{file}', '/dev/stdin'])"),
        format!("FROM '{file}'"),
        format!("DESCRIBE '{file}'"),
        format!("EXPLAIN SELECT * FROM '{file}'"),
        format!("CREATE TABLE u AS SELECT * FROM '{file}'"),
        format!("INSERT INTO t SELECT * FROM '{file}'"),
        format!("COPY t FROM '{file}'"),
        format!("COPY t TO '{file}'"),
    ] {
        check_denied(&guest, &sql).await;
    }
    assert!(guest.sql("SELECT a FROM v").await.is_err());
    let folder = folder.path().display().to_string();
    let error =
        guest.sql(&format!("SELECT * FROM \"{}\"", folder.trim_start_matches('/').replace('/', "_"))).await.err();
    assert_eq!(error.expect("no such table").kind(), ErrorKind::NotFound);
    let loaded = guest.load_file("t", vec![], &file.to_string(), vec![]).await;
    assert!(loaded.is_ok(), "what the server holds for a client is the client's");
}

#[tokio::test]
async fn memory_of_a_session_has_its_own_limit() {
    let database = tables();
    let session = database.session_with(Access { memory: Some(1 << 20), ..Access::default() });
    let sql =
        "SELECT count(*) FROM (SELECT DISTINCT value * 2 AS v, value::VARCHAR AS s FROM generate_series(1, 3000000))";
    // It spills or fails. In both cases it returns its memory to the pool.
    if let Ok(outcome) = session.sql(sql).await
        && let Err(error) = outcome.collect().await
    {
        assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
    }
    assert!(session.sql("SELECT 1").await.is_ok());
}

#[tokio::test]
async fn statements_are_described_without_being_executed() {
    let database = tables();
    let session = database.session();
    session.sql("CREATE TABLE t (a INT NOT NULL, b VARCHAR)").await.expect("made");
    for (sql, parameters, columns) in [
        ("SELECT b FROM t WHERE a = $1", vec!["Int32"], Some(vec!["b"])),
        ("INSERT INTO t VALUES ($1, $2)", vec!["Int32", "Utf8View"], None),
        ("UPDATE t SET b = $1 WHERE a = $2", vec!["Utf8View", "Int32"], None),
        ("UPDATE t SET a = $2 WHERE b = $1", vec!["Utf8View", "Int32"], None),
        ("DELETE FROM t WHERE a = $1", vec!["Int32"], None),
        ("SELECT $1 AS x", vec!["Utf8View"], Some(vec!["x"])),
        ("SHOW TABLES", vec![], Some(vec!["name"])),
        ("DROP TABLE t", vec![], None),
    ] {
        let statements = session.parse(sql).expect("parsed");
        let description =
            session.describe_statement(&statements[0], &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let types: Vec<String> = description.parameters.iter().map(ToString::to_string).collect();
        assert_eq!(types, parameters, "{sql}");
        let names = description.schema.map(|s| s.fields().iter().take(1).map(|f| f.name().clone()).collect::<Vec<_>>());
        assert_eq!(names.is_some(), columns.is_some(), "{sql}");
        if let (Some(names), Some(columns)) = (names, columns)
            && sql != "SHOW TABLES"
        {
            assert_eq!(names, columns, "{sql}");
        }
    }
    let relations = session.relations().await.expect("relations");
    assert_eq!((relations.len(), relations[0].name.as_str(), relations[0].rows), (1, "t", Some(0)));
}
