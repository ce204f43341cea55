//! SQL tests as data: `slt/*.slt` run under every design, `slt/once/*.slt` run once.
//!
//! Under a design, every table that a statement writes is converted to it afterwards, so that even a few rows are
//! stored in its pages. Other runs keep hot rows, or merge them after every second statement. One run has copies of every
//! table, which the queries read instead, and one runs every query again by its kept plan. With `FREESTONE_COMPLETE=1`,
//! the results of the statements are written to the files, for review.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::display::ValueTexts;
use freestone::{Database, Options, Outcome, Session, StatementKind, TransactionStatus};
use freestone_store::Table;
use freestone_store::nested::is_ordered;
use parking_lot::Mutex;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::workers::Three;

/// The options of the tested design, from a table's columns. With `None`, tables remain as statements create them.
type DesignOf = Option<fn(&Table) -> String>;

/// Instead of a design: tables keep theirs.
const VACUUM: &str = "VACUUM";

/// The name of a table with its schema: a temporary table of the same name would come before it.
fn full_name(table: &Table) -> String {
    let name = table.name.replace('"', "\"\"");
    if table.name.contains('.') { format!("\"{name}\"") } else { format!("public.\"{name}\"") }
}

fn quoted(table: &Table, columns: std::ops::Range<usize>) -> String {
    let names = table.schema.columns[columns]
        .iter()
        .map(|c| format!("\"{}\"", c.name.replace('"', "\"\"").replace('\'', "''")));
    names.collect::<Vec<_>>().join(", ")
}

/// Groups of three columns each.
fn threes(table: &Table) -> String {
    let count = table.schema.columns.len();
    let groups = (0..count).step_by(3).map(|at| format!("({})", quoted(table, at..(at + 3).min(count))));
    format!("groups = '{}'", groups.collect::<Vec<_>>().join(", "))
}

/// The option that orders rows by columns of a range, those whose values have an order.
fn ordered(table: &Table, option: &str, columns: impl Iterator<Item = usize>, most: usize) -> (String, usize) {
    let is_ordered = |at: &usize| is_ordered(&table.schema.columns[*at].data_type);
    let names: Vec<String> = columns.filter(is_ordered).take(most).map(|at| quoted(table, at..at + 1)).collect();
    let text = if names.is_empty() { String::new() } else { format!(", {option} = '{}'", names.join(", ")) };
    (text, names.len())
}

fn sorted(table: &Table) -> String {
    let (sort, count) = ordered(table, "sort", 0..table.schema.columns.len(), 2);
    format!("levels = {count}{sort}")
}

fn clustered(table: &Table) -> String {
    let (cluster, _) = ordered(table, "cluster", 0..table.schema.columns.len(), 3);
    format!("page_size = '8KiB'{cluster}")
}

fn whole_copy(table: &Table) -> String {
    let (sort, _) = ordered(table, "sort", (0..table.schema.columns.len()).rev(), 1);
    format!("WITH (design = 'column', page_size = '4KiB'{sort})")
}

fn copy_of_some(table: &Table) -> String {
    let some = table.schema.columns.len().div_ceil(2);
    let columns = quoted(table, 0..some).replace("''", "'");
    let (sort, _) = ordered(table, "sort", 0..some, 1);
    format!("({columns}) WITH (design = 'row', page_size = '4KiB'{sort})")
}

macro_rules! designs {
    ($($name:ident: $design:expr;)*) => {
        $(#[test]
        fn $name() {
            run("tests/slt", Some($design), Form::Plain);
        })*
    };
}

designs! {
    row: |_| "design = 'row'".into();
    column: |_| "design = 'column'".into();
    slotted: |_| "design = 'slotted'".into();
    pax: |_| "design = 'pax'".into();
    auto: |_| "design = 'auto'".into();
    small_pages: |_| "design = 'row', page_size = '4KiB'".into();
    dense_groups_of_three: threes;
    pax_groups_of_three: |table| format!("{}, page = 'pax'", threes(table));
    slotted_groups_of_three: |table| format!("{}, page = 'slotted'", threes(table));
    clustered_rows: |table| format!("design = 'row', {}", clustered(table));
    clustered_columns: |table| format!("design = 'column', {}", clustered(table));
    sorted_rows: |table| format!("design = 'row', {}", sorted(table));
    sorted_columns: |table| format!("design = 'column', {}", sorted(table));
    in_pool: |_| "medium = 'pmem'".into();
    clustered_in_pool: |table| format!("medium = 'pmem', {}", clustered(table));
}

/// Every second statement that writes is followed by VACUUM, so tables consist of hot rows, deleted rows and segments.
#[test]
fn half_merged() {
    run("tests/slt", Some(|_| VACUUM.into()), Form::Plain);
}

