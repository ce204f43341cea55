//! What a design changes for those who wait: whole statements, of which scans are a part.

use serde::{Deserialize, Serialize};

use super::{Advice, Proposal, QueryCost};

/// The statements whose times are known, in one run of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Statements {
    /// Milliseconds that they took, as logged.
    pub now_ms: f64,
    /// Milliseconds of that for scans of the table, predicted.
    pub scans_ms: f64,
    /// Milliseconds that they are predicted to take in the design: only the scans become others.
    pub then_ms: f64,
}

impl Statements {
    /// What the statements of a proposal's queries take; `None` where no time is known. `gain` gives a scan's time in the
    /// design by its time now.
    fn of(queries: &[QueryCost], gain: impl Fn(usize) -> f64) -> Option<Self> {
        let mut sum = Statements { now_ms: 0.0, scans_ms: 0.0, then_ms: 0.0 };
        for (at, query) in queries.iter().enumerate() {
            let Some(statement_ms) = query.statement_ms else { continue };
            // A prediction above the whole statement's time is wrong, but not in which part of it is the scan.
            let scan_ms = query.current.ms.min(statement_ms);
            sum.now_ms += query.weight * statement_ms;
            sum.scans_ms += query.weight * scan_ms;
            sum.then_ms += query.weight * (statement_ms - scan_ms + scan_ms * gain(at));
        }
        (sum.now_ms > 0.0).then_some(sum)
    }

    /// By the model alone.
    pub(super) fn predicted(queries: &[QueryCost]) -> Option<Self> {
        Self::of(queries, |at| 1.0 / queries[at].ratio.max(f64::MIN_POSITIVE))
    }
}

impl Proposal {
    fn refine_statements(&mut self, now_ms: &[Option<f64>]) {
        let ratio = |at: usize| match (self.queries[at].measured_ms, now_ms[at]) {
            (Some(then), Some(now)) if now > 0.0 => then / now,
            _ => 1.0 / self.queries[at].ratio.max(f64::MIN_POSITIVE),
        };
        self.statements = Statements::of(&self.queries, ratio);
    }
}

impl Advice {
    /// Where scans were measured on a sample, what they gained there counts.
    pub(super) fn refine_statements(&mut self) {
        let now_ms: Vec<Option<f64>> = self.current.queries.iter().map(|query| query.measured_ms).collect();
        self.designs.iter_mut().for_each(|proposal| proposal.refine_statements(&now_ms));
    }
}
