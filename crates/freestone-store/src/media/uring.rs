//! Reading with io_uring: one ring, owned by one thread.
//!
//! A thread that needs bytes queues a batch and wakes the ring's thread through an event descriptor that the ring
//! polls. The ring's thread has up to `depth` reads in flight, in order of arrival, and delivers a batch when its last
//! read is done. One owner is the simplest sound design: no thread waits for another's completions, and a batch stays
//! in the ring's table from submission to completion, whether or not somebody still waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::{Arc, mpsc};
use std::thread;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::batch::{Batch, Run};
use super::disk::{OpenFile, read_run_cached, read_runs};

type FileBatch = Batch<Arc<OpenFile>>;

/// The queue to the ring's thread. When it is dropped, the thread finishes the queued reads and ends.
#[derive(Debug)]
pub(super) struct Ring {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Incremented at each wake; the ring polls it.
    event: File,
}

#[derive(Debug, Default)]
struct Queue {
    batches: Vec<FileBatch>,
    closed: bool,
}

impl Ring {
    /// Starts the ring and its thread.
    ///
    /// # Errors
    /// The kernel or a sandbox refuses.
    pub fn start(depth: usize) -> io::Result<Ring> {
        let depth = depth.clamp(1, 4096);
        let shared = Arc::new(Shared { queue: Mutex::default(), event: new_event()? });
        let (started, outcome) = mpsc::sync_channel(1);
        let thread_shared = shared.clone();
        // The ring is created on the thread that uses it, so that the kernel can omit locking.
        let run = move || match new_ring(depth) {
            Ok(ring) => {
                let owner = Owner::new(ring, depth, thread_shared);
                let _ = started.send(Ok(()));
                owner.run();
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        thread::Builder::new().name("freestone-ring".to_string()).spawn(run)?;
        outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the ring's thread ended")))?;
        Ok(Ring { shared })
    }

    /// Queues a batch that has runs to read.
    pub fn read(&self, mut batch: FileBatch) {
        let mut queue = self.shared.queue.lock();
        if queue.closed {
            // The ring failed earlier.
            drop(queue);
            read_runs(&mut batch);
            return batch.deliver();
        }
        queue.batches.push(batch);
        let first = queue.batches.len() == 1;
        drop(queue);
        // If the queue was not empty, the thread was woken already and will take this batch, too.
        if first && !self.shared.wake() {
            // The thread cannot be told, and stays asleep. This one reads what is queued, and later ones do.
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            let batches = std::mem::take(&mut queue.batches);
            drop(queue);
            for mut batch in batches {
                read_runs(&mut batch);
                batch.deliver();
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        let _ = self.shared.wake();
    }
}

impl Shared {
    /// Returns whether the thread is told, or is awake: if the counter is at its limit, it wakes anyway.
    fn wake(&self) -> bool {
        match (&self.event).write_all(&1u64.to_ne_bytes()) {
            Ok(()) => true,
            Err(error) => is_transient(&error),
        }
    }

    fn take_wakes(&self) {
        let _ = (&self.event).read(&mut [0; 8]);
    }
}

fn new_event() -> io::Result<File> {
    // SAFETY: the call takes no pointers.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: eventfd just created this descriptor, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn new_ring(depth: usize) -> io::Result<IoUring> {
    let entries = (depth + 1) as u32;
    let lean = IoUring::builder().setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun().build(entries);
    // Kernels before 6.1 do not support these flags.
    let ring = lean.or_else(|_| IoUring::new(entries))?;
    // Kernels before 5.6 may drop completions when many arrive at once. Threads are safer there.
    if !ring.params().is_feature_nodrop() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    try_out(ring)
}

/// Lets a ring do nothing once: a sandbox may allow that it is made, and refuse its use.
fn try_out(mut ring: IoUring) -> io::Result<IoUring> {
    // SAFETY: the operation uses no memory.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    pushed.map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    ring.submit_and_wait(1)?;
    let is_done = ring.completion().next().is_some();
    if is_done { Ok(ring) } else { Err(io::Error::from(io::ErrorKind::Unsupported)) }
}

/// The state of the ring's thread.
struct Owner {
    ring: IoUring,
    shared: Arc<Shared>,
    /// Nothing uses the buffers of these batches until their last run is done.
    batches: BTreeMap<u64, Open>,
    next_id: u64,
    /// Runs that are not yet submitted.
    waiting: VecDeque<Reading>,
    /// Submitted runs, by slot. A slot's number is the completion's user data.
    in_flight: Vec<Option<Reading>>,
    free_slots: Vec<usize>,
    polling: bool,
}

struct Open {
    batch: FileBatch,
    runs_left: usize,
    /// Runs that the ring could not read completely.
    retry: Vec<Run>,
}

/// A run together with what the kernel needs to read it.
struct Reading {
    batch: u64,
    run: Run,
    /// The descriptor of a file that the batch keeps open.
    descriptor: RawFd,
    /// The addresses of buffers that the batch owns. Boxed, because the kernel reads them from the address at
    /// submission.
    addresses: Box<[libc::iovec]>,
}

/// The user data of the poll of the event descriptor.
const WAKE: u64 = u64::MAX;

impl Owner {
    fn new(ring: IoUring, depth: usize, shared: Arc<Shared>) -> Owner {
        Owner {
            ring,
            shared,
            batches: BTreeMap::new(),
            next_id: 0,
            waiting: VecDeque::new(),
            in_flight: (0..depth).map(|_| None).collect(),
            free_slots: (0..depth).rev().collect(),
            polling: false,
        }
    }

    fn run(mut self) {
        loop {
            let closed = self.take_queue();
            self.submit_waiting();
            let idle = self.batches.is_empty();
            if closed && idle {
                return;
            }
            self.poll_event();
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                // The ring failed: dropping the batches reports that to the waiting threads.
                Err(_) => return,
            }
            self.reap();
        }
    }

    /// Takes the queued batches. Returns true if no more will come.
    fn take_queue(&mut self) -> bool {
        let (batches, closed) = {
            let mut queue = self.shared.queue.lock();
            (std::mem::take(&mut queue.batches), queue.closed)
        };
        for batch in batches {
            self.open(batch);
        }
        closed
    }

    fn open(&mut self, mut batch: FileBatch) {
        let id = self.next_id;
        self.next_id += 1;
        let runs = std::mem::take(&mut batch.runs);
        if runs.is_empty() {
            return batch.deliver();
        }
        let runs_left = runs.len();
        // All addresses are taken now, before the first read starts. Afterwards the buffers belong to the kernel.
        self.waiting.extend(runs.into_iter().map(|run| prepare(id, &mut batch, run)));
        self.batches.insert(id, Open { batch, runs_left, retry: Vec::new() });
    }

    fn submit_waiting(&mut self) {
        while !self.waiting.is_empty()
            && let Some(slot) = self.free_slots.pop()
            && let Some(reading) = self.waiting.pop_front()
        {
            self.submit(slot, reading);
        }
    }

    fn submit(&mut self, slot: usize, reading: Reading) {
        let addresses = &reading.addresses;
        let entry = opcode::Readv::new(types::Fd(reading.descriptor), addresses.as_ptr(), addresses.len() as u32)
            .offset(reading.run.offset)
            .build()
            .user_data(slot as u64);
        self.in_flight[slot] = Some(reading);
        // SAFETY: the kernel uses the addresses, which are in in_flight, and the buffers and the file, which are in
        // batches, until the completion. Only `complete` removes them before this thread ends, and `drop` leaks what is
        // still in flight. Until a batch's last run is done, nothing here reads or writes its buffers, and the runs of
        // a batch do not overlap within a buffer.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the submission queue has an entry for every slot and one for the poll");
    }

    fn poll_event(&mut self) {
        if self.polling {
            return;
        }
        let event = types::Fd(self.shared.event.as_raw_fd());
        let entry = opcode::PollAdd::new(event, libc::POLLIN as u32).build().user_data(WAKE);
        // SAFETY: a poll uses no memory, and the descriptor lives as long as self.shared.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        self.polling = pushed.is_ok();
    }

    fn reap(&mut self) {
        let completions: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (data, result) in completions {
            if data == WAKE {
                self.polling = false;
                self.shared.take_wakes();
            } else {
                self.complete(data as usize, result);
            }
        }
    }

    fn complete(&mut self, slot: usize, result: i32) {
        let done = self.in_flight.get_mut(slot).and_then(Option::take).expect("a completion is of a run in flight");
        self.free_slots.push(slot);
        let open = self.batches.get_mut(&done.batch).expect("a batch stays until its last run is done");
        open.runs_left -= 1;
        if !usize::try_from(result).is_ok_and(|len| len >= done.run.len) {
            if result == -libc::EINVAL || result == -libc::EOPNOTSUPP {
                open.batch.file.give_up_direct();
            }
            open.retry.push(done.run);
        }
        if open.runs_left == 0
            && let Some(open) = self.batches.remove(&done.batch)
        {
            finish(open);
        }
    }
}

fn prepare(id: u64, batch: &mut FileBatch, run: Run) -> Reading {
    let file = batch.file.clone();
    let (mut handle, round_to) = file.handle_for(&run);
    let mut memory = batch.memory(&run, round_to);
    if memory.is_none() {
        handle = file.cached_handle();
        memory = batch.memory(&run, 1);
    }
    let address = |mut part: IoSliceMut<'_>| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
    let addresses = memory.expect("every length is a multiple of 1").into_iter().map(address).collect();
    Reading { batch: id, run, descriptor: handle.as_raw_fd(), addresses }
}

/// Delivers a batch whose reads are done. What the ring could not read (rare: a short read, a signal, a device that
/// refuses direct reads) is read with `pread`, which either succeeds or gives the error to report.
fn finish(mut open: Open) {
    for run in open.retry {
        read_run_cached(&mut open.batch, &run);
    }
    open.batch.deliver();
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.in_flight.iter().any(Option::is_some) {
            // Only after a failure of the ring, or a panic: the kernel may still write into these buffers, so the
            // memory must never be used again. The waiting threads get an error.
            std::mem::forget(std::mem::take(&mut self.in_flight));
            for (_, open) in std::mem::take(&mut self.batches) {
                open.batch.abandon();
            }
        }
        // Dropping the queue reports an error to the waiting threads. It happens outside the lock, since the last file
        // of a disk drops the ring's handle, too.
        let queued = {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.batches)
        };
        drop(queued);
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}
