//! The results of a run, as data: written as JSON, shown as text by [`crate::terminal`] and as HTML by [`crate::page`].

use serde::{Deserialize, Serialize};

use crate::host::Host;
pub use crate::rules::{significant, thousands};

/// The results of one run of an experiment or of the demo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The experiment's name, as on the command line.
    pub name: String,
    /// The title of the run on the page.
    pub title: String,
    /// The question that the run answers, in a sentence.
    pub question: String,
    /// The origin of the experiment: a paper and its section.
    pub source: String,
    /// The command line that repeats the run.
    pub command: String,
    /// The machine and the build.
    pub host: Host,
    /// The seconds of the whole run.
    pub seconds: f64,
    /// The findings in reading order.
    pub parts: Vec<Part>,
}

impl Findings {
    /// Every check of the run.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.parts.iter().flat_map(|part| match part {
            Part::Checks(checks) => checks.checks.as_slice(),
            _ => &[],
        })
    }
}

/// One part of the findings, in reading order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Part {
    /// A section's title and text.
    Section(Section),
    /// A few large figures.
    Tiles(Tiles),
    /// A table.
    Table(Table),
    /// Bar charts.
    Bars(Bars),
    /// Bars of parts that add up.
    Stacks(Stacks),
    /// A line chart.
    Lines(Lines),
    /// Statements that were confirmed or refuted.
    Checks(Checks),
    /// Text with a fixed width.
    Code(Code),
}

/// A section of the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The text below it.
    pub text: String,
}

/// A few large figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tiles {
    /// The value, and its description.
    pub tiles: Vec<(String, String)>,
}

/// A table with a heading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The number of leading columns with text. The others are numbers, aligned to the right.
    pub text_columns: usize,
    /// The rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table. The best of a row or column may be marked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The text of the cell.
    pub text: String,
    /// Whether it is marked as the best.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best: bool,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), best: false }
    }
}

/// Small adjacent bar charts, one per group, each with a scale of its own. Smaller is better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// The heading.
    pub title: String,
    /// The unit of all values, such as `ms`.
    pub unit: String,
    /// Values that exceed the least by at most this share are as good: 0.1 is a tenth.
    #[serde(default)]
    pub tie: f64,
    /// The charts.
    pub groups: Vec<BarGroup>,
}

/// One bar chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BarGroup {
    /// The name of the chart.
    pub label: String,
    /// A line below the label.
    pub note: String,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The name of the bar.
    pub label: String,
    /// Its length, in the unit of the charts.
    pub value: f64,
    /// A reference value, which is never the best.
    #[serde(default)]
    pub is_reference: bool,
    /// A paper's own figure, which is drawn hollow and never the best.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_published: bool,
}

impl Bar {
    /// A measured bar.
    pub fn new(label: impl Into<String>, value: f64) -> Bar {
        Bar { label: label.into(), value, is_reference: false, is_published: false }
    }

    /// A paper's own figure beside the measured bar of this name.
    pub fn published(label: &str, value: f64) -> Bar {
        Bar { is_published: true, ..Bar::new(format!("{label}{PUBLISHED}"), value) }
    }
}

/// How the name of a paper's own figure ends, after the name of the measured one.
pub(crate) const PUBLISHED: &str = ", published";

/// Small adjacent charts of bars whose parts add up, such as the times of the steps of a scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// The heading.
    pub title: String,
    /// The unit of all values, such as `ms`.
    pub unit: String,
    /// The names of the parts, from left to right.
    pub parts: Vec<String>,
    /// The charts.
    pub groups: Vec<StackGroup>,
}

/// One chart of [`Stacks`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackGroup {
    /// The name of the chart.
    pub label: String,
    /// A line below the label.
    pub note: String,
    /// The bars from top to bottom.
    pub bars: Vec<Stack>,
}

/// A bar of parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// The name of the bar.
    pub label: String,
    /// The length of each part, in the unit of the charts.
    pub values: Vec<f64>,
}

