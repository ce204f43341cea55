//! Table functions over metadata, and the rows of SHOW and DESCRIBE.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{
    ArrayRef, Float64Array, ListBuilder, RecordBatch, StringViewBuilder, TimestampMicrosecondArray,
    TimestampSecondArray,
};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionConfig;
use datafusion::scalar::ScalarValue;
use freestone_advisor::{PathTest, PredicateForm};
use freestone_bucket::Stores;
use freestone_sql::{Class, Keyword};
use freestone_store::design::Design;
use freestone_store::schema::{ConstraintKind, ForeignKey, Identity, TableSchema, usual_constraint_name};
use freestone_store::{MaterializedView, OpenTransaction, PoolList, Snapshot, Table, TransactionList};

use super::columns::{batch, booleans, numbers, texts};
use super::{duckdb_functions, layout, secrets};
use crate::access::Access;
use crate::attached::Attached;
use crate::context::{RunningStatement, Statements};
use crate::definitions;
use crate::error::{Error, Result};
use crate::internal_names::{PG_TEMP, is_temporary, own_name, shown};
use crate::known_workers::{KnownWorkers, WorkerState};
use crate::profile;
use crate::provider::AtVersion;
use crate::provider::versions::AT;
use crate::sequences::{self, Sequence};
use crate::sql::names::SCHEMA;
use crate::sql::statement::quote;
use crate::sql::text_types;
use crate::temp_schema::TempSchema;
use crate::text_types::{column_collation, column_type, field_type};
use crate::workload::{LoggedPredicate, LoggedScan, WorkloadLog};

/// Makes the table functions of one statement's snapshot known to it.
pub(crate) fn register(
    state: &mut SessionState,
    snapshot: &Arc<Snapshot>,
    lists: &Lists,
    log: &Arc<WorkloadLog>,
    (temp, access): (&TempSchema, Access),
) {
    // Only functions of a state that takes none are refused.
    let _ = state.register_udf(version());
    state.register_udtf(AT, Arc::new(AtVersion(snapshot.clone(), temp.clone())));
    let config = Arc::new(state.config().clone());
    for (name, rows) in FUNCTIONS.into_iter().chain(duckdb_functions::FUNCTIONS) {
        let (lists, log, temp) = (lists.clone(), log.clone(), temp.clone());
        let config = config.clone();
        let known = Known { snapshot: snapshot.clone(), lists, log, temp, config, access };
        state.register_udtf(name, Arc::new(MetadataFunction { name, rows, known }));
    }
}

/// The argument by which a view asks its function for the rows of users.
pub(crate) const VIEW: &str = "view";

/// Whether the rows of a function are also those of a view of its name, as DuckDB has them.
pub(crate) fn is_view(name: &str) -> bool {
    name != "duckdb_secrets" && duckdb_functions::FUNCTIONS.iter().any(|(own, _)| *own == name)
}

/// `version()`: this engine and its version.
fn version() -> Arc<ScalarUDF> {
    static VERSION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let text = concat!("Freestone ", env!("CARGO_PKG_VERSION"));
        let answer = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_owned()))));
        Arc::new(create_udf("version", vec![], DataType::Utf8View, Volatility::Immutable, Arc::new(answer)))
    });
    VERSION.clone()
}

/// What a database has open, apart from a snapshot.
#[derive(Clone)]
pub(crate) struct Lists {
    pub transactions: TransactionList,
    pub pools: PoolList,
    pub statements: Statements,
    /// Of the session.
    pub attached: Attached,
    /// The stores of files elsewhere, and the secrets, of the session.
    pub stores: Stores,
    /// Those of the cluster, if the database is that of a server that coordinates one.
    pub workers: Option<Arc<dyn KnownWorkers>>,
}

/// The data that the functions show.
pub(super) struct Known {
    pub snapshot: Arc<Snapshot>,
    pub lists: Lists,
    log: Arc<WorkloadLog>,
    /// Which temporary tables are shown.
    pub temp: TempSchema,
    /// The settings of the session.
    pub config: Arc<SessionConfig>,
    access: Access,
}

impl Known {
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.temp.tables(&self.snapshot)
    }
}

pub(super) type Rows = fn(&Known, Argument) -> Result<RecordBatch>;

