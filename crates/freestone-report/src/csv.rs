//! The data of charts as CSV.

use std::fmt::Write;

use crate::findings::{Bars, Lines, Stacks};

/// A field, in quotes if it needs them.
fn field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let fields: Vec<String> = fields.map(field).collect();
    format!("{}\n", fields.join(","))
}

/// A line per point: the x value, then each series, followed by its standard deviation if that is known.
pub fn of_lines(chart: &Lines) -> String {
    let mut names = vec![chart.x_label.clone()];
    for series in &chart.series {
        names.push(format!("{}, {}", series.label, chart.y_label));
        if !series.spread.is_empty() {
            names.push(format!("{}, standard deviation", series.label));
        }
    }
    let mut out = line(names.iter().map(String::as_str));
    for (at, x) in chart.x.iter().enumerate() {
        let _ = write!(out, "{x}");
        for series in &chart.series {
            let spread = if series.spread.is_empty() { None } else { Some(series.spread.get(at)) };
            for value in [Some(series.values.get(at)), spread].into_iter().flatten() {
                out.push(',');
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    let _ = write!(out, "{value}");
                }
            }
        }
        out.push('\n');
    }
    out
}

/// A line per bar.
pub fn of_bars(chart: &Bars) -> String {
    let mut out = line(["chart", "bar", &chart.unit].into_iter());
    for group in &chart.groups {
        for bar in &group.bars {
            out.push_str(&line([group.label.as_str(), &bar.label, &bar.value.to_string()].into_iter()));
        }
    }
    out
}

/// A line per bar with a field per part.
pub fn of_stacks(chart: &Stacks) -> String {
    let names = chart.parts.iter().map(|part| format!("{part}, {}", chart.unit)).collect::<Vec<_>>();
    let mut out = line(["chart", "bar"].into_iter().chain(names.iter().map(String::as_str)));
    for group in &chart.groups {
        for bar in &group.bars {
            let values: Vec<String> = bar.values.iter().map(f64::to_string).collect();
            let texts = [group.label.as_str(), bar.label.as_str()].into_iter();
            out.push_str(&line(texts.chain(values.iter().map(String::as_str))));
        }
    }
    out
}

/// `text` as part of a URI.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Bar, BarGroup, Series, Stack, StackGroup};

    #[test]
    fn points_are_lines_with_deviations_where_they_are_known() {
        let row = Series { spread: vec![0.5, 0.25], ..Series::new("row, \"old\"", vec![1.0, 2.0]) };
        let chart = Lines {
            title: "t".into(),
            x_label: "bytes".into(),
            y_label: "ms".into(),
            x: vec![4.0, 8.0],
            series: vec![row, Series::new("column", vec![3.5, f64::NAN])],
            mark: None,
        };
        let expected = "bytes,\"row, \"\"old\"\", ms\",\"row, \"\"old\"\", standard deviation\",\"column, ms\"\n4,1,0.5,3.5\n8,2,0.25,\n";
        assert_eq!(of_lines(&chart), expected);
    }

    #[test]
    fn bars_and_stacks_are_lines() {
        let bar = Bar::new("row", 1.5);
        let group = BarGroup { label: "q".into(), note: String::new(), bars: vec![bar] };
        let chart = Bars { title: "t".into(), unit: "ms".into(), tie: 0.0, groups: vec![group] };
        assert_eq!(of_bars(&chart), "chart,bar,ms\nq,row,1.5\n");
        let bars = vec![Stack { label: "row".into(), values: vec![1.0, 0.5] }];
        let groups = vec![StackGroup { label: "q".into(), note: String::new(), bars }];
        let parts = vec!["disk".into(), "rest".into()];
        let chart = Stacks { title: "t".into(), unit: "ms".into(), parts, groups };
        assert_eq!(of_stacks(&chart), "chart,bar,\"disk, ms\",\"rest, ms\"\nq,row,1,0.5\n");
    }

    #[test]
    fn all_but_plain_characters_are_encoded() {
        assert_eq!(percent_encoded("a,b\n\"ü\""), "a%2Cb%0A%22%C3%BC%22");
    }
}
