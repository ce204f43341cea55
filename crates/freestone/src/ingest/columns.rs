//! Fields → typed Arrow columns. One builder per column, with the parser of its type compiled into its loop.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanArray, BooleanBufferBuilder, FixedSizeBinaryArray,
    NullBufferBuilder, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewBuilder,
};
use arrow::compute::filter;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field as ColumnField, FieldRef, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, SchemaRef,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use arrow::error::ArrowError;

use super::IngestOptions;
pub(crate) use super::cells::{CellProblem, CellRules, ColumnBuilder};
use super::error::{IngestError, Reason, ValueProblem};
use super::fields::{Cells, Field, Fields};
use super::nested::Nested;
use super::values::{self, ZoneRule};
use crate::display::has_parts;
use crate::type_names::type_name;

/// The largest integer up to which every integer is exact as DOUBLE.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

/// Parses a double under the rules of inference: no leading zeros, and no integer that is not exact as DOUBLE.
fn strict_float64(bytes: &[u8]) -> Result<f64, ValueProblem> {
    let value = values::float64(bytes)?;
    if values::has_leading_zero(bytes) {
        return Err(ValueProblem::Syntax);
    }
    if values::loses_whole_digits(bytes, value) {
        return Err(ValueProblem::Precision);
    }
    if value.abs() >= EXACT_INTEGER_MAX as f64 && values::is_digits(bytes) {
        return match values::signed(bytes) {
            Ok(integer) if integer.unsigned_abs() <= EXACT_INTEGER_MAX => Ok(value),
            _ => Err(ValueProblem::Precision),
        };
    }
    Ok(value)
}

fn strict_boolean(bytes: &[u8]) -> Result<bool, ValueProblem> {
    let is_plain = bytes.eq_ignore_ascii_case(b"true") || bytes.eq_ignore_ascii_case(b"false");
    if is_plain { values::boolean(bytes) } else { Err(ValueProblem::Syntax) }
}