/// A line chart over common x values. Axes begin at 0 unless values are negative, or are logarithmic where positive values span
/// two decades or more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// The heading.
    pub title: String,
    /// The name and unit of the x axis.
    pub x_label: String,
    /// The name and unit of the y axis.
    pub y_label: String,
    /// The common x values, ascending.
    pub x: Vec<f64>,
    /// The lines.
    pub series: Vec<Series>,
    /// A named x value, where two lines cross.
    pub mark: Option<(f64, String)>,
}

/// A line of a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name of the line.
    pub label: String,
    /// One y value per x value.
    pub values: Vec<f64>,
    /// The standard deviation of each value, drawn as an error bar. Empty if it is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<f64>,
    /// Whether these are a paper's own figures, which are drawn with hollow points.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_published: bool,
}

impl Series {
    /// A line without error bars.
    pub fn new(label: impl Into<String>, values: Vec<f64>) -> Series {
        Series { label: label.into(), values, spread: vec![], is_published: false }
    }

    /// A paper's own figures beside the measured line of this name.
    pub fn published(label: &str, values: Vec<f64>) -> Series {
        Series { is_published: true, ..Series::new(format!("{label}{PUBLISHED}"), values) }
    }
}

/// A list of checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// The checks.
    pub checks: Vec<Check>,
}

/// A statement that the run confirmed or refuted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The statement.
    pub statement: String,
    /// Whether it is confirmed.
    pub holds: bool,
    /// The figures that support it.
    pub detail: String,
    /// The section or figure of the paper with the statement. Empty for statements of this project.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The reason why it does not hold here, from measurements. Empty if it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Whether this machine lacks what the measurement needs. The statement is then neither confirmed nor refuted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unmeasured: bool,
}

/// Text with a fixed width, such as a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// The description above the text.
    pub caption: String,
    /// The text.
    pub text: String,
}

impl Part {
    /// A section with a heading and text.
    pub fn section(title: impl Into<String>, text: impl Into<String>) -> Part {
        Part::Section(Section { title: title.into(), text: text.into() })
    }

    /// A list of checks.
    pub fn checks(checks: Vec<Check>) -> Part {
        Part::Checks(Checks { checks })
    }

    /// Text with a fixed width, and its description.
    pub fn code(caption: impl Into<String>, text: impl Into<String>) -> Part {
        Part::Code(Code { caption: caption.into(), text: text.into() })
    }
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, text_columns: usize, header: &[&str]) -> Table {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Table { title: title.into(), header, text_columns, rows: vec![] }
    }

    /// Appends a row.
    pub fn push<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl Check {
    /// A check of a statement of this project.
    pub fn new(statement: impl Into<String>, holds: bool, detail: impl Into<String>) -> Check {
        let (statement, detail) = (statement.into(), detail.into());
        Check { statement, holds, detail, place: String::new(), why: String::new(), is_unmeasured: false }
    }

    /// A statement that cannot be measured here, with the reason.
    pub fn unmeasured(statement: impl Into<String>, reason: impl Into<String>) -> Check {
        Check { is_unmeasured: true, ..Check::new(statement, false, reason) }
    }

    /// Whether the run measured that the statement does not hold.
    pub fn is_refuted(&self) -> bool {
        !self.holds && !self.is_unmeasured
    }

    /// Marks the statement as a paper's, at `place`.
    pub fn claimed(self, place: impl Into<String>) -> Check {
        Check { place: place.into(), ..self }
    }

    /// Adds the reason, if it does not hold.
    pub fn or_because(self, why: impl Into<String>) -> Check {
        if self.is_refuted() { Check { why: why.into(), ..self } } else { self }
    }
}

/// Measured times that differ by at most this share are as good as each other: repeated runs differ by as much.
pub const TIE: f64 = 0.1;

/// `values` as cells of milliseconds, with the smallest and those as good marked.
pub fn milliseconds(values: &[f64]) -> impl Iterator<Item = Cell> + '_ {
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().map(move |value| Cell { text: significant(*value), best: *value <= best * (1.0 + TIE) })
}

/// Bytes in millions.
pub fn megabytes(bytes: u64) -> String {
    format!("{} MB", significant(bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_of_a_row_is_marked() {
        let cells: Vec<Cell> = milliseconds(&[2.0, 1.0, 3.0]).collect();
        assert_eq!(cells.iter().map(|cell| cell.best).collect::<Vec<_>>(), [false, true, false]);
    }
}
