//! Nodes of plans, made as they are written: names in them are resolved already.

use std::sync::Arc;

use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::{Expr, Filter, LogicalPlan, Projection, SubqueryAlias};

/// A plan, and the names of its columns as users see them.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub plan: LogicalPlan,
    pub names: Vec<String>,
}

/// The column at a place.
pub(crate) fn column(schema: &DFSchema, at: usize) -> Column {
    Column::from(schema.qualified_field(at))
}

/// All columns.
pub(crate) fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// A projection.
pub(crate) fn project(plan: LogicalPlan, values: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(values, Arc::new(plan)).map(LogicalPlan::Projection)
}

/// A filter.
pub(crate) fn filter(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter)
}

/// A plan whose columns have this qualifier.
pub(crate) fn qualified(plan: LogicalPlan, qualifier: &str) -> Result<LogicalPlan> {
    let qualifier = datafusion_common::TableReference::bare(qualifier);
    SubqueryAlias::try_new(Arc::new(plan), qualifier).map(LogicalPlan::SubqueryAlias)
}
