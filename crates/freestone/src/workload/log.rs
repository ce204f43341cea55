//! The workload log of one database: totals of similar scans.

use std::fs::OpenOptions;
use std::io::{ErrorKind as IoKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use freestone_advisor::{Output, PathTest, PredicateForm};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;

/// The maximum number of entries. Those that ran longest ago are removed.
const SCANS_MAX: usize = 1000;
/// The maximum number of characters of a stored statement.
const TEXT_MAX: usize = 2000;
/// The interval at which a long-running process saves its entries.
const SAVE_EVERY: Duration = Duration::from_secs(60);
const VERSION: u32 = 1;
const FILE: &str = "workload.json";

/// The scans of one table by statements that differ only in their literals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedScan {
    /// The name of the table.
    pub table: String,
    /// The statement, with `?` for its literals, unless the session allowed storing them.
    pub statement: String,
    /// The columns of the scan's output.
    pub columns: Vec<String>,
    /// The conjuncts.
    pub predicates: Vec<LoggedPredicate>,
    /// The tests of joins on attributes to which foreign keys lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathTest>,
    /// What happens to the output.
    pub output: Output,
    /// The columns of the requested order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The number of complete runs.
    pub runs: u64,
    /// The total milliseconds of the whole statements.
    pub total_ms: f64,
    /// The design of the table at the last run.
    #[serde(default)]
    pub design: String,
    /// The number of runs in the current design.
    #[serde(default)]
    pub design_runs: u64,
    /// The milliseconds of these runs together.
    #[serde(default)]
    pub design_ms: f64,
    /// The time of the last run, in seconds since 1970.
    pub last_run: u64,
}

/// A conjunct, and its mean selectivity over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedPredicate {
    /// The name of the column.
    pub column: String,
    /// The form of the predicate.
    pub form: PredicateForm,
    /// The mean share of rows that satisfy it.
    pub selectivity: f64,
}

/// The format on disk.
#[derive(Serialize, Deserialize)]
struct SavedLog {
    version: u32,
    scans: Vec<LoggedScan>,
}

/// Adds up the scans of a database's sessions.
#[derive(Debug)]
pub(crate) struct WorkloadLog {
    /// The path of the file; `None` for a database in memory.
    path: Option<PathBuf>,
    /// The folder as it was at opening, whose place another one may take.
    folder: Option<(u64, u64)>,
    /// The permissions that a new file does not have.
    umask: u32,
    /// The log of a database that was opened read-only is read but not written.
    read_only: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The entries of this process that were not saved yet.
    unsaved: Vec<LoggedScan>,
    saved_at: Instant,
}

impl WorkloadLog {
    /// The log of the database in `folder`; with `None`, a log in memory.
    pub fn new(folder: Option<&Path>, options: &Options) -> Self {
        // Names are looked up in the same folder later, wherever the process is then.
        let absolute = folder.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
        WorkloadLog {
            path: absolute.as_ref().map(|folder| folder.join(FILE)),
            folder: absolute.as_deref().and_then(identity),
            umask: options.umask,
            read_only: options.read_only,
            state: Mutex::new(State { unsaved: vec![], saved_at: Instant::now() }),
        }
    }

    /// Adds a complete scan.
    pub fn add(&self, mut scan: LoggedScan) {
        if let Some((end, _)) = scan.statement.char_indices().nth(TEXT_MAX) {
            scan.statement.truncate(end);
            scan.statement.push('…');
        }
        let mut state = self.state.lock();
        merge(&mut state.unsaved, scan);
        if self.path.is_some() && state.saved_at.elapsed() >= SAVE_EVERY {
            self.save(&mut state);
        }
    }

    /// All known scans, by descending time.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a workload log.
    pub fn scans(&self) -> Result<Vec<LoggedScan>> {
        let state = self.state.lock();
        let mut all = self.path.as_deref().map_or(Ok(vec![]), load)?;
        for scan in &state.unsaved {
            merge(&mut all, scan.clone());
        }
        all.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        Ok(all)
    }