const FUNCTIONS: [(&str, Rows); 22] = [
    ("freestone_tables", |known, _| tables(known)),
    ("freestone_copies", |known, _| copies(known)),
    ("freestone_views", |known, _| views(known)),
    ("freestone_materialized_views", |known, _| materialized_views(known)),
    ("freestone_keys", |known, _| keys(known)),
    ("freestone_design", |known, argument| design(argument.table(known)?)),
    ("freestone_segments", |known, argument| layout::segments(argument.table(known)?)),
    ("freestone_hot", |known, argument| layout::hot(argument.table(known)?)),
    ("freestone_columns", |known, argument| layout::columns(argument.table(known)?)),
    ("freestone_zones", |known, argument| {
        layout::zones(argument.table(known)?, argument.segment()?, argument.named("column"))
    }),
    ("freestone_encodings", |known, argument| {
        layout::encodings(argument.table(known)?, argument.number.or(argument.segment()?))
    }),
    ("freestone_parts", |known, argument| layout::parts(argument.table(known)?, argument.segment()?)),
    ("freestone_pages", |known, argument| layout::pages(argument.table(known)?, argument.segment()?)),
    ("freestone_profile", |_, _| profile_batch(&profile::profile()?)),
    ("freestone_transactions", |known, _| transactions(known)),
    ("freestone_statements", |known, _| statements(known)),
    ("duckdb_secrets", |known, _| secrets::rows(&known.lists.stores.secrets())),
    ("freestone_workers", |known, _| workers(known)),
    ("freestone_pools", |known, _| pools(known)),
    ("freestone_versions", |known, _| versions(&known.snapshot)),
    ("freestone_workload", |known, _| workload(&known.log.scans()?, known.access)),
    ("pragma_table_info", |known, argument| table_info(argument.table(known)?)),
];

/// The arguments that a function takes by name.
pub(crate) fn names_of_arguments(function: &str) -> &'static [&'static str] {
    match function {
        "freestone_segments" | "freestone_columns" => &["copy"],
        "freestone_pages" | "freestone_parts" | "freestone_encodings" => &["copy", "segment"],
        "freestone_zones" => &["copy", "segment", "column"],
        _ => &[],
    }
}

struct MetadataFunction {
    name: &'static str,
    rows: Rows,
    known: Known,
}

impl std::fmt::Debug for MetadataFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl TableFunctionImpl for MetadataFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let argument = Argument::of(self.name, arguments.exprs());
        let batch = (self.rows)(&self.known, argument)?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// The arguments of a call: a string, a number, and what is given by name.
pub(super) struct Argument {
    function: &'static str,
    value: Option<String>,
    number: Option<u64>,
    named: Vec<(String, String)>,
}

impl Argument {
    /// Whether it is a view that asks.
    pub(super) fn is_view(&self) -> bool {
        self.value.as_deref() == Some(VIEW)
    }

    fn of(function: &'static str, arguments: &[Expr]) -> Self {
        let number = match arguments.get(1) {
            Some(Expr::Literal(ScalarValue::Int64(Some(number)), _)) => u64::try_from(*number).ok(),
            Some(Expr::Literal(ScalarValue::Int32(Some(number)), _)) => u64::try_from(*number).ok(),
            _ => None,
        };
        // They arrive as pairs of texts.
        let rest = arguments.get(1 + usize::from(number.is_some())..).unwrap_or_default();
        let texts: Vec<String> = rest.iter().map_while(|argument| text(std::slice::from_ref(argument))).collect();
        let named = texts.as_chunks::<2>().0.iter().map(|[name, value]| (name.clone(), value.clone())).collect();
        Argument { function, value: text(arguments), number, named }
    }

    /// The text of the argument of this name.
    fn named(&self, name: &str) -> Option<&str> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The number of a segment.
    fn segment(&self) -> Result<Option<u64>> {
        let number = |text: &str| {
            let wrong =
                || Error::invalid(format!("{}: segment => {text} is not the number of a segment", self.function));
            text.parse().map_err(|_| wrong().with_hint("segments have numbers from 0: segment => 0"))
        };
        self.named("segment").map(number).transpose()
    }

    /// The table, or its copy if one is named.
    fn table<'a>(&self, known: &'a Known) -> Result<&'a Arc<Table>> {
        let Some(name) = &self.value else {
            return Err(Error::invalid(format!("{0} takes a table's name: {0}('t')", self.function)));
        };
        let names = known.tables().map(|table| table.name.as_str());
        let name = known.temp.resolved(&known.snapshot, name);
        let table = known.snapshot.table(&name).filter(|table| known.temp.sees(&table.name));
        let table = table.ok_or_else(|| Error::not_found("table", &name, names))?;
        let Some(name) = self.named("copy") else { return Ok(table) };
        let copies = || known.snapshot.copies(table);
        let missing = || Error::not_found("copy", name, copies().map(|copy| copy.name.as_str()));
        copies().find(|copy| copy.name == name).ok_or_else(missing)
    }
}

fn text(expressions: &[Expr]) -> Option<String> {
    match expressions.first()? {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.clone()
        }
        _ => None,
    }
}

/// `freestone_versions()`: the commits whose tables can still be read, and since when each was the newest.
fn versions(snapshot: &Snapshot) -> Result<RecordBatch> {
    let versions = snapshot.versions();
    let micros = |since: &SystemTime| since.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as i64);
    let since = TimestampMicrosecondArray::from_iter_values(versions.iter().map(|(_, since)| micros(since)));
    batch(vec![
        ("version", false, numbers(versions.iter().map(|(version, _)| Some(*version)))),
        ("since", false, Arc::new(since)),
    ])
}

