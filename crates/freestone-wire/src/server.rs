//! The server's side: authentication, requests, and replies.
//!
//! An [`Acceptor`] knows all sessions. It makes a [`Connection`] of an authenticated stream. A connection gives
//! [`Request`]s in order, each with the [`Reply`] through which to answer it. Streams that only cancel, or join a
//! session to carry its chunks, are handled here.

mod share;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use freestone_store::plain::Strings;
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::auth::{self, Authenticator, ServerScram, random};
use crate::batch::Batch;
use crate::chunk;
use crate::column::ByteCodec;
use crate::error::{Result, SqlError, WireError, sqlstate};
use crate::frame::{Kind, Message, frame, read_header, read_payload};
use crate::growth::Growth;
use crate::incoming::Incoming;
use crate::limits::ChunkSizes;
use crate::memory::ServerMemory;
use crate::memory::arena::{Arena, Budget};
use crate::message::{self, Hello, MAGIC, Purpose, VERSION, capability};
use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::sender::{ChunkSender, Context, Preference};
use crate::transport::{Reader, Stream};
use crate::types::{describe, schema_of, wire_schema};

/// The limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time within which a client has to authenticate itself.
    pub handshake: Duration,
    /// The largest request in bytes, and the largest chunk of an upload.
    pub request_bytes_max: usize,
    /// The largest chunk for a client, whatever it requests or agrees to.
    pub chunk_bytes_max: usize,
    /// The number of threads that encode one result.
    pub threads: usize,
    /// The maximum number of streams of one session.
    pub streams_max: usize,
    /// Whether clients on this machine are offered shared memory.
    pub shared_memory: bool,
    /// The maximum memory of results in shared memory, in bytes. Without room, results are copied through it.
    pub placed_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            request_bytes_max: 16 << 20,
            chunk_bytes_max: 64 << 20,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            streams_max: 16,
            shared_memory: true,
            placed_bytes_max: freestone_store::memory::limit().map_or(0, |bytes| bytes / 8),
        }
    }
}

/// The largest message before a client has authenticated itself.
const HELLO_BYTES_MAX: usize = 4 << 10;
/// The smallest chunk that a client may request: the smallest one in Raasveldt and Mühleisen 2017, table 3.
const CHUNK_BYTES_MIN: usize = 2 << 10;
/// More credit than this is an error.
const CREDIT_MAX: usize = 1 << 16;
/// The maximum number of requests that a client may send ahead.
const REQUESTS_AHEAD: usize = 16;
/// The number of chunks of an upload that a client may send ahead.
const UPLOAD_CREDIT: u32 = 4;
/// The maximum number of messages of an upload that may wait: those chunks, and the states that they need. Their bytes
/// may be this many times those of the largest request.
const UPLOAD_AHEAD: usize = 1024;
const UPLOAD_AHEAD_BYTES: usize = 4;

/// The maximum number of tables that a client may send with one statement.
const INPUTS_MAX: usize = 256;

/// All sessions of a server.
pub struct Acceptor {
    users: Arc<dyn Authenticator>,
    limits: Limits,
    secret: [u8; 32],
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    memory: tokio::sync::OnceCell<String>,
    /// By database user, and operating-system user of the client's processes.
    arenas: Mutex<HashMap<(String, u32), Weak<Arena>>>,
    budget: Arc<Budget>,
}

/// Shared by the streams of one client.
struct Session {
    id: u64,
    key: [u8; 32],
    main: Arc<Outgoing>,
    attached: Mutex<Vec<Arc<Outgoing>>>,
    results: Mutex<HashMap<u32, Active>>,
    uploads: Mutex<HashMap<u32, UploadRoute>>,
    /// Tables for the next statement.
    inputs: Mutex<Vec<Input>>,
    user: String,
    memory: OnceLock<Arc<ServerMemory>>,
    pool: Arc<Pool>,
    chunk_bytes_max: usize,
    /// The largest chunk of one row that the client accepts.
    row_bytes_max: Arc<AtomicUsize>,
    capabilities: u32,
    limits: Limits,
    /// The last ping, if the stream was busy when it arrived.
    ping: Mutex<Option<u64>>,
    is_gone: AtomicBool,
}

