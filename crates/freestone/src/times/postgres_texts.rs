//! Texts of dates and times as PostgreSQL reads them: `January 8, 1999`, `1/8/1999` in the order of `DateStyle`, `990108`,
//! `J2451187`, `04:05 PM`, `today`, abbreviations of zones. They are put in the form that the engine reads everywhere, so the
//! parsers of columns, casts and parameters need not know them. The rules are those of PostgreSQL's `DecodeDateTime` and
//! `DecodeTimeOnly`.

use datafusion::arrow::datatypes::DataType;

use datafusion::common::config::ConfigOptions;

use super::abbreviations::{Abbreviated, abbreviated};
use super::calendar::{checked_days, days_of};
use super::interval::{DAY_NS, SECOND_NS};
use super::postgres_fields::{Field, Kind, Word, fields, word};
use super::text::{push_date, push_offset, push_timestamp, time_text};
use super::zone::Zone;
use crate::own_settings::FreestoneSettings;

const DAY_SECONDS: i64 = 86_400;
const DAY_US: i64 = 86_400_000_000;
/// The Julian day of 1970-01-01.
const JULIAN_OF_1970: i64 = 2_440_588;
/// More Julian days than a date has.
const DAYS_MAX: i64 = 1 << 32;

/// The order of day, month and year in texts where digits alone do not tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

impl DateOrder {
    /// Its name as a setting.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DateOrder::Mdy => "mdy",
            DateOrder::Dmy => "dmy",
            DateOrder::Ymd => "ymd",
        }
    }

    /// That of a session; `None` if its texts read as elsewhere in the engine.
    pub(crate) fn of_session(options: &ConfigOptions) -> Option<DateOrder> {
        DateOrder::named(&options.extensions.get::<FreestoneSettings>()?.date_order)
    }

    /// The order of a name such as `MDY`.
    pub fn named(name: &str) -> Option<DateOrder> {
        let all = [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd];
        all.into_iter().find(|order| name.eq_ignore_ascii_case(order.name()))
    }
}

/// What a text is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextOf {
    /// DATE
    Date,
    /// TIME
    Time,
    /// TIME WITH TIME ZONE
    TimeTz,
    /// TIMESTAMP
    Timestamp,
    /// TIMESTAMP WITH TIME ZONE
    TimestampTz,
}

impl TextOf {
    /// The kind of a type; `None` for types of other values than dates and times.
    pub fn of_type(data_type: &DataType) -> Option<TextOf> {
        Some(match data_type {
            DataType::Date32 | DataType::Date64 => TextOf::Date,
            DataType::Time32(_) | DataType::Time64(_) => TextOf::Time,
            DataType::Timestamp(_, None) => TextOf::Timestamp,
            DataType::Timestamp(_, Some(_)) => TextOf::TimestampTz,
            _ => return None,
        })
    }
}

/// The text in the form of the engine. `None` if it is in that form, or if PostgreSQL does not read it either. `session` is
/// the zone of times without one.
pub fn plain_text(text: &str, of: TextOf, order: DateOrder, session: &Zone) -> Option<String> {
    let text = text.trim_ascii();
    if is_plain(text.as_bytes(), of) {
        return None;
    }
    let fields = fields(text)?;
    let mut reader = Reader::new(order, session);
    match of {
        TextOf::Time | TextOf::TimeTz => {
            reader.read_time(&fields)?;
            reader.time_of_day(of)
        }
        TextOf::Date | TextOf::Timestamp | TextOf::TimestampTz => {
            reader.read(&fields)?;
            reader.time(of)
        }
    }
}

/// Whether a text depends on the time at which it is read: `today`, `now`.
pub(crate) fn is_relative(text: &str) -> bool {
    let is_word =
        |word: &str| ["now", "today", "tomorrow", "yesterday"].iter().any(|one| word.eq_ignore_ascii_case(one));
    text.split(|c: char| !c.is_ascii_alphabetic()).any(is_word)
}

