//! VALUES whose columns have values of several types: what these are is known once SQL is planned, and only for VALUES
//! that is a table of FROM.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SetExpr, Statement, TableFactor, UnaryOperator, Value, Values, VisitMut, VisitorMut,
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

/// Whether a column may have values of several types.
pub(crate) fn is_mixed(values: &Values) -> bool {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    (0..width).any(|at| {
        let column = || values.rows.iter().filter_map(move |row| row.content.get(at)).map(kind);
        let mut kinds = column().filter(|kind| *kind != Kind::Null);
        let first = kinds.next();
        kinds.any(|kind| kind == Kind::Other || Some(kind) != first)
    })
}

#[derive(PartialEq, Eq)]
enum Kind {
    Text,
    Null,
    Integer,
    /// A number with a point.
    Decimal,
    Boolean,
    Other,
}

fn kind(value: &Expr) -> Kind {
    match value {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => kind(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) => Kind::Text,
            Value::Null => Kind::Null,
            Value::Boolean(_) => Kind::Boolean,
            Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Kind::Integer,
            Value::Number(digits, _) if !digits.contains(['e', 'E', 'x', 'X']) => Kind::Decimal,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}
