//! Which columns of outer queries a plan uses, and new names for them.
//!
//! A reference to an outer query holds a name and no level: it means the innermost query around it that has the column.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};

/// New names for columns of an outer query.
pub(super) type Renamed = HashMap<Column, Column>;

pub(super) fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

fn subquery_mut(expression: &mut Expr) -> Option<&mut Subquery> {
    match expression {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether the expression contains a subquery.
pub(super) fn contains_subquery(expression: &Expr) -> bool {
    expression.exists(|e| Ok(subquery_of(e).is_some())).unwrap_or(false)
}

/// Whether the plan has a subquery anywhere.
pub(super) fn has_subquery(plan: &LogicalPlan) -> bool {
    let in_node = |node: &LogicalPlan| {
        let mut found = matches!(node, LogicalPlan::Subquery(_));
        let seen = node.apply_expressions(|e| {
            found |= contains_subquery(e);
            Ok(TreeNodeRecursion::Continue)
        });
        seen.is_err() || found
    };
    plan.exists(|node| Ok(in_node(node))).unwrap_or(true)
}

/// The columns of outer queries that the plan uses, in the order in which they are met.
pub(super) fn free(plan: &LogicalPlan) -> Vec<(Column, FieldRef)> {
    let mut found = vec![];
    collect(plan, &[], &mut found);
    found
}

/// The columns of outer queries that an expression over these inputs uses.
pub(super) fn free_in(expression: &Expr, inputs: &[DFSchemaRef]) -> Vec<(Column, FieldRef)> {
    let mut found = vec![];
    collect_expression(expression, inputs, &[], &mut found);
    found
}

fn collect(plan: &LogicalPlan, hidden: &[DFSchemaRef], found: &mut Vec<(Column, FieldRef)>) {
    let inputs = schemas(plan);
    let seen = plan.apply_expressions(|expression| {
        collect_expression(expression, &inputs, hidden, found);
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(seen.is_ok());
    if let LogicalPlan::Join(join) = plan {
        collect(&join.left, hidden, found);
        let mut inside = hidden.to_vec();
        if is_lateral(join) {
            inside.push(join.left.schema().clone());
        }
        collect(&join.right, &inside, found);
        return;
    }
    for input in plan.inputs() {
        collect(input, hidden, found);
    }
}

fn collect_expression(
    expression: &Expr,
    inputs: &[DFSchemaRef],
    hidden: &[DFSchemaRef],
    found: &mut Vec<(Column, FieldRef)>,
) {
    let seen = expression.apply(|e| {
        if let Expr::OuterReferenceColumn(field, column) = e {
            let known = hidden.iter().any(|schema| schema.has_column(column));
            if !known && !found.iter().any(|(other, _)| other == column) {
                found.push((column.clone(), field.clone()));
            }
        } else if let Some(subquery) = subquery_of(e) {
            let inside: Vec<_> = hidden.iter().chain(inputs).cloned().collect();
            collect(&subquery.subquery, &inside, found);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(seen.is_ok());
}

pub(super) fn schemas(plan: &LogicalPlan) -> Vec<DFSchemaRef> {
    plan.inputs().iter().map(|input| input.schema().clone()).collect()
}

/// Whether the right side of a join may use columns of its left side.
pub(super) fn is_lateral(join: &Join) -> bool {
    fn wrapped(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Subquery(_) => true,
            LogicalPlan::SubqueryAlias(alias) => wrapped(&alias.input),
            LogicalPlan::Projection(projection) => wrapped(&projection.input),
            LogicalPlan::Filter(filter) => wrapped(&filter.input),
            _ => false,
        }
    }
    wrapped(&join.right)
}

/// The plan with other names for columns of the outer query; it gives the same columns under the same names.
pub(super) fn rename(plan: LogicalPlan, names: &Renamed) -> Result<LogicalPlan> {
    if names.is_empty() {
        return Ok(plan);
    }
    let inputs = schemas(&plan);
    let preserver = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expression| {
        let name = preserver.save(&expression);
        let renamed = expression.transform_up(|e| match e {
            Expr::OuterReferenceColumn(field, column) => {
                let column = names.get(&column).cloned().unwrap_or(column);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            e => Ok(Transformed::yes(rename_inside(e, &inputs, names)?)),
        })?;
        Ok(renamed.update_data(|e| name.restore(e)))
    })?;
    let lateral = match &plan.data {
        LogicalPlan::Join(join) if is_lateral(join) => Some(join.left.schema().clone()),
        _ => None,
    };
    let mut at = 0;
    let plan = plan.data.map_children(|child| {
        at += 1;
        let hidden: &[DFSchemaRef] = if at == 2 { lateral.as_slice() } else { &[] };
        Ok(Transformed::yes(rename(child, &without(names, hidden))?))
    })?;
    Ok(plan.data)
}

/// The expression, if it is a subquery of a node over these inputs, with other names for columns of queries further out.
pub(super) fn rename_inside(mut expression: Expr, inputs: &[DFSchemaRef], names: &Renamed) -> Result<Expr> {
    if let Some(subquery) = subquery_mut(&mut expression) {
        let renamed = rename(subquery.subquery.as_ref().clone(), &without(names, inputs))?;
        *subquery = subquery_over(renamed);
    }
    Ok(expression)
}

/// The subquery of a plan.
pub(super) fn subquery_over(plan: LogicalPlan) -> Subquery {
    let outer = free(&plan).into_iter().map(|(column, field)| Expr::OuterReferenceColumn(field, column)).collect();
    Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans: Default::default() }
}

fn without(names: &Renamed, hidden: &[DFSchemaRef]) -> Renamed {
    let visible = names.iter().filter(|(column, _)| !hidden.iter().any(|schema| schema.has_column(column)));
    visible.map(|(old, new)| (old.clone(), new.clone())).collect()
}

/// Whether a function of the plan may give another value each time.
pub(super) fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut volatile = false;
    let seen = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            volatile |= e.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    seen.is_err() || volatile
}
