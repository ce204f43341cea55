//! What a design changes for those who wait: whole statements, of which scans are a part.

use serde::{Deserialize, Serialize};

use super::QueryCost;

/// The statements whose times are known, in one run of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Statements {
    /// Milliseconds that they took, as logged.
    pub now_ms: f64,
    /// Milliseconds of that for scans of the table, predicted.
    pub scans_ms: f64,
    /// Milliseconds that they are predicted to take in the design: the scans become others, and joins have to do with more rows
    /// or fewer where the design leaves more of them or fewer.
    pub then_ms: f64,
}

/// Milliseconds of a statement that it takes whatever its tables are like: reading it, planning, and sending the answer.
const PLANNING_MS: f64 = 0.5;

impl Statements {
    /// What the statements of a design's queries take; `None` where no time is known. A scan gains what it gained on a sample,
    /// where `measured_now` has its time as the table is stored now and the query that in the design; else what is predicted.
    pub(super) fn of(queries: &[QueryCost], measured_now: &[Option<f64>]) -> Option<Self> {
        let mut sum = Statements { now_ms: 0.0, scans_ms: 0.0, then_ms: 0.0 };
        for (at, query) in queries.iter().enumerate() {
            let Some(statement_ms) = query.statement_ms else { continue };
            let measured_now = measured_now.get(at).copied().flatten().filter(|ms| *ms > 0.0);
            let share = match (query.measured_ms, measured_now) {
                (Some(then), Some(now)) => then / now,
                _ => 1.0 / query.ratio.max(f64::MIN_POSITIVE),
            };
            let planning_ms = PLANNING_MS.min(statement_ms);
            // A prediction above the whole statement's time is wrong, but not in which part of it is the scan.
            let scan_ms = query.current.ms.min(statement_ms - planning_ms);
            sum.now_ms += query.weight * statement_ms;
            sum.scans_ms += query.weight * scan_ms;
            let joins_ms = statement_ms - planning_ms - scan_ms;
            let then_ms = planning_ms + joins_ms * query.joined + scan_ms * share;
            sum.then_ms += query.weight * then_ms;
        }
        (sum.now_ms > 0.0).then_some(sum)
    }
}