/// `freestone_transactions()`: the open transactions of this process, those of single statements included.
fn transactions(known: &Known) -> Result<RecordBatch> {
    let open = known.lists.transactions.open();
    let seconds = |open: &OpenTransaction| open.began.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let began = TimestampSecondArray::from_iter_values(open.iter().map(|open| seconds(open) as i64));
    let names = |open: &OpenTransaction| {
        let locked = known.tables().filter(|table| open.tables.contains(&table.id));
        locked.map(|table| shown(&table.name)).collect::<Vec<_>>().join(", ")
    };
    let waits_for = |open: &OpenTransaction| open.waits_for.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    batch(vec![
        ("id", false, numbers(open.iter().map(|open| Some(open.id)))),
        ("began", false, Arc::new(began)),
        ("base", false, numbers(open.iter().map(|open| Some(open.base)))),
        ("tables", false, texts(open.iter().map(|open| Some(names(open))))),
        ("waits_for", false, texts(open.iter().map(|open| Some(waits_for(open))))),
    ])
}

/// `freestone_statements()`: the statements that are being executed in this process, this one included. Who does not
/// administer the database sees the text of its own only.
fn statements(known: &Known) -> Result<RecordBatch> {
    let running = known.lists.statements.list();
    let micros = |of: &RunningStatement| of.began.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as i64);
    let began = TimestampMicrosecondArray::from_iter_values(running.iter().map(micros));
    let text = |of: &RunningStatement| (of.is_own || known.access.admin).then(|| of.text.clone());
    batch(vec![
        ("id", false, numbers(running.iter().map(|of| Some(of.id)))),
        ("session", false, numbers(running.iter().map(|of| Some(of.session)))),
        ("began", false, Arc::new(began)),
        ("ms", false, Arc::new(Float64Array::from_iter_values(running.iter().map(|of| of.ms)))),
        ("rows", false, numbers(running.iter().map(|of| Some(of.rows)))),
        ("statement", true, texts(running.iter().map(text))),
    ])
}

/// `freestone_workers()`: the workers of the cluster; no rows where the database has none.
fn workers(known: &Known) -> Result<RecordBatch> {
    let workers = known.lists.workers.as_ref().map(|workers| workers.states()).unwrap_or_default();
    let micros = |of: &WorkerState| Some(of.seen?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as i64));
    let seen: TimestampMicrosecondArray = workers.iter().map(micros).collect();
    batch(vec![
        ("address", false, texts(workers.iter().map(|of| Some(of.address.clone())))),
        ("state", false, texts(workers.iter().map(|of| Some(of.state.to_owned())))),
        ("version", true, texts(workers.iter().map(|of| of.version.clone()))),
        ("threads", true, numbers(workers.iter().map(|of| of.threads))),
        ("tasks", false, numbers(workers.iter().map(|of| Some(of.tasks)))),
        ("tasks_run", false, numbers(workers.iter().map(|of| Some(of.tasks_run)))),
        ("seen", true, Arc::new(seen)),
        ("reason", true, texts(workers.iter().map(|of| of.reason.clone()))),
    ])
}

/// `freestone_pools()`: one row per table in the pool of persistent memory, or one row for a pool without tables.
fn pools(known: &Known) -> Result<RecordBatch> {
    let pools = known.lists.pools.state();
    let own = |of: u64| known.tables().find(|table| table.id == of);
    let mut rows = vec![];
    if let Some(pool) = &pools {
        let seen = pool.tables.iter().filter_map(|(_, of, rows)| Some((pool, Some((own(*of)?, *rows)))));
        rows.extend(seen);
        if rows.is_empty() {
            rows.push((pool, None));
        }
    }
    batch(vec![
        ("file", false, texts(rows.iter().map(|(pool, _)| Some(pool.place.clone())))),
        ("persistence", false, texts(rows.iter().map(|(pool, _)| Some(pool.persistence.name().to_owned())))),
        ("block_bytes", false, numbers(rows.iter().map(|(pool, _)| Some(pool.unit_bytes)))),
        ("blocks", false, numbers(rows.iter().map(|(pool, _)| Some(pool.units.0)))),
        ("free_blocks", false, numbers(rows.iter().map(|(pool, _)| Some(pool.units.1)))),
        ("bytes_max", false, numbers(rows.iter().map(|(pool, _)| Some(pool.bytes_max)))),
        ("damaged_blocks", false, numbers(rows.iter().map(|(pool, _)| Some(pool.damaged.len() as u64)))),
        ("table", true, texts(rows.iter().map(|(_, of)| of.map(|(table, _)| shown(&table.name).to_string())))),
        ("rows", true, numbers(rows.iter().map(|(_, of)| of.map(|(_, rows)| rows)))),
    ])
}