    /// Saves new entries. If the log cannot be written, or its file is not a log, the entries stay in memory. No
    /// statement fails because of that, and reading the log reports the error.
    fn save(&self, state: &mut State) {
        state.saved_at = Instant::now();
        let Some(path) = self.path.as_deref().filter(|_| !self.read_only && !state.unsaved.is_empty()) else { return };
        if path.parent().and_then(identity) != self.folder {
            return;
        }
        if write_merged(path, self.umask, &state.unsaved).is_ok() {
            state.unsaved.clear();
        }
    }
}

impl Drop for WorkloadLog {
    fn drop(&mut self) {
        let mut state = std::mem::replace(&mut *self.state.lock(), State { unsaved: vec![], saved_at: Instant::now() });
        self.save(&mut state);
    }
}

/// Adds `new` to the existing entry of its kind.
fn merge(all: &mut Vec<LoggedScan>, new: LoggedScan) {
    match all.iter_mut().find(|old| old.is_alike(&new)) {
        Some(old) => old.add(&new),
        None => {
            if all.len() >= SCANS_MAX
                && let Some((oldest, _)) = all.iter().enumerate().min_by_key(|(_, scan)| scan.last_run)
            {
                all.swap_remove(oldest);
            }
            all.push(new);
        }
    }
}

impl LoggedScan {
    fn is_alike(&self, other: &LoggedScan) -> bool {
        let tests = |scan: &LoggedScan| scan.predicates.iter().map(|p| (p.column.clone(), p.form)).collect::<Vec<_>>();
        let paths = |scan: &LoggedScan| scan.paths.iter().map(|p| (p.path.clone(), p.form)).collect::<Vec<_>>();
        self.table == other.table
            && self.statement == other.statement
            && self.columns == other.columns
            && self.output == other.output
            && self.order == other.order
            && tests(self) == tests(other)
            && paths(self) == paths(other)
    }

    fn add(&mut self, other: &LoggedScan) {
        let (mine, theirs) = (self.runs as f64, other.runs as f64);
        let mean = |own: f64, new: f64| (own * mine + new * theirs) / (mine + theirs).max(1.0);
        for (own, new) in self.predicates.iter_mut().zip(&other.predicates) {
            own.selectivity = mean(own.selectivity, new.selectivity);
        }
        for (own, new) in self.paths.iter_mut().zip(&other.paths) {
            own.selectivity = mean(own.selectivity, new.selectivity);
        }
        self.runs += other.runs;
        self.total_ms += other.total_ms;
        if self.design == other.design {
            self.design_runs += other.design_runs;
            self.design_ms += other.design_ms;
        } else if self.last_run <= other.last_run {
            (self.design_runs, self.design_ms) = (other.design_runs, other.design_ms);
            self.design.clone_from(&other.design);
        }
        self.last_run = self.last_run.max(other.last_run);
    }
}

pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn load(path: &Path) -> Result<Vec<LoggedScan>> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == IoKind::NotFound => return Ok(vec![]),
        read => read.map_err(|error| unusable(path, error))?,
    };
    let saved: SavedLog = serde_json::from_slice(&text).map_err(|error| unusable(path, error))?;
    if saved.version != VERSION {
        return Err(unusable(path, format!("its version is {}, this program knows {VERSION}", saved.version)));
    }
    Ok(saved.scans)
}

