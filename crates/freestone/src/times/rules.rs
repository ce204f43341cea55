//! The stages at which times are converted: when SQL is planned, before type coercion, and when constants are known.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{GroupingSet, InSubquery};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Union,
};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};

use super::arrays::is_span;
use super::operands::{Context, aligned, arithmetic, cast, common_result, corrected, keyed, keyed_sorts, narrowed};
use super::{aggregates, mixing, operators, parts};
use crate::expressions;
use crate::expressions::OneType;

/// Plans operators over times before DataFusion checks the types of their operands.
#[derive(Debug)]
pub(crate) struct TimePlanner;

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(&self, binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let types = (binary.left.get_type(schema), binary.right.get_type(schema));
        let (Ok(left), Ok(right)) = types else { return Ok(PlannerResult::Original(binary)) };
        if !matches!(binary.op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide) {
            return planned_comparison(binary, &left, &right, schema);
        }
        Ok(match arithmetic(binary.op, &binary.left, &left, &binary.right, &right) {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(binary),
        })
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(parts::date_part().into_udf().call(args)))
    }
}

/// Plans comparisons that DataFusion would refuse. The rule below converts all others.
fn planned_comparison(
    mut binary: RawBinaryExpr,
    left: &DataType,
    right: &DataType,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let is_comparison = matches!(binary.op, Eq | NotEq | Lt | LtEq | Gt | GtEq);
    if !is_comparison || BinaryTypeCoercer::new(left, &binary.op, right).get_result_type().is_ok() {
        return Ok(PlannerResult::Original(binary));
    }
    mixing::check_types(&[left.clone(), right.clone()], true)?;
    let context = Context { schema, options: &Arc::default() };
    let operands = vec![&mut binary.left, &mut binary.right];
    if !aligned(OneType { operands, compared: true }, &context) {
        return Ok(PlannerResult::Original(binary));
    }
    let RawBinaryExpr { op, left, right } = binary;
    Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
}

/// The analyzer rule that converts operands that are times.
#[derive(Debug)]
pub(crate) struct TimeOperands;

impl AnalyzerRule for TimeOperands {
    fn name(&self) -> &str {
        "time_operands"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let options = Arc::new(options.clone());
        let mut any = false;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let changed = node(plan, &options)?;
            any |= changed.transformed;
            // The types of inputs may have changed as well.
            if any { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        })?;
        Ok(rewritten.data)
    }
}

fn node(plan: LogicalPlan, options: &Arc<ConfigOptions>) -> Result<Transformed<LogicalPlan>> {
    let changed = expressions::try_changed(plan, |mut expression, schema| {
        mixing::check(&mut expression, schema)?;
        let changed = corrected(&mut expression, &Context { schema, options });
        let changed = changed | in_subquery(&mut expression, schema, options)?;
        Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
    })?;
    let transformed = changed.transformed;
    let of_kind = match changed.data {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema().clone();
            let changed = keyed_sorts(&mut sort.expr, &Context { schema: &schema, options });
            Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, options)?,
        LogicalPlan::Distinct(distinct) => distinct_rows(distinct, options)?,
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            let schema = join.left.schema().join(join.right.schema())?;
            for (left, right) in &mut join.on {
                mixing::check_types(&[left.get_type(&schema)?, right.get_type(&schema)?], true)?;
                let operands = vec![left, right];
                changed |= aligned(OneType { operands, compared: true }, &Context { schema: &schema, options });
            }
            Transformed::new_transformed(LogicalPlan::Join(join), changed)
        }
        other => Transformed::no(other),
    };
    Ok(Transformed::new_transformed(of_kind.data, transformed | of_kind.transformed))
}

