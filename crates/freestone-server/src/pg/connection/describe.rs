//! The extended protocol: statements are parsed, bound to values, described and executed one message at a time.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone::{Description, Error, Inputs, Statement};
use freestone_sql::tree::ObjectName;

use super::execute::Cursor;
use super::failure::Failure;
use super::prepared::{PREPARED_BYTES, PREPARED_MAX, Prepared, is_prepared, no_statement, parameter_oid};
use super::transaction::Implicit;
use super::work::{self, Work};
use super::{Connection, End};
use crate::execution::{self, CountedMemory, LONG_TEXT_BYTES};
use crate::pg::error::PgError;
use crate::pg::frame::{Bind, Message, Target};
use crate::pg::insert_columns;
use crate::pg::origins::Origin;
use crate::pg::parameters;
use crate::pg::search_path::{self, SearchPath};
use crate::pg::told::{Known, as_named};
use crate::pg::type_names;
use crate::pg::types::{self, ColumnType};
use crate::pg::utility::Utility;
use crate::pg::values;
use crate::sqlstate;

/// A prepared statement with its values.
pub struct Portal {
    pub work: Work,
    pub inputs: Inputs,
    pub formats: Vec<i16>,
    pub described: Option<Arc<Description>>,
    /// The remaining rows, after a first execution that did not return all of them.
    pub cursor: Option<Cursor>,
    pub done: bool,
    /// The text of the statement.
    pub text: Arc<str>,
    /// Its place among the cursors and portals of the transaction.
    pub number: u64,
    /// The memory of the values.
    _memory: CountedMemory,
}

/// The columns of rows as they are described to clients.
pub fn columns(schema: &SchemaRef) -> Vec<(String, ColumnType, Option<Origin>)> {
    let column = |field: &Arc<Field>| (field.name().clone(), ColumnType::of_field(field), Origin::of_field(field));
    schema.fields().iter().map(column).collect()
}

/// The format of a column: each column has its own, or one applies to all, or all are text.
pub fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(at).copied().unwrap_or(0),
    }
}

/// Format codes are none, one for all values, or one for each.
fn check_formats(of: &str, formats: &[i16], values: usize) -> Result<(), PgError> {
    if formats.len() <= 1 || formats.len() == values {
        return Ok(());
    }
    let message = format!("the message has {} {of} formats for {values} values", formats.len());
    Err(PgError::new(sqlstate::PROTOCOL_VIOLATION, message))
}

impl Connection {
    /// The columns of a result as clients are told of them.
    pub fn named(&self, sql: &str, schema: SchemaRef) -> SchemaRef {
        self.named_with(sql, schema, &[])
    }

    /// The same for a statement with parameters, of which the client has declared the types.
    fn named_with(&self, sql: &str, schema: SchemaRef, declared: &[u32]) -> SchemaRef {
        let schema = self.with_known(declared, |known| as_named(sql, schema, known));
        types::with_enums(schema, || self.session.enum_types().unwrap_or_default())
    }

    /// Reads a statement with what is known of its names and parameters. Where the database cannot be read, the statement
    /// itself says so.
    fn with_known<T>(&self, declared: &[u32], read: impl FnOnce(&Known) -> T) -> T {
        let is_enum =
            |name: &str| self.session.enum_types().is_ok_and(|types| types.iter().any(|(known, _)| known == name));
        let relation = |name: &ObjectName| self.session.named_relation(name).ok().flatten();
        read(&Known { is_enum: &is_enum, relation: &relation, declared })
    }

    /// The actions for the statements of a client's text, within the time limit of a statement.
    pub async fn understand(&self, sql: &str) -> Result<Vec<Work>, PgError> {
        let understanding = work::understand(&self.shared, &self.session, sql);
        execution::at_most(self.settings.statement_limit(), understanding).await?
    }

    /// The schemas in which names are looked for; `None` if that is only the default one.
    pub fn search_path(&self) -> Option<Vec<String>> {
        let (_, setting) = self.settings.show("search_path")?;
        let schemas = search_path::schemas(setting);
        (schemas != [search_path::PUBLIC]).then_some(schemas)
    }

