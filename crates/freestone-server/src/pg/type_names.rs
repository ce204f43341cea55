//! `pg_typeof` of what the engine has no type of its own for: casts to JSON or OID, parameters, literals.

use freestone_sql::tree::{Expr, ExprKind, Literal, Select, Statement, StatementKind, WalkMut};

use super::names::{last, mentions, walk_named};
use super::told::{Known, Scope, type_of};
use super::types::{self, ColumnType};

/// Whether a text may have such calls.
pub fn is_in(sql: &str) -> bool {
    mentions(sql, &["pg_typeof"])
}

/// Replaces the calls whose results the text tells by these results.
pub fn tell(statement: &mut Statement, known: &Known) {
    if let StatementKind::Query(query) = &mut statement.kind {
        Tell { scope: Scope::new(known) }.query(query);
    }
}

struct Tell<'a> {
    scope: Scope<'a>,
}

impl WalkMut for Tell<'_> {
    fn select(&mut self, select: &mut Select) {
        walk_named(select, self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        let ExprKind::Call(call) = &expr.kind else { return };
        let [argument] = call.arguments.as_slice() else { return };
        if last(&call.name) != "pg_typeof" {
            return;
        }
        if let Some(name) = self.name(&argument.value) {
            expr.kind = ExprKind::Literal(Literal::Text(name));
        }
    }
}

impl Tell<'_> {
    /// The name of the type of a value; `None` where the engine has to say it.
    fn name(&self, value: &Expr) -> Option<String> {
        match &value.kind {
            ExprKind::Literal(Literal::Text(_) | Literal::Null) => return Some("unknown".to_owned()),
            ExprKind::Cast { .. } | ExprKind::TypedText { .. } | ExprKind::Parameter(_) => {}
            ExprKind::Literal(Literal::Number(digits)) if digits.parse::<i32>().is_ok() => {}
            _ => return None,
        }
        let ColumnType { element, is_array, .. } = type_of(value, &self.scope)?;
        let is_known = !element.sql.is_empty() && element != types::UNKNOWN;
        is_known.then(|| if is_array { format!("{}[]", element.sql) } else { element.sql.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names() {
        let known = Known { is_enum: &|_| false, relation: &|_| None, declared: &[114, 1266, 1009] };
        for (sql, expected) in [
            ("SELECT pg_typeof($1), pg_typeof($2) AS b", "SELECT 'json' AS \"pg_typeof\", 'time with time zone' AS b"),
            ("SELECT pg_typeof($3)", "SELECT 'text[]' AS \"pg_typeof\""),
            ("SELECT pg_typeof('{}'::jsonb)", "SELECT 'jsonb' AS \"pg_typeof\""),
            ("SELECT pg_typeof(1::oid)", "SELECT 'oid' AS \"pg_typeof\""),
            ("SELECT pg_typeof(1)", "SELECT 'integer' AS \"pg_typeof\""),
            ("SELECT pg_typeof('x')", "SELECT 'unknown' AS \"pg_typeof\""),
            ("SELECT 1 WHERE pg_typeof('x'::text) = 'text'", "SELECT 1 WHERE 'text' = 'text'"),
            ("SELECT pg_typeof(a || b), pg_typeof(1.5) FROM t", "SELECT pg_typeof(a || b), pg_typeof(1.5) FROM t"),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            tell(&mut statement, &known);
            assert_eq!(statement.to_string(), expected);
        }
    }
}
