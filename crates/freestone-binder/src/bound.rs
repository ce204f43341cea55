//! What binding a query gives.

use arrow_schema::FieldRef;
use datafusion_expr::LogicalPlan;

/// A column of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Heading {
    /// Its name, as users see it. Several columns may have the same.
    pub name: String,
    /// Its type before the rules of an optimizer, which may still make several types one.
    pub field: FieldRef,
}

/// A query that is bound.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The plan. Its columns have names that differ, and the order of `headings`.
    pub plan: LogicalPlan,
    /// The columns of the result.
    pub headings: Vec<Heading>,
    /// The fields of the parameters by their numbers, from `$1`. `None` where the text does not tell the type.
    pub parameters: Vec<Option<FieldRef>>,
    /// The tables, views and files that the query names, each once, in the order of their first appearance.
    pub tables: Vec<String>,
    /// Whether another run can give other rows of the same tables.
    pub is_volatile: bool,
    /// Whether the rows depend on the order in which tables are read: POSITIONAL JOIN pairs rows by it, window functions
    /// without an order number them, and a sample with a seed is the same only if they come in the same order.
    pub depends_on_order: bool,
}
