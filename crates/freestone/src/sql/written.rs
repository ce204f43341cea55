//! Statements as they were written, for the binder.

use std::sync::OnceLock;

use freestone_binder::Named;
use freestone_sql::Span;
use freestone_sql::tree::{
    self, ColumnDefinition, CreateMaterializedView, CreateTable, Explain, Expr, ExprKind, Limit, Listing, Literal,
    LockRows, Name, ObjectName, QueryBody, Show, StatementKind, Table, TableElement, TableKind, With, WithBody,
    WithPart, Write,
};
use freestone_sql::{ParameterNumbers, SyntaxError};
use freestone_store::design::option_name;

use crate::error::{Error, ErrorKind, Result};
use crate::sql::command::Command;
use crate::sql::copied_rows;
use crate::sql::names;
use crate::sql::statement::literal;
use crate::sql::trees::part_of_table;

const NO_QUERY: &str = "a statement without a query";

/// The name of the query of CREATE TABLE AS with names of columns.
const NAMED: &str = "__named";

/// The option that says when a materialized view is computed.
pub(crate) const REFRESH: &str = "refresh";

/// The rows of SHOW FUNCTIONS.
const FUNCTIONS: &str = "SELECT DISTINCT routine_name AS function_name, function_type FROM information_schema.routines \
                         ORDER BY 1, 2";

/// The beginning of the names of rows that statements within WITH return.
pub(crate) const ROWS: &str = "freestone$with:";

/// The text of a statement, what it does, and its query: the statement itself, or that whose rows it explains, stores or
/// copies. It is read when it is first asked for.
#[derive(Debug)]
pub(crate) struct Written {
    text: String,
    parsed: OnceLock<std::result::Result<Parsed, Box<SyntaxError>>>,
    numbers: OnceLock<ParameterNumbers>,
}

/// A statement that was read.
#[derive(Debug)]
struct Parsed {
    /// What it does; what a part of another statement does is not known.
    command: Result<Command>,
    read: Read,
}

/// The query of CREATE TABLE AS, or the form for which there is none.
type RowsOfTable = std::result::Result<Box<tree::Query>, &'static str>;

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
    /// A definition, with the query of CREATE TABLE AS if that is not the one in the definition.
    Define(Box<StatementKind>, Option<RowsOfTable>),
    /// Another one, by its form.
    Other(&'static str),
}

impl Written {
    /// The query of a statement's text.
    pub fn new(text: &str) -> Written {
        Written { text: text.to_owned(), parsed: OnceLock::new(), numbers: OnceLock::new() }
    }

