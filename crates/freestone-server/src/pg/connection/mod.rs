//! The connection of one client after its login: it reads messages and sends responses until either side closes it.

mod copy;
mod csv;
mod cursor;
mod describe;
mod execute;
mod failure;
mod header;
mod notify;
mod prepared;
mod scroll;
mod skipped;
mod transaction;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use freestone::{ReservedMemory, Session};
use freestone_wire::transport::WriteTimeout;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::catalog::Catalog;
use super::encoding::Encoding;
use super::error::PgError;
use super::frame::{self, FRAME_BYTES_MAX, Frame, FrameError, Message};
use super::login::Client;
use super::reply::{Replies, Status};
use super::settings::{Changed, Settings};
use crate::channels::{Listening, Notification};
use crate::execution::CountedMemory;
use crate::metrics::Metrics;
use crate::sessions::Registered;
use crate::shared::{Shared, Visit};
use crate::sqlstate;
pub use copy::TextFormat;
pub use csv::CsvFormat;
use cursor::Declared;
use describe::Portal;
use execute::Cursor;
use failure::Failure;
pub use header::Header;
pub use notify::{ChannelChange, ChannelChanges};
use prepared::Prepared;
use transaction::Transaction;

/// The bytes of responses that are buffered before they are sent.
const SEND_BYTES: usize = 64 << 10;
/// The maximum number of messages that a client may send ahead of the responses.
const MESSAGES_AHEAD: usize = 256;
/// How long a statement waits for the message behind it, which is usually in the same packet.
const NEXT_MESSAGE_WAIT: Duration = Duration::from_millis(5);

/// The reasons why a connection ends before the client ends it.
#[derive(Debug)]
pub enum End {
    /// The client has disconnected, or does not read what is sent.
    Gone,
    /// The client gets this error.
    Told(PgError),
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        End::Gone
    }
}

pub type Result<T, E = End> = std::result::Result<T, E>;

/// A message with its share of the bytes that may be queued, and its memory, if it is large.
type Incoming = (Result<Frame, FrameError>, Option<OwnedSemaphorePermit>, CountedMemory);

/// What a client without a running statement waits for.
enum Event {
    Message(Message),
    Notification(Arc<Notification>),
}

pub struct Connection {
    pub shared: Arc<Shared>,
    pub session: Arc<Session>,
    pub settings: Settings,
    pub catalog: Catalog,
    pub replies: Replies,
    pub status: Status,
    pub prepared: HashMap<String, Prepared>,
    pub portals: HashMap<String, Portal>,
    pub cursors: HashMap<String, Declared>,
    pub transaction: Transaction,
    pub channel_changes: ChannelChanges,
    listening: Listening,
    pub user: String,
    writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    messages: mpsc::Receiver<Incoming>,
    /// The next message, if it was looked at before its turn.
    next: Option<Incoming>,
    gone: watch::Receiver<bool>,
    registered: Registered,
    /// What the client has sent and keeps.
    pub memory: Arc<ReservedMemory>,
}

/// Serves a client until it disconnects.
pub async fn run(guest: Client, visit: Visit, shared: Arc<Shared>) {
    let session = shared.session(guest.role);
    let registered = shared.register(&visit, &session, (&guest.user, guest.role));
    let database = guest.parameters.iter().find(|(name, value)| name == "database" && !value.is_empty());
    let database = database.map_or(guest.user.as_str(), |(_, database)| database);
    let (channel_changes, listening) = (ChannelChanges::default(), shared.channels.join(registered.number));
    let client = (guest.user.as_str(), guest.role, database);
    let catalog = Catalog::install(&session, &shared, client, registered.number, channel_changes.clone());
    let (reader, writer) = tokio::io::split(guest.stream);
    let writer: Box<dyn AsyncWrite + Send + Sync + Unpin> = match shared.limits.write {
        Some(limit) => Box::new(WriteTimeout::new(writer, limit)),
        None => Box::new(writer),
    };
    let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
    let (went, gone) = watch::channel(false);
    let memory = Arc::new(session.reserve_memory_for("messages of a client"));
    let reading = tokio::spawn(read(reader, memory.clone(), sender, went));
    let settings = Settings::new(&guest.user, guest.role == crate::users::Role::Admin, shared.limits.statement);
    let mut connection = Connection {
        shared,
        session,
        settings,
        catalog,
        replies: Replies::default(),
        status: Status::Idle,
        prepared: HashMap::new(),
        portals: HashMap::new(),
        cursors: HashMap::new(),
        transaction: Transaction::default(),
        channel_changes,
        listening,
        user: guest.user,
        writer,
        messages,
        next: None,
        gone,
        registered,
        memory,
    };
    tracing::info!(connection = visit.number, user = connection.user, role = %guest.role, "connected over PostgreSQL's protocol");
    let ended = match connection.begin(guest.parameters).await {
        Ok(()) => connection.serve().await,
        Err(end) => Err(end),
    };
    if let Err(End::Told(error)) = &ended {
        connection.replies.error(error);
        let _ = connection.flush().await;
    }
    let _ = connection.writer.shutdown().await;
    connection.shared.advisory_locks.end(connection.registered.number);
    reading.abort();
    tracing::info!(connection = visit.number, "disconnected");
}

