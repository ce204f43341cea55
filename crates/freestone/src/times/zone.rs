//! Time zones: offsets from UTC, and local times that a change of the offset skips or repeats.

use chrono::{DateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::config::ConfigOptions;

use super::calendar::{civil, days_in_month, days_of, weekday};
use crate::error::Error;

/// The largest offset from UTC, as in PostgreSQL.
const OFFSET_SECONDS_MAX: i64 = 16 * 3_600;
const DAY_SECONDS: i64 = 86_400;

/// The time zone in which TIMESTAMP WITH TIME ZONE is stored.
pub(crate) const UTC: &str = "+00:00";

/// A time zone.
#[derive(Debug, Clone, Copy)]
pub enum Zone {
    /// Seconds east of UTC.
    Fixed(i64),
    /// A zone of the IANA database, by its name.
    Named(Tz),
}

impl Zone {
    /// Parses `UTC`, `Z`, `+02`, `+02:00`, `+0200`, `UTC+2` (to the east, as in DuckDB) or the name of an IANA time zone,
    /// regardless of case.
    pub fn parse(text: &str) -> Option<Zone> {
        let text = text.trim();
        if ["utc", "gmt", "z", "zulu", "etc/utc", "etc/gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
            return Some(Zone::Fixed(0));
        }
        if text.starts_with(['+', '-']) {
            return offset(text).map(Zone::Fixed);
        }
        if let Some((name, from_utc)) = text.split_at_checked(3)
            && ["utc", "gmt"].iter().any(|utc| name.eq_ignore_ascii_case(utc))
            && from_utc.starts_with(['+', '-'])
        {
            return offset(from_utc).map(Zone::Fixed);
        }
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.len() <= 64;
        let spellings = [text.to_owned(), capitalized(text), text.to_ascii_uppercase()];
        let named = || spellings.iter().find_map(|name| name.parse::<Tz>().ok());
        if is_name { named().map(Zone::Named) } else { None }
    }

    /// A zone with an offset in hours, as in `SET TIME ZONE -3.5`.
    pub fn of_hours(hours: f64) -> Option<Zone> {
        let minutes = hours * 60.0;
        let is_offset = minutes.fract() == 0.0 && minutes.abs() * 60.0 < OFFSET_SECONDS_MAX as f64;
        is_offset.then(|| Zone::Fixed(minutes as i64 * 60))
    }

    /// The zone of a session.
    pub fn of_session(options: &ConfigOptions) -> Zone {
        options.execution.time_zone.as_deref().and_then(Zone::parse).unwrap_or(Zone::Fixed(0))
    }

    /// The zone's name as Arrow reads it; UTC is the name of its offset.
    pub fn name(&self) -> String {
        match self {
            Zone::Fixed(seconds) => {
                let (sign, minutes) = (if *seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            Zone::Named(zone) => zone.to_string(),
        }
    }

    /// Whether it is UTC.
    pub fn is_utc(&self) -> bool {
        matches!(self, Zone::Fixed(0))
    }

    /// The offset at an instant, in seconds east of UTC.
    pub fn offset_at(&self, utc_seconds: i64) -> Option<i64> {
        match self {
            Zone::Fixed(seconds) => Some(*seconds),
            Zone::Named(zone) => {
                let at = DateTime::from_timestamp(in_known_years(utc_seconds), 0)?.naive_utc();
                Some(i64::from(zone.offset_from_utc_datetime(&at).fix().local_minus_utc()))
            }
        }
    }

    /// The offset of a local time. A skipped local time has the offset before the gap, and a repeated one the offset
    /// after the change, as in PostgreSQL.
    pub fn offset_of_local(&self, local_seconds: i64) -> Option<i64> {
        let before = self.offset_at(local_seconds.checked_sub(DAY_SECONDS)?)?;
        let after = self.offset_at(local_seconds.checked_add(DAY_SECONDS)?)?;
        if before == after {
            // The interval contains both changes of a short period, such as Ramadan in some places.
            let between = self.offset_at(local_seconds - before)?;
            let holds = between == before || self.offset_at(local_seconds - between)? == between;
            return Some(if holds { between } else { before });
        }
        let is_before = self.offset_at(local_seconds - before)? == before;
        let is_after = self.offset_at(local_seconds - after)? == after;
        Some(if is_after {
            after
        } else if is_before || after > before {
            before
        } else {
            after
        })
    }
}

/// The error of an unknown zone.
pub(crate) fn missing(name: &str) -> Error {
    Error::invalid(format!("no time zone {name}"))
        .with_hint("write an offset such as '+02:00', or a name such as 'Europe/Berlin'")
}

/// The zone data ends in 2100. A later year has the offsets of an earlier year that begins on the same weekday and has
/// the same length; 28 years contain one of each kind.
const LAST_YEAR: i64 = 2090;
/// Before this year, every zone has its first offset.
const FIRST_YEAR: i64 = 1700;

fn in_known_years(utc_seconds: i64) -> i64 {
    let days = utc_seconds.div_euclid(DAY_SECONDS);
    let year = civil(days).year;
    if (FIRST_YEAR..=LAST_YEAR).contains(&year) {
        return utc_seconds;
    }
    if year < FIRST_YEAR {
        return days_of(FIRST_YEAR, 1, 1) * DAY_SECONDS;
    }
    let kind = |year: i64| (weekday(days_of(year, 1, 1)), days_in_month(year, 2));
    let alike = (LAST_YEAR - 27..=LAST_YEAR).find(|known| kind(*known) == kind(year)).unwrap_or(LAST_YEAR);
    utc_seconds - (days_of(year, 1, 1) - days_of(alike, 1, 1)) * DAY_SECONDS
}

/// Parses `+H`, `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS` to seconds.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = &text[1..];
    let parts: Vec<&str> = match digits.len() {
        4 if !digits.contains(':') && digits.is_ascii() => vec![&digits[..2], &digits[2..]],
        _ => digits.split(':').collect(),
    };
    if parts.len() > 3 {
        return None;
    }
    let mut seconds = 0;
    for (at, part) in parts.iter().enumerate() {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let value = part.parse::<i64>().ok().filter(|value| is_number && (at == 0 || *value < 60))?;
        seconds += value * [3_600, 60, 1][at];
    }
    (seconds < OFFSET_SECONDS_MAX).then_some(sign * seconds)
}

/// `america/new_york` as `America/New_York`.
fn capitalized(text: &str) -> String {
    let mut begins = true;
    let letter = |c: char| {
        let shown = if begins { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        begins = !c.is_ascii_alphanumeric();
        shown
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_offsets_are_read() {
        for (text, name) in [
            ("UTC", "+00:00"),
            ("z", "+00:00"),
            ("+07:00", "+07:00"),
            ("-7", "-07:00"),
            ("+0530", "+05:30"),
            ("america/new_york", "America/New_York"),
            ("Europe/Berlin", "Europe/Berlin"),
        ] {
            assert_eq!(Zone::parse(text).map(|zone| zone.name()).as_deref(), Some(name), "{text}");
        }
        for text in ["", "+", "+17", "+1:2:3:4", "=+07:00", "Nowhere/Land", "7", "+07:60", "+é"] {
            assert!(Zone::parse(text).is_none(), "{text}");
        }
        assert_eq!(Zone::of_hours(-3.5).map(|zone| zone.name()).as_deref(), Some("-03:30"));
        assert!(Zone::of_hours(f64::NAN).is_none() && Zone::of_hours(17.0).is_none());
    }

    #[test]
    fn skipped_and_repeated_hours() {
        let zone = Zone::parse("America/New_York").expect("a zone");
        let offset =
            |year, month, day, hour: i64| zone.offset_of_local(days_of(year, month, day) * 86_400 + hour * 3_600);
        assert_eq!(offset(2024, 1, 1, 0), Some(-18_000));
        assert_eq!(offset(2024, 7, 1, 0), Some(-14_400));
        assert_eq!(offset(2024, 3, 10, 1), Some(-18_000));
        // 02:00 to 03:00 does not exist, and 01:00 to 02:00 occurs twice.
        assert_eq!(offset(2024, 3, 10, 2), Some(-18_000));
        assert_eq!(offset(2024, 3, 10, 3), Some(-14_400));
        assert_eq!(offset(2024, 11, 3, 0), Some(-14_400));
        assert_eq!(offset(2024, 11, 3, 1), Some(-18_000));
        assert_eq!(offset(2024, 11, 3, 2), Some(-18_000));
        // After the end of the data its rules continue; before its beginning, each place has local mean time.
        assert_eq!(offset(2262, 7, 1, 0), Some(-14_400));
        assert_eq!(offset(9999, 12, 31, 0), Some(-18_000));
        assert_eq!(offset(9999, 3, 14, 1), Some(-18_000));
        assert_eq!(offset(9999, 3, 14, 3), Some(-14_400));
        assert_eq!(offset(1, 1, 1, 0), Some(-17_762));
        assert_eq!(offset(290_000, 7, 1, 0), Some(-14_400));
        assert_eq!(Zone::Fixed(3_600).offset_of_local(i64::MAX), None);
        // A day that Samoa skipped.
        let samoa = Zone::parse("Pacific/Apia").expect("a zone");
        assert_eq!(samoa.offset_of_local(days_of(2011, 12, 30) * 86_400 + 43_200), Some(-36_000));
    }
}
