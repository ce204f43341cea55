//! Dates and timestamps in a format of `strftime`: the options DATEFORMAT and TIMESTAMPFORMAT.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::display::ValueTexts;
use crate::times::arrays::per_second;
use crate::times::{LocalTime, SECOND_NS, TimeFormat, Zone, infinite, integers};

const DAY_SECONDS: i64 = 86_400;

/// The formats of times that are not written as SQL writes them.
#[derive(Debug, Clone, Default)]
pub(super) struct TimeFormats {
    pub date: Option<TimeFormat>,
    pub timestamp: Option<TimeFormat>,
}

impl TimeFormats {
    fn of(&self, data_type: &DataType) -> Option<&TimeFormat> {
        match data_type {
            DataType::Date32 => self.date.as_ref(),
            DataType::Timestamp(..) => self.timestamp.as_ref(),
            _ => None,
        }
    }

    /// A batch with texts in place of times that have a format.
    pub fn as_texts(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let (mut fields, mut columns) = (vec![], vec![]);
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let column = match FormattedTimes::of(column, self)? {
                Some(times) => times.texts(),
                None => column.clone(),
            };
            fields.push(Field::new(field.name(), column.data_type().clone(), true));
            columns.push(column);
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(arrow::datatypes::Schema::new(fields)), columns, &options)
    }
}

/// A column of times that have a format.
pub(super) struct FormattedTimes<'a> {
    format: TimeFormat,
    /// The values as SQL writes them, for infinite ones.
    texts: ValueTexts<'a>,
    values: Int64Array,
    data_type: DataType,
    /// Of timestamps: the units of a second, and the time zone.
    clock: Option<(i64, Zone)>,
}

impl<'a> FormattedTimes<'a> {
    /// `None` if the column has no format.
    pub fn of(array: &'a ArrayRef, formats: &TimeFormats) -> Result<Option<FormattedTimes<'a>>, ArrowError> {
        let data_type = array.data_type().clone();
        let Some(format) = formats.of(&data_type).cloned() else { return Ok(None) };
        let values = integers(array).map_err(|error| ArrowError::ExternalError(error.into()))?;
        let clock = match &data_type {
            DataType::Timestamp(unit, zone) => {
                let zone = zone.as_deref().and_then(Zone::parse).unwrap_or(Zone::Fixed(0));
                Some((per_second(*unit), zone))
            }
            _ => None,
        };
        let texts = ValueTexts::new(array.as_ref())?;
        Ok(Some(FormattedTimes { format, texts, values, data_type, clock }))
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.values.is_null(row)
    }

    pub fn append(&self, row: usize, into: &mut String) {
        let value = self.values.value(row);
        if infinite(value, &self.data_type).is_some() {
            return self.texts.append(row, into);
        }
        let Some((per_second, zone)) = &self.clock else {
            return self.format.write(&LocalTime { days: value, ns: 0, offset: 0, zone: None }, into);
        };
        let seconds = value.div_euclid(*per_second);
        let offset = zone.offset_at(seconds).unwrap_or(0);
        let local = seconds + offset;
        let ns = local.rem_euclid(DAY_SECONDS) * SECOND_NS + value.rem_euclid(*per_second) * (SECOND_NS / per_second);
        self.format.write(&LocalTime { days: local.div_euclid(DAY_SECONDS), ns, offset, zone: None }, into);
    }

    fn texts(&self) -> ArrayRef {
        let text = |row: usize| {
            (!self.is_null(row)).then(|| {
                let mut text = String::new();
                self.append(row, &mut text);
                text
            })
        };
        Arc::new((0..self.values.len()).map(text).collect::<StringViewArray>())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn times_have_their_formats() {
        let format = |text: &str| TimeFormat::of_option("DATEFORMAT", text).ok();
        let formats = TimeFormats { date: format("%d.%m.%Y"), timestamp: format("%Y/%m/%d %H:%M:%S.%f %z") };
        let check = |array: ArrayRef, expected: &[Option<&str>]| {
            let times = FormattedTimes::of(&array, &formats).expect("times").expect("a format");
            assert_eq!(times.texts().as_ref(), &StringViewArray::from_iter(expected.iter().copied()) as &dyn Array);
        };
        let days = vec![Some(0), None, Some(-1), Some(i32::MAX)];
        check(Arc::new(Date32Array::from(days)), &[Some("01.01.1970"), None, Some("31.12.1969"), Some("infinity")]);
        let instants = TimestampMicrosecondArray::from(vec![Some(-1), None]);
        check(Arc::new(instants.clone()), &[Some("1969/12/31 23:59:59.999999 +00"), None]);
        let berlin = instants.with_timezone("Europe/Berlin");
        check(Arc::new(berlin), &[Some("1970/01/01 00:59:59.999999 +01"), None]);
        assert!(
            FormattedTimes::of(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef), &formats).is_ok_and(|f| f.is_none())
        );
    }
}
