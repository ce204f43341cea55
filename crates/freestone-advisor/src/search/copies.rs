//! Several copies of a table in different designs: fractured mirrors, other orders, and materialized column subsets
//! (the views of Holloway and DeWitt 2008). Each query reads its cheapest copy.

use super::climb::ScoredLayout;
use super::evaluate::Evaluator;
use super::layout::{Base, Layout};
use crate::workload::PredicateForm;

/// The number of queries, heaviest first, for which copies of their own are tried.
const HEAVY: usize = 24;
/// A further copy needs space, and each load has to write it. It has to save at least this share of the time.
const WORTH: f64 = 0.05;
/// The maximum number of rounds of exchange. Every round but the last reduces the cost.
const EXCHANGES: usize = 16;

/// A copy: some columns (all, if it is the table) in a layout. In `layout`, each column that it does not have is in a
/// group of its own, which is not written.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The layout of the copy.
    pub layout: Layout,
    /// Ascending; `None`: all.
    pub columns: Option<Vec<usize>>,
    /// The bytes of the copy.
    pub bytes: f64,
}

/// Copies that serve a workload together.
#[derive(Debug, Clone)]
pub struct CopySet {
    /// The first is the table, which has all columns.
    pub copies: Vec<Copy>,
    /// For each query of the evaluator, the copy that it reads.
    pub serves: Vec<usize>,
    /// The predicted milliseconds of the workload.
    pub ms: f64,
    /// The bytes of all copies.
    pub bytes: f64,
}

/// At most `count` copies within `budget` bytes, chosen greedily and then by exchange, from `designs`, from `existing`
/// copies, and from copies for the heaviest queries. The table keeps its design, `current`, if the others serve all
/// queries. `None` if nothing fits.
pub fn choose(
    evaluator: &mut Evaluator<'_>,
    designs: &[ScoredLayout],
    current: &Copy,
    existing: &[Copy],
    count: usize,
    budget: Option<f64>,
) -> Option<CopySet> {
    let candidates = candidates(evaluator, designs, existing);
    let costs: Vec<Vec<f64>> = candidates.iter().map(|copy| copy_costs(evaluator, copy)).collect();
    let weights = evaluator.queries().iter().map(|k| k.weight).collect();
    let choice = Choice { candidates: &candidates, tables: designs.len(), costs: &costs, weights, budget };
    let mut chosen = vec![choice.best_table()?];
    while chosen.len() < count {
        let Some(next) = choice.best_with(&chosen) else { break };
        chosen.push(next);
    }
    for _ in 0..EXCHANGES {
        let Some(better) = choice.exchanged(&chosen) else { break };
        chosen = better;
    }
    let mut set = choice.set(&chosen);
    let bytes = set.bytes - set.copies[0].bytes + current.bytes;
    if !set.serves.contains(&0) && budget.is_none_or(|budget| bytes <= budget) {
        (set.copies[0], set.bytes) = (current.clone(), bytes);
    }
    Some(set)
}

struct Choice<'a> {
    candidates: &'a [Copy],
    /// The number of first candidates that may be the table, because they respect the user's fixed options.
    tables: usize,
    /// Milliseconds by candidate and query; infinite if the copy lacks a column.
    costs: &'a [Vec<f64>],
    weights: Vec<f64>,
    budget: Option<f64>,
}

impl Choice<'_> {
    fn ms(&self, chosen: &[usize]) -> f64 {
        let cheapest = |q: usize| chosen.iter().map(|c| self.costs[*c][q]).fold(f64::INFINITY, f64::min);
        self.weights.iter().enumerate().map(|(q, weight)| weight * cheapest(q)).sum()
    }

    fn fits(&self, chosen: &[usize]) -> bool {
        let bytes: f64 = chosen.iter().map(|c| self.candidates[*c].bytes).sum();
        self.budget.is_none_or(|budget| bytes <= budget)
    }

    fn best_table(&self) -> Option<usize> {
        (0..self.tables).filter(|c| self.fits(&[*c])).min_by(|a, b| self.ms(&[*a]).total_cmp(&self.ms(&[*b])))
    }

    /// The candidate that saves most in addition to those chosen; per byte, if there is a budget.
    fn best_with(&self, chosen: &[usize]) -> Option<usize> {
        let before = self.ms(chosen);
        let gain = |c: usize| {
            let with: Vec<usize> = chosen.iter().copied().chain([c]).collect();
            let saved = before - self.ms(&with);
            let price = self.budget.map_or(1.0, |_| self.candidates[c].bytes.max(1.0));
            (saved > before * WORTH && self.fits(&with)).then_some((saved / price, c))
        };
        let others = (0..self.candidates.len()).filter(|c| !chosen.contains(c));
        // If they are equal, the smaller one.
        let smaller = |a: usize, b: usize| self.candidates[b].bytes.total_cmp(&self.candidates[a].bytes);
        others.filter_map(gain).max_by(|a, b| a.0.total_cmp(&b.0).then(smaller(a.1, b.1))).map(|(_, c)| c)
    }

    /// Replaces one copy by another, if that is cheaper. The table must have all columns.
    fn exchanged(&self, chosen: &[usize]) -> Option<Vec<usize>> {
        let now = self.ms(chosen);
        let mut best: Option<(f64, Vec<usize>)> = None;
        for (slot, candidate) in (0..chosen.len()).flat_map(|s| (0..self.candidates.len()).map(move |c| (s, c))) {
            if chosen.contains(&candidate) || (slot == 0 && candidate >= self.tables) {
                continue;
            }
            let mut with = chosen.to_vec();
            with[slot] = candidate;
            let ms = self.ms(&with);
            if ms < now * (1.0 - 1e-9) && self.fits(&with) && best.as_ref().is_none_or(|(b, _)| ms < *b) {
                best = Some((ms, with));
            }
        }
        best.map(|(_, with)| with)
    }

    fn set(&self, chosen: &[usize]) -> CopySet {
        let by_cost = |q: usize| {
            move |a: &usize, b: &usize| self.costs[chosen[*a]][q].total_cmp(&self.costs[chosen[*b]][q]).then(a.cmp(b))
        };
        let serves: Vec<usize> =
            (0..self.weights.len()).map(|q| (0..chosen.len()).min_by(by_cost(q)).expect("a table is chosen")).collect();
        let copies: Vec<Copy> = chosen.iter().map(|c| self.candidates[*c].clone()).collect();
        let bytes = copies.iter().map(|c| c.bytes).sum();
        CopySet { serves, ms: self.ms(chosen), bytes, copies }
    }
}

