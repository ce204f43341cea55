//! The resolution of references to outer queries.
//!
//! DataFusion's reference to an outer query has a name but no level: it refers to the innermost outer query with this
//! column. Here it is replaced by a unique name, `__outer_LEVEL.POSITION`, as soon as it is visited. Such a reference
//! is called bound.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// The prefix of the names of scopes.
const OUTER: &str = "__outer_";

/// An outer query of a subquery.
pub(super) struct Scope {
    pub id: String,
    /// The columns of the query, as they were planned.
    pub schema: DFSchemaRef,
    /// A plan without outer references that returns the rows of the query, and possibly more.
    pub plan: LogicalPlan,
    /// The columns of the query, as expressions over `plan`.
    pub output: Vec<Expr>,
}

impl Scope {
    pub fn reference(&self, at: usize) -> Expr {
        let column = Column::new(Some(TableReference::bare(self.id.clone())), at.to_string());
        Expr::OuterReferenceColumn(self.schema.fields()[at].clone(), column)
    }
}

/// The outer queries of a subquery, outermost first.
#[derive(Clone, Default)]
pub(super) struct Scopes {
    scopes: Vec<Arc<Scope>>,
    /// Left sides of joins, which only LATERAL subqueries may use.
    siblings: Vec<Arc<Scope>>,
}

impl Scopes {
    pub fn with(&self, scope: Arc<Scope>) -> Scopes {
        let mut scopes = self.clone();
        scopes.scopes.push(scope);
        scopes
    }

    pub fn with_sibling(&self, scope: Arc<Scope>) -> Scopes {
        let mut scopes = self.clone();
        scopes.siblings.push(scope);
        scopes
    }

    /// The scopes within a LATERAL subquery.
    pub fn seen_laterally(&self) -> Scopes {
        let scopes = self.scopes.iter().chain(&self.siblings).cloned().collect();
        Scopes { scopes, siblings: vec![] }
    }

    pub fn of(&self, id: &str) -> Result<&Arc<Scope>> {
        let found = self.scopes.iter().chain(&self.siblings).find(|scope| scope.id == id);
        found.ok_or_else(|| DataFusionError::Internal(format!("no outer query {id}")))
    }

    /// Binds a reference. Sets `retyped` if the type of the column differs from the one with which the reference was
    /// planned.
    pub fn bound(&self, planned: &DataType, column: Column, retyped: &Cell<bool>) -> Result<Expr> {
        // A subquery inside a LATERAL one is not marked as LATERAL. Names that are not found elsewhere are columns of
        // the left side.
        let found = self.scopes.iter().rev().chain(self.siblings.iter().rev()).find_map(|scope| {
            let at = scope.schema.maybe_index_of_column(&column)?;
            if scope.schema.field(at).data_type() != planned {
                retyped.set(true);
            }
            Some(scope.reference(at))
        });
        found.ok_or_else(|| {
            let name = column.flat_name();
            DataFusionError::Plan(format!(
                "the subquery cannot use {name} of the outer query here: it is no column of what that query has computed at \
                 this place, it is missing in GROUP BY, or LATERAL is the right side of a RIGHT or FULL JOIN"
            ))
        })
    }
}

pub(super) fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether the expression contains a subquery.
pub(super) fn has_subquery(expression: &Expr) -> bool {
    expression.exists(|e| Ok(subquery_of(e).is_some())).unwrap_or(false)
}

/// Whether the plan contains subqueries, or columns of outer queries.
pub(super) fn depends(plan: &LogicalPlan) -> bool {
    let in_node = |node: &LogicalPlan| {
        let mut found = matches!(node, LogicalPlan::Subquery(_));
        let seen = node.apply_expressions(|e| {
            found |= has_subquery(e) || e.contains_outer();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        seen.is_err() || found
    };
    plan.exists(|node| Ok(in_node(node))).unwrap_or(true)
}

/// Whether an item of FROM may use columns of a plan with this schema, as LATERAL items do.
pub(super) fn may_use(plan: &LogicalPlan, schema: &DFSchema) -> bool {
    let mut found = false;
    let seen = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            found |= e.exists(|e| {
                let of = |column: &Column| schema.maybe_index_of_column(column).is_some();
                Ok(matches!(e, Expr::OuterReferenceColumn(_, column) if !is_bound(column) && of(column)))
            })?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || seen.is_err()
}

pub(super) fn is_bound(column: &Column) -> bool {
    column.relation.as_ref().is_some_and(|relation| relation.table().starts_with(OUTER))
}

/// Whether the expression contains outer references.
pub(super) fn is_open(expression: &Expr) -> bool {
    expression.contains_outer()
}

/// The distinct bound references in expressions.
pub(super) fn references<'a>(expressions: impl IntoIterator<Item = &'a Expr>) -> Vec<Expr> {
    let mut found = vec![];
    for expression in expressions {
        let seen = expression.apply(|e| {
            if matches!(e, Expr::OuterReferenceColumn(..)) && !found.contains(e) {
                found.push(e.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(seen.is_ok());
    }
    found
}

/// The id of the scope, and the column's position in it.
pub(super) fn place(reference: &Expr) -> Result<(&str, usize)> {
    let Expr::OuterReferenceColumn(_, Column { relation: Some(relation), name, .. }) = reference else {
        return Err(DataFusionError::Internal(format!("{reference} is no bound reference")));
    };
    let at = name.parse().map_err(|_| DataFusionError::Internal(format!("{name} is no position")))?;
    Ok((relation.table(), at))
}

/// Replaces the references to a scope by expressions for its columns.
pub(super) fn filled(expression: Expr, scope: &str, output: &[Expr]) -> Result<Expr> {
    replace(expression, |e| match place(e) {
        Ok((id, at)) if id == scope => output.get(at).cloned(),
        _ => None,
    })
}

/// Replaces parts of an expression. The replacements are not searched.
pub(super) fn replace(expression: Expr, replacement: impl Fn(&Expr) -> Option<Expr>) -> Result<Expr> {
    let replaced = expression.transform_down(|e| match replacement(&e) {
        Some(other) => Ok(Transformed::new(other, true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(e)),
    })?;
    Ok(replaced.data)
}

/// Whether the plan calls a volatile function.
pub(super) fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut volatile = false;
    let seen = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            volatile |= is_volatile_expression(e);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    seen.is_err() || volatile
}

/// Like [`Expr::is_volatile`], except that the check for a second row ([`super::single`]) does not count.
pub(super) fn is_volatile_expression(expression: &Expr) -> bool {
    let volatile = |e: &Expr| match e {
        Expr::ScalarFunction(call) if call.func.name() == super::single::NAME => false,
        e => e.is_volatile_node(),
    };
    expression.exists(|e| Ok(volatile(e))).unwrap_or(true)
}
