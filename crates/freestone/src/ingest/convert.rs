//! Converts batches of any origin to a table's schema, without loss or with an error that names the first value that
//! would change.
//!
//! Text is parsed as in a CSV file. Other conversions are Arrow's casts with checks: a value that became NULL was out
//! of range, and a value that differs after the cast is reversed was truncated. Floats are the exception: a DOUBLE or
//! DECIMAL is rounded to REAL, a DECIMAL is rounded to DOUBLE, and a DOUBLE is accepted as DECIMAL if the two are equal
//! in 15 digits.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, concat};
use arrow::datatypes::{DataType, Field as ColumnField, Float32Type, Float64Type, Int64Type, SchemaRef, TimeUnit};
use arrow::util::display::array_value_to_string;
use freestone_store::schema::normalize;

use super::assignment::{Assignment, assigned};
use super::column_names::column_index;
use super::columns::{CellProblem, column_builder};
use super::convert_nested::convert_nested;
use super::error::{IngestError, Reason, ValueProblem, arrow_text};
use super::fixed_bytes::{INTERVAL, UUID, uuid_texts};
use crate::display::texts_of;
use crate::durations::interval_of;
use crate::exact;
use crate::type_names::type_name;

/// How the columns of a batch are matched with those of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnMatch {
    /// By name, regardless of case unless names differ only in case. Columns that are not in the schema are ignored.
    Name,
    /// By position, as in `INSERT … SELECT`: the numbers of columns must agree.
    Position,
}

/// The place for error messages of [`conform`].
#[derive(Debug, Clone)]
pub struct Location {
    /// The name of the file, or of the statement (such as `INSERT`).
    pub source: String,
    /// Number (from 1) of the batch's first row.
    pub first_row: u64,
}

/// Converts a batch to exactly `schema`.
///
/// # Errors
/// The first row (and in it the first column) with a value that the target type cannot hold or NULL where the schema
/// forbids it; a column that is missing; types between which there is no conversion.
pub fn conform(
    batch: &RecordBatch,
    schema: &SchemaRef,
    matching: ColumnMatch,
    at: &Location,
) -> Result<RecordBatch, IngestError> {
    let failed = |reason| IngestError::new(&at.source, reason);
    let sources = sources(batch, schema, matching).map_err(failed)?;
    let columns: Vec<ArrayRef> = sources.into_iter().map(|index| Arc::clone(batch.column(index))).collect();
    conform_columns(&columns, batch.num_rows(), schema, at)
}

/// Converts columns to the fields of `schema` in their order; see [`conform`].
pub(crate) fn conform_columns(
    columns: &[ArrayRef],
    rows: usize,
    schema: &SchemaRef,
    at: &Location,
) -> Result<RecordBatch, IngestError> {
    let failed = |reason| IngestError::new(&at.source, reason);
    let mut first_bad: Option<(usize, IngestError)> = None;
    let mut conformed = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().zip(columns) {
        let converted = convert_column(column, field)
            .map_err(|reason| failed(reason).in_column(field.name()))?
            .and_then(|converted| if field.is_nullable() { Ok(converted) } else { refuse_null(converted) });
        match converted {
            Ok(converted) => conformed.push(converted),
            Err(bad) => {
                if first_bad.as_ref().is_none_or(|(row, _)| bad.row < *row) {
                    let value = array_value_to_string(column, bad.row).ok();
                    let reason = bad.problem.reason(value.as_deref(), field.data_type());
                    let error = failed(reason).in_column(field.name()).at_row(at.first_row + bad.row as u64);
                    first_bad = Some((bad.row, error));
                }
            }
        }
    }
    if let Some((_, error)) = first_bad {
        return Err(error);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), conformed, &options)
        .map_err(|error| failed(Reason::Internal(error.to_string())))
}

/// The type that tables use for a type of a file; `None` if they cannot store it.
pub(crate) fn table_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::BinaryView
        }
        DataType::Dictionary(_, values) => table_type(values)?,
        DataType::RunEndEncoded(_, values) => table_type(values.data_type())?,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) if *s >= 0 => {
            DataType::Decimal128(*p, *s)
        }
        DataType::Decimal256(p @ 0..=38, s) if *s >= 0 => DataType::Decimal128(*p, *s),
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Float16 => DataType::Float32,
        DataType::Duration(_) => INTERVAL,
        // Values are instants, whatever zone shows them.
        DataType::Timestamp(unit, Some(zone)) if zone.parse::<Tz>().is_err() => {
            DataType::Timestamp(*unit, Some("UTC".into()))
        }
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => data_type.clone(),
        _ => return None,
    })
}

