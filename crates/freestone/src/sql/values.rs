//! VALUES whose columns have texts in quotes among other values: what their types are is known once SQL is planned, and only
//! for VALUES that is a table of FROM.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SetExpr, Statement, TableFactor, Value, Values, VisitMut, VisitorMut,
};

use crate::sql::{fragments, visitor};

/// Writes VALUES of several types that is not a table of FROM as `SELECT * FROM (VALUES …)`. The source of an INSERT remains,
/// whose values have the types of the columns.
pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    struct Enclosing {
        depth: usize,
        inserts: bool,
    }
    impl VisitorMut for Enclosing {
        type Break = ();
        fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
            self.inserts = matches!(statement, Statement::Insert(_));
            ControlFlow::Continue(())
        }
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            if !(self.inserts && self.depth == 0) {
                in_body(&mut query.body);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut Enclosing { depth: 0, inserts: false });
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        SetExpr::Values(values) if is_mixed(values) => {
            let Ok(mut inner) = fragments::bare_query() else { return };
            *inner.body = SetExpr::Values(values.clone());
            let alias = Some(fragments::alias(fragments::quoted("values")));
            let factor = TableFactor::Derived { lateral: false, subquery: inner, alias, sample: None };
            if let Ok(query) = fragments::select_query(vec![fragments::star()], factor) {
                *body = *query.body;
            }
        }
        _ => {}
    }
}

/// Whether a column has a text in quotes and a value that is none.
pub(crate) fn is_mixed(values: &Values) -> bool {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    (0..width).any(|at| {
        let column = || values.rows.iter().filter_map(move |row| row.content.get(at)).map(kind);
        column().any(|kind| kind == Kind::Text) && column().any(|kind| kind == Kind::Other)
    })
}

#[derive(PartialEq, Eq)]
enum Kind {
    Text,
    Null,
    Other,
}

fn kind(value: &Expr) -> Kind {
    match value {
        Expr::Nested(inner) => kind(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) => Kind::Text,
            Value::Null => Kind::Null,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}
