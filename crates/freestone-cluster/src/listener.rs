//! Addresses that processes of a cluster listen on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::address::to_listen;
use crate::error::{ClusterError, Result};
use crate::flight::{Answering, Service};
use crate::messages::REQUEST_BYTES_MAX;
use crate::token::Token;

const WINDOW_BYTES: u32 = 4 << 20;
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The tasks and questions that one server may have open at a time.
const STREAMS_MAX: u32 = 1024;

/// An open address.
pub(crate) struct Listener {
    incoming: TcpIncoming,
    address: SocketAddr,
    tls: Option<ServerTlsConfig>,
    token: Token,
}

impl Listener {
    /// Opens an address. A public one needs TLS.
    ///
    /// # Errors
    /// The address is not valid, not safe or not free, or a file cannot be read.
    pub async fn bind(text: &str, tls: Option<(PathBuf, PathBuf)>, token: Token) -> Result<Listener> {
        let address = to_listen(text)?;
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ClusterError::new(format!(
                "{address} is a public address, and there is no protection: no TLS"
            ))
            .with_hint("give --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1"));
        }
        let read = |path: &PathBuf| std::fs::read(path).map_err(|error| ClusterError::file("TLS file", path, error));
        let tls = match &tls {
            Some((certificate, key)) => {
                let identity = Identity::from_pem(read(certificate)?, read(key)?);
                let config = ServerTlsConfig::new().identity(identity);
                // The files are tried now, and not when the first connection comes.
                Server::builder().tls_config(config.clone()).map_err(|error| {
                    ClusterError::file("TLS certificate", certificate, reason(&error))
                        .with_hint("both files are PEM: the certificate with its chain, and the certificate's key")
                })?;
                Some(config)
            }
            None => None,
        };
        let failed = |error: std::io::Error| {
            ClusterError::new(format!("cannot listen on {address}: {error}"))
                .with_hint("another process may use the address; port 0 picks a free one")
        };
        let incoming = TcpIncoming::bind(address).map_err(failed)?.with_nodelay(Some(true));
        let address = incoming.local_addr().map_err(failed)?;
        Ok(Listener { incoming, address, tls, token })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` completes, and what has begun until it is done.
    pub async fn serve(self, answering: impl Answering, stop: impl Future<Output = ()> + Send + 'static) {
        let service = FlightServiceServer::new(Service { token: self.token, answering })
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE));
        if let Some(tls) = self.tls {
            match server.tls_config(tls) {
                Ok(with_tls) => server = with_tls,
                Err(error) => return tracing::error!(%error, "TLS cannot be used"),
            }
        }
        if let Err(error) = server.add_service(service).serve_with_incoming_shutdown(self.incoming, stop).await {
            tracing::error!(%error, "the address of the cluster has ended");
        }
    }
}

/// The innermost cause of an error.
fn reason(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
