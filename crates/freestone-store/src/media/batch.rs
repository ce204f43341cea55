//! The bookkeeping of asynchronous reads: requests become runs, and results return to their requests.
//!
//! ```text
//! requests   [p0][p1][p2]      [p7][p8]   [ one long request ]
//! runs       [  run 0   ]      [run 1 ]   [run 2][run 3][run 4]      each at most one I/O unit, contiguous in the file
//! ```
//!
//! A [`Batch`] owns the buffers until all of its runs are done, even if the [`Pending`] handle was dropped. So the
//! kernel never writes into memory that somebody else uses.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{Buffer, BufferPool, MediumError, ReadRequest, Result, check_range};

/// Reads in progress. Dropping it abandons the results, but not the memory into which they are read.
#[derive(Debug)]
pub struct Pending(State);

#[derive(Debug)]
enum State {
    Ready(Vec<Result<Buffer>>),
    Waiting(Arc<Reply>),
}

impl Pending {
    /// Results that are available already.
    pub fn ready(results: Vec<Result<Buffer>>) -> Pending {
        Pending(State::Ready(results))
    }

    /// Whether [`Pending::wait`] would return at once.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            State::Ready(_) => true,
            State::Waiting(reply) => reply.results.lock().missing == 0,
        }
    }

    /// Waits until all reads are done. Results are in the order of the requests.
    pub fn wait(self) -> Vec<Result<Buffer>> {
        let reply = match self.0 {
            State::Ready(results) => return results,
            State::Waiting(reply) => reply,
        };
        let mut results = reply.results.lock();
        while results.missing > 0 {
            reply.done.wait(&mut results);
        }
        std::mem::take(&mut results.slots).into_iter().flatten().collect()
    }
}

#[derive(Debug)]
struct Reply {
    results: Mutex<Results>,
    done: Condvar,
}

#[derive(Debug)]
struct Results {
    slots: Vec<Option<Result<Buffer>>>,
    missing: usize,
}

/// The obligation to deliver one result. A dropped ticket delivers an error, so a waiting thread never hangs.
#[derive(Debug)]
pub(super) struct Ticket {
    reply: Arc<Reply>,
    index: usize,
    delivered: bool,
}

/// A handle to wait for, and one ticket for each of `count` results.
pub(super) fn tickets(count: usize) -> (Pending, Vec<Ticket>) {
    let results = Results { slots: (0..count).map(|_| None).collect(), missing: count };
    let reply = Arc::new(Reply { results: Mutex::new(results), done: Condvar::new() });
    let tickets = (0..count).map(|index| Ticket { reply: reply.clone(), index, delivered: false }).collect();
    (Pending(State::Waiting(reply)), tickets)
}

impl Ticket {
    pub(super) fn deliver(mut self, result: Result<Buffer>) {
        self.put(result);
    }

    fn put(&mut self, result: Result<Buffer>) {
        self.delivered = true;
        let mut results = self.reply.results.lock();
        results.slots[self.index] = Some(result);
        results.missing -= 1;
        if results.missing == 0 {
            self.reply.done.notify_all();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.delivered {
            let gone = io::Error::other("the reading thread ended; reopen the database");
            self.put(Err(MediumError::io("read", "a file", gone)));
        }
    }
}

/// Reads of one file, sorted by offset, where `F` is the file type of the reader.
#[derive(Debug)]
pub(super) struct Batch<F> {
    pub file: F,
    slots: Vec<Slot>,
    pub runs: Vec<Run>,
}

#[derive(Debug)]
struct Slot {
    buffer: Buffer,
    ticket: Ticket,
    failure: Option<MediumError>,
}

/// Bytes that are contiguous in the file and distributed over the buffers of adjacent slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub offset: u64,
    pub len: usize,
    first_slot: usize,
    /// The part of each slot's buffer, starting with `first_slot`.
    parts: Vec<Range<usize>>,
}

