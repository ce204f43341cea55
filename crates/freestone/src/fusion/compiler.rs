//! The plan's nodes → stages of the executor.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{AcrossPartitions, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, StatisticsArgs, StatisticsContext,
};
use freestone_exec::aggregate::Aggregation;
use freestone_exec::convert::form_of;
use freestone_exec::direct::KeyDomain;
use freestone_exec::grouping_sets::GroupingSet;
use freestone_exec::meter::{Meter, measure};
use freestone_exec::pipeline::{Branch, Feed, Sink, Stage, Step};
use freestone_exec::rows::Field;
use freestone_exec::scan::Scan;
use freestone_exec::sort::SortKey;
use freestone_exec::steps::{Columns, Filter, Project};
use freestone_exec::vector::Form;

use super::aggregates::{self, Calls};
use super::distinct_counts;
use super::exec::Query;
use super::expressions::{Compiled, EstimatedRows, Expressions, Known};
use super::first_rows;
use super::inputs::{Promised, RunContext};
use super::joins;
use super::meters::Meters;
use super::sorts::{self, sort_below};
use super::{unnest, windows};
use crate::nullable_sides::NullableSideExec;
use crate::provider::FreestoneSource;
use crate::provider::files::FilesSource;
use crate::recursion::RecursionExec;
use crate::small_batches::of_exchange;
use crate::unordered::UnorderedExec;

/// Rows whose steps are known, but not where they end.
pub(super) struct Open {
    pub branches: Vec<Branch>,
    pub schema: SchemaRef,
    pub columns: Vec<Known>,
    /// Whether there is one unit, whose rows are in the order that a sort below asked for.
    pub is_sorted: bool,
    /// The rows that are left out, and how many are wanted of the others.
    pub limit: Option<(usize, usize)>,
}

impl Open {
    /// Rows of which nothing is known but the types of their columns.
    pub fn of_types(branches: Vec<Branch>, schema: SchemaRef) -> Open {
        let columns = schema.fields().iter().map(|field| Known::of(field.data_type(), field.is_nullable())).collect();
        Open { branches, schema, columns, is_sorted: false, limit: None }
    }

    /// Rows of other branches have come to those of a sort.
    pub fn unsorted(self) -> Open {
        Open { is_sorted: false, ..self }
    }

    pub fn step(&mut self, step: Arc<dyn Step>) {
        self.branches.iter_mut().for_each(|branch| branch.steps.push(step.clone()));
    }
}

/// Compiles one part of a plan.
pub(super) struct Compiler<'a> {
    options: &'a ConfigOptions,
    pub context: Arc<RunContext>,
    pub stages: Vec<Stage>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The inputs as they were planned.
    pub planned: Vec<Arc<dyn ExecutionPlan>>,
    /// What files say of the columns of each input.
    promised: Vec<Vec<Promised>>,
    /// The joins, aggregations and sorts.
    pub breakers: usize,
    /// Those of them that are always worth it: joins, and the first rows of groups.
    pub sought: usize,
    /// The aggregations that are faster here than DataFusion's even without joins, and those that are slower.
    faster: usize,
    pub slower: usize,
    /// The rows of the next sort that limits leave.
    pub stretch: Range<usize>,
    /// Whether there may be a join, keys of groups of one table, or something else that the executor is sought for. Only with one
    /// is it worth looking at the zones of all scanned columns, and only for groups of one table at their dictionaries.
    has_join: bool,
    has_groups: bool,
    has_others: bool,
    scans: usize,
    /// Whether only the first rows of groups are left, which are soon sorted.
    pub is_few: bool,
    /// Whether a recursive query is a part of the plan.
    is_recursive: bool,
    /// What is measured of each node, if that is asked for.
    meters: Option<Meters>,
}

/// All rows of a sort.
pub(super) const WHOLE: Range<usize> = 0..usize::MAX;

/// How much a compiler has compiled.
pub(super) struct Mark {
    stages: usize,
    inputs: usize,
    counts: [usize; 5],
    is_few: bool,
}

