//! Several processes on one database: workers that share the queries of a server, and what happens when they are not there.
//!
//! All tests share one database, which the first of them makes.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use freestone::cluster::{KnownWorkers, Piece, Task, TaskError, TaskRows, WorkerState, Workers};
use freestone::{Database, ErrorKind, Options, TaskRunner};
use freestone_cluster::{Worker, WorkerOptions};
use freestone_data::queries::{SSB_SCHEMA, ssb_queries, tpch_queries};
use freestone_data::{ssb, tpch};
use futures::StreamExt;
use tempfile::TempDir;

const SCALE: f64 = 0.1;
const SECRET: &str = "a-secret-of-tests-0123456789";
const PATIENCE: Duration = Duration::from_secs(60);

/// Queries besides those of the benchmarks: of each form that is divided, and of forms that are not.
const QUERIES: [&str; 16] = [
    "SELECT count(*), sum(l_quantity), min(l_shipdate), max(l_comment), avg(l_discount) FROM lineitem WHERE l_tax > 0.01",
    "SELECT l_returnflag, count(DISTINCT l_suppkey) FROM lineitem GROUP BY 1 ORDER BY 1",
    "SELECT l_orderkey, l_linenumber FROM lineitem WHERE l_quantity > 10 ORDER BY l_extendedprice DESC, 1, 2 LIMIT 7",
    "SELECT l_shipmode, stddev(l_quantity) > 1, bool_or(l_tax = 0), bit_xor(l_partkey) FROM lineitem GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM lineitem l LEFT JOIN orders o ON l_orderkey = o_orderkey AND o_totalprice > 100000 WHERE o_orderkey IS NULL",
    "SELECT count(*) FROM orders o RIGHT JOIN lineitem l ON l_orderkey = o_orderkey",
    "SELECT count(*), count(o_orderkey), count(l_orderkey) FROM orders o FULL JOIN lineitem l ON l_orderkey = o_orderkey AND l_tax = 0",
    "SELECT count(*) FROM lineitem WHERE l_partkey NOT IN (SELECT p_partkey FROM part WHERE p_size < 20)",
    "SELECT count(*) FROM lineitem WHERE EXISTS (SELECT 1 FROM orders WHERE o_orderkey = l_orderkey AND o_orderpriority LIKE '1%')",
    "SELECT sum(n) FROM (SELECT count(*) AS n FROM lineitem UNION ALL SELECT count(*) FROM orders)",
    "WITH c AS (SELECT l_suppkey AS s, sum(l_extendedprice) AS e FROM lineitem GROUP BY 1) SELECT count(*), max(a.e) FROM c a JOIN c b USING (s)",
    "SELECT l_linestatus, list(l_linenumber ORDER BY l_orderkey, l_linenumber)[1:3] FROM lineitem GROUP BY 1 ORDER BY 1",
    "SELECT l_shipmode, rank() OVER (ORDER BY count(*)) FROM lineitem GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM lineitem WHERE l_extendedprice > (SELECT avg(l_extendedprice) FROM lineitem)",
    "SELECT grouping(l_returnflag), l_returnflag, l_linestatus, count(*) FROM lineitem GROUP BY ROLLUP (l_returnflag, l_linestatus) ORDER BY 1, 2, 3",
    "SELECT upper(v), count(*) FROM (SELECT CASE WHEN a % 3 = 0 THEN NULL ELSE m::VARCHAR END AS v FROM moods) GROUP BY 1 ORDER BY 1",
];

/// The database of all tests.
struct Data {
    folder: PathBuf,
}

impl Data {
    fn shared() -> &'static Data {
        static DATA: OnceLock<Data> = OnceLock::new();
        DATA.get_or_init(Data::make)
    }

    fn make() -> Data {
        // What lives as long as the process is not dropped, so this is no temporary folder: the next run removes it.
        let data = Data { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster") };
        let _ = fs::remove_dir_all(&data.folder);
        fs::create_dir_all(&data.folder).expect("a folder");
        let files = data.folder.join("files");
        fs::create_dir(&files).expect("a folder");
        tpch::write_parquet(&files, SCALE).expect("files");
        let others = data.folder.join("ssb");
        fs::create_dir(&others).expect("a folder");
        ssb::write_parquet(&others, SCALE, ssb::SEED).expect("files");
        let mut script = String::new();
        for table in tpch::tables() {
            script += &format!("CREATE TABLE {table} AS SELECT * FROM '{}/{table}.parquet';\n", files.display());
        }
        script += &of_ssb(SSB_SCHEMA);
        for table in ssb::tables() {
            let name = of_ssb(table);
            script += &format!("COPY {name} FROM '{}/{table}.parquet' (FORMAT parquet);\n", others.display());
        }
        script += "CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');\n";
        script += "CREATE TABLE moods AS SELECT a, (['sad', 'ok', 'glad'])[1 + a % 3]::mood AS m FROM range(200000) AS r(a);\n";
        script += "DELETE FROM moods WHERE a % 7 = 0; INSERT INTO moods VALUES (1, 'glad'), (2, NULL);\n";
        let output = freestone(&[&data.url(), "-f", "-"], &script);
        assert!(output.status.success(), "{}", text(&output.stderr));
        write_token(&data.token(), SECRET);
        data
    }

    fn url(&self) -> String {
        format!("file://{}", self.folder.join("database").display())
    }

    fn token(&self) -> PathBuf {
        self.folder.join("token")
    }
}

