//! Query plans on a terminal: the tree of operators, wrapped, and below each operator what it counted and measured.

use std::io::{self, Write};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use super::table::wrapped;
use super::{ResultWriter, Sink, cell};

/// Counters that repeat others, or say nothing about a query.
const LEFT_OUT: &[&str] = &["output_bytes", "output_batches", "start_timestamp", "end_timestamp"];

pub struct PlanWriter<'a> {
    sink: &'a mut Sink,
    width: usize,
}

/// Whether a result is that of EXPLAIN.
pub fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

impl<'a> PlanWriter<'a> {
    pub fn new(sink: &'a mut Sink, width: usize) -> Self {
        PlanWriter { sink, width: width.max(40) }
    }
}

impl ResultWriter for PlanWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cell::columns(batch)?;
        let mut out = String::new();
        for row in 0..batch.num_rows() {
            let (mut title, mut plan) = (String::new(), String::new());
            columns[0].append(row, &mut title);
            columns[1].append(row, &mut plan);
            out.push_str(&format!("── {} ──\n", title.to_lowercase().replace('_', " ")));
            plan.lines().for_each(|line| append_operator(line, self.width, &mut out));
        }
        self.sink.write_all(out.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends one operator, and its counters on lines of their own.
fn append_operator(line: &str, width: usize, out: &mut String) {
    let (operator, metrics) = match line.rsplit_once(", metrics=[") {
        Some((operator, metrics)) => (operator, metrics.trim_end().strip_suffix(']').unwrap_or(metrics)),
        None => (line, ""),
    };
    let mut shown = String::new();
    cell::append_visible(operator, &mut shown);
    for piece in wrapped(shown.trim_end_matches([' ', ',']), width) {
        out.push_str(&piece);
        out.push('\n');
    }
    let indent = " ".repeat(operator.len() - operator.trim_start().len() + 4);
    let counted = counted(metrics);
    if !counted.is_empty() {
        for piece in wrapped(&format!("{indent}{}", counted.join(", ")), width) {
            out.push_str(&piece);
            out.push('\n');
        }
    }
}

/// The counters that are not zero: the rows and the time first, in words.
fn counted(metrics: &str) -> Vec<String> {
    let pairs: Vec<(&str, &str)> = metrics.split(", ").filter_map(|metric| metric.split_once('=')).collect();
    let of = |name: &str| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| *value);
    let rows = of("output_rows").map(|rows| format!("{rows} {}", if rows == "1" { "row" } else { "rows" }));
    let time = of("elapsed_compute").map(str::to_owned);
    let is_told = |name: &str| ["output_rows", "elapsed_compute"].contains(&name) || LEFT_OUT.contains(&name);
    let others = pairs.iter().filter(|(name, value)| !is_told(name) && !is_zero(value));
    rows.into_iter().chain(time).chain(others.map(|(name, value)| format!("{name}={value}"))).collect()
}

fn is_zero(value: &str) -> bool {
    let number = value.trim_end_matches(|last: char| !last.is_ascii_digit());
    number.parse::<f64>() == Ok(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_below_their_operator() {
        let mut out = String::new();
        let line = "  Scan: table=t, columns=[a, b], filter=a@0 < 10, metrics=[output_rows=1, elapsed_compute=3.94µs, \
                    output_bytes=8 B, spill_count=0, spilled_bytes=0.0 B, zones=1.20 K]";
        append_operator(line, 45, &mut out);
        let expected = "  Scan: table=t, columns=[a, b], filter=a@0\n      < 10\n      1 row, 3.94µs, zones=1.20 K\n";
        assert_eq!(out, expected);
        out.clear();
        append_operator("Projection: t.a, metrics=[]", 45, &mut out);
        append_operator("  TableScan: t", 45, &mut out);
        assert_eq!(out, "Projection: t.a\n  TableScan: t\n");
    }
}
