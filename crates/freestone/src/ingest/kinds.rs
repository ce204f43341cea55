//! The types that the values of a column of a text file have.

use std::borrow::Cow;

use arrow::datatypes::{DataType, TimeUnit};

use super::IngestOptions;
use super::forms::TextForms;
use super::values::{self, ZoneRule, has_leading_zero, is_digits};

/// The types that all values so far have. Initially all types are set, and each value removes those that it does not
/// have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u16);

const BOOLEAN: u16 = 1;
const BIGINT: u16 = 2;
const DOUBLE: u16 = 4;
const DATE: u16 = 8;
const TIME: u16 = 16;
const TIMESTAMP: u16 = 32;
const TIMESTAMP_ZONE: u16 = 64;
/// No value has been seen.
const UNSEEN: u16 = 128;
/// Dates and timestamps have a format of their own, so that digits in this format are times rather than numbers.
const TIMES_FIRST: u16 = 256;

impl Kinds {
    /// Only text.
    pub const TEXT: Kinds = Kinds(0);
    pub const ANY: Kinds = Kinds(0xff);

    /// The types that the columns of a file may have.
    pub fn initial(options: &IngestOptions) -> Kinds {
        let candidates = options.candidates.map_or(Kinds::ANY.0, |candidates| candidates.0 | UNSEEN);
        Kinds(candidates | if options.forms.has_times() { TIMES_FIRST } else { 0 })
    }

    /// Types, of which one is found; `None` if there is one that is never found.
    pub fn of_types(types: &[DataType]) -> Option<Kinds> {
        let kind = |data_type: &DataType| {
            Some(match data_type {
                DataType::Boolean => BOOLEAN,
                DataType::Int64 => BIGINT,
                DataType::Float64 => DOUBLE,
                DataType::Date32 => DATE,
                DataType::Time32(_) | DataType::Time64(_) => TIME,
                DataType::Timestamp(_, None) => TIMESTAMP,
                DataType::Timestamp(_, Some(_)) => TIMESTAMP_ZONE,
                DataType::Utf8View | DataType::Utf8 => 0,
                _ => return None,
            })
        };
        types.iter().try_fold(Kinds::TEXT, |kinds, data_type| Some(Kinds(kinds.0 | kind(data_type)?)))
    }

    /// The types that both have: those of a column in two files.
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    pub fn is_seen(self) -> bool {
        self.0 & UNSEEN == 0
    }

    /// Restricts the types by an unquoted CSV value, or any text that may have any type.
    pub fn see_text(&mut self, text: &str, forms: &TextForms) {
        self.see(text, BOOLEAN | BIGINT | DOUBLE | DATE | TIME | TIMESTAMP | TIMESTAMP_ZONE, forms);
    }

    /// Restricts the types by a JSON string: a date or time, but not a number.
    pub fn see_json_string(&mut self, text: &str) {
        self.see(text, DATE | TIME | TIMESTAMP | TIMESTAMP_ZONE, &TextForms::default());
    }

    /// Restricts the types by a JSON number, `true` or `false`.
    pub fn see_json_literal(&mut self, text: &str) {
        self.see(text, BOOLEAN | BIGINT | DOUBLE, &TextForms::default());
    }

    fn see(&mut self, text: &str, possible: u16, forms: &TextForms) {
        let mut left = self.0 & (possible | TIMES_FIRST);
        for kind in [BOOLEAN, BIGINT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMP_ZONE] {
            if left & kind != 0 && !reads_as(text, kind, forms) {
                left &= !kind;
            }
        }
        self.0 = left;
    }

    /// The first remaining type; VARCHAR for a column without values.
    pub fn data_type(self) -> DataType {
        let has = |kind| self.0 & (kind | UNSEEN) == kind;
        let is_time = has(TIMES_FIRST) && (has(DATE) || has(TIMESTAMP));
        if has(BOOLEAN) {
            DataType::Boolean
        } else if is_time && has(DATE) {
            DataType::Date32
        } else if is_time {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else if has(BIGINT) {
            DataType::Int64
        } else if has(DOUBLE) {
            DataType::Float64
        } else if has(DATE) {
            DataType::Date32
        } else if has(TIME) {
            DataType::Time64(TimeUnit::Microsecond)
        } else if has(TIMESTAMP) {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else if has(TIMESTAMP_ZONE) {
            DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
        } else {
            DataType::Utf8View
        }
    }
}

/// Whether a value clearly has a type. This is stricter than the parsers: 0 and 1 are numbers, 007 is a code.
fn reads_as(text: &str, kind: u16, forms: &TextForms) -> bool {
    let micros = TimeUnit::Microsecond;
    let in_sql = match kind {
        BIGINT | DOUBLE => forms.number(text),
        DATE => forms.date(text),
        TIMESTAMP => forms.timestamp(text, false),
        TIMESTAMP_ZONE => forms.timestamp(text, true),
        _ => Some(Cow::Borrowed(text)),
    };
    let Some(in_sql) = in_sql else { return false };
    let bytes = in_sql.as_bytes();
    match kind {
        BOOLEAN => bytes.eq_ignore_ascii_case(b"true") || bytes.eq_ignore_ascii_case(b"false"),
        BIGINT => values::signed(bytes).is_ok() && !has_leading_zero(bytes),
        DOUBLE => is_double(bytes),
        // A time behind it, also midnight, makes a timestamp.
        DATE => !bytes.contains(&b':') && values::date(bytes).is_ok(),
        TIME => values::time(bytes, micros).is_ok(),
        TIMESTAMP => values::timestamp(bytes, micros, ZoneRule::Naive).is_ok(),
        _ => values::timestamp(bytes, micros, ZoneRule::OffsetNeeded).is_ok(),
    }
}

/// Whether a number is exact as DOUBLE if it is an integer, so that long identifiers remain text.
fn is_double(bytes: &[u8]) -> bool {
    const EXACT_MAX: u64 = 1 << 53;
    let value = values::float64(bytes);
    if has_leading_zero(bytes) || value.is_err() || value.is_ok_and(|value| values::loses_whole_digits(bytes, value)) {
        return false;
    }
    match values::signed(bytes) {
        Ok(integer) => integer.unsigned_abs() <= EXACT_MAX,
        Err(_) => !is_digits(bytes),
    }
}