/// `freestone_tables()`: one row per table.
fn tables(known: &Known) -> Result<RecordBatch> {
    let tables: Vec<&Arc<Table>> = known.tables().collect();
    batch(vec![
        ("name", false, texts(tables.iter().map(|table| Some(shown(&table.name))))),
        ("rows", false, numbers(tables.iter().map(|table| Some(table.rows())))),
        ("columns", false, numbers(tables.iter().map(|table| Some(table.schema.columns.len() as u64)))),
        ("segments", false, numbers(tables.iter().map(|table| Some(table.segments.len() as u64)))),
        ("bytes", false, numbers(tables.iter().map(|table| Some(table.bytes())))),
        ("design", false, texts(tables.iter().map(|table| Some(table.design.to_string())))),
    ])
}

/// `freestone_copies()`: one row per copy of a table. Copies that are not current are not read before the next VACUUM.
fn copies(known: &Known) -> Result<RecordBatch> {
    let with_copies = known.tables().flat_map(|table| known.snapshot.copies(table).map(move |copy| (table, copy)));
    let copies: Vec<(&Arc<Table>, &Arc<Table>)> = with_copies.collect();
    let columns = |copy: &Table| copy.schema.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    batch(vec![
        ("table", false, texts(copies.iter().map(|(table, _)| Some(shown(&table.name))))),
        ("name", false, texts(copies.iter().map(|(_, copy)| Some(copy.name.clone())))),
        ("columns", false, texts(copies.iter().map(|(_, copy)| Some(columns(copy))))),
        ("current", false, booleans(copies.iter().map(|(_, copy)| copy.is_current()))),
        ("rows", false, numbers(copies.iter().map(|(_, copy)| Some(copy.rows())))),
        ("segments", false, numbers(copies.iter().map(|(_, copy)| Some(copy.segments.len() as u64)))),
        ("bytes", false, numbers(copies.iter().map(|(_, copy)| Some(copy.bytes())))),
        ("design", false, texts(copies.iter().map(|(_, copy)| Some(copy.design.to_string())))),
    ])
}

/// `freestone_views()`: one row per view, with its query, also for views whose query fails.
fn views(known: &Known) -> Result<RecordBatch> {
    let views = || known.temp.views(&known.snapshot);
    batch(vec![
        ("name", false, texts(views().map(|(name, _)| Some(shown(name))))),
        ("query", false, texts(views().map(|(_, query)| Some(query.to_owned())))),
    ])
}

/// When a materialized view is computed.
fn refresh_of(view: &MaterializedView) -> &'static str {
    if view.on_commit { "on commit" } else { "manual" }
}

/// `freestone_materialized_views()`: one row per materialized view. `current`: whether its query would give the same rows.
fn materialized_views(known: &Known) -> Result<RecordBatch> {
    let snapshot = &known.snapshot;
    let views: Vec<_> = definitions::materialized_views(snapshot).collect();
    batch(vec![
        ("name", false, texts(views.iter().map(|(table, ..)| Some(shown(&table.name))))),
        ("refresh", false, texts(views.iter().map(|(.., view)| Some(refresh_of(view).to_owned())))),
        ("populated", false, booleans(views.iter().map(|(.., view)| view.is_populated))),
        ("current", false, booleans(views.iter().map(|(table, ..)| snapshot.has_rows_of_its_query(table)))),
        ("rows", false, numbers(views.iter().map(|(table, ..)| Some(table.rows())))),
        ("query", false, texts(views.iter().map(|(.., view)| Some(view.query.clone())))),
    ])
}

