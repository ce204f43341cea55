//! Statements that change rows.

use super::{Expr, JoinCondition, Name, ObjectName, OptionItem, Query, SelectItem, SortKey, Table, With};

/// A statement that can also stand in the WITH of another one.
#[derive(Debug, Clone, PartialEq)]
// It is always in a box.
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum Write {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Merge(Merge),
}

impl Write {
    /// The table whose rows it changes.
    pub fn table(&self) -> &ObjectName {
        match self {
            Write::Insert(insert) => &insert.table,
            Write::Update(update) => &update.table,
            Write::Delete(delete) => &delete.table,
            Write::Merge(merge) => &merge.table,
        }
    }

    /// Its queries with names.
    pub fn with(&self) -> Option<&With> {
        match self {
            Write::Insert(insert) => insert.with.as_ref(),
            Write::Update(update) => update.with.as_ref(),
            Write::Delete(delete) => delete.with.as_ref(),
            Write::Merge(merge) => merge.with.as_ref(),
        }
    }
}

/// `INSERT INTO …`
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Queries with names.
    pub with: Option<With>,
    /// The table.
    pub table: ObjectName,
    /// Its name here.
    pub alias: Option<Name>,
    /// The columns; all without them.
    pub columns: Vec<Name>,
    /// Whether columns are matched by their names.
    pub by_name: bool,
    /// OVERRIDING SYSTEM VALUE (true) or USER VALUE (false).
    pub overriding_system: Option<bool>,
    /// The rows; one of defaults without them.
    pub rows: Option<Box<Query>>,
    /// What happens to rows whose key exists.
    pub on_conflict: Option<OnConflict>,
    /// What is returned.
    pub returning: Vec<SelectItem>,
}

/// What happens to rows whose key exists.
#[derive(Debug, Clone, PartialEq)]
pub enum OnConflict {
    /// `INSERT OR IGNORE`
    Ignore,
    /// `INSERT OR REPLACE`
    Replace,
    /// `ON CONFLICT [key] DO NOTHING`
    Nothing(Option<ConflictKey>),
    /// `ON CONFLICT [key] DO UPDATE SET …`
    Update {
        /// The key.
        key: Option<ConflictKey>,
        /// The changes.
        set: Vec<Assignment>,
        /// The condition of rows that are changed.
        condition: Option<Expr>,
    },
}

/// The key of a conflict.
#[derive(Debug, Clone, PartialEq)]
pub enum ConflictKey {
    /// `(columns)`
    Columns(Vec<Name>),
    /// `ON CONSTRAINT name`
    Constraint(Name),
}

/// `a = value`, or `(a, b) = row`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The columns.
    pub columns: Vec<Name>,
    /// Whether the columns are in parentheses, so that the value is a row.
    pub is_row: bool,
    /// The value.
    pub value: Expr,
}

/// `UPDATE …`
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Queries with names.
    pub with: Option<With>,
    /// The table.
    pub table: ObjectName,
    /// Its name here.
    pub alias: Option<Name>,
    /// The changes; one at least.
    pub set: Vec<Assignment>,
    /// Other tables.
    pub from: Vec<Table>,
    /// The condition of rows that are changed.
    pub condition: Option<Expr>,
    /// What is returned.
    pub returning: Vec<SelectItem>,
}

/// `DELETE FROM …`
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Queries with names.
    pub with: Option<With>,
    /// The table.
    pub table: ObjectName,
    /// Its name here.
    pub alias: Option<Name>,
    /// Other tables.
    pub using: Vec<Table>,
    /// The condition of rows that are deleted.
    pub condition: Option<Expr>,
    /// What is returned.
    pub returning: Vec<SelectItem>,
}

/// `MERGE INTO …`
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// Queries with names.
    pub with: Option<With>,
    /// The table.
    pub table: ObjectName,
    /// Its name here.
    pub alias: Option<Name>,
    /// The other rows.
    pub source: Table,
    /// Which rows belong together: ON or USING.
    pub condition: JoinCondition,
    /// What happens to rows; one at least.
    pub clauses: Vec<MergeClause>,
    /// What is returned.
    pub returning: Vec<SelectItem>,
}

/// `WHEN … THEN …`
#[derive(Debug, Clone, PartialEq)]
pub struct MergeClause {
    /// The rows.
    pub matched: Matched,
    /// A further condition.
    pub condition: Option<Expr>,
    /// What happens to them.
    pub action: MergeAction,
}

/// The rows of a MERGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matched {
    /// `MATCHED`
    Matched,
    /// `NOT MATCHED [BY TARGET]`
    NotByTarget,
    /// `NOT MATCHED BY SOURCE`
    NotBySource,
}

/// What a MERGE does with rows.
#[derive(Debug, Clone, PartialEq)]
pub enum MergeAction {
    /// `DO NOTHING`
    Nothing,
    /// `DELETE`
    Delete,
    /// `UPDATE SET …`
    Update(Vec<Assignment>),
    /// `INSERT (columns) VALUES (…)`
    Insert {
        /// The columns; all without them.
        columns: Vec<Name>,
        /// The values; all DEFAULT without them.
        values: Vec<Expr>,
    },
    /// `UPDATE SET *` or `UPDATE BY NAME`: all columns of the source.
    UpdateAll(MergeColumns),
    /// `INSERT *` or `INSERT BY NAME`: all columns of the source.
    InsertAll(MergeColumns),
    /// `ERROR [message]`
    Error(Option<Expr>),
}

/// How the columns of the source of a MERGE and those of its table belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeColumns {
    /// In their order.
    ByPosition,
    /// Those of the same name.
    ByName,
}

/// `COPY … FROM …`
#[derive(Debug, Clone, PartialEq)]
pub struct CopyFrom {
    /// The table.
    pub table: ObjectName,
    /// The columns; all without them.
    pub columns: Vec<Name>,
    /// The name of the file; what the client sends without it.
    pub path: Option<String>,
    /// How it is read.
    pub options: Vec<OptionItem>,
}

/// `COPY … TO …`
#[derive(Debug, Clone, PartialEq)]
pub struct CopyTo {
    /// The rows.
    pub source: CopySource,
    /// Where they go.
    pub target: CopyTarget,
    /// How they are written.
    pub options: Vec<OptionItem>,
    /// The order of the rows in each file: the option ORDER_BY.
    pub order: Vec<SortKey>,
}

/// Where the rows of a COPY go.
#[derive(Debug, Clone, PartialEq)]
pub enum CopyTarget {
    /// To the client: STDOUT.
    Client,
    /// To a file of this name.
    File(String),
    /// To a file whose name is computed: `(getvariable('file'))`.
    Computed(Box<Expr>),
}

/// The rows of a COPY to a file.
#[derive(Debug, Clone, PartialEq)]
pub enum CopySource {
    /// A table, with some of its columns or all.
    Table(ObjectName, Vec<Name>),
    /// `(SELECT …)`
    Query(Box<Query>),
}

/// `TRUNCATE t`
#[derive(Debug, Clone, PartialEq)]
pub struct Truncate {
    /// Whether tables that do not exist are no error.
    pub if_exists: bool,
    /// The tables; one at least.
    pub tables: Vec<ObjectName>,
    /// Whether identity columns begin again.
    pub restart_identity: bool,
}
