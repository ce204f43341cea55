//! HTTP: the console in a browser, and the metrics. `docs/console.md` describes both for users.
//!
//! A page and its server exchange little: who is logged in, statements and the frames of their results ([`frames`]), and the
//! files of the page. Everything else that the page shows comes from SQL.

mod api;
mod code;
mod frames;
mod guard;
mod login;
mod page;
mod parameters;
mod query;
mod readable;
mod refusal;
mod tabs;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use freestone_wire::transport::WriteTimeout;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::options::is_loopback;
use crate::place::{self, Place, Stream};
use crate::protocol::{self, Protocol};
use crate::shared::{Shared, Visit};
use crate::tls;
pub(crate) use code::OneTimeCode;
use guard::Hosts;
use login::Logins;

/// The time for the head of a request. A connection without a request is closed after it, too.
const HEAD: Duration = Duration::from_secs(120);
/// Headers of a request, and their bytes.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// The bytes of an answer that wait in the connection before its body is asked for more.
const BUFFER_BYTES: usize = 64 << 10;
/// Requests at the same time over one connection of HTTP/2.
const STREAMS_MAX: u32 = 64;
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How often logins and tabs are looked at that nobody has used for long.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The console as one of the server's protocols.
pub(crate) struct Http {
    /// The name in the address that the server was told to listen on.
    pub name: Option<String>,
    /// The server's certificate, if it has TLS.
    pub certificate: Option<CertificateDer<'static>>,
    /// The code with which the console's only user logs in; without it, users log in with their passwords.
    pub code: Option<Arc<OneTimeCode>>,
}

/// What all requests share.
pub(crate) struct Console {
    shared: Arc<Shared>,
    logins: Logins,
    hosts: Hosts,
}

/// The connection of a request.
#[derive(Clone)]
struct Peer {
    /// `None` on the address that has only metrics.
    place: Option<Arc<Place>>,
    /// Whether the client is on this machine.
    is_local: bool,
}

#[async_trait]
impl Protocol for Http {
    fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https" } else { "http" }
    }

    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>) {
        let address = match listener.local_addr() {
            Ok(address) => address,
            Err(error) => return tracing::error!(%error, "HTTP has ended: its address is not known"),
        };
        let hosts = Hosts::new(address, self.name.clone(), self.certificate.clone());
        let logins = Logins::new(shared.clone(), self.code.clone(), address.port(), hosts.is_secure());
        let console = Arc::new(Console { shared: shared.clone(), logins, hosts });
        let router = api::router(console.clone());
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                console.logins.sweep();
            }
        };
        let accepting = protocol::accept(listener, shared, move |stream, visit, shared| {
            handle(stream, visit, shared, router.clone())
        });
        tokio::select! {
            () = accepting => {}
            () = sweeping => {}
        }
        console.logins.end_all();
    }
}

async fn handle(stream: TcpStream, visit: Visit, shared: Arc<Shared>, router: Router) {
    let is_local = stream.peer_addr().is_ok_and(|peer| is_loopback(peer.ip()));
    let Some(stream) = place::enter(enter(stream, &shared), visit, &shared, "HTTP").await else { return };
    let peer = Peer { place: Some(stream.place().clone()), is_local };
    serve(stream, peer, router, shared.stopping()).await;
}

async fn enter(stream: TcpStream, shared: &Shared) -> std::io::Result<Box<dyn Stream>> {
    let stream: Box<dyn Stream> = match &shared.tls {
        None => Box::new(stream),
        Some(config) => {
            let config = tls::with_protocols(config, &[b"h2", b"http/1.1"]);
            Box::new(TlsAcceptor::from(config).accept(stream).await?)
        }
    };
    Ok(match shared.limits.write {
        Some(limit) => Box::new(WriteTimeout::new(stream, limit)),
        None => stream,
    })
}

/// Answers the requests of a connection until it ends. At `stopping`, those that it has begun are answered still.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    stopping: impl Future<Output = ()>,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        // A router is always ready.
        router.clone().call(request.map(Body::new))
    });
    let mut builder = Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(HEADERS_MAX).max_buf_size(BUFFER_BYTES);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX).max_header_list_size(HEADER_BYTES_MAX);
    http2.keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE).max_send_buf_size(BUFFER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection, stopping);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = &mut stopping => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection over HTTP has failed");
    }
}

/// Serves the metrics alone, on an address of their own, until the task ends.
pub(crate) async fn serve_metrics(listener: TcpListener, text: impl Fn() -> String + Send + Sync + 'static) {
    let router = api::metrics_router(text);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, peer) = (router.clone(), Peer { place: None, is_local: true });
        let serving = serve(stream, peer, router, std::future::pending());
        tokio::spawn(tokio::time::timeout(METRICS_CONNECTION_MAX, serving));
    }
}

/// How long a client of the metrics keeps its connection.
const METRICS_CONNECTION_MAX: Duration = Duration::from_secs(300);

/// The name in an address to listen on, if it has one: browsers may use it, too.
pub(crate) fn name_of(address: &str) -> Option<String> {
    let (name, _) = address.rsplit_once(':')?;
    let is_name = !name.is_empty() && name.parse::<std::net::IpAddr>().is_err() && !name.starts_with('[');
    is_name.then(|| name.to_ascii_lowercase())
}
