//! Orders worth trying: sort columns with their levels, and dimensions to cluster by.

use freestone_store::cluster::DimensionPath;
use freestone_store::design::PageFormat;

use super::climb::Found;
use super::evaluate::Evaluator;
use super::layout::{Base, Layout};
use crate::workload::PredicateForm;

/// Sort columns at most, and how many lists go from one depth to the next.
const DEPTH: usize = 3;
const BEAM: usize = 3;
/// Columns tried at each depth, and dimensions that clusters are made of.
const COLUMNS: usize = 6;
const DIMENSIONS: usize = 4;

/// Columns by what an order by them could spare: the share of rows that fail a test times what the query costs now,
/// weighted. Tests that no order helps do not count.
pub fn pruning_benefits(evaluator: &mut Evaluator<'_>, layout: &Layout) -> Vec<(usize, f64)> {
    let costs = evaluator.costs(layout);
    let mut benefits = vec![0.0; evaluator.columns()];
    for (known, ms) in evaluator.queries().iter().zip(costs) {
        for predicate in known.query.predicates.iter().filter(|p| p.form != PredicateForm::Other) {
            benefits[predicate.column] += known.weight * ms.min(f64::MAX) * (1.0 - predicate.selectivity);
        }
    }
    let mut ranked: Vec<(usize, f64)> = benefits.into_iter().enumerate().filter(|(_, b)| *b > 0.0).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
}

/// Layouts in other orders than `start`'s, best first: sorts up to three deep (by columns tested and by orders wanted), each
/// with the number of levels that suits it, clusters of two and three tested columns, and `dimensions` that the caller
/// knows, such as those reached over foreign keys. `dimensions`: `None` leaves clusters out.
pub fn orders(evaluator: &mut Evaluator<'_>, start: &Layout, dimensions: Option<&[DimensionPath]>) -> Vec<Found> {
    let benefits = pruning_benefits(evaluator, start);
    let mut found = sorts(evaluator, start, &benefits);
    if let Some(dimensions) = dimensions {
        found.extend(clusters(evaluator, start, &benefits, dimensions));
    }
    let mut base = start.base.clone();
    (base.sort, base.cluster, base.levels) = (vec![], vec![], 0);
    found.push(Found::new(evaluator, start.with_base(base)));
    sort_found(&mut found);
    found
}

pub(super) fn sort_found(found: &mut Vec<Found>) {
    found.sort_by(|a, b| a.score.excess.total_cmp(&b.score.excess).then(a.score.ms.total_cmp(&b.score.ms)));
    let mut seen: Vec<Layout> = vec![];
    found.retain(|f| {
        let new = !seen.contains(&f.layout);
        if new {
            seen.push(f.layout.clone());
        }
        new
    });
}

fn sorts(evaluator: &mut Evaluator<'_>, start: &Layout, benefits: &[(usize, f64)]) -> Vec<Found> {
    let columns: Vec<usize> = benefits.iter().take(COLUMNS).map(|(c, _)| *c).collect();
    let mut wanted: Vec<Vec<usize>> = vec![];
    for known in evaluator.queries() {
        let order: Vec<usize> = known.query.order.iter().copied().take(DEPTH).collect();
        if !order.is_empty() && !wanted.contains(&order) && wanted.len() < COLUMNS {
            wanted.push(order);
        }
    }
    let mut all = vec![];
    let mut beam: Vec<Vec<usize>> = vec![vec![]];
    for depth in 1..=DEPTH {
        let longer = beam.iter().flat_map(|list| {
            columns.iter().filter(|c| !list.contains(c)).map(|c| list.iter().copied().chain([*c]).collect::<Vec<_>>())
        });
        let mut lists: Vec<Vec<usize>> = longer.collect();
        lists.extend(wanted.iter().filter(|w| w.len() == depth).cloned());
        let mut round: Vec<Found> = lists.into_iter().map(|sort| sorted(evaluator, start, sort)).collect();
        sort_found(&mut round);
        beam = round.iter().take(BEAM).map(|f| f.layout.base.sort.clone()).collect();
        all.extend(round);
    }
    sort_found(&mut all);
    let leveled: Vec<Found> = all.iter().take(BEAM).flat_map(|f| levels(evaluator, &f.layout)).collect();
    all.extend(leveled);
    all
}

fn sorted(evaluator: &mut Evaluator<'_>, start: &Layout, sort: Vec<usize>) -> Found {
    let mut base = start.base.clone();
    (base.sort, base.cluster, base.levels) = (sort, vec![], 0);
    Found::new(evaluator, start.with_base(base))
}

/// The layout with 1 level, 2, … as many as it has sort columns. Slotted pages have none.
pub fn levels(evaluator: &mut Evaluator<'_>, layout: &Layout) -> Vec<Found> {
    if layout.base.page == PageFormat::Slotted || !layout.base.cluster.is_empty() {
        return vec![];
    }
    let deepest = layout.base.sort.len() as u32;
    (1..=deepest)
        .map(|levels| {
            let base = Base { levels, ..layout.base.clone() };
            Found::new(evaluator, layout.with_base(base))
        })
        .collect()
}

fn clusters(
    evaluator: &mut Evaluator<'_>,
    start: &Layout,
    benefits: &[(usize, f64)],
    dimensions: &[DimensionPath],
) -> Vec<Found> {
    let own = benefits
        .iter()
        .take(DIMENSIONS)
        .map(|(c, _)| DimensionPath { names: vec![evaluator.names.columns()[*c].clone()], bits: None });
    let paths: Vec<DimensionPath> =
        dimensions.iter().take(DIMENSIONS).cloned().chain(own).take(DIMENSIONS + 1).collect();
    let mut found = vec![];
    // Subsets of two and three; and of one where it is no mere sort.
    for set in 1u32..1 << paths.len() {
        let chosen: Vec<DimensionPath> =
            (0..paths.len()).filter(|i| set & (1 << i) != 0).map(|i| paths[i].clone()).collect();
        let plain = chosen.len() == 1 && chosen[0].names.len() == 1;
        if chosen.len() > DEPTH || plain {
            continue;
        }
        let mut base = start.base.clone();
        (base.sort, base.cluster, base.levels) = (vec![], chosen, 0);
        found.push(Found::new(evaluator, start.with_base(base)));
    }
    found
}
