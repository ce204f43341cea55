//! What statements ask for: actions of the connection, and statements of the engine.

use std::sync::Arc;

use freestone::{Session, Statement};
use freestone_sql::tree;

use crate::execution;
use crate::pg::catalog;
use crate::pg::error::PgError;
use crate::pg::json;
use crate::pg::meanings;
use crate::pg::numerals;
use crate::pg::series;
use crate::pg::times;
use crate::pg::utility::{self, Declare, Utility};
use crate::shared::Shared;

/// The action for a statement.
#[derive(Debug, Clone)]
pub enum Work {
    Empty,
    Utility(Utility),
    Statement(Arc<Statement>),
    /// A cursor, and its query.
    Declare(Declare, Arc<Statement>),
}

impl Work {
    /// Whether it begins or ends a transaction.
    pub fn is_of_transaction(&self) -> bool {
        matches!(self, Work::Empty | Work::Utility(Utility::Begin(_) | Utility::Commit | Utility::Rollback))
    }

    /// Whether it cannot be a part of a transaction.
    pub fn is_alone(&self) -> bool {
        match self {
            Work::Utility(utility) => *utility == Utility::DiscardAll,
            Work::Statement(statement) => statement.is_alone(),
            Work::Empty | Work::Declare(..) => false,
        }
    }

    /// The statement of the engine, where it is one.
    pub fn statement(&self) -> Option<&Statement> {
        match self {
            Work::Statement(statement) => Some(statement),
            _ => None,
        }
    }

    /// Checks that a statement of the engine can be parsed. Others were checked when they were recognized.
    pub fn check_syntax(&self) -> Result<(), PgError> {
        match self {
            Work::Statement(statement) => Ok(statement.check_syntax()?),
            _ => Ok(()),
        }
    }
}

/// The actions for the statements of a text. A long text is parsed on the workers.
pub async fn understand(shared: &Shared, session: &Arc<Session>, sql: &str) -> Result<Vec<Work>, PgError> {
    if sql.len() <= execution::LONG_TEXT_BYTES {
        return understand_here(session, sql);
    }
    let (session, sql) = (session.clone(), sql.to_owned());
    execution::on_blocking(shared, move || understand_here(&session, &sql)).await?
}

fn understand_here(session: &Session, sql: &str) -> Result<Vec<Work>, PgError> {
    let statements = session.parse(sql)?;
    statements.into_iter().map(|statement| understand_one(session, statement)).collect()
}

fn understand_one(session: &Session, statement: Statement) -> Result<Work, PgError> {
    match utility::utility(&statement.text)? {
        Some(Utility::Declare(declare)) => {
            let query = <[Statement; 1]>::try_from(session.parse(&declare.query)?);
            let [query] = query.map_err(|_| PgError::syntax("a cursor is of one query"))?;
            match understand_query(session, query)? {
                Work::Statement(query) if query.is_query()? || locks_rows(&query) => Ok(Work::Declare(declare, query)),
                _ => Err(PgError::syntax("a cursor is of one query").with_hint("write SELECT, VALUES or TABLE")),
            }
        }
        Some(utility) => Ok(Work::Utility(utility)),
        None => understand_query(session, statement),
    }
}

/// Whether a statement is a query that locks its rows: `SELECT … FOR UPDATE`.
fn locks_rows(statement: &Statement) -> bool {
    matches!(
        freestone_sql::parse_statement(&statement.text).map(|parsed| parsed.kind),
        Ok(freestone_sql::tree::StatementKind::LockRows(_))
    )
}

/// The action for a statement of the engine.
fn understand_query(session: &Session, statement: Statement) -> Result<Work, PgError> {
    let Some(rewritten) = rewritten(&statement.text) else {
        return Ok(Work::Statement(Arc::new(statement)));
    };
    match <[Statement; 1]>::try_from(session.parse(&rewritten)?) {
        Ok([rewritten]) => Ok(Work::Statement(Arc::new(rewritten))),
        Err(_) => Ok(Work::Statement(Arc::new(statement))),
    }
}

/// Whether a text may have names that mean other things here, and the change of its statement to what PostgreSQL means.
type Meaning = (fn(&str) -> bool, fn(&mut tree::Statement));

const MEANINGS: [Meaning; 6] = [
    (series::is_in, series::unnest),
    (json::is_in, json::rename),
    (numerals::is_in, numerals::keep_digits),
    (meanings::is_in, meanings::apply),
    (times::is_in, times::rewrite),
    (catalog::is_asked_for, catalog::rewrite),
];

/// A statement of PostgreSQL in the engine's words; `None` if it is in them, or cannot be parsed.
fn rewritten(sql: &str) -> Option<String> {
    let meant: Vec<_> = MEANINGS.iter().filter(|(is_in, _)| is_in(sql)).collect();
    if meant.is_empty() {
        return None;
    }
    let written = freestone_sql::parse_statement(sql).ok()?;
    let mut changed = written.clone();
    for (_, change) in meant {
        change(&mut changed);
    }
    (changed != written).then(|| changed.to_string())
}
