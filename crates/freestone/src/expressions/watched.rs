//! Conditions of joins that stop with their statement.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::context::Cancellation;

/// The condition of a join's filter, for an operator that itself sees when its statement is cancelled.
pub(crate) fn unwatched(filter: &JoinFilter) -> &Arc<dyn PhysicalExpr> {
    let condition = filter.expression();
    condition.downcast_ref::<Watched>().map_or(condition, |watched| &watched.condition)
}

/// A condition that fails after its statement was cancelled.
#[derive(Debug)]
pub(crate) struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    cancellation: Cancellation,
}

impl Watched {
    /// A filter whose condition fails when a statement is cancelled.
    pub fn filter(filter: &JoinFilter, cancellation: &Cancellation) -> JoinFilter {
        let watched = Watched { condition: filter.expression().clone(), cancellation: cancellation.clone() };
        JoinFilter::new(Arc::new(watched), filter.column_indices().to_vec(), filter.schema().clone())
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.cancellation.check()?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.into_iter().next().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(Watched { condition, cancellation: self.cancellation.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
