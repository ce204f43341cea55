//! The names of temporary tables in statements. A session's temporary table comes before a table of the database of the
//! same name, so its name gets the schema of the session. Names that WITH defines come before both.

use freestone_sql::tree;

use crate::error::{Error, ErrorKind, Result};
use crate::sql::command::{AdviseRequest, Command, CopyFrom, WhatIfRequest};
use crate::sql::names::{CATALOG, name_in};
use crate::sql::written::Written;

/// DuckDB's name of the schema.
const TEMP: &str = "temp";

/// What is known of temporary names.
pub(crate) struct TempNames<'a> {
    /// The schema of the session in the catalog, and its name in SQL.
    pub schema: &'a str,
    pub schema_in_sql: &'a str,
    /// Whether a schema is that of a session.
    pub is_temporary: &'a dyn Fn(&str) -> bool,
    /// Whether the session has a temporary table, view or sequence of this name.
    pub has: &'a dyn Fn(&str) -> bool,
    /// Whether the database has a schema of this name.
    pub has_schema: &'a dyn Fn(&str) -> bool,
    /// Whether the statement names the database's own schema. Where names are texts, they are without it.
    pub names_public: bool,
}

/// What a statement changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WriteTarget {
    /// The database.
    #[default]
    Database,
    /// Rows of a temporary table. Transactions that only read allow it, too.
    TemporaryRows,
    /// Temporary tables, views and sequences themselves.
    TemporaryObjects,
}

impl WriteTarget {
    /// That of a change of rows.
    pub fn of_rows(is_temporary: bool) -> WriteTarget {
        if is_temporary { WriteTarget::TemporaryRows } else { WriteTarget::Database }
    }
}

impl TempNames<'_> {
    /// Resolves the names of a command, and returns what it changes, if it changes anything.
    ///
    /// # Errors
    /// The command names a temporary schema of another session, or creates a temporary table in another schema.
    pub fn resolve(&self, command: &mut Command, written: &Written) -> Result<WriteTarget> {
        match command {
            Command::Define(definition) => self.definition(definition),
            Command::Write | Command::Explain(_) | Command::LockRows | Command::WithWrites => self.target_of(written),
            Command::CopyFrom(CopyFrom { table, .. }) => self.named(table).map(WriteTarget::of_rows),
            Command::ShowCreate { name: table }
            | Command::WhatIf(WhatIfRequest { table, .. })
            | Command::Vacuum(Some(table))
            | Command::Analyze(Some(table))
            | Command::Check(Some(table))
            | Command::Advise(AdviseRequest { table: Some(table), .. }) => {
                self.named(table).map(|_| WriteTarget::Database)
            }
            _ => Ok(WriteTarget::Database),
        }
    }

    /// What a statement changes that changes or locks rows, also within its WITH.
    ///
    /// # Errors
    /// As for [`TempNames::resolve`].
    pub fn target_of(&self, written: &Written) -> Result<WriteTarget> {
        let tables = written.changed_tables();
        let mut is_temporary = !tables.is_empty();
        for name in tables {
            is_temporary &= self.is_own(name)?;
        }
        Ok(WriteTarget::of_rows(is_temporary))
    }

    /// Whether a name is that of something temporary.
    fn is_own(&self, name: &tree::ObjectName) -> Result<bool> {
        match name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().as_slice() {
            [table] => Ok((self.has)(table)),
            [schema, _] | [CATALOG, schema, _] => self.own_schema(schema),
            _ => Ok(false),
        }
    }

    /// Whether a schema that is named is that of the session.
    ///
    /// # Errors
    /// It is that of another session.
    pub fn own_schema(&self, schema: &str) -> Result<bool> {
        if schema == self.schema_in_sql || schema == self.schema {
            return Ok(true);
        }
        if (self.is_temporary)(schema) {
            return Err(Error::new(ErrorKind::NotFound, format!("no schema {schema}"))
                .with_hint("each session sees only its own temporary tables, in the schema pg_temp"));
        }
        Ok(schema == TEMP && !(self.has_schema)(schema))
    }

    /// The full name of what a command names. Returns whether it is temporary.
    fn named(&self, name: &mut String) -> Result<bool> {
        if self.names_public { Ok(false) } else { self.text(name) }
    }

    /// The same for a name in the form of the catalog.
    ///
    /// # Errors
    /// As for [`TempNames::own_schema`].
    pub fn text(&self, name: &mut String) -> Result<bool> {
        let own = match name.split_once('.') {
            None if (self.has)(name) => Some(name.as_str()),
            // A name with a point may be that of a file.
            Some((schema, own)) if self.own_schema(schema)? && (schema != TEMP || (self.has)(own)) => Some(own),
            _ => None,
        };
        let full = own.map(|own| name_in(self.schema, own));
        if let Some(full) = &full {
            name.clone_from(full);
        }
        Ok(full.is_some())
    }
}
