//! A workload: weighted queries on one table, as what a scan is asked for. Columns are positions in the table.

use serde::{Deserialize, Serialize};

/// What runs on a table, and how often.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub queries: Vec<Query>,
}

/// One scan of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// What reports call it: the statement, shortened, or a name that the user gave.
    pub name: String,
    /// How often it runs, relative to the others. Positive and finite.
    pub weight: f64,
    /// Columns whose values leave the scan, ascending, each once.
    pub columns: Vec<usize>,
    /// Conjuncts that the scan evaluates.
    pub predicates: Vec<QueryPredicate>,
    /// What joins ask of attributes that foreign keys lead to: rows that are clustered by them are pruned by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathTest>,
    pub output: Output,
    /// Columns by which the rows are wanted in order; empty when no order is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<usize>,
    /// Milliseconds of the whole statement as the table is stored now, in the mean; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_ms: Option<f64>,
}

/// A conjunct on one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryPredicate {
    pub column: usize,
    /// Share of the rows that pass it alone, 0 to 1.
    pub selectivity: f64,
    pub form: PredicateForm,
}

/// A test of an attribute of another table, whose rows this table's rows reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathTest {
    /// Columns with foreign keys, and the attribute, as a dimension of `cluster = '…'` names it.
    pub path: Vec<String>,
    /// Share of the rows that pass it alone, 0 to 1.
    pub selectivity: f64,
    pub form: PredicateForm,
}

/// What kind of test a conjunct is: decides what it costs and whether an order of rows prunes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PredicateForm {
    /// `c = x`: one run of values in any order by `c`.
    Equal,
    /// `c < x`, `c BETWEEN x AND y`: one run of values.
    Range,
    /// `c IN (…)`, and keys from a join: several runs.
    In,
    /// Anything else, evaluated on decoded values; no order prunes by it.
    Other,
}

/// What becomes of the rows that qualify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Arrow columns for the executor.
    Columns,
    /// Rows, tuple by tuple, as a client of a row protocol takes them.
    Rows,
    /// Aggregates: values are decoded and folded, none leaves.
    Aggregate,
    /// The same, of which the aggregates of zones say enough: values are decoded only where not all rows of a zone qualify.
    ZoneAggregate,
    /// Columns as they are stored, for a client.
    Shipped,
}

impl Output {
    /// As it is written in workloads.
    pub fn name(self) -> &'static str {
        match self {
            Output::Columns => "columns",
            Output::Rows => "rows",
            Output::Aggregate => "aggregate",
            Output::ZoneAggregate => "zone_aggregate",
            Output::Shipped => "shipped",
        }
    }

    /// Whether values are folded where they are decoded.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Output::Aggregate | Output::ZoneAggregate)
    }
}

impl Query {
    /// All columns that the scan touches, ascending, each once.
    pub fn touched(&self) -> Vec<usize> {
        let mut columns: Vec<usize> =
            self.columns.iter().copied().chain(self.predicates.iter().map(|p| p.column)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Share of the rows that pass all predicates, taken as independent.
    pub fn selectivity(&self) -> f64 {
        self.predicates.iter().map(|p| p.selectivity).product()
    }
}

impl Workload {
    pub fn total_weight(&self) -> f64 {
        self.queries.iter().map(|q| q.weight).sum()
    }
}
