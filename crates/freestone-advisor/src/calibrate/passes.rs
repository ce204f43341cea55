//! Several passes of the same measurements. A machine that is slow for a while, as virtual ones are, affects one of
//! them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::timing::Timing;
use crate::error::{AdvisorError, Result};

/// The number of passes, and the number if little time is left.
const PASSES: usize = 4;
const LATE_PASSES: usize = 2;

/// The result of several passes of the same measurements.
pub fn several<T: Serialize + DeserializeOwned>(timing: &Timing, mut pass: impl FnMut() -> Result<T>) -> Result<T> {
    let count = if timing.is_quick() { 1 } else { PASSES };
    let mut passes = vec![];
    while passes.len() < count && !(passes.len() >= LATE_PASSES && timing.is_late()) {
        passes.push(pass()?);
    }
    middle(&passes)
        .map_err(|error| AdvisorError::Invalid(format!("a measured cost is no number ({error}): calibrate again")))
}

/// The median of each figure, with the smallest low end and the largest high end of all. An error if one is not a
/// number.
fn middle<T: Serialize + DeserializeOwned>(passes: &[T]) -> std::result::Result<T, serde_json::Error> {
    let values: Vec<Value> = passes.iter().map(serde_json::to_value).collect::<std::result::Result<_, _>>()?;
    serde_json::from_value(middle_of(&values.iter().collect::<Vec<_>>()))
}

/// Values that are no figures, and figures that some passes lack, are those of the first pass.
fn middle_of(values: &[&Value]) -> Value {
    match values[0] {
        Value::Object(first) if first.contains_key("low") && first.contains_key("high") => figure(values),
        Value::Object(first) => {
            let member = |name: &String| (name.clone(), in_all(values, |value| value.get(name)));
            Value::Object(first.keys().map(member).collect::<Map<_, _>>())
        }
        Value::Number(_) => {
            let mut all: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
            all.sort_by(f64::total_cmp);
            serde_json::json!(middle_number(&all))
        }
        Value::Array(first) => (0..first.len()).map(|at| in_all(values, |value| value.get(at))).collect(),
        other => other.clone(),
    }
}

fn in_all(values: &[&Value], part: impl Fn(&Value) -> Option<&Value>) -> Value {
    let parts: Vec<&Value> = values.iter().filter_map(|value| part(value)).collect();
    middle_of(if parts.len() == values.len() { &parts } else { &parts[..1] })
}

fn figure(values: &[&Value]) -> Value {
    let sorted = |name: &str| {
        let mut all: Vec<f64> = values.iter().filter_map(|value| value.get(name)?.as_f64()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (all, low, high) = (sorted("value"), sorted("low"), sorted("high"));
    serde_json::json!({ "value": middle_number(&all), "low": low[0], "high": high[high.len() - 1] })
}

/// The median of sorted numbers, of which there must be at least one.
fn middle_number(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Curve, EngineCosts, Measured};

    #[test]
    fn one_slow_pass_is_not_taken() {
        let pass = |ns: f64| EngineCosts {
            scan: Measured { value: ns, low: ns * 0.9, high: ns * 1.1 },
            select: Curve::new(vec![(0.1, Measured::exact(ns))]),
            ..EngineCosts::default()
        };
        let found = middle(&[pass(10.0), pass(100.0), pass(11.0)]).expect("figures");
        assert_eq!(found.scan, Measured { value: 11.0, low: 9.0, high: 110.00000000000001 });
        assert_eq!(found.select.at(0.1), 11.0);
        assert_eq!(middle(&[pass(10.0)]).expect("figures"), pass(10.0));
        let even = middle(&[pass(10.0), pass(100.0), pass(20.0), pass(12.0)]).expect("figures");
        assert_eq!(even.scan.value, 16.0);
        assert_eq!(middle(&[3.0, 9.0, 4.0]).expect("numbers"), 4.0, "numbers without an interval too");
    }
}
