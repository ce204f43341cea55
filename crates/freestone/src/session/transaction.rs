//! The transaction of a session, from BEGIN to COMMIT or ROLLBACK, and statements outside of BEGIN, each of which is a
//! transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::session_state::SessionState;
use freestone_store::{LockMode, Savepoint, Snapshot, Store, Waiting, WriteTransaction};
use parking_lot::Mutex;

use crate::context::{Cancellation, Failure, Holders, HoldsSnapshot, Outcome, guarded_now, within};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::exec::{materialized, on_commit, row_checks};
use crate::session::Session;
use crate::settings;
use crate::sql::command::Command;
use crate::sql::statement::Statement;
use crate::sql::temp_names::WriteTarget;
use crate::sql::transactions::{Isolation, TransactionCommand, TransactionModes};

/// After this many conflicts, a statement outside of a transaction locks its whole table, so that it succeeds.
const ATTEMPTS_WITH_ROW_LOCKS: usize = 3;

/// The state of a session's transaction, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Each statement is a transaction.
    Idle,
    /// A transaction is open.
    Open,
    /// A statement failed. Only the end of the transaction, or a return to a savepoint, is accepted.
    Failed,
}

/// The transaction of a session, if one is open.
#[derive(Clone, Default)]
pub(crate) struct Block(Arc<Mutex<Option<Open>>>);

struct Open {
    id: u64,
    /// `None` while a statement writes with it.
    transaction: Option<WriteTransaction>,
    /// The snapshot for statements that run at the same time as one that writes.
    snapshot: Option<Arc<Snapshot>>,
    isolation: Isolation,
    read_only: bool,
    savepoints: Vec<Mark>,
    settings: Settings,
    failed: Failure,
    began: Instant,
    /// How long it may hold its snapshot.
    max_age: Option<Duration>,
    /// Whether it was ended because it held its snapshot for longer.
    is_expired: bool,
}

/// The session's settings while a transaction is open.
#[derive(Clone)]
struct Settings {
    /// Those from before it, which ROLLBACK brings back.
    before: Arc<SessionState>,
    /// Those after COMMIT, if others hold until then.
    after: Option<Arc<SessionState>>,
}

/// A savepoint.
struct Mark {
    name: String,
    savepoint: Savepoint,
    /// The settings of the session, and those after COMMIT.
    settings: Arc<SessionState>,
    after: Option<Arc<SessionState>>,
}

