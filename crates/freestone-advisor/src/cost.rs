//! Predicted costs, and the trait of the models that predict them.

use freestone_store::design::Design;
use serde::{Deserialize, Serialize};

use crate::workload::Query;

/// A predicted time with its interval: the measured time is between `low_ms` and `high_ms` in about 9 of 10 cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The predicted milliseconds.
    pub ms: f64,
    /// The lower end of the interval, in milliseconds.
    pub low_ms: f64,
    /// The upper end of the interval, in milliseconds.
    pub high_ms: f64,
    /// The time of the medium, in milliseconds. It overlaps with `cpu_ms` in `ms`.
    pub io_ms: f64,
    /// The milliseconds of processor time.
    pub cpu_ms: f64,
    /// The bytes that are read from the medium.
    pub bytes: f64,
}

/// Predicts costs for one table on one machine.
///
/// The search asks for 100,000 costs and more, so [`CostModel::query`] should take microseconds. The search caches
/// answers by the column groups that a query reads, so the grouping of columns that it does not read must not change
/// its cost.
pub trait CostModel {
    /// The number of columns of the table.
    fn columns(&self) -> usize;
    /// The name of a column, as in designs.
    fn column_name(&self, column: usize) -> &str;
    /// The cost of one query if the whole table is stored in a design.
    fn query(&self, design: &Design, query: &Query) -> Cost;
    /// The share of rows that reach joins after zone pruning by attributes of referenced tables. 1 if there is no such
    /// pruning or the model does not know it.
    fn joined(&self, _design: &Design, _query: &Query) -> f64 {
        1.0
    }
    /// The bytes of the table in a design.
    fn bytes(&self, design: &Design) -> f64;
    /// The bytes of some columns in a design, as for a copy of these columns. The default divides the bytes of the
    /// table equally; models that know the columns should override it.
    fn bytes_of(&self, design: &Design, columns: &[usize]) -> f64 {
        self.bytes(design) * columns.len() as f64 / self.columns().max(1) as f64
    }
    /// The cost of rewriting the table from its current design.
    fn conversion(&self, design: &Design) -> Cost;
    /// The columns that restore the order in which the rows arrived if the rows are sorted by them. Empty if the current
    /// design orders the rows, or the model does not know any.
    fn arrival(&self) -> Vec<usize> {
        vec![]
    }
}
