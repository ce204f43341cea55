//! Locks of the open transactions of a process: on tables, names and rows. Also which transaction waits for which, and
//! the new positions of rows that compaction has moved.
//!
//! All of this is in memory, and no commit depends on it for correctness, because each commit is checked against the
//! newest state. Locks let a transaction wait for the outcome of another one, instead of failing when it commits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use roaring::RoaringBitmap;

use super::key_locks::{KeyId, KeyLocks, KeyUse, Keys};
use crate::error::{Result, StoreError};
use crate::table::Table;

/// The interval at which a waiting transaction checks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(20);
/// The position of a row that was deleted before its segment was rewritten.
pub const NO_PLACE: u64 = u64::MAX;

/// A row: its segment, and its number there.
pub type RowNumber = (u64, u32);

/// Row numbers by segment.
pub type Rows = BTreeMap<u64, RoaringBitmap>;

/// The conditions that end a wait for other transactions.
#[derive(Clone, Default)]
pub struct Waiting {
    /// The time limit; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Called repeatedly during a wait. If it returns false, the wait ends.
    pub goes_on: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// How a transaction uses a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It changes rows, and others may do so at the same time.
    Shared,
    /// It locks the whole table.
    Exclusive,
}

/// How a transaction uses a row that it locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowUse {
    /// The row, or its next version, keeps the values of its keys.
    Kept,
    /// The row may lose a key: it is deleted, or columns of a key are assigned. Whoever adds the key waits for the outcome.
    Removed,
}

/// When a transaction took a lock, among its savepoints. A return to a savepoint frees the locks of its level and of those
/// above.
pub type Level = u64;

/// A level of locks, and the one that the transaction had before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Levels {
    pub begun: Level,
    pub below: Level,
}

/// An open transaction, as shown to users.
#[derive(Debug, Clone)]
pub struct OpenTransaction {
    /// The number of the transaction.
    pub id: u64,
    /// The commit on which it is based.
    pub base: u64,
    /// The time of its start.
    pub began: SystemTime,
    /// The ids of the tables that it changes.
    pub tables: Vec<u64>,
    /// The transactions for which it waits.
    pub waits_for: Vec<u64>,
}

/// The open transactions of a store.
#[derive(Debug, Default)]
pub struct Transactions {
    shared: Mutex<Shared>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Shared {
    last: u64,
    open: BTreeMap<u64, Open>,
    tables: HashMap<u64, TableLock>,
    names: HashMap<String, (u64, Level)>,
    /// For each segment, the rows that each transaction has locked.
    rows: HashMap<u64, Vec<RowLocks>>,
    keys: KeyLocks,
    waits: HashMap<u64, BTreeSet<u64>>,
    moved: HashMap<u64, Moved>,
    /// The same for single rows of segments in persistent memory, which remain. A row number that was moved is never used
    /// again.
    moved_rows: HashMap<u64, HashMap<u32, MovedRow>>,
}

/// A row that has another place since a commit.
#[derive(Debug, Clone, Copy)]
struct MovedRow {
    sequence: u64,
    segment: u64,
    row: u32,
}

#[derive(Debug)]
struct Open {
    base: u64,
    began: SystemTime,
    /// The level of locks that it takes now, and the highest level so far.
    level: Level,
    last_level: Level,
}

#[derive(Debug, Default)]
struct TableLock {
    shared: HashMap<u64, Level>,
    exclusive: Option<(u64, Level)>,
    /// Transactions that wait for an exclusive lock of the table. Later shared locks must wait for these.
    wanted: BTreeSet<u64>,
}

/// Rows of a segment that a transaction has locked.
#[derive(Debug)]
struct RowLocks {
    holder: u64,
    level: Level,
    how: RowUse,
    rows: RoaringBitmap,
}

/// The new positions of the rows of a segment that was rewritten.
#[derive(Debug)]
pub struct Moved {
    /// The commit that replaced the segment.
    pub sequence: u64,
    pub segments: Arc<Vec<u64>>,
    /// For each row, the index of its segment times 2^32 plus its row there, or [`NO_PLACE`].
    pub places: Vec<u64>,
}

/// The open transactions of a store, as shown to users.
#[derive(Debug, Clone)]
pub struct TransactionList(pub(super) Arc<Transactions>);

impl TransactionList {
    /// The transactions that are open now.
    pub fn open(&self) -> Vec<OpenTransaction> {
        self.0.list()
    }
}

impl Transactions {
    /// Registers a transaction, before its base is known.
    pub fn begin(&self) -> u64 {
        let mut shared = self.shared.lock();
        shared.last += 1;
        let id = shared.last;
        shared.open.insert(id, Open { base: 0, began: SystemTime::now(), level: 0, last_level: 0 });
        id
    }

