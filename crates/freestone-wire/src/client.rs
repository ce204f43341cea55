//! The client: connects, runs statements, and returns their rows as Arrow batches.

mod inputs;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use freestone_store::memory::populate;
use freestone_store::plain::Strings;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::address::{Address, Endpoint, Tls};
use crate::auth::ClientScram;
use crate::batch::Batch;
use crate::chunk::{self, RowLimit};
use crate::error::{Result, SqlError, WireError};
use crate::frame::{Blob, Header, Kind, Message, read_header, read_payload};
use crate::incoming::Incoming;
use crate::limits::ChunkSizes;
use crate::memory::ClientMemory;
use crate::message::{self, MAGIC, Purpose, Run, VERSION, capability};
use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::sender::{ChunkSender, Context, RUN_CHUNKS};
use crate::server::codecs;
use crate::transport::{Reader, Stream, tls_client_config};
use crate::types::{describe, schema_of, wire_schema};

pub use inputs::{Input, Inputs};

/// The largest message, except chunks, that a server may send.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The largest chunk of an upload, even if the server accepts larger ones, except for larger single rows.
const UPLOAD_BYTES: usize = 1 << 20;

type OnNotice = Box<dyn Fn(&str) + Send + Sync>;
type OnProgress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// A connection to a server. It runs one statement at a time; dropping it ends the session.
pub struct Client {
    link: Arc<Link>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.link.inner.address).finish_non_exhaustive()
    }
}

/// An open connection. It ends when neither the client nor a result needs it.
struct Link {
    inner: Arc<Inner>,
    readers: Vec<JoinHandle<()>>,
    /// A stream closes when its sending side is dropped, although nothing is sent on these.
    _attached: Vec<Outgoing>,
    /// The runtime of the connection's tasks. Values that are dropped elsewhere use it to send messages.
    runtime: Handle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

/// Shared by the tasks that read and the callers.
struct Inner {
    address: Address,
    main: Arc<Outgoing>,
    session: u64,
    key: [u8; 32],
    server: String,
    capabilities: u32,
    frame_bytes_max: usize,
    /// The largest chunk of one row to which this client has agreed, in bytes.
    row_bytes_max: AtomicUsize,
    /// The number of chunks that the server may send ahead.
    window: u32,
    next_id: AtomicU32,
    /// One permit, held by the open result.
    open: Arc<Semaphore>,
    route: watch::Sender<Option<Arc<Route>>>,
    /// Whether the connection can no longer be used.
    is_broken: AtomicBool,
    on_notice: Mutex<Option<OnNotice>>,
    on_progress: Mutex<Option<OnProgress>>,
    pool: Arc<Pool>,
    decoders: Arc<Semaphore>,
    memory: Option<Arc<ClientMemory>>,
}

/// The received part of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    More,
    Last,
    /// The whole chunk, in memory that only a trusted server writes.
    Placed,
}

/// The destination of the open result's messages.
struct Route {
    id: u32,
    events: mpsc::UnboundedSender<Event>,
    schema: watch::Sender<Option<SchemaRef>>,
    strings: Strings,
    /// The number of chunks that the server may send before the reader of the result takes some. Negative if the server
    /// has sent several chunks of a job for one credit.
    ahead: watch::Sender<i64>,
    /// Whether the server waits for rows of the caller, whose source may need this connection to produce them.
    takes_rows: bool,
    /// The credit of an upload.
    credit: Arc<Semaphore>,
    cancel: watch::Sender<bool>,
    /// Tables that are sent with the statement.
    inputs: Vec<inputs::InputRoute>,
    /// The reason why one of them could not be sent completely.
    failure: Mutex<Option<WireError>>,
    state: Mutex<RouteState>,
}

struct RouteState {
    rows: u64,
    /// The number of rows of the result, if it is known.
    total: Option<u64>,
    /// Returned when the result is complete.
    permit: Option<OwnedSemaphorePermit>,
}

enum Event {
    Header(SchemaRef),
    Chunk(u64, usize, JoinHandle<Result<RecordBatch>>),
    Prepared(message::Prepared),
    Complete(Summary),
    Failed(WireError),
}

/// The end of a result or upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the result, or changed rows.
    pub rows: u64,
    /// The kind of statement, such as `SELECT`.
    pub tag: String,
    /// Microseconds of the server's time.
    pub server_us: u64,
}

