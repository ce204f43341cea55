//! Statements as they were written, for the binder.

use std::sync::OnceLock;

use freestone_sql::Span;
use freestone_sql::tree::{
    self, CopySource, CopyTo, CreateTable, Explain, Expr, ExprKind, Insert, Limit, Listing, Literal, Name, ObjectName,
    Pragma, QueryBody, Show, StatementKind, Table, TableElement, TableKind, With, WithBody, WithPart, Write,
};

const NO_QUERY: &str = "a statement without a query";

/// The name of the query of CREATE TABLE AS with names of columns.
const NAMED: &str = "__named";

/// The text of a statement, and its query: the statement itself, or that whose rows it explains, stores or copies. It is read
/// when it is first asked for.
#[derive(Debug)]
pub(crate) struct Written {
    text: String,
    read: OnceLock<std::result::Result<Read, &'static str>>,
}

/// The query of a statement.
#[derive(Debug)]
struct Read {
    query: Box<tree::Query>,
    /// Its text, if that is no part of the statement's.
    text: Option<String>,
    /// Whether the statement is this query and nothing else.
    is_whole: bool,
}

impl Written {
    /// The query of a statement's text.
    pub fn new(text: &str) -> Written {
        Written { text: text.to_owned(), read: OnceLock::new() }
    }

    /// The query and its text, or the form for which the statement has none.
    pub fn query(&self) -> std::result::Result<(&tree::Query, &str), &'static str> {
        self.read().map(|read| (&*read.query, read.text.as_deref().unwrap_or(&self.text)))
    }

    /// The query, if the statement is one and nothing else.
    pub fn whole_query(&self) -> Option<&tree::Query> {
        self.read().ok().filter(|read| read.is_whole).map(|read| &*read.query)
    }

    fn read(&self) -> std::result::Result<&Read, &'static str> {
        let read = || match freestone_sql::parse_statement(&self.text) {
            Ok(statement) => {
                let is_whole = !statement.writes() && is_listing_or_query(&statement.kind);
                query_of(statement).map(|(query, text)| Read { query, text, is_whole })
            }
            Err(_) => Err("a statement of another grammar"),
        };
        self.read.get_or_init(read).as_ref().map_err(|form| *form)
    }
}

/// The query of a statement, and its text if that is another one.
fn query_of(statement: tree::Statement) -> std::result::Result<(Box<tree::Query>, Option<String>), &'static str> {
    let written = match statement.kind {
        StatementKind::Query(query) => Ok(query),
        StatementKind::Explain(Explain { analyze: false, statement, .. }) if !statement.is_query() => {
            Err("EXPLAIN of a statement that writes")
        }
        StatementKind::Explain(explain) => return query_of(*explain.statement),
        StatementKind::Prepare(prepare) => return query_of(*prepare.statement),
        StatementKind::Describe(described) => Ok(rows_of(Listing::Describe(described))),
        StatementKind::Summarize(described) => Ok(rows_of(Listing::Summarize(described))),
        StatementKind::Show(Show::Tables) => Ok(rows_of(Listing::Tables)),
        StatementKind::Show(Show::AllTables) => Ok(rows_of(Listing::AllTables)),
        StatementKind::Pragma(pragma) if shows_tables(&pragma) => Ok(rows_of(Listing::Tables)),
        StatementKind::CreateView(view) => Ok(view.query),
        StatementKind::CreateTable(create) => rows_of_table(*create),
        StatementKind::CopyTo(CopyTo { source: CopySource::Query(query), .. }) => Ok(query),
        StatementKind::CopyTo(CopyTo { source: CopySource::Table(table, columns), .. }) => {
            let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return query_of_text(format!("SELECT {} FROM {table}", if columns.is_empty() { "*" } else { &columns }));
        }
        StatementKind::SetVariable { value, .. } => return query_of_text(format!("SELECT {value}")),
        StatementKind::WhatIf(what_if) => Ok(what_if.query),
        StatementKind::Write(write) => match *write {
            Write::Insert(Insert { with, rows: Some(rows), .. }) => Ok(behind(with, rows)),
            _ => Err(NO_QUERY),
        },
        _ => Err(NO_QUERY),
    };
    written.map(|query| (query, None))
}

/// Whether a statement is a query, or returns rows as one.
fn is_listing_or_query(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Query(_) | StatementKind::Describe(_) | StatementKind::Summarize(_) => true,
        StatementKind::Show(show) => matches!(show, Show::Tables | Show::AllTables),
        StatementKind::Pragma(pragma) => shows_tables(pragma),
        _ => false,
    }
}

fn shows_tables(pragma: &Pragma) -> bool {
    pragma.name.text == "show_tables" && pragma.arguments.is_empty()
}

/// The rows of DESCRIBE, SUMMARIZE and SHOW TABLES.
fn rows_of(listing: Listing) -> Box<tree::Query> {
    let kind = TableKind::Listing(Box::new(listing));
    Box::new(freestone_binder::all_of(Table { kind, alias: None, sample: None, span: Span::default() }))
}

