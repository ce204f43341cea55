//! Names of temporary tables in the statements of a session, and the end of these tables.

use std::sync::Arc;

use freestone_sql::tree::StatementKind;
use freestone_store::Snapshot;
use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;
use crate::sql::command::Command;
use crate::sql::statement::Statement;
use crate::sql::temp_names::{TempNames, WriteTarget};
use crate::sql::written::Written;
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
    let mut command = statement.command()?;
    let target = match temporary {
        Some(temporary) => temporary.resolve(|names| names.resolve(&mut command, &statement.written()))?,
        None => WriteTarget::Database,
    };
    Ok((command, target))
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

    /// What a prepared statement changes.
    pub(super) fn target_of(&self, written: &Written) -> Result<WriteTarget> {
        if !self.temp.is_used() {
            return Ok(WriteTarget::Database);
        }
        let temporary = Temporary { temp: self.temp.clone(), snapshot: self.snapshot()?, names_public: false };
        temporary.resolve(|names| names.target_of(written))
    }

    /// The definition that a statement explains, with the names of temporary tables as in the catalog, and what it changes.
    pub(super) fn resolved_definition(&self, written: &Written) -> Result<(StatementKind, WriteTarget)> {
        let definition = written.definition().map_err(|error| Error::of_syntax(error, written.text(), 1, 1))?;
        let Some(mut definition) = definition.cloned() else {
            return Err(Error::new(ErrorKind::Internal, "internal error: the statement was read as another one"));
        };
        if matches!(&definition, StatementKind::CreateTable(create) if create.temporary) {
            self.temp.use_it();
        }
        let temporary = Temporary { temp: self.temp.clone(), snapshot: self.snapshot()?, names_public: false };
        let target = temporary.resolve(|names| names.definition(&mut definition))?;
        Ok((definition, target))
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
