//! Small pieces of parsed SQL, of which rewrites build queries.

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAlias,
    TableFactor,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::SqlDialect;
use crate::error::Result;

/// A query that is written as text, without any rewrite.
///
/// # Errors
/// A syntax error.
pub(crate) fn parsed_query(text: &str) -> Result<Box<Query>> {
    Ok(Parser::new(&SqlDialect).try_with_sql(text)?.parse_query()?)
}

/// `SELECT 1`, as the base of a constructed query.
pub(crate) fn bare_query() -> Result<Box<Query>> {
    parsed_query("SELECT 1")
}

/// A call of one of our functions.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// A query that selects from one table.
pub(crate) fn select_query(projection: Vec<SelectItem>, from: TableFactor) -> Result<Box<Query>> {
    let mut query = bare_query()?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = projection;
        select.from = vec![ast::TableWithJoins { relation: from, joins: vec![] }];
    }
    Ok(query)
}

pub(crate) fn star() -> SelectItem {
    SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())
}

pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

pub(crate) fn alias(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: vec![], at: None }
}

pub(crate) fn derived(subquery: Box<Query>, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery, alias, sample: None }
}

/// What is joined in one element of a FROM. Parentheses are not looked into.
pub(crate) fn factors(tables: &ast::TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
}

pub(crate) fn number(value: impl ToString) -> Expr {
    Expr::value(ast::Value::Number(value.to_string(), false))
}

pub(crate) fn text(value: &str) -> Expr {
    Expr::value(ast::Value::SingleQuotedString(value.to_owned()))
}

pub(crate) fn and(left: Option<Expr>, right: Expr) -> Expr {
    match left {
        None => right,
        Some(left) => binary(Expr::Nested(Box::new(left)), ast::BinaryOperator::And, right),
    }
}

pub(crate) fn binary(left: Expr, op: ast::BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `function(arguments) OVER (PARTITION BY … ORDER BY …)`.
pub(crate) fn window(
    function: &str,
    arguments: Vec<Expr>,
    partition_by: Vec<Expr>,
    order_by: Vec<ast::OrderByExpr>,
) -> Expr {
    let mut expr = call(function, arguments);
    if let Expr::Function(call) = &mut expr {
        let spec = ast::WindowSpec { window_name: None, partition_by, order_by, window_frame: None };
        call.over = Some(ast::WindowType::WindowSpec(spec));
    }
    expr
}

pub(crate) fn ascending(expr: Expr) -> ast::OrderByExpr {
    ast::OrderByExpr { expr, options: ast::OrderByOptions { asc: None, nulls_first: None }, with_fill: None }
}
