//! Parsing of times by a format.

use super::calendar::{checked_days, day_name, days_of, iso_year_start, month_name, weekday};
use super::format::Piece;
use super::{SECOND_NS, Zone};

/// The content of a text: days since 1970, nanoseconds since midnight, and the time zone, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parsed {
    pub days: i64,
    pub ns: i64,
    pub zone: Option<Zone>,
}

/// The parsed fields of a text.
#[derive(Debug, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    /// 0 is Monday.
    weekday: Option<i64>,
    /// The week of the year, and whether weeks begin on Sunday.
    week: Option<(i64, bool)>,
    hour: i64,
    is_half_day: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    ns: i64,
    zone: Option<Zone>,
}

/// Parses a text; `None` if it does not match the format.
pub(super) fn parse(text: &str, pieces: &[Piece]) -> Option<Parsed> {
    let mut fields = Fields::default();
    let mut rest = text.trim_start();
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Literal(literal) if at == 0 => rest = rest.strip_prefix(literal.trim_start())?,
            Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            Piece::Field { letter, .. } => rest = fields.read(*letter, rest)?,
        }
    }
    rest.trim_end().is_empty().then(|| fields.finished()).flatten()
}

/// The number of at most `digits_max` digits at the start of a text, and the rest.
fn number(text: &str, digits_max: usize) -> Option<(i64, usize, &str)> {
    let digits = text.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, digits, rest))
}

/// The index of the name at the start of a text, regardless of case.
fn name(text: &str, names: impl Iterator<Item = &'static str>, length: Option<usize>) -> Option<(i64, &str)> {
    for (at, name) in names.enumerate() {
        let name = length.map_or(name, |length| &name[..length]);
        if text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return Some((at as i64, &text[name.len()..]));
        }
    }
    None
}

