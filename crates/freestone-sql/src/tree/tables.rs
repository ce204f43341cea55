//! CREATE TABLE and ALTER TABLE.

use super::{Expr, Name, ObjectName, OptionItem, Query, SequenceOption, Type};
use crate::span::Span;

/// `CREATE TABLE …`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Whether a table of this name is replaced.
    pub or_replace: bool,
    /// Whether it belongs to the session.
    pub temporary: bool,
    /// Whether a table that exists is no error.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// Its columns and constraints.
    pub elements: Vec<TableElement>,
    /// `WITH (…)`
    pub options: Vec<OptionItem>,
    /// What the end of a transaction does.
    pub on_commit: Option<OnCommit>,
    /// Its rows.
    pub query: Option<Box<Query>>,
    /// Whether the rows of the query are left out.
    pub with_no_data: bool,
}

/// What stands in the parentheses of CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum TableElement {
    /// A column.
    Column(ColumnDefinition),
    /// A constraint of the table.
    Constraint(TableConstraint),
    /// `LIKE other`
    Like(ObjectName),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Name,
    /// Its type; that of its query or expression without one.
    pub data_type: Option<Type>,
    /// What holds for it.
    pub constraints: Vec<ColumnConstraint>,
    /// Where it stands.
    pub span: Span,
}

impl ColumnDefinition {
    /// The value from which it is computed, if it is a generated column.
    pub fn generated(&self) -> Option<&Expr> {
        self.constraints.iter().find_map(|constraint| match &constraint.kind {
            ColumnConstraintKind::Generated(value) => Some(&**value),
            _ => None,
        })
    }
}

/// What holds for a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnConstraint {
    /// The name in `CONSTRAINT name`.
    pub name: Option<Name>,
    /// What it is.
    pub kind: ColumnConstraintKind,
    /// Where it stands.
    pub span: Span,
}

/// Constraints, defaults and other properties of columns.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnConstraintKind {
    /// `NOT NULL`
    NotNull,
    /// `NULL`
    Null,
    /// `DEFAULT value`
    Default(Box<Expr>),
    /// `GENERATED ALWAYS AS (value)`
    Generated(Box<Expr>),
    /// `GENERATED … AS IDENTITY`
    Identity(Identity),
    /// `PRIMARY KEY`
    PrimaryKey(Enforced),
    /// `UNIQUE`
    Unique(Enforced),
    /// `CHECK (condition)`
    Check(Box<Expr>, Enforced),
    /// `REFERENCES table (columns)`
    References(References, Enforced),
    /// `COLLATE name`
    Collate(ObjectName),
}

/// ENFORCED (true) or NOT ENFORCED (false).
pub type Enforced = Option<bool>;

/// `GENERATED ALWAYS | BY DEFAULT AS IDENTITY (options)`
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// ALWAYS; BY DEFAULT otherwise.
    pub always: bool,
    /// The options of its sequence.
    pub options: Vec<SequenceOption>,
}

/// `table (columns)` of a foreign key.
#[derive(Debug, Clone, PartialEq)]
pub struct References {
    /// The table.
    pub table: ObjectName,
    /// The columns; its primary key without them.
    pub columns: Vec<Name>,
}

/// A constraint of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableConstraint {
    /// The name in `CONSTRAINT name`.
    pub name: Option<Name>,
    /// What it is.
    pub kind: TableConstraintKind,
    /// Whether it is checked.
    pub enforced: Enforced,
    /// Where it stands.
    pub span: Span,
}

/// Constraints of tables.
#[derive(Debug, Clone, PartialEq)]
pub enum TableConstraintKind {
    /// `PRIMARY KEY (columns)`
    PrimaryKey(Vec<Name>),
    /// `UNIQUE (columns)`
    Unique(Vec<Name>),
    /// `CHECK (condition)`
    Check(Box<Expr>),
    /// `FOREIGN KEY (columns) REFERENCES table (columns)`
    ForeignKey(Vec<Name>, References),
}

/// What the end of a transaction does with a temporary table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OnCommit {
    Drop,
    DeleteRows,
    PreserveRows,
}

/// `ALTER TABLE …`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// Whether a table that does not exist is no error.
    pub if_exists: bool,
    /// The table.
    pub table: ObjectName,
    /// What is changed; one at least.
    pub actions: Vec<AlterAction>,
}

/// A change of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterAction {
    /// What is changed.
    pub kind: AlterKind,
    /// Where it stands.
    pub span: Span,
}

/// Changes of tables.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum AlterKind {
    AddColumn {
        if_not_exists: bool,
        column: ColumnDefinition,
    },
    DropColumn {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    RenameColumn {
        name: Name,
        to: Name,
    },
    /// Of a struct: the path begins with a column.
    AddField {
        if_not_exists: bool,
        path: Vec<Name>,
        data_type: Type,
    },
    DropField {
        if_exists: bool,
        path: Vec<Name>,
    },
    RenameField {
        path: Vec<Name>,
        to: Name,
    },
    RenameTable {
        to: Name,
    },
    SetType {
        column: Name,
        data_type: Type,
        using: Option<Box<Expr>>,
    },
    SetDefault {
        column: Name,
        value: Box<Expr>,
    },
    DropDefault {
        column: Name,
    },
    SetNotNull {
        column: Name,
    },
    DropNotNull {
        column: Name,
    },
    AddIdentity {
        column: Name,
        identity: Identity,
    },
    AddConstraint(TableConstraint),
    DropConstraint {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    RenameConstraint {
        name: Name,
        to: Name,
    },
    SetDesign(Vec<OptionItem>),
    AddCopy {
        name: Name,
        columns: Vec<Name>,
        options: Vec<OptionItem>,
    },
    DropCopy {
        if_exists: bool,
        name: Name,
    },
}