/// A builder for a column.
pub(crate) fn column_builder(field: &ColumnField, rules: CellRules) -> Result<Box<dyn ColumnBuilder>, Reason> {
    let CellRules { empty_is_text, empty_is_null, strict, .. } = rules;
    let nullable = field.is_nullable();
    let data_type = field.data_type();
    let integer = |bytes: &[u8]| values::signed(bytes);
    if strict {
        match data_type {
            DataType::Boolean => {
                let parse = strict_boolean;
                let values = BooleanBufferBuilder::new(0);
                return Ok(Box::new(Booleans { values, nulls: nulls(), nullable, empty_is_null, parse }));
            }
            DataType::Int64 => {
                let parse = |bytes: &[u8]| match values::has_leading_zero(bytes) {
                    true => Err(ValueProblem::Syntax),
                    false => values::signed(bytes),
                };
                return Ok(numbers::<Int64Type>(field, empty_is_null, parse));
            }
            DataType::Float64 => return Ok(numbers::<Float64Type>(field, empty_is_null, strict_float64)),
            DataType::Date32 => {
                let parse = |bytes: &[u8]| match bytes.contains(&b':') {
                    false => values::date(bytes),
                    true => Err(ValueProblem::Precision),
                };
                return Ok(numbers::<Date32Type>(field, empty_is_null, parse));
            }
            _ => {}
        }
    }
    Ok(match data_type {
        DataType::Boolean => {
            let values = BooleanBufferBuilder::new(0);
            Box::new(Booleans { values, nulls: nulls(), nullable, empty_is_null, parse: values::boolean })
        }
        DataType::Int8 => narrow::<Int8Type, _>(field, empty_is_null, integer),
        DataType::Int16 => narrow::<Int16Type, _>(field, empty_is_null, integer),
        DataType::Int32 => narrow::<Int32Type, _>(field, empty_is_null, integer),
        DataType::Int64 => numbers::<Int64Type>(field, empty_is_null, integer),
        DataType::UInt8 => narrow::<UInt8Type, _>(field, empty_is_null, values::unsigned),
        DataType::UInt16 => narrow::<UInt16Type, _>(field, empty_is_null, values::unsigned),
        DataType::UInt32 => narrow::<UInt32Type, _>(field, empty_is_null, values::unsigned),
        DataType::UInt64 => numbers::<UInt64Type>(field, empty_is_null, values::unsigned),
        DataType::Float32 => numbers::<Float32Type>(field, empty_is_null, values::float32),
        DataType::Float64 => numbers::<Float64Type>(field, empty_is_null, values::float64),
        DataType::Decimal128(precision, scale @ 0..) => {
            let (scale, limit) = (scale.unsigned_abs().into(), 10i128.pow((*precision).min(38).into()));
            numbers::<Decimal128Type>(field, empty_is_null, move |bytes| values::decimal(bytes, scale, limit))
        }
        DataType::Date32 => numbers::<Date32Type>(field, empty_is_null, values::written_date),
        DataType::Time32(unit @ TimeUnit::Second) => {
            let unit = *unit;
            narrow::<Time32SecondType, _>(field, empty_is_null, move |bytes| values::time(bytes, unit))
        }
        DataType::Time32(unit @ TimeUnit::Millisecond) => {
            let unit = *unit;
            narrow::<Time32MillisecondType, _>(field, empty_is_null, move |bytes| values::time(bytes, unit))
        }
        DataType::Time64(unit @ TimeUnit::Microsecond) => {
            let unit = *unit;
            numbers::<Time64MicrosecondType>(field, empty_is_null, move |bytes| values::time(bytes, unit))
        }
        DataType::Time64(unit @ TimeUnit::Nanosecond) => {
            let unit = *unit;
            numbers::<Time64NanosecondType>(field, empty_is_null, move |bytes| values::time(bytes, unit))
        }
        DataType::Timestamp(unit, zone) => {
            let rule = match zone {
                None if rules.drops_zones => ZoneRule::Dropped,
                None if rules.applies_zones => ZoneRule::Fixed { offset_seconds: 0 },
                zone => rules.zone.map_or_else(|| ZoneRule::of(zone.as_deref()), ZoneRule::Session),
            };
            let unit = *unit;
            let parse = move |bytes: &[u8]| values::written_timestamp(bytes, unit, rule);
            match unit {
                TimeUnit::Second => numbers::<TimestampSecondType>(field, empty_is_null, parse),
                TimeUnit::Millisecond => numbers::<TimestampMillisecondType>(field, empty_is_null, parse),
                TimeUnit::Microsecond => numbers::<TimestampMicrosecondType>(field, empty_is_null, parse),
                TimeUnit::Nanosecond => numbers::<TimestampNanosecondType>(field, empty_is_null, parse),
            }
        }
        DataType::Utf8View => Box::new(StringColumn { values: StringViewBuilder::new(), nullable, empty_is_text }),
        DataType::BinaryView => Box::new(Binaries { values: BinaryViewBuilder::new(), scratch: Vec::new(), nullable }),
        DataType::Decimal256(precision, scale @ 0..) => {
            let (precision, scale) = (usize::from(*precision), usize::from(scale.unsigned_abs()));
            numbers::<Decimal256Type>(field, empty_is_null, move |bytes| values::wide_decimal(bytes, precision, scale))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            numbers::<IntervalMonthDayNanoType>(field, empty_is_null, |bytes| {
                let text = std::str::from_utf8(bytes).map_err(|_| ValueProblem::Syntax)?;
                crate::times::interval_of_text(text).ok_or(ValueProblem::Syntax)
            })
        }
        DataType::FixedSizeBinary(16) => Box::new(Uuids { values: vec![], nulls: nulls(), nullable, empty_is_null }),
        nested if has_parts(nested) => {
            let CellRules { last_member_counts, applies_zones, drops_zones, zone, .. } = rules;
            let inner = CellRules { last_member_counts, applies_zones, drops_zones, zone, ..CellRules::default() };
            Box::new(Nested::new(field, rules, |field: &FieldRef| column_builder(field, inner))?)
        }
        other => {
            let text = format!("column {} has type {}, which no file is read into", field.name(), type_name(other));
            return Err(Reason::Unsupported(text));
        }
    })
}