/// The work of a statement that writes. It may be repeated.
pub(crate) type Work<'a> = &'a (dyn Fn(&mut WriteTransaction, &WriteContext) -> Result<Outcome> + 'a);

impl Session {
    /// Whether the session is in a transaction.
    pub fn transaction_status(&self) -> TransactionStatus {
        match self.block.0.lock().as_ref() {
            None => TransactionStatus::Idle,
            Some(open) if open.failed.is_set() => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }

    /// The failure flag of the open transaction.
    pub(crate) fn transaction_failure(&self) -> Option<Failure> {
        self.block.0.lock().as_ref().map(|open| open.failed.clone())
    }

    /// After a failed statement, only the end of its transaction is accepted.
    pub(crate) fn check_transaction(&self, ends: bool) -> Result<()> {
        match self.block.0.lock().as_ref() {
            Some(open) if !ends => open.check(),
            _ => Ok(()),
        }
    }

    /// Records that a statement of the open transaction failed. Protocols also call it when they refuse a statement.
    pub fn fail_transaction(&self) {
        if let Some(open) = self.block.0.lock().as_mut() {
            open.fail();
        }
    }

    /// Records the failure of planning a statement of the transaction, which counts like a failure of its execution.
    pub(crate) fn fail_transaction_of<T>(&self, planned: Result<T>) -> Result<T> {
        planned.inspect_err(|_| self.fail_transaction())
    }

    /// Refuses a statement that cannot be part of a transaction.
    pub(crate) fn check_outside(&self, what: &str) -> Result<()> {
        match self.transaction_status() {
            TransactionStatus::Idle => Ok(()),
            _ => Err(Error::new(ErrorKind::Transaction, format!("{what} cannot run inside a transaction"))
                .with_hint("COMMIT first")),
        }
    }

    /// The snapshot for a statement that begins now.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>> {
        match self.block.0.lock().as_mut() {
            None => Ok(self.database().store().snapshot()?),
            Some(open) => open.read(),
        }
    }

    pub(crate) async fn transaction(&self, command: TransactionCommand) -> Result<Outcome> {
        let verb = match &command {
            TransactionCommand::Begin(_) => "BEGIN",
            TransactionCommand::Set(_) => "SET",
            TransactionCommand::Commit => "COMMIT",
            TransactionCommand::Rollback | TransactionCommand::RollbackTo(_) => "ROLLBACK",
            TransactionCommand::Savepoint(_) => "SAVEPOINT",
            TransactionCommand::Release(_) => "RELEASE",
        };
        match command {
            TransactionCommand::Begin(modes) => self.begin(modes)?,
            TransactionCommand::Set(modes) => {
                if let Some(open) = self.block.0.lock().as_mut() {
                    open.set_modes(modes)?;
                }
            }
            TransactionCommand::Commit => self.commit().await?,
            TransactionCommand::Rollback => {
                let open = self.block.0.lock().take().ok_or_else(none)?;
                self.use_settings(open.settings.before);
            }
            TransactionCommand::Savepoint(name) => self.save(name)?,
            TransactionCommand::Release(name) => self.block.with(|open| open.release(&name))?,
            TransactionCommand::RollbackTo(name) => {
                let settings = self.block.with(|open| open.roll_back_to(&name))?;
                self.use_settings(settings);
            }
        }
        if verb == "ROLLBACK" && self.temp.is_used() {
            self.forget_plans();
        }
        Ok(Outcome::Done { verb })
    }

    /// Executes a statement that begins a transaction or concerns its savepoints, which takes no time; `None` for others.
    pub(crate) fn transaction_now(&self, statement: &Statement) -> Option<Result<Outcome>> {
        if !statement.marks_transaction() {
            return None;
        }
        let failed = self.transaction_failure();
        let execute = || {
            self.check_transaction(false)?;
            let (verb, done) = match statement.command()? {
                Command::Transaction(TransactionCommand::Begin(modes)) => ("BEGIN", self.begin(modes)),
                Command::Transaction(TransactionCommand::Savepoint(name)) => ("SAVEPOINT", self.save(name)),
                Command::Transaction(TransactionCommand::Release(name)) => {
                    ("RELEASE", self.block.with(|open| open.release(&name)))
                }
                _ => return Ok(None),
            };
            done.map(|()| Some(Outcome::Done { verb }))
        };
        self.told(guarded_now(execute), failed, |outcome, _| outcome).transpose()
    }

    fn save(&self, name: String) -> Result<()> {
        let settings = self.planner().base().clone();
        self.block.with(|open| open.save(name, settings))
    }

    /// Notes a change of settings for the end of the transaction. Returns whether one is open.
    pub(super) fn note_settings(
        &self,
        before: &Arc<SessionState>,
        local: bool,
        change: &impl Fn(&mut SessionState) -> Result<()>,
    ) -> Result<bool> {
        let mut block = self.block.0.lock();
        let Some(open) = block.as_mut() else { return Ok(false) };
        let after = &mut open.settings.after;
        if local {
            after.get_or_insert(before.clone());
        } else if let Some(after) = after {
            let mut changed = SessionState::clone(after);
            change(&mut changed)?;
            *after = Arc::new(changed);
        }
        Ok(true)
    }

    fn begin(&self, modes: TransactionModes) -> Result<()> {
        let mut block = self.block.0.lock();
        if block.is_some() {
            return Err(Error::new(ErrorKind::Transaction, "a transaction is open already")
                .with_hint("COMMIT or ROLLBACK it, or set a SAVEPOINT"));
        }
        let transaction = self.database().store().begin()?;
        *block = Some(Open {
            id: transaction.id(),
            transaction: Some(transaction),
            snapshot: None,
            isolation: modes.isolation.unwrap_or_default(),
            read_only: modes.read_only.unwrap_or(false),
            savepoints: vec![],
            settings: Settings { before: self.planner().base().clone(), after: None },
            failed: Failure::default(),
            began: Instant::now(),
            max_age: settings::snapshot_max_age(self.planner().settings()),
            is_expired: false,
        });
        Ok(())
    }

    /// Ends the transaction. Its changes become durable, unless one of its statements failed.
    async fn commit(&self) -> Result<()> {
        let (mut transaction, settings) = {
            let mut block = self.block.0.lock();
            let open = block.as_mut().ok_or_else(none)?;
            if open.failed.is_set() {
                let before = open.settings.before.clone();
                *block = None;
                drop(block);
                self.use_settings(before);
                return Err(Error::new(
                    ErrorKind::Transaction,
                    "nothing was committed: a statement of this transaction failed, so it was rolled back",
                ));
            }
            let mut transaction = open.transaction.take().ok_or_else(busy)?;
            transaction.set_syncs(settings::synchronous_commit(self.planner().settings()));
            let settings = open.settings.clone();
            *block = None;
            (transaction, settings)
        };
        let (before, after) = (settings.before, settings.after);
        let cancellation = self.cancellation();
        let _guard = cancellation.guard();
        let context = self.write_context(cancellation);
        let committing = self.blocking(move |database| {
            transaction.set_waiting(context.waiting.clone());
            database.sequences().keep_new(&mut transaction)?;
            before_commit(&mut transaction, &context)?;
            transaction.commit()?;
            database.merge_soon();
            Ok(())
        });
        let committed = committing.await;
        match (&committed, after) {
            (Err(_), _) => self.use_settings(before),
            (Ok(()), Some(after)) => self.use_settings(after),
            (Ok(()), None) => {}
        }
        committed
    }

    /// Rolls back what is open.
    pub(super) fn end_transaction(&self) {
        drop(self.block.0.lock().take());
    }

    /// Runs a statement that writes, in the session's transaction or as one of its own. `repeats`: whether the work may
    /// be repeated if it conflicts with another transaction.
    pub(crate) async fn run_write<F>(&self, context: WriteContext, repeats: bool, work: F) -> Result<Outcome>
    where
        F: Fn(&mut WriteTransaction, &WriteContext) -> Result<Outcome> + Send + 'static,
    {
        let taken = self.block.take_for_write(context.target)?;
        let block = Block(self.block.0.clone());
        self.blocking(move |database| {
            database.drop_leftovers()?;
            match taken {
                Some((mut transaction, isolation)) => {
                    let outcome = in_block(&mut transaction, isolation, repeats, &context, &work);
                    block.put_back(transaction, outcome.is_ok());
                    outcome
                }
                None => {
                    let outcome = alone(database.store(), repeats, context, &work)?;
                    database.merge_soon();
                    Ok(outcome)
                }
            }
        })
        .await
    }

    /// How a statement waits for other transactions.
    pub(crate) fn waiting(&self, cancellation: &Cancellation) -> Waiting {
        let timeout = settings::lock_timeout(self.planner().settings());
        let cancellation = cancellation.clone();
        Waiting { timeout, goes_on: Some(Arc::new(move || !cancellation.is_cancelled())) }
    }
}

/// Runs a statement outside of a transaction: it commits if it succeeds, and is repeated if it conflicts, or if it reads a
/// text file in which a value does not have the type that was inferred from a sample.
fn alone(store: &Store, repeats: bool, mut context: WriteContext, work: Work<'_>) -> Result<Outcome> {
    let mut attempts = 0;
    let mut outgrown = None;
    loop {
        let mut transaction = store.write()?;
        transaction.set_waiting(context.waiting.clone());
        let is_temporary = context.target != WriteTarget::Database;
        transaction.set_syncs(!is_temporary && settings::synchronous_commit(context.planner().settings()));
        let done = statement(&mut transaction, &context, work).and_then(|outcome| {
            context.check_cancelled()?;
            context.planner().sequences().keep_new(&mut transaction)?;
            before_commit(&mut transaction, &context)?;
            transaction.commit()?;
            Ok(outcome)
        });
        match done {
            Err(error) if repeats && may_repeat(&error) => {
                context.check_cancelled()?;
                attempts += 1;
                if attempts >= ATTEMPTS_WITH_ROW_LOCKS {
                    context.row_lock = LockMode::Exclusive;
                }
                context.begin_again();
            }
            Err(error) => match context.inference.widened().filter(|_| repeats) {
                Some(widened) => {
                    context.check_cancelled()?;
                    context.inference = widened;
                    context.begin_again();
                    outgrown = Some(error);
                }
                // The error of the first run says what to declare.
                None => return Err(outgrown.unwrap_or(error)),
            },
            done => return done,
        }
    }
}

/// A statement of a transaction.
fn in_block(
    transaction: &mut WriteTransaction,
    isolation: Isolation,
    repeats: bool,
    context: &WriteContext,
    work: Work<'_>,
) -> Result<Outcome> {
    transaction.set_waiting(context.waiting.clone());
    transaction.prepare_write()?;
    if isolation == Isolation::Snapshot {
        return statement(transaction, context, work);
    }
    transaction.refresh()?;
    let before = transaction.statement_start();
    loop {
        match statement(transaction, context, work) {
            Err(error) if repeats && error.kind() == ErrorKind::Conflict => {
                context.check_cancelled()?;
                context.begin_again();
                transaction.roll_back_to(&before)?;
                transaction.refresh()?;
            }
            done => return done,
        }
    }
}

/// The work of a statement, with the checks that come at its end.
fn statement(transaction: &mut WriteTransaction, context: &WriteContext, work: Work<'_>) -> Result<Outcome> {
    within(Some(context.cancellation.clone()), || {
        let outcome = work(transaction, context)?;
        row_checks::check(transaction, context)?;
        transaction.check_keys()?;
        Ok(outcome)
    })
}

/// What is a part of each transaction: what becomes of temporary tables at its end, and views that it computes.
fn before_commit(transaction: &mut WriteTransaction, context: &WriteContext) -> Result<()> {
    on_commit::before_commit(context.planner().temp(), transaction)?;
    within(Some(context.cancellation.clone()), || materialized::compute_changed(transaction, context))
}

/// The error of a change in a transaction that only reads.
pub(crate) fn reads_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "this transaction may only read").with_hint("end it, or SET TRANSACTION READ WRITE")
}

