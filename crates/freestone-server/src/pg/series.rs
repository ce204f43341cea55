//! Series in the columns of a SELECT. In PostgreSQL, `SELECT generate_series(1, 3)` has a row per value; in the engine, as in
//! DuckDB, it has one row with a list. So for clients of PostgreSQL, the list is unnested.

use freestone_sql::tree::{
    Argument, Call, CopySource, Expr, ExprKind, Query, Select, Statement, StatementKind, Table, TableKind, WalkMut,
    WithBody, WithPart, Write,
};

use super::names::{keep_name, last, mentions, name_of};

const SERIES: &str = "generate_series";

/// Whether a text may have series.
pub fn is_in(sql: &str) -> bool {
    mentions(sql, &[SERIES])
}

/// Unnests the series in the columns of a statement.
pub fn unnest(statement: &mut Statement) {
    // The engine's own name of the column is an alternative to that of the series.
    let names_columns = !statement.to_string().to_ascii_lowercase().contains("value");
    queries(statement).into_iter().for_each(|query| Unnest { names_columns }.query(query));
}

/// The queries of a statement, without those within them.
pub fn queries(statement: &mut Statement) -> Vec<&mut Query> {
    match &mut statement.kind {
        StatementKind::Query(query) => vec![query],
        StatementKind::LockRows(lock) => vec![&mut lock.query],
        StatementKind::Write(write) => match write.as_mut() {
            Write::Insert(insert) => {
                let parts = insert.with.iter_mut().flat_map(|with| &mut with.parts);
                parts.filter_map(query_of_part).chain(insert.rows.as_deref_mut()).collect()
            }
            Write::Update(_) | Write::Delete(_) | Write::Merge(_) => vec![],
        },
        StatementKind::CreateTable(create) => create.query.as_deref_mut().into_iter().collect(),
        StatementKind::CreateView(create) => vec![&mut create.query],
        StatementKind::CreateMaterializedView(create) => vec![&mut create.query],
        StatementKind::CopyTo(copy) => match &mut copy.source {
            CopySource::Query(query) => vec![query],
            CopySource::Table(..) => vec![],
        },
        StatementKind::Explain(explain) => queries(&mut explain.statement),
        _ => vec![],
    }
}

fn query_of_part(part: &mut WithPart) -> Option<&mut Query> {
    match &mut part.body {
        WithBody::Query(query) => Some(query),
        WithBody::Write(_) => None,
    }
}

struct Unnest {
    /// Whether the other name of a series in FROM is that of its column.
    names_columns: bool,
}

impl WalkMut for Unnest {
    fn select(&mut self, select: &mut Select) {
        for item in &mut select.items {
            let before = name_of(&item.value);
            if unnest_in(&mut item.value) {
                keep_name(item, &before);
            }
        }
        select.walk_mut(self);
    }

    fn table(&mut self, table: &mut Table) {
        if let (TableKind::Call { call, ordinality: false, .. }, Some(alias)) = (&table.kind, &mut table.alias)
            && self.names_columns
            && is_series(call)
            && alias.columns.is_empty()
        {
            alias.columns.push(alias.name.clone());
        }
        table.walk_mut(self);
    }
}

/// Unnests the series of an expression, and says whether it has any. Those among the arguments of a function are lists.
fn unnest_in(expr: &mut Expr) -> bool {
    match &mut expr.kind {
        ExprKind::Call(call) if is_series(call) => {
            let list = Expr { kind: ExprKind::Call(call.clone()), span: call.name.span };
            call.name.parts.truncate(1);
            call.name.parts.iter_mut().for_each(|part| part.text = "unnest".to_owned());
            call.arguments = vec![Argument { name: None, value: list }];
            true
        }
        ExprKind::Call(_)
        | ExprKind::Special(_)
        | ExprKind::List(_)
        | ExprKind::Struct(_)
        | ExprKind::Map(_)
        | ExprKind::Lambda { .. }
        | ExprKind::Comprehension(_)
        | ExprKind::Subscript { .. }
        | ExprKind::Slice(_) => false,
        _ => {
            let mut found = false;
            expr.parts_mut(&mut |part| found |= unnest_in(part));
            found
        }
    }
}

fn is_series(call: &Call) -> bool {
    let schema = call.name.parts.iter().rev().nth(1);
    last(&call.name) == SERIES && call.receiver.is_none() && schema.is_none_or(|schema| schema.text == "pg_catalog")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_columns_are_rows() {
        for (sql, expected) in [
            ("SELECT generate_series(1, 3)", "SELECT unnest(generate_series(1, 3)) AS \"generate_series\""),
            ("select Generate_Series(1,2)::int4 as bar", "SELECT unnest(generate_series(1, 2))::INT4 AS bar"),
            ("SELECT 'é', generate_series(1, (2)) x, 1", "SELECT 'é', unnest(generate_series(1, (2))) AS x, 1"),
            (
                "SELECT pg_catalog.generate_series(1, 3)::int",
                "SELECT unnest(pg_catalog.generate_series(1, 3))::INT AS \"generate_series\"",
            ),
            (
                "INSERT INTO t\nSELECT -generate_series(1, 42) FROM u",
                "INSERT INTO t SELECT -unnest(generate_series(1, 42)) FROM u",
            ),
            (
                "WITH w AS (SELECT generate_series(1, 2)) INSERT INTO t TABLE w",
                "WITH w AS (SELECT unnest(generate_series(1, 2)) AS \"generate_series\") INSERT INTO t TABLE w",
            ),
            (
                "CREATE TABLE t AS SELECT generate_series(1, 2) AS a",
                "CREATE TABLE t AS SELECT unnest(generate_series(1, 2)) AS a",
            ),
            (
                "SELECT * FROM (SELECT generate_series(1, 2)) s",
                "SELECT * FROM (SELECT unnest(generate_series(1, 2)) AS \"generate_series\") AS s",
            ),
            (
                "SELECT extract(year FROM d), generate_series(1, 2) + 1 FROM t",
                "SELECT EXTRACT(YEAR FROM d), unnest(generate_series(1, 2)) + 1 FROM t",
            ),
            ("SELECT a FROM t, generate_series(1, 3) s", "SELECT a FROM t, generate_series(1, 3) AS s(s)"),
            ("SELECT (generate_series(1, 2))", "SELECT (unnest(generate_series(1, 2))) AS \"generate_series\""),
            (
                "SELECT 1 WHERE 1 IN (SELECT generate_series(1, 3))",
                "SELECT 1 WHERE 1 IN (SELECT unnest(generate_series(1, 3)) AS \"generate_series\")",
            ),
        ] {
            assert_eq!(unnested(sql).to_string(), expected, "{sql}");
            assert!(is_in(sql));
        }
        for sql in [
            "SELECT * FROM generate_series(1, 3)",
            "SELECT s.value FROM generate_series(1, 3) s",
            "SELECT list_sum(generate_series(1, 3)), [generate_series(1, 2)]",
            "SELECT 'generate_series(1, 3)', \"generate_series\" FROM t",
            "SELECT generate_series",
            "SELECT other.generate_series(1, 3)",
            "SELECT 1 WHERE 1 IN (generate_series(1, 3))",
        ] {
            assert_eq!(Ok(unnested(sql)), freestone_sql::parse_statement(sql), "{sql}");
        }
        assert!(!is_in("SELECT generate_serie"));
    }

    fn unnested(sql: &str) -> Statement {
        let mut statement = freestone_sql::parse_statement(sql).expect(sql);
        unnest(&mut statement);
        statement
    }
}
