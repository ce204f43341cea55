//! PostgreSQL's patterns of times, such as `YYYY-MM-DD HH24:MI:SS`, for `to_char` and `to_timestamp`. A letter that
//! does not belong to a field is an error that names it.

use std::fmt::Write;

use datafusion::error::Result;

use super::calendar::{DAYS, MONTHS, checked_days, civil, day_of_year, iso_week, run_of_years, weekday};
use super::interval::SECOND_NS;
use super::text::push_offset;
use crate::error::{Error, ErrorKind};

/// A field of a pattern, or text between fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Field {
        name: &'static str,
        /// `FM`: without padding.
        plain: bool,
        /// `TH` and `th`: an ordinal suffix, as in 1st.
        ending: Option<bool>,
        case: Case,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Upper,
    Capitalized,
    Lower,
}

/// The fields. If one is a prefix of another, the longer one is first.
const FIELDS: [&str; 54] = [
    "Y,YYY", "YYYY", "YYY", "YY", "IYYY", "IYY", "IY", "IDDD", "ID", "IW", "I", "HH24", "HH12", "HH", "MONTH", "MON",
    "MI", "MM", "MS", "SSSSS", "SSSS", "SS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "DDD", "DAY", "DD", "DY",
    "D", "WW", "W", "CC", "J", "Q", "RM", "TZH", "TZM", "TZ", "OF", "A.M.", "P.M.", "AM", "PM", "B.C.", "A.D.", "BC",
    "AD", "Y", "FX",
];

/// Parses a pattern.
pub(crate) fn parse(pattern: &str) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = vec![];
    let mut rest = pattern;
    let mut plain = false;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (text, after) = quoted(&rest[1..]);
            push_text(&mut pieces, &text);
            rest = after;
            continue;
        }
        if first == '\\' {
            let escaped: String = rest[1..].chars().take(1).collect();
            push_text(&mut pieces, &escaped);
            rest = &rest[1 + escaped.len()..];
            continue;
        }
        if first == '%' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(unknown(rest, pattern));
        }
        if !first.is_ascii_alphabetic() {
            push_text(&mut pieces, &first.to_string());
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let begins = |field: &str| rest.get(..field.len()).is_some_and(|start| start.eq_ignore_ascii_case(field));
        if begins("FM") {
            (plain, rest) = (true, &rest[2..]);
            continue;
        }
        let Some(name) = FIELDS.into_iter().find(|field| begins(field)) else { return Err(unknown(rest, pattern)) };
        let case = case_of(&rest[..name.len()]);
        rest = &rest[name.len()..];
        let ending = ["TH", "th"].iter().position(|ending| rest.starts_with(ending)).map(|at| at == 0);
        if ending.is_some() {
            rest = &rest[2..];
        }
        if name != "FX" {
            pieces.push(Piece::Field { name, plain, ending, case });
        }
        plain = false;
    }
    Ok(pieces)
}

fn unknown(rest: &str, pattern: &str) -> datafusion::error::DataFusionError {
    let word: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '%').collect();
    let hint = match pattern.contains('%') {
        true => "write YYYY for %Y, MM for %m, DD for %d, HH24 for %H, MI for %M, SS for %S",
        false => "put text in double quotes: 'YYYY-MM-DD\"T\"HH24:MI:SS'",
    };
    Error::invalid(format!("the pattern '{pattern}' has a field {word} that is not known")).with_hint(hint).into()
}

/// The text up to the closing quote, and the rest.
fn quoted(rest: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &rest[at + 1..]),
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            other => text.push(other),
        }
    }
    (text, "")
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn case_of(word: &str) -> Case {
    let mut letters = word.chars().filter(char::is_ascii_alphabetic);
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_ascii_uppercase() && second.is_ascii_lowercase() => Case::Capitalized,
        (Some(first), _) if first.is_ascii_lowercase() => Case::Lower,
        _ => Case::Upper,
    }
}

/// A time to be formatted.
pub(crate) struct Shown {
    pub days: i64,
    /// Nanoseconds since midnight.
    pub ns: i64,
    /// Seconds east of UTC and the zone's name, if the time has a zone.
    pub offset: Option<(i64, String)>,
    /// Whether it is a time of day without a date.
    pub is_clock: bool,
}