/// A deadlock ends as well when one of its statements begins again.
fn may_repeat(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock)
}

impl Block {
    /// Lets the transaction be ended when it holds its snapshot for too long.
    pub(crate) fn register(&self, holders: &Holders) {
        holders.add(&self.0);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Open) -> Result<T>) -> Result<T> {
        work(self.0.lock().as_mut().ok_or_else(none)?)
    }

    /// Refuses changes in a transaction that only reads.
    pub(crate) fn check_write(&self) -> Result<()> {
        match self.0.lock().as_ref() {
            Some(open) if open.read_only => Err(reads_only()),
            _ => Ok(()),
        }
    }

    /// Takes the transaction for a statement that changes it.
    fn take_for_write(&self, target: WriteTarget) -> Result<Option<(WriteTransaction, Isolation)>> {
        let mut block = self.0.lock();
        let Some(open) = block.as_mut() else { return Ok(None) };
        open.expire_if_too_old();
        open.check()?;
        if open.read_only && target != WriteTarget::TemporaryRows {
            return Err(reads_only());
        }
        let transaction = open.transaction.take().ok_or_else(busy)?;
        open.snapshot.get_or_insert_with(|| transaction.base().clone());
        Ok(Some((transaction, open.isolation)))
    }

    /// Returns the transaction after the statement.
    fn put_back(&self, transaction: WriteTransaction, succeeded: bool) {
        let mut block = self.0.lock();
        // If this is not the open transaction, it was rolled back in the meantime.
        if let Some(open) = block.as_mut().filter(|open| open.id == transaction.id()) {
            open.transaction = Some(transaction);
            open.snapshot = None;
            open.keep_for_savepoints();
            if !succeeded {
                open.fail();
            }
        }
    }
}