/// A result that is being produced.
struct Active {
    credit: Arc<Semaphore>,
    cancel: watch::Sender<bool>,
    growth: Option<Arc<Growth>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn cancel_all(&self) {
        for active in lock(&self.results).values() {
            active.cancel.send_replace(true);
        }
    }

    fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.cancel_all();
        lock(&self.uploads).clear();
        // Each removes itself from the uploads, so they must not be dropped while the lock is held.
        let inputs = std::mem::take(&mut *lock(&self.inputs));
        drop(inputs);
    }

    /// Answers a waiting ping.
    async fn answer_ping(&self) {
        let waiting = lock(&self.ping).take();
        if let Some(number) = waiting {
            _ = self.main.send(0, &message::Pong { number }).await;
        }
    }
}

impl Acceptor {
    /// A server without sessions.
    pub fn new(users: Arc<dyn Authenticator>, limits: Limits) -> Arc<Self> {
        let secret = users.secret().unwrap_or_else(random);
        let budget = Budget::new(limits.placed_bytes_max);
        let memory = tokio::sync::OnceCell::new();
        Arc::new(Self { users, limits, secret, sessions: Mutex::default(), memory, arenas: Mutex::default(), budget })
    }

    /// Authenticates a stream. `None` if it was a request to cancel, or joined a session.
    ///
    /// # Errors
    /// Authentication failed. The client was told already, and the stream is closed.
    pub async fn accept(self: &Arc<Self>, stream: Stream) -> Result<Option<Connection>> {
        let Stream { mut reader, writer, is_local } = stream;
        let outgoing = Arc::new(Outgoing::new(writer, is_local));
        let shaken = tokio::time::timeout(self.limits.handshake, self.shake_hands(&mut reader, &outgoing)).await;
        let shaken = shaken.unwrap_or(Err(WireError::Timeout("before the client had authenticated itself")));
        match shaken {
            Ok(Some((session, user, client))) => {
                Ok(Some(Connection::open(self.clone(), session, user, client, reader)))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                let failure = message::Failure::from(error.to_sql());
                let told = async {
                    _ = outgoing.send(0, &failure).await;
                    outgoing.lock().await.close().await;
                };
                _ = tokio::time::timeout(Duration::from_secs(1), told).await;
                Err(error)
            }
        }
    }

