//! Parsing of intervals: the forms of PostgreSQL, of the SQL standard, and of ISO 8601.

use super::interval::{DAY_NS, DAYS_PER_MONTH, Interval, SECOND_NS, rounded_quotient};

/// Units of intervals, finest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// The unit with this name, which may be abbreviated or plural.
    pub fn named(name: &str) -> Option<Unit> {
        Some(match name.to_ascii_lowercase().as_str() {
            "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => Unit::Nanosecond,
            "us" | "usec" | "usecs" | "useconds" | "microsecond" | "microseconds" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "mseconds" | "millisecond" | "milliseconds" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "quarter" | "quarters" => Unit::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millenniums" | "millennia" | "millenium" => Unit::Millennium,
            _ => return None,
        })
    }

    fn ns(self) -> Option<i64> {
        Some(match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => SECOND_NS,
            Unit::Minute => 60 * SECOND_NS,
            Unit::Hour => 3_600 * SECOND_NS,
            _ => return None,
        })
    }

    fn months(self) -> Option<i64> {
        Some(match self {
            Unit::Month => 1,
            Unit::Quarter => 3,
            Unit::Year => 12,
            Unit::Decade => 120,
            Unit::Century => 1_200,
            Unit::Millennium => 12_000,
            _ => return None,
        })
    }

    fn days(self) -> Option<i64> {
        match self {
            Unit::Day => Some(1),
            Unit::Week => Some(7),
            _ => None,
        }
    }
}

/// A decimal number: `digits / 10^scale`.
#[derive(Clone, Copy)]
struct Number {
    digits: i128,
    scale: u32,
}

impl Number {
    fn read(text: &str) -> Option<Number> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = !(whole.is_empty() && fraction.is_empty())
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        if !is_number || whole.len() > 19 || fraction.len() > 15 {
            return None;
        }
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        Some(Number { digits: digits * sign, scale: fraction.len() as u32 })
    }

    /// The number times `count`: the integral part, and the rest in units of which one has `parts`.
    fn times(self, count: i64, parts: i64) -> Option<(i64, i128)> {
        let power = 10i128.pow(self.scale);
        let product = self.digits * i128::from(count);
        let rest = rounded_quotient((product % power) * i128::from(parts), power);
        Some((i64::try_from(product / power).ok()?, rest))
    }
}

/// The sum of the parts of an interval.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    ns: i128,
}

impl Sum {
    fn add(&mut self, number: Number, unit: Unit) -> Option<()> {
        if let Some(ns) = unit.ns() {
            let (whole, rest) = number.times(1, ns)?;
            self.ns += i128::from(whole) * i128::from(ns) + rest;
        } else if let Some(days) = unit.days() {
            self.add_days(number.times(days, DAY_NS)?)?;
        } else if unit == Unit::Month {
            // Fractions of months become days.
            let (months, ns) = number.times(1, DAYS_PER_MONTH * DAY_NS)?;
            self.months = self.months.checked_add(months)?;
            let day = i128::from(DAY_NS);
            self.add_days(((ns / day) as i64, ns % day))?;
        } else {
            // Fractions of years become full months.
            let (months, rest) = number.times(unit.months()?, 1)?;
            self.months = self.months.checked_add(months + rest as i64)?;
        }
        Some(())
    }

    fn add_days(&mut self, (days, ns): (i64, i128)) -> Option<()> {
        self.days = self.days.checked_add(days)?;
        self.ns += ns;
        Some(())
    }

    /// Parses `[+-]H:M[:S[.fraction]]`, or `M:S` for an interval of minutes and seconds.
    fn add_clock(&mut self, text: &str, ends_in_seconds: bool) -> Option<()> {
        let negative = text.starts_with('-');
        let digits = text.trim_start_matches(['-', '+']);
        let parts: Vec<&str> = digits.split(':').collect();
        let units: &[Unit] = match (parts.len(), ends_in_seconds) {
            (2, true) => &[Unit::Minute, Unit::Second],
            (2, false) => &[Unit::Hour, Unit::Minute],
            (3, _) => &[Unit::Hour, Unit::Minute, Unit::Second],
            _ => return None,
        };
        let mut clock = Sum::default();
        for (part, unit) in parts.iter().zip(units) {
            let number = Number::read(part).filter(|_| !part.starts_with(['-', '+']))?;
            if number.scale > 0 && *unit != Unit::Second {
                return None;
            }
            clock.add(number, *unit)?;
        }
        self.ns += if negative { -clock.ns } else { clock.ns };
        Some(())
    }

