//! Names of temporary tables in the statements of a session, and the end of these tables.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use freestone_store::Snapshot;
use tokio::runtime::Handle;

use crate::error::Result;
use crate::session::Session;
use crate::sql::statement::{Command, Statement};
use crate::sql::temp_names::{TempNames, WriteTarget};
use crate::temp_schema::TempSchema;

/// What resolves the names of temporary tables in a statement.
pub(super) struct Temporary {
    temp: TempSchema,
    snapshot: Arc<Snapshot>,
    names_public: bool,
}

impl Temporary {
    fn resolve<T>(&self, work: impl FnOnce(&TempNames) -> T) -> T {
        self.temp.with_names(&self.snapshot, self.names_public, work)
    }
}

/// A statement as a command whose names of temporary tables are those in the catalog, and what it changes.
pub(super) fn resolved(statement: &Statement, temporary: Option<&Temporary>) -> Result<(Command, WriteTarget)> {
    statement.command_with(|command| match temporary {
        Some(temporary) => temporary.resolve(|names| names.resolve(command)),
        None => Ok(WriteTarget::Database),
    })
}

impl Session {
    /// What resolves names of temporary tables, if the statement may contain any.
    pub(super) fn temporary_names(&self, statement: &Statement) -> Result<Option<Temporary>> {
        if !statement.may_name_tables() || !self.temp.is_used() && !statement.may_be_temporary() {
            return Ok(None);
        }
        if statement.creates() {
            self.temp.use_it();
        }
        let (temp, names_public) = (self.temp.clone(), statement.names_public());
        Ok(Some(Temporary { temp, snapshot: self.snapshot()?, names_public }))
    }

    /// Resolves names in a statement that was read before, and returns what it changes.
    pub(super) fn resolved_again(&self, mut sql: ast::Statement) -> Result<(ast::Statement, WriteTarget)> {
        if !self.temp.is_used() {
            return Ok((sql, WriteTarget::Database));
        }
        let temporary = Temporary { temp: self.temp.clone(), snapshot: self.snapshot()?, names_public: false };
        let target = temporary.resolve(|names| names.statement(&mut sql))?;
        Ok((sql, target))
    }

    /// Drops the temporary tables, views and sequences of the session, as DISCARD TEMP does.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn drop_temporary(&self) -> Result<()> {
        if !self.temp.is_used() {
            return Ok(());
        }
        let temp = self.temp.clone();
        self.blocking(move |database| {
            temp.drop_all(database.store())?;
            database.merge_soon();
            Ok(())
        })
        .await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.temp.is_used() {
            return;
        }
        self.end_transaction();
        let (temp, database) = (self.temp.clone(), self.database().clone());
        // What cannot be dropped now is dropped by the next process that writes.
        let work = move || drop(temp.drop_all(database.store()));
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => work(),
        }
    }
}
