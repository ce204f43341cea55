//! Several columns that are assigned together, in UPDATE, ON CONFLICT DO UPDATE and MERGE.
//!
//! | written | becomes |
//! |---|---|
//! | `SET (a, b) = (x, y)`, `= ROW(x, y)` | `SET a = x, b = y` |
//! | `SET (a, b) = (SELECT …)` | `SET a = "freestone$part"((SELECT …), 0), b = "freestone$part"((SELECT …), 1)` |
//!
//! The query of the second form gives its row as one struct. [`evaluate_once`] makes both columns parts of one evaluation: two
//! could give different rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SelectItem,
    SetExpr, Statement, TableAlias, VisitMut, VisitorMut,
};

use crate::error::{Error, ErrorKind, Result};
use crate::sql::fragments::{alias, call, derived, number, quoted, select_query, text};
use crate::sql::visitor;

/// The call that represents a part of a row: a query in parentheses, and the number of its column.
const PART: &str = "freestone$part";
/// The name of the query within the one that gives its row, and of an evaluation with its columns.
const ROW: &str = "$assigned";

/// Separates the assignments of several columns in all statements.
///
/// # Errors
/// Other numbers of values than of columns, or a value that is no row.
pub(crate) fn rewrite(sql: &mut impl VisitMut) -> Result<()> {
    let mut rewriting = Rewriting(Ok(()));
    let _ = visitor::visit_mut(sql, &mut rewriting);
    rewriting.0
}

struct Rewriting(Result<()>);

impl VisitorMut for Rewriting {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        visitor::noted(&mut self.0, lists(statement).into_iter().try_for_each(separate))
    }
}

/// The lists of assignments of a statement.
fn lists(statement: &mut Statement) -> Vec<&mut Vec<Assignment>> {
    match statement {
        Statement::Update(update) => vec![&mut update.assignments],
        Statement::Insert(ast::Insert { on: Some(ast::OnInsert::OnConflict(on)), .. }) => match &mut on.action {
            ast::OnConflictAction::DoUpdate(update) => vec![&mut update.assignments],
            ast::OnConflictAction::DoNothing => vec![],
        },
        Statement::Merge(merge) => {
            let updates = merge.clauses.iter_mut().filter_map(|clause| match &mut clause.action {
                ast::MergeAction::Update(update) => Some(&mut update.assignments),
                ast::MergeAction::Insert(_) | ast::MergeAction::Delete { .. } => None,
            });
            updates.collect()
        }
        _ => vec![],
    }
}

fn separate(assignments: &mut Vec<Assignment>) -> Result<()> {
    let mut separated = Vec::with_capacity(assignments.len());
    for assignment in std::mem::take(assignments) {
        let AssignmentTarget::Tuple(columns) = assignment.target else {
            separated.push(assignment);
            continue;
        };
        let values = values(assignment.value, columns.len())?;
        if values.len() != columns.len() {
            return Err(other_count(values.len(), columns.len()));
        }
        let targets = columns.into_iter().map(AssignmentTarget::ColumnName);
        separated.extend(targets.zip(values).map(|(target, value)| Assignment { target, value }));
    }
    *assignments = separated;
    Ok(())
}

/// The values of a row that is assigned to some columns.
fn values(value: Expr, columns: usize) -> Result<Vec<Expr>> {
    match value {
        Expr::Tuple(values) => Ok(values),
        Expr::Nested(value) if columns == 1 => Ok(vec![*value]),
        Expr::Nested(value) => values(*value, columns),
        Expr::Subquery(query) if columns == 1 => Ok(vec![Expr::Subquery(query)]),
        Expr::Subquery(query) => {
            let row = Expr::Subquery(as_struct(query, columns)?);
            Ok((0..columns).map(|at| call(PART, vec![row.clone(), number(at)])).collect())
        }
        Expr::Function(function) if is_row(&function) => {
            let FunctionArguments::List(list) = function.args else { return Ok(vec![]) };
            let value = |argument: FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Ok(value),
                other => Err(Error::syntax(format!("{other} in ROW is no value"))),
            };
            list.args.into_iter().map(value).collect()
        }
        other => Err(Error::syntax(format!("{other} is no row of values"))
            .with_hint("the forms are SET (a, b) = (x, y) and SET (a, b) = (SELECT x, y …)")),
    }
}

fn is_row(function: &ast::Function) -> bool {
    let name = function.name.0.as_slice();
    matches!(name, [part] if part.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("row")))
}

/// A query that gives the row of another as one struct.
fn as_struct(query: Box<Query>, columns: usize) -> Result<Box<Query>> {
    let name = |at: usize| quoted(&at.to_string());
    let field = |at: usize| [text(&at.to_string()), Expr::CompoundIdentifier(vec![quoted(ROW), name(at)])];
    let row = SelectItem::ExprWithAlias {
        expr: call("named_struct", (0..columns).flat_map(field).collect()),
        alias: quoted(ROW),
    };
    let mut named = alias(quoted(ROW));
    named.columns = (0..columns).map(|at| ast::TableAliasColumnDef { name: name(at), data_type: None }).collect();
    select_query(vec![row], derived(query, Some(named)))
}

fn other_count(values: usize, columns: usize) -> Error {
    Error::syntax(format!("SET assigns {values} values to {columns} columns"))
}