/// Groups by intervals become groups by their lengths. The result of each group is its smallest interval.
fn grouped(aggregate: Aggregate, options: &Arc<ConfigOptions>) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema().clone();
    let is_interval = |e: &Expr| e.get_type(&schema).is_ok_and(|kind| is_span(&kind));
    if let [Expr::GroupingSet(_)] = aggregate.group_expr.as_slice() {
        return grouped_in_sets(aggregate, is_interval);
    }
    if !aggregate.group_expr.iter().any(is_interval) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, mut group_expr, mut aggr_expr, schema: named, .. } = aggregate;
    let groups = group_expr.len();
    let width = named.fields().len();
    let mut shown: Vec<usize> = (0..width).collect();
    for (at, group) in group_expr.iter_mut().enumerate() {
        if is_interval(group) {
            shown[at] = groups + aggr_expr.len();
            let any = aggregates::any_interval().call(vec![group.clone()]);
            aggr_expr.push(any.alias(format!("\u{1}interval{at}")));
            let one = std::iter::once(&mut *group);
            keyed(one, &Context { schema: &schema, options });
            *group = std::mem::take(group).alias(format!("\u{1}length{at}"));
        }
    }
    let inner = Aggregate::try_new(input, group_expr, aggr_expr)?;
    Ok(Transformed::yes(under_names(inner, &named, shown)?))
}

/// In grouping sets, which may omit a key, intervals of equal length become one in days and time.
fn grouped_in_sets(aggregate: Aggregate, is_interval: impl Fn(&Expr) -> bool) -> Result<Transformed<LogicalPlan>> {
    let mut names: Vec<String> = vec![];
    let mut canonical = |e: &mut Expr| {
        if is_interval(e) {
            let name = e.schema_name().to_string();
            let at = names.iter().position(|known| *known == name).unwrap_or(names.len());
            names.push(name);
            *e = operators::CANONICAL.call(vec![std::mem::take(e)]).alias(format!("\u{1}interval{at}"));
        }
    };
    let Aggregate { input, mut group_expr, aggr_expr, schema: named, .. } = aggregate;
    for group in &mut group_expr {
        match group {
            Expr::GroupingSet(GroupingSet::Rollup(keys) | GroupingSet::Cube(keys)) => {
                keys.iter_mut().for_each(&mut canonical);
            }
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().for_each(&mut canonical),
            _ => {}
        }
    }
    let inner = Aggregate::try_new(input, group_expr, aggr_expr)?;
    if names.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(inner)));
    }
    let columns = (0..named.fields().len()).collect();
    Ok(Transformed::yes(under_names(inner, &named, columns)?))
}

/// The columns of an aggregation with the names that the plan above uses.
fn under_names(aggregate: Aggregate, named: &DFSchema, columns: Vec<usize>) -> Result<LogicalPlan> {
    let found = aggregate.schema.columns();
    let output = named.iter().zip(columns).map(|((qualifier, field), at)| {
        Expr::Column(found[at].clone()).alias_qualified(qualifier.cloned(), field.name())
    });
    let projection = Projection::try_new(output.collect(), Arc::new(LogicalPlan::Aggregate(aggregate)))?;
    Ok(LogicalPlan::Projection(projection))
}

/// DISTINCT of rows with intervals becomes a group by all columns.
fn distinct_rows(distinct: Distinct, options: &Arc<ConfigOptions>) -> Result<Transformed<LogicalPlan>> {
    match distinct {
        Distinct::All(input) if input.schema().fields().iter().any(|field| is_span(field.data_type())) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            let aggregate = Aggregate::try_new(input, columns, vec![])?;
            Ok(Transformed::yes(grouped(aggregate, options)?.data))
        }
        Distinct::On(mut on) => {
            let schema = on.input.schema().clone();
            let context = Context { schema: &schema, options };
            let mut changed = keyed(on.on_expr.iter_mut(), &context);
            if let Some(sorts) = &mut on.sort_expr {
                changed |= keyed_sorts(sorts, &context);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed))
        }
        all => Ok(Transformed::no(LogicalPlan::Distinct(all))),
    }
}