    fn finish(self, negative: bool) -> Option<Interval> {
        let interval = Interval {
            months: i32::try_from(self.months).ok()?,
            days: i32::try_from(self.days).ok()?,
            ns: i64::try_from(self.ns).ok()?,
        };
        if negative { interval.checked_neg() } else { Some(interval) }
    }
}

/// The units that follow a literal: `INTERVAL '1-2' YEAR TO MONTH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fields {
    pub first: Unit,
    pub last: Unit,
}

/// Parses an interval as PostgreSQL does: `1 year 2 mons`, `3 days 04:05:06`, `1-2`, `P1Y2M3DT4H`, `1 week ago`.
pub(crate) fn parse(text: &str, fields: Option<Fields>) -> Option<Interval> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return if fields.is_none() { parse_iso(&text[1..]) } else { None };
    }
    let mut words = words(text.strip_prefix('@').unwrap_or(text))?;
    let ago = words.last().is_some_and(|word| word.eq_ignore_ascii_case("ago"));
    if ago {
        words.pop();
    }
    if words.is_empty() || fields.is_some() && words.len() > 2 {
        return None;
    }
    let mut sum = Sum::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word.contains(':') {
            let ends_in_seconds = fields == Some(Fields { first: Unit::Minute, last: Unit::Second });
            sum.add_clock(word, ends_in_seconds)?;
            continue;
        }
        if let Some((years, months)) = year_and_month(word) {
            let sign = if word.starts_with('-') { -1 } else { 1 };
            sum.months = sum.months.checked_add(sign * (years.checked_mul(12)? + months))?;
            continue;
        }
        let number = Number::read(word)?;
        let unit = match words.get(at).map(|next| (next, Unit::named(next))) {
            Some((_, Some(_))) if fields.is_some() => return None,
            Some((_, Some(unit))) => {
                at += 1;
                unit
            }
            // A number before a time of day is a number of days, as is the first of two of DAY TO HOUR.
            Some((next, None)) if next.contains(':') || fields.is_some_and(|fields| fields.first == Unit::Day) => {
                Unit::Day
            }
            Some(_) => return None,
            None => fields.map_or(Unit::Second, |fields| fields.last),
        };
        sum.add(number, unit)?;
    }
    let interval = sum.finish(ago)?;
    Some(fields.map_or(interval, |fields| cut(interval, fields.last)))
}

/// The interval without what is finer than its last field, as in PostgreSQL and DuckDB: `INTERVAL '1.5' HOUR` is one hour.
/// Fractions of seconds are kept.
fn cut(interval: Interval, last: Unit) -> Interval {
    let Interval { months, days, ns } = interval;
    if let Some(length) = last.months().and_then(|length| i32::try_from(length).ok()) {
        return Interval { months: months - months % length, days: 0, ns: 0 };
    }
    match (last, last.ns()) {
        (Unit::Hour | Unit::Minute, Some(length)) => Interval { ns: ns - ns % length, ..interval },
        (Unit::Week, _) => Interval { days: days - days % 7, ns: 0, ..interval },
        (Unit::Day, _) => Interval { ns: 0, ..interval },
        _ => interval,
    }
}

/// Splits a text into numbers, names and times of day.
fn words(text: &str) -> Option<Vec<&str>> {
    let mut words = vec![];
    for word in text.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        if !word.is_ascii() {
            return None;
        }
        // `3days` is two words.
        let end = word.bytes().position(|byte| byte.is_ascii_alphabetic()).unwrap_or(word.len());
        match word.split_at(end) {
            (number, "") => words.push(number),
            ("", name) => words.push(name),
            (number, name) => words.extend([number, name]),
        }
    }
    Some(words)
}

/// Parses `1-2`: years and months.
fn year_and_month(word: &str) -> Option<(i64, i64)> {
    let (years, months) = word.trim_start_matches(['-', '+']).split_once('-')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<i64>().ok()).flatten()
    };
    Some((number(years)?, number(months).filter(|months| *months < 12)?))
}