impl<'a> Compiler<'a> {
    pub fn new(options: &'a ConfigOptions, measures: bool) -> Self {
        let context = Arc::new(RunContext::new(options.execution.target_partitions));
        Compiler {
            options,
            context,
            stages: vec![],
            inputs: vec![],
            planned: vec![],
            promised: vec![],
            breakers: 0,
            sought: 0,
            faster: 0,
            slower: 0,
            stretch: WHOLE,
            has_join: false,
            has_groups: false,
            has_others: false,
            scans: 0,
            is_few: false,
            is_recursive: false,
            meters: measures.then(Meters::default),
        }
    }

    /// The plan as stages, if it is worth it. `in_order`: rows have to come in the order of their units; `sorted`: a node
    /// above relies on an order that was asked for.
    pub fn compile(mut self, plan: &Arc<dyn ExecutionPlan>, in_order: bool, sorted: bool) -> Result<Option<Query>> {
        self.has_join = plan.exists(|node| Ok(node.is::<HashJoinExec>() || joins::is_range_join(node)))?;
        self.has_groups = !self.has_join && plan.exists(|node| Ok(is_grouped_scan(node)))?;
        self.is_recursive = plan.exists(|node| Ok(node.is::<RecursionExec>()))?;
        self.has_others = self.is_recursive
            || plan.exists(|node| {
                let has_windows = first_rows::is_known(node) || windows::is_known(node);
                Ok(has_windows
                    || distinct_counts::is_known(node)
                    || sorts::is_known(node)
                    || unnest::is_known(node)
                    || aggregates::has_collecting(node))
            })?;
        if !self.is_sought() && plan.exists(|node| Ok(node.is::<AggregateExec>() || node.is::<SortExec>()))? {
            return Ok(None);
        }
        if sorts::is_of_partitions(plan) {
            return Ok(None);
        }
        let Some(open) = self.open(plan)? else { return Ok(None) };
        // Other aggregations and sorts of one table are faster within its scan, or by DataFusion's operators.
        let is_worth_it = self.sought > 0 || self.faster > 0 && self.slower == 0;
        if self.breakers > 0 && !is_worth_it {
            return Ok(None);
        }
        // Without joins, aggregations and sorts, only the order of rows is gained.
        let is_ordered = in_order || open.limit.is_some();
        // A node above may rely on an order that rows of several units do not have. It is made later, if it is one of columns, and
        // not of a value that each of several partitions has.
        let order = plan.output_ordering().filter(|_| !open.is_sorted).cloned();
        let is_of_values = sorted && partitions(plan) > 1 && (order.is_none() || has_values_of_partitions(plan));
        let is_ordered_later = !is_of_values && self.is_few && open.limit.is_none();
        if (sorted && !open.is_sorted || order.is_some()) && !is_ordered_later {
            return Ok(None);
        }
        let loses_order = || partitions(plan) > 1 && self.inputs.iter().all(|input| partitions(input) == 1);
        if self.breakers == 0 && !(is_ordered && (self.scans > 0 || loses_order())) {
            return Ok(None);
        }
        self.stages.push(Stage { branches: open.branches, sink: None });
        Ok(Some(Query {
            stages: self.stages,
            inputs: self.inputs,
            planned: self.planned,
            promised: self.promised,
            context: self.context,
            meters: self.meters,
            is_recursive: self.is_recursive,
            schema: plan.schema(),
            in_order: is_ordered || open.is_sorted,
            limit: open.limit,
            order,
        }))
    }

    fn is_sought(&self) -> bool {
        self.has_join || self.has_groups || self.has_others
    }

    /// How much was compiled.
    pub fn mark(&self) -> Mark {
        let (stages, inputs) = (self.stages.len(), self.inputs.len());
        let counts = [self.breakers, self.sought, self.scans, self.faster, self.slower];
        Mark { stages, inputs, counts, is_few: self.is_few }
    }

    /// Forgets what was compiled since a mark.
    pub fn reset(&mut self, mark: Mark) {
        self.stages.truncate(mark.stages);
        self.inputs.truncate(mark.inputs);
        self.planned.truncate(mark.inputs);
        self.promised.truncate(mark.inputs);
        [self.breakers, self.sought, self.scans, self.faster, self.slower] = mark.counts;
        self.is_few = mark.is_few;
        self.stretch = WHOLE;
    }

    /// Counts an operator that is always worth it.
    pub fn add_sought(&mut self) {
        self.breakers += 1;
        self.sought += 1;
    }

