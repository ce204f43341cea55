//! What a protocol is to the server: something that serves the connections of one listener until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::shared::{Shared, Visit};

#[async_trait]
pub(crate) trait Protocol: Send + Sync {
    /// What stands before `://` in its addresses.
    fn scheme(&self) -> &'static str;

    /// Serves connections until the server stops; returns when the last of them has ended.
    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>);
}

/// Hands each connection to a task of its own. Those past the limit come without a [`Visit`], to be refused.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    shared: Arc<Shared>,
    handle: impl Fn(TcpStream, Option<Visit>, Arc<Shared>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    tasks.spawn(handle(stream, shared.visit(), shared.clone()));
                }
                Err(error) => {
                    // Too many open files, most likely: others must end first.
                    tracing::warn!(%error, "cannot accept a connection");
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