    /// Sets the commit on which a transaction is based.
    pub fn set_base(&self, id: u64, base: u64) {
        if let Some(open) = self.shared.lock().open.get_mut(&id) {
            open.base = base;
        }
    }

    /// Ends a transaction and frees its locks.
    pub fn end(&self, id: u64) {
        let mut shared = self.shared.lock();
        shared.open.remove(&id);
        shared.waits.remove(&id);
        shared.free(id, 0);
        let oldest = shared.open.values().map(|open| open.base).min().unwrap_or(u64::MAX);
        shared.moved.retain(|_, moved| moved.sequence > oldest);
        if !shared.moved_rows.is_empty() {
            shared.moved_rows.retain(|_, rows| {
                rows.retain(|_, moved| moved.sequence > oldest);
                !rows.is_empty()
            });
        }
        self.released.notify_all();
    }

    /// Begins a level of locks, above the one that the transaction has now. Returns both.
    pub fn begin_level(&self, id: u64) -> Levels {
        let mut shared = self.shared.lock();
        let Some(open) = shared.open.get_mut(&id) else { return Levels::default() };
        open.last_level += 1;
        let levels = Levels { begun: open.last_level, below: open.level };
        open.level = levels.begun;
        levels
    }

    /// Frees the locks of a level and of those above. The transaction takes its next locks at this level again.
    pub fn free_level(&self, id: u64, level: Level) {
        let mut shared = self.shared.lock();
        shared.free(id, level);
        if let Some(open) = shared.open.get_mut(&id) {
            open.level = level;
        }
        self.released.notify_all();
    }

    /// Makes the locks of a level, and of those above, locks of the level below it.
    pub fn join_levels(&self, id: u64, levels: Levels) {
        let mut shared = self.shared.lock();
        shared.join(id, levels);
        if let Some(open) = shared.open.get_mut(&id) {
            open.level = levels.below;
        }
    }

    /// Locks a table. Returns whether it had to wait.
    pub fn lock_table(&self, me: u64, table: u64, mode: Mode, name: &str, waiting: &Waiting) -> Result<bool> {
        let take = |shared: &mut Shared| {
            let level = shared.level(me);
            let lock = shared.tables.entry(table).or_default();
            let blockers = lock.blockers(me, mode);
            if blockers.is_empty() {
                lock.take(me, level, mode);
            } else if mode == Mode::Exclusive {
                lock.wanted.insert(me);
            }
            blockers
        };
        let taken = self.acquire(me, waiting, &format!("table {name}"), take);
        if taken.is_err()
            && let Some(lock) = self.shared.lock().tables.get_mut(&table)
        {
            lock.wanted.remove(&me);
            self.released.notify_all();
        }
        taken
    }

    /// Locks a table if it is free.
    pub fn try_lock_table(&self, me: u64, table: u64, mode: Mode) -> bool {
        let mut shared = self.shared.lock();
        let level = shared.level(me);
        let lock = shared.tables.entry(table).or_default();
        let free = lock.blockers(me, mode).is_empty();
        if free {
            lock.take(me, level, mode);
        }
        free
    }

    /// Locks the name of a table or view that is created or dropped.
    pub fn lock_name(&self, me: u64, name: &str, waiting: &Waiting) -> Result<bool> {
        self.acquire(me, waiting, &format!("the name {name}"), |shared| match shared.names.get(name) {
            Some((holder, _)) if *holder != me => BTreeSet::from([*holder]),
            Some(_) => BTreeSet::new(),
            None => {
                let level = shared.level(me);
                shared.names.insert(name.to_owned(), (me, level));
                BTreeSet::new()
            }
        })
    }

