//! The settings of one connection that PostgreSQL has. Settings that the server does not support say so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::PgError;
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
    /// An isolation level.
    Level,
}

/// The name as shown, the initial value, and how it can be changed.
const SETTINGS: &[(&str, &str, Kind)] = &[
    ("application_name", "", Kind::Free),
    ("bytea_output", "hex", Kind::Only(&["hex"])),
    ("client_encoding", "UTF8", Kind::Only(&["utf8", "utf-8", "unicode", "sql_ascii"])),
    ("client_min_messages", "notice", Kind::Free),
    ("DateStyle", "ISO, MDY", Kind::Only(&["iso"])),
    ("default_transaction_deferrable", "off", Kind::Free),
    ("default_transaction_isolation", "read committed", Kind::Level),
    ("default_transaction_read_only", "off", Kind::Switch),
    ("escape_string_warning", "on", Kind::Free),
    ("extra_float_digits", "1", Kind::Free),
    ("idle_in_transaction_session_timeout", "0", Kind::Milliseconds),
    ("in_hot_standby", "off", Kind::Fixed),
    ("integer_datetimes", "on", Kind::Fixed),
    ("IntervalStyle", "postgres", Kind::Only(&["postgres"])),
    ("is_superuser", "off", Kind::Fixed),
    ("jit", "off", Kind::Free),
    ("lc_collate", "C", Kind::Fixed),
    ("lc_ctype", "C", Kind::Fixed),
    ("lc_messages", "C", Kind::Free),
    ("lc_monetary", "C", Kind::Free),
    ("lock_timeout", "0", Kind::Milliseconds),
    ("max_identifier_length", "63", Kind::Fixed),
    ("max_index_keys", "32", Kind::Fixed),
    ("quote_all_identifiers", "off", Kind::Free),
    ("role", "none", Kind::Free),
    ("row_security", "on", Kind::Free),
    ("search_path", "\"$user\", public", Kind::Free),
    ("server_encoding", "UTF8", Kind::Fixed),
    ("server_version", VERSION, Kind::Fixed),
    ("server_version_num", VERSION_NUMBER, Kind::Fixed),
    ("session_authorization", "", Kind::Fixed),
    ("standard_conforming_strings", "on", Kind::Only(&["on", "true", "1"])),
    ("statement_timeout", "0", Kind::Milliseconds),
    ("synchronize_seqscans", "on", Kind::Free),
    ("synchronous_commit", "on", Kind::OneOf(&["on", "off", "local", "remote_write", "remote_apply"])),
    ("TimeZone", "UTC", Kind::Free),
    ("transaction_isolation", "read committed", Kind::Level),
    ("transaction_read_only", "off", Kind::Switch),
    ("work_mem", "4MB", Kind::Free),
    ("xmloption", "content", Kind::Free),
];

/// The time zone in which times with zone are shown.
pub const TIME_ZONE: &str = "TimeZone";

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
        let Some((name, _, kind)) = find(name) else {
            return Err(PgError::new(sqlstate::UNDEFINED_OBJECT, format!("there is no setting {name}")));
        };
        let initial = self.initial.get(name).cloned().unwrap_or_default();
        let value = value.map_or(initial, str::to_owned);
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
            Kind::Milliseconds => milliseconds(&lower)?.as_millis().to_string(),
            Kind::Free => value,
        };
        self.values.insert(name, value.clone());
        let reported = REPORTED.contains(&name);
        Ok(if reported { Changed::Reported { name, value } } else { Changed::Kept })
    }

    pub fn reset_all(&mut self) {
        self.values = self.initial.clone();
    }

    /// The time limit of a statement: the shorter of those of the connection and the server.
    pub fn statement_limit(&self) -> Option<Duration> {
        self.milliseconds("statement_timeout").into_iter().chain(self.limit).min()
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

/// The engine's name of an isolation level.
///
/// # Errors
///
/// The level does not exist, or is stricter than those of the engine.
pub fn level(text: &str) -> Result<&'static str, PgError> {
    match text {
        "read committed" | "read uncommitted" | "default" => Ok("read committed"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_they_cannot_be() {
        let mut settings = Settings::new("ann", false, Some(Duration::from_secs(1)));
        assert_eq!(settings.statement_limit(), Some(Duration::from_secs(1)));
        settings.set("STATEMENT_TIMEOUT", Some("500ms")).expect("set");
        assert_eq!(settings.statement_limit(), Some(Duration::from_millis(500)));
        settings.set("statement_timeout", Some("1h")).expect("set");
        assert_eq!(settings.statement_limit(), Some(Duration::from_secs(1)));
        let named = settings.set("application_name", Some("x")).expect("set");
        assert_eq!(named, Changed::Reported { name: "application_name", value: "x".into() });
        assert!(settings.set("client_encoding", Some("LATIN1")).is_err());
        assert!(settings.set("server_version", Some("9")).is_err());
        assert!(settings.set("datestyle", Some("ISO, DMY")).is_ok() && settings.set("datestyle", Some("SQL")).is_err());
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