/// The type in which tables store the values of a type of a file, which may be nested; `None` if they cannot.
pub(crate) fn stored_type(data_type: &DataType) -> Option<DataType> {
    if let Some(flat) = table_type(data_type) {
        return Some(flat);
    }
    let inner = |field: &Arc<ColumnField>| {
        Some(Arc::new(ColumnField::new(field.name(), stored_type(field.data_type())?, field.is_nullable())))
    };
    let stored = match data_type {
        DataType::List(item) | DataType::LargeList(item) => DataType::List(inner(item)?),
        DataType::ListView(item) | DataType::LargeListView(item) => DataType::List(inner(item)?),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item)?, *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Option<_>>()?),
        DataType::Map(entries, ordered) => DataType::Map(inner(entries)?, *ordered),
        other => other.clone(),
    };
    normalize(&stored).ok()
}

/// The reason to refuse a column of a type that tables cannot store.
pub(super) fn not_stored(data_type: &DataType) -> Reason {
    Reason::Unsupported(format!("tables do not store {}", type_name(data_type)))
}

/// A nested type without metadata, with nullable fields. Two files must agree in it.
pub(crate) fn bare(data_type: &DataType) -> DataType {
    let field = |field: &Arc<ColumnField>| Arc::new(ColumnField::new(field.name(), bare(field.data_type()), true));
    match data_type {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

/// The fields that a file declares, with the types that tables use for them.
pub(super) fn table_fields(source: &str, fields: &arrow::datatypes::Fields) -> Result<Vec<ColumnField>, IngestError> {
    let convert = |field: &Arc<ColumnField>| {
        let data_type = stored_type(field.data_type())
            .ok_or_else(|| IngestError::new(source, not_stored(field.data_type())).in_column(field.name()))?;
        Ok(ColumnField::new(field.name(), data_type, field.is_nullable()))
    };
    fields.iter().map(convert).collect()
}

fn sources(batch: &RecordBatch, schema: &SchemaRef, matching: ColumnMatch) -> Result<Vec<usize>, Reason> {
    let given = batch.schema();
    match matching {
        ColumnMatch::Position if batch.num_columns() == schema.fields().len() => Ok((0..batch.num_columns()).collect()),
        ColumnMatch::Position => {
            let (found, expected) = (batch.num_columns(), schema.fields().len());
            Err(Reason::ColumnMismatch(format!("{found} columns given, expected {expected}")))
        }
        ColumnMatch::Name => schema
            .fields()
            .iter()
            .map(|field| {
                column_index(&given, field.name()).ok_or_else(|| {
                    let names: Vec<&str> = given.fields().iter().map(|field| field.name().as_str()).collect();
                    Reason::ColumnMismatch(format!("no column '{}', there are: {}", field.name(), names.join(", ")))
                })
            })
            .collect(),
    }
}

pub(super) struct BadValue {
    pub row: usize,
    pub problem: CellProblem,
}

pub(super) type Converted = Result<ArrayRef, BadValue>;

/// The outer error: there is no conversion between the types. The inner error: a value cannot be converted exactly.
pub(super) fn convert_column(array: &ArrayRef, target: &ColumnField) -> Result<Converted, Reason> {
    let (from, to) = (array.data_type(), target.data_type());
    if from == to {
        return Ok(Ok(Arc::clone(array)));
    }
    match from {
        DataType::Null => return Ok(Ok(new_null_array(to, array.len()))),
        DataType::Dictionary(_, values) => return convert_column(&plain_cast(array, values)?, target),
        DataType::RunEndEncoded(_, values) => return convert_column(&plain_cast(array, values.data_type())?, target),
        // Lists and structs that differ only in the metadata of their fields.
        nested if nested.is_nested() && bare(nested) == bare(to) => return Ok(Ok(plain_cast(array, to)?)),
        _ => {}
    }
    if let Some(converted) = assigned(array, target)? {
        return Ok(converted);
    }
    if from == &UUID || to == &UUID {
        return convert_uuids(array, target);
    }
    if let DataType::Duration(unit) = from {
        return match durations(array, *unit)? {
            Ok(intervals) => convert_column(&intervals, target),
            Err(bad) => Ok(Err(bad)),
        };
    }
    if from.is_nested() && to.is_nested() {
        return convert_nested(array, to);
    }
    match (class(from), class(to)) {
        (Some(Class::Text), None) if to.is_nested() || matches!(to, DataType::Interval(_)) => {
            parse_texts(&plain_cast(array, &DataType::Utf8View)?, target)
        }
        (None, None) if matches!((from, to), (DataType::Interval(_), DataType::Interval(_))) => checked_cast(array, to),
        (None, Some(Class::Text)) if from.is_nested() || matches!(from, DataType::Interval(_)) => {
            let texts = texts_of(array).map_err(|error| Reason::Unsupported(arrow_text(&error)))?;
            Ok(Ok(plain_cast(&(Arc::new(texts) as ArrayRef), to)?))
        }
        (Some(Class::Text), Some(Class::Text)) | (Some(Class::Binary), Some(Class::Binary)) => {
            // FixedSizeBinary can be cast to views only through Binary.
            let plain = if matches!(from, DataType::FixedSizeBinary(_)) {
                plain_cast(array, &DataType::Binary)?
            } else {
                Arc::clone(array)
            };
            Ok(Ok(plain_cast(&plain, to)?))
        }
        (Some(Class::Text), Some(_)) => parse_texts(&plain_cast(array, &DataType::Utf8View)?, target),
        (Some(Class::Binary), Some(Class::Text)) => {
            let plain = if matches!(from, DataType::FixedSizeBinary(_)) {
                plain_cast(array, &DataType::Binary)?
            } else {
                Arc::clone(array)
            };
            utf8_of_binary(&plain_cast(&plain, &DataType::BinaryView)?)
        }
        (Some(Class::Binary), _) => Err(no_conversion(from, to)),
        (_, Some(Class::Text)) if !from.is_nested() && can_cast_types(from, &DataType::Utf8) => {
            Ok(Ok(plain_cast(&plain_cast(array, &DataType::Utf8)?, to)?))
        }
        (Some(a), Some(b)) if a == b && can_cast_types(from, to) => checked_cast(array, to),
        _ => Err(no_conversion(from, to)),
    }
}

/// Durations as intervals.
fn durations(array: &ArrayRef, unit: TimeUnit) -> Result<Converted, Reason> {
    let counts = plain_cast(array, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let intervals: IntervalMonthDayNanoArray =
        counts.iter().map(|count| count.and_then(|count| interval_of(count, unit))).collect();
    Ok(match (0..counts.len()).find(|row| counts.is_valid(*row) && intervals.is_null(*row)) {
        Some(row) => Err(BadValue { row, problem: CellProblem::Value(ValueProblem::Range) }),
        None => Ok(Arc::new(intervals)),
    })
}

/// UUIDs and the texts that spell them.
fn convert_uuids(array: &ArrayRef, target: &ColumnField) -> Result<Converted, Reason> {
    match (class(array.data_type()), class(target.data_type())) {
        (Some(Class::Text), _) => parse_texts(&plain_cast(array, &DataType::Utf8View)?, target),
        (_, Some(Class::Text)) => Ok(Ok(plain_cast(&uuid_texts(array), target.data_type())?)),
        (Some(Class::Binary), Some(Class::Binary)) if target.data_type() == &DataType::BinaryView => {
            Ok(Ok(plain_cast(&plain_cast(array, &DataType::Binary)?, &DataType::BinaryView)?))
        }
        _ => Err(no_conversion(array.data_type(), target.data_type())),
    }
}

/// The classes of types that can be converted to each other. Numbers cannot be converted to dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Calendar,
    Clock,
    Text,
    Binary,
}

fn class(data_type: &DataType) -> Option<Class> {
    match data_type {
        DataType::Boolean => Some(Class::Number),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _) => Some(Class::Calendar),
        DataType::Time32(_) | DataType::Time64(_) => Some(Class::Clock),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Class::Text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Some(Class::Binary)
        }
        other if other.is_numeric() => Some(Class::Number),
        _ => None,
    }
}

