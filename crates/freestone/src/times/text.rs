//! Parsing and formatting of dates and times as in PostgreSQL and DuckDB.

use std::fmt::Write;

use super::Zone;
use super::calendar::{Civil, checked_days, civil};
use super::interval::{DAY_NS, SECOND_NS, push_clock, push_two, rounded_quotient};

/// A parsed date, time of day, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// Days since 1970-01-01; `None` for a time of day.
    pub days: Option<i64>,
    /// Nanoseconds since midnight, at most a day; `None` for a date.
    pub ns: Option<i64>,
    /// The offset or the name of a time zone that follows.
    pub zone: Option<String>,
}

impl Written {
    /// Ticks since 1970-01-01 00:00:00, rounded, with the given number of ticks per second.
    pub fn ticks(&self, per_second: i64) -> Option<i64> {
        let ns = i128::from(self.days?) * i128::from(DAY_NS) + i128::from(self.ns.unwrap_or(0));
        i64::try_from(rounded_quotient(ns, i128::from(SECOND_NS / per_second))).ok()
    }
}

/// Parses `2024-01-05`, `2024-1-5 10:00`, `20240105T101112.5Z`, `2024-01-05 10:00:00 Europe/Berlin`, `10:00:00`, with `
/// BC` after dates before year 1.
pub(crate) fn parse(text: &str) -> Option<Written> {
    if let Some(written) = parse_plain(text.as_bytes()) {
        return Some(written);
    }
    let mut rest = text.trim();
    let mut written = Written::default();
    let is_time = rest.find(':').is_some_and(|colon| colon <= 2);
    if !is_time {
        let (days, after) = date(rest)?;
        let (days, after) = before_christ(days, after);
        written.days = Some(checked_days(days.year, days.month, days.day)?);
        rest = match after.strip_prefix(['T', 't']).unwrap_or_else(|| after.trim_start()) {
            "" if after.is_empty() || after.trim().is_empty() => return Some(written),
            time => time,
        };
    }
    // A zone can also follow a date, as clients write that have dates with zones.
    if !is_time && rest.strip_prefix(['+', '-']).is_some_and(|offset| offset.starts_with(|c: char| c.is_ascii_digit()))
    {
        Zone::parse(rest)?;
        written.zone = Some(rest.to_owned());
        return Some(written);
    }
    let (rest, era) = match rest.strip_suffix(" BC").or_else(|| rest.strip_suffix(" (BC)")) {
        Some(rest) if !is_time => (rest.trim_end(), true),
        _ => (rest, false),
    };
    if era {
        let Civil { year, month, day } = civil(written.days?);
        written.days = Some(checked_days(1 - year, month, day)?);
    }
    let (ns, zone) = clock(rest)?;
    written.ns = Some(ns);
    written.zone = (!zone.is_empty()).then(|| zone.to_owned());
    if is_time && zone.starts_with(|c: char| c.is_ascii_alphabetic()) && !zone.eq_ignore_ascii_case("z") {
        return None;
    }
    Some(written)
}

/// Parses `YYYY-MM-DD` and `YYYY-MM-DD HH:MM:SS`, as nearly all are written. `None`: it is written otherwise, or there is no such time.
fn parse_plain(text: &[u8]) -> Option<Written> {
    let two = |at: usize| match text[at..at + 2] {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')),
        _ => None,
    };
    let is_written = matches!(text.len(), 10 | 19) && text[4] == b'-' && text[7] == b'-';
    if !is_written {
        return None;
    }
    let days = checked_days(two(0)? * 100 + two(2)?, two(5)?, two(8)?)?;
    if text.len() == 10 {
        return Some(Written { days: Some(days), ..Written::default() });
    }
    let (hours, minutes, seconds) = (two(11)?, two(14)?, two(17)?);
    let is_clock = matches!(text[10], b' ' | b'T') && text[13] == b':' && text[16] == b':';
    if !is_clock || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let ns = (hours * 3_600 + minutes * 60 + seconds) * SECOND_NS;
    Some(Written { days: Some(days), ns: Some(ns), zone: None })
}