    async fn shake_hands(
        self: &Arc<Self>,
        reader: &mut Reader,
        outgoing: &Arc<Outgoing>,
    ) -> Result<Option<(Arc<Session>, String, String)>> {
        let hello: Hello = expect(reader).await?;
        if hello.magic != MAGIC {
            return Err(WireError::malformed("hello", "this is the port of a Freestone server"));
        }
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            let reason =
                format!("versions {} to {}; this server speaks {VERSION}", hello.version_min, hello.version_max);
            return Err(WireError::malformed("hello", reason));
        }
        if (hello.chunk_bytes_max as usize) < CHUNK_BYTES_MIN {
            let reason = format!("chunks of {} bytes; at least {CHUNK_BYTES_MIN} are needed", hello.chunk_bytes_max);
            return Err(WireError::malformed("hello", reason));
        }
        match &hello.purpose {
            Purpose::Cancel { session, key } => {
                self.session(*session, key)?.cancel_all();
                Ok(None)
            }
            Purpose::Attach { session, key } => {
                self.attach(self.session(*session, key)?, outgoing).await.map(|()| None)
            }
            Purpose::Session { client_first } => {
                let user = auth::user_of(client_first)?;
                let verifier = self.users.verifier(&user);
                let (scram, server_first) =
                    ServerScram::challenge(client_first, &[auth::UNBOUND], &user, verifier, &self.secret)?;
                outgoing.send(0, &message::Challenge { version: VERSION, server_first }).await?;
                let proof: message::Proof = expect(reader).await?;
                let server_final = match scram.check(&proof.client_final, &[]) {
                    Err(error @ WireError::Authentication(_)) => {
                        tokio::time::sleep(self.users.failed(&user)).await;
                        return Err(error);
                    }
                    checked => checked?,
                };
                let session = self.new_session(&hello, &user, outgoing);
                outgoing.send(0, &self.ready(&session, server_final).await).await?;
                Ok(Some((session, user, hello.client)))
            }
        }
    }

    /// The session with this id, if the key is correct.
    fn session(&self, id: u64, key: &[u8; 32]) -> Result<Arc<Session>> {
        let session = lock(&self.sessions).get(&id).cloned();
        let session = session.filter(|session| bool::from(session.key.ct_eq(key)));
        session.ok_or_else(|| WireError::Authentication("there is no such session, or the key is not its own".into()))
    }

    fn new_session(&self, hello: &Hello, user: &str, outgoing: &Arc<Outgoing>) -> Arc<Session> {
        let chunk_bytes_max = (hello.chunk_bytes_max as usize).min(self.limits.chunk_bytes_max.max(CHUNK_BYTES_MIN));
        let mut sessions = lock(&self.sessions);
        let mut id = u64::from_le_bytes(random());
        while sessions.contains_key(&id) {
            id = u64::from_le_bytes(random());
        }
        let session = Arc::new(Session {
            id,
            key: random(),
            main: outgoing.clone(),
            attached: Mutex::default(),
            results: Mutex::default(),
            uploads: Mutex::default(),
            inputs: Mutex::default(),
            user: user.to_owned(),
            memory: OnceLock::new(),
            pool: Pool::new(2 * self.limits.threads + 2, chunk_bytes_max),
            chunk_bytes_max,
            row_bytes_max: Arc::new(AtomicUsize::new(chunk_bytes_max)),
            capabilities: hello.capabilities & capability::ALL,
            limits: self.limits.clone(),
            ping: Mutex::default(),
            is_gone: AtomicBool::new(false),
        });
        sessions.insert(id, session.clone());
        session
    }

    async fn ready(self: &Arc<Self>, session: &Session, server_final: String) -> message::Ready {
        let wants_memory = session.capabilities & capability::SHARED_MEMORY != 0;
        let memory = match wants_memory && session.main.is_local && self.limits.shared_memory {
            true => self.memory.get_or_init(|| self.clone().offer_memory()).await.clone(),
            false => String::new(),
        };
        message::Ready {
            server_final,
            session: session.id,
            key: session.key,
            frame_bytes_max: self.limits.request_bytes_max as u32,
            capabilities: session.capabilities,
            server: concat!("Freestone ", env!("CARGO_PKG_VERSION")).into(),
            memory,
        }
    }

    async fn attach(&self, session: Arc<Session>, outgoing: &Arc<Outgoing>) -> Result<()> {
        if lock(&session.attached).len() + 2 > self.limits.streams_max {
            let reason = format!("a session may have {} streams", self.limits.streams_max);
            return Err(WireError::Config(reason));
        }
        let ready = message::Ready {
            server_final: String::new(),
            session: session.id,
            key: [0; 32],
            frame_bytes_max: self.limits.request_bytes_max as u32,
            capabilities: session.capabilities,
            server: String::new(),
            memory: String::new(),
        };
        outgoing.send(0, &ready).await?;
        lock(&session.attached).push(outgoing.clone());
        Ok(())
    }
}

/// Reads the one expected message.
async fn expect<M: Message>(reader: &mut Reader) -> Result<M> {
    let header = read_header(reader, HELLO_BYTES_MAX).await?.ok_or(WireError::Closed("by the client"))?;
    if header.kind != M::KIND {
        let reason = format!("{:?} where {:?} was expected", header.kind, M::KIND);
        return Err(WireError::malformed("handshake", reason));
    }
    M::parse(&read_payload(reader, &header).await?)
}

