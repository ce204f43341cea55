//! Axes of charts, by the rules that the console's page follows, too.

use crate::rules::RULES;

/// A scale: linear from `least` to `most`, or by powers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub least: f64,
    pub most: f64,
    pub is_logarithmic: bool,
    pub ticks: Vec<f64>,
}

fn spans_decades(least: f64, most: f64) -> bool {
    least > 0.0 && most >= least * RULES.decades
}

impl Axis {
    /// From 0, or a round number below negative data, to a round number above the data; or from power to power.
    pub fn of_values(least: f64, most: f64) -> Axis {
        if spans_decades(least, most) {
            let ticks = powers(least, most);
            let [first, last] = [ticks.first(), ticks.last()].map(|end| end.copied().unwrap_or(1.0));
            return Axis { least: first, most: last, is_logarithmic: true, ticks };
        }
        let most = if least >= 0.0 && most <= 0.0 { 1.0 } else { most.max(0.0) };
        let least = least.min(0.0);
        let step = round_step((most - least) / RULES.ticks);
        let [first, last] = [(least / step).floor(), (most / step).ceil()];
        let ticks = (first as i64..=last as i64).map(|tick| tick as f64 * step).collect();
        Axis { least: first * step, most: last * step, is_logarithmic: false, ticks }
    }

    /// From 0 or the least of the points to the greatest, with a tick at each point.
    pub fn of_points(points: &[f64]) -> Axis {
        let [least, most] = ends(points.iter().copied());
        let is_logarithmic = spans_decades(least, most);
        let least = if is_logarithmic { least } else { least.min(0.0) };
        let most = if most > least { most } else { least + 1.0 };
        Axis { least, most, is_logarithmic, ticks: points.to_vec() }
    }

    /// The position of a value, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        match self.is_logarithmic {
            true => (value.max(self.least) / self.least).ln() / (self.most / self.least).ln(),
            false => (value - self.least) / (self.most - self.least),
        }
    }

    pub fn label(&self, label: &str) -> String {
        if self.is_logarithmic { format!("{label}{}", RULES.logarithmic) } else { label.to_owned() }
    }
}

/// The least and the greatest of finite values.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let finite = values.filter(|value| value.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    if least <= most { [least, most] } else { [0.0, 1.0] }
}

/// The powers of ten around positive values, of which there are at least three.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

/// The smallest step, times a power of ten, that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    RULES.steps.map(|factor| factor * power).into_iter().find(|step| *step >= least * 0.999).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(value: &serde_json::Value) -> Vec<f64> {
        value.as_array().expect("numbers").iter().map(|number| number.as_f64().expect("a number")).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64], what: &str) {
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs().max(1e-9);
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{what}: {found:?}");
    }

    /// The cases that the console's page is tested with, too.
    #[test]
    fn axes_are_those_of_the_console() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("charts.cases.json")).expect("valid JSON");
        let of = |name: &str| cases[name].as_array().cloned().expect("cases of each rule");
        for case in of("steps") {
            let [least, step] = [0, 1].map(|at| case[at].as_f64().expect("a number"));
            assert_near(&[round_step(least)], &[step], &format!("the step for {least}"));
        }
        let check = |axis: Axis, expected: &serde_json::Value, what: &str| {
            assert_eq!(Some(axis.is_logarithmic), expected["logarithmic"].as_bool(), "{what}");
            assert_near(&[axis.least, axis.most], &numbers(&expected["ends"]), what);
            assert_near(&axis.ticks, &numbers(&expected["ticks"]), what);
        };
        for case in of("values") {
            let values = numbers(&case[0]);
            check(Axis::of_values(values[0], values[1]), &case[1], &format!("{values:?}"));
        }
        for case in of("points") {
            let points = numbers(&case[0]);
            check(Axis::of_points(&points), &case[1], &format!("{points:?}"));
        }
    }
}
