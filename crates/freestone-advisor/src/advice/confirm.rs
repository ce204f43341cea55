//! Advice from measurements: finalists are built on a sample, timed, and ranked by the times.

use freestone_store::design::Design;
use serde::{Deserialize, Serialize};

use super::{Advice, Proposal, Statements, text};
use crate::error::{AdvisorError, Result};

/// A gain below this share of the time cannot be shown by a sample, and is no reason to convert.
const WORTH: f64 = 0.05;

/// A smaller gain of whole statements is no reason to convert, however much faster their scans become.
const WORTH_OF_STATEMENTS: f64 = 0.02;

/// The measurement of a design on a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The measured design.
    pub design: Design,
    /// In the workload's order. `None` for queries that were not run; these are the same in every measurement.
    pub queries: Vec<Option<MeasuredQuery>>,
}

/// The measurement of one query on the sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredQuery {
    /// The median of its runs, in milliseconds.
    pub ms: f64,
    /// The spread of the runs: at least half the distance between the quartiles.
    pub noise_ms: f64,
    /// The model's prediction for the sample (not for the table). `None` excludes the query from the model's error.
    #[serde(default)]
    pub predicted_ms: Option<f64>,
}

/// What the measurements say about the model and the advice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The number of measured designs, including the current one.
    pub designs: usize,
    /// The median of |predicted ÷ measured − 1| over designs and queries. `None` without predictions for the sample.
    pub model_error: Option<f64>,
    /// One run of the workload in the current design on the sample, in milliseconds.
    pub current_ms: f64,
    /// The same in the best of the other designs.
    pub best_ms: f64,
    /// The difference of the two that noise alone can explain.
    pub noise_ms: f64,
}

impl Advice {
    /// Ranks the designs by measurements on a sample, and decides again: if the gain is within the noise, to keep the
    /// current design. The current design and at least one other must be among the measurements. Designs that were not
    /// measured stay listed after the others.
    ///
    /// # Errors
    /// Says what is missing. The advice is unchanged then.
    pub fn confirm(&mut self, measurements: &[Measurement]) -> Result<()> {
        let totals: Vec<(f64, f64)> = measurements.iter().map(|m| self.total(m)).collect::<Result<_>>()?;
        let at = |design: &Design| measurements.iter().position(|m| m.design == *design);
        let now = at(&self.current.design).ok_or_else(|| invalid("the current design was not measured"))?;
        if !self.designs.iter().any(|p| at(&p.design).is_some()) {
            return Err(invalid("none of the advised designs was measured"));
        }
        let run = |m: &Measurement| m.queries.iter().map(Option::is_some).collect::<Vec<_>>();
        if measurements.iter().any(|m| run(m) != run(&measurements[now])) {
            return Err(invalid("not all designs were measured with the same queries"));
        }
        for proposal in self.designs.iter_mut().chain([&mut self.current]) {
            if let Some(index) = at(&proposal.design) {
                note(proposal, &measurements[index], totals[index].0);
            }
        }
        let measured_now: Vec<Option<f64>> = self.current.queries.iter().map(|query| query.measured_ms).collect();
        for proposal in &mut self.designs {
            proposal.statements = Statements::of(&proposal.queries, &measured_now);
        }
        // The sort is stable: designs that were not measured stay in predicted order, after the others.
        self.designs.sort_by(|a, b| {
            let key = |p: &Proposal| p.measured_ms.unwrap_or(f64::INFINITY);
            key(a).total_cmp(&key(b))
        });
        // Of designs that a sample cannot distinguish from the best, the smallest comes first, if it is smaller by the
        // same share.
        let bytes = self.designs[0].bytes;
        let least = self.designs[0].measured_ms.unwrap_or(f64::INFINITY) / (1.0 - WORTH);
        let alike = self.designs.iter().take_while(|p| p.measured_ms.is_some_and(|ms| ms < least)).enumerate();
        if let Some((smallest, found)) = alike.min_by(|(_, a), (_, b)| a.bytes.total_cmp(&b.bytes))
            && found.bytes < bytes * (1.0 - WORTH)
        {
            self.designs[..=smallest].rotate_right(1);
        }
        let best = self.designs.first().and_then(|p| at(&p.design)).expect("one of them was measured, and it is first");
        let ((current_ms, current_noise), (best_ms, best_noise)) = (totals[now], totals[best]);
        let confirmation = Confirmation {
            designs: measurements.len(),
            model_error: model_error(measurements),
            current_ms,
            best_ms,
            noise_ms: current_noise.hypot(best_noise),
        };
        self.confirmed = Some(confirmation);
        self.decide_measured(&confirmation);
        Ok(())
    }

