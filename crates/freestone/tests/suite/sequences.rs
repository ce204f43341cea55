//! Sequences: no number is given twice, by any number of sessions, and also after the process was killed.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use freestone::{Database, Options, Session};

fn open(path: &Path) -> Arc<Database> {
    Database::open(path, Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() }).unwrap()
}

async fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_a_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("db"));
    database.session().sql("CREATE SEQUENCE s").await.unwrap();
    database.session().sql("CREATE TABLE t (id BIGSERIAL PRIMARY KEY, session INT)").await.unwrap();
    let mut tasks = vec![];
    for session in 0..4 {
        let database = database.clone();
        tasks.push(tokio::spawn(async move {
            let own = database.session();
            let mut given = vec![];
            for round in 0..20 {
                given.extend(
                    numbers(&own, &format!("SELECT nextval('s') FROM generate_series(1, {})", 1 + round * 7)).await,
                );
                own.sql(&format!("INSERT INTO t (session) VALUES ({session}), ({session})")).await.unwrap();
            }
            given
        }));
    }
    let mut all = HashSet::new();
    let mut count = 0;
    for task in tasks {
        for number in task.await.unwrap() {
            count += 1;
            assert!(all.insert(number), "{number} was given twice");
        }
    }
    assert_eq!((all.len(), *all.iter().max().unwrap()), (count, count as i64));
    let session = database.session();
    assert_eq!(numbers(&session, "SELECT count(DISTINCT id)::BIGINT FROM t").await, [160]);
}

/// The folder of a killed process has what the log has: so does a copy of the folder at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_gave_no_number_that_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().join("0");
    let mut last = 0;
    for round in 1..6 {
        let own = path.clone();
        let database = open(&own);
        let session = database.session();
        if round == 1 {
            session.sql("CREATE SEQUENCE s").await.unwrap();
        }
        for count in [1, 40, 3] {
            let given = numbers(&session, &format!("SELECT nextval('s') FROM generate_series(1, {count})")).await;
            assert!(given[0] > last && given.windows(2).all(|two| two[1] == two[0] + 1), "{given:?} after {last}");
            last = *given.last().unwrap();
            let next = folder.path().join(format!("{round}-{count}"));
            copy_folder(&own, &next);
            if count == 3 {
                path = next;
            }
        }
        if round == 3 {
            session.sql("SELECT setval('s', 10000)").await.unwrap().collect().await.unwrap();
            last = 10_000;
            let next = folder.path().join("set");
            copy_folder(&own, &next);
            path = next;
        }
    }
}

/// A transaction that is rolled back leaves nothing of the sequences that it created, and one that commits keeps their
/// numbers over the end of the process.
#[tokio::test(flavor = "multi_thread")]
async fn new_sequences_share_the_fate_of_their_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let given = |batches: Vec<arrow::array::RecordBatch>| {
        use arrow::array::AsArray;
        batches[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
    };
    {
        let database = Database::open(&path, Options::default()).expect("opens");
        let session = database.session();
        for sql in ["BEGIN", "CREATE SEQUENCE s", "SELECT nextval('s')", "ROLLBACK"] {
            session.sql(sql).await.expect(sql).collect().await.expect(sql);
        }
        let snapshot = database.store().snapshot().expect("a snapshot");
        assert_eq!(snapshot.all_objects().count(), 0);
        for sql in ["BEGIN", "CREATE SEQUENCE s", "SELECT nextval('s')", "COMMIT"] {
            session.sql(sql).await.expect(sql).collect().await.expect(sql);
        }
    }
    let database = Database::open(&path, Options::default()).expect("opens");
    let next = database.session().sql("SELECT nextval('s')").await.expect("works").collect().await.expect("rows");
    assert!(given(next) > 1, "no number is given twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_shown_with_the_options_of_their_sequences() {
    let session = Database::in_memory(Options::default()).expect("a database").session();
    let sql = "CREATE TABLE t (a INTEGER GENERATED ALWAYS AS IDENTITY (INCREMENT BY -5 MINVALUE -100 START WITH -1 CYCLE) \
               NOT NULL, b BIGINT GENERATED BY DEFAULT AS IDENTITY NOT NULL, c SMALLSERIAL NOT NULL)";
    session.sql(sql).await.expect("made");
    let shown = async || {
        let rows = session.sql("SHOW CREATE TABLE t").await.expect("shown").collect().await.expect("rows");
        rows[0].column(1).as_string_view().value(0).to_owned()
    };
    let first = shown().await;
    for part in
        ["ALWAYS AS IDENTITY (INCREMENT BY -5 MINVALUE -100 CYCLE)", "BY DEFAULT AS IDENTITY NOT NULL", "SMALLSERIAL"]
    {
        assert!(first.contains(part), "{part}: {first}");
    }
    session.sql("DROP TABLE t").await.expect("dropped");
    session.sql(&first).await.expect("made again");
    assert_eq!(shown().await, first);
}
