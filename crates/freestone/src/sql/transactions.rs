//! Statements that begin and end transactions.

use super::statement::{Command, Cursor};
use crate::error::{Error, Result};

/// The isolation level of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// All statements read the snapshot of the first statement: REPEATABLE READ.
    #[default]
    Snapshot,
    /// Each statement reads the rows that were committed when it began.
    ReadCommitted,
}

/// The modes that a statement specifies for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionModes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

/// A statement about the transaction of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransactionCommand {
    Begin(TransactionModes),
    /// `SET TRANSACTION`, for the open transaction before its first statement.
    Set(TransactionModes),
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
}

/// Parses BEGIN, START TRANSACTION, COMMIT, END, ROLLBACK, ABORT, SAVEPOINT and RELEASE.
pub(super) fn parse(word: &str, mut rest: Cursor) -> Result<Command> {
    let command = match word {
        "BEGIN" => {
            let _ = rest.skip_word("WORK") || rest.skip_word("TRANSACTION");
            TransactionCommand::Begin(modes(&mut rest)?)
        }
        "START" => {
            if !rest.skip_word("TRANSACTION") {
                return Err(rest.unexpected("START TRANSACTION"));
            }
            TransactionCommand::Begin(modes(&mut rest)?)
        }
        "SAVEPOINT" => TransactionCommand::Savepoint(rest.identifier("SAVEPOINT name")?),
        "RELEASE" => {
            rest.skip_word("SAVEPOINT");
            TransactionCommand::Release(rest.identifier("RELEASE [SAVEPOINT] name")?)
        }
        "COMMIT" | "END" => {
            end(&mut rest)?;
            TransactionCommand::Commit
        }
        _ => {
            end(&mut rest)?;
            if rest.skip_word("TO") {
                rest.skip_word("SAVEPOINT");
                TransactionCommand::RollbackTo(rest.identifier("ROLLBACK TO [SAVEPOINT] name")?)
            } else {
                TransactionCommand::Rollback
            }
        }
    };
    rest.expect_end()?;
    Ok(Command::Transaction(command))
}

/// Parses the rest of SET TRANSACTION.
pub(super) fn parse_set(mut rest: Cursor) -> Result<Command> {
    let modes = modes(&mut rest)?;
    rest.expect_end()?;
    Ok(Command::Transaction(TransactionCommand::Set(modes)))
}

/// Skips the words that may follow COMMIT and ROLLBACK.
fn end(rest: &mut Cursor) -> Result<()> {
    if rest.upper(0) == "PREPARED" {
        return Err(Error::unsupported("transactions in two phases are not available"));
    }
    let _ = rest.skip_word("WORK") || rest.skip_word("TRANSACTION");
    if rest.skip_word("AND") {
        if !rest.skip_word("NO") {
            return Err(Error::unsupported("AND CHAIN is not available").with_hint("BEGIN the next transaction"));
        }
        if !rest.skip_word("CHAIN") {
            return Err(rest.unexpected("AND NO CHAIN"));
        }
    }
    Ok(())
}

fn modes(rest: &mut Cursor) -> Result<TransactionModes> {
    const FORM: &str = "ISOLATION LEVEL …, READ ONLY or READ WRITE";
    let mut modes = TransactionModes::default();
    while !rest.is_empty() {
        if rest.skip_word("ISOLATION") {
            if !rest.skip_word("LEVEL") {
                return Err(rest.unexpected(FORM));
            }
            modes.isolation = Some(level(rest)?);
        } else if rest.skip_word("READ") {
            modes.read_only = Some(match rest.upper(0).as_str() {
                "ONLY" => true,
                "WRITE" => false,
                _ => return Err(rest.unexpected(FORM)),
            });
            rest.advance();
        } else {
            // DEFERRABLE has no effect, because reading never waits.
            rest.skip_word("NOT");
            if !rest.skip_word("DEFERRABLE") {
                return Err(rest.unexpected(FORM));
            }
        }
        rest.skip_comma();
    }
    Ok(modes)
}

fn level(rest: &mut Cursor) -> Result<Isolation> {
    let words = [rest.upper(0), rest.upper(1)];
    let (level, count) = match [words[0].as_str(), words[1].as_str()] {
        ["REPEATABLE", "READ"] => (Isolation::Snapshot, 2),
        ["SNAPSHOT", _] => (Isolation::Snapshot, 1),
        ["READ", "COMMITTED" | "UNCOMMITTED"] => (Isolation::ReadCommitted, 2),
        ["SERIALIZABLE", _] => {
            return Err(Error::unsupported("isolation level SERIALIZABLE is not available").with_hint(
                "the default, REPEATABLE READ, is snapshot isolation: docs/transactions.md says what it allows",
            ));
        }
        _ => return Err(rest.unexpected("REPEATABLE READ, SNAPSHOT, READ COMMITTED or READ UNCOMMITTED")),
    };
    *rest = rest.after(count);
    Ok(level)
}