impl Summary {
    /// Whether the statement counts changed rows, even if there are none.
    pub fn counts_rows(&self) -> bool {
        self.rows > 0 || matches!(self.tag.as_str(), "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" | "COPY")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn open_stream(address: &Address) -> Result<Stream> {
    match &address.endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await;
            Ok(Stream::unix(stream.map_err(WireError::io(format!("cannot connect to {}", path.display())))?))
        }
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(WireError::io(format!("cannot connect to {host}:{port}")))?;
            match address.tls {
                Tls::Disable => Stream::tcp(stream),
                Tls::Require => Stream::tls_client(stream, host, tls_client_config(address.tls_ca.as_deref())?).await,
            }
        }
    }
}

fn hello(address: &Address, purpose: Purpose) -> message::Hello {
    let memory = if address.shared_memory { 0 } else { capability::SHARED_MEMORY };
    message::Hello {
        magic: MAGIC,
        version_min: VERSION,
        version_max: VERSION,
        chunk_bytes_max: address.chunk_bytes_max as u32,
        capabilities: capability::ALL & !memory,
        client: address.client.clone(),
        purpose,
    }
}

/// Reads the one expected message, or the error that replaces it.
async fn expect<M: Message>(reader: &mut Reader) -> Result<M> {
    let header = read_header(reader, MESSAGE_BYTES_MAX).await?.ok_or(WireError::Closed("by the server"))?;
    let payload = read_payload(reader, &header).await?;
    if header.kind == Kind::Error {
        return Err(SqlError::from(message::Failure::parse(&payload)?).into());
    }
    if header.kind != M::KIND {
        let reason = format!("{:?} where {:?} was expected", header.kind, M::KIND);
        return Err(WireError::malformed("handshake", reason));
    }
    M::parse(&payload)
}

impl Client {
    /// Connects to an address in the form of [`Address::parse`].
    ///
    /// # Errors
    /// The address is not valid, the server cannot be reached, or it rejects the user.
    pub async fn connect(address: &str) -> Result<Self> {
        Self::connect_to(Address::parse(address)?).await
    }

    /// Connects and authenticates.
    ///
    /// # Errors
    /// The server cannot be reached, or it rejects the user.
    pub async fn connect_to(address: Address) -> Result<Self> {
        let timeout = Duration::from_secs(address.connect_timeout_s);
        let connecting = tokio::time::timeout(timeout, Self::open(address)).await;
        connecting.unwrap_or(Err(WireError::Timeout("while connecting")))
    }

    async fn open(address: Address) -> Result<Self> {
        let Stream { mut reader, writer, is_local } = open_stream(&address).await?;
        let main = Arc::new(Outgoing::new(writer, is_local));
        let mut scram = ClientScram::new(&address.user, &address.password);
        main.send(0, &hello(&address, Purpose::Session { client_first: scram.first() })).await?;
        let challenge: message::Challenge = expect(&mut reader).await?;
        if challenge.version != VERSION {
            return Err(WireError::malformed("handshake", format!("version {} was not offered", challenge.version)));
        }
        // This computes thousands of hashes, which must not block a thread of the runtime.
        let answering = tokio::task::spawn_blocking(move || scram.answer(&challenge.server_first).map(|p| (scram, p)));
        let (scram, client_final) = answering.await.map_err(|e| WireError::Authentication(e.to_string()))??;
        main.send(0, &message::Proof { client_final }).await?;
        let ready: message::Ready = expect(&mut reader).await?;
        scram.finish(&ready.server_final)?;
        let memory = match ready.memory.is_empty() {
            true => None,
            false => receive_memory(&ready, address.chunk_bytes_max).await,
        };
        // Each of several streams carries a run of chunks at a time.
        let of_stream = if address.streams > 1 { RUN_CHUNKS } else { 2 };
        let window = (2 * address.threads + of_stream * address.streams) as u32;
        let inner = Arc::new(Inner {
            main,
            session: ready.session,
            key: ready.key,
            server: ready.server,
            capabilities: ready.capabilities,
            frame_bytes_max: ready.frame_bytes_max as usize,
            row_bytes_max: AtomicUsize::new(address.chunk_bytes_max),
            window,
            next_id: AtomicU32::new(1),
            open: Arc::new(Semaphore::new(1)),
            route: watch::channel(None).0,
            is_broken: AtomicBool::new(false),
            on_notice: Mutex::default(),
            on_progress: Mutex::default(),
            pool: Pool::new(window as usize + 2, address.chunk_bytes_max.max(UPLOAD_BYTES)),
            decoders: Arc::new(Semaphore::new(address.threads)),
            memory,
            address,
        });
        let readers = vec![tokio::spawn(inner.clone().read(reader))];
        let mut link = Link { inner, readers, _attached: vec![], runtime: Handle::current() };
        for _ in 1..link.inner.address.streams {
            let (reader, outgoing) = link.inner.attach().await?;
            link.readers.push(tokio::spawn(link.inner.clone().read(reader)));
            link._attached.push(outgoing);
        }
        Ok(Self { link: Arc::new(link) })
    }