impl HoldsSnapshot for Mutex<Option<Open>> {
    fn let_go(&self) {
        // Whoever has locked it is using it, and looks at its age, too.
        if let Some(mut block) = self.try_lock()
            && let Some(open) = block.as_mut()
        {
            open.expire_if_too_old();
        }
    }
}

impl Open {
    /// Ends the transaction if it holds its snapshot for longer than it may. A statement that writes is not interrupted.
    fn expire_if_too_old(&mut self) {
        let is_too_old = self.max_age.is_some_and(|max_age| self.began.elapsed() > max_age);
        if is_too_old && self.transaction.is_some() {
            (self.transaction, self.snapshot, self.is_expired) = (None, None, true);
            self.savepoints.clear();
            self.failed.set();
        }
    }

    /// Whether it accepts statements.
    fn check(&self) -> Result<()> {
        match (self.is_expired, self.failed.is_set()) {
            (true, _) => Err(Error::new(ErrorKind::Transaction, "this transaction was ended by snapshot_max_age")
                .with_hint("ROLLBACK, and repeat the transaction; a long query needs no BEGIN")),
            (_, true) => Err(failed()),
            _ => Ok(()),
        }
    }

    /// The transaction frees its locks, so that others need not wait: without a savepoint to return to, all of them, otherwise
    /// those since the last one.
    fn fail(&mut self) {
        self.failed.set();
        match (self.savepoints.last(), &self.transaction) {
            (None, _) => self.transaction = None,
            (Some(last), Some(transaction)) => transaction.free_locks_since(&last.savepoint),
            // It is freed when the running statement puts it back.
            (Some(_), None) => {}
        }
    }

