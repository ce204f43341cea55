//! Statements as they were written, for the binder.

use std::sync::OnceLock;

use freestone_sql::Span;
use freestone_sql::tree::{
    self, CopySource, CopyTo, CreateTable, Explain, Expr, ExprKind, Limit, Listing, Literal, LockRows, Name,
    ObjectName, QueryBody, Show, StatementKind, Table, TableElement, TableKind, With, WithBody, WithPart, Write,
};
use freestone_sql::{ParameterNumbers, SyntaxError};

use crate::error::{Error, ErrorKind, Result};
use crate::sql::trees::part_of_table;

const NO_QUERY: &str = "a statement without a query";

/// The name of the query of CREATE TABLE AS with names of columns.
const NAMED: &str = "__named";

/// The beginning of the names of rows that statements within WITH return.
pub(crate) const ROWS: &str = "freestone$with:";

/// The text of a statement, and its query: the statement itself, or that whose rows it explains, stores or copies. It is read
/// when it is first asked for.
#[derive(Debug)]
pub(crate) struct Written {
    text: String,
    read: OnceLock<std::result::Result<Read, Box<SyntaxError>>>,
    numbers: OnceLock<ParameterNumbers>,
}

/// What a statement is for the binder.
#[derive(Debug)]
enum Read {
    Query {
        query: Box<tree::Query>,
        /// Its text, if that is no part of the statement's.
        text: Option<String>,
        /// Whether the statement is this query and nothing else.
        is_whole: bool,
    },
    /// A statement that changes rows.
    Write(Box<Write>),
    /// A query that locks its rows.
    Lock(LockRows),
    /// Another one, by its form.
    Other(&'static str),
}

impl Written {
    /// The query of a statement's text.
    pub fn new(text: &str) -> Written {
        Written { text: text.to_owned(), read: OnceLock::new(), numbers: OnceLock::new() }
    }

    /// A part of this statement.
    fn part(&self, read: Read) -> Written {
        let numbers = OnceLock::from(self.numbers().clone());
        Written { text: self.text.clone(), read: OnceLock::from(Ok(read)), numbers }
    }

    /// A query that is made of this statement.
    pub fn with_query(&self, query: Box<tree::Query>) -> Written {
        self.part(Read::Query { query, text: None, is_whole: false })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The numbers of its parameters.
    pub fn numbers(&self) -> &ParameterNumbers {
        self.numbers.get_or_init(|| ParameterNumbers::of_text(&self.text))
    }

    /// The query and its text, or the form for which the statement has none.
    pub fn query(&self) -> std::result::Result<(&tree::Query, &str), &'static str> {
        match self.read() {
            Ok(Read::Query { query, text, .. }) => Ok((&**query, text.as_deref().unwrap_or(&self.text))),
            Ok(Read::Other(form)) => Err(form),
            Ok(Read::Write(_) | Read::Lock(_)) => Err(NO_QUERY),
            Err(_) => Err("a statement of another grammar"),
        }
    }

    /// The query, if the statement is one and nothing else, and does not write.
    pub fn whole_query(&self) -> Option<&tree::Query> {
        match self.read() {
            Ok(Read::Query { query, is_whole: true, .. }) => {
                Some(&**query).filter(|query| !query.with.as_ref().is_some_and(With::writes))
            }
            _ => None,
        }
    }

    /// The statement that changes rows: this one, or that which it explains or prepares.
    ///
    /// # Errors
    /// It is none.
    pub fn write(&self) -> Result<&Write> {
        match self.read() {
            Ok(Read::Write(write)) => Ok(write),
            read => Err(self.unexpected(read)),
        }
    }

    /// The query that locks its rows.
    ///
    /// # Errors
    /// It is none.
    pub fn lock(&self) -> Result<&LockRows> {
        match self.read() {
            Ok(Read::Lock(lock)) => Ok(lock),
            read => Err(self.unexpected(read)),
        }
    }

    fn unexpected(&self, read: std::result::Result<&Read, &SyntaxError>) -> Error {
        match read {
            Err(error) => Error::of_syntax(error, &self.text, 1, 1),
            Ok(_) => Error::new(ErrorKind::Internal, "internal error: the statement was read as another one"),
        }
    }