pub(super) fn no_conversion(from: &DataType, to: &DataType) -> Reason {
    Reason::Unsupported(format!("no conversion from {} to {}", type_name(from), type_name(to)))
}

/// A cast that cannot fail on a value.
pub(super) fn plain_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Reason> {
    let options = CastOptions { safe: false, ..Default::default() };
    cast_with_options(array, to, &options).map_err(|error| Reason::Unsupported(arrow_text(&error)))
}

pub(super) fn parse_texts(array: &ArrayRef, target: &ColumnField) -> Result<Converted, Reason> {
    let own = Assignment::of_field(target);
    let mut builder = column_builder(&target.clone().with_nullable(true), own.rules())?;
    for (row, text) in array.as_string_view().iter().enumerate() {
        let text = text.map(|text| own.plain(text, target.data_type()));
        if let Err(problem) = builder.append(text.as_deref()) {
            return Ok(Err(BadValue { row, problem }));
        }
    }
    Ok(Ok(builder.finish()))
}

/// The values that texts spell, with NULL for texts that spell none. `Err` names the first of those, unless `or_null`.
pub(crate) fn read_texts(array: &ArrayRef, to: &DataType, or_null: bool) -> Result<Result<ArrayRef, usize>, Reason> {
    let target = ColumnField::new("value", to.clone(), true);
    let texts = plain_cast(array, &DataType::Utf8View)?;
    let row = match parse_texts(&texts, &target)? {
        Ok(values) => return Ok(Ok(values)),
        Err(bad) => bad.row,
    };
    if !or_null {
        return Ok(Err(row));
    }
    let one = |row: usize| match parse_texts(&texts.slice(row, 1), &target)? {
        Ok(value) => Ok(value),
        Err(_) => Ok(new_null_array(to, 1)),
    };
    let values = (0..texts.len()).map(one).collect::<Result<Vec<_>, Reason>>()?;
    let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    concat(&parts).map(Ok).map_err(|error| Reason::Unsupported(arrow_text(&error)))
}