    /// The server's description of itself.
    pub fn server(&self) -> &str {
        &self.link.inner.server
    }

    /// Whether results are received through shared memory.
    pub fn has_shared_memory(&self) -> bool {
        self.link.inner.memory.is_some()
    }

    /// Sets a callback for notices to the user. It runs on a thread of the runtime and should return quickly.
    pub fn on_notice(&self, f: impl Fn(&str) + Send + Sync + 'static) {
        *lock(&self.link.inner.on_notice) = Some(Box::new(f));
    }

    /// Sets a callback for the progress of a statement: done and total; 0 if unknown.
    pub fn on_progress(&self, f: impl Fn(u64, u64) + Send + Sync + 'static) {
        *lock(&self.link.inner.on_progress) = Some(Box::new(f));
    }

    /// Runs a statement. `parameters`: one row with a column per parameter.
    ///
    /// # Errors
    /// The connection is broken, or another result waits for its caller.
    pub async fn query(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<ResultStream> {
        self.query_with_inputs(sql, Inputs::parameters(parameters)).await
    }

    /// Runs a statement with parameters, input tables and options.
    ///
    /// # Errors
    /// As for [`Client::query`].
    pub async fn query_with_inputs(&self, sql: &str, inputs: Inputs) -> Result<ResultStream> {
        let run = self.run(inputs.parameters.as_ref())?;
        self.start(message::Query { run, text: sql.into() }, inputs.tables, inputs.strings).await
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// The server rejects it, or the connection is broken.
    pub async fn prepare(&self, sql: &str) -> Result<Prepared> {
        self.prepare_with_inputs(sql, Inputs::default()).await
    }

    /// Prepares a statement for its later inputs: the types of parameters determine those of the result, and input
    /// tables are known by their columns. No rows are sent.
    ///
    /// # Errors
    /// As for [`Client::prepare`].
    pub async fn prepare_with_inputs(&self, sql: &str, inputs: Inputs) -> Result<Prepared> {
        let Run { parameter_columns, parameters, .. } = self.run(inputs.parameters.as_ref())?;
        let message = message::Prepare { text: sql.into(), parameter_columns, parameters };
        let mut stream = self.start(message, inputs.tables, inputs.strings).await?;
        let event = stream.event().await?;
        stream.is_over = true;
        match event {
            Event::Prepared(prepared) => Ok(Prepared {
                link: self.link.clone(),
                id: stream.route.id,
                parameters: schema_of(&prepared.parameters)?,
                columns: schema_of(&prepared.columns)?,
            }),
            Event::Failed(error) => Err(error),
            _ => Err(WireError::malformed("answer", "a prepared statement was expected")),
        }
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    /// As for [`Client::query`].
    pub async fn execute(&self, statement: &Prepared, parameters: Option<&RecordBatch>) -> Result<ResultStream> {
        self.execute_with_inputs(statement, Inputs::parameters(parameters)).await
    }

    /// Runs a prepared statement with parameters, input tables and options.
    ///
    /// # Errors
    /// As for [`Client::query`].
    pub async fn execute_with_inputs(&self, statement: &Prepared, inputs: Inputs) -> Result<ResultStream> {
        let run = self.run(inputs.parameters.as_ref())?;
        self.start(message::Execute { run, statement: statement.id }, inputs.tables, inputs.strings).await
    }

    fn run(&self, parameters: Option<&RecordBatch>) -> Result<Run> {
        let (parameter_columns, parameters) = match parameters {
            None => (vec![], vec![]),
            Some(row) => (describe(&row.schema())?, chunk::encode_one(row, self.link.inner.frame_bytes_max / 2)?),
        };
        Ok(Run { credit: self.link.inner.window, parameter_columns, parameters: Blob(parameters) })
    }

    /// Begins an upload of rows of `schema` to a target that the server knows, such as a table.
    ///
    /// # Errors
    /// A type cannot be described, another result waits for its caller, or the connection is broken.
    pub async fn upload(&self, target: &str, schema: &Schema) -> Result<Upload> {
        let columns = describe(schema)?;
        let stream = self.start(message::Upload { target: target.into(), columns }, vec![], Strings::Views).await?;
        let context = Context {
            id: stream.route.id,
            schema: wire_schema(schema),
            chunk_bytes_max: self.link.inner.frame_bytes_max.min(UPLOAD_BYTES),
            row: RowLimit::of_server(self.link.inner.frame_bytes_max),
            growth: None,
            codecs: codecs(self.link.inner.capabilities),
            stored: false,
            threads: self.link.inner.address.threads,
            pool: self.link.inner.pool.clone(),
            credit: stream.route.credit.clone(),
            cancel: stream.route.cancel.clone(),
            memory: None,
        };
        let outgoing = self.link.inner.main.clone();
        let sender = ChunkSender::start(context, vec![outgoing], self.link.inner.address.upload, vec![]);
        Ok(Upload { sender: Some(sender), stream })
    }

    /// A handle that cancels the running statement from anywhere.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
            address: self.link.inner.address.clone(),
            session: self.link.inner.session,
            key: self.link.inner.key,
        }
    }

    /// Ends the session.
    pub async fn close(self) {
        _ = self.link.inner.main.send(0, &message::Terminate {}).await;
        self.link.inner.main.lock().await.close().await;
    }

    async fn start<M: Message>(&self, message: M, inputs: Vec<Input>, strings: Strings) -> Result<ResultStream> {
        let inner = &self.link.inner;
        let declarations = inputs::declarations(&inputs)?;
        let permit = tokio::select! {
            biased;
            permit = inner.open.clone().acquire_owned() => permit.map_err(|_| WireError::Closed("by an error"))?,
            () = inner.stalled() => return Err(WireError::Busy),
        };
        if inner.is_broken.load(Ordering::Acquire) {
            return Err(WireError::Closed("by an error, which was reported then"));
        }
        let (events, receiver) = mpsc::unbounded_channel();
        let sends_inputs = M::KIND != Kind::Prepare && !inputs.is_empty();
        let route = Arc::new(Route {
            id: inner.next_id(),
            events,
            schema: watch::channel(None).0,
            strings,
            ahead: watch::channel(i64::from(inner.window)).0,
            takes_rows: sends_inputs || M::KIND == Kind::Upload,
            credit: Arc::new(Semaphore::new(0)),
            cancel: watch::channel(false).0,
            inputs: inputs.iter().map(|_| inputs::InputRoute::new(inner.next_id())).collect(),
            failure: Mutex::default(),
            state: Mutex::new(RouteState { rows: 0, total: None, permit: Some(permit) }),
        });
        inner.route.send_replace(Some(route.clone()));
        // If sending fails, dropping this ends the route.
        let stream = ResultStream {
            link: self.link.clone(),
            route: route.clone(),
            events: receiver,
            schema: None,
            pending: BTreeMap::new(),
            next_row: 0,
            rows: 0,
            summary: None,
            due: 0,
            has_ended: false,
            is_over: false,
        };
        for (input, declaration) in route.inputs.iter().zip(&declarations) {
            inner.main.send(input.id, declaration).await?;
        }
        inner.main.send(route.id, &message).await?;
        if sends_inputs {
            inputs::send(&self.link, &route, inputs);
        }
        Ok(stream)
    }
}

impl Inner {
    fn next_id(&self) -> u32 {
        let next = |id: u32| Some(id.wrapping_add(1).max(1));
        self.next_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|id| id)
    }

