//! Result columns in the types that libraries of data frames compute with: a sum of integers as 64 bits, an INTERVAL
//! as a duration.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DurationMicrosecondArray, DurationNanosecondArray, RecordBatch, RecordBatchOptions,
    StringViewArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Schema, SchemaRef, TimeUnit,
};
use freestone::display::ValueTexts;
use freestone::{Error, ErrorKind, Result};

/// The type of sums of integers, and of integers of more than 64 bits.
pub const HUGEINT: DataType = DataType::Decimal128(38, 0);

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const NANOSECONDS_A_DAY: i128 = 86_400_000_000_000;

/// The rows with distinct names of columns, integers of 64 bits for sums of integers where they fit and DOUBLE where
/// they do not, and durations for intervals without months. Intervals with months remain, or become text.
pub fn computable(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    texts_of_months: bool,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let (mut fields, mut columns) = (vec![], vec![]);
    for (at, field) in schema.fields().iter().enumerate() {
        let given: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(at).clone()).collect();
        if given.iter().any(has_infinite_time) {
            return Err(infinite_time(field));
        }
        let column = if has_hugeint(field.data_type()) {
            narrowed(&given, field.data_type())?
        } else if *field.data_type() == INTERVAL {
            durations(given, texts_of_months)?
        } else {
            (field.data_type().clone(), given)
        };
        fields.push(Field::new(field.name(), column.0, field.is_nullable()));
        columns.push(column.1);
    }
    let names = distinct_names(fields.iter().map(|field| field.name().as_str()));
    let fields = fields.into_iter().zip(names).map(|(field, name)| field.with_name(name));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |(at, batch): (usize, &RecordBatch)| {
        let columns = columns.iter().map(|column| column[at].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    };
    let batches = batches.iter().enumerate().map(batch).collect::<Result<Vec<_>>>()?;
    Ok((schema, batches))
}

/// Whether a value is `infinity` or `-infinity`, which SQL represents by the ends of the range.
fn has_infinite_time(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Date32 => {
            let is_end = |days: i32| days == i32::MAX || days == -i32::MAX || days == i32::MIN;
            array.as_primitive::<Date32Type>().iter().flatten().any(is_end)
        }
        DataType::Timestamp(..) => {
            let is_end = |count: i64| count == i64::MAX || count == -i64::MAX || count == i64::MIN;
            let counts = cast(array, &DataType::Int64);
            counts.is_ok_and(|counts| counts.as_primitive::<Int64Type>().iter().flatten().any(is_end))
        }
        _ => false,
    }
}

fn infinite_time(field: &Field) -> Error {
    let message = format!("column '{}' has infinite times, which a data frame cannot represent", field.name());
    let hint = "select rows with isfinite(…), or texts with CAST(… AS VARCHAR), or use arrow(), in which the ends of \
                the range are infinite";
    Error::new(ErrorKind::Type, message).with_hint(hint)
}

/// Adds a number to names that occurred before.
fn distinct_names<'a>(given: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for name in given.clone() {
        let is_taken = |candidate: &str| names.iter().any(|name| name == candidate);
        let numbered = || {
            let candidates = (1..).map(|number| format!("{name}_{number}"));
            candidates
                .into_iter()
                .find(|candidate| !is_taken(candidate) && !given.clone().any(|name| name == candidate))
        };
        let distinct = if is_taken(name) { numbered() } else { None };
        names.push(distinct.unwrap_or_else(|| name.to_owned()));
    }
    names
}

fn has_hugeint(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_hugeint(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_hugeint(field.data_type())),
        other => *other == HUGEINT,
    }
}

/// The type with another one in place of HUGEINT.
fn replaced(data_type: &DataType, by: &DataType) -> DataType {
    let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(replaced(field.data_type(), by)));
    match data_type {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(field(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other if *other == HUGEINT => by.clone(),
        other => other.clone(),
    }
}

/// A column with 64 bits per HUGEINT: integers, or floats if one does not fit.
fn narrowed(column: &[ArrayRef], data_type: &DataType) -> Result<(DataType, Vec<ArrayRef>)> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let as_type = |data_type: &DataType| {
        column
            .iter()
            .map(|array| cast_with_options(array, data_type, &options))
            .collect::<std::result::Result<Vec<_>, _>>()
    };
    let integers = replaced(data_type, &DataType::Int64);
    if let Ok(column) = as_type(&integers) {
        return Ok((integers, column));
    }
    let floats = replaced(data_type, &DataType::Float64);
    let column = as_type(&floats)?;
    Ok((floats, column))
}

/// A column of intervals as durations in microseconds, or nanoseconds if one of them has a part of a microsecond.
fn durations(column: Vec<ArrayRef>, texts_of_months: bool) -> Result<(DataType, Vec<ArrayRef>)> {
    let values = || column.iter().flat_map(|array| array.as_primitive::<IntervalMonthDayNanoType>()).flatten();
    if values().any(|value| value.months != 0) {
        return if texts_of_months { texts(&column) } else { Ok((INTERVAL, column)) };
    }
    let nanoseconds =
        |value: IntervalMonthDayNano| i128::from(value.days) * NANOSECONDS_A_DAY + i128::from(value.nanoseconds);
    let is_whole = values().all(|value| value.nanoseconds % 1000 == 0);
    let per_unit = if is_whole { 1000 } else { 1 };
    if values().any(|value| i64::try_from(nanoseconds(value) / per_unit).is_err()) {
        return if texts_of_months { texts(&column) } else { Ok((INTERVAL, column)) };
    }
    let counts = |array: &ArrayRef| {
        let values = array.as_primitive::<IntervalMonthDayNanoType>().iter();
        let counts = values.map(|value| value.map(|value| (nanoseconds(value) / per_unit) as i64));
        match is_whole {
            true => Arc::new(DurationMicrosecondArray::from_iter(counts)) as ArrayRef,
            false => Arc::new(DurationNanosecondArray::from_iter(counts)),
        }
    };
    let unit = if is_whole { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
    Ok((DataType::Duration(unit), column.iter().map(counts).collect()))
}

/// Intervals as SQL writes them.
fn texts(column: &[ArrayRef]) -> Result<(DataType, Vec<ArrayRef>)> {
    let texts = |array: &ArrayRef| {
        let texts = ValueTexts::new(array.as_ref()).map_err(Error::from)?;
        let text = |at: usize| {
            (!texts.is_null(at)).then(|| {
                let mut text = String::new();
                texts.append(at, &mut text);
                text
            })
        };
        Ok(Arc::new((0..array.len()).map(text).collect::<StringViewArray>()) as ArrayRef)
    };
    Ok((DataType::Utf8View, column.iter().map(texts).collect::<Result<_>>()?))
}
