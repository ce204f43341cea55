//! Cells of spreadsheets → values. A column is BOOLEAN, BIGINT, DOUBLE, DATE, TIME, TIMESTAMP or INTERVAL; VARCHAR if its
//! cells differ.
//!
//! A spreadsheet has times as numbers of days. Day 1 is 1900-01-01, or 1904-01-02 in workbooks of early Macintoshes. The
//! first kind has a 1900-02-29 as day 60, so from there on, days are counted from 1899-12-30.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::TimeUnit;
use calamine::{DataRef, ExcelDateTime};

use super::values::{self, ZoneRule};
use crate::durations::interval_of;
use crate::times::calendar;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Days from 1899-12-30 to 1970-01-01, and to 1904-01-01.
const EPOCH_DAYS: i64 = 25_569;
const MAC_DAYS: i64 = 1_462;

/// The day after 9999-12-31, the last one of spreadsheets.
const END_DAYS: f64 = 2_958_466.0;

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// Microseconds since 1970.
    Instant(i64),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds.
    Span(i64),
    Error,
}

impl Cell {
    /// `from_1904`: the days of the workbook are counted from 1904.
    pub fn new(value: &DataRef<'_>, from_1904: bool) -> Cell {
        match value {
            DataRef::Empty | DataRef::Error(_) => Cell::Error,
            DataRef::Bool(value) => Cell::Bool(*value),
            DataRef::Int(value) => Cell::Int(*value),
            DataRef::Float(value) => Cell::Float(*value),
            DataRef::String(text) => Cell::Text(text.clone()),
            DataRef::SharedString(text) => Cell::Text((*text).to_owned()),
            DataRef::DateTime(at) => moment(at, from_1904).unwrap_or(Cell::Float(at.as_f64())),
            DataRef::DateTimeIso(text) => {
                let instant = values::timestamp(text.as_bytes(), TimeUnit::Microsecond, ZoneRule::Naive);
                instant.map_or_else(|_| Cell::Text(text.clone()), Cell::Instant)
            }
            DataRef::DurationIso(text) => Cell::Text(text.clone()),
        }
    }

    /// An integer, also one that is stored as a number.
    fn whole(&self) -> Option<i64> {
        match self {
            Cell::Int(number) => Some(*number),
            Cell::Float(number) if number.trunc() == *number && number.abs() < 9e15 => Some(*number as i64),
            _ => None,
        }
    }

    /// The text of a cell, as it would be in a CSV file.
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Cell::Error => return None,
            Cell::Bool(value) => value.to_string(),
            Cell::Int(number) => number.to_string(),
            Cell::Float(number) => self.whole().map_or_else(|| number.to_string(), |number| number.to_string()),
            Cell::Text(text) => text.clone(),
            Cell::Time(at) => clock_text(*at),
            Cell::Span(at) if *at < 0 => format!("-{}", clock_text(-at)),
            Cell::Span(at) => clock_text(*at),
            Cell::Instant(at) => {
                let date = calendar::civil(at.div_euclid(DAY_US));
                let day = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
                match at.rem_euclid(DAY_US) {
                    0 => day,
                    time => format!("{day} {}", clock_text(time)),
                }
            }
        })
    }
}

fn clock_text(at: i64) -> String {
    let (seconds, fraction) = (at / 1_000_000, at % 1_000_000);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match fraction {
        0 => text,
        milliseconds if milliseconds % 1000 == 0 => format!("{text}.{:03}", milliseconds / 1000),
        fraction => format!("{text}.{fraction:06}"),
    }
}

/// A number of days as a time; `None` outside of the years that spreadsheets have.
fn moment(at: &ExcelDateTime, from_1904: bool) -> Option<Cell> {
    let days = at.as_f64();
    if at.is_duration() {
        return (days.abs() < END_DAYS).then(|| Cell::Span(microseconds(days)));
    }
    if !(0.0..END_DAYS).contains(&days) {
        return None;
    }
    let since_midnight = microseconds(days);
    if days < 1.0 {
        // The last microsecond of a day is not the next day.
        return Some(Cell::Time(since_midnight.min(DAY_US - 1)));
    }
    let leap_day = i64::from(!from_1904 && days < 60.0);
    let first = if from_1904 { MAC_DAYS } else { 0 } - EPOCH_DAYS + leap_day;
    let instant = since_midnight + first * DAY_US;
    // In workbooks from 1904, the last days are beyond the year 9999.
    (instant < (END_DAYS as i64 - EPOCH_DAYS) * DAY_US).then_some(Cell::Instant(instant))
}

/// Days in microseconds. What a number of days cannot represent is taken for the nearest millisecond.
fn microseconds(days: f64) -> i64 {
    let exact = (days * DAY_US as f64).round();
    let milliseconds = (exact / 1000.0).round() * 1000.0;
    let resolution = (days.abs().next_up() - days.abs()) * DAY_US as f64;
    (if (exact - milliseconds).abs() <= resolution.max(0.1) * 2.0 { milliseconds } else { exact }) as i64
}