    /// Waits until the open result cannot end without its caller, who has to take rows or to supply them. The next
    /// statement would wait for ever if the caller is the same. A result that is still computed or on its way ends
    /// without the caller, and so does one that was dropped.
    async fn stalled(&self) {
        let mut routes = self.route.subscribe();
        loop {
            let open = routes.borrow_and_update().clone();
            tokio::select! {
                _ = routes.changed() => {}
                () = async {
                    match open {
                        Some(route) => route.stalled().await,
                        None => std::future::pending().await,
                    }
                } => return,
            }
        }
    }

    async fn attach(&self) -> Result<(Reader, Outgoing)> {
        let Inner { session, key, .. } = *self;
        let Stream { mut reader, writer, is_local } = open_stream(&self.address).await?;
        let outgoing = Outgoing::new(writer, is_local);
        outgoing.send(0, &hello(&self.address, Purpose::Attach { session, key })).await?;
        let _: message::Ready = expect(&mut reader).await?;
        Ok((reader, outgoing))
    }

    /// Reads one stream until it ends, which ends the connection.
    async fn read(self: Arc<Self>, mut reader: Reader) {
        let mut incoming = (0, Incoming::default());
        let error = loop {
            if let Err(error) = self.read_one(&mut reader, &mut incoming).await {
                break error;
            }
        };
        self.is_broken.store(true, Ordering::Release);
        if let Some(route) = self.route.send_replace(None) {
            route.cancel();
            lock(&route.state).permit = None;
            _ = route.events.send(Event::Failed(error));
        }
    }

