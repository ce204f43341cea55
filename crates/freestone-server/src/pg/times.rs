//! Functions of times that have the same name in PostgreSQL and in the engine, where DuckDB's answers differ: EXTRACT and
//! `date_part` with fractions of seconds and infinite years, `date_trunc` of a DATE, and years before 1 of `make_date` and others.

use freestone_sql::Span;
use freestone_sql::tree::{
    Argument, Call, Expr, ExprKind, Literal, Name, ObjectName, Select, SpecialCall, Statement, StatementKind, WalkMut,
    Write,
};

use super::names::{last, mentions, walk_named};
use super::series;

/// What stands in calls of the functions, in lower case.
const WORDS: [&str; 5] = ["extract", "date_part", "date_trunc", "make_date", "make_timestamp"];
/// Parts of which the engine's EXTRACT is that of PostgreSQL.
const SAME_PARTS: [&str; 7] = ["day", "dow", "doy", "isodow", "month", "quarter", "week"];

/// Whether a text may have such calls.
pub fn is_in(sql: &str) -> bool {
    mentions(sql, &WORDS)
}

/// Puts the calls of a statement in the engine's words.
pub fn rewrite(statement: &mut Statement) {
    if let StatementKind::Write(write) = &mut statement.kind {
        values_of(write).into_iter().for_each(|value| Rewriter.expr(value));
    }
    series::queries(statement).into_iter().for_each(|query| Rewriter.query(query));
}

/// The expressions of UPDATE and DELETE that stand in no query.
fn values_of(write: &mut Write) -> Vec<&mut Expr> {
    match write {
        Write::Update(update) => {
            let set = update.set.iter_mut().map(|set| &mut set.value);
            set.chain(update.condition.as_mut()).collect()
        }
        Write::Delete(delete) => delete.condition.as_mut().into_iter().collect(),
        Write::Insert(_) | Write::Merge(_) => vec![],
    }
}

struct Rewriter;

impl WalkMut for Rewriter {
    fn select(&mut self, select: &mut Select) {
        walk_named(select, self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        let extract = match &mut expr.kind {
            ExprKind::Special(special) => extract(special),
            ExprKind::Call(call) if call.receiver.is_none() => {
                change(call);
                None
            }
            _ => None,
        };
        if let Some(mut call) = extract {
            call.name.span = expr.span;
            *expr = Expr { kind: ExprKind::Call(Box::new(call)), span: expr.span };
        }
    }
}

/// EXTRACT as a call of the engine's function; `None` where the engine's own is the same.
fn extract(special: &SpecialCall) -> Option<Call> {
    let SpecialCall::Extract { part, value } = special else { return None };
    if SAME_PARTS.contains(&part.to_ascii_lowercase().as_str()) {
        return None;
    }
    // An integer cannot be infinite.
    let is_infinite = value.to_string().to_ascii_lowercase().contains("infinity");
    let name = if is_infinite { "freestone_pg_part" } else { "freestone_pg_extract" };
    let part = Expr { kind: ExprKind::Literal(Literal::Text(part.clone())), span: value.span };
    let arguments = [part, value.clone()].map(|value| Argument { name: None, value });
    Some(Call::of(plain(name), arguments.into()))
}

/// Puts a call in the engine's words.
fn change(call: &mut Call) {
    let schema = call.name.parts.iter().rev().nth(1);
    if schema.is_some_and(|schema| schema.text != "pg_catalog") {
        return;
    }
    let name = last(&call.name).to_ascii_lowercase();
    let is_text = |first: &Argument| matches!(first.value.kind, ExprKind::Literal(Literal::Text(_)));
    let has_part = call.arguments.first().is_some_and(is_text);
    match (name.as_str(), call.arguments.len()) {
        ("date_part", 2) if has_part => call.name = plain("freestone_pg_part"),
        ("date_trunc", 2) => call.name = plain("freestone_pg_trunc"),
        ("make_date", 3) | ("make_timestamp", 6) | ("make_timestamptz", 6 | 7) => {
            if let Some(year) = call.arguments.first_mut().filter(|year| !is_after_christ(&year.value)) {
                let (span, given) = (year.value.span, year.value.clone());
                let counted = Call::of(plain("freestone_pg_year"), vec![Argument { name: None, value: given }]);
                year.value = Expr { kind: ExprKind::Call(Box::new(counted)), span };
            }
        }
        _ => {}
    }
}

/// Whether a year is a number after 0.
fn is_after_christ(year: &Expr) -> bool {
    let ExprKind::Literal(Literal::Number(number)) = &year.kind else { return false };
    number.parse::<i64>().is_ok_and(|number| number > 0)
}

fn plain(name: &str) -> ObjectName {
    let span = Span::default();
    ObjectName { parts: vec![Name { text: name.to_owned(), quoted: false, span }], span }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_those_of_postgresql() {
        for (sql, expected) in [
            ("SELECT extract(second FROM t) FROM a", "SELECT freestone_pg_extract('second', t) AS \"extract\" FROM a"),
            (
                "SELECT extract(year FROM date 'infinity')",
                "SELECT freestone_pg_part('year', DATE 'infinity') AS \"extract\"",
            ),
            ("SELECT extract(day FROM t) FROM a", "SELECT EXTRACT(DAY FROM t) FROM a"),
            (
                "SELECT 1 FROM a WHERE date_part('second', t) > 1",
                "SELECT 1 FROM a WHERE freestone_pg_part('second', t) > 1",
            ),
            ("SELECT date_part(p, t) FROM a", "SELECT date_part(p, t) FROM a"),
            ("SELECT date_trunc('day', d) AS x FROM a", "SELECT freestone_pg_trunc('day', d) AS x FROM a"),
            (
                "SELECT make_date(-44, 3, 15), make_date(44, 3, 15)",
                "SELECT make_date(freestone_pg_year(-44), 3, 15), make_date(44, 3, 15)",
            ),
            (
                "UPDATE a SET b = extract(second FROM t) WHERE date_part('year', t) = 1",
                "UPDATE a SET b = freestone_pg_extract('second', t) WHERE freestone_pg_part('year', t) = 1",
            ),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), expected, "{sql}");
            assert!(is_in(sql));
        }
        assert!(!is_in("SELECT 1"));
    }
}
