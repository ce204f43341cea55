//! Requests whose end is the client's. If a client resets the stream of its request, or its connection breaks, tonic and hyper
//! report an end, as if the client had sent all of its messages. Here this is an error, so that a part of some rows is never
//! taken for all of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::NamedService;

/// A service that gets [`Whole`] requests.
#[derive(Debug, Clone)]
pub struct WholeRequests<S>(pub S);

impl<S: NamedService> NamedService for WholeRequests<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>, Error = Infallible>> Service<http::Request<Body>> for WholeRequests<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        self.0.call(request.map(|body| Body::new(Whole(body))))
    }
}

/// The body of a request, which ends where its client has ended it, or with an error.
struct Whole<B>(B);

impl<B: http_body::Body<Data = Bytes, Error = Status> + Unpin> http_body::Body for Whole<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.0).poll_frame(context).map(|frame| match frame {
            None if !self.0.is_end_stream() => Some(Err(ended_early())),
            // Tonic takes a cancelled request for one that has ended.
            Some(Err(status)) if status.code() == tonic::Code::Cancelled => Some(Err(ended_early())),
            other => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

fn ended_early() -> Status {
    Status::aborted("the client has left before the end of its request; nothing of it was stored")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::Buf;
    use futures::StreamExt;
    use tonic::Streaming;
    use tonic::codec::{DecodeBuf, Decoder};

    use super::*;

    /// What hyper gives of a request: its frames, then an end, which may not be the client's.
    struct Received {
        frames: VecDeque<Result<Frame<Bytes>, Status>>,
        has_end: bool,
    }

    impl http_body::Body for Received {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.frames.pop_front())
        }

        fn is_end_stream(&self) -> bool {
            self.frames.is_empty() && self.has_end
        }
    }

    /// Takes messages as they are.
    struct AsTheyAre;

    impl Decoder for AsTheyAre {
        type Item = Bytes;
        type Error = Status;

        fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
            Ok(Some(bytes.copy_to_bytes(bytes.remaining())))
        }
    }

    fn message(body: &[u8]) -> Frame<Bytes> {
        let mut framed = vec![0];
        framed.extend((body.len() as u32).to_be_bytes());
        framed.extend(body);
        Frame::data(framed.into())
    }

    /// The messages of a request, and whether it then ends or fails.
    async fn received(frames: Vec<Result<Frame<Bytes>, Status>>, has_end: bool) -> (usize, Result<(), tonic::Code>) {
        let body = Body::new(Whole(Received { frames: frames.into(), has_end }));
        let mut messages: Streaming<Bytes> = Streaming::new_request(AsTheyAre, body, None, None);
        let mut count = 0;
        loop {
            match messages.next().await {
                Some(Ok(_)) => count += 1,
                Some(Err(status)) => return (count, Err(status.code())),
                None => return (count, Ok(())),
            }
        }
    }

    #[tokio::test]
    async fn only_the_client_ends_a_request() {
        let two = || vec![Ok(message(b"a")), Ok(message(b"b"))];
        let failing = |status: Status| two().into_iter().chain([Err(status)]).collect::<Vec<_>>();
        let aborted = Err(tonic::Code::Aborted);
        assert_eq!(received(two(), true).await, (2, Ok(())));
        assert_eq!(received(vec![], true).await, (0, Ok(())));
        // RST_STREAM with NO_ERROR, of which hyper makes an end.
        assert_eq!(received(two(), false).await, (2, aborted));
        assert_eq!(received(vec![], false).await, (0, aborted));
        // RST_STREAM with CANCEL, of which tonic makes an end.
        assert_eq!(received(failing(Status::cancelled("reset")), false).await, (2, aborted));
        // A broken connection.
        assert_eq!(received(failing(Status::unknown("broken pipe")), false).await, (2, Err(tonic::Code::Unknown)));
        let with_trailers = two().into_iter().chain([Ok(Frame::trailers(http::HeaderMap::new()))]).collect();
        assert_eq!(received(with_trailers, true).await, (2, Ok(())));
    }
}