/// Several processes may have a database open, so entries are added to those of the file, under a lock.
fn write_merged(path: &Path, umask: u32, new: &[LoggedScan]) -> Result<()> {
    let create =
        |path: &Path| OpenOptions::new().write(true).create(true).truncate(true).mode(0o666 & !umask).open(path);
    let lock = create(&path.with_extension("lock")).map_err(|error| unusable(path, error))?;
    lock.lock().map_err(|error| unusable(path, error))?;
    let mut scans = load(path)?;
    for scan in new {
        merge(&mut scans, scan.clone());
    }
    let json = serde_json::to_vec(&SavedLog { version: VERSION, scans }).map_err(|error| unusable(path, error))?;
    let written = path.with_extension("new");
    let mut file = create(&written).map_err(|error| unusable(path, error))?;
    file.write_all(&json).map_err(|error| unusable(path, error))?;
    std::fs::rename(&written, path).map_err(|error| unusable(path, error))
}

/// Which folder a path leads to now.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(folder).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("the workload log {}: {reason}", path.display()))
        .with_hint("nothing else depends on this file: remove it to begin a new log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(statement: &str, selectivity: f64) -> LoggedScan {
        LoggedScan {
            table: "t".into(),
            statement: statement.into(),
            columns: vec!["a".into()],
            predicates: vec![LoggedPredicate { column: "b".into(), form: PredicateForm::Range, selectivity }],
            paths: vec![PathTest { path: vec!["k".into(), "c".into()], selectivity, form: PredicateForm::Equal }],
            output: Output::Columns,
            order: vec![],
            runs: 1,
            total_ms: 2.0,
            design: "design = 'row'".into(),
            design_runs: 1,
            design_ms: 2.0,
            last_run: 1,
        }
    }

    #[test]
    fn times_of_other_designs_are_no_times_of_this_one() {
        let log = WorkloadLog::new(None, &Options::default());
        let other =
            LoggedScan { design: "design = 'column'".into(), design_ms: 0.5, last_run: 2, ..scan("SELECT ?", 0.1) };
        [scan("SELECT ?", 0.1), scan("SELECT ?", 0.1), other.clone(), other].into_iter().for_each(|scan| log.add(scan));
        let found = &log.scans().expect("the log is readable")[0];
        assert_eq!((found.runs, found.design_runs, found.design_ms), (4, 2, 1.0));
    }

    #[test]
    fn alike_scans_add_up_also_over_processes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for selectivity in [0.1, 0.2, 0.3] {
            let log = WorkloadLog::new(Some(folder.path()), &Options::default());
            log.add(scan("SELECT ?", selectivity));
        }
        let log = WorkloadLog::new(Some(folder.path()), &Options::default());
        log.add(scan("SELECT other", 0.5));
        let all = log.scans().expect("the log is readable");
        assert_eq!(all.iter().map(|scan| scan.runs).collect::<Vec<_>>(), [3, 1]);
        assert!((all[0].predicates[0].selectivity - 0.2).abs() < 1e-12);
        assert!((all[0].paths[0].selectivity - 0.2).abs() < 1e-12);
        assert_eq!(all[0].total_ms, 6.0);
    }

    #[test]
    fn the_log_is_bounded() {
        let log = WorkloadLog::new(None, &Options::default());
        for number in 0..SCANS_MAX as u64 + 10 {
            log.add(LoggedScan { last_run: number, ..scan(&format!("SELECT {number}"), 0.5) });
        }
        log.add(scan(&"x".repeat(TEXT_MAX * 2), 0.5));
        let all = log.scans().expect("the log is readable");
        assert_eq!(all.len(), SCANS_MAX);
        assert!(all.iter().all(|scan| scan.statement != "SELECT 0" && scan.statement.chars().count() <= TEXT_MAX + 1));
    }

    #[test]
    fn a_file_that_is_no_log_is_named_and_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(FILE);
        for (text, expected) in [("x", "expected value"), (r#"{"version":9,"scans":[]}"#, "version is 9")] {
            std::fs::write(&path, text).expect("the folder is writable");
            let log = WorkloadLog::new(Some(folder.path()), &Options::default());
            log.add(scan("SELECT ?", 0.1));
            let error = log.scans().expect_err("not a log").to_string();
            assert!(error.contains("workload.json") && error.contains(expected), "{error}");
            drop(log);
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
        }
    }
}
