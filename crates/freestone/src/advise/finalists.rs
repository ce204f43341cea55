//! Finalists put to the test: the current design and the best predicted ones, on the sample, with the heaviest queries.

use std::sync::Arc;

use freestone_advisor::advice::{Advice, MeasuredQuery, Measurement};
use freestone_advisor::{CostModel, Workload};
use freestone_store::design::Design;
use freestone_store::scan::ScanRequest;

use super::Judged;
use super::trial::{self, Time, Trial};
use crate::error::Result;

/// Designs beside the current one that are tried, and queries that they are tried with.
const DESIGNS: usize = 3;
const QUERIES: usize = 24;

/// Measures the current design and the best predicted ones, and ranks the advice by that.
pub(crate) fn confirm(advice: &mut Advice, judged: &Judged<'_>, workload: &Workload) -> Result<()> {
    // Rows of a clustered path's end are in other tables, which the sample does not hold.
    let can_try = |design: &&Design| design.cluster.iter().all(|path| path.to_string().split('.').count() == 1);
    let others: Vec<Design> = advice.designs.iter().map(|p| &p.design).filter(can_try).take(DESIGNS).cloned().collect();
    if others.is_empty() || !can_try(&&advice.current.design) {
        return Ok(());
    }
    let designs: Vec<&Design> = std::iter::once(&advice.current.design).chain(&others).collect();
    let measurements = measure(&designs, judged, workload)?;
    if measurements.iter().any(|m| m.queries.iter().any(Option::is_some)) {
        advice.confirm(&measurements)?;
    }
    Ok(())
}

/// Milliseconds of the workload on the sample, for each design.
pub(crate) fn total_ms(designs: &[&Design], judged: &Judged<'_>, workload: &Workload) -> Result<Vec<f64>> {
    let total = |m: &Measurement| {
        let queries = m.queries.iter().zip(&workload.queries);
        queries.map(|(measured, query)| measured.map_or(0.0, |m| m.ms) * query.weight).sum()
    };
    Ok(measure(designs, judged, workload)?.iter().map(total).collect())
}

fn measure(designs: &[&Design], judged: &Judged<'_>, workload: &Workload) -> Result<Vec<Measurement>> {
    let rows = judged.sample.few(64 << 10)?;
    let requests: Vec<Option<Arc<ScanRequest>>> = heaviest(judged, workload)
        .into_iter()
        .enumerate()
        .map(|(at, is_tried)| {
            let request = if is_tried { judged.work.request(at, &workload.queries[at], &rows)? } else { None };
            Ok(request.map(Arc::new))
        })
        .collect::<Result<_>>()?;
    let schema = &judged.table.schema;
    let build = |design: &&Design| Trial::build(&judged.sample, schema, design, judged.threads, judged.is_cold());
    let trials: Vec<Trial> = designs.iter().map(build).collect::<Result<_>>()?;
    let mut measurements: Vec<Measurement> =
        designs.iter().map(|design| Measurement { design: (*design).clone(), queries: vec![] }).collect();
    for (request, query) in requests.iter().zip(&workload.queries) {
        let times = request.as_ref().map(|request| trial::times(&trials, request)).transpose()?;
        for (at, measurement) in measurements.iter_mut().enumerate() {
            let predicted_ms = judged.sample_model.query(designs[at], query).ms;
            let measured = times.as_ref().map(|times| times[at]);
            measurement.queries.push(measured.map(|Time { ms, noise_ms }| MeasuredQuery {
                ms,
                noise_ms,
                predicted_ms: Some(predicted_ms),
            }));
        }
    }
    Ok(measurements)
}

/// Which queries are tried: those that take most of the workload's predicted time.
fn heaviest(judged: &Judged<'_>, workload: &Workload) -> Vec<bool> {
    let cost = |at: &usize| {
        let query = &workload.queries[*at];
        judged.model.query(&judged.table.design, query).ms * query.weight
    };
    let mut order: Vec<usize> = (0..workload.queries.len()).collect();
    order.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let mut is_tried = vec![false; order.len()];
    order.iter().take(QUERIES).for_each(|at| is_tried[*at] = true);
    is_tried
}