/// The value of a type that a text spells.
#[cfg(test)]
pub(super) fn parse_text(text: &str, data_type: &DataType) -> Result<ArrayRef, Reason> {
    let mut builder = column_builder(&ColumnField::new("value", data_type.clone(), true), CellRules::default())?;
    builder.append(Some(text)).map_err(|problem| problem.reason(Some(text), data_type))?;
    Ok(builder.finish())
}

/// Builds record batches of one schema from fields.
pub(crate) struct BatchBuilder {
    schema: SchemaRef,
    builders: Vec<Box<dyn ColumnBuilder>>,
    /// The field from which each column is read; `None` for a column of NULLs.
    sources: Vec<Option<usize>>,
    rows: usize,
    /// Where records with values that their columns refuse are left out.
    lenient: Option<Lenient>,
}

/// What is needed to leave records out.
struct Lenient {
    /// Whether each record since the last batch has a value for every column.
    kept: Vec<bool>,
    rules: Vec<CellRules>,
}

/// The first refused cell in row order, and in column order within its row.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub row: usize,
    pub column: usize,
    pub reason: Reason,
}

impl BatchBuilder {
    pub fn new(
        schema: &SchemaRef,
        sources: Vec<Option<usize>>,
        rules: impl Fn(usize) -> CellRules,
        options: &IngestOptions,
    ) -> Result<Self, Reason> {
        let rules: Vec<CellRules> = (0..schema.fields().len()).map(rules).collect();
        let builder = |(field, rules): (&FieldRef, &CellRules)| {
            // A record that is left out is NULL until then.
            let is_text = *field.data_type() == DataType::Utf8View && rules.empty_is_text;
            let nullable = field.is_nullable() || options.ignore_errors && !is_text;
            let builder = column_builder(&field.as_ref().clone().with_nullable(nullable), *rules)?;
            let builder = options.forms.around(builder, field.data_type());
            let builder = options.reading.around(builder, field.data_type());
            let is_text = options.force_not_null.iter().any(|name| name.eq_ignore_ascii_case(field.name()));
            Ok(if is_text { Box::new(WithoutNulls(builder)) as Box<dyn ColumnBuilder> } else { builder })
        };
        let builders = schema.fields().iter().zip(&rules).map(builder).collect::<Result<_, Reason>>()?;
        let lenient = options.ignore_errors.then(|| Lenient { kept: vec![], rules });
        Ok(Self { schema: Arc::clone(schema), builders, sources, rows: 0, lenient })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The field from which a column is read.
    pub fn source(&self, column: usize) -> Option<usize> {
        self.sources.get(column).copied().flatten()
    }

    /// Appends records of `columns` fields each. Returns the refused cells of records that are left out; elsewhere the
    /// first one is an error.
    pub fn append(&mut self, text: &str, fields: &Fields, columns: usize) -> Result<Vec<BadCell>, BadCell> {
        if self.lenient.is_some() {
            return self.append_accepted(text, fields, columns);
        }
        let mut bad: Option<BadCell> = None;
        // Columns are parsed one after the other. After an error, only earlier rows can contain the first error.
        let mut rows = fields.rows();
        for (column, builder) in self.builders.iter_mut().enumerate() {
            let Some(source) = self.sources[column] else {
                if let Err(cell) = append_nulls(builder.as_mut(), column, rows) {
                    rows = cell.row;
                    bad = Some(cell);
                }
                continue;
            };
            let cells = Cells { text, fields, column: source, columns, rows };
            if let Err((row, problem)) = builder.append_cells(cells) {
                let value = cells.iter().nth(row).flatten();
                bad =
                    Some(BadCell { row, column, reason: problem.reason(value, self.schema.field(column).data_type()) });
                rows = row;
            }
        }
        self.rows += fields.rows();
        bad.map_or(Ok(vec![]), Err)
    }

    /// As [`BatchBuilder::append`], for records of which those with a refused cell are left out.
    fn append_accepted(&mut self, text: &str, fields: &Fields, columns: usize) -> Result<Vec<BadCell>, BadCell> {
        let Some(Lenient { kept, rules }) = &mut self.lenient else { return Ok(vec![]) };
        let (first, rows, mut bad) = (kept.len(), fields.rows(), vec![]);
        kept.resize(first + rows, true);
        for (column, builder) in self.builders.iter_mut().enumerate() {
            let Some(source) = self.sources[column] else {
                append_nulls(builder.as_mut(), column, rows)?;
                continue;
            };
            let field = self.schema.field(column);
            // A nested value may be refused when some of its parts were appended, so it is tried apart.
            let trial = || column_builder(&field.clone().with_nullable(true), rules[column]).ok();
            let mut trials = has_parts(field.data_type()).then(trial).flatten();
            let cells = Cells { text, fields, column: source, columns, rows };
            for (row, cell) in cells.raw().enumerate() {
                let tried = trials.as_mut().map_or(Ok(()), |trial| trial.append_field(cells, cell));
                let Err(problem) = tried.and_then(|()| builder.append_field(cells, cell)) else { continue };
                let reason = problem.reason(cells.text_of(cell), field.data_type());
                if builder.append(None).is_err() || problem == CellProblem::Null {
                    return Err(BadCell { row, column, reason });
                }
                trials = trials.and_then(|_| trial());
                kept[first + row] = false;
                bad.push(BadCell { row, column, reason });
            }
        }
        self.rows += rows;
        Ok(bad)
    }

    /// The rows appended since the last call.
    pub fn finish(&mut self) -> Result<RecordBatch, IngestError> {
        let failed = |error: ArrowError| IngestError::new("", Reason::Internal(error.to_string()));
        let mut columns: Vec<ArrayRef> = self.builders.iter_mut().map(|builder| builder.finish()).collect();
        let mut rows = std::mem::take(&mut self.rows);
        if let Some(lenient) = &mut self.lenient {
            let kept = BooleanArray::from(std::mem::take(&mut lenient.kept));
            rows = kept.true_count();
            for (column, field) in columns.iter_mut().zip(self.schema.fields()) {
                *column = filter(column, &kept).map_err(failed)?;
                if column.null_count() > 0 && !field.is_nullable() {
                    return Err(IngestError::new("", Reason::Null).in_column(field.name()));
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(failed)
    }
}

/// NULLs in a column that the file does not have.
fn append_nulls(builder: &mut dyn ColumnBuilder, column: usize, rows: usize) -> Result<(), BadCell> {
    for row in 0..rows {
        let refused = |problem: CellProblem| BadCell { row, column, reason: problem.reason(None, &DataType::Null) };
        builder.append(None).map_err(refused)?;
    }
    Ok(())
}

/// A column in which the texts that mean NULL are texts.
struct WithoutNulls(Box<dyn ColumnBuilder>);

impl ColumnBuilder for WithoutNulls {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        self.0.append(text)
    }

    fn append_field(&mut self, cells: Cells<'_>, field: Field) -> Result<(), CellProblem> {
        self.0.append(Some(cells.written(field)))
    }

    fn append_cells(&mut self, cells: Cells<'_>) -> Result<(), (usize, CellProblem)> {
        for (row, field) in cells.raw().enumerate() {
            self.append_field(cells, field).map_err(|problem| (row, problem))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

fn nulls() -> NullBufferBuilder {
    NullBufferBuilder::new(0)
}

struct Numbers<T: ArrowPrimitiveType, P> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
    data_type: DataType,
    nullable: bool,
    empty_is_null: bool,
    parse: P,
}

fn numbers<T: ArrowPrimitiveType>(
    field: &ColumnField,
    empty_is_null: bool,
    parse: impl Fn(&[u8]) -> Result<T::Native, ValueProblem> + Send + 'static,
) -> Box<dyn ColumnBuilder> {
    let (nullable, data_type) = (field.is_nullable(), field.data_type().clone());
    Box::new(Numbers::<T, _> { values: Vec::new(), nulls: nulls(), data_type, nullable, empty_is_null, parse })
}

/// A builder for numbers that are parsed with a wider type and then checked.
fn narrow<T: ArrowPrimitiveType, W>(
    field: &ColumnField,
    empty_is_null: bool,
    parse: impl Fn(&[u8]) -> Result<W, ValueProblem> + Send + 'static,
) -> Box<dyn ColumnBuilder>
where
    T::Native: TryFrom<W>,
{
    numbers::<T>(field, empty_is_null, move |bytes| parse(bytes)?.try_into().map_err(|_| ValueProblem::Range))
}

impl<T, P> ColumnBuilder for Numbers<T, P>
where
    T: ArrowPrimitiveType,
    P: Fn(&[u8]) -> Result<T::Native, ValueProblem> + Send,
{
    #[inline]
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text.filter(|text| !self.empty_is_null || !text.is_empty()) {
            Some(text) => {
                self.values.push((self.parse)(text.as_bytes()).map_err(CellProblem::Value)?);
                self.nulls.append_non_null();
            }
            None if self.nullable => {
                self.values.push(T::Native::default());
                self.nulls.append_null();
            }
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let next = Vec::with_capacity(self.values.len());
        let values = std::mem::replace(&mut self.values, next);
        let array = PrimitiveArray::<T>::new(values.into(), self.nulls.finish());
        Arc::new(array.with_data_type(self.data_type.clone()))
    }
}

struct Booleans {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
    nullable: bool,
    empty_is_null: bool,
    parse: fn(&[u8]) -> Result<bool, ValueProblem>,
}

impl ColumnBuilder for Booleans {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text.filter(|text| !self.empty_is_null || !text.is_empty()) {
            Some(text) => {
                self.values.append((self.parse)(text.as_bytes()).map_err(CellProblem::Value)?);
                self.nulls.append_non_null();
            }
            None if self.nullable => {
                self.values.append(false);
                self.nulls.append_null();
            }
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish()))
    }
}

struct Uuids {
    values: Vec<u8>,
    nulls: NullBufferBuilder,
    nullable: bool,
    empty_is_null: bool,
}

impl ColumnBuilder for Uuids {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text.filter(|text| !self.empty_is_null || !text.is_empty()) {
            Some(text) => {
                let uuid = values::uuid_of(text.as_bytes()).ok_or(CellProblem::Value(ValueProblem::Syntax))?;
                self.values.extend_from_slice(&uuid);
                self.nulls.append_non_null();
            }
            None if self.nullable => {
                self.values.extend_from_slice(&[0; 16]);
                self.nulls.append_null();
            }
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let values = std::mem::take(&mut self.values);
        Arc::new(FixedSizeBinaryArray::new(16, values.into(), self.nulls.finish()))
    }
}

struct StringColumn {
    values: StringViewBuilder,
    nullable: bool,
    empty_is_text: bool,
}

impl ColumnBuilder for StringColumn {
    #[inline]
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text {
            Some(text) => self.values.append_value(text),
            None if self.nullable => self.values.append_null(),
            None if self.empty_is_text => self.values.append_value(""),
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.values.finish())
    }
}

struct Binaries {
    values: BinaryViewBuilder,
    scratch: Vec<u8>,
    nullable: bool,
}

impl ColumnBuilder for Binaries {
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem> {
        match text {
            Some(text) => {
                values::binary(text.as_bytes(), &mut self.scratch).map_err(CellProblem::Value)?;
                self.values.append_value(&self.scratch);
            }
            None if self.nullable => self.values.append_null(),
            None => return Err(CellProblem::Null),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.values.finish())
    }
}
