//! A panic ends its statement with an error; the session and its database remain usable.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use freestone::{Database, Error, ErrorKind, Extension, Inputs, Options, Session, parse_script};

/// A function that panics when it is planned, or when it is called.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Panicking {
    name: &'static str,
    while_planning: bool,
    signature: Signature,
}

impl Panicking {
    fn function(name: &'static str, while_planning: bool) -> Arc<ScalarUDF> {
        let signature = Signature::any(1, Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(Panicking { name, while_planning, signature }))
    }
}

impl ScalarUDFImpl for Panicking {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        assert!(!self.while_planning, "planned to panic");
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        panic!("called to panic")
    }
}

fn is_panic(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert!(error.to_string().contains("to panic"), "{error}");
}

async fn still_works(session: &Session) {
    let rows = session.sql("SELECT a FROM t").await.expect("a query").collect().await.expect("rows");
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_an_error_of_its_statement() {
    let database = Database::in_memory(Options::default()).expect("a database");
    let session = database.session();
    session.sql("CREATE TABLE t (a BIGINT)").await.expect("a table");
    session.sql("INSERT INTO t VALUES (1), (2)").await.expect("rows");
    let functions = vec![Panicking::function("early", true), Panicking::function("late", false)];
    session.extend(Extension { functions, ..Extension::default() });
    let early = "SELECT early(a) FROM t";
    let statement = &parse_script(early)[0];
    is_panic(&session.execute(statement).await.err().expect(early));
    is_panic(&session.execute_stored(statement, Inputs::default()).await.err().expect(early));
    is_panic(&session.schema(statement, Inputs::default()).await.expect_err(early));
    is_panic(&session.describe_statement(statement, &[]).await.expect_err(early));
    for sql in [
        "SELECT late(a) FROM t",
        "SELECT sum(late(a)) FROM t",
        "SELECT a FROM t WHERE late(a) = 1 ORDER BY a",
        "EXPLAIN ANALYZE SELECT late(a) FROM t",
        "INSERT INTO t SELECT late(a) FROM t",
        "INSERT INTO t SELECT early(a) FROM t",
        "UPDATE t SET a = late(a)",
        "DELETE FROM t WHERE late(a) = 1",
        "EXPLAIN ANALYZE DELETE FROM t WHERE late(a) = 1",
        "CREATE TABLE u AS SELECT late(a) AS b FROM t",
        "CREATE VIEW v AS SELECT early(a) AS b FROM t",
        "DESCRIBE SELECT early(a) FROM t",
        "PREPARE p AS SELECT early(a) FROM t",
    ] {
        let outcome = match session.sql(sql).await {
            Ok(outcome) => outcome.collect().await.map(drop),
            Err(error) => Err(error),
        };
        is_panic(&outcome.expect_err(sql));
        still_works(&session).await;
    }
    let file = std::env::temp_dir().join(format!("freestone-panic-{}.csv", std::process::id()));
    let copy = format!("COPY (SELECT late(a) AS b FROM t) TO '{}'", file.display());
    is_panic(&session.sql(&copy).await.err().expect("a panic"));
    let _ = std::fs::remove_file(file);
    still_works(&session).await;
}
