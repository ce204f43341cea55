//! The object that says what a database is. It is made first and never changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::log::record::VERSION;
use crate::log::{LogError, random_id};
use crate::media::objects::{Objects, create_surely};

/// The name of the object.
pub const DATABASE: &str = "FREESTONE";
/// The number of names that an error shows.
const SHOWN: usize = 5;

/// What a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// A random number, which it has from its creation on.
    pub number: u128,
    /// How long what is not needed any more is kept at least.
    pub retention: Duration,
}

#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    database: String,
    retention_ms: u64,
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Description {
    /// The description of the database at a place; `None` if there is none.
    pub(super) fn read(objects: &dyn Objects) -> Result<Option<Description>, LogError> {
        objects.get(DATABASE)?.map(|bytes| Description::parse(&bytes)).transpose()
    }

    /// Makes a database, unless somebody else has made one meanwhile, which is the one then.
    pub(super) fn create(objects: &dyn Objects, retention: Duration) -> Result<Description, LogError> {
        let made = Description { number: random_id(), retention };
        create_surely(objects, DATABASE, &made.to_bytes())?;
        let missing = || LogError::NoDatabase { place: objects.place() };
        Description::read(objects)?.ok_or_else(missing)
    }

    fn to_bytes(self) -> Vec<u8> {
        let (database, retention_ms) = (format!("{:032x}", self.number), self.retention.as_millis() as u64);
        let text = serde_json::json!({ "format": VERSION, "database": database, "retention_ms": retention_ms });
        format!("{text}\n").into_bytes()
    }

    fn parse(bytes: &[u8]) -> Result<Description, LogError> {
        let damaged = |reason: String| LogError::damaged(DATABASE, 0, reason);
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if format != VERSION {
            return Err(LogError::Version { file: DATABASE.to_owned(), version: format });
        }
        let text: Text = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let number = u128::from_str_radix(&text.database, 16);
        let number = number.map_err(|_| damaged(format!("{:?} is no number of a database", text.database)))?;
        if text.retention_ms == 0 {
            return Err(damaged("a retention of 0".to_owned()));
        }
        Ok(Description { number, retention: Duration::from_millis(text.retention_ms) })
    }
}

/// Refuses a place that has objects, but no database.
pub(super) fn check_vacant(objects: &dyn Objects) -> Result<(), LogError> {
    let found = objects.list("", None, SHOWN + 1)?;
    let is_probe = |name: &str| name.starts_with(super::probe::FOLDER);
    let mut names: Vec<String> = found.into_iter().map(|object| object.name).filter(|name| !is_probe(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    if names.len() > SHOWN {
        names.truncate(SHOWN);
        names.push("others".to_owned());
    }
    Err(LogError::NotEmpty { place: objects.place(), names: names.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_what_was_written() {
        let made = Description { number: 7 << 100, retention: Duration::from_millis(1500) };
        assert_eq!(Description::parse(&made.to_bytes()).unwrap(), made);
    }

    #[test]
    fn newer_formats_and_damage_are_told_apart() {
        let reason = |text: &str| Description::parse(text.as_bytes()).unwrap_err().to_string();
        let newer = reason(r#"{ "format": 99, "other": true }"#);
        assert!(newer.contains("format version 99") && newer.contains("use a newer program"), "{newer}");
        for text in ["", "{}", r#"{ "format": 3, "database": "x", "retention_ms": 5 }"#] {
            assert!(reason(text).starts_with("FREESTONE is damaged"), "{text}");
        }
        assert!(reason(r#"{ "format": 3, "database": "a", "retention_ms": 0 }"#).contains("retention"));
    }
}
