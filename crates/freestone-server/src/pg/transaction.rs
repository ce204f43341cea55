//! Transactions. Every statement is one, so BEGIN, COMMIT and ROLLBACK have no effect on data; this is what they answer.
//!
//! Drivers begin transactions unasked, so BEGIN and COMMIT are accepted, with a notice. But nothing is claimed: ROLLBACK is an
//! error where something was written that stays, and a transaction that may only read writes nothing.

use super::connection::Connection;
use super::error::PgError;
use super::reply::Status;
use super::utility::Utility;
use crate::sqlstate;

const DEFAULT: &str = "default_transaction_read_only";
const CURRENT: &str = "transaction_read_only";

/// What is known of the transaction that a client is in.
#[derive(Debug, Default)]
pub struct Transaction {
    /// Statements that wrote something, which stays.
    writes: u64,
    /// Savepoints, and what was written before each.
    savepoints: Vec<(String, u64)>,
    /// Settings that hold until its end, and the values that they had before.
    local: Vec<(String, String)>,
}

impl Connection {
    /// BEGIN, COMMIT and ROLLBACK.
    pub fn transaction(&mut self, utility: &Utility) -> Result<(), PgError> {
        match utility {
            Utility::Begin { read_only } => self.begin_transaction(*read_only),
            Utility::Commit if self.status != Status::Failed => {
                self.end_transaction(true);
                self.replies.complete("COMMIT");
            }
            _ => {
                let writes = self.transaction.writes;
                self.end_transaction(false);
                if writes > 0 {
                    return Err(stays(writes, "the transaction has ended, and what it wrote stays"));
                }
                self.replies.complete("ROLLBACK");
            }
        }
        Ok(())
    }

    fn begin_transaction(&mut self, read_only: Option<bool>) {
        if !self.warned {
            self.warned = true;
            let notice = PgError::notice("each statement commits on its own, also within BEGIN and COMMIT");
            self.replies.notice(&notice.with_hint("ROLLBACK undoes nothing"));
        }
        if self.status == Status::Idle {
            self.status = Status::InTransaction;
        }
        if let Some(read_only) = read_only {
            self.set_read_only(read_only);
        }
        self.replies.complete("BEGIN");
    }

    fn end_transaction(&mut self, commits: bool) {
        self.status = Status::Idle;
        for (name, value) in std::mem::take(&mut self.transaction).local.into_iter().rev() {
            // They had these values.
            if let Ok(changed) = self.settings.set(&name, Some(&value)) {
                self.changed(changed);
            }
        }
        self.cursors.retain(|_, declared| declared.hold && (commits || !declared.pending));
        self.cursors.values_mut().for_each(|declared| declared.pending = false);
        self.set_read_only(self.is_on(DEFAULT));
    }

    /// Drivers set savepoints unasked, before each statement that may fail.
    pub fn savepoint(&mut self, utility: &Utility) -> Result<(), PgError> {
        if self.status == Status::Idle {
            return Err(PgError::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "savepoints are for transactions")
                .with_hint("BEGIN first"));
        }
        match utility {
            Utility::Savepoint(name) => {
                self.transaction.savepoints.push((name.clone(), self.transaction.writes));
                self.replies.complete("SAVEPOINT");
            }
            Utility::Release(name) => {
                let at = self.place_of(name)?;
                self.transaction.savepoints.truncate(at);
                self.replies.complete("RELEASE");
            }
            Utility::RollbackTo(name) => {
                let at = self.place_of(name)?;
                let since = self.transaction.writes - self.transaction.savepoints[at].1;
                if since > 0 {
                    return Err(stays(since, "what was written since the savepoint stays"));
                }
                self.transaction.savepoints.truncate(at + 1);
                self.status = Status::InTransaction;
                self.replies.complete("ROLLBACK");
            }
            _ => {}
        }
        Ok(())
    }

    fn place_of(&self, name: &str) -> Result<usize, PgError> {
        let place = self.transaction.savepoints.iter().rposition(|(known, _)| known == name);
        place.ok_or_else(|| {
            PgError::new(sqlstate::INVALID_SAVEPOINT_SPECIFICATION, format!("there is no savepoint {name}"))
        })
    }

    /// Something was written, and is committed.
    pub fn wrote(&mut self) {
        if self.status != Status::Idle {
            self.transaction.writes += 1;
        }
    }

    /// `SET TRANSACTION`, which is for the current one; alone it does nothing.
    pub fn set_transaction(&mut self, read_only: Option<bool>) {
        if let Some(read_only) = read_only
            && self.status != Status::Idle
        {
            self.set_read_only(read_only);
        }
        self.replies.complete("SET");
    }

    /// `SET LOCAL`: the value goes with the transaction; without one nothing happens, as in PostgreSQL.
    pub fn set_local(&mut self, name: &str, value: Option<&str>) -> Result<(), PgError> {
        let Some((name, before)) = self.settings.show(name).map(|(name, value)| (name, value.to_owned())) else {
            return Err(PgError::unsupported(format!("SET LOCAL {name} is not available"))
                .with_hint("SET name = value holds for the session"));
        };
        if self.status == Status::Idle {
            self.replies.notice(&PgError::notice("SET LOCAL has no effect outside of a transaction"));
        } else {
            let changed = self.settings.set(name, value)?;
            self.transaction.local.push((name.to_owned(), before));
            self.changed(changed);
            if Connection::is_read_only_setting(name) {
                self.follow_read_only();
            }
        }
        self.replies.complete("SET");
        Ok(())
    }

    /// Whether a change of this setting is one of what may be written.
    pub fn is_read_only_setting(name: &str) -> bool {
        name.eq_ignore_ascii_case(DEFAULT) || name.eq_ignore_ascii_case(CURRENT)
    }

    /// After a change of settings: they decide what the session may write.
    pub fn follow_read_only(&mut self) {
        let in_transaction = self.status != Status::Idle;
        self.set_read_only(self.is_on(if in_transaction { CURRENT } else { DEFAULT }));
    }

    pub fn check_writable(&self) -> Result<(), PgError> {
        match self.is_on(CURRENT) {
            true => Err(PgError::new(sqlstate::READ_ONLY_SQL_TRANSACTION, "this transaction may only read")
                .with_hint("end it, or SET TRANSACTION READ WRITE")),
            false => Ok(()),
        }
    }

    fn set_read_only(&mut self, read_only: bool) {
        // It takes these values.
        let _ = self.settings.set(CURRENT, Some(if read_only { "on" } else { "off" }));
        self.session.set_read_only(read_only);
    }

    fn is_on(&self, name: &str) -> bool {
        self.settings.show(name).is_some_and(|(_, value)| value == "on")
    }
}

fn stays(writes: u64, what: &str) -> PgError {
    let statements = if writes == 1 { "1 statement wrote".to_owned() } else { format!("{writes} statements wrote") };
    PgError::unsupported(format!("ROLLBACK cannot undo anything: {statements}, and each commits on its own"))
        .with_hint(what.to_owned())
}
