//! LATERAL in joins.
//!
//! In a RIGHT or FULL JOIN, a table on the right cannot use those on the left: there are rows of it without one. DataFusion
//! refuses the word itself; here it is left out where it changes nothing, and the error names the table.
//!
//! DataFusion finds out which derived tables use the tables to their left, but does not look into subqueries of theirs. So
//! [`Laterals`] marks those that may.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::Spans;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, Subquery};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinOperator, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Visitor,
};

use crate::error::{Error, Result};
use crate::sql::names::folded;
use crate::sql::using::table_name;
use crate::sql::{fragments, visitor};

/// Functions that also return their values as a list.
pub(crate) const SERIES: [&str; 2] = ["generate_series", "range"];

/// Takes LATERAL out of RIGHT and FULL JOINs.
///
/// # Errors
/// The table uses one to its left.
pub(crate) fn rewrite(tables: &mut TableWithJoins) -> Result<()> {
    functions_of_columns(&mut tables.relation);
    tables.joins.iter_mut().for_each(|join| functions_of_columns(&mut join.relation));
    let mut left = HashSet::new();
    add_names(&tables.relation, &mut left);
    for join in &mut tables.joins {
        if keeps_right(&join.join_operator) && is_lateral(&join.relation) {
            if let Some(name) = qualifiers(&join.relation).into_iter().find(|name| left.contains(name)) {
                let message = format!("{name} cannot be used in the table to its right");
                return Err(Error::invalid(format!("{message}: a LATERAL reference needs an INNER or LEFT JOIN"))
                    .with_hint("write the join as a LEFT JOIN with its sides exchanged, or as a join with ON"));
            }
            without_lateral(&mut join.relation)?;
        }
        add_names(&join.relation, &mut left);
    }
    Ok(())
}

/// `generate_series(1, t.n)` is LATERAL, as every function in FROM is in PostgreSQL.
fn functions_of_columns(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(call), with_ordinality, alias, .. } = factor else { return };
    let is_series = name.0.last().and_then(|part| part.as_ident()).map(folded);
    if !is_series.is_some_and(|name| SERIES.contains(&name.as_str())) {
        return;
    }
    let is_column = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if visitor::expressions(&call.args, &mut |expr| is_column(expr)).is_break() {
        *factor = TableFactor::Function {
            lateral: true,
            name: name.clone(),
            args: std::mem::take(&mut call.args),
            with_ordinality: *with_ordinality,
            alias: alias.take(),
        };
    }
}

/// Whether a join keeps rows of its right side for which there is none on the left.
fn keeps_right(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Right, RightAnti, RightOuter, RightSemi};
    matches!(operator, Right(_) | RightOuter(_) | FullOuter(_) | RightAnti(_) | RightSemi(_))
}

fn is_lateral(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } => true,
        _ => false,
    }
}

fn without_lateral(factor: &mut TableFactor) -> Result<()> {
    match factor {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral = false,
        TableFactor::UNNEST { alias, .. } => {
            let alias = alias.clone();
            let query = fragments::select_query(vec![fragments::star()], factor.clone())?;
            *factor = TableFactor::Derived { lateral: false, subquery: query, alias, sample: None };
        }
        _ => {}
    }
    Ok(())
}

fn add_names(factor: &TableFactor, names: &mut HashSet<String>) {
    match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            add_names(&table_with_joins.relation, names);
            table_with_joins.joins.iter().for_each(|join| add_names(&join.relation, names));
        }
        other => names.extend(table_name(other).as_ref().map(folded)),
    }
}

/// The tables that the expressions within a table name and that are none of its own.
fn qualifiers(factor: &TableFactor) -> HashSet<String> {
    #[derive(Default)]
    struct Names {
        used: HashSet<String>,
        own: HashSet<String>,
        /// The table itself is not within.
        depth: usize,
    }
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if self.depth > 0 {
                add_names(factor, &mut self.own);
            }
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_select(&mut self, select: &datafusion::sql::sqlparser::ast::Select) -> ControlFlow<()> {
            for item in &select.projection {
                if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                    && let [part] = name.0.as_slice()
                {
                    self.used.extend(part.as_ident().map(folded));
                }
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr {
                self.used.extend(parts.first().filter(|_| parts.len() == 2).map(|part: &Ident| folded(part)));
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names::default();
    let _ = visitor::visit(factor, &mut names);
    &names.used - &names.own
}

/// Marks LATERAL tables of which only a subquery uses what is around them.
#[derive(Debug)]
pub(crate) struct Laterals;

impl RelationPlanner for Laterals {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> PlanResult<RelationPlanning> {
        let TableFactor::Derived { lateral: true, subquery, alias, sample } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = context.plan(TableFactor::Derived { lateral: false, subquery, alias: None, sample })?;
        // The others are marked by DataFusion.
        let plan = match plan.all_out_ref_exprs().is_empty() && has_references(&plan)? {
            true => {
                let subquery = std::sync::Arc::new(plan);
                LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns: vec![], spans: Spans::new() })
            }
            false => plan,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// Whether a subquery within a plan uses a query around it.
fn has_references(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.exists(|e| Ok(matches!(e, PlanExpr::OuterReferenceColumn(..))))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}