/// `freestone_keys()`: one row a column of a key. Keys of a table have numbers: the primary key's is 0, foreign keys are
/// next, then UNIQUE.
fn keys(known: &Known) -> Result<RecordBatch> {
    type Row = (String, &'static str, u64, u64, String, Option<String>, Option<String>, String);
    let mut rows: Vec<Row> = vec![];
    for table in known.tables() {
        let named = table.schema.constraints(&table.name);
        let name = |is_one: &dyn Fn(&ConstraintKind) -> bool| {
            named.iter().find(|constraint| is_one(&constraint.kind)).map(|key| key.name.clone()).unwrap_or_default()
        };
        let primary = name(&|kind| matches!(kind, ConstraintKind::Primary(..)));
        for (at, column) in table.schema.primary_key.iter().enumerate() {
            let (table, place) = (table.name.clone(), at as u64 + 1);
            rows.push((table, "PRIMARY KEY", 0, place, column.clone(), None, None, primary.clone()));
        }
        for (number, key) in table.schema.foreign_keys.iter().enumerate() {
            // Without columns of its own, the reference is to the primary key.
            let primary = || known.snapshot.table(&key.table).map(|table| table.schema.primary_key.clone());
            let referenced =
                if key.referenced.is_empty() { primary().unwrap_or_default() } else { key.referenced.clone() };
            let name = name(&|kind| matches!(kind, ConstraintKind::Foreign(other) if *other == key));
            for (at, column) in key.columns.iter().enumerate() {
                let (table, target) = (table.name.clone(), Some(shown(&key.table)));
                let (number, place, column) = (number as u64 + 1, at as u64 + 1, column.clone());
                let referenced = referenced.get(at).cloned();
                rows.push((table, "FOREIGN KEY", number, place, column, target, referenced, name.clone()));
            }
        }
        let primary = table.schema.enforced_primary_key();
        let unique = table.schema.unique_keys.iter().filter(|key| Some(*key) != primary);
        for (key, number) in unique.zip(table.schema.foreign_keys.len() as u64 + 1..) {
            for (column, place) in key.columns.iter().zip(1..) {
                let (table, name) = (table.name.clone(), key.name.clone());
                rows.push((table, "UNIQUE", number, place, column.clone(), None, None, name));
            }
        }
    }
    batch(vec![
        ("table", false, texts(rows.iter().map(|row| Some(shown(&row.0))))),
        ("kind", false, texts(rows.iter().map(|row| Some(row.1.to_owned())))),
        ("key", false, numbers(rows.iter().map(|row| Some(row.2)))),
        ("position", false, numbers(rows.iter().map(|row| Some(row.3)))),
        ("column", false, texts(rows.iter().map(|row| Some(row.4.clone())))),
        ("referenced_table", true, texts(rows.iter().map(|row| row.5.clone()))),
        ("referenced_column", true, texts(rows.iter().map(|row| row.6.clone()))),
        ("name", false, texts(rows.iter().map(|row| Some(row.7.clone())))),
    ])
}

/// `freestone_workload()`: the scans of queries, in descending order of their total time. The log adds up those of all users,
/// so only who administers the database sees their statements.
fn workload(scans: &[LoggedScan], access: Access) -> Result<RecordBatch> {
    let statement = |scan: &LoggedScan| access.admin.then(|| scan.statement.clone());
    let texts_of = |of: fn(&LoggedScan) -> String| texts(scans.iter().map(|scan| Some(of(scan))));
    let floats = |of: fn(&LoggedScan) -> f64| Arc::new(scans.iter().map(of).collect::<Float64Array>()) as ArrayRef;
    batch(vec![
        ("table", false, texts_of(|scan| scan.table.clone())),
        ("statement", true, texts(scans.iter().map(statement))),
        ("runs", false, numbers(scans.iter().map(|scan| Some(scan.runs)))),
        ("mean_ms", false, floats(|scan| scan.total_ms / scan.runs.max(1) as f64)),
        ("total_ms", false, floats(|scan| scan.total_ms)),
        ("columns", false, texts_of(|scan| scan.columns.join(", "))),
        ("predicates", false, texts_of(|scan| scan.predicates.iter().map(predicate).collect::<Vec<_>>().join(", "))),
        ("paths", false, texts_of(|scan| scan.paths.iter().map(path).collect::<Vec<_>>().join(", "))),
        ("selectivity", false, floats(|scan| scan.predicates.iter().map(|p| p.selectivity).product())),
        ("output", false, texts_of(|scan| scan.output.name().to_owned())),
        ("last_run", false, Arc::new(scans.iter().map(|s| Some(s.last_run as i64)).collect::<TimestampSecondArray>())),
    ])
}

/// A conjunct as text: `price range 0.25`.
fn predicate(predicate: &LoggedPredicate) -> String {
    test(&predicate.column, predicate.form, predicate.selectivity)
}

/// A test of what foreign keys lead to: `day.year equal 0.143`.
fn path(asked: &PathTest) -> String {
    test(&asked.path.join("."), asked.form, asked.selectivity)
}

fn test(of: &str, form: PredicateForm, selectivity: f64) -> String {
    format!("{of} {} {selectivity:.3}", format!("{form:?}").to_lowercase())
}

/// `freestone_design('t')`: one row per option of the table's design.
fn design(table: &Arc<Table>) -> Result<RecordBatch> {
    let options = table.design.to_options();
    batch(vec![
        ("option", false, texts(options.iter().map(|(name, _)| Some((*name).to_owned())))),
        ("value", false, texts(options.iter().map(|(_, value)| Some(value.clone())))),
    ])
}

/// `SHOW TABLES`: tables and views.
pub(crate) fn show_tables(snapshot: &Snapshot, temp: &TempSchema) -> Result<RecordBatch> {
    let mut rows: Vec<(String, &str, Option<u64>)> =
        temp.tables(snapshot).map(|table| (shown(&table.name), "table", Some(table.rows()))).collect();
    rows.extend(temp.views(snapshot).map(|(name, _)| (shown(name), "view", None)));
    rows.sort();
    batch(vec![
        ("name", false, texts(rows.iter().map(|(name, ..)| Some(name.clone())))),
        ("type", false, texts(rows.iter().map(|(_, kind, _)| Some((*kind).to_owned())))),
        ("rows", true, numbers(rows.iter().map(|(.., rows)| *rows))),
    ])
}

/// `SHOW ALL TABLES`: tables and views with the columns of tables.
pub(crate) fn show_all_tables(snapshot: &Snapshot, temp: &TempSchema) -> Result<RecordBatch> {
    let mut rows: Vec<(&str, Option<&Arc<Table>>)> =
        temp.tables(snapshot).map(|table| (table.name.as_str(), Some(table))).collect();
    rows.extend(temp.views(snapshot).map(|(name, _)| (name.as_str(), None)));
    rows.sort_by_key(|(name, _)| *name);
    let columns = |of: &dyn Fn(&Table, &freestone_store::schema::Column) -> String| -> ArrayRef {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for (_, table) in &rows {
            match table {
                Some(table) => lists.append_value(table.schema.columns.iter().map(|column| Some(of(table, column)))),
                None => lists.append_null(),
            }
        }
        Arc::new(lists.finish())
    };
    let schema = |name: &str| if is_temporary(name) { PG_TEMP } else { SCHEMA };
    batch(vec![
        ("database", false, texts(rows.iter().map(|_| Some("freestone".to_owned())))),
        ("schema", false, texts(rows.iter().map(|(name, _)| Some(schema(name).to_owned())))),
        ("name", false, texts(rows.iter().map(|(name, _)| Some(own_name(name).to_owned())))),
        ("column_names", true, columns(&|_, column| column.name.clone())),
        ("column_types", true, columns(&|table, column| column_type(&table.schema, column))),
        ("temporary", false, booleans(rows.iter().map(|(name, _)| is_temporary(name)))),
    ])
}

/// `PRAGMA table_info('t')`: one row per column, as in DuckDB and SQLite.
fn table_info(table: &Table) -> Result<RecordBatch> {
    let columns = &table.schema.columns;
    batch(vec![
        ("cid", false, numbers((0..columns.len()).map(|at| Some(at as u64)))),
        ("name", false, texts(columns.iter().map(|column| Some(column.name.clone())))),
        ("type", false, texts(columns.iter().map(|column| Some(column_type(&table.schema, column))))),
        ("notnull", false, booleans(columns.iter().map(|column| !column.nullable))),
        ("dflt_value", true, texts((0..columns.len()).map(|at| table.schema.default_of(at).map(str::to_owned)))),
        ("pk", false, booleans(columns.iter().map(|column| table.schema.primary_key.contains(&column.name)))),
    ])
}

/// `DESCRIBE t`: one row per column.
pub(crate) fn describe_table(table: &Table) -> Result<RecordBatch> {
    let schema = &table.schema;
    let foreign = |name: &String| schema.foreign_keys.iter().find(|key| key.columns.contains(name));
    let line = |(at, column): (usize, &freestone_store::schema::Column)| {
        let is_primary = schema.primary_key.contains(&column.name);
        let is_unique = schema.unique_keys.iter().any(|key| key.columns == [column.name.clone()]);
        Described {
            name: column.name.clone(),
            data_type: column_type(schema, column),
            nullable: column.nullable,
            key: is_primary.then_some("PRI").or(is_unique.then_some("UNI")),
            default: schema.default_of(at).map(str::to_owned),
            extra: foreign(&column.name).map(|key| format!("REFERENCES {}", key.table)),
        }
    };
    describe(&schema.columns.iter().enumerate().map(line).collect::<Vec<_>>())
}

/// `DESCRIBE` of a view, a file or a query.
pub(crate) fn describe_schema(schema: &Schema) -> Result<RecordBatch> {
    let line = |field: &FieldRef| Described {
        name: field.name().clone(),
        data_type: field_type(field),
        nullable: field.is_nullable(),
        ..Described::default()
    };
    describe(&schema.fields().iter().map(line).collect::<Vec<_>>())
}

/// A row of DESCRIBE.
#[derive(Default)]
struct Described {
    name: String,
    data_type: String,
    nullable: bool,
    key: Option<&'static str>,
    default: Option<String>,
    extra: Option<String>,
}

/// The rows of DESCRIBE, as in DuckDB.
fn describe(rows: &[Described]) -> Result<RecordBatch> {
    let nullable = |row: &Described| Some(if row.nullable { "YES" } else { "NO" }.to_owned());
    batch(vec![
        ("column_name", false, texts(rows.iter().map(|row| Some(row.name.clone())))),
        ("column_type", false, texts(rows.iter().map(|row| Some(row.data_type.clone())))),
        ("null", false, texts(rows.iter().map(nullable))),
        ("key", true, texts(rows.iter().map(|row| row.key.map(str::to_owned)))),
        ("default", true, texts(rows.iter().map(|row| row.default.clone()))),
        ("extra", true, texts(rows.iter().map(|row| row.extra.clone()))),
    ])
}

/// `SHOW CREATE TABLE t`: the statement that makes the table or view again.
pub(crate) fn show_create(snapshot: &Snapshot, name: &str) -> Result<RecordBatch> {
    let sql = if let Some(table) = snapshot.table(name) {
        match create_materialized(snapshot, table, &table.design) {
            Some(statement) => statement,
            None => create_statement(table, snapshot),
        }
    } else if let Some(view) = definitions::view_text(snapshot, name) {
        format!("CREATE {}VIEW {} AS {view}", temp_word(name), sql_name(name, snapshot))
    } else {
        let names = snapshot.tables().map(|table| table.name.as_str());
        return Err(Error::not_found(
            "table or view",
            name,
            names.chain(definitions::views(snapshot).map(|(name, _)| name.as_str())),
        ));
    };
    batch(vec![
        ("name", false, texts([Some(name.to_owned())].into_iter())),
        ("statement", false, texts([Some(sql)].into_iter())),
    ])
}

/// The CREATE MATERIALIZED VIEW of a table that is one, with a design.
pub(crate) fn create_materialized(snapshot: &Snapshot, table: &Table, design: &Design) -> Option<String> {
    let view = snapshot.materialized(table.id)?.materialized()?;
    let refresh = if view.on_commit { ", refresh = 'on commit'" } else { "" };
    let without = if view.is_populated { "" } else { "\nWITH NO DATA" };
    let (name, query) = (sql_name(&table.name, snapshot), &view.query);
    Some(format!("CREATE MATERIALIZED VIEW {name} WITH ({design}{refresh}) AS {query}{without}"))
}

/// What stands between CREATE and the kind of something temporary.
fn temp_word(name: &str) -> &'static str {
    if is_temporary(name) { "TEMP " } else { "" }
}

