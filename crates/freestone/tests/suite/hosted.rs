//! Functions of the program around the engine.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use freestone::{Database, Error, ErrorKind, HostFunction, Options, Result, Session};

fn session() -> Session {
    Database::in_memory(Options::default()).expect("a database").session()
}

fn of_integers(name: &str, kernel: impl Fn(&RecordBatch) -> Result<ArrayRef> + Send + Sync + 'static) -> HostFunction {
    HostFunction {
        name: name.to_owned(),
        parameters: vec![Some(DataType::Int64)],
        accepts_more: false,
        result: DataType::Int64,
        is_volatile: false,
        takes_nulls: false,
        kernel: Arc::new(move |batch| kernel(&batch)),
    }
}

async fn integers(session: &Session, text: &str) -> Result<Vec<Option<i64>>> {
    let batches = session.sql(text).await?.collect().await?;
    Ok(batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
        .collect())
}

fn doubled(batch: &RecordBatch) -> Result<ArrayRef> {
    let values = batch.column(0).as_primitive::<Int64Type>();
    Ok(Arc::new(values.iter().map(|value| value.map(|value| 2 * value)).collect::<Int64Array>()))
}

#[tokio::test]
async fn functions_and_aggregates_are_called_with_rows() {
    let session = session();
    session.create_function(of_integers("Doubled", doubled)).expect("a function");
    let count = |batch: &RecordBatch| -> Result<ArrayRef> {
        assert_eq!(batch.column(0).null_count(), 0);
        Ok(Arc::new(Int64Array::from(vec![batch.num_rows() as i64])))
    };
    session.create_aggregate(of_integers("number", count)).expect("an aggregate");
    let rows = "FROM (VALUES (1::BIGINT), (NULL), (3)) t(a)";
    let values = integers(&session, &format!("SELECT doubled(a) {rows}")).await.expect("values");
    assert_eq!(values, [Some(2), None, Some(6)]);
    assert_eq!(integers(&session, &format!("SELECT number(doubled(a)) {rows}")).await.expect("one"), [Some(2)]);
    assert_eq!(integers(&session, &format!("SELECT number(a) {rows} WHERE a > 5")).await.expect("one"), [None]);
}

#[tokio::test]
async fn lengths_types_and_names_are_checked() {
    let session = session();
    let kind = |result: Result<()>| result.err().map(|error| error.kind());
    session.create_function(of_integers("short", |batch| Ok(batch.column(0).slice(0, 1)))).expect("a function");
    session.create_function(of_integers("failing", |_| Err(Error::new(ErrorKind::Io, "no")))).expect("a function");
    assert_eq!(kind(session.create_function(of_integers("SHORT", doubled))), Some(ErrorKind::Exists));
    assert_eq!(kind(session.create_aggregate(of_integers("sum", doubled))), Some(ErrorKind::Exists));
    assert_eq!(kind(session.remove_function("sum")), Some(ErrorKind::NotFound));
    let failure = async |text: &str| integers(&session, text).await.expect_err(text);
    let error = failure("SELECT short(a) FROM range(3) t(a)").await;
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Type, "function short returned 1 values for 3 rows")
    );
    assert_eq!(failure("SELECT failing(a) FROM range(3) t(a)").await.kind(), ErrorKind::Io);
    assert_eq!(failure("SELECT short('x'::VARCHAR)").await.kind(), ErrorKind::Type);
    session.remove_function("Short").expect("removed");
    assert_eq!(failure("SELECT short(1)").await.kind(), ErrorKind::NotFound);
}
