//! Transactions.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{Isolation, StatementKind, TransactionModes};

impl Parser<'_> {
    /// A statement behind BEGIN or START.
    pub(super) fn begin(&mut self, word: K) -> Parsed<StatementKind> {
        match word {
            K::START => drop(self.expect(K::TRANSACTION)?),
            _ => drop(self.accept_any(&[K::WORK, K::TRANSACTION])),
        }
        Ok(StatementKind::Begin(self.transaction_modes(false)?))
    }

    /// Modes up to the end of the statement, of which one may be required.
    pub(super) fn transaction_modes(&mut self, required: bool) -> Parsed<TransactionModes> {
        let mut modes = TransactionModes::default();
        if self.is_at_end_of_statement() && !required {
            return Ok(modes);
        }
        loop {
            match self.accept_any(&[K::ISOLATION, K::READ, K::NOT, K::DEFERRABLE]) {
                Some(K::ISOLATION) => {
                    self.expect(K::LEVEL)?;
                    modes.isolation = Some(self.isolation()?);
                }
                Some(K::READ) => modes.read_only = Some(self.expect_any(&[K::ONLY, K::WRITE])? == K::ONLY),
                // DEFERRABLE has no effect, because reading never waits.
                Some(K::NOT) => drop(self.expect(K::DEFERRABLE)?),
                Some(_) => {}
                None => return Err(self.expected_any(&["ISOLATION LEVEL", "READ ONLY", "READ WRITE"])),
            }
            self.accept_op(Op::Comma);
            if self.is_at_end_of_statement() {
                return Ok(modes);
            }
        }
    }

    fn isolation(&mut self) -> Parsed<Isolation> {
        let level = match self.accept_any(&[K::REPEATABLE, K::SNAPSHOT, K::READ]) {
            Some(K::REPEATABLE) => self.expect(K::READ).map(|_| Isolation::RepeatableRead)?,
            Some(K::READ) => match self.expect_any(&[K::COMMITTED, K::UNCOMMITTED])? {
                K::COMMITTED => Isolation::ReadCommitted,
                _ => Isolation::ReadUncommitted,
            },
            Some(_) => Isolation::Snapshot,
            None if self.is(K::SERIALIZABLE) => {
                let hint =
                    "the default, REPEATABLE READ, is snapshot isolation: docs/transactions.md says what it allows";
                return self.refused_here("isolation level SERIALIZABLE", hint);
            }
            None => {
                return Err(self.expected_any(&["REPEATABLE READ", "SNAPSHOT", "READ COMMITTED", "READ UNCOMMITTED"]));
            }
        };
        Ok(level)
    }

    /// A statement behind COMMIT and END, or ROLLBACK and ABORT.
    pub(super) fn end_transaction(&mut self, commits: bool) -> Parsed<StatementKind> {
        if self.is(K::PREPARED) {
            return self.refused_here("a transaction in two phases", "each statement commits on its own");
        }
        self.accept_any(&[K::WORK, K::TRANSACTION]);
        if !commits && self.accept(K::TO) {
            self.accept(K::SAVEPOINT);
            return Ok(StatementKind::RollbackTo(self.name("a savepoint")?));
        }
        let start = self.span();
        if self.accept(K::AND) {
            let chains = !self.accept(K::NO);
            self.expect(K::CHAIN)?;
            if chains {
                return Err(self.refused(self.since(start), "AND CHAIN", "BEGIN the next transaction"));
            }
        }
        Ok(if commits { StatementKind::Commit } else { StatementKind::Rollback })
    }
}
