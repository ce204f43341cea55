//! Intervals of months, days and nanoseconds, which are separate fields as in PostgreSQL. In comparisons, a month has
//! 30 days and a day 24 hours.

use std::fmt::Write;

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
pub(crate) const DAY_NS: i64 = 86_400 * SECOND_NS;
pub(crate) const DAYS_PER_MONTH: i64 = 30;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub months: i32,
    pub days: i32,
    pub ns: i64,
}

impl Interval {
    /// The length by which intervals are compared.
    pub fn length_ns(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(DAY_NS) + i128::from(self.ns)
    }

    /// The nanoseconds of the interval, with 365.25 days per year as in `extract(epoch …)`.
    pub fn epoch_ns(self) -> i128 {
        let (years, months) = (i128::from(self.months / 12), i128::from(self.months % 12));
        let seconds = years * 31_557_600 + (months * 30 + i128::from(self.days)) * 86_400;
        seconds * i128::from(SECOND_NS) + i128::from(self.ns)
    }

    /// The interval of a length, in days and hours with the sign of the length. `None` if there are too many days.
    pub fn of_length(ns: i128) -> Option<Interval> {
        let days = i32::try_from(ns / i128::from(DAY_NS)).ok()?;
        Some(Interval { months: 0, days, ns: (ns % i128::from(DAY_NS)) as i64 })
    }

    /// The interval of a length that has too many days: with as many months as possible.
    pub fn of_long(ns: i128) -> Interval {
        let (days, ns) = (ns / i128::from(DAY_NS), (ns % i128::from(DAY_NS)) as i64);
        let limits = (i128::from(i32::MIN), i128::from(i32::MAX));
        let months = (days / i128::from(DAYS_PER_MONTH)).clamp(limits.0, limits.1);
        let days = (days - months * i128::from(DAYS_PER_MONTH)).clamp(limits.0, limits.1);
        Interval { months: months as i32, days: days as i32, ns }
    }

    pub fn checked_add(self, other: Interval) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_add(other.months)?,
            days: self.days.checked_add(other.days)?,
            ns: self.ns.checked_add(other.ns)?,
        })
    }

    pub fn checked_neg(self) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            ns: self.ns.checked_neg()?,
        })
    }

    /// The interval multiplied by a number.
    pub fn checked_times(self, count: i64) -> Option<Interval> {
        let times = |field: i32| i32::try_from(i64::from(field).checked_mul(count)?).ok();
        Some(Interval { months: times(self.months)?, days: times(self.days)?, ns: self.ns.checked_mul(count)? })
    }

    /// The interval times a float, as in PostgreSQL: fractions of months become days, fractions of days become time,
    /// rounded to microseconds.
    pub fn multiplied(self, by: f64) -> Option<Interval> {
        self.with_fields(|field| field * by)
    }

    /// The interval divided by a float other than zero, as in [`Interval::multiplied`].
    pub fn divided(self, by: f64) -> Option<Interval> {
        self.with_fields(|field| field / by)
    }

    fn with_fields(self, change: impl Fn(f64) -> f64) -> Option<Interval> {
        let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
        let (months, days) = (change(f64::from(self.months)), change(f64::from(self.days)));
        let (whole_months, whole_days) = (whole(months)?, whole(days)?);
        let month_days = rounded((months - f64::from(whole_months)) * DAYS_PER_MONTH as f64);
        let left = days - f64::from(whole_days) + month_days - month_days.trunc();
        let mut seconds = rounded(left * 86_400.0);
        let mut all_days = whole_days.checked_add(whole(month_days)?)?;
        if seconds.abs() >= 86_400.0 {
            all_days = all_days.checked_add(whole(seconds / 86_400.0)?)?;
            seconds %= 86_400.0;
        }
        let us = (change(self.ns as f64 / 1e3) + seconds * 1e6).round_ties_even();
        let fits = us.abs() < (i64::MAX / 1_000) as f64;
        fits.then_some(Interval { months: whole_months, days: all_days, ns: us as i64 * 1_000 })
    }

    /// Converts full 24 hours to days and full 30 days to months, all with the same sign.
    pub fn justified(self) -> Option<Interval> {
        let days = i32::try_from(i64::from(self.days) + self.ns / DAY_NS).ok()?;
        let months = i32::try_from(i64::from(self.months) + i64::from(days) / DAYS_PER_MONTH).ok()?;
        let span = Interval { months, days: (i64::from(days) % DAYS_PER_MONTH) as i32, ns: self.ns % DAY_NS };
        Some(span.with_signs_of_months(true).with_signs_of_days())
    }

    /// Converts full 24 hours to days.
    pub fn hours_justified(self) -> Option<Interval> {
        let days = i32::try_from(i64::from(self.days) + self.ns / DAY_NS).ok()?;
        Some(Interval { days, ns: self.ns % DAY_NS, ..self }.with_signs_of_days())
    }

    /// Converts full 30 days to months.
    pub fn days_justified(self) -> Option<Interval> {
        let days = i64::from(self.days);
        let months = i32::try_from(i64::from(self.months) + days / DAYS_PER_MONTH).ok()?;
        Some(Interval { months, days: (days % DAYS_PER_MONTH) as i32, ..self }.with_signs_of_months(false))
    }

    fn with_signs_of_months(mut self, and_time: bool) -> Interval {
        let has_time = |sign: i64| and_time && self.days == 0 && self.ns.signum() == sign;
        if self.months > 0 && (self.days < 0 || has_time(-1)) {
            self.days += DAYS_PER_MONTH as i32;
            self.months -= 1;
        } else if self.months < 0 && (self.days > 0 || has_time(1)) {
            self.days -= DAYS_PER_MONTH as i32;
            self.months += 1;
        }
        self
    }

    fn with_signs_of_days(mut self) -> Interval {
        if self.days > 0 && self.ns < 0 {
            self.ns += DAY_NS;
            self.days -= 1;
        } else if self.days < 0 && self.ns > 0 {
            self.ns -= DAY_NS;
            self.days += 1;
        }
        self
    }

    /// The text as in DuckDB: `1 year 2 months 3 days 04:05:06.789`.
    pub fn text(self) -> String {
        let mut text = String::new();
        let mut part = |count: i32, unit: &str| {
            if count != 0 {
                let plural = if count == 1 || count == -1 { "" } else { "s" };
                let space = if text.is_empty() { "" } else { " " };
                let _ = write!(text, "{space}{count} {unit}{plural}");
            }
        };
        part(self.months / 12, "year");
        part(self.months % 12, "month");
        part(self.days, "day");
        if self.ns != 0 || text.is_empty() {
            if !text.is_empty() {
                text.push(' ');
            }
            if self.ns < 0 {
                text.push('-');
            }
            push_clock(&mut text, self.ns.unsigned_abs());
        }
        text
    }
}