    async fn read_one(&self, reader: &mut Reader, incoming: &mut (u32, Incoming)) -> Result<()> {
        let message_bytes_max = self.address.chunk_bytes_max.max(MESSAGE_BYTES_MAX);
        let length_max = self.sizes().row_bytes_max.max(message_bytes_max);
        let header = read_header(reader, length_max).await?.ok_or(WireError::Closed("by the server"))?;
        if matches!(header.kind, Kind::Chunk | Kind::ChunkPart) {
            let payload = self.pool.share(self.read_chunk(reader, &header).await?);
            let part = if header.kind == Kind::ChunkPart { Part::More } else { Part::Last };
            return self.take_chunk(header.id, payload, part, incoming).await;
        }
        if header.length as usize > message_bytes_max {
            return Err(WireError::malformed("answer", format!("{:?} of {} bytes", header.kind, header.length)));
        }
        let payload = read_payload(reader, &header).await?;
        let current = self.route.borrow().clone();
        if header.kind == Kind::Credit
            && let Some(input) = current.as_ref().and_then(|route| route.input(header.id))
        {
            return add_credit(&input.credit, &payload);
        }
        let route = current.filter(|route| route.id == header.id);
        match (header.kind, route) {
            (Kind::Error, route) => {
                let error = SqlError::from(message::Failure::parse(&payload)?).into();
                match route {
                    Some(route) => self.end(&route, Event::Failed(error)),
                    None if header.id == 0 => return Err(error),
                    None => {}
                }
            }
            (Kind::MappedChunk, _) => {
                let mapped = message::MappedChunk::parse(&payload)?;
                let mut bytes = self.room(mapped.length as usize)?;
                self.memory()?.take(&mapped, &mut bytes)?;
                let part = if mapped.more { Part::More } else { Part::Last };
                self.take_chunk(header.id, self.pool.share(bytes), part, incoming).await?;
            }
            (Kind::PlacedChunk, _) => {
                let chunk = self.memory()?.placed(&message::PlacedChunk::parse(&payload)?)?;
                self.take_chunk(header.id, chunk, Part::Placed, incoming).await?;
            }
            (Kind::Shared, Some(_)) => {
                self.incoming(header.id, incoming).add_state(message::Shared::parse(&payload)?)?
            }
            (Kind::Header, Some(route)) => {
                let schema = schema_of(&message::Header::parse(&payload)?.columns)?;
                route.schema.send_replace(Some(schema.clone()));
                _ = route.events.send(Event::Header(route.strings.schema(&schema)));
            }
            (Kind::Grow, Some(_)) => self.grow(header.id, message::Grow::parse(&payload)?).await?,
            (Kind::Complete, Some(route)) => self.complete(&route, message::Complete::parse(&payload)?),
            (Kind::Prepared, Some(route)) => self.end(&route, Event::Prepared(message::Prepared::parse(&payload)?)),
            (Kind::Credit, Some(route)) => add_credit(&route.credit, &payload)?,
            (Kind::Notice, _) => {
                let notice = message::Notice::parse(&payload)?;
                lock(&self.on_notice).iter().for_each(|f| f(&notice.text));
            }
            (Kind::Progress, _) => {
                let progress = message::Progress::parse(&payload)?;
                lock(&self.on_progress).iter().for_each(|f| f(progress.done, progress.total));
            }
            // Belongs to an abandoned result, or answers a ping.
            (Kind::Shared | Kind::Header | Kind::Complete | Kind::Prepared | Kind::Credit, _) => {}
            (Kind::Grow | Kind::Pong, _) => {}
            (other, _) => return Err(WireError::malformed("answer", format!("{other:?} is not what servers send"))),
        }
        Ok(())
    }

    /// The sizes of chunks that this client accepts now.
    fn sizes(&self) -> ChunkSizes {
        let bytes_max = self.address.chunk_bytes_max;
        ChunkSizes { bytes_max, row_bytes_max: self.row_bytes_max.load(Ordering::Acquire) }
    }

    /// Agrees to chunks of one row that have the size that the server needs, up to this client's own limit.
    async fn grow(&self, id: u32, asked: message::Grow) -> Result<()> {
        let limit = self.address.row_bytes_max.max(self.address.chunk_bytes_max);
        let bytes = limit.min(asked.bytes as usize);
        self.row_bytes_max.fetch_max(bytes, Ordering::AcqRel);
        self.main.send(id, &message::Grow { bytes: bytes as u32 }).await
    }

