//! Sorts → rows in an order: the first ones, all of them, or those behind an offset.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use freestone_exec::convert::form_of;
use freestone_exec::full_sort::{FullSort, Wanted};
use freestone_exec::pipeline::{Branch, Feed, Sink, Source};
use freestone_exec::places::has_order;
use freestone_exec::rows::Field;
use freestone_exec::sort::{SortKey, Top};

use super::compiler::{Compiler, Open, WHOLE, exchanged, field, limited, place, sort_key};
use super::expressions::Expressions;
use super::foreign::external;

/// The first rows of an order are kept as they come up to this number; more are sorted together.
const TOP_ROWS: usize = 4096;

/// Whether a node sorts many rows.
pub(super) fn is_known(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<SortExec>().is_some_and(|sort| is_full(sort) && has_known_keys(sort))
}

/// Whether a node sorts the rows of each of its partitions, which are not put together.
pub(super) fn is_of_partitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_known(plan) && plan.output_partitioning().partition_count() > 1
}

fn is_full(sort: &SortExec) -> bool {
    sort.fetch().is_none_or(|rows| rows > TOP_ROWS)
}

fn has_known_keys(sort: &SortExec) -> bool {
    let schema = sort.input().schema();
    sort.expr().iter().all(|key| key.expr.data_type(&schema).is_ok_and(|of| has_order(form_of(&of))))
}

/// The sort of many rows that a limit sees.
pub(super) fn sort_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    let mut below = plan;
    loop {
        let merged = || below.downcast_ref::<SortPreservingMergeExec>().map(SortPreservingMergeExec::input);
        let limited = || limited(below).map(|(input, ..)| input);
        match exchanged(below).or_else(merged).or_else(limited) {
            Some(input) => below = input,
            None => break,
        }
    }
    below.downcast_ref::<SortExec>().filter(|sort| is_full(sort) && has_known_keys(sort))
}

impl Compiler<'_> {
    /// The rows of a sort that limits above it leave.
    pub(super) fn sort(&mut self, sort: &SortExec) -> Result<Option<Open>> {
        let stretch = std::mem::replace(&mut self.stretch, WHOLE);
        match sort.fetch().filter(|_| !is_full(sort)) {
            Some(rows) => self.top(sort, rows),
            None => self.full_sort(sort, stretch),
        }
    }

    fn top(&mut self, sort: &SortExec, rows: usize) -> Result<Option<Open>> {
        let mut keys = vec![];
        for key in sort.expr() {
            let Some(column) = key.expr.downcast_ref::<Column>() else { return Ok(None) };
            keys.push(sort_key(column.index(), key));
        }
        let open = self.open_or_input(sort.input())?;
        let fields: Vec<Field> = open.columns.iter().map(|known| field(known, false)).collect();
        let top = Top::new(keys, fields, rows, self.context.clone()).map_err(external)?;
        Ok(Some(self.sorted(open, sort.schema(), top.results(), Arc::new(top))))
    }

    fn full_sort(&mut self, sort: &SortExec, stretch: Range<usize>) -> Result<Option<Open>> {
        if !has_known_keys(sort) {
            return Ok(None);
        }
        let mut open = self.open_or_input(sort.input())?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let mut outputs = compiler.all_columns();
        let mut keys: Vec<SortKey> = vec![];
        for key in sort.expr() {
            let Some(compiled) = compiler.compile(&key.expr)?.filter(|c| has_order(c.known.form)) else {
                return Ok(None);
            };
            keys.push(sort_key(place(&mut compiler, &mut outputs, compiled), key));
        }
        let program = compiler.program;
        self.program_step(&mut open, program);
        let wanted = Wanted {
            keys,
            fields: outputs.iter().map(|compiled| field(&compiled.known, false)).collect(),
            bounds: outputs.iter().map(|compiled| compiled.known.int_bounds()).collect(),
            returned: open.columns.len(),
            stretch: stretch.start..stretch.end.min(sort.fetch().unwrap_or(usize::MAX)),
        };
        // It does not make up for an aggregation that is slower here.
        self.sought += usize::from(self.slower == 0);
        let full = FullSort::new(wanted, self.context.clone());
        Ok(Some(self.sorted(open, sort.schema(), full.results(), Arc::new(full))))
    }

    /// Ends rows in a sink, whose results have the same columns in order.
    fn sorted(&mut self, open: Open, schema: SchemaRef, results: Arc<dyn Source>, sink: Arc<dyn Sink>) -> Open {
        self.breakers += 1;
        let branches = vec![Branch { feed: Feed::Source(results), steps: vec![] }];
        let columns = open.columns.clone();
        self.close(open, sink);
        Open { branches, schema, columns, is_sorted: true, limit: None }
    }
}