    /// Resolves names by the search path.
    pub fn with_search_path<T>(&self, schemas: &[String], resolve: impl FnOnce(&SearchPath) -> T) -> T {
        // Where the database cannot be read, the statement itself says so.
        let find = |name: &ObjectName| self.session.find_relation(name).ok().flatten();
        let has_schema = |name: &str| self.session.schemas().is_ok_and(|all| all.iter().any(|known| known == name));
        resolve(&SearchPath { schemas, find: &find, has_schema: &has_schema })
    }

    /// The same action with what the engine is not asked for: names have the schemas in which they are found, an INSERT of
    /// fewer values than columns names its columns, and types of values are those that the text tells. `declared` are the
    /// OIDs of parameters.
    pub fn adapted(&self, mut work: Work, declared: &[u32]) -> Result<Work, PgError> {
        let (Work::Statement(statement) | Work::Declare(_, statement)) = &mut work else { return Ok(work) };
        let (schemas, names_types) = (self.search_path(), type_names::is_in(&statement.text));
        // A long one is not parsed here: its rows are wide enough, or it fails.
        let may_lack_columns = insert_columns::is_in(&statement.text) && statement.text.len() <= LONG_TEXT_BYTES;
        if schemas.is_none() && !names_types && !may_lack_columns {
            return Ok(work);
        }
        // Where it cannot be parsed, it is an error when it is planned.
        let Ok(written) = freestone_sql::parse_statement(&statement.text) else { return Ok(work) };
        let mut changed = written.clone();
        if let Some(schemas) = schemas {
            self.with_search_path(&schemas, |path| path.apply(&mut changed));
        }
        if may_lack_columns {
            self.with_known(declared, |known| insert_columns::complete(&mut changed, known));
        }
        if names_types {
            self.with_known(declared, |known| type_names::tell(&mut changed, known));
        }
        if changed != written
            && let Some(changed) = self.session.parse(&changed.to_string())?.into_iter().next()
        {
            *statement = Arc::new(changed);
        }
        Ok(work)
    }

    /// Answers a message of the extended protocol. The inner error is one for the client, after which the connection
    /// continues.
    pub async fn extended(&mut self, message: Message) -> Result<Result<(), PgError>, End> {
        let answered = match message {
            Message::Parse { name, sql, types } => self.parse(name, &sql, types).await,
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe { target, name } => self.describe(target, &name).await,
            Message::Execute { portal, rows_max } => self.execute_portal(&portal, rows_max).await,
            Message::Close { target, name } => {
                // A cursor of SQL is also a portal.
                match target {
                    Target::Statement => drop(self.close_prepared(&name)),
                    Target::Portal => drop((self.portals.remove(&name), self.cursors.remove(&name))),
                }
                self.replies.bare(b'3');
                Ok(())
            }
            _ => Err(PgError::new(sqlstate::PROTOCOL_VIOLATION, "this message has no place here").into()),
        };
        match answered {
            Ok(()) => {
                self.flush_if_full().await?;
                Ok(Ok(()))
            }
            Err(Failure::Error(error)) => Ok(Err(error)),
            Err(Failure::End(end)) => Err(end),
        }
    }

    async fn parse(&mut self, name: String, sql: &str, declared: Vec<u32>) -> Result<(), Failure> {
        // The unnamed statement is replaced by the next one, even if that fails.
        if name.is_empty() {
            self.prepared.remove("");
        }
        let mut works = self.understand(sql).await.map_err(|error| error.placed_in(sql, None))?;
        let work = match works.len() {
            0 => Work::Empty,
            1 => self.adapted(works.remove(0), &declared)?,
            _ => return Err(PgError::syntax("a prepared statement is one statement").into()),
        };
        self.check_status(&work)?;
        self.check_declared(&declared)?;
        let mut prepared = self.new_prepared(work, sql, declared)?;
        if let Work::Statement(_) | Work::Declare(..) = &prepared.work {
            let described = self.description(&mut prepared).await;
            described.map_err(|trouble| trouble.placed_in(sql, prepared.work.statement()))?;
            self.declare_stored(&mut prepared)?;
        }
        match self.prepared.entry(name) {
            Entry::Occupied(old) if !old.key().is_empty() => return Err(is_prepared(old.key()).into()),
            entry => drop(entry.insert_entry(prepared)),
        }
        self.replies.bare(b'1');
        Ok(())
    }