    /// What `compile` returns, and the stages that it added, which are left out for now.
    pub fn side_stages(&mut self, compile: impl FnOnce(&mut Self) -> Result<Open>) -> Result<(Open, Vec<Stage>)> {
        let before = std::mem::take(&mut self.stages);
        let open = compile(self);
        let stages = std::mem::replace(&mut self.stages, before);
        Ok((open?, stages))
    }

    /// The stages and steps of a plan; `None` if its last node is not known.
    fn open(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Open>> {
        let Some(mut open) = self.open_node(plan)? else { return Ok(None) };
        if let Some(meters) = &mut self.meters {
            let meter = Arc::new(Meter::default());
            measure(&meter, &mut open.branches, &mut self.stages);
            meters.add(plan, meter);
        }
        Ok(Some(open))
    }

    fn open_node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Open>> {
        if let Some(source) = FreestoneSource::of(plan) {
            return self.scan(source);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return self.projection(projection);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return self.filter(filter);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.join(join);
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return self.range_join(join);
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(aggregate);
        }
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return self.sort(sort);
        }
        if let Some(union) = plan.downcast_ref::<UnionExec>() {
            return self.union(union);
        }
        if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
            return self.unnest(unnest);
        }
        if let Some(query) = plan.downcast_ref::<RecursionExec>() {
            return self.recursion(query);
        }
        if windows::is_known(plan) {
            let all: Vec<usize> = (0..plan.schema().fields().len()).collect();
            return self.windows(plan, &all);
        }
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            let rows = merge.fetch().filter(|_| sort_below(merge.input()).is_some());
            self.stretch.end = self.stretch.end.min(rows.unwrap_or(usize::MAX));
            let open = self.open(merge.input())?.filter(|open| open.is_sorted);
            return Ok(open.map(|open| match merge.fetch() {
                Some(rows) => Open { limit: Some(further(open.limit, 0, rows)), ..open },
                None => open,
            }));
        }
        if let Some((input, skip, rows)) = limited(plan) {
            let stretch = std::mem::replace(&mut self.stretch, WHOLE);
            let is_of_sort = sort_below(input).is_some();
            if is_of_sort {
                let end = skip.saturating_add(rows.min(stretch.end));
                self.stretch = skip.saturating_add(stretch.start)..end;
            }
            let open = self.open(input)?;
            let skip = if is_of_sort { 0 } else { skip };
            return Ok(open.map(|open| Open { limit: Some(further(open.limit, skip, rows)), ..open }));
        }
        match exchanged(plan) {
            Some(input) => self.open(input),
            None => Ok(None),
        }
    }

    /// The same, or the plan as an input.
    pub fn open_or_input(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Open> {
        self.open_limited(plan, false)
    }

    fn open_limited(&mut self, plan: &Arc<dyn ExecutionPlan>, may_be_limited: bool) -> Result<Open> {
        let mark = self.mark();
        if let Some(open) = self.open(plan)?.filter(|open| open.limit.is_none() || may_be_limited) {
            return Ok(open);
        }
        self.reset(mark);
        let mut below = plan;
        while let Some(input) = exchanged(below) {
            below = input;
        }
        let (schema, files) = (below.schema(), FilesSource::of(below));
        let mut columns: Vec<Known> =
            schema.fields().iter().map(|field| Known::of(field.data_type(), field.is_nullable())).collect();
        if let Some(files) = files.filter(|_| self.has_join || self.has_groups) {
            for (at, (known, (nullable, bounds))) in columns.iter_mut().zip(files.nulls_and_bounds()?).enumerate() {
                (known.nullable, known.bounds) = (known.nullable && nullable, bounds);
                known.texts = if self.has_groups { files.few_values(at) } else { None };
            }
        }
        let promised = files.map(|_| columns.iter().map(Promised::of).collect());
        self.promised.push(promised.unwrap_or_default());
        self.planned.push(below.clone());
        self.inputs.push(files.map_or_else(|| below.clone(), FilesSource::executed));
        let branches = vec![Branch { feed: Feed::Input(self.inputs.len() - 1), steps: vec![] }];
        Ok(Open { branches, schema, columns, is_sorted: false, limit: None })
    }

    fn scan(&mut self, source: &FreestoneSource) -> Result<Option<Open>> {
        let columns = source.projection();
        if !source.is_fusable() || !Scan::has_all(source.table(), columns) {
            return Ok(None);
        }
        self.scans += 1;
        let is_sought = self.is_sought();
        let estimate = source.clone();
        let rows: Option<Arc<EstimatedRows>> =
            is_sought.then(|| Arc::new(LazyLock::new(Box::new(move || estimate.estimated_rows()) as _)));
        let known = |(at, field): (usize, &Arc<datafusion::arrow::datatypes::Field>)| {
            let (nullable, bounds) = match is_sought {
                true => source.nulls_and_bounds(columns[at]),
                false => (field.is_nullable(), None),
            };
            let texts = if self.has_groups { source.dictionary_texts(columns[at]) } else { None };
            Known { bounds, texts, rows: rows.clone(), ..Known::of(field.data_type(), nullable) }
        };
        let schema = source.output_schema().clone();
        let known = schema.fields().iter().enumerate().map(known).collect();
        let scan = source.executed(self.options.execution.target_partitions)?;
        self.context.pin(source);
        let branches = vec![Branch { feed: Feed::Source(Arc::new(scan)), steps: vec![] }];
        let limit = source.limit().map(|rows| (0, rows));
        Ok(Some(Open { branches, schema, columns: known, is_sorted: false, limit }))
    }

    /// Evaluates expressions for rows, which become their columns. `None` if one must not be evaluated here.
    pub fn project<'b>(
        &mut self,
        open: &mut Open,
        expressions: impl Iterator<Item = &'b Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<Vec<Known>>> {
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let mut known = vec![];
        for e in expressions {
            let Some(compiled) = compiler.compile(e)? else { return Ok(None) };
            known.push(compiler.output(&compiled));
        }
        let program = compiler.program;
        self.program_step(open, program);
        Ok(Some(known))
    }

    /// Adds the step of a program that computes all columns.
    pub fn program_step(&self, open: &mut Open, program: freestone_exec::program::Program) {
        match program.columns() {
            Some(columns) if columns.iter().copied().eq(0..open.columns.len()) => {}
            Some(columns) => open.step(Arc::new(Columns(columns))),
            None => open.step(Arc::new(Project(Arc::new(program)))),
        }
    }

    fn projection(&mut self, projection: &ProjectionExec) -> Result<Option<Open>> {
        if windows::is_known(projection.input()) {
            return self.projected_windows(projection);
        }
        // A limit may come before a projection.
        let open = self.open_limited(projection.input(), true)?;
        self.projected(open, projection)
    }

    /// The columns of a projection of these rows.
    pub fn projected(&mut self, mut open: Open, projection: &ProjectionExec) -> Result<Option<Open>> {
        let expressions = projection.expr().iter().map(|e| &e.expr);
        let Some(columns) = self.project(&mut open, expressions)? else { return Ok(None) };
        Ok(Some(Open { columns, schema: projection.schema(), ..open }))
    }

    fn filter(&mut self, filter: &FilterExec) -> Result<Option<Open>> {
        if filter.fetch().is_some() {
            return Ok(None);
        }
        let mark = self.mark();
        let mut open = match self.first_rows(filter)? {
            Some(open) => open,
            None => {
                self.reset(mark);
                self.open_or_input(filter.input())?
            }
        };
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let Some(compiled) = compiler.compile(filter.predicate())?.filter(|c| c.known.form == Form::Bits) else {
            return Ok(None);
        };
        compiler.output(&compiled);
        let program = compiler.program;
        open.step(Arc::new(Filter(Arc::new(program))));
        if let Some(columns) = filter.projection() {
            open.columns = columns.iter().map(|column| open.columns[*column].clone()).collect();
            open.step(Arc::new(Columns(columns.to_vec())));
        }
        open.schema = filter.schema();
        Ok(Some(open))
    }

    /// Ends rows in a sink, and begins with its results.
    pub fn close(&mut self, open: Open, sink: Arc<dyn Sink>) {
        self.stages.push(Stage { branches: open.branches, sink: Some(sink) });
    }

    fn aggregate(&mut self, aggregate: &AggregateExec) -> Result<Option<Open>> {
        let partial = match aggregate.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                let mut below = aggregate.input();
                while let Some(input) = exchanged(below) {
                    below = input;
                }
                match below.downcast_ref::<AggregateExec>().filter(|a| *a.mode() == AggregateMode::Partial) {
                    Some(partial) => partial,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        if distinct_counts::is_known_of(partial) {
            return self.distinct_counts(aggregate.schema(), partial);
        }
        if let Some((groups, key)) = distinct_counts::counted_groups(partial) {
            return self.distinct_count(aggregate.schema(), partial, groups, key);
        }
        let groups = partial.group_expr();
        let are_too_many = groups.has_grouping_set() && groups.expr().len() >= SET_KEYS_MAX;
        if are_too_many || !partial.aggr_expr().iter().all(aggregates::is_fusable) {
            return Ok(None);
        }
        let mut open = self.open_or_input(partial.input())?;
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        let (mut keys, mut outputs) = (vec![], vec![]);
        for (key, _) in groups.expr() {
            let Some(compiled) = compiler.compile(key)?.filter(|c| c.known.form != Form::Arrow) else {
                return Ok(None);
            };
            keys.push(compiler.output(&compiled));
            outputs.push(compiled);
        }
        let mut calls = Calls::default();
        for (function, filter) in partial.aggr_expr().iter().zip(partial.filter_expr()) {
            let Some((inputs, known)) = arguments(&mut compiler, &mut outputs, function)? else { return Ok(None) };
            let filter = match filter {
                None => None,
                Some(filter) => match compiler.compile(filter)?.filter(|c| c.known.form == Form::Bits) {
                    Some(compiled) => Some(place(&mut compiler, &mut outputs, compiled)),
                    None => return Ok(None),
                },
            };
            if !calls.add(function, inputs, &known, filter)? {
                return Ok(None);
            }
        }
        let program = compiler.program;
        self.program_step(&mut open, program);
        self.weigh(aggregate, partial, &open, &keys, &calls)?;
        Ok(Some(self.aggregated(open, aggregate.schema(), partial, keys, calls)))
    }

    /// The results of calls by keys, which are the first columns of these rows.
    fn aggregated(
        &mut self,
        open: Open,
        schema: SchemaRef,
        partial: &AggregateExec,
        mut keys: Vec<Known>,
        calls: Calls,
    ) -> Open {
        let domains = keys.iter().map(|known| KeyDomain { field: field(known, true), bounds: known.int_bounds() });
        let (domains, (calls, places)) = (domains.collect(), calls.finish());
        let groups = partial.group_expr();
        let aggregation = match groups.has_grouping_set() {
            false => Aggregation::new(domains, calls, self.context.clone()),
            true => {
                // A key may be NULL in a set, and the number of the set is one more.
                keys.iter_mut().for_each(|key| *key = Known::of(&key.data_type, true));
                keys.push(Known::of(schema.field(keys.len()).data_type(), false));
                Aggregation::with_sets(domains, grouping_sets(groups.groups()), calls, self.context.clone())
            }
        };
        let columns = (0..keys.len()).chain(places.iter().map(|place| keys.len() + place)).collect();
        let steps: Vec<Arc<dyn Step>> = vec![Arc::new(Columns(columns))];
        let results = Branch { feed: Feed::Source(aggregation.results()), steps };
        self.close(open, Arc::new(aggregation));
        let of_calls = schema.fields().iter().skip(keys.len()).map(|field| Known::of(field.data_type(), true));
        let columns = keys.iter().cloned().chain(of_calls).collect();
        Open { branches: vec![results], schema, columns, is_sorted: false, limit: None }
    }

    /// Counts an aggregation among those that are faster here, or slower.
    fn weigh(
        &mut self,
        aggregate: &AggregateExec,
        partial: &AggregateExec,
        open: &Open,
        keys: &[Known],
        calls: &Calls,
    ) -> Result<()> {
        self.breakers += 1;
        if partial.group_expr().has_grouping_set() {
            // Rows are looked up once, and not once per set.
            self.faster += 1;
            return Ok(());
        }
        // Scans of native tables aggregate without keys themselves, and bounds of files answer MIN and MAX.
        let is_bound = |call: &Arc<AggregateFunctionExpr>| matches!(call.fun().name(), "min" | "max");
        let of_input = open.branches.iter().any(|branch| matches!(branch.feed, Feed::Input(_)));
        let is_hashed = !of_input && !calls.has_foreign && is_hashed_faster(aggregate, partial, keys)?;
        let is_faster = calls.has_collecting || has_few_groups(keys) || is_hashed;
        let is_computed = !of_input && !calls.has_foreign && computes(partial);
        let is_faster = is_faster || keys.is_empty() && is_computed;
        match is_faster || keys.is_empty() && of_input && !partial.aggr_expr().iter().all(is_bound) {
            true => self.faster += 1,
            false => self.slower += usize::from(!keys.is_empty()),
        }
        Ok(())
    }

    fn union(&mut self, union: &UnionExec) -> Result<Option<Open>> {
        let schema = union.schema();
        let mut branches = vec![];
        for input in union.children() {
            let mut open = self.open_or_input(input)?;
            if !self.take_forms(&mut open, &schema) {
                return Ok(None);
            }
            branches.extend(open.branches);
        }
        Ok(Some(Open::of_types(branches, schema)))
    }

    /// Gives columns the forms of their types. `false` if one cannot have it.
    pub fn take_forms(&self, open: &mut Open, schema: &SchemaRef) -> bool {
        let mut compiler = Expressions::new(&open.schema, &open.columns);
        for (column, field) in schema.fields().iter().enumerate() {
            let mut compiled = compiler.column(column);
            if compiled.known.form != form_of(field.data_type()) {
                compiled = compiler.widened(compiled);
            }
            // Of a small decimal that was computed with 128 bits.
            if compiled.known.form != form_of(field.data_type()) {
                return false;
            }
            compiler.output(&compiled);
        }
        let program = compiler.program;
        self.program_step(open, program);
        true
    }
}

