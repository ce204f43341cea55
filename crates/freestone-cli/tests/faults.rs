//! The real program under faults: killed while it writes, read while it writes, and with less memory than its data.

use fastrand::Rng;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest time for an answer of a living process.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time for a test that can run for any time: `FREESTONE_TEST_SECONDS`, or the default.
fn seconds(default: u64) -> Duration {
    let wanted = std::env::var("FREESTONE_TEST_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(wanted.unwrap_or(default))
}

/// The seed, for other choices in each run: `FREESTONE_TEST_SEED`.
fn seed() -> u64 {
    std::env::var("FREESTONE_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

fn freestone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freestone"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that reads statements from its standard input.
struct Shell {
    child: Child,
    input: ChildStdin,
    /// Lines of standard error.
    messages: Receiver<String>,
    /// Lines of standard output.
    results: Receiver<String>,
}

/// The outcome of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// Its `time:` was printed.
    Acknowledged,
    /// It was not acknowledged in time.
    Late,
    /// The process printed something else, or ended.
    Failed(String),
}

impl Shell {
    fn start(database: &Path, arguments: &[&str]) -> Shell {
        let mut child = Command::new(env!("CARGO_BIN_EXE_freestone"))
            .arg(database)
            .args(["--timing", "--format", "csv"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let input = child.stdin.take().expect("a pipe");
        let messages = lines(child.stderr.take().expect("a pipe"));
        let results = lines(child.stdout.take().expect("a pipe"));
        Shell { child, input, messages, results }
    }

    fn run(&mut self, statement: &str, until: Instant) -> Reply {
        if let Err(error) = writeln!(self.input, "{statement};") {
            let message = self.messages.recv_timeout(PATIENCE).unwrap_or_default();
            return Reply::Failed(format!("{error}: {message}"));
        }
        match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line.starts_with("time: ") => Reply::Acknowledged,
            Ok(line) => Reply::Failed(line),
            Err(RecvTimeoutError::Timeout) => Reply::Late,
            Err(RecvTimeoutError::Disconnected) => Reply::Failed("the process ended".into()),
        }
    }

    /// The row of a query with one row.
    fn query(&mut self, sql: &str) -> String {
        let reply = self.run(sql, Instant::now() + PATIENCE);
        assert_eq!(reply, Reply::Acknowledged, "{sql}");
        let next = || self.results.recv_timeout(PATIENCE).expect("a line of the result");
        next();
        next()
    }

    fn kill(mut self) {
        self.child.kill().expect("a process of ours");
        self.child.wait().expect("it ends");
    }
}

fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The rows of the table.
type Rows = Vec<(i64, i64)>;

/// A query whose result differs if the rows of two tables differ, and its result for given rows.
const DIGEST: &str = "SELECT count(*), coalesce(sum(k), 0), coalesce(sum(v), 0), \
                      coalesce(sum((k * 31 + v * 17) % 1000003), 0), coalesce(sum(length(s)), 0) FROM t";

fn digest(rows: &Rows) -> String {
    let sum = |f: &dyn Fn(i64, i64) -> i64| rows.iter().map(|(k, v)| f(*k, *v)).sum::<i64>();
    let length = sum(&|k, _| format!("row {k}").len() as i64);
    let mixed = sum(&|k, v| (k * 31 + v * 17) % 1_000_003);
    format!("{},{},{},{mixed},{length}", rows.len(), sum(&|k, _| k), sum(&|_, v| v))
}

const DESIGNS: [&str; 6] = [
    "design = 'row'",
    "design = 'column'",
    "design = 'slotted'",
    "design = 'pax', sort = 'v'",
    "groups = '(k, s)', sort = 'k'",
    "design = 'auto', sort = 'k'",
];

/// Designs of a table that is in persistent memory most of the time.
const IN_POOL: [&str; 6] = [
    "medium = 'pmem'",
    "medium = 'pmem', cluster = 'v'",
    "medium = 'pmem', cluster = ''",
    "medium = 'pmem', design = 'row'",
    "medium = 'disk'",
    "medium = 'pmem', sort = 'v'",
];

/// Generates statements, and computes their effect on the rows.
struct Statements {
    random: Rng,
    next_key: i64,
    csv: PathBuf,
    csv_rows: Rows,
    designs: [&'static str; 6],
}

impl Statements {
    fn new(folder: &Path, seed: u64) -> Statements {
        let csv = folder.join("rows.csv");
        let csv_rows: Rows = (0..60_000).map(|k| (k, k % 1000)).collect();
        let lines: String = csv_rows.iter().map(|(k, v)| format!("{k},{v},row {k}\n")).collect();
        fs::write(&csv, format!("k,v,s\n{lines}")).expect("writes");
        Statements { random: Rng::with_seed(seed), next_key: 1_000_000, csv, csv_rows, designs: DESIGNS }
    }

    fn next(&mut self, rows: &Rows) -> (String, Rows) {
        let mut after = rows.clone();
        if rows.len() > 200_000 {
            after.clear();
            return ("TRUNCATE t".into(), after);
        }
        let sql = match self.random.u64(..20) {
            0..=5 => self.insert(1, 50, &mut after),
            6 | 7 => self.insert(17_000, 40_000, &mut after),
            8 | 9 => {
                after.extend(&self.csv_rows);
                format!("COPY t FROM '{}' (FORMAT csv, HEADER true)", self.csv.display())
            }
            10..=12 => {
                let digit = self.random.u64(..10) as i64;
                after.iter_mut().filter(|(k, _)| k % 10 == digit).for_each(|(_, v)| *v += 1);
                format!("UPDATE t SET v = v + 1 WHERE k % 10 = {digit}")
            }
            13..=15 => {
                let rest = self.random.u64(..9) as i64;
                after.retain(|(k, _)| k % 9 != rest);
                format!("DELETE FROM t WHERE k % 9 = {rest}")
            }
            16..=18 => format!("ALTER TABLE t SET DESIGN ({})", self.designs[self.random.u64(..6) as usize]),
            _ => "VACUUM".into(),
        };
        (sql, after)
    }

    fn insert(&mut self, least: u64, more: u64, after: &mut Rows) -> String {
        let (start, count) = (self.next_key, (least + self.random.u64(..more)) as i64);
        self.next_key += count;
        after.extend((start..start + count).map(|k| (k, k * 3)));
        let end = start + count - 1;
        format!("INSERT INTO t SELECT value, value * 3, 'row ' || value FROM generate_series({start}, {end})")
    }
}

fn create(database: &Path) {
    let database = database.to_str().expect("UTF-8");
    let output = freestone(&[database, "-c", "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT, s VARCHAR)"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Runs `check`, which must find nothing, and returns the result of [`DIGEST`].
fn check_and_read(database: &Path, context: &str) -> String {
    let database = database.to_str().expect("UTF-8");
    let output = freestone(&["check", database, "--pmem", "emulated"]);
    assert!(output.status.success(), "{context}: {}{}", text(&output.stdout), text(&output.stderr));
    let output = freestone(&[database, "--read-only", "--pmem", "emulated", "--format", "csv", "-c", DIGEST]);
    assert!(output.status.success(), "{context}: {}", text(&output.stderr));
    text(&output.stdout).lines().nth(1).expect("a row").to_owned()
}

#[test]
fn killed_at_any_moment() {
    killed(DESIGNS, &[]);
}

/// The same for a table in emulated persistent memory, which is also moved to the disk and back.
#[test]
fn killed_at_any_moment_with_persistent_memory() {
    killed(IN_POOL, &["--pmem", "emulated"]);
}

fn killed(designs: [&'static str; 6], arguments: &[&str]) {
    let folder = TempDir::new().expect("a folder");
    let database = folder.path().join("db");
    create(&database);
    let mut statements = Statements { designs, ..Statements::new(folder.path(), seed()) };
    if let ([first, ..], true) = (designs, !arguments.is_empty()) {
        let convert = format!("ALTER TABLE t SET DESIGN ({first})");
        let path = database.to_str().expect("UTF-8");
        let output = freestone(&[&[path, "-c", &convert], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let mut moments = Rng::with_seed(seed() + 1);
    let (mut rows, until) = (Rows::new(), Instant::now() + seconds(6));
    let (mut kills, mut acknowledged, mut stored) = (0, 0, 0);
    while Instant::now() < until {
        let mut shell = Shell::start(&database, arguments);
        let moment = Instant::now() + Duration::from_millis(20 + moments.u64(..500));
        let (sql, after) = loop {
            let (sql, after) = statements.next(&rows);
            match shell.run(&sql, moment) {
                Reply::Acknowledged => rows = after,
                Reply::Late => break (sql, after),
                Reply::Failed(message) => panic!("{sql}: {message}"),
            }
            acknowledged += 1;
        };
        shell.kill();
        kills += 1;
        let context = format!("kill {kills}, {acknowledged} acknowledged, during {sql}");
        let found = check_and_read(&database, &context);
        if found == digest(&after) {
            // The statement was stored, but the process was killed before it acknowledged it. If the statement changes
            // no rows, both results are right.
            stored += usize::from(digest(&rows) != found);
            rows = after;
        } else {
            assert_eq!(found, digest(&rows), "{context}");
        }
    }
    println!("{kills} kills, {acknowledged} statements acknowledged, {stored} stored without");
    assert!(kills > 2 && acknowledged > 2, "too little happened to prove anything");
}

/// What is temporary belongs to a session of one process: others neither list nor read it, also after that one was killed.
#[test]
fn temporary_tables_are_those_of_their_process() {
    let folder = TempDir::new().expect("a folder");
    let database = folder.path().join("db");
    create(&database);
    let path = database.to_str().expect("UTF-8");
    let mut writer = Shell::start(&database, &[]);
    for sql in [
        "CREATE TEMP TABLE secret (id INT PRIMARY KEY, word VARCHAR)",
        "INSERT INTO secret VALUES (1, 'hidden')",
        "COMMENT ON TABLE secret IS 'hidden'",
        "CREATE INDEX secret_word ON secret (word)",
        "CREATE TEMP VIEW secrets AS SELECT * FROM secret",
        "CREATE TEMP SEQUENCE numbers",
    ] {
        assert_eq!(writer.run(sql, Instant::now() + PATIENCE), Reply::Acknowledged, "{sql}");
    }
    assert_eq!(writer.query("SELECT count(*) FROM pg_temp.secret"), "1");
    let read = |sql: &str| freestone(&[path, "--read-only", "--format", "csv", "-c", sql]);
    let is_hidden = || {
        for sql in [
            "SELECT * FROM pg_temp.secret",
            "SELECT * FROM secret",
            "SELECT * FROM pg_temp.secrets",
            "SELECT * FROM freestone_columns('pg_temp.secret')",
            "SELECT * FROM pg_temp_1.secret",
            "SELECT * FROM \"pg_temp_1.secret\"",
        ] {
            assert!(!read(sql).status.success(), "{sql}: {}", text(&read(sql).stdout));
        }
        for sql in [
            "SHOW ALL TABLES",
            "SELECT name FROM freestone_tables()",
            "SELECT * FROM freestone_views()",
            "SELECT * FROM freestone_workload()",
            "SELECT * FROM duckdb_tables()",
            "SELECT * FROM duckdb_indexes()",
            "SELECT * FROM duckdb_sequences()",
            "SELECT * FROM information_schema.tables",
            "SELECT * FROM information_schema.columns",
            "CHECK",
        ] {
            let listed = read(sql);
            assert!(listed.status.success(), "{sql}: {}", text(&listed.stderr));
            let shown = text(&listed.stdout);
            let hidden = ["secret", "hidden", "numbers", "pg_temp_"];
            assert!(hidden.iter().all(|word| !shown.contains(word)), "{sql}: {shown}");
        }
    };
    is_hidden();
    writer.kill();
    is_hidden();
    // The next process that writes has its own, and removes what is left.
    let sql = "CREATE TEMP TABLE other (a INT); SELECT name FROM freestone_tables(); SELECT count(*) FROM other";
    let output = freestone(&[path, "--format", "csv", "-c", sql]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("secret"), "{}", text(&output.stdout));
    is_hidden();
}

#[test]
fn readers_beside_a_writer() {
    let folder = TempDir::new().expect("a folder");
    let database = folder.path().join("db");
    create(&database);
    read_beside_a_writer(&folder, &database, Writes { designs: DESIGNS, arguments: &[], kills: false });
}

/// The same for a table in emulated persistent memory, whose blocks change in place, also when the process that writes is
/// killed and another begins.
#[test]
#[cfg(target_os = "linux")]
fn readers_beside_writers_of_persistent_memory() {
    for kills in [false, true] {
        let folder = TempDir::new().expect("a folder");
        let database = folder.path().join("db");
        create(&database);
        let convert = format!("ALTER TABLE t SET DESIGN ({})", IN_POOL[0]);
        let path = database.to_str().expect("UTF-8");
        let output = freestone(&[path, "--pmem", "emulated", "-c", &convert]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let writes = Writes { designs: IN_POOL, arguments: &["--pmem", "emulated"], kills };
        read_beside_a_writer(&folder, &database, writes);
    }
}

/// How a process writes while others read.
#[derive(Clone, Copy)]
struct Writes {
    designs: [&'static str; 6],
    arguments: &'static [&'static str],
    /// Whether it is killed again and again, and another begins.
    kills: bool,
}

fn read_beside_a_writer(folder: &TempDir, database: &Path, writes: Writes) {
    let states = Mutex::new(HashSet::from([digest(&Rows::new())]));
    let stop = AtomicBool::new(false);
    let until = Instant::now() + seconds(6);
    let reads: usize = thread::scope(|scope| {
        let (states, stop, folder) = (&states, &stop, folder.path());
        let read = move |number: usize| {
            let mut reads = 0;
            let mut shell = Shell::start(database, &["--read-only"]);
            while !stop.load(Ordering::Relaxed) {
                let keeps = reads % 3 == 0;
                if keeps {
                    assert_eq!(shell.run("BEGIN", Instant::now() + PATIENCE), Reply::Acknowledged);
                }
                let found = shell.query(DIGEST);
                assert!(states.lock().expect("no panic").contains(&found), "reader {number} saw {found}");
                reads += 1;
                if keeps {
                    thread::sleep(Duration::from_millis(reads as u64 * 37 % 400));
                    assert_eq!(shell.query(DIGEST), found, "reader {number}: a snapshot does not change");
                    assert_eq!(shell.run("COMMIT", Instant::now() + PATIENCE), Reply::Acknowledged);
                }
                if reads % 20 == 0 {
                    shell.kill();
                    shell = Shell::start(database, &["--read-only"]);
                }
            }
            reads
        };
        let readers: Vec<_> = (0..4).map(|number| scope.spawn(move || read(number))).collect();
        let writer = scope.spawn(move || {
            let mut statements = Statements { designs: writes.designs, ..Statements::new(folder, seed() + 7) };
            let (mut rows, mut shell) = (Rows::new(), Shell::start(database, writes.arguments));
            let mut moments = Rng::with_seed(seed() + 2);
            while Instant::now() < until {
                let (sql, after) = statements.next(&rows);
                states.lock().expect("no panic").insert(digest(&after));
                let is_killed = writes.kills && moments.u8(..6) == 0;
                let patience = if is_killed { Duration::from_millis(moments.u64(..30)) } else { PATIENCE };
                match shell.run(&sql, Instant::now() + patience) {
                    Reply::Acknowledged => rows = after,
                    Reply::Late if is_killed => {
                        shell.kill();
                        shell = Shell::start(database, writes.arguments);
                        if shell.query(DIGEST) == digest(&after) {
                            rows = after;
                        }
                    }
                    reply => panic!("{sql}: {reply:?}"),
                }
            }
        });
        let written = writer.join();
        stop.store(true, Ordering::Relaxed);
        let reads = readers.into_iter().map(|r| r.join().expect("a reader failed")).sum();
        written.expect("the writer failed");
        reads
    });
    let count = states.lock().expect("no panic").len();
    println!("{reads} reads of {count} states");
    assert!(reads > 10 && count > 3, "too little happened to prove anything");
    check_and_read(database, "at the end");
}

/// `check` reports a page with other content than was written, once, and fails.
#[test]
fn check_names_file_and_page() {
    let folder = TempDir::new().expect("a folder");
    let database = folder.path().join("db");
    create(&database);
    let path = database.to_str().expect("UTF-8");
    let fill = "INSERT INTO t SELECT value, 1, 'x' FROM generate_series(1, 50000)";
    assert!(freestone(&[path, "-c", fill]).status.success());
    let segment =
        fs::read_dir(database.join("segments")).expect("segments").next().expect("one").expect("readable").path();
    let mut bytes = fs::read(&segment).expect("reads");
    bytes[40_000] ^= 4;
    fs::write(&segment, bytes).expect("writes");
    let output = freestone(&["check", path]);
    let said = text(&output.stdout) + &text(&output.stderr);
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(&name).count(), 1, "{said}");
    assert!(said.contains(", page 1: "), "{said}");
    let output = freestone(&[path, "--read-only", "-c", DIGEST]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&name), "{}", text(&output.stderr));
}

/// Runs a process and measures its peak resident memory, in MiB.
fn measured(arguments: &[&str]) -> (Output, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_freestone"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    // The output is short and fits the pipes.
    while child.try_wait().expect("a child of ours").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
        peak = peak.max(kib / 1024);
        thread::sleep(Duration::from_millis(3));
    }
    (child.wait_with_output().expect("it ended"), peak)
}

/// Queries on a table that is larger than the memory limit return an answer, or an error with the reason. The process
/// never ends, and scans always return an answer.
#[test]
#[cfg(target_os = "linux")]
fn a_table_larger_than_the_memory_limit() {
    let folder = TempDir::new().expect("a folder");
    let database = folder.path().join("db");
    let path = database.to_str().expect("UTF-8");
    let rows = 1_500_000u64;
    let csv = folder.path().join("big.csv");
    let mut out = std::io::BufWriter::new(fs::File::create(&csv).expect("creates"));
    let mut random = Rng::with_seed(4);
    for k in 0..rows {
        writeln!(
            out,
            "{k},{},{:016x}{:016x}{:016x}",
            k % 1000,
            random.u64(..u64::MAX),
            random.u64(..u64::MAX),
            random.u64(..u64::MAX)
        )
        .expect("writes");
    }
    drop(out);
    let limit = 96u64;
    let memory = format!("{limit}MiB");
    // The program, its threads and other memory of every process have about 75 MiB, and sorting strings uses more
    // memory than it accounts for: 80 MiB, on a busy machine 140.
    let most = limit + 224;
    let load = format!(
        "CREATE TABLE t (k BIGINT, v BIGINT, s VARCHAR); COPY t FROM '{}' (FORMAT csv, HEADER false)",
        csv.display()
    );
    let (output, peak) = measured(&[path, "--memory-limit", &memory, "-c", &load]);
    println!(
        "load of {} MiB: {peak} MiB, {}",
        fs::metadata(&csv).expect("there").len() >> 20,
        text(&output.stderr).trim()
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(peak <= most, "{peak} MiB to load");
    let queries = [
        ("SELECT count(*), sum(v), max(s) IS NOT NULL FROM t", Some(format!("{rows},{},true", rows / 1000 * 499_500))),
        ("SELECT count(*) FROM t WHERE s LIKE '00%' OR v = 5", None),
        ("SELECT count(*) FROM (SELECT s, count(*) AS n FROM t GROUP BY s) WHERE n > 0", Some(rows.to_string())),
        (
            "SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY s) AS r FROM t)",
            Some((rows * (rows + 1) / 2).to_string()),
        ),
        ("SELECT count(*), min(s) <= max(s) FROM (SELECT * FROM t ORDER BY s, k OFFSET 10)", None),
        ("SELECT count(*) FROM t a JOIN t b ON a.s = b.s", Some(rows.to_string())),
        ("SELECT count(DISTINCT s) FROM t", Some(rows.to_string())),
    ];
    for (at, (sql, expected)) in queries.into_iter().enumerate() {
        let (output, peak) = measured(&[path, "--memory-limit", &memory, "--format", "csv", "-c", sql]);
        let message = text(&output.stderr);
        let code = output.status.code();
        println!("{peak} MiB, exit {code:?}: {sql} {}", message.trim());
        // DataFusion's window operator keeps the strings of all its input rows.
        assert!(peak <= most || sql.contains("OVER"), "{peak} MiB: {sql}");
        match (code, expected) {
            (Some(0), Some(expected)) => assert_eq!(text(&output.stdout).lines().nth(1), Some(&expected[..]), "{sql}"),
            (Some(0), None) => {}
            (Some(1), _) => {
                assert!(at > 1, "a scan always answers: {message}");
                assert!(message.contains("memory"), "{sql}: {message}");
            }
            other => panic!("{sql}: {other:?} {message}"),
        }
    }
    for design in ["design = 'row', sort = 's'", "design = 'slotted'", "design = 'auto'"] {
        let sql = format!("ALTER TABLE t SET DESIGN ({design}); SELECT count(*) FROM t");
        let (output, peak) = measured(&[path, "--memory-limit", &memory, "--format", "csv", "-c", &sql]);
        println!("{peak} MiB: {sql} {}", text(&output.stderr).trim());
        assert!(peak <= most, "{peak} MiB: {sql}");
        assert!(output.status.success(), "{sql}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().nth(1), Some(&rows.to_string()[..]), "{sql}");
    }
}