    /// The parameters and columns of a statement, computed once.
    pub async fn description(&self, prepared: &mut Prepared) -> Result<Arc<Description>, Failure> {
        if let Some(description) = &prepared.description {
            return Ok(description.clone());
        }
        let description = match &prepared.work {
            Work::Statement(statement) => self.planned(statement, &prepared.declared).await?,
            Work::Declare(_, query) => Description { schema: None, ..self.planned(query, &prepared.declared).await? },
            // The meaning of a cursor's name can change, so this is not cached.
            Work::Utility(Utility::Fetch(fetch)) => return self.describe_fetch(fetch).map(Arc::new),
            Work::Utility(Utility::Show(name)) => self.describe_show(name).await?,
            Work::Utility(Utility::SelectNothing) => {
                Description { parameters: vec![], schema: Some(Arc::new(Schema::empty())) }
            }
            _ => Description { parameters: vec![], schema: None },
        };
        let description = Arc::new(description);
        prepared.description = Some(description.clone());
        Ok(description)
    }

    pub async fn planned(&self, statement: &Arc<Statement>, declared: &[u32]) -> Result<Description, Failure> {
        self.refresh_catalog(statement).await?;
        self.share_prepared(statement).await?;
        let (session, planned) = (self.session.clone(), statement.clone());
        let types: Vec<_> = declared.iter().map(|oid| types::parameter_type(*oid)).collect();
        let describing = async move { session.describe_statement(&planned, &types).await };
        let planning = execution::on_workers(&self.shared, self.settings.statement_limit(), describing);
        let planned = Connection::while_there(&self.gone(), planning).await?;
        let description = planned.map_err(|error| PgError::of(error, statement))?;
        let schema = description.schema.map(|schema| self.named_with(&statement.text, schema, declared));
        Ok(Description { schema, ..description })
    }