/// Whether a column has another value in each partition, as those of a UNION ALL have.
fn has_values_of_partitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let constants = plan.equivalence_properties().constants();
    constants.iter().any(|constant| constant.across_partitions == AcrossPartitions::Heterogeneous)
}

fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

/// The input of a limit, the rows that it leaves out, and how many of the others are wanted.
pub(super) fn limited(plan: &Arc<dyn ExecutionPlan>) -> Option<(&Arc<dyn ExecutionPlan>, usize, usize)> {
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return Some((limit.input(), limit.skip(), limit.fetch().unwrap_or(usize::MAX)));
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some((limit.input(), 0, limit.fetch()));
    }
    let coalesce = plan.downcast_ref::<CoalescePartitionsExec>()?;
    Some((coalesce.input(), 0, coalesce.fetch()?))
}

/// A limit of limited rows.
fn further(limit: Option<(usize, usize)>, skip: usize, rows: usize) -> (usize, usize) {
    let (before, wanted) = limit.unwrap_or((0, usize::MAX));
    (before.saturating_add(skip), wanted.saturating_sub(skip).min(rows))
}

/// The position of a value among the outputs, to which it is added if it is new.
pub(super) fn place(compiler: &mut Expressions<'_>, outputs: &mut Vec<Compiled>, compiled: Compiled) -> usize {
    let known = outputs.iter().position(|output| output.register == compiled.register);
    known.unwrap_or_else(|| {
        compiler.output(&compiled);
        outputs.push(compiled);
        outputs.len() - 1
    })
}