/// An authenticated client. Dropping it ends the session.
pub struct Connection {
    acceptor: Arc<Acceptor>,
    session: Arc<Session>,
    user: String,
    client: String,
    requests: mpsc::Receiver<Result<Request>>,
    reading: JoinHandle<()>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("session", &self.session.id)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A client's request. Every request except [`Request::Close`] must be answered through its reply.
#[derive(Debug)]
pub enum Request {
    /// Run a statement. Its parameters are one row.
    #[allow(missing_docs)]
    Query { sql: String, parameters: Option<RecordBatch>, inputs: Vec<Input>, reply: Reply },
    /// Prepare a statement, whose number is that of the reply. Parameters and inputs describe those of later
    /// executions, as far as they are known; no rows of these inputs are sent.
    #[allow(missing_docs)]
    Prepare { sql: String, parameters: Option<RecordBatch>, inputs: Vec<Input>, reply: Reply },
    /// Run the prepared statement with this number.
    #[allow(missing_docs)]
    Execute { statement: u32, parameters: Option<RecordBatch>, inputs: Vec<Input>, reply: Reply },
    /// Close the prepared statement with this number. Needs no answer.
    #[allow(missing_docs)]
    Close { statement: u32 },
    /// Write rows to a target.
    #[allow(missing_docs)]
    Upload { target: String, schema: SchemaRef, rows: UploadStream, reply: Reply },
}

impl Connection {
    fn open(acceptor: Arc<Acceptor>, session: Arc<Session>, user: String, client: String, reader: Reader) -> Self {
        let (sender, requests) = mpsc::channel(REQUESTS_AHEAD);
        let reading = tokio::spawn(read_requests(session.clone(), reader, sender));
        Self { acceptor, session, user, client, requests, reading }
    }

    /// The authenticated user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The client's description of itself.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The number of the session, which is no secret.
    pub fn session(&self) -> u64 {
        self.session.id
    }

    /// The next request; `None` when the client has disconnected.
    ///
    /// # Errors
    /// The connection is broken, or the client violated the protocol, which it was told. The connection can no longer
    /// be used.
    pub async fn next(&mut self) -> Result<Option<Request>> {
        let next = self.requests.recv().await.transpose();
        if let Err(error) = &next {
            _ = self.session.main.send(0, &message::Failure::from(error.to_sql())).await;
            self.session.main.lock().await.close().await;
        }
        next
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reading.abort();
        lock(&self.acceptor.sessions).remove(&self.session.id);
        self.session.end();
    }
}

async fn read_requests(session: Arc<Session>, mut reader: Reader, requests: mpsc::Sender<Result<Request>>) {
    loop {
        match read_request(&session, &mut reader, &requests).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                session.end();
                _ = requests.send(Err(error)).await;
                break;
            }
        }
    }
    session.end();
}

/// Reads one message. Returns whether more may follow.
async fn read_request(
    session: &Arc<Session>,
    reader: &mut Reader,
    requests: &mpsc::Sender<Result<Request>>,
) -> Result<bool> {
    let Some(header) = read_header(reader, session.limits.request_bytes_max).await? else { return Ok(false) };
    let payload = read_payload(reader, &header).await?;
    let id = header.id;
    let request = match header.kind {
        Kind::Query => {
            let query = message::Query::parse(&payload)?;
            let (parameters, reply) = session.run(id, query.run)?;
            Request::Query { sql: query.text, parameters, inputs: session.take_inputs(), reply }
        }
        Kind::Execute => {
            let execute = message::Execute::parse(&payload)?;
            let (parameters, reply) = session.run(id, execute.run)?;
            Request::Execute { statement: execute.statement, parameters, inputs: session.take_inputs(), reply }
        }
        Kind::Prepare => {
            let message::Prepare { text, parameter_columns, parameters } = message::Prepare::parse(&payload)?;
            let parameters = session.parameters(&parameter_columns, parameters.0)?;
            let inputs = session.take_inputs();
            Request::Prepare { sql: text, parameters, inputs, reply: session.reply(id, 0)? }
        }
        Kind::Input => return session.add_input(id, message::Input::parse(&payload)?).map(|()| true),
        Kind::CloseStatement => Request::Close { statement: id },
        Kind::Upload => {
            let upload = message::Upload::parse(&payload)?;
            let schema = schema_of(&upload.columns)?;
            let reply = session.reply(id, 0)?;
            let rows = session.upload(id, schema.clone());
            Request::Upload { target: upload.target, schema, rows, reply }
        }
        Kind::Shared => {
            let part = UploadPart::Shared(message::Shared::parse(&payload)?);
            return session.upload_part(id, part).map(|()| true);
        }
        Kind::Chunk => return session.upload_part(id, UploadPart::Chunk(payload)).map(|()| true),
        Kind::UploadEnd => {
            let end = message::UploadEnd::parse(&payload)?;
            return session.upload_part(id, UploadPart::End(end)).map(|()| true);
        }
        Kind::Credit => return session.add_credit(id, message::Credit::parse(&payload)?.chunks).map(|()| true),
        Kind::Grow => return session.grown(id, message::Grow::parse(&payload)?).map(|()| true),
        Kind::Cancel => {
            lock(&session.results).get(&id).iter().for_each(|active| _ = active.cancel.send_replace(true));
            return Ok(true);
        }
        Kind::Ping => {
            *lock(&session.ping) = Some(message::Ping::parse(&payload)?.number);
            // A busy stream answers after its next frame. Reading must continue, because otherwise no credit would
            // arrive.
            if let Some(writer) = session.main.try_lock() {
                drop(writer);
                session.answer_ping().await;
            }
            return Ok(true);
        }
        Kind::Terminate => return Ok(false),
        other => return Err(WireError::malformed("request", format!("{other:?} is not what clients send"))),
    };
    // Running results need this task for their credit, so it must not wait for room.
    match requests.try_send(Ok(request)) {
        Ok(()) => Ok(true),
        Err(mpsc::error::TrySendError::Closed(_)) => Ok(false),
        Err(mpsc::error::TrySendError::Full(_)) => {
            Err(WireError::malformed("request", format!("more than {REQUESTS_AHEAD} requests wait already")))
        }
    }
}