/// Whether a text is written as nearly all are, and so read by the engine's own parsers as by PostgreSQL's.
fn is_plain(text: &[u8], of: TextOf) -> bool {
    let has_form = |text: &[u8], form: &[u8]| {
        text.len() == form.len()
            && text
                .iter()
                .zip(form)
                .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
    };
    let is_fraction = |text: &[u8]| match text {
        [] => true,
        [b'.', digits @ ..] => (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let is_clock = |text: &[u8]| match text.split_at_checked(8) {
        Some((clock, rest)) => has_form(clock, b"00:00:00") && !clock.ends_with(b"60") && is_fraction(rest),
        None => false,
    };
    let is_date = |text: &[u8]| has_form(text, b"0000-00-00") && !text.starts_with(b"0000");
    let is_timestamp = |text: &[u8]| match text.split_at_checked(10) {
        Some((date, [])) => is_date(date),
        Some((date, [b' ' | b'T', clock @ ..])) => is_date(date) && is_clock(clock),
        _ => false,
    };
    match of {
        TextOf::Date => is_date(text),
        TextOf::Time => is_clock(text),
        TextOf::TimeTz => false,
        TextOf::Timestamp => is_timestamp(text),
        TextOf::TimestampTz => match text.len().checked_sub(3).and_then(|at| text.split_at_checked(at)) {
            Some((local, zone)) => {
                local.len() > 10 && is_timestamp(local) && (has_form(zone, b"+00") || has_form(zone, b"-00"))
            }
            None => false,
        },
    }
}

/// What a text has said, as bits.
type Parts = u16;

const YEAR: Parts = 1;
const MONTH: Parts = 2;
const DAY: Parts = 4;
const YEAR_MONTH: Parts = YEAR | MONTH;
const MONTH_DAY: Parts = MONTH | DAY;
const DATE: Parts = YEAR | MONTH | DAY;
const TIME: Parts = 8;
const ZONE: Parts = 16;
const MERIDIEM: Parts = 32;
const ERA: Parts = 64;
const WEEKDAY: Parts = 128;
const SUMMER: Parts = 256;

/// What the next number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Julian,
    Time,
}

/// What has been read.
struct Reader<'a> {
    order: DateOrder,
    session: &'a Zone,
    parts: Parts,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    /// Days since 1970 that need no calculation: of a Julian day, or of `today`.
    days: Option<i64>,
    /// Hour, minute, second.
    clock: [i64; 3],
    micros: i64,
    zone: Option<Zone>,
    has_text_month: bool,
    has_two_digits: bool,
    is_before_christ: bool,
    is_afternoon: Option<bool>,
    label: Option<Label>,
}

