//! Pushes filters towards the scans by the positions of their columns, never by names.
//!
//! A filter is pushed down so that a scan skips rows that do not pass: filters of the query in the first pass, and in
//! the last pass the dynamic filters that hash joins, Top-N sorts, MIN and MAX create at run time. DataFusion asks each
//! operator which filters of its parent its inputs accept, and operators find the columns by name. If two columns have
//! the same name, as after a join of tables that both have an `id`, they are confused, and rows are lost.
//!
//! So this rule requests from operators only their own filters, and [`route`] determines which input column each output
//! column is. An operator that `route` does not list passes no filters. This costs speed, never rows.
//!
//! Two more conditions apply. No filter is pushed below a limit, where it would change the limited rows. And a filter
//! that can fail (a division, a cast, a function) is not pushed below an operator that drops rows, which may protect
//! it.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{JoinType, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
    PushedDownPredicate,
};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::exact::Canonical;
use crate::expressions::partial::PartialFilter;
use crate::nullable_sides::NullableSideExec;
use crate::provider::ScanAggregateExec;
use crate::recursion::{KeyedRecursionExec, RecursionExec};

type Filter = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// The rule, which runs twice: for filters of the query, and as one of the last rules for dynamic filters.
#[derive(Debug)]
pub(crate) struct FilterPushdown {
    phase: FilterPushdownPhase,
}

impl FilterPushdown {
    /// The run before most rules, for filters of the query. It may replace operators.
    pub fn first() -> Self {
        Self { phase: FilterPushdownPhase::Pre }
    }

    /// The run after all rules that change the shape of the plan, for dynamic filters: one operator updates them, and
    /// another reads them.
    pub fn last() -> Self {
        Self { phase: FilterPushdownPhase::Post }
    }
}

/// Whether joins or sorts in a plan compare structs, or values with structs in them.
fn compares_structs(plan: &Plan) -> bool {
    let has_structs = |expression: &Filter, input: &Plan| {
        expression.data_type(&input.schema()).is_ok_and(|data_type| data_type.is_nested())
    };
    plan.exists(|node| {
        let joins = node.downcast_ref::<HashJoinExec>();
        let sorts = node.downcast_ref::<SortExec>();
        let joined = joins.is_some_and(|join| join.on().iter().any(|(key, _)| has_structs(key, join.left())));
        let is_sorted = sorts.is_some_and(|sort| sort.expr().iter().any(|key| has_structs(&key.expr, sort.input())));
        Ok(joined || is_sorted)
    })
    .unwrap_or(false)
}

impl PhysicalOptimizerRule for FilterPushdown {
    /// The name of DataFusion's rule that it replaces.
    fn name(&self) -> &str {
        match self.phase {
            FilterPushdownPhase::Pre => "FilterPushdown",
            FilterPushdownPhase::Post => "FilterPushdown(Post)",
        }
    }

    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let mut config = Cow::Borrowed(config);
        if compares_structs(&plan) {
            // The bounds of structs, and of what is in them, are not always comparable, which is no error of the query.
            let optimizer = &mut config.to_mut().optimizer;
            optimizer.enable_join_dynamic_filter_pushdown = false;
            optimizer.enable_topk_dynamic_filter_pushdown = false;
        }
        let pass = Pass { phase: self.phase, config: &config };
        Ok(pass.pass_into_node(&plan, &[])?.updated_node.unwrap_or(plan))
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// One run of the rule over a plan.
struct Pass<'a> {
    phase: FilterPushdownPhase,
    config: &'a ConfigOptions,
}

