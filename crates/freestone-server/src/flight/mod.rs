//! Arrow Flight SQL: the protocol of ADBC's Flight SQL driver and Apache's JDBC driver.

mod ingest;
mod login;
mod metadata;
mod service;
mod statements;
mod transactions;
mod whole;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use async_trait::async_trait;
use freestone_wire::transport::WriteTimeout;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use crate::place::{self, Place, PlacedStream, Stream};
use crate::protocol::{self, Protocol};
use crate::shared::{Shared, Visit};
use crate::tls;
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
        let (sender, receiver) = mpsc::channel::<io::Result<PlacedStream>>(16);
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
    receiver: mpsc::Receiver<io::Result<PlacedStream>>,
) -> impl futures::Stream<Item = io::Result<PlacedStream>> {
    futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

/// Accepts TLS if it is configured, waits for the client's first bytes, and passes the connection on.
async fn greet(stream: TcpStream, visit: Visit, shared: Arc<Shared>, sender: mpsc::Sender<io::Result<PlacedStream>>) {
    if let Some(stream) = place::enter(enter(stream, &shared), visit, &shared, "Flight SQL").await {
        let _ = sender.send(Ok(stream.with_greeting(PREFACE))).await;
    }
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

impl Connected for PlacedStream {
    type ConnectInfo = Arc<Place>;

    fn connect_info(&self) -> Arc<Place> {
        self.place().clone()
    }
}
