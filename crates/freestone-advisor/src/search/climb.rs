//! Hill climbing over column groups: HillClimb, and its inverse that starts with all columns together.

use std::collections::{HashMap, HashSet};

use super::evaluate::{Evaluator, Score};
use super::layout::Layout;
use super::partition;

/// Wider tables are climbed lazily: a step's gain is that of an earlier round until it becomes the best.
const WIDE: usize = 16;

/// The steps that a climb may take.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Merges two groups.
    pub merge: bool,
    /// Splits a group.
    pub split: bool,
    /// Moves a column to another group.
    pub shift: bool,
}

impl Steps {
    /// Only merges.
    pub const MERGE: Steps = Steps { merge: true, split: false, shift: false };
    /// Only splits.
    pub const SPLIT: Steps = Steps { merge: false, split: true, shift: false };
    /// All kinds of steps.
    pub const ALL: Steps = Steps { merge: true, split: true, shift: true };
}

/// A layout and its score.
#[derive(Debug, Clone)]
pub struct ScoredLayout {
    /// The layout.
    pub layout: Layout,
    /// Its score.
    pub score: Score,
}

impl ScoredLayout {
    /// Computes the score of a layout.
    pub fn new(evaluator: &mut Evaluator<'_>, layout: Layout) -> Self {
        let score = evaluator.score(&layout);
        ScoredLayout { layout, score }
    }

    /// The better of two; the first if they are equal.
    pub fn better(self, other: ScoredLayout) -> ScoredLayout {
        if other.score.beats(&self.score) { other } else { self }
    }
}

/// A change of the groups, identified by their contents, so that it remains valid after other changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Merge(Vec<usize>, Vec<usize>),
    Split(Vec<usize>, Vec<usize>),
    Shift(usize, Vec<usize>, Vec<usize>),
}

impl Step {
    fn apply(&self, layout: &Layout) -> Option<Layout> {
        let at = |group: &[usize]| layout.groups().iter().position(|g| g == group);
        match self {
            Step::Merge(a, b) => Some(layout.merged(at(a)?, at(b)?)),
            Step::Split(group, part) => Some(layout.split(at(group)?, part)),
            Step::Shift(column, from, to) => at(from).and(Some(layout.shifted(*column, at(to)?))),
        }
    }

    /// The columns whose group changes.
    fn columns(&self) -> Vec<usize> {
        match self {
            Step::Merge(a, b) | Step::Shift(_, a, b) => a.iter().chain(b).copied().collect(),
            Step::Split(group, _) => group.clone(),
        }
    }
}

/// Takes the step that reduces the cost most until none does, or until the model was called `allowance` times.
pub fn climb(evaluator: &mut Evaluator<'_>, start: Layout, steps: Steps, allowance: usize) -> ScoredLayout {
    let stop = evaluator.calls().saturating_add(allowance);
    let lazy = evaluator.columns() > WIDE;
    let mut costs = evaluator.costs(&start);
    let mut found = ScoredLayout { score: evaluator.score_of(&start, &costs), layout: start };
    // The last score of each step, and the round in which it was computed.
    let mut tried: HashMap<Step, (Score, usize)> = HashMap::new();
    for round in 0.. {
        let mut candidates: Vec<(Step, Score, bool)> = vec![];
        for step in list(evaluator, &found.layout, steps) {
            let known = tried.get(&step).filter(|_| lazy).copied();
            let (score, fresh) = match known {
                // The saving at that time, subtracted from the current cost.
                Some((saved, _)) => (
                    Score { ms: found.score.ms - saved.ms, excess: (found.score.excess - saved.excess).max(0.0) },
                    false,
                ),
                None if evaluator.calls() < stop => {
                    let score = attempt(evaluator, &found, &costs, &step);
                    tried.insert(step.clone(), (saving(&found.score, &score), round));
                    (score, true)
                }
                None => continue,
            };
            candidates.push((step, score, fresh));
        }
        let Some(best) = choose(evaluator, &found, &costs, candidates, &mut tried, (round, stop)) else { break };
        let layout = best.apply(&found.layout).expect("the step was listed for this layout");
        costs = evaluator.costs_changed(&layout, &costs, &best.columns());
        found = ScoredLayout { score: evaluator.score_of(&layout, &costs), layout };
    }
    found
}

/// The best step that reduces the cost. A score from an earlier round is computed again before it is used.
fn choose(
    evaluator: &mut Evaluator<'_>,
    found: &ScoredLayout,
    costs: &[f64],
    mut candidates: Vec<(Step, Score, bool)>,
    tried: &mut HashMap<Step, (Score, usize)>,
    (round, stop): (usize, usize),
) -> Option<Step> {
    loop {
        let best = (0..candidates.len()).reduce(|a, b| if candidates[b].1.beats(&candidates[a].1) { b } else { a })?;
        let (step, score, fresh) = &mut candidates[best];
        if !score.beats(&found.score) {
            return None;
        }
        if *fresh {
            return Some(step.clone());
        }
        if evaluator.calls() >= stop {
            return None;
        }
        *score = attempt(evaluator, found, costs, step);
        *fresh = true;
        tried.insert(step.clone(), (saving(&found.score, score), round));
    }
}

