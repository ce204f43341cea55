//! The settings of one connection that PostgreSQL has. Settings that the server does not support say so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calendar::{DateStyle, IntervalStyle, Styles};
use super::encoding::Encoding;
use super::error::PgError;
use super::zones;
use crate::sqlstate;

pub const VERSION: &str = concat!("16.6 (Freestone ", env!("CARGO_PKG_VERSION"), ")");
const VERSION_NUMBER: &str = "160006";

/// How a setting can be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Stored and shown, without any effect.
    Free,
    /// Stored as `on` or `off`.
    Switch,
    /// Constant. Setting it is an error.
    Fixed,
    /// Only these values, which are compared by their beginning in lower case.
    Only(&'static [&'static str]),
    /// One of these values.
    OneOf(&'static [&'static str]),
    Milliseconds,
    /// An integer from the first to the second.
    Range(i32, i32),
    /// An encoding, under any of its names.
    Encoding,
    /// The user of the connection, or the initial value.
    Own,
    /// A style of dates, and the order of their parts.
    DateStyle,
    /// An isolation level.
    Level,
}

const MESSAGE_LEVELS: [&str; 9] =
    ["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

/// The name as shown, the initial value, and how it can be changed.
const SETTINGS: &[(&str, &str, Kind)] = &[
    ("application_name", "", Kind::Free),
    ("array_nulls", "on", Kind::Only(&["on", "true", "1"])),
    ("bytea_output", "hex", Kind::Only(&["hex"])),
    ("check_function_bodies", "on", Kind::Switch),
    ("client_encoding", "UTF8", Kind::Encoding),
    ("client_min_messages", "notice", Kind::OneOf(&MESSAGE_LEVELS)),
    ("constraint_exclusion", "partition", Kind::Free),
    ("cpu_index_tuple_cost", "0.005", Kind::Free),
    ("cpu_operator_cost", "0.0025", Kind::Free),
    ("cpu_tuple_cost", "0.01", Kind::Free),
    ("cursor_tuple_fraction", "0.1", Kind::Free),
    ("DateStyle", "ISO, MDY", Kind::DateStyle),
    ("default_statistics_target", "100", Kind::Free),
    ("default_table_access_method", "heap", Kind::Free),
    ("default_tablespace", "", Kind::Free),
    ("default_toast_compression", "pglz", Kind::Free),
    ("default_transaction_deferrable", "off", Kind::Switch),
    ("default_transaction_isolation", "read committed", Kind::Level),
    ("default_transaction_read_only", "off", Kind::Switch),
    ("effective_cache_size", "4GB", Kind::Free),
    ("effective_io_concurrency", "1", Kind::Free),
    ("enable_async_append", "on", Kind::Switch),
    ("enable_bitmapscan", "on", Kind::Switch),
    ("enable_gathermerge", "on", Kind::Switch),
    ("enable_hashagg", "on", Kind::Switch),
    ("enable_hashjoin", "on", Kind::Switch),
    ("enable_incremental_sort", "on", Kind::Switch),
    ("enable_indexonlyscan", "on", Kind::Switch),
    ("enable_indexscan", "on", Kind::Switch),
    ("enable_material", "on", Kind::Switch),
    ("enable_memoize", "on", Kind::Switch),
    ("enable_mergejoin", "on", Kind::Switch),
    ("enable_nestloop", "on", Kind::Switch),
    ("enable_parallel_append", "on", Kind::Switch),
    ("enable_parallel_hash", "on", Kind::Switch),
    ("enable_partition_pruning", "on", Kind::Switch),
    ("enable_partitionwise_aggregate", "off", Kind::Switch),
    ("enable_partitionwise_join", "off", Kind::Switch),
    ("enable_seqscan", "on", Kind::Switch),
    ("enable_sort", "on", Kind::Switch),
    ("enable_tidscan", "on", Kind::Switch),
    ("escape_string_warning", "on", Kind::Free),
    ("extra_float_digits", "1", Kind::Range(-15, 3)),
    ("force_parallel_mode", "off", Kind::Free),
    ("from_collapse_limit", "8", Kind::Free),
    ("geqo", "on", Kind::Switch),
    ("geqo_effort", "5", Kind::Free),
    ("geqo_threshold", "12", Kind::Free),
    ("gin_fuzzy_search_limit", "0", Kind::Free),
    ("hash_mem_multiplier", "2", Kind::Free),
    ("idle_in_transaction_session_timeout", "0", Kind::Milliseconds),
    ("in_hot_standby", "off", Kind::Fixed),
    ("integer_datetimes", "on", Kind::Fixed),
    ("IntervalStyle", "postgres", Kind::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"])),
    ("is_superuser", "off", Kind::Fixed),
    ("jit", "off", Kind::Free),
    ("jit_above_cost", "100000", Kind::Free),
    ("jit_inline_above_cost", "500000", Kind::Free),
    ("jit_optimize_above_cost", "500000", Kind::Free),
    ("join_collapse_limit", "8", Kind::Free),
    ("lc_collate", "C", Kind::Fixed),
    ("lc_ctype", "C", Kind::Fixed),
    ("lc_messages", "C", Kind::Free),
    ("lc_monetary", "C", Kind::Free),
    ("lc_numeric", "C", Kind::Free),
    ("lc_time", "C", Kind::Free),
    ("lock_timeout", "0", Kind::Milliseconds),
    ("logical_decoding_work_mem", "64MB", Kind::Free),
    ("maintenance_work_mem", "64MB", Kind::Free),
    ("max_identifier_length", "63", Kind::Fixed),
    ("max_index_keys", "32", Kind::Fixed),
    ("max_parallel_maintenance_workers", "2", Kind::Free),
    ("max_parallel_workers", "8", Kind::Free),
    ("max_parallel_workers_per_gather", "2", Kind::Free),
    ("max_prepared_transactions", "0", Kind::Fixed),
    ("max_stack_depth", "2MB", Kind::Free),
    ("min_parallel_index_scan_size", "512kB", Kind::Free),
    ("min_parallel_table_scan_size", "8MB", Kind::Free),
    ("parallel_leader_participation", "on", Kind::Switch),
    ("parallel_setup_cost", "1000", Kind::Free),
    ("parallel_tuple_cost", "0.1", Kind::Free),
    ("password_encryption", "scram-sha-256", Kind::Only(&["scram-sha-256"])),
    ("plan_cache_mode", "auto", Kind::Free),
    ("quote_all_identifiers", "off", Kind::Free),
    ("random_page_cost", "4", Kind::Free),
    ("role", "none", Kind::Own),
    ("row_security", "on", Kind::Free),
    ("search_path", "\"$user\", public", Kind::Free),
    ("seq_page_cost", "1", Kind::Free),
    ("server_encoding", "UTF8", Kind::Fixed),
    ("server_version", VERSION, Kind::Fixed),
    ("server_version_num", VERSION_NUMBER, Kind::Fixed),
    ("session_authorization", "", Kind::Own),
    ("standard_conforming_strings", "on", Kind::Only(&["on", "true", "1"])),
    ("statement_timeout", "0", Kind::Milliseconds),
    ("synchronize_seqscans", "on", Kind::Free),
    ("synchronous_commit", "on", Kind::OneOf(&["on", "off", "local", "remote_write", "remote_apply"])),
    ("temp_buffers", "8MB", Kind::Free),
    ("temp_tablespaces", "", Kind::Free),
    ("TimeZone", "UTC", Kind::Free),
    ("transaction_deferrable", "off", Kind::Switch),
    ("transaction_isolation", "read committed", Kind::Level),
    ("transaction_read_only", "off", Kind::Switch),
    ("transform_null_equals", "off", Kind::Only(&["off", "false", "0"])),
    ("work_mem", "4MB", Kind::Free),
    ("xmloption", "content", Kind::Free),
];

/// The time zone in which times with zone are shown.
pub const TIME_ZONE: &str = "TimeZone";
/// The setting of the style and the order of dates.
pub const DATE_STYLE: &str = "DateStyle";

/// The settings that clients are told at the start, and after every change.
const REPORTED: [&str; 14] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The settings of one connection.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
    initial: BTreeMap<&'static str, String>,
    limit: Option<Duration>,
}

/// The effect of setting a value.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// The client must be told the new value.
    Reported {
        name: &'static str,
        value: String,
    },
    Kept,
}

