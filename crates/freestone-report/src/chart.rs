//! Charts as inline SVG. Colours are custom properties of the page, so that charts follow the reader's light or dark
//! mode. What the console's charts have in common with them is in [`crate::rules`] and [`crate::axis`].

use std::fmt::Write;

use crate::axis::{Axis, ends};
use crate::csv;
use crate::findings::{Bar, BarGroup, Bars, Lines, PUBLISHED, Series, StackGroup, Stacks};
use crate::page::escape;
use crate::rules::{colour_of_design, significant, strokes, tick};

const BAR_HEIGHT: f64 = 18.0;
const BAR_GAP: f64 = 7.0;
/// The room for names of bars: as much as the longest needs, within limits.
const LABEL_WIDTH: [f64; 2] = [60.0, 200.0];
const VALUE_WIDTH: f64 = 70.0;

/// One small chart per group, in a grid.
pub fn bars(chart: &Bars) -> String {
    let mut out = format!("<figure>{}<div class=\"grid\">", caption(&chart.title, &csv::of_bars(chart)));
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

/// The width of the names at the left of a chart.
fn label_width<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let [least, most] = LABEL_WIDTH;
    (labels.map(chars).fold(0.0, f64::max) * LABEL_CHAR + 10.0).clamp(least, most)
}