    /// A part of this statement.
    fn part(&self, read: Read) -> Written {
        let numbers = OnceLock::from(self.numbers().clone());
        let unknown = Error::new(ErrorKind::Internal, "internal error: a part of a statement is none");
        let parsed = Parsed { command: Err(unknown), read };
        Written { text: self.text.clone(), parsed: OnceLock::from(Ok(parsed)), numbers }
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

    /// The query and its text.
    ///
    /// # Errors
    /// The statement has none, or cannot be read.
    pub fn query(&self) -> Result<(&tree::Query, &str)> {
        match self.read() {
            Ok(Read::Query { query, text, .. }) => Ok((&**query, text.as_deref().unwrap_or(&self.text))),
            Ok(Read::Define(_, Some(Ok(query)))) => Ok((&**query, &self.text)),
            Ok(Read::Define(_, Some(Err(form)))) | Ok(Read::Other(form)) => Err(without(form)),
            Ok(Read::Define(definition, None)) => {
                query_of(definition).map(|query| (query, &*self.text)).ok_or_else(|| without(NO_QUERY))
            }
            Ok(Read::Write(_) | Read::Lock(_)) => Err(without(NO_QUERY)),
            Err(error) => Err(Error::of_syntax(error, &self.text, 1, 1)),
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

    /// The tables whose rows the statement changes or locks, itself or in its WITH.
    pub fn changed_tables(&self) -> Vec<&ObjectName> {
        let (with, own) = match self.read() {
            Ok(Read::Query { query, .. }) => (query.with.as_ref(), None),
            Ok(Read::Write(write)) => (write.with(), Some(write.table())),
            Ok(Read::Lock(lock)) => (None, locked_table(lock)),
            _ => (None, None),
        };
        let within = with.iter().flat_map(|with| &with.parts).filter_map(|part| match &part.body {
            WithBody::Write(write) => Some(write.table()),
            WithBody::Query(_) => None,
        });
        within.chain(own).collect()
    }

    /// The query of the rows of a definition that makes a table.
    pub fn rows_of_definition(&self) -> Option<&tree::Query> {
        let is_table = matches!(self.read(), Ok(Read::Define(definition, _)) if matches!(**definition, StatementKind::CreateTable(_)));
        if is_table { self.query().ok().map(|(query, _)| query) } else { None }
    }

    /// The definition, if the statement is one or explains one.
    ///
    /// # Errors
    /// The text is no statement of the dialect.
    pub fn definition(&self) -> std::result::Result<Option<&StatementKind>, &SyntaxError> {
        Ok(match self.read()? {
            Read::Define(definition, _) => Some(definition),
            _ => None,
        })
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
    /// The statement has no such WITH, or a query in it reads a table which a later part changes.
    pub fn parts_of_with(&self) -> Result<(Vec<PartOfWith<'_>>, Written)> {
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
            check_queries(&before, write.table())?;
            let own = write.with();
            // Its own names come before those around it.
            let is_free =
                |outer: &&WithPart| !own.is_some_and(|own| own.parts.iter().any(|own| own.name == outer.name));
            let all = before.iter().filter(is_free).chain(own.iter().flat_map(|own| &own.parts)).cloned().collect();
            let recursive = with.recursive || own.is_some_and(|own| own.recursive);
            let written = self.part(Read::Write(Box::new(with_other(write, parts_with(recursive, all)))));
            parts.push(PartOfWith { name: &part.name.text, columns: &part.columns, written });
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

    /// What the statement does.
    ///
    /// # Errors
    /// It cannot be read; or else a name, an option or a value of it is none.
    pub fn command(&self) -> std::result::Result<Result<Command>, &SyntaxError> {
        self.parsed().map(|parsed| parsed.command.clone())
    }

    fn read(&self) -> std::result::Result<&Read, &SyntaxError> {
        self.parsed().map(|parsed| &parsed.read)
    }

    fn parsed(&self) -> std::result::Result<&Parsed, &SyntaxError> {
        let parsed = || -> std::result::Result<Parsed, Box<SyntaxError>> {
            let statement = freestone_sql::parse_statement(&self.text).map_err(Box::new)?;
            let command = Command::of(&statement, &self.text);
            Ok(Parsed { command, read: read_of(statement) })
        };
        self.parsed.get_or_init(parsed).as_ref().map_err(|error| &**error)
    }
}

/// The error of a statement that has no query, by its form.
fn without(form: &str) -> Error {
    Error::unsupported(format!("{form} is not available here"))
}

/// A statement that writes within WITH.
pub(crate) struct PartOfWith<'w> {
    /// The name of its rows in the statements that follow.
    pub name: &'w str,
    /// The names of its columns, as far as WITH gives them.
    pub columns: &'w [Name],
    pub written: Written,
}

/// Refuses queries of WITH that read a table which a later part changes: whether they see the change would depend on
/// where they are used.
fn check_queries(before: &[WithPart], table: &ObjectName) -> Result<()> {
    let changed = names::kept_name(table)?;
    let is_changed = |named: &Named| match named {
        Named::Table(name) => names::kept_name(name).is_ok_and(|name| name == changed),
        Named::Version(..) | Named::File(..) => false,
    };
    let reads = |part: &&WithPart| match &part.body {
        WithBody::Query(query) => freestone_binder::named_tables(query).iter().any(is_changed),
        WithBody::Write(_) => false,
    };
    let Some(part) = before.iter().find(reads) else { return Ok(()) };
    let name = &part.name;
    Err(Error::unsupported(format!("query {name} of WITH reads table {table}, which a later part of WITH changes"))
        .with_hint("write it behind that part, or in a statement of its own"))
}

/// The table of a query that locks its rows.
fn locked_table(lock: &LockRows) -> Option<&ObjectName> {
    let QueryBody::Select(select) = &lock.query.body else { return None };
    match select.from.as_slice() {
        [Table { kind: TableKind::Named { name, .. }, .. }] => Some(name),
        _ => None,
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
        StatementKind::CreateTable(create) => {
            let rows = rows_of_table(&create);
            return Read::Define(Box::new(StatementKind::CreateTable(create)), rows);
        }
        StatementKind::CreateMaterializedView(create) => {
            let rows = rows_of_table(&table_of_view(&create));
            return Read::Define(Box::new(StatementKind::CreateMaterializedView(create)), rows);
        }
        definition @ (StatementKind::AlterTable(_)
        | StatementKind::CreateView(_)
        | StatementKind::RenameView(_)
        | StatementKind::RefreshView(_)
        | StatementKind::CreateIndex(_)
        | StatementKind::CreateSequence(_)
        | StatementKind::CreateMacro(_)
        | StatementKind::CreateSchema(_)
        | StatementKind::CreateType(_)
        | StatementKind::Drop(_)
        | StatementKind::Comment(_)
        | StatementKind::Truncate(_)) => return Read::Define(Box::new(definition), None),
        StatementKind::CopyTo(copy) => {
            return match copied_rows::query_of(copy) {
                Some((query, text)) => Read::Query { query, text, is_whole: false },
                None => Read::Other(NO_QUERY),
            };
        }
        StatementKind::SetVariable { value, .. } => return query_of_text(format!("SELECT {value}")),
        StatementKind::WhatIf(what_if) => what_if.query,
        kind => return listed_by_text(&kind).map_or(Read::Other(NO_QUERY), query_of_text),
    };
    Read::Query { query, text: None, is_whole }
}

/// The query of a statement that lists what a table of the system has.
fn listed_by_text(kind: &StatementKind) -> Option<String> {
    Some(match kind {
        StatementKind::Show(Show::Databases) => "SELECT database_name FROM duckdb_databases() ORDER BY 1".to_owned(),
        StatementKind::Show(Show::Schemas) => {
            "SELECT schema_name FROM information_schema.schemata ORDER BY 1".to_owned()
        }
        StatementKind::Show(Show::Functions) => FUNCTIONS.to_owned(),
        StatementKind::Pragma(pragma) => match (pragma.name.text.as_str(), pragma.arguments.as_slice()) {
            ("table_info", [table]) => format!("SELECT * FROM pragma_table_info({})", literal(&text_of(table))),
            ("version", []) => "SELECT version()".to_owned(),
            _ => return None,
        },
        _ => return None,
    })
}

/// The name of a table, which may be a text.
fn text_of(name: &Expr) -> String {
    match &name.kind {
        ExprKind::Literal(Literal::Text(text)) => text.clone(),
        _ => name.to_string(),
    }
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

/// The query in a definition.
fn query_of(definition: &StatementKind) -> Option<&tree::Query> {
    match definition {
        StatementKind::CreateView(view) => Some(&view.query),
        StatementKind::CreateMaterializedView(view) => Some(&view.query),
        StatementKind::CreateTable(create) => create.query.as_deref(),
        _ => None,
    }
}

/// The table that has the rows of a materialized view.
pub(crate) fn table_of_view(create: &CreateMaterializedView) -> CreateTable {
    let column = |name: &Name| {
        TableElement::Column(ColumnDefinition {
            name: name.clone(),
            data_type: None,
            constraints: vec![],
            span: name.span,
        })
    };
    let options = create.options.iter().filter(|option| option_name(&option.name.text) != REFRESH);
    CreateTable {
        or_replace: create.or_replace,
        temporary: false,
        if_not_exists: create.if_not_exists,
        name: create.name.clone(),
        elements: create.columns.iter().map(column).collect(),
        options: options.cloned().collect(),
        on_commit: None,
        query: Some(create.query.clone()),
        with_no_data: create.with_no_data,
    }
}

/// The rows of CREATE TABLE AS, whose columns have the names that the statement gives them; none WITH NO DATA. `None` for the
/// rows of its query as they are.
fn rows_of_table(create: &CreateTable) -> Option<RowsOfTable> {
    let query = create.query.as_ref()?;
    let stored: Vec<&ColumnDefinition> = create.elements.iter().filter_map(stored_column).collect();
    let untyped = stored.iter().filter(|column| column.data_type.is_none());
    let columns: Vec<Name> = untyped.map(|column| column.name.clone()).collect();
    // Columns with types are those of the table, whatever the query calls them.
    let has_others =
        columns.len() < stored.len() || create.elements.iter().any(|one| matches!(one, TableElement::Like(_)));
    if !columns.is_empty() && has_others {
        return Some(Err("CREATE TABLE AS with types of some columns"));
    }
    if columns.is_empty() && !create.with_no_data {
        return None;
    }
    let (query, span) = (query.clone(), query.span);
    let name = Name { text: NAMED.to_owned(), quoted: true, span };
    let body = QueryBody::Table(ObjectName { parts: vec![name.clone()], span });
    let part = WithPart { name, columns, key: vec![], materialized: None, body: WithBody::Query(query), span };
    let none = Expr { kind: ExprKind::Literal(Literal::Number("0".to_owned())), span };
    let limit = create.with_no_data.then_some(Limit { count: none, percent: false, with_ties: false });
    let with = Some(With { recursive: false, parts: vec![part] });
    Some(Ok(Box::new(tree::Query { with, body, order_by: None, limit, offset: None, span })))
}

/// The column that an element of CREATE TABLE declares, unless it is a generated one.
fn stored_column(element: &TableElement) -> Option<&ColumnDefinition> {
    match element {
        TableElement::Column(column) if column.generated().is_none() => Some(column),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_query_whose_rows_they_use() {
        let query = |text: &str| Written::new(text).query().expect(text).0.to_string();
        let select = "SELECT 1".to_owned();
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
            ("CREATE TABLE t (a, PRIMARY KEY (a)) AS SELECT 1", "WITH \"__named\" (a) AS (SELECT 1) TABLE \"__named\""),
            (
                "EXPLAIN CREATE TABLE t (a UNIQUE, b AS (a)) AS SELECT 1",
                "WITH \"__named\" (a) AS (SELECT 1) TABLE \"__named\"",
            ),
            ("DESCRIBE t", "SELECT * FROM (DESCRIBE t)"),
            ("SHOW COLUMNS FROM t", "SELECT * FROM (DESCRIBE t)"),
            ("SHOW TABLES", "SELECT * FROM (SHOW TABLES)"),
            ("PRAGMA show_tables", "SELECT * FROM (SHOW TABLES)"),
            ("DESC 'x.csv'", "SELECT * FROM (DESCRIBE 'x.csv')"),
            ("SUMMARIZE FROM t", "SELECT * FROM (SUMMARIZE SELECT * FROM t)"),
            ("CREATE TABLE t AS SELECT 1 WITH NO DATA", "WITH \"__named\" AS (SELECT 1) TABLE \"__named\" LIMIT 0"),
        ] {
            assert_eq!(query(text), rows, "{text}");
        }
        for (text, part) in [
            ("DELETE FROM t", "a statement without a query"),
            ("INSERT INTO t SELECT 1", "a statement without a query"),
            ("SELECT 1 )", "syntax error"),
            ("CREATE TABLE t (a, b INT) AS SELECT 1, 2", "CREATE TABLE AS with types of some columns"),
            ("CREATE TABLE t (a INT)", "a statement without a query"),
        ] {
            let error = Written::new(text).query().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
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
        let written = Written::new(text);
        let (parts, main) = written.parts_of_with().expect("parts");
        let shown = |written: &Written| written.write().expect("a write").to_string();
        let rows = "b AS (SELECT * FROM \"freestone$with:b\" AS \"freestone$with:b\")";
        assert_eq!(
            parts.iter().map(|part| shown(&part.written)).collect::<Vec<_>>(),
            [
                "WITH a AS (SELECT 1) DELETE FROM t RETURNING *".to_owned(),
                format!("WITH a AS (SELECT 1), {rows} UPDATE u SET x = 1"),
            ]
        );
        assert_eq!(shown(&main), format!("WITH a AS (SELECT 1), {rows} INSERT INTO v SELECT * FROM a, b"));
        let written = Written::new("WITH b AS (DELETE FROM t RETURNING *) FROM b");
        let (_, main) = written.parts_of_with().expect("parts");
        assert_eq!(main.query().expect("a query").0.to_string(), format!("WITH {rows} SELECT * FROM b"));
    }
}
