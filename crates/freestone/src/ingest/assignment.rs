//! What a session says about the conversion of values that its statements store: its time zone, in which times with and
//! without zone are converted to each other, and whether values are rounded, as in PostgreSQL, that would be refused else.
//!
//! It stands in the metadata of a table's fields, where [`conform`](super::conform()) finds it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field as ColumnField, Float64Type, Schema, SchemaRef,
    TimeUnit,
};
use datafusion::common::config::ConfigOptions;
use freestone_store::schema::TableSchema;

use super::cells::{CellProblem, CellRules, ColumnBuilder};
use super::convert::{BadValue, Converted, convert_column, plain_cast};
use super::error::{Reason, ValueProblem};
use super::values;
use crate::normal_texts::NormalText;
use crate::text_types::declared;
use crate::times::{DateOrder, TextOf, UTC, Zone, moved, plain_text};
use crate::{exact, settings, text_types};

/// The metadata of a field with the time zone of the session, if it is not UTC.
const ZONE: &str = "freestone.zone";
/// The metadata of a field whose texts read as in PostgreSQL: the order of dates.
const ORDER: &str = "freestone.date_order";
/// The metadata of a field whose values are rounded.
const ROUNDED: &str = "freestone.rounded";

/// The metadata of a field whose values are not rounded, whatever the session says.
const KEEPS_DIGITS: &str = "freestone.keeps_digits";

/// The digits behind the first one that PostgreSQL takes of a DOUBLE, and of a REAL, for a DECIMAL.
const DOUBLE_DIGITS: usize = 14;
const REAL_DIGITS: usize = 5;

/// How the values of a column are converted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Assignment {
    /// `None` is UTC.
    zone: Option<Zone>,
    rounds: bool,
    /// The order of dates in texts, if they read as in PostgreSQL.
    order: Option<DateOrder>,
}

impl Assignment {
    /// That of a session.
    pub fn of_session(options: &ConfigOptions) -> Assignment {
        let zone = Zone::of_session(options);
        let (rounds, order) = (settings::rounds_values(options), DateOrder::of_session(options));
        Assignment { zone: (!zone.is_utc()).then_some(zone), rounds, order }
    }

    /// That of a field.
    pub(super) fn of_field(field: &ColumnField) -> Assignment {
        let metadata = field.metadata();
        let zone = metadata.get(ZONE).and_then(|name| Zone::parse(name));
        let order = metadata.get(ORDER).and_then(|name| DateOrder::named(name));
        Assignment { zone, rounds: metadata.contains_key(ROUNDED), order }
    }

    /// How the texts of a field read: the order of dates, if as in PostgreSQL, and the zone of times without one.
    pub fn reading(field: &ColumnField) -> (Option<DateOrder>, Zone) {
        let own = Assignment::of_field(field);
        (own.order, own.zone())
    }

    /// The field of a column that is not rounded.
    pub fn keeping_digits(field: ColumnField) -> ColumnField {
        field.with_metadata(HashMap::from([(KEEPS_DIGITS.to_owned(), String::new())]))
    }

