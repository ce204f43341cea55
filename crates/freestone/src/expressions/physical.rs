//! Changes of physical expressions.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

/// The expression with its columns' indexes changed.
pub(crate) fn remap(e: &Arc<dyn PhysicalExpr>, index: impl Fn(usize) -> usize) -> Result<Arc<dyn PhysicalExpr>> {
    let changed = e.clone().transform(|e| match e.downcast_ref::<Column>() {
        Some(c) => Ok(Transformed::yes(Arc::new(Column::new(c.name(), index(c.index()))) as Arc<dyn PhysicalExpr>)),
        None => Ok(Transformed::no(e)),
    })?;
    Ok(changed.data)
}
