//! Statements that begin and end transactions.

use freestone_sql::tree;

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

impl From<tree::TransactionModes> for TransactionModes {
    fn from(modes: tree::TransactionModes) -> TransactionModes {
        let isolation = modes.isolation.map(|level| match level {
            tree::Isolation::RepeatableRead | tree::Isolation::Snapshot => Isolation::Snapshot,
            tree::Isolation::ReadCommitted | tree::Isolation::ReadUncommitted => Isolation::ReadCommitted,
        });
        TransactionModes { isolation, read_only: modes.read_only }
    }
}
