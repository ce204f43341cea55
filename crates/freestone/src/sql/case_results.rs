//! CASE whose first result is a text in quotes, and another one is not: DataFusion takes the type of the first result until it
//! knows all types, and refuses `CASE WHEN a THEN '2' ELSE i END + 1`. So another result is put before it, in a branch that is
//! never taken.

use datafusion::sql::sqlparser::ast::{CaseWhen, Expr, Value, VisitMut};

use crate::sql::visitor;

/// Results of more characters are not written twice.
const LENGTH_MAX: usize = 200;

pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    visitor::expressions_mut(sql, &mut |expr| {
        let Expr::Case { operand: None, conditions, else_result, .. } = expr else { return };
        let results = || conditions.iter().map(|branch| &branch.result).chain(else_result.iter().map(AsRef::as_ref));
        let is_null = |result: &Expr| matches!(value(result), Some(Value::Null));
        let is_text = |result: &Expr| matches!(value(result), Some(Value::SingleQuotedString(_)));
        if !results().find(|result| !is_null(result)).is_some_and(is_text) {
            return;
        }
        let Some(other) = results().find(|result| !is_null(result) && !is_text(result)).cloned() else { return };
        if other.to_string().len() > LENGTH_MAX || visitor::has_query(&other) {
            return;
        }
        let condition = Expr::Value(Value::Boolean(false).with_empty_span());
        conditions.insert(0, CaseWhen { condition, result: other });
    });
}

fn value(expr: &Expr) -> Option<&Value> {
    match expr {
        Expr::Nested(inner) => value(inner),
        Expr::Value(value) => Some(&value.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::statement::parse_query;

    #[test]
    fn another_result_tells_the_type() {
        for (case, expected) in [
            ("CASE WHEN a THEN '2' ELSE i END", "CASE WHEN false THEN i WHEN a THEN '2' ELSE i END"),
            (
                "CASE WHEN a THEN NULL WHEN b THEN ('2') ELSE 3 END",
                "CASE WHEN false THEN 3 WHEN a THEN NULL WHEN b THEN ('2') ELSE 3 END",
            ),
            ("CASE WHEN a THEN i ELSE '2' END", "CASE WHEN a THEN i ELSE '2' END"),
            ("CASE WHEN a THEN '1' ELSE '2' END", "CASE WHEN a THEN '1' ELSE '2' END"),
            ("CASE WHEN a THEN '1' END", "CASE WHEN a THEN '1' END"),
            ("CASE WHEN a THEN '1' ELSE (SELECT 1 AS x) END", "CASE WHEN a THEN '1' ELSE (SELECT 1 AS x) END"),
        ] {
            let query = parse_query(&format!("SELECT {case} AS c FROM t")).expect(case);
            assert_eq!(query.to_string(), format!("SELECT {expected} AS c FROM t"));
        }
    }
}
