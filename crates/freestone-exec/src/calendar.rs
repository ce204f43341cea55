//! Parts of dates and timestamps, which are days since 1970, or units since its beginning.

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub field: Field,
    /// The units of a day: 1 for dates.
    pub per_day: i64,
}

/// Which part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The year.
    Year,
    /// The month, from 1.
    Month,
    /// The day of the month, from 1.
    Day,
    /// The hour of the day.
    Hour,
    /// The minute of the hour.
    Minute,
}

impl Part {
    /// The part of a time.
    #[inline]
    pub fn of(self, time: i64) -> i64 {
        match self.field {
            Field::Hour => time.rem_euclid(self.per_day) / (self.per_day / 24),
            Field::Minute => time.rem_euclid(self.per_day / 24) / (self.per_day / 1440),
            field => {
                let (year, month, day) = civil(if self.per_day == 1 { time } else { time.div_euclid(self.per_day) });
                match field {
                    Field::Year => year,
                    Field::Month => month,
                    _ => day,
                }
            }
        }
    }
}

/// Year, month and day of a number of days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
#[inline]
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.wrapping_add(719_468);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097) as u32;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (i64::from(year_of_era) + era * 400 + i64::from(month <= 2), month.into(), day.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let cases = [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (19_782, (2024, 2, 29)),
            (-719_468, (0, 3, 1)),
            (-719_163, (0, 12, 31)),
            (2_932_896, (9999, 12, 31)),
        ];
        for (days, expected) in cases {
            assert_eq!(civil(days), expected);
        }
        let part = |field| Part { field, per_day: 86_400_000_000 };
        assert_eq!((part(Field::Hour).of(-1), part(Field::Minute).of(-1), part(Field::Year).of(-1)), (23, 59, 1969));
    }
}