impl Session {
    fn run(self: &Arc<Self>, id: u32, run: message::Run) -> Result<(Option<RecordBatch>, Reply)> {
        let parameters = self.parameters(&run.parameter_columns, run.parameters.0)?;
        Ok((parameters, self.reply(id, run.credit)?))
    }

    /// The values of parameters, as one row.
    fn parameters(&self, columns: &[message::ColumnDescription], row: Vec<u8>) -> Result<Option<RecordBatch>> {
        if columns.is_empty() {
            return Ok(None);
        }
        let row = chunk::decode_one(row, &schema_of(columns)?, self.limits.request_bytes_max)?;
        if row.num_rows() != 1 {
            return Err(WireError::malformed("query", format!("parameters of {} rows", row.num_rows())));
        }
        Ok(Some(row))
    }

    fn add_input(self: &Arc<Self>, id: u32, input: message::Input) -> Result<()> {
        let message::Input { name, whole, columns } = input;
        let schema = schema_of(&columns)?;
        if id == 0 || lock(&self.uploads).contains_key(&id) || lock(&self.results).contains_key(&id) {
            return Err(WireError::malformed("input", format!("id {id} is in use, or 0")));
        }
        if lock(&self.inputs).len() == INPUTS_MAX {
            return Err(WireError::malformed("input", format!("a statement may have {INPUTS_MAX} inputs")));
        }
        let rows = self.upload(id, schema.clone());
        lock(&self.inputs).push(Input { name, whole, schema, rows });
        Ok(())
    }

    fn take_inputs(&self) -> Vec<Input> {
        std::mem::take(&mut *lock(&self.inputs))
    }

    fn reply(self: &Arc<Self>, id: u32, credit: u32) -> Result<Reply> {
        let credit = Arc::new(Semaphore::new((credit as usize).min(CREDIT_MAX)));
        let (cancel, _) = watch::channel(false);
        let grows = self.capabilities & capability::GROW != 0;
        let growth = grows.then(|| Arc::new(Growth::new(id, self.main.clone(), self.row_bytes_max.clone())));
        let active = Active { credit: credit.clone(), cancel: cancel.clone(), growth: growth.clone() };
        if id == 0 || lock(&self.results).insert(id, active).is_some() {
            return Err(WireError::malformed("request", format!("id {id} is in use, or 0")));
        }
        if self.is_gone.load(Ordering::Acquire) {
            cancel.send_replace(true);
        }
        let (session, since) = (self.clone(), Instant::now());
        Ok(Reply { session, id, credit, growth, cancel, since, is_answered: false })
    }

    fn add_credit(&self, id: u32, chunks: u32) -> Result<()> {
        // Credit may arrive for a result that has just ended.
        let Some(credit) = lock(&self.results).get(&id).map(|active| active.credit.clone()) else { return Ok(()) };
        if credit.available_permits() + chunks as usize > CREDIT_MAX {
            return Err(WireError::malformed("credit", format!("{chunks} more chunks exceed the maximum")));
        }
        credit.add_permits(chunks as usize);
        Ok(())
    }

