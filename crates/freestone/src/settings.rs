//! The session's settings: DataFusion's, and Freestone's own under `freestone.`.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::{ConfigExtension, ConfigOptions, ExecutionOptions, OptimizerOptions};
use datafusion::common::extensions_options;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast;
use freestone_store::design::Design;
use freestone_store::scan::IteratorKind;
use freestone_store::schema::TableSchema;

use crate::error::{Error, Result};
use crate::memory;
use crate::options::Options;
use crate::sql::{names, statement};
use crate::times::{Zone, missing_zone};

extensions_options! {
    /// Freestone's part of the session's settings.
    pub struct FreestoneSettings {
        /// Design of tables created without WITH: a preset's name
        pub design: String, default = "auto".to_string()
        /// What the workload log keeps of this session's queries: on (without literals), literals, or off
        pub workload: String, default = "on".to_string()
        /// Whether queries may read copies of their tables
        pub copies: bool, default = true
        /// How long a statement waits for other transactions, in milliseconds; 0 for no limit
        pub lock_timeout: u64, default = 0
        /// How long a transaction may hold its snapshot, in milliseconds; 0 for no limit
        pub snapshot_max_age: u64, default = 0
        /// How long tables can be read as they were before a commit, in seconds; 0 for not at all
        pub retention: u64, default = 0
        /// How scans find their rows: auto (as costs less), block, or index, where one has the columns of predicates
        pub iterator: String, default = "auto".to_string()
        /// Whether a commit waits until it is durable: on or off
        pub synchronous_commit: String, default = "on".to_string()
        /// Whether rows without ORDER BY come in the order of their table
        pub preserve_insertion_order: bool, default = true
    }
}

impl ConfigExtension for FreestoneSettings {
    const PREFIX: &'static str = "freestone";
}

/// Short names of settings.
const ALIASES: [(&str, &str); 13] = [
    ("preserve_insertion_order", "freestone.preserve_insertion_order"),
    ("iterator", "freestone.iterator"),
    ("snapshot_max_age", "freestone.snapshot_max_age"),
    (RETENTION, "freestone.retention"),
    ("copies", "freestone.copies"),
    ("synchronous_commit", SYNCHRONOUS_COMMIT),
    ("lock_timeout", "freestone.lock_timeout"),
    ("design", "freestone.design"),
    ("workload", "freestone.workload"),
    ("threads", "datafusion.execution.target_partitions"),
    ("freestone.threads", "datafusion.execution.target_partitions"),
    ("time_zone", TIME_ZONE),
    ("timezone", TIME_ZONE),
];

/// The setting of the session that decides for its whole database.
const RETENTION: &str = "retention";
const SYNCHRONOUS_COMMIT: &str = "freestone.synchronous_commit";
const TIME_ZONE: &str = "datafusion.execution.time_zone";
const DEFAULT_ZONE: &str = "UTC";

/// Settings that are fixed when the database is opened: SHOW shows them, and SET is an error.
const FIXED: [&str; 3] = ["freestone.memory_limit", "freestone.read_only", "freestone.cache_bytes"];

/// Settings of DataFusion that have no effect here, or would change the meaning of names. They are neither shown nor
/// accepted. A name that ends with a dot stands for all names with this prefix.
const WITHOUT_EFFECT: [&str; 8] = [
    "datafusion.catalog.",
    "datafusion.format.",
    "datafusion.sql_parser.collect_spans",
    "datafusion.sql_parser.dialect",
    "datafusion.sql_parser.enable_ident_normalization",
    "datafusion.sql_parser.enable_options_value_normalization",
    "datafusion.sql_parser.enable_subquery_sort_elimination",
    "datafusion.sql_parser.recursion_limit",
];

/// The values of `freestone.workload`.
const WORKLOAD: [&str; 3] = ["on", "literals", "off"];

/// The values of `freestone.iterator`.
const ITERATORS: [&str; 3] = ["auto", "block", "index"];