/// Divides requests into runs of at most `unit` bytes. Requests after the end of the file fail at once.
pub(super) fn plan<F>(
    file: F,
    requests: &[ReadRequest],
    limits: Limits<'_>,
    pool: &Arc<BufferPool>,
) -> (Pending, Batch<F>) {
    let (pending, tickets) = tickets(requests.len());
    let mut sorted: Vec<(ReadRequest, Ticket)> = requests.iter().copied().zip(tickets).collect();
    sorted.sort_by_key(|(request, _)| request.offset);
    let mut batch = Batch { file, slots: Vec::with_capacity(requests.len()), runs: Vec::new() };
    for (request, ticket) in sorted {
        if let Err(error) = check_range(limits.name, limits.file_len, request.offset, request.len) {
            ticket.deliver(Err(error));
            continue;
        }
        add_runs(&mut batch.runs, batch.slots.len(), request, limits.unit);
        batch.slots.push(Slot { buffer: pool.take(request.len), ticket, failure: None });
    }
    (pending, batch)
}

/// The limits of a plan: the file's name for messages, its length, and the longest run. All lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    pub name: &'a str,
    pub file_len: u64,
    pub unit: usize,
}

fn add_runs(runs: &mut Vec<Run>, slot: usize, request: ReadRequest, unit: usize) {
    let mut done = 0;
    while done < request.len {
        let offset = request.offset + done as u64;
        let continued = runs.last_mut().filter(|run| {
            let next_slot = run.first_slot + run.parts.len();
            run.offset + run.len as u64 == offset && run.len < unit && next_slot == slot
        });
        // A request that does not fit the rest of a run starts a new run, unless it is longer than a run. So no page is
        // divided between two reads.
        let room = continued.as_ref().map_or(0, |run| unit - run.len);
        let rest = request.len - done;
        match continued.filter(|_| rest <= room) {
            Some(run) => {
                run.parts.push(done..done + rest);
                run.len += rest;
                done += rest;
            }
            None => {
                let len = rest.min(unit);
                runs.push(Run { offset, len, first_slot: slot, parts: std::iter::once(done..done + len).collect() });
                done += len;
            }
        }
    }
}

