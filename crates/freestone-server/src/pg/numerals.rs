//! `NUMERIC` without precision, to which a query casts a number, a text or a parameter: it keeps the digits as they are
//! written, as in PostgreSQL. The engine's type has ten digits behind the point.

use freestone_sql::tree::{
    Expr, ExprKind, Literal, Parameter, Query, Select, Statement, StatementKind, Type, TypeKind, Walk, WalkMut,
};

use super::names::{last, mentions, walk_named};
use super::numeric::DIGITS_MAX;
use super::types;

/// Whether a text may have such casts.
pub fn is_in(sql: &str) -> bool {
    mentions(sql, &["numeric", "decimal"])
}

/// Gives the casts the digits of their numbers.
pub fn keep_digits(statement: &mut Statement) {
    if let Some(query) = query_of(statement) {
        Digits.query(query);
    }
}

fn query_of(statement: &mut Statement) -> Option<&mut Query> {
    match &mut statement.kind {
        StatementKind::Query(query) => Some(query),
        StatementKind::LockRows(lock) => Some(&mut lock.query),
        _ => None,
    }
}

/// Removes the casts of parameters that are nothing else: as values of the type, they have the digits with which they are
/// sent. `declared` are the OIDs of the parameters. Returns the places of these parameters, from 0.
pub fn keep_digits_of_parameters(statement: &mut Statement, declared: &[u32]) -> Vec<usize> {
    let Some(query) = query_of(statement) else { return vec![] };
    let mut uses = Uses::default();
    uses.query(query);
    let is_open = |at: &usize| {
        let oid = declared.get(*at).copied().unwrap_or(0);
        [0, types::NUMERIC.oid].contains(&oid)
    };
    let count = |places: &[usize], at: usize| places.iter().filter(|other| **other == at).count();
    let is_one = |at: &usize| is_open(at) && count(&uses.cast, *at) == count(&uses.all, *at);
    let places: Vec<usize> = uses.cast.iter().copied().filter(is_one).collect();
    Uncast { places: &places }.query(query);
    places
}

/// The parameters of a query, once for each use.
#[derive(Default)]
struct Uses {
    all: Vec<usize>,
    /// Those that are cast to NUMERIC.
    cast: Vec<usize>,
}

impl Walk for Uses {
    fn expr(&mut self, expr: &Expr) {
        self.all.extend(place(expr));
        if let ExprKind::Cast { operand, data_type, .. } = &expr.kind {
            self.cast.extend(place(operand).filter(|_| is_numeric(data_type)));
        }
        expr.walk(self);
    }
}

struct Uncast<'a> {
    places: &'a [usize],
}

impl WalkMut for Uncast<'_> {
    fn select(&mut self, select: &mut Select) {
        walk_named(select, self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        let ExprKind::Cast { operand, data_type, .. } = &expr.kind else { return };
        if is_numeric(data_type) && place(operand).is_some_and(|at| self.places.contains(&at)) {
            *expr = operand.as_ref().clone();
        }
    }
}

/// The place of a parameter with a number, from 0.
fn place(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Parameter(Parameter::Number(number)) => (*number as usize).checked_sub(1),
        _ => None,
    }
}

/// Whether a type is NUMERIC without precision.
fn is_numeric(data_type: &Type) -> bool {
    match &data_type.kind {
        TypeKind::Named { name, modifiers } => {
            modifiers.is_empty() && matches!(last(name), "numeric" | "decimal" | "dec")
        }
        _ => false,
    }
}

struct Digits;

impl WalkMut for Digits {
    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        let ExprKind::Cast { operand, data_type, .. } = &mut expr.kind else { return };
        if !is_numeric(data_type) {
            return;
        }
        let TypeKind::Named { modifiers, .. } = &mut data_type.kind else { return };
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
    fn parameters_are_cast_by_their_type() {
        for (sql, declared, expected, places) in [
            ("SELECT $1::numeric", vec![], "SELECT $1 AS \"numeric\"", vec![0]),
            ("SELECT $2::decimal + 1, $1::int", vec![0, 1700], "SELECT $2 + 1, $1::INT", vec![1]),
            ("SELECT $1::numeric", vec![23], "SELECT $1::NUMERIC", vec![]),
            ("SELECT $1::numeric, $1::int", vec![], "SELECT $1::NUMERIC, $1::INT", vec![]),
            ("SELECT $1::numeric(5, 1)", vec![], "SELECT $1::NUMERIC(5,1)", vec![]),
            ("SELECT a FROM t WHERE b = $1::numeric", vec![0], "SELECT a FROM t WHERE b = $1", vec![0]),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            assert_eq!(keep_digits_of_parameters(&mut statement, &declared), places, "{sql}");
            assert_eq!(statement.to_string(), expected);
        }
    }

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