    /// Takes the client's answer to a row that is larger than its largest chunk. The result may have ended meanwhile.
    fn grown(&self, id: u32, answer: message::Grow) -> Result<()> {
        let growth = lock(&self.results).get(&id).map(|active| active.growth.clone());
        match growth {
            Some(None) => return Err(WireError::malformed("request", "Grow without the capability")),
            Some(Some(growth)) => growth.answered(answer.bytes as usize),
            None => {}
        }
        Ok(())
    }

    fn upload(self: &Arc<Self>, id: u32, schema: SchemaRef) -> UploadStream {
        let (sender, parts) = mpsc::channel(UPLOAD_AHEAD);
        let waiting = Arc::new(AtomicUsize::new(0));
        lock(&self.uploads).insert(id, UploadRoute { parts: sender, waiting: waiting.clone() });
        UploadStream {
            session: self.clone(),
            id,
            schema,
            parts,
            waiting,
            incoming: Incoming::default(),
            is_open: false,
            rows: 0,
        }
    }

    fn upload_part(&self, id: u32, part: UploadPart) -> Result<()> {
        // A client may continue to send until it learns that its upload failed.
        let uploads = lock(&self.uploads);
        let Some(route) = uploads.get(&id) else { return Ok(()) };
        let bytes = part.bytes();
        let waiting = route.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let is_full = waiting > UPLOAD_AHEAD_BYTES * self.limits.request_bytes_max;
        match route.parts.try_send(part) {
            Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Ok(()) if !is_full => Ok(()),
            _ => Err(WireError::malformed("upload", "more chunks than there is credit for")),
        }
    }

    fn streams(&self) -> Vec<Arc<Outgoing>> {
        let mut streams = vec![self.main.clone()];
        streams.extend(lock(&self.attached).iter().cloned());
        streams
    }
}

/// The byte codecs among a client's capabilities.
pub(crate) fn codecs(capabilities: u32) -> Vec<ByteCodec> {
    let known = [
        (capability::LZ4, ByteCodec::Lz4),
        (capability::ZSTD, ByteCodec::Zstd),
        (capability::SNAPPY, ByteCodec::Snappy),
    ];
    let has = known.into_iter().filter(|(bit, _)| capabilities & bit != 0).map(|(_, codec)| codec);
    std::iter::once(ByteCodec::None).chain(has).collect()
}

/// The way to answer one request. If it is dropped without an answer, the client gets an error.
pub struct Reply {
    session: Arc<Session>,
    id: u32,
    credit: Arc<Semaphore>,
    growth: Option<Arc<Growth>>,
    cancel: watch::Sender<bool>,
    since: Instant,
    is_answered: bool,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Reply {
    /// The number of the result, or of the statement that is being prepared.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Completes when the client cancels the request or disconnects. Independent of the reply's lifetime.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut cancel = self.cancel.subscribe();
        // An error means that the reply, and with it the request, no longer exists.
        async move { _ = cancel.wait_for(|is_cancelled| *is_cancelled).await }
    }

    /// Whether the client has cancelled the request or disconnected.
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Sends a notice to the user.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn notice(&self, text: &str) -> Result<()> {
        self.session.main.send(self.id, &message::Notice { text: text.into() }).await
    }