    /// The statements that write within WITH, in order, and the statement behind it, which is a query if it does not write.
    /// What the parts before a part return is in the WITH of that part: tables whose names begin with [`ROWS`].
    ///
    /// # Errors
    /// The statement has no such WITH.
    pub fn parts_of_with(&self) -> Result<(Vec<Written>, Written)> {
        let read = self.read();
        let with = match read {
            Ok(Read::Query { query, .. }) => query.with.as_ref(),
            Ok(Read::Write(write)) => write.with(),
            _ => None,
        };
        let Some(with) = with else { return Err(self.unexpected(read)) };
        let (mut before, mut parts) = (vec![], vec![]);
        for part in &with.parts {
            let WithBody::Write(write) = &part.body else {
                before.push(part.clone());
                continue;
            };
            let own = write.with();
            // Its own names come before those around it.
            let is_free =
                |outer: &&WithPart| !own.is_some_and(|own| own.parts.iter().any(|own| own.name == outer.name));
            let all = before.iter().filter(is_free).chain(own.iter().flat_map(|own| &own.parts)).cloned().collect();
            let recursive = with.recursive || own.is_some_and(|own| own.recursive);
            parts.push(self.part(Read::Write(Box::new(with_other(write, parts_with(recursive, all))))));
            if has_rows(write) {
                before.push(part_of_table(part, &format!("{ROWS}{}", part.name.text)));
            }
        }
        let with = parts_with(with.recursive, before);
        let main = match read {
            Ok(Read::Query { query, .. }) => {
                let query = Box::new(tree::Query { with, ..(**query).clone() });
                Read::Query { query, text: None, is_whole: false }
            }
            Ok(Read::Write(write)) => Read::Write(Box::new(with_other(write, with))),
            _ => return Err(self.unexpected(read)),
        };
        Ok((parts, self.part(main)))
    }