    fn memory(&self) -> Result<&Arc<ClientMemory>> {
        self.memory.as_ref().ok_or_else(|| WireError::malformed("chunk", "there is no shared memory"))
    }

    /// Memory for a chunk, reused if possible. A chunk is at most as large as this client has requested, or agreed to.
    fn room(&self, length: usize) -> Result<Vec<u8>> {
        let ChunkSizes { bytes_max, row_bytes_max } = self.sizes();
        if length > row_bytes_max {
            return Err(WireError::malformed("chunk", format!("{length} bytes are more than the requested maximum")));
        }
        let mut bytes = self.pool.take();
        if bytes.capacity() < length {
            bytes.reserve_exact(if length > bytes_max / 2 { bytes_max.max(length) } else { length });
            populate(&mut bytes);
        }
        Ok(bytes)
    }

    async fn read_chunk(&self, reader: &mut Reader, header: &Header) -> Result<Vec<u8>> {
        let length = header.length as usize;
        let mut payload = self.room(length)?;
        while payload.len() < length {
            let left = (length - payload.len()) as u64;
            let read = (&mut *reader).take(left).read_buf(&mut payload).await;
            if read.map_err(WireError::io("the connection broke"))? == 0 {
                return Err(WireError::Closed("in the middle of a message"));
            }
        }
        header.check(&payload)?;
        Ok(payload)
    }

    /// What the stream has received of a result. The state of another result is dropped.
    fn incoming<'i>(&self, id: u32, incoming: &'i mut (u32, Incoming)) -> &'i mut Incoming {
        if incoming.0 != id {
            *incoming = (id, Incoming::default());
        }
        &mut incoming.1
    }

    /// Takes a part of a chunk, and processes the chunk after the last part.
    async fn take_chunk(&self, id: u32, payload: Buffer, part: Part, incoming: &mut (u32, Incoming)) -> Result<()> {
        let route = self.route.borrow().clone().filter(|route| route.id == id && !route.events.is_closed());
        let Some(route) = route else { return Ok(()) };
        if part == Part::More {
            return self.incoming(id, incoming).add_part(payload);
        }
        // On other streams than the main one, a chunk may arrive before the header.
        let mut schemas = route.schema.subscribe();
        let schema = match schemas.wait_for(Option::is_some).await {
            Ok(schema) => schema.clone(),
            Err(_) => None,
        };
        let Some(schema) = schema else { return Ok(()) };
        route.ahead.send_modify(|chunks| *chunks -= 1);
        if *route.ahead.borrow() < -i64::from(3 * self.window + 64) {
            return Err(WireError::malformed("chunk", "more chunks came than there was credit for"));
        }
        let sizes = self.sizes();
        let incoming = self.incoming(id, incoming);
        let chunk = match part {
            Part::Placed => incoming.receive_placed(payload, &schema, sizes)?,
            _ => incoming.receive(payload, &schema, sizes)?,
        };
        let (first_row, rows, states) = (chunk.first_row, chunk.rows, incoming.states.clone());
        let strings = route.strings;
        let decoder = self.decoders.clone().acquire_owned().await;
        let work = tokio::task::spawn_blocking(move || {
            let batch = chunk::decode(&chunk, &schema, strings, &states, sizes);
            drop(decoder);
            batch
        });
        // The next statement may begin as soon as the reader has the last event, so the route ends before that.
        let is_over = {
            let mut state = lock(&route.state);
            state.rows += rows as u64;
            state.total == Some(state.rows)
        };
        if is_over {
            self.close(&route);
        }
        _ = route.events.send(Event::Chunk(first_row, rows, work));
        Ok(())
    }

    fn complete(&self, route: &Route, complete: message::Complete) {
        let message::Complete { rows, tag, server_us } = complete;
        let has_rows = route.schema.borrow().is_some();
        let is_over = {
            let mut state = lock(&route.state);
            state.total = Some(rows);
            !has_rows || state.rows >= rows || route.events.is_closed()
        };
        if is_over {
            self.close(route);
        }
        _ = route.events.send(Event::Complete(Summary { rows, tag, server_us }));
    }

    fn end(&self, route: &Route, event: Event) {
        self.close(route);
        // The server's abort is a consequence of this failure.
        let event = match (event, lock(&route.failure).take()) {
            (Event::Failed(_), Some(failure)) => Event::Failed(failure),
            (event, _) => event,
        };
        _ = route.events.send(event);
    }

    /// Ends the result, so that the next one may begin.
    fn close(&self, route: &Route) {
        route.cancel();
        self.route.send_if_modified(|current| {
            let is_same = current.as_ref().is_some_and(|current| current.id == route.id);
            if is_same {
                *current = None;
            }
            is_same
        });
        lock(&route.state).permit = None;
    }
}