impl<'a> Reader<'a> {
    fn new(order: DateOrder, session: &'a Zone) -> Reader<'a> {
        Reader {
            order,
            session,
            parts: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: None,
            days: None,
            clock: [0; 3],
            micros: 0,
            zone: None,
            has_text_month: false,
            has_two_digits: false,
            is_before_christ: false,
            is_afternoon: None,
            label: None,
        }
    }

    fn add(&mut self, found: Parts) -> Option<()> {
        if self.parts & found != 0 {
            return None;
        }
        self.parts |= found;
        Some(())
    }

    /// Reads a date with or without a time.
    fn read(&mut self, fields: &[Field]) -> Option<()> {
        for (at, field) in fields.iter().enumerate() {
            let text = field.text.as_str();
            let found = match field.kind {
                Kind::Date => self.date_or_zone(text)?,
                Kind::Time => self.clock(text)?,
                Kind::Offset => self.offset(text)?,
                Kind::Number => self.number_field(text)?,
                Kind::Word => self.word(text, fields, at, false)?,
            };
            self.add(found)?;
        }
        (self.parts & DATE == DATE && self.label.is_none()).then_some(())
    }

    /// Reads a time of day. A date may stand before it.
    fn read_time(&mut self, fields: &[Field]) -> Option<()> {
        let last = fields.last()?.kind;
        let is_time_next = fields.get(1).is_some_and(|next| next.kind == Kind::Time);
        let takes_date = |at: usize| at == 0 && fields.len() >= 2 && (last == Kind::Date || is_time_next);
        for (at, field) in fields.iter().enumerate() {
            let text = field.text.as_str();
            let found = match field.kind {
                Kind::Date if takes_date(at) => self.date(text)?,
                Kind::Date if text.starts_with(|c: char| c.is_ascii_digit()) => self.clock_with_offset(text)?,
                Kind::Date => self.named_zone(text)?,
                Kind::Time => self.clock(text)?,
                Kind::Offset => self.offset(text)?,
                Kind::Number if self.label.is_some() => self.labelled(text)?,
                Kind::Number => match text.split_once('.') {
                    Some(_) if takes_date(at) && last == Kind::Date => self.date(text)?,
                    Some((whole, _)) if whole.len() <= 2 => return None,
                    _ => self.run_together(text, self.parts | DATE)?,
                },
                Kind::Word => self.word(text, fields, at, true)?,
            };
            self.add(found)?;
        }
        (self.parts & TIME != 0 && self.label.is_none()).then_some(())
    }

    fn date_or_zone(&mut self, text: &str) -> Option<Parts> {
        if self.label == Some(Label::Julian) {
            return None;
        }
        if self.label.is_none() && self.parts & MONTH_DAY != MONTH_DAY {
            return self.date(text);
        }
        match self.label.take().is_some() || text.starts_with(|c: char| c.is_ascii_digit()) {
            true => self.clock_with_offset(text),
            false => self.named_zone(text),
        }
    }

    /// `hhmmss-zz`
    fn clock_with_offset(&mut self, text: &str) -> Option<Parts> {
        if self.parts & TIME != 0 {
            return None;
        }
        self.label = None;
        let (clock, zone) = text.split_at_checked(text.find('-')?)?;
        let found = self.offset(zone)?;
        Some(found | self.run_together(clock, self.parts | DATE)?)
    }

    /// A date with separators.
    fn date(&mut self, text: &str) -> Option<Parts> {
        let parts = || text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (mut found, mut has_month) = (0, false);
        for part in parts().filter(|part| !is_number(part)) {
            match word(part)? {
                Word::Month(month) if (self.parts | found) & MONTH == 0 => {
                    (self.month, has_month) = (month, true);
                    found |= MONTH;
                }
                Word::Ignored => {}
                _ => return None,
            }
        }
        for part in parts().filter(is_number) {
            let own = self.number(part, self.parts | found, has_month)?;
            if (self.parts | found) & own != 0 {
                return None;
            }
            found |= own;
        }
        ((self.parts | found) & DATE == DATE).then_some(found)
    }

    fn number_field(&mut self, text: &str) -> Option<Parts> {
        if self.label.is_some() {
            return self.labelled(text);
        }
        match text.split_once('.') {
            Some(_) if self.parts & DATE == 0 => self.date(text),
            Some((whole, _)) if whole.len() > 2 => self.run_together(text, self.parts),
            None if text.len() >= 6 && (self.parts & DATE == 0 || self.parts & TIME == 0) => {
                self.run_together(text, self.parts)
            }
            _ => self.number(text, self.parts, self.has_text_month),
        }
    }

    /// A number behind `J` or `T`.
    fn labelled(&mut self, text: &str) -> Option<Parts> {
        match self.label.take()? {
            Label::Time => self.run_together(text, self.parts | DATE),
            Label::Julian => {
                let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
                self.days = Some(number(whole).filter(|days| *days <= DAYS_MAX)? - JULIAN_OF_1970);
                let Some(fraction) = fraction else { return Some(DATE) };
                let share = format!("0.{fraction}").parse::<f64>().ok()?;
                self.set_clock((share * DAY_US as f64).round_ties_even() as i64);
                Some(DATE | TIME)
            }
        }
    }

    /// A number of one part of a date. `parts` have been read before it.
    fn number(&mut self, text: &str, parts: Parts, has_text_month: bool) -> Option<Parts> {
        if parts & DATE == DATE {
            return self.run_together(text, parts);
        }
        let (value, length) = (number(text)?, text.len());
        if length == 3 && parts & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = Some(value);
            return Some(MONTH_DAY);
        }
        let is_year = length >= 3 || self.order == DateOrder::Ymd;
        let found = match parts & DATE {
            0 if is_year => YEAR,
            0 if self.order == DateOrder::Dmy => DAY,
            0 => MONTH,
            MONTH if has_text_month && is_year => YEAR,
            YEAR_MONTH if has_text_month && length >= 3 && self.has_two_digits => {
                // What was taken for the year is the day: `08-Jan-1999` where years come first.
                (self.day, self.year, self.has_two_digits) = (self.year, value, false);
                return Some(DAY);
            }
            YEAR_MONTH | MONTH => DAY,
            YEAR | DAY => MONTH,
            MONTH_DAY => YEAR,
            _ => return None,
        };
        match found {
            YEAR => (self.year, self.has_two_digits) = (value, length <= 2),
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Some(found)
    }

    /// `YYYYMMDD`, `YYMMDD`, `hhmmss`, `hhmm` and `hhmmss.fff`.
    fn run_together(&mut self, text: &str, parts: Parts) -> Option<Parts> {
        let digits = match text.split_once('.') {
            Some((digits, fraction)) => {
                self.micros = micros(fraction)?;
                digits
            }
            None if parts & DATE != DATE && text.len() >= 6 => {
                let (rest, day) = text.split_at_checked(text.len() - 2)?;
                let (year, month) = rest.split_at_checked(rest.len() - 2)?;
                (self.year, self.month, self.day) = (number(year)?, number(month)?, number(day)?);
                self.has_two_digits = year.len() == 2;
                return Some(DATE);
            }
            None => text,
        };
        if parts & TIME != 0 || !matches!(digits.len(), 4 | 6) {
            return None;
        }
        let two = |at: usize| digits.get(at..at + 2).map_or(Some(0), number);
        self.clock = [two(0)?, two(2)?, two(4)?];
        Some(TIME)
    }

    /// `hh:mm`, `hh:mm:ss` and `mm:ss.fff`, also behind a `T`.
    fn clock(&mut self, text: &str) -> Option<Parts> {
        if self.label.take() == Some(Label::Julian) {
            return None;
        }
        let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, rest)| (clock, Some(rest)));
        let parts = clock.split(':').map(number).collect::<Option<Vec<i64>>>()?;
        self.clock = match (parts.as_slice(), fraction) {
            ([minute, second], Some(_)) => [0, *minute, *second],
            ([hour, minute], None) => [*hour, *minute, 0],
            ([hour, minute, second], _) => [*hour, *minute, *second],
            _ => return None,
        };
        self.micros = fraction.map_or(Some(0), micros)?;
        Some(TIME)
    }

    fn offset(&mut self, text: &str) -> Option<Parts> {
        self.zone = Some(Zone::Fixed(offset(text)?));
        Some(ZONE)
    }

    fn named_zone(&mut self, text: &str) -> Option<Parts> {
        self.zone = Some(zone_named(text)?);
        Some(ZONE)
    }

    fn word(&mut self, text: &str, fields: &[Field], at: usize, is_time: bool) -> Option<Parts> {
        // Abbreviations come before other words: MART is in the Marquesas.
        match abbreviated(text) {
            Some(Abbreviated::Offset(seconds)) => {
                self.zone = Some(Zone::Fixed(seconds));
                return Some(ZONE);
            }
            Some(Abbreviated::Zone(name)) => return self.named_zone(name),
            None => {}
        }
        let Some(word) = word(text) else { return self.named_zone(text) };
        match word {
            Word::Month(month) if !is_time => return Some(self.month_named(month)),
            Word::Weekday if !is_time => return Some(WEEKDAY),
            Word::Now | Word::Day(_) | Word::AllBalls | Word::Epoch => return self.special(word, is_time),
            Word::Ignored => return Some(0),
            Word::Summer => {
                let Some(Zone::Fixed(seconds)) = self.zone else { return None };
                self.zone = Some(Zone::Fixed(seconds + 3_600));
                return Some(SUMMER);
            }
            Word::Julian => self.label = Some(Label::Julian),
            Word::Time => {
                let next = fields.get(at + 1)?.kind;
                let has_date = is_time || self.parts & DATE == DATE;
                if !has_date || !matches!(next, Kind::Number | Kind::Time | Kind::Date) {
                    return None;
                }
                self.label = Some(Label::Time);
            }
            Word::Am | Word::Pm => {
                self.is_afternoon = Some(word == Word::Pm);
                return Some(MERIDIEM);
            }
            Word::Bc | Word::Ad => {
                self.is_before_christ = word == Word::Bc;
                return Some(ERA);
            }
            Word::Month(_) | Word::Weekday | Word::Other => return None,
        }
        Some(0)
    }

    /// A month's name. A number that was taken for the month is the day then: `8 January`.
    fn month_named(&mut self, month: i64) -> Parts {
        let was_day = self.parts & MONTH_DAY == MONTH && !self.has_text_month && (1..=31).contains(&self.month);
        if was_day {
            self.day = self.month;
        }
        (self.month, self.has_text_month) = (month, true);
        if was_day { DAY } else { MONTH }
    }

    /// `now`, `today` and others.
    fn special(&mut self, word: Word, is_time: bool) -> Option<Parts> {
        let now = now_us();
        let offset = self.session.offset_at(now.div_euclid(1_000_000))?;
        let local = now.checked_add(offset * 1_000_000)?;
        let today = local.div_euclid(DAY_US);
        match word {
            Word::AllBalls => {
                self.zone = Some(Zone::Fixed(0));
                Some(TIME | ZONE)
            }
            Word::Now if is_time => {
                self.set_clock(local.rem_euclid(DAY_US));
                Some(TIME)
            }
            _ if is_time => None,
            Word::Now => {
                self.days = Some(today);
                self.set_clock(local.rem_euclid(DAY_US));
                self.zone = Some(Zone::Fixed(offset));
                Some(DATE | TIME | ZONE)
            }
            Word::Day(from_today) => {
                self.days = Some(today + from_today);
                Some(DATE)
            }
            _ => {
                (self.days, self.zone) = (Some(0), Some(Zone::Fixed(0)));
                Some(DATE | TIME | ZONE)
            }
        }
    }

    /// Sets the time of day from microseconds since midnight.
    fn set_clock(&mut self, micros: i64) {
        let seconds = micros.div_euclid(1_000_000);
        (self.clock, self.micros) = ([seconds / 3_600, seconds / 60 % 60, seconds % 60], micros.rem_euclid(1_000_000));
    }

    /// The day; `None` if there is no such day.
    fn finished_days(&self) -> Option<i64> {
        if let Some(days) = self.days {
            return Some(days);
        }
        let year = match self.year {
            year if self.is_before_christ => Some(1 - year).filter(|_| year > 0)?,
            year @ 0..70 if self.has_two_digits => year + 2_000,
            year @ 70..100 if self.has_two_digits => year + 1_900,
            year => Some(year).filter(|year| *year > 0)?,
        };
        match self.day_of_year {
            Some(day) => checked_days(year, 1, 1).map(|_| days_of(year, 1, 1) + day - 1),
            None => checked_days(year, self.month, self.day),
        }
    }

    /// Nanoseconds since midnight; `None` if there is no such time.
    fn finished_ns(&self) -> Option<i64> {
        let [hour, minute, second] = self.clock;
        let hour = match self.is_afternoon {
            Some(_) if hour > 12 => return None,
            Some(true) if hour != 12 => hour + 12,
            Some(false) if hour == 12 => 0,
            _ => hour,
        };
        if hour > 24 || minute > 59 || second > 60 {
            return None;
        }
        let ns = (hour * 3_600 + minute * 60 + second) * SECOND_NS + self.micros * 1_000;
        (ns <= DAY_NS).then_some(ns)
    }

    /// The date or timestamp in the engine's form.
    fn time(&self, of: TextOf) -> Option<String> {
        let (mut days, mut ns) = (self.finished_days()?, self.finished_ns()?);
        let mut text = String::new();
        if of == TextOf::Date {
            push_date(&mut text, days);
            return Some(text);
        }
        if ns == DAY_NS {
            (days, ns) = (days + 1, 0);
        }
        let local = days.checked_mul(DAY_SECONDS)?.checked_add(ns / SECOND_NS)?;
        let offset = match of {
            TextOf::TimestampTz => Some(self.zone.as_ref().unwrap_or(self.session).offset_of_local(local)?),
            _ => None,
        };
        push_timestamp(&mut text, days, ns.unsigned_abs(), offset);
        Some(text)
    }

    /// The time of day in the engine's form.
    fn time_of_day(&self, of: TextOf) -> Option<String> {
        let ns = self.finished_ns()?;
        let has_date = self.parts & DATE == DATE;
        let days = if has_date { Some(self.finished_days()?) } else { None };
        let mut text = time_text(ns.unsigned_abs());
        if of == TextOf::Time {
            return Some(text);
        }
        let offset = match (&self.zone, days) {
            (Some(Zone::Fixed(seconds)), _) => *seconds,
            (zone, Some(days)) => {
                let local = days.checked_mul(DAY_SECONDS)?.checked_add(ns / SECOND_NS)?;
                zone.as_ref().unwrap_or(self.session).offset_of_local(local)?
            }
            // The offset of a zone depends on the day.
            (Some(Zone::Named(_)), None) => return None,
            (None, None) => self.session.offset_at(now_us().div_euclid(1_000_000))?,
        };
        push_offset(&mut text, offset);
        Some(text)
    }
}

