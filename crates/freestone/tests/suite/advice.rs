//! ADVISE in a session: the queries that win and lose, and the statements that apply and undo the advice.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use freestone::{Access, Database, Options, Session};

/// Twelve columns in rows, of which the queries read two.
const TABLE: &str = "CREATE TABLE t WITH (design = 'row') AS SELECT value AS c0, value % 7 AS c1, value % 1000 AS c2, value AS c3, \
                     value AS c4, value AS c5, value AS c6, value AS c7, value AS c8, value AS c9, value AS c10, value AS c11 \
                     FROM range(60000)";
const QUERY: &str = "SELECT sum(c1) FROM t WHERE c2 < 500";

async fn database() -> std::sync::Arc<Database> {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
    let session = database.session();
    session.sql(TABLE).await.expect("made");
    for _ in 0..3 {
        session.sql(QUERY).await.expect("planned").collect().await.expect("rows");
    }
    database
}

async fn advice(session: &Session, sql: &str) -> RecordBatch {
    session.sql(sql).await.expect("advice").collect().await.expect("rows").remove(0)
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let values = cast(batch.column_by_name(column).expect(column), &DataType::Utf8).expect("texts");
    values.as_string::<i32>().iter().map(|text| text.expect("not NULL").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_names_winners_and_undoes_itself() {
    let database = database().await;
    let batch = advice(&database.session(), "ADVISE t COPIES 1").await;
    let (kinds, reverts) = (texts(&batch, "advice"), texts(&batch, "revert"));
    let lists = batch.column_by_name("queries").expect("queries").as_list::<i32>();
    assert!(kinds.len() > 1 && matches!(kinds[0].as_str(), "now" | "keep"), "{kinds:?}");
    assert!(reverts[0].is_empty() && lists.value(0).is_empty(), "the present design is compared with nothing");
    for (at, revert) in reverts.iter().enumerate().skip(1) {
        assert!(revert.starts_with("ALTER TABLE \"t\" SET DESIGN (preset = 'row'"), "{revert}");
        let (queries, list) = (lists.value(at), lists.value(at));
        let (queries, list) = (queries.as_struct(), list.as_struct());
        let text = cast(queries.column_by_name("query").expect("query"), &DataType::Utf8).expect("texts");
        assert!(text.as_string::<i32>().value(0).contains("sum(c1)"), "{text:?}");
        let number = |name: &str| list.column_by_name(name).expect(name).as_primitive::<Float64Type>().value(0);
        assert_eq!(number("weight"), 3.0);
        assert!(number("now_ms") > 0.0 && number("then_ms") > 0.0 && number("ratio") > 0.0);
    }
}

/// Rows that arrived by day, and are sorted by another column if the advice is applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_reverted_table_has_its_rows_where_they_were() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("a database");
    let session = database.session();
    let table = "CREATE TABLE t WITH (preset = 'row') AS SELECT value / 500 AS day, value AS id, value * 7919 % 100003 AS customer, \
                 value % 7 AS amount FROM range(200000)";
    session.sql(table).await.expect("made");
    for customer in 0..5 {
        let query = format!("SELECT sum(amount) FROM t WHERE customer BETWEEN {customer}000 AND {customer}100");
        session.sql(&query).await.expect("planned").collect().await.expect("rows");
    }
    let stored = "SELECT design, bytes FROM freestone_tables()";
    let zones = "SELECT segment, zone, \"rows\", \"column\", min, max FROM freestone_zones('t') ORDER BY ALL";
    let before = (advice(&session, stored).await, advice(&session, zones).await);
    let batch = advice(&session, "ADVISE t COPIES 1").await;
    let (kinds, designs) = (texts(&batch, "advice"), texts(&batch, "design"));
    let at = designs.iter().position(|design| design.contains("sort = 'customer")).expect("a design that sorts");
    assert_ne!(kinds[at], "now");
    session.sql(&texts(&batch, "apply")[at]).await.expect("applied");
    assert_ne!(advice(&session, zones).await, before.1);
    session.sql(&texts(&batch, "revert")[at]).await.expect("reverted");
    assert_eq!((advice(&session, stored).await, advice(&session, zones).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_copy_can_be_restored() {
    let database = database().await;
    let session = database.session();
    session.sql("ALTER TABLE t ADD COPY useless (c9) WITH (sort = 'c9')").await.expect("made");
    let batch = advice(&session, "ADVISE t COPIES 1").await;
    let (kinds, applies, reverts) = (texts(&batch, "advice"), texts(&batch, "apply"), texts(&batch, "revert"));
    let at = kinds.iter().position(|kind| kind == "unused").expect("a copy that no query reads");
    let copies = "SELECT name, columns, design FROM freestone_copies()";
    let before = advice(&session, copies).await;
    session.sql(&applies[at]).await.expect("dropped");
    assert_eq!(
        session
            .sql(copies)
            .await
            .expect("rows")
            .collect()
            .await
            .expect("rows")
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        0
    );
    session.sql(&reverts[at]).await.expect("restored");
    assert_eq!(advice(&session, copies).await, before);
}

/// The log adds up what all users run, so only administrators see its statements.
#[tokio::test(flavor = "multi_thread")]
async fn advice_shows_statements_to_administrators() {
    let database = database().await;
    let reader = database.session_with(Access { admin: false, ..Access::default() });
    let batch = advice(&reader, "ADVISE t COPIES 1").await;
    let lists = batch.column_by_name("queries").expect("queries").as_list::<i32>();
    let queries = lists.value(1);
    let names = queries.as_struct().column_by_name("query").expect("query").clone();
    assert!(!names.is_empty());
    assert_eq!(names.null_count(), names.len(), "{names:?}");
}
