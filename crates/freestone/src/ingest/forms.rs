//! How numbers and times are written in a CSV file, where options say so: `1.234,5`, `31.12.2023`.
//!
//! A value is brought into the form of SQL before it is parsed like any other.

use std::borrow::Cow;
use std::fmt::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::cells::{CellProblem, ColumnBuilder};
use super::error::ValueProblem;
use crate::times::{SECOND_NS, TimeFormat, calendar};

const DAY_SECONDS: i64 = 86_400;

/// The forms that differ from those of SQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextForms {
    pub date: Option<TimeFormat>,
    pub timestamp: Option<TimeFormat>,
    /// The point of decimals, if it is another character.
    pub decimal: Option<u8>,
    /// The character between groups of digits.
    pub thousands: Option<u8>,
}

impl TextForms {
    /// Whether dates or timestamps have a format, so that a text of digits in this format is one of them.
    pub fn has_times(&self) -> bool {
        self.date.is_some() || self.timestamp.is_some()
    }

    pub fn has_numbers(&self) -> bool {
        self.decimal.is_some() || self.thousands.is_some()
    }

    /// A number in the form of SQL; `None` if it has another form than the options say.
    pub fn number<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        if !self.has_numbers() {
            return Some(Cow::Borrowed(text));
        }
        let point = char::from(self.decimal.unwrap_or(b'.'));
        let (whole, fraction) = match text.split_once(point) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let whole = self.without_thousands(whole)?;
        // The point of SQL means nothing here, unless it is the point of the file, too.
        if whole.contains('.') || fraction.is_some_and(|fraction| fraction.contains('.')) {
            return None;
        }
        Some(match fraction {
            Some(fraction) => Cow::Owned(format!("{whole}.{fraction}")),
            None => whole,
        })
    }

    /// Digits without the characters between their groups, of which the last has three digits and the others have two
    /// or three.
    fn without_thousands<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        let Some(mark) = self.thousands.map(char::from).filter(|mark| text.contains(*mark)) else {
            return Some(Cow::Borrowed(text));
        };
        let unsigned = text.trim_start().trim_start_matches(['-', '+']);
        let groups: Vec<&str> = unsigned.trim_end().split(mark).collect();
        let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
        let is_group = |(at, group): (usize, &&str)| match at {
            0 => (1..=3).contains(&group.len()),
            _ if at + 1 == groups.len() => group.len() == 3,
            _ => (2..=3).contains(&group.len()),
        };
        let is_number = groups.iter().all(|group| digits(group)) && groups.iter().enumerate().all(is_group);
        is_number.then(|| Cow::Owned(text.replace(mark, "")))
    }

    /// A date in the form of SQL.
    pub fn date<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        let Some(format) = &self.date else { return Some(Cow::Borrowed(text)) };
        let moment = format.read(text)?;
        let mut date = String::new();
        push_date(&mut date, moment.days);
        Some(Cow::Owned(date))
    }

    /// A timestamp in the form of SQL: without a time zone, in UTC if the text has one, or with a time zone if the text
    /// has one.
    pub fn timestamp<'a>(&self, text: &'a str, has_zone: bool) -> Option<Cow<'a, str>> {
        let Some(format) = &self.timestamp else { return Some(Cow::Borrowed(text)) };
        let Some(moment) = format.read(text) else {
            // A time zone is not in every format.
            return has_zone.then_some(Cow::Borrowed(text));
        };
        let mut seconds = moment.days * DAY_SECONDS + moment.ns / SECOND_NS;
        if let Some(zone) = &moment.zone {
            seconds -= zone.offset_of_local(seconds)?;
        }
        let of_day = seconds.rem_euclid(DAY_SECONDS);
        let mut timestamp = String::new();
        push_date(&mut timestamp, seconds.div_euclid(DAY_SECONDS));
        let _ = write!(timestamp, " {:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ns = moment.ns % SECOND_NS;
        if ns != 0 {
            let _ = write!(timestamp, ".{ns:09}");
        }
        if has_zone && moment.zone.is_some() {
            timestamp.push('Z');
        }
        Some(Cow::Owned(timestamp))
    }

    /// The builder of a column, for texts in these forms.
    pub fn around(&self, builder: Box<dyn ColumnBuilder>, data_type: &DataType) -> Box<dyn ColumnBuilder> {
        let kind = match data_type {
            DataType::Date32 if self.date.is_some() => Kind::Date,
            DataType::Timestamp(_, zone) if self.timestamp.is_some() => Kind::Timestamp { has_zone: zone.is_some() },
            number if number.is_numeric() && self.has_numbers() => Kind::Number,
            _ => return builder,
        };
        Box::new(Formed { builder, kind, forms: self.clone() })
    }
}

