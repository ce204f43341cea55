//! Morsels of a file, parsed by several threads ahead of the consumer, and delivered in order with bounded memory.
//!
//! Workers take morsels from one shared source. Each morsel has a small channel of its own. The receiving ends are queued
//! in the order of morsels in a bounded channel, and the consumer empties one after the other. So there are at most
//! `threads + 2` morsels at a time, and each has at most `BATCHES_AHEAD` finished batches. A slow consumer therefore
//! stops the workers, and memory does not grow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;

use super::error::{IngestError, Reason};

/// The maximum number of finished batches of a morsel. Its worker waits while there are more.
const BATCHES_AHEAD: usize = 2;

/// The source of morsels. It is called under a lock, so it does only what must be sequential.
pub(crate) trait Source: Send + 'static {
    type Morsel;
    fn next_morsel(&mut self) -> Option<Self::Morsel>;
}

/// The work on a morsel. A worker reuses its state (buffers, builders) for later morsels.
pub(crate) trait Worker<U>: Send + 'static {
    /// Parses one morsel, and calls `emit` with each finished batch. `emit` returns false if the consumer has stopped.
    ///
    /// # Errors
    ///
    /// The first bad row, or a read error.
    fn run(&mut self, morsel: U, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<MorselEnd, MorselError>;
}

/// The amounts by which a finished morsel increases the counters of later morsels.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MorselEnd {
    pub lines: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// An error with line, row and byte relative to the start of the morsel, counted from 0. The consumer adds those of the
/// morsels before it.
#[derive(Debug)]
pub(crate) struct MorselError {
    pub error: IngestError,
    pub line: Option<u64>,
    pub row: Option<u64>,
}

enum Message {
    Batch(RecordBatch),
    End(MorselEnd),
    Error(MorselError),
}

/// The consumer's end: an iterator of batches in the order of morsels, which ends after the first error.
pub(crate) struct Ordered {
    source_name: String,
    morsels: Option<Receiver<Receiver<Message>>>,
    current: Option<Receiver<Message>>,
    workers: Vec<JoinHandle<()>>,
    done: MorselEnd,
}

impl Ordered {
    /// Starts one thread per worker. `source_name` is the name in errors.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn start<S, W>(source_name: String, source: S, workers: Vec<W>) -> Result<Self, IngestError>
    where
        S: Source,
        W: Worker<S::Morsel>,
    {
        let (announce, morsels) = sync_channel(workers.len());
        let source = Arc::new(Mutex::new((source, announce)));
        let mut this = Self {
            source_name,
            morsels: Some(morsels),
            current: None,
            workers: Vec::new(),
            done: MorselEnd::default(),
        };
        for worker in workers {
            let source = Arc::clone(&source);
            let spawned = std::thread::Builder::new().name("ingest".into()).spawn(move || work(&source, worker));
            let handle = spawned.map_err(|e| {
                IngestError::new(&this.source_name, Reason::Internal(format!("cannot start a thread: {e}")))
            })?;
            this.workers.push(handle);
        }
        Ok(this)
    }

    /// The bytes of the completely delivered morsels.
    pub fn bytes_done(&self) -> u64 {
        self.done.bytes
    }

    /// Stops and joins the workers. Returns false if one of them panicked outside of a morsel.
    fn finish(&mut self) -> bool {
        // Without receivers, every blocked send fails, so the workers return and can be joined.
        self.morsels = None;
        self.current = None;
        let joined: Vec<_> = self.workers.drain(..).map(JoinHandle::join).collect();
        joined.iter().all(Result::is_ok)
    }

    fn stopped(&self) -> IngestError {
        let reason = Reason::Internal("a reading thread stopped without a result".into());
        IngestError::new(&self.source_name, reason)
    }

    fn locate(&self, failed: MorselError) -> IngestError {
        let mut error = failed.error;
        if error.details().source.is_empty() {
            error = error.in_source(&self.source_name);
        }
        if let Reason::InvalidUtf8 { byte } = error.details().reason {
            error = error.with_reason(Reason::InvalidUtf8 { byte: byte + self.done.bytes });
        }
        if let Some(line) = failed.line {
            error = error.at_line(self.done.lines + line + 1);
        }
        if let Some(row) = failed.row {
            error = error.at_row(self.done.rows + row + 1);
        }
        error
    }
}

impl Iterator for Ordered {
    type Item = Result<RecordBatch, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.current.is_none() {
                match self.morsels.as_ref()?.recv() {
                    Ok(morsel) => self.current = Some(morsel),
                    Err(_) => return if self.finish() { None } else { Some(Err(self.stopped())) },
                }
            }
            match self.current.as_ref()?.recv() {
                Ok(Message::Batch(batch)) => return Some(Ok(batch)),
                Ok(Message::End(end)) => {
                    self.done.lines += end.lines;
                    self.done.rows += end.rows;
                    self.done.bytes += end.bytes;
                    self.current = None;
                }
                Ok(Message::Error(failed)) => {
                    let error = self.locate(failed);
                    self.finish();
                    return Some(Err(error));
                }
                // A morsel that ends without its final message would lose rows silently.
                Err(_) => {
                    self.finish();
                    return Some(Err(self.stopped()));
                }
            }
        }
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        self.finish();
    }
}

fn work<S: Source, W: Worker<S::Morsel>>(source: &Mutex<(S, SyncSender<Receiver<Message>>)>, mut worker: W) {
    loop {
        // The morsel and its position in the queue are taken under one lock, so the queue has the order of the morsels.
        let (morsel, sender) = {
            let mut guard = source.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(morsel) = guard.0.next_morsel() else { return };
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            if guard.1.send(receiver).is_err() {
                return;
            }
            (morsel, sender)
        };
        let mut listening = true;
        let result = catch_unwind(AssertUnwindSafe(|| {
            worker.run(morsel, &mut |batch| {
                listening = sender.send(Message::Batch(batch)).is_ok();
                listening
            })
        }));
        let stopped = !listening || !matches!(result, Ok(Ok(_)));
        let message = match result {
            Ok(Ok(end)) => Message::End(end),
            Ok(Err(error)) => Message::Error(error),
            Err(panic) => Message::Error(MorselError { error: panic_error(panic.as_ref()), line: None, row: None }),
        };
        // The consumer ends a read early by dropping the receivers.
        if sender.send(message).is_err() || stopped {
            return;
        }
    }
}

/// Runs code of a decoder that may panic on damaged bytes, and converts a panic to an error.
///
/// # Errors
///
/// Those of the decoder, or a panic.
pub(crate) fn guarded<T>(source: &str, decode: impl FnOnce() -> Result<T, IngestError>) -> Result<T, IngestError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).in_source(source)))
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> IngestError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    IngestError::new("", Reason::Malformed(format!("damaged data, the decoder stopped: {text}")))
}
