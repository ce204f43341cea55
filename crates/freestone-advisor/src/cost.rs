//! What a prediction says, and who gives it.

use freestone_store::design::Design;
use serde::{Deserialize, Serialize};

use crate::workload::Query;

/// A predicted time with its interval: the measured value lies between `low_ms` and `high_ms` in about 9 of 10 cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub ms: f64,
    pub low_ms: f64,
    pub high_ms: f64,
    /// Time of the medium, and of the processor, of which `ms` is made; they overlap.
    pub io_ms: f64,
    pub cpu_ms: f64,
    /// Bytes that come from the medium.
    pub bytes: f64,
}

/// Predicts for one table, on one machine.
///
/// The search asks for 100,000 costs and more, so [`CostModel::query`] should take microseconds. It keeps answers by the
/// groups that a query touches: how columns that a query does not touch are grouped must not change its cost.
pub trait CostModel {
    /// Columns of the table.
    fn columns(&self) -> usize;
    /// A column's name, as designs name it.
    fn column_name(&self, column: usize) -> &str;
    /// One query on the whole table stored so.
    fn query(&self, design: &Design, query: &Query) -> Cost;
    /// Share of the rows that joins have to do with: those that zones leave, where attributes of referenced tables rule rows out
    /// before they are joined. 1 where none do, or a model knows of none.
    fn joined(&self, _design: &Design, _query: &Query) -> f64 {
        1.0
    }
    /// Bytes of the table stored so.
    fn bytes(&self, design: &Design) -> f64;
    /// Bytes of these columns alone, stored so: what a materialized column subset takes. A model that knows columns apart
    /// should answer itself; this shares the bytes equally.
    fn bytes_of(&self, design: &Design, columns: &[usize]) -> f64 {
        self.bytes(design) * columns.len() as f64 / self.columns().max(1) as f64
    }
    /// Writing the table anew from how it is stored now.
    fn conversion(&self, design: &Design) -> Cost;
}
