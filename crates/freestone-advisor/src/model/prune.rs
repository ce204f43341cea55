//! Zone pruning in a layout: the rows that a query's predicates leave, and the predicates that are still open there.

use super::geometry::Layout;
use super::wanted::WantedRows;
use super::{GRANULE, MORSEL_ROWS, ZONE};
use crate::statistics::TableStatistics;
use crate::workload::{PredicateForm, Query};

/// What the zones say about a query's predicates.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// The share of remaining zones.
    pub zones: f64,
    /// The share of morsels with a remaining zone.
    pub morsels: f64,
    /// The share of granules with a remaining zone.
    pub granules: f64,
    /// For each predicate: the share of the remaining zones in which it is open, and the share of the rows there that
    /// satisfy it.
    pub open: Vec<(f64, f64)>,
    /// The share of qualifying rows in the remaining zones.
    pub density: f64,
    /// The share of the remaining zones whose rows are all known to qualify.
    pub whole: f64,
    /// If an index is used: its matches in the remaining zones, and the predicates that it answers.
    pub named: Option<(WantedRows, Vec<usize>)>,
}

/// The maximum number of runs of values in a list. With more values, some are adjacent.
const LIST_RUNS: f64 = 8.0;
/// The same for attributes of other tables, which have few values.
const PATH_RUNS: f64 = 2.0;
/// The zones of a granule, and of a morsel.
const GRANULE_ZONES: f64 = GRANULE / ZONE;
const MORSEL_ZONES: f64 = MORSEL_ROWS / ZONE;

impl Pruned {
    /// The result for a query on a layout.
    pub fn of(layout: &Layout, query: &Query, statistics: &TableStatistics) -> Pruned {
        let all_zones = (statistics.rows as f64 / ZONE).max(1.0);
        let (mut zones, mut open) = (1.0, vec![]);
        let mut whole = f64::from(u8::from(query.paths.is_empty()));
        let mut clustered: f64 = 1.0;
        for predicate in &query.predicates {
            let share = predicate.selectivity.clamp(0.0, 1.0);
            let span = statistics.zone_span(predicate.column, &layout.order);
            // The zones that may contain a run of values are those that span its ends and those between. Other tests
            // prune no zone.
            let values = share * statistics.columns[predicate.column].distinct;
            let (left, ends) = runs(predicate.form, values).map_or((1.0, 1.0), |runs| {
                let left = (share + runs * span).clamp(1.0 / all_zones, 1.0);
                (left, (2.0 * runs * span).min(left))
            });
            let has_nulls = statistics.columns[predicate.column].nulls > 0.0;
            let of_left = if has_nulls { 1.0 } else { ends / left };
            whole *= 1.0 - of_left;
            // A predicate is evaluated in all zones of a granule if it is open in one of them.
            let evaluated = if left < 0.999 { (of_left * 1.5).min(1.0) } else { of_left };
            open.push((evaluated, (share / left).min(1.0)));
            zones *= left;
            clustered = clustered.min(left);
        }
        let of_paths = path_shares(layout, query, statistics, all_zones);
        zones *= of_paths.iter().product::<f64>();
        clustered = of_paths.into_iter().fold(clustered, f64::min);
        let density = open.iter().map(|(_, passing)| passing).product();
        // The zones that one predicate leaves are adjacent, so granules and morsels are pruned with them.
        let of_run = |count: f64| {
            let boundary = if clustered < 0.999 { (count - 1.0) / all_zones } else { 0.0 };
            (zones + boundary).min(1.0 - (1.0 - zones).powf(count)).clamp(zones, 1.0)
        };
        let (morsels, granules) = (of_run(MORSEL_ZONES), of_run(GRANULE_ZONES));
        Pruned { zones, morsels, granules, open, density, whole, named: None }
    }

    /// Leaves only the zones that their aggregates do not answer: those with rows that do not qualify.
    pub fn take_whole(&mut self) {
        let rest = 1.0 - self.whole;
        let (zones, whole) = (self.zones, self.whole);
        // Of the remaining zones of a granule or morsel, at least one has to be scanned.
        let scanned = |share: f64, count: f64| share * (1.0 - whole.powf(count * (zones / share).min(1.0)));
        self.morsels = scanned(self.morsels, MORSEL_ZONES);
        self.granules = scanned(self.granules, GRANULE_ZONES);
        self.zones *= rest;
        for (evaluated, passing) in &mut self.open {
            // All rows that do not qualify are in the remaining zones.
            *passing = (1.0 - (1.0 - *passing) / rest.max(1e-9)).clamp(0.0, 1.0);
            *evaluated = (*evaluated / rest.max(1e-9)).min(1.0);
        }
        self.density = self.open.iter().map(|(_, passing)| passing).product();
        self.whole = 0.0;
    }
}

/// The number of runs that the values of a test form, if there are about `values` of them. `None` if they may be any
/// values.
fn runs(form: PredicateForm, values: f64) -> Option<f64> {
    match form {
        PredicateForm::Equal | PredicateForm::Range => Some(1.0),
        PredicateForm::In => Some(values.clamp(1.0, LIST_RUNS)),
        PredicateForm::Other => None,
    }
}

/// The shares of zones that tests of referenced tables leave if rows are clustered by attributes of these: one per
/// foreign key, because attributes of one row depend on each other.
fn path_shares(layout: &Layout, query: &Query, statistics: &TableStatistics, all_zones: f64) -> Vec<f64> {
    let mut by_key: Vec<(&str, f64)> = vec![];
    for test in &query.paths {
        let (Some(column), Some((_, keys))) = (statistics.path_column(&test.path), test.path.split_last()) else {
            continue;
        };
        let Some(key) = keys.first().filter(|_| statistics.is_clustered_over(keys, &layout.order)) else { continue };
        let runs = match test.form {
            PredicateForm::Equal | PredicateForm::Range => 1.0,
            PredicateForm::In => PATH_RUNS,
            PredicateForm::Other => continue,
        };
        let met = statistics.zones_met(column, &layout.order, test.selectivity.clamp(0.0, 1.0), runs);
        let left = met.clamp(1.0 / all_zones, 1.0);
        match by_key.iter_mut().find(|(known, _)| *known == key.as_str()) {
            Some((_, least)) => *least = least.min(left),
            None => by_key.push((key.as_str(), left)),
        }
    }
    by_key.into_iter().map(|(_, left)| left).collect()
}