impl Route {
    /// Stops sending rows for the statement.
    fn cancel(&self) {
        self.cancel.send_replace(true);
        self.inputs.iter().for_each(|input| _ = input.cancel.send_replace(true));
    }

    async fn stalled(&self) {
        let mut ahead = self.ahead.subscribe();
        // The sender of the channel is in this struct, so the channel does not close otherwise.
        let is_out = async { _ = ahead.wait_for(|chunks| self.takes_rows || *chunks <= 0).await };
        tokio::select! {
            biased;
            () = self.events.closed() => std::future::pending().await,
            () = is_out => {}
        }
    }

    fn input(&self, id: u32) -> Option<&inputs::InputRoute> {
        self.inputs.iter().find(|input| input.id == id)
    }
}

fn add_credit(credit: &Semaphore, payload: &[u8]) -> Result<()> {
    let chunks = message::Credit::parse(payload)?.chunks as usize;
    if credit.available_permits() + chunks > 1 << 16 {
        return Err(WireError::malformed("credit", "the number of chunks is too large"));
    }
    credit.add_permits(chunks);
    Ok(())
}

async fn receive_memory(ready: &message::Ready, chunk_bytes_max: usize) -> Option<Arc<ClientMemory>> {
    let (address, session, key) = (ready.memory.clone(), ready.session, ready.key);
    // Without shared memory, for example from another container, the socket is used.
    let work = move || ClientMemory::receive(&address, session, &key, chunk_bytes_max).ok();
    tokio::task::spawn_blocking(work).await.ok()?.map(Arc::new)
}

/// The rows of a statement as they arrive. Dropping it before the end cancels the statement.
pub struct ResultStream {
    link: Arc<Link>,
    route: Arc<Route>,
    events: mpsc::UnboundedReceiver<Event>,
    schema: Option<SchemaRef>,
    /// Chunks by their first row: the number of rows, and the decoding task.
    pending: BTreeMap<u64, (usize, JoinHandle<Result<RecordBatch>>)>,
    next_row: u64,
    rows: u64,
    summary: Option<Summary>,
    /// Credit that was not returned yet.
    due: u32,
    /// Whether the caller gets no more rows.
    has_ended: bool,
    /// Whether the server has sent its last message.
    is_over: bool,
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream").field("id", &self.route.id).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl ResultStream {
    /// The columns, after waiting for them. Empty if the statement has no result.
    ///
    /// # Errors
    /// The statement failed, or the connection is broken.
    pub async fn schema(&mut self) -> Result<SchemaRef> {
        while self.schema.is_none() && self.summary.is_none() {
            self.step().await?;
        }
        Ok(self.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty())))
    }

    /// The next rows; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The statement failed or was cancelled, or the connection is broken.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let is_next = |first: &u64| *first == self.next_row || !self.link.inner.address.ordered;
            if let Some(mut entry) = self.pending.first_entry().filter(|entry| is_next(entry.key())) {
                let batch = (&mut entry.get_mut().1).await.map_err(|e| WireError::malformed("chunk", e));
                self.next_row = *entry.key() + entry.get().0 as u64;
                entry.remove();
                let batch = batch?.inspect_err(|_| self.has_ended = true)?;
                self.give_credit().await?;
                return Ok(Some(batch));
            }
            let is_over = |summary: &Summary| self.schema.is_none() || self.rows >= summary.rows;
            if self.has_ended || self.summary.as_ref().is_some_and(is_over) && self.pending.is_empty() {
                self.has_ended = true;
                return Ok(None);
            }
            self.step().await?;
        }
    }

    async fn event(&mut self) -> Result<Event> {
        self.events.recv().await.ok_or(WireError::Closed("by an error"))
    }

    async fn step(&mut self) -> Result<()> {
        match self.event().await? {
            Event::Header(schema) => self.schema = Some(schema),
            Event::Chunk(first_row, rows, work) => {
                self.rows += rows as u64;
                let ordered = self.link.inner.address.ordered;
                if ordered && first_row < self.next_row || self.pending.insert(first_row, (rows, work)).is_some() {
                    self.has_ended = true;
                    return Err(WireError::malformed("chunk", format!("row {first_row} came twice")));
                }
            }
            Event::Complete(summary) => self.summary = Some(summary),
            Event::Prepared(_) => return Err(WireError::malformed("answer", "rows were expected")),
            Event::Failed(error) => {
                (self.has_ended, self.is_over) = (true, true);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn give_credit(&mut self) -> Result<()> {
        self.due += 1;
        if self.due * 2 < self.link.inner.window || self.summary.is_some() {
            return Ok(());
        }
        let chunks = std::mem::take(&mut self.due);
        self.route.ahead.send_modify(|ahead| *ahead += i64::from(chunks));
        self.link.inner.main.send(self.route.id, &message::Credit { chunks }).await
    }

    /// All remaining rows.
    ///
    /// # Errors
    /// As for [`ResultStream::next`].
    pub async fn collect(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = vec![];
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        Ok(batches)
    }

    /// The summary of the statement, after [`ResultStream::next`] has returned `None`.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Asks the server to stop. The result then ends with an error, unless it was complete.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn cancel(&self) -> Result<()> {
        self.link.inner.main.send(self.route.id, &message::Cancel {}).await
    }
}

impl Drop for ResultStream {
    fn drop(&mut self) {
        self.events.close();
        if self.is_over || self.summary.is_some() {
            self.link.inner.close(&self.route);
            return;
        }
        self.route.cancel();
        let (link, id) = (self.link.clone(), self.route.id);
        // Keeps the connection open until the message is sent.
        self.link.runtime.spawn(async move { link.inner.main.send(id, &message::Cancel {}).await });
    }
}

/// A prepared statement. Dropping it closes it on the server.
pub struct Prepared {
    link: Arc<Link>,
    id: u32,
    parameters: SchemaRef,
    columns: SchemaRef,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Prepared {
    /// The parameters' types, as far as the server knows them.
    pub fn parameters(&self) -> &SchemaRef {
        &self.parameters
    }

    /// The columns of the result, if the server knows them.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let (link, id) = (self.link.clone(), self.id);
        self.link.runtime.spawn(async move { link.inner.main.send(id, &message::CloseStatement {}).await });
    }
}

/// An upload of rows to the server. Dropping it before [`Upload::finish`] makes the server discard the rows.
pub struct Upload {
    sender: Option<ChunkSender>,
    stream: ResultStream,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("id", &self.stream.route.id).finish_non_exhaustive()
    }
}

