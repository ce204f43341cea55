//! Arrow's durations, which are INTERVALs in SQL: `timedelta64` of pandas, `Duration` of Polars.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, make_array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field as ColumnField, FieldRef, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use arrow::error::ArrowError;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_NS: i128 = 86_400_000_000_000;

/// The type with INTERVAL in place of durations, also inside of nested types.
pub(crate) fn without_durations(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        let inner = without_durations(field.data_type());
        match inner == *field.data_type() {
            true => field.clone(),
            false => Arc::new(ColumnField::new(field.name(), inner, field.is_nullable())),
        }
    };
    match data_type {
        DataType::Duration(_) => INTERVAL,
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::ListView(item) => DataType::ListView(field(item)),
        DataType::LargeListView(item) => DataType::LargeListView(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(field(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

/// The column with intervals in place of durations, also inside of nested values.
///
/// # Errors
/// A duration has more days than an INTERVAL.
pub(crate) fn as_intervals(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let wanted = without_durations(array.data_type());
    if wanted == *array.data_type() {
        return Ok(Arc::clone(array));
    }
    if let DataType::Duration(unit) = array.data_type() {
        let counts = cast(array, &DataType::Int64)?;
        let interval = |count: Option<i64>| match count {
            None => Ok(None),
            Some(count) => interval_of(count, *unit).map(Some).ok_or_else(|| out_of_range(count, *unit)),
        };
        let values = counts.as_primitive::<Int64Type>().iter().map(interval).collect::<Result<Vec<_>, _>>()?;
        return Ok(Arc::new(IntervalMonthDayNanoArray::from(values)));
    }
    let data = array.to_data();
    let parts = data.child_data().iter().map(|part| Ok(as_intervals(&make_array(part.clone()))?.to_data()));
    let parts = parts.collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(data.into_builder().data_type(wanted).child_data(parts).build()?))
}

/// A duration in days and nanoseconds of one sign.
pub(super) fn interval_of(count: i64, unit: TimeUnit) -> Option<IntervalMonthDayNano> {
    let per_unit = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    let nanoseconds = i128::from(count) * per_unit;
    let days = i32::try_from(nanoseconds / DAY_NS).ok()?;
    Some(IntervalMonthDayNano::new(0, days, (nanoseconds % DAY_NS) as i64))
}

fn out_of_range(count: i64, unit: TimeUnit) -> ArrowError {
    ArrowError::CastError(format!("a duration of {count} {unit:?}s is out of range for an INTERVAL"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        DurationMicrosecondArray, DurationMillisecondArray, DurationNanosecondArray, DurationSecondArray, Int32Array,
        ListArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;

    use super::*;

    #[test]
    fn durations_are_days_and_the_rest() {
        let interval = |days, ns| Some(IntervalMonthDayNano::new(0, days, ns));
        for (array, expected) in [
            (
                Arc::new(DurationSecondArray::from(vec![Some(108_000), None, Some(-1)])) as ArrayRef,
                [interval(1, 21_600_000_000_000), None, interval(0, -1_000_000_000)],
            ),
            (
                Arc::new(DurationMillisecondArray::from(vec![Some(0), None, Some(-86_400_001)])),
                [interval(0, 0), None, interval(-1, -1_000_000)],
            ),
            (
                Arc::new(DurationMicrosecondArray::from(vec![Some(i64::MAX), None, Some(i64::MIN)])),
                [interval(106_751_991, 14_454_775_807_000), None, interval(-106_751_991, -14_454_775_808_000)],
            ),
            (
                Arc::new(DurationNanosecondArray::from(vec![Some(1), None, Some(-1)])),
                [interval(0, 1), None, interval(0, -1)],
            ),
        ] {
            let expected = IntervalMonthDayNanoArray::from(expected.to_vec());
            assert_eq!(as_intervals(&array).expect("intervals").as_ref(), &expected as &dyn Array);
        }
        let long: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert!(as_intervals(&long).is_err());
    }

    #[test]
    fn durations_inside_of_others_are_converted() {
        let spans: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![Some(86_400_000_001), None, Some(3)]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        let field = |name, array: &ArrayRef| Arc::new(ColumnField::new(name, array.data_type().clone(), true));
        let fields = vec![field("d", &spans), field("n", &numbers)];
        let structs: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![spans, numbers.clone()], None));
        let lists = ListArray::new(field("item", &structs), OffsetBuffer::from_lengths([1, 0, 2]), structs, None);
        let sliced: ArrayRef = Arc::new(lists.slice(2, 1));
        let converted = as_intervals(&sliced).expect("intervals");
        assert_eq!(converted.len(), 1);
        let last = converted.as_list::<i32>().value(0);
        let spans = last.as_struct().column(0).slice(0, 2);
        let expected = IntervalMonthDayNanoArray::from(vec![None, Some(IntervalMonthDayNano::new(0, 0, 3000))]);
        assert_eq!(spans.as_ref(), &expected as &dyn Array);
        assert!(Arc::ptr_eq(&as_intervals(&numbers).expect("the same"), &numbers));
    }
}
