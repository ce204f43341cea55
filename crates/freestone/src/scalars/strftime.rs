//! `strftime` and `strptime`: formatting and parsing of times, with DuckDB's specifiers.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::dates::{day_name, month_name};
use super::function::Scalar;
use super::kinds::Kind::{Date, List, Text};
use super::kinds::TEXT;
use super::rows::{lists, texts, too_large};
use super::strptime::{Parsed, parse};
use crate::error::Error;
use crate::times::calendar::{civil, day_of_year, iso_week, weekday};
use crate::times::{
    Call, SECOND_NS, TIMESTAMP, Zone, exact_cast, finished, integers, is_text, local_ticks, timestamptz, to_instant,
};

const DAY_SECONDS: i64 = 86_400;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["strftime"], &[&[Date, Text], &[Text, Date]], TEXT, strftime),
        Scalar::typed(&["strptime"], &[&[Text, Text], &[Text, List]], type_of_formats, |call| strptime(call, true)),
        Scalar::typed(&["try_strptime"], &[&[Text, Text], &[Text, List]], type_of_formats, |call| {
            strptime(call, false)
        }),
    ]
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
pub(super) fn pieces(format: &str) -> Result<Vec<Piece>> {
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
    Err(error
        .with_hint("specifiers are %Y %m %d %H %M %S %f %a %A %b %B %j %p %I %y %u %w %U %W %V %G %g %n %z %Z")
        .into())
}

/// The pieces of the last format, because formats are mostly the same in all rows.
#[derive(Default)]
struct LastFormat {
    known: Option<(String, Vec<Piece>)>,
}

impl LastFormat {
    fn pieces(&mut self, format: &str) -> Result<&[Piece]> {
        if self.known.as_ref().is_none_or(|(known, _)| known != format) {
            self.known = Some((format.to_owned(), pieces(format)?));
        }
        Ok(self.known.as_ref().map_or(&[], |(_, pieces)| pieces))
    }
}

/// A local time: days since 1970, and nanoseconds since midnight.
struct Moment<'a> {
    days: i64,
    ns: i64,
    /// Seconds east of UTC, and the zone's name.
    offset: i64,
    zone: Option<&'a Zone>,
}

fn strftime(call: &Call) -> Result<ArrayRef> {
    let (a, b) = (call.array(0)?, call.array(1)?);
    let (times, formats) = if is_text(a.data_type()) { (b, a) } else { (a, b) };
    let formats = exact_cast(&formats, &TEXT)?;
    let formats = formats.as_string_view();
    let is_zoned = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let (instants, local, per_second) = match times.data_type() {
        DataType::Date32 => {
            let seconds = integers(&times)?.unary::<_, Int64Type>(|days| days * DAY_SECONDS);
            (seconds.clone(), seconds, 1)
        }
        _ => {
            let (local, per_second) = local_ticks(&times, &call.zone)?;
            (integers(&times)?, local, per_second)
        }
    };
    let mut last = LastFormat::default();
    let mut row = |row: usize| -> Result<Option<String>> {
        if local.is_null(row) || formats.is_null(row) {
            return Ok(None);
        }
        let (value, day) = (local.value(row), DAY_SECONDS * per_second);
        let moment = Moment {
            days: value.div_euclid(day),
            ns: value.rem_euclid(day) * (SECOND_NS / per_second),
            offset: (value - instants.value(row)) / per_second,
            zone: is_zoned.then_some(&call.zone),
        };
        let mut text = String::new();
        for piece in last.pieces(formats.value(row))? {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Field { letter, padded } => push_field(&mut text, *letter, *padded, &moment),
            }
        }
        Ok(Some(text))
    };
    Ok(Arc::new((0..local.len()).map(&mut row).collect::<Result<StringViewArray>>()?))
}

fn push_field(text: &mut String, letter: char, padded: bool, moment: &Moment) {
    let Moment { days, ns, .. } = *moment;
    let date = civil(days);
    let seconds = ns / SECOND_NS;
    let hour = seconds / 3_600;
    let (value, width) = match letter {
        'a' => return text.push_str(&day_name(weekday(days))[..3]),
        'A' => return text.push_str(day_name(weekday(days))),
        'b' | 'h' => return text.push_str(&month_name(date.month)[..3]),
        'B' => return text.push_str(month_name(date.month)),
        'p' => return text.push_str(if hour < 12 { "AM" } else { "PM" }),
        'z' => return push_offset(text, moment.offset),
        'Z' => return text.push_str(&moment.zone.map(zone_name).unwrap_or_default()),
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

/// TIMESTAMP, or TIMESTAMP WITH TIME ZONE if the format has an offset.
fn type_of_formats(_: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let format = constants.get(1).copied().flatten();
    let is_zoned = format.is_some_and(|format| {
        let text = format.to_string();
        text.contains("%z") || text.contains("%Z")
    });
    Ok(if is_zoned { timestamptz() } else { TIMESTAMP })
}

fn strptime(call: &Call, strict: bool) -> Result<ArrayRef> {
    let values = texts(call, 0)?;
    let formats = call.array(1)?;
    let is_list = matches!(formats.data_type(), DataType::List(_));
    let (single, several) = match is_list {
        true => (None, Some(lists(call, 1)?)),
        false => (Some(texts(call, 1)?), None),
    };
    let mut known: Vec<(String, Vec<Piece>)> = vec![];
    let mut row = |row: usize| -> Result<Option<i64>> {
        let tried: Vec<String> = match (&single, &several) {
            (Some(formats), _) if formats.is_valid(row) => vec![formats.value(row).to_owned()],
            (_, Some(formats)) if formats.is_valid(row) => {
                let formats = exact_cast(&formats.value(row), &TEXT)?;
                formats.as_string_view().iter().flatten().map(str::to_owned).collect()
            }
            _ => return Ok(None),
        };
        if values.is_null(row) {
            return Ok(None);
        }
        for format in &tried {
            if known.iter().all(|(text, _)| text != format) {
                known.push((format.clone(), pieces(format)?));
            }
            let pieces = known.iter().find(|(text, _)| text == format).map_or(&[][..], |(_, pieces)| pieces);
            if let Some(parsed) = parse(values.value(row), pieces) {
                return Ok(Some(micros(&parsed, call)?));
            }
        }
        if strict {
            let formats = tried.join("', '");
            let error = Error::invalid(format!("'{}' is not a time in the format '{formats}'", values.value(row)));
            return Err(error.with_hint("try_strptime gives NULL for such texts").into());
        }
        Ok(None)
    };
    finished((0..values.len()).map(&mut row).collect::<Result<Int64Array>>()?, &call.to)
}

/// The microseconds of a parsed text: in UTC if it has an offset, otherwise in local time or in the session's time
/// zone.
fn micros(parsed: &Parsed, call: &Call) -> Result<i64> {
    let local = parsed.days.checked_mul(DAY_SECONDS * 1_000_000).and_then(|day| day.checked_add(parsed.ns / 1_000));
    let Some(local) = local else { return too_large("timestamp") };
    match &parsed.zone {
        Some(zone) => to_instant(local, 1_000_000, zone),
        None if matches!(call.to, DataType::Timestamp(_, Some(_))) => to_instant(local, 1_000_000, &call.zone),
        None => Ok(local),
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