/// How the session wants scans to find their rows.
pub(crate) fn iterator(config: &ConfigOptions) -> Option<IteratorKind> {
    match config.extensions.get::<FreestoneSettings>()?.iterator.as_str() {
        "block" => Some(IteratorKind::Block),
        "index" => Some(IteratorKind::Index),
        _ => None,
    }
}

/// Whether rows that nothing sorts come in the order of their tables.
pub(crate) fn preserves_insertion_order(config: &ConfigOptions) -> bool {
    config.extensions.get::<FreestoneSettings>().is_none_or(|own| own.preserve_insertion_order)
}

/// The text of a query for the workload log; `None` if the session does not log it.
pub(crate) fn logged_text(state: &SessionState, sql: &ast::Statement) -> Option<Arc<str>> {
    let own = own(state)?;
    if own.workload == "off" {
        return None;
    }
    let mut sql = sql.clone();
    names::take_back(&mut sql);
    let text = sql.to_string();
    Some(if own.workload == "literals" { text.into() } else { statement::without_literals(&text).into() })
}

/// Whether the workload log keeps the literals of queries.
pub(crate) fn logs_literals(state: &SessionState) -> bool {
    own(state).is_some_and(|own| own.workload == "literals")
}

/// The initial configuration of a session.
pub(crate) fn initial(options: &Options) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_default_catalog_and_schema("freestone", "public")
        .with_create_default_catalog_and_schema(false)
        // Each statement has an information schema of its own, of its snapshot.
        .with_information_schema(false)
        .with_option_extension(FreestoneSettings::default());
    let memory = memory::spill_settings(options);
    if let Some(memory) = &memory {
        config = config.with_batch_size(memory.batch_rows);
    }
    let settings = config.options_mut();
    // `0.06 + 0.01` is exact, as in the SQL standard and in DuckDB, and so are predicates on decimal columns.
    settings.sql_parser.parse_float_as_decimal = true;
    // `SELECT * FROM (SELECT … ORDER BY a) LIMIT 5` has the first rows of that order. Sorts of subqueries whose order
    // does not matter are removed from the physical plan.
    settings.sql_parser.enable_subquery_sort_elimination = false;
    // The check compares only nullability, on which plan and expressions may differ (`b IS TRUE`). At run time,
    // an aggregation has the schema of its input.
    settings.execution.skip_physical_aggregate_schema_check = true;
    settings.execution.time_zone = Some(DEFAULT_ZONE.to_owned());
    settings.execution.parquet.pushdown_filters = true;
    settings.execution.parquet.reorder_filters = true;
    if memory.is_none() {
        join_settings(&mut settings.optimizer, &mut settings.execution, options.threads.max(1));
    }
    if let Some(memory) = memory {
        // Each sorting thread reserves this memory for merging its spilled runs. With a small limit, the default would
        // be all memory.
        let merge_bytes = memory.merge_bytes.min(settings.execution.sort_spill_reservation_bytes);
        settings.execution.sort_spill_reservation_bytes = merge_bytes;
        settings.execution.parquet.max_row_group_size = memory.row_group_rows;
    }
    // Groups whose first rows do not shrink go straight to the final aggregation; decide after fewer rows than the
    // default, since a scan's first batches are representative.
    settings.execution.skip_partial_aggregation_probe_rows_threshold = 50_000;
    config
}

/// The maximum rows and bytes of a join's smaller side that one thread collects for all, divided by the number of
/// threads.
const COLLECTED_ROWS: usize = 16 << 20;
const COLLECTED_BYTES: usize = 1 << 30;
/// Join keys are array positions if at least one in this many possible keys exists; each possible key takes 4 bytes.
const DENSE_KEYS: f64 = 1.0 / 50.0;

/// How hash joins are executed if memory is plentiful. With few threads, partitioning both sides by hashes costs more
/// than one hash table for all threads. Also, a scan can test the keys of one table as a set, but those of several
/// tables only one by one.
fn join_settings(optimizer: &mut OptimizerOptions, execution: &mut ExecutionOptions, threads: usize) {
    optimizer.hash_join_single_partition_threshold_rows = COLLECTED_ROWS / threads;
    optimizer.hash_join_single_partition_threshold = COLLECTED_BYTES / threads;
    execution.perfect_hash_join_min_key_density = DENSE_KEYS;
}

