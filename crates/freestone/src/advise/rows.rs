//! Advice as rows of a result.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, ListArray, RecordBatch, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::Field;
use freestone_advisor::Cost;
use freestone_advisor::advice::{Advice, CopyAdvice, CopyProposal, Proposal, QueryCost};

use super::WhatIf;
use crate::access::Access;
use crate::error::Result;
use crate::provider::columns::{batch, numbers, texts};

/// The number of designs that are listed for a table, in addition to its own.
const LISTED: usize = 5;

/// A row of advice: a design, or one of several copies.
struct Line<'a> {
    advice: &'a Advice,
    verdict: &'static str,
    design: String,
    /// The cost of the design alone. Copies have a common cost.
    cost: Option<Cost>,
    ms: f64,
    measured_ms: Option<f64>,
    statements_ms: Option<f64>,
    bytes: f64,
    conversion_ms: f64,
    break_even_runs: Option<f64>,
    losers: u64,
    apply: String,
    /// The statement that undoes it.
    revert: String,
    /// Each query in the design, compared with the current one.
    queries: &'a [QueryCost],
}

/// The rows of `ADVISE`. For each table, they are the current design, the best designs with the recommended one marked,
/// and the copies that are recommended instead, if any. Only who administers the database sees the queries' texts, as in the log.
///
/// # Errors
///
/// An array cannot be built.
pub(crate) fn advice_batch(all: &[Advice], access: Access) -> Result<RecordBatch> {
    let mut lines: Vec<(u64, Line)> = vec![];
    for advice in all {
        let others = advice.designs.iter().take(LISTED).map(|proposal| line(advice, proposal, false));
        let copies = advice.copies.iter().flat_map(|set| copy_lines(advice, set));
        let unused = advice.unused.iter().filter(|_| advice.copies.is_none()).map(|change| unused_line(advice, change));
        let all = [line(advice, &advice.current, true)].into_iter().chain(others).chain(copies).chain(unused);
        lines.extend((0..).zip(all));
    }
    let floats = |of: &dyn Fn(&Line) -> Option<f64>| -> ArrayRef {
        Arc::new(lines.iter().map(|(_, line)| of(line)).collect::<Float64Array>())
    };
    let names = |of: &dyn Fn(&Line) -> String| texts(lines.iter().map(|(_, line)| Some(of(line))));
    batch(vec![
        ("table", false, names(&|line| line.advice.table.clone())),
        ("rank", false, numbers(lines.iter().map(|(rank, _)| Some(*rank)))),
        ("advice", false, names(&|line| line.verdict.to_owned())),
        ("design", false, names(&|line| line.design.clone())),
        ("predicted_ms", false, floats(&|line| Some(line.ms))),
        ("low_ms", true, floats(&|line| line.cost.map(|cost| cost.low_ms))),
        ("high_ms", true, floats(&|line| line.cost.map(|cost| cost.high_ms))),
        ("measured_ms", true, floats(&|line| line.measured_ms)),
        ("statements_ms", true, floats(&|line| line.statements_ms)),
        ("bytes", false, numbers(lines.iter().map(|(_, line)| Some(line.bytes.max(0.0) as u64)))),
        ("conversion_ms", false, floats(&|line| Some(line.conversion_ms))),
        ("break_even_runs", true, floats(&|line| line.break_even_runs)),
        ("losers", false, numbers(lines.iter().map(|(_, line)| Some(line.losers)))),
        ("apply", false, names(&|line| line.apply.clone())),
        ("revert", false, names(&|line| line.revert.clone())),
        ("queries", false, query_lists(lines.iter().map(|(_, line)| line.queries), access)?),
        ("reason", false, names(&|line| line.advice.reason.clone())),
    ])
}

/// Lists of queries: each with its weight, its milliseconds in the current design and in the other one, the ratio of both (as
/// measured if it was), and the measured milliseconds on the sample.
fn query_lists<'a>(lists: impl Iterator<Item = &'a [QueryCost]> + Clone, access: Access) -> Result<ArrayRef> {
    let all: Vec<&QueryCost> = lists.clone().flatten().collect();
    let floats = |of: fn(&QueryCost) -> Option<f64>| -> ArrayRef {
        Arc::new(all.iter().map(|query| of(query)).collect::<Float64Array>())
    };
    let text = |query: &&QueryCost| access.admin.then(|| query.name.clone());
    let rows = StructArray::from(batch(vec![
        ("query", true, texts(all.iter().map(text))),
        ("weight", false, floats(|query| Some(query.weight))),
        ("now_ms", false, floats(|query| Some(query.current.ms))),
        ("then_ms", false, floats(|query| Some(query.cost.ms))),
        ("ratio", false, floats(|query| Some(query.ratio))),
        ("measured_ms", true, floats(|query| query.measured_ms)),
    ])?);
    let item = Field::new_list_field(rows.data_type().clone(), false);
    let offsets = OffsetBuffer::from_lengths(lists.map(<[QueryCost]>::len));
    Ok(Arc::new(ListArray::try_new(Arc::new(item), offsets, Arc::new(rows), None)?))
}