fn utf8_of_binary(array: &ArrayRef) -> Result<Converted, Reason> {
    let array = array.as_binary_view();
    match array.clone().to_string_view() {
        Ok(texts) => Ok(Ok(Arc::new(texts))),
        Err(_) => {
            let invalid = |value: Option<&[u8]>| value.is_some_and(|bytes| std::str::from_utf8(bytes).is_err());
            let row = array.iter().position(invalid).unwrap_or(0);
            Ok(Err(BadValue { row, problem: CellProblem::Value(ValueProblem::Syntax) }))
        }
    }
}

fn checked_cast(array: &ArrayRef, to: &DataType) -> Result<Converted, Reason> {
    let unsupported = |error| Reason::Unsupported(arrow_text(&error));
    // Digits of a decimal that a float cannot represent are rounded, as in literals.
    if matches!(array.data_type(), DataType::Decimal128(..)) && to.is_floating() {
        return exact::cast(array, to, false).map(Ok).map_err(|error| Reason::Unsupported(error.to_string()));
    }
    let options = CastOptions { safe: true, ..Default::default() };
    let converted = cast_with_options(array, to, &options).map_err(unsupported)?;
    let bad = |row, problem| Ok(Err(BadValue { row, problem: CellProblem::Value(problem) }));
    if converted.null_count() > array.null_count() {
        let row = (0..array.len()).find(|row| converted.is_null(*row) && array.is_valid(*row)).unwrap_or(0);
        return bad(row, ValueProblem::Range);
    }
    if array.data_type().is_decimal() && to.is_floating() {
        return Ok(Ok(converted));
    }
    if array.data_type().is_floating() && (to.is_floating() || matches!(to, DataType::Decimal128(_, _))) {
        return Ok(check_floats(array, &converted).map(|()| converted));
    }
    if always_exact(array.data_type(), to) {
        return Ok(Ok(converted));
    }
    // -0.0 becomes 0.0 when an integer is converted back, and is nevertheless exact.
    let original: ArrayRef = match array.data_type() {
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| value + 0.0)),
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| value + 0.0)),
        _ => Arc::clone(array),
    };
    let back = cast_with_options(&converted, array.data_type(), &options).map_err(unsupported)?;
    let changed = distinct(&original, &back).map_err(unsupported)?;
    match changed.values().set_indices().next() {
        Some(row) => bad(row, ValueProblem::Precision),
        None => Ok(Ok(converted)),
    }
}

/// Integers into wider integers: nothing to check.
fn always_exact(from: &DataType, to: &DataType) -> bool {
    let (Some(from_bytes), Some(to_bytes)) = (from.primitive_width(), to.primitive_width()) else { return false };
    let same_sign =
        from.is_signed_integer() && to.is_signed_integer() || from.is_unsigned_integer() && to.is_unsigned_integer();
    same_sign && from_bytes <= to_bytes
}

/// Checks that floats remain finite as REAL, and agree with a DECIMAL in 15 digits.
fn check_floats(array: &ArrayRef, converted: &ArrayRef) -> Result<(), BadValue> {
    let as_doubles = |array: &ArrayRef| plain_cast(array, &DataType::Float64).ok();
    let (Some(before), Some(after)) = (as_doubles(array), as_doubles(converted)) else { return Ok(()) };
    let (before, after) = (before.as_primitive::<Float64Type>(), after.as_primitive::<Float64Type>());
    let to_decimal = !converted.data_type().is_floating();
    // A REAL has 7 significant digits; the further digits of its DOUBLE are not significant.
    let tolerance = if array.data_type() == &DataType::Float64 { 1e-15 } else { 1e-6 };
    for (row, (before, after)) in before.iter().zip(after.iter()).enumerate() {
        let (Some(before), Some(after)) = (before, after) else { continue };
        let problem = if before.is_finite() && after.is_infinite() {
            ValueProblem::Range
        } else if to_decimal && (before - after).abs() > before.abs() * tolerance {
            ValueProblem::Precision
        } else {
            continue;
        };
        return Err(BadValue { row, problem: CellProblem::Value(problem) });
    }
    Ok(())
}

fn refuse_null(array: ArrayRef) -> Converted {
    if array.null_count() == 0 {
        return Ok(array);
    }
    let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
    Err(BadValue { row, problem: CellProblem::Null })
}