impl Fields {
    fn read<'a>(&mut self, letter: char, text: &'a str) -> Option<&'a str> {
        let months = || (1..=12).map(month_name);
        let days = || (0..7).map(day_name);
        let within = |digits: usize, low: i64, high: i64| {
            number(text, digits)
                .filter(|(value, ..)| (low..=high).contains(value))
                .map(|(value, _, rest)| (value, rest))
        };
        let (value, rest) = match letter {
            'a' => name(text, days(), Some(3))?,
            'A' => name(text, days(), None)?,
            'b' | 'h' => name(text, months(), Some(3))?,
            'B' => name(text, months(), None)?,
            'p' => name(text, ["AM", "PM"].into_iter(), None)?,
            'f' | 'g' | 'n' => return self.fraction(letter, text),
            'z' => return self.offset(text),
            'Z' => return self.zone_name(text),
            'Y' | 'G' => return self.year(letter, text),
            'd' => within(2, 1, 31)?,
            'm' => within(2, 1, 12)?,
            'H' => within(2, 0, 23)?,
            'I' => within(2, 1, 12)?,
            'M' | 'S' => within(2, 0, 59)?,
            'j' => within(3, 1, 366)?,
            'u' => within(1, 1, 7)?,
            'w' => within(1, 0, 6)?,
            'V' => within(2, 1, 53)?,
            'U' | 'W' => within(2, 0, 53)?,
            'y' => within(2, 0, 99)?,
            _ => return None,
        };
        match letter {
            'a' | 'A' => self.weekday = Some(value),
            'u' => self.weekday = Some(value - 1),
            'w' => self.weekday = Some((value + 6) % 7),
            'b' | 'h' | 'B' => self.month = Some(value + 1),
            'm' => self.month = Some(value),
            'p' => self.afternoon = Some(value == 1),
            'd' => self.day = Some(value),
            'H' => self.hour = value,
            'I' => (self.hour, self.is_half_day) = (value, true),
            'M' => self.minute = value,
            'S' => self.second = value,
            'j' => self.day_of_year = Some(value),
            'V' => self.iso_week = Some(value),
            'U' | 'W' => self.week = Some((value, letter == 'U')),
            // As in POSIX: 69 to 99 are 1969 to 1999.
            _ => self.year = Some(if value >= 69 { 1900 + value } else { 2000 + value }),
        }
        Some(rest)
    }

    fn year<'a>(&mut self, letter: char, text: &'a str) -> Option<&'a str> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let (value, _, rest) = number(digits, 4)?;
        *(if letter == 'Y' { &mut self.year } else { &mut self.iso_year }) = Some(sign * value);
        Some(rest)
    }

    fn fraction<'a>(&mut self, letter: char, text: &'a str) -> Option<&'a str> {
        let digits_max = match letter {
            'f' => 6,
            'g' => 3,
            _ => 9,
        };
        let (value, digits, rest) = number(text, digits_max)?;
        self.ns = value * 10i64.pow(9 - digits as u32);
        Some(rest)
    }

    /// `+HH`, `+HHMM`, `+HH:MM` or `Z`.
    fn offset<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix(['Z', 'z']) {
            self.zone = Some(Zone::Fixed(0));
            return Some(rest);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let (hours, digits, mut rest) = number(&text[1..], 2)?;
        let mut minutes = 0;
        let after = rest.strip_prefix(':').unwrap_or(rest);
        if let Some((value, 2, after)) = number(after, 2).filter(|_| digits == 2) {
            (minutes, rest) = (value, after);
        }
        (hours < 24 && minutes < 60).then(|| self.zone = Some(Zone::Fixed(sign * (hours * 3_600 + minutes * 60))))?;
        Some(rest)
    }

    fn zone_name<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+' | ':');
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.zone = Some(Zone::parse(name)?);
        Some(rest)
    }

    fn finished(self) -> Option<Parsed> {
        let mut hour = self.hour;
        match self.afternoon {
            Some(afternoon) if self.is_half_day => hour = hour % 12 + if afternoon { 12 } else { 0 },
            _ => {}
        }
        let seconds = hour * 3_600 + self.minute * 60 + self.second;
        Some(Parsed { days: self.days()?, ns: seconds * SECOND_NS + self.ns, zone: self.zone })
    }

    /// The date; 1900-01-01 if the text has none.
    fn days(&self) -> Option<i64> {
        if self.iso_year.is_some() || self.iso_week.is_some() {
            let days = iso_year_start(self.iso_year?) + (self.iso_week? - 1) * 7 + self.weekday.unwrap_or(0);
            return Some(days);
        }
        let year = self.year.unwrap_or(1900);
        let first = days_of(year, 1, 1);
        if let Some(day) = self.day_of_year {
            let length = days_of(year + 1, 1, 1) - first;
            return (day <= length).then_some(first + day - 1);
        }
        if let (Some((week, from_sunday)), None) = (self.week, self.day) {
            // Days from the start of a week.
            let place = |weekday: i64| if from_sunday { (weekday + 1) % 7 } else { weekday };
            let start = first - place(weekday(first)) + if place(weekday(first)) == 0 { -7 } else { 0 };
            return Some(start + week * 7 + self.weekday.map_or(0, place));
        }
        checked_days(year, self.month.unwrap_or(1), self.day.unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::TimeFormat;
    use super::*;

    #[test]
    fn texts_are_read() {
        let read = |text: &str, format: &str| TimeFormat::new(format).expect(format).read(text);
        let day = |text: &str, format: &str| read(text, format).map(|parsed| parsed.days);
        let ns = |text: &str, format: &str| read(text, format).map(|parsed| parsed.ns);
        assert_eq!(day("29.02.2024", "%d.%m.%Y"), Some(days_of(2024, 2, 29)));
        assert_eq!(day("2024 60", "%Y %j"), Some(days_of(2024, 2, 29)));
        assert_eq!(day("2021-W01-1", "%G-W%V-%u"), Some(days_of(2021, 1, 4)));
        assert_eq!(day("Feb 3 99", "%b %d %y"), Some(days_of(1999, 2, 3)));
        assert_eq!(day("30.02.2024", "%d.%m.%Y"), None);
        assert_eq!(day("2024-01-01x", "%Y-%m-%d"), None);
        assert_eq!(ns("12:05 AM", "%I:%M %p"), Some(5 * 60 * SECOND_NS));
        assert_eq!(ns("1.5", "%S.%f"), Some(1_500_000_000));
        assert_eq!(day("", "%Y"), None);
        assert_eq!(day("é", "%b"), None);
    }
}
