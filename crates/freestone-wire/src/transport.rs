//! The transports of frames: TCP, TLS over TCP, Unix sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::{Result, WireError};
use crate::trust::Trust;

/// The buffer for headers and small messages. Payloads bypass it.
const READ_BYTES: usize = 8 << 10;
/// The protocol's ALPN name.
pub const ALPN: &[u8] = b"freestone/1";
/// The files in which systems store their trusted certificates.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

pub(crate) type Reader = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// An open connection of any kind.
pub struct Stream {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    /// Whether both ends are on this machine.
    pub(crate) is_local: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}

impl Stream {
    /// A TCP connection without TLS.
    ///
    /// # Errors
    /// The socket cannot be configured.
    pub fn tcp(stream: TcpStream) -> Result<Self> {
        let is_local = prepare(&stream)?;
        let (reader, writer) = stream.into_split();
        Ok(Self::of(reader, writer, is_local))
    }

    /// A connection over a Unix socket.
    pub fn unix(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self::of(reader, writer, true)
    }

    /// The server's side of TLS over TCP. It waits for the client's handshake, so call it with a timeout.
    ///
    /// # Errors
    /// The handshake fails.
    pub async fn tls_server(stream: TcpStream, config: Arc<ServerConfig>) -> Result<Self> {
        let is_local = prepare(&stream)?;
        let stream = TlsAcceptor::from(config).accept(stream).await.map_err(WireError::io("TLS failed"))?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self::of(reader, writer, is_local))
    }

    /// The client's side of TLS over TCP. `host` is the name for which the server's certificate must be valid.
    ///
    /// # Errors
    /// The handshake fails, or the certificate is not trusted.
    pub async fn tls_client(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> Result<Self> {
        let is_local = prepare(&stream)?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| WireError::Config(format!("{host} is not a name that a certificate can be for")))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(WireError::io(format!("TLS with {host} failed")))?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self::of(reader, writer, is_local))
    }

    /// The same stream with a limit on the time in which its peer must read some of the written bytes. After that,
    /// writing fails.
    pub fn impatient(self, limit: Option<Duration>) -> Self {
        let Some(limit) = limit else { return self };
        Self { writer: Box::new(WriteTimeout::new(self.writer, limit)), ..self }
    }

    fn of(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        is_local: bool,
    ) -> Self {
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Self { reader: BufReader::with_capacity(READ_BYTES, reader), writer: Box::new(writer), is_local }
    }
}

/// A stream whose peer must read some of the written bytes within a time limit. So a peer that has disappeared, or
/// never reads, does not block a writer for ever.
pub struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Runs while the peer reads nothing.
    waiting: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<S> std::fmt::Debug for WriteTimeout<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Impatient").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<S: Unpin> WriteTimeout<S> {
    /// Limits the time of writes to `stream`.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }

    /// The result of a write, or the error that the time is over.
    fn within<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        match waiting.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let reason = format!("the client took nothing for {} s", self.limit.as_secs_f64());
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.within(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, ended)
    }
}

/// Sends written bytes at once. Returns whether the peer is this machine.
fn prepare(stream: &TcpStream) -> Result<bool> {
    stream.set_nodelay(true).map_err(WireError::io("TCP"))?;
    let addresses = (stream.peer_addr(), stream.local_addr());
    let ip = |address: &std::io::Result<SocketAddr>| address.as_ref().ok().map(SocketAddr::ip);
    let (peer, own) = (ip(&addresses.0), ip(&addresses.1));
    Ok(peer.is_some_and(|ip: IpAddr| ip.is_loopback()) || peer.is_some() && peer == own)
}

/// Whether the first byte of a TCP connection is TLS's, so that one port can serve both. Waits for that byte.
///
/// # Errors
/// The connection ends before.
pub async fn is_tls(stream: &TcpStream) -> Result<bool> {
    let mut first = [0];
    stream.peek(&mut first).await.map_err(WireError::io("TCP"))?;
    Ok(first == [22])
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unreadable = |e: &dyn std::fmt::Display| WireError::Config(format!("certificates in {}: {e}", file.display()));
    let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unreadable(&e))?;
    let certificates = certificates.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| unreadable(&e))?;
    if certificates.is_empty() { Err(unreadable(&"there are none")) } else { Ok(certificates) }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A server's TLS configuration, from PEM files with its certificate chain (its own certificate first) and its private
/// key.
///
/// # Errors
/// A file cannot be read, or the key does not belong to the certificate.
pub fn tls_server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let wrong = |e: &dyn std::fmt::Display| WireError::Config(format!("TLS key {}: {e}", key.display()));
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(&e))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = builder.map_err(|e| wrong(&e))?.with_no_client_auth();
    let apart = |e: rustls::Error| {
        WireError::Config(format!("{} and {} do not go together: {e}", certificate.display(), key.display()))
    };
    let mut config = config.with_single_cert(certificates(certificate)?, private).map_err(apart)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// A client's TLS configuration. It trusts the certificates in a PEM file, including the server's own, or those of the
/// system.
///
/// # Errors
/// The file cannot be read.
pub fn tls_client_config(roots: Option<&Path>) -> Result<Arc<ClientConfig>> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|file| file.exists());
    let file = roots.or_else(system).ok_or_else(|| {
        WireError::Config("the system's certificates were not found; name a file of them by tls_ca".into())
    })?;
    let mut store = RootCertStore::empty();
    let found = certificates(file)?;
    let (added, _) = store.add_parsable_certificates(found.iter().cloned());
    if added == 0 {
        return Err(WireError::Config(format!("no certificate in {} can be used", file.display())));
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| WireError::Config(e.to_string()))?;
    let given = if roots.is_some() { found } else { vec![] };
    let trust = Arc::new(Trust::new(store, given, provider())?);
    // This is not dangerous: certificates are checked as usual, except those that the user gave.
    let mut config = builder.dangerous().with_custom_certificate_verifier(trust).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