/// Formats a time.
pub(crate) fn write(pieces: &[Piece], time: &Shown) -> Result<String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(between) => text.push_str(between),
            Piece::Field { name, plain, ending, case } => {
                let start = text.len();
                if !write_clock(&mut text, name, time, *plain, *case) {
                    if time.is_clock {
                        let message = format!("a time of day has no {name}");
                        return Err(Error::invalid(message).into());
                    }
                    write_date(&mut text, name, time, *plain, *case);
                }
                if let Some(upper) = ending {
                    let ending = ordinal(&text[start..]);
                    text.push_str(&if *upper { ending.to_uppercase() } else { ending.to_owned() });
                }
            }
        }
    }
    Ok(text)
}

fn ordinal(number: &str) -> &'static str {
    let digits = number.trim_start_matches('-').as_bytes();
    match digits {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
}

fn push_number(text: &mut String, value: i64, width: usize, plain: bool) {
    let _ = if plain { write!(text, "{value}") } else { write!(text, "{value:0width$}") };
}

/// Appends a field of the time of day. Returns false if it is another field.
fn write_clock(text: &mut String, name: &str, time: &Shown, plain: bool, case: Case) -> bool {
    let seconds = time.ns / SECOND_NS;
    let fraction = time.ns % SECOND_NS;
    let hour = seconds / 3_600;
    let mut number = |value: i64, width: usize| push_number(text, value, width, plain);
    match name {
        "HH24" => number(hour, 2),
        "HH12" | "HH" => number(if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
        "MI" => number(seconds / 60 % 60, 2),
        "SS" => number(seconds % 60, 2),
        "SSSS" | "SSSSS" => number(seconds, 1),
        "MS" | "FF3" => number(fraction / 1_000_000, 3),
        "US" | "FF6" => number(fraction / 1_000, 6),
        "FF1" => number(fraction / 100_000_000, 1),
        "FF2" => number(fraction / 10_000_000, 2),
        "FF4" => number(fraction / 100_000, 4),
        "FF5" => number(fraction / 10_000, 5),
        "AM" | "PM" => text.push_str(&cased(if hour < 12 { "AM" } else { "PM" }, case)),
        "A.M." | "P.M." => text.push_str(&cased(if hour < 12 { "A.M." } else { "P.M." }, case)),
        _ => return false,
    }
    true
}

fn write_date(text: &mut String, name: &str, time: &Shown, plain: bool, case: Case) {
    let date = civil(time.days);
    let (iso_year, iso_week) = iso_week(time.days);
    // The year before year 1 is 1 BC.
    let shown_year = |year: i64| if year > 0 { year } else { 1 - year };
    let (year, iso_year) = (shown_year(date.year), shown_year(iso_year));
    let mut number = |value: i64, width: usize| push_number(text, value, width, plain);
    match name {
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1_000, 3),
        "YY" => number(year % 100, 2),
        "Y" => number(year % 10, 1),
        "Y,YYY" => {
            number(year / 1_000, 1);
            let _ = write!(text, ",{:03}", year % 1_000);
        }
        "IYYY" => number(iso_year, 4),
        "IYY" => number(iso_year % 1_000, 3),
        "IY" => number(iso_year % 100, 2),
        "I" => number(iso_year % 10, 1),
        "MM" => number(date.month, 2),
        "DD" => number(date.day, 2),
        "DDD" => number(day_of_year(time.days), 3),
        "IDDD" => number((iso_week - 1) * 7 + weekday(time.days) + 1, 3),
        "D" => number((weekday(time.days) + 1) % 7 + 1, 1),
        "ID" => number(weekday(time.days) + 1, 1),
        "W" => number((date.day - 1) / 7 + 1, 1),
        "WW" => number((day_of_year(time.days) - 1) / 7 + 1, 2),
        "IW" => number(iso_week, 2),
        "Q" => number((date.month + 2) / 3, 1),
        "CC" => number(run_of_years(date.year, 100), 2),
        "J" => number(time.days + 2_440_588, 1),
        _ => write_name(text, name, time, plain, case),
    }
}

