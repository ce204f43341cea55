//! Execution of statements: simple queries completely, portals for as many rows as the client requests.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone::{Description, Inputs, Statement};

use super::describe::{Portal, columns, format_of};
use super::failure::Failure;
use super::prepared::no_statement;
use super::transaction::Implicit;
use super::work::Work;
use super::{ChannelChange, Connection, End};
use crate::execution::{self, Answer, Clock, Rows};
use crate::pg::calendar::Styles;
use crate::pg::catalog::{self, Assigned};
use crate::pg::error::PgError;
use crate::pg::reply::Status;
use crate::pg::settings::Settings;
use crate::pg::types::ColumnType;
use crate::pg::utility::{CopyIn, Utility};
use crate::pg::values::{Column, ColumnError, Form};
use crate::sqlstate;

/// The rows of a statement that were not sent yet.
pub struct Cursor {
    rows: Rows,
    batch: Option<Sending>,
    /// The columns as they are described to the client.
    schema: SchemaRef,
    formats: Vec<i16>,
    styles: Styles,
    pub tag: &'static str,
    /// The number of rows that it has given.
    pub position: u64,
}

/// A batch that is being sent: its columns in the client's formats, and the number of rows sent.
struct Sending {
    batch: RecordBatch,
    columns: Vec<Column>,
    sent: usize,
}

impl Cursor {
    pub fn new(rows: Rows, schema: SchemaRef, formats: Vec<i16>, styles: Styles, tag: &'static str) -> Cursor {
        Cursor { rows, batch: None, schema, formats, styles, tag, position: 0 }
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The columns of the current batch, and the position of the next row in them; `None` at the end.
    pub async fn row(&mut self) -> Result<Option<(&[Column], usize)>, PgError> {
        while self.batch.as_ref().is_none_or(|sending| sending.sent >= sending.batch.num_rows()) {
            let Some(batch) = self.rows.next().await.transpose()? else { return Ok(None) };
            let columns = prepared(&batch, &self.schema, &self.formats, self.styles)?;
            self.batch = Some(Sending { batch, columns, sent: 0 });
        }
        let Some(sending) = &mut self.batch else { return Ok(None) };
        sending.sent += 1;
        self.position += 1;
        Ok(Some((&sending.columns, sending.sent - 1)))
    }

    /// Waits for rows to be sent, up to the statement's time limit.
    pub async fn within<T>(&self, sending: impl Future<Output = T>) -> Result<T, PgError> {
        Ok(self.rows.within(sending).await?)
    }

    /// Changes the formats of the remaining rows.
    pub fn change_formats(&mut self, formats: &[i16]) -> Result<(), PgError> {
        if self.formats != formats {
            self.formats = formats.to_vec();
            if let Some(sending) = &mut self.batch {
                sending.columns = prepared(&sending.batch, &self.schema, formats, self.styles)?;
            }
        }
        Ok(())
    }
}

/// The columns of a batch, whose types are those of a schema with as many columns.
pub fn prepared(
    batch: &RecordBatch,
    schema: &SchemaRef,
    formats: &[i16],
    styles: Styles,
) -> Result<Vec<Column>, PgError> {
    let column = |(at, array)| {
        let form = Form { binary: format_of(formats, at) == 1, styles };
        Column::new(array, ColumnType::of_field(schema.field(at)), form)
    };
    let columns = batch.columns().iter().enumerate().map(column).collect::<Result<Vec<_>, _>>();
    columns.map_err(|error| {
        let code = match &error {
            ColumnError::Arrow(_) | ColumnError::Uneven => sqlstate::DATA_EXCEPTION,
            ColumnError::NoEquivalent { .. } => sqlstate::UNTRANSLATABLE_CHARACTER,
            ColumnError::OutOfRange(_) => sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
        };
        PgError::new(code, error.to_string())
    })
}

impl Connection {
    /// Executes the statements of a text in order, up to the first error.
    pub async fn simple_query(&mut self, sql: &str) -> Result<(), End> {
        self.registered.begins(sql);
        match self.run_script(sql).await {
            Ok(()) => {}
            Err(Failure::Error(error)) => self.fail(&error).await?,
            Err(Failure::End(end)) => return Err(end),
        }
        self.ready().await
    }