    /// Locks rows of a segment, at their current positions if compaction has moved them.
    pub fn lock_rows(
        &self,
        me: u64,
        segment: u64,
        how: RowUse,
        rows: &RoaringBitmap,
        waiting: &Waiting,
    ) -> Result<bool> {
        self.acquire(me, waiting, "a row", |shared| {
            let mut found = Rows::new();
            shared.follow(segment, rows.clone(), &|segment, shared| !shared.moved.contains_key(&segment), &mut found);
            let holders = found.iter().flat_map(|(segment, rows)| shared.others(me, *segment, rows));
            let blockers: BTreeSet<u64> = holders.map(|locks| locks.holder).collect();
            if blockers.is_empty() {
                let level = shared.level(me);
                found.into_iter().for_each(|(segment, rows)| {
                    shared.mark(segment, RowLocks { holder: me, level, how, rows });
                });
            }
            blockers
        })
    }

    /// Waits until no other open transaction may remove one of these rows. Returns whether that took waiting.
    pub fn wait_for_removal(&self, me: u64, segment: u64, rows: &RoaringBitmap, waiting: &Waiting) -> Result<bool> {
        self.acquire(me, waiting, "a row", |shared| {
            let mut found = Rows::new();
            shared.follow(segment, rows.clone(), &|segment, shared| !shared.moved.contains_key(&segment), &mut found);
            let holders = found.iter().flat_map(|(segment, rows)| shared.others(me, *segment, rows));
            holders.filter(|locks| locks.how == RowUse::Removed).map(|locks| locks.holder).collect()
        })
    }

    /// Locks keys that rows are given, lose or refer to, and returns whether that took waiting. `name` is the table's.
    pub fn lock_keys(
        &self,
        me: u64,
        key: KeyId,
        how: KeyUse,
        keys: &Keys,
        name: &str,
        waiting: &Waiting,
    ) -> Result<bool> {
        self.acquire(me, waiting, &format!("a key of table {name}"), |shared| {
            let blockers = shared.keys.blockers(me, key, how, keys);
            if blockers.is_empty() {
                let level = shared.level(me);
                shared.keys.add((me, level), key, how, keys.clone());
            }
            blockers
        })
    }

    fn acquire(
        &self,
        me: u64,
        waiting: &Waiting,
        what: &str,
        mut take: impl FnMut(&mut Shared) -> BTreeSet<u64>,
    ) -> Result<bool> {
        let mut shared = self.shared.lock();
        let start = Instant::now();
        let mut waited = false;
        let outcome = loop {
            let blockers = take(&mut shared);
            if blockers.is_empty() {
                break Ok(waited);
            }
            // Who does not wait closes no circle.
            let waits = waiting.timeout != Some(Duration::ZERO);
            if waits && shared.leads_to(&blockers, me) {
                break Err(StoreError::Deadlock(format!(
                    "deadlock: transaction {me} would wait for {what}, whose holder {} waits for it",
                    list(&blockers)
                )));
            }
            if waiting.timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
                break Err(StoreError::LockTimeout(format!(
                    "{what} is locked by transaction {}, and lock_timeout is over",
                    list(&blockers)
                )));
            }
            if waiting.goes_on.as_ref().is_some_and(|goes_on| !goes_on()) {
                break Err(StoreError::Cancelled);
            }
            waited = true;
            shared.waits.insert(me, blockers);
            let left = waiting.timeout.map_or(CANCEL_CHECK, |timeout| timeout.saturating_sub(start.elapsed()));
            self.released.wait_for(&mut shared, left.min(CANCEL_CHECK));
        };
        shared.waits.remove(&me);
        outcome
    }