fn attempt(evaluator: &mut Evaluator<'_>, found: &ScoredLayout, costs: &[f64], step: &Step) -> Score {
    let Some(layout) = step.apply(&found.layout) else { return Score { excess: f64::INFINITY, ms: f64::INFINITY } };
    let costs = evaluator.costs_changed(&layout, costs, &step.columns());
    evaluator.score_of(&layout, &costs)
}

fn saving(before: &Score, after: &Score) -> Score {
    Score { excess: before.excess - after.excess, ms: before.ms - after.ms }
}

/// The steps from a layout, in a fixed order. Groups that no query reads together are not merged, since that cannot
/// help.
fn list(evaluator: &Evaluator<'_>, layout: &Layout, steps: Steps) -> Vec<Step> {
    let limit = if evaluator.columns() > WIDE { 4 * evaluator.columns() } else { usize::MAX };
    let groups = layout.groups();
    let mut listed = vec![];
    let near = if steps.merge || steps.shift { affinities(evaluator, layout) } else { vec![] };
    if steps.merge {
        let pairs = near.iter().take(limit);
        listed.extend(pairs.map(|&(a, b)| Step::Merge(groups[a].clone(), groups[b].clone())));
    }
    if steps.split {
        listed.extend(splits(evaluator, layout, limit));
    }
    if steps.shift {
        let both_ways = near.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).filter(|(from, _)| groups[*from].len() > 1);
        let shifts = both_ways.flat_map(|(from, to)| {
            groups[from].iter().map(move |&c| Step::Shift(c, groups[from].clone(), groups[to].clone()))
        });
        listed.extend(shifts.take(limit));
    }
    listed
}

/// Pairs of groups that some query reads together, by the number of such queries.
fn affinities(evaluator: &Evaluator<'_>, layout: &Layout) -> Vec<(usize, usize)> {
    let count = layout.groups().len();
    let mut owner = vec![0; evaluator.columns()];
    for (number, group) in layout.groups().iter().enumerate() {
        group.iter().for_each(|c| owner[*c] = number);
    }
    let mut alone = vec![0.0; count];
    let mut together: HashMap<(usize, usize), f64> = HashMap::new();
    for known in evaluator.queries() {
        let mut touched: Vec<usize> = known.touched.iter().map(|c| owner[*c]).collect();
        touched.sort_unstable();
        touched.dedup();
        for (i, &a) in touched.iter().enumerate() {
            alone[a] += known.weight;
            for &b in &touched[i + 1..] {
                *together.entry((a, b)).or_default() += known.weight;
            }
        }
    }
    let mut pairs: Vec<(f64, (usize, usize))> =
        together.into_iter().map(|((a, b), both)| (both / (alone[a] + alone[b] - both), (a, b))).collect();
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Ways to divide a group in two: by the columns that each query reads, by those that it tests, and single columns.
fn splits(evaluator: &Evaluator<'_>, layout: &Layout, limit: usize) -> Vec<Step> {
    let mut seen = HashSet::new();
    let mut listed = vec![];
    for group in layout.groups().iter().filter(|g| g.len() > 1) {
        let read = evaluator.queries().iter().map(|k| k.touched.clone());
        let tested = evaluator.queries().iter().map(|k| k.query.predicates.iter().map(|p| p.column).collect());
        let single = group.iter().map(|c| vec![*c]);
        let hot: Vec<usize> = evaluator.queries().iter().flat_map(|k| k.touched.iter().copied()).collect();
        for set in [hot].into_iter().chain(single).chain(read).chain(tested) {
            let inside: Vec<usize> = group.iter().copied().filter(|c| set.contains(c)).collect();
            let outside: Vec<usize> = group.iter().copied().filter(|c| !set.contains(c)).collect();
            if inside.is_empty() || outside.is_empty() {
                continue;
            }
            // The same division, whichever side is named.
            let part = if inside.contains(&group[0]) { inside } else { outside };
            if seen.insert((group.clone(), part.clone())) {
                listed.push(Step::Split(group.clone(), part));
            }
        }
    }
    listed.truncate(limit);
    listed
}

/// The best partition of `items` (single columns, or atoms) by trying all of them. Use it with at most 8 items.
pub fn exhaustive(evaluator: &mut Evaluator<'_>, items: &[Vec<usize>], start: &Layout) -> ScoredLayout {
    let mut best: Option<ScoredLayout> = None;
    partition::each_partition(items.len(), &mut |numbers| {
        let layout = Layout::new(partition::blocks(numbers, items), start.base.clone());
        let found = ScoredLayout::new(evaluator, layout);
        if best.as_ref().is_none_or(|b| found.score.beats(&b.score)) {
            best = Some(found);
        }
    });
    best.unwrap_or_else(|| ScoredLayout::new(evaluator, start.clone()))
}
