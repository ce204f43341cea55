//! Filters by row_number() → the first rows of groups. No rows are sorted, and no numbers are computed that the filter
//! refuses.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::WindowUDFExpr;
use freestone_exec::direct::KeyDomain;
use freestone_exec::first_rows::{FirstRows, Plan};
use freestone_exec::pipeline::{Branch, Feed};
use freestone_exec::places::has_words;
use freestone_exec::vector::Form;

use super::compiler::{Compiler, Open, exchanged, field, place, sort_key};
use super::expressions::{Expressions, Known};
use crate::windows::WindowNode;

/// The most rows of a group.
const ROWS_MAX: u64 = 64;

/// A node that numbers the rows of groups, as a filter above it wants them.
struct Numbered<'a> {
    /// What is between the filter and the node.
    projection: Option<&'a ProjectionExec>,
    node: &'a Arc<dyn ExecutionPlan>,
    input: &'a Arc<dyn ExecutionPlan>,
    window: &'a StandardWindowExpr,
    /// The rows of a group that can pass.
    rows: usize,
}

/// Whether a plan is a filter by the numbers of rows within groups.
pub(super) fn is_known(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<FilterExec>().is_some_and(|filter| numbered(filter).is_some())
}

impl Compiler<'_> {
    /// The input of a filter by row_number(), with the rows that may pass; `None` if it is not of that kind.
    pub(super) fn first_rows(&mut self, filter: &FilterExec) -> Result<Option<Open>> {
        let Some(numbered) = numbered(filter) else { return Ok(None) };
        let mut open = self.open_or_input(numbered.input)?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let mut outputs = compiler.all_columns();
        let mut keys = vec![];
        for key in numbered.window.partition_by() {
            let Some(compiled) = compiler.compile(key)?.filter(|c| c.known.form != Form::Arrow) else {
                return Ok(None);
            };
            let domain = KeyDomain { field: field(&compiled.known, true), bounds: compiled.known.int_bounds() };
            keys.push((place(&mut compiler, &mut outputs, compiled), domain));
        }
        let mut order = vec![];
        for key in numbered.window.order_by() {
            let Some(compiled) = compiler.compile(&key.expr)?.filter(|c| has_words(c.known.form)) else {
                return Ok(None);
            };
            order.push(sort_key(place(&mut compiler, &mut outputs, compiled), key));
        }
        let fields = outputs.iter().map(|compiled| field(&compiled.known, false)).collect();
        let program = compiler.program;
        self.program_step(&mut open, program);
        let plan = Plan { keys, order, fields, returned: open.columns.len(), rows: numbered.rows };
        let first = FirstRows::new(plan, self.context.clone());
        let schema = numbered.node.schema();
        let mut columns = open.columns.clone();
        columns.extend(schema.fields().last().map(|number| Known::of(number.data_type(), false)));
        let results = Branch { feed: Feed::Source(first.results()), steps: vec![] };
        self.close(open, Arc::new(first));
        self.add_sought();
        self.is_few = true;
        let open = Open { branches: vec![results], schema, columns, is_sorted: false, limit: None };
        match numbered.projection {
            None => Ok(Some(open)),
            Some(projection) => self.projected(open, projection),
        }
    }
}

fn numbered(filter: &FilterExec) -> Option<Numbered<'_>> {
    let projection = filter.input().downcast_ref::<ProjectionExec>();
    let node = projection.map_or(filter.input(), |projection| projection.input());
    let WindowNode { functions, input, .. } = WindowNode::of(node)?;
    let [window] = functions else { return None };
    let window = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = window.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    let inner: &dyn std::any::Any = function.fun().inner().as_ref();
    if !inner.is::<RowNumber>() || window.partition_by().is_empty() {
        return None;
    }
    let number = input.schema().fields().len();
    let is_number = |column: usize| match projection {
        None => column == number,
        Some(projection) => {
            let e = projection.expr().get(column).and_then(|e| e.expr.downcast_ref::<Column>());
            e.is_some_and(|column| column.index() == number)
        }
    };
    let bounds = split_conjunction(filter.predicate()).into_iter().filter_map(|part| most(part, &is_number));
    let rows = bounds.min().filter(|rows| (1..=ROWS_MAX).contains(rows))? as usize;
    Some(Numbered { projection, node, input: unordered(input), window, rows })
}

/// The greatest number that passes a comparison of the numbers with a constant.
fn most(part: &Arc<dyn PhysicalExpr>, is_number: &impl Fn(usize) -> bool) -> Option<u64> {
    let comparison = part.downcast_ref::<BinaryExpr>()?;
    let column = |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Column>().is_some_and(|column| is_number(column.index()));
    let constant = |e: &Arc<dyn PhysicalExpr>| match e.downcast_ref::<Literal>()?.value() {
        ScalarValue::UInt64(value) => *value,
        _ => None,
    };
    let (operator, value) = match (column(comparison.left()), column(comparison.right())) {
        (true, false) => (*comparison.op(), constant(comparison.right())?),
        (false, true) => (comparison.op().swap()?, constant(comparison.left())?),
        _ => return None,
    };
    match operator {
        Operator::Eq | Operator::LtEq => Some(value),
        Operator::Lt => value.checked_sub(1),
        _ => None,
    }
}

/// The plan below nodes that only order rows and move them between threads.
fn unordered(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let mut below = plan;
    loop {
        let sort = below.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()).map(SortExec::input);
        let merge = below.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none());
        match sort.or(merge.map(SortPreservingMergeExec::input)).or_else(|| exchanged(below)) {
            Some(input) => below = input,
            None => return below,
        }
    }
}
