//! Properties of sessions: snapshots, cancellation, limits, progress, and the state after a database was closed.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchIterator};
use arrow::datatypes::Int64Type;
use freestone::{
    ArrowTable, Database, ErrorKind, Inputs, Options, Outcome, Progress, ScalarValue, Session, parse_script, type_name,
};
use futures::StreamExt;
use parking_lot::Mutex;

fn options() -> Options {
    Options { threads: 2, memory_limit: Some(256 << 20), ..Options::default() }
}

fn check<F: Future<Output = freestone::Result<()>>>(test: impl FnOnce(Session) -> F) {
    let database = Database::in_memory(options()).unwrap();
    block_on(test(database.session())).unwrap();
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// The first value of a column, which a BIGINT holds.
fn integer(column: &arrow::array::ArrayRef) -> i64 {
    let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64).expect("a number");
    column.as_primitive::<Int64Type>().value(0)
}

/// The only value of a result.
async fn number(session: &Session, sql: &str) -> freestone::Result<i64> {
    let batches = session.sql(sql).await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).expect("one row");
    Ok(integer(batch.column(0)))
}

/// Enough rows for a scan of many batches.
const ROWS: &str = "SELECT value AS a, 'row ' || value AS b FROM generate_series(1, 300000)";
/// A query that takes far longer than a test waits.
const ENDLESS: &str = "SELECT x.value AS a FROM generate_series(1, 1000) AS x, generate_series(1, 1000000000) AS y \
                       WHERE x.value * y.value % 7 = 9";

#[test]
fn a_statement_reads_the_snapshot_it_began_with() {
    check(|session| async move {
        session.sql(&format!("CREATE TABLE t AS {ROWS}")).await?;
        let Outcome::Rows { mut stream, .. } = session.sql("SELECT a FROM t").await? else { panic!("rows") };
        let mut rows = stream.next().await.expect("a batch")?.num_rows();
        session.sql("DELETE FROM t WHERE a % 2 = 0").await?;
        session.sql("ALTER TABLE t SET DESIGN (design = 'row')").await?;
        session.sql("DROP TABLE t").await?;
        session.sql("VACUUM").await?;
        while let Some(batch) = stream.next().await {
            rows += batch?.num_rows();
        }
        assert_eq!(rows, 300_000);
        Ok(())
    });
}

#[test]
fn cancelling_stops_queries_and_writes() {
    check(|session| async move {
        let cancel = session.cancel_handle();
        // Cancels from a thread that executes no query, as a signal handler does.
        let cancel_soon = || {
            let cancel = cancel.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                cancel.cancel();
            })
        };
        cancel_soon();
        let error = session.sql(ENDLESS).await?.collect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        cancel_soon();
        let error = session.sql(&format!("CREATE TABLE t AS {ENDLESS}")).await.err().expect("it was cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        // Later statements run, and the cancelled one leaves nothing.
        assert_eq!(number(&session, "SELECT count(*) FROM freestone_tables()").await?, 0);
        session.sql("CREATE TABLE t (a INT)").await?;
        Ok(())
    });
}

#[test]
fn giving_up_on_a_write_frees_the_writer() {
    check(|session| async move {
        let sql = format!("CREATE TABLE t AS {ENDLESS} OR x.value < 5000");
        tokio::time::timeout(Duration::from_millis(100), session.sql(&sql)).await.err().expect("it does not end");
        session.sql("CREATE TABLE t (a INT)").await?;
        assert_eq!(number(&session, "SELECT count(*) FROM t").await?, 0);
        Ok(())
    });
}

