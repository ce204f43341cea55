//! `lttb(x, y, n)`: at most n points of a line that look like it. Steinarsson, "Downsampling Time Series for Visual Representation",
//! 2013: of each bucket, the point that forms the largest triangle with the point chosen before and the mean of the next bucket.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type, TimeUnit};
use datafusion::error::Result;

use super::choices::lists;
use super::collected::{Collected, Groups};
use crate::error::Error;
use crate::times::{exact_cast, integers};

/// The first and the last point.
const POINTS_MIN: i64 = 2;

pub(super) fn functions() -> Vec<Collected> {
    let takes = "a number or timestamp, a number, and a number of points";
    vec![Collected::new("lttb", takes, arguments, points_of, chosen)]
}

fn arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    let number = |kind: &DataType| match kind {
        DataType::Float32 => Some(DataType::Float32),
        kind if kind.is_numeric() || kind.is_null() => Some(DataType::Float64),
        _ => None,
    };
    let [x, y, count] = types else { return None };
    let x = match x {
        DataType::Timestamp(..) => x.clone(),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        x => number(x)?,
    };
    (count.is_integer() || count.is_null()).then_some(vec![x, number(y)?, DataType::Int64])
}

fn fields(types: &[DataType]) -> Fields {
    let named = ["x", "y"].iter().zip(types);
    named.map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect()
}

fn points_of(types: &[DataType]) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(fields(types)), true)))
}

fn chosen(groups: &Groups) -> Result<ArrayRef> {
    let (x, y) = (places_of(&groups.columns[0])?, reals(&groups.columns[1])?);
    let counts = groups.columns[2].as_primitive::<Int64Type>();
    let of_group = |places: Vec<usize>| -> Result<Vec<u32>> {
        let Some(first) = places.first() else { return Ok(vec![]) };
        let count = if counts.is_valid(*first) { counts.value(*first) } else { 0 };
        if count < POINTS_MIN {
            return Err(Error::invalid(format!("lttb returns at least {POINTS_MIN} points")).into());
        }
        let points: Vec<(f64, f64)> = places.iter().map(|place| (x(*first, *place), y[*place])).collect();
        let of_points = of_line(&points, usize::try_from(count).unwrap_or(usize::MAX));
        Ok(of_points.into_iter().map(|at| places[at] as u32).collect())
    };
    let places = groups.places(2).map(of_group).collect::<Result<Vec<_>>>()?;
    let types: Vec<DataType> = groups.columns[..2].iter().map(|column| column.data_type().clone()).collect();
    let points = StructArray::try_new(fields(&types), groups.columns[..2].to_vec(), None)?;
    lists(groups, &(Arc::new(points) as ArrayRef), places)
}

fn reals(column: &ArrayRef) -> Result<Vec<f64>> {
    Ok(exact_cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().values().to_vec())
}

/// The place of a row on the x axis. Times are counted from the first one, since a DOUBLE has not enough digits for them.
fn places_of(column: &ArrayRef) -> Result<Box<dyn Fn(usize, usize) -> f64>> {
    if let DataType::Timestamp(..) = column.data_type() {
        let ticks = integers(column)?;
        return Ok(Box::new(move |first, row| (i128::from(ticks.value(row)) - i128::from(ticks.value(first))) as f64));
    }
    let numbers = reals(column)?;
    Ok(Box::new(move |_, row| numbers[row]))
}

/// Which points of a line remain.
fn of_line(points: &[(f64, f64)], count: usize) -> Vec<usize> {
    if points.len() <= count {
        return (0..points.len()).collect();
    }
    let last = points.len() - 1;
    if count <= 2 {
        return vec![0, last];
    }
    let per_bucket = (points.len() - 2) as f64 / (count - 2) as f64;
    let start = |bucket: usize| ((bucket as f64 * per_bucket).floor() as usize + 1).min(points.len());
    let mut kept = vec![0];
    let mut before = points[0];
    for bucket in 0..count - 2 {
        let next = &points[start(bucket + 1)..start(bucket + 2)];
        let mean = |of: fn(&(f64, f64)) -> f64| next.iter().map(of).sum::<f64>() / next.len() as f64;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let area = |at: usize| {
            let point = points[at];
            ((before.0 - x) * (point.1 - before.1) - (before.0 - point.0) * (y - before.1)).abs()
        };
        let own = start(bucket)..start(bucket + 1);
        let first = (own.start, f64::NEG_INFINITY);
        let largest = |best: (usize, f64), at: usize| if area(at) > best.1 { (at, area(at)) } else { best };
        let (at, _) = own.fold(first, largest);
        kept.push(at);
        before = points[at];
    }
    kept.push(last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_shape() {
        let parabola: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), f64::from(x * x))).collect();
        assert_eq!(of_line(&parabola, 5), [0, 2, 5, 7, 9]);
        assert_eq!(of_line(&parabola, 4), [0, 3, 6, 9]);
        assert_eq!(of_line(&parabola, 2), [0, 9]);
        assert_eq!(of_line(&parabola, 10).len(), 10);
        assert_eq!(of_line(&parabola[..1], 3), [0]);
    }

    #[test]
    fn every_bucket_has_a_point() {
        for points in 3..80usize {
            let line: Vec<(f64, f64)> = (0..points).map(|x| (x as f64, f64::NAN)).collect();
            for count in 3..points {
                let kept = of_line(&line, count);
                assert_eq!(kept.len(), count);
                assert!(kept.is_sorted_by(|a, b| a < b), "{points} {count}");
            }
        }
    }
}