impl Settings {
    /// `limit` is the server's time limit of statements, which no setting can exceed.
    pub fn new(user: &str, is_superuser: bool, limit: Option<Duration>) -> Settings {
        let mut values: BTreeMap<_, _> = SETTINGS.iter().map(|(name, value, _)| (*name, (*value).to_owned())).collect();
        values.insert("session_authorization", user.to_owned());
        values.insert("is_superuser", if is_superuser { "on" } else { "off" }.to_owned());
        Settings { initial: values.clone(), values, limit }
    }

    /// Whether a name is one of these settings. The others are those of the engine.
    pub fn knows(name: &str) -> bool {
        find(name).is_some()
    }

    pub fn show(&self, name: &str) -> Option<(&'static str, &str)> {
        let (name, _, _) = find(name)?;
        Some((name, self.values.get(name)?))
    }

    /// The value as SHOW gives it: times in the largest unit without a rest.
    pub fn shown(&self, name: &str) -> Option<(&'static str, String)> {
        let (name, value) = self.show(name)?;
        let is_time = find(name).is_some_and(|(_, _, kind)| kind == Kind::Milliseconds);
        let time = is_time.then(|| value.parse().ok()).flatten().map(with_unit);
        Some((name, time.unwrap_or_else(|| value.to_owned())))
    }

    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The names and values that clients are told at the start.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().filter_map(|name| self.show(name))
    }

    /// Sets a value. `None` sets the initial value.
    ///
    /// # Errors
    ///
    /// The value is invalid, or the setting cannot be changed.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<Changed, PgError> {
        // By the engine's own name, offsets count eastwards.
        let is_engines = name.eq_ignore_ascii_case("time_zone");
        let Some((name, _, kind)) = find(name) else {
            return Err(PgError::new(sqlstate::UNDEFINED_OBJECT, format!("there is no setting {name}")));
        };
        let eastwards = value.filter(|_| is_engines).map(zones::shown);
        let value = eastwards.as_deref().or(value);
        let initial = self.initial.get(name).cloned().unwrap_or_default();
        let value = value.map_or_else(|| initial.clone(), str::to_owned);
        let lower = value.to_ascii_lowercase();
        let value = match kind {
            Kind::Fixed => {
                return Err(PgError::new(sqlstate::CANT_CHANGE_RUNTIME_PARAM, format!("{name} cannot be changed")));
            }
            Kind::Only(values) if !values.iter().any(|allowed| lower.starts_with(allowed)) => {
                return Err(PgError::new(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!("{name} = {value} is not available"),
                )
                .with_hint(format!("it is {} here", values[0])));
            }
            Kind::Only(_) => self.values.get(name).cloned().unwrap_or_default(),
            Kind::OneOf(values) if !values.contains(&lower.as_str()) => {
                let values = values.join(", ");
                return Err(PgError::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("{name} = {value}: the values are {values}"),
                ));
            }
            Kind::OneOf(_) => lower,
            Kind::Switch => switch(name, &lower)?.to_owned(),
            Kind::Level => level(&lower)?.to_owned(),
            Kind::Range(first, last) => integer(name, &lower, first..=last)?,
            Kind::Encoding => encoding(&lower)?.to_owned(),
            Kind::Own if lower == initial.to_ascii_lowercase() => initial,
            Kind::Own if Some(&value) == self.initial.get("session_authorization") => value,
            Kind::Own => {
                let message = format!("{name} = {value}: a session keeps the user with whom it began");
                return Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, message));
            }
            Kind::DateStyle => date_style(self.values.get(name).map_or("", String::as_str), &lower)?,
            Kind::Milliseconds => milliseconds(&lower)?.as_millis().to_string(),
            Kind::Free => value,
        };
        self.values.insert(name, value.clone());
        let reported = REPORTED.contains(&name);
        Ok(if reported { Changed::Reported { name, value } } else { Changed::Kept })
    }

    /// Makes the values of the startup message those to which RESET returns.
    pub fn begin(&mut self) {
        self.initial = self.values.clone();
    }

    /// The settings that do not have their initial values, without those of the transaction.
    pub fn changed(&self) -> Vec<&'static str> {
        let is_changed = |name: &&str| self.values.get(name) != self.initial.get(name);
        self.initial.keys().copied().filter(|name| !name.starts_with("transaction_")).filter(is_changed).collect()
    }

    /// Returns to the initial values. Those of the transaction remain.
    pub fn reset_all(&mut self) {
        for name in self.changed() {
            self.values.insert(name, self.initial.get(name).cloned().unwrap_or_default());
        }
    }

    /// The encoding of the client's texts.
    pub fn encoding(&self) -> Encoding {
        self.values.get("client_encoding").and_then(|name| Encoding::by_name(name)).unwrap_or_default()
    }

    /// How dates and intervals are written.
    pub fn styles(&self) -> Styles {
        let value = |name: &str| self.values.get(name).map_or("", String::as_str);
        let day_first = value("DateStyle").ends_with("DMY");
        let date = match value("DateStyle").split(',').next() {
            Some("German") => DateStyle::German,
            Some("SQL") => DateStyle::Sql { day_first },
            Some("Postgres") => DateStyle::Postgres { day_first },
            _ => DateStyle::Iso,
        };
        let interval = match value("IntervalStyle") {
            "postgres_verbose" => IntervalStyle::Verbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        };
        let extra_float_digits = value("extra_float_digits").parse().unwrap_or(1);
        Styles { date, interval, extra_float_digits, encoding: self.encoding() }
    }

    /// The time limit of a statement: the shorter of those of the connection and the server.
    pub fn statement_limit(&self) -> Option<Duration> {
        self.milliseconds("statement_timeout").into_iter().chain(self.limit).min()
    }

    /// The longest time for which a statement waits for a lock.
    pub fn lock_limit(&self) -> Option<Duration> {
        self.milliseconds("lock_timeout")
    }

    /// The maximum time of a transaction without a running statement.
    pub fn idle_in_transaction_limit(&self) -> Option<Duration> {
        self.milliseconds("idle_in_transaction_session_timeout")
    }

    fn milliseconds(&self, name: &str) -> Option<Duration> {
        let limit = self.values.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        (limit > 0).then(|| Duration::from_millis(limit))
    }
}