/// The values of a column in the type that all have.
pub(super) fn array(values: &[Option<Cell>], is_text: bool) -> ArrayRef {
    if is_text || values.iter().flatten().next().is_none() {
        return texts(values);
    }
    let boolean = |cell: &Cell| if let Cell::Bool(value) = cell { Some(*value) } else { None };
    let time = |cell: &Cell| if let Cell::Time(at) = cell { Some(*at) } else { None };
    let instant = |cell: &Cell| if let Cell::Instant(at) = cell { Some(*at) } else { None };
    let day = |cell: &Cell| instant(cell).filter(|at| at % DAY_US == 0).map(|at| (at / DAY_US) as i32);
    let span = |cell: &Cell| if let Cell::Span(at) = cell { interval_of(*at, TimeUnit::Microsecond) } else { None };
    let number = |cell: &Cell| match cell {
        Cell::Int(number) => Some(*number as f64),
        Cell::Float(number) => Some(*number),
        _ => None,
    };
    if let Some(values) = all(values, boolean) {
        Arc::new(BooleanArray::from(values))
    } else if let Some(values) = all(values, Cell::whole) {
        Arc::new(Int64Array::from(values))
    } else if let Some(values) = all(values, number) {
        Arc::new(Float64Array::from(values))
    } else if let Some(values) = all(values, time) {
        Arc::new(Time64MicrosecondArray::from(values))
    } else if let Some(values) = all(values, day) {
        Arc::new(Date32Array::from(values))
    } else if let Some(values) = all(values, instant) {
        Arc::new(TimestampMicrosecondArray::from(values))
    } else if let Some(values) = all(values, span) {
        Arc::new(IntervalMonthDayNanoArray::from(values))
    } else {
        texts(values)
    }
}

/// The values of cells; `None` if one of them has another type.
fn all<T>(cells: &[Option<Cell>], value: impl Fn(&Cell) -> Option<T>) -> Option<Vec<Option<T>>> {
    cells.iter().map(|cell| cell.as_ref().map_or(Some(None), |cell| value(cell).map(Some))).collect()
}

fn texts(values: &[Option<Cell>]) -> ArrayRef {
    Arc::new(StringViewArray::from_iter(values.iter().map(|cell| cell.as_ref().and_then(Cell::text))))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, IntervalUnit};
    use calamine::ExcelDateTimeType;

    use super::*;

    fn cell(days: f64, from_1904: bool) -> Option<String> {
        Cell::new(&DataRef::DateTime(ExcelDateTime::new(days, ExcelDateTimeType::DateTime, from_1904)), from_1904)
            .text()
    }

    #[test]
    fn days_are_dates() {
        let check = |days: f64, expected: &str| assert_eq!(cell(days, false).as_deref(), Some(expected), "{days}");
        check(1.0, "1900-01-01");
        check(59.0, "1900-02-28");
        check(61.0, "1900-03-01");
        check(45_351.0, "2024-02-29");
        check(2_958_465.0, "9999-12-31");
        check(1_041_376.0, "4751-03-10");
        check(45_351.5, "2024-02-29 12:00:00");
        check(45_351.0 + 1.0 / 3.0, "2024-02-29 08:00:00");
        check(0.0, "00:00:00");
        check(8.0 / 24.0, "08:00:00");
        check(1.0 - 1e-6 / 86_400.0, "23:59:59.999999");
        check(1.0 - 1e-9, "23:59:59.999914");
        check(45_352.0 - 1e-8, "2024-02-29 23:59:59.999136");
        check(2_958_466.0, "2958466");
        check(-1.0, "-1");
        let check = |days: f64, expected: &str| assert_eq!(cell(days, true).as_deref(), Some(expected), "{days}");
        check(1.0, "1904-01-02");
        check(43_889.0, "2024-02-29");
        check(43_889.5, "2024-02-29 12:00:00");
        check(2_957_003.0, "9999-12-31");
        check(2_957_004.0, "2957004");
        check(0.25, "06:00:00");
    }

    #[test]
    fn columns_take_the_type_of_their_cells() {
        let kind = |cells: Vec<Cell>| array(&cells.into_iter().map(Some).chain([None]).collect::<Vec<_>>(), false);
        let type_of = |cells: Vec<Cell>| kind(cells).data_type().clone();
        assert_eq!(type_of(vec![Cell::Float(1.0), Cell::Int(2)]), DataType::Int64);
        assert_eq!(type_of(vec![Cell::Float(1.5), Cell::Int(2)]), DataType::Float64);
        assert_eq!(type_of(vec![Cell::Float(1e300)]), DataType::Float64);
        assert_eq!(type_of(vec![Cell::Bool(true)]), DataType::Boolean);
        assert_eq!(type_of(vec![Cell::Bool(true), Cell::Int(1)]), DataType::Utf8View);
        assert_eq!(type_of(vec![]), DataType::Utf8View);
        assert_eq!(type_of(vec![Cell::Instant(DAY_US)]), DataType::Date32);
        assert_eq!(type_of(vec![Cell::Instant(1)]), DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(type_of(vec![Cell::Time(1)]), DataType::Time64(TimeUnit::Microsecond));
        assert_eq!(type_of(vec![Cell::Time(1), Cell::Instant(1)]), DataType::Utf8View);
        assert_eq!(type_of(vec![Cell::Span(1)]), DataType::Interval(IntervalUnit::MonthDayNano));
        assert_eq!(kind(vec![Cell::Float(7.0), Cell::Text("x".into())]).null_count(), 1);
        assert_eq!(Cell::Span(108_000_000_000).text().as_deref(), Some("30:00:00"));
    }
}