/// The CREATE TABLE of a table.
pub(super) fn create_statement(table: &Table, snapshot: &Snapshot) -> String {
    format!("{} WITH ({})", create_without_design(table, snapshot, &|_| true), table.design)
}

/// The same without the design, and with some of the foreign keys.
pub(crate) fn create_without_design(
    table: &Table,
    snapshot: &Snapshot,
    has_key: &dyn Fn(&ForeignKey) -> bool,
) -> String {
    let mut parts: Vec<String> = column_definitions(table, snapshot);
    parts.extend(own_constraints(table));
    let keys = table.schema.foreign_keys.iter().filter(|key| has_key(key));
    parts.extend(keys.map(|key| foreign_key(table, key, snapshot)));
    format!(
        "CREATE {}TABLE {} (\n  {}\n)",
        temp_word(&table.name),
        sql_name(&table.name, snapshot),
        parts.join(",\n  ")
    )
}

/// The declared type of a column, if it is one of texts: other systems have these, and mean the same by them.
fn portable_type(schema: &TableSchema, column: usize) -> Option<String> {
    let (declared, _) = schema.declared_type(column)?;
    let is_text = ["TEXT", "VARCHAR", "CHAR"].iter().any(|name| declared.starts_with(name));
    is_text.then(|| declared.to_owned())
}

