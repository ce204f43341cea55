//! Statements about the session, its transactions, settings, prepared statements and cursors.

use super::{Argument, Expr, Name, ObjectName, Query, Statement, Type};

/// `SET [LOCAL] name = value`
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Whether it holds until the end of the transaction.
    pub local: bool,
    /// The name. `TIME ZONE` is `time_zone`, and `NAMES` is `client_encoding`.
    pub name: ObjectName,
    /// The values; none for DEFAULT. A word is a column.
    pub values: Vec<Expr>,
}

/// The modes of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionModes {
    /// The isolation level.
    pub isolation: Option<Isolation>,
    /// READ ONLY (true) or READ WRITE (false).
    pub read_only: Option<bool>,
}

/// Isolation levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Isolation {
    RepeatableRead,
    Snapshot,
    ReadCommitted,
    ReadUncommitted,
}

/// What SHOW shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Show {
    /// A setting.
    Setting(ObjectName),
    /// `ALL`: the settings.
    All,
    /// `TABLES`
    Tables,
    /// `ALL TABLES`
    AllTables,
    /// `DATABASES`
    Databases,
    /// `SCHEMAS`
    Schemas,
    /// `FUNCTIONS`
    Functions,
    /// `CREATE TABLE t` or `CREATE VIEW t`
    Create {
        /// Whether it is a view.
        view: bool,
        /// The name.
        name: ObjectName,
    },
}

/// What DESCRIBE and SUMMARIZE describe.
#[derive(Debug, Clone, PartialEq)]
pub enum Described {
    /// A table or view.
    Table(ObjectName),
    /// A file.
    File(String),
    /// The rows of a query.
    Query(Box<Query>),
}

/// `EXPLAIN …`
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    /// Whether the statement is executed.
    pub analyze: bool,
    /// Whether everything is shown.
    pub verbose: bool,
    /// The form of the answer.
    pub format: Option<Name>,
    /// The statement.
    pub statement: Box<Statement>,
}

/// `PREPARE name (types) AS statement`
#[derive(Debug, Clone, PartialEq)]
pub struct Prepare {
    /// The name.
    pub name: Name,
    /// The types of its parameters.
    pub types: Vec<Type>,
    /// The statement.
    pub statement: Box<Statement>,
}

/// `EXECUTE name (values)`
#[derive(Debug, Clone, PartialEq)]
pub struct Execute {
    /// The name.
    pub name: Name,
    /// The values of its parameters.
    pub arguments: Vec<Argument>,
}

/// `PRAGMA name (arguments)`
#[derive(Debug, Clone, PartialEq)]
pub struct Pragma {
    /// The name.
    pub name: Name,
    /// The arguments.
    pub arguments: Vec<Expr>,
}

/// `DECLARE name CURSOR [WITH HOLD] FOR query`
#[derive(Debug, Clone, PartialEq)]
pub struct DeclareCursor {
    /// The name.
    pub name: Name,
    /// Whether it exists beyond its transaction.
    pub hold: bool,
    /// The query.
    pub query: Box<Query>,
}

/// `FETCH count FROM name` and `MOVE count FROM name`
#[derive(Debug, Clone, PartialEq)]
pub struct FetchCursor {
    /// The cursor.
    pub name: Name,
    /// The number of rows; all without it.
    pub count: Option<u64>,
    /// Whether the rows are left out.
    pub moves: bool,
}

/// `SELECT … FOR UPDATE`
#[derive(Debug, Clone, PartialEq)]
pub struct LockRows {
    /// The rows.
    pub query: Box<Query>,
    /// The tables in OF.
    pub of: Vec<Name>,
    /// What happens if a row is locked.
    pub wait: LockWait,
}

/// What happens if a row is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LockWait {
    Wait,
    NoWait,
    SkipLocked,
}
