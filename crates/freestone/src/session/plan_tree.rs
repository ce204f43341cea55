//! A query's plan for people and for tools: a tree of operators with the rows that were expected of them, and for a plan
//! that ran with the rows and the time that they took.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use serde_json::{Map, Value, json};

use crate::cluster::{RemoteExec, TaskReport};
use crate::error::in_sql;
use crate::fusion::{PipelineExec, exchanged};
use crate::internal_names::shown;
use crate::optimizer::join_order;
use crate::provider::FreestoneSource;

/// The columns of a line of a tree: with the frame and the first column of a result, 100.
const WIDTH: usize = 80;
/// The least columns of a line's text, however deep its operator is.
const SHORTEST: usize = 12;
/// The most bytes of an operator's description, and of a scan's condition.
const DETAILS_MAX: usize = 600;
const CONDITION_MAX: usize = 10_000;
/// Counters that repeat others, or say nothing of a query.
const LEFT_OUT: [&str; 8] = [
    "output_rows",
    "elapsed_compute",
    "output_bytes",
    "output_batches",
    "start_timestamp",
    "end_timestamp",
    "time_elapsed_opening",
    "time_elapsed_scanning_total",
];

/// An operator of a plan.
#[derive(Debug)]
pub(crate) struct Operator {
    name: String,
    details: String,
    scan: Option<Scan>,
    /// The rows that were expected.
    expected: Option<usize>,
    /// The rows that it passed on, and the time of all its threads.
    rows: Option<u64>,
    time: Option<Duration>,
    /// What else it counted.
    counters: Vec<Counter>,
    children: Vec<Operator>,
}

/// What a scan of a native table reads.
#[derive(Debug)]
struct Scan {
    table: String,
    copy: Option<String>,
    columns: Vec<String>,
    condition: Option<String>,
}

impl Scan {
    fn of(source: &FreestoneSource) -> Scan {
        Scan {
            table: shown(&source.named_table().name),
            copy: source.copy_name().map(str::to_owned),
            columns: source.column_names().into_iter().map(str::to_owned).collect(),
            condition: source.condition().map(|text| cut(without_positions(&in_sql(&text)), CONDITION_MAX)),
        }
    }
}

/// A counter, as text, and as a number where it is not a time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counter {
    name: String,
    text: String,
    number: Option<usize>,
}

