//! Histories of several sessions as data: `isolation/*.txt`. Each line is a statement of one session, with its outcome.
//!
//! ```text
//! # a history's name
//! A: SQL                 it succeeds, or returns the rows of the next line
//! = 1|10, 2|20           the rows of the previous statement, sorted
//! A: SQL !40001          it fails with this SQLSTATE
//! A: SQL ~               it waits
//! A~                     the waiting statement succeeds now; `A~ !40001`: it fails
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::{Database, Error, Options, Session};
use tokio::task::JoinHandle;

const SETUP: [&str; 2] = ["CREATE TABLE test (id INT, value INT)", "INSERT INTO test VALUES (1, 10), (2, 20)"];
/// A statement that has not ended after this time counts as waiting.
const WAITS: Duration = Duration::from_millis(150);

type Rows = Result<Vec<String>, Error>;

struct History {
    database: Arc<Database>,
    sessions: HashMap<String, Arc<Session>>,
    waiting: HashMap<String, JoinHandle<Rows>>,
    last: Vec<String>,
}

async fn run(session: Arc<Session>, sql: String) -> Rows {
    let batches = session.sql(&sql).await?.collect().await?;
    let mut rows = vec![];
    for batch in batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).expect("prints")).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows.sort();
    Ok(rows)
}

impl History {
    async fn begin() -> History {
        let options = Options { threads: 2, memory_limit: Some(1 << 30), ..Options::default() };
        let database = Database::in_memory(options).expect("opens");
        let session = database.session();
        for sql in SETUP {
            session.sql(sql).await.expect("sets up");
        }
        History { database, sessions: HashMap::new(), waiting: HashMap::new(), last: vec![] }
    }

    async fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(expected) = line.strip_prefix('=') {
            let expected: Vec<&str> = expected.split(',').map(str::trim).filter(|row| !row.is_empty()).collect();
            return if self.last == expected { Ok(()) } else { Err(format!("it gave {:?}", self.last)) };
        }
        let (name, rest) = line.split_at(1);
        let (text, fails) = match rest.rsplit_once('!') {
            Some((text, state)) if state.len() == 5 => (text.trim(), Some(state)),
            _ => (rest.trim(), None),
        };
        if text == "~" {
            let waiting = self.waiting.remove(name).ok_or("it does not wait")?;
            let ended = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            let ended = ended.map_err(|_| "it waits forever")?.map_err(|error| error.to_string())?;
            return self.check(ended, fails);
        }
        let sql = text.strip_prefix(':').ok_or("expected SESSION: SQL")?.trim();
        let session = self.sessions.entry(name.to_owned()).or_insert_with(|| Arc::new(self.database.session())).clone();
        let (sql, waits) = sql.strip_suffix('~').map_or((sql, false), |sql| (sql.trim(), true));
        let mut running = tokio::spawn(run(session, sql.to_owned()));
        if !waits {
            let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
            return self.check(ended.map_err(|_| "it waits")?.map_err(|error| error.to_string())?, fails);
        }
        if tokio::time::timeout(WAITS, &mut running).await.is_ok() {
            return Err("it does not wait".into());
        }
        self.waiting.insert(name.to_owned(), running);
        Ok(())
    }

    fn check(&mut self, ended: Rows, fails: Option<&str>) -> Result<(), String> {
        match (ended, fails) {
            (Ok(rows), None) => {
                self.last = rows;
                Ok(())
            }
            (Err(error), Some(state)) if error.sqlstate() == state => Ok(()),
            (Ok(rows), Some(state)) => Err(format!("expected {state}, it gave {rows:?}")),
            (Err(error), _) => Err(format!("{} {error}", error.sqlstate())),
        }
    }
}

fn run_file(file: &Path) {
    let text = std::fs::read_to_string(file).expect("the file is there");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = vec![];
    runtime.block_on(async {
        let mut history: Option<History> = None;
        let mut title = "";
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            if let Some(new) = line.strip_prefix("# ") {
                (title, history) = (new, Some(History::begin().await));
            } else if let Some(running) = &mut history
                && let Err(reason) = running.line(line).await
            {
                failures.push(format!("line {}, {title}: {line}: {reason}", at + 1));
                history = None;
            }
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn anomalies() {
    run_file(Path::new("tests/isolation/anomalies.txt"));
}

#[test]
fn keys() {
    run_file(Path::new("tests/isolation/keys.txt"));
}

#[test]
fn locks() {
    run_file(Path::new("tests/isolation/locks.txt"));
}
