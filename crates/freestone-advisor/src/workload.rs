//! A workload: weighted queries on one table, as parameters of scans. Columns are positions in the table.

use serde::{Deserialize, Serialize};

/// The queries of a table, with their frequencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The queries.
    pub queries: Vec<Query>,
}

/// One scan of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// The name in reports: the shortened statement, or a name that the user gave.
    pub name: String,
    /// The frequency relative to the others. Positive and finite.
    pub weight: f64,
    /// The columns that the scan returns, ascending and unique.
    pub columns: Vec<usize>,
    /// Conjuncts that the scan evaluates.
    pub predicates: Vec<QueryPredicate>,
    /// Tests by joins on attributes that foreign keys lead to. Clustering by these attributes prunes rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathTest>,
    /// What happens to the output.
    pub output: Output,
    /// The columns of the requested order; empty if none is requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<usize>,
    /// The mean milliseconds of the whole statement with the table's current design. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_ms: Option<f64>,
}

/// A conjunct on one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryPredicate {
    /// The position of the column.
    pub column: usize,
    /// The share of rows that satisfy it alone, 0 to 1.
    pub selectivity: f64,
    /// The form of the predicate.
    pub form: PredicateForm,
}

/// A test of an attribute of another table, whose rows this table's rows reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathTest {
    /// Foreign-key columns and the attribute, as in a dimension of `cluster = '…'`.
    pub path: Vec<String>,
    /// The share of rows that satisfy it alone, 0 to 1.
    pub selectivity: f64,
    /// The form of the predicate.
    pub form: PredicateForm,
}

/// The kind of a conjunct's test. It determines the cost, and whether an order of rows prunes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PredicateForm {
    /// `c = x`: one run of values in any order by `c`.
    Equal,
    /// `c < x`, `c BETWEEN x AND y`: one run of values.
    Range,
    /// `c IN (…)`, and keys from a join: several runs.
    In,
    /// Anything else, evaluated on decoded values. No order prunes by it.
    Other,
}

/// The use of the qualifying rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Arrow columns for the executor.
    Columns,
    /// Rows, tuple by tuple, as for a client of a row protocol.
    Rows,
    /// Aggregates: values are decoded and aggregated, and not returned.
    Aggregate,
    /// The same, if zone aggregates suffice: values are decoded only in zones that do not qualify as a whole.
    ZoneAggregate,
    /// Columns in stored form, for a client.
    Shipped,
}

impl Output {
    /// The name in workloads.
    pub fn name(self) -> &'static str {
        match self {
            Output::Columns => "columns",
            Output::Rows => "rows",
            Output::Aggregate => "aggregate",
            Output::ZoneAggregate => "zone_aggregate",
            Output::Shipped => "shipped",
        }
    }

    /// Whether values are aggregated inside the scan.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Output::Aggregate | Output::ZoneAggregate)
    }
}

impl Query {
    /// All columns that the scan reads, ascending and unique.
    pub fn touched(&self) -> Vec<usize> {
        let mut columns: Vec<usize> =
            self.columns.iter().copied().chain(self.predicates.iter().map(|p| p.column)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The share of rows that satisfy all predicates, assuming independence.
    pub fn selectivity(&self) -> f64 {
        self.predicates.iter().map(|p| p.selectivity).product()
    }
}

impl Workload {
    /// The sum of the weights.
    pub fn total_weight(&self) -> f64 {
        self.queries.iter().map(|q| q.weight).sum()
    }
}
