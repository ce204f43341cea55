//! Extracts the keys of joins from their conditions. `a.x IS NOT DISTINCT FROM b.x` becomes equalities of expressions
//! that are never NULL, which are ordinary keys. Keys that are expressions become columns where the planner requires
//! it.
//!
//! DataFusion's rule makes NULL equal NULL for the whole join. Keys that are added later, from a filter above or by
//! join reordering, would then also match NULLs.

use datafusion::common::tree_node::Transformed;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, NullEquality, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{can_hash, conjunction, find_valid_equijoin_key_pair, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, binary_expr, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule, with the name of DataFusion's rule that it replaces.
#[derive(Debug)]
pub(crate) struct JoinKeys;

impl OptimizerRule for JoinKeys {
    fn name(&self) -> &str {
        "extract_equijoin_predicate"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let mut changed = false;
        // If NULL equals NULL in the join (INTERSECT and EXCEPT), an ordinary equality cannot be one of its keys.
        if (join.on.is_empty() || join.null_equality == NullEquality::NullEqualsNothing)
            && let Some(filter) = join.filter.take()
        {
            let before = join.on.len();
            let mut others = vec![];
            for condition in split_conjunction_owned(filter) {
                for condition in without_null(condition, join.left.schema(), join.right.schema())? {
                    match key(&condition, join.left.schema(), join.right.schema())? {
                        Some(key) => join.on.push(key),
                        None => others.push(condition),
                    }
                }
            }
            join.filter = conjunction(others);
            join.null_equality = NullEquality::NullEqualsNothing;
            changed = join.on.len() > before;
        }
        if needs_columns(&join) {
            return with_columns(join, config).map(Transformed::yes);
        }
        Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
    }
}

/// Whether the keys must be columns. If a key is an expression, DataFusion's planner names both sides in the same way,
/// so columns with equal names, or keys with the name of a column or of another key, are an error. A cast has the name
/// of what it casts.
fn needs_columns(join: &Join) -> bool {
    let is_column = |e: &Expr| matches!(e, Expr::Column(_));
    let has_equal = |plan: &LogicalPlan, key: &Expr| {
        let mut names = HashSet::new();
        let columns = plan.schema().columns();
        !columns.iter().all(|column| names.insert(column.name()))
            || !is_column(key) && columns.iter().any(|column| column.flat_name() == key.schema_name().to_string())
    };
    let mut computed = join.on.iter().filter(|(l, r)| !is_column(l) || !is_column(r));
    match (computed.next(), computed.next()) {
        (Some((l, r)), None) => has_equal(&join.left, l) || has_equal(&join.right, r),
        (first, _) => first.is_some(),
    }
}

/// The join with each key as a column of its side.
fn with_columns(mut join: Join, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let schema = join.schema.clone();
    let (mut left, mut right) = (columns(join.left.schema()), columns(join.right.schema()));
    // The column has the side's qualifier, because the mark column of a mark join has the qualifier of its right side.
    let qualifier = |plan: &LogicalPlan| plan.schema().iter().next().and_then(|(qualifier, _)| qualifier.cloned());
    let named = |e: &mut Expr, side: &mut Vec<Expr>, qualifier: Option<TableReference>| {
        if !matches!(e, Expr::Column(_)) {
            let name = config.alias_generator().next("__key");
            let key = std::mem::replace(e, Expr::Column(Column::new(qualifier.clone(), name.clone())));
            side.push(key.unalias().alias_qualified(qualifier, name));
        }
    };
    for (l, r) in &mut join.on {
        named(l, &mut left, qualifier(&join.left));
        named(r, &mut right, qualifier(&join.right));
    }
    let side = |input: Arc<LogicalPlan>, expressions: Vec<Expr>| -> Result<Arc<LogicalPlan>> {
        if expressions.len() == input.schema().fields().len() {
            return Ok(input);
        }
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(expressions, input)?)))
    };
    let (left, right) = (side(join.left, left)?, side(join.right, right)?);
    let (kind, how, nulls) = (join.join_type, join.join_constraint, join.null_equality);
    let join = Join::try_new(left, right, join.on, join.filter, kind, how, nulls, join.null_aware)?;
    let output = columns(&schema);
    Ok(LogicalPlan::Projection(Projection::try_new(output, Arc::new(LogicalPlan::Join(join)))?))
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// The two sides of an equality, if it compares both sides of a join and a hash join supports it.
fn key(condition: &Expr, left: &DFSchema, right: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left: l, op: Operator::Eq, right: r }) = condition else { return Ok(None) };
    let Some((l, r)) = find_valid_equijoin_key_pair(l, r, left, right)? else { return Ok(None) };
    // A volatile key would be computed for each row of its side, and not for each pair of rows.
    let is_volatile = l.is_volatile() || r.is_volatile();
    let hashed = !is_volatile && can_hash(&l.get_type(left)?) && can_hash(&r.get_type(right)?);
    Ok(hashed.then_some((l, r)))
}

/// `a IS NOT DISTINCT FROM b` between the sides of a join, as equalities of expressions that are never NULL.
fn without_null(condition: Expr, left: &DFSchema, right: &DFSchema) -> Result<Vec<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left: l, op: Operator::IsNotDistinctFrom, right: r }) = &condition else {
        return Ok(vec![condition]);
    };
    let Some((l, r)) = find_valid_equijoin_key_pair(l, r, left, right)? else { return Ok(vec![condition]) };
    let equal = |l: Expr, r: Expr| binary_expr(l, Operator::Eq, r);
    if !l.nullable(left)? || !r.nullable(right)? {
        return Ok(vec![equal(l, r)]);
    }
    let data_type = l.get_type(left)?;
    match ScalarValue::new_default(&data_type) {
        Ok(default) if !default.is_null() && !data_type.is_nested() && r.get_type(right)? == data_type => {
            let value = |e: &Expr| when(e.clone().is_not_null(), e.clone()).otherwise(lit(default.clone()));
            Ok(vec![equal(value(&l)?, value(&r)?), equal(l.is_null(), r.is_null())])
        }
        _ => Ok(vec![condition]),
    }
}
