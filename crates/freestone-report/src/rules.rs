//! The rules of charts: which design has which colour, how numbers are written, and where axes begin, end and have ticks.
//! They are data, `charts.json`, which the console's page reads, too. Both are tested with the cases of `charts.cases.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The rules of both.
pub(crate) static RULES: LazyLock<Rules> =
    LazyLock::new(|| serde_json::from_str(include_str!("charts.json")).expect("the rules of charts are complete"));

/// The content of `charts.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    /// The number of colours for series: `--s0` and so on.
    pub series: usize,
    /// Words that name a design, with its colour.
    designs: BTreeMap<String, usize>,
    /// The strokes of the first, second and further lines of one colour.
    pub strokes: [String; 3],
    /// Figures below a size have this number of decimals; larger ones have none.
    decimals: [(f64, u32); 3],
    /// From a size on, ticks are divided and get a unit; the largest size first.
    units: [(f64, f64, String); 3],
    /// Ticks below this size are written as powers of ten.
    tiny: f64,
    /// The steps between ticks, times a power of ten.
    pub steps: [f64; 4],
    /// The number of steps of an axis, about.
    pub ticks: f64,
    /// Positive values whose greatest is at least this multiple of their least have a logarithmic axis.
    pub decades: f64,
    /// What the name of such an axis ends in.
    pub logarithmic: String,
}

/// The colour that a storage design has in every chart: of a label that begins with its name.
pub(crate) fn colour_of_design(label: &str) -> Option<usize> {
    let first = label.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    RULES.designs.get(first).copied()
}

/// The colour and the stroke of each series: a design has its colour, and others have what is free. Further series of one colour
/// have other strokes.
pub(crate) fn strokes(labels: &[&str]) -> Vec<(usize, &'static str)> {
    let designs: Vec<Option<usize>> = labels.iter().map(|label| colour_of_design(label)).collect();
    let mut free = (0..RULES.series).filter(|colour| !designs.contains(&Some(*colour))).cycle();
    let mut used = vec![0; RULES.series];
    let stroke = |design: Option<usize>| {
        let colour = design.or_else(|| free.next()).unwrap_or(0);
        used[colour] += 1;
        (colour, RULES.strokes[used[colour].min(RULES.strokes.len()) - 1].as_str())
    };
    designs.iter().copied().map(stroke).collect()
}

/// A number with about three significant digits and separators of thousands.
pub fn significant(value: f64) -> String {
    let size = value.abs();
    let decimals = RULES.decimals.iter().find(|(below, _)| size < *below);
    match decimals {
        _ if !value.is_finite() => value.to_string(),
        _ if size == 0.0 => "0".into(),
        Some((_, decimals)) => fixed(value, *decimals),
        None => thousands(value.round() as i128),
    }
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: impl Into<i128>) -> String {
    let number: i128 = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// The value of a tick: `0.05`, `200`, `20 k`, `1 M`.
pub(crate) fn tick(value: f64) -> String {
    let size = value.abs();
    match RULES.units.iter().find(|(from, ..)| size >= *from) {
        Some((_, divisor, unit)) => format!("{} {unit}", trimmed(value / divisor)),
        None if size > 0.0 && size < RULES.tiny => format!("{value:.0e}"),
        None => trimmed(value),
    }
}

/// Three significant digits without zeros at the end.
fn trimmed(value: f64) -> String {
    if value == value.round() {
        return format!("{value:.0}");
    }
    let text = significant(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Decimals, with halves away from zero. Formatting would round those that binary fractions hold exactly to even digits, and
/// JavaScript does not.
fn fixed(value: f64, decimals: u32) -> String {
    let scale = 10u64.pow(decimals);
    let units = (value.abs() * scale as f64).round() as u64;
    let sign = if value < 0.0 && units > 0 { "-" } else { "" };
    format!("{sign}{}.{:02$}", units / scale, units % scale, decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that the console's page is tested with, too.
    #[test]
    fn numbers_and_colours_are_those_of_the_console() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("charts.cases.json")).expect("valid JSON");
        let of = |name: &str| cases[name].as_array().cloned().expect("cases of each rule");
        for case in of("numbers") {
            let value = case[0].as_f64().expect("a number");
            assert_eq!(
                (significant(value).as_str(), tick(value).as_str()),
                (text(&case[1]), text(&case[2])),
                "{value}"
            );
        }
        for case in of("thousands") {
            assert_eq!(thousands(case[0].as_i64().expect("a number")), text(&case[1]));
        }
        for case in of("strokes") {
            let labels: Vec<&str> = case[0].as_array().expect("labels").iter().map(text).collect();
            let found: Vec<String> = strokes(&labels).iter().map(|(colour, name)| format!("{colour} {name}")).collect();
            let expected: Vec<&str> = case[1].as_array().expect("strokes").iter().map(text).collect();
            assert_eq!(found, expected, "{labels:?}");
        }
    }

    fn text(value: &serde_json::Value) -> &str {
        value.as_str().expect("a text")
    }

    #[test]
    fn what_is_no_number_is_written_as_such() {
        assert_eq!((significant(f64::NAN), significant(f64::INFINITY)), ("NaN".into(), "inf".into()));
    }
}