    /// Reports the progress of the request: rows or bytes done and in total; 0 if unknown.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn progress(&self, done: u64, total: u64) -> Result<()> {
        self.session.main.send(self.id, &message::Progress { done, total }).await
    }

    /// Begins a result with rows. `schema` may have any Arrow types.
    ///
    /// # Errors
    /// A type cannot be described.
    pub fn rows(self, schema: &Schema) -> Result<ResultSender> {
        self.rows_as(schema, Preference::Measured)
    }

    /// As [`Reply::rows`], with columns encoded by `preference`.
    ///
    /// # Errors
    /// As for [`Reply::rows`].
    pub fn rows_as(self, schema: &Schema, preference: Preference) -> Result<ResultSender> {
        let header = frame(self.id, &message::Header { columns: describe(schema)? });
        let session = &self.session;
        let bytes_ceiling = session.limits.chunk_bytes_max.max(session.chunk_bytes_max);
        let bytes_max = if self.growth.is_some() { bytes_ceiling } else { session.chunk_bytes_max };
        let context = Context {
            id: self.id,
            schema: wire_schema(schema),
            chunk_bytes_max: session.chunk_bytes_max,
            row: chunk::RowLimit { agreed: session.chunk_bytes_max, bytes_max, bytes_ceiling },
            growth: self.growth.clone(),
            codecs: codecs(session.capabilities),
            stored: session.capabilities & capability::STORED != 0,
            threads: session.limits.threads,
            pool: session.pool.clone(),
            credit: self.credit.clone(),
            cancel: self.cancel.clone(),
            memory: session.memory.get().filter(|memory| !memory.has_left()).cloned(),
        };
        let sender = ChunkSender::start(context, session.streams(), preference, header);
        Ok(ResultSender { sender, reply: self })
    }

    /// Answers that a statement is prepared, with the types of its parameters and the columns of its result, as far as
    /// known.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn prepared(mut self, parameters: &Schema, columns: &Schema) -> Result<()> {
        let prepared = message::Prepared { parameters: describe(parameters)?, columns: describe(columns)? };
        self.close();
        self.session.main.send(self.id, &prepared).await
    }

    /// Answers a request without rows. `rows`: the number of changed rows. `tag`: the kind of statement, such as
    /// `INSERT`.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn complete(mut self, rows: u64, tag: &str) -> Result<()> {
        self.end(rows, tag).await
    }

    /// Answers that the request failed.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn fail(mut self, error: SqlError) -> Result<()> {
        self.end_with(error).await
    }

    async fn end(&mut self, rows: u64, tag: &str) -> Result<()> {
        self.close();
        let server_us = self.since.elapsed().as_micros() as u64;
        self.session.main.send(self.id, &message::Complete { rows, tag: tag.into(), server_us }).await?;
        self.session.answer_ping().await;
        Ok(())
    }

    async fn end_with(&mut self, error: SqlError) -> Result<()> {
        self.close();
        self.session.main.send(self.id, &message::Failure::from(error)).await?;
        self.session.answer_ping().await;
        Ok(())
    }

    fn close(&mut self) {
        self.is_answered = true;
        lock(&self.session.results).remove(&self.id);
        lock(&self.session.uploads).remove(&self.id);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.close();
        let (session, id) = (self.session.clone(), self.id);
        let error = SqlError::new(sqlstate::INTERNAL_ERROR, "the server ended the statement without an answer");
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { session.main.send(id, &message::Failure::from(error)).await });
        }
    }
}

/// A result whose rows are being sent.
pub struct ResultSender {
    // Declared before the reply, so that chunks end before an answer that says so.
    sender: ChunkSender,
    reply: Reply,
}

impl std::fmt::Debug for ResultSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultSender").field("id", &self.reply.id).finish_non_exhaustive()
    }
}

impl ResultSender {
    /// Sends rows, in the result's order. Waits while the client has no room for them, so that the server holds only a
    /// few chunks.
    ///
    /// # Errors
    /// Call [`ResultSender::fail`] with the error, or drop the sender.
    pub async fn send(&mut self, batch: impl Into<Batch>) -> Result<()> {
        let sent = self.sender.send(batch.into()).await;
        if self.reply.session.main.try_lock().is_some() {
            self.reply.session.answer_ping().await;
        }
        sent
    }

    /// As [`Reply::cancelled`].
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.reply.cancelled()
    }

    /// As [`Reply::is_cancelled`].
    pub fn is_cancelled(&self) -> bool {
        self.reply.is_cancelled()
    }

    /// As [`Reply::notice`].
    ///
    /// # Errors
    /// As for [`Reply::notice`].
    pub async fn notice(&self, text: &str) -> Result<()> {
        self.reply.notice(text).await
    }

    /// As [`Reply::progress`].
    ///
    /// # Errors
    /// As for [`Reply::progress`].
    pub async fn progress(&self, done: u64, total: u64) -> Result<()> {
        self.reply.progress(done, total).await
    }

    /// Sends the remaining rows and completes the result. If these cannot be sent, the client is told why, and the
    /// connection continues.
    ///
    /// # Errors
    /// The connection cannot continue.
    pub async fn finish(mut self, tag: &str) -> Result<()> {
        match self.sender.finish().await {
            Ok(()) => self.reply.end(self.sender.rows(), tag).await,
            Err(error) => self.reply.end_with(error.to_sql()).await,
        }
    }

    /// Ends the result with an error: with the error of sending chunks, if there was one, since that looks like a
    /// cancellation to those who wait for [`ResultSender::cancelled`]; otherwise with `error`.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn fail(mut self, error: SqlError) -> Result<()> {
        let broke = self.sender.abort().await;
        self.reply.end_with(broke.map_or(error, |broke| broke.to_sql())).await
    }
}

