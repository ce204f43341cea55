//! Advice as text: a verdict, a table of finalists, a table of queries, the statement.

use std::fmt;

use super::{Advice, CopyAdvice, Proposal, QueryCost};

/// The maximum number of queries to show. The JSON form has all.
const QUERIES: usize = 20;
const NAME_WIDTH: usize = 48;

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.keep { "keep the current design" } else { "convert" };
        writeln!(f, "table {}: {verdict}", self.table)?;
        if let Some(statements) = self.designs.first().and_then(|best| best.statements) {
            let share = 100.0 * statements.scans_ms / statements.now_ms;
            let change = change(statements.now_ms, statements.then_ms);
            writeln!(
                f,
                "whole statements in design 1: predicted {change}; scans of this table are {share:.0} % of them now"
            )?;
        }
        writeln!(f, "{}", self.reason)?;
        if let Some(confirmed) = &self.confirmed {
            let error = confirmed.model_error.map_or("unknown".into(), |e| format!("{:.0} % (median)", e * 100.0));
            writeln!(f, "{} designs measured on a sample; the model's error: {error}", confirmed.designs)?;
        }
        writeln!(f)?;
        finalists(self).print(f)?;
        writeln!(f)?;
        designs(f, self)?;
        if let Some(best) = self.designs.first() {
            writeln!(f)?;
            queries(f, best)?;
        }
        if let Some(best) = self.recommended().filter(|_| self.copies.is_none()) {
            writeln!(f, "\nto convert:   {}", best.apply)?;
            writeln!(f, "to go back:   {}", best.revert)?;
        }
        if self.copies.is_none() {
            self.unused
                .iter()
                .try_for_each(|(drop, _)| writeln!(f, "\nserves no query of the workload best: {drop}"))?;
        }
        self.copies.as_ref().map_or(Ok(()), |set| copies(f, set))
    }
}

fn finalists(advice: &Advice) -> Table {
    let mut table = Table::new(&["design", "ms", "interval", "measured", "size", "conversion", "paid after"]);
    for (number, proposal) in numbered(advice) {
        let now = number == "now";
        table.rows.push(vec![
            number,
            time(proposal.total.ms),
            format!("{} - {}", time(proposal.total.low_ms), time(proposal.total.high_ms)),
            proposal.measured_ms.map_or("-".into(), time),
            bytes(proposal.bytes),
            if now { "-".into() } else { format!("{} ms", time(proposal.conversion.ms)) },
            if now { "-".into() } else { proposal.break_even_runs.map_or("never".into(), runs) },
        ]);
    }
    table
}

/// The current design as `now`, the proposals as 1, 2 and so on.
fn numbered(advice: &Advice) -> impl Iterator<Item = (String, &Proposal)> {
    let others = advice.designs.iter().enumerate().map(|(i, p)| ((i + 1).to_string(), p));
    [("now".to_owned(), &advice.current)].into_iter().chain(others)
}

/// The designs behind the numbers of the table. They are long, and would make the table unreadable as a column.
fn designs(f: &mut fmt::Formatter<'_>, advice: &Advice) -> fmt::Result {
    numbered(advice).try_for_each(|(number, proposal)| writeln!(f, "{number:<3}  {}", proposal.design))
}

/// The queries with the largest weight, winners and losers.
fn queries(f: &mut fmt::Formatter<'_>, best: &Proposal) -> fmt::Result {
    let mut by_stake: Vec<&QueryCost> = best.queries.iter().collect();
    by_stake.sort_by(|a, b| {
        let stake = |q: &QueryCost| q.weight * (q.current.ms - q.cost.ms).abs();
        stake(b).total_cmp(&stake(a))
    });
    let losers = best.queries.iter().filter(|q| q.ratio < 0.99).count();
    let winners = best.queries.iter().filter(|q| q.ratio > 1.01).count();
    writeln!(f, "design 1 by query: {winners} win, {losers} lose, {} stay", best.queries.len() - winners - losers)?;
    let mut table = Table::new(&["query", "weight", "ms now", "ms then", "ratio", "measured"]);
    for query in by_stake.iter().take(QUERIES) {
        table.rows.push(vec![
            shortened(&query.name),
            format!("{}", query.weight),
            time(query.current.ms),
            time(query.cost.ms),
            format!("{:.2}", query.ratio),
            query.measured_ms.map_or("-".into(), time),
        ]);
    }
    table.print(f)?;
    match by_stake.len().saturating_sub(QUERIES) {
        0 => Ok(()),
        more => writeln!(f, "and {more} more, on which less depends"),
    }
}

fn copies(f: &mut fmt::Formatter<'_>, set: &CopyAdvice) -> fmt::Result {
    let paid = set.break_even_runs.map_or("never".into(), runs);
    let (ms, size) = (time(set.ms), bytes(set.bytes));
    let measured = set.measured_ms.map_or(String::new(), |ms| format!(" ({} measured on the sample)", time(ms)));
    writeln!(
        f,
        "\nin {} copies, each query on its best: {ms} ms{measured}, {size}, paid after {paid}",
        set.copies.len()
    )?;
    for copy in &set.copies {
        let columns = if copy.columns.is_empty() { "all columns".into() } else { copy.columns.join(", ") };
        writeln!(f, "  {}: {columns} ({}; {} queries)", copy.design, bytes(copy.bytes), copy.queries.len())?;
    }
    let changes = set.changes();
    changes.iter().try_for_each(|(apply, _)| writeln!(f, "to apply:     {apply}"))?;
    changes.iter().rev().try_for_each(|(_, revert)| writeln!(f, "to go back:   {revert}"))
}

/// Columns as wide as their widest cell, numbers aligned to the right.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Table { head: head.iter().map(|h| (*h).to_owned()).collect(), rows: vec![] }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || [&self.head].into_iter().chain(&self.rows);
        let width = |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for row in lines() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let left = column == 0;
                let pad = " ".repeat(widths[column] - cell.chars().count());
                let cell = if left { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// "12.0 ms instead of 30.0 ms (2.5 times as fast)".
pub fn change(now_ms: f64, then_ms: f64) -> String {
    let ratio = now_ms / then_ms.max(f64::MIN_POSITIVE);
    format!("{} ms instead of {} ms ({ratio:.2} times as fast)", time(then_ms), time(now_ms))
}

/// Bytes with a binary unit.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1.0).log2() / 10.0).floor().clamp(0.0, (units.len() - 1) as f64);
    let digits = if power == 0.0 { 0 } else { 1 };
    format!("{:.digits$} {}", bytes / 1024f64.powf(power), units[power as usize])
}

fn time(ms: f64) -> String {
    let digits = if ms < 1.0 {
        4
    } else if ms < 100.0 {
        2
    } else {
        0
    };
    format!("{ms:.digits$}")
}

fn runs(runs: f64) -> String {
    match runs.ceil() {
        ..=1.0 => "1 run".into(),
        runs => format!("{runs:.0} runs"),
    }
}

pub fn shortened(name: &str) -> String {
    let line: String = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= NAME_WIDTH {
        return line;
    }
    line.chars().take(NAME_WIDTH - 1).chain(['…']).collect()
}