    /// Several statements are one transaction, unless they begin and end transactions themselves.
    async fn run_script(&mut self, sql: &str) -> Result<(), Failure> {
        let mut clock = Clock::start(self.settings.statement_limit());
        let works = self.understand(sql).await.map_err(|error| error.placed_in(sql, None))?;
        if works.is_empty() {
            self.replies.bare(b'I');
        }
        let several = works.len() > 1;
        if several {
            // A text that cannot be parsed as a whole does nothing.
            works.iter().try_for_each(Work::check_syntax).map_err(|error| error.placed_in(sql, None))?;
        }
        for (at, work) in works.into_iter().enumerate() {
            if at > 0 {
                clock = Clock::start(self.settings.statement_limit());
            }
            if several && !work.is_of_transaction() && self.status != Status::Failed {
                self.begin_implicit(Implicit::Script).await?;
            }
            self.check_status(&work)?;
            match &self.adapted(work, &[])? {
                Work::Empty => self.replies.bare(b'I'),
                Work::Utility(utility) => self.utility(utility, None).await?,
                Work::Declare(declare, query) => self.declare(declare, query, Inputs::default()).await?,
                Work::Statement(statement) => {
                    let run = self.run_simple(clock, statement).await;
                    run.map_err(|trouble| trouble.placed_in(sql, Some(statement)))?;
                }
            }
        }
        let committed = self.commit_implicit().await;
        if committed.is_err() {
            self.replies.retract_complete();
        }
        committed
    }

    async fn run_simple(&mut self, clock: Clock, statement: &Statement) -> Result<(), Failure> {
        let skipped = self.skipped(statement).await;
        match self.start_within(clock, statement, Inputs::default()).await? {
            Answer::Rows(rows) => {
                let schema = self.named(&statement.text, rows.schema.clone());
                self.replies.columns(&columns(&schema), |_| 0);
                let mut cursor = Cursor::new(rows, schema, vec![], self.settings.styles(), tag_of(&statement.text));
                self.send_rows(&mut cursor, 0).await?;
            }
            answer => {
                self.give_notice(statement, &skipped);
                self.replies.complete(&tag(&answer));
            }
        }
        Ok(())
    }

    /// Applies what `set_config` has assigned in the statement.
    async fn apply_assigned(&mut self) -> Result<(), Failure> {
        for Assigned { name, value, local } in self.catalog.assigned() {
            match local {
                true => self.assign_local(&name, Some(&value)).await?,
                false => self.set(&name, Some(&value)).await?,
            }
        }
        Ok(())
    }

    /// Sends the notices of a completed statement to the client. `skipped` are those from before it.
    fn give_notice(&mut self, statement: &Statement, skipped: &[PgError]) {
        skipped.iter().for_each(|notice| self.replies.notice(notice));
        if let Some(notice) = statement.notice() {
            self.replies.notice(&PgError::notice(notice));
        }
    }

    /// Refreshes the catalog for a statement that queries it, so that it sees the current database.
    pub async fn refresh_catalog(&self, statement: &Statement) -> Result<(), Failure> {
        // What ends a transaction or returns to a savepoint is possible after an error, which a query is not.
        if !statement.ends_transaction() && catalog::is_asked_for(&statement.text) {
            let (session, catalog) = (self.session.clone(), self.catalog.clone());
            let prepared = self.prepared.iter().map(|(name, prepared)| prepared.shown(name)).collect();
            let (cursors, settings) = (self.shown_cursors(), self.settings.clone());
            let refreshing = async move { catalog.refresh(&session, (prepared, cursors), settings).await };
            execution::on_workers(&self.shared, self.settings.statement_limit(), refreshing).await?;
        }
        Ok(())
    }

    pub async fn start(&self, statement: &Statement, inputs: Inputs) -> Result<Answer, Failure> {
        self.start_within(Clock::start(self.settings.statement_limit()), statement, inputs).await
    }

    async fn start_within(&self, clock: Clock, statement: &Statement, inputs: Inputs) -> Result<Answer, Failure> {
        self.refresh_catalog(statement).await?;
        self.share_prepared(statement).await?;
        let executing = execution::execute(&self.shared, &self.session, statement, inputs, clock);
        let answer = Connection::while_there(&self.gone(), executing).await?;
        Ok(answer.map_err(|error| PgError::of(error, statement))?)
    }