#[test]
fn sessions_have_their_own_settings_and_statements() {
    check(|session| async move {
        let other = session.database().session();
        session.sql("SET freestone.design = 'row'").await?;
        session.sql("PREPARE p AS SELECT 1").await?;
        session.sql("CREATE TABLE t (a INT)").await?;
        other.sql("CREATE TABLE u (a INT)").await?;
        let rows = "SELECT count(*) FROM freestone_tables() WHERE design = 'preset = ''row'''";
        assert_eq!(number(&other, rows).await?, 1);
        assert_eq!(other.sql("EXECUTE p").await.err().expect("not there").kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn values_fill_parameters() {
    check(|session| async move {
        session.sql("CREATE TABLE t (a BIGINT, b VARCHAR)").await?;
        let insert = session.parse("INSERT INTO t VALUES ($1, $2)")?.remove(0);
        for a in 0..10 {
            let values = vec![ScalarValue::Int64(Some(a)), ScalarValue::Utf8((a != 3).then(|| format!("b{a}")))];
            assert!(matches!(session.execute_with(&insert, values).await?, Outcome::Affected { rows: 1, .. }));
        }
        let query = session.parse("SELECT sum(a) FROM t WHERE a > $1 AND b <> $2")?.remove(0);
        let values = vec![ScalarValue::Int32(Some(2)), ScalarValue::Utf8(Some("b9".into()))];
        let batches = session.execute_with(&query, values).await?.collect().await?;
        assert_eq!(integer(batches[0].column(0)), 4 + 5 + 6 + 7 + 8);
        Ok(())
    });
}

#[test]
fn sorting_beyond_the_memory_limit_spills() {
    let small = Options { threads: 2, memory_limit: Some(64 << 20), ..Options::default() };
    let database = Database::in_memory(small).unwrap();
    block_on(async {
        let session = database.session();
        session
            .sql("CREATE TABLE t AS SELECT value AS a, repeat('x', 100) || value AS b FROM generate_series(1, 1000000)")
            .await?;
        let rows = number(
            &session,
            "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY b DESC) AS n FROM t) WHERE n > 10",
        );
        assert_eq!(rows.await?, 999_990);
        // The executor's own operators give way to those that spill.
        session.sql("CREATE TABLE few AS SELECT value AS k FROM generate_series(0, 9)").await?;
        let groups = "SELECT x.b, count(*) AS n FROM t AS x JOIN few ON x.a % 10 = few.k GROUP BY x.b";
        let rows = number(&session, &format!("SELECT count(*) FROM ({groups}) WHERE n = 1")).await?;
        assert_eq!(rows, 1_000_000);
        // So do its joins, whose rows are divided into files.
        for (join, expected) in [
            ("t AS x JOIN t AS y ON x.b = y.b WHERE x.a <> y.a", 0),
            ("t AS x JOIN t AS y ON x.b = y.b WHERE x.a = y.a", 1_000_000),
            ("t AS x LEFT JOIN t AS y ON x.b = y.b || 'x' WHERE y.a IS NULL", 1_000_000),
            ("t AS x FULL JOIN t AS y ON x.a = y.a + 10 AND x.b <> y.b", 1_000_010),
            ("t AS x WHERE EXISTS (SELECT 1 FROM t AS y WHERE y.b = x.b AND y.a > 10)", 999_990),
            ("t AS x WHERE NOT EXISTS (SELECT 1 FROM t AS y WHERE y.b = x.b AND y.a > 10)", 10),
            (
                "(WITH RECURSIVE r AS (SELECT a, b FROM t WHERE a = 7 UNION ALL SELECT t.a, t.b FROM r \
                 JOIN t ON t.b = repeat('x', 100) || (r.a + 1) WHERE r.a < 10) SELECT a, b FROM r) AS x",
                4,
            ),
        ] {
            let rows = number(&session, &format!("SELECT count(*) FROM {join}")).await;
            assert_eq!(rows.map_err(|error| error.to_string()), Ok(expected), "{join}");
        }
        Ok::<(), freestone::Error>(())
    })
    .unwrap();
}

#[derive(Default)]
struct Counting {
    total: AtomicU64,
    done: AtomicU64,
    ended: AtomicU64,
    notices: Mutex<Vec<String>>,
}

impl Progress for Counting {
    fn notice(&self, text: &str) {
        self.notices.lock().push(text.to_owned());
    }

    fn begin(&self, _: &str, total: Option<u64>) {
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    fn advance(&self, done: u64) {
        assert!(done >= self.done.swap(done, Ordering::Relaxed), "progress never goes back");
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn joins_of_all_rows_with_all_rows_have_a_notice() {
    check(|session| async move {
        session.sql("CREATE TABLE t AS SELECT i FROM range(40000) r(i)").await?;
        let counting = Arc::new(Counting::default());
        session.set_progress(Some(counting.clone()));
        for sql in
            ["SELECT count(*) FROM t a JOIN t b USING (i)", "SELECT count(*) FROM t a, (SELECT i FROM t LIMIT 10) b"]
        {
            drop(session.sql(sql).await?);
        }
        assert_eq!(*counting.notices.lock(), Vec::<String>::new());
        drop(session.sql("SELECT a.i FROM t a, t b").await?);
        let notices = counting.notices.lock().clone();
        assert!(
            matches!(notices.as_slice(), [one] if one.contains("pairs about 40000 rows with 40000 rows")),
            "{notices:?}"
        );
        Ok(())
    });
}

#[test]
fn loading_tells_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    check(|session| async move {
        session.sql(&format!("COPY ({ROWS}) TO '{place}/1.csv'")).await?;
        session.sql(&format!("COPY ({ROWS}) TO '{place}/2.csv'")).await?;
        session.sql("CREATE TABLE t (a BIGINT, b VARCHAR)").await?;
        let counting = Arc::new(Counting::default());
        session.set_progress(Some(counting.clone()));
        session.sql(&format!("COPY t FROM '{place}/*.csv'")).await?;
        let total = counting.total.load(Ordering::Relaxed);
        assert!(total > 1_000_000);
        assert_eq!((counting.done.load(Ordering::Relaxed), counting.ended.load(Ordering::Relaxed)), (total, 1));
        assert_eq!(number(&session, "SELECT sum(a) FROM t").await?, 300_000 * 300_001);
        Ok(())
    });
}

#[test]
fn a_running_query_tells_how_much_it_has_read() {
    check(|session| async move {
        session.sql("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 4000000)").await?;
        assert_eq!(session.share_read(), None);
        // The zones of one half are pruned.
        let query = session.sql("SELECT a FROM t WHERE a > 2000000").await?;
        let Outcome::Rows { mut stream, .. } = query else { panic!("rows") };
        let mut shares = vec![session.share_read().expect("it runs")];
        while let Some(batch) = stream.next().await {
            batch?;
            shares.push(session.share_read().expect("it runs"));
        }
        assert!(shares[1] >= 0.5 && shares[1] < 1.0, "after the first rows: {}", shares[1]);
        assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
        drop(stream);
        assert_eq!(session.share_read(), None, "it is over");
        Ok(())
    });
}

#[test]
fn a_loaded_file_keeps_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    check(|session| async move {
        session.sql(&format!("COPY ({ROWS} ORDER BY a) TO '{place}/t.parquet'")).await?;
        session.sql(&format!("CREATE TABLE t AS SELECT a FROM '{place}/t.parquet' WHERE a % 3 <> 0")).await?;
        let zones =
            "SELECT count(*) FROM freestone_zones('t') WHERE CAST(max AS BIGINT) - CAST(min AS BIGINT) > 2 * rows";
        assert_eq!(number(&session, zones).await?, 0);
        Ok(())
    });
}

#[test]
fn what_is_committed_is_there_when_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let read_only = || Options { read_only: true, ..options() };
    let missing = Database::open(&path, read_only()).err().expect("nothing to read");
    assert!(matches!(missing.kind(), ErrorKind::NotFound | ErrorKind::Io), "{missing}");
    block_on(async {
        let session = Database::open(&path, options())?.session();
        session.sql(&format!("CREATE TABLE t WITH (design = 'row') AS {ROWS}")).await?;
        session.sql("CREATE VIEW v AS SELECT * FROM t WHERE a <= 10").await?;
        session.sql("INSERT INTO t VALUES (5, 'again')").await?;
        session.sql("UPDATE t SET b = 'changed' WHERE a = 6").await?;
        session.sql("DELETE FROM t WHERE a = 7").await?;
        session.sql("INSERT INTO t VALUES (NULL)").await.err().expect("two columns are needed");
        drop(session);
        let session = Database::open(&path, read_only())?.session();
        assert_eq!(number(&session, "SELECT count(*) FROM v").await?, 10);
        assert_eq!(number(&session, "SELECT sum(a) FROM v WHERE b IN ('changed', 'again')").await?, 11);
        let error = session.sql("DELETE FROM t").await.err().expect("it is read-only");
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert_eq!(number(&session, "SELECT count(*) FROM t").await?, 300_000);
        Ok::<(), freestone::Error>(())
    })
    .unwrap();
}

#[test]
fn columns_of_one_name_keep_it() {
    check(async |session| {
        let names = |schema: &arrow::datatypes::Schema| -> Vec<String> {
            schema.fields().iter().map(|field| field.name().clone()).collect()
        };
        session.sql("CREATE TABLE t AS SELECT 1 AS a, 2 AS b").await?;
        for (sql, expected) in [
            ("SELECT a, b AS x, a, a AS x FROM t", &["a", "x", "a", "x"][..]),
            ("SELECT *, a FROM t", &["a", "b", "a"]),
            ("SELECT b, b, b FROM t ORDER BY b", &["b", "b", "b"]),
        ] {
            let statement = &parse_script(sql)[0];
            let Outcome::Rows { schema, stream } = session.execute(statement).await? else { panic!("{sql}: no rows") };
            assert_eq!(names(&schema), expected, "{sql}");
            let batches: Vec<RecordBatch> = stream.map(|batch| batch.expect(sql)).collect().await;
            assert_eq!((names(&batches[0].schema()), batches[0].num_rows()), (names(&schema), 1), "{sql}");
            let planned = session.schema(statement, Inputs::default()).await?.expect(sql);
            assert_eq!(names(&planned), expected, "{sql}");
            let described = session.describe_statement(statement, &[]).await?.schema.expect(sql);
            assert_eq!(names(&described), expected, "{sql}");
        }
        session.sql("INSERT INTO t SELECT a, a FROM t").await?;
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE b = 1").await?, 1);
        let Outcome::Rows { schema, .. } = session.sql("SELECT 1, 1").await? else { panic!("no rows") };
        assert_eq!(schema.field(0).name(), schema.field(1).name());
        Ok(())
    });
}

#[test]
fn one_statement_is_one_statement() {
    check(|session| async move {
        assert_eq!(session.sql("SELECT 1; SELECT 2").await.err().expect("two").kind(), ErrorKind::Syntax);
        assert_eq!(session.sql(" -- nothing").await.err().expect("none").kind(), ErrorKind::Syntax);
        Ok(())
    });
}

#[test]
fn statements_read_the_tables_that_they_are_given() {
    check(|session| async move {
        session.sql("CREATE TABLE native AS SELECT 7 AS a").await?;
        session.sql("CREATE VIEW v AS SELECT * FROM native").await?;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
        let batch = RecordBatch::try_from_iter([("a", ids)]).expect("a batch");
        let held = ArrowTable::of_batches(&batch.schema(), [batch.clone()])?;
        let again = batch.clone();
        let read = ArrowTable::of_reader(&batch.schema(), move || {
            let batches = [again.clone(), again.clone()].map(Ok);
            Ok(Box::new(RecordBatchIterator::new(batches, again.schema())) as _)
        });
        let tables: HashMap<_, _> = [("held", &held), ("read", &read), ("native", &held), ("t", &held)]
            .map(|(name, table)| (name.to_owned(), table.clone()))
            .into();
        let inputs = Inputs { tables: Arc::new(tables), ..Inputs::default() };
        let ask = |sql: &'static str, values: Vec<ScalarValue>| {
            let inputs = Inputs { values, ..inputs.clone() };
            let session = &session;
            async move {
                let statement = parse_script(sql).remove(0);
                let batches = session.execute_with_inputs(&statement, inputs).await?.collect().await?;
                let column = batches.first().map(|batch| integer(batch.column(0)));
                Ok::<_, freestone::Error>(column)
            }
        };
        assert_eq!(ask("SELECT sum(a) FROM held", vec![]).await?, Some(19_999_900_000));
        assert_eq!(ask("SELECT count(*) FROM Read r JOIN held USING (a)", vec![]).await?, Some(400_000));
        assert_eq!(ask("SELECT a FROM native", vec![]).await?, Some(7), "tables of the database win");
        assert_eq!(ask("CREATE TABLE t AS SELECT * FROM t WHERE a < ?", vec![ScalarValue::from(10)]).await?, None);
        assert_eq!(ask("INSERT INTO t SELECT * FROM read WHERE a = $n", vec![ScalarValue::from(5)]).await?, None);
        assert_eq!(ask("SELECT count(*) FROM t", vec![]).await?, Some(12));
        ask("CREATE VIEW w AS SELECT * FROM held", vec![]).await.expect_err("a view would outlive it");
        let many = vec![ScalarValue::from(1), ScalarValue::from(2)];
        let error = ask("SELECT $1 FROM held", many).await.expect_err("two values for one parameter");
        assert_eq!(error.to_string(), "the statement has 1 parameters and was given 2");
        let missing = |sql: &str| session.missing_tables(&parse_script(sql)[0]);
        let sql = "WITH c AS (SELECT * FROM x) SELECT * FROM c, native, v, 'f.csv', \"Y\" WHERE 1 IN (SELECT a FROM Z)";
        assert_eq!(missing(sql)?, ["Y", "x", "z"]);
        assert_eq!(missing("COPY (SELECT * FROM x) TO 'f.csv'")?, ["x"]);
        assert_eq!(missing("INSERT INTO x SELECT * FROM z")?, ["z"]);
        for made in
            ["CREATE TABLE x (a INT)", "CREATE TABLE x AS SELECT 1", "CREATE VIEW x AS SELECT 1", "DROP TABLE x"]
        {
            assert!(missing(made)?.is_empty(), "{made}");
        }
        assert!(missing("VACUUM")?.is_empty());
        let statement = parse_script("SELECT a, 1 + 1.5 AS b FROM held").remove(0);
        let schema = session.schema(&statement, inputs.clone()).await?.expect("a query");
        let types: Vec<_> = schema.fields().iter().map(|field| type_name(field.data_type())).collect();
        assert_eq!(types, ["BIGINT", "DECIMAL(22,1)"]);
        assert!(session.schema(&parse_script("VACUUM")[0], inputs.clone()).await?.is_none());
        Ok(())
    });
}
