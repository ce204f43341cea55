//! Splits batches where operators make much more of them than they are.
//!
//! Operators process thousands of rows at a time. If each row becomes a text of a megabyte (`repeat('x', 1000000) ||
//! a`), this needs gigabytes in one call. So below a projection or filter with such expressions, batches are split. The
//! expressions are first evaluated for a few rows of each batch, to find how many rows fit.
//!
//! Joins and UNNEST repeat the other values of a row, and those of lists are copied each time. So there, batches are split by
//! what becomes of each row, and joins make few rows at a time.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use crate::context::{claim, claim_rows};
use crate::growth::{CONCATENATION, weight};
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
/// The bytes that UNNEST and joins of lists make at once of several rows.
const UNNESTED_BYTES: u64 = 8 << 20;
/// The rows that joins of lists make at once.
const JOINED_ROWS: usize = 128;
/// Constants that are longer make long values.
const LONG_BYTES: usize = 256;
/// Such constants are long as arguments of aggregates, or as what they group by.
const LONG_ARGUMENT_BYTES: usize = 16 << 10;
/// Functions of long values.
const FUNCTIONS: [&str; 16] = [
    CONCATENATION,
    "array_repeat",
    "array_resize",
    "array_to_string",
    "concat",
    "concat_ws",
    "format",
    "generate_series",
    "list_concat",
    "lpad",
    "printf",
    "range",
    "regexp_replace",
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

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let rows: usize = config.execution.batch_size.into();
        let in_steps = |node: Arc<dyn ExecutionPlan>| match cut(&node)? {
            Some(cut) if !node.children().iter().any(|input| input.is::<StepsExec>()) => {
                let steps = |input: &Arc<dyn ExecutionPlan>| {
                    Arc::new(StepsExec { input: input.clone(), cut: cut.clone() }) as Arc<dyn ExecutionPlan>
                };
                let inputs = node.children().into_iter().map(steps).collect();
                let node = with_children(node, inputs)?;
                Ok(Transformed::yes(match cut {
                    Cut::Joined => Arc::new(BatchRowsExec { input: node, rows: JOINED_ROWS.min(rows) }),
                    _ => passing(node, rows)?,
                }))
            }
            _ if has_steps(&node) => Ok(Transformed::yes(passing(node, rows)?)),
            _ => Ok(Transformed::no(node)),
        };
        plan.transform_up(in_steps).map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_children(
    node: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// Whether batches below were cut.
fn has_steps(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.children().into_iter().any(|input| input.is::<StepsExec>() || has_steps(input))
}

/// Exchanges and filters put small batches together to batches of as many rows as operators have. Above batches that were cut,
/// they pass them on as they are.
fn passing(node: Arc<dyn ExecutionPlan>, rows: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return Ok(Arc::new(filter.with_batch_size(1)?));
    }
    match node.children()[..] {
        [input] if node.is::<RepartitionExec>() && !input.is::<BatchRowsExec>() => {
            let input = Arc::new(BatchRowsExec { input: input.clone(), rows });
            Ok(Arc::new(BatchRowsExec { input: with_children(node.clone(), vec![input])?, rows: 1 }))
        }
        _ => Ok(node),
    }
}

/// The input of a node that only keeps the sizes of the batches of an exchange.
pub(crate) fn of_exchange(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let batches = plan.downcast_ref::<BatchRowsExec>()?;
    (batches.input.is::<RepartitionExec>() || batches.rows > JOINED_ROWS).then_some(&batches.input)
}

/// The rows of which UNNEST makes others, before they are cut.
pub(crate) fn of_unnest(unnest: &UnnestExec) -> &Arc<dyn ExecutionPlan> {
    let steps = unnest.input().downcast_ref::<StepsExec>().filter(|steps| matches!(steps.cut, Cut::Unnested(_)));
    steps.map_or(unnest.input(), |steps| &steps.input)
}

/// How the batches that a node reads are cut; `None` if they need not be.
fn cut(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Cut>> {
    if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
        let lists = unnest.list_column_indices().iter().map(|list| list.index_in_input_schema).collect();
        return Ok(Some(Cut::Unnested(lists)));
    }
    let is_join = node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>();
    if is_join {
        let has_lists = node.schema().fields().iter().any(|field| has_lists(field.data_type()));
        return Ok(has_lists.then_some(Cut::Joined));
    }
    let mut long = vec![];
    if node.is::<AggregateExec>() {
        // Of constants alone: other long values would keep aggregations over tables from being fused.
        node.apply_expressions(&mut |root| {
            root.apply(|part| {
                let is_long =
                    part.downcast_ref::<Literal>().is_some_and(|literal| literal.value().size() > LONG_ARGUMENT_BYTES);
                long.extend(is_long.then(|| part.clone()));
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        return Ok((!long.is_empty()).then_some(Cut::Long { long, rows_max: usize::MAX }));
    }
    if !node.is::<ProjectionExec>() && !node.is::<FilterExec>() {
        return Ok(None);
    }
    node.apply_expressions(&mut |root| {
        find_long(root, &mut long)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let rows_max = (WIDE_BYTES / width(&node.schema()).max(1)).max(1);
    Ok((!long.is_empty() || rows_max < ROWS_OF_PLENTY).then_some(Cut::Long { long, rows_max }))
}

/// Whether values are copied wherever they are repeated. Those of texts are views.
fn has_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_lists(field.data_type())),
        _ => false,
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

/// How batches are cut.
#[derive(Debug, Clone)]
enum Cut {
    /// By the expressions that make long values of a row. Larger batches are cut, whatever their values.
    Long { long: Vec<Arc<dyn PhysicalExpr>>, rows_max: usize },
    /// By what becomes of a row if the lists in these columns become rows.
    Unnested(Vec<usize>),
    /// To the rows that a join makes at once.
    Joined,
}

/// The rows of its input, in batches of which an operator can make what it makes.
#[derive(Debug)]
struct StepsExec {
    input: Arc<dyn ExecutionPlan>,
    cut: Cut,
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
            Ok([input]) => Ok(Arc::new(StepsExec { input, cut: self.cut.clone() })),
            Err(children) => internal_err!("{} inputs of an operator that has one", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let cut = self.cut.clone();
        let pieces =
            input.map(move |batch| Ok::<_, DataFusionError>(futures::stream::iter(cut.pieces(batch?)?).map(Ok)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, pieces.try_flatten())))
    }
}

impl Cut {
    fn pieces(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        match self {
            Cut::Long { long, rows_max } => Ok(pieces(batch, long, *rows_max)),
            Cut::Unnested(lists) => unnested(batch, lists),
            Cut::Joined => joined(batch),
        }
    }
}

/// A batch in pieces of which UNNEST can make its rows: each item of a row's lists is a row with its other values.
fn unnested(batch: RecordBatch, lists: &[usize]) -> Result<Vec<RecordBatch>> {
    let columns = batch.columns().iter().enumerate();
    let (unnested, others): (Vec<_>, Vec<_>) = columns.partition(|(at, _)| lists.contains(at));
    if others.iter().all(|(_, column)| !has_lists(column.data_type())) {
        // At most: each list has its items behind those of the others.
        let of_list = |list: &ArrayRef| (0..list.len()).map(|row| length(list, row)).sum::<u64>();
        let items = unnested.iter().map(|(_, list)| of_list(list)).sum::<u64>() + batch.num_rows() as u64;
        let lists = unnested.iter().map(|(_, list)| weight(list)).fold(0, u64::saturating_add);
        let bytes = items.saturating_mul((others.len() * VIEW_BYTES) as u64).saturating_add(lists);
        if bytes <= UNNESTED_BYTES {
            claim_rows("UNNEST", bytes)?;
            return Ok(vec![batch]);
        }
    }
    let of_row = |row: usize| {
        let items = unnested.iter().map(|(_, list)| length(list, row)).max().unwrap_or(0).max(1);
        let others = others.iter().map(|(_, column)| match has_lists(column.data_type()) {
            true => weight(&column.slice(row, 1)),
            false => VIEW_BYTES as u64,
        });
        let lists = unnested.iter().map(|(_, list)| weight(&list.slice(row, 1))).sum::<u64>();
        others.sum::<u64>().saturating_mul(items).saturating_add(lists)
    };
    let (mut pieces, mut start, mut bytes) = (vec![], 0, 0u64);
    for row in 0..batch.num_rows() {
        let more = of_row(row);
        if bytes.saturating_add(more) > UNNESTED_BYTES && row > start {
            pieces.push(batch.slice(start, row - start));
            (start, bytes) = (row, 0);
        }
        bytes = bytes.saturating_add(more);
        // One row can be too much by itself.
        claim_rows("UNNEST", bytes)?;
    }
    pieces.push(batch.slice(start, batch.num_rows() - start));
    Ok(pieces)
}

/// The items of a list; 0 for what is no list.
fn length(list: &ArrayRef, row: usize) -> u64 {
    match list.data_type() {
        DataType::List(_) => list.as_list::<i32>().value_length(row) as u64,
        DataType::LargeList(_) => list.as_list::<i64>().value_length(row) as u64,
        DataType::FixedSizeList(..) => list.as_fixed_size_list().value_length() as u64,
        _ => 0,
    }
}

/// A batch in pieces for a join, of whose rows each can be in all that it makes at once.
fn joined(batch: RecordBatch) -> Result<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    for column in batch.columns().iter().filter(|column| has_lists(column.data_type())) {
        if weight(column) > UNNESTED_BYTES / JOINED_ROWS as u64 {
            let longest = (0..rows).map(|row| weight(&column.slice(row, 1))).max().unwrap_or(0);
            claim("a join of lists", longest.saturating_mul(JOINED_ROWS as u64))?;
        }
    }
    Ok((0..rows.max(1)).step_by(JOINED_ROWS).map(|at| batch.slice(at, JOINED_ROWS.min(rows - at))).collect())
}

/// A plan that makes batches of another number of rows.
#[derive(Debug)]
struct BatchRowsExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl DisplayAs for BatchRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchRowsExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for BatchRowsExec {
    fn name(&self) -> &str {
        "BatchRowsExec"
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
            Ok([input]) => Ok(Arc::new(BatchRowsExec { input, rows: self.rows })),
            Err(children) => internal_err!("{} inputs of an operator that has one", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone().with_batch_size(self.rows),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        );
        self.input.execute(partition, Arc::new(own))
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
    use datafusion::arrow::array::{Int64Array, ListArray};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::physical_expr::expressions::{Column, lit};

    use super::*;
    use crate::context::{Budget, Canceller, within};

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

    #[test]
    fn batches_are_cut_where_lists_are_repeated() {
        let lists = |lengths: &[usize]| {
            let lists = lengths.iter().map(|length| Some(vec![Some(1); *length]));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)) as ArrayRef
        };
        let of = |columns: Vec<(&str, ArrayRef)>| RecordBatch::try_from_iter(columns).expect("a batch");
        let rows = |pieces: Result<Vec<RecordBatch>>| -> Vec<usize> {
            pieces.expect("pieces").iter().map(RecordBatch::num_rows).collect()
        };
        let batch = of(vec![("u", lists(&[1000; 5])), ("l", lists(&[500; 5]))]);
        // Each row becomes 1000 rows of 4 KB.
        assert_eq!(rows(Cut::Unnested(vec![0]).pieces(batch.clone())), [2, 2, 1]);
        assert_eq!(rows(Cut::Joined.pieces(batch)), [5]);
        assert_eq!(rows(Cut::Joined.pieces(of(vec![("l", lists(&[1; 300]))]))), [128, 128, 44]);
        assert_eq!(rows(Cut::Joined.pieces(of(vec![("l", lists(&[]))]))), [0]);
        let canceller = Canceller::new(Budget::new(Budget::unlimited_pool(), Some(1)));
        let heavy = of(vec![("l", lists(&[1, 100_000]))]);
        assert!(within(Some(canceller.statement()), || Cut::Joined.pieces(heavy)).is_err());
    }
}
