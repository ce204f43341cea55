//! Advice as rows of a result.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use freestone_advisor::advice::{Advice, Proposal};

use super::WhatIf;
use crate::error::Result;
use crate::functions::{batch, numbers, texts};

/// Designs listed for a table, beside its own.
const LISTED: usize = 5;

/// `ADVISE`: for each table what it has now and the best designs, what is recommended marked.
pub(crate) fn advice_batch(all: &[Advice]) -> Result<RecordBatch> {
    let mut rows: Vec<(&Advice, &Proposal, u64)> = vec![];
    for advice in all {
        rows.push((advice, &advice.current, 0));
        rows.extend((1..).zip(advice.designs.iter().take(LISTED)).map(|(rank, p)| (advice, p, rank)));
    }
    let verdict = |(advice, proposal, rank): &(&Advice, &Proposal, u64)| match (rank, advice.keep) {
        (0, true) => "keep",
        (0, false) => "now",
        _ if advice.recommended().is_some_and(|best| best.design == proposal.design) => "recommended",
        _ => "other",
    };
    let floats = |of: &dyn Fn(&Proposal) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, proposal, _)| of(proposal)).collect::<Float64Array>())
    };
    batch(vec![
        ("table", false, texts(rows.iter().map(|(advice, ..)| Some(advice.table.clone())))),
        ("rank", false, numbers(rows.iter().map(|(.., rank)| Some(*rank)))),
        ("advice", false, texts(rows.iter().map(|row| Some(verdict(row).to_owned())))),
        ("design", false, texts(rows.iter().map(|(_, p, _)| Some(p.design.to_string())))),
        ("predicted_ms", false, floats(&|p| Some(p.total.ms))),
        ("low_ms", false, floats(&|p| Some(p.total.low_ms))),
        ("high_ms", false, floats(&|p| Some(p.total.high_ms))),
        ("measured_ms", true, floats(&|p| p.measured_ms)),
        ("statements_ms", true, floats(&|p| p.statements.map(|s| s.then_ms))),
        ("bytes", false, numbers(rows.iter().map(|(_, p, _)| Some(p.bytes.max(0.0) as u64)))),
        ("conversion_ms", false, floats(&|p| Some(p.conversion.ms))),
        ("break_even_runs", true, floats(&|p| p.break_even_runs)),
        ("losers", false, numbers(rows.iter().map(|(_, p, _)| Some(losers(p))))),
        ("apply", false, texts(rows.iter().map(|(_, p, _)| Some(p.apply.clone())))),
        ("reason", false, texts(rows.iter().map(|(advice, ..)| Some(advice.reason.clone())))),
    ])
}

/// Queries that a design makes slower.
fn losers(proposal: &Proposal) -> u64 {
    proposal.queries.iter().filter(|query| query.ratio < 0.99).count() as u64
}

/// `WHATIF`: the current design and the one asked for.
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
