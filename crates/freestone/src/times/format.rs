//! Formats of `strftime` and `strptime`, with DuckDB's specifiers.

use std::fmt::Write;

use super::calendar::{civil, day_name, day_of_year, iso_week, month_name, weekday};
use super::format_parsing::{Parsed, parse};
use super::{SECOND_NS, Zone};
use crate::error::{Error, Result};

/// How dates or timestamps are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeFormat {
    text: String,
    pieces: Vec<Piece>,
}

/// A local time: days since 1970, and nanoseconds since midnight.
pub(crate) struct LocalTime<'a> {
    pub days: i64,
    pub ns: i64,
    /// Seconds east of UTC, and the zone's name.
    pub offset: i64,
    pub zone: Option<&'a Zone>,
}

impl TimeFormat {
    /// # Errors
    /// The format has an unknown specifier.
    pub fn new(text: &str) -> Result<TimeFormat> {
        Ok(TimeFormat { text: text.to_owned(), pieces: pieces(text)? })
    }

    /// The format of an option.
    ///
    /// # Errors
    /// The format is empty, or has an unknown specifier.
    pub fn of_option(name: &str, text: &str) -> Result<TimeFormat> {
        if text.is_empty() {
            return Err(Error::invalid(format!("{name}: the format is empty")).with_hint("write one, as in '%d.%m.%Y'"));
        }
        TimeFormat::new(text)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses a text; `None` if it has another form.
    pub fn read(&self, text: &str) -> Option<Parsed> {
        parse(text, &self.pieces)
    }

    pub fn write(&self, time: &LocalTime<'_>, into: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => into.push_str(literal),
                Piece::Field { letter, padded } => push_field(into, *letter, *padded, time),
            }
        }
    }
}

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    /// A specifier; without padding if it begins with `%-`.
    Field {
        letter: char,
        padded: bool,
    },
}

/// The pieces of a format.
fn pieces(format: &str) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = vec![];
    let mut characters = format.chars();
    let literal = |pieces: &mut Vec<Piece>, c: char| match pieces.last_mut() {
        Some(Piece::Literal(text)) => text.push(c),
        _ => pieces.push(Piece::Literal(c.to_string())),
    };
    while let Some(c) = characters.next() {
        if c != '%' {
            literal(&mut pieces, c);
            continue;
        }
        let (padded, letter) = match characters.next() {
            Some('-') => (false, characters.next()),
            other => (true, other),
        };
        match letter {
            Some('%') if padded => literal(&mut pieces, '%'),
            Some('c') if padded => pieces.extend(self::pieces("%Y-%m-%d %H:%M:%S")?),
            Some('x') if padded => pieces.extend(self::pieces("%Y-%m-%d")?),
            Some('X' | 'T') if padded => pieces.extend(self::pieces("%H:%M:%S")?),
            Some(letter) if is_specifier(letter, padded) => pieces.push(Piece::Field { letter, padded }),
            _ => return unknown(format),
        }
    }
    Ok(pieces)
}

fn is_specifier(letter: char, padded: bool) -> bool {
    match padded {
        true => "aAbBdfgGhHIjmMnpSuUVwWyYzZ".contains(letter),
        false => "dHIjmMSy".contains(letter),
    }
}

fn unknown<T>(format: &str) -> Result<T> {
    let error = Error::invalid(format!("the format '{format}' has an unknown specifier"));
    Err(error.with_hint("specifiers are %Y %m %d %H %M %S %f %a %A %b %B %j %p %I %y %u %w %U %W %V %G %g %n %z %Z"))
}

fn push_field(text: &mut String, letter: char, padded: bool, time: &LocalTime<'_>) {
    let LocalTime { days, ns, .. } = *time;
    let date = civil(days);
    let seconds = ns / SECOND_NS;
    let hour = seconds / 3_600;
    let (value, width) = match letter {
        'a' => return text.push_str(&day_name(weekday(days))[..3]),
        'A' => return text.push_str(day_name(weekday(days))),
        'b' | 'h' => return text.push_str(&month_name(date.month)[..3]),
        'B' => return text.push_str(month_name(date.month)),
        'p' => return text.push_str(if hour < 12 { "AM" } else { "PM" }),
        'z' => return push_offset(text, time.offset),
        'Z' => return text.push_str(&time.zone.map(zone_name).unwrap_or_default()),
        'd' => (date.day, 2),
        'f' => (ns % SECOND_NS / 1_000, 6),
        'g' => (ns % SECOND_NS / 1_000_000, 3),
        'n' => (ns % SECOND_NS, 9),
        'G' => (iso_week(days).0, 4),
        'H' => (hour, 2),
        'I' => ((hour + 11) % 12 + 1, 2),
        'j' => (day_of_year(days), 3),
        'm' => (date.month, 2),
        'M' => (seconds / 60 % 60, 2),
        'S' => (seconds % 60, 2),
        'u' => (weekday(days) + 1, 1),
        'w' => ((weekday(days) + 1) % 7, 1),
        // Weeks begin on Sunday or Monday; days before the first one are in week 0.
        'U' => ((day_of_year(days) + 6 - (weekday(days) + 1) % 7) / 7, 2),
        'W' => ((day_of_year(days) + 6 - weekday(days)) / 7, 2),
        'V' => (iso_week(days).1, 2),
        'y' => (date.year.rem_euclid(100), 2),
        _ => (date.year, 4),
    };
    let width = if padded { width } else { 1 };
    let sign = if value < 0 { "-" } else { "" };
    let _ = write!(text, "{sign}{:0width$}", value.abs());
}

fn zone_name(zone: &Zone) -> String {
    if zone.is_utc() { "UTC".to_owned() } else { zone.name() }
}

fn push_offset(text: &mut String, seconds: i64) {
    let minutes = seconds.abs() / 60;
    let sign = if seconds < 0 { '-' } else { '+' };
    let _ = write!(text, "{sign}{:02}", minutes / 60);
    if minutes % 60 != 0 {
        let _ = write!(text, ":{:02}", minutes % 60);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_pieces() {
        let field = |letter, padded| Piece::Field { letter, padded };
        let literal = |text: &str| Piece::Literal(text.to_owned());
        assert_eq!(
            pieces("%Y-%-m at %%%H").ok(),
            Some(vec![field('Y', true), literal("-"), field('m', false), literal(" at %"), field('H', true)])
        );
        assert_eq!(pieces("%x").ok().map(|pieces| pieces.len()), Some(5));
        for wrong in ["%", "%-", "%q", "%-Y", "%-%"] {
            assert!(pieces(wrong).is_err() || wrong == "%-%", "{wrong}");
        }
    }
}