    fn read(&mut self) -> Result<Arc<Snapshot>> {
        self.expire_if_too_old();
        self.check()?;
        let Some(transaction) = &mut self.transaction else { return self.snapshot.clone().ok_or_else(busy) };
        if self.isolation == Isolation::ReadCommitted || transaction.is_fresh() {
            transaction.refresh().inspect_err(|_| self.failed.set())?;
        }
        Ok(transaction.snapshot())
    }

    fn set_modes(&mut self, modes: TransactionModes) -> Result<()> {
        let is_fresh = self.transaction.as_ref().is_some_and(WriteTransaction::is_fresh);
        let changes = modes.isolation.is_some_and(|isolation| isolation != self.isolation)
            || modes.read_only == Some(false) && self.read_only;
        if changes && !is_fresh {
            return Err(Error::new(ErrorKind::Transaction, "SET TRANSACTION comes before the first statement")
                .with_hint("say it with BEGIN"));
        }
        self.isolation = modes.isolation.unwrap_or(self.isolation);
        self.read_only = modes.read_only.unwrap_or(self.read_only);
        Ok(())
    }

    fn save(&mut self, name: String, settings: Arc<SessionState>) -> Result<()> {
        self.check()?;
        let transaction = self.transaction.as_mut().ok_or_else(busy)?;
        if transaction.is_fresh() {
            transaction.refresh()?;
            transaction.snapshot();
        }
        let (savepoint, after) = (transaction.savepoint(), self.settings.after.clone());
        self.savepoints.push(Mark { name, savepoint, settings, after });
        Ok(())
    }

    fn release(&mut self, name: &str) -> Result<()> {
        self.check()?;
        let at = self.place_of(name)?;
        self.transaction.as_mut().ok_or_else(busy)?.release(&self.savepoints[at].savepoint);
        self.savepoints.truncate(at);
        self.keep_for_savepoints();
        Ok(())
    }

    /// Returns the settings of the session at the savepoint.
    fn roll_back_to(&mut self, name: &str) -> Result<Arc<SessionState>> {
        if self.is_expired {
            self.check()?;
        }
        let at = self.place_of(name)?;
        self.savepoints.truncate(at + 1);
        let transaction = self.transaction.as_mut().ok_or_else(busy)?;
        let mark = &self.savepoints[at];
        transaction.roll_back_to(&mark.savepoint)?;
        self.failed = Failure::default();
        self.settings.after = mark.after.clone();
        Ok(mark.settings.clone())
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints.iter().rposition(|mark| mark.name == name);
        place.ok_or_else(|| {
            let names = self.savepoints.iter().map(|mark| mark.name.as_str());
            Error::not_found("savepoint", name, names)
        })
    }

    /// Without savepoints nothing but the base is read again.
    fn keep_for_savepoints(&mut self) {
        if self.savepoints.is_empty()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.forget_savepoints();
        }
    }
}

fn none() -> Error {
    Error::new(ErrorKind::Transaction, "no transaction is open")
        .with_hint("BEGIN one; outside, each statement is a transaction of its own")
}

fn failed() -> Error {
    Error::new(ErrorKind::Transaction, "a statement of this transaction failed; nothing is executed until its end")
        .with_hint("ROLLBACK, or ROLLBACK TO a savepoint from before")
}

fn busy() -> Error {
    Error::new(ErrorKind::Transaction, "another statement of this transaction is running").with_hint("wait for its end")
}