    /// The positions of rows in a newer state of their table; `None` if one of them no longer exists.
    pub fn places(&self, table: &Table, segment: u64, rows: RoaringBitmap) -> Option<Rows> {
        let mut found = Rows::new();
        let shared = self.shared.lock();
        let is_there = |segment: u64, _: &Shared| table.segments.iter().any(|entry| entry.id == segment);
        shared.follow(segment, rows, &is_there, &mut found).then_some(found)
    }

    /// Records that segments were rewritten, and moves the locks of their rows.
    pub fn moved(&self, moves: Vec<(u64, Moved)>) {
        let mut shared = self.shared.lock();
        for (segment, moved) in moves {
            shared.moved.insert(segment, moved);
            for locks in shared.rows.remove(&segment).unwrap_or_default() {
                shared.mark_moved(segment, locks);
            }
        }
    }

    /// Records that rows of segments in persistent memory, which remain, are in other places: pairs of segments and rows.
    pub fn rows_moved(&self, sequence: u64, moves: &[(RowNumber, RowNumber)]) {
        let mut shared = self.shared.lock();
        let mut from: BTreeMap<u64, RoaringBitmap> = BTreeMap::new();
        for ((old, row), (segment, new)) in moves {
            let moved = MovedRow { sequence, segment: *segment, row: *new };
            shared.moved_rows.entry(*old).or_default().insert(*row, moved);
            from.entry(*old).or_default().insert(*row);
        }
        for (segment, rows) in from {
            let Some(marks) = shared.rows.get_mut(&segment) else { continue };
            let mut lost = vec![];
            for locks in marks.iter_mut() {
                lost.push(RowLocks { rows: &locks.rows & &rows, ..*locks });
                locks.rows -= &rows;
            }
            lost.into_iter().for_each(|locks| shared.mark_moved(segment, locks));
        }
    }

    /// The open transactions.
    pub fn list(&self) -> Vec<OpenTransaction> {
        let shared = self.shared.lock();
        let of = |(id, open): (&u64, &Open)| {
            let holds = |lock: &TableLock| lock.is_exclusive_of(*id) || lock.shared.contains_key(id);
            let mut tables: Vec<u64> =
                shared.tables.iter().filter(|(_, lock)| holds(lock)).map(|(table, _)| *table).collect();
            tables.sort_unstable();
            let waits_for = shared.waits.get(id).into_iter().flatten().copied().collect();
            OpenTransaction { id: *id, base: open.base, began: open.began, tables, waits_for }
        };
        shared.open.iter().map(of).collect()
    }
}

impl TableLock {
    fn is_exclusive_of(&self, id: u64) -> bool {
        self.exclusive.is_some_and(|(holder, _)| holder == id)
    }

    fn blockers(&self, me: u64, mode: Mode) -> BTreeSet<u64> {
        let others = |id: &u64| *id != me;
        let mut blockers: BTreeSet<u64> = self.exclusive.iter().map(|(holder, _)| *holder).filter(others).collect();
        match mode {
            Mode::Exclusive => blockers.extend(self.shared.keys().copied().filter(others)),
            Mode::Shared if self.shared.contains_key(&me) || self.is_exclusive_of(me) => {}
            Mode::Shared => blockers.extend(self.wanted.iter().copied().filter(others)),
        }
        blockers
    }

    /// Takes the lock. One that the transaction has already keeps its level.
    fn take(&mut self, me: u64, level: Level, mode: Mode) {
        match mode {
            Mode::Exclusive => {
                self.exclusive.get_or_insert((me, level));
                self.wanted.remove(&me);
            }
            Mode::Shared => {
                self.shared.entry(me).or_insert(level);
            }
        }
    }
}

