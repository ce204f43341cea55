//! Measurement of the finalists: the current design and the best predicted ones, on the sample, with the queries of the
//! largest cost.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use freestone_advisor::advice::{Advice, Existing, MeasuredQuery, Measurement};
use freestone_advisor::profile::Slowdown;
use freestone_advisor::{CostModel, PredicateForm, Query, QueryPredicate, Reference, TableStatistics, Workload};
use freestone_codec::Predicate;
use freestone_store::cluster::{CodeFilter, DimensionPath, keys_of};
use freestone_store::design::Design;
use freestone_store::scan::ScanRequest;
use freestone_store::schema::TableSchema;

use super::trial::{self, Time, Trial};
use super::{AdviceContext, literals};
use crate::error::Result;

/// The number of designs that are measured, in addition to the current one and a preset; and the number of queries.
const DESIGNS: usize = 3;
const QUERIES: usize = 48;

/// Measures the current design and the best predicted ones, and ranks the advice by the results.
///
/// # Errors
///
/// The sample cannot be stored or scanned.
pub(crate) fn confirm(advice: &mut Advice, context: &AdviceContext<'_>, workload: &Workload) -> Result<()> {
    let others = tried(advice.designs.iter().map(|p| &p.design));
    if others.is_empty() {
        // Copies are recommended only if they were measured together with a design.
        advice.copies = None;
        return Ok(());
    }
    let designs: Vec<&Design> = std::iter::once(&advice.current.design).chain(&others).collect();
    let read: Vec<&Existing> = context.copies.iter().filter(|copy| copy.is_current).collect();
    let advised: Vec<Design> = advice.copies.iter().flat_map(|set| &set.copies).map(|c| c.design.clone()).collect();
    let there = read.iter().map(|copy| &copy.whole);
    let all: Vec<&Design> = designs.iter().copied().chain(there).chain(&advised).collect();
    let mut measurements = measure(&all, context, workload)?;
    let of_advised = measurements.split_off(designs.len() + read.len());
    let of_copies = measurements.split_off(designs.len());
    for (copy, of_copy) in read.iter().zip(&of_copies) {
        measurements.iter_mut().for_each(|measurement| take_better(measurement, copy, of_copy, workload));
    }
    if measurements.iter().any(|m| m.queries.iter().any(Option::is_some)) {
        advice.confirm(&measurements)?;
        advice.confirm_copies(&of_advised)?;
    }
    Ok(())
}

/// The best designs. The last of them has another order or other indexes than those before it, if there is such a
/// design. In addition the best preset, which a recommended design must beat.
fn tried<'a>(designs: impl Iterator<Item = &'a Design>) -> Vec<Design> {
    let (best, mut rest): (Vec<_>, Vec<_>) = designs.cloned().enumerate().partition(|(at, _)| at + 1 < DESIGNS);
    let is_like = |a: &Design, b: &Design| (&a.sort, &a.cluster, &a.index) == (&b.sort, &b.cluster, &b.index);
    let other = rest.iter().position(|(_, design)| !best.iter().any(|(_, known)| is_like(known, design)));
    let last = (!rest.is_empty()).then(|| rest.remove(other.unwrap_or(0)));
    let mut tried: Vec<Design> = best.into_iter().chain(last).map(|(_, design)| design).collect();
    if !tried.iter().any(is_plain) {
        tried.extend(rest.into_iter().map(|(_, design)| design).find(is_plain));
    }
    tried
}

fn is_plain(design: &Design) -> bool {
    design.groups.is_empty() && design.sort.is_empty() && design.cluster.is_empty() && design.index.is_empty()
}

/// A query uses an existing copy if that is faster.
fn take_better(measurement: &mut Measurement, copy: &Existing, of_copy: &Measurement, workload: &Workload) {
    for ((own, other), query) in measurement.queries.iter_mut().zip(&of_copy.queries).zip(&workload.queries) {
        if let (Some(own), Some(other)) = (own, other)
            && other.ms < own.ms
            && copy.serves(query)
        {
            *own = *other;
        }
    }
}

/// Milliseconds of the workload on the sample, for each design.
///
/// # Errors
///
/// The sample cannot be stored or scanned.
pub(crate) fn total_ms(designs: &[&Design], context: &AdviceContext<'_>, workload: &Workload) -> Result<Vec<f64>> {
    let total = |m: &Measurement| {
        let queries = m.queries.iter().zip(&workload.queries);
        queries.map(|(measured, query)| measured.map_or(0.0, |m| m.ms) * query.weight).sum()
    };
    Ok(measure(designs, context, workload)?.iter().map(total).collect())
}

