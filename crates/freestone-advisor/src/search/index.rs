//! Ordered indexes that are worthwhile for a layout.

use super::climb::ScoredLayout;
use super::evaluate::Evaluator;
use super::layout::Base;
use super::order::sort_found;
use crate::workload::PredicateForm;

/// The maximum number of indexes of a table.
const INDEXES: usize = 3;
/// The number of keys that are tried, by their possible saving, and the maximum number of columns of a key.
const KEYS: usize = 12;
const KEY_COLUMNS: usize = 2;
/// A test that more than this share of rows satisfies does not use an index.
const MOST_SELECTED: f64 = 0.05;
/// The share of the whole cost that an index has to save, because it needs space, and time whenever rows are written.
const LEAST_GAIN: f64 = 0.05;

/// The layout with the indexes that reduce its cost, the best first, and without others. `None` if these are its
/// current ones.
pub(super) fn indexed(evaluator: &mut Evaluator<'_>, start: &ScoredLayout) -> Option<ScoredLayout> {
    let mut best = needed(evaluator, start.clone());
    let keys = keys(evaluator, &best);
    for _ in best.layout.base.index.len()..INDEXES {
        let mut round = vec![];
        for key in keys.iter().filter(|key| !best.layout.base.index.contains(key)) {
            let mut base: Base = best.layout.base.clone();
            base.index.push(key.clone());
            base.index.sort_unstable();
            round.push(ScoredLayout::new(evaluator, best.layout.with_base(base)));
        }
        sort_found(&mut round);
        let Some(found) = round.into_iter().next() else { break };
        if found.score.excess > best.score.excess || found.score.ms > best.score.ms * (1.0 - LEAST_GAIN) {
            break;
        }
        best = found;
    }
    (best.layout != start.layout).then_some(best)
}

/// The layout without indexes that save too little.
fn needed(evaluator: &mut Evaluator<'_>, mut found: ScoredLayout) -> ScoredLayout {
    for at in (0..found.layout.base.index.len()).rev() {
        let mut base = found.layout.base.clone();
        base.index.remove(at);
        let without = ScoredLayout::new(evaluator, found.layout.with_base(base));
        if without.score.ms * (1.0 - LEAST_GAIN) < found.score.ms {
            found = without;
        }
    }
    found
}

/// Keys of columns with selective tests, the most selective first in each key, by the current cost of their queries.
fn keys(evaluator: &mut Evaluator<'_>, start: &ScoredLayout) -> Vec<Vec<usize>> {
    let costs = evaluator.costs(&start.layout);
    let mut keys: Vec<(Vec<usize>, f64)> = vec![];
    for (known, ms) in evaluator.queries().iter().zip(costs) {
        let mut tests: Vec<_> = known.query.predicates.iter().filter(|p| p.form != PredicateForm::Other).collect();
        // Tests for one value come before ranges, after which no further column of a key prunes.
        tests.sort_by(|a, b| {
            let of = |form| form != PredicateForm::Equal;
            of(a.form).cmp(&of(b.form)).then(a.selectivity.total_cmp(&b.selectivity))
        });
        tests.dedup_by_key(|p| p.column);
        for columns in 1..=tests.len().min(KEY_COLUMNS) {
            let selected: f64 = tests[..columns].iter().map(|p| p.selectivity).product();
            if selected > MOST_SELECTED {
                continue;
            }
            let key: Vec<usize> = tests[..columns].iter().map(|p| p.column).collect();
            let benefit = known.weight * ms.min(f64::MAX) * (1.0 - selected);
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, sum)) => *sum += benefit,
                None => keys.push((key, benefit)),
            }
        }
    }
    keys.sort_by(|a, b| b.1.total_cmp(&a.1));
    keys.truncate(KEYS);
    keys.into_iter().map(|(key, _)| key).collect()
}
