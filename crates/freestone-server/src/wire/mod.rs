//! Freestone wire: the listener of the protocol in `docs/protocol.md`; the crate `freestone-wire` implements its
//! frames. Whole columns of a table are sent in stored form.

mod client;
mod inputs;
pub(crate) mod socket;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use freestone_wire::auth::{Authenticator, Verifier};
use freestone_wire::server::{Acceptor, Limits};
use freestone_wire::transport::{ALPN, Stream, is_tls};
use freestone_wire::{Result, WireError};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use self::socket::Socket;
use crate::protocol::{self, Protocol};
use crate::shared::{Shared, Visit};
use crate::tls;

/// Freestone wire as one of the server's protocols.
pub(crate) struct Wire;

/// The users of the server. If it admits anybody, every name is valid with an empty password.
struct Users {
    shared: Arc<Shared>,
    nobody: Verifier,
}

impl Authenticator for Users {
    fn verifier(&self, user: &str) -> Option<Verifier> {
        match self.shared.authority.admits_anybody() {
            true => Some(self.nobody.clone()),
            false => self.shared.authority.verifier(user),
        }
    }

    fn failed(&self, user: &str) -> Duration {
        self.shared.login_failed(user)
    }

    fn secret(&self) -> Option<[u8; 32]> {
        Some(self.shared.authority.secret)
    }
}

#[async_trait]
impl Protocol for Wire {
    fn scheme(&self) -> &'static str {
        "freestone"
    }

    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>) {
        let acceptor = acceptor(&shared);
        let handle = move |stream, visit, shared: Arc<Shared>| {
            let (acceptor, entering) = (acceptor.clone(), shared.clone());
            handle(acceptor, async move { enter(stream, &entering).await }, visit, shared)
        };
        protocol::accept(listener, shared, handle).await;
    }
}

/// As [`Wire::serve`], for clients of a socket in the file system.
pub(crate) async fn serve_socket(socket: Socket, shared: Arc<Shared>) {
    let acceptor = acceptor(&shared);
    let handle = move |stream: UnixStream, visit, shared| {
        handle(acceptor.clone(), async move { Ok(Stream::unix(stream)) }, visit, shared)
    };
    protocol::accept(socket, shared, handle).await;
}

fn acceptor(shared: &Arc<Shared>) -> Arc<Acceptor> {
    let users = Users { shared: shared.clone(), nobody: Verifier::new("") };
    let defaults = Limits::default();
    let limits = Limits {
        handshake: shared.limits.startup,
        placed_bytes_max: shared.limits.shared_memory.unwrap_or(defaults.placed_bytes_max),
        ..defaults
    };
    Acceptor::new(Arc::new(users), limits)
}

async fn handle(
    acceptor: Arc<Acceptor>,
    entering: impl Future<Output = Result<Stream>>,
    mut visit: Visit,
    shared: Arc<Shared>,
) {
    let gives_way = visit.gives_way();
    let accepting = async { acceptor.accept(entering.await?.impatient(shared.limits.write)).await };
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(shared.limits.startup, accepting) => accepted,
        () = gives_way => return tracing::info!("a connection gave way before it had logged in"),
        () = shared.stopping() => return,
    };
    match accepted.unwrap_or(Err(WireError::Timeout("before the client had authenticated itself"))) {
        Ok(Some(connection)) => client::run(connection, visit, shared).await,
        // The client sent a request to cancel, or an additional stream for a session.
        Ok(None) => {}
        Err(error) => tracing::info!(connection = visit.number, %error, "login failed"),
    }
}

/// Accepts TLS where it is required: if there is a certificate, for all clients except those of this machine.
async fn enter(stream: TcpStream, shared: &Shared) -> Result<Stream> {
    let Some(config) = &shared.tls else { return Stream::tcp(stream) };
    if is_tls(&stream).await? {
        return Stream::tls_server(stream, tls::with_protocols(config, &[ALPN])).await;
    }
    let is_local = stream.peer_addr().is_ok_and(|peer| crate::options::is_loopback(peer.ip()));
    if is_local { Stream::tcp(stream) } else { Err(WireError::Config("this server wants TLS".into())) }
}
