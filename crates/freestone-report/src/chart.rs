//! Charts as inline SVG. Colours are custom properties of the page, so that charts follow the reader's light or dark
//! mode.

use std::fmt::Write;

use crate::findings::{BarGroup, Bars, Lines, Series, significant};
use crate::page::escape;

const BAR_HEIGHT: f64 = 18.0;
const BAR_GAP: f64 = 7.0;
const LABEL_WIDTH: f64 = 118.0;
const VALUE_WIDTH: f64 = 62.0;

/// One small chart per group, in a grid.
pub fn bars(chart: &Bars) -> String {
    let mut out = format!("<figure><figcaption>{}</figcaption><div class=\"grid\">", escape(&chart.title));
    for group in &chart.groups {
        let _ = write!(out, "<div class=\"cell\"><h4>{}</h4>", escape(&group.label));
        if !group.note.is_empty() {
            let _ = write!(out, "<p class=\"note\">{}</p>", escape(&group.note));
        }
        out.push_str(&bar_group(group, (&chart.unit, chart.tie), if chart.groups.len() == 1 { 860.0 } else { 400.0 }));
        out.push_str("</div>");
    }
    out.push_str("</div></figure>");
    out
}

/// A bar that is longer than this multiple of the median is cut, so that the others can be told apart.
const CUT_BEYOND: f64 = 3.0;

/// The value at the right end of a chart.
fn scale_end(group: &BarGroup) -> f64 {
    let mut values: Vec<f64> = group.bars.iter().map(|bar| bar.value).collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let greatest = values.last().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let end = if median > 0.0 { greatest.min(CUT_BEYOND * median) } else { greatest };
    end.max(f64::MIN_POSITIVE)
}

