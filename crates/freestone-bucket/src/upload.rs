//! Files that are written to stores: in parts, and there for readers when all parts are.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

use crate::files::Failure;
use crate::runtime;

/// The bytes of the first parts. Later ones are larger, since a store takes 10,000 parts.
const PART_BYTES: usize = 8 << 20;
const PARTS_OF_A_SIZE: usize = 2500;
/// Parts that are on their way at the same time.
const PARTS_TOGETHER: usize = 4;

/// A file that is being written. Unless it is published, nothing of it remains.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    buffer: Vec<u8>,
    /// A file of one part is written by one request.
    parts: Option<Box<dyn MultipartUpload>>,
    begun: usize,
    waiting: VecDeque<Receiver<Result<(), Failure>>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.path)
    }
}

impl Upload {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, path: Path) -> Upload {
        Upload { store, path, buffer: vec![], parts: None, begun: 0, waiting: VecDeque::new() }
    }

    fn part_bytes(&self) -> usize {
        PART_BYTES << (self.begun / PARTS_OF_A_SIZE)
    }

    /// Begins to send what is buffered as a part, when others have made room for it.
    fn send_part(&mut self) -> io::Result<()> {
        while self.waiting.len() >= PARTS_TOGETHER {
            self.await_part()?;
        }
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => {
                let (store, path) = (self.store.clone(), self.path.clone());
                let begun = runtime::wait(async move { store.put_multipart(&path).await })?;
                begun.map_err(|error| Failure::of(&error))?
            }
        };
        let payload = PutPayload::from(Bytes::from(std::mem::take(&mut self.buffer)));
        let sending = parts.put_part(payload);
        self.parts = Some(parts);
        self.begun += 1;
        let (send, receive) = sync_channel(1);
        self.waiting.push_back(receive);
        runtime::begin(async move {
            // Nobody waits any more for a part of a file that was given up.
            let _ = send.send(sending.await.map_err(|error| Failure::of(&error)));
        })
    }

    fn await_part(&mut self) -> io::Result<()> {
        let Some(part) = self.waiting.pop_front() else { return Ok(()) };
        let ended = || io::Error::other("a request to the object store ended without a result");
        Ok(part.recv().map_err(|_| ended())??)
    }

    /// Sends what is not sent yet. The file is not there for readers before [`Upload::publish`].
    ///
    /// # Errors
    /// The store does not take it.
    pub fn complete(&mut self) -> io::Result<()> {
        if self.parts.is_some() && !self.buffer.is_empty() {
            self.send_part()?;
        }
        while !self.waiting.is_empty() {
            self.await_part()?;
        }
        Ok(())
    }

    /// Makes the file, of which everything is sent, that of its name, in place of one that was there.
    ///
    /// # Errors
    /// The store does not take it. Then nothing of it remains.
    pub fn publish(mut self) -> io::Result<()> {
        self.complete()?;
        let (store, path) = (self.store.clone(), self.path.clone());
        let done = match self.parts.take() {
            None => {
                let payload = PutPayload::from(Bytes::from(std::mem::take(&mut self.buffer)));
                runtime::wait(async move { store.put(&path, payload).await.map(drop) })?
            }
            Some(mut parts) => runtime::wait(async move {
                match parts.complete().await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        // If this fails, too, the error of the first request says why.
                        let _ = parts.abort().await;
                        Err(error)
                    }
                }
            })?,
        };
        Ok(done.map_err(|error| Failure::of(&error))?)
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.part_bytes().saturating_sub(self.buffer.len());
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() >= self.part_bytes() {
            self.send_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        while !self.waiting.is_empty() {
            let _ = self.await_part();
        }
        // Stores remove what was not completed, some after days.
        let _ = runtime::wait(async move { parts.abort().await });
    }
}
