//! Statements as they were written, for the binder.

use std::sync::OnceLock;

use freestone_sql::tree::{self, CopySource, CopyTo, Described, Explain, Insert, StatementKind, Write};

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
    /// Whether the statement is this query and nothing else.
    is_whole: bool,
}

impl Written {
    /// The query of a statement's text.
    pub fn new(text: &str) -> Written {
        Written { text: text.to_owned(), read: OnceLock::new() }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The query, or the form for which the statement has none.
    pub fn query(&self) -> std::result::Result<&tree::Query, &'static str> {
        self.read().map(|read| &*read.query)
    }

    /// The query, if the statement is one and nothing else.
    pub fn whole_query(&self) -> Option<&tree::Query> {
        self.read().ok().filter(|read| read.is_whole).map(|read| &*read.query)
    }

    fn read(&self) -> std::result::Result<&Read, &'static str> {
        let read = || match freestone_sql::parse_statement(&self.text) {
            Ok(statement) => {
                let is_whole = matches!(statement.kind, StatementKind::Query(_));
                query_of(statement).map(|query| Read { query, is_whole })
            }
            Err(_) => Err("a statement of another grammar"),
        };
        self.read.get_or_init(read).as_ref().map_err(|form| *form)
    }
}

/// The query of a statement.
fn query_of(statement: tree::Statement) -> std::result::Result<Box<tree::Query>, &'static str> {
    const NO_QUERY: &str = "a statement without a query";
    match statement.kind {
        StatementKind::Query(query) => Ok(query),
        StatementKind::Explain(Explain { analyze: false, statement, .. }) if !statement.is_query() => {
            Err("EXPLAIN of a statement that writes")
        }
        StatementKind::Explain(explain) => query_of(*explain.statement),
        StatementKind::Prepare(prepare) => query_of(*prepare.statement),
        StatementKind::Describe(Described::Query(query)) | StatementKind::Summarize(Described::Query(query)) => {
            Ok(query)
        }
        StatementKind::CreateView(view) => Ok(view.query),
        StatementKind::CreateTable(create) if create.with_no_data || !create.elements.is_empty() => {
            Err("CREATE TABLE AS with names of columns, or without rows")
        }
        StatementKind::CreateTable(create) => create.query.ok_or(NO_QUERY),
        StatementKind::CopyTo(CopyTo { source: CopySource::Query(query), .. }) => Ok(query),
        StatementKind::Write(write) => match *write {
            Write::Insert(Insert { with: None, rows: Some(rows), .. }) => Ok(rows),
            Write::Insert(Insert { with: Some(_), .. }) => Err("WITH before INSERT"),
            _ => Err(NO_QUERY),
        },
        _ => Err(NO_QUERY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_query_whose_rows_they_use() {
        let query = |text: &str| Written::new(text).query().map(ToString::to_string);
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
            "DESCRIBE SELECT 1",
            "SUMMARIZE SELECT 1",
        ] {
            assert_eq!(query(text), select, "{text}");
        }
        for (text, form) in [
            ("DELETE FROM t", "a statement without a query"),
            ("COPY t TO 'x.csv'", "a statement without a query"),
            ("EXPLAIN INSERT INTO t SELECT 1", "EXPLAIN of a statement that writes"),
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH before INSERT"),
            ("CREATE TABLE t (a) AS SELECT 1", "CREATE TABLE AS with names of columns, or without rows"),
            ("SELECT 1 )", "a statement of another grammar"),
        ] {
            assert_eq!(query(text), Err(form), "{text}");
        }
    }
}