/// Stored and generated columns in their order.
fn column_definitions(table: &Table, snapshot: &Snapshot) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for (at, column) in table.schema.columns.iter().enumerate() {
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        let mut data_type = portable_type(&table.schema, at).unwrap_or_else(|| column_type(&table.schema, column));
        let name = bare_or_quoted(&column.name);
        let default = match (table.schema.identity_of(at), table.schema.sequence_of(at)) {
            (Some(identity), sequence) => {
                let kind = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
                let sequence = sequence.and_then(|name| sequences::find(snapshot, name));
                let options = sequence.map(|sequence| sequence_options(&sequence, &column.data_type));
                Some(format!(" GENERATED {kind} AS IDENTITY{}", options.unwrap_or_default()))
            }
            (None, Some(_)) => {
                data_type = serial_name(&column.data_type).to_owned();
                None
            }
            (None, None) => table.schema.default_of(at).map(|sql| format!(" DEFAULT {}", in_parentheses(sql))),
        };
        let collation = column_collation(&table.schema, &column.name);
        let collation = collation.map(|collation| format!(" COLLATE {collation}")).unwrap_or_default();
        parts.push(format!("{name} {data_type}{collation}{}{not_null}", default.unwrap_or_default()));
    }
    for column in definitions::generated(snapshot, &table.name) {
        let data_type = column.data_type.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let text = format!("{}{data_type} GENERATED ALWAYS AS ({})", bare_or_quoted(&column.name), column.declared);
        parts.insert(column.at.min(parts.len()), text);
    }
    parts
}

/// The constraints of a table but its foreign keys.
fn own_constraints(table: &Table) -> Vec<String> {
    let mut parts = vec![];
    let primary = &table.schema.primary_key;
    let usual = |columns: &[String], suffix: &str| usual_constraint_name(&table.name, columns, suffix);
    let enforced = table.schema.enforced_primary_key();
    if !primary.is_empty() {
        let name = enforced.map_or_else(String::new, |key| named(&key.name, usual(&[], "pkey")));
        let promise = if enforced.is_none() { " NOT ENFORCED" } else { "" };
        parts.push(format!("{name}PRIMARY KEY ({}){promise}", list(primary)));
    }
    for key in table.schema.unique_keys.iter().filter(|key| Some(*key) != enforced) {
        let name = named(&key.name, usual(&key.columns, "key"));
        parts.push(format!("{name}UNIQUE ({})", list(&key.columns)));
    }
    // Those of types follow from the columns.
    for check in table.schema.checks.iter().filter(|check| text_types::of_check(check).is_none()) {
        let name = named(&check.name, usual(&[], "check"));
        parts.push(format!("{name}CHECK ({})", check.condition));
    }
    parts
}