impl Operator {
    /// The operators of a plan. Nodes that only move rows between threads are left out, and an aggregation in two steps
    /// is one. `ran`: whether it counted anything.
    ///
    /// # Errors
    /// Statistics cannot be read.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, ran: bool) -> Result<Operator> {
        let mut root = operator(plan, None)?;
        if !ran {
            root.forget_run();
        }
        Ok(root)
    }

    /// What a plan counts that did not run.
    fn forget_run(&mut self) {
        (self.rows, self.time) = (None, None);
        self.counters.retain(|counter| counter.text != "0");
        self.children.iter_mut().for_each(Operator::forget_run);
    }

    /// A tree in lines of at most 80 columns. `took`: the time of the whole run.
    pub fn tree(&self, took: Option<Duration>) -> String {
        let mut out = String::new();
        let all: Duration = self.total();
        if let Some(took) = took {
            let share = format!("{} of its threads", shown_time(all));
            out.push_str(&format!("total {}, {share}\n", shown_time(took)));
        }
        self.append("", "", all, &mut out);
        out
    }

    /// The same as JSON, with the names of PostgreSQL's EXPLAIN (FORMAT JSON), which tools read.
    pub fn json(&self, took: Option<Duration>) -> String {
        let mut all = Map::from_iter([("Plan".to_owned(), self.json_node())]);
        if let Some(took) = took {
            all.insert("Execution Time".to_owned(), json!(took.as_secs_f64() * 1e3));
        }
        format!("{:#}", json!([all]))
    }

    /// The time of all operators.
    fn total(&self) -> Duration {
        self.time.unwrap_or_default() + self.children.iter().map(Operator::total).sum::<Duration>()
    }

    fn append(&self, first: &str, rest: &str, all: Duration, out: &mut String) {
        let title =
            if self.details.is_empty() { self.name.clone() } else { format!("{}: {}", self.name, self.details) };
        let below = if self.children.is_empty() { "    " } else { "│   " };
        let after = format!("{rest}{below}");
        append_wrapped(&title, first, &after, out);
        let measures = self.measures(all);
        if !measures.is_empty() {
            append_wrapped(&measures, &after, &after, out);
        }
        for (at, child) in self.children.iter().enumerate() {
            let is_last = at + 1 == self.children.len();
            let (branch, line) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.append(&format!("{rest}{branch}"), &format!("{rest}{line}"), all, out);
        }
    }

    /// The rows, expected and counted, the time with its share, and the counters.
    fn measures(&self, all: Duration) -> String {
        let mut parts = vec![];
        let expected = self.expected.map(|rows| format!("{rows} expected"));
        match (self.rows, expected) {
            (Some(rows), Some(expected)) => parts.push(format!("{} ({expected})", counted(rows))),
            (Some(rows), None) => parts.push(counted(rows)),
            (None, Some(expected)) => parts.push(format!("rows: {expected}")),
            (None, None) => {}
        }
        if let Some(time) = self.time {
            let share = time.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE) * 100.0;
            parts.push(format!("{}, {share:.0} %", shown_time(time)));
        }
        parts.extend(self.counters.iter().map(|counter| format!("{}={}", counter.name, counter.text)));
        parts.join(", ")
    }

    fn json_node(&self) -> Value {
        let mut node = Map::from_iter([("Node Type".to_owned(), json!(self.name))]);
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                node.insert(name.to_owned(), value);
            }
        };
        let scan = self.scan.as_ref();
        put("Relation Name", scan.map(|scan| json!(scan.table)));
        put("Copy", scan.and_then(|scan| scan.copy.as_ref()).map(|copy| json!(copy)));
        put("Columns", scan.map(|scan| json!(scan.columns)));
        put("Filter", scan.and_then(|scan| scan.condition.as_ref()).map(|condition| json!(condition)));
        put("Details", (!self.details.is_empty()).then(|| json!(self.details)));
        put("Plan Rows", self.expected.map(|rows| json!(rows)));
        put("Actual Rows", self.rows.map(|rows| json!(rows)));
        put("Actual Loops", self.rows.map(|_| json!(1)));
        put("Actual Total Time", self.time.map(|_| json!(self.total().as_secs_f64() * 1e3)));
        put("Own Time", self.time.map(|time| json!(time.as_secs_f64() * 1e3)));
        let value = |counter: &Counter| counter.number.map_or_else(|| json!(counter.text), |number| json!(number));
        let counters = self.counters.iter().map(|counter| (counter.name.clone(), value(counter)));
        put("Counters", (!self.counters.is_empty()).then(|| Value::Object(counters.collect())));
        let children: Vec<Value> = self.children.iter().map(Operator::json_node).collect();
        put("Plans", (!children.is_empty()).then_some(Value::Array(children)));
        Value::Object(node)
    }
}

/// The rows that a node is expected to give, if that is known.
///
/// # Errors
/// Statistics cannot be read.
pub(super) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<usize>> {
    if let Some(rows) = join_order::expected_rows(plan)? {
        return Ok(Some(rows as usize));
    }
    Ok(StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?.num_rows.get_value().copied())
}

fn operator(plan: &Arc<dyn ExecutionPlan>, fused: Option<&PipelineExec>) -> Result<Operator> {
    if let Some(fused) = plan.downcast_ref::<PipelineExec>() {
        return operator(fused.planned(), Some(fused));
    }
    // An input of a fused part runs by itself.
    if let Some(input) = fused.and_then(|fused| fused.input_for(plan)).filter(|input| !Arc::ptr_eq(input, plan)) {
        return operator(input, None);
    }
    if let Some(input) = moved(plan) {
        return operator(input, fused);
    }
    if let Some(remote) = plan.downcast_ref::<RemoteExec>() {
        return remote_stage(plan, remote);
    }
    let line = DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string();
    let (kind, details) = line.trim_end().split_once(": ").unwrap_or((line.trim_end(), ""));
    let source = FreestoneSource::of(plan);
    let meter = fused.and_then(PipelineExec::meters).and_then(|meters| meters.of(plan));
    let metrics = plan.metrics().map(|metrics| metrics.aggregate_by_name());
    let own = metrics.as_ref().filter(|_| fused.is_none());
    let rows = meter.map(|meter| meter.rows()).or_else(|| Some(own?.output_rows()? as u64));
    let time = meter.map(|meter| meter.time());
    let time = time.or_else(|| Some(Duration::from_nanos(own?.elapsed_compute()? as u64)));
    let metrics = metrics.iter().flat_map(|metrics| metrics.iter());
    let mut counters: Vec<_> = metrics.filter_map(|metric| counter(metric.value())).collect();
    counters.sort();
    let children = inputs(plan).into_iter().map(|child| operator(child, fused)).collect::<Result<_>>()?;
    let expected = expected_rows(plan)?;
    Ok(Operator {
        name: name(plan, kind),
        details: described(details),
        scan: source.map(Scan::of),
        expected,
        rows,
        time,
        counters,
        children,
    })
}