/// `SET name = value`.
pub(crate) fn set(state: &mut SessionState, name: &str, value: &str) -> Result<()> {
    let name = resolve(state, name)?;
    if name == "freestone.design" {
        // Any schema will do, because a preset names no columns.
        Design::default().with_options([("preset", value)], &TableSchema::default())?;
    }
    if name == "freestone.workload" && !WORKLOAD.contains(&value) {
        let known = WORKLOAD.join(", ");
        return Err(Error::invalid(format!("{name} = '{value}': the values are {known}")));
    }
    if name == "freestone.iterator" && !ITERATORS.contains(&value) {
        let known = ITERATORS.join(", ");
        return Err(Error::invalid(format!("{name} = '{value}': the values are {known}")));
    }
    let normal = match name.as_str() {
        TIME_ZONE => Some(zone_name(value)?),
        SYNCHRONOUS_COMMIT => Some(switch(&name, value)?.to_owned()),
        _ => None,
    };
    let value = normal.as_deref().unwrap_or(value);
    state.config_mut().options_mut().set(&name, value).map_err(|error| {
        let reason = Error::from(error);
        Error::invalid(format!("{name} = '{value}': {reason}"))
    })
}

/// `on` or `off` from any of its forms. PostgreSQL's other values wait at least as long as `on` does here.
fn switch(name: &str, value: &str) -> Result<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "local" | "remote_write" | "remote_apply" => Ok("on"),
        "off" | "false" | "no" | "0" => Ok("off"),
        _ => Err(Error::invalid(format!("{name} = '{value}': the values are on and off"))),
    }
}

/// The name of a time zone from any of its forms. A number stands for hours.
fn zone_name(value: &str) -> Result<String> {
    if ["default", "local"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(DEFAULT_ZONE.to_owned());
    }
    let number = value.parse::<f64>().ok().filter(|_| !value.starts_with('+'));
    let zone = number.map_or_else(|| Zone::parse(value), Zone::of_hours);
    match zone {
        Some(zone) if zone.is_utc() => Ok(DEFAULT_ZONE.to_owned()),
        Some(zone) => Ok(zone.name()),
        None => Err(missing_zone(value)),
    }
}

/// `RESET name`: restores the initial value.
pub(crate) fn reset(state: &mut SessionState, options: &Options, name: &str) -> Result<()> {
    let initial = initial(options);
    if name == "all" {
        *state.config_mut() = initial;
        return Ok(());
    }
    let name = resolve(state, name)?;
    let entry = entries(&initial, options).into_iter().find(|(entry, _)| *entry == name);
    let value = entry.and_then(|(_, value)| value).unwrap_or_default();
    state.config_mut().options_mut().set(&name, &value)?;
    Ok(())
}

/// `SHOW name` and `SHOW ALL`: rows of name and value.
pub(crate) fn show(state: &SessionState, options: &Options, name: &str) -> Result<RecordBatch> {
    let all = entries(state.config(), options);
    let chosen = if name == "all" {
        all
    } else {
        let name = match FIXED.iter().find(|fixed| **fixed == name || fixed.strip_prefix("freestone.") == Some(name)) {
            Some(fixed) => (*fixed).to_owned(),
            None => resolve(state, name)?,
        };
        all.into_iter().filter(|(entry, _)| *entry == name).collect()
    };
    let schema =
        Schema::new(vec![Field::new("name", DataType::Utf8View, false), Field::new("value", DataType::Utf8View, true)]);
    let names: StringViewArray = chosen.iter().map(|(name, _)| Some(name)).collect();
    let values: StringViewArray = chosen.iter().map(|(_, value)| value.as_ref()).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(names), Arc::new(values)])?)
}

