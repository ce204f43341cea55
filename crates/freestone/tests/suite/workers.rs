//! Queries that three workers share give the rows of one process. Each worker has the database open for itself, and gets
//! its tasks as messages.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use freestone::cluster::{KnownWorkers, Piece, Task, TaskError, TaskRows, WorkerState, Workers};
use freestone::{Database, Options, Session, TaskRunner};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde_json::Value;

use crate::cluster::{queries, star};
use crate::rows::{answer, run};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three workers.
pub struct Three {
    runners: Vec<Arc<TaskRunner>>,
    /// Tasks that have begun.
    pub tasks: AtomicUsize,
    /// Parts that a worker has given to another one.
    pub claimed: AtomicUsize,
    /// Why tasks did not begin.
    pub refused: Mutex<Vec<String>>,
    /// This worker begins its tasks later, and gives parts of them back until then.
    slow: Mutex<Option<&'static str>>,
    held: Arc<Mutex<HashMap<u64, Vec<Value>>>>,
}

impl Three {
    pub fn of(database: &Path) -> freestone::Result<Arc<Three>> {
        let open = |_| {
            let options = Options { read_only: true, threads: 1, memory_limit: Some(1 << 29), ..Options::default() };
            Ok(Arc::new(TaskRunner::new(Database::open(database, options)?)?))
        };
        let runners = NAMES.iter().map(open).collect::<freestone::Result<Vec<_>>>()?;
        Ok(Arc::new(Three {
            runners,
            tasks: AtomicUsize::new(0),
            claimed: AtomicUsize::new(0),
            refused: Mutex::default(),
            slow: Mutex::default(),
            held: Arc::default(),
        }))
    }

    fn runner(&self, address: &str) -> &Arc<TaskRunner> {
        let at = NAMES.iter().position(|name| *name == address).expect("one of three");
        &self.runners[at]
    }
}

impl std::fmt::Debug for Three {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Three")
    }
}

impl KnownWorkers for Three {
    fn states(&self) -> Vec<WorkerState> {
        vec![]
    }
}

#[async_trait]
impl Workers for Three {
    fn ready(&self) -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }

    async fn run(&self, address: &str, task: &Task) -> Result<TaskRows, TaskError> {
        let message = task.encode().expect("a message");
        let runner = self.runner(address).clone();
        self.tasks.fetch_add(1, Ordering::Relaxed);
        if *self.slow.lock() == Some(address) {
            return Ok(held(runner, &message, self.held.clone()));
        }
        let ran = runner.run(&Task::decode(&message).expect("a task")).await;
        ran.map(|(_, rows)| rows).inspect_err(|error| self.refused.lock().push(format!("{error:?}")))
    }

    async fn release(&self, address: &str, task: u64, turn: usize) -> Result<Vec<Piece>, TaskError> {
        let given = match self.held.lock().get_mut(&task) {
            Some(parts) => {
                let given = parts.split_off(parts.len().div_ceil(2));
                serde_json::from_value(Value::Array(given)).expect("parts")
            }
            None => self.runner(address).release(task, turn),
        };
        self.claimed.fetch_add(given.len(), Ordering::Relaxed);
        Ok(given)
    }
}

