//! What the zones of a layout leave of a query: rows that are looked at, and predicates that are still open there.

use super::geometry::Layout;
use super::processor::Wanted;
use super::{GRANULE, UNIT_ROWS, ZONE};
use crate::statistics::TableStatistics;
use crate::workload::{PredicateForm, Query};

/// What zones say of a query's predicates.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// Share of the zones that are left.
    pub zones: f64,
    /// Share of the units, and of the granules, that have a zone left.
    pub units: f64,
    pub granules: f64,
    /// Per predicate: share of the zones left in which it has to be evaluated, and share of the rows there that pass it.
    pub open: Vec<(f64, f64)>,
    /// Share of the rows of the zones left that qualify.
    pub density: f64,
    /// Share of the zones left of which all rows qualify for sure.
    pub whole: f64,
    /// Where an index names the rows to look at: which those are of the zones left, and the predicates that it answers.
    pub named: Option<(Wanted, Vec<usize>)>,
}

/// Runs of values that a list has at most: of more values some lie beside each other.
const LIST_RUNS: f64 = 8.0;
/// The same for attributes of other tables, of which one has few values.
const PATH_RUNS: f64 = 2.0;
/// Zones of a granule, and of a unit.
const GRANULE_ZONES: f64 = GRANULE / ZONE;
const UNIT_ZONES: f64 = UNIT_ROWS / ZONE;

impl Pruned {
    pub fn of(layout: &Layout, query: &Query, statistics: &TableStatistics) -> Pruned {
        let all_zones = (statistics.rows as f64 / ZONE).max(1.0);
        let (mut zones, mut open) = (1.0, vec![]);
        let mut whole = f64::from(u8::from(query.paths.is_empty()));
        let mut clustered: f64 = 1.0;
        for predicate in &query.predicates {
            let share = predicate.selectivity.clamp(0.0, 1.0);
            let span = statistics.zone_span(predicate.column, &layout.order);
            // A run of values is met by the zones that span its ends, and by those between. Of other tests zones say nothing.
            let values = share * statistics.columns[predicate.column].distinct;
            let (left, ends) = runs(predicate.form, values).map_or((1.0, 1.0), |runs| {
                let left = (share + runs * span).clamp(1.0 / all_zones, 1.0);
                (left, (2.0 * runs * span).min(left))
            });
            let has_nulls = statistics.columns[predicate.column].nulls > 0.0;
            let of_left = if has_nulls { 1.0 } else { ends / left };
            whole *= 1.0 - of_left;
            // A predicate is evaluated on all zones of a granule of which one is open.
            let evaluated = if left < 0.999 { (of_left * 1.5).min(1.0) } else { of_left };
            open.push((evaluated, (share / left).min(1.0)));
            zones *= left;
            clustered = clustered.min(left);
        }
        let of_paths = path_shares(layout, query, statistics, all_zones);
        zones *= of_paths.iter().product::<f64>();
        clustered = of_paths.into_iter().fold(clustered, f64::min);
        let density = open.iter().map(|(_, passing)| passing).product();
        // Zones left lie together where one predicate rules them out, so granules and units go with them.
        let of_run = |count: f64| {
            let boundary = if clustered < 0.999 { (count - 1.0) / all_zones } else { 0.0 };
            (zones + boundary).min(1.0 - (1.0 - zones).powf(count)).clamp(zones, 1.0)
        };
        let (units, granules) = (of_run(UNIT_ZONES), of_run(GRANULE_ZONES));
        Pruned { zones, units, granules, open, density, whole, named: None }
    }

    /// Leaves only zones that are not answered from their aggregates: those of which not all rows qualify.
    pub fn take_whole(&mut self) {
        let rest = 1.0 - self.whole;
        let (zones, whole) = (self.zones, self.whole);
        // Of the zones left of a granule, or a unit, one at least has to be scanned.
        let scanned = |share: f64, count: f64| share * (1.0 - whole.powf(count * (zones / share).min(1.0)));
        self.units = scanned(self.units, UNIT_ZONES);
        self.granules = scanned(self.granules, GRANULE_ZONES);
        self.zones *= rest;
        for (evaluated, passing) in &mut self.open {
            // Rows that fail are all in the zones that stay.
            *passing = (1.0 - (1.0 - *passing) / rest.max(1e-9)).clamp(0.0, 1.0);
            *evaluated = (*evaluated / rest.max(1e-9)).min(1.0);
        }
        self.density = self.open.iter().map(|(_, passing)| passing).product();
        self.whole = 0.0;
    }
}

/// Runs of values that a test's values are, of which there are about so many; `None` where they may be any.
fn runs(form: PredicateForm, values: f64) -> Option<f64> {
    match form {
        PredicateForm::Equal | PredicateForm::Range => Some(1.0),
        PredicateForm::In => Some(values.clamp(1.0, LIST_RUNS)),
        PredicateForm::Other => None,
    }
}

/// Shares of the zones that tests of referenced tables leave where rows are clustered by attributes of those: one for each
/// foreign key, as attributes of one row belong together.
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