/// The full name of a setting that can be set.
fn resolve(state: &SessionState, name: &str) -> Result<String> {
    if let Some((_, full)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Ok((*full).to_owned());
    }
    if FIXED.iter().any(|fixed| *fixed == name || fixed.strip_prefix("freestone.") == Some(name)) {
        return Err(Error::invalid(format!("{name} is fixed while the database is open"))
            .with_hint("give it when you open the database"));
    }
    let known = settable(state.config());
    let with_prefix = |prefix: &str| known.iter().find(|(entry, _)| *entry == format!("{prefix}{name}"));
    let found = with_prefix("").or_else(|| with_prefix("datafusion.execution."));
    match found {
        Some((full, _)) => Ok(full.clone()),
        None => {
            let names = known.iter().map(|(entry, _)| entry.as_str()).chain(ALIASES.iter().map(|(alias, _)| *alias));
            let error = Error::not_found("setting", name, names);
            Err(if error.hint().is_some() { error } else { error.with_hint("SHOW ALL lists the settings") })
        }
    }
}

/// The value of a setting, by any of its names.
pub(crate) fn current(options: &ConfigOptions, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let full = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name.as_str(), |(_, full)| full);
    let is_named = |key: &str| {
        let own = format!("{}.{key}", FreestoneSettings::PREFIX);
        key == full || own == full || key.strip_prefix("datafusion.execution.") == Some(full)
    };
    options.entries().into_iter().find(|entry| is_named(&entry.key)).and_then(|entry| entry.value)
}

/// The settings that can be set, with their values.
pub(crate) fn settable(config: &SessionConfig) -> Vec<(String, Option<String>)> {
    let entries = config.options().entries().into_iter();
    // Our entries come without their prefix.
    let name = |key: String| if key.contains('.') { key } else { format!("{}.{key}", FreestoneSettings::PREFIX) };
    let has_effect =
        |name: &str| !WITHOUT_EFFECT.iter().any(|none| name == *none || none.ends_with('.') && name.starts_with(none));
    let entries = entries.map(|entry| (name(entry.key), entry.value));
    let mut entries: Vec<_> = entries.filter(|(name, _)| has_effect(name)).collect();
    entries.sort();
    entries
}

fn entries(config: &SessionConfig, options: &Options) -> Vec<(String, Option<String>)> {
    let fixed = [
        options.memory_limit.map_or("none".to_owned(), |bytes| bytes.to_string()),
        options.read_only.to_string(),
        options.cache_bytes.to_string(),
    ];
    let fixed = FIXED.iter().zip(fixed).map(|(name, value)| ((*name).to_owned(), Some(value)));
    fixed.chain(settable(config)).collect()
}

fn own(state: &SessionState) -> Option<&FreestoneSettings> {
    state.config_options().extensions.get::<FreestoneSettings>()
}

/// A limit in milliseconds, of which 0 is none.
fn limit(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// How long a statement waits for other transactions; `None` for no limit.
pub(crate) fn lock_timeout(state: &SessionState) -> Option<Duration> {
    limit(own(state)?.lock_timeout)
}

/// How long a transaction may hold its snapshot; `None` for no limit.
pub(crate) fn snapshot_max_age(state: &SessionState) -> Option<Duration> {
    limit(own(state)?.snapshot_max_age)
}

/// How long earlier versions are kept, if `name` is the setting that says so.
pub(crate) fn new_retention(state: &SessionState, name: &str) -> Option<Duration> {
    let is_named = name == RETENTION || name.strip_prefix("freestone.") == Some(RETENTION);
    own(state).filter(|_| is_named).map(|settings| Duration::from_secs(settings.retention))
}

/// Whether commits wait until they are durable.
pub(crate) fn synchronous_commit(state: &SessionState) -> bool {
    own(state).is_none_or(|settings| settings.synchronous_commit != "off")
}

/// The design of a table created without WITH.
pub(crate) fn default_design(state: &SessionState) -> Result<Design> {
    let design = own(state).map_or("auto", |settings| settings.design.as_str());
    Ok(Design::default().with_options([("preset", design)], &TableSchema::default())?)
}
