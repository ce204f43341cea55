//! Statements that create, drop and describe objects other than tables.

use super::{Expr, Name, ObjectName, OptionItem, Query, Text, Type};

/// `CREATE VIEW …`. The text of its query is at the query's span.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// Whether a view of this name is replaced.
    pub or_replace: bool,
    /// Whether it belongs to the session.
    pub temporary: bool,
    /// Whether a view that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// The names of its columns.
    pub columns: Vec<Name>,
    /// Its query.
    pub query: Box<Query>,
}

/// `CREATE MATERIALIZED VIEW …`. The text of its query is at the query's span.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMaterializedView {
    /// Whether a materialized view of this name is replaced.
    pub or_replace: bool,
    /// Whether a view that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// The names of its columns.
    pub columns: Vec<Name>,
    /// `WITH (…)`
    pub options: Vec<OptionItem>,
    /// Its query.
    pub query: Box<Query>,
    /// Whether its rows are not computed yet.
    pub with_no_data: bool,
}

/// `REFRESH MATERIALIZED VIEW v`
#[derive(Debug, Clone, PartialEq)]
pub struct RefreshView {
    /// Whether readers go on meanwhile, which they always do.
    pub concurrently: bool,
    /// The view.
    pub name: ObjectName,
    /// Whether its rows are removed.
    pub with_no_data: bool,
}

/// `CREATE [UNIQUE] INDEX …`. The order of its columns and its options have no effect, so they are not kept.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// Whether its columns are a key.
    pub unique: bool,
    /// Whether an index that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: Option<ObjectName>,
    /// The table.
    pub table: ObjectName,
    /// The kind of index.
    pub method: Option<Name>,
    /// Its columns.
    pub columns: Vec<Name>,
}

/// `CREATE SEQUENCE …`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSequence {
    /// Whether it belongs to the session.
    pub temporary: bool,
    /// Whether a sequence that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// Its options.
    pub options: Vec<SequenceOption>,
}

/// An option of a sequence. Numbers may have a sign.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceOption {
    /// `AS type`
    As(Type),
    /// `START [WITH] n`
    Start(Expr),
    /// `INCREMENT [BY] n`
    Increment(Expr),
    /// `MINVALUE n`, or `NO MINVALUE`
    MinValue(Option<Expr>),
    /// `MAXVALUE n`, or `NO MAXVALUE`
    MaxValue(Option<Expr>),
    /// `[NO] CYCLE`
    Cycle(bool),
    /// `CACHE n`
    Cache(Expr),
}

/// `CREATE MACRO …`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMacro {
    /// Whether a macro of this name is replaced.
    pub or_replace: bool,
    /// Its name.
    pub name: ObjectName,
    /// Its parameters.
    pub parameters: Vec<MacroParameter>,
    /// What it stands for.
    pub body: MacroBody,
}

/// A parameter of a macro.
#[derive(Debug, Clone, PartialEq)]
pub struct MacroParameter {
    /// Its name.
    pub name: Name,
    /// Its value if none is given.
    pub default: Option<Expr>,
}

/// What a macro stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum MacroBody {
    /// `AS value`
    Value(Box<Expr>),
    /// `AS TABLE query`
    Table(Box<Query>),
}

/// `CREATE SCHEMA …`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSchema {
    /// Whether a schema that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
}

/// `CREATE TYPE …`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateType {
    /// Whether a type of this name is replaced.
    pub or_replace: bool,
    /// Whether a type that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// What it stands for.
    pub data_type: Type,
}

/// `ALTER VIEW v RENAME TO w`
#[derive(Debug, Clone, PartialEq)]
pub struct RenameView {
    /// Whether it is a materialized one.
    pub materialized: bool,
    /// Whether a view that does not exist is no error.
    pub if_exists: bool,
    /// The view.
    pub name: ObjectName,
    /// Its new name.
    pub to: Name,
}

/// `DROP …`
#[derive(Debug, Clone, PartialEq)]
pub struct Drop {
    /// What is dropped.
    pub kind: ObjectKind,
    /// Whether objects that do not exist are no error.
    pub if_exists: bool,
    /// Their names; one at least.
    pub names: Vec<ObjectName>,
    /// Whether what depends on them is dropped, too.
    pub cascade: bool,
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
    Schema,
    Type,
    Macro,
    TableMacro,
}

/// `COMMENT ON … IS …`
#[derive(Debug, Clone, PartialEq)]
pub struct Comment {
    /// What is described.
    pub on: CommentOn,
    /// Its name; of a column, with the names of its table before it.
    pub name: ObjectName,
    /// The text; none removes it.
    pub text: Option<Text>,
}

/// What a comment describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CommentOn {
    Table,
    View,
    MaterializedView,
    Column,
}