/// The rows of a task that begins after some time, with the parts that it has then.
fn held(runner: Arc<TaskRunner>, message: &[u8], tasks: Arc<Mutex<HashMap<u64, Vec<Value>>>>) -> TaskRows {
    let mut task: Value = serde_json::from_slice(message).expect("JSON");
    let id = task["id"].as_u64().expect("a number");
    tasks.lock().insert(id, task["pieces"].as_array().expect("parts").clone());
    let later = async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        task["pieces"] = Value::Array(tasks.lock().remove(&id).expect("its parts"));
        let task = Task::decode(task.to_string().as_bytes()).expect("a task");
        runner.run(&task).await.map(|(_, rows)| rows)
    };
    later.into_stream().try_flatten().boxed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_workers_claim_what_a_slow_one_has_not_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = shared(folder.path(), false);
    let session = database.session();
    for sql in [
        "CREATE TABLE t AS SELECT i AS a, i % 1000 AS k FROM range(1600000) AS r(i)",
        "CREATE TABLE d AS SELECT i AS k, i % 7 AS g FROM range(1000) AS r(i)",
    ] {
        run(&session, sql).await;
    }
    let workers =
        Three::of(Path::new(&format!("file://{}", folder.path().join("database").display()))).expect("workers");
    database.set_workers(workers.clone());
    for query in [
        "SELECT k % 10 AS g, count(*), sum(a), min(a), max(a) FROM t GROUP BY 1 ORDER BY 1",
        "SELECT count(*), sum(a) FROM t WHERE a % 3 = 1",
        "SELECT g, count(*), sum(a) FROM t JOIN d USING (k) GROUP BY 1 ORDER BY 1",
        "SELECT a FROM t WHERE k = 7 ORDER BY a DESC LIMIT 5",
    ] {
        on_workers(&session, false).await;
        let expected = answer(&session, query).await;
        on_workers(&session, true).await;
        for slow in NAMES {
            *workers.slow.lock() = Some(slow);
            assert_eq!(answer(&session, query).await, expected, "{query}");
            let claimed = workers.claimed.swap(0, Ordering::Relaxed);
            assert!(claimed > 0, "nothing was claimed of {slow}: {query}");
        }
        let plan = answer(&session, &format!("EXPLAIN ANALYZE {query}")).await;
        assert!(plan.contains("claimed from c"), "{plan}");
        run(&session, "SET distribution_claims = off").await;
        workers.claimed.store(0, Ordering::Relaxed);
        assert_eq!(answer(&session, query).await, expected, "{query}");
        assert_eq!(workers.claimed.load(Ordering::Relaxed), 0);
        run(&session, "SET distribution_claims = on").await;
    }
    assert_eq!(*workers.refused.lock(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_workers_do_not_make_smaller_runs_here_the_next_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = shared(folder.path(), false);
    let session = database.session();
    run(&session, "CREATE TABLE t AS SELECT i AS a, i % 400000 AS k FROM range(800000) AS r(i)").await;
    let workers =
        Three::of(Path::new(&format!("file://{}", folder.path().join("database").display()))).expect("workers");
    database.set_workers(workers.clone());
    on_workers(&session, true).await;
    for (query, is_divided_again) in [
        ("SELECT count(*), max(c) FROM (SELECT k, count(*) AS c FROM t GROUP BY k)", false),
        ("SELECT count(*), max(c) FROM (SELECT k % 1000, count(*) AS c FROM t GROUP BY 1)", true),
    ] {
        let mut answers = vec![];
        for is_divided in [true, is_divided_again] {
            let before = workers.tasks.load(Ordering::Relaxed);
            answers.push(answer(&session, query).await);
            assert_eq!(workers.tasks.load(Ordering::Relaxed) > before, is_divided, "{query}");
        }
        assert_eq!(answers[0], answers[1]);
    }
}

/// A database in a folder that processes share.
fn shared(folder: &Path, read_only: bool) -> Arc<Database> {
    let url = format!("file://{}", folder.join("database").display());
    Database::open(url, Options { threads: 2, read_only, ..Options::default() }).expect("a database")
}

async fn on_workers(session: &Session, are_wanted: bool) {
    let threshold = if are_wanted { 0 } else { i32::MAX };
    run(session, &format!("SET distribution_threshold = {threshold}")).await;
}

/// Commits, merges and conversions until they are told to end.
async fn change(database: Arc<Database>, ends: Arc<AtomicBool>) -> usize {
    let session = database.session();
    let mut rounds = 0;
    while !ends.load(Ordering::Relaxed) {
        let design = ["row", "column", "pax", "auto"][rounds % 4];
        for sql in [
            format!("INSERT INTO plain SELECT cust, day, part, x + {rounds} FROM plain WHERE x % 50 = {}", rounds % 50),
            format!("DELETE FROM plain WHERE x % 51 = {}", rounds % 51),
            format!("UPDATE cust SET region = 'r{}' WHERE id % 5 = {}", rounds % 6, rounds % 5),
            format!("ALTER TABLE plain SET DESIGN (design = '{design}')"),
            "VACUUM".to_owned(),
        ] {
            run(&session, &sql).await;
        }
        rounds += 1;
    }
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_star_joins_answer_alike_while_another_process_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = shared(folder.path(), false);
    let session = database.session();
    star(&session).await;
    // Enough rows for several morsels.
    for _ in 0..2 {
        run(&session, "INSERT INTO plain SELECT * FROM plain").await;
    }
    run(&session, "VACUUM").await;
    let workers =
        Three::of(Path::new(&format!("file://{}", folder.path().join("database").display()))).expect("workers");
    database.set_workers(workers.clone());
    let ends = Arc::new(AtomicBool::new(false));
    let changes = tokio::spawn(change(shared(folder.path(), false), ends.clone()));
    let count = std::env::var("FREESTONE_STAR_JOINS").map_or(60, |count| count.parse().expect("a number"));
    for query in queries(11, count) {
        let query = query.replace("{fact}", "plain");
        // Both read one snapshot, which others have left behind.
        run(&session, "BEGIN").await;
        on_workers(&session, false).await;
        let expected = answer(&session, &query).await;
        on_workers(&session, true).await;
        assert_eq!(answer(&session, &query).await, expected, "{query}");
        run(&session, "COMMIT").await;
    }
    ends.store(true, Ordering::Relaxed);
    let rounds = changes.await.expect("the changes succeed");
    assert!(rounds > 0, "nothing was changed");
    assert_eq!(*workers.refused.lock(), Vec::<String>::new());
    let tasks = workers.tasks.load(Ordering::Relaxed);
    assert!(tasks >= count, "{tasks} tasks of {count} queries");
}
