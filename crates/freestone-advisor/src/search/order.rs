//! Candidate orders: sort columns with their levels, and dimensions for clustering.

use std::collections::HashMap;

use freestone_store::cluster::{DimensionPath, keys_of};
use freestone_store::design::PageFormat;

use super::climb::ScoredLayout;
use super::evaluate::Evaluator;
use super::layout::{Base, Layout};
use crate::workload::PredicateForm;

/// The maximum number of sort columns, and the number of lists that continue to the next depth.
const DEPTH: usize = 3;
const BEAM: usize = 3;
/// The number of columns tried at each depth.
const COLUMNS: usize = 6;
/// The maximum number of dimensions of a cluster, and the number of clusters that continue to the next dimension.
const DIMENSIONS: usize = 4;
const CLUSTER_BEAM: usize = 2;
/// The numbers of candidate dimensions: columns of the table, attributes of other tables, and attributes of one other
/// table.
const OWN_DIMENSIONS: usize = 4;
const PATHS: usize = 8;
const ATTRIBUTES: usize = 2;

/// Columns by the possible saving of an order by them: the share of rows that fail a test times the current cost of the
/// query, weighted. Tests that no order helps are not counted.
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

/// Attributes of referenced tables by the possible saving of clustering by them, as [`pruning_benefits`].
fn path_benefits(evaluator: &mut Evaluator<'_>, layout: &Layout) -> Vec<(Vec<String>, f64)> {
    let costs = evaluator.costs(layout);
    let mut benefits: Vec<(Vec<String>, f64)> = vec![];
    for (known, ms) in evaluator.queries().iter().zip(costs) {
        for test in known.query.paths.iter().filter(|test| test.form != PredicateForm::Other) {
            let benefit = known.weight * ms.min(f64::MAX) * (1.0 - test.selectivity);
            match benefits.iter_mut().find(|(path, _)| *path == test.path) {
                Some((_, sum)) => *sum += benefit,
                None => benefits.push((test.path.clone(), benefit)),
            }
        }
    }
    benefits
}

/// Layouts in other orders than `start`'s, best first: up to three sort columns (from tests and from requested orders),
/// each with its best number of levels; and, if `with_clusters` is set, clusters by tested columns and by attributes of
/// referenced tables.
pub fn orders(evaluator: &mut Evaluator<'_>, start: &Layout, with_clusters: bool) -> Vec<ScoredLayout> {
    let benefits = pruning_benefits(evaluator, start);
    let mut found = sorts(evaluator, start, &benefits);
    if with_clusters {
        found.extend(clusters(evaluator, start, &benefits));
    }
    let mut base = start.base.clone();
    (base.sort, base.cluster, base.levels) = (vec![], vec![], 0);
    found.push(ScoredLayout::new(evaluator, start.with_base(base)));
    sort_found(&mut found);
    found
}

pub(super) fn sort_found(found: &mut Vec<ScoredLayout>) {
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

fn sorts(evaluator: &mut Evaluator<'_>, start: &Layout, benefits: &[(usize, f64)]) -> Vec<ScoredLayout> {
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
        let mut round: Vec<ScoredLayout> = lists.into_iter().map(|sort| sorted(evaluator, start, sort)).collect();
        sort_found(&mut round);
        beam = round.iter().take(BEAM).map(|f| f.layout.base.sort.clone()).collect();
        all.extend(round);
    }
    sort_found(&mut all);
    let leveled: Vec<ScoredLayout> = all.iter().take(BEAM).flat_map(|f| levels(evaluator, &f.layout)).collect();
    all.extend(leveled);
    all
}

fn sorted(evaluator: &mut Evaluator<'_>, start: &Layout, sort: Vec<usize>) -> ScoredLayout {
    let mut base = start.base.clone();
    (base.sort, base.cluster, base.levels) = (sort, vec![], 0);
    ScoredLayout::new(evaluator, start.with_base(base))
}

/// The layout with 1 level, 2, … up to the number of its sort columns. Slotted pages have no levels.
pub fn levels(evaluator: &mut Evaluator<'_>, layout: &Layout) -> Vec<ScoredLayout> {
    if layout.base.page == PageFormat::Slotted || !layout.base.cluster.is_empty() {
        return vec![];
    }
    let deepest = layout.base.sort.len() as u32;
    (1..=deepest)
        .map(|levels| {
            let base = Base { levels, ..layout.base.clone() };
            ScoredLayout::new(evaluator, layout.with_base(base))
        })
        .collect()
}

/// Clusters of one dimension (unless that is just a sort), of two, and of more: the best few of each number, extended
/// by every further dimension.
fn clusters(evaluator: &mut Evaluator<'_>, start: &Layout, benefits: &[(usize, f64)]) -> Vec<ScoredLayout> {
    let candidates = dimensions(evaluator, start, benefits);
    let mut found = vec![];
    let mut beam: Vec<Vec<DimensionPath>> = vec![vec![]];
    for _ in 0..DIMENSIONS {
        let mut round: Vec<ScoredLayout> = vec![];
        for chosen in &beam {
            for next in candidates.iter().filter(|next| !chosen.iter().any(|known| same_key(known, next))) {
                // In a fixed order of dimensions, because the bits of all dimensions alternate.
                let cluster = candidates.iter().filter(|c| *c == next || chosen.contains(c)).cloned().collect();
                let mut base = start.base.clone();
                (base.sort, base.cluster, base.levels) = (vec![], cluster, 0);
                round.push(ScoredLayout::new(evaluator, start.with_base(base)));
            }
        }
        sort_found(&mut round);
        beam = round.iter().take(CLUSTER_BEAM).map(|f| f.layout.base.cluster.clone()).collect();
        found.extend(round);
    }
    let is_sort = |cluster: &[DimensionPath]| cluster.len() == 1 && cluster[0].names.len() == 1;
    found.retain(|f| !is_sort(&f.layout.base.cluster));
    found
}

/// Tested columns, and attributes of referenced tables that queries filter by: the most useful of each table, sorted by
/// usefulness.
fn dimensions(evaluator: &mut Evaluator<'_>, start: &Layout, benefits: &[(usize, f64)]) -> Vec<DimensionPath> {
    let own = benefits.iter().take(OWN_DIMENSIONS);
    let own = own.map(|(column, benefit)| (vec![evaluator.names.columns()[*column].clone()], *benefit));
    let mut ranked: Vec<(Vec<String>, f64)> = own.collect();
    let mut paths = path_benefits(evaluator, start);
    paths.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut by_key: HashMap<Vec<String>, usize> = HashMap::new();
    paths.retain(|(names, _)| {
        let of_key = by_key.entry(keys_of(names).to_vec()).or_default();
        *of_key += 1;
        *of_key <= ATTRIBUTES
    });
    ranked.extend(paths.into_iter().take(PATHS));
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.into_iter().map(|(names, _)| DimensionPath { names, bits: None }).collect()
}

/// Whether two dimensions are attributes of the same rows, so that one's codes determine the other's values, too.
fn same_key(a: &DimensionPath, b: &DimensionPath) -> bool {
    a.names == b.names || (a.names.len() > 1 && keys_of(&a.names) == keys_of(&b.names))
}