enum UploadPart {
    Shared(message::Shared),
    Chunk(Vec<u8>),
    End(message::UploadEnd),
}

impl UploadPart {
    fn bytes(&self) -> usize {
        match self {
            UploadPart::Shared(part) => part.bytes.0.len(),
            UploadPart::Chunk(payload) => payload.len(),
            UploadPart::End(_) => 0,
        }
    }
}

/// The destination of an upload's messages, and the number of their bytes that wait.
struct UploadRoute {
    parts: mpsc::Sender<UploadPart>,
    waiting: Arc<AtomicUsize>,
}

/// A table that a client sends with a statement.
#[derive(Debug)]
pub struct Input {
    /// In the case to which SQL folds names.
    pub name: String,
    /// Whether to read all rows before the statement begins, so that it may read them several times.
    pub whole: bool,
    /// The columns.
    pub schema: SchemaRef,
    /// Sent when they are requested.
    pub rows: UploadStream,
}

/// The rows of an upload as they arrive.
pub struct UploadStream {
    session: Arc<Session>,
    id: u32,
    schema: SchemaRef,
    parts: mpsc::Receiver<UploadPart>,
    waiting: Arc<AtomicUsize>,
    incoming: Incoming,
    is_open: bool,
    rows: u64,
}

impl std::fmt::Debug for UploadStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadStream").field("id", &self.id).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Drop for UploadStream {
    fn drop(&mut self) {
        let mut uploads = lock(&self.session.uploads);
        if uploads.get(&self.id).is_some_and(|route| Arc::ptr_eq(&route.waiting, &self.waiting)) {
            uploads.remove(&self.id);
        }
    }
}

impl UploadStream {
    /// The next rows; `None` when the client has sent all and wants them committed.
    ///
    /// # Errors
    /// The client wants the rows discarded, or has disconnected: commit nothing.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let chunks = if self.is_open { 1 } else { UPLOAD_CREDIT };
        if !self.is_open || self.rows > 0 {
            self.session.main.send(self.id, &message::Credit { chunks }).await?;
        }
        self.is_open = true;
        loop {
            let part = self.parts.recv().await;
            self.waiting.fetch_sub(part.as_ref().map_or(0, UploadPart::bytes), Ordering::Relaxed);
            match part {
                None => return Err(WireError::Closed("in the middle of an upload")),
                Some(UploadPart::Shared(part)) => self.incoming.add_state(part)?,
                Some(UploadPart::Chunk(payload)) => return self.decode(payload).await.map(Some),
                Some(UploadPart::End(end)) if !end.commit => return Err(WireError::Cancelled),
                Some(UploadPart::End(end)) if end.rows != self.rows => {
                    let reason = format!("{} rows of {} came", self.rows, end.rows);
                    return Err(WireError::malformed("upload", reason));
                }
                Some(UploadPart::End(_)) => return Ok(None),
            }
        }
    }

    async fn decode(&mut self, payload: Vec<u8>) -> Result<RecordBatch> {
        let sizes = ChunkSizes::of(self.session.limits.request_bytes_max);
        let chunk = self.incoming.receive(payload.into(), &self.schema, sizes)?;
        if chunk.first_row != self.rows {
            return Err(WireError::malformed("upload", format!("row {} is missing", self.rows)));
        }
        self.rows += chunk.rows as u64;
        let (schema, states) = (self.schema.clone(), self.incoming.states.clone());
        let work = move || chunk::decode(&chunk, &schema, Strings::Views, &states, sizes);
        tokio::task::spawn_blocking(work).await.map_err(|e| WireError::malformed("upload", e))?
    }
}
