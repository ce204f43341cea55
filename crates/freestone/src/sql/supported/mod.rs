//! Refuses the parts of statements that the parser accepts and the engine does not execute, by their names.
//!
//! The parser supports the SQL of many systems. A clause that is parsed and not executed would be ignored silently:
//! `TRUNCATE t PARTITION (p)` must not empty the table. So every field of the syntax tree is destructured here without
//! `..`. If a release of the parser adds a field, the code does not compile until the field is handled.

mod queries;
mod writes;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, Statement, TableFactor, Visit, Visitor};

use crate::error::{Error, Result};
use crate::sql::visitor;

/// Refuses the parts of a statement or query that are not executed.
///
/// # Errors
/// Of kind [`crate::ErrorKind::Unsupported`] (SQLSTATE 0A000), with the name of the first such part.
pub(crate) fn check(sql: &impl Visit) -> Result<()> {
    let mut checks = Checks { error: None };
    let _ = visitor::visit(sql, &mut checks);
    checks.error.map_or(Ok(()), Err)
}

struct Checks {
    error: Option<Error>,
}

impl Checks {
    fn note(&mut self, checked: Result<()>) -> ControlFlow<()> {
        self.error = checked.err();
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Checks {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        self.note(writes::statement(statement))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.note(queries::query(query))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.note(queries::factor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.note(queries::expression(expr))
    }
}

/// Clauses, and whether they are present. The first that is present is refused.
fn none_of(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(written, _)| *written) {
        Some((_, name)) => Err(refused(name)),
        None => Ok(()),
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what} is not available")).with_hint("leave it out; docs/sql.md says what there is")
}

/// Refuses clauses of scalar function calls that are only for aggregates and window functions.
pub(crate) fn check_scalar_calls(sql: &impl Visit, is_scalar: &dyn Fn(&str) -> bool) -> Result<()> {
    let mut checks = Checks { error: None };
    let _ = visitor::expressions(sql, &mut |expr| match expr {
        Expr::Function(call) => checks.note(scalar_call(call, is_scalar)),
        _ => ControlFlow::Continue(()),
    });
    checks.error.map_or(Ok(()), Err)
}

fn scalar_call(call: &ast::Function, is_scalar: &dyn Fn(&str) -> bool) -> Result<()> {
    let ast::Function { name, uses_odbc_syntax: _, parameters: _, args, filter, null_treatment, over, within_group } =
        call;
    let (distinct, clauses) = match args {
        ast::FunctionArguments::List(list) => (list.duplicate_treatment.is_some(), !list.clauses.is_empty()),
        ast::FunctionArguments::None | ast::FunctionArguments::Subquery(_) => (false, false),
    };
    let written = [
        (distinct, "DISTINCT"),
        (clauses, "a clause within its parentheses"),
        (filter.is_some(), "FILTER"),
        (null_treatment.is_some(), "IGNORE NULLS or RESPECT NULLS"),
        (over.is_some(), "OVER"),
        (!within_group.is_empty(), "WITHIN GROUP"),
    ];
    let Some((_, clause)) = written.iter().find(|(written, _)| *written) else { return Ok(()) };
    let name = name.to_string().to_lowercase();
    if !is_scalar(&name) {
        return Ok(());
    }
    let message = format!("{clause} does not go with {name}, which is neither an aggregate nor a window function");
    Err(Error::invalid(message).with_hint(format!("leave out {clause}")))
}

#[cfg(test)]
mod tests;