impl Pass<'_> {
    /// Pushes filters on a node's output, and the node's own filters, as far as possible.
    fn pass_into_node(&self, node: &Plan, filters: &[Filter]) -> Result<FilterPushdownPropagation<Plan>> {
        match node.downcast_ref::<FilterExec>() {
            Some(filter) if self.phase == FilterPushdownPhase::Pre && !filters.is_empty() => {
                self.pass_into_filter(node, filter, filters)
            }
            _ => self.pass_into_children(node, filters),
        }
    }

    /// A filter operator also evaluates its parent's filters that its input does not accept.
    fn pass_into_filter(
        &self,
        node: &Plan,
        filter: &FilterExec,
        filters: &[Filter],
    ) -> Result<FilterPushdownPropagation<Plan>> {
        let route = route(node, 0)?;
        let taken: Vec<Option<Filter>> = filters.iter().map(|f| follow(&route, f)).collect::<Result<_>>()?;
        // Its own conditions come first, because they may guard the others.
        let all: Vec<Filter> =
            std::iter::once(filter.predicate().clone()).chain(taken.iter().flatten().cloned()).collect();
        let merged: Plan = match all.len() {
            1 => node.clone(),
            _ => Arc::new(FilterExecBuilder::from(filter).with_predicate(conjunction(all)).build()?),
        };
        let done = self.pass_into_children(&merged, &[])?;
        let results = taken.iter().map(|taken| if taken.is_some() { PushedDown::Yes } else { PushedDown::No });
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(results.collect())
            .with_updated_node(done.updated_node.unwrap_or(merged)))
    }

    fn pass_into_children(&self, node: &Plan, filters: &[Filter]) -> Result<FilterPushdownPropagation<Plan>> {
        let (maker, own) = self.own_filters(node)?;
        let children = maker.children();
        if own.len() != children.len() {
            return internal_err!("{} has filters for {} of {} inputs", node.name(), own.len(), children.len());
        }
        let mut of_parent: Vec<Vec<PushedDown>> = vec![vec![]; filters.len()];
        let mut of_node = vec![];
        let mut new_children = vec![];
        for (at, own) in own.into_iter().enumerate() {
            if self.phase == FilterPushdownPhase::Post && runs_often(node, at) {
                of_parent.iter_mut().for_each(|all| all.push(PushedDown::No));
                of_node.push(vec![]);
                new_children.push(children[at].clone());
                continue;
            }
            let route = route(node, at)?;
            let passed: Vec<Option<Filter>> = filters.iter().map(|f| follow(&route, f)).collect::<Result<_>>()?;
            let mut own: Vec<Option<Filter>> = own.into_iter().map(Some).collect();
            let all = own.clone();
            own.iter_mut().filter(|f| f.as_ref().is_some_and(is_volatile)).for_each(|f| *f = None);
            if has_several_keys(node) {
                own.iter_mut().for_each(|f| *f = f.take().map(PartialFilter::whole));
            }
            let (child, own_results, results) = self.pass_into_child(children[at], &own, &passed)?;
            let wrap = |(result, filter): (PushedDown, Option<Filter>)| Some(result.wrap_expression(filter?));
            of_node.push(own_results.into_iter().zip(all).filter_map(wrap).collect::<Vec<PushedDownPredicate>>());
            of_parent.iter_mut().zip(results).for_each(|(all, result)| all.push(result));
            new_children.push(child);
        }
        let is_join = joins(node);
        let answers: Vec<PushedDown> = of_parent.iter().map(|results| any(results)).collect();
        let parent_filters = filters.iter().zip(of_parent);
        let result = ChildPushdownResult {
            parent_filters: parent_filters
                .map(|(filter, child_results)| ChildFilterPushdownResult { filter: filter.clone(), child_results })
                .collect(),
            self_filters: of_node,
        };
        let changed = replace_children_if_necessary(maker.clone(), new_children)?;
        let mut done = changed.handle_child_pushdown_result(self.phase, result, self.config)?;
        if done.filters.len() != filters.len() {
            return internal_err!("{} answered {} of {} filters", node.name(), done.filters.len(), filters.len());
        }
        if is_join {
            // A filter that one side evaluates is not evaluated again above.
            done.filters = answers;
        }
        if done.updated_node.is_none() && !Arc::ptr_eq(&changed, node) {
            done.updated_node = Some(changed);
        }
        Ok(done)
    }

    /// The filters that a node makes for its inputs, and the node that makes them in this run of the plan.
    fn own_filters(&self, node: &Plan) -> Result<(Plan, Vec<Vec<Filter>>)> {
        let maker = match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => match with_own_bounds(aggregate)? {
                Some(copy) => copy,
                None => return Ok((node.clone(), vec![vec![]])),
            },
            None => node.clone(),
        };
        let own = maker.gather_filters_for_pushdown(self.phase, vec![], self.config)?.self_filters();
        Ok((maker, own))
    }

    /// Pushes filters of a node and of its parent into an input. `None` stands for a filter that does not apply to this
    /// input.
    fn pass_into_child(
        &self,
        child: &Plan,
        own: &[Option<Filter>],
        passed: &[Option<Filter>],
    ) -> Result<(Plan, Vec<PushedDown>, Vec<PushedDown>)> {
        let given: Vec<Filter> = own.iter().chain(passed).flatten().cloned().collect();
        let done = self.pass_into_node(child, &given)?;
        if done.filters.len() != given.len() {
            return internal_err!("{} answered {} of {} filters", child.name(), done.filters.len(), given.len());
        }
        let mut answers = done.filters.into_iter();
        let mut answer = |filter: &Option<Filter>| match filter {
            Some(_) => answers.next().unwrap_or(PushedDown::No),
            None => PushedDown::No,
        };
        let own = own.iter().map(&mut answer).collect();
        let passed = passed.iter().map(&mut answer).collect();
        Ok((done.updated_node.unwrap_or_else(|| child.clone()), own, passed))
    }
}