impl<F> Batch<F> {
    /// The memory of a run. With `round_to` above 1, its end is rounded up to a multiple of that, into the unused rest
    /// of the last buffer. `None` if that is not possible or any inner part is not such a multiple.
    pub fn memory(&mut self, run: &Run, round_to: usize) -> Option<Vec<IoSliceMut<'_>>> {
        let last = run.parts.len() - 1;
        let mut slices = Vec::with_capacity(run.parts.len());
        for (index, (slot, part)) in self.slots[run.first_slot..].iter_mut().zip(&run.parts).enumerate() {
            let end = if index == last { part.end.next_multiple_of(round_to) } else { part.end };
            let memory = slot.buffer.memory_mut().get_mut(part.start..end)?;
            if !memory.len().is_multiple_of(round_to) || !part.start.is_multiple_of(round_to) {
                return None;
            }
            slices.push(IoSliceMut::new(memory));
        }
        Some(slices)
    }

    /// Records that a run could not be read. Its requests fail, others of the batch do not.
    pub fn fail(&mut self, run: &Run, mut error: impl FnMut() -> MediumError) {
        for slot in self.slots[run.first_slot..].iter_mut().take(run.parts.len()) {
            slot.failure.get_or_insert_with(&mut error);
        }
    }

    /// Delivers all results. Call it when no run is left.
    pub fn deliver(self) {
        for slot in self.slots {
            slot.ticket.deliver(slot.failure.map_or(Ok(slot.buffer), Err));
        }
    }

    /// Delivers errors, and leaks the memory for ever, because something may still write into it.
    #[cfg(target_os = "linux")]
    pub fn abandon(self) {
        for slot in self.slots {
            std::mem::forget(slot.buffer);
        }
    }

    /// One batch per request, for readers that process several in parallel.
    pub fn split(self) -> Vec<Batch<F>>
    where
        F: Clone,
    {
        let mut batches: Vec<Batch<F>> = self
            .slots
            .into_iter()
            .map(|slot| Batch { file: self.file.clone(), slots: vec![slot], runs: Vec::new() })
            .collect();
        for run in self.runs {
            let mut offset = run.offset;
            for (part, batch) in run.parts.into_iter().zip(&mut batches[run.first_slot..]) {
                let len = part.len();
                batch.runs.push(Run { offset, len, first_slot: 0, parts: vec![part] });
                offset += len as u64;
            }
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(requests: &[(u64, usize)], unit: usize, expected: &[(u64, usize)]) {
        let requests: Vec<_> = requests.iter().map(|&(offset, len)| ReadRequest { offset, len }).collect();
        let limits = Limits { name: "f", file_len: 1 << 20, unit };
        let (_, batch) = plan((), &requests, limits, &BufferPool::new(0));
        let runs: Vec<_> = batch.runs.iter().map(|run| (run.offset, run.len)).collect();
        assert_eq!(runs, expected);
    }

    #[test]
    fn neighbours_are_read_together_and_long_requests_in_pieces() {
        check(&[(0, 10), (10, 10), (20, 10)], 100, &[(0, 30)]);
        check(&[(20, 10), (0, 10), (10, 10)], 100, &[(0, 30)]);
        check(&[(0, 10), (11, 10)], 100, &[(0, 10), (11, 10)]);
        check(&[(0, 10), (10, 10), (20, 10)], 20, &[(0, 20), (20, 10)]);
        check(&[(0, 10), (10, 15)], 20, &[(0, 10), (10, 15)]);
        check(&[(0, 55)], 20, &[(0, 20), (20, 20), (40, 15)]);
        check(&[(0, 55), (55, 5)], 20, &[(0, 20), (20, 20), (40, 20)]);
        check(&[(5, 0), (5, 10), (5, 10)], 20, &[(5, 10), (5, 10)]);
        check(&[], 20, &[]);
    }

    #[test]
    fn requests_past_the_end_fail_alone() {
        let requests = [ReadRequest { offset: 5, len: 6 }, ReadRequest { offset: 0, len: 5 }];
        let limits = Limits { name: "f", file_len: 10, unit: 100 };
        let (pending, batch) = plan((), &requests, limits, &BufferPool::new(0));
        assert!(!pending.is_ready());
        batch.deliver();
        assert!(pending.is_ready());
        let results = pending.wait();
        assert!(matches!(results[0], Err(MediumError::PastEnd { file_len: 10, .. })));
        assert_eq!(results[1].as_ref().unwrap().len(), 5);
    }

    #[test]
    fn a_batch_that_is_dropped_does_not_leave_anybody_waiting() {
        let limits = Limits { name: "f", file_len: 10, unit: 100 };
        let (pending, batch) = plan((), &[ReadRequest { offset: 0, len: 5 }], limits, &BufferPool::new(0));
        drop(batch);
        let message = pending.wait().remove(0).unwrap_err().to_string();
        assert!(message.contains("the reading thread ended"), "{message}");
    }

    #[test]
    fn direct_memory_is_rounded_only_at_the_end() {
        let pool = BufferPool::new(0);
        let limits = Limits { name: "f", file_len: 1 << 20, unit: 1 << 16 };
        let requests = [ReadRequest { offset: 0, len: 4096 }, ReadRequest { offset: 4096, len: 100 }];
        let (_, mut batch) = plan((), &requests, limits, &pool);
        let run = batch.runs[0].clone();
        let lens = |slices: Vec<IoSliceMut<'_>>| slices.iter().map(|slice| slice.len()).collect::<Vec<_>>();
        assert_eq!(lens(batch.memory(&run, 512).unwrap()), [4096, 512]);
        assert_eq!(lens(batch.memory(&run, 1).unwrap()), [4096, 100]);
        let requests = [ReadRequest { offset: 0, len: 100 }, ReadRequest { offset: 100, len: 4096 }];
        let (_, mut batch) = plan((), &requests, limits, &pool);
        let run = batch.runs[0].clone();
        assert!(batch.memory(&run, 512).is_none());
    }
}