/// Parses `YYYY-M-D`, also with slashes, or `YYYYMMDD`. Returns the date, which may be invalid, and the rest.
fn date(text: &str) -> Option<(Civil, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let number = |text: &str| text.parse::<i64>().ok();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let length = digits(unsigned);
    let (year, rest) = unsigned.split_at(length);
    let separator = rest.chars().next().filter(|c| matches!(c, '-' | '/'));
    let Some(separator) = separator else {
        let is_compact = length == 8 && sign == 1 && unsigned.len() == text.len();
        let date = || Some(Civil { year: number(&year[..4])?, month: number(&year[4..6])?, day: number(&year[6..])? });
        return if is_compact { Some((date()?, rest)) } else { None };
    };
    // Of fewer digits, the year could be another part of the date, unless an era says that it is none.
    let has_era = || text.contains(" (BC)") || text.ends_with(" BC");
    if !((3..=7).contains(&length) || (1..=2).contains(&length) && has_era()) {
        return None;
    }
    let (month, rest) = rest[1..].split_at(digits(&rest[1..]));
    let rest = rest.strip_prefix(separator)?;
    let (day, rest) = rest.split_at(digits(rest));
    if !(1..=2).contains(&month.len()) || !(1..=2).contains(&day.len()) {
        return None;
    }
    Some((Civil { year: sign * number(year)?, month: number(month)?, day: number(day)? }, rest))
}

/// Year 1 BC is year 0.
fn before_christ(date: Civil, rest: &str) -> (Civil, &str) {
    match rest {
        " BC" => (Civil { year: 1 - date.year, ..date }, ""),
        // DuckDB writes the time behind it.
        _ => match rest.strip_prefix(" (BC)") {
            Some(rest) => (Civil { year: 1 - date.year, ..date }, rest),
            None => (date, rest),
        },
    }
}

/// Parses `H:MM[:SS[.fraction]]` as nanoseconds since midnight, and returns the rest.
pub(crate) fn clock(text: &str) -> Option<(i64, &str)> {
    let number = |text: &str, most: i64| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let value = text[..digits].parse::<i64>().ok().filter(|value| (1..=2).contains(&digits) && *value <= most)?;
        Some((value, digits))
    };
    let (hours, length) = number(text, 24)?;
    let rest = text[length..].strip_prefix(':')?;
    let (minutes, length) = number(rest, 59)?;
    let mut rest = &rest[length..];
    let (mut seconds, mut ns) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        let (value, length) = number(after, 59)?;
        (seconds, rest) = (value, &after[length..]);
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            ns = fraction(&after[..digits])?;
            rest = &after[digits..];
        }
    }
    let total = (hours * 3_600 + minutes * 60 + seconds) * SECOND_NS + ns;
    (total <= DAY_NS).then(|| (total, rest.trim_start()))
}

/// Nanoseconds from the digits after the point, rounded.
fn fraction(digits: &str) -> Option<i64> {
    if digits.is_empty() || digits.len() > 30 {
        return None;
    }
    let first: String = digits.chars().chain(std::iter::repeat('0')).take(9).collect();
    let up = digits.as_bytes().get(9).is_some_and(|digit| *digit >= b'5');
    Some(first.parse::<i64>().ok()? + i64::from(up))
}

/// `2024-01-05`, with ` (BC)` before year 1, as in DuckDB.
pub(crate) fn push_date(text: &mut String, days: i64) {
    let Civil { year, month, day } = civil(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " (BC)") };
    match year {
        0..10_000 => {
            push_two(text, (year / 100) as u8);
            push_two(text, (year % 100) as u8);
        }
        _ => text.push_str(&year.to_string()),
    }
    text.push('-');
    push_two(text, month as u8);
    text.push('-');
    push_two(text, day as u8);
    text.push_str(era);
}

/// The same as a text of its own.
pub(crate) fn date_text(days: i64) -> String {
    let mut text = String::with_capacity(10);
    push_date(&mut text, days);
    text
}

/// `2024-01-05 10:00:00.5`, with ` (BC)` behind a day before year 1. `ns` is since midnight. The offset of a time zone follows, if it has one:
/// `+00`, `-03:30`.
pub(crate) fn push_timestamp(text: &mut String, days: i64, ns: u64, offset_seconds: Option<i64>) {
    push_date(text, days);
    text.push(' ');
    push_clock(text, ns);
    if let Some(offset) = offset_seconds {
        push_offset(text, offset);
    }
}

pub(crate) fn push_offset(text: &mut String, offset_seconds: i64) {
    let seconds = offset_seconds.abs();
    let _ = write!(text, "{}{:02}", if offset_seconds < 0 { '-' } else { '+' }, seconds / 3_600);
    if seconds % 3_600 != 0 {
        let _ = write!(text, ":{:02}", seconds / 60 % 60);
    }
    if seconds % 60 != 0 {
        let _ = write!(text, ":{:02}", seconds % 60);
    }
}

