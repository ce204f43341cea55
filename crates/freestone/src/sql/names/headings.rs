//! The names of unnamed columns: the text of their expressions, as written.
//!
//! `SELECT COUNT(*), a+1, b::text` has the columns `count(*)`, `a + 1` and `b::TEXT`: one space between words, names in
//! lower case unless quoted, types and keywords in upper case. The name is an alias from the parser on. So it is the
//! same in results, subqueries, views and tables created from queries, and rewriting an expression does not change it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Distinct, Expr, Ident, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::folded;
use crate::sql::fragments::factors;
use crate::sql::{frame_exclusion, visitor};

/// Gives every unnamed column of every SELECT its name.
pub(crate) fn give(sql: &mut impl VisitMut) {
    struct AddNames;
    impl VisitorMut for AddNames {
        type Break = ();
        // Before the subqueries, whose text is part of this one's.
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            order_by_places(query);
            selects(&mut query.body, &mut give_in);
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut AddNames);
}

/// `SELECT DISTINCT a + 1 … ORDER BY a + 1` orders by a column of the result. It is replaced by its position, because
/// DataFusion does not find it.
fn order_by_places(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    // Positions after a wildcard are not known.
    let known = select.projection.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(name(expr)),
        _ => None,
    });
    let names: Vec<Option<String>> = known.collect();
    for key in keys {
        let place = name(&key.expr).and_then(|name| names.iter().position(|item| item.as_ref() == Some(&name)));
        if let Some(place) = place.filter(|_| !matches!(key.expr, Expr::Value(_))) {
            key.expr = Expr::Value(Value::Number((place + 1).to_string(), false).with_empty_span());
        }
    }
}

/// Removes the names again, which gives the statement as it was written, for the workload log.
pub(crate) fn take_back(sql: &mut impl VisitMut) {
    struct RemoveNames;
    impl VisitorMut for RemoveNames {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            selects(&mut query.body, &mut take_back_in);
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut RemoveNames);
}

/// Calls `on` for the SELECTs of a query, including those of its set operations.
fn selects(body: &mut SetExpr, on: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => on(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, on);
            selects(right, on);
        }
        _ => {}
    }
}

fn give_in(select: &mut Select) {
    let (tables, schemas) = names_of_tables(&select.from);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = name(expr).or_else(|| name_of_field(expr, &tables, &schemas))
        {
            // Names of the user have a position in the text. This one has none.
            let alias = Ident { value: name, quote_style: Some('"'), span: Span::empty() };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// The names by which columns of the tables are qualified, and those of their schemas.
fn names_of_tables(from: &[TableWithJoins]) -> (Vec<String>, Vec<String>) {
    let (mut names, mut schemas) = (vec![], vec![]);
    let mut todo: Vec<&TableFactor> = from.iter().flat_map(factors).collect();
    while let Some(factor) = todo.pop() {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => todo.extend(factors(table_with_joins)),
            TableFactor::Table { name, alias: None, .. } => {
                let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
                names.extend(parts.last().cloned());
                schemas.extend(parts.first().filter(|_| parts.len() > 1).cloned());
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => names.push(folded(&alias.name)),
            _ => {}
        }
    }
    (names, schemas)
}

/// The name of a field of a struct in a column: `s.a` and `t.s.a` are named `a`, like a column `t.a`.
fn name_of_field(expr: &Expr, tables: &[String], schemas: &[String]) -> Option<String> {
    let Expr::CompoundIdentifier(parts) = expr else { return None };
    let first = folded(parts.first()?);
    let of_table = if tables.contains(&first) { 2 } else { 1 };
    (parts.len() > of_table && !schemas.contains(&first)).then(|| parts.last().map(folded)).flatten()
}

fn take_back_in(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && alias.span == Span::empty()
        {
            *item = SelectItem::UnnamedExpr(expr.clone());
        }
    }
}

/// The name of an unnamed expression; `None` for a column, which has a name.
fn name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => name(inner),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
        other => Some(text(other)),
    }
}

/// The text of an expression in a uniform spelling. Quotes within a name are left out, because they are not allowed
/// everywhere.
fn text(expr: &Expr) -> String {
    let mut spelled = expr.clone();
    visitor::expressions_mut(&mut spelled, &mut |part| {
        match part {
            Expr::Identifier(name) => spell(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(spell),
            Expr::Function(call) => call.name.0.iter_mut().for_each(|part| {
                if let ObjectNamePart::Identifier(name) = part {
                    spell(name);
                }
            }),
            // The parser's result for `1e3`.
            Expr::Cast { kind: CastKind::Cast, expr, data_type: DataType::Double(_), .. } => {
                if let Expr::Value(value) = expr.as_ref()
                    && let Value::SingleQuotedString(digits) = &value.value
                    && digits.contains(['e', 'E'])
                {
                    *part = Expr::Value(Value::Number(digits.clone(), false).with_empty_span());
                }
            }
            _ => {}
        }
    });
    frame_exclusion::shown(spelled.to_string())
}

fn spell(name: &mut Ident) {
    name.value = folded(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statement::parse_query;

    #[test]
    fn names_are_the_text_as_it_was_written() {
        for (item, expected) in [
            ("a", None),
            ("(t.A)", None),
            ("x AS y", None),
            ("1", Some("1")),
            ("'it''s'", Some("'it''s'")),
            ("TRUE", Some("true")),
            ("1e3", Some("1e3")),
            ("COUNT ( * )", Some("count(*)")),
            ("Sum(T.N)+ 1", Some("sum(t.n) + 1")),
            ("\"A\"||'B'", Some("\"A\" || 'B'")),
            ("((a+1))", Some("a + 1")),
            ("a::text", Some("a::TEXT")),
            ("CAST(a AS DOUBLE)", Some("CAST(a AS DOUBLE)")),
            ("mod(a, 2)", Some("mod(a, 2)")),
            ("UNNEST([1])", Some("unnest([1])")),
            ("(SELECT MAX(a) FROM t)", Some("(SELECT max(a) FROM t)")),
            ("a AND b AND c AND d AND e", Some("a AND b AND c AND d AND e")),
        ] {
            let mut query = parse_query(&format!("SELECT {item} FROM t")).expect(item);
            let SetExpr::Select(select) = query.body.as_mut() else { panic!("{item}") };
            let given = match &select.projection[0] {
                SelectItem::ExprWithAlias { alias, .. } if alias.span == Span::empty() => Some(alias.value.as_str()),
                _ => None,
            };
            assert_eq!(given, expected, "{item}");
        }
    }

    #[test]
    fn given_names_are_taken_back() {
        let mut query = parse_query("SELECT 1 + 1, a AS b, (SELECT max(c) FROM u) FROM t").expect("a query");
        take_back(&mut query);
        assert_eq!(query.to_string(), "SELECT 1 + 1, a AS b, (SELECT max(c) FROM u) FROM t");
    }
}
