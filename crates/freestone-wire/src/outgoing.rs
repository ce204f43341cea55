//! The sending side of a stream: whole frames, few system calls.

use std::io::IoSlice;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::MutexGuard;

use crate::adapt::Rate;
use crate::error::{Result, WireError};
use crate::frame::{Message, frame};

/// Smaller frames wait for others until a flush.
const SMALL_BYTES: usize = 16 << 10;
/// The queue is written when it exceeds this size.
const QUEUE_BYTES: usize = 64 << 10;
/// Initial rates in bytes per nanosecond: for a socket within one machine, and for a gigabit network.
const LOCAL_RATE: f64 = 3.0;
const REMOTE_RATE: f64 = 0.125;

/// The sending side of a stream, shared by all that send on it.
pub(crate) struct Outgoing {
    writer: tokio::sync::Mutex<FrameWriter>,
    rate: Mutex<Rate>,
    /// Whether both ends are on one machine.
    pub is_local: bool,
}

/// Exclusive access to the stream, frame by frame.
pub(crate) struct FrameWriter {
    io: Box<dyn AsyncWrite + Send + Unpin>,
    queue: Vec<u8>,
    /// An incomplete write leaves the stream in the middle of a frame, so nothing may follow.
    is_broken: bool,
}

impl Outgoing {
    pub fn new(io: Box<dyn AsyncWrite + Send + Unpin>, is_local: bool) -> Self {
        let writer = tokio::sync::Mutex::new(FrameWriter { io, queue: vec![], is_broken: false });
        let rate = Mutex::new(Rate::assumed(if is_local { LOCAL_RATE } else { REMOTE_RATE }));
        Self { writer, rate, is_local }
    }

    pub async fn lock(&self) -> MutexGuard<'_, FrameWriter> {
        self.writer.lock().await
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, FrameWriter>> {
        self.writer.try_lock().ok()
    }

    /// Sends a message at once.
    pub async fn send<M: Message>(&self, id: u32, message: &M) -> Result<()> {
        let mut writer = self.lock().await;
        writer.put(&frame(id, message)).await?;
        writer.flush().await
    }

    /// Sends a large frame and measures the rate of the link.
    pub async fn send_measured(&self, bytes: &[u8]) -> Result<()> {
        let mut writer = self.lock().await;
        let before = Instant::now();
        writer.put(bytes).await?;
        let ns = before.elapsed().as_nanos() as u64;
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).sent(bytes.len(), ns);
        Ok(())
    }

    pub async fn flush(&self) -> Result<()> {
        self.lock().await.flush().await
    }

    /// Bytes per nanosecond.
    pub fn rate(&self) -> f64 {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).get()
    }
}

impl FrameWriter {
    /// Writes a frame, or queues it for the next write if it is small.
    pub async fn put(&mut self, frame: &[u8]) -> Result<()> {
        if frame.len() < SMALL_BYTES {
            self.queue.extend_from_slice(frame);
            return if self.queue.len() < QUEUE_BYTES { Ok(()) } else { self.flush().await };
        }
        self.write(frame).await
    }

    /// Writes the queue.
    pub async fn flush(&mut self) -> Result<()> {
        if !self.queue.is_empty() {
            self.write(&[]).await?;
        }
        self.io.flush().await.map_err(WireError::io("the connection broke"))
    }

    /// Writes the queue and `frame` together.
    async fn write(&mut self, frame: &[u8]) -> Result<()> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(WireError::Closed("in the middle of a message"));
        }
        let queue = std::mem::take(&mut self.queue);
        let mut at = 0;
        while at < queue.len() + frame.len() {
            let parts = [queue.get(at..).unwrap_or(&[]), &frame[at.saturating_sub(queue.len())..]];
            let written = match self.io.write_vectored(&parts.map(IoSlice::new)).await {
                Ok(0) => return Err(WireError::Closed("by the other side")),
                Ok(n) => n,
                Err(error) => return Err(WireError::io("the connection broke")(error)),
            };
            at += written;
        }
        self.is_broken = false;
        self.queue = queue;
        self.queue.clear();
        Ok(())
    }

    /// Closes the stream for writing.
    pub async fn close(&mut self) {
        _ = self.io.shutdown().await;
    }
}
