//! Shapes of distributions, products, and sums with compensation of rounding errors.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;

use super::collected::{Collected, Groups};

pub(super) fn functions() -> Vec<Collected> {
    let number: fn(&[DataType]) -> Option<Vec<DataType>> = |types| match types {
        [value] if value.is_numeric() || *value == DataType::Null => Some(vec![DataType::Float64]),
        _ => None,
    };
    let function = |name, finish: fn(&Groups) -> Result<ArrayRef>| {
        Collected::new(name, "a number", number, |_| DataType::Float64, finish)
    };
    vec![
        function("skewness", |groups| of_groups(groups, skewness)),
        function("kurtosis", |groups| of_groups(groups, |values| kurtosis(values, true))),
        function("kurtosis_pop", |groups| of_groups(groups, |values| kurtosis(values, false))),
        function("product", |groups| of_groups(groups, |values| (!values.is_empty()).then(|| values.iter().product()))),
        function("fsum", |groups| of_groups(groups, |values| (!values.is_empty()).then(|| compensated_sum(values)))),
        function("favg", |groups| {
            of_groups(groups, |values| (!values.is_empty()).then(|| compensated_sum(values) / values.len() as f64))
        }),
    ]
}

fn of_groups(groups: &Groups, value: impl Fn(&[f64]) -> Option<f64>) -> Result<ArrayRef> {
    let values = groups.columns[0].as_primitive::<Float64Type>();
    let of_group = |places: Vec<usize>| {
        let all: Vec<f64> = places.into_iter().map(|place| values.value(place)).collect();
        value(&all)
    };
    Ok(Arc::new(groups.places(1).map(of_group).collect::<Float64Array>()))
}

/// The second, third and fourth central moments.
fn moments(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let power = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count;
    (power(2), power(3), power(4))
}

/// The skewness of a sample (the adjusted Fisher-Pearson coefficient); NULL for fewer than three values.
fn skewness(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 3 {
        return None;
    }
    let (second, third, _) = moments(values);
    // The skewness of constant values is undefined.
    (second != 0.0).then(|| (count * (count - 1.0)).sqrt() / (count - 2.0) * third / second.powf(1.5))
}

/// The excess kurtosis: of a sample with at least four values, or of a population with at least two.
fn kurtosis(values: &[f64], sample: bool) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < if sample { 4 } else { 2 } {
        return None;
    }
    let (second, _, fourth) = moments(values);
    let excess = fourth / (second * second) - 3.0;
    if second == 0.0 || !sample {
        return (second != 0.0).then_some(excess);
    }
    Some((count - 1.0) / ((count - 2.0) * (count - 3.0)) * ((count + 1.0) * excess + 6.0))
}

/// The Kahan-Babuška sum in the form of Neumaier ("Rundungsfehleranalyse einiger Verfahren zur Summation endlicher
/// Summen", 1974).
fn compensated_sum(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { sum - next + value } else { value - next + sum };
        sum = next;
    }
    // Infinities need no compensation.
    if lost.is_finite() { sum + lost } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        let ages = [36.0, 41.0, 29.0, 41.0];
        assert!(near(skewness(&ages), -1.137_078_457_316_658_6));
        assert!(near(kurtosis(&ages, true), 0.154_077_279_009_676_5));
        assert!(near(kurtosis(&ages, false), -1.179_456_362_798_709_8));
        assert_eq!((skewness(&ages[..2]), kurtosis(&ages[..3], true)), (None, None));
        assert_eq!(compensated_sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(compensated_sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
    }
}
