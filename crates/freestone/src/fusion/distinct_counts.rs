//! Aggregations without keys that count distinct values: those of each argument are found in one pass over the rows.
//!
//! DataFusion plans several counts as they are, and a single one as a count of groups, which can spill. Both are known here.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use freestone_exec::accumulators::{Accumulator, Count, CountSum};
use freestone_exec::aggregate::{Aggregation, Call};
use freestone_exec::direct::KeyDomain;
use freestone_exec::distinct::DistinctCount;
use freestone_exec::error::Result as ExecResult;
use freestone_exec::pipeline::{Branch, Feed, Sink, Source, Stage};
use freestone_exec::several::{OneRow, Part, Several};
use freestone_exec::steps::Columns;
use freestone_exec::vector::Form;

use super::aggregates::{self, Calls};
use super::compiler::{Compiler, Open, arguments, exchanged, field};
use super::expressions::{Expressions, Known};
use super::inputs::RunContext;

/// Whether a node is one of these aggregations.
pub(super) fn is_known(node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    let part = aggregate.filter(|aggregate| *aggregate.mode() != AggregateMode::Final);
    part.is_some_and(|partial| is_known_of(partial) || counted_groups(partial).is_some())
}

/// The same of the part of one that sees the rows, if there are several counts.
pub(super) fn is_known_of(partial: &AggregateExec) -> bool {
    let functions = partial.aggr_expr();
    has_no_keys(partial)
        && functions.iter().any(|function| is_distinct_count(function))
        && functions.iter().all(|function| is_distinct_count(function) || aggregates::is_known(function))
}

fn has_no_keys(partial: &AggregateExec) -> bool {
    partial.group_expr().expr().is_empty()
        && !partial.group_expr().has_grouping_set()
        && partial.filter_expr().iter().all(Option::is_none)
}

fn is_distinct_count(function: &AggregateFunctionExpr) -> bool {
    function.fun().name() == "count" && function.is_distinct() && function.expressions().len() == 1
}

/// The groups of distinct values that an aggregation counts, as the part of them that sees the rows, and their only key.
pub(super) fn counted_groups(partial: &AggregateExec) -> Option<(&AggregateExec, &Arc<dyn PhysicalExpr>)> {
    let is_count = |function: &Arc<AggregateFunctionExpr>| {
        let of_key = matches!(function.expressions().as_slice(), [only] if
            only.downcast_ref::<Column>().is_some_and(|column| column.index() == 0));
        function.fun().name() == "count" && !function.is_distinct() && of_key
    };
    if !has_no_keys(partial) || partial.aggr_expr().is_empty() || !partial.aggr_expr().iter().all(is_count) {
        return None;
    }
    let mut below = partial.input();
    loop {
        while let Some(input) = exchanged(below) {
            below = input;
        }
        let groups = below.downcast_ref::<AggregateExec>()?;
        let [(key, _)] = groups.group_expr().expr() else { return None };
        let is_plain = groups.aggr_expr().is_empty() && !groups.group_expr().has_grouping_set();
        if !is_plain || groups.limit_options().is_some() {
            return None;
        }
        match groups.mode() {
            AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => {
                return Some((groups, key));
            }
            _ => below = groups.input(),
        }
    }
}