    /// Compares the proposed copies with measurements of each on the sample: they are recommended if the queries, each
    /// on its copy, take less time than in the best single design.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn confirm_copies(&mut self, measurements: &[Measurement]) -> Result<()> {
        let (Some(set), Some(confirmed)) = (&mut self.copies, &self.confirmed) else { return Ok(()) };
        if measurements.len() != set.copies.len() {
            return Err(invalid("not all copies were measured"));
        }
        let served = set.serves.iter().enumerate().map(|(query, copy)| measurements[*copy].queries.get(query));
        let weighted = served.zip(&self.current.queries).map(|(measured, query)| {
            let ms = measured.copied().flatten().map(|m| m.ms);
            // Queries that were not run are excluded from all measurements.
            Ok(ms.unwrap_or(0.0) * query.weight)
        });
        let ms: f64 = weighted.sum::<Result<f64>>()?;
        let single = confirmed.current_ms.min(confirmed.best_ms);
        if ms < (single - confirmed.noise_ms).min(single * (1.0 - WORTH)) {
            set.measured_ms = Some(ms);
            self.reason = format!("{}; with copies, {}", self.reason, text::change(confirmed.current_ms, ms));
        } else {
            self.reason = format!("{}; copies do not pay: {}", self.reason, text::change(single, ms));
            self.copies = None;
        }
        Ok(())
    }

    fn decide_measured(&mut self, confirmation: &Confirmation) {
        let Confirmation { current_ms, best_ms, noise_ms, .. } = *confirmation;
        let over = self.is_over_budget();
        let saved = current_ms - best_ms;
        let change = text::change(current_ms, best_ms);
        let statements = self.designs.first().and_then(|best| best.statements);
        let is_small = |s: &Statements| s.now_ms - s.then_ms <= WORTH_OF_STATEMENTS * s.now_ms;
        (self.keep, self.reason) = if over {
            let bytes = text::bytes(self.stored_bytes());
            (false, format!("the current design takes {bytes}, more than the budget; measured on a sample: {change}"))
        } else if saved <= 0.0 {
            (true, format!("measured on a sample, no other design is faster: {change}"))
        } else if saved <= noise_ms {
            (true, format!("measured on a sample: {change}, which is within the noise of {noise_ms:.2} ms"))
        } else if saved <= WORTH * current_ms {
            (true, format!("measured on a sample: {change}, which is less than a sample can tell of a table"))
        } else if let Some(statements) = statements.filter(is_small) {
            let whole = text::change(statements.now_ms, statements.then_ms);
            (true, format!("scans of this table would take {change} on a sample, but whole statements only {whole}"))
        } else {
            (false, format!("measured on a sample, scans of this table take {change}"))
        };
    }

    /// The weighted time of a measurement, and its noise under independent errors. An error if it does not fit the
    /// workload.
    fn total(&self, measurement: &Measurement) -> Result<(f64, f64)> {
        if measurement.queries.len() != self.current.queries.len() || measurement.queries.iter().all(Option::is_none) {
            return Err(invalid("a measurement has another number of queries than the workload, or none was run"));
        }
        let (mut ms, mut variance) = (0.0, 0.0);
        for (query, measured) in self.current.queries.iter().zip(&measurement.queries) {
            let Some(measured) = measured else { continue };
            if !(measured.ms.is_finite() && measured.ms >= 0.0 && measured.noise_ms >= 0.0) {
                return Err(invalid(&format!("query {}: {} ms is no time", query.name, measured.ms)));
            }
            ms += query.weight * measured.ms;
            variance += (query.weight * measured.noise_ms).powi(2);
        }
        Ok((ms, variance.sqrt()))
    }
}

fn note(proposal: &mut Proposal, measurement: &Measurement, total_ms: f64) {
    proposal.measured_ms = Some(total_ms);
    for (query, measured) in proposal.queries.iter_mut().zip(&measurement.queries) {
        query.measured_ms = measured.map(|m| m.ms);
    }
}

fn model_error(measurements: &[Measurement]) -> Option<f64> {
    let measured = measurements.iter().flat_map(|m| m.queries.iter().flatten()).filter(|m| m.ms > 0.0);
    let mut errors: Vec<f64> =
        measured.filter_map(|m| m.predicted_ms.map(|p| (p / m.ms - 1.0).abs())).filter(|e| e.is_finite()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    match errors.len() {
        0 => None,
        n if n % 2 == 1 => Some(errors[middle]),
        _ => Some((errors[middle - 1] + errors[middle]) / 2.0),
    }
}

fn invalid(text: &str) -> AdvisorError {
    AdvisorError::Invalid(text.to_owned())
}
