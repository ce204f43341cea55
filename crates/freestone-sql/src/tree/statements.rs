//! Statements.

use super::*;
use crate::span::Span;

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What it is.
    pub kind: StatementKind,
    /// Where it stands, without the semicolon behind it.
    pub span: Span,
}

/// The forms of statements.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum StatementKind {
    Query(Box<Query>),
    LockRows(LockRows),
    Write(Box<Write>),
    CopyFrom(CopyFrom),
    CopyTo(CopyTo),
    Truncate(Truncate),

    CreateTable(Box<CreateTable>),
    AlterTable(AlterTable),
    CreateView(CreateView),
    RenameView(RenameView),
    CreateMaterializedView(CreateMaterializedView),
    RefreshView(RefreshView),
    CreateIndex(CreateIndex),
    CreateSequence(CreateSequence),
    CreateMacro(CreateMacro),
    CreateSchema(CreateSchema),
    CreateType(CreateType),
    Drop(Drop),
    Comment(Comment),

    Begin(TransactionModes),
    /// `SET TRANSACTION`
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`
    SetSessionModes(TransactionModes),
    Commit,
    Rollback,
    Savepoint(Name),
    Release(Name),
    RollbackTo(Name),

    Set(Set),
    /// One setting, or all.
    Reset(Option<ObjectName>),
    SetVariable {
        name: Name,
        value: Expr,
    },
    ResetVariable(Name),
    Show(Show),
    Use(ObjectName),
    Pragma(Pragma),
    /// `DISCARD ALL`
    DiscardAll,
    /// `DISCARD TEMP`
    DiscardTemporary,

    Describe(Described),
    Summarize(Described),
    Explain(Explain),
    Prepare(Prepare),
    Execute(Execute),
    /// One prepared statement, or all.
    Deallocate(Option<Name>),
    DeclareCursor(DeclareCursor),
    FetchCursor(FetchCursor),
    /// One cursor, or all.
    CloseCursor(Option<Name>),

    /// One table, or all.
    Vacuum(Option<ObjectName>),
    /// Some columns of a table, or all tables.
    Analyze(Option<(ObjectName, Vec<Name>)>),
    /// One table, or all.
    Check(Option<ObjectName>),
    Calibrate,
    Advise(Advise),
    WhatIf(WhatIf),
    Attach(Attach),
    Detach {
        name: Name,
        if_exists: bool,
    },
    CreateSecret(CreateSecret),
    DropSecret {
        name: Name,
        if_exists: bool,
    },
    BackupTo(Text),
    RestoreFrom(Text),
    ExportDatabase {
        folder: Text,
        options: Vec<OptionItem>,
    },
    ImportDatabase(Text),
}

/// `ATTACH 'folder' [AS name] [(options)]`
#[derive(Debug, Clone, PartialEq)]
pub struct Attach {
    /// The folder of the database.
    pub folder: Text,
    /// The name by which its tables are known; that of the folder without it.
    pub name: Option<Name>,
    /// Whether a database that is attached by this name is no error.
    pub if_not_exists: bool,
    /// The options.
    pub options: Vec<OptionItem>,
}

/// `CREATE [OR REPLACE] SECRET [IF NOT EXISTS] [name] (options)`
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSecret {
    /// Whether one of this name is replaced.
    pub or_replace: bool,
    /// Whether one of this name stays, without an error.
    pub if_not_exists: bool,
    /// The name; without it, it is the default one of its type.
    pub name: Option<Name>,
    /// Its type, its scope, and what is secret.
    pub options: Vec<OptionItem>,
}

/// `ADVISE [table] [COPIES n] [BUDGET 'size']`
#[derive(Debug, Clone, PartialEq)]
pub struct Advise {
    /// The table; all without it.
    pub table: Option<ObjectName>,
    /// The maximum number of copies, the table included.
    pub copies: Option<u64>,
    /// The maximum size of a table and its copies.
    pub budget: Option<Text>,
}

/// `WHATIF table DESIGN (options) FOR query`
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The table.
    pub table: ObjectName,
    /// The design.
    pub options: Vec<OptionItem>,
    /// The query.
    pub query: Box<Query>,
}

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It returns rows and changes nothing, or runs what was prepared.
    Query,
    /// It changes rows.
    Write,
    /// It changes tables, views or other objects.
    Definition,
    /// It changes or shows the session.
    Session,
    /// It looks after the database as a whole.
    Maintenance,
}

impl Statement {
    /// What it does.
    pub fn kind(&self) -> Kind {
        use StatementKind::*;
        match &self.kind {
            Query(_) | LockRows(_) | Describe(_) | Summarize(_) | Explain(_) | Pragma(_) | Execute(_) | Advise(_)
            | WhatIf(_) | FetchCursor(_) => Kind::Query,
            Write(_) | CopyFrom(_) | CopyTo(_) | Truncate(_) | RefreshView(_) => Kind::Write,
            CreateTable(_)
            | AlterTable(_)
            | CreateView(_)
            | RenameView(_)
            | CreateMaterializedView(_)
            | CreateIndex(_)
            | CreateSequence(_)
            | CreateMacro(_)
            | CreateSchema(_)
            | CreateType(_)
            | Drop(_)
            | Comment(_) => Kind::Definition,
            Begin(_)
            | SetTransaction(_)
            | SetSessionModes(_)
            | Commit
            | Rollback
            | Savepoint(_)
            | Release(_)
            | RollbackTo(_)
            | Set(_)
            | Reset(_)
            | SetVariable { .. }
            | ResetVariable(_)
            | Show(_)
            | Use(_)
            | Attach(_)
            | Detach { .. }
            | CreateSecret(_)
            | DropSecret { .. }
            | DiscardAll
            | DiscardTemporary
            | Prepare(_)
            | Deallocate(_)
            | DeclareCursor(_)
            | CloseCursor(_) => Kind::Session,
            Vacuum(_)
            | Analyze(_)
            | Check(_)
            | Calibrate
            | BackupTo(_)
            | RestoreFrom(_)
            | ExportDatabase { .. }
            | ImportDatabase(_) => Kind::Maintenance,
        }
    }

    /// Whether it changes the database, or locks rows of it. EXECUTE may also change it, and is not included.
    pub fn writes(&self) -> bool {
        use StatementKind::*;
        match &self.kind {
            Query(query) => query.with.as_ref().is_some_and(With::writes),
            Explain(explain) => explain.analyze && explain.statement.writes(),
            LockRows(_) | Vacuum(_) | RestoreFrom(_) | ImportDatabase(_) => true,
            CopyTo(_) => false,
            _ => matches!(self.kind(), Kind::Write | Kind::Definition),
        }
    }

    /// Whether it is a query that changes nothing.
    pub fn is_query(&self) -> bool {
        matches!(self.kind, StatementKind::Query(_)) && !self.writes()
    }

    /// Whether it ends a transaction or returns to a savepoint. Such statements are accepted after a failed one.
    pub fn ends_transaction(&self) -> bool {
        use StatementKind::*;
        matches!(self.kind, Commit | Rollback | RollbackTo(_))
    }
}

impl With {
    /// Whether a part of it changes the database.
    pub fn writes(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.body, WithBody::Write(_)))
    }
}
