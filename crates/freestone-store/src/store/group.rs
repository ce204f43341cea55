//! Group commit: transactions that commit at the same time share one record and one sync of the log.
//!
//! A transaction that commits joins a queue. If there is no leader, it becomes the leader: it takes all transactions
//! from the queue, applies their changes to the newest state in order, appends one record for all of them, and then
//! makes it visible. In the meantime the next group forms. Nothing is visible before it is durable, except for the
//! changes of transactions that do not wait for a sync; a thread syncs these within [`SYNC_INTERVAL`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Store;
use super::commit::{Commit, Operation};
use super::files::NewFiles;
use super::pmem::commit::Work as PoolWork;
use super::rebase::conflict;
use super::state::State;
use crate::error::{Result, StoreError};
use crate::limits::CHECKPOINT_BYTES;
use crate::log::{LogError, LogWriter};

/// The time within which records that were not synced are synced.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// The states that a member of a group sees.
pub struct Newest<'a> {
    /// The newest state with the changes of the earlier members of the group.
    pub state: &'a State,
    /// The last commit that readers may see.
    pub visible: u64,
    /// The sequence of the group's commit.
    pub sequence: u64,
    /// The last commit of another process, if others can write.
    pub foreign: u64,
}

/// The contribution of a member: operations on the newest state, or none.
/// It is asked again if another process has committed meanwhile.
pub type Work = Box<dyn FnMut(&Newest<'_>) -> Result<Commit> + Send>;

/// The result of each member of a group, by its ticket.
pub type Results = Vec<(u64, Result<u64>)>;

/// The transactions that wait for a leader.
#[derive(Default)]
pub struct CommitQueue {
    queue: Mutex<Queue>,
    done: Condvar,
}

impl std::fmt::Debug for CommitQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommitQueue({} waiting)", self.queue.lock().waiting.len())
    }
}

#[derive(Default)]
struct Queue {
    last: u64,
    is_led: bool,
    waiting: Vec<Member>,
    results: HashMap<u64, Result<u64>>,
}

pub struct Member {
    pub ticket: u64,
    pub work: Work,
    pub files: Arc<NewFiles>,
    /// Whether it waits until its changes are durable.
    syncs: bool,
}

impl Store {
    /// Commits the operations that `work` returns, together with others, and returns the commit's sequence. `syncs`:
    /// whether the commit is durable then. The files are handed over to the commit.
    pub(super) fn commit_with_others(&self, files: &Arc<NewFiles>, syncs: bool, work: Work) -> Result<u64> {
        let mut queue = self.commits.queue.lock();
        queue.last += 1;
        let ticket = queue.last;
        queue.waiting.push(Member { ticket, work, files: files.clone(), syncs });
        loop {
            if let Some(result) = queue.results.remove(&ticket) {
                return result;
            }
            if queue.is_led {
                self.commits.done.wait(&mut queue);
                continue;
            }
            queue.is_led = true;
            let group = std::mem::take(&mut queue.waiting);
            drop(queue);
            let leader = Leader { store: self, tickets: group.iter().map(|member| member.ticket).collect() };
            let results = self.lead(group);
            queue = leader.end(results);
        }
    }

    /// Commits a group, and returns the result of each member.
    fn lead(&self, group: Vec<Member>) -> Results {
        if let Some(log) = &self.shared {
            return self.lead_shared(log, group);
        }
        let mut writer = self.writer.lock();
        let opening = self.resources.unnamed.lock().opening;
        let all = |error: StoreError| {
            let error = Arc::new(error);
            group.iter().map(|member| (member.ticket, Err(StoreError::Shared(error.clone())))).collect()
        };
        let Some(log) = writer.as_mut().filter(|log| !log.is_poisoned()) else {
            return all(reopened());
        };
        let now = match self.newest() {
            Ok(now) => now,
            Err(error) => return all(error),
        };
        let mut results = vec![];
        let mut together = Together::new(&now, 0);
        let before = now.clone();
        for mut member in group {
            let current = member.files.opening() == opening;
            let done = if current { together.add(&mut member.work) } else { Err(reopened()) };
            match done {
                Ok(true) => {
                    together.syncs |= member.syncs;
                    together.members.push((member.ticket, member.files));
                }
                Ok(false) => results.push((member.ticket, Ok(now.sequence))),
                Err(error) => results.push((member.ticket, Err(error))),
            }
        }
        let members = std::mem::take(&mut together.members);
        if members.is_empty() {
            return results;
        }
        let written = self.append(log, &before, together, &members);
        results.extend(shared_result(written, &members));
        results
    }

    /// The newest state, with the commits of the log. Of a shared log, those that this process knows.
    pub(super) fn newest(&self) -> Result<Arc<State>> {
        let mut reader = self.reader.lock();
        if self.shared.is_none() {
            self.catch_up(&mut reader)?;
        }
        Ok(reader.state.clone())
    }

