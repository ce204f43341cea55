//! Table functions over metadata, and the rows of SHOW and DESCRIBE.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, ListBuilder, RecordBatch, StringViewArray, StringViewBuilder,
    TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionConfig;
use datafusion::scalar::ScalarValue;
use freestone_advisor::{PathTest, PredicateForm};
use freestone_store::column::display_int;
use freestone_store::design::{PageFormat, plan_name};
use freestone_store::nested::is_flat;
use freestone_store::schema::{ConstraintKind, ForeignKey, Identity, usual_constraint_name};
use freestone_store::segment::Segment;
use freestone_store::segment::zones::{Bounds, ZoneMap};
use freestone_store::{OpenTransaction, PoolList, Snapshot, Table, TransactionList};

use super::duckdb_functions;
use crate::access::Access;
use crate::definitions;
use crate::error::{Error, Result};
use crate::internal_names::{PG_TEMP, is_temporary, own_name, shown};
use crate::profile;
use crate::provider::AtVersion;
use crate::sequences::{self, Sequence};
use crate::sql::names::{self, SCHEMA};
use crate::sql::spellings::AT;
use crate::sql::statement::quote;
use crate::sql::text_types;
use crate::temp_schema::TempSchema;
use crate::text_types::{column_type, field_type};
use crate::type_names::type_name;
use crate::workload::{LoggedPredicate, LoggedScan, WorkloadLog};