    fn read(&self) -> std::result::Result<&Read, &SyntaxError> {
        let read = || freestone_sql::parse_statement(&self.text).map(read_of).map_err(Box::new);
        self.read.get_or_init(read).as_ref().map_err(|error| &**error)
    }
}

fn parts_with(recursive: bool, parts: Vec<WithPart>) -> Option<With> {
    (!parts.is_empty()).then_some(With { recursive, parts })
}

/// Whether a statement that writes returns rows.
fn has_rows(write: &Write) -> bool {
    let returning = match write {
        Write::Insert(insert) => &insert.returning,
        Write::Update(update) => &update.returning,
        Write::Delete(delete) => &delete.returning,
        Write::Merge(merge) => &merge.returning,
    };
    !returning.is_empty()
}

/// The statement with another WITH.
fn with_other(write: &Write, with: Option<With>) -> Write {
    let mut write = write.clone();
    match &mut write {
        Write::Insert(insert) => insert.with = with,
        Write::Update(update) => update.with = with,
        Write::Delete(delete) => delete.with = with,
        Write::Merge(merge) => merge.with = with,
    }
    write
}

/// What a statement is for the binder.
fn read_of(statement: tree::Statement) -> Read {
    if let Some(listing) = listing_of(&statement.kind) {
        return Read::Query { query: rows_of(listing), text: None, is_whole: true };
    }
    let is_whole = matches!(statement.kind, StatementKind::Query(_));
    let query = match statement.kind {
        StatementKind::Query(query) => query,
        StatementKind::Write(write) => return Read::Write(write),
        StatementKind::LockRows(lock) => return Read::Lock(lock),
        StatementKind::Explain(Explain { statement, .. }) => return part_of(*statement),
        StatementKind::Prepare(prepare) => return part_of(*prepare.statement),
        StatementKind::CreateView(view) => view.query,
        StatementKind::CreateTable(create) => match rows_of_table(*create) {
            Ok(query) => query,
            Err(form) => return Read::Other(form),
        },
        StatementKind::CopyTo(CopyTo { source: CopySource::Query(query), .. }) => query,
        StatementKind::CopyTo(CopyTo { source: CopySource::Table(table, columns), .. }) => {
            let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return query_of_text(format!("SELECT {} FROM {table}", if columns.is_empty() { "*" } else { &columns }));
        }
        StatementKind::SetVariable { value, .. } => return query_of_text(format!("SELECT {value}")),
        StatementKind::WhatIf(what_if) => what_if.query,
        _ => return Read::Other(NO_QUERY),
    };
    Read::Query { query, text: None, is_whole }
}

/// A statement within another one.
fn part_of(statement: tree::Statement) -> Read {
    match read_of(statement) {
        Read::Query { query, text, .. } => Read::Query { query, text, is_whole: false },
        other => other,
    }
}

/// The listing that a statement asks for.
fn listing_of(kind: &StatementKind) -> Option<Listing> {
    match kind {
        StatementKind::Describe(described) => Some(Listing::Describe(described.clone())),
        StatementKind::Summarize(described) => Some(Listing::Summarize(described.clone())),
        StatementKind::Show(Show::Tables) => Some(Listing::Tables),
        StatementKind::Show(Show::AllTables) => Some(Listing::AllTables),
        StatementKind::Pragma(pragma) if pragma.name.text == "show_tables" && pragma.arguments.is_empty() => {
            Some(Listing::Tables)
        }
        _ => None,
    }
}

/// The rows of DESCRIBE, SUMMARIZE and SHOW TABLES.
fn rows_of(listing: Listing) -> Box<tree::Query> {
    let kind = TableKind::Listing(Box::new(listing));
    Box::new(freestone_binder::all_of(Table { kind, alias: None, sample: None, span: Span::default() }))
}

/// The query that stands for a part of a statement.
fn query_of_text(text: String) -> Read {
    match freestone_sql::parse_statement(&text).map(|statement| statement.kind) {
        Ok(StatementKind::Query(query)) => Read::Query { query, text: Some(text), is_whole: false },
        _ => Read::Other(NO_QUERY),
    }
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
            "SET VARIABLE x = 1",
            "WHATIF t DESIGN (design = 'row') FOR SELECT 1",
        ] {
            assert_eq!(query(text), select, "{text}");
        }
        for (text, rows) in [
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
            ("INSERT INTO t SELECT 1", "a statement without a query"),
            ("SELECT 1 )", "a statement of another grammar"),
            ("CREATE TABLE t (a, PRIMARY KEY (a)) AS SELECT 1", "CREATE TABLE AS with names of columns and types"),
        ] {
            assert_eq!(query(text), Err(form), "{text}");
        }
    }
    #[test]
    fn statements_that_write_are_found_in_others() {
        for text in ["DELETE FROM t", "EXPLAIN ANALYZE DELETE FROM t", "PREPARE p AS DELETE FROM t"] {
            assert_eq!(Written::new(text).write().expect(text).to_string(), "DELETE FROM t");
        }
        assert!(Written::new("SELECT 1").write().is_err());
        assert!(Written::new("DELETE t FROM").write().expect_err("no statement").to_string().contains("syntax error"));
        assert!(Written::new("SELECT * FROM t FOR UPDATE").lock().is_ok());
    }

    #[test]
    fn rows_of_parts_of_with_are_tables_of_the_others() {
        let text = "WITH a AS (SELECT 1), b AS (DELETE FROM t RETURNING *), c AS (UPDATE u SET x = 1) \
                    INSERT INTO v SELECT * FROM a, b";
        let (parts, main) = Written::new(text).parts_of_with().expect("parts");
        let shown = |written: &Written| written.write().expect("a write").to_string();
        let rows = "b AS (SELECT * FROM \"freestone$with:b\" AS \"freestone$with:b\")";
        assert_eq!(
            parts.iter().map(shown).collect::<Vec<_>>(),
            [
                "WITH a AS (SELECT 1) DELETE FROM t RETURNING *".to_owned(),
                format!("WITH a AS (SELECT 1), {rows} UPDATE u SET x = 1"),
            ]
        );
        assert_eq!(shown(&main), format!("WITH a AS (SELECT 1), {rows} INSERT INTO v SELECT * FROM a, b"));
        let (_, main) = Written::new("WITH b AS (DELETE FROM t RETURNING *) FROM b").parts_of_with().expect("parts");
        assert_eq!(main.query().expect("a query").0.to_string(), format!("WITH {rows} SELECT * FROM b"));
    }
}