impl Shared {
    /// Traces rows to the segments for which `is_last` is true. Returns whether all of them have a position.
    fn follow(
        &self,
        segment: u64,
        rows: RoaringBitmap,
        is_last: &dyn Fn(u64, &Shared) -> bool,
        found: &mut Rows,
    ) -> bool {
        let (mut complete, mut onward) = (true, Rows::new());
        let rows = self.without_moved(segment, rows, &mut onward);
        for (segment, rows) in std::mem::take(&mut onward) {
            complete &= self.follow(segment, rows, is_last, found);
        }
        if rows.is_empty() {
            return complete;
        }
        if is_last(segment, self) {
            *found.entry(segment).or_default() |= rows;
            return complete;
        }
        let Some(moved) = self.moved.get(&segment) else { return false };
        for row in rows {
            match moved.places.get(row as usize) {
                Some(&place) if place != NO_PLACE => {
                    let segment = moved.segments[(place >> 32) as usize];
                    onward.entry(segment).or_default().insert(place as u32);
                }
                _ => complete = false,
            }
        }
        for (segment, rows) in onward {
            complete &= self.follow(segment, rows, is_last, found);
        }
        complete
    }

    /// The rows that are where they were. Others are added to `onward`, where they are now.
    fn without_moved(&self, segment: u64, mut rows: RoaringBitmap, onward: &mut Rows) -> RoaringBitmap {
        let Some(moved) = self.moved_rows.get(&segment) else { return rows };
        let gone: Vec<(u32, MovedRow)> = rows.iter().filter_map(|row| Some((row, *moved.get(&row)?))).collect();
        for (row, moved) in gone {
            rows.remove(row);
            onward.entry(moved.segment).or_default().insert(moved.row);
        }
        rows
    }

    /// The locks of other transactions on some of these rows.
    fn others<'s>(&'s self, me: u64, segment: u64, rows: &'s RoaringBitmap) -> impl Iterator<Item = &'s RowLocks> + 's {
        let marks = self.rows.get(&segment).into_iter().flatten();
        marks.filter(move |locks| locks.holder != me && !locks.rows.is_disjoint(rows))
    }

    fn mark(&mut self, segment: u64, locks: RowLocks) {
        let marks = self.rows.entry(segment).or_default();
        let same =
            |known: &&mut RowLocks| (known.holder, known.level, known.how) == (locks.holder, locks.level, locks.how);
        match marks.iter_mut().find(same) {
            Some(known) => known.rows |= locks.rows,
            None => marks.push(locks),
        }
    }

    /// Marks the rows where they are now.
    fn mark_moved(&mut self, segment: u64, locks: RowLocks) {
        let mut found = Rows::new();
        let is_last = |segment: u64, shared: &Shared| !shared.moved.contains_key(&segment);
        self.follow(segment, locks.rows.clone(), &is_last, &mut found);
        found.into_iter().for_each(|(segment, rows)| self.mark(segment, RowLocks { rows, ..locks }));
    }

    /// The level at which a transaction takes locks now.
    fn level(&self, id: u64) -> Level {
        self.open.get(&id).map_or(0, |open| open.level)
    }

    /// Frees the locks of a transaction from a level on.
    fn free(&mut self, id: u64, from: Level) {
        let stays = |holder: u64, level: Level| holder != id || level < from;
        self.names.retain(|_, (holder, level)| stays(*holder, *level));
        self.keys.free(id, from);
        self.tables.retain(|_, lock| {
            lock.shared.retain(|holder, level| stays(*holder, *level));
            lock.wanted.remove(&id);
            lock.exclusive = lock.exclusive.filter(|(holder, level)| stays(*holder, *level));
            lock.exclusive.is_some() || !lock.shared.is_empty() || !lock.wanted.is_empty()
        });
        self.rows.retain(|_, marks| {
            marks.retain(|locks| stays(locks.holder, locks.level));
            !marks.is_empty()
        });
    }

    /// Makes the locks of a transaction from a level on those of the level below it.
    fn join(&mut self, id: u64, Levels { begun: from, below }: Levels) {
        let lower = |holder: u64, level: &mut Level| {
            if holder == id && *level >= from {
                *level = below;
            }
        };
        self.names.values_mut().for_each(|(holder, level)| lower(*holder, level));
        self.keys.join(id, from, below);
        for lock in self.tables.values_mut() {
            lock.shared.iter_mut().for_each(|(holder, level)| lower(*holder, level));
            lock.exclusive.iter_mut().for_each(|(holder, level)| lower(*holder, level));
        }
        let segments: Vec<u64> = self.rows.keys().copied().collect();
        for segment in segments {
            let is_joined = |locks: &mut RowLocks| locks.holder == id && locks.level >= from;
            let marks = self.rows.get_mut(&segment).map(|marks| marks.extract_if(.., is_joined).collect::<Vec<_>>());
            for locks in marks.unwrap_or_default() {
                self.mark(segment, RowLocks { level: below, ..locks });
            }
        }
    }

    /// Whether one of the transactions waits for `me`, directly or through others.
    fn leads_to(&self, from: &BTreeSet<u64>, me: u64) -> bool {
        let mut seen: BTreeSet<u64> = from.clone();
        let mut next: Vec<u64> = from.iter().copied().collect();
        while let Some(id) = next.pop() {
            if id == me {
                return true;
            }
            next.extend(self.waits.get(&id).into_iter().flatten().filter(|id| seen.insert(**id)));
        }
        false
    }
}