/// The positions of a function's arguments among the outputs, and what is known of them; `None` if one must not be evaluated here.
pub(super) fn arguments(
    compiler: &mut Expressions<'_>,
    outputs: &mut Vec<Compiled>,
    function: &AggregateFunctionExpr,
) -> Result<Option<(Vec<usize>, Vec<Known>)>> {
    let (mut inputs, mut known) = (vec![], vec![]);
    for argument in aggregates::arguments(function) {
        let Some(compiled) = compiler.compile(&argument)? else { return Ok(None) };
        known.push(compiled.known.clone());
        inputs.push(place(compiler, outputs, compiled));
    }
    Ok(Some((inputs, known)))
}

/// A column as a field of rows.
pub(super) fn field(known: &Known, is_key: bool) -> Field {
    Field { form: known.form, data_type: known.data_type.clone(), nullable: known.nullable, is_key }
}

/// A key of an order.
pub(super) fn sort_key(column: usize, key: &PhysicalSortExpr) -> SortKey {
    SortKey { column, descending: key.options.descending, nulls_first: key.options.nulls_first }
}

/// The input of a node that only moves rows between threads.
pub(crate) fn exchanged(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return coalesce.fetch().is_none().then(|| coalesce.input());
    }
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        let is_known = matches!(repartition.partitioning(), Partitioning::Hash(..) | Partitioning::RoundRobinBatch(_));
        return is_known.then(|| repartition.input());
    }
    let cooperative = plan.downcast_ref::<CooperativeExec>().map(CooperativeExec::input);
    let unordered = || plan.downcast_ref::<UnorderedExec>().map(UnorderedExec::input);
    let of_side = || plan.downcast_ref::<NullableSideExec>().map(NullableSideExec::input);
    cooperative.or_else(unordered).or_else(of_side).or_else(|| of_exchange(plan))
}

