//! The proleptic Gregorian calendar over numbers of days since 1970-01-01, with a year 0 before year 1.

use std::sync::LazyLock;

/// The months of a year.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The days of a week, from Monday.
pub(crate) const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The name of a month, from 1.
pub(crate) fn month_name(month: i64) -> &'static str {
    MONTHS.get((month - 1) as usize).copied().unwrap_or_default()
}

/// The name of a day of the week; 0 is Monday.
pub(crate) fn day_name(weekday: i64) -> &'static str {
    DAYS.get(weekday as usize).copied().unwrap_or_default()
}

/// A date by its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
}

/// The days whose dates are looked up in a table: those of the years 1900 to 2099.
const TABLE_FROM: i64 = -25_567;
const TABLE_DAYS: i64 = 73_049;
/// Year, month and day.
type TableEntry = (i16, u8, u8);
static TABLE: LazyLock<Vec<TableEntry>> = LazyLock::new(|| {
    let entry = |at: i64| {
        let date = computed(TABLE_FROM + at);
        (date.year as i16, date.month as u8, date.day as u8)
    };
    (0..TABLE_DAYS).map(entry).collect()
});

/// Year, month and day of a day number.
#[inline]
pub fn civil(days: i64) -> Civil {
    let near = days.checked_sub(TABLE_FROM).and_then(|at| TABLE.get(usize::try_from(at).ok()?));
    match near {
        Some((year, month, day)) => Civil { year: (*year).into(), month: (*month).into(), day: (*day).into() },
        None => computed(days),
    }
}

/// The same (Howard Hinnant's `civil_from_days`). Years begin in March here, so that the leap day is the last day of a year.
fn computed(days: i64) -> Civil {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    Civil { year, month, day }
}

/// The day number of a valid date.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The day number of a date, if the date is valid.
pub(crate) fn checked_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let exists = year.abs() <= 10_000_000 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    exists.then(|| days_of(year, month, day))
}

pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The date a number of months later. A day after the end of the month becomes its last day.
pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    if months == 0 {
        return days;
    }
    let Civil { year, month, day } = civil(days);
    let months = year * 12 + month - 1 + months;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    days_of(year, month, day.min(days_in_month(year, month)))
}

/// The day of the week; 0 is Monday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// The day of the year, from 1.
pub(crate) fn day_of_year(days: i64) -> i64 {
    days - days_of(civil(days).year, 1, 1) + 1
}

/// The ISO 8601 year and week: weeks begin on Monday, and belong to the year that contains their Thursday.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - weekday(days) + 3;
    let year = civil(thursday).year;
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// The Monday on which an ISO year begins.
pub(crate) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - weekday(fourth)
}

/// The number of the century, millennium or other period of years that contains a year. The first period begins with
/// year 1.
pub(crate) fn run_of_years(year: i64, length: i64) -> i64 {
    let run = (year - 1).div_euclid(length);
    if run >= 0 { run + 1 } else { run }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (-1, 1969, 12, 31),
            (-719_162, 1, 1, 1),
            (-719_163, 0, 12, 31),
            (11_016, 2000, 2, 29),
            (2_932_896, 9999, 12, 31),
        ] {
            let found = civil(days);
            assert_eq!(days_of(found.year, found.month, found.day), days);
            assert_eq!(found, Civil { year, month, day });
        }
        for days in [i64::from(i32::MAX), i64::from(i32::MIN), -719_468, -719_469] {
            let found = civil(days);
            assert_eq!(days_of(found.year, found.month, found.day), days);
        }
        assert_eq!(civil(19_782), Civil { year: 2024, month: 2, day: 29 });
        let mut expected = civil(-800_000);
        for days in -799_999..800_000 {
            let found = civil(days);
            assert_eq!(days_of(found.year, found.month, found.day), days);
            let next = if expected.day < days_in_month(expected.year, expected.month) {
                Civil { day: expected.day + 1, ..expected }
            } else if expected.month < 12 {
                Civil { month: expected.month + 1, day: 1, ..expected }
            } else {
                Civil { year: expected.year + 1, month: 1, day: 1 }
            };
            assert_eq!(found, next);
            expected = next;
        }
    }

    #[test]
    fn months_end_where_they_end() {
        let add = |year, month, day, months| {
            let found = civil(add_months(days_of(year, month, day), months));
            (found.year, found.month, found.day)
        };
        assert_eq!(add(2024, 1, 31, 1), (2024, 2, 29));
        assert_eq!(add(2023, 1, 31, 1), (2023, 2, 28));
        assert_eq!(add(2024, 2, 29, 12), (2025, 2, 28));
        assert_eq!(add(2024, 3, 31, -1), (2024, 2, 29));
        assert_eq!(add(1, 1, 1, -1), (0, 12, 1));
        assert_eq!(add(9999, 12, 31, 2), (10_000, 2, 29));
    }

    #[test]
    fn weeks_and_runs_of_years() {
        assert_eq!(weekday(0), 3);
        assert_eq!(iso_week(days_of(2021, 1, 1)), (2020, 53));
        assert_eq!(iso_week(days_of(2024, 12, 30)), (2025, 1));
        assert_eq!(iso_week(days_of(2024, 1, 1)), (2024, 1));
        assert_eq!(civil(iso_year_start(2020)), Civil { year: 2019, month: 12, day: 30 });
        assert_eq!(day_of_year(days_of(2024, 12, 31)), 366);
        assert_eq!([2000, 2001, 1, 100, 101, 0].map(|year| run_of_years(year, 100)), [20, 21, 1, 1, 2, -1]);
        assert_eq!(checked_days(2023, 2, 29), None);
        assert_eq!(checked_days(2023, 13, 1), None);
        assert_eq!(checked_days(1970, 1, 2), Some(1));
    }
}