/// Microseconds since 1970.
fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A number of digits only.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Microseconds from the digits behind a point, rounded.
fn micros(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let share = format!("0.{fraction}0").parse::<f64>().ok()?;
    Some((share * 1e6).round_ties_even() as i64)
}

/// Seconds east of UTC from `+8`, `-0530`, `+05:30` or `+05:30:15`, at most 15 hours and 59 minutes.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let parts = digits.split(':').map(number).collect::<Option<Vec<i64>>>()?;
    let (hours, minutes, seconds) = match parts.as_slice() {
        [joined] if digits.len() > 2 => (joined / 100, joined % 100, 0),
        [hours] => (*hours, 0, 0),
        [hours, minutes] => (*hours, *minutes, 0),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return None,
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return None;
    }
    let east = hours * 3_600 + minutes * 60 + seconds;
    Some(if sign == "-" { -east } else { east })
}

/// The zone of a name. An offset behind letters, as in `PST-03:00`, counts westwards, as in POSIX.
fn zone_named(text: &str) -> Option<Zone> {
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let behind = text.get(letters..)?;
    match letters >= 3 && behind.starts_with(['+', '-']) {
        true => offset(behind).map(|east| Zone::Fixed(-east)),
        false => Zone::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_as_in_postgresql() {
        // As PostgreSQL 15 reads them in this zone, except that BC is written as in the engine.
        let zone = Zone::parse("America/New_York").expect("a zone");
        for (order, of, text, expected) in [
            (DateOrder::Mdy, TextOf::Date, "January 8, 1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "1/8/1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "1/18/1999", Some("1999-01-18")),
            (DateOrder::Mdy, TextOf::Date, "990108", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "19990108", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "1999.008", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "J2451187", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "January 8, 99 BC", Some("0099-01-08 (BC)")),
            (DateOrder::Mdy, TextOf::Date, "08-Jan-1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "Jan-08-1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "99-Jan-08", None),
            (DateOrder::Mdy, TextOf::Date, "99-08-Jan", None),
            (DateOrder::Mdy, TextOf::Date, "1999-Jan-08", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "08-Jan-99", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "Jan-08-99", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "99 Jan 08", None),
            (DateOrder::Mdy, TextOf::Date, "08 Jan 1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "Jan 08 99", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "1999 08 Jan", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "01-08-99", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "01 08 1999", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "99-01-08", None),
            (DateOrder::Mdy, TextOf::Date, "18/01/1999", None),
            (DateOrder::Mdy, TextOf::Date, "1999-008", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::Date, "epoch", Some("1970-01-01")),
            (DateOrder::Mdy, TextOf::Date, "0099-01-08 BC", Some("0099-01-08 (BC)")),
            (DateOrder::Mdy, TextOf::Date, "Feb 29 1999", None),
            (DateOrder::Mdy, TextOf::Date, "1999-13-01", None),
            (DateOrder::Mdy, TextOf::Time, "10:11 PM", Some("22:11:00")),
            (DateOrder::Mdy, TextOf::Time, "040506", Some("04:05:06")),
            (DateOrder::Mdy, TextOf::Time, "T040506", Some("04:05:06")),
            (DateOrder::Mdy, TextOf::Time, "0405", Some("04:05:00")),
            (DateOrder::Mdy, TextOf::Time, "23:59:59.9999999", Some("24:00:00")),
            (DateOrder::Mdy, TextOf::Time, "23:59:60", Some("24:00:00")),
            (DateOrder::Mdy, TextOf::Time, "23:59:60.01", None),
            (DateOrder::Mdy, TextOf::Time, "12:00 AM", Some("00:00:00")),
            (DateOrder::Mdy, TextOf::Time, "13:00 AM", None),
            (DateOrder::Mdy, TextOf::Time, "allballs", Some("00:00:00")),
            (DateOrder::Mdy, TextOf::Time, "2003-03-07 15:36:39 America/New_York", Some("15:36:39")),
            (DateOrder::Mdy, TextOf::Time, "15:36:39 PST", Some("15:36:39")),
            (DateOrder::Mdy, TextOf::Time, "24:01:00", None),
            (DateOrder::Mdy, TextOf::TimeTz, "040506.789+08", Some("04:05:06.789+08")),
            (DateOrder::Mdy, TextOf::TimeTz, "00:01 PDT", Some("00:01:00-07")),
            (DateOrder::Mdy, TextOf::TimeTz, "2003-03-07 15:36:39 America/New_York", Some("15:36:39-05")),
            (DateOrder::Mdy, TextOf::TimeTz, "2003-07-07 15:36:39 America/New_York", Some("15:36:39-04")),
            (DateOrder::Mdy, TextOf::TimeTz, "15:36:39 America/New_York", None),
            (DateOrder::Mdy, TextOf::TimeTz, "15:36:39 m2", None),
            (DateOrder::Mdy, TextOf::TimeTz, "04:05:06.789-0830", Some("04:05:06.789-08:30")),
            (DateOrder::Mdy, TextOf::TimeTz, "allballs", Some("00:00:00+00")),
            (DateOrder::Mdy, TextOf::TimeTz, "040506-08", Some("04:05:06-08")),
            (DateOrder::Mdy, TextOf::TimeTz, "T040506.789-08", Some("04:05:06.789-08")),
            (DateOrder::Mdy, TextOf::Timestamp, "Feb 10 17:32:01 1997 PST", Some("1997-02-10 17:32:01")),
            (DateOrder::Mdy, TextOf::Timestamp, "97FEB10 5:32:01PM UTC", None),
            (DateOrder::Mdy, TextOf::Timestamp, "97/02/10 17:32:01 UTC", None),
            (DateOrder::Mdy, TextOf::Timestamp, "Mon Feb 10 17:32:01.4 1997 PST", Some("1997-02-10 17:32:01.4")),
            (DateOrder::Mdy, TextOf::Timestamp, "1997.041 17:32:01 UTC", Some("1997-02-10 17:32:01")),
            (DateOrder::Mdy, TextOf::Timestamp, "19970210 173201 America/New_York", Some("1997-02-10 17:32:01")),
            (DateOrder::Mdy, TextOf::Timestamp, "Feb 16 17:32:01 0097 BC", Some("0097-02-16 (BC) 17:32:01")),
            (DateOrder::Mdy, TextOf::Timestamp, "1997-02-10 17:32:01-08", Some("1997-02-10 17:32:01")),
            (DateOrder::Mdy, TextOf::Timestamp, "2000-03-15 08:14:01 GMT+8", Some("2000-03-15 08:14:01")),
            (
                DateOrder::Mdy,
                TextOf::Timestamp,
                "Wed Jul 11 10:51:14 America/New_York 2001",
                Some("2001-07-11 10:51:14"),
            ),
            (DateOrder::Mdy, TextOf::Timestamp, "19970210 173201.5", Some("1997-02-10 17:32:01.5")),
            (DateOrder::Mdy, TextOf::Timestamp, "J2451187 04:05:06", Some("1999-01-08 04:05:06")),
            (DateOrder::Mdy, TextOf::Timestamp, "2001-02-29 10:00", None),
            (DateOrder::Mdy, TextOf::Timestamp, "10:00", None),
            (DateOrder::Mdy, TextOf::Timestamp, "Feb 10 5:32PM 1997", Some("1997-02-10 17:32:00")),
            (DateOrder::Mdy, TextOf::Timestamp, "19990108T040506", Some("1999-01-08 04:05:06")),
            (DateOrder::Mdy, TextOf::Timestamp, "2000-01-01 10:00:00.9999999", Some("2000-01-01 10:00:01")),
            (DateOrder::Dmy, TextOf::Date, "1/8/1999", Some("1999-08-01")),
            (DateOrder::Dmy, TextOf::Date, "18/1/1999", Some("1999-01-18")),
            (DateOrder::Dmy, TextOf::Date, "99-01-08", None),
            (DateOrder::Dmy, TextOf::Date, "08-01-99", Some("1999-01-08")),
            (DateOrder::Dmy, TextOf::Date, "Jan-08-99", Some("1999-01-08")),
            (DateOrder::Dmy, TextOf::Date, "01 08 99", Some("1999-08-01")),
            (DateOrder::Ymd, TextOf::Date, "99-01-08", Some("1999-01-08")),
            (DateOrder::Ymd, TextOf::Date, "99 Jan 08", Some("1999-01-08")),
            (DateOrder::Ymd, TextOf::Date, "08-Jan-1999", Some("1999-01-08")),
            (DateOrder::Ymd, TextOf::Date, "08-Jan-99", None),
            (DateOrder::Ymd, TextOf::Date, "Jan-08-99", None),
            (DateOrder::Ymd, TextOf::Date, "1999-8-1", Some("1999-08-01")),
            (DateOrder::Ymd, TextOf::Date, "99 08 Jan", Some("1999-01-08")),
            (DateOrder::Mdy, TextOf::TimestampTz, "Feb 10 17:32:01 1997 PST", Some("1997-02-10 17:32:01-08")),
            (DateOrder::Mdy, TextOf::TimestampTz, "Wed Jul 11 10:51:14 GMT-4 2001", Some("2001-07-11 10:51:14+04")),
            (DateOrder::Mdy, TextOf::TimestampTz, "Wed Jul 11 10:51:14 PST-03:00 2001", Some("2001-07-11 10:51:14+03")),
            (DateOrder::Mdy, TextOf::TimestampTz, "2014-10-26 01:00:00 MSK", Some("2014-10-26 01:00:00+03")),
            (DateOrder::Mdy, TextOf::TimestampTz, "1997-07-10 17:32:01", Some("1997-07-10 17:32:01-04")),
            (DateOrder::Mdy, TextOf::TimestampTz, "20500710 173201 Europe/Helsinki", Some("2050-07-10 17:32:01+03")),
            (DateOrder::Mdy, TextOf::TimestampTz, "1997-07-10 10:00 CET", Some("1997-07-10 10:00:00+01")),
            (DateOrder::Mdy, TextOf::TimestampTz, "19990108T040506-08", Some("1999-01-08 04:05:06-08")),
            (DateOrder::Mdy, TextOf::TimestampTz, "97FEB10 5:32:01PM UTC", None),
        ] {
            assert_eq!(plain_text(text, of, order, &zone).as_deref(), expected, "{text} {order:?}");
        }
    }

    #[test]
    fn plain_texts_are_left_to_the_engine() {
        for (of, text) in [
            (TextOf::Date, "1999-01-08"),
            (TextOf::Time, "04:05:06.789"),
            (TextOf::Timestamp, "1999-01-08 04:05:06.789"),
            (TextOf::Timestamp, "1999-01-08T04:05:06"),
            (TextOf::TimestampTz, "1999-01-08 04:05:06-08"),
            (TextOf::Date, "infinity"),
            (TextOf::Date, "Märch 8"),
            (TextOf::Timestamp, ""),
        ] {
            assert_eq!(plain_text(text, of, DateOrder::Mdy, &Zone::Fixed(0)), None, "{text}");
        }
    }

    #[test]
    fn words_follow_the_time() {
        let read = |text| plain_text(text, TextOf::Date, DateOrder::Mdy, &Zone::Fixed(0)).expect(text);
        let days: Vec<String> = ["yesterday", "today", "tomorrow"].into_iter().map(read).collect();
        assert!(days.is_sorted() && days.first() != days.last());
        assert!(is_relative("Today 10:00") && is_relative("now") && !is_relative("knowing"));
        assert!(plain_text("now", TextOf::TimestampTz, DateOrder::Mdy, &Zone::Fixed(3_600)).is_some());
    }
}
