//! Advisory locks: numbers that sessions lock, whatever they stand for.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time for which a session waits without looking whether it still should.
const WAIT: Duration = Duration::from_millis(20);

/// What is locked: a number, or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// How it is locked, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mode {
    pub is_shared: bool,
    /// Whether until the end of the transaction, not of the session.
    pub of_transaction: bool,
}

/// Why a session does not get a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another session has it.
    Taken,
    /// Each of some sessions waits for a lock of another.
    Deadlock,
    /// The statement was cancelled.
    Cancelled,
}

/// The advisory locks of a server.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How often each session holds each lock.
    held: HashMap<Key, HashMap<(u64, Mode), u32>>,
    /// The lock for which a session waits, and whether it would share it.
    waiting: HashMap<u64, (Key, bool)>,
}

impl State {
    /// The other sessions that keep one from a lock.
    fn holders(&self, session: u64, key: Key, is_shared: bool) -> HashSet<u64> {
        let held = self.held.get(&key).into_iter().flatten();
        let keep = held.filter(|((other, mode), _)| *other != session && !(is_shared && mode.is_shared));
        keep.map(|((other, _), _)| *other).collect()
    }

    /// Whether a session that holds the lock waits, over others, for this one.
    fn is_deadlock(&self, session: u64, key: Key, is_shared: bool) -> bool {
        let (mut seen, mut next) = (HashSet::new(), self.holders(session, key, is_shared));
        while !next.is_empty() {
            if next.contains(&session) {
                return true;
            }
            seen.extend(next.iter().copied());
            let wanted = next.iter().filter_map(|other| Some((other, self.waiting.get(other)?)));
            let found: HashSet<u64> =
                wanted.flat_map(|(other, (key, is_shared))| self.holders(*other, *key, *is_shared)).collect();
            next = found.into_iter().filter(|other| *other == session || !seen.contains(other)).collect();
        }
        false
    }

    fn release(&mut self, releases: impl Fn(u64, Mode) -> bool) {
        self.held.retain(|_, held| {
            held.retain(|(session, mode), _| !releases(*session, *mode));
            !held.is_empty()
        });
    }
}

impl AdvisoryLocks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a key for a session, once more if it has it.
    ///
    /// # Errors
    ///
    /// Another session has the lock.
    pub fn try_lock(&self, session: u64, key: Key, mode: Mode) -> Result<(), Refusal> {
        let mut state = self.state();
        if !state.holders(session, key, mode.is_shared).is_empty() {
            return Err(Refusal::Taken);
        }
        *state.held.entry(key).or_default().entry((session, mode)).or_default() += 1;
        Ok(())
    }

    /// Waits for the lock as long as `goes_on`.
    ///
    /// # Errors
    ///
    /// The session waited in vain.
    pub fn lock(&self, session: u64, key: Key, mode: Mode, goes_on: impl Fn() -> bool) -> Result<(), Refusal> {
        let waited = loop {
            match self.try_lock(session, key, mode) {
                Err(Refusal::Taken) => {}
                locked => break locked,
            }
            let mut state = self.state();
            if state.is_deadlock(session, key, mode.is_shared) {
                break Err(Refusal::Deadlock);
            }
            state.waiting.insert(session, (key, mode.is_shared));
            // Whether it was told or not, it looks again.
            drop(self.changed.wait_timeout(state, WAIT));
            if !goes_on() {
                break Err(Refusal::Cancelled);
            }
        };
        self.state().waiting.remove(&session);
        waited
    }

    /// Gives a lock of the session back, once. Whether it had it.
    pub fn unlock(&self, session: u64, key: Key, is_shared: bool) -> bool {
        let mut state = self.state();
        let Some(held) = state.held.get_mut(&key) else { return false };
        let mode = (session, Mode { is_shared, of_transaction: false });
        let Some(count) = held.get_mut(&mode) else { return false };
        *count -= 1;
        if *count == 0 {
            held.remove(&mode);
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Gives all locks back that the session itself has.
    pub fn unlock_all(&self, session: u64) {
        self.state().release(|other, mode| other == session && !mode.of_transaction);
        self.changed.notify_all();
    }

    /// Gives those of its transaction back.
    pub fn end_transaction(&self, session: u64) {
        let mut state = self.state();
        if state.held.is_empty() {
            return;
        }
        state.release(|other, mode| other == session && mode.of_transaction);
        drop(state);
        self.changed.notify_all();
    }

    /// Gives all locks of a session back that has ended.
    pub fn end(&self, session: u64) {
        self.state().release(|other, _| other == session);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Mode = Mode { is_shared: false, of_transaction: false };
    const SHARED: Mode = Mode { is_shared: true, of_transaction: false };
    const KEY: Key = Key::One(7);

    #[test]
    fn locks_exclude_other_sessions() {
        let locks = AdvisoryLocks::default();
        assert_eq!(locks.try_lock(1, KEY, ALONE), Ok(()));
        assert_eq!(locks.try_lock(1, KEY, ALONE), Ok(()));
        assert_eq!(locks.try_lock(2, KEY, SHARED), Err(Refusal::Taken));
        assert_eq!(locks.try_lock(2, Key::Two(0, 7), ALONE), Ok(()));
        assert!(locks.unlock(1, KEY, false));
        assert_eq!(locks.try_lock(2, KEY, ALONE), Err(Refusal::Taken));
        assert!(locks.unlock(1, KEY, false) && !locks.unlock(1, KEY, false) && !locks.unlock(2, KEY, true));
        assert_eq!((locks.try_lock(1, KEY, SHARED), locks.try_lock(2, KEY, SHARED)), (Ok(()), Ok(())));
        assert_eq!(locks.try_lock(1, KEY, ALONE), Err(Refusal::Taken));
        locks.end(2);
        assert_eq!(locks.try_lock(1, KEY, ALONE), Ok(()));
        locks.unlock_all(1);
        let of_transaction = Mode { is_shared: false, of_transaction: true };
        assert_eq!(locks.try_lock(1, KEY, of_transaction), Ok(()));
        locks.unlock_all(1);
        assert_eq!(locks.try_lock(2, KEY, ALONE), Err(Refusal::Taken));
        locks.end_transaction(1);
        assert_eq!(locks.try_lock(2, KEY, ALONE), Ok(()));
    }

    #[test]
    fn waiting_ends() {
        let locks = AdvisoryLocks::default();
        assert_eq!(locks.try_lock(1, KEY, ALONE), Ok(()));
        assert_eq!(locks.lock(2, KEY, ALONE, || false), Err(Refusal::Cancelled));
        assert_eq!(locks.try_lock(2, Key::One(8), ALONE), Ok(()));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| locks.lock(1, Key::One(8), ALONE, || true));
            while locks.state().waiting.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(locks.lock(2, KEY, ALONE, || true), Err(Refusal::Deadlock));
            locks.unlock_all(2);
            assert_eq!(first.join().expect("no panic"), Ok(()));
        });
    }
}