/// Reads messages ahead, so that a disconnect is noticed while a statement of the client runs.
async fn read(
    mut stream: impl AsyncRead + Unpin,
    memory: Arc<ReservedMemory>,
    sender: mpsc::Sender<Incoming>,
    went: watch::Sender<bool>,
) {
    let budget = Arc::new(Semaphore::new(FRAME_BYTES_MAX));
    loop {
        let mut counted = CountedMemory::nothing(memory.clone());
        let message = match frame::read(&mut stream, FRAME_BYTES_MAX, |bytes| counted.grow(bytes)).await {
            Ok(Some(message)) => Ok(message),
            Ok(None) | Err(FrameError::Io(_)) => break,
            Err(error) => Err(error),
        };
        let permit = match &message {
            Ok(frame) => budget.clone().acquire_many_owned(weight(frame)).await.ok(),
            Err(_) => None,
        };
        let ends = message.is_err();
        if sender.send((message, permit, counted)).await.is_err() || ends {
            break;
        }
    }
    went.send_replace(true);
}

/// The bytes of a queued message.
fn weight(frame: &Frame) -> u32 {
    u32::try_from(frame.bytes().min(FRAME_BYTES_MAX)).unwrap_or(u32::MAX)
}

impl Connection {
    /// Sends the client the properties of the server and the connection.
    async fn begin(&mut self, parameters: Vec<(String, String)>) -> Result<()> {
        for (name, value) in startup_settings(parameters) {
            match self.settings.set(&name, Some(&value)) {
                Ok(_) => {}
                // Settings that only PostgreSQL has are no reason to refuse a client, but wrong values are.
                Err(error) if error.code == sqlstate::UNDEFINED_OBJECT => {}
                Err(error) => return Err(End::Told(PgError { severity: "FATAL", ..error })),
            }
        }
        self.follow_read_only();
        self.begin_in_zone().await;
        let checked = self.session.set_stores_as_postgres(true);
        let checked = checked.and_then(|()| self.session.set_date_order(self.date_order())).map_err(PgError::from);
        checked.map_err(|error| End::Told(PgError { severity: "FATAL", ..error }))?;
        self.replies.encoding = self.settings.encoding();
        self.settings.begin();
        for (name, value) in self.settings.reported() {
            self.replies.parameter(name, value);
        }
        self.registered.waits(self.status.name());
        self.replies.key(self.registered.number, self.registered.key);
        self.replies.ready(self.status);
        self.flush().await
    }

    async fn serve(&mut self) -> Result<()> {
        loop {
            match self.next_request().await? {
                Message::Query(sql) => self.simple_query(&sql).await?,
                Message::Terminate => return Ok(()),
                Message::Sync => self.sync().await?,
                Message::Flush => self.flush().await?,
                // The client sent these messages before it knew that its COPY had failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
                Message::Unread { kind: b'd' | b'f', .. } => {}
                Message::FunctionCall => {
                    self.fail(&self.no_function()).await?;
                    self.ready().await?;
                }
                Message::Unread { kind: b'Q' | b'S', reason } => {
                    self.fail(&PgError::unread(&reason)).await?;
                    self.ready().await?;
                }
                Message::Unread { reason, .. } => {
                    self.fail(&PgError::unread(&reason)).await?;
                    self.flush().await?;
                    self.skip_to_sync().await?;
                }
                message => {
                    if let Err(error) = self.extended(message).await? {
                        self.fail(&error).await?;
                        self.flush().await?;
                        self.skip_to_sync().await?;
                    }
                }
            }
        }
    }