fn write_token(path: &Path, token: &str) {
    fs::write(path, token).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
    command.args(arguments).env_remove("FREESTONE_PASSWORD");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn freestone(arguments: &[&str], input: &str) -> Output {
    use std::io::Write;
    let mut child = command(arguments).spawn().expect("the binary starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the process ends")
}

/// A process that listens, and ends with the test.
struct Process {
    child: Child,
    lines: Receiver<String>,
    /// What it has printed.
    said: Vec<String>,
}

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut child = command(arguments).spawn().expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Process { child, lines, said: vec![] }
    }

    /// The rest of the next line with this beginning.
    fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{beginning}`: {:?}", self.said));
            self.said.push(line.clone());
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(status.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn worker(more: &[&str]) -> (Process, String) {
    worker_on(&Data::shared().url(), more)
}

fn worker_on(url: &str, more: &[&str]) -> (Process, String) {
    let token = Data::shared().token().display().to_string();
    let given = if more.contains(&"--token-file") { vec![] } else { vec!["--token-file", token.as_str()] };
    let fixed = ["worker", "--store", url, "--listen", "127.0.0.1:0", "--threads", "1"];
    let mut process = Process::start(&[&fixed[..], &given, more].concat());
    let address = process.wait_for("listening: worker://");
    (process, address)
}

fn server(cluster: &str, more: &[&str]) -> (Process, String) {
    server_on(&Data::shared().url(), cluster, more)
}

fn server_on(url: &str, cluster: &str, more: &[&str]) -> (Process, String) {
    let token = Data::shared().token().display().to_string();
    let fixed = ["serve", url, "--cluster", cluster, "--token-file", token.as_str(), "--no-auth"];
    let mut process = Process::start(&[&fixed[..], &["--listen", "127.0.0.1:0", "--threads", "2"], more].concat());
    let address = process.wait_for("listening: freestone://");
    (process, address)
}

/// What a script prints as CSV, on a database or a server.
fn answers(database: &str, script: &str) -> String {
    let output = freestone(&[database, "--format", "csv", "-f", "-"], script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn on_server(address: &str, script: &str) -> String {
    answers(&format!("freestone://{address}"), &format!("SET distribution_threshold = 0;\n{script}"))
}

/// The states of the workers, in the order of their addresses.
fn states(address: &str) -> Vec<(String, String)> {
    let rows = on_server(address, "SELECT address, state FROM freestone_workers() ORDER BY 1");
    let rows = rows.lines().skip(1).filter_map(|line| line.split_once(','));
    rows.map(|(address, state)| (address.to_owned(), state.to_owned())).collect()
}

fn wait_for_state(server: &str, worker: &str, expected: &str) {
    let began = Instant::now();
    loop {
        let states = states(server);
        if states.iter().any(|(address, state)| address == worker && state == expected) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{worker} does not become {expected}: {states:?}");
        sleep(Duration::from_millis(100));
    }
}

/// The tables of SSB have other names here than those of TPC-H.
fn of_ssb(sql: &str) -> String {
    let mut renamed = String::new();
    for part in sql.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let word = part.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let is_shared = ["customer", "part", "supplier"].contains(&word);
        renamed += if is_shared { "ssb_" } else { "" };
        renamed += part;
    }
    renamed
}

/// A script that names each query before its rows.
fn all_queries() -> String {
    let mut script = String::new();
    let mut add = |name: &str, sql: &str| {
        let sql = sql.trim().trim_end_matches(';');
        script += &format!("SELECT '{name}' AS query;\n{sql};\n");
    };
    ssb_queries().into_iter().for_each(|(name, sql)| add(&format!("ssb {name}"), &of_ssb(sql)));
    tpch_queries().into_iter().for_each(|(name, sql)| add(&format!("tpch {name}"), sql));
    QUERIES.iter().enumerate().for_each(|(at, sql)| add(&format!("query {at}"), sql));
    script
}

/// Compares answers line by line; numbers may differ in their last digits, because sums of floats are in another order.
fn check_same(found: &str, expected: &str) {
    let same = |a: &str, b: &str| {
        a == b
            || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if (a - b).abs() <= 1e-9 * a.abs().max(1.0))
    };
    let (mut query, mut lines) = ("", 0);
    for (found, expected) in found.lines().zip(expected.lines()) {
        if found.starts_with("ssb ") || found.starts_with("tpch ") || found.starts_with("query ") {
            query = found;
        }
        let (f, e): (Vec<&str>, Vec<&str>) = (found.split(',').collect(), expected.split(',').collect());
        let is_same = f.len() == e.len() && f.iter().zip(&e).all(|(f, e)| same(f, e));
        assert!(is_same, "{query}: {found} instead of {expected}");
        lines += 1;
    }
    assert_eq!((found.lines().count(), expected.lines().count()), (lines, lines), "after {query}");
}

const GROUPS: &str =
    "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2";

#[test]
fn three_workers_give_one_machines_rows() {
    let workers: Vec<(Process, String)> = (0..3).map(|_| worker(&[])).collect();
    let addresses: Vec<&str> = workers.iter().map(|(_, address)| address.as_str()).collect();
    let (_server, address) = server(&addresses.join(","), &[]);
    let script = all_queries();
    let expected = answers(&Data::shared().url(), &script);
    check_same(&on_server(&address, &script), &expected);
    // By a plan that was kept, and with values.
    let twice = on_server(&address, &format!("{GROUPS}; {GROUPS}"));
    assert_eq!(twice, answers(&Data::shared().url(), &format!("{GROUPS}; {GROUPS}")));
    let prepared = "PREPARE p AS SELECT count(*) FROM lineitem WHERE l_quantity < $1; EXECUTE p(10); EXECUTE p(30);";
    assert_eq!(on_server(&address, prepared), answers(&Data::shared().url(), prepared));
    let run =
        on_server(&address, "SELECT count(*), min(tasks_run) > 10 FROM freestone_workers() WHERE state = 'ready'");
    assert_eq!(run.lines().nth(1), Some("3,true"), "{run}");
    let plan = on_server(&address, &format!("SET distribution_claims = off; EXPLAIN ANALYZE {GROUPS}"));
    let tasks = plan.matches("Task: 127.0.0.1:").count();
    assert!(plan.contains("Distributed: ") && tasks == 3 && !plan.contains("this server"), "{plan}");
    let threshold =
        answers(&format!("freestone://{address}"), "EXPLAIN ANALYZE SELECT count(*) FROM region WHERE r_name > 'A'");
    assert!(threshold.contains("below distribution_threshold = 20 ms") && !threshold.contains("Task"), "{threshold}");
    let random = on_server(&address, "EXPLAIN ANALYZE SELECT count(*) FROM lineitem WHERE l_tax < random()");
    assert!(random.contains("not distributed: ") && !random.contains("Task"), "{random}");
    // What others commit is read at once, on all workers.
    let commit = "CREATE TABLE IF NOT EXISTS grown (a INT); INSERT INTO grown SELECT a FROM range(200000) AS r(a);";
    answers(&Data::shared().url(), commit);
    for rows in [200_000, 400_000] {
        let sum = on_server(&address, "SELECT count(*), sum(a) FROM grown WHERE a >= 0");
        assert_eq!(sum.lines().nth(1), Some(format!("{rows},{}", rows / 200_000 * 19_999_900_000u64).as_str()));
        answers(&Data::shared().url(), commit);
    }
}

#[test]
fn workers_read_the_commit_that_the_server_reads() {
    let folder = TempDir::new().expect("a folder");
    let wait = |name: &str| {
        let path = folder.path().join(name).display().to_string();
        format!("\\! touch {path}.waits; while [ ! -e {path} ]; do sleep 0.05; done\n")
    };
    let (mut server, address) = server("join", &["--cluster-listen", "127.0.0.1:0"]);
    let joined = server.said.iter().find_map(|line| line.strip_prefix("listening: cluster://").map(str::to_owned));
    let joined = joined.unwrap_or_else(|| server.wait_for("listening: cluster://"));
    let early = worker(&["--join", &joined]);
    wait_for_state(&address, &early.1, "ready");
    let url = Data::shared().url();
    answers(&url, "CREATE TABLE versions AS SELECT a FROM range(300000) AS r(a)");
    let count = "SELECT count(*), sum(a) FROM versions WHERE a >= 0";
    // A transaction goes on reading its snapshot while another process commits.
    let script = format!("BEGIN;\n{count};\n{}EXPLAIN ANALYZE {count};\n{count};\nCOMMIT;\n{count};\n", wait("go"));
    let reading = spawn({
        let address = address.clone();
        move || on_server(&address, &script)
    });
    let began = Instant::now();
    while !folder.path().join("go.waits").exists() {
        assert!(began.elapsed() < PATIENCE, "the transaction does not begin");
        sleep(Duration::from_millis(20));
    }
    answers(&url, "DELETE FROM versions WHERE a < 1000; INSERT INTO versions SELECT a FROM range(200000) AS r(a)");
    // The first worker has seen these commits, and the second one has never seen anything else.
    let newer = format!("{},{}", 299_000 + 200_000, 300_000u64 * 299_999 / 2 - 999 * 500 + 199_999 * 100_000);
    assert_eq!(on_server(&address, count).lines().nth(1), Some(newer.as_str()));
    let late = worker(&["--join", &joined]);
    wait_for_state(&address, &late.1, "ready");
    fs::write(folder.path().join("go"), "").expect("written");
    let found = reading.join().expect("the transaction ends");
    let older = format!("{},{}", 300_000, 300_000u64 * 299_999 / 2);
    assert_eq!((found.matches(&older).count(), found.matches(&newer).count()), (2, 1), "{found}");
    let on_workers =
        found.matches(&format!("Task: {}", early.1)).count() + found.matches(&format!("Task: {}", late.1)).count();
    assert!(on_workers == 2 && !found.contains("this server"), "{found}");
}

#[test]
fn the_parts_of_a_lost_worker_go_to_others() {
    let (first, second) = (worker(&[]), worker(&[]));
    let (_server, address) = server(&format!("{},{}", first.1, second.1), &[]);
    let expected = answers(&Data::shared().url(), GROUPS);
    assert_eq!(on_server(&address, GROUPS), expected);
    // The query waits for the worker that does not go on, until that is gone.
    first.0.signal("-STOP");
    let waiting = spawn({
        let address = address.clone();
        move || on_server(&address, &format!("{GROUPS}; EXPLAIN ANALYZE {GROUPS}"))
    });
    sleep(Duration::from_millis(300));
    first.0.signal("-KILL");
    let found = waiting.join().expect("the query ends");
    assert!(found.starts_with(&expected), "{found}");
    wait_for_state(&address, &first.1, "unreachable");
    assert_eq!(on_server(&address, GROUPS), expected);
    // Without any worker, the server does all of it.
    second.0.signal("-KILL");
    wait_for_state(&address, &second.1, "unreachable");
    let plan = on_server(&address, &format!("EXPLAIN ANALYZE {GROUPS}"));
    assert!(plan.contains("no worker is ready"), "{plan}");
    assert_eq!(on_server(&address, GROUPS), expected);
}

#[test]
fn a_worker_that_does_not_answer_is_lost_and_comes_back() {
    let (first, second) = (worker(&[]), worker(&[]));
    let (_server, address) = server(&format!("{},{}", first.1, second.1), &[]);
    let expected = answers(&Data::shared().url(), GROUPS);
    assert_eq!(on_server(&address, GROUPS), expected);
    first.0.signal("-STOP");
    let found = on_server(&address, &format!("EXPLAIN ANALYZE {GROUPS}; {GROUPS}"));
    assert!(found.contains(&format!("{} was lost: ", first.1)) && found.ends_with(&expected), "{found}");
    wait_for_state(&address, &first.1, "unreachable");
    first.0.signal("-CONT");
    wait_for_state(&address, &first.1, "ready");
    let plan = on_server(&address, &format!("EXPLAIN ANALYZE {GROUPS}"));
    assert!(plan.contains(&format!("Task: {}", first.1)) && !plan.contains("was lost"), "{plan}");
    drop(second);
}

#[test]
fn a_worker_that_is_told_to_end_gets_no_more_work() {
    let (mut first, second) = (worker(&[]), worker(&[]));
    let (_server, address) = server(&format!("{},{}", first.1, second.1), &[]);
    let expected = answers(&Data::shared().url(), GROUPS);
    assert_eq!(on_server(&address, GROUPS), expected);
    assert_eq!(common::end(&mut first.0.child, "-TERM", PATIENCE), Some(0));
    assert_eq!(on_server(&address, GROUPS), expected);
    wait_for_state(&address, &first.1, "unreachable");
    wait_for_state(&address, &second.1, "ready");
}

#[test]
fn workers_that_must_not_get_work_are_named() {
    let folder = TempDir::new().expect("a folder");
    let other = folder.path().join("token");
    write_token(&other, "another-secret-of-tests-0123");
    let (_stranger, stranger) = worker(&["--token-file", other.to_str().expect("a path")]);
    let nobody = "127.0.0.1:1";
    // A worker of another version, in this process.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let old = runtime.block_on(async {
        let data = Data::shared();
        let options = Options { read_only: true, ..Options::default() };
        let database = Database::open(data.url(), options).expect("a database");
        let options = WorkerOptions { version: "0.0.9".into(), ..WorkerOptions::new("127.0.0.1:0", data.token()) };
        let worker = Worker::bind(options, database, tokio::runtime::Handle::current()).await.expect("a worker");
        let address = worker.address().replace("worker://", "");
        tokio::spawn(worker.run(std::future::pending()));
        address
    });
    let (server, address) = server(&format!("{stranger},{nobody},{old}"), &[]);
    let expected = answers(&Data::shared().url(), GROUPS);
    assert_eq!(on_server(&address, GROUPS), expected);
    let reasons = on_server(&address, "SELECT address, state, version, reason FROM freestone_workers()");
    for (worker, state, reason) in [
        (stranger.as_str(), "refused", "the token is not that of this cluster"),
        (nobody, "unreachable", "Connection refused"),
        (old.as_str(), "other version", "0.0.9"),
    ] {
        for said in [&reasons, &server.said.join("\n")] {
            let line = said.lines().find(|line| line.contains(worker)).unwrap_or_default();
            assert!(line.contains(state), "{worker}: {said}");
        }
        assert!(reasons.lines().any(|line| line.contains(worker) && line.contains(reason)), "{worker}: {reasons}");
    }
    let all = format!("{reasons}{:?}", server.said);
    assert!(!all.contains(SECRET) && !all.contains("another-secret"), "{all}");
}

/// Workers in this process, of which some fail.
struct Pretended {
    runner: TaskRunner,
    fails: Fails,
}

/// Why a task of a worker fails.
type Fails = fn(&str, &Task) -> Option<TaskError>;

impl std::fmt::Debug for Pretended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pretended")
    }
}

impl KnownWorkers for Pretended {
    fn states(&self) -> Vec<WorkerState> {
        vec![]
    }
}

#[async_trait]
impl Workers for Pretended {
    fn ready(&self) -> Vec<String> {
        ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec()
    }

    async fn run(&self, address: &str, task: &Task) -> Result<TaskRows, TaskError> {
        match (self.fails)(address, task) {
            Some(error) => Err(error),
            None => Ok(self.runner.run(&Task::decode(&task.encode().expect("a message")).expect("a task")).await?.1),
        }
    }

    async fn release(&self, _: &str, task: u64, turn: usize) -> Result<Vec<Piece>, TaskError> {
        Ok(self.runner.release(task, turn))
    }
}

/// The plan of a query as it ran with workers that fail like this.
fn with_failures(fails: Fails) -> freestone::Result<String> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = Options { read_only: true, threads: 2, ..Options::default() };
        let database = Database::open(Data::shared().url(), options)?;
        let runner = TaskRunner::new(database.clone())?;
        database.set_workers(std::sync::Arc::new(Pretended { runner, fails }));
        let session = database.session();
        session.sql("SET distribution_threshold = 0").await?;
        // So that each worker has one task.
        session.sql("SET distribution_claims = off").await?;
        let rows = session.sql(&format!("EXPLAIN ANALYZE {GROUPS}")).await?.collect().await?;
        let plan = arrow::util::display::array_value_to_string(rows[0].column(1), 0);
        let counted: usize = session.sql(GROUPS).await?.collect().await?.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(counted, 4);
        Ok(plan.expect("a text"))
    })
}

#[test]
fn a_statement_survives_some_failures_and_not_others() {
    let plan = with_failures(|_, _| None).expect("a plan");
    assert!(plan.contains("tasks=5") && plan.matches("Task: ").count() == 5, "{plan}");
    let plan = with_failures(|worker, _| if worker == "a" { Some(TaskError::Lost("it is gone".into())) } else { None });
    let plan = plan.expect("a plan");
    assert!(plan.contains("a was lost: it is gone") && !plan.contains("Task: a"), "{plan}");
    let plan =
        with_failures(|worker, _| if worker < "c" { Some(TaskError::Differs("other rows".into())) } else { None });
    let plan = plan.expect("a plan");
    assert!(plan.matches("this server").count() == 2 && plan.contains("a: other rows"), "{plan}");
    let declined = with_failures(|_, _| Some(TaskError::Declined("it ends".into()))).expect("a plan");
    assert!(declined.contains("this server") && declined.contains("it ends"), "{declined}");
    let failed =
        |_: &str, _: &Task| Some(TaskError::Failed(freestone::Error::new(ErrorKind::Type, "division by zero")));
    let error = with_failures(failed).expect_err("the statement fails");
    assert_eq!((error.sqlstate(), error.to_string().as_str()), ("22012", "division by zero"));
}

/// Whether a task has the first rows of the divided table, which one task of each attempt has.
fn has_first_rows(task: &Task) -> bool {
    let message: serde_json::Value = serde_json::from_slice(&task.encode().expect("a message")).expect("JSON");
    let pieces = message["pieces"].as_array().expect("parts");
    pieces.iter().any(|piece| piece["segment"] == 0 && piece["rows"]["start"] == 0)
}

#[test]
fn attempts_are_counted_and_not_the_workers_that_they_lose() {
    // Four of five workers are lost at once: that is one attempt.
    let lost = |worker: &str, _: &Task| (worker != "e").then(|| TaskError::Lost("it is gone".into()));
    let plan = with_failures(lost).expect("a plan");
    assert!(plan.contains("d was lost: it is gone") && plan.contains("Task: e"), "{plan}");
    // All are, and the server does it.
    let plan = with_failures(|_, _| Some(TaskError::Lost("it is gone".into()))).expect("a plan");
    assert!(plan.contains("this server") && plan.contains("a was lost: it is gone"), "{plan}");
    // One is lost in each of four attempts, while a fifth worker is left.
    let lost = |_: &str, task: &Task| has_first_rows(task).then(|| TaskError::Lost("it is gone".into()));
    let error = with_failures(lost).expect_err("too many attempts");
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Cluster, "58F01"));
    assert!(error.to_string().contains("tried again 3 times") && error.to_string().contains("it is gone"), "{error}");
}

/// A database of its own in a folder, whose objects are counted, and the names of its segments' objects.
fn own_database(folder: &TempDir) -> (String, impl Fn() -> BTreeSet<String>) {
    let path = folder.path().join("database");
    let url = format!("file://{}", path.display());
    answers(&url, "CREATE TABLE source AS SELECT a, a % 97 AS b, 'text ' || a % 1000 AS c FROM range(600000) AS r(a)");
    let names = move || {
        let entries = fs::read_dir(path.join("segments")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    (url, names)
}

const WRITTEN: &str = "AS SELECT a, b * 2 AS d, upper(c) AS e FROM source WHERE b <> 5";
/// Rows of one of the tables that are not in the other one, and the rows of both.
const DIFFERENCES: &str = "SELECT (SELECT count(*) FROM (SELECT * FROM copied EXCEPT ALL SELECT * FROM expected)), \
    (SELECT count(*) FROM copied) = (SELECT count(*) FROM expected), (SELECT count(*) FROM copied)";
const NO_DIFFERENCE: &str = "0,true,593814";

#[test]
fn a_table_that_workers_write_is_committed_once_though_one_is_killed() {
    let folder = TempDir::new().expect("a folder");
    let (url, objects) = own_database(&folder);
    let workers = [(); 3].map(|()| worker_on(&url, &[]));
    let list = workers.each_ref().map(|worker| worker.1.as_str()).join(",");
    let (_server, address) = server_on(&url, &list, &[]);
    workers.iter().for_each(|worker| wait_for_state(&address, &worker.1, "ready"));
    answers(&url, &format!("CREATE TABLE expected {WRITTEN}"));
    let before = objects().len();
    // The statement waits for the worker that does not go on, until that is gone.
    workers[0].0.signal("-STOP");
    let writing = spawn({
        let address = address.clone();
        move || on_server(&address, &format!("CREATE TABLE copied {WRITTEN}"))
    });
    sleep(Duration::from_millis(500));
    assert!(
        answers(&url, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'copied'").ends_with("\n0\n")
    );
    workers[0].0.signal("-KILL");
    writing.join().expect("the statement ends");
    let found = answers(&url, &format!("{DIFFERENCES}; SELECT count(*) > 1 FROM freestone_segments('copied')"));
    assert!(found.contains(NO_DIFFERENCE) && found.ends_with("\ntrue\n"), "{found}");
    let segments = answers(&url, "SELECT count(*) FROM freestone_segments('copied')");
    assert_eq!(segments.lines().nth(1), Some((objects().len() - before).to_string().as_str()), "{segments}");
    assert!(freestone(&["check", &url], "").status.success());
}

#[test]
fn a_server_that_is_killed_has_committed_nothing() {
    let folder = TempDir::new().expect("a folder");
    let (url, _) = own_database(&folder);
    let workers = [(); 2].map(|()| worker_on(&url, &[]));
    let list = workers.each_ref().map(|worker| worker.1.as_str()).join(",");
    let (server, address) = server_on(&url, &list, &[]);
    workers.iter().for_each(|worker| wait_for_state(&address, &worker.1, "ready"));
    workers[0].0.signal("-STOP");
    let script = format!("SET distribution_threshold = 0; CREATE TABLE copied {WRITTEN}");
    let writing = spawn({
        let database = format!("freestone://{address}");
        move || freestone(&[&database, "-f", "-"], &script)
    });
    sleep(Duration::from_millis(700));
    server.signal("-KILL");
    assert!(!writing.join().expect("the shell ends").status.success());
    workers[0].0.signal("-CONT");
    assert!(
        answers(&url, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'copied'").ends_with("\n0\n")
    );
    assert!(freestone(&["check", &url], "").status.success());
    let (_other, address) = server_on(&url, &list, &[]);
    workers.iter().for_each(|worker| wait_for_state(&address, &worker.1, "ready"));
    on_server(&address, &format!("CREATE TABLE copied {WRITTEN}"));
    let found = answers(&url, &format!("CREATE TABLE expected {WRITTEN}; {DIFFERENCES}"));
    assert!(found.contains(NO_DIFFERENCE), "{found}");
}

/// Workers in this process, of which one loses its first answer after it has done what was asked.
struct Forgetful {
    runner: TaskRunner,
    lost: AtomicBool,
}

impl std::fmt::Debug for Forgetful {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forgetful")
    }
}

impl KnownWorkers for Forgetful {
    fn states(&self) -> Vec<WorkerState> {
        vec![]
    }
}

#[async_trait]
impl Workers for Forgetful {
    fn ready(&self) -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    async fn run(&self, address: &str, task: &Task) -> Result<TaskRows, TaskError> {
        let rows = self.runner.run(&Task::decode(&task.encode().expect("a message")).expect("a task")).await?.1;
        if address != "b" || self.lost.swap(true, Ordering::SeqCst) {
            return Ok(rows);
        }
        let all: Vec<_> = rows.collect().await;
        assert!(all.iter().all(Result::is_ok));
        Err(TaskError::Lost("its answer is lost".into()))
    }

    async fn release(&self, _: &str, task: u64, turn: usize) -> Result<Vec<Piece>, TaskError> {
        Ok(self.runner.release(task, turn))
    }
}

#[test]
fn segments_of_lost_answers_failures_and_rollbacks_are_removed() {
    let folder = TempDir::new().expect("a folder");
    let (url, objects) = own_database(&folder);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let reader = Database::open(&url, Options { read_only: true, ..Options::default() }).expect("opens");
        let runner = TaskRunner::new(reader).expect("runs tasks");
        let database = Database::open(&url, Options { threads: 2, ..Options::default() }).expect("opens");
        let workers = std::sync::Arc::new(Forgetful { runner, lost: AtomicBool::new(false) });
        database.set_workers(workers.clone());
        let session = database.session();
        let run = async |sql: &str| session.sql(sql).await?.collect().await;
        run("SET distribution_threshold = 0").await.expect("is set");
        let before = objects();
        run(&format!("CREATE TABLE copied {WRITTEN}")).await.expect("is written");
        assert!(workers.lost.load(Ordering::SeqCst), "workers were asked");
        let segments = run("SELECT id FROM freestone_segments('copied')").await.expect("rows");
        let segments: usize = segments.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!((objects().len() - before.len(), segments >= 3), (segments, true));
        let after = objects();
        run("BEGIN").await.expect("begins");
        run(&format!("CREATE TABLE other {WRITTEN}")).await.expect("is written");
        assert!(objects().len() > after.len());
        run("ROLLBACK").await.expect("ends");
        assert_eq!(objects(), after);
        let wrong = "CAST(CASE WHEN a = 599999 THEN 'wrong' ELSE '1' END AS INT)";
        let error = run(&format!("CREATE TABLE other AS SELECT a, {wrong} AS q FROM source")).await.expect_err("fails");
        assert!(error.to_string().contains("wrong"), "{error}");
        assert_eq!(objects(), after);
    });
    let found = answers(&url, &format!("CREATE TABLE expected {WRITTEN}; {DIFFERENCES}"));
    assert!(found.contains(NO_DIFFERENCE), "{found}");
}

/// The metrics at `address/metrics`, and the value of one of them.
fn metrics(address: &str) -> String {
    use std::io::{Read, Write};
    let address = address.trim_end_matches("/metrics");
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    answer
}

fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// The metrics of a worker once its tasks have ended, which may be a moment after the server has all their rows.
fn idle_metrics(address: &str) -> String {
    let began = Instant::now();
    loop {
        let found = metrics(address);
        if metric(&found, "freestone_worker_tasks_running") == 0.0 {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{found}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn tasks_are_counted_on_both_sides() {
    let workers = [worker(&["--metrics", "127.0.0.1:0"]), worker(&["--metrics", "127.0.0.1:0"])];
    let of = |(process, _): &(Process, String)| {
        let line = process.said.iter().find_map(|line| line.strip_prefix("listening: http://"));
        line.expect("an address of metrics").to_owned()
    };
    let addresses: Vec<String> = workers.iter().map(of).collect();
    let hosts = format!("{},{}", workers[0].1, workers[1].1);
    let (mut server, address) = server(&hosts, &["--metrics", "127.0.0.1:0"]);
    let own = server.wait_for("listening: http://");
    let groups = format!("SET distribution_claims = off; {GROUPS}");
    assert_eq!(on_server(&address, &groups), answers(&Data::shared().url(), GROUPS));
    let found = metrics(&own);
    assert_eq!(metric(&found, "freestone_cluster_workers{state=\"ready\"}"), 2.0);
    assert_eq!(metric(&found, "freestone_cluster_tasks_total"), 2.0);
    assert_eq!(metric(&found, "freestone_cluster_tasks_running"), 0.0);
    // Each worker has sent the groups of each of its threads.
    let rows = metric(&found, "freestone_cluster_rows_received_total");
    assert!(rows >= 8.0 && metric(&found, "freestone_cluster_bytes_received_total") > rows * 16.0, "{found}");
    assert!(metric(&found, "freestone_statements_total") > 0.0, "the server's own: {found}");
    let sent: Vec<String> = addresses.iter().map(|address| idle_metrics(address)).collect();
    let sum = |name: &str| sent.iter().map(|text| metric(text, name)).sum::<f64>();
    assert_eq!(sum("freestone_worker_rows_sent_total"), rows);
    assert_eq!(sum("freestone_worker_tasks_total"), 2.0);
    assert_eq!(sum("freestone_worker_draining"), 0.0);
    workers[0].0.signal("-KILL");
    wait_for_state(&address, &workers[0].1, "unreachable");
    let found = metrics(&own);
    assert_eq!(metric(&found, "freestone_cluster_workers_lost_total"), 1.0);
    assert_eq!(metric(&found, "freestone_cluster_workers{state=\"unreachable\"}"), 1.0);
}

#[test]
fn the_certificate_of_a_name_is_that_of_all_its_addresses() {
    let folder = TempDir::new().expect("a folder");
    // It is for the name, and not for 127.0.0.1.
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let (_worker, at) = worker(&["--tls-cert", &certificate, "--tls-key", &key]);
    let port = at.rsplit_once(':').expect("a port").1;
    let (_server, address) = server(&format!("dns:localhost:{port}"), &["--cluster-ca", &certificate]);
    wait_for_state(&address, &at, "ready");
    assert_eq!(on_server(&address, GROUPS), answers(&Data::shared().url(), GROUPS));
    let run = on_server(&address, "SELECT max(tasks_run) > 0 FROM freestone_workers()");
    assert_eq!(run.lines().nth(1), Some("true"), "{run}");
}

#[test]
fn workers_write_floats_as_the_servers_clients_expect() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let texts = "SELECT (l_linenumber::DOUBLE * 1e20)::VARCHAR, count(*) FROM lineitem GROUP BY 1 ORDER BY 1 LIMIT 1";
    runtime.block_on(async {
        let options = Options { read_only: true, threads: 2, ..Options::default() };
        let database = Database::open(Data::shared().url(), options).expect("a database");
        let runner = TaskRunner::new(database.clone()).expect("a runner");
        database.set_workers(std::sync::Arc::new(Pretended { runner, fails: |_, _| None }));
        // One of PostgreSQL's clients, and one of another protocol.
        for (postgres_texts, expected) in [(true, "1e+20"), (false, "1e20")] {
            let session = database.session();
            session.extend(freestone::Extension { postgres_texts, ..freestone::Extension::default() });
            session.sql("SET distribution_threshold = 0").await.expect("set");
            let rows = session.sql(texts).await.expect("a result").collect().await.expect("rows");
            let text = arrow::util::display::array_value_to_string(rows[0].column(0), 0).expect("a text");
            assert_eq!(text, expected);
            let rows = session.sql(&format!("EXPLAIN ANALYZE {texts}")).await.expect("a result");
            let plan = rows.collect().await.expect("rows");
            let plan = arrow::util::display::array_value_to_string(plan[0].column(1), 0).expect("a text");
            assert!(plan.contains("Task: ") && !plan.contains("this server"), "{plan}");
        }
    });
}

#[test]
fn workers_join() {
    let (mut server, address) = server("join", &["--cluster-listen", "127.0.0.1:0"]);
    let joined = server.said.iter().find_map(|line| line.strip_prefix("listening: cluster://").map(str::to_owned));
    let joined = joined.unwrap_or_else(|| server.wait_for("listening: cluster://"));
    let workers = [worker(&["--join", &joined]), worker(&["--join", &joined])];
    workers.iter().for_each(|(_, worker)| wait_for_state(&address, worker, "ready"));
    assert_eq!(on_server(&address, GROUPS), answers(&Data::shared().url(), GROUPS));
    let run = on_server(&address, "SELECT min(tasks_run) > 0 FROM freestone_workers()");
    assert_eq!(run.lines().nth(1), Some("true"), "{run}");
}

#[test]
fn a_cluster_of_one_machine_ends_as_a_whole() {
    let url = Data::shared().url();
    let arguments = ["cluster", "up", "--workers", "2", &url, "--no-auth", "--listen", "127.0.0.1:0"];
    let mut cluster = Process::start(&arguments);
    let workers = [cluster.wait_for("listening: worker://"), cluster.wait_for("listening: worker://")];
    let address = cluster.wait_for("listening: freestone://");
    assert_eq!(on_server(&address, GROUPS), answers(&url, GROUPS));
    let mut known: Vec<String> = states(&address).into_iter().map(|(address, _)| address).collect();
    known.sort();
    let mut printed = workers.to_vec();
    printed.sort();
    assert_eq!(known, printed);
    assert_eq!(common::end(&mut cluster.child, "-TERM", PATIENCE), Some(0));
    for worker in workers {
        assert!(std::net::TcpStream::connect(&worker).is_err(), "{worker} is still there");
    }
}

#[test]
fn unsafe_and_wrong_options_are_refused() {
    let data = Data::shared();
    let folder = TempDir::new().expect("a folder");
    let (url, token) = (data.url(), data.token().display().to_string());
    let (open, short) = (folder.path().join("open"), folder.path().join("short"));
    fs::write(&open, SECRET).expect("written");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("permissions");
    write_token(&short, "short");
    let (open, short) = (open.display().to_string(), short.display().to_string());
    let worker = |listen, token, more: &[&'static str]| {
        let fixed = ["worker", "--store", &url, "--listen", listen, "--token-file", token];
        freestone(&[&fixed[..], more].concat(), "")
    };
    let serve = |hosts, more: &[&'static str]| {
        let fixed = ["serve", &url, "--no-auth", "--listen", "127.0.0.1:0", "--cluster", hosts];
        freestone(&[&fixed[..], more].concat(), "")
    };
    let token_of = ["--token-file", token.clone().leak()];
    for (output, status, part) in [
        (worker("0.0.0.0:0", &token, &[]), 1, "public address"),
        (worker("nonsense", &token, &[]), 1, "not an address"),
        (worker("0", "/no/such/token", &[]), 1, "/no/such/token"),
        (worker("0", &open, &[]), 1, "others than its owner can read it"),
        (worker("0", &short, &[]), 1, "the token has 5 bytes"),
        (worker("0", &token, &["--join", "10.1.2.3:5579"]), 1, "there is no TLS"),
        (worker("0", &token, &["--metrics", "0.0.0.0:0"]), 1, "would be open to everybody"),
        (
            freestone(&["worker", "--store", "file:///no/such/place", "--listen", "0", "--token-file", &token], ""),
            1,
            "/no/such",
        ),
        (serve("10.1.2.3:5578", &token_of), 1, "there is no TLS"),
        (serve("a,,b", &token_of), 2, "not the address of a worker"),
        (serve("127.0.0.1:1", &[]), 2, "--token-file"),
        (
            freestone(
                &["serve", "--no-auth", "--cluster", "join", "--token-file", &token, "--listen", "127.0.0.1:0"],
                "",
            ),
            1,
            "in memory",
        ),
    ] {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{part}: {said}");
        assert!(said.contains(part) && said.starts_with("error: "), "{part}: {said}");
        assert!(!said.contains(SECRET) && !said.contains("listening: freestone"), "{said}");
    }
}