    /// The schema of a table with what the session says about its columns. NUMERIC without precision keeps all digits in
    /// PostgreSQL, so it is not rounded. Without the table, its fields say which columns these are.
    pub fn noted(self, schema: SchemaRef, table: Option<&TableSchema>) -> SchemaRef {
        if self.zone.is_none() && !self.rounds && self.order.is_none() {
            return schema;
        }
        let noted = |(at, field): (usize, &Arc<ColumnField>)| {
            let keeps_digits = match table {
                Some(table) => declared::keeps_digits(table, at),
                None => field.metadata().contains_key(KEEPS_DIGITS),
            };
            let rounds = self.rounds && !keeps_digits;
            Arc::new(Assignment { rounds, ..self }.noted_field(field.as_ref().clone()))
        };
        let fields = schema.fields().iter().enumerate().map(noted).collect::<Vec<_>>();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// The field of a column with what the session says about it.
    pub fn noted_field(self, field: ColumnField) -> ColumnField {
        use DataType::{Date32, Decimal128, Time32, Time64, Timestamp};
        let of_time = matches!(field.data_type(), Date32 | Time32(_) | Time64(_) | Timestamp(..));
        let of_number = field.data_type().is_integer() || matches!(field.data_type(), Decimal128(..));
        let mut metadata = field.metadata().clone();
        let of_zoned_time = text_types::normal_of(&field).is_some_and(|kind| matches!(kind, NormalText::TimeTz(_)));
        if let Some(order) = self.order.filter(|_| of_time || of_zoned_time) {
            metadata.insert(ORDER.to_owned(), order.name().to_owned());
        }
        if let Some(zone) = self.zone.filter(|_| of_time || of_zoned_time && self.order.is_some()) {
            metadata.insert(ZONE.to_owned(), zone.name());
        }
        if self.rounds && (of_time || of_number) {
            metadata.insert(ROUNDED.to_owned(), String::new());
        }
        field.with_metadata(metadata)
    }

    /// The same without rounding.
    pub fn exact(self) -> Assignment {
        Assignment { rounds: false, ..self }
    }

    /// How texts are read that are stored.
    pub(super) fn rules(self) -> CellRules {
        CellRules { applies_zones: true, zone: self.zone, drops_zones: self.rounds, ..CellRules::default() }
    }

    /// A text in the form that the engine reads, if it is one of PostgreSQL's of a type; otherwise as it is.
    pub(super) fn plain<'a>(self, text: &'a str, data_type: &DataType) -> Cow<'a, str> {
        let plain = || plain_text(text, TextOf::of_type(data_type)?, self.order?, &self.zone());
        plain().map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The builder of a column, for texts as the session reads them.
    pub(super) fn around(self, builder: Box<dyn ColumnBuilder>, data_type: &DataType) -> Box<dyn ColumnBuilder> {
        match self.order.and_then(|_| TextOf::of_type(data_type)) {
            Some(_) => Box::new(InSession { builder, own: self, data_type: data_type.clone() }),
            None => builder,
        }
    }

    fn zone(self) -> Zone {
        self.zone.unwrap_or(Zone::Fixed(0))
    }
}

/// A builder that receives texts in the form that the engine reads.
struct InSession {
    builder: Box<dyn ColumnBuilder>,
    own: Assignment,
    data_type: DataType,
}

impl ColumnBuilder for InSession {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        let text = text.map(|text| self.own.plain(text, &self.data_type));
        self.builder.append(text.as_deref())
    }

    fn finish(&mut self) -> ArrayRef {
        self.builder.finish()
    }
}

/// The values of a column as its session has them stored; `None` if it says nothing about values of this type.
pub(super) fn assigned(array: &ArrayRef, target: &ColumnField) -> Result<Option<Converted>, Reason> {
    use DataType::{Date32, Time32, Time64, Timestamp};
    if target.metadata().is_empty() {
        return Ok(None);
    }
    let rule = Assignment::of_field(target);
    let (from, to) = (array.data_type(), target.data_type());
    let local = match (from, to) {
        (Timestamp(unit, Some(_)), Date32 | Time32(_) | Time64(_) | Timestamp(_, None)) => Timestamp(*unit, None),
        (Timestamp(unit, None), Timestamp(_, Some(_))) => Timestamp(*unit, Some(UTC.into())),
        (Date32, Timestamp(_, Some(_))) => Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        _ if rule.rounds => return rounded(array, to, rule),
        _ => return Ok(None),
    };
    match in_zone(array, &local, rule) {
        Ok(local) => convert_column(&local, target).map(Some),
        Err(bad) => Ok(Some(Err(bad))),
    }
}