fn list(ids: &BTreeSet<u64>) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn rows(rows: &[u32]) -> RoaringBitmap {
        rows.iter().copied().collect()
    }

    fn briefly() -> Waiting {
        Waiting { timeout: Some(Duration::from_millis(1)), goes_on: None }
    }

    #[test]
    fn different_rows_are_in_nobodys_way_and_equal_ones_wait() {
        let transactions = Transactions::default();
        let (a, b) = (transactions.begin(), transactions.begin());
        assert!(!transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[1, 2]), &briefly()).unwrap());
        assert!(!transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[3]), &briefly()).unwrap());
        assert!(!transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[2, 5]), &briefly()).unwrap());
        let refused = transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[5, 6]), &briefly());
        assert!(matches!(refused, Err(StoreError::LockTimeout(_))), "{refused:?}");
        thread::scope(|scope| {
            let waits = scope.spawn(|| transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[5, 6]), &Waiting::default()));
            while transactions.list()[1].waits_for != [a] {
                thread::yield_now();
            }
            transactions.end(a);
            assert!(waits.join().unwrap().unwrap());
        });
        transactions.end(b);
        assert!(transactions.list().is_empty() && transactions.shared.lock().rows.is_empty());
    }

    #[test]
    fn a_return_to_a_savepoint_frees_the_locks_since_then() {
        let transactions = Transactions::default();
        let (a, b) = (transactions.begin(), transactions.begin());
        let lock = |row: u32| transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[row]), &briefly()).unwrap();
        let is_free = |row: u32| transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[row]), &briefly()).is_ok();
        lock(1);
        let outer = transactions.begin_level(a);
        // Those of before remain, also if they are taken again.
        lock(1);
        lock(2);
        transactions.lock_table(a, 5, Mode::Exclusive, "t", &briefly()).unwrap();
        transactions.lock_name(a, "n", &briefly()).unwrap();
        let inner = transactions.begin_level(a);
        lock(3);
        transactions.join_levels(a, inner);
        let other = transactions.begin_level(a);
        lock(4);
        transactions.free_level(a, other.begun);
        assert!(!is_free(3) && is_free(4));
        lock(5);
        transactions.free_level(a, outer.begun);
        assert!(!is_free(1) && [2, 3, 5].into_iter().all(is_free));
        assert!(transactions.try_lock_table(b, 5, Mode::Exclusive));
        assert!(transactions.lock_name(b, "n", &briefly()).is_ok());
        transactions.end(b);
        lock(6);
        transactions.free_level(a, outer.begun);
        assert_eq!(transactions.shared.lock().rows[&7].len(), 1);
    }

    #[test]
    fn who_does_not_wait_closes_no_circle() {
        let transactions = Transactions::default();
        let (a, b) = (transactions.begin(), transactions.begin());
        transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[1]), &briefly()).unwrap();
        transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[2]), &briefly()).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[1]), &Waiting::default()));
            while transactions.list()[1].waits_for != [a] {
                thread::yield_now();
            }
            let at_once = Waiting { timeout: Some(Duration::ZERO), goes_on: None };
            let refused = transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[2]), &at_once);
            assert!(matches!(refused, Err(StoreError::LockTimeout(_))), "{refused:?}");
            transactions.end(a);
            assert!(waits.join().unwrap().unwrap());
        });
    }

    #[test]
    fn only_who_may_remove_a_row_is_waited_for() {
        let transactions = Transactions::default();
        let (a, b) = (transactions.begin(), transactions.begin());
        transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[1, 2]), &briefly()).unwrap();
        transactions.lock_rows(a, 7, RowUse::Removed, &rows(&[2]), &briefly()).unwrap();
        assert!(!transactions.wait_for_removal(b, 7, &rows(&[1]), &briefly()).unwrap());
        assert!(transactions.wait_for_removal(b, 7, &rows(&[1, 2]), &briefly()).is_err());
    }

    #[test]
    fn a_circle_is_found_by_who_closes_it() {
        let transactions = Transactions::default();
        let ids = [transactions.begin(), transactions.begin(), transactions.begin()];
        for id in ids {
            transactions.lock_rows(id, id, RowUse::Kept, &rows(&[0]), &briefly()).unwrap();
        }
        thread::scope(|scope| {
            let wait =
                |me: u64, other: u64| transactions.lock_rows(me, other, RowUse::Kept, &rows(&[0]), &Waiting::default());
            let first = scope.spawn(move || wait(ids[0], ids[1]));
            let second = scope.spawn(move || wait(ids[1], ids[2]));
            while transactions.list().iter().filter(|open| !open.waits_for.is_empty()).count() < 2 {
                thread::yield_now();
            }
            let closes = wait(ids[2], ids[0]);
            assert!(matches!(closes, Err(StoreError::Deadlock(_))), "{closes:?}");
            transactions.end(ids[2]);
            assert!(second.join().unwrap().unwrap());
            transactions.end(ids[1]);
            assert!(first.join().unwrap().unwrap());
        });
    }

    #[test]
    fn who_wants_a_table_alone_is_next() {
        let transactions = Transactions::default();
        let (a, b, c) = (transactions.begin(), transactions.begin(), transactions.begin());
        transactions.lock_table(a, 1, Mode::Shared, "t", &briefly()).unwrap();
        thread::scope(|scope| {
            let alone = scope.spawn(|| transactions.lock_table(b, 1, Mode::Exclusive, "t", &Waiting::default()));
            while transactions.list()[1].waits_for != [a] {
                thread::yield_now();
            }
            assert!(transactions.lock_table(c, 1, Mode::Shared, "t", &briefly()).is_err());
            assert!(!transactions.try_lock_table(c, 1, Mode::Shared));
            assert!(!transactions.lock_table(a, 1, Mode::Shared, "t", &briefly()).unwrap(), "it has the table");
            transactions.end(a);
            assert!(alone.join().unwrap().unwrap());
        });
        transactions.end(b);
        assert!(transactions.try_lock_table(c, 1, Mode::Exclusive));
    }

    #[test]
    fn marks_move_with_their_rows() {
        let transactions = Transactions::default();
        let (a, b) = (transactions.begin(), transactions.begin());
        transactions.lock_rows(a, 7, RowUse::Kept, &rows(&[0, 2]), &briefly()).unwrap();
        let places = vec![5, NO_PLACE, 1 << 32 | 3];
        transactions.moved(vec![(7, Moved { sequence: 4, segments: Arc::new(vec![20, 21]), places })]);
        assert!(transactions.lock_rows(b, 20, RowUse::Kept, &rows(&[5]), &briefly()).is_err());
        assert!(transactions.lock_rows(b, 21, RowUse::Kept, &rows(&[3]), &briefly()).is_err());
        // An older transaction uses the old position.
        assert!(transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[2]), &briefly()).is_err());
        assert!(transactions.lock_rows(b, 21, RowUse::Kept, &rows(&[4]), &briefly()).is_ok());
        transactions.end(a);
        assert!(transactions.lock_rows(b, 7, RowUse::Kept, &rows(&[2]), &briefly()).is_ok());
        transactions.end(b);
        assert!(transactions.shared.lock().moved.is_empty(), "nobody needs the old places");
    }
}