/// The integral part of a float, if it fits.
fn whole(value: f64) -> Option<i32> {
    let whole = value.trunc();
    (whole >= f64::from(i32::MIN) && whole <= f64::from(i32::MAX)).then_some(whole as i32)
}

/// Appends `HH:MM:SS` and the fraction without trailing zeros.
pub(crate) fn push_clock(text: &mut String, ns: u64) {
    let (seconds, mut fraction) = (ns / SECOND_NS as u64, ns % SECOND_NS as u64);
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3_600);
    match hours {
        0..100 => push_two(text, hours as u8),
        _ => text.push_str(&hours.to_string()),
    }
    text.push(':');
    push_two(text, minutes as u8);
    text.push(':');
    push_two(text, (seconds % 60) as u8);
    if fraction != 0 {
        text.push('.');
    }
    let mut unit = SECOND_NS as u64 / 10;
    while fraction != 0 {
        text.push(char::from(b'0' + (fraction / unit) as u8));
        fraction %= unit;
        unit /= 10;
    }
}

/// Appends two digits.
pub(crate) fn push_two(text: &mut String, number: u8) {
    text.push(char::from(b'0' + number / 10));
    text.push(char::from(b'0' + number % 10));
}

/// A quotient, rounded half away from zero.
pub(crate) fn rounded_quotient(value: i128, by: i128) -> i128 {
    let half = by / 2;
    if value >= 0 { (value + half) / by } else { (value - half) / by }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * SECOND_NS;

    fn interval(months: i32, days: i32, ns: i64) -> Interval {
        Interval { months, days, ns }
    }

    #[test]
    fn texts_are_written() {
        for (interval, text) in [
            (interval(14, 3, 4 * HOUR + 306_789_000_000), "1 year 2 months 3 days 04:05:06.789"),
            (interval(0, 0, 0), "00:00:00"),
            (interval(0, -1, 0), "-1 day"),
            (interval(-1, 2, -HOUR), "-1 month 2 days -01:00:00"),
            (interval(0, 0, i64::MIN), "-2562047:47:16.854775808"),
        ] {
            assert_eq!(interval.text(), text);
        }
    }

    #[test]
    fn lengths_products_and_quotients() {
        assert_eq!(interval(1, 0, 0).length_ns(), interval(0, 30, 0).length_ns());
        assert_eq!(interval(0, 1, 0).length_ns(), interval(0, 0, 24 * HOUR).length_ns());
        assert!(interval(i32::MAX, i32::MAX, i64::MAX).length_ns() > interval(i32::MAX, i32::MAX, 0).length_ns());
        assert_eq!(interval(1, 0, 0).multiplied(0.5), Some(interval(0, 15, 0)));
        assert_eq!(interval(0, 1, 0).multiplied(1.5), Some(interval(0, 1, 12 * HOUR)));
        assert_eq!(interval(0, 10, 0).divided(3.0), Some(interval(0, 3, 8 * HOUR)));
        assert_eq!(interval(0, 0, HOUR).multiplied(-0.1), Some(interval(0, 0, -360 * SECOND_NS)));
        assert_eq!(interval(1, 0, 0).multiplied(f64::NAN), None);
        assert_eq!(interval(1, 0, 0).multiplied(1e30), None);
        assert_eq!(interval(i32::MAX, 0, 0).checked_times(2), None);
        assert_eq!(interval(1, 2, 3).checked_times(-2), Some(interval(-2, -4, -6)));
        assert_eq!(interval(0, 35, 25 * HOUR).justified(), Some(interval(1, 6, HOUR)));
        assert_eq!(interval(1, 0, -HOUR).justified(), Some(interval(0, 29, 23 * HOUR)));
    }
}
