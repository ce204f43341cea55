//! A client's transaction, from BEGIN to COMMIT or ROLLBACK, and the settings that depend on it. The engine implements
//! transactions; this module adds PostgreSQL's messages and warnings.

use super::Connection;
use super::failure::Failure;
use freestone::{DateOrder, Zone};

use crate::pg::error::PgError;
use crate::pg::reply::Status;
use crate::pg::settings::{Changed, DATE_STYLE, TIME_ZONE, engine_level};
use crate::pg::utility::{Modes, Utility};
use crate::pg::zones;
use crate::sqlstate;

const DEFAULT: &str = "default_transaction_read_only";
const CURRENT: &str = "transaction_read_only";
const DEFAULT_LEVEL: &str = "default_transaction_isolation";
const DEFAULT_DEFERRABLE: &str = "default_transaction_deferrable";
const CURRENT_LEVEL: &str = "transaction_isolation";

/// A transaction that begins and ends without the client's BEGIN and COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implicit {
    /// Of the statements of a simple query. Within it, statements that need a transaction block are accepted.
    Script,
    /// Of the messages of the extended protocol up to a Sync.
    Pipeline,
}

/// The state of a client's transaction.
#[derive(Debug, Default)]
pub struct Transaction {
    /// What the open transaction belongs to, if the client has not begun it.
    implicit: Option<Implicit>,
    /// Settings that are valid until the end of the transaction, with their earlier values.
    local: Vec<(String, String)>,
    /// Settings that were changed for the session, with their earlier values, which ROLLBACK brings back.
    changed: Vec<(String, String)>,
    /// The number of cursors and portals that were opened in it.
    opened: u64,
    marks: Vec<Mark>,
}

/// A savepoint, and what the connection had before it.
#[derive(Debug)]
struct Mark {
    name: String,
    /// The number of changed settings.
    settings: usize,
    /// The number of opened cursors and portals.
    opened: u64,
}

impl Connection {
    /// BEGIN, COMMIT and ROLLBACK.
    pub async fn transaction(&mut self, utility: &Utility) -> Result<(), Failure> {
        match utility {
            Utility::Begin(modes) => self.begin_transaction(*modes).await?,
            _ if self.status == Status::Idle => {
                self.replies.notice(&PgError::warning(
                    sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                    "there is no transaction in progress",
                ));
                let commits = *utility == Utility::Commit;
                if commits {
                    self.commit_implicit().await?
                } else {
                    self.roll_back_implicit().await?
                }
                self.replies.complete(if commits { "COMMIT" } else { "ROLLBACK" });
            }
            Utility::Commit if self.status != Status::Failed => {
                let committed = self.engine("COMMIT").await;
                self.end_transaction(committed.is_ok()).await?;
                committed?;
                self.replies.complete("COMMIT");
            }
            _ => {
                let ended = self.engine("ROLLBACK").await;
                self.end_transaction(false).await?;
                ended?;
                self.replies.complete("ROLLBACK");
            }
        }
        Ok(())
    }

