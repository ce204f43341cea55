//! Connections of protocols over HTTP, where each request says who asks: their places among all connections, and the end of
//! those over which nobody logs in.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::shared::{Shared, Visit};
use crate::users::Role;

/// The bytes of a connection, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection's place among all, and whether a request over it was authenticated.
pub(crate) struct Place(Mutex<(Visit, bool)>);

impl Place {
    /// Records that a request of a user with this role was authenticated. False if all places are taken.
    pub fn admit(&self, role: Role) -> bool {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.1 = place.0.admit(role);
        place.1
    }

    fn is_admitted(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A client's connection, with its place. Reading fails when nobody has logged in for too long.
pub(crate) struct PlacedStream {
    stream: Box<dyn Stream>,
    /// Bytes that were already read from the stream, and are to be delivered first.
    greeting: &'static [u8],
    place: Arc<Place>,
    /// Completes when the connection must end because nobody has logged in over it. `None` after a login.
    stranger: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// A connection that has begun as its protocol wants it; `None` where it failed, took too long, or gave way to others.
pub(crate) async fn enter(
    entering: impl Future<Output = io::Result<Box<dyn Stream>>>,
    mut visit: Visit,
    shared: &Shared,
    protocol: &str,
) -> Option<PlacedStream> {
    let mut stays = Box::pin(visit.gives_way());
    let deadline = Instant::now() + shared.limits.startup;
    let entered = tokio::select! {
        entered = tokio::time::timeout_at(deadline, entering) => entered,
        () = &mut stays => {
            tracing::info!("a connection gave way before it had logged in");
            return None;
        }
        () = shared.stopping() => return None,
    };
    let stream = match entered {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::info!(connection = visit.number, %error, "the connection failed");
            return None;
        }
        Err(_) => {
            tracing::info!(connection = visit.number, "the client took too long to begin");
            return None;
        }
    };
    tracing::info!(connection = visit.number, "connected over {protocol}");
    let ends = async move {
        tokio::select! {
            () = stays => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    };
    let place = Arc::new(Place(Mutex::new((visit, false))));
    Some(PlacedStream { stream, greeting: &[], place, stranger: Some(Box::pin(ends)) })
}

impl PlacedStream {
    /// The same connection, with bytes that were read already.
    pub fn with_greeting(self, greeting: &'static [u8]) -> Self {
        PlacedStream { greeting, ..self }
    }

    pub fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl AsyncRead for PlacedStream {
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
        let PlacedStream { place, stranger, .. } = &mut *self;
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

impl AsyncWrite for PlacedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
