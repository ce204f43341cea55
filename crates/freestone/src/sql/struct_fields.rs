//! Fields of structs in places where DataFusion does not find them: of a lambda's parameter (`o -> o.a`), and of a column
//! of an outer query (`t.s.a`, `s.a`). They become calls of `get_field`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, OneOrManyWithParens, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Statement, TableFactor, TableWithJoins, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::fragments::{call, text};
use super::names::folded;
use super::{using, visitor};

/// Rewrites all such fields.
pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    let _ = visitor::visit_mut(sql, &mut Fields::default());
}

/// Replaces the lists in brackets that read columns by calls. DataFusion looks for columns of outer queries and parameters
/// of lambdas in calls, but not in lists.
pub(crate) fn lists_as_calls(sql: &mut impl VisitMut) {
    visitor::expressions_mut(sql, &mut |expr| {
        let Expr::Array(list) = expr else { return };
        let reads = |expr: &Expr| match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        if visitor::expressions(&list.elem, &mut |expr| reads(expr)).is_break() {
            *expr = call("make_array", std::mem::take(&mut list.elem));
        }
    });
}

#[derive(Default)]
struct Fields {
    /// The tables of the SELECTs around an expression.
    scopes: Vec<Scope>,
    /// Per query around it, whether it is one SELECT, whose tables its ORDER BY reads, too.
    are_selects: Vec<bool>,
    /// A write, whose target has names that no FROM has.
    has_target: bool,
    /// Within the arguments of a function in FROM, which read the tables beside it.
    in_from: usize,
}

/// The names of the tables of one FROM.
#[derive(Default)]
struct Scope {
    tables: HashSet<String>,
    schemas: HashSet<String>,
}

impl Scope {
    fn of(select: &Select) -> Scope {
        let mut scope = Scope::default();
        select.from.iter().for_each(|tables| scope.add(tables));
        scope
    }

    fn add(&mut self, tables: &TableWithJoins) {
        for factor in std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)) {
            self.tables.extend(using::table_name(factor).as_ref().map(folded));
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => self.add(table_with_joins),
                TableFactor::Table { name: ObjectName(parts), alias, .. } => {
                    let mut names = parts.iter().rev().filter_map(|part| part.as_ident()).map(folded);
                    self.tables.extend(names.next().filter(|_| alias.is_none()));
                    self.schemas.extend(names.filter(|_| alias.is_none()));
                }
                _ => {}
            }
        }
    }
}

impl Fields {
    fn has_table(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.tables.contains(name))
    }

    /// Writes `s.*` of a struct in a column as `unnest(s)`.
    fn all_fields(&self, item: &mut SelectItem) {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)), options) =
            item
        else {
            return;
        };
        let Some(own) = self.scopes.last() else { return };
        let idents: Vec<Ident> = parts.iter().filter_map(|part| part.as_ident().cloned()).collect();
        let is_table = |name: &Ident| own.tables.contains(&folded(name));
        let is_column = match idents.as_slice() {
            [column] => !is_table(column),
            [table, column] => is_table(table) && !own.schemas.contains(&folded(table)) && !is_table(column),
            _ => false,
        };
        if is_column && *options == WildcardAdditionalOptions::default() {
            let column = match idents.as_slice() {
                [only] => Expr::Identifier(only.clone()),
                _ => Expr::CompoundIdentifier(idents),
            };
            *item = SelectItem::UnnamedExpr(call("unnest", vec![column]));
        }
    }

    /// The number of parts of a name that are a column of an outer query, if more parts are fields of it.
    fn column_parts(&self, parts: &[Ident]) -> Option<usize> {
        let first = folded(parts.first()?);
        let is_schema = self.scopes.iter().any(|scope| scope.schemas.contains(&first));
        let is_own = self.scopes.last().is_some_and(|scope| scope.tables.contains(&first)) && self.in_from == 0;
        let is_outer = self.scopes.len() > 1 || self.in_from > 0;
        if is_schema || !is_outer {
            return None;
        }
        match self.has_table(&first) {
            true => (parts.len() > 2 && !is_own).then_some(2),
            false => (parts.len() > 1 && !self.has_target).then_some(1),
        }
    }
}

impl VisitorMut for Fields {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        self.has_target |= !matches!(statement, Statement::Query(_) | Statement::Explain { .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let select = query.body.as_select();
        self.are_selects.push(select.is_some());
        self.scopes.extend(select.map(Scope::of));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        if self.are_selects.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.are_selects.last() != Some(&true) {
            self.scopes.push(Scope::of(select));
        }
        select.projection.iter_mut().for_each(|item| self.all_fields(item));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        if self.are_selects.last() != Some(&true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.in_from += usize::from(is_function(factor));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.in_from -= usize::from(is_function(factor));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) => {
                if let Some(column) = self.column_parts(parts) {
                    *expr = field_of(parts, column);
                }
            }
            Expr::Lambda(lambda) => {
                let parameters: Vec<String> = match &lambda.params {
                    OneOrManyWithParens::One(one) => vec![folded(&one.name)],
                    OneOrManyWithParens::Many(several) => several.iter().map(|one| folded(&one.name)).collect(),
                };
                visitor::expressions_mut(&mut lambda.body, &mut |expr| {
                    if let Expr::CompoundIdentifier(parts) = expr
                        && parts.first().is_some_and(|first| parameters.contains(&folded(first)))
                    {
                        *expr = field_of(parts, 1);
                    }
                });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_function(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. }
    )
}

/// The field that the parts of a name after those of a column lead to.
fn field_of(parts: &[Ident], column: usize) -> Expr {
    let (column, fields) = parts.split_at(column.min(parts.len()));
    let value = match column {
        [only] => Expr::Identifier(only.clone()),
        several => Expr::CompoundIdentifier(several.to_vec()),
    };
    fields.iter().fold(value, |value, field| call("get_field", vec![value, text(&folded(field))]))
}
