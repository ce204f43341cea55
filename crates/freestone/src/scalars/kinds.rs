//! Kinds of arguments: the types that a function accepts, and the types to which they are cast.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};

use crate::times::{INTERVAL, TIMESTAMP, is_span, is_text, is_time_of_day};

/// A kind of argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    /// Integers, as BIGINT.
    Int,
    /// Numbers, as DOUBLE.
    Real,
    /// Integers, decimals and floats, without a cast.
    Number,
    /// Dates and timestamps, without a cast.
    Date,
    /// Dates, timestamps and times of day, without a cast.
    Time,
    Span,
    /// Lists, with 32-bit offsets.
    List,
    Struct,
    Map,
    Any,
    /// Any number of further arguments of any type.
    Rest,
}

pub(super) const TEXT: DataType = DataType::Utf8View;
pub(super) const BYTES: DataType = DataType::BinaryView;
pub(super) const INT: DataType = DataType::Int64;
pub(super) const REAL: DataType = DataType::Float64;
pub(super) const BOOL: DataType = DataType::Boolean;

impl Kind {
    /// The type to which an argument is cast; `None` if the kind does not accept it.
    pub fn accepts(self, given: &DataType) -> Option<DataType> {
        let given = match given {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        let is_null = *given == DataType::Null;
        match self {
            // Strings of any Arrow type are accepted without a cast, so that a literal remains a literal.
            Kind::Text if is_null => Some(TEXT),
            Kind::Text => is_text(given).then(|| given.clone()),
            Kind::Bytes => (given.is_binary() || is_null).then_some(BYTES),
            Kind::Bool => (*given == BOOL || is_null).then_some(BOOL),
            Kind::Int => (given.is_integer() || is_null).then_some(INT),
            Kind::Real => (given.is_numeric() || is_null).then_some(REAL),
            Kind::Number if is_null => Some(INT),
            Kind::Number => given.is_numeric().then(|| given.clone()),
            Kind::Date => date(given),
            Kind::Time => {
                if is_time_of_day(given) {
                    Some(given.clone())
                } else {
                    date(given)
                }
            }
            Kind::Span => (is_span(given) || is_null).then_some(INTERVAL),
            Kind::List => list(given).map(DataType::List),
            Kind::Struct => matches!(given, DataType::Struct(_)).then(|| given.clone()),
            Kind::Map => matches!(given, DataType::Map(..)).then(|| given.clone()),
            Kind::Any | Kind::Rest => Some(given.clone()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Text => "a text",
            Kind::Bytes => "a BLOB",
            Kind::Bool => "a BOOLEAN",
            Kind::Int => "an integer",
            Kind::Real | Kind::Number => "a number",
            Kind::Date => "a date or timestamp",
            Kind::Time => "a date, timestamp or time",
            Kind::Span => "an interval",
            Kind::List => "a list",
            Kind::Struct => "a struct",
            Kind::Map => "a map",
            Kind::Any => "a value",
            Kind::Rest => "more values",
        }
    }
}

fn date(given: &DataType) -> Option<DataType> {
    match given {
        DataType::Date64 => Some(DataType::Date32),
        DataType::Date32 | DataType::Timestamp(..) => Some(given.clone()),
        DataType::Null => Some(TIMESTAMP),
        given if is_text(given) => Some(TIMESTAMP),
        _ => None,
    }
}

/// The item field of a list.
pub(super) fn list(given: &DataType) -> Option<FieldRef> {
    match given {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Some(field.clone()),
        DataType::Null => Some(Arc::new(Field::new_list_field(DataType::Null, true))),
        _ => None,
    }
}

/// A list of values of this type.
pub(super) fn list_of(values: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values, true)))
}

/// The time type with microseconds.
pub(super) fn in_micros(time: &DataType) -> DataType {
    match time {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        _ => TIMESTAMP,
    }
}

/// A description of a form's arguments.
pub(super) fn described(form: &[Kind]) -> String {
    match form {
        [] => "no arguments".to_owned(),
        form => form.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
    }
}
