//! The statements that are being executed in a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;

/// The bytes of a statement's text that are kept.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The statements that all sessions of a database are executing, as one of the sessions sees them.
#[derive(Clone, Default)]
pub(crate) struct Statements {
    all: Arc<All>,
    session: u64,
}

#[derive(Default)]
struct All {
    sessions: AtomicU64,
    last: AtomicU64,
    running: Mutex<BTreeMap<u64, Entry>>,
}

struct Entry {
    session: u64,
    began: SystemTime,
    clock: Instant,
    rows: Arc<AtomicU64>,
    text: String,
}

/// A statement that is being executed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunningStatement {
    pub id: u64,
    pub session: u64,
    pub is_own: bool,
    pub began: SystemTime,
    pub ms: f64,
    /// The rows that it has returned so far.
    pub rows: u64,
    /// The beginning of its text.
    pub text: String,
}

/// Keeps a statement in the list until it is dropped.
pub(crate) struct Running {
    all: Arc<All>,
    id: u64,
    rows: Arc<AtomicU64>,
}

impl Statements {
    /// The same list, for a new session.
    pub fn of_new_session(&self) -> Self {
        Statements { all: self.all.clone(), session: self.all.sessions.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// A statement of this session begins.
    pub fn begin(&self, text: &str) -> Running {
        let id = self.all.last.fetch_add(1, Ordering::Relaxed) + 1;
        let rows = Arc::<AtomicU64>::default();
        let text = freestone_sql::without_secrets(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into_owned();
        let (began, clock) = (SystemTime::now(), Instant::now());
        let entry = Entry { session: self.session, began, clock, rows: rows.clone(), text };
        self.all.running.lock().insert(id, entry);
        Running { all: self.all.clone(), id, rows }
    }

    /// All statements, in the order in which they began.
    pub fn list(&self) -> Vec<RunningStatement> {
        let running = self.all.running.lock();
        let shown = |(id, entry): (&u64, &Entry)| RunningStatement {
            id: *id,
            session: entry.session,
            is_own: entry.session == self.session,
            began: entry.began,
            ms: entry.clock.elapsed().as_secs_f64() * 1e3,
            rows: entry.rows.load(Ordering::Relaxed),
            text: entry.text.clone(),
        };
        running.iter().map(shown).collect()
    }
}

impl Running {
    /// Rows were returned.
    pub fn returned(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.running.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_listed_until_it_ends() {
        let first = Statements::default().of_new_session();
        let second = first.of_new_session();
        let running = first.begin("SELECT 1");
        let long = second.begin(&"ä".repeat(TEXT_BYTES_MAX));
        running.returned(3);
        let listed = first.list();
        let seen: Vec<_> = listed.iter().map(|s| (s.id, s.is_own, s.rows, s.text.len())).collect();
        assert_eq!(seen, [(1, true, 3, 8), (2, false, 0, TEXT_BYTES_MAX)]);
        assert_ne!(listed[0].session, listed[1].session);
        drop((running, long));
        assert!(second.list().is_empty());
    }
}
