//! The cost of a layout, with all answers of the model cached.
//!
//! A query has the same cost in two layouts that differ only in groups that it does not read. So its cost is cached by
//! the set of groups that it reads, and after a step that changes two groups the model is called only for queries that
//! read one of them.

use std::collections::HashMap;

use freestone_store::design::PageFormat;

use super::layout::{Base, Layout, Names};
use crate::cost::CostModel;
use crate::workload::{Query, Workload};

/// A layout's score, compared first by the bytes above the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The bytes above the budget.
    pub excess: f64,
    /// The weighted sum over the queries, in milliseconds.
    pub ms: f64,
}

impl Score {
    /// Whether this is better by more than rounding errors.
    pub fn beats(&self, other: &Score) -> bool {
        if self.excess != other.excess {
            return self.excess < other.excess;
        }
        self.ms < other.ms * (1.0 - 1e-9)
    }
}

/// Computes the cost of layouts for one table and one workload.
pub struct Evaluator<'a> {
    /// The cost model.
    pub model: &'a dyn CostModel,
    /// The names of the columns, to make designs.
    pub names: Names,
    /// The distinct queries, each with the weights of its duplicates.
    queries: Vec<DistinctQuery<'a>>,
    /// The maximum bytes of a design.
    budget: Option<f64>,
    bases: Vec<Base>,
    groups: HashMap<Vec<usize>, u32>,
    costs: HashMap<(u32, u32, Vec<u32>), f64>,
    bytes: HashMap<(u32, Vec<u32>), f64>,
    calls: usize,
}

/// A distinct query.
pub struct DistinctQuery<'a> {
    /// The query.
    pub query: &'a Query,
    /// The sum of the weights of equal queries.
    pub weight: f64,
    /// The columns that the query reads.
    pub touched: Vec<usize>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator of a workload.
    pub fn new(model: &'a dyn CostModel, workload: &'a Workload, names: Names, budget: Option<f64>) -> Self {
        let mut queries: Vec<DistinctQuery<'a>> = vec![];
        for query in &workload.queries {
            match queries.iter_mut().find(|k| same_scan(k.query, query)) {
                Some(known) => known.weight += query.weight,
                None => queries.push(DistinctQuery { query, weight: query.weight, touched: query.touched() }),
            }
        }
        Evaluator {
            model,
            names,
            queries,
            budget,
            bases: vec![],
            groups: HashMap::new(),
            costs: HashMap::new(),
            bytes: HashMap::new(),
            calls: 0,
        }
    }

    /// The distinct queries.
    pub fn queries(&self) -> &[DistinctQuery<'a>] {
        &self.queries
    }

    /// The position of a query of the workload among the distinct ones.
    pub fn place(&self, query: &Query) -> Option<usize> {
        self.queries.iter().position(|known| same_scan(known.query, query))
    }

    /// The number of columns of the table.
    pub fn columns(&self) -> usize {
        self.names.columns().len()
    }

    /// The number of calls of the model so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// The score of a layout.
    pub fn score(&mut self, layout: &Layout) -> Score {
        let costs = self.costs(layout);
        self.score_of(layout, &costs)
    }

    /// The score of a layout with `costs` of its queries.
    pub fn score_of(&mut self, layout: &Layout, costs: &[f64]) -> Score {
        let ms = self.queries.iter().zip(costs).map(|(known, ms)| known.weight * ms).sum();
        let excess = match self.budget {
            Some(budget) => (self.bytes(layout) - budget).max(0.0),
            None => 0.0,
        };
        Score { excess, ms }
    }

    /// Milliseconds of each query, without weights.
    pub fn costs(&mut self, layout: &Layout) -> Vec<f64> {
        let mut asked = LayoutRequest::new(self, layout);
        (0..self.queries.len()).map(|query| asked.cost(self, query)).collect()
    }

    /// The same, if only `changed` columns are in other groups than in the layout of `before`.
    pub fn costs_changed(&mut self, layout: &Layout, before: &[f64], changed: &[usize]) -> Vec<f64> {
        let mut asked = LayoutRequest::new(self, layout);
        (0..self.queries.len())
            .map(|query| {
                let touches = self.queries[query].touched.iter().any(|c| changed.contains(c));
                if touches { asked.cost(self, query) } else { before[query] }
            })
            .collect()
    }

    /// The bytes of the whole table.
    pub fn bytes(&mut self, layout: &Layout) -> f64 {
        let base = self.base_id(&layout.base);
        let mut groups: Vec<u32> = layout.groups().iter().map(|g| self.group_id(g)).collect();
        groups.sort_unstable();
        if let Some(bytes) = self.bytes.get(&(base, groups.clone())) {
            return *bytes;
        }
        let bytes = self.model.bytes(&self.names.design(layout));
        let bytes = if bytes.is_finite() { bytes } else { f64::INFINITY };
        self.bytes.insert((base, groups), bytes);
        bytes
    }

    fn base_id(&mut self, base: &Base) -> u32 {
        let known = self.bases.iter().position(|b| b == base);
        known.unwrap_or_else(|| {
            self.bases.push(base.clone());
            self.bases.len() - 1
        }) as u32
    }

    fn group_id(&mut self, group: &[usize]) -> u32 {
        if let Some(id) = self.groups.get(group) {
            return *id;
        }
        let id = self.groups.len() as u32;
        self.groups.insert(group.to_vec(), id);
        id
    }
}

/// A layout whose queries are evaluated. Its design is created only if the model has to be called.
struct LayoutRequest<'l> {
    layout: &'l Layout,
    design: Option<freestone_store::design::Design>,
    /// The group of each column.
    owner: Vec<u32>,
    base: u32,
    /// The base for queries that read only groups of one column, because dense pages of one column are PAX pages.
    base_apart: u32,
    many: Vec<bool>,
}

impl<'l> LayoutRequest<'l> {
    fn new(evaluator: &mut Evaluator<'_>, layout: &'l Layout) -> Self {
        let columns = evaluator.columns();
        let (mut owner, mut many) = (vec![0; columns], vec![false; columns]);
        for group in layout.groups() {
            let id = evaluator.group_id(group);
            for &column in group {
                owner[column] = id;
                many[column] = group.len() > 1;
            }
        }
        let base = evaluator.base_id(&layout.base);
        let base_apart = match layout.base.page {
            PageFormat::Dense => evaluator.base_id(&Base { page: PageFormat::Pax, ..layout.base.clone() }),
            _ => base,
        };
        LayoutRequest { layout, design: None, owner, base, base_apart, many }
    }

    fn cost(&mut self, evaluator: &mut Evaluator<'_>, query: usize) -> f64 {
        let known = &evaluator.queries[query];
        let mut groups: Vec<u32> = known.touched.iter().map(|c| self.owner[*c]).collect();
        groups.sort_unstable();
        groups.dedup();
        let base = if known.touched.iter().any(|c| self.many[*c]) { self.base } else { self.base_apart };
        let key = (base, query as u32, groups);
        if let Some(ms) = evaluator.costs.get(&key) {
            return *ms;
        }
        let design = self.design.get_or_insert_with(|| evaluator.names.design(self.layout));
        let ms = evaluator.model.query(design, known.query).ms;
        // If a model gives no finite cost, the layout is avoided.
        let ms = if ms.is_finite() { ms.max(0.0) } else { f64::INFINITY };
        evaluator.calls += 1;
        evaluator.costs.insert(key, ms);
        ms
    }
}

fn same_scan(a: &Query, b: &Query) -> bool {
    a.columns == b.columns
        && a.predicates == b.predicates
        && a.paths == b.paths
        && a.output == b.output
        && a.order == b.order
}