/// Grouping sets of so many keys have numbers of 64 bits, which have another form.
const SET_KEYS_MAX: usize = 24;

/// The grouping sets with the numbers that DataFusion gives them: a bit for each key that a set has not, and above them how often
/// the same set came before.
fn grouping_sets(sets: &[Vec<bool>]) -> Vec<GroupingSet> {
    let set = |(at, absent): (usize, &Vec<bool>)| {
        let before = sets[..at].iter().filter(|other| *other == absent).count() as i64;
        let number = absent.iter().fold(0, |bits, is_absent| bits << 1 | i64::from(*is_absent));
        GroupingSet { absent: absent.clone(), number: before << absent.len() | number }
    };
    sets.iter().enumerate().map(set).collect()
}

/// The groups that are found by position faster than by hashing.
const FEW_GROUPS: usize = 1 << 17;

/// Whether the values of all keys are few.
fn has_few_groups(keys: &[Known]) -> bool {
    // NULL is one more.
    let all = keys.iter().try_fold(1usize, |all, key| all.checked_mul(key.values()? + 1));
    !keys.is_empty() && all.is_some_and(|all| all <= FEW_GROUPS)
}

/// The groups of numbers from which on the executor divides their rows before it looks them up.
const MANY_GROUPS: usize = 1 << 15;
/// The most keys of such groups. With more, DataFusion's rows were faster.
const FEW_KEYS: usize = 2;

