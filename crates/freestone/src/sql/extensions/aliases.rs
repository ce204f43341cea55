//! Aliases of a SELECT that are used again: in `SELECT a + 1 AS b, b * 2`, and in WHERE and GROUP BY. A column of the
//! tables in FROM takes precedence over an alias.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, OneOrManyWithParens, Query, Select, SelectItem, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::stars::Sources;
use super::{ONE_COLUMN, VALUE};
use crate::error::{Error, Result};
use crate::sql::fragments::factors;
use crate::sql::names::folded;
use crate::sql::room::Room;
use crate::sql::visitor;
use crate::sql::visitor::each_own_expr;

/// Whether a SELECT uses one of its aliases, or the former name of a table function's column.
pub(super) fn asks(select: &Select) -> bool {
    let given: Vec<String> = select.projection.iter().filter_map(|item| given(item).map(|(name, _)| name)).collect();
    let mut look = |expr: &Expr| {
        let uses = match expr {
            Expr::Identifier(name) => given.contains(&folded(name)),
            _ => false,
        };
        if uses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let uses = !given.is_empty()
        && (visitor::expressions(&select.projection, &mut look).is_break()
            || visitor::expressions(&select.selection, &mut look).is_break()
            || visitor::expressions(&select.group_by, &mut look).is_break());
    uses || select.from.iter().any(|tables| !functions_of(tables).is_empty())
}

/// The alias that a user gives to an expression.
fn given(item: &SelectItem) -> Option<(String, &Expr)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.span != Span::empty() => Some((folded(alias), expr)),
        _ => None,
    }
}

/// A function in FROM with a single column, which has other names than that of the column.
pub(crate) struct OneColumn {
    table: Ident,
    column: Ident,
    function: String,
}

impl OneColumn {
    /// Whether a name is that of the function, or the former name of its column.
    fn is_called(&self, name: &str) -> bool {
        name == VALUE || name == self.function
    }

    fn expr(&self) -> Expr {
        Expr::CompoundIdentifier(vec![self.table.clone(), self.column.clone()])
    }
}

/// The functions with one column among the tables of a FROM.
pub(crate) fn functions_of(tables: &datafusion::sql::sqlparser::ast::TableWithJoins) -> Vec<OneColumn> {
    use datafusion::sql::sqlparser::ast::TableFactor;
    let function = |factor: &TableFactor| match factor {
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. }
        | TableFactor::Function { name, alias: Some(alias), .. } => {
            let function = name.0.last().and_then(|part| part.as_ident()).map(folded)?;
            let column = &alias.columns.first()?.name;
            // Not a name that the statement gives.
            let is_given = folded(column) == function || folded(column) == folded(&alias.name);
            let is_known = is_given && ONE_COLUMN.contains(&function.as_str()) && function != "unnest";
            is_known.then(|| OneColumn { table: alias.name.clone(), column: column.clone(), function })
        }
        _ => None,
    };
    factors(tables).filter_map(function).collect()
}

/// Replaces aliases by their expressions.
pub(super) fn replace(select: &mut Select, sources: &Sources, is_volatile: &dyn Fn(&str) -> bool) -> Result<()> {
    let Some(columns) = &sources.names else { return Ok(()) };
    let mut known: HashMap<String, Expr> = HashMap::new();
    let (mut error, room) = (None, Room::new());
    for item in &mut select.projection {
        substitute(item, &known, (is_volatile, &room), &mut error);
        let Some((name, expr)) = given(item) else { continue };
        if !columns.contains(&name) {
            known.entry(name).or_insert_with(|| expr.clone());
        }
    }
    substitute(&mut select.selection, &known, (is_volatile, &room), &mut error);
    // A key that is only an alias is resolved by DataFusion.
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let own = keys.iter_mut().filter(|key| !matches!(key, Expr::Identifier(_)));
        own.for_each(|key| substitute(key, &known, (is_volatile, &room), &mut error));
    }
    error.map_or(Ok(()), Err)
}

/// Replaces the name of a table function, and the former name `value`, by that of its column, unless a column has this
/// name.
pub(super) fn replace_values(part: &mut impl VisitMut, sources: &Sources) {
    let Some(names) = sources.names.as_ref().filter(|_| !sources.functions.is_empty()) else { return };
    each_own_expr(part, &mut |expr| match expr {
        Expr::Identifier(name) if !names.contains(&folded(name)) => {
            if let [only] = sources.functions.as_slice()
                && only.is_called(&folded(name))
            {
                *expr = only.expr();
            }
        }
        Expr::CompoundIdentifier(parts) => {
            let [table, name] = parts.as_slice() else { return };
            let (table, name) = (folded(table), folded(name));
            if let Some(found) = sources.functions.iter().find(|own| folded(&own.table) == table)
                && found.is_called(&name)
            {
                *expr = found.expr();
            }
        }
        _ => {}
    });
}

/// Replaces aliases in a part of a SELECT, except in its subqueries and where a lambda has a parameter of this name.
fn substitute(
    part: &mut impl VisitMut,
    known: &HashMap<String, Expr>,
    (is_volatile, room): (&dyn Fn(&str) -> bool, &Room),
    error: &mut Option<Error>,
) {
    if known.is_empty() || error.is_some() {
        return;
    }
    let mut names = Names { known, is_volatile, room, parameters: vec![], depth: 0, error };
    let _ = visitor::visit_mut(part, &mut names);
}

struct Names<'a> {
    known: &'a HashMap<String, Expr>,
    is_volatile: &'a dyn Fn(&str) -> bool,
    room: &'a Room,
    /// The parameters of the enclosing lambdas.
    parameters: Vec<Vec<String>>,
    depth: usize,
    error: &'a mut Option<Error>,
}

impl VisitorMut for Names<'_> {
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
        if let Expr::Lambda(lambda) = expr {
            self.parameters.push(match &lambda.params {
                OneOrManyWithParens::One(one) => vec![folded(&one.name)],
                OneOrManyWithParens::Many(several) => several.iter().map(|one| folded(&one.name)).collect(),
            });
        }
        ControlFlow::Continue(())
    }

    // After the sub-expressions, so that replacements are not visited.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(_) = expr {
            self.parameters.pop();
        }
        let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
        let name = folded(name);
        let is_parameter = self.parameters.iter().flatten().any(|parameter| *parameter == name);
        let Some(stands_for) = self.known.get(&name).filter(|_| self.depth == 0 && !is_parameter) else {
            return ControlFlow::Continue(());
        };
        if has_volatile(stands_for, self.is_volatile) {
            let message = format!("{name} cannot be used again: each use would compute another value");
            *self.error = Some(Error::unsupported(message).with_hint("compute it in a subquery"));
            return ControlFlow::Break(());
        }
        if let Err(too_large) = self.room.take(stands_for) {
            *self.error = Some(too_large);
            return ControlFlow::Break(());
        }
        *expr = Expr::Nested(Box::new(stands_for.clone()));
        ControlFlow::Continue(())
    }
}

fn has_volatile(expr: &Expr, is_volatile: &dyn Fn(&str) -> bool) -> bool {
    let is_call = |part: &Expr| match part {
        Expr::Function(Function { name, .. }) if is_volatile(&name.to_string().to_lowercase()) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    visitor::expressions(expr, &mut |part| is_call(part)).is_break()
}
