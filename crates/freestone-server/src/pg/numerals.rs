//! `NUMERIC` without precision, to which a query casts a number or a text: it keeps the digits as they are written, as in
//! PostgreSQL. The engine's type has ten digits behind the point.

use freestone_sql::tree::{Expr, ExprKind, Literal, Query, Statement, StatementKind, TypeKind, WalkMut};

use super::names::last;
use super::numeric::DIGITS_MAX;

/// Whether a text may have such casts.
pub fn is_in(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    lower.contains("numeric") || lower.contains("decimal")
}

/// Gives the casts the digits of their numbers.
pub fn keep_digits(statement: &mut Statement) {
    let query: &mut Query = match &mut statement.kind {
        StatementKind::Query(query) => query,
        StatementKind::LockRows(lock) => &mut lock.query,
        _ => return,
    };
    Digits.query(query);
}

struct Digits;

impl WalkMut for Digits {
    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        let ExprKind::Cast { operand, data_type, .. } = &mut expr.kind else { return };
        let TypeKind::Named { name, modifiers } = &mut data_type.kind else { return };
        if !modifiers.is_empty() || !matches!(last(name), "numeric" | "decimal" | "dec") {
            return;
        }
        let ExprKind::Literal(Literal::Text(text) | Literal::Number(text)) = &operand.kind else { return };
        if let Some((precision, scale)) = digits(text) {
            *modifiers = vec![precision.to_string(), scale.to_string()];
        }
    }
}

/// The digits of a number, and those of them that are behind its point; `None` if it is written in another way.
fn digits(text: &str) -> Option<(usize, usize)> {
    let text = text.trim();
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let count = whole.trim_start_matches('0').len() + fraction.len();
    let is_number = are_digits && !(whole.is_empty() && fraction.is_empty()) && count <= DIGITS_MAX;
    is_number.then(|| (count.max(1), fraction.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_keep_the_digits_that_are_written() {
        for (sql, expected) in [
            ("SELECT '12.30'::numeric", "SELECT '12.30'::NUMERIC(4,2)"),
            ("SELECT -1::decimal", "SELECT -1::DECIMAL(1,0)"),
            ("SELECT ' -0.001 '::numeric", "SELECT ' -0.001 '::NUMERIC(3,3)"),
            ("SELECT a FROM t WHERE b = CAST(7 AS numeric)", "SELECT a FROM t WHERE b = CAST(7 AS NUMERIC(1,0))"),
            ("SELECT '1.5'::numeric(5, 1)", "SELECT '1.5'::NUMERIC(5,1)"),
            ("SELECT a::numeric FROM t", "SELECT a::NUMERIC FROM t"),
            ("SELECT 'NaN'::numeric", "SELECT 'NaN'::NUMERIC"),
            ("SELECT '1e5'::numeric", "SELECT '1e5'::NUMERIC"),
            ("SELECT '.'::numeric", "SELECT '.'::NUMERIC"),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            keep_digits(&mut statement);
            assert_eq!(statement.to_string(), expected);
        }
    }
}