#[test]
fn as_statements_say() {
    run("tests/slt", None, Form::Plain);
}

/// Slotted pages need the most bytes, so nearly all queries read the copies: one of all columns in another order, and
/// one of some columns.
#[test]
fn slotted_with_copies() {
    run("tests/slt", Some(|_| "design = 'slotted'".into()), Form::Copied(&[whole_copy, copy_of_some]));
}

/// The rows that are compared are those of a plan that has run before.
#[test]
fn queries_again() {
    run("tests/slt", Some(|_| "design = 'column'".into()), Form::Again);
}

/// No operator has memory for a second batch: the executor gives all queries up, and what sorts and groups writes files.
#[test]
fn spilling() {
    run("tests/slt", Some(|_| VACUUM.into()), Form::Spilling);
}

/// Tables of several segments, of which three workers read some each.
#[test]
fn on_three_workers() {
    run("tests/slt", Some(|_| VACUUM.into()), Form::OnWorkers);
    let (tasks, refused) = (TASKS.load(Ordering::Relaxed), REFUSED.lock().clone());
    // What a worker plans differently, the server does.
    assert!(tasks > refused.len(), "{tasks} tasks, {refused:?}");
}

#[test]
fn once() {
    run("tests/slt/once", None, Form::Plain);
}

/// How the queries of a file run.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    /// With these copies of every table.
    Copied(&'static [fn(&Table) -> String]),
    /// Each twice.
    Again,
    /// Parts of them run on workers.
    OnWorkers,
    /// With files in place of memory.
    Spilling,
}

/// Tasks that have begun on workers, and why others did not.
static TASKS: AtomicUsize = AtomicUsize::new(0);
static REFUSED: Mutex<Vec<String>> = Mutex::new(vec![]);

