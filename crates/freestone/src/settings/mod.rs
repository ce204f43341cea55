//! The session's settings. They live in DataFusion's configuration, whose own settings nobody reaches.

mod known;
mod nulls;

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::{
    ConfigEntry, ConfigOptions, ExecutionOptions, ExtensionOptions, OptimizerOptions, SpillCompression,
};
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use freestone_sql::tree;
use freestone_store::design::Design;
use freestone_store::scan::IteratorKind;
use freestone_store::schema::TableSchema;

use crate::access::Access;
use crate::duckdb_settings::{Effect, effect};
use crate::error::{Error, Result};
use crate::exact::FloatTexts;
use crate::memory;
use crate::options::Options;
pub(crate) use crate::own_settings::FreestoneSettings;
use known::{DEFAULT_ZONE, SETTINGS, Setting};
pub(crate) use nulls::{Nulls, nulls};

/// What may stand before the name of a setting.
pub(crate) const PREFIX: &str = "freestone.";

/// What stands before the names of the settings of texts, which nobody sets by SQL.
const TEXTS: &str = "freestone_texts.";

/// The setting that decides for the whole database.
const RETENTION: &str = "retention";

/// Settings that are fixed when the database is opened: SHOW shows them, and SET is an error.
const FIXED: [&str; 3] = ["memory_limit", "read_only", "cache_bytes"];

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

/// Whether columns that are declared with a length refuse longer texts.
pub(crate) fn checks_lengths(config: &ConfigOptions) -> bool {
    config.extensions.get::<FreestoneSettings>().is_some_and(|own| own.check_lengths)
}

/// Whether values are rounded to the types of the columns that store them.
pub(crate) fn rounds_values(config: &ConfigOptions) -> bool {
    config.extensions.get::<FreestoneSettings>().is_some_and(|own| own.round_values)
}

/// Whether queries may read materialized views instead of the tables that they name.
pub(crate) fn matches_views(config: &ConfigOptions) -> bool {
    config.extensions.get::<FreestoneSettings>().is_none_or(|own| own.materialized_view_matching)
}

/// The least predicted time of a statement of which workers get parts.
pub(crate) fn distribution_threshold(config: &ConfigOptions) -> Duration {
    let own = config.extensions.get::<FreestoneSettings>();
    Duration::from_millis(own.map_or(0, |own| own.distribution_threshold))
}

/// Whether workers that are idle get what others have not begun.
pub(crate) fn distribution_claims(config: &ConfigOptions) -> bool {
    config.extensions.get::<FreestoneSettings>().is_none_or(|own| own.distribution_claims)
}

/// All settings, those of DataFusion included, by the names under which [`adopt`] takes them.
pub(crate) fn all(config: &ConfigOptions) -> Vec<(String, String)> {
    // The entries of extensions come without their prefixes.
    let own = config.extensions.get::<FreestoneSettings>().map_or(vec![], ExtensionOptions::entries);
    let texts = config.extensions.get::<FloatTexts>().map_or(vec![], ExtensionOptions::entries);
    let engine = config.entries().into_iter().filter(|entry| entry.key.starts_with("datafusion."));
    let named = |prefix: &str, entry: ConfigEntry| Some((format!("{prefix}{}", entry.key), entry.value?));
    let engine = engine.filter_map(|entry| named("", entry));
    let own = own.into_iter().filter_map(|entry| named(PREFIX, entry));
    engine.chain(own).chain(texts.into_iter().filter_map(|entry| named(TEXTS, entry))).collect()
}

/// Whether settings of another process say that casts give PostgreSQL's texts of floats.
pub(crate) fn has_postgres_texts(given: &[(String, String)]) -> bool {
    given.iter().any(|(key, value)| key.strip_prefix(TEXTS) == Some("are_postgres") && value == "true")
}

/// Takes the settings of another process.
///
/// # Errors
/// A setting does not exist here, or cannot have the value.
pub(crate) fn adopt(state: &mut SessionState, given: &[(String, String)]) -> Result<()> {
    let known: std::collections::HashMap<String, String> = all(state.config_options()).into_iter().collect();
    let options = state.config_mut().options_mut();
    for (key, value) in given.iter().filter(|(key, value)| known.get(key) != Some(value)) {
        options
            .set(key, value)
            .map_err(|error| Error::invalid(format!("{key} = '{value}': {}", Error::from(error))))?;
    }
    Ok(())
}

/// The text of a query for the workload log; `None` if the session does not log it.
pub(crate) fn logged_query(state: &SessionState, query: &tree::Query) -> Option<Arc<str>> {
    logged(state, || query.to_string())
}