/// Makes the table functions of one statement's snapshot known to it.
pub(crate) fn register(
    state: &mut SessionState,
    snapshot: &Arc<Snapshot>,
    (open, pools): (&TransactionList, &PoolList),
    log: &Arc<WorkloadLog>,
    (temp, access): (&TempSchema, Access),
) {
    // Only functions of a state that takes none are refused.
    let _ = state.register_udf(version());
    let _ = state.register_udf(names::as_written());
    state.register_udtf(AT, Arc::new(AtVersion(snapshot.clone(), temp.clone())));
    let config = Arc::new(state.config().clone());
    for (name, rows) in FUNCTIONS.into_iter().chain(duckdb_functions::FUNCTIONS) {
        let (transactions, log, temp) = (open.clone(), log.clone(), temp.clone());
        let config = config.clone();
        let known = Known { snapshot: snapshot.clone(), transactions, pools: pools.clone(), log, temp, config, access };
        state.register_udtf(name, Arc::new(MetadataFunction { name, rows, known }));
    }
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

/// The data that the functions show.
pub(super) struct Known {
    pub snapshot: Arc<Snapshot>,
    transactions: TransactionList,
    pools: PoolList,
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

const FUNCTIONS: [(&str, Rows); 16] = [
    ("freestone_tables", |known, _| tables(known)),
    ("freestone_copies", |known, _| copies(known)),
    ("freestone_views", |known, _| views(known)),
    ("freestone_keys", |known, _| keys(known)),
    ("freestone_design", |known, argument| design(argument.table(known)?)),
    ("freestone_segments", |known, argument| segments(argument.table(known)?)),
    ("freestone_hot", |known, argument| hot(argument.table(known)?)),
    ("freestone_columns", |known, argument| columns(argument.table(known)?)),
    ("freestone_zones", |known, argument| zones(argument.table(known)?)),
    ("freestone_pages", |known, argument| pages(argument.table(known)?)),
    ("freestone_profile", |_, _| profile_batch(&profile::profile()?)),
    ("freestone_transactions", |known, _| transactions(known)),
    ("freestone_pools", |known, _| pools(known)),
    ("freestone_versions", |known, _| versions(&known.snapshot)),
    ("freestone_workload", |known, _| workload(&known.log.scans()?, known.access)),
    ("pragma_table_info", |known, argument| table_info(argument.table(known)?)),
];

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
        let argument = Argument { function: self.name, value: text(arguments.exprs()) };
        let batch = (self.rows)(&self.known, argument)?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// The first argument of a call, where it is a string.
pub(super) struct Argument {
    function: &'static str,
    value: Option<String>,
}

impl Argument {
    fn table(self, known: &Known) -> Result<&Arc<Table>> {
        let Some(name) = self.value else {
            return Err(Error::invalid(format!("{0} takes a table's name: {0}('t')", self.function)));
        };
        let names = known.tables().map(|table| table.name.as_str());
        let name = known.temp.resolved(&known.snapshot, &name);
        let table = known.snapshot.table(&name).filter(|table| known.temp.sees(&table.name));
        table.ok_or_else(|| Error::not_found("table", &name, names))
    }
}

fn text(expressions: &[Expr]) -> Option<String> {
    match expressions {
        [Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _)] => {
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
    let open = known.transactions.open();
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

/// `freestone_pools()`: one row per table in the pool of persistent memory, or one row for a pool without tables.
fn pools(known: &Known) -> Result<RecordBatch> {
    let pools = known.pools.state();
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

fn open_segments(table: &Arc<Table>) -> Result<Vec<Arc<Segment>>> {
    (0..table.segments.len()).map(|at| Ok(table.open_segment(at)?)).collect()
}

/// `freestone_segments('t')`: one row per segment, in the order of scans.
fn segments(table: &Arc<Table>) -> Result<RecordBatch> {
    let entries = &table.segments;
    let opened = open_segments(table)?;
    let pages = |segment: &Segment| (0..segment.group_count()).map(|group| segment.page_count(group) as u64).sum();
    batch(vec![
        ("segment", false, numbers((0..entries.len() as u64).map(Some))),
        ("id", false, numbers(entries.iter().map(|entry| Some(entry.id)))),
        ("rows", false, numbers(entries.iter().map(|entry| Some(u64::from(entry.rows))))),
        ("deleted", false, numbers(entries.iter().map(|entry| Some(u64::from(entry.rows) - entry.live_rows())))),
        ("bytes", false, numbers(entries.iter().map(|entry| Some(entry.bytes)))),
        ("pages", false, numbers(opened.iter().map(|segment| Some(pages(segment))))),
        ("hot", false, booleans(entries.iter().map(|entry| entry.is_hot()))),
        ("in_pool", false, booleans(entries.iter().map(|entry| entry.is_in_pool()))),
        ("groups", false, texts(opened.iter().map(|segment| Some(groups(segment))))),
        ("design", false, texts(opened.iter().map(|segment| Some(segment.footer.description.design.to_string())))),
    ])
}

/// `freestone_hot('t')`: one row per run of hot rows, in the order of scans.
fn hot(table: &Arc<Table>) -> Result<RecordBatch> {
    let runs: Vec<usize> = (0..table.segments.len()).filter(|at| table.segments[*at].is_hot()).collect();
    let opened = runs.iter().map(|at| Ok(table.open_segment(*at)?)).collect::<Result<Vec<_>>>()?;
    let entries = || runs.iter().map(|at| &table.segments[*at]);
    batch(vec![
        ("segment", false, numbers(runs.iter().map(|at| Some(*at as u64)))),
        ("id", false, numbers(entries().map(|entry| Some(entry.id)))),
        ("rows", false, numbers(entries().map(|entry| Some(u64::from(entry.rows))))),
        ("deleted", false, numbers(entries().map(|entry| Some(u64::from(entry.rows) - entry.live_rows())))),
        ("bytes", false, numbers(entries().map(|entry| Some(entry.bytes)))),
        ("pages", false, numbers(opened.iter().map(|segment| Some(segment.page_count(0) as u64)))),
    ])
}

/// `freestone_pages('t')`: one row per page of a group of a segment, in the order of scans. Hot rows have no pages.
fn pages(table: &Arc<Table>) -> Result<RecordBatch> {
    let opened = open_segments(table)?;
    let of_segment = |(at, segment): (usize, &Arc<Segment>)| {
        let pages = |group: usize| (0..segment.page_count(group)).map(move |page| (at, group, page));
        let groups = if table.segments[at].is_hot() { 0 } else { segment.group_count() };
        (0..groups).flat_map(pages).collect::<Vec<_>>()
    };
    let all: Vec<(usize, usize, usize)> = opened.iter().enumerate().flat_map(of_segment).collect();
    let group = |at: usize, group: usize| &opened[at].footer.description.groups[group];
    let names = |at: usize, number: usize| {
        let schema = &opened[at].footer.description.schema;
        let names = group(at, number).columns.iter().map(|column| schema.stored_name(*column as usize));
        names.collect::<Vec<_>>().join(", ")
    };
    let rows = |(at, group, page): (usize, usize, usize)| opened[at].page_rows(group, page);
    let number = |of: &dyn Fn((usize, usize, usize)) -> usize| {
        numbers(all.iter().map(|page| Some(of(*page) as u64)).collect::<Vec<_>>().into_iter())
    };
    batch(vec![
        ("segment", false, number(&|(at, ..)| at)),
        ("group", false, number(&|(_, group, _)| group)),
        ("columns", false, texts(all.iter().map(|(at, group, _)| Some(names(*at, *group))))),
        (
            "format",
            false,
            texts(all.iter().map(|(at, number, _)| Some(format_name(group(*at, *number).format).to_owned()))),
        ),
        ("page", false, number(&|(.., page)| page)),
        ("first_row", false, number(&|page| rows(page).start)),
        ("rows", false, number(&|page| rows(page).len())),
        ("bytes", false, number(&|(at, group, page)| opened[at].page_bytes(group, page))),
    ])
}

fn format_name(format: PageFormat) -> &'static str {
    match format {
        PageFormat::Slotted => "slotted",
        PageFormat::Dense => "dense",
        PageFormat::Pax => "pax",
    }
}

/// The groups of a segment as it is stored: `dense (a, b), pax (c)`.
fn groups(segment: &Segment) -> String {
    let description = &segment.footer.description;
    let name = |column: &u32| description.schema.stored_name(*column as usize);
    let group = |group: &freestone_store::segment::footer::GroupDescription| {
        let format = format_name(group.format);
        format!("{format} ({})", group.columns.iter().map(name).collect::<Vec<_>>().join(", "))
    };
    description.groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// `freestone_columns('t')`: one row per column, over all segments. The minimum and maximum of strings are prefixes.
fn columns(table: &Arc<Table>) -> Result<RecordBatch> {
    let opened = open_segments(table)?;
    let described = table.schema.stored_columns();
    let encodings = |at: usize| -> Result<String> {
        let names = opened.iter().map(|segment| {
            let column = &segment.footer.description.columns[at];
            let planned = || column.plan().map_or_else(|_| column.encoding.clone(), plan_name);
            Ok(segment.page_encoding(at)?.map_or_else(planned, str::to_owned))
        });
        let names = names.collect::<Result<std::collections::BTreeSet<String>>>()?;
        Ok(names.into_iter().collect::<Vec<_>>().join(", "))
    };
    let bytes = |at: usize| opened.iter().map(|segment| segment.footer.description.columns[at].bytes).sum();
    let distinct = |at: usize| opened.iter().map(|segment| segment.footer.description.columns[at].distinct).max();
    let zones = |at: usize| opened.iter().map(move |segment| &segment.footer.zones[at]);
    let nulls = |at: usize| zones(at).flat_map(|map| map.nulls.iter()).map(|nulls| u64::from(*nulls)).sum();
    let bound = |at: usize, end: End| {
        let all = zones(at).filter_map(|map| Extreme::of_all(map, end));
        let extreme = all.reduce(|a, b| a.further(b, end))?;
        extreme.text(&described[at].data_type)
    };
    let all = || 0..described.len();
    let encodings = all().map(encodings).collect::<Result<Vec<_>>>()?;
    batch(vec![
        ("column", false, texts(described.iter().map(|column| Some(column.name.clone())))),
        ("type", false, texts(described.iter().map(|column| Some(type_name(&column.data_type))))),
        ("encoding", false, texts(encodings.into_iter().map(Some))),
        ("bytes", false, numbers(all().map(|at| Some(bytes(at))))),
        ("distinct", true, numbers(all().map(distinct))),
        ("nulls", false, numbers(all().map(|at| Some(nulls(at))))),
        ("min", true, texts(all().map(|at| bound(at, End::Min)))),
        ("max", true, texts(all().map(|at| bound(at, End::Max)))),
    ])
}

/// `freestone_zones('t')`: one row per zone of a column of a segment.
fn zones(table: &Arc<Table>) -> Result<RecordBatch> {
    let opened = open_segments(table)?;
    let mut at: Vec<(u64, u64, usize, u64)> = vec![];
    let mut maps: Vec<(&ZoneMap, usize)> = vec![];
    for (position, segment) in opened.iter().enumerate() {
        for (column, map) in segment.footer.zones.iter().enumerate() {
            for zone in 0..map.len() {
                let first = zone * segment.zone_rows();
                let rows = segment.zone_rows().min(segment.rows() - first);
                at.push((position as u64, zone as u64, column, rows as u64));
                maps.push((map, zone));
            }
        }
    }
    let described = table.schema.stored_columns();
    let bound = |index: usize, end: End| {
        let (map, zone) = maps[index];
        Extreme::of_zone(map, zone, end)?.text(&described[at[index].2].data_type)
    };
    let sum = |index: usize| {
        let (map, zone) = maps[index];
        let Bounds::Int(bounds) = &map.bounds else { return None };
        let sum = bounds[zone].as_ref()?.sum?;
        match &described[at[index].2].data_type {
            data_type @ (DataType::Decimal128(..)
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64) => Some(display_int(sum, data_type)),
            _ => None,
        }
    };
    batch(vec![
        ("segment", false, numbers(at.iter().map(|(segment, ..)| Some(*segment)))),
        ("zone", false, numbers(at.iter().map(|(_, zone, ..)| Some(*zone)))),
        ("column", false, texts(at.iter().map(|(_, _, column, _)| Some(described[*column].name.clone())))),
        ("rows", false, numbers(at.iter().map(|(.., rows)| Some(*rows)))),
        ("nulls", false, numbers(maps.iter().map(|(map, zone)| Some(u64::from(map.nulls[*zone]))))),
        ("min", true, texts((0..at.len()).map(|index| bound(index, End::Min)))),
        ("max", true, texts((0..at.len()).map(|index| bound(index, End::Max)))),
        ("sum", true, texts((0..at.len()).map(sum))),
    ])
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Min,
    Max,
}

/// The least or the greatest of some values, as zones keep it.
enum Extreme {
    Int(i128),
    Bytes(Vec<u8>),
}

impl Extreme {
    fn of_zone(map: &ZoneMap, zone: usize, end: End) -> Option<Extreme> {
        match &map.bounds {
            Bounds::Int(bounds) => {
                let bounds = bounds[zone].as_ref()?;
                Some(Extreme::Int(if end == End::Min { bounds.min } else { bounds.max }))
            }
            Bounds::Bytes(bounds) => {
                let bounds = bounds[zone].as_ref()?;
                let bytes = if end == End::Min { Some(bounds.min.clone()) } else { bounds.max.clone() };
                bytes.map(Extreme::Bytes)
            }
        }
    }

    fn of_all(map: &ZoneMap, end: End) -> Option<Extreme> {
        let zones = (0..map.len()).filter_map(|zone| Extreme::of_zone(map, zone, end));
        zones.reduce(|a, b| a.further(b, end))
    }

    /// The one of two that lies further at this end.
    fn further(self, other: Extreme, end: End) -> Extreme {
        let less = match (&self, &other) {
            (Extreme::Int(a), Extreme::Int(b)) => a < b,
            (Extreme::Bytes(a), Extreme::Bytes(b)) => a < b,
            // A column's bounds are all of one kind.
            _ => true,
        };
        if less == (end == End::Min) { self } else { other }
    }

    fn text(&self, data_type: &DataType) -> Option<String> {
        if !is_flat(data_type) {
            // The bounds are those of the stored bytes, and mean nothing to the reader.
            return None;
        }
        Some(match (self, data_type) {
            (Extreme::Int(key), DataType::Float64) => {
                let key = i64::try_from(*key).ok()?;
                f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64).to_string()
            }
            (Extreme::Int(key), DataType::Float32) => {
                let key = i32::try_from(*key).ok()?;
                f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32).to_string()
            }
            (Extreme::Int(value), data_type) => display_int(*value, data_type),
            (Extreme::Bytes(bytes), DataType::BinaryView) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            (Extreme::Bytes(bytes), _) => String::from_utf8_lossy(bytes).trim_end_matches('\u{fffd}').to_owned(),
        })
    }
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
    let columns = &table.schema.columns;
    let key = |name: &String| {
        let primary = table.schema.primary_key.contains(name).then(|| "PRIMARY KEY".to_owned());
        let foreign = table.schema.foreign_keys.iter().find(|key| key.columns.contains(name));
        let unique = table.schema.unique_keys.iter().any(|key| key.columns == [name.clone()]);
        let foreign = foreign.map(|key| format!("REFERENCES {}", key.table));
        primary.or(foreign).or_else(|| unique.then(|| "UNIQUE".to_owned()))
    };
    batch(vec![
        ("column", false, texts(columns.iter().map(|column| Some(column.name.clone())))),
        ("type", false, texts(columns.iter().map(|column| Some(column_type(&table.schema, column))))),
        ("nullable", false, booleans(columns.iter().map(|column| column.nullable))),
        ("key", true, texts(columns.iter().map(|column| key(&column.name)))),
    ])
}

/// `DESCRIBE` of a view or file.
pub(crate) fn describe_schema(schema: &Schema) -> Result<RecordBatch> {
    let fields = schema.fields();
    batch(vec![
        ("column", false, texts(fields.iter().map(|field| Some(field.name().clone())))),
        ("type", false, texts(fields.iter().map(|field| Some(field_type(field))))),
        ("nullable", false, booleans(fields.iter().map(|field| field.is_nullable()))),
        ("key", true, texts(fields.iter().map(|_| None))),
    ])
}

/// `SHOW CREATE TABLE t`: the statement that makes the table or view again.
pub(crate) fn show_create(snapshot: &Snapshot, name: &str) -> Result<RecordBatch> {
    let sql = if let Some(table) = snapshot.table(name) {
        create_statement(table, snapshot)
    } else if let Some(view) = snapshot.views().get(name) {
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

/// Stored and generated columns in their order.
fn column_definitions(table: &Table, snapshot: &Snapshot) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for (at, column) in table.schema.columns.iter().enumerate() {
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        let (name, mut data_type) = (bare_or_quoted(&column.name), column_type(&table.schema, column));
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
        parts.push(format!("{name} {data_type}{}{not_null}", default.unwrap_or_default()));
    }
    for column in definitions::generated(snapshot, &table.name).unwrap_or_default() {
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
    let keyword =
        datafusion::sql::sqlparser::keywords::ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
    if plain && !keyword && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { quote(name) }
}

pub(crate) fn batch(columns: Vec<(&str, bool, ArrayRef)>) -> Result<RecordBatch> {
    let field =
        |(name, nullable, values): &(&str, bool, ArrayRef)| Field::new(*name, values.data_type().clone(), *nullable);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(.., values)| values).collect())?)
}

pub(crate) fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

pub(crate) fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

pub(crate) fn booleans(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
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
