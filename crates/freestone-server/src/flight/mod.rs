//! Arrow Flight SQL: the protocol of ADBC's Flight SQL driver and Apache's JDBC driver.

mod ingest;
mod login;
mod metadata;
mod service;
mod statements;
mod transactions;
mod whole;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use async_trait::async_trait;
use freestone_wire::transport::WriteTimeout;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use crate::protocol::{self, Protocol};
use crate::shared::{Shared, Visit};
use crate::tls;
use crate::users::Role;
use service::Service;
use whole::WholeRequests;

/// The maximum bytes of a message from a client: a batch of parameters, or a statement.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The HTTP/2 flow-control window: the bytes that a client may send before they are read.
const WINDOW_BYTES: u32 = 4 << 20;
const STREAMS_MAX: u32 = 64;
/// The first bytes of every HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Flight SQL as one of the server's protocols.
pub(crate) struct Flight;

#[async_trait]
impl Protocol for Flight {
    fn scheme(&self) -> &'static str {
        "flight"
    }

    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>) {
        let (sender, receiver) = mpsc::channel::<io::Result<ConnectedClient>>(16);
        let service = FlightServiceServer::new(Service::new(shared.clone()))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let stopping = shared.clone();
        let serving = Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .tcp_nodelay(true)
            .add_service(WholeRequests(service))
            .serve_with_incoming_shutdown(incoming(receiver), async move { stopping.stopping().await });
        let accepting = protocol::accept(listener, shared, move |stream, visit, shared| {
            greet(stream, visit, shared, sender.clone())
        });
        let (served, ()) = tokio::join!(serving, accepting);
        if let Err(error) = served {
            tracing::error!(%error, "Flight SQL has ended");
        }
    }
}

fn incoming(
    receiver: mpsc::Receiver<io::Result<ConnectedClient>>,
) -> impl futures::Stream<Item = io::Result<ConnectedClient>> {
    futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

/// Accepts TLS if it is configured, waits for the client's first bytes, and passes the connection on.
async fn greet(
    stream: TcpStream,
    mut visit: Visit,
    shared: Arc<Shared>,
    sender: mpsc::Sender<io::Result<ConnectedClient>>,
) {
    let mut stays = Box::pin(visit.gives_way());
    let deadline = Instant::now() + shared.limits.startup;
    let entered = tokio::select! {
        entered = tokio::time::timeout_at(deadline, enter(stream, &shared)) => entered,
        () = &mut stays => return tracing::info!("a connection gave way before it had logged in"),
        () = shared.stopping() => return,
    };
    let stream = match entered {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::info!(connection = visit.number, %error, "the connection failed"),
        Err(_) => return tracing::info!(connection = visit.number, "the client took too long to begin"),
    };
    tracing::info!(connection = visit.number, "connected over Flight SQL");
    let ends = async move {
        tokio::select! {
            () = stays => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    };
    let place = Arc::new(Place(Mutex::new((visit, false))));
    let _ = sender.send(Ok(ConnectedClient { stream, greeting: PREFACE, place, stranger: Some(Box::pin(ends)) })).await;
}

/// A stream whose client has begun to use HTTP/2. Waiting for the preface here gives silent clients a time limit.
async fn enter(stream: TcpStream, shared: &Shared) -> io::Result<Box<dyn Stream>> {
    let mut stream: Box<dyn Stream> = match &shared.tls {
        None => Box::new(stream),
        Some(config) => Box::new(TlsAcceptor::from(tls::with_protocols(config, &[b"h2"])).accept(stream).await?),
    };
    let mut said = [0; PREFACE.len()];
    stream.read_exact(&mut said).await?;
    if said != *PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not HTTP/2, which Flight SQL is spoken over"));
    }
    Ok(match shared.limits.write {
        Some(limit) => Box::new(WriteTimeout::new(stream, limit)),
        None => stream,
    })
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection's place among all, and whether a call over it was authenticated.
pub(crate) struct Place(Mutex<(Visit, bool)>);

impl Place {
    /// Records that a call of a user with this role was authenticated. False if all places are taken.
    pub fn admit(&self, role: Role) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.1 = place.0.admit(role);
        place.1
    }

    fn is_admitted(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A client's connection, with its place.
struct ConnectedClient {
    stream: Box<dyn Stream>,
    /// Bytes that were already read from the stream, and are to be delivered first.
    greeting: &'static [u8],
    place: Arc<Place>,
    /// Completes when the connection must end because nobody has logged in over it. `None` after a login.
    stranger: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Connected for ConnectedClient {
    type ConnectInfo = Arc<Place>;

    fn connect_info(&self) -> Arc<Place> {
        self.place.clone()
    }
}

impl AsyncRead for ConnectedClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.greeting.is_empty() {
            let (now, later) = self.greeting.split_at(self.greeting.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.greeting = later;
            return Poll::Ready(Ok(()));
        }
        let ConnectedClient { place, stranger, .. } = &mut *self;
        if place.is_admitted() {
            *stranger = None;
        }
        if stranger.as_mut().is_some_and(|ends| ends.as_mut().poll(context).is_ready()) && !place.is_admitted() {
            let message = "no user has logged in on this connection";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ConnectedClient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