impl Compiler<'_> {
    /// The one row of such an aggregation.
    pub fn distinct_counts(&mut self, schema: SchemaRef, partial: &AggregateExec) -> Result<Option<Open>> {
        let mut open = self.open_or_input(partial.input())?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let (mut outputs, mut calls) = (vec![], Calls::default());
        // Each counted column once, and per function its place among them, or among the other functions.
        let (mut counted, mut places) = (Vec::<(usize, Known)>::new(), vec![]);
        for function in partial.aggr_expr() {
            let Some((mut inputs, mut known)) = arguments(&mut compiler, &mut outputs, function)? else {
                return Ok(None);
            };
            if !is_distinct_count(function) {
                places.push(None);
                if !calls.add(function, inputs, &known, None)? {
                    return Ok(None);
                }
                continue;
            }
            let (Some(input), Some(known)) = (inputs.pop(), known.pop().filter(|known| known.form != Form::Arrow))
            else {
                return Ok(None);
            };
            let at = counted.iter().position(|(other, _)| *other == input).unwrap_or(counted.len());
            if at == counted.len() {
                counted.push((input, known));
            }
            places.push(Some(at));
        }
        let (width, program) = (outputs.len(), compiler.program);
        self.program_step(&mut open, program);
        self.add_sought();
        let (row, columns) = self.counts_of(open, counted, calls, places, width);
        Ok(Some(one_row(schema, row, columns)))
    }

    /// The one row of counts of groups.
    pub fn distinct_count(
        &mut self,
        schema: SchemaRef,
        partial: &AggregateExec,
        groups: &AggregateExec,
        key: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Open>> {
        let mut open = self.open_or_input(groups.input())?;
        let Some(known) = self.project(&mut open, std::iter::once(key))? else { return Ok(None) };
        let counted: Vec<(usize, Known)> = known.into_iter().map(|known| (0, known)).collect();
        if counted.iter().any(|(_, known)| known.form == Form::Arrow) {
            return Ok(None);
        }
        self.add_sought();
        let places = vec![Some(0); partial.aggr_expr().len()];
        let (row, columns) = self.counts_of(open, counted, Calls::default(), places, 1);
        Ok(Some(one_row(schema, row, columns)))
    }

    /// Adds the stages, and returns the row with all results and which of its columns are wanted.
    fn counts_of(
        &mut self,
        open: Open,
        counted: Vec<(usize, Known)>,
        calls: Calls,
        places: Vec<Option<usize>>,
        width: usize,
    ) -> (Branch, Vec<usize>) {
        let context = self.context.clone();
        let of_values: Vec<Values> = counted.iter().map(|(_, known)| Values::of(known, &context)).collect();
        let (calls, results) = calls.finish();
        let others = Aggregation::new(vec![], calls, context.clone());
        let part = |(values, (column, _)): (&Values, &(usize, Known))| -> Part { (values.sink.clone(), vec![*column]) };
        let mut parts: Vec<Part> = of_values.iter().zip(&counted).map(part).collect();
        parts.push((Arc::new(others.clone()), (0..width).collect()));
        self.close(open, Arc::new(Several::new(parts)));
        let mut sources = vec![];
        for values in of_values {
            let call =
                Call { inputs: vec![0], filter: None, accumulator: Arc::new(values.accumulator), is_ordered: false };
            let count = Aggregation::new(vec![], vec![call], context.clone());
            sources.push(count.results());
            let branches = vec![Branch { feed: Feed::Source(values.results), steps: vec![] }];
            let sink: Arc<dyn Sink> = Arc::new(count);
            self.stages.push(Stage { branches, sink: Some(sink) });
        }
        sources.push(others.results());
        let mut results = results.into_iter().map(|result| counted.len() + result);
        let column = |place: Option<usize>| place.or_else(|| results.next());
        let columns = places.into_iter().filter_map(column).collect();
        (OneRow::of(sources), columns)
    }
}

/// How the distinct values of a column are found, and counted.
struct Values {
    sink: Arc<dyn Sink>,
    results: Arc<dyn Source>,
    accumulator: fn() -> ExecResult<Box<dyn Accumulator>>,
}

impl Values {
    fn of(known: &Known, context: &Arc<RunContext>) -> Values {
        if DistinctCount::takes(known.form) {
            let count = DistinctCount::new(known.int_bounds(), context.clone());
            let results = count.results();
            return Values { sink: Arc::new(count), results, accumulator: || Ok(Box::<CountSum>::default()) };
        }
        let domain = KeyDomain { field: field(known, true), bounds: known.int_bounds() };
        let groups = Aggregation::new(vec![domain], vec![], context.clone());
        let results = groups.results();
        // NULL is a group, and does not count.
        Values { sink: Arc::new(groups), results, accumulator: || Ok(Box::<Count>::default()) }
    }
}

fn one_row(schema: SchemaRef, row: Branch, columns: Vec<usize>) -> Open {
    let known = schema.fields().iter().map(|field| Known::of(field.data_type(), true)).collect();
    let mut row = Open { branches: vec![row], columns: known, schema, is_sorted: false, limit: None };
    row.step(Arc::new(Columns(columns)));
    row
}