impl Upload {
    /// Sends rows, after waiting until the server has room for them.
    ///
    /// # Errors
    /// The server rejects the upload, or the connection is broken.
    pub async fn send(&mut self, batch: impl Into<Batch>) -> Result<()> {
        let Some(sender) = &mut self.sender else { return Err(WireError::Cancelled) };
        match sender.send(batch.into()).await {
            Err(WireError::Cancelled) => Err(self.reason().await),
            other => other,
        }
    }

    /// Ends the upload and waits until the server has committed the rows.
    ///
    /// # Errors
    /// As for [`Upload::send`].
    pub async fn finish(mut self) -> Result<Summary> {
        let Some(mut sender) = self.sender.take() else { return Err(WireError::Cancelled) };
        match sender.finish().await {
            Ok(()) => {}
            Err(WireError::Cancelled) => return Err(self.reason().await),
            Err(error) => return Err(error),
        }
        let end = message::UploadEnd { commit: true, rows: sender.rows() };
        self.stream.link.inner.main.send(self.stream.route.id, &end).await?;
        while self.stream.next().await?.is_some() {}
        self.stream.summary().cloned().ok_or(WireError::Closed("by an error"))
    }

    /// The reason why the server rejects further rows.
    async fn reason(&mut self) -> WireError {
        match self.stream.next().await {
            Err(error) => error,
            Ok(_) => WireError::Cancelled,
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.stream.is_over || self.sender.take().is_none() {
            return;
        }
        let (link, id) = (self.stream.link.clone(), self.stream.route.id);
        let end = message::UploadEnd { commit: false, rows: 0 };
        self.stream.link.runtime.spawn(async move { link.inner.main.send(id, &end).await });
    }
}

/// Cancels the statement of a connection, over a connection of its own.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    address: Address,
    session: u64,
    key: [u8; 32],
}

impl CancelHandle {
    /// Sends the request, and waits until the server has received it.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn cancel(&self) -> Result<()> {
        let Stream { mut reader, writer, is_local } = open_stream(&self.address).await?;
        let outgoing = Outgoing::new(writer, is_local);
        let purpose = Purpose::Cancel { session: self.session, key: self.key };
        outgoing.send(0, &hello(&self.address, purpose)).await?;
        match expect::<message::Ready>(&mut reader).await {
            Err(WireError::Closed(_) | WireError::Io { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
