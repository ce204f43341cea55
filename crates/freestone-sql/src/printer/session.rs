//! Statements, and those about the session, as SQL.

use std::fmt::{Display, Formatter, Result};

use super::{Clause, Listed, Quoted, commas, objects, when};
use crate::tree::*;

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match &self.kind {
            StatementKind::Query(query) => query.fmt(f),
            StatementKind::LockRows(lock) => lock.fmt(f),
            StatementKind::Write(write) => write.fmt(f),
            StatementKind::CopyFrom(copy) => copy.fmt(f),
            StatementKind::CopyTo(copy) => copy.fmt(f),
            StatementKind::Truncate(truncate) => truncate.fmt(f),
            StatementKind::CreateTable(create) => create.fmt(f),
            StatementKind::AlterTable(alter) => alter.fmt(f),
            StatementKind::CreateView(create) => create.fmt(f),
            StatementKind::RenameView(rename) => rename.fmt(f),
            StatementKind::CreateMaterializedView(create) => create.fmt(f),
            StatementKind::RefreshView(refresh) => refresh.fmt(f),
            StatementKind::CreateIndex(create) => create.fmt(f),
            StatementKind::CreateSequence(create) => create.fmt(f),
            StatementKind::CreateMacro(create) => create.fmt(f),
            StatementKind::CreateSchema(create) => create.fmt(f),
            StatementKind::CreateType(create) => create.fmt(f),
            StatementKind::Drop(drop) => drop.fmt(f),
            StatementKind::Comment(comment) => comment.fmt(f),
            StatementKind::Explain(explain) => explain.fmt(f),
            StatementKind::Prepare(prepare) => prepare.fmt(f),
            StatementKind::Execute(execute) => execute.fmt(f),
            StatementKind::Pragma(pragma) => pragma.fmt(f),
            StatementKind::Set(set) => set.fmt(f),
            StatementKind::Show(show) => show.fmt(f),
            StatementKind::DeclareCursor(declare) => declare.fmt(f),
            StatementKind::FetchCursor(fetch) => fetch.fmt(f),
            StatementKind::Advise(advise) => advise.fmt(f),
            StatementKind::WhatIf(what_if) => what_if.fmt(f),
            kind => short(f, kind),
        }
    }
}

/// Statements of a few words.
fn short(f: &mut Formatter, kind: &StatementKind) -> Result {
    match kind {
        StatementKind::Begin(modes) => write!(f, "BEGIN{modes}"),
        StatementKind::SetTransaction(modes) => write!(f, "SET TRANSACTION{modes}"),
        StatementKind::SetSessionModes(modes) => write!(f, "SET SESSION CHARACTERISTICS AS TRANSACTION{modes}"),
        StatementKind::Commit => f.write_str("COMMIT"),
        StatementKind::Rollback => f.write_str("ROLLBACK"),
        StatementKind::Savepoint(name) => write!(f, "SAVEPOINT {name}"),
        StatementKind::Release(name) => write!(f, "RELEASE SAVEPOINT {name}"),
        StatementKind::RollbackTo(name) => write!(f, "ROLLBACK TO SAVEPOINT {name}"),
        StatementKind::Reset(None) => f.write_str("RESET ALL"),
        StatementKind::Reset(Some(name)) => write!(f, "RESET {name}"),
        StatementKind::SetVariable { name, value } => write!(f, "SET VARIABLE {name} = {value}"),
        StatementKind::ResetVariable(name) => write!(f, "RESET VARIABLE {name}"),
        StatementKind::Use(schema) => write!(f, "USE {schema}"),
        StatementKind::DiscardAll => f.write_str("DISCARD ALL"),
        StatementKind::DiscardTemporary => f.write_str("DISCARD TEMP"),
        StatementKind::Describe(what) => write!(f, "DESCRIBE {what}"),
        StatementKind::Summarize(what) => write!(f, "SUMMARIZE {what}"),
        StatementKind::Deallocate(name) => write!(f, "DEALLOCATE{}", all_or(name)),
        StatementKind::CloseCursor(name) => write!(f, "CLOSE{}", all_or(name)),
        kind => objects::maintenance(f, kind),
    }
}

/// A name, or ALL.
fn all_or(name: &Option<Name>) -> String {
    name.as_ref().map_or_else(|| " ALL".to_owned(), |name| format!(" {name}"))
}

impl Display for TransactionModes {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(match self.isolation {
            None => "",
            Some(Isolation::RepeatableRead) => " ISOLATION LEVEL REPEATABLE READ",
            Some(Isolation::Snapshot) => " ISOLATION LEVEL SNAPSHOT",
            Some(Isolation::ReadCommitted) => " ISOLATION LEVEL READ COMMITTED",
            Some(Isolation::ReadUncommitted) => " ISOLATION LEVEL READ UNCOMMITTED",
        })?;
        f.write_str(when(self.isolation.is_some() && self.read_only.is_some(), ","))?;
        f.write_str(match self.read_only {
            None => "",
            Some(true) => " READ ONLY",
            Some(false) => " READ WRITE",
        })
    }
}

impl Display for Set {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "SET {}{} = ", when(self.local, "LOCAL "), self.name)?;
        match self.values.as_slice() {
            [] => f.write_str("DEFAULT"),
            values => commas(values).fmt(f),
        }
    }
}

impl Display for Show {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Show::Setting(name) => write!(f, "SHOW {name}"),
            Show::All => f.write_str("SHOW ALL"),
            Show::Tables => f.write_str("SHOW TABLES"),
            Show::AllTables => f.write_str("SHOW ALL TABLES"),
            Show::Databases => f.write_str("SHOW DATABASES"),
            Show::Schemas => f.write_str("SHOW SCHEMAS"),
            Show::Functions => f.write_str("SHOW FUNCTIONS"),
            Show::Create { view, name } => write!(f, "SHOW CREATE {} {name}", if *view { "VIEW" } else { "TABLE" }),
        }
    }
}

impl Display for Described {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Described::Table(name) => name.fmt(f),
            Described::File(path) => Quoted(path).fmt(f),
            Described::Query(query) => query.fmt(f),
        }
    }
}

impl Display for Explain {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (analyze, verbose) = (when(self.analyze, "ANALYZE "), when(self.verbose, "VERBOSE "));
        write!(f, "EXPLAIN {analyze}{verbose}")?;
        if let Some(format) = &self.format {
            write!(f, "FORMAT {format} ")?;
        }
        self.statement.fmt(f)
    }
}

impl Display for Prepare {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "PREPARE {}{} AS {}", self.name, Listed(" ", &self.types), self.statement)
    }
}

impl Display for Execute {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "EXECUTE {}{}", self.name, Listed("", &self.arguments))
    }
}

impl Display for Pragma {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "PRAGMA {}{}", self.name, Listed("", &self.arguments))
    }
}

impl Display for DeclareCursor {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "DECLARE {} CURSOR{} FOR {}", self.name, when(self.hold, " WITH HOLD"), self.query)
    }
}

impl Display for FetchCursor {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let word = if self.moves { "MOVE" } else { "FETCH" };
        match self.count {
            Some(count) => write!(f, "{word} FORWARD {count} FROM {}", self.name),
            None => write!(f, "{word} FORWARD ALL FROM {}", self.name),
        }
    }
}

impl Display for LockRows {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} FOR UPDATE{}", self.query, Clause(" OF ", &self.of))?;
        f.write_str(match self.wait {
            LockWait::Wait => "",
            LockWait::NoWait => " NOWAIT",
            LockWait::SkipLocked => " SKIP LOCKED",
        })
    }
}