    /// Why no function is called by its OID.
    fn no_function(&self) -> PgError {
        if self.status == Status::Failed {
            return execute::failed();
        }
        let message = "functions have no OIDs by which they could be called";
        PgError::new(sqlstate::UNDEFINED_FUNCTION, message).with_hint("SELECT the function by its name")
    }

    /// After an error of the extended protocol, messages that the client sent ahead are skipped.
    async fn skip_to_sync(&mut self) -> Result<()> {
        loop {
            match self.next_request().await? {
                Message::Sync => return self.ready().await,
                Message::Unread { kind: b'S', reason } => {
                    self.fail(&PgError::unread(&reason)).await?;
                    return self.ready().await;
                }
                Message::Terminate => return Err(End::Gone),
                _ => {}
            }
        }
    }

    /// The next message of a client without a running statement. The idle timeout applies. Notifications that come in the
    /// meantime are sent.
    async fn next_request(&mut self) -> Result<Message> {
        loop {
            let notification = match self.next_event().await? {
                Event::Message(message) => return Ok(message),
                Event::Notification(notification) => notification,
            };
            self.replies.notification(&notification);
            self.flush().await?;
        }
    }

    async fn next_event(&mut self) -> Result<Event> {
        let (shared, idle) = (self.shared.clone(), self.shared.limits.idle);
        let in_transaction = if self.status == Status::Idle { None } else { self.settings.idle_in_transaction_limit() };
        let wait = |limit: Option<Duration>| async move {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let (is_free, encoding) = (!self.has_transaction(), self.replies.encoding);
        let ended = self.registered.ended();
        tokio::select! {
            biased;
            why = ended => Err(End::Told(PgError::fatal(sqlstate::ADMIN_SHUTDOWN, why.message()))),
            message = Connection::following(&mut self.next, &mut self.messages) => {
                Connection::received(message, encoding).map(Event::Message)
            }
            notification = self.listening.wait(), if is_free => Ok(Event::Notification(notification)),
            () = shared.stopping() => Err(End::Told(PgError::fatal(sqlstate::ADMIN_SHUTDOWN, "the server is stopping"))),
            () = wait(idle) => {
                let reason = "the connection was idle for too long";
                Err(End::Told(PgError::fatal(sqlstate::IDLE_SESSION_TIMEOUT, reason)))
            }
            () = wait(in_transaction) => {
                let reason = "the transaction was idle for too long, and is rolled back";
                Err(End::Told(PgError::fatal(sqlstate::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, reason)))
            }
        }
    }

    /// Why the session has to end now; nothing if it goes on.
    async fn ending(&self) -> Option<End> {
        tokio::select! {
            biased;
            why = self.registered.ended() => Some(End::Told(PgError::fatal(sqlstate::ADMIN_SHUTDOWN, why.message()))),
            () = std::future::ready(()) => None,
        }
    }

    /// The next message, unless the session has to end.
    pub async fn next_message(&mut self) -> Result<Message> {
        let (ended, encoding) = (self.registered.ended(), self.replies.encoding);
        tokio::select! {
            biased;
            why = ended => Err(End::Told(PgError::fatal(sqlstate::ADMIN_SHUTDOWN, why.message()))),
            message = Connection::following(&mut self.next, &mut self.messages) => Connection::received(message, encoding),
        }
    }

    fn received(message: Option<Incoming>, encoding: Encoding) -> Result<Message> {
        let (frame, ..) = message.ok_or(End::Gone)?;
        match frame.and_then(|frame| frame.parse(encoding)) {
            // After the login, nobody asks for it.
            Ok(Message::Password(_)) => Err(End::Told(FrameError::Kind(b'p').into())),
            parsed => parsed.map_err(|error| End::Told(error.into())),
        }
    }

    async fn following(next: &mut Option<Incoming>, messages: &mut mpsc::Receiver<Incoming>) -> Option<Incoming> {
        match next.take() {
            Some(message) => Some(message),
            None => messages.recv().await,
        }
    }

    /// Whether the next message is a Sync. One that does not come at once counts as another.
    pub async fn syncs_next(&mut self) -> bool {
        if self.next.is_none() {
            self.next = tokio::time::timeout(NEXT_MESSAGE_WAIT, self.messages.recv()).await.ok().flatten();
        }
        matches!(&self.next, Some((Ok(frame), ..)) if frame.is_sync())
    }

    /// Runs work while the client is connected. If it disconnects, the work is dropped.
    pub async fn while_there<T>(gone: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Result<T> {
        let mut gone = gone.clone();
        tokio::select! {
            done = work => Ok(done),
            Ok(_) = gone.wait_for(|gone| *gone) => Err(End::Gone),
        }
    }

    pub fn gone(&self) -> watch::Receiver<bool> {
        self.gone.clone()
    }

    /// Ends a simple query, or a batch of the extended protocol.
    pub async fn ready(&mut self) -> Result<()> {
        if self.status != Status::InTransaction {
            self.portals.clear();
        }
        if !self.has_transaction() {
            self.apply_channel_changes();
            self.tell_notifications();
            self.shared.advisory_locks.end_transaction(self.registered.number);
        }
        self.registered.waits(self.status.name());
        self.replies.ready(self.status);
        self.flush().await
    }

    /// Ends a batch of the extended protocol, whose statements are committed.
    async fn sync(&mut self) -> Result<()> {
        match self.commit_implicit().await {
            Ok(()) => {}
            Err(Failure::Error(error)) => self.replies.error(&error),
            Err(Failure::End(end)) => return Err(end),
        }
        self.ready().await
    }

    /// Sends an error. It ends the transaction, or undoes the statements of the query or pipeline.
    pub async fn fail(&mut self, error: &PgError) -> Result<()> {
        // The statement of a session that another one ends was cancelled for that.
        if error.code == sqlstate::QUERY_CANCELED
            && let Some(end) = self.ending().await
        {
            return Err(end);
        }
        self.replies.error(error);
        if !self.has_transaction() {
            drop(self.channel_changes.take());
        }
        if self.status == Status::InTransaction {
            self.status = Status::Failed;
            self.session.fail_transaction();
        }
        match self.roll_back_implicit().await {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(End::Told(PgError { severity: "FATAL", ..error })),
            Err(Failure::End(end)) => Err(end),
        }
    }

    pub fn changed(&mut self, changed: Changed) {
        match changed {
            Changed::Reported { name, value } => self.replies.parameter(name, &value),
            Changed::Kept => {}
        }
    }

    /// Sends the buffered responses. When this is dropped, what was not sent remains to be sent.
    pub async fn flush(&mut self) -> Result<()> {
        while self.replies.sent < self.replies.bytes.len() {
            let count = self.writer.write(&self.replies.bytes[self.replies.sent..]).await?;
            if count == 0 {
                return Err(End::Gone);
            }
            self.replies.sent += count;
            Metrics::add(&self.shared.metrics.bytes, count as u64);
        }
        self.replies.clear(SEND_BYTES * 2);
        Ok(self.writer.flush().await?)
    }

    /// Sends the buffered responses, if they are large.
    pub async fn flush_if_full(&mut self) -> Result<()> {
        if self.replies.bytes.len() < SEND_BYTES { Ok(()) } else { self.flush().await }
    }

    /// The same for rows, but not past the time of their statement.
    pub async fn flush_rows_if_full(&mut self, cursor: &Cursor) -> Result<(), Failure> {
        if self.replies.bytes.len() < SEND_BYTES {
            return Ok(());
        }
        Ok(cursor.within(self.flush()).await??)
    }
}

/// The settings of a startup message: those that it names, and those in `options` as `-c name=value`.
fn startup_settings(parameters: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut settings = vec![];
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.extend(option_words(&value).iter().filter_map(|word| option(word))),
            _ => settings.push((name, value)),
        }
    }
    settings
}

/// The words of `options`, in which a backslash makes the next character part of a word.
fn option_words(text: &str) -> Vec<String> {
    let (mut words, mut chars, mut in_word) = (vec![], text.chars(), false);
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            in_word = false;
            continue;
        }
        if !std::mem::replace(&mut in_word, true) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
    }
    words
}

/// The setting of `--name=value`, in whose name `-` is `_`, or of `-c name=value`, which are one word or two.
fn option(word: &str) -> Option<(String, String)> {
    if let Some((name, value)) = word.strip_prefix("--").and_then(|long| long.split_once('=')) {
        return Some((name.replace('-', "_"), value.to_owned()));
    }
    let (name, value) = word.strip_prefix("-c").unwrap_or(word).split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let options = "-c statement_timeout=5s -csearch_path=a\\ b --extra-float-digits=0 -c x=a--b";
        let given = [("user", "ann"), ("options", options), ("application_name", "x")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let settings = startup_settings(given);
        let expected = [
            ("statement_timeout", "5s"),
            ("search_path", "a b"),
            ("extra_float_digits", "0"),
            ("x", "a--b"),
            ("application_name", "x"),
        ];
        assert_eq!(settings, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
