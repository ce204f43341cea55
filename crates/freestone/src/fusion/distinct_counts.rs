//! Aggregations without keys that count distinct values: each argument is grouped by its values, all in one pass over the rows.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use freestone_exec::accumulators::Count;
use freestone_exec::aggregate::{Aggregation, Call};
use freestone_exec::direct::KeyDomain;
use freestone_exec::pipeline::{Branch, Feed, Sink, Stage};
use freestone_exec::several::{OneRow, Part, Several};
use freestone_exec::steps::Columns;
use freestone_exec::vector::Form;

use super::aggregates::{self, Calls};
use super::compiler::{Compiler, Open, arguments, field};
use super::expressions::{Expressions, Known};

/// Whether a node is one of these aggregations.
pub(super) fn is_known(node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| *aggregate.mode() != AggregateMode::Final && is_known_of(aggregate))
}

/// The same of the part of one that sees the rows.
pub(super) fn is_known_of(partial: &AggregateExec) -> bool {
    let functions = partial.aggr_expr();
    partial.group_expr().expr().is_empty()
        && !partial.group_expr().has_grouping_set()
        && partial.filter_expr().iter().all(Option::is_none)
        && functions.iter().any(|function| is_distinct_count(function))
        && functions.iter().all(|function| is_distinct_count(function) || aggregates::is_known(function))
}

fn is_distinct_count(function: &AggregateFunctionExpr) -> bool {
    function.fun().name() == "count" && function.is_distinct() && function.expressions().len() == 1
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
        let mut row = Open {
            branches: vec![row],
            columns: schema.fields().iter().map(|field| Known::of(field.data_type(), true)).collect(),
            schema,
            is_sorted: false,
            limit: None,
        };
        row.step(Arc::new(Columns(columns)));
        Ok(Some(row))
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
        let of_values = |(column, known): &(usize, Known)| {
            let domain = KeyDomain { field: field(known, true), bounds: known.int_bounds() };
            (Aggregation::new(vec![domain], vec![], context.clone()), *column)
        };
        let of_values: Vec<(Arc<Aggregation>, usize)> = counted.iter().map(of_values).collect();
        let (calls, results) = calls.finish();
        let others = Aggregation::new(vec![], calls, context.clone());
        let part = |(values, column): &(Arc<Aggregation>, usize)| -> Part { (Arc::new(values.clone()), vec![*column]) };
        let mut parts: Vec<Part> = of_values.iter().map(part).collect();
        parts.push((Arc::new(others.clone()), (0..width).collect()));
        self.close(open, Arc::new(Several::new(parts)));
        let mut sources = vec![];
        for (values, _) in &of_values {
            // NULL is a group, and does not count.
            let call = Call { inputs: vec![0], filter: None, accumulator: Arc::new(|| Ok(Box::<Count>::default())) };
            let count = Aggregation::new(vec![], vec![call], context.clone());
            sources.push(count.results());
            let branches = vec![Branch { feed: Feed::Source(values.results()), steps: vec![] }];
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