/// Converts the columns of a UNION with different time types to a common type.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let Some(first) = union.inputs.first() else { return Ok(Transformed::no(LogicalPlan::Union(union))) };
    let width = first.schema().fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let columns = |input: &LogicalPlan| input.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let mut rows: Vec<Vec<Expr>> = union.inputs.iter().map(|input| columns(input)).collect();
    let mut changed = vec![false; rows.len()];
    let schemas: Vec<_> = union.inputs.iter().map(|input| input.schema().clone()).collect();
    for at in 0..width {
        let types: Vec<DataType> = schemas.iter().map(|schema| schema.field(at).data_type().clone()).collect();
        mixing::check_types(&types, false)?;
        let Some(to) = common_result(&types) else { continue };
        for (input, row) in rows.iter_mut().enumerate() {
            if types[input] != to && types[input] != DataType::Null {
                let (qualifier, field) = schemas[input].qualified_field(at);
                let column = Expr::Column(Column::from((qualifier, field)));
                row[at] = cast(column, &to).alias_qualified(qualifier.cloned(), field.name());
                changed[input] = true;
            }
        }
    }
    if !changed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().zip(rows).zip(changed).map(|((input, row), changed)| match changed {
        true => Ok(Arc::new(LogicalPlanBuilder::from(input).project(row)?.build()?)),
        false => Ok(input),
    });
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Converts both sides of `a IN (SELECT b …)` to comparable values.
fn in_subquery(expression: &mut Expr, schema: &DFSchema, options: &Arc<ConfigOptions>) -> Result<bool> {
    let (left, subquery) = match expression {
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => (expr, subquery),
        Expr::SetComparison(set) => (&mut set.expr, &mut set.subquery),
        _ => return Ok(false),
    };
    let inner = subquery.subquery.schema().clone();
    if inner.fields().len() != 1 {
        return Ok(false);
    }
    let (qualifier, field) = inner.qualified_field(0);
    let column = Expr::Column(Column::from((qualifier, field)));
    let mut both = schema.clone();
    both.merge(&inner);
    // A column of the subquery and an outer one may have the same name, so each type is determined in its own schema.
    let (mut a, mut b) = (typed(left, schema), typed(&column, &inner));
    mixing::check_types(&[a.get_type(schema)?, b.get_type(schema)?], true)?;
    let context = Context { schema: &both, options };
    if !aligned(OneType { operands: vec![&mut a, &mut b], compared: true }, &context) {
        return Ok(false);
    }
    **left = replaced(a, left)?;
    let right = replaced(b, &column)?;
    let plan = LogicalPlanBuilder::from(subquery.subquery.clone()).project(vec![right.alias(field.name())])?.build()?;
    subquery.subquery = Arc::new(plan);
    Ok(true)
}

/// A placeholder that has the type of an expression in any schema.
fn typed(expression: &Expr, schema: &DFSchema) -> Expr {
    let kind = expression.get_type(schema).unwrap_or(DataType::Null);
    let field = datafusion::arrow::datatypes::Field::new("\u{1}operand", kind, true);
    Expr::OuterReferenceColumn(Arc::new(field), Column::new_unqualified("\u{1}operand"))
}

/// Replaces the placeholder by the expression.
fn replaced(with_stand_in: Expr, by: &Expr) -> Result<Expr> {
    use datafusion::common::tree_node::TreeNode;
    let is_stand_in = |e: &Expr| matches!(e, Expr::OuterReferenceColumn(_, column) if column.name == "\u{1}operand");
    let replaced = with_stand_in
        .transform_up(|e| Ok(if is_stand_in(&e) { Transformed::yes(by.clone()) } else { Transformed::no(e) }))?;
    Ok(replaced.data)
}

/// Compares date and timestamp columns as stored, with constants that were not known before.
#[derive(Debug)]
pub(crate) struct TimeComparisons;

impl OptimizerRule for TimeComparisons {
    fn name(&self) -> &str {
        "time_comparisons"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(Transformed::no(plan));
        }
        let options = config.options();
        expressions::try_changed(plan, |mut expression, schema| {
            let changed = narrowed(&mut expression, &Context { schema, options: &options });
            Ok(if changed { Transformed::yes(expression) } else { Transformed::no(expression) })
        })
    }
}