/// A copy of an aggregation with the bounds of this run, if it makes a filter of them. DataFusion makes the bounds with
/// the operator and keeps them in its copies: in the second run of a plan, the scan would drop all rows that are not
/// beyond the result of the first one, and MIN and MAX would be NULL.
fn with_own_bounds(aggregate: &AggregateExec) -> Result<Option<Plan>> {
    if aggregate.dynamic_expressions_produced().is_empty() || !is_bounded(aggregate) {
        return Ok(None);
    }
    let copy = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        aggregate.input().clone(),
        aggregate.input_schema(),
    )?;
    let copy = copy.with_limit_options(aggregate.limit_options());
    Ok((copy.schema() == aggregate.schema()).then(|| Arc::new(copy) as Plan))
}

/// Whether an input runs several times in one run of the plan. Dynamic filters are those of its first time, so they
/// would drop rows of the others.
fn runs_often(node: &Plan, at: usize) -> bool {
    (node.is::<RecursionExec>() || node.is::<KeyedRecursionExec>()) && at >= 1
}

/// Whether the bounds that MIN and MAX have found so far determine which rows an aggregation needs. For this, each
/// argument must be a column. DataFusion ignores arguments that are expressions, and drops rows that they need:
/// `min(a), min(b + 1)` is then wrong.
fn is_bounded(aggregate: &AggregateExec) -> bool {
    aggregate.aggr_expr().iter().all(|function| {
        matches!(function.expressions().as_slice(), [argument] if argument.downcast_ref::<Column>().is_some())
    })
}

fn any(results: &[PushedDown]) -> PushedDown {
    results.iter().fold(PushedDown::No, |all, result| all.or(*result))
}

/// Whether a node is a hash join by several keys. Some of its filter's tests may be pushed further than the others; those of
/// other operators are one test of several columns, and would only keep the executor from their scans.
fn has_several_keys(node: &Plan) -> bool {
    node.downcast_ref::<HashJoinExec>().is_some_and(|join| join.on().len() > 1)
}

/// How the columns of a node's output are computed from one of its inputs.
struct Route {
    /// For each output column, an expression over the input, or `None` if there is none.
    columns: Vec<Option<PhysicalExprRef>>,
    /// The schema of the output, if the node can drop rows of the input. A filter that can fail could then fail for a
    /// dropped row.
    loses_rows: Option<SchemaRef>,
}

/// Converts a filter on a node's output to one on its input; `None` if this is not possible. Of a dynamic filter, which only
/// saves work, the input may have some columns.
fn follow(route: &Option<Route>, filter: &Filter) -> Result<Option<Filter>> {
    let Some(route) = route else { return Ok(None) };
    let guarded = route.loses_rows.as_ref().is_some_and(|schema| can_fail(filter, schema));
    if is_volatile(filter) || guarded {
        return Ok(None);
    }
    let (mut found, mut lost) = (false, false);
    let followed = filter.clone().transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match route.columns.get(column.index()).cloned().flatten() {
            Some(below) => {
                found = true;
                // The replacement is not searched, because its columns are those of the input.
                Ok(Transformed::new(below, true, TreeNodeRecursion::Jump))
            }
            None => {
                lost = true;
                Ok(Transformed::new(node, false, TreeNodeRecursion::Stop))
            }
        }
    })?;
    if lost {
        return Ok(PartialFilter::of(filter, |at| route.columns.get(at).cloned().flatten()));
    }
    Ok(found.then_some(followed.data))
}