fn push_date(text: &mut String, days: i64) {
    let date = calendar::civil(days);
    let sign = match date.year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    let _ = write!(text, "{sign}{:04}-{:02}-{:02}", date.year.abs(), date.month, date.day);
}

enum Kind {
    Number,
    Date,
    Timestamp { has_zone: bool },
}

/// A builder that receives texts in the form of SQL.
struct Formed {
    builder: Box<dyn ColumnBuilder>,
    kind: Kind,
    forms: TextForms,
}

impl ColumnBuilder for Formed {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        // An empty text may be NULL.
        let Some(text) = text.filter(|text| !text.is_empty()) else { return self.builder.append(text) };
        let in_sql = match self.kind {
            Kind::Number => self.forms.number(text),
            Kind::Date => self.forms.date(text),
            Kind::Timestamp { has_zone } => self.forms.timestamp(text, has_zone),
        };
        self.builder.append(Some(&in_sql.ok_or(CellProblem::Value(ValueProblem::Syntax))?))
    }

    fn finish(&mut self) -> ArrayRef {
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_points_and_groups() {
        let check = |decimal: Option<u8>, thousands: Option<u8>, text: &str, expected: Option<&str>| {
            let forms = TextForms { decimal, thousands, ..TextForms::default() };
            assert_eq!(forms.number(text).as_deref(), expected, "{text}");
        };
        let (comma, point) = (Some(b','), Some(b'.'));
        check(None, None, "1.5", Some("1.5"));
        check(comma, None, "1,5", Some("1.5"));
        check(comma, None, "-1,5e3", Some("-1.5e3"));
        check(comma, None, "7", Some("7"));
        check(comma, None, "1.5", None);
        check(comma, None, "1,5.2", None);
        check(comma, point, "-1.234.567,25", Some("-1234567.25"));
        check(comma, point, "12.34,5", None);
        check(comma, point, "1.2", None);
        check(None, comma, "1,234", Some("1234"));
        check(None, comma, "12,34,567.5", Some("1234567.5"));
        check(None, comma, "1,23", None);
        check(None, comma, ",234", None);
        check(None, comma, "1,,234", None);
        check(None, comma, "1,234,x00", None);
        check(None, Some(b' '), "1 234", Some("1234"));
        check(None, comma, "nan", Some("nan"));
    }

    #[test]
    fn times_have_formats() {
        let forms = TextForms {
            date: TimeFormat::of_option("DATEFORMAT", "%d.%m.%Y").ok(),
            timestamp: TimeFormat::of_option("TIMESTAMPFORMAT", "%d/%m/%Y %H:%M:%S.%f%z").ok(),
            ..TextForms::default()
        };
        assert_eq!(forms.date("29.02.2024").as_deref(), Some("2024-02-29"));
        assert_eq!(forms.date("2024-02-29"), None);
        let timestamp = |text| forms.timestamp(text, false).map(Cow::into_owned);
        assert_eq!(timestamp("01/01/2024 00:30:00.25+02").as_deref(), Some("2023-12-31 22:30:00.250000000"));
        assert_eq!(timestamp("2024-01-01 00:00:00"), None);
        let zoned = |text| forms.timestamp(text, true).map(Cow::into_owned);
        assert_eq!(zoned("01/01/2024 00:30:00.0+02").as_deref(), Some("2023-12-31 22:30:00Z"));
        assert_eq!(zoned("2024-01-01 00:00:00Z").as_deref(), Some("2024-01-01 00:00:00Z"));
    }
}