/// A stage that workers run: its operators as they are planned, and each task.
fn remote_stage(plan: &Arc<dyn ExecutionPlan>, remote: &RemoteExec) -> Result<Operator> {
    let line = DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string();
    let details = line.trim_end().split_once(": ").map_or("", |(_, details)| details);
    let mut stage = operator(remote.stage(), None)?;
    stage.forget_run();
    let tasks = remote.reports().iter().map(task_operator);
    let rows = plan.metrics().and_then(|metrics| metrics.output_rows());
    Ok(Operator {
        name: "Distributed".to_owned(),
        details: described(details),
        scan: None,
        expected: None,
        rows: rows.map(|rows| rows as u64),
        time: None,
        counters: vec![],
        children: tasks.chain([stage]).collect(),
    })
}

/// A task that has run.
fn task_operator(task: &TaskReport) -> Operator {
    let place = task.worker.as_deref().unwrap_or("this server");
    let note = task.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    Operator {
        name: "Task".to_owned(),
        details: format!("{place}{note}"),
        scan: None,
        expected: None,
        rows: Some(task.rows as u64),
        time: None,
        counters: vec![
            Counter { name: "parts".to_owned(), text: task.parts.to_string(), number: Some(task.parts) },
            Counter { name: "took".to_owned(), text: shown_time(task.time), number: None },
        ],
        children: vec![],
    }
}

/// The input of a node that moves rows between threads, or merges what the node below has sorted.
fn moved(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let merge = plan.downcast_ref::<SortPreservingMergeExec>().map(SortPreservingMergeExec::input);
    merge.filter(|input| input.is::<SortExec>()).or_else(|| exchanged(plan))
}

/// The inputs of a node: of the last step of an aggregation, those of the first one.
fn inputs(plan: &Arc<dyn ExecutionPlan>) -> Vec<&Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    let is_last = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned));
    let Some(mut below) = children.first().copied().filter(|_| is_last) else { return children };
    while let Some(input) = moved(below) {
        below = input;
    }
    match below.downcast_ref::<AggregateExec>() {
        Some(first) => vec![first.input()],
        None => children,
    }
}

/// The name of an operator in words.
fn name(plan: &Arc<dyn ExecutionPlan>, kind: &str) -> String {
    match plan.name() {
        "DataSourceExec" => "Scan".to_owned(),
        "SortPreservingMergeExec" => "Merge".to_owned(),
        "BoundedWindowAggExec" | "WindowAggExec" | "DividedWindowsExec" => "Window".to_owned(),
        "PlaceholderRowExec" => "One row".to_owned(),
        "GlobalLimitExec" | "LocalLimitExec" => "Limit".to_owned(),
        _ => in_words(kind.strip_suffix("Exec").unwrap_or(kind)),
    }
}

/// `HashJoin` → `Hash join`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_ascii_uppercase() {
            words.push(' ');
            words.push(letter.to_ascii_lowercase());
        } else {
            words.push(letter);
        }
    }
    words
}

/// A node's description as SQL is written, without the positions of columns and without what only moves rows, and not too
/// long.
fn described(details: &str) -> String {
    const OF_THREADS: [&str; 2] = ["mode=", "preserve_partitioning="];
    let parts = details.split(", ").filter(|part| !OF_THREADS.iter().any(|prefix| part.starts_with(prefix)));
    let parts: Vec<&str> = parts.collect();
    cut(without_positions(&in_sql(&parts.join(", "))), DETAILS_MAX)
}

