//! Splits batches for expressions whose values are long.
//!
//! Operators process thousands of rows at a time. If each row becomes a text of a megabyte (`repeat('x', 1000000) ||
//! a`), this needs gigabytes in one call. So below a projection or filter with such expressions, batches are split. The
//! expressions are first evaluated for a few rows of each batch, to find how many rows fit.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use crate::growth::CONCATENATION;
use crate::memory::ROWS_OF_PLENTY;

/// The bytes that are computed at a time.
const STEP_BYTES: usize = 2 << 20;
/// Rows of each batch that are tried, and more of them where values are short.
const TRIED_ROWS: usize = 8;
const SHORT_ROWS: usize = 128;
const SHORT_BYTES: usize = 4 << 10;
/// The bytes of a batch of many columns, in which a value of another type than a number is counted as a view.
const WIDE_BYTES: usize = 8 << 20;
const VIEW_BYTES: usize = 16;
/// Constants that are longer make long values.
const LONG_BYTES: usize = 256;
/// Functions of long values.
const FUNCTIONS: [&str; 11] = [
    CONCATENATION,
    "array_repeat",
    "array_resize",
    "concat",
    "concat_ws",
    "generate_series",
    "lpad",
    "range",
    "repeat",
    "replace",
    "rpad",
];

#[derive(Debug)]
pub(crate) struct SmallBatches;

impl PhysicalOptimizerRule for SmallBatches {
    fn name(&self) -> &str {
        "SmallBatches"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let cut = |node: Arc<dyn ExecutionPlan>| {
            if !node.is::<ProjectionExec>() && !node.is::<FilterExec>() {
                return Ok(Transformed::no(node));
            }
            let mut long = vec![];
            node.apply_expressions(&mut |root| {
                find_long(root, &mut long)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            let [input] = node.children()[..] else { return Ok(Transformed::no(node)) };
            let rows_max = (WIDE_BYTES / width(&node.schema()).max(1)).max(1);
            if long.is_empty() && rows_max >= ROWS_OF_PLENTY || input.is::<StepsExec>() {
                return Ok(Transformed::no(node));
            }
            let steps = StepsExec { input: input.clone(), long, rows_max };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Ok(Transformed::yes(node.replace_children(vec![Arc::new(steps)], options)?))
        };
        plan.transform_up(cut).map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The bytes of a row, without those of texts and lists.
fn width(schema: &Schema) -> usize {
    schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(VIEW_BYTES)).sum()
}

/// Adds the parts of an expression that make long values, and the whole of it, if it has such.
fn find_long(root: &Arc<dyn PhysicalExpr>, long: &mut Vec<Arc<dyn PhysicalExpr>>) -> Result<()> {
    let before = long.len();
    root.apply(|node| {
        let is_concat = node.downcast_ref::<BinaryExpr>().is_some_and(|binary| *binary.op() == Operator::StringConcat);
        let is_function =
            node.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| FUNCTIONS.contains(&call.fun().name()));
        let is_long = node.downcast_ref::<Literal>().is_some_and(|literal| literal.value().size() > LONG_BYTES);
        if is_concat || is_function || is_long {
            long.push(node.clone());
        }
        // What is in a chain of || is shorter than the chain.
        Ok(if is_concat { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
    })?;
    if long.len() > before && !long[before..].iter().any(|node| Arc::ptr_eq(node, root)) {
        long.push(root.clone());
    }
    Ok(())
}

/// The rows of its input, in batches of which long values can be computed.
#[derive(Debug)]
struct StepsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The expressions that make long values of a row.
    long: Vec<Arc<dyn PhysicalExpr>>,
    /// Larger batches are cut, whatever their values.
    rows_max: usize,
}

impl DisplayAs for StepsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepsExec")
    }
}

impl ExecutionPlan for StepsExec {
    fn name(&self) -> &str {
        "StepsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(StepsExec { input, long: self.long.clone(), rows_max: self.rows_max })),
            Err(children) => internal_err!("{} inputs of an operator that has one", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let (long, rows_max) = (self.long.clone(), self.rows_max);
        let cut = move |batch: RecordBatch| futures::stream::iter(pieces(batch, &long, rows_max)).map(Ok);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, input.map_ok(cut).try_flatten())))
    }
}

/// A batch in pieces of which long values can be computed.
fn pieces(batch: RecordBatch, long: &[Arc<dyn PhysicalExpr>], rows_max: usize) -> Vec<RecordBatch> {
    let (rows, tried) = (batch.num_rows(), batch.num_rows().min(TRIED_ROWS));
    if rows <= 1 {
        return vec![batch];
    }
    let size = |tried: usize| -> Result<usize> {
        let sample = batch.slice(0, tried);
        long.iter().map(|expression| bytes_per_row(expression, &sample)).sum()
    };
    // Buffers have a least size, which few short values do not fill.
    let bytes = size(tried).and_then(|bytes| if bytes < SHORT_BYTES { size(rows.min(SHORT_ROWS)) } else { Ok(bytes) });
    let step = match bytes {
        Ok(bytes) => (STEP_BYTES / bytes.max(1)).max(1),
        // What is wrong with a value is said by whoever computes it.
        Err(_) => tried,
    };
    let step = step.min(rows_max);
    if step >= rows {
        return vec![batch];
    }
    (0..rows).step_by(step).map(|at| batch.slice(at, step.min(rows - at))).collect()
}

/// The mean size of an expression's values, computed of some rows.
fn bytes_per_row(expression: &Arc<dyn PhysicalExpr>, sample: &RecordBatch) -> Result<usize> {
    Ok(match expression.evaluate(sample)? {
        ColumnarValue::Scalar(value) => value.size(),
        ColumnarValue::Array(values) => values.get_buffer_memory_size() / sample.num_rows().max(1),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{Column, lit};

    use super::*;

    #[test]
    fn batches_are_cut_where_values_are_long() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let column = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_new(schema, vec![column]).expect("a batch");
        let check = |long: Arc<dyn PhysicalExpr>, expected: &[usize]| {
            let rows: Vec<usize> =
                pieces(batch.clone(), &[long], usize::MAX).iter().map(RecordBatch::num_rows).collect();
            assert_eq!(rows, expected);
        };
        check(Arc::new(Column::new("a", 0)), &[10]);
        check(lit("x".repeat(STEP_BYTES / 5)), &[4, 4, 2]);
        check(lit("x".repeat(STEP_BYTES * 2)), &[1; 10]);
        // There is no such column.
        check(Arc::new(Column::new("b", 7)), &[8, 2]);
        assert_eq!(pieces(batch.slice(0, 0), &[], usize::MAX).len(), 1);
        let rows: Vec<usize> = pieces(batch, &[], 4).iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [4, 4, 2]);
    }
}