fn measure(designs: &[&Design], context: &AdviceContext<'_>, workload: &Workload) -> Result<Vec<Measurement>> {
    let paths = Paths::of(designs, workload, &context.model.statistics);
    let widened = match paths.0.is_empty() {
        true => None,
        false => Some(context.sample.with_paths(context.table, &context.snapshot, &paths.0)?),
    };
    let sample = widened.as_ref().unwrap_or(&context.sample);
    let rows = sample.few(64 << 10)?;
    let columns = TableSchema::from_arrow(&sample.schema)?.columns.split_off(context.table.schema.columns.len());
    let schema = &context.table.schema;
    let schema = TableSchema { columns: [schema.columns.as_slice(), &columns].concat(), ..schema.clone() };
    let build =
        |design: &&Design| Trial::build(sample, &schema, &paths.by_codes(design), context.threads, context.is_cold());
    let trials: Vec<Trial> = designs.iter().map(build).collect::<Result<_>>()?;
    let mut measurements: Vec<Measurement> =
        designs.iter().map(|design| Measurement { design: (*design).clone(), queries: vec![] }).collect();
    let profile = &context.sample_model.profile;
    let reference = profile.is_measured().then(Reference::new).transpose()?;
    for (at, (query, is_tried)) in workload.queries.iter().zip(heaviest(context, workload)).enumerate() {
        let request = if is_tried { context.work.request(at, query, &rows)? } else { None };
        let Some(request) = request else {
            measurements.iter_mut().for_each(|measurement| measurement.queries.push(None));
            continue;
        };
        let requests = designs.iter().zip(&trials).map(|(design, trial)| {
            let codes = paths.code_filters(design, trial, query, &rows)?;
            Ok(Arc::new(ScanRequest { codes, ..request.clone() }))
        });
        let requests = requests.collect::<Result<Vec<_>>>()?;
        // Predictions are compared with measurements made at the current speed of the machine.
        let slowdown = reference.as_ref().map(|reference| reference.slowdown(profile, context.threads)).transpose()?;
        let model = context.sample_model.clone().with_slowdown(slowdown.unwrap_or(Slowdown::SAME));
        let times = trial::times(&trials, &requests, query.output)?;
        for ((design, measurement), Time { ms, noise_ms }) in designs.iter().zip(&mut measurements).zip(times) {
            let predicted_ms = Some(model.query(design, query).ms);
            measurement.queries.push(Some(MeasuredQuery { ms, noise_ms, predicted_ms }));
        }
    }
    Ok(measurements)
}

/// Attributes of other tables that a trial needs: those by which some of the designs cluster, and those of the same
/// rows that queries test. A trial has a single table. Its last columns are the codes of these attributes, and it is
/// clustered by them.
struct Paths(Vec<DimensionPath>);

impl Paths {
    fn of(designs: &[&Design], workload: &Workload, statistics: &TableStatistics) -> Paths {
        let clustered = designs.iter().flat_map(|design| &design.cluster).filter(|path| path.names.len() > 1);
        let mut all: Vec<Vec<String>> = clustered.map(|path| path.names.clone()).collect();
        let asked = workload.queries.iter().flat_map(|query| &query.paths).map(|test| &test.path);
        let with_copies: Vec<_> =
            asked.filter(|path| all.iter().any(|own| keys_of(own) == keys_of(path))).cloned().collect();
        all.extend(with_copies);
        all.sort_unstable();
        all.dedup();
        all.retain(|path| statistics.path_column(path).is_some());
        Paths(all.into_iter().map(|names| DimensionPath { names, bits: None }).collect())
    }

    fn position(&self, names: &[String]) -> Option<usize> {
        self.0.iter().position(|path| path.names == names)
    }

    /// The design with the columns of codes in place of the attributes, and without dimensions that do not exist in the
    /// trial.
    fn by_codes(&self, design: &Design) -> Design {
        let mut design = design.clone();
        design.cluster.retain(|path| path.names.len() == 1 || self.position(&path.names).is_some());
        for path in &mut design.cluster {
            if let Some(at) = self.position(&path.names) {
                path.names = vec![self.0[at].to_string()];
            }
        }
        design
    }

    /// The conditions of the query's joins on the dimensions of a trial. Joins also drop single rows within the
    /// remaining zones. This is not tested, because the model ignores it and it is the same in every design.
    fn code_filters(
        &self,
        design: &Design,
        trial: &Trial,
        query: &Query,
        rows: &RecordBatch,
    ) -> Result<Vec<CodeFilter>> {
        let first = rows.num_columns() - self.0.len();
        let codes = |at: usize| rows.column(first + at).as_primitive::<Int64Type>();
        let mut filters = vec![];
        for path in &design.cluster {
            let Some(own) = self.position(&path.names) else { continue };
            for test in query.paths.iter().filter(|t| keys_of(&t.path) == keys_of(&path.names)) {
                let Some(asked) = self.position(&test.path).filter(|_| test.form != PredicateForm::Other) else {
                    continue;
                };
                let wanted = QueryPredicate { column: asked, selectivity: test.selectivity, form: test.form };
                let Some(found) = literals::predicate(&wanted, rows.column(first + asked))? else { continue };
                let Predicate::Int(passes) = &found.predicate else { continue };
                let both = codes(own).values().iter().zip(codes(asked).values());
                let left = both.filter(|(_, asked)| passes.test(i128::from(**asked))).map(|(own, _)| i128::from(*own));
                let left: BTreeSet<i128> = left.collect();
                filters.extend(trial.code_filter(&self.0[own].to_string(), left.into_iter().collect())?);
            }
        }
        Ok(filters)
    }
}

/// Which queries are measured: those with most of the predicted time of the workload.
fn heaviest(context: &AdviceContext<'_>, workload: &Workload) -> Vec<bool> {
    let cost = |at: &usize| {
        let query = &workload.queries[*at];
        context.model.query(&context.table.design, query).ms * query.weight
    };
    let mut order: Vec<usize> = (0..workload.queries.len()).collect();
    order.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let mut is_tried = vec![false; order.len()];
    order.iter().take(QUERIES).for_each(|at| is_tried[*at] = true);
    is_tried
}
