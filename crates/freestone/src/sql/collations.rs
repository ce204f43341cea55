//! COLLATE in comparisons and orders: NOCASE, NOACCENT and NFC compare keys of the texts; C, POSIX and BINARY are the
//! order of all texts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, ColumnOption, Expr, ObjectName, OrderByExpr, OrderByKind, Query, Statement, VisitMut,
    VisitorMut,
};

use super::fragments::call;
use super::visitor;
use crate::error::{Error, Result};

const HINT: &str = "collations are C, POSIX, BINARY, NOCASE, NOACCENT and NFC, in comparisons and ORDER BY";

/// Replaces COLLATE by functions of the compared texts.
///
/// # Errors
/// The collation is not one of these, or stands where it would have no effect.
pub(crate) fn rewrite(sql: &mut impl VisitMut) -> Result<()> {
    struct Collations(Result<()>);
    impl Collations {
        fn note(&mut self, done: Result<()>) -> ControlFlow<()> {
            visitor::noted(&mut self.0, done)
        }
    }
    impl VisitorMut for Collations {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let done = match query.order_by.as_mut().map(|order| &mut order.kind) {
                Some(OrderByKind::Expressions(keys)) => orders(keys),
                _ => Ok(()),
            };
            self.note(done)
        }
        fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
            match statement {
                Statement::CreateTable(create) => {
                    let done = create.columns.iter_mut().try_for_each(of_column);
                    self.note(done)
                }
                _ => ControlFlow::Continue(()),
            }
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let done = expression(expr);
            self.note(done)
        }
    }
    let mut collations = Collations(Ok(()));
    let _ = visitor::visit_mut(sql, &mut collations);
    collations.0
}

/// The functions whose results are compared instead of the texts.
fn functions(collation: &ObjectName) -> Result<Vec<&'static str>> {
    let mut functions = vec![];
    for part in &collation.0 {
        let name = part.as_ident().map(|part| part.value.to_ascii_lowercase()).unwrap_or_default();
        match name.as_str() {
            "c" | "posix" | "binary" | "default" | "ucs_basic" => {}
            "nocase" => functions.push("lower"),
            "noaccent" => functions.push("strip_accents"),
            "nfc" => functions.push("nfc_normalize"),
            _ => return Err(Error::unsupported(format!("collation {collation} is not available")).with_hint(HINT)),
        }
    }
    Ok(functions)
}

/// The operand and functions of a COLLATE, also within parentheses.
fn collated(expr: &Expr) -> Result<Option<Vec<&'static str>>> {
    match expr {
        Expr::Nested(inner) => collated(inner),
        Expr::Collate { collation, .. } => functions(collation).map(Some),
        _ => Ok(None),
    }
}

/// The text without its COLLATE, within these functions.
fn key(expr: &mut Expr, functions: &[&str]) {
    let mut taken = std::mem::replace(expr, Expr::value(ast::Value::Null));
    while let Expr::Nested(inner) | Expr::Collate { expr: inner, .. } = taken {
        taken = *inner;
    }
    *expr = functions.iter().fold(taken, |text, function| call(function, vec![text]));
}

fn orders(keys: &mut [OrderByExpr]) -> Result<()> {
    for order in keys {
        if let Some(functions) = collated(&order.expr)? {
            key(&mut order.expr, &functions);
        }
    }
    Ok(())
}

/// Applies the collation of one operand to all of them.
fn operands(operands: &mut [&mut Expr]) -> Result<()> {
    let mut found: Option<Vec<&'static str>> = None;
    for operand in operands.iter() {
        if let Some(functions) = collated(operand)? {
            if found.as_ref().is_some_and(|found| *found != functions) {
                return Err(Error::invalid("a comparison has two collations").with_hint("give both operands the same"));
            }
            found = Some(functions);
        }
    }
    if let Some(functions) = found {
        operands.iter_mut().for_each(|operand| key(operand, &functions));
    }
    Ok(())
}

fn expression(expr: &mut Expr) -> Result<()> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    match expr {
        Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => operands(&mut [left, right]),
        Expr::Between { expr, low, high, .. } => operands(&mut [expr, low, high]),
        Expr::InList { expr, list, .. } => {
            let mut all: Vec<&mut Expr> = list.iter_mut().collect();
            all.push(expr);
            operands(&mut all)
        }
        Expr::Function(function) => {
            if let ast::FunctionArguments::List(list) = &mut function.args {
                for clause in &mut list.clauses {
                    if let ast::FunctionArgumentClause::OrderBy(keys) = clause {
                        orders(keys)?;
                    }
                }
            }
            if let Some(ast::WindowType::WindowSpec(window)) = &mut function.over {
                orders(&mut window.order_by)?;
            }
            Ok(())
        }
        // Without an effect on values, if texts are compared as usual.
        Expr::Collate { expr: inner, collation } => match functions(collation)?.is_empty() {
            true => {
                let inner = std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null));
                *expr = inner;
                expression(expr)
            }
            false => {
                let message = format!("COLLATE {collation} is available in comparisons and ORDER BY only");
                Err(Error::unsupported(message).with_hint("write lower(text) or strip_accents(text) instead"))
            }
        },
        _ => Ok(()),
    }
}

/// A column of a table has the usual collation.
fn of_column(column: &mut ast::ColumnDef) -> Result<()> {
    for option in &column.options {
        if let ColumnOption::Collation(collation) = &option.option
            && !functions(collation)?.is_empty()
        {
            let message = format!("column {}: COLLATE {collation} is not available for columns", column.name);
            return Err(Error::unsupported(message).with_hint("write it in comparisons and ORDER BY"));
        }
    }
    column.options.retain(|option| !matches!(option.option, ColumnOption::Collation(_)));
    Ok(())
}