    /// Refuses statements after an error in a transaction, until the transaction ends.
    pub fn check_status(&self, work: &Work) -> Result<(), PgError> {
        let ends =
            matches!(work, Work::Empty | Work::Utility(Utility::Commit | Utility::Rollback | Utility::RollbackTo(_)));
        if self.status == Status::Failed && !ends { Err(failed()) } else { Ok(()) }
    }

    /// Executes a portal from its current position, for at most `rows_max` rows (0: all).
    pub async fn run_portal(&mut self, portal: &mut Portal, rows_max: usize) -> Result<(), Failure> {
        let work = portal.work.clone();
        self.registered.begins(&portal.text);
        self.check_status(&work)?;
        match &work {
            Work::Empty => self.replies.bare(b'I'),
            Work::Utility(utility) => self.utility(utility, Some(&portal.formats)).await?,
            Work::Declare(declare, query) => self.declare(declare, query, portal.inputs.clone()).await?,
            Work::Statement(statement) => {
                if portal.done {
                    self.replies.complete(&format!("{} 0", tag_of(&statement.text)));
                    return Ok(());
                }
                let skipped = self.skipped(statement).await;
                if let Some(answer) = self.open_portal(portal, statement).await? {
                    self.give_notice(statement, &skipped);
                    self.replies.complete(&tag(&answer));
                }
                let Some(mut cursor) = portal.cursor.take() else { return Ok(()) };
                // After an error there are no more rows.
                let sent = self.send_rows(&mut cursor, rows_max).await;
                portal.done = !matches!(sent, Ok(false));
                portal.cursor = (!portal.done).then_some(cursor);
                sent?;
            }
        }
        Ok(())
    }

    /// Starts the statement of a portal, unless it has started. Returns its answer if it has no rows.
    pub async fn open_portal(&self, portal: &mut Portal, statement: &Statement) -> Result<Option<Answer>, Failure> {
        if portal.cursor.is_some() || portal.done {
            return Ok(None);
        }
        match self.start(statement, portal.inputs.clone()).await? {
            Answer::Rows(rows) => {
                check_columns(portal.described.as_deref(), &rows.schema)?;
                let described = portal.described.as_ref().and_then(|description| description.schema.clone());
                let schema = described.unwrap_or_else(|| self.named(&statement.text, rows.schema.clone()));
                let (formats, styles) = (portal.formats.clone(), self.settings.styles());
                portal.cursor = Some(Cursor::new(rows, schema, formats, styles, tag_of(&statement.text)));
                Ok(None)
            }
            answer => {
                portal.done = true;
                Ok(Some(answer))
            }
        }
    }

    /// Sends rows, and then the command tag or the notice that the portal is suspended. Returns whether all rows were
    /// sent.
    async fn send_rows(&mut self, cursor: &mut Cursor, rows_max: usize) -> Result<bool, Failure> {
        let gone = self.gone();
        let mut count = 0u64;
        loop {
            if rows_max > 0 && count >= rows_max as u64 {
                self.replies.bare(b's');
                return Ok(false);
            }
            let Some((columns, row)) = Connection::while_there(&gone, cursor.row()).await?? else { break };
            self.replies.row(columns, row);
            count += 1;
            self.flush_rows_if_full(cursor).await?;
        }
        self.apply_assigned().await?;
        match cursor.tag {
            "INSERT" => self.replies.complete(&format!("INSERT 0 {count}")),
            tag @ ("SELECT" | "UPDATE" | "DELETE") => self.replies.complete(&format!("{tag} {count}")),
            tag => self.replies.complete(tag),
        }
        Ok(true)
    }

