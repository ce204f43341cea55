//! Visits of parsed SQL by visitors behind `dyn`. The parser's visits are generic over the visitor, so each visitor
//! would compile its own copy of the visits of all kinds of nodes: 600 functions, 200 KB. All visits of the engine and
//! the server use this module, so there are only two copies: one that changes the nodes and one that does not.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::error::Result;

struct Erased<'a>(&'a mut dyn Visitor<Break = ()>);

struct ErasedMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

macro_rules! forward {
    ($($name:ident: $node:ty),+ $(,)?) => {
        impl Visitor for Erased<'_> {
            type Break = ();
            $(fn $name(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$name(node)
            })+
        }

        impl VisitorMut for ErasedMut<'_> {
            type Break = ();
            $(fn $name(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$name(node)
            })+
        }
    };
}

forward! {
    pre_visit_query: Query, post_visit_query: Query,
    pre_visit_select: Select, post_visit_select: Select,
    pre_visit_relation: ObjectName, post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor, post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr, post_visit_expr: Expr,
    pre_visit_statement: Statement, post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan, post_visit_value: ValueWithSpan,
}

/// Keeps the outcome of a visitor's step. The visit stops at the first error.
pub(crate) fn noted(outcome: &mut Result<()>, done: Result<()>) -> ControlFlow<()> {
    *outcome = done;
    if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Visits a part of a statement.
pub(crate) fn visit(node: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut Erased(visitor))
}

/// Whether an expression has a subquery.
pub(crate) fn has_query(expr: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit(expr, &mut Queries).is_break()
}

/// Visits a part of a statement, which the visitor may change.
pub(crate) fn visit_mut(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut ErasedMut(visitor))
}

/// Calls a function with every expression of a part of a statement, each after its sub-expressions.
pub(crate) fn expressions_mut(node: &mut impl VisitMut, change: &mut dyn FnMut(&mut Expr)) {
    struct Expressions<'a>(&'a mut dyn FnMut(&mut Expr));
    impl VisitorMut for Expressions<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }
    let _ = visit_mut(node, &mut Expressions(change));
}

/// Calls a function with every expression of a part of a statement, each before its sub-expressions, until the function
/// breaks.
pub(crate) fn expressions(node: &impl Visit, each: &mut dyn FnMut(&Expr) -> ControlFlow<()>) -> ControlFlow<()> {
    struct Expressions<'a>(&'a mut dyn FnMut(&Expr) -> ControlFlow<()>);
    impl Visitor for Expressions<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            (self.0)(expr)
        }
    }
    visit(node, &mut Expressions(each))
}

/// [`visit`] of an expression, for the server.
pub fn visit_expression(expression: &Expr, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    visit(expression, visitor)
}

/// [`visit_mut`] of a statement, for the server.
pub fn visit_statement_mut(statement: &mut Statement, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
    visit_mut(statement, visitor)
}

/// Calls a function with each expression of a part of a query, before its sub-expressions, except those of its
/// subqueries.
pub(crate) fn each_own_expr(part: &mut impl VisitMut, change: &mut dyn FnMut(&mut Expr)) {
    struct Own<'a> {
        change: &'a mut dyn FnMut(&mut Expr),
        depth: usize,
    }
    impl VisitorMut for Own<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.depth == 0 {
                (self.change)(expr);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visit_mut(part, &mut Own { change, depth: 0 });
}