/// The values rounded; `None` if they are of a type that is not.
fn rounded(array: &ArrayRef, to: &DataType, rule: Assignment) -> Result<Option<Converted>, Reason> {
    use DataType::{Date32, Decimal128, Time32, Time64, Timestamp, Utf8View};
    let from = array.data_type();
    Ok(Some(match (from, to) {
        (Timestamp(..), Date32 | Time32(_) | Time64(_) | Timestamp(..)) => in_zone(array, to, rule),
        (from, to) if from.is_floating() && to.is_integer() => cast(array, to)?,
        (from, to) if from.is_decimal() && (to.is_integer() || matches!(to, Decimal128(..))) => cast(array, to)?,
        (from, Decimal128(precision, scale)) if from.is_floating() => {
            let digits = if from == &DataType::Float64 { DOUBLE_DIGITS } else { REAL_DIGITS };
            let floats = plain_cast(array, &DataType::Float64)?;
            let texts = floats.as_primitive::<Float64Type>().iter().map(|float| {
                Some(if float?.is_finite() { Ok(format!("{:.digits$e}", float?)) } else { Err(ValueProblem::Range) })
            });
            decimals(texts, *precision, *scale)?
        }
        (from, Decimal128(precision, scale)) if from.is_string() => {
            let texts = plain_cast(array, &Utf8View)?;
            decimals(texts.as_string_view().iter().map(|text| text.map(Ok)), *precision, *scale)?
        }
        (from, Date32) if from.is_string() => {
            let texts = plain_cast(array, &Utf8View)?;
            let day = |text: &str| values::date_of_time(rule.plain(text, to).as_bytes());
            let days = texts.as_string_view().iter().map(|text| text.map(day));
            read::<Date32Type>(days).map(|days| Arc::new(days) as ArrayRef)
        }
        _ => return Ok(None),
    }))
}

/// Numbers with fewer digits, rounded as by a cast.
fn cast(array: &ArrayRef, to: &DataType) -> Result<Converted, Reason> {
    let numbers = exact::cast(array, to, true).map_err(|error| Reason::Unsupported(error.to_string()))?;
    let lost = |row: &usize| numbers.is_null(*row) && array.is_valid(*row);
    Ok(match (0..array.len()).find(lost) {
        Some(row) => Err(BadValue { row, problem: CellProblem::Value(ValueProblem::Range) }),
        None => Ok(numbers),
    })
}

/// The rounded decimals of texts.
fn decimals<T: AsRef<str>>(
    texts: impl Iterator<Item = Option<Result<T, ValueProblem>>>,
    precision: u8,
    scale: i8,
) -> Result<Converted, Reason> {
    let limit = 10i128.checked_pow(precision.into()).unwrap_or(i128::MAX);
    let digits = u32::try_from(scale).unwrap_or(0);
    let decimal = |text: Result<T, ValueProblem>| values::rounded_decimal(text?.as_ref().as_bytes(), digits, limit);
    let numbers = match read::<Decimal128Type>(texts.map(|text| text.map(decimal))) {
        Ok(numbers) => numbers.with_precision_and_scale(precision, scale),
        Err(bad) => return Ok(Err(bad)),
    };
    numbers.map(|numbers| Ok(Arc::new(numbers) as ArrayRef)).map_err(|error| Reason::Internal(error.to_string()))
}

/// The values that were read, or the first that is none.
fn read<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = Option<values::Parsed<T::Native>>>,
) -> Result<PrimitiveArray<T>, BadValue> {
    let read = values.enumerate().map(|(row, value)| {
        value.transpose().map_err(|problem| BadValue { row, problem: CellProblem::Value(problem) })
    });
    read.collect()
}

/// Times of another type, in the zone of the session.
fn in_zone(array: &ArrayRef, to: &DataType, rule: Assignment) -> Converted {
    let zone = rule.zone();
    moved(array, to, &zone).map_err(|_| {
        let is_bad = |row: &usize| moved(&array.slice(*row, 1), to, &zone).is_err();
        let row = (0..array.len()).find(is_bad).unwrap_or(0);
        BadValue { row, problem: CellProblem::Value(ValueProblem::Range) }
    })
}