/// The query that stands for a part of a statement.
fn query_of_text(text: String) -> std::result::Result<(Box<tree::Query>, Option<String>), &'static str> {
    match freestone_sql::parse_statement(&text).map(|statement| statement.kind) {
        Ok(StatementKind::Query(query)) => Ok((query, Some(text))),
        _ => Err(NO_QUERY),
    }
}

/// A query that also sees the queries with names before its statement.
fn behind(before: Option<With>, mut query: Box<tree::Query>) -> Box<tree::Query> {
    if before.is_none() || query.with.is_none() {
        query.with = before.or(query.with);
        return query;
    }
    let span = query.span;
    let body = QueryBody::Nested(query);
    Box::new(tree::Query { with: before, body, order_by: None, limit: None, offset: None, span })
}

/// The rows of CREATE TABLE AS, whose columns have the names that the statement gives them; none WITH NO DATA.
fn rows_of_table(create: CreateTable) -> std::result::Result<Box<tree::Query>, &'static str> {
    let Some(query) = create.query else { return Err(NO_QUERY) };
    let name_of = |element: &TableElement| match element {
        TableElement::Column(column) if column.data_type.is_none() && column.constraints.is_empty() => {
            Some(column.name.clone())
        }
        _ => None,
    };
    let columns: Vec<Name> = create.elements.iter().filter_map(name_of).collect();
    // Columns with types are those of the table, whatever the query calls them.
    if !columns.is_empty() && columns.len() < create.elements.len() {
        return Err("CREATE TABLE AS with names of columns and types");
    }
    if columns.is_empty() && !create.with_no_data {
        return Ok(query);
    }
    let span = query.span;
    let name = Name { text: NAMED.to_owned(), quoted: true, span };
    let body = QueryBody::Table(ObjectName { parts: vec![name.clone()], span });
    let part = WithPart { name, columns, key: vec![], materialized: None, body: WithBody::Query(query), span };
    let none = Expr { kind: ExprKind::Literal(Literal::Number("0".to_owned())), span };
    let limit = create.with_no_data.then_some(Limit { count: none, percent: false, with_ties: false });
    let with = Some(With { recursive: false, parts: vec![part] });
    Ok(Box::new(tree::Query { with, body, order_by: None, limit, offset: None, span }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_query_whose_rows_they_use() {
        let query = |text: &str| Written::new(text).query().map(|(query, _)| query.to_string());
        let select = Ok("SELECT 1".to_owned());
        for text in [
            "SELECT 1",
            "EXPLAIN ANALYZE SELECT 1",
            "PREPARE p AS SELECT 1",
            "CREATE TABLE t AS SELECT 1",
            "CREATE VIEW v AS SELECT 1",
            "COPY (SELECT 1) TO 'x.csv'",
            "INSERT INTO t SELECT 1",
            "EXPLAIN ANALYZE INSERT INTO t SELECT 1",
            "SET VARIABLE x = 1",
            "WHATIF t DESIGN (design = 'row') FOR SELECT 1",
        ] {
            assert_eq!(query(text), select, "{text}");
        }
        for (text, rows) in [
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH a AS (SELECT 1) SELECT * FROM a"),
            (
                "WITH a AS (SELECT 1) INSERT INTO t WITH RECURSIVE b AS (SELECT 2) TABLE b",
                "WITH a AS (SELECT 1) (WITH RECURSIVE b AS (SELECT 2) TABLE b)",
            ),
            ("CREATE TABLE t (a, B) AS SELECT 1, 2", "WITH \"__named\" (a, b) AS (SELECT 1, 2) TABLE \"__named\""),
            ("CREATE TABLE t (a INT) AS SELECT 1", "SELECT 1"),
            ("DESCRIBE t", "SELECT * FROM (DESCRIBE t)"),
            ("SHOW COLUMNS FROM t", "SELECT * FROM (DESCRIBE t)"),
            ("SHOW TABLES", "SELECT * FROM (SHOW TABLES)"),
            ("PRAGMA show_tables", "SELECT * FROM (SHOW TABLES)"),
            ("DESC 'x.csv'", "SELECT * FROM (DESCRIBE 'x.csv')"),
            ("SUMMARIZE FROM t", "SELECT * FROM (SUMMARIZE SELECT * FROM t)"),
            ("CREATE TABLE t AS SELECT 1 WITH NO DATA", "WITH \"__named\" AS (SELECT 1) TABLE \"__named\" LIMIT 0"),
        ] {
            assert_eq!(query(text), Ok(rows.to_owned()), "{text}");
        }
        for (text, form) in [
            ("DELETE FROM t", "a statement without a query"),
            ("EXPLAIN INSERT INTO t SELECT 1", "EXPLAIN of a statement that writes"),
            ("SELECT 1 )", "a statement of another grammar"),
            ("CREATE TABLE t (a, PRIMARY KEY (a)) AS SELECT 1", "CREATE TABLE AS with names of columns and types"),
        ] {
            assert_eq!(query(text), Err(form), "{text}");
        }
    }
}