fn run(folder: &str, design: DesignOf, form: Form) {
    let folder = Path::new(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of tests is there")
        .map(|entry| entry.expect("its entries can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no tests in {}", folder.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = Vec::new();
    for file in files {
        if let Err(failure) = runtime.block_on(run_file(&file, design, form)) {
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

async fn run_file(file: &Path, design: DesignOf, form: Form) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let options = || Options {
        threads: 2,
        memory_limit: Some(1 << 30),
        pmem_emulated: Some(Default::default()),
        spills_always: matches!(form, Form::Spilling),
        ..Options::default()
    };
    // On disk if a design is tested, and otherwise in memory.
    let database = match design {
        Some(_) => Database::open(folder.path().join("db"), options()),
        None => Database::in_memory(options()),
    };
    let database = database.map_err(|error| error.to_string())?;
    let workers = match form {
        Form::OnWorkers => Some(Three::of(&folder.path().join("db")).map_err(|error| error.to_string())?),
        _ => None,
    };
    if let Some(workers) = &workers {
        database.set_workers(workers.clone());
    }
    let mut runner = Runner::new(|| async {
        let session = database.session();
        if matches!(form, Form::OnWorkers) {
            session.sql("SET distribution_threshold = 0").await?;
        }
        Ok(Connection { session, design, form, written: 0 })
    });
    runner.set_var("OUT".to_owned(), folder.path().display().to_string());
    let result = if std::env::var_os("FREESTONE_COMPLETE").is_some() {
        let (validator, normalizer) = (sqllogictest::default_validator, sqllogictest::default_normalizer);
        let columns = sqllogictest::default_column_validator;
        runner.update_test_file(file, " ", validator, normalizer, columns).await.map_err(|error| error.to_string())
    } else {
        // All failures are shown, not the first alone.
        let mut failures = vec![];
        for record in sqllogictest::parse_file(file).map_err(|error| error.to_string())? {
            if let sqllogictest::Record::Halt { .. } = record {
                break;
            }
            let done = runner.run_async(record).await;
            failures.extend(done.err().map(|error| error.display(false).to_string()));
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    };
    if let Some(workers) = workers {
        TASKS.fetch_add(workers.tasks.load(Ordering::Relaxed), Ordering::Relaxed);
        let of_file = |reason: &String| format!("{}: {reason}", file.display());
        REFUSED.lock().extend(workers.refused.lock().iter().map(of_file));
    }
    result.map_err(|error| format!("{}: {error}", file.display()))
}

struct Connection {
    session: Session,
    design: DesignOf,
    form: Form,
    /// The number of statements that have written.
    written: usize,
}

/// An error in the form of the shell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

impl From<freestone::Error> for Failure {
    fn from(error: freestone::Error) -> Self {
        match error.hint() {
            Some(hint) => Failure(format!("{error}; hint: {hint}")),
            None => Failure(error.to_string()),
        }
    }
}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut statements = self.session.parse(sql)?;
        let statement = match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => statement,
            _ => return Err(Failure("a test holds one statement".into())),
        };
        let mut outcome = self.session.execute(&statement).await?;
        if matches!(self.form, Form::Again) && statement.kind == StatementKind::Query && reads_only(sql) {
            outcome.collect().await?;
            outcome = self.session.execute(&statement).await?;
        }
        let output = match outcome {
            Outcome::Affected { rows, .. } => DBOutput::StatementComplete(rows),
            Outcome::Done { .. } => DBOutput::StatementComplete(0),
            Outcome::Rows { schema, stream } => {
                let types = vec![DefaultColumnType::Any; schema.fields().len()];
                let rows = texts(Outcome::Rows { schema, stream }.collect().await?);
                DBOutput::Rows { types, rows }
            }
        };
        if matches!(statement.kind, StatementKind::Write | StatementKind::Definition | StatementKind::Query) {
            self.written += usize::from(statement.kind == StatementKind::Write);
            self.convert().await?;
        }
        Ok(output)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "freestone"
    }
}

impl Connection {
    /// Converts tables that are not in the tested design: new tables, and rows in the log. Not within a transaction.
    async fn convert(&self) -> Result<(), Failure> {
        let Some(design) = self.design.filter(|_| self.session.transaction_status() == TransactionStatus::Idle) else {
            return Ok(());
        };
        let keeps = |table: &Arc<Table>| design(table) == VACUUM && self.written % 2 == 1;
        // A transaction of another session may have locked the table.
        if !self.session.database().store().transactions().open().is_empty() {
            return Ok(());
        }
        let snapshot = self.session.database().store().snapshot().map_err(freestone::Error::from)?;
        for table in snapshot.tables().filter(|table| table.segments.iter().any(|s| s.is_hot())) {
            if keeps(table) {
                continue;
            }
            let table: &Arc<Table> = table;
            let name = full_name(table);
            let statement = match design(table) {
                options if options == VACUUM => format!("VACUUM {name}"),
                options => format!("ALTER TABLE {name} SET DESIGN ({options})"),
            };
            self.session.sql(&statement).await?;
        }
        self.copy().await
    }

    /// Adds the copies to tables without them, and refreshes copies after rows were removed.
    async fn copy(&self) -> Result<(), Failure> {
        // A transaction of another session may have locked the table.
        if !self.session.database().store().transactions().open().is_empty() {
            return Ok(());
        }
        let snapshot = self.session.database().store().snapshot().map_err(freestone::Error::from)?;
        let Form::Copied(forms) = self.form else { return Ok(()) };
        for table in snapshot.tables() {
            let name = full_name(table);
            if snapshot.copies(table).any(|copy| !copy.is_current()) {
                self.session.sql(&format!("VACUUM {name}")).await?;
            }
            for (at, form) in forms.iter().enumerate().skip(snapshot.copies(table).count()) {
                let form = form(table);
                self.session.sql(&format!("ALTER TABLE {name} ADD COPY \"copy {at}\" {form}")).await?;
            }
        }
        Ok(())
    }
}

/// Whether a query leaves everything as it was.
fn reads_only(sql: &str) -> bool {
    let writes = ["EXECUTE", "INTO", "UPDATE", "DELETE", "NEXTVAL", "SETVAL"];
    !sql.to_uppercase().split(|c: char| !c.is_alphanumeric()).any(|word| writes.contains(&word))
}

fn is_uuid(data_type: &arrow::datatypes::DataType) -> bool {
    *data_type == arrow::datatypes::DataType::FixedSizeBinary(16)
}

fn texts(batches: Vec<arrow::array::RecordBatch>) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| {
                let arrow = ArrayFormatter::try_new(column, &options).expect("every type of a result prints");
                let ours = ValueTexts::new(column.as_ref()).expect("every type of a result prints");
                (arrow, Some(ours).filter(|_| !is_ordered(column.data_type()) || is_uuid(column.data_type())))
            })
            .collect();
        for row in 0..batch.num_rows() {
            let text = |(arrow, ours): &(ArrayFormatter, Option<ValueTexts>)| {
                let text = match ours.as_ref().filter(|ours| !ours.is_null(row)) {
                    Some(ours) => {
                        let mut text = String::new();
                        ours.append(row, &mut text);
                        text
                    }
                    None => arrow.value(row).to_string(),
                };
                if text.is_empty() { "(empty)".to_owned() } else { text.replace('\n', "\\n") }
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    rows
}