    /// Appends the record of a group, and makes it visible.
    fn append(
        &self,
        log: &mut LogWriter,
        before: &State,
        mut together: Together,
        members: &[(u64, Arc<NewFiles>)],
    ) -> Result<u64> {
        let mut commit = std::mem::take(&mut together.commit);
        commit.push(Operation::LastId { id: self.next_id.load(Ordering::Relaxed) - 1 });
        match log.check() {
            Err(LogError::FilesRemoved { .. }) => super::restore_files(log, before)?,
            checked => checked?,
        }
        if members.iter().any(|(_, files)| !files.is_empty()) {
            self.resources.medium.sync_folder("segments")?;
        }
        // From here on a commit may name the files, even if this fails. The next opening of the log decides this, and
        // removes files that no commit names.
        members.iter().for_each(|(_, files)| files.hand_over());
        log.use_reserve(commit.frees_space());
        let transactions = &self.transactions;
        let (after, syncs) = (&mut together.state, together.syncs);
        let committed =
            self.pmem.commit(log, &mut PoolWork { before, after, commit: &mut commit, syncs, transactions });
        let sequence = match committed {
            Ok(sequence) => sequence,
            Err(error) => {
                self.show_pool();
                return Err(error);
            }
        };
        let state = self.make_visible(together.state, log)?;
        if log.len_since_base() > CHECKPOINT_BYTES.max(log.base_len()) {
            // After a failed checkpoint, the log is longer than necessary but correct.
            let _ = log.checkpoint(&Commit::of_state(&state).to_bytes());
        }
        if log.is_unsynced() {
            self.sync_soon(log)?;
        }
        Ok(sequence)
    }

    /// Makes the state after the last record visible to the readers of this process. Others read the log.
    fn make_visible(&self, mut state: State, log: &LogWriter) -> Result<Arc<State>> {
        let mut reader = self.reader.lock();
        state.last_id = state.last_id.max(self.next_id.load(Ordering::Relaxed) - 1);
        self.publish(&mut reader, state);
        // A version whose files cannot be pinned is not kept.
        let _ = self.note_newest(&reader, None);
        if let Some(reader) = &mut reader.log {
            reader.pass(log.generation(), log.len(), log.last_sequence());
        }
        Ok(reader.state.clone())
    }

    /// Shows the blocks of persistent memory as they are.
    pub(super) fn show_pool(&self) {
        let mut reader = self.reader.lock();
        let state = State::clone(&reader.state);
        self.publish(&mut reader, state);
    }

    /// Syncs the log after a while, or now if no thread can be started.
    fn sync_soon(&self, log: &mut LogWriter) -> Result<()> {
        if self.is_syncing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (writer, is_syncing) = (self.writer.clone(), self.is_syncing.clone());
        let sync = move || {
            thread::sleep(SYNC_INTERVAL);
            // A commit from here on may be too late for this sync, and starts another thread.
            is_syncing.store(false, Ordering::Release);
            if let Some(log) = writer.lock().as_mut() {
                // After a failure, the next commit reports it.
                let _ = log.sync();
            }
        };
        if thread::Builder::new().name("freestone-sync".into()).spawn(sync).is_err() {
            self.is_syncing.store(false, Ordering::Release);
            log.sync()?;
        }
        Ok(())
    }

    /// Makes all commits durable, and returns the last one of them.
    pub(super) fn sync_log(&self) -> Result<u64> {
        let mut writer = self.writer.lock();
        let Some(log) = writer.as_mut() else { return Ok(0) };
        log.sync()?;
        Ok(log.last_sequence())
    }
}

/// Ends the leader's work, also after a panic, so that the others do not wait forever.
struct Leader<'a> {
    store: &'a Store,
    tickets: Vec<u64>,
}

impl<'a> Leader<'a> {
    fn end(mut self, results: Vec<(u64, Result<u64>)>) -> parking_lot::MutexGuard<'a, Queue> {
        self.tickets.clear();
        let mut queue = self.store.commits.queue.lock();
        queue.results.extend(results);
        queue.is_led = false;
        self.store.commits.done.notify_all();
        queue
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let failed = || StoreError::Corrupt { file: "the commit log".into(), reason: "a commit panicked".into() };
        let mut queue = self.store.commits.queue.lock();
        queue.results.extend(self.tickets.drain(..).map(|ticket| (ticket, Err(failed()))));
        queue.is_led = false;
        self.store.commits.done.notify_all();
    }
}

pub(super) fn reopened() -> StoreError {
    conflict("the log was opened again after a failure")
}

/// The operations of a group, and the state after them.
pub struct Together {
    state: State,
    commit: Commit,
    visible: u64,
    foreign: u64,
    members: Vec<(u64, Arc<NewFiles>)>,
    syncs: bool,
}

impl Together {
    pub fn new(now: &Arc<State>, foreign: u64) -> Together {
        Together {
            state: State::clone(now),
            commit: Commit::default(),
            visible: now.sequence,
            foreign,
            members: vec![],
            syncs: false,
        }
    }

    /// Adds the changes of a member. Returns whether it has any.
    pub fn add(&mut self, work: &mut Work) -> Result<bool> {
        let sequence = self.visible + 1;
        let (visible, foreign) = (self.visible, self.foreign);
        let commit = work(&Newest { state: &self.state, visible, sequence, foreign })?;
        if commit.operations.is_empty() {
            return Ok(false);
        }
        self.state = commit.apply(&self.state, sequence).map_err(StoreError::Invalid)?;
        self.commit.extend(commit);
        Ok(true)
    }

    /// The operations of all members so far.
    pub fn take_commit(&mut self) -> Commit {
        std::mem::take(&mut self.commit)
    }

    /// The state after them. `last_id` is the last id that this process has given.
    pub fn into_state(self, last_id: u64) -> State {
        State { last_id: self.state.last_id.max(last_id), ..self.state }
    }
}

pub(super) fn shared_result(written: Result<u64>, members: &[(u64, Arc<NewFiles>)]) -> Results {
    match (written, members) {
        (Ok(sequence), _) => members.iter().map(|(ticket, _)| (*ticket, Ok(sequence))).collect(),
        (Err(error), [(ticket, _)]) => vec![(*ticket, Err(error))],
        (Err(error), _) => {
            let error = Arc::new(error);
            members.iter().map(|(ticket, _)| (*ticket, Err(StoreError::Shared(error.clone())))).collect()
        }
    }
}