    /// Executes a statement of PostgreSQL's own. `formats` are those of a portal; without a portal, the columns are
    /// described before the rows.
    async fn utility(&mut self, utility: &Utility, formats: Option<&[i16]>) -> Result<(), Failure> {
        match utility {
            Utility::Begin(_) | Utility::Commit | Utility::Rollback => self.transaction(utility).await?,
            Utility::SetTransaction(modes) => self.set_transaction(*modes).await?,
            Utility::Savepoint(_) | Utility::Release(_) | Utility::RollbackTo(_) => self.savepoint(utility).await?,
            Utility::Fetch(fetch) => self.fetch(fetch, formats).await?,
            Utility::Close(name) => self.close_cursor(name.as_deref())?,
            // A cursor has a query, so `Work::Declare` executes it.
            Utility::Declare(_) => return Err(PgError::syntax("a cursor is of one query").into()),
            Utility::Set { name, value } => {
                self.set(name, value.as_deref()).await?;
                self.replies.complete("SET");
            }
            Utility::SetLocal { name, value } => self.set_local(name, value.as_deref()).await?,
            Utility::Show(name) => self.show(name, formats.is_none()).await?,
            Utility::Reset(name) => {
                self.reset(name).await?;
                self.replies.complete("RESET");
            }
            Utility::DiscardTemp => {
                self.session.drop_temporary().await?;
                self.replies.complete("DISCARD TEMP");
            }
            Utility::DiscardAll => {
                self.check_outside("DISCARD ALL")?;
                self.portals.clear();
                self.cursors.clear();
                self.shared.advisory_locks.unlock_all(self.registered.number);
                self.channel_changes.add(ChannelChange::Unlisten(None))?;
                self.reset("all").await?;
                self.deallocate_all().await?;
                self.session.drop_temporary().await?;
                self.replies.complete("DISCARD ALL");
            }
            Utility::Prepare(prepare) => self.prepare_named(prepare).await?,
            Utility::Deallocate(None) => {
                self.deallocate_all().await?;
                self.replies.complete("DEALLOCATE ALL");
            }
            Utility::Deallocate(Some(name)) => {
                if !self.close_prepared(name) {
                    return Err(no_statement(name).into());
                }
                self.replies.complete("DEALLOCATE");
            }
            Utility::Channel(change, tag) => {
                self.channel_changes.add(change.clone())?;
                self.replies.complete(tag);
            }
            Utility::CopyOut(copy) => self.copy_out(copy).await?,
            Utility::CopyIn(copy) => {
                let copy = CopyIn { table: self.copied_name(&copy.table), ..copy.clone() };
                self.copy_in(&copy).await?;
            }
            Utility::Nothing(tag) => self.replies.complete(tag),
            Utility::SelectNothing => {
                if formats.is_none() {
                    self.replies.columns(&[], |_| 0);
                }
                self.replies.row(&[], 0);
                self.replies.complete("SELECT 1");
            }
        }
        Ok(())
    }

    async fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        if Settings::knows(name) {
            self.note_setting(name);
            let changed = Box::pin(self.change(name, value)).await?;
            self.changed(changed);
            return Ok(());
        }
        let name = name.split('.').map(freestone::quote).collect::<Vec<_>>().join(".");
        match value {
            Some(value) => self.engine(&format!("SET {name} = '{}'", value.replace('\'', "''"))).await,
            None => self.engine(&format!("RESET {name}")).await,
        }
    }

    async fn reset(&mut self, name: &str) -> Result<(), Failure> {
        if name == "all" {
            self.settings.changed().into_iter().for_each(|name| self.note_setting(name));
            self.settings.reset_all();
            self.engine("RESET ALL").await?;
            self.follow_all().await?;
            let reported: Vec<_> = self.settings.reported().map(|(name, value)| (name, value.to_owned())).collect();
            reported.iter().for_each(|(name, value)| self.replies.parameter(name, value));
            return Ok(());
        }
        self.set(name, None).await
    }

    /// Executes a statement of the engine whose result is not needed.
    pub async fn engine(&self, sql: &str) -> Result<(), Failure> {
        for statement in self.session.parse(sql)? {
            self.start(&statement, Inputs::default()).await?;
        }
        Ok(())
    }

    /// Sends one row with the value of a setting, in a column with its name; or all settings with their values.
    async fn show(&mut self, name: &str, with_columns: bool) -> Result<(), Failure> {
        let batch = self.shown(name).await?;
        if with_columns {
            self.replies.columns(&columns(&batch.schema()), |_| 0);
        }
        let columns = prepared(&batch, &batch.schema(), &[], Styles::default())?;
        (0..batch.num_rows()).for_each(|row| self.replies.row(&columns, row));
        self.replies.complete("SHOW");
        Ok(())
    }

    async fn shown(&self, name: &str) -> Result<RecordBatch, Failure> {
        if let Some((name, value)) = self.settings.shown(name) {
            return Ok(texts(&[name], vec![vec![value]]));
        }
        let sql = format!("SHOW {}", name.split('.').map(freestone::quote).collect::<Vec<_>>().join("."));
        let sql = if name == "all" { "SHOW ALL" } else { &sql };
        let mut found = self.engine_settings(sql).await?;
        if name == "all" {
            found.extend(self.settings.all().map(|(name, value)| (name.to_owned(), value.to_owned())));
            let (names, values) = found.into_iter().unzip();
            return Ok(texts(&["name", "setting"], vec![names, values]));
        }
        Ok(texts(&[name], vec![found.into_iter().map(|(_, value)| value).collect()]))
    }