/// The level of the engine that an isolation level is.
pub fn engine_level(level: &str) -> &str {
    if level == "read uncommitted" { "read committed" } else { level }
}

/// The name of an isolation level.
///
/// # Errors
///
/// The level does not exist, or is stricter than those of the engine.
pub fn level(text: &str) -> Result<&'static str, PgError> {
    match text {
        "read committed" | "default" => Ok("read committed"),
        "read uncommitted" => Ok("read uncommitted"),
        "repeatable read" | "snapshot" => Ok("repeatable read"),
        "serializable" => Err(PgError::unsupported("isolation level SERIALIZABLE is not available")
            .with_hint("REPEATABLE READ is snapshot isolation")),
        _ => Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("there is no isolation level {text}"))),
    }
}

/// The setting of a name. `time_zone` is the engine's name of `TimeZone`.
fn find(name: &str) -> Option<(&'static str, &'static str, Kind)> {
    let name = if name.eq_ignore_ascii_case("time_zone") { TIME_ZONE } else { name };
    SETTINGS.iter().copied().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

fn switch(name: &str, value: &str) -> Result<&'static str, PgError> {
    match value {
        "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on"),
        "off" | "false" | "no" | "0" | "f" | "n" => Ok("off"),
        _ => {
            Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("{name} = {value}: the values are on and off")))
        }
    }
}