/// The name of a bar, which ends left of it. A name that is too long is written more narrowly.
fn bar_label(name: &str, label_width: f64, y: f64, out: &mut String) {
    let room = label_width - 8.0;
    let narrow = match chars(name) * LABEL_CHAR > room + 2.0 {
        true => format!(" textLength=\"{room:.1}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    };
    let _ = write!(
        out,
        "<text class=\"label\" x=\"{room:.1}\" y=\"{y:.1}\" text-anchor=\"end\"{narrow}>{}</text>",
        escape(name)
    );
}

/// Horizontal bars from 0. The smallest and those that are as good are highlighted, reference values are pale, and a paper's own
/// figures are hollow. Bars of storage designs have the colours of their lines.
fn bar_group(group: &BarGroup, (unit, tie): (&str, f64), width: f64) -> String {
    let end = scale_end(group);
    let compared = group.bars.iter().filter(|bar| !bar.is_reference && !bar.is_published);
    let least = compared.map(|bar| bar.value).fold(f64::INFINITY, f64::min) * (1.0 + tie);
    let height = group.bars.len() as f64 * (BAR_HEIGHT + BAR_GAP);
    let label = format!("{}, {unit}", group.label);
    let left = label_width(group.bars.iter().map(|bar| bar.label.as_str()));
    let mut out = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(&label));
    for (at, bar) in group.bars.iter().enumerate() {
        let y = at as f64 * (BAR_HEIGHT + BAR_GAP) + BAR_GAP / 2.0;
        let middle = y + BAR_HEIGHT * 0.72;
        let length = ((bar.value / end).min(1.0) * (width - left - VALUE_WIDTH)).max(1.5);
        let class = bar_class(bar, least);
        bar_label(&bar.label, left, middle, &mut out);
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{middle:.1}\">{} {}</text>",
            left + length + 6.0,
            significant(bar.value),
            escape(unit),
        );
        if bar.value > end {
            // A gap near the end says that the bar is longer than drawn.
            let at = left + length - 24.0;
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

/// The classes of a bar, of which those up to `least` are as good as the best.
fn bar_class(bar: &Bar, least: f64) -> String {
    let kind = match bar {
        bar if bar.is_published => "bar hollow",
        bar if bar.is_reference => "bar pale",
        bar if bar.value <= least => "bar best",
        _ => "bar",
    };
    match colour_of_design(&bar.label) {
        Some(colour) if !bar.is_reference => format!("{kind} design s{colour}"),
        _ => kind.to_owned(),
    }
}

/// The colours of parts, which are none of a design's.
const PARTS: [usize; 3] = [7, 6, 2];

/// Bars of parts that add up, one small chart per group, with the names of the parts above all of them.
pub fn stacks(chart: &Stacks) -> String {
    let mut out = format!("<figure>{}<p class=\"key\">", caption(&chart.title, &csv::of_stacks(chart)));
    for (at, part) in chart.parts.iter().enumerate() {
        let _ = write!(out, "<span class=\"s{}\">{}</span> ", PARTS[at % PARTS.len()], escape(part));
    }
    out.push_str("</p><div class=\"grid\">");
    for group in &chart.groups {
        let _ = write!(out, "<div class=\"cell\"><h4>{}</h4>", escape(&group.label));
        if !group.note.is_empty() {
            let _ = write!(out, "<p class=\"note\">{}</p>", escape(&group.note));
        }
        out.push_str(&stack_group(group, chart));
        out.push_str("</div>");
    }
    out.push_str("</div></figure>");
    out
}

fn stack_group(group: &StackGroup, chart: &Stacks) -> String {
    let width = if chart.groups.len() == 1 { 860.0 } else { 400.0 };
    let [_, most] = ends(group.bars.iter().map(|bar| bar.values.iter().sum()));
    let height = group.bars.len() as f64 * (BAR_HEIGHT + BAR_GAP);
    let left = label_width(group.bars.iter().map(|bar| bar.label.as_str()));
    let scale = (width - left - VALUE_WIDTH) / most.max(f64::MIN_POSITIVE);
    let label = escape(&format!("{}, {}", group.label, chart.unit));
    let mut out = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">");
    for (at, bar) in group.bars.iter().enumerate() {
        let y = at as f64 * (BAR_HEIGHT + BAR_GAP) + BAR_GAP / 2.0;
        let middle = y + BAR_HEIGHT * 0.72;
        bar_label(&bar.label, left, middle, &mut out);
        let mut x = left;
        for (part, value) in bar.values.iter().enumerate() {
            let length = value.max(0.0) * scale;
            let name = chart.parts.get(part).map_or("", String::as_str);
            let _ = write!(
                out,
                "<rect class=\"part s{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\"><title>{}: \
                 {} {}</title></rect>",
                PARTS[part % PARTS.len()],
                escape(name),
                significant(*value),
                escape(&chart.unit)
            );
            x += length;
        }
        let total = significant(bar.values.iter().sum());
        let (x, unit) = (x + 6.0, escape(&chart.unit));
        let _ = write!(out, "<text class=\"value\" x=\"{x:.1}\" y=\"{middle:.1}\">{total} {unit}</text>");
    }
    out.push_str("</svg>");
    out
}

/// Lines over common x values, each with its name at its right end.
pub fn lines(chart: &Lines) -> String {
    let plot = Plot::of(chart);
    let mut out = format!(
        "<figure class=\"cell\">{}<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
        caption(&chart.title, &csv::of_lines(chart)),
        plot.width,
        Plot::HEIGHT,
        escape(&chart.title)
    );
    plot.axes(chart, &mut out);
    if let Some((x, name)) = &chart.mark {
        plot.mark(*x, name, &mut out);
    }
    let places = plot.label_places(chart);
    for ((series, colour), place) in chart.series.iter().zip(colours(&chart.series)).zip(places) {
        plot.series(chart, series, &colour, &mut out);
        for (line, text) in wrapped(&series.label).iter().enumerate() {
            let _ = write!(
                out,
                "<text class=\"label {colour}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                plot.right() + 8.0,
                place + 4.0 + line as f64 * LINE_HEIGHT,
                escape(text)
            );
        }
    }
    out.push_str("</svg></figure>");
    out
}

/// The heading of a chart, with its data as a file.
fn caption(title: &str, csv: &str) -> String {
    let name: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!(
        "<figcaption>{} <a class=\"csv\" download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\">CSV</a></figcaption>",
        escape(title),
        csv::percent_encoded(csv)
    )
}

/// The classes of each line: a design has its colour, and others have what is free. Further lines of one colour are dashed. A
/// paper's own line has the colour of the measured one.
fn colours(series: &[Series]) -> Vec<String> {
    let measured: Vec<Series> = series.iter().filter(|series| !series.is_published).cloned().collect();
    let of_measured = colours_of_measured(&measured);
    let mut next = of_measured.iter();
    let class = |series: &Series| match series.is_published {
        false => next.next().cloned().unwrap_or_default(),
        true => {
            let base = series.label.strip_suffix(PUBLISHED).unwrap_or(&series.label);
            let same = measured.iter().position(|series| series.label == base).map(|at| of_measured[at].clone());
            let colour = same.or_else(|| Some(format!("s{}", colour_of_design(base)?))).unwrap_or("s7".to_owned());
            format!("{} published", colour.split(' ').next().unwrap_or("s7"))
        }
    };
    series.iter().map(class).collect()
}

fn colours_of_measured(series: &[Series]) -> Vec<String> {
    let labels: Vec<&str> = series.iter().map(|series| series.label.as_str()).collect();
    let class = |(colour, stroke): (usize, &str)| match stroke {
        "solid" => format!("s{colour}"),
        _ => format!("s{colour} {stroke}"),
    };
    strokes(&labels).into_iter().map(class).collect()
}

const LINE_HEIGHT: f64 = 15.0;
/// The characters of a line of a series' name.
const LABEL_CHARS: usize = 20;
/// The width of a character of a label, and of a tick: a little more than the average of digits and small letters.
const LABEL_CHAR: f64 = 7.2;
const TICK_CHAR: f64 = 6.8;

/// A series' name in lines.
fn wrapped(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in label.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LABEL_CHARS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn chars(text: &str) -> f64 {
    text.chars().count() as f64
}

/// The scales of a line chart.
struct Plot {
    x: Axis,
    y: Axis,
    width: f64,
    label_width: f64,
}

impl Plot {
    const PLOT: f64 = 352.0;
    const HEIGHT: f64 = 270.0;
    const LEFT: f64 = 52.0;
    const TOP: f64 = 30.0;
    const BOTTOM: f64 = 226.0;

    fn of(chart: &Lines) -> Plot {
        let values = chart.series.iter().flat_map(|series| {
            let spread = series.spread.iter().copied().chain(std::iter::repeat(0.0));
            let upper = series.values.iter().zip(spread).map(|(value, deviation)| value + deviation);
            series.values.iter().copied().chain(upper).collect::<Vec<_>>()
        });
        let [least, most] = ends(values);
        let longest = chart.series.iter().flat_map(|series| wrapped(&series.label)).map(|line| chars(&line));
        let label_width = 14.0 + longest.fold(0.0, f64::max) * LABEL_CHAR;
        let width = Self::LEFT + Self::PLOT + label_width;
        Plot { x: Axis::of_points(&chart.x), y: Axis::of_values(least, most), width, label_width }
    }

    fn right(&self) -> f64 {
        self.width - self.label_width
    }

    fn x(&self, value: f64) -> f64 {
        Self::LEFT + self.x.share(value) * Self::PLOT
    }

    fn y(&self, value: f64) -> f64 {
        Self::BOTTOM - self.y.share(value) * (Self::BOTTOM - Self::TOP)
    }

    fn axes(&self, chart: &Lines, out: &mut String) {
        for value in &self.y.ticks {
            let y = self.y(*value);
            let _ = write!(
                out,
                "<line class=\"rule\" x1=\"{}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                Self::LEFT,
                self.right(),
                Self::LEFT - 6.0,
                y + 4.0,
                tick(*value)
            );
        }
        self.x_ticks(out);
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"tick\" x=\"4\" y=\"12\">{}</text>",
            Self::LEFT + Self::PLOT / 2.0,
            Self::BOTTOM + 36.0,
            escape(&self.x.label(&chart.x_label)),
            escape(&self.y.label(&chart.y_label))
        );
    }

    /// The values at the x axis. A label that would touch the previous or the last one is omitted.
    fn x_ticks(&self, out: &mut String) {
        let half = |value: f64| chars(&tick(value)) * TICK_CHAR / 2.0;
        let last = self.x.ticks.last().copied().unwrap_or(0.0);
        let last_from = self.x(last) - half(last);
        let mut free = f64::MIN;
        for value in &self.x.ticks {
            let (x, half) = (self.x(*value), half(*value));
            if x - half < free || (*value != last && x + half + 6.0 > last_from) {
                continue;
            }
            let (y, text) = (Self::BOTTOM + 16.0, tick(*value));
            let _ = write!(out, "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
            free = x + half + 6.0;
        }
    }

    /// A named x value. The name stays between the unit of the y axis and the right end.
    fn mark(&self, x: f64, name: &str, out: &mut String) {
        let at = self.x(x);
        let half = chars(name) * TICK_CHAR / 2.0;
        let text = at.min(self.width - half).max(Self::LEFT + half);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{}\"/>\
             <text class=\"value\" x=\"{text:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            Self::TOP,
            Self::BOTTOM,
            Self::TOP - 6.0,
            escape(name)
        );
    }

    /// A line with its points and error bars.
    fn series(&self, chart: &Lines, series: &Series, colour: &str, out: &mut String) {
        let known = || chart.x.iter().zip(&series.values).filter(|(_, value)| value.is_finite());
        let points: Vec<String> = known().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        let _ = write!(out, "<polyline class=\"line {colour}\" points=\"{}\"/>", points.join(" "));
        for ((x, value), deviation) in chart.x.iter().zip(&series.values).zip(&series.spread) {
            let [top, bottom] = [value + deviation, (value - deviation).max(self.y.least)].map(|end| self.y(end));
            let x = self.x(*x);
            let (left, right) = (x - 3.0, x + 3.0);
            let _ = write!(
                out,
                "<path class=\"error {colour}\" d=\"M{left:.1} {top:.1}H{right:.1}M{x:.1} {top:.1}V{bottom:.1}M{left:.1} \
                 {bottom:.1}H{right:.1}\"/>"
            );
        }
        for (x, value) in known() {
            let _ = write!(
                out,
                "<circle class=\"dot {colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {}</title></circle>",
                self.x(*x),
                self.y(*value),
                escape(&series.label),
                significant(*value)
            );
        }
    }

    /// The position of each series' name: at the line's end, moved so that names neither overlap nor leave the chart.
    fn label_places(&self, chart: &Lines) -> Vec<f64> {
        let end =
            |series: &Series| series.values.iter().rev().find(|value| value.is_finite()).map_or(0.0, |v| self.y(*v));
        let height = |at: usize| wrapped(&chart.series[at].label).len() as f64 * LINE_HEIGHT;
        let mut order: Vec<(usize, f64)> = chart.series.iter().map(end).enumerate().collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut free = Self::TOP - 12.0;
        for (at, y) in &mut order {
            *y = y.max(free);
            free = *y + height(*at);
        }
        let mut free = Self::HEIGHT - 4.0;
        for (at, y) in order.iter_mut().rev() {
            *y = y.min(free - height(*at));
            free = *y;
        }
        let mut places = vec![0.0; order.len()];
        order.into_iter().for_each(|(at, y)| places[at] = y);
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Bar;

    #[test]
    fn one_long_bar_is_cut() {
        let bar = |value| Bar::new("a", value);
        let group = BarGroup { label: "q".into(), note: String::new(), bars: [1.0, 2.0, 2.0, 90.0].map(bar).into() };
        assert_eq!(scale_end(&group), 6.0);
        let svg = bars(&Bars { title: "t".into(), unit: "ms".into(), tie: 0.0, groups: vec![group] });
        assert_eq!((svg.matches("\"cut\"").count(), svg.matches("90.0 ms").count()), (1, 1));
    }

    #[test]
    fn the_least_bar_is_set_off_and_references_are_not() {
        let bar = |label: &str, value, is_reference| Bar { is_reference, ..Bar::new(label, value) };
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
        assert!(plot.y(97.0) >= Plot::TOP && plot.y(0.0) == Plot::BOTTOM && (plot.x(50.0) - plot.right()).abs() < 1e-9);
        assert!((plot.label_places(&chart)[0] - plot.label_places(&chart)[1]).abs() >= 14.9);
        assert_eq!(lines(&chart).matches("<polyline").count(), 2);
        let chart = Lines { series: vec![series(&[-30.0, 12.0])], ..chart };
        let plot = Plot::of(&chart);
        assert!(plot.y(-30.0) <= Plot::BOTTOM && plot.y(12.0) >= Plot::TOP && plot.y.least <= -30.0, "negative values");
        assert!(lines(&chart).contains(">-20<") && lines(&chart).contains(">0<"), "{}", lines(&chart));
    }

    fn chart(x: &[f64], series: Vec<Series>) -> Lines {
        let [title, x_label, y_label] = ["t", "x", "y"].map(str::to_owned);
        Lines { title, x_label, y_label, x: x.to_vec(), series, mark: None }
    }

    #[test]
    fn values_that_span_decades_have_logarithmic_axes() {
        let narrow = chart(&[1.0, 10.0], vec![Series::new("a", vec![1.0, 99.0])]);
        assert!(!Plot::of(&narrow).x.is_logarithmic && !Plot::of(&narrow).y.is_logarithmic);
        let wide = chart(&[10.0, 100.0, 1000.0], vec![Series::new("a", vec![0.02, 1.0, 40.0])]);
        let plot = Plot::of(&wide);
        assert_eq!(
            plot.y.ticks.iter().map(|value| tick(*value)).collect::<Vec<_>>(),
            ["0.01", "0.1", "1", "10", "100"]
        );
        assert!((plot.x(100.0) - (plot.x(10.0) + plot.x(1000.0)) / 2.0).abs() < 1e-9, "powers have equal distances");
        assert!(lines(&wide).contains("x (logarithmic)") && lines(&wide).contains("y (logarithmic)"));
        let dense = chart(&[1.0, 90.0, 98.0, 100.0], vec![Series::new("a", vec![1.0; 4])]);
        assert!(lines(&dense).contains(">100<") && !lines(&dense).contains(">98<"), "the last point has its value");
        let from_zero = chart(&[0.0, 1000.0], vec![Series::new("a", vec![0.0, 1000.0])]);
        assert!(!Plot::of(&from_zero).x.is_logarithmic && !Plot::of(&from_zero).y.is_logarithmic);
    }

    #[test]
    fn names_of_lines_neither_overlap_nor_leave_the_chart() {
        let names = ["table in the pool, whole row", "its tree alone, place of the row", "a", "b", "c", "d", "e", "f"];
        let chart = chart(&[1.0, 2.0], names.map(|name| Series::new(name, vec![1.0, 0.0])).into());
        let plot = Plot::of(&chart);
        let heights = chart.series.iter().map(|series| wrapped(&series.label).len() as f64 * LINE_HEIGHT);
        let mut places: Vec<(f64, f64)> = plot.label_places(&chart).into_iter().zip(heights).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0 + 1e-9), "{places:?}");
        assert!(places.iter().all(|(y, height)| *y > 0.0 && y + height <= Plot::HEIGHT), "{places:?}");
        assert!(names.iter().flat_map(|name| wrapped(name)).all(|line| chars(&line) <= LABEL_CHARS as f64));
    }

    #[test]
    fn a_design_has_one_colour_in_every_chart() {
        let classes =
            |names: &[&str]| colours(&names.iter().map(|name| Series::new(*name, vec![])).collect::<Vec<_>>());
        assert_eq!(classes(&["slotted", "row", "column"]), ["s5", "s0", "s1"]);
        assert_eq!(classes(&["column", "row", "column plain", "peer"]), ["s1", "s0", "s1 dashed", "s2"]);
        let many = classes(&(0..16).map(|_| "peer").collect::<Vec<_>>());
        assert_eq!((many[0].as_str(), many[8].as_str()), ("s0", "s0 dashed"), "further series can be told apart");
    }

    #[test]
    fn published_figures_have_the_colours_of_ours_and_are_hollow() {
        let series = [
            Series::new("peer", vec![1.0, 2.0]),
            Series::new("row", vec![2.0, 2.0]),
            Series::published("peer", vec![1.0, 3.0]),
            Series::published("row", vec![3.0, 2.0]),
            Series::published("column", vec![3.0, 2.0]),
        ];
        let classes = colours(&series);
        assert_eq!(classes, ["s1", "s0", "s1 published", "s0 published", "s1 published"]);
        let svg = lines(&chart(&[1.0, 2.0], series.into()));
        assert_eq!(svg.matches("class=\"dot s1 published\"").count(), 4, "{svg}");
        assert!(svg.contains("published</text>"), "{svg}");
        let bars_of = |bars| BarGroup { label: "size".into(), note: String::new(), bars };
        let group = bars_of(vec![Bar::new("row", 2.0), Bar::new("peer", 1.5), Bar::published("row", 1.0)]);
        let svg = bars(&Bars { title: "t".into(), unit: "B".into(), tie: 0.0, groups: vec![group] });
        assert!(
            svg.contains("\"bar design s0\"")
                && svg.contains("\"bar best\"")
                && svg.contains("\"bar hollow design s0\""),
            "{svg}"
        );
    }

    #[test]
    fn parts_of_a_stack_add_up() {
        let bar = |label: &str, values: &[f64]| crate::findings::Stack { label: label.into(), values: values.to_vec() };
        let groups = vec![StackGroup {
            label: "q".into(),
            note: String::new(),
            bars: vec![bar("row", &[1.0, 2.0]), bar("column", &[0.5, 0.25])],
        }];
        let chart =
            Stacks { title: "t".into(), unit: "ms".into(), parts: vec!["disk".into(), "<rest>".into()], groups };
        let svg = stacks(&chart);
        assert_eq!(svg.matches("<rect class=\"part").count(), 4);
        assert!(svg.contains(">3.00 ms<") && svg.contains(">0.750 ms<") && svg.contains("&lt;rest&gt;"), "{svg}");
    }
}