/// A text of at most this number of bytes, with a mark where the rest was.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// `a@0 > 1` → `a > 1`, outside of quotes.
fn without_positions(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(letter) = chars.next() {
        quoted ^= letter == '\'';
        let follows_name = shown.ends_with(|before: char| before.is_alphanumeric() || "_)\"*".contains(before));
        if letter == '@' && !quoted && follows_name && chars.peek().is_some_and(char::is_ascii_digit) {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A counter: one that is not zero, or of parts of a table.
fn counter(value: &MetricValue) -> Option<Counter> {
    let is_of_table =
        ["segments", "zones", "pages", "bytes", "rows", "values"].iter().any(|part| value.name().starts_with(part));
    let is_told = LEFT_OUT.contains(&value.name())
        || value.name().ends_with("_eval_time")
        || value.as_usize() == 0 && !is_of_table;
    let is_number = matches!(
        value,
        MetricValue::Count { .. }
            | MetricValue::Gauge { .. }
            | MetricValue::SpillCount(_)
            | MetricValue::SpilledBytes(_)
            | MetricValue::SpilledRows(_)
            | MetricValue::CurrentMemoryUsage(_)
    );
    let number = is_number.then(|| value.as_usize());
    (!is_told).then(|| Counter { name: value.name().to_owned(), text: value.to_string(), number })
}

fn counted(rows: u64) -> String {
    format!("{rows} {}", if rows == 1 { "row" } else { "rows" })
}

fn shown_time(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        _ if millis >= 1e4 => format!("{:.1} s", millis / 1e3),
        _ if millis >= 10.0 => format!("{millis:.0} ms"),
        _ if millis >= 0.1 => format!("{millis:.1} ms"),
        _ => format!("{:.0} µs", millis * 1e3),
    }
}

/// Appends a text in lines, which break between words.
fn append_wrapped(text: &str, first: &str, rest: &str, out: &mut String) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let used = line.chars().count();
            let room = match is_empty {
                true => WIDTH.saturating_sub(used).max(SHORTEST),
                false => WIDTH.saturating_sub(used + 1),
            };
            if word.chars().count() <= room {
                if !is_empty {
                    line.push(' ');
                }
                line.push_str(word);
                is_empty = false;
                break;
            }
            if is_empty {
                // A word that is longer than a line.
                let end = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
                line.push_str(&word[..end]);
                word = &word[end..];
            }
            out.push_str(line.trim_end());
            out.push('\n');
            line = rest.to_owned();
            is_empty = true;
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// The formats of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Tree,
    Json,
}

impl Format {
    /// The text of a plan, which ran if `took` says so.
    ///
    /// # Errors
    /// As for [`Operator::of`].
    pub fn show(self, plan: &Arc<dyn ExecutionPlan>, took: Option<Duration>) -> Result<String> {
        let operator = Operator::of(plan, took.is_some())
            .map_err(|error| internal_datafusion_err!("the plan cannot be shown: {error}"))?;
        Ok(match self {
            Format::Tree => operator.tree(took),
            Format::Json => operator.json(took),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str, details: &str) -> Operator {
        Operator {
            name: name.to_owned(),
            details: details.to_owned(),
            scan: None,
            expected: Some(10),
            rows: Some(1),
            time: Some(Duration::from_micros(1500)),
            counters: vec![Counter { name: "zones".to_owned(), text: "2.20 M".to_owned(), number: Some(2_200_345) }],
            children: vec![],
        }
    }

    #[test]
    fn a_tree_has_short_lines() {
        let children = vec![leaf("Scan", "table=t"), leaf("Scan", &format!("{} end", "x".repeat(200)))];
        let root = Operator { children, counters: vec![], ..leaf("Hash join", "on a = b") };
        let tree = root.tree(Some(Duration::from_millis(2)));
        assert!(tree.lines().all(|line| line.chars().count() <= WIDTH), "{tree}");
        let mut lines = tree.lines();
        assert_eq!(lines.next(), Some("total 2.0 ms, 4.5 ms of its threads"));
        assert_eq!(lines.next(), Some("Hash join: on a = b"));
        assert_eq!(lines.next(), Some("│   1 row (10 expected), 1.5 ms, 33 %"));
        assert_eq!(lines.next(), Some("├─ Scan: table=t"));
        assert_eq!(lines.next(), Some("│      1 row (10 expected), 1.5 ms, 33 %, zones=2.20 M"));
        let json: Value = serde_json::from_str(&root.json(None)).expect("JSON");
        assert_eq!(json[0]["Plan"]["Plans"][1]["Actual Rows"], 1);
        assert_eq!(json[0]["Plan"]["Plans"][1]["Counters"]["zones"], 2_200_345);
        assert!(json[0].get("Execution Time").is_none());
    }

    #[test]
    fn names_and_columns_are_those_of_sql() {
        assert_eq!(in_words("NestedLoopJoin"), "Nested loop join");
        assert_eq!(
            without_positions("a@0 > 1 AND b = 'c@2' AND sum(x)@12 < \"y\"@3"),
            "a > 1 AND b = 'c@2' AND sum(x) < \"y\""
        );
    }
}