/// Whether groups that are found by hashing are faster here than in DataFusion's operators. Measured on one table: those of all its
/// rows are by up to 1.5 times if there are texts among their keys, and so are distinct rows of several columns, and many groups of
/// numbers; but not groups of filtered rows, nor few groups of numbers. DataFusion ends aggregations early of which only some
/// groups are wanted.
fn is_hashed_faster(aggregate: &AggregateExec, partial: &AggregateExec, keys: &[Known]) -> Result<bool> {
    let is_all = partial.limit_options().is_none() && aggregate.limit_options().is_none();
    let is_filtered = |node: &Arc<dyn ExecutionPlan>| {
        Ok(node.is::<FilterExec>() || FreestoneSource::of(node).is_some_and(|source| !source.is_whole()))
    };
    if !is_all || partial.input().exists(is_filtered)? {
        return Ok(false);
    }
    let has_texts = keys.iter().any(|key| key.form == Form::Text);
    let has_calls = !partial.aggr_expr().is_empty();
    let is_always_faster = if has_calls { has_texts } else { keys.len() > 1 };
    if is_always_faster || has_texts || keys.len() > FEW_KEYS {
        return Ok(is_always_faster);
    }
    let groups = StatisticsContext::new().compute(partial, &StatisticsArgs::new())?.num_rows;
    Ok(groups.get_value().is_some_and(|groups| *groups >= MANY_GROUPS))
}

/// Whether arguments of an aggregation are more than columns.
fn computes(aggregate: &AggregateExec) -> bool {
    let is_read = |e: &Arc<dyn PhysicalExpr>| e.is::<Column>() || e.is::<Literal>();
    aggregate.aggr_expr().iter().any(|function| !function.expressions().iter().all(is_read))
        || aggregate.filter_expr().iter().any(Option::is_some)
}

/// Whether a node aggregates the rows of a native table by keys or with values that it computes, or those of files.
fn is_grouped_scan(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let input = aggregate.input();
    let mut below = input.downcast_ref::<UnorderedExec>().map_or(input, UnorderedExec::input);
    loop {
        below = match (below.downcast_ref::<ProjectionExec>(), below.downcast_ref::<FilterExec>()) {
            (Some(projection), _) => projection.input(),
            (_, Some(filter)) => filter.input(),
            _ => break,
        };
    }
    FilesSource::of(below).is_some()
        || (!aggregate.group_expr().expr().is_empty() || computes(aggregate)) && FreestoneSource::of(below).is_some()
}