/// The route from a node's output to one of its inputs; `None` if no filter may be pushed to it.
fn route(node: &Plan, at: usize) -> Result<Option<Route>> {
    let Some(&child) = node.children().get(at) else { return Ok(None) };
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return Ok(through_aggregate(aggregate, child));
    }
    if node.fetch().is_some() {
        return Ok(None);
    }
    let input = child.schema();
    let mut route = if keeps_columns(node) {
        Route { columns: (0..input.fields().len()).map(|at| Some(column(&input, at))).collect(), loses_rows: None }
    } else if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let columns = match filter.projection() {
            Some(projection) => projection.iter().map(|at| Some(column(&input, *at))).collect(),
            None => (0..input.fields().len()).map(|at| Some(column(&input, at))).collect(),
        };
        Route { columns, loses_rows: Some(node.schema()) }
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let below = |expr: &PhysicalExprRef| (!can_fail(expr, &input) && !is_volatile(expr)).then(|| expr.clone());
        Route { columns: projection.expr().iter().map(|e| below(&e.expr)).collect(), loses_rows: None }
    } else if let Some(aggregate) = node.downcast_ref::<ScanAggregateExec>() {
        Route { columns: aggregate.group_places().map(|at| Some(column(&input, at))).collect(), loses_rows: None }
    } else if let Some(windows) = node.downcast_ref::<WindowAggExec>() {
        through_windows(windows.window_expr().iter().map(|window| window.partition_by()), &input)
    } else if let Some(windows) = node.downcast_ref::<BoundedWindowAggExec>() {
        through_windows(windows.window_expr().iter().map(|window| window.partition_by()), &input)
    } else {
        match Join::of(node) {
            Some(join) => Route { loses_rows: Some(node.schema()), ..join.route(at) },
            None => return Ok(None),
        }
    };
    drop_other_types(&mut route, &node.schema(), &input);
    Ok(Some(route))
}

/// Whether a node returns the rows of each input with unchanged columns.
fn keeps_columns(node: &Plan) -> bool {
    node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<NullableSideExec>()
        || node.is::<UnionExec>()
        || node.is::<InterleaveExec>()
}

fn column(schema: &Schema, at: usize) -> PhysicalExprRef {
    Arc::new(Column::new(schema.field(at).name(), at))
}

/// A filter has the types of the output's columns, so it is not pushed to an input where they differ.
fn drop_other_types(route: &mut Route, output: &Schema, input: &Schema) {
    for (at, below) in route.columns.iter_mut().enumerate() {
        let above = output.fields().get(at).map(|field| field.data_type().clone());
        let found = below.as_ref().and_then(|expr| expr.data_type(input).ok());
        if above.is_none() || above != found {
            *below = None;
        }
    }
}

/// A filter on group keys removes whole groups. It is not pushed if a group exists without input rows, if some grouping
/// sets omit the key, or below a limit on groups, except for the filter of the Top-N with that limit.
fn through_aggregate(aggregate: &AggregateExec, child: &Plan) -> Option<Route> {
    let group = aggregate.group_expr();
    let is_limited = aggregate.limit_options().is_some_and(|limit| limit.descending().is_none());
    let has_empty_set = group.groups().iter().any(|nulls| nulls.iter().all(|is_null| *is_null));
    if is_limited || group.is_true_no_grouping() || has_empty_set {
        return None;
    }
    let in_all_sets = |at: usize| group.groups().iter().all(|nulls| nulls.get(at) != Some(&true));
    let keys = group.expr().iter().enumerate();
    let below = keys.map(|(at, (expr, _))| (expr.is::<Column>() && in_all_sets(at)).then(|| expr.clone()));
    let mut route = Route { columns: below.collect(), loses_rows: None };
    drop_other_types(&mut route, &aggregate.schema(), &child.schema());
    Some(route)
}

/// A filter on columns by which all windows are partitioned removes whole partitions.
fn through_windows<'a>(partitions: impl Iterator<Item = &'a [PhysicalExprRef]>, input: &Schema) -> Route {
    let partitions: Vec<_> = partitions.collect();
    let is_key = |at: usize| {
        let is_it = |key: &PhysicalExprRef| key.downcast_ref::<Column>().is_some_and(|key| key.index() == at);
        !partitions.is_empty() && partitions.iter().all(|keys| keys.iter().any(is_it))
    };
    let columns = (0..input.fields().len()).map(|at| is_key(at).then(|| column(input, at)));
    Route { columns: columns.collect(), loses_rows: None }
}

/// The common properties of the join operators.
struct Join<'a> {
    left: &'a Plan,
    right: &'a Plan,
    join_type: JoinType,
    /// The positions of the output columns among all columns of the join.
    projection: Option<&'a [usize]>,
    /// The pairs of keys that are equal.
    on: &'a [(PhysicalExprRef, PhysicalExprRef)],
}

fn joins(node: &Plan) -> bool {
    Join::of(node).is_some()
}