fn write_name(text: &mut String, name: &str, time: &Shown, plain: bool, case: Case) {
    const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
    let date = civil(time.days);
    let month = (date.month - 1) as usize;
    let day = DAYS[weekday(time.days) as usize];
    let filled = |word: &str, width: usize| {
        let word = cased(word, case);
        if plain { word } else { format!("{word:width$}") }
    };
    let (offset, zone) = time.offset.as_ref().map_or((0, ""), |(offset, zone)| (*offset, zone.as_str()));
    match name {
        "MONTH" => text.push_str(&filled(MONTHS[month], 9)),
        "MON" => text.push_str(&cased(&MONTHS[month][..3], case)),
        "DAY" => text.push_str(&filled(day, 9)),
        "DY" => text.push_str(&cased(&day[..3], case)),
        "RM" => text.push_str(&filled(ROMAN[month], 4)),
        "AD" | "BC" => text.push_str(&cased(if date.year > 0 { "AD" } else { "BC" }, case)),
        "A.D." | "B.C." => text.push_str(&cased(if date.year > 0 { "A.D." } else { "B.C." }, case)),
        "TZ" => {
            let zone = if offset == 0 && zone == super::zone::UTC { "UTC" } else { zone };
            text.push_str(&if case == Case::Lower { zone.to_lowercase() } else { zone.to_owned() });
        }
        "TZH" => {
            let _ = write!(text, "{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3_600);
        }
        "TZM" => {
            let _ = write!(text, "{:02}", offset.abs() / 60 % 60);
        }
        "OF" => push_offset(text, offset),
        _ => {}
    }
}

fn cased(word: &str, case: Case) -> String {
    match case {
        Case::Upper => word.to_uppercase(),
        Case::Lower => word.to_lowercase(),
        Case::Capitalized => word.to_owned(),
    }
}

/// Parses a text by a pattern, to microseconds of local time since 1970-01-01 00:00:00.
pub(crate) fn read(pieces: &[Piece], text: &str) -> Result<i64> {
    let mut fields = Fields { year: 1, month: 1, day: 1, ..Fields::default() };
    let mut rest = text.trim();
    for piece in pieces {
        match piece {
            Piece::Text(between) => {
                for expected in between.trim().chars().filter(|c| !c.is_whitespace()) {
                    rest = rest.trim_start();
                    rest = rest.strip_prefix(expected).ok_or_else(|| mismatch(text, "its pattern"))?;
                }
            }
            Piece::Field { name, .. } => {
                rest = fields.read(name, rest.trim_start()).ok_or_else(|| mismatch(text, name))?;
            }
        }
    }
    if !rest.trim().is_empty() {
        return Err(mismatch(text, "its pattern"));
    }
    fields.finish().ok_or_else(|| mismatch(text, "a time that exists"))
}

fn mismatch(text: &str, what: &str) -> datafusion::error::DataFusionError {
    Error::new(ErrorKind::Type, format!("invalid TIMESTAMP: '{text}' does not match {what}")).into()
}

#[derive(Default)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    afternoon: Option<bool>,
    before_christ: bool,
}