    /// The value of a setting of the engine.
    pub async fn engine_setting(&self, name: &str) -> Result<String, Failure> {
        let found = self.engine_settings(&format!("SHOW {}", freestone::quote(name))).await?;
        Ok(found.into_iter().map(|(_, value)| value).next().unwrap_or_default())
    }

    /// The names and values that a SHOW of the engine returns.
    async fn engine_settings(&self, sql: &str) -> Result<Vec<(String, String)>, Failure> {
        let mut found = vec![];
        for statement in self.session.parse(sql)? {
            if let Answer::Rows(mut rows) = self.start(&statement, Inputs::default()).await? {
                while let Some(batch) = rows.next().await {
                    found.extend(pairs(&batch?)?);
                }
            }
        }
        Ok(found)
    }

    pub async fn describe_show(&self, name: &str) -> Result<Description, Failure> {
        let schema = Some(self.shown(name).await?.schema());
        Ok(Description { parameters: vec![], schema })
    }
}

/// A batch of strings.
fn texts(names: &[&str], columns: Vec<Vec<String>>) -> RecordBatch {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    let columns = columns.into_iter().map(|values| Arc::new(StringArray::from(values)) as _).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of one length and of their types")
}

/// The names and values that the engine's SHOW returns.
fn pairs(batch: &RecordBatch) -> Result<Vec<(String, String)>, PgError> {
    let columns = prepared(batch, &batch.schema(), &[], Styles::default())?;
    let text = |at: usize, row: usize| {
        let mut out = vec![];
        if let Some(column) = columns.get(at).filter(|column| !column.is_null(row)) {
            column.write(row, &mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    };
    Ok((0..batch.num_rows()).map(|row| (text(0, row), text(1, row))).collect())
}

/// The error of whatever comes between an error and the end of its transaction.
pub fn failed() -> PgError {
    let message = "a statement of this transaction failed; nothing is executed until its end";
    PgError::new(sqlstate::IN_FAILED_SQL_TRANSACTION, message)
        .with_hint("ROLLBACK, or ROLLBACK TO a savepoint from before")
}

/// Checks that rows have the columns that were described to the client, which interprets them accordingly.
fn check_columns(described: Option<&Description>, schema: &SchemaRef) -> Result<(), PgError> {
    let told = described.and_then(|description| description.schema.as_ref());
    let oid = |field: &Arc<Field>| ColumnType::of(field.data_type()).oid();
    let types = |schema: &SchemaRef| schema.fields().iter().map(oid).collect::<Vec<_>>();
    if told.is_some_and(|told| types(told) != types(schema)) {
        // Drivers know this error by its text or by the routine that gives it, and prepare the statement again.
        let mut error = PgError::new(sqlstate::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
            .with_hint("the statement's columns have changed since it was prepared; prepare it again");
        error.fields.push((b'R', "RevalidateCachedQuery".to_owned()));
        return Err(error);
    }
    Ok(())
}

/// The command tag of a statement with rows.
fn tag_of(sql: &str) -> &'static str {
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match word.to_ascii_uppercase().as_str() {
        "EXPLAIN" => "EXPLAIN",
        // These return rows if they have RETURNING.
        "INSERT" => "INSERT",
        "UPDATE" => "UPDATE",
        "DELETE" => "DELETE",
        "SHOW" | "DESCRIBE" | "DESC" => "SHOW",
        _ => "SELECT",
    }
}

fn tag(answer: &Answer) -> String {
    match answer {
        Answer::Affected { verb: "INSERT", rows } => format!("INSERT 0 {rows}"),
        Answer::Affected { verb: "TRUNCATE", .. } => "TRUNCATE TABLE".to_owned(),
        Answer::Affected { verb: "CREATE TABLE", rows } => format!("SELECT {rows}"),
        Answer::Affected { verb, rows } => format!("{verb} {rows}"),
        Answer::Done { verb } => (*verb).to_owned(),
        Answer::Rows(_) => "SELECT 0".to_owned(),
    }
}