    async fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let Some(prepared) = self.prepared.get(&bind.statement).cloned() else {
            return Err(no_statement(&bind.statement).into());
        };
        let mut prepared = prepared;
        let description = self.description(&mut prepared).await?;
        // Those that the client declares count as well, also where the statement does not use them.
        let expected = description.parameters.len().max(prepared.declared.len());
        if bind.values.len() != expected {
            let given = bind.values.len();
            return Err(PgError::new(
                sqlstate::PROTOCOL_VIOLATION,
                format!("the statement has {expected} parameters and was given {given}"),
            )
            .into());
        }
        check_formats("parameter", &bind.formats, expected)?;
        if let Some(schema) = &description.schema {
            check_formats("result", &bind.result_formats, schema.fields().len())?;
        }
        let is_open = self.portals.contains_key(&bind.portal) || self.cursors.contains_key(&bind.portal);
        if !bind.portal.is_empty() && is_open {
            let message = format!("portal {} exists; close it first", bind.portal);
            return Err(PgError::new(sqlstate::DUPLICATE_CURSOR, message).into());
        }
        let (zone, order, encoding) = (self.zone(), self.date_order(), self.replies.encoding);
        let values = bind.values.iter().zip(&description.parameters).enumerate().map(|(at, (bytes, planned))| {
            let declared = prepared.declared.get(at).copied().unwrap_or(0);
            let format = format_of(&bind.formats, at);
            let decoded = bytes.as_deref().map(|bytes| parameters::decoded(at + 1, bytes, format, planned, encoding));
            parameters::parameter(at + 1, decoded.transpose()?.as_deref(), format, declared, planned, &zone, order)
        });
        let mut values = values.collect::<Result<Vec<_>, _>>()?;
        // Those that are declared and stand nowhere have been read, and are left out.
        if let Some(statement) = prepared.work.statement() {
            values.truncate(statement.parameter_names()?.count());
        }
        for at in &prepared.as_texts {
            let declared = prepared.declared.get(*at).copied().unwrap_or(0);
            if let Some(value) = values.get_mut(*at) {
                *value = values::as_text(value, declared, self.settings.styles(), &zone)?;
            }
        }
        if let Some(format) = bind.result_formats.iter().find(|format| !matches!(format, 0 | 1)) {
            return Err(PgError::new(sqlstate::PROTOCOL_VIOLATION, format!("there is no format {format}")).into());
        }
        if self.portals.len() >= PREPARED_MAX {
            return Err(
                PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("there are {PREPARED_MAX} portals")).into()
            );
        }
        let bytes: usize = bind.values.iter().flatten().map(Vec::len).sum();
        let memory = self.counted("portals", bytes.saturating_add(PREPARED_BYTES))?;
        self.prepared.insert(bind.statement, prepared.clone());
        let portal = Portal {
            work: prepared.work,
            inputs: parameters::inputs(values),
            formats: bind.result_formats,
            described: Some(description),
            cursor: None,
            done: false,
            text: prepared.text,
            number: self.next_opened(),
            _memory: memory,
        };
        self.portals.insert(bind.portal, portal);
        self.replies.bare(b'2');
        Ok(())
    }

    async fn describe(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        let (schema, formats) = match target {
            Target::Statement => {
                let Some(mut prepared) = self.prepared.get(name).cloned() else {
                    return Err(no_statement(name).into());
                };
                let description = self.description(&mut prepared).await?;
                let oid = |(at, planned): (usize, &DataType)| match prepared.declared.get(at) {
                    Some(declared) if *declared != 0 => *declared,
                    _ => parameter_oid(planned),
                };
                let used = description.parameters.iter().enumerate().map(oid);
                let unused = prepared.declared.iter().skip(description.parameters.len()).copied();
                let types: Vec<u32> = used.chain(unused).collect();
                self.replies.parameters(&types);
                self.prepared.insert(name.to_owned(), prepared);
                (description.schema.clone(), vec![])
            }
            Target::Portal => {
                match (self.portals.get(name), self.cursors.get(name)) {
                    (Some(portal), _) => {
                        let schema = portal.described.as_ref().and_then(|description| description.schema.clone());
                        (schema, portal.formats.clone())
                    }
                    // A cursor of SQL is also a portal, whose rows are text.
                    (None, Some(cursor)) => (Some(cursor.schema.clone()), vec![]),
                    (None, None) => return Err(no_portal(name).into()),
                }
            }
        };
        match schema {
            Some(schema) => self.replies.columns(&columns(&schema), |at| format_of(&formats, at)),
            None => self.replies.bare(b'n'),
        }
        Ok(())
    }

    /// Counts memory of statements, portals or cursors, which a client may keep.
    pub fn counted(&self, what: &str, bytes: usize) -> Result<CountedMemory, PgError> {
        let mut counted = CountedMemory::nothing(self.memory.clone());
        let full = |error: Error| {
            PgError::new(sqlstate::OUT_OF_MEMORY, format!("there is no memory for more {what} of the client: {error}"))
                .with_hint("close some of them")
        };
        counted.grow(bytes).map_err(full)?;
        Ok(counted)
    }

    async fn execute_portal(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        if self.cursors.contains_key(name) {
            return self.execute_cursor(name, rows_max).await;
        }
        let Some(mut portal) = self.portals.remove(name) else { return Err(no_portal(name).into()) };
        if !self.has_transaction()
            && !portal.work.is_of_transaction()
            && !portal.work.is_alone()
            && !self.syncs_next().await
        {
            self.begin_implicit(Implicit::Pipeline).await?;
        }
        let executed = self.run_portal(&mut portal, rows_max).await;
        self.portals.insert(name.to_owned(), portal);
        executed
    }
}

fn no_portal(name: &str) -> PgError {
    PgError::new(sqlstate::INVALID_CURSOR_NAME, format!("there is no portal {name:?}"))
}