fn line<'a>(advice: &'a Advice, proposal: &'a Proposal, is_current: bool) -> Line<'a> {
    let is_best = advice.copies.is_none() && advice.recommended().is_some_and(|best| best.design == proposal.design);
    let verdict = match (is_current, advice.changes().is_empty()) {
        (true, true) => "keep",
        (true, false) => "now",
        (false, _) if is_best => "recommended",
        (false, _) => "other",
    };
    Line {
        advice,
        verdict,
        design: proposal.design.to_string(),
        cost: Some(proposal.total),
        ms: proposal.total.ms,
        measured_ms: proposal.measured_ms,
        statements_ms: proposal.statements.map(|s| s.then_ms),
        bytes: proposal.bytes,
        conversion_ms: proposal.conversion.ms,
        break_even_runs: proposal.break_even_runs,
        losers: losers(proposal),
        apply: proposal.apply.clone(),
        revert: if is_current { String::new() } else { proposal.revert.clone() },
        queries: if is_current { &[] } else { &proposal.queries },
    }
}

/// A copy that is not the best for any query, with the statement that drops it.
fn unused_line<'a>(advice: &'a Advice, (drop, add): &(String, String)) -> Line<'a> {
    let (verdict, design, apply, revert) = ("unused", String::new(), drop.clone(), add.clone());
    let now = line(advice, &advice.current, true);
    Line { verdict, design, apply, revert, bytes: 0.0, conversion_ms: 0.0, losers: 0, ..now }
}

/// One row per copy to be created or dropped, and per copy that remains.
fn copy_lines<'a>(advice: &'a Advice, set: &'a CopyAdvice) -> impl Iterator<Item = Line<'a>> {
    let of_copy = |copy: &CopyProposal| {
        let columns = if copy.columns.is_empty() { String::new() } else { format!("({}) ", copy.columns.join(", ")) };
        let change = (copy.apply.clone().unwrap_or_default(), copy.revert.clone().unwrap_or_default());
        (format!("{columns}{}", copy.design), copy.bytes, change)
    };
    let dropped = set.dropped.iter().map(|change| (String::new(), 0.0, change.clone()));
    let copies = set.copies.iter().map(of_copy).chain(dropped).collect::<Vec<_>>();
    copies.into_iter().map(move |(design, bytes, (apply, revert))| Line {
        advice,
        verdict: "copy",
        design,
        cost: None,
        ms: set.ms,
        measured_ms: set.measured_ms,
        statements_ms: None,
        bytes,
        conversion_ms: set.conversion_ms,
        break_even_runs: set.break_even_runs,
        losers: 0,
        apply,
        revert,
        queries: &[],
    })
}

/// The number of queries that a design makes slower.
fn losers(proposal: &Proposal) -> u64 {
    proposal.queries.iter().filter(|query| query.ratio < 0.99).count() as u64
}

/// The rows of `WHATIF`: the current design and the requested one.
///
/// # Errors
///
/// An array cannot be built.
pub(crate) fn what_if_batch(answer: &WhatIf) -> Result<RecordBatch> {
    let all = &answer.proposals;
    let floats =
        |of: &dyn Fn(&Proposal) -> Option<f64>| Arc::new(all.iter().map(of).collect::<Float64Array>()) as ArrayRef;
    let names = ["now", "whatif"];
    let measured = Arc::new(answer.measured.iter().copied().map(Some).collect::<Float64Array>());
    batch(vec![
        ("which", false, texts(names.iter().map(|name| Some((*name).to_owned())))),
        ("design", false, texts(all.iter().map(|p| Some(p.design.to_string())))),
        ("predicted_ms", false, floats(&|p| Some(p.total.ms))),
        ("low_ms", false, floats(&|p| Some(p.total.low_ms))),
        ("high_ms", false, floats(&|p| Some(p.total.high_ms))),
        ("io_ms", false, floats(&|p| Some(p.total.io_ms))),
        ("cpu_ms", false, floats(&|p| Some(p.total.cpu_ms))),
        ("bytes_read", false, floats(&|p| Some(p.total.bytes))),
        ("measured_ms", false, measured),
        ("sample_rows", false, numbers(all.iter().map(|_| Some(answer.sample_rows as u64)))),
        ("bytes", false, numbers(all.iter().map(|p| Some(p.bytes.max(0.0) as u64)))),
        ("conversion_ms", false, floats(&|p| Some(p.conversion.ms))),
        ("break_even_runs", true, floats(&|p| p.break_even_runs)),
        ("apply", false, texts(all.iter().map(|p| Some(p.apply.clone())))),
    ])
}