/// `10:00:00.5`.
pub(crate) fn time_text(ns: u64) -> String {
    let mut text = String::with_capacity(15);
    push_clock(&mut text, ns);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let hour = 3_600 * SECOND_NS;
        for (text, days, ns, zone) in [
            ("2024-01-05", Some(19_727), None, None),
            ("2024-1-5", Some(19_727), None, None),
            (" 2024/01/05 ", Some(19_727), None, None),
            ("20240105", Some(19_727), None, None),
            ("2024-01-05 10:00", Some(19_727), Some(10 * hour), None),
            ("20240105T100000Z", None, None, None),
            ("20240105T10:00:00Z", Some(19_727), Some(10 * hour), Some("Z")),
            ("2024-01-05T10:00:00.000000001", Some(19_727), Some(10 * hour + 1), None),
            ("2024-01-05 10:00:00+02", Some(19_727), Some(10 * hour), Some("+02")),
            ("2024-01-05 10:00:00 Europe/Berlin", Some(19_727), Some(10 * hour), Some("Europe/Berlin")),
            ("2024-01-05 -05", Some(19_727), None, Some("-05")),
            ("2024-01-05 24:00:00", Some(19_727), Some(24 * hour), None),
            ("0001-01-01", Some(-719_162), None, None),
            ("0001-12-31 BC", Some(-719_163), None, None),
            ("001-12-31 (BC)", Some(-719_163), None, None),
            ("1-12-31 (BC)", Some(-719_163), None, None),
            ("01-12-31 10:00:00 BC", Some(-719_163), Some(10 * hour), None),
            ("0001-12-31 10:00:00 BC", Some(-719_163), Some(10 * hour), None),
            ("0001-12-31 (BC) 10:00:00", Some(-719_163), Some(10 * hour), None),
            ("9999-12-31", Some(2_932_896), None, None),
            ("10:00", None, Some(10 * hour), None),
            ("1:02:03.5", None, Some(3_723_500_000_000), None),
        ] {
            let expected =
                (days.is_some() || ns.is_some()).then(|| Written { days, ns, zone: zone.map(str::to_owned) });
            assert_eq!(parse(text), expected, "{text}");
        }
        for text in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "2024-01-05 25:00",
            "2024-01-05 24:00:01",
            "2024-01-05 10",
            "infinity",
            "2024-01-05 10:60",
            "2024-01-05x",
            "2024-01-05 -5x",
            "24-01-05",
            "2024-01/05",
            "2024-01-05 10:00:",
            "2024-01-05 10:00:00.",
            "10:00 Europe/Berlin",
            "99999999-01-01",
        ] {
            assert_eq!(parse(text).filter(|w| w.zone.is_none()), None, "{text}");
        }
    }

    #[test]
    fn ticks_are_rounded() {
        let ticks = |text, per_second| parse(text).and_then(|written| written.ticks(per_second));
        assert_eq!(ticks("1970-01-01 00:00:00.0000005", 1_000_000), Some(1));
        assert_eq!(ticks("1969-12-31 23:59:59.9994", 1_000), Some(-1));
        assert_eq!(ticks("9999-12-31 23:59:59.999999", 1_000_000), Some(253_402_300_799_999_999));
        assert_eq!(ticks("9999-12-31", 1_000_000_000), None);
    }

    #[test]
    fn texts_are_written() {
        assert_eq!([-719_163, 0, 2_932_897].map(date_text), ["0001-12-31 (BC)", "1970-01-01", "10000-01-01"]);
        for (days, ns, offset, expected) in [
            (19_727, 36_000_500_000_000, None, "2024-01-05 10:00:00.5"),
            (-719_163, 0, None, "0001-12-31 (BC) 00:00:00"),
            (2_932_897, 1, None, "10000-01-01 00:00:00.000000001"),
            (0, 120_030_000_000, Some(-12_600), "1970-01-01 00:02:00.03-03:30"),
            (0, 0, Some(7_200), "1970-01-01 00:00:00+02"),
        ] {
            let mut text = String::new();
            push_timestamp(&mut text, days, ns, offset);
            assert_eq!(text, expected);
        }
        assert_eq!([86_400_000_000_000, 3_600_000_000_000 * 123].map(time_text), ["24:00:00", "123:00:00"]);
    }
}