/// A foreign key as CREATE TABLE and ALTER TABLE … ADD take it.
pub(crate) fn foreign_key(table: &Table, key: &ForeignKey, snapshot: &Snapshot) -> String {
    let referenced = if key.referenced.is_empty() { String::new() } else { format!(" ({})", list(&key.referenced)) };
    let usual = usual_constraint_name(&table.name, &key.columns, "fkey");
    let name = if key.name.is_empty() { String::new() } else { named(&key.name, usual) };
    let (columns, table) = (list(&key.columns), sql_name(&key.table, snapshot));
    let promise = if key.enforced { "" } else { " NOT ENFORCED" };
    format!("{name}FOREIGN KEY ({columns}) REFERENCES {table}{referenced}{promise}")
}

/// What stands before a constraint, unless its name is the usual one.
fn named(name: &str, usual: String) -> String {
    match name == usual {
        true => String::new(),
        false => format!("CONSTRAINT {} ", bare_or_quoted(name)),
    }
}

/// Names as a list in SQL.
pub(crate) fn list(names: &[String]) -> String {
    names.iter().map(|name| bare_or_quoted(name)).collect::<Vec<_>>().join(", ")
}

/// The name of a table, view or sequence of the catalog as SQL reads it back, with its schema.
pub(crate) fn sql_name(name: &str, snapshot: &Snapshot) -> String {
    match definitions::schema_of(snapshot, name).filter(|_| !is_temporary(name)) {
        Some((schema, own)) => format!("{}.{}", bare_or_quoted(schema), bare_or_quoted(own)),
        None => bare_or_quoted(own_name(name)),
    }
}

/// The options of a sequence that are not the usual ones of its type, in parentheses.
fn sequence_options(sequence: &Sequence, data_type: &DataType) -> String {
    let (low, high) = match data_type {
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    let Sequence { id: _, start, increment, min, max, cycle } = *sequence;
    let (usual_min, usual_max) = if increment > 0 { (1, high) } else { (low, -1) };
    let usual_start = if increment > 0 { min } else { max };
    let options = [
        (increment != 1).then(|| format!("INCREMENT BY {increment}")),
        (min != usual_min).then(|| format!("MINVALUE {min}")),
        (max != usual_max).then(|| format!("MAXVALUE {max}")),
        (start != usual_start).then(|| format!("START WITH {start}")),
        cycle.then(|| "CYCLE".to_owned()),
    ];
    let options = options.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if options.is_empty() { options } else { format!(" ({options})") }
}

/// The name of an integer type whose values come from a sequence.
fn serial_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int16 => "SMALLSERIAL",
        DataType::Int32 => "SERIAL",
        _ => "BIGSERIAL",
    }
}

/// A default as CREATE TABLE reads it back: an expression with operators in parentheses.
fn in_parentheses(sql: &str) -> String {
    let is_simple = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '(' | ')' | '-');
    let is_text =
        sql.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).is_some_and(|text| !text.contains('\''));
    let is_whole = is_text || sql.chars().all(is_simple) || has_parentheses(sql);
    if is_whole { sql.to_owned() } else { format!("({sql})") }
}

/// Whether an expression is in parentheses as a whole.
fn has_parentheses(sql: &str) -> bool {
    let (mut depth, mut quote) = (0, None);
    for (at, letter) in sql.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at > 0 && at + 1 == sql.len();
        }
    }
    false
}

/// A name as SQL reads it back, quoted where it must be.
pub(crate) fn bare_or_quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let has_meaning = Keyword::of(name).is_some_and(|keyword| keyword.class() != Class::Unreserved);
    if plain && !has_meaning && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { quote(name) }
}

/// `freestone_profile()`: one row per figure.
///
/// # Errors
///
/// An array cannot be built.
pub(crate) fn profile_batch(profile: &freestone_advisor::Profile) -> Result<RecordBatch> {
    let rows = profile.rows();
    let floats = |of: fn(freestone_advisor::profile::Measured) -> f64| {
        Arc::new(rows.iter().map(|row| row.measured.map(of)).collect::<Float64Array>()) as ArrayRef
    };
    batch(vec![
        ("topic", false, texts(rows.iter().map(|row| Some(row.topic.to_owned())))),
        ("name", false, texts(rows.iter().map(|row| Some(row.name.clone())))),
        ("value", true, floats(|found| found.value)),
        ("low", true, floats(|found| found.low)),
        ("high", true, floats(|found| found.high)),
        ("unit", false, texts(rows.iter().map(|row| Some(row.unit.to_owned())))),
        ("reported", true, texts(rows.iter().map(|row| row.reported.clone()))),
    ])
}