fn copy_costs(evaluator: &mut Evaluator<'_>, copy: &Copy) -> Vec<f64> {
    let mut costs = evaluator.costs(&copy.layout);
    if let Some(columns) = &copy.columns {
        for (ms, known) in costs.iter_mut().zip(evaluator.queries()) {
            if known.touched.iter().any(|c| !columns.contains(c)) {
                *ms = f64::INFINITY;
            }
        }
    }
    costs
}

/// The designs found; column and row layouts in the orders that heavy queries prefer; and the columns of these queries
/// alone.
fn candidates(evaluator: &mut Evaluator<'_>, designs: &[ScoredLayout], existing: &[Copy]) -> Vec<Copy> {
    let columns = evaluator.columns();
    let mut layouts: Vec<(Layout, Option<Vec<usize>>)> = designs.iter().map(|f| (f.layout.clone(), None)).collect();
    layouts.extend(existing.iter().map(|copy| (copy.layout.clone(), copy.columns.clone())));
    let Some(best) = designs.first() else { return vec![] };
    let plain = Base { medium: best.layout.base.medium, page_size: best.layout.base.page_size, ..Base::default() };
    layouts.push((Layout::apart(columns, plain.clone()), None));
    layouts.push((Layout::together(columns, plain.clone()), None));
    let costs = evaluator.costs(&best.layout);
    let mut heavy: Vec<usize> = (0..costs.len()).collect();
    heavy.sort_by(|a, b| {
        let weight = |q: usize| evaluator.queries()[q].weight * costs[q];
        weight(*b).total_cmp(&weight(*a)).then(a.cmp(b))
    });
    heavy.truncate(HEAVY);
    for query in heavy {
        let sort = wanted_sort(evaluator, query);
        let base = Base { sort, ..plain.clone() };
        layouts.push((Layout::apart(columns, base.clone()), None));
        layouts.push((best.layout.with_base(Base { page: best.layout.base.page, ..base.clone() }), None));
        // Its columns, and those of every query that needs some of them and few others.
        let mut own = evaluator.queries()[query].touched.clone();
        own.extend(base.sort.iter().filter(|c| !evaluator.queries()[query].touched.contains(c)));
        own.sort_unstable();
        let mut wider = own.clone();
        for known in evaluator.queries() {
            let missing = known.touched.iter().filter(|c| !own.contains(c)).count();
            if missing * 3 <= own.len() {
                wider.extend(known.touched.iter().copied());
            }
        }
        wider.sort_unstable();
        wider.dedup();
        for set in [own, wider] {
            if set.len() == columns || set.is_empty() {
                continue;
            }
            let rest = (0..columns).filter(|c| !set.contains(c)).map(|c| vec![c]);
            let as_row = Layout::new(rest.chain([set.clone()]), base.clone());
            layouts.push((Layout::apart(columns, base.clone()), Some(set.clone())));
            layouts.push((as_row, Some(set)));
        }
    }
    let mut copies: Vec<Copy> = vec![];
    for (layout, columns) in layouts {
        if copies.iter().any(|c| c.layout == layout && c.columns == columns) {
            continue;
        }
        let bytes = match &columns {
            None => evaluator.bytes(&layout),
            Some(set) => evaluator.model.bytes_of(&evaluator.names.design(&layout), set),
        };
        copies.push(Copy { layout, columns, bytes });
    }
    copies
}

/// The order that helps a query: the order that it requests, or otherwise its tests, the most selective first.
fn wanted_sort(evaluator: &Evaluator<'_>, query: usize) -> Vec<usize> {
    let query = evaluator.queries()[query].query;
    if !query.order.is_empty() {
        return query.order.iter().copied().take(3).collect();
    }
    let mut tests: Vec<_> = query.predicates.iter().filter(|p| p.form != PredicateForm::Other).collect();
    tests.sort_by(|a, b| a.selectivity.total_cmp(&b.selectivity));
    let mut sort: Vec<usize> = vec![];
    for test in tests {
        if !sort.contains(&test.column) && sort.len() < 3 {
            sort.push(test.column);
        }
    }
    sort
}