/// Checks, at the alias of a subquery, that a query of a row has as many columns as it is assigned to. Other aliases may
/// name only the first columns.
///
/// # Errors
/// It has more or fewer.
pub(crate) fn check_count(alias: Option<&TableAlias>, count: Option<usize>) -> Result<()> {
    let assigned = alias.filter(|alias| alias.name.value == ROW && !alias.columns.is_empty());
    match (assigned.map(|alias| alias.columns.len()), count) {
        (Some(columns), Some(values)) if columns != values => Err(other_count(values, columns)),
        _ => Ok(()),
    }
}

/// The query and the column of a part of a row, if a value is one.
fn part(value: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(function) = value else { return None };
    let (FunctionArguments::List(list), [name]) = (&function.args, function.name.0.as_slice()) else { return None };
    let is_part = name.as_ident().is_some_and(|name| name.value == PART);
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(row)), FunctionArg::Unnamed(FunctionArgExpr::Expr(at))]
            if is_part =>
        {
            Some((row, at))
        }
        _ => None,
    }
}

/// Whether one of some assignments is a part of a query's row.
pub(crate) fn has_parts(assignments: &[Assignment]) -> bool {
    assignments.iter().any(|assignment| part(&assignment.value).is_some())
}

/// A value within another, such as a CASE; of a part of a row, the row is within it.
pub(crate) fn within(value: Expr, outer: impl FnOnce(Expr) -> Expr) -> Expr {
    match part(&value) {
        Some((row, at)) => call(PART, vec![outer(row.clone()), at.clone()]),
        None => outer(value),
    }
}

/// Changes a query whose columns may be parts of rows so that each row is evaluated once: in a query within it.
///
/// # Errors
/// The query is no SELECT.
pub(crate) fn evaluate_once(query: &mut Box<Query>) -> Result<()> {
    let unexpected = || Error::new(ErrorKind::Internal, "internal error: values are assigned from a set operation");
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
    let value = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => Some(value.clone()),
        _ => None,
    };
    let Some(values) = select.projection.iter().map(value).collect::<Option<Vec<Expr>>>() else { return Ok(()) };
    if values.iter().all(|value| part(value).is_none()) {
        return Ok(());
    }
    let (mut inner, mut outer) = (Vec::<Expr>::new(), vec![]);
    for (value, item) in values.iter().zip(&select.projection) {
        let evaluated = part(value).map_or(value, |(row, _)| row);
        let known = part(value).and_then(|(row, _)| inner.iter().position(|known| known == row));
        let at = known.unwrap_or(inner.len());
        if at == inner.len() {
            inner.push(evaluated.clone());
        }
        let column = Expr::Identifier(quoted(&format!("{ROW}{at}")));
        let expr = match part(value) {
            Some((_, field)) => call("get_field", vec![column, text(&field.to_string())]),
            None => column,
        };
        outer.push(match item {
            SelectItem::ExprWithAlias { alias, .. } => SelectItem::ExprWithAlias { expr, alias: alias.clone() },
            _ => SelectItem::UnnamedExpr(expr),
        });
    }
    let named = |(at, expr)| SelectItem::ExprWithAlias { expr, alias: quoted(&format!("{ROW}{at}")) };
    select.projection = inner.into_iter().enumerate().map(named).collect();
    *query = select_query(outer, derived(query.clone(), Some(alias(quoted(ROW)))))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::fragments::parsed_query;
    use datafusion::sql::sqlparser::parser::Parser;

    use crate::sql::dialect::SqlDialect;

    fn rewritten(sql: &str) -> Result<String> {
        let mut statement = Parser::new(&SqlDialect).try_with_sql(sql)?.parse_statement()?;
        rewrite(&mut statement)?;
        Ok(statement.to_string())
    }

    #[test]
    fn rows_of_values_are_separate_assignments() {
        for (sql, expected) in [
            ("UPDATE t SET (a, b) = (b, 1 + a), c = 2", "UPDATE t SET a = b, b = 1 + a, c = 2"),
            ("UPDATE t SET (a, b) = ROW(1, DEFAULT)", "UPDATE t SET a = 1, b = DEFAULT"),
            ("UPDATE t SET (a) = (1)", "UPDATE t SET a = 1"),
            ("UPDATE t SET (a) = (SELECT 1)", "UPDATE t SET a = (SELECT 1)"),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET (a, b) = (excluded.a, t.b)",
                "INSERT INTO t VALUES (1) ON CONFLICT(a) DO UPDATE SET a = excluded.a, b = t.b",
            ),
            (
                "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET (a, b) = (s.a, 2)",
                "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = s.a, b = 2",
            ),
        ] {
            assert_eq!(rewritten(sql).expect(sql), expected);
        }
        for sql in ["UPDATE t SET (a, b) = (1, 2, 3)", "UPDATE t SET (a, b) = 1", "UPDATE t SET (a, b) = f(1, 2)"] {
            assert!(rewritten(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn a_row_of_a_query_is_evaluated_once() {
        let mut statement = Parser::new(&SqlDialect)
            .try_with_sql("UPDATE t SET (a, b) = (SELECT x, y FROM s)")
            .and_then(|mut parser| parser.parse_statement())
            .expect("parses");
        rewrite(&mut statement).expect("two columns");
        let Statement::Update(update) = statement else { panic!("an UPDATE") };
        assert!(has_parts(&update.assignments));
        let mut query = parsed_query("SELECT id FROM t").expect("parses");
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection.extend(update.assignments.into_iter().map(|a| SelectItem::UnnamedExpr(a.value)));
        }
        evaluate_once(&mut query).expect("a SELECT");
        assert_eq!(query.to_string().matches("FROM s").count(), 1, "{query}");
    }
}