fn integer(name: &str, text: &str, range: std::ops::RangeInclusive<i32>) -> Result<String, PgError> {
    match text.trim().parse() {
        Ok(value) if range.contains(&value) => Ok(value.to_string()),
        _ => {
            let (first, last) = (range.start(), range.end());
            let message = format!("{name} = {text}: it is an integer from {first} to {last}");
            Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// The name of an encoding.
fn encoding(text: &str) -> Result<&'static str, PgError> {
    match Encoding::by_name(text) {
        Some(encoding) => Ok(encoding.name()),
        None => Err(PgError::unsupported(format!("client_encoding = {text} is not available"))
            .with_hint("there are UTF8, SQL_ASCII, LATIN1, LATIN9 and WIN1252")),
    }
}

/// The value of `DateStyle`, of which a part may be left as it was.
fn date_style(before: &str, value: &str) -> Result<String, PgError> {
    let (mut style, mut order) = before.split_once(", ").unwrap_or(("ISO", "MDY"));
    let mut has_order = false;
    for word in value.split(',').map(str::trim) {
        match word {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "german" => {
                style = "German";
                order = if has_order { order } else { "DMY" };
            }
            _ if word.starts_with("postgres") => style = "Postgres",
            _ if word.starts_with("euro") || word == "dmy" => (order, has_order) = ("DMY", true),
            _ if word.starts_with("noneuro") || word == "us" || word == "mdy" => (order, has_order) = ("MDY", true),
            "ymd" => (order, has_order) = ("YMD", true),
            _ => {
                let message = format!("DateStyle = {value}: {word} is no style of dates");
                return Err(PgError::new(sqlstate::INVALID_PARAMETER_VALUE, message)
                    .with_hint("the styles are ISO, SQL, Postgres and German, the orders DMY, MDY and YMD"));
            }
        }
    }
    Ok(format!("{style}, {order}"))
}

/// Parses a duration: `500`, `500ms`, `5s`, `2min`.
fn milliseconds(text: &str) -> Result<Duration, PgError> {
    let invalid = || {
        PgError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("{text} is not a time: write it as 500ms, 5s or 2min"))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let factor = match text[digits.len()..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(invalid()),
    };
    let count: u64 = digits.parse().map_err(|_| invalid())?;
    Ok(Duration::from_millis(count.checked_mul(factor).ok_or_else(invalid)?.min(i32::MAX as u64)))
}

/// A number of milliseconds in the largest unit without a rest.
fn with_unit(milliseconds: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
    match units.into_iter().find(|(_, size)| milliseconds.is_multiple_of(*size)) {
        Some((unit, size)) if milliseconds > 0 => format!("{}{unit}", milliseconds / size),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_they_cannot_be() {
        let mut settings = Settings::new("ann", false, Some(Duration::from_secs(1)));
        assert_eq!(settings.statement_limit(), Some(Duration::from_secs(1)));
        settings.set("STATEMENT_TIMEOUT", Some("500ms")).expect("set");
        assert_eq!(settings.statement_limit(), Some(Duration::from_millis(500)));
        assert_eq!(settings.shown("statement_timeout"), Some(("statement_timeout", "500ms".into())));
        settings.set("statement_timeout", Some("1h")).expect("set");
        assert_eq!(settings.shown("statement_timeout"), Some(("statement_timeout", "1h".into())));
        assert_eq!(settings.statement_limit(), Some(Duration::from_secs(1)));
        let named = settings.set("application_name", Some("x")).expect("set");
        assert_eq!(named, Changed::Reported { name: "application_name", value: "x".into() });
        assert!(settings.set("client_encoding", Some("EUC_JP")).is_err());
        settings.set("client_encoding", Some("iso-8859-1")).expect("set");
        assert_eq!(settings.show("client_encoding"), Some(("client_encoding", "LATIN1")));
        assert!(settings.set("server_version", Some("9")).is_err());
        for (value, expected) in [
            ("ISO, DMY", "ISO, DMY"),
            ("sql", "SQL, DMY"),
            ("US, postgres", "Postgres, MDY"),
            ("german", "German, DMY"),
        ] {
            settings.set("datestyle", Some(value)).expect(value);
            assert_eq!(settings.show("DateStyle"), Some(("DateStyle", expected)));
        }
        assert!(settings.set("datestyle", Some("ISO, XYZ")).is_err());
        settings.set("client_encoding", Some("'utf-8'")).expect("set");
        assert!(settings.set("extra_float_digits", Some("4")).is_err());
        settings.set("extra_float_digits", Some("-2")).expect("set");
        settings.set("session_authorization", None).expect("set");
        settings.set("role", Some("ann")).expect("set");
        assert!(settings.set("role", Some("bob")).is_err());
        let (date, interval) = (DateStyle::German, IntervalStyle::SqlStandard);
        let styles = Styles { date, interval, extra_float_digits: -2, encoding: Encoding::Utf8 };
        settings.set("intervalstyle", Some("SQL_STANDARD")).expect("set");
        assert_eq!(settings.styles(), styles);
        settings.set("timezone", Some("Europe/Paris")).expect("set");
        assert_eq!(settings.show("time_zone"), Some(("TimeZone", "Europe/Paris")));
        settings.set("transaction_read_only", Some("TRUE")).expect("set");
        assert_eq!(settings.show("transaction_read_only"), Some(("transaction_read_only", "on")));
        assert!(settings.set("default_transaction_read_only", Some("maybe")).is_err());
        settings.set("synchronous_commit", Some("OFF")).expect("set");
        assert_eq!(settings.show("synchronous_commit"), Some(("synchronous_commit", "off")));
        assert!(settings.set("synchronous_commit", Some("maybe")).is_err());
        settings.set("application_name", None).expect("reset");
        assert_eq!(settings.show("application_name"), Some(("application_name", "")));
    }
}
