//! The effect of a design on whole statements, of which scans are a part.

use serde::{Deserialize, Serialize};

use super::QueryCost;

/// The statements with known times, in one run of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Statements {
    /// Their time in milliseconds, as logged.
    pub now_ms: f64,
    /// The predicted time of the table's scans within it, in milliseconds.
    pub scans_ms: f64,
    /// Their predicted time in the design, in milliseconds. The scans change, and joins process more or fewer rows if
    /// the design leaves more or fewer of them.
    pub then_ms: f64,
}

/// The milliseconds of a statement that do not depend on its tables: parsing, planning, and sending the answer.
const PLANNING_MS: f64 = 0.5;

impl Statements {
    /// The time of the statements of a design's queries; `None` if no time is known. The gain of a scan is the one on a
    /// sample, if `measured_now` has its time in the current design and the query has one in the new design; otherwise
    /// it is predicted.
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
            // If the prediction exceeds the statement's time, all of that time except planning is taken as the scan's.
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