    async fn begin_transaction(&mut self, modes: Modes) -> Result<(), Failure> {
        if self.status != Status::Idle {
            self.replies.notice(&PgError::warning(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
            self.replies.complete("BEGIN");
            return Ok(());
        }
        // Statements that came before in the same query or pipeline become part of the transaction.
        match self.transaction.implicit {
            Some(_) => self.change_modes(modes).await?,
            None => self.open_transaction(modes).await?,
        }
        self.transaction.implicit = None;
        self.status = Status::InTransaction;
        self.replies.complete("BEGIN");
        Ok(())
    }

    /// Begins a transaction of the engine.
    async fn open_transaction(&mut self, modes: Modes) -> Result<(), Failure> {
        let level = modes.level.map_or_else(|| self.value(DEFAULT_LEVEL), str::to_owned);
        let read_only = modes.read_only.unwrap_or_else(|| self.is_on(DEFAULT));
        let access = if read_only { "READ ONLY" } else { "READ WRITE" };
        self.engine(&format!("BEGIN ISOLATION LEVEL {}, {access}", engine_level(&level))).await?;
        // The values are valid.
        let _ = self.settings.set(CURRENT_LEVEL, Some(&level));
        self.set_deferrable(modes.deferrable.unwrap_or_else(|| self.is_on(DEFAULT_DEFERRABLE)));
        self.set_read_only(read_only);
        Ok(())
    }

    /// Whether the engine has a transaction of this client, whoever began it.
    pub fn has_transaction(&self) -> bool {
        self.status != Status::Idle || self.transaction.implicit.is_some()
    }

    /// Whether statements are accepted that only make sense in a transaction of several statements.
    pub fn is_in_block(&self) -> bool {
        self.status != Status::Idle || self.transaction.implicit == Some(Implicit::Script)
    }

    /// Begins a transaction that ends with the query or pipeline, unless one is open.
    pub async fn begin_implicit(&mut self, of: Implicit) -> Result<(), Failure> {
        if self.status != Status::Idle {
            return Ok(());
        }
        if self.transaction.implicit.is_none() {
            self.open_transaction(Modes::default()).await?;
        }
        self.transaction.implicit = Some(of);
        Ok(())
    }

    /// Commits the transaction of a query or pipeline, if there is one.
    pub async fn commit_implicit(&mut self) -> Result<(), Failure> {
        if self.transaction.implicit.is_none() {
            return Ok(());
        }
        let committed = self.engine("COMMIT").await;
        self.end_transaction(committed.is_ok()).await?;
        committed
    }

    /// Undoes the statements of a query or pipeline, if they are a transaction.
    pub async fn roll_back_implicit(&mut self) -> Result<(), Failure> {
        if self.transaction.implicit.is_none() {
            return Ok(());
        }
        let ended = self.engine("ROLLBACK").await;
        self.end_transaction(false).await?;
        ended
    }

    /// Refuses a statement that cannot be undone with others.
    pub fn check_outside(&self, what: &str) -> Result<(), PgError> {
        match self.has_transaction() {
            true => {
                Err(PgError::new(sqlstate::ACTIVE_SQL_TRANSACTION, format!("{what} cannot run inside a transaction")))
            }
            false => Ok(()),
        }
    }

    async fn end_transaction(&mut self, commits: bool) -> Result<(), Failure> {
        self.status = Status::Idle;
        let Transaction { local, changed, .. } = std::mem::take(&mut self.transaction);
        match commits {
            true => self.apply_channel_changes(),
            false => drop(self.channel_changes.take()),
        }
        self.bring_back(local).await?;
        if !commits {
            self.bring_back(changed).await?;
        }
        self.cursors.retain(|_, declared| declared.hold && (commits || !declared.pending));
        self.cursors.values_mut().for_each(|declared| declared.pending = false);
        self.portals.clear();
        let level = self.value(DEFAULT_LEVEL);
        let _ = self.settings.set(CURRENT_LEVEL, Some(&level));
        self.set_deferrable(self.is_on(DEFAULT_DEFERRABLE));
        self.set_read_only(self.is_on(DEFAULT));
        Ok(())
    }

    /// Gives settings their earlier values.
    async fn bring_back(&mut self, earlier: Vec<(String, String)>) -> Result<(), Failure> {
        for (name, value) in earlier.into_iter().rev() {
            let changed = self.change(&name, Some(&value)).await?;
            self.changed(changed);
        }
        Ok(())
    }

    /// Notes the value of a setting that a transaction changes.
    pub fn note_setting(&mut self, name: &str) {
        if self.has_transaction()
            && let Some((name, before)) = self.settings.show(name)
        {
            self.transaction.changed.push((name.to_owned(), before.to_owned()));
        }
    }

    /// Follows the engine to a savepoint with the settings of the connection.
    async fn follow_savepoint(&mut self, utility: &Utility) -> Result<(), Failure> {
        let (settings, opened) = (self.transaction.changed.len(), self.transaction.opened);
        let marks = &mut self.transaction.marks;
        let place = |marks: &[Mark], name: &String| marks.iter().rposition(|known| known.name == *name);
        match utility {
            Utility::Savepoint(name) => marks.push(Mark { name: name.clone(), settings, opened }),
            Utility::Release(name) => {
                let at = place(marks, name).unwrap_or(marks.len());
                marks.truncate(at);
            }
            Utility::RollbackTo(name) => {
                if let Some(at) = place(marks, name) {
                    let (settings, opened) = (marks[at].settings, marks[at].opened);
                    marks.truncate(at + 1);
                    self.cursors.retain(|_, declared| !declared.pending || declared.number <= opened);
                    self.portals.retain(|_, portal| portal.number <= opened);
                    let later = self.transaction.changed.split_off(settings);
                    self.bring_back(later).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The number of the next cursor or portal of the transaction, counted from 1.
    pub fn next_opened(&mut self) -> u64 {
        self.transaction.opened += 1;
        self.transaction.opened
    }

    /// Drivers set savepoints on their own before each statement that may fail.
    pub async fn savepoint(&mut self, utility: &Utility) -> Result<(), Failure> {
        if self.status == Status::Idle {
            return Err(PgError::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "savepoints are for transactions")
                .with_hint("BEGIN first")
                .into());
        }
        let (sql, name, tag) = match utility {
            Utility::Savepoint(name) => ("SAVEPOINT", name, "SAVEPOINT"),
            Utility::Release(name) => ("RELEASE", name, "RELEASE"),
            Utility::RollbackTo(name) => ("ROLLBACK TO", name, "ROLLBACK"),
            _ => return Ok(()),
        };
        self.engine(&format!("{sql} {}", freestone::quote(name))).await?;
        if tag == "ROLLBACK" {
            self.status = Status::InTransaction;
        }
        self.follow_savepoint(utility).await?;
        self.replies.complete(tag);
        Ok(())
    }

    /// `SET TRANSACTION` applies to the current transaction. Outside of a transaction it has no effect.
    pub async fn set_transaction(&mut self, modes: Modes) -> Result<(), Failure> {
        if !self.is_in_block() {
            self.warn_outside_block("SET TRANSACTION");
        }
        if self.has_transaction() {
            self.change_modes(modes).await?;
        }
        self.replies.complete("SET");
        Ok(())
    }

    async fn change_modes(&mut self, modes: Modes) -> Result<(), Failure> {
        let level = modes.level.map(|level| format!("ISOLATION LEVEL {}", engine_level(level)));
        let access = modes.read_only.map(|read_only| if read_only { "READ ONLY" } else { "READ WRITE" }.to_owned());
        let words = level.into_iter().chain(access).collect::<Vec<_>>().join(", ");
        if let Some(deferrable) = modes.deferrable {
            self.set_deferrable(deferrable);
        }
        if words.is_empty() {
            return Ok(());
        }
        self.engine(&format!("SET TRANSACTION {words}")).await?;
        if let Some(level) = modes.level {
            // The value is valid.
            let _ = self.settings.set(CURRENT_LEVEL, Some(level));
        }
        if let Some(read_only) = modes.read_only {
            self.set_read_only(read_only);
        }
        Ok(())
    }

    fn warn_outside_block(&mut self, what: &str) {
        let message = format!("{what} can only be used in transaction blocks");
        self.replies.notice(&PgError::warning(sqlstate::NO_ACTIVE_SQL_TRANSACTION, message));
    }

    /// `SET LOCAL`: the value is valid until the end of the transaction. Outside of a transaction it has no effect, as
    /// in PostgreSQL.
    pub async fn set_local(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        if !self.is_in_block() {
            self.warn_outside_block("SET LOCAL");
        }
        self.assign_local(name, value).await?;
        self.replies.complete("SET");
        Ok(())
    }

    /// Gives a setting a value until the end of the transaction.
    pub async fn assign_local(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        let Some((name, before)) = self.settings.show(name).map(|(name, value)| (name, value.to_owned())) else {
            let name = name.split('.').map(freestone::quote).collect::<Vec<_>>().join(".");
            let value = value.unwrap_or_default().replace('\'', "''");
            return self.engine(&format!("SET LOCAL {name} = '{value}'")).await;
        };
        if self.has_transaction() {
            let changed = self.change(name, value).await?;
            self.transaction.local.push((name.to_owned(), before));
            self.changed(changed);
        }
        Ok(())
    }

    /// Changes a setting here and, if it concerns them, in the engine and the session. After an error it is as before.
    pub async fn change(&mut self, name: &str, value: Option<&str>) -> Result<Changed, Failure> {
        let before = self.value(name);
        let changed = self.settings.set(name, value)?;
        match self.follow_setting(name).await {
            // With the value as the engine writes it.
            Ok(()) => Ok(match changed {
                Changed::Reported { name, .. } => Changed::Reported { name, value: self.value(name) },
                Changed::Kept => Changed::Kept,
            }),
            Err(error) => {
                // The value was valid before.
                let _ = self.settings.set(name, Some(&before));
                Err(error)
            }
        }
    }

    /// Applies the time zone with which the client has begun. One that the engine does not know is no reason to refuse a
    /// client, whose times are then in UTC, as it is told.
    pub async fn begin_in_zone(&mut self) {
        if self.value(TIME_ZONE) != "UTC" && self.follow_setting(TIME_ZONE).await.is_err() {
            let _ = self.settings.set(TIME_ZONE, None);
        }
    }

    fn is_zone(&self, name: &str) -> bool {
        self.settings.show(name).is_some_and(|(name, _)| name == TIME_ZONE)
    }

    /// The time zone of the session.
    pub fn zone(&self) -> Zone {
        // The engine has accepted the name.
        Zone::parse(&zones::of_client(&self.value(TIME_ZONE))).unwrap_or(Zone::Fixed(0))
    }

    /// The order of dates in texts.
    pub fn date_order(&self) -> Option<DateOrder> {
        self.value(DATE_STYLE).rsplit(", ").next().and_then(DateOrder::named)
    }

    /// Applies all settings that concern the engine or the session.
    pub async fn follow_all(&mut self) -> Result<(), Failure> {
        self.session.set_stores_as_postgres(true)?;
        for name in [DEFAULT, "lock_timeout", "synchronous_commit", TIME_ZONE, DATE_STYLE] {
            self.follow_setting(name).await?;
        }
        Ok(())
    }

    /// Applies a changed setting to the engine or the session, if it concerns them.
    async fn follow_setting(&mut self, name: &str) -> Result<(), Failure> {
        if Connection::is_read_only_setting(name) {
            self.follow_read_only();
        }
        self.replies.encoding = self.settings.encoding();
        if name.eq_ignore_ascii_case("lock_timeout") {
            let milliseconds = self.value("lock_timeout");
            self.engine(&format!("SET lock_timeout = {milliseconds}")).await?;
        }
        if name.eq_ignore_ascii_case("synchronous_commit") {
            let value = self.value("synchronous_commit");
            self.engine(&format!("SET synchronous_commit = '{value}'")).await?;
        }
        if name.eq_ignore_ascii_case(DATE_STYLE) {
            self.session.set_date_order(self.date_order())?;
        }
        if self.is_zone(name) {
            let named = self.value(TIME_ZONE);
            let zone = zones::of_client(&named).replace('\'', "''");
            self.engine(&format!("SET time_zone = '{zone}'")).await?;
            if !zones::is_posix(&named) {
                let zone = zones::shown(&self.engine_setting("time_zone").await?);
                self.settings.set(TIME_ZONE, Some(&zone))?;
            }
        }
        Ok(())
    }

    fn value(&self, name: &str) -> String {
        self.settings.show(name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    /// Whether this setting says if the session or transaction is read-only.
    pub fn is_read_only_setting(name: &str) -> bool {
        name.eq_ignore_ascii_case(DEFAULT) || name.eq_ignore_ascii_case(CURRENT)
    }

    /// Applies the settings that say whether the session may write.
    pub fn follow_read_only(&mut self) {
        self.set_read_only(self.is_on(if self.has_transaction() { CURRENT } else { DEFAULT }));
    }

    pub fn check_writable(&self) -> Result<(), PgError> {
        match self.is_on(CURRENT) {
            true => Err(PgError::new(sqlstate::READ_ONLY_SQL_TRANSACTION, "this transaction may only read")
                .with_hint("end it, or SET TRANSACTION READ WRITE")),
            false => Ok(()),
        }
    }

    fn set_read_only(&mut self, read_only: bool) {
        // The value is valid.
        let _ = self.settings.set(CURRENT, Some(if read_only { "on" } else { "off" }));
        self.session.set_read_only(read_only);
    }

    fn set_deferrable(&mut self, deferrable: bool) {
        // The value is valid.
        let _ = self.settings.set("transaction_deferrable", Some(if deferrable { "on" } else { "off" }));
    }

    fn is_on(&self, name: &str) -> bool {
        self.settings.show(name).is_some_and(|(_, value)| value == "on")
    }
}
