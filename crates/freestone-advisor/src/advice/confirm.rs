//! Advice from measurements: finalists are built on a sample, timed, and ranked by the times.

use std::fmt;

use freestone_store::design::Design;
use serde::{Deserialize, Serialize};

use super::{Advice, Proposal, QueryCost, Statements, text};
use crate::error::{AdvisorError, Result};

/// A gain below this share of the time is no reason to convert.
const WORTH: f64 = 0.1;

/// A design that makes a query slower by more than this share has to be worth it.
const LOSS: f64 = 0.1;

/// A query that takes less than this share of the workload's time may lose.
const SMALL: f64 = 0.02;

/// Designs whose times differ by less than this share are taken for equally fast.
const ALIKE: f64 = 0.05;

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
            for (query, now) in proposal.queries.iter_mut().zip(&measured_now) {
                if let (Some(then), Some(now)) = (query.measured_ms.filter(|ms| *ms > 0.0), now) {
                    query.ratio = now / then;
                }
            }
        }
        let lost: Vec<(Design, Vec<Loss>)> = measurements
            .iter()
            .map(|m| (m.design.clone(), self.losses(&measurements[now], m, totals[now].0)))
            .collect();
        let lost = |p: &Proposal| lost.iter().find(|(design, _)| *design == p.design).map_or(&[][..], |(_, lost)| lost);
        let loses = |p: &Proposal| lost(p).iter().any(|loss| !loss.is_small);
        // A design in which no query loses comes first if it is worth it. The sort is stable: designs that were not measured
        // stay in predicted order, after all others.
        let is_worth_it = |p: &Proposal| p.measured_ms.is_some_and(|ms| ms < totals[now].0 * (1.0 - WORTH));
        let has_other = self.designs.iter().any(|p| is_worth_it(p) && !loses(p));
        self.designs.sort_by(|a, b| {
            let key = |p: &Proposal| (p.measured_ms.is_none(), has_other && loses(p));
            let ms = |p: &Proposal| p.measured_ms.unwrap_or(f64::INFINITY);
            key(a).cmp(&key(b)).then(ms(a).total_cmp(&ms(b)))
        });
        // Of designs that a sample cannot distinguish from the best, the smallest comes first, if it is smaller by the
        // same share.
        let bytes = self.designs[0].bytes;
        let least = self.designs[0].measured_ms.unwrap_or(f64::INFINITY) / (1.0 - ALIKE);
        let first_loses = loses(&self.designs[0]);
        let is_alike = |p: &&Proposal| p.measured_ms.is_some_and(|ms| ms < least) && loses(p) == first_loses;
        let alike = self.designs.iter().take_while(is_alike).enumerate();
        if let Some((smallest, found)) = alike.min_by(|(_, a), (_, b)| a.bytes.total_cmp(&b.bytes))
            && found.bytes < bytes * (1.0 - ALIKE)
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
        let losses = lost(&self.designs[0]).to_vec();
        self.confirmed = Some(confirmation);
        self.decide_measured(&confirmation, &losses);
        Ok(())
    }

    /// The queries that a design makes slower by more than [`LOSS`] and by more than noise explains.
    fn losses(&self, now: &Measurement, then: &Measurement, total_ms: f64) -> Vec<Loss> {
        let pairs = now.queries.iter().zip(&then.queries).zip(&self.current.queries);
        let loss = |((now, then), query): ((&Option<MeasuredQuery>, &Option<MeasuredQuery>), &QueryCost)| {
            let (now, then) = ((*now)?, (*then)?);
            let noise_ms = now.noise_ms.hypot(then.noise_ms);
            let is_lost = then.ms > now.ms * (1.0 + LOSS) && then.ms > now.ms + noise_ms;
            let is_small = query.weight * then.ms < SMALL * total_ms;
            is_lost.then(|| Loss { name: query.name.clone(), now_ms: now.ms, then_ms: then.ms, is_small })
        };
        pairs.filter_map(loss).collect()
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

    fn decide_measured(&mut self, confirmation: &Confirmation, losses: &[Loss]) {
        let Confirmation { current_ms, best_ms, noise_ms, .. } = *confirmation;
        let over = self.is_over_budget();
        let saved = current_ms - best_ms;
        let change = text::change(current_ms, best_ms);
        let statements = self.designs.first().and_then(|best| best.statements);
        let is_small = |s: &Statements| s.now_ms - s.then_ms <= WORTH * s.now_ms;
        (self.keep, self.reason) = if over {
            let bytes = text::bytes(self.stored_bytes());
            (false, format!("the current design takes {bytes}, more than the budget; measured on a sample: {change}"))
        } else if saved <= 0.0 {
            (true, format!("measured on a sample, no other design is faster: {change}"))
        } else if saved <= noise_ms {
            (true, format!("measured on a sample: {change}, which is within the noise of {noise_ms:.2} ms"))
        } else if saved <= WORTH * current_ms {
            let least = WORTH * 100.0;
            (
                true,
                format!("measured on a sample: {change}, which is less than the {least:.0} % that a change is worth"),
            )
        } else if let Some(statements) = statements.filter(is_small) {
            let whole = text::change(statements.now_ms, statements.then_ms);
            (true, format!("scans of this table would take {change} on a sample, but whole statements only {whole}"))
        } else if let Some(loss) = losses.iter().find(|loss| !loss.is_small) {
            (true, format!("measured on a sample, scans of this table would take {change}, but {loss}"))
        } else {
            let small: Vec<String> =
                losses.iter().map(|loss| format!("; {loss}, a small part of the workload")).collect();
            (false, format!("measured on a sample, scans of this table take {change}{}", small.concat()))
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

/// A query that a design makes slower.
#[derive(Debug, Clone)]
struct Loss {
    name: String,
    now_ms: f64,
    then_ms: f64,
    /// Whether it is a small part of the workload.
    is_small: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` loses: {}", text::shortened(&self.name), text::change(self.now_ms, self.then_ms))
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