fn logged(state: &SessionState, text: impl FnOnce() -> String) -> Option<Arc<str>> {
    match own(state)?.workload.as_str() {
        "off" => None,
        "literals" => Some(text().into()),
        _ => Some(freestone_sql::without_literals(&text()).into()),
    }
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
        .with_option_extension(FreestoneSettings::default())
        .with_option_extension(FloatTexts::default());
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
    settings.execution.spill_compression = SpillCompression::Lz4Frame;
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
///
/// # Errors
/// There is no such setting, it cannot have the value, or the session may not change it.
pub(crate) fn set(state: &mut SessionState, context: (&Options, Access), name: &str, value: &str) -> Result<()> {
    let (options, access) = context;
    match effect(name, Some(value)) {
        Some(Effect::None) => return Ok(()),
        Some(Effect::Unavailable) => {
            let error = Error::unsupported(format!("{name} = '{value}' is not available"));
            return Err(
                error.with_hint("the setting is one of DuckDB's: only the value that describes the answers here")
            );
        }
        None => {}
    }
    let setting = changeable(name, access)?;
    let value = setting.value(value, options)?;
    state.config_mut().options_mut().set(setting.key, &value).map_err(|error| {
        let reason = Error::from(error);
        Error::invalid(format!("{name} = '{value}': {reason}"))
    })
}

/// `RESET name`: restores the initial value.
///
/// # Errors
/// There is no such setting, or the session may not change it.
pub(crate) fn reset(state: &mut SessionState, context: (&Options, Access), name: &str) -> Result<()> {
    let (options, access) = context;
    let initial = initial(options);
    if name == "all" {
        *state.config_mut() = initial;
        return Ok(());
    }
    if effect(name, None).is_some() {
        return Ok(());
    }
    let setting = changeable(name, access)?;
    let value = value_of(initial.options(), setting).unwrap_or_default();
    state.config_mut().options_mut().set(setting.key, &value)?;
    Ok(())
}

/// `SHOW name` and `SHOW ALL`: rows of name and value.
///
/// # Errors
/// There is no such setting.
pub(crate) fn show(state: &SessionState, options: &Options, retention: Duration, name: &str) -> Result<RecordBatch> {
    let mut chosen = match (name, fixed(name)) {
        ("all", _) => entries(state.config(), options),
        (_, Some(name)) => vec![fixed_entry(name, options)],
        _ => vec![entry(state.config(), find(name)?)],
    };
    // The database's, whoever has set it.
    let of_database = chosen.iter_mut().find(|(name, _)| name.strip_prefix(PREFIX) == Some(RETENTION));
    if let Some((_, value)) = of_database {
        *value = Some(retention.as_secs().to_string());
    }
    let schema =
        Schema::new(vec![Field::new("name", DataType::Utf8View, false), Field::new("value", DataType::Utf8View, true)]);
    let names: StringViewArray = chosen.iter().map(|(name, _)| Some(name)).collect();
    let values: StringViewArray = chosen.iter().map(|(_, value)| value.as_ref()).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(names), Arc::new(values)])?)
}

/// The setting with this name.
fn find(name: &str) -> Result<&'static Setting> {
    let lower = name.to_ascii_lowercase();
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.is_named(&lower)) {
        return Ok(setting);
    }
    let error = Error::not_found("setting", name, SETTINGS.iter().map(|setting| setting.name));
    Err(if error.hint().is_some() { error } else { error.with_hint("SHOW ALL lists the settings") })
}

/// The setting with this name, if the session may change it.
fn changeable(name: &str, access: Access) -> Result<&'static Setting> {
    if fixed(name).is_some() {
        return Err(Error::invalid(format!("{name} is fixed while the database is open"))
            .with_hint("give it when you open the database"));
    }
    let setting = find(name)?;
    setting.check_right(access)?;
    Ok(setting)
}

/// The name of a setting that is fixed.
fn fixed(name: &str) -> Option<&'static str> {
    let short = name.strip_prefix(PREFIX).unwrap_or(name);
    FIXED.into_iter().find(|fixed| *fixed == short)
}

/// The value of a setting, by any of its names.
pub(crate) fn current(options: &ConfigOptions, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    value_of(options, SETTINGS.iter().find(|setting| setting.is_named(&name))?)
}

/// The value of a setting in a configuration.
fn value_of(options: &ConfigOptions, setting: &Setting) -> Option<String> {
    // The entries of our own settings come without their prefix.
    let own = setting.key.strip_prefix(PREFIX);
    let is_it = |key: &str| key == setting.key || Some(key) == own;
    options.entries().into_iter().find(|entry| is_it(&entry.key)).and_then(|entry| entry.value)
}

fn entry(config: &SessionConfig, setting: &Setting) -> (String, Option<String>) {
    (setting.shown(), value_of(config.options(), setting))
}

/// The settings that can be set, with their values.
pub(crate) fn settable(config: &SessionConfig) -> Vec<(String, Option<String>)> {
    SETTINGS.iter().map(|setting| entry(config, setting)).collect()
}

fn fixed_entry(name: &str, options: &Options) -> (String, Option<String>) {
    let value = match name {
        "memory_limit" => options.memory_limit.map_or("none".to_owned(), |bytes| bytes.to_string()),
        "read_only" => options.read_only.to_string(),
        _ => options.cache_bytes.to_string(),
    };
    (format!("{PREFIX}{name}"), Some(value))
}

fn entries(config: &SessionConfig, options: &Options) -> Vec<(String, Option<String>)> {
    let fixed = FIXED.iter().map(|name| fixed_entry(name, options));
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
    let is_named = find(name).is_ok_and(|setting| setting.name == RETENTION);
    own(state).filter(|_| is_named).map(|settings| Duration::from_secs(settings.retention))
}

/// Whether commits wait until they are durable.
pub(crate) fn synchronous_commit(state: &SessionState) -> bool {
    own(state).is_none_or(|settings| settings.synchronous_commit != "off")
}

/// The design of a table created without WITH.
pub(crate) fn default_design(state: &SessionState) -> Result<Design> {
    preset(own(state).map_or("auto", |settings| settings.design.as_str()))
}

/// The design of a preset, which names no columns, so that any schema will do.
fn preset(name: &str) -> Result<Design> {
    Ok(Design::default().with_options([("preset", name)], &TableSchema::default())?)
}