/// Horizontal bars from 0. The smallest and those that are as good are highlighted, and reference values are pale.
fn bar_group(group: &BarGroup, (unit, tie): (&str, f64), width: f64) -> String {
    let end = scale_end(group);
    let compared = group.bars.iter().filter(|bar| !bar.is_reference);
    let least = compared.map(|bar| bar.value).fold(f64::INFINITY, f64::min) * (1.0 + tie);
    let height = group.bars.len() as f64 * (BAR_HEIGHT + BAR_GAP);
    let label = format!("{}, {unit}", group.label);
    let mut out = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(&label));
    for (at, bar) in group.bars.iter().enumerate() {
        let y = at as f64 * (BAR_HEIGHT + BAR_GAP) + BAR_GAP / 2.0;
        let middle = y + BAR_HEIGHT * 0.72;
        let length = ((bar.value / end).min(1.0) * (width - LABEL_WIDTH - VALUE_WIDTH)).max(1.5);
        let class = match bar {
            bar if bar.is_reference => "bar pale",
            bar if bar.value <= least => "bar best",
            _ => "bar",
        };
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LABEL_WIDTH}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{middle:.1}\">{} {}</text>",
            LABEL_WIDTH - 8.0,
            escape(&bar.label),
            LABEL_WIDTH + length + 6.0,
            significant(bar.value),
            escape(unit),
        );
        if bar.value > end {
            // A gap near the end says that the bar is longer than drawn.
            let at = LABEL_WIDTH + length - 24.0;
            let _ = write!(
                out,
                "<path class=\"cut\" d=\"M{:.1} {:.1}l5 -{height:.1}h6l-5 {height:.1}z\"/>",
                at,
                y + BAR_HEIGHT + 1.0,
                height = BAR_HEIGHT + 2.0
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// Lines over common x values, each with its name at its right end.
pub fn lines(chart: &Lines) -> String {
    let plot = Plot::of(chart);
    let mut out = format!(
        "<figure class=\"cell\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
        escape(&chart.title),
        Plot::WIDTH,
        Plot::HEIGHT,
        escape(&chart.title)
    );
    plot.axes(chart, &mut out);
    if let Some((x, name)) = &chart.mark {
        let at = plot.x(*x);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{}\"/>\
             <text class=\"value\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            Plot::TOP,
            Plot::BOTTOM,
            Plot::TOP - 6.0,
            escape(name)
        );
    }
    let places = plot.label_places(chart);
    for (at, series) in chart.series.iter().enumerate() {
        let points = chart.x.iter().zip(&series.values).map(|(x, y)| format!("{:.1},{:.1}", plot.x(*x), plot.y(*y)));
        let points: Vec<String> = points.collect();
        let _ = write!(out, "<polyline class=\"line s{at}\" points=\"{}\"/>", points.join(" "));
        for ((x, value), deviation) in chart.x.iter().zip(&series.values).zip(&series.spread) {
            let [top, bottom] = [value + deviation, (value - deviation).max(plot.y_least)].map(|end| plot.y(end));
            let x = plot.x(*x);
            let _ = write!(
                out,
                "<line class=\"line s{at}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>"
            );
        }
        for (point, value) in points.iter().zip(&series.values) {
            let (x, y) = point.split_once(',').unwrap_or(("0", "0"));
            let title = format!("{}: {}", series.label, significant(*value));
            let _ = write!(
                out,
                "<circle class=\"dot s{at}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"><title>{title}</title></circle>"
            );
        }
        let _ = write!(
            out,
            "<text class=\"label s{at}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            Plot::RIGHT + 8.0,
            places[at] + 4.0,
            escape(&series.label)
        );
    }
    out.push_str("</svg></figure>");
    out
}

/// The scales of a line chart: from 0, or a round number below negative data, to a round number above the data.
struct Plot {
    x_most: f64,
    y_least: f64,
    y_most: f64,
    y_step: f64,
}

impl Plot {
    const WIDTH: f64 = 470.0;
    const HEIGHT: f64 = 270.0;
    const LEFT: f64 = 48.0;
    const RIGHT: f64 = 400.0;
    const TOP: f64 = 26.0;
    const BOTTOM: f64 = 226.0;

    fn of(chart: &Lines) -> Plot {
        let greatest = |values: &[f64]| values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let ends = |series: &Series| -> Vec<f64> {
            let spread = series.spread.iter().copied().chain(std::iter::repeat(0.0));
            series.values.iter().zip(spread).map(|(value, deviation)| value + deviation).collect()
        };
        let y_data = chart.series.iter().map(|series| greatest(&ends(series))).fold(f64::MIN_POSITIVE, f64::max);
        let least = chart.series.iter().flat_map(|series| &series.values).copied().fold(0.0, f64::min);
        let y_step = round_step((y_data - least) / 4.0);
        let y_least = (least / y_step).floor() * y_step;
        Plot { x_most: greatest(&chart.x), y_least, y_most: (y_data / y_step).ceil() * y_step, y_step }
    }

    fn x(&self, value: f64) -> f64 {
        Self::LEFT + value / self.x_most * (Self::RIGHT - Self::LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        Self::BOTTOM - (value - self.y_least) / (self.y_most - self.y_least) * (Self::BOTTOM - Self::TOP)
    }

    fn axes(&self, chart: &Lines, out: &mut String) {
        let [first, last] = [self.y_least, self.y_most].map(|end| (end / self.y_step).round() as i64);
        for step in first..=last {
            let value = step as f64 * self.y_step;
            let y = self.y(value);
            let _ = write!(
                out,
                "<line class=\"rule\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                Self::LEFT,
                Self::RIGHT,
                Self::LEFT - 6.0,
                y + 4.0,
                short(value)
            );
        }
        // Labels that would touch the previous one are omitted.
        let mut free = f64::MIN;
        for value in &chart.x {
            let x = self.x(*value);
            if x >= free {
                let y = Self::BOTTOM + 16.0;
                let _ = write!(
                    out,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                    short(*value)
                );
                free = x + 18.0;
            }
        }
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>",
            (Self::LEFT + Self::RIGHT) / 2.0,
            Self::BOTTOM + 36.0,
            escape(&chart.x_label),
            4,
            12,
            escape(&chart.y_label)
        );
    }

    /// The position of each series' name: at the line's end, moved so that names do not overlap.
    fn label_places(&self, chart: &Lines) -> Vec<f64> {
        let mut order: Vec<(usize, f64)> =
            chart.series.iter().map(|s| self.y(s.values.last().copied().unwrap_or(0.0))).enumerate().collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut places = vec![0.0; order.len()];
        let mut free = f64::MIN;
        for (at, y) in order {
            places[at] = y.max(free);
            free = places[at] + 15.0;
        }
        places
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least * 0.999).unwrap_or(least)
}

fn short(value: f64) -> String {
    if value == value.round() { format!("{value:.0}") } else { significant(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Bar;

    #[test]
    fn one_long_bar_is_cut() {
        let bar = |value| Bar { label: "a".into(), value, is_reference: false };
        let group = BarGroup { label: "q".into(), note: String::new(), bars: [1.0, 2.0, 2.0, 90.0].map(bar).into() };
        assert_eq!(scale_end(&group), 6.0);
        let svg = bars(&Bars { title: "t".into(), unit: "ms".into(), tie: 0.0, groups: vec![group] });
        assert_eq!((svg.matches("\"cut\"").count(), svg.matches("90.0 ms").count()), (1, 1));
    }

    #[test]
    fn the_least_bar_is_set_off_and_references_are_not() {
        let bar = |label: &str, value, is_reference| Bar { label: label.into(), value, is_reference };
        let group = BarGroup {
            label: "size".into(),
            note: String::new(),
            bars: vec![bar("a", 2.0, false), bar("b", 3.0, false), bar("<c>", 1.0, true)],
        };
        let chart = |tie| Bars { title: "t".into(), unit: "MB".into(), tie, groups: vec![group.clone()] };
        assert_eq!(bars(&chart(0.6)).matches("\"bar best\"").count(), 2);
        let svg = bars(&chart(0.0));
        assert_eq!(svg.matches("\"bar best\"").count(), 1);
        assert!(!svg.contains("\"cut\""));
        assert_eq!(svg.matches("\"bar pale\"").count(), 1);
        assert!(svg.contains("&lt;c&gt;") && !svg.contains("<c>"));
    }

    #[test]
    fn lines_stay_inside_the_plot() {
        let series = |values: &[f64]| Series::new("s", values.to_vec());
        let chart = Lines {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            x: vec![1.0, 50.0],
            series: vec![series(&[0.0, 97.0]), series(&[0.5, 96.0])],
            mark: Some((20.0, "here".into())),
        };
        let plot = Plot::of(&chart);
        assert!(plot.y(97.0) >= Plot::TOP && plot.y(0.0) == Plot::BOTTOM && plot.x(50.0) == Plot::RIGHT);
        assert!((plot.label_places(&chart)[0] - plot.label_places(&chart)[1]).abs() >= 14.9);
        assert_eq!(lines(&chart).matches("<polyline").count(), 2);
        let chart = Lines { series: vec![series(&[-30.0, 12.0])], ..chart };
        let plot = Plot::of(&chart);
        assert!(plot.y(-30.0) <= Plot::BOTTOM && plot.y(12.0) >= Plot::TOP && plot.y_least <= -30.0, "negative values");
        assert!(lines(&chart).contains(">-20<") && lines(&chart).contains(">0<"), "{}", lines(&chart));
    }

    /// The cases that the console's page is tested with, too.
    #[test]
    fn steps_are_round() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("formats.json")).expect("valid JSON");
        let steps = cases["round_step"].as_array().expect("cases of steps");
        for (least, step) in steps.iter().filter_map(|case| Some((case[0].as_f64()?, case[1].as_f64()?))) {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}");
        }
        assert!(!steps.is_empty());
    }
}
