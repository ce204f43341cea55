//! The trait of a protocol, which serves the connections of one listener until the server stops, and the loop that
//! accepts connections.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;

use crate::shared::{Shared, Visit};
use crate::wire::socket::Socket;

#[async_trait]
pub(crate) trait Protocol: Send + Sync {
    /// The scheme of its addresses, before `://`.
    fn scheme(&self) -> &'static str;

    /// Serves connections until the server stops; returns when the last of them has ended.
    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>);
}

/// Keepalive probes for silent peers, so that the connection of a peer that has disappeared ends.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15))
}

/// A source of connections.
pub(crate) trait Listen {
    type Stream;

    async fn next(&self) -> std::io::Result<Self::Stream>;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> std::io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive());
        Ok(stream)
    }
}

impl Listen for Socket {
    type Stream = UnixStream;

    async fn next(&self) -> std::io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// Starts a task for each connection.
pub(crate) async fn accept<L: Listen, F>(
    listener: L,
    shared: Arc<Shared>,
    handle: impl Fn(L::Stream, Visit, Arc<Shared>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.next() => match accepted {
                Ok(stream) => drop(tasks.spawn(handle(stream, shared.visit(), shared.clone()))),
                Err(error) => {
                    // The likely reason is too many open files, so others must be closed first.
                    tracing::warn!(%error, "cannot accept a connection; if files are too many: raise `ulimit -n`, or lower --max-connections");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = tasks.join_next() => {}
            () = shared.stopping() => break,
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}