/// Parses the text after the `P` of ISO 8601: `1Y2M3DT4H5M6.5S`.
fn parse_iso(text: &str) -> Option<Interval> {
    let mut sum = Sum::default();
    let (mut in_time, mut rest, mut any) = (false, text, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            (in_time, rest) = (true, after);
            continue;
        }
        let end = rest.bytes().position(|byte| byte.is_ascii_alphabetic())?;
        let unit = match (rest.as_bytes()[end].to_ascii_uppercase(), in_time) {
            (b'Y', false) => Unit::Year,
            (b'M', false) => Unit::Month,
            (b'W', false) => Unit::Week,
            (b'D', false) => Unit::Day,
            (b'H', true) => Unit::Hour,
            (b'M', true) => Unit::Minute,
            (b'S', true) => Unit::Second,
            _ => return None,
        };
        sum.add(Number::read(&rest[..end])?, unit)?;
        (rest, any) = (&rest[end + 1..], true);
    }
    if any { sum.finish(false) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * SECOND_NS;

    fn interval(months: i32, days: i32, ns: i64) -> Interval {
        Interval { months, days, ns }
    }

    #[test]
    fn texts_are_read() {
        for (text, expected) in [
            ("1 day", interval(0, 1, 0)),
            ("1day", interval(0, 1, 0)),
            ("-1 day +02:00", interval(0, -1, 2 * HOUR)),
            ("1 year 2 mons 3 days 04:05:06.789", interval(14, 3, 4 * HOUR + 306_789_000_000)),
            ("1.5 years", interval(18, 0, 0)),
            ("1.5 months", interval(1, 15, 0)),
            ("-1.5 months", interval(-1, -15, 0)),
            ("1.5 days", interval(0, 1, 12 * HOUR)),
            ("1.5 weeks", interval(0, 10, 12 * HOUR)),
            ("0.1 s", interval(0, 0, 100_000_000)),
            ("1-2", interval(14, 0, 0)),
            ("-1-2", interval(-14, 0, 0)),
            ("3 04:05", interval(0, 3, 4 * HOUR + 300 * SECOND_NS)),
            ("-00:00:01.5", interval(0, 0, -1_500_000_000)),
            ("1 week ago", interval(0, -7, 0)),
            ("@ 1 minute ago", interval(0, 0, -60 * SECOND_NS)),
            ("P1Y2M3DT4H5M6.5S", interval(14, 3, 4 * HOUR + 306_500_000_000)),
            ("PT-1H", interval(0, 0, -HOUR)),
            ("5", interval(0, 0, 5 * SECOND_NS)),
            ("2 millennia 1 century 1 decade", interval(25_320, 0, 0)),
            ("1 ns", interval(0, 0, 1)),
            ("30000000000000 us", interval(0, 0, 30_000_000_000_000_000)),
        ] {
            assert_eq!(parse(text, None), Some(expected), "{text}");
        }
        for text in
            ["", "day", "1 x", "1 day day", "1:2:3:4", "P", "P1H", "one day", "1e3 s", "3000000000 months", "ago"]
        {
            assert_eq!(parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn fields_say_what_numbers_count() {
        let read = |text, first, last| parse(text, Some(Fields { first, last }));
        assert_eq!(read("5", Unit::Month, Unit::Month), Some(interval(5, 0, 0)));
        assert_eq!(read("1-2", Unit::Year, Unit::Month), Some(interval(14, 0, 0)));
        assert_eq!(read("10:20", Unit::Minute, Unit::Second), Some(interval(0, 0, 620 * SECOND_NS)));
        assert_eq!(read("3 10:20", Unit::Day, Unit::Minute), Some(interval(0, 3, 620 * 60 * SECOND_NS)));
        assert_eq!(read("1 day", Unit::Hour, Unit::Hour), None);
        // What is finer than the last field is cut off.
        assert_eq!(read("1 2:03:04", Unit::Day, Unit::Hour), Some(interval(0, 1, 2 * HOUR)));
        assert_eq!(read("1 2", Unit::Day, Unit::Hour), Some(interval(0, 1, 2 * HOUR)));
        assert_eq!(read("2:03:04", Unit::Hour, Unit::Minute), Some(interval(0, 0, 123 * 60 * SECOND_NS)));
        assert_eq!(read("1-2", Unit::Year, Unit::Year), Some(interval(12, 0, 0)));
        assert_eq!(read("1.5", Unit::Month, Unit::Month), Some(interval(1, 0, 0)));
        assert_eq!(read("1.5", Unit::Week, Unit::Week), Some(interval(0, 7, 0)));
        assert_eq!(read("-1.5", Unit::Hour, Unit::Hour), Some(interval(0, 0, -HOUR)));
        assert_eq!(read("1.5", Unit::Second, Unit::Second), Some(interval(0, 0, 1_500_000_000)));
    }

    #[test]
    fn what_is_written_is_read() {
        for interval in [interval(14, 3, HOUR), interval(0, 0, 0), interval(-1, 2, -HOUR), interval(0, 0, i64::MIN)] {
            assert_eq!(parse(&interval.text(), None), Some(interval));
        }
    }
}