impl Fields {
    /// Parses a field, and returns the rest of the text.
    fn read<'a>(&mut self, name: &str, text: &'a str) -> Option<&'a str> {
        let number = |most: usize| {
            let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
            Some((text[..digits].parse::<i64>().ok()?, digits, &text[digits..]))
        };
        let set = |field: &mut i64, most: usize| {
            let (value, _, rest) = number(most)?;
            *field = value;
            Some(rest)
        };
        match name {
            "YYYY" => set(&mut self.year, 4),
            "YY" => {
                let (value, _, rest) = number(2)?;
                self.year = if value < 70 { 2_000 + value } else { 1_900 + value };
                Some(rest)
            }
            "MM" => set(&mut self.month, 2),
            "DD" => set(&mut self.day, 2),
            "HH24" | "HH12" | "HH" => set(&mut self.hour, 2),
            "MI" => set(&mut self.minute, 2),
            "SS" => set(&mut self.second, 2),
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let (value, digits, rest) = number(6)?;
                self.us = value * 10i64.pow(6 - digits as u32);
                Some(rest)
            }
            "MONTH" | "MON" => {
                let begins = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
                let length = |month: &str| if name == "MON" { 3 } else { month.len() };
                let at = MONTHS.iter().position(|month| begins(&month[..length(month)]))?;
                self.month = at as i64 + 1;
                Some(&text[length(MONTHS[at])..])
            }
            "AM" | "PM" | "BC" | "AD" => {
                let word = text.get(..2)?.to_ascii_uppercase();
                match word.as_str() {
                    "AM" | "PM" if matches!(name, "AM" | "PM") => self.afternoon = Some(word == "PM"),
                    "BC" | "AD" if matches!(name, "BC" | "AD") => self.before_christ = word == "BC",
                    _ => return None,
                }
                Some(&text[2..])
            }
            _ => None,
        }
    }

    fn finish(self) -> Option<i64> {
        let hour = match self.afternoon {
            None => self.hour,
            Some(afternoon) if (1..=12).contains(&self.hour) => self.hour % 12 + if afternoon { 12 } else { 0 },
            Some(_) => return None,
        };
        let year = if self.before_christ { 1 - self.year } else { self.year };
        let in_range = hour < 24 && self.minute < 60 && self.second < 60;
        let days = checked_days(year, self.month, self.day).filter(|_| in_range)?;
        days.checked_mul(86_400)?
            .checked_add(hour * 3_600 + self.minute * 60 + self.second)?
            .checked_mul(1_000_000)?
            .checked_add(self.us)
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::days_of;
    use super::*;

    fn shown(pattern: &str) -> String {
        let ns = (15 * 3_600 + 4 * 60 + 5) * SECOND_NS + 67_890_000;
        let time = Shown { days: days_of(2024, 2, 1), ns, offset: Some((-12_600, "-03:30".into())), is_clock: false };
        write(&parse(pattern).expect(pattern), &time).expect(pattern)
    }

    #[test]
    fn times_are_written() {
        for (pattern, expected) in [
            ("YYYY-MM", "2024-02"),
            ("YYYY-MM-DD HH24:MI:SS.MS", "2024-02-01 15:04:05.067"),
            ("FMDD.FMMM.YY", "1.2.24"),
            ("FMDDth FMMonth", "1st February"),
            ("Month|MON|mon|Dy|DAY", "February |FEB|feb|Thu|THURSDAY "),
            ("HH12:MI AM, a.m.", "03:04 PM, p.m."),
            ("Y,YYY IYYY IW ID D DDD WW W Q CC J", "2,024 2024 05 4 5 032 05 1 1 21 2460342"),
            ("US FF1 SSSS", "067890 0 54245"),
            ("YYYY-MM-DD\"T\"HH24:MI:SSOF", "2024-02-01T15:04:05-03:30"),
            ("TZH:TZM", "-03:30"),
            ("\\Y\"at \\\"x\"", "Yat \"x"),
            ("", ""),
            ("--é", "--é"),
        ] {
            assert_eq!(shown(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn unknown_fields_are_named() {
        for (pattern, part) in [("%Y-%m", "hint"), ("YYYY-XX", "XX"), ("DDTHH24", "H24"), ("nonsense", "nonsense")] {
            let error = parse(pattern).err().map(Error::from);
            let error = error.unwrap_or_else(|| panic!("{pattern}"));
            assert!(part == "hint" && error.hint().is_some() || error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn texts_are_read() {
        let us = |pattern: &str, text: &str| read(&parse(pattern).expect(pattern), text).ok();
        let day = days_of(2024, 2, 29) * 86_400_000_000;
        assert_eq!(us("YYYY-MM-DD", "2024-02-29"), Some(day));
        assert_eq!(us("DD Mon YYYY HH12:MI AM", "29 feb 2024 12:30 am"), Some(day + 1_800_000_000));
        assert_eq!(us("YYYYMMDDHH24MISS", "20240229010203"), Some(day + 3_723_000_000));
        assert_eq!(us("YYYY-MM-DD", "2023-02-29"), None);
        assert_eq!(us("YYYY-MM-DD", "2024-02-29 10:00"), None);
        assert_eq!(us("YYYY-MM-DD", "x"), None);
    }
}