impl<'a> Join<'a> {
    fn of(node: &'a Plan) -> Option<Self> {
        let [left, right] = node.children()[..] else { return None };
        let join = |join_type, projection, on| Some(Join { left, right, join_type, projection, on });
        if let Some(hash) = node.downcast_ref::<HashJoinExec>() {
            join(*hash.join_type(), hash.projection.as_deref(), hash.on())
        } else if let Some(merge) = node.downcast_ref::<SortMergeJoinExec>() {
            join(merge.join_type(), None, merge.on())
        } else if let Some(nested) = node.downcast_ref::<NestedLoopJoinExec>() {
            join(*nested.join_type(), nested.projection().as_deref(), &[])
        } else if node.is::<CrossJoinExec>() {
            join(JoinType::Inner, None, &[])
        } else {
            None
        }
    }

    fn route(&self, at: usize) -> Route {
        let (side, child) = if at == 0 { (JoinSide::Left, self.left) } else { (JoinSide::Right, self.right) };
        let (_, columns) = build_join_schema(&self.left.schema(), &self.right.schema(), &self.join_type);
        let put_out: Vec<usize> = match self.projection {
            Some(projection) => projection.to_vec(),
            None => (0..columns.len()).collect(),
        };
        let schema = child.schema();
        let below = |at: usize| match columns.get(at) {
            Some(origin) if self.takes_filters(side) && origin.side == side => Some(column(&schema, origin.index)),
            Some(origin) if origin.side != side => self.matching_key(side, origin.index),
            _ => None,
        };
        Route { columns: put_out.into_iter().map(below).collect(), loses_rows: None }
    }

    /// Whether a filter on columns of one side can remove input rows of that side, because it would remove all their
    /// output rows.
    fn takes_filters(&self, side: JoinSide) -> bool {
        use JoinType::*;
        match side {
            JoinSide::Left => matches!(self.join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark),
            JoinSide::Right => matches!(self.join_type, Inner | Right | RightSemi | RightAnti | RightMark),
            JoinSide::None => false,
        }
    }

    /// The key of the side that a semi join does not return, for a key of the side that it returns. Not for floats,
    /// because zeros of different sign are equal, but not the same value.
    fn matching_key(&self, side: JoinSide, of_other: usize) -> Option<PhysicalExprRef> {
        let is_column = |key: &PhysicalExprRef| key.downcast_ref::<Column>().is_some_and(|key| key.index() == of_other);
        let (found, schema) = match (self.join_type, side) {
            (JoinType::LeftSemi, JoinSide::Right) => {
                (self.on.iter().find(|(left, _)| is_column(left)).map(|(_, right)| right), self.right.schema())
            }
            (JoinType::RightSemi, JoinSide::Left) => {
                (self.on.iter().find(|(_, right)| is_column(right)).map(|(left, _)| left), self.left.schema())
            }
            _ => return None,
        };
        let is_exact = |key: &&PhysicalExprRef| key.data_type(&schema).is_ok_and(|found| !found.is_floating());
        found.filter(|key| key.is::<Column>()).filter(is_exact).cloned()
    }
}

/// Whether an expression can fail for some rows.
fn can_fail(expr: &PhysicalExprRef, schema: &Schema) -> bool {
    let fails = |node: &PhysicalExprRef| -> bool {
        if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
            use Operator::*;
            let cannot = [Eq, NotEq, Lt, LtEq, Gt, GtEq, And, Or, IsDistinctFrom, IsNotDistinctFrom];
            return !cannot.contains(binary.op());
        }
        if let Some(cast) = node.downcast_ref::<CastExpr>() {
            return !cast.expr().data_type(schema).is_ok_and(|from| widens(&from, cast.cast_type()));
        }
        !(node.is::<Column>()
            || node.is::<Literal>()
            || node.is::<DynamicFilterPhysicalExpr>()
            || node.is::<PartialFilter>()
            || node.is::<InListExpr>()
            || node.is::<LikeExpr>()
            || node.is::<NotExpr>()
            || node.is::<IsNullExpr>()
            || node.is::<IsNotNullExpr>()
            || ScalarFunctionExpr::try_downcast_func::<Canonical>(node.as_ref()).is_some())
    };
    expr.exists(|node| Ok(fails(node))).unwrap_or(true)
}

/// Whether each value of the type `from` is a value of the type `to`.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (_, Utf8View | Utf8 | LargeUtf8) => true,
        (Decimal128(digits, scale), Decimal128(to_digits, to_scale)) => {
            to_scale >= scale && *to_digits as i16 - *to_scale as i16 >= *digits as i16 - *scale as i16
        }
        (from, Float64) => from.is_integer() || from.is_floating(),
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            to.primitive_width() >= from.primitive_width()
        }
        _ => from == to,
    }
}
