//! The processes that use one pool: the one that writes, and those that read. They share `pool.readers`, a file of words in
//! memory; `docs/format/pool.md` has its bytes. Nothing of it is made durable: after a crash there is nobody to speak to.
//!
//! A reader takes a snapshot between two changes: it asks the writer to stop before its next change, copies the bitmaps of
//! the blocks that have changed, and says that there is one more snapshot. Before its next change the writer sees that, and
//! keeps what the snapshot has until the reader has let it go, or has ended, which the locks of bytes tell.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::{Result, StoreError};
use crate::media::PRIVATE;
use crate::media::region::{MapOptions, MappedRegion, Region};

/// The name of the file, next to the pool's.
pub const PROCESSES_FILE: &str = "pool.readers";

const MAGIC: u64 = u64::from_le_bytes(*b"FPREAD01");
/// Offsets of words.
const EPOCH: u64 = 8;
const CHANGES: u64 = 16;
const SEQUENCE: u64 = 24;
const SNAPSHOTS: u64 = 32;
/// Each in a line of its own.
const IS_CHANGING: u64 = 64;
const IS_ASKED: u64 = 128;
/// A line for each reading process: the number of its oldest snapshot, or 0.
const SLOTS: u64 = 4096;
const SLOT_BYTES: u64 = 64;
const SLOTS_MAX: u64 = 192;
/// A word for each unit of the pool: the number of the change that was the last to touch it.
const UNITS: u64 = SLOTS + SLOTS_MAX * SLOT_BYTES;
/// Addresses for the words of all units that a pool can have.
const RESERVED: u64 = UNITS + (8 << 32);

/// Bytes that are locked: by the process that writes, by the reader that takes a snapshot, and by each reading process.
const WRITER: u64 = 0;
const GATE: u64 = 1;
const FIRST_SLOT: u64 = 16;

/// The shared file, in one process.
#[derive(Debug)]
struct Shared {
    map: MappedRegion,
}

impl Shared {
    fn open(pool: &Path) -> Result<Shared> {
        let path = pool.with_file_name(PROCESSES_FILE);
        // Whoever may open the pool may open this.
        let umask = std::fs::metadata(pool).map_or(PRIVATE, |pool| 0o777 & !pool.permissions().mode());
        let options = MapOptions { reserve: RESERVED, emulated: true, umask };
        let map = MappedRegion::shared(&path, UNITS, &options)?;
        let shared = Shared { map };
        match shared.load(0) {
            0 => shared.store(0, MAGIC),
            MAGIC => {}
            _ => {
                let reason = "it is no list of reading processes; end all of them, and remove it".into();
                return Err(StoreError::Corrupt { file: path.display().to_string(), reason });
            }
        }
        Ok(shared)
    }

    fn load(&self, offset: u64) -> u64 {
        let region: &dyn Region = &self.map;
        region.words().load(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        self.map.store(offset, value);
    }

    /// The oldest snapshot that any reader has; `None` if there are none.
    fn oldest(&self) -> Option<u64> {
        let of_slot = |slot| self.load(SLOTS + slot * SLOT_BYTES);
        (0..SLOTS_MAX).map(of_slot).filter(|oldest| *oldest != 0).min()
    }

    /// Waits until no change is under way, and returns whether there is a writer.
    fn wait_for_writer(&self) -> Result<bool> {
        let mut pause = Duration::from_micros(1);
        loop {
            let has_writer = self.map.is_byte_locked(WRITER)?;
            // A writer that was killed does not say that its change has ended.
            if self.load(IS_CHANGING) == 0 || !has_writer {
                return Ok(has_writer);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    /// Forgets the snapshots of processes that have ended.
    fn forget_ended(&self) -> Result<()> {
        for slot in (0..SLOTS_MAX).filter(|slot| self.load(SLOTS + slot * SLOT_BYTES) != 0) {
            if self.map.try_lock_byte(FIRST_SLOT + slot)? {
                self.store(SLOTS + slot * SLOT_BYTES, 0);
                self.map.unlock_byte(FIRST_SLOT + slot)?;
            }
        }
        Ok(())
    }
}

/// The side of the process that writes.
#[derive(Debug)]
pub struct Writer {
    shared: Shared,
    /// The number of snapshots that were there when the last change began.
    seen: u64,
}

impl Writer {
    /// Becomes the process that writes a pool. The first change begins: nobody takes a snapshot before [`Writer::end`].
    ///
    /// # Errors
    /// The file cannot be opened, or another process writes.
    pub fn open(pool: &Path) -> Result<Writer> {
        let shared = Shared::open(pool)?;
        if !shared.map.try_lock_byte(WRITER)? {
            return Err(StoreError::invalid(format!("another process writes {}", pool.display())));
        }
        shared.forget_ended()?;
        let mut writer = Writer { shared, seen: 0 };
        writer.begin()?;
        writer.shared.store(EPOCH, writer.shared.load(EPOCH) + 1);
        Ok(writer)
    }

    /// Begins a change, as soon as no reader takes a snapshot. Returns the number of snapshots if there are new ones since
    /// the last change.
    ///
    /// # Errors
    /// The system refuses a lock.
    pub fn begin(&mut self) -> Result<Option<u64>> {
        loop {
            self.shared.store(IS_CHANGING, 1);
            // Either this thread sees that a reader asks, or the reader sees the change.
            fence(Ordering::SeqCst);
            if self.shared.load(IS_ASKED) == 0 {
                break;
            }
            self.shared.store(IS_CHANGING, 0);
            // The reader has this lock, unless it has ended.
            self.shared.map.lock_byte(GATE)?;
            self.shared.store(IS_ASKED, 0);
            self.shared.map.unlock_byte(GATE)?;
        }
        let now = self.shared.load(SNAPSHOTS);
        let is_new = now != self.seen;
        self.seen = now;
        Ok(is_new.then_some(now))
    }

    /// Ends a change that led to a commit of the log and touched these units.
    pub fn end(&self, sequence: u64, units: impl Iterator<Item = u64>) {
        let number = self.shared.load(CHANGES) + 1;
        if !units.into_iter().all(|unit| self.touch(unit, number)) {
            // There is no room for the words of all units. Then readers read everything again.
            self.shared.store(EPOCH, self.shared.load(EPOCH) + 1);
        }
        self.shared.store(SEQUENCE, sequence);
        self.shared.store(CHANGES, number);
        self.shared.store(IS_CHANGING, 0);
    }

    fn touch(&self, unit: u64, number: u64) -> bool {
        let (at, region): (u64, &dyn Region) = (UNITS + unit * 8, &self.shared.map);
        let has_room = at < region.len() || self.shared.map.grow((at + 8).next_multiple_of(64 << 10)).is_ok();
        if has_room {
            self.shared.store(at, number);
        }
        has_room
    }

    /// The number of the last snapshot when the last change began.
    pub fn last_snapshot(&self) -> u64 {
        self.seen
    }

    /// The oldest snapshot that any reader has; `None` if there are none.
    pub fn oldest(&self) -> Option<u64> {
        self.shared.oldest()
    }

    /// Forgets the snapshots of processes that have ended.
    ///
    /// # Errors
    /// The system refuses a lock.
    pub fn forget_ended(&self) -> Result<()> {
        self.shared.forget_ended()
    }
}

/// The side of a process that reads.
#[derive(Debug, Clone)]
pub struct Reader(Arc<Reading>);

#[derive(Debug)]
struct Reading {
    shared: Shared,
    slot: u64,
    /// The numbers of the snapshots that this process has.
    snapshots: Mutex<BTreeSet<u64>>,
    /// Held by the thread of this process that has the gate, since the locks of bytes are those of the process.
    turn: Mutex<()>,
}

/// What a reader knows of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Another one when another process becomes the writer.
    pub epoch: u64,
    /// The number of changes.
    pub changes: u64,
    /// The last commit of the log that changed the pool.
    pub sequence: u64,
    /// Whether a process writes the pool.
    pub has_writer: bool,
}

/// Keeps what one snapshot has of the pool, until it is dropped.
#[derive(Debug)]
pub struct Kept {
    reading: Arc<Reading>,
    number: u64,
}

impl Reader {
    /// Becomes a process that reads a pool.
    ///
    /// # Errors
    /// The file cannot be opened for writing, or too many processes read.
    pub fn open(pool: &Path) -> Result<Reader> {
        let shared = Shared::open(pool)?;
        for slot in 0..SLOTS_MAX {
            if shared.map.try_lock_byte(FIRST_SLOT + slot)? {
                shared.store(SLOTS + slot * SLOT_BYTES, 0);
                return Ok(Reader(Arc::new(Reading {
                    shared,
                    slot,
                    snapshots: Mutex::default(),
                    turn: Mutex::default(),
                })));
            }
        }
        Err(StoreError::invalid(format!("{SLOTS_MAX} processes read {} already", pool.display())))
    }

    /// Runs `work` while nobody changes the pool.
    ///
    /// # Errors
    /// The system refuses a lock, or `work` fails.
    pub fn between_changes<T>(&self, work: impl FnOnce(Seen) -> Result<T>) -> Result<T> {
        let (shared, _turn) = (&self.0.shared, self.0.turn.lock());
        let _gate = Gate::enter(shared)?;
        let has_writer = shared.wait_for_writer()?;
        shared.map.follow()?;
        let (epoch, changes) = (shared.load(EPOCH), shared.load(CHANGES));
        work(Seen { epoch, changes, sequence: shared.load(SEQUENCE), has_writer })
    }

    /// Whether a unit was touched since `before`.
    pub fn has_changed(&self, unit: u64, before: &Seen) -> bool {
        let at = UNITS + unit * 8;
        let region: &dyn Region = &self.0.shared.map;
        at >= region.len() || self.0.shared.load(at) > before.changes
    }

    /// One more snapshot. Called while nobody changes the pool.
    pub fn keep(&self) -> Kept {
        let Reading { shared, snapshots, .. } = &*self.0;
        let number = shared.load(SNAPSHOTS) + 1;
        snapshots.lock().insert(number);
        self.0.say_oldest();
        shared.store(SNAPSHOTS, number);
        Kept { reading: self.0.clone(), number }
    }
}

impl Reading {
    fn say_oldest(&self) {
        // With the lock, so that two threads do not say it in the wrong order.
        let snapshots = self.snapshots.lock();
        self.shared.store(SLOTS + self.slot * SLOT_BYTES, snapshots.first().copied().unwrap_or(0));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.reading.snapshots.lock().remove(&self.number);
        self.reading.say_oldest();
    }
}

/// The lock by which a reader keeps the writer from changing anything.
struct Gate<'a>(&'a Shared);

impl Gate<'_> {
    fn enter(shared: &Shared) -> Result<Gate<'_>> {
        shared.map.lock_byte(GATE)?;
        shared.store(IS_ASKED, 1);
        // See `Writer::begin`.
        fence(Ordering::SeqCst);
        Ok(Gate(shared))
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.store(IS_ASKED, 0);
        // If the system refuses that, the writer waits until this process ends.
        let _ = self.0.map.unlock_byte(GATE);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A writer that changes two words, and readers that see both or none; what they have seen stays while they have it.
    #[test]
    fn readers_see_whole_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool.pmem");
        let mut writer = Writer::open(&pool).expect("the only one");
        writer.end(0, [0, 9000].into_iter());
        assert!(Writer::open(&pool).expect_err("another one").to_string().contains("another process writes"));
        let words: [std::sync::atomic::AtomicU64; 2] = Default::default();
        const ROUNDS: u64 = 3000;
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let reader = Reader::open(&pool).expect("a reader");
                    let mut last = 0;
                    while last < ROUNDS {
                        let (seen, values) = reader
                            .between_changes(|seen| Ok((seen, words.each_ref().map(|w| w.load(Ordering::Relaxed)))))
                            .expect("no system error");
                        assert_eq!(values, [seen.sequence, seen.sequence]);
                        assert!(seen.has_writer && seen.sequence >= last);
                        last = seen.sequence;
                    }
                });
            }
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    writer.begin().expect("no system error");
                    words[0].store(round, Ordering::Relaxed);
                    thread::yield_now();
                    words[1].store(round, Ordering::Relaxed);
                    writer.end(round, [round % 7].into_iter());
                }
            });
        });
    }

    #[test]
    fn a_writer_knows_what_readers_keep() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool.pmem");
        let mut writer = Writer::open(&pool).expect("the only one");
        writer.end(1, [].into_iter());
        assert_eq!((writer.begin().expect("works"), writer.oldest()), (None, None));
        writer.end(2, [3, 70_000].into_iter());
        let one = Reader::open(&pool).expect("a reader");
        let other = Reader::open(&pool).expect("a reader");
        let (seen, first) = one.between_changes(|seen| Ok((seen, one.keep()))).expect("works");
        let second = other.between_changes(|_| Ok(other.keep())).expect("works");
        assert_eq!((seen.changes, seen.sequence), (2, 2));
        assert_eq!((writer.begin().expect("works"), writer.oldest()), (Some(2), Some(1)));
        writer.end(3, [70_000].into_iter());
        other.between_changes(|_| Ok(())).expect("works");
        let changed = |unit| other.has_changed(unit, &seen);
        assert_eq!((changed(3), changed(70_000), changed(1 << 30)), (false, true, true));
        drop(first);
        assert_eq!((writer.begin().expect("works"), writer.oldest()), (None, Some(2)));
        writer.end(4, [].into_iter());
        // A reader that ends without dropping its snapshots leaves its slot, but not its lock.
        std::mem::forget(second);
        assert_eq!(writer.oldest(), Some(2));
        // The lock is that of the open file, which the forgotten snapshot still has.
        writer.forget_ended().expect("works");
        assert_eq!(writer.oldest(), Some(2));
        let epoch = one.between_changes(|seen| Ok(seen.epoch)).expect("works");
        drop(writer);
        assert!(!one.between_changes(|seen| Ok(seen.has_writer)).expect("works"));
        let next = Writer::open(&pool).expect("the other has ended");
        next.end(5, [].into_iter());
        assert_eq!(one.between_changes(|seen| Ok(seen.epoch)).expect("works"), epoch + 1);
    }

    #[test]
    fn a_writer_that_was_killed_while_it_changed_stops_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool.pmem");
        // It has begun its first change.
        drop(Writer::open(&pool).expect("the only one"));
        let reader = Reader::open(&pool).expect("a reader");
        assert!(!reader.between_changes(|seen| Ok(seen.has_writer)).expect("works"));
        // A reader that was killed while it took a snapshot has asked, and has no lock any more.
        reader.0.shared.store(IS_ASKED, 1);
        let mut writer = Writer::open(&pool).expect("the only one");
        writer.end(1, [].into_iter());
        assert_eq!(writer.begin().expect("works"), None);
        std::fs::write(pool.with_file_name(PROCESSES_FILE), [7; 64]).expect("written");
        assert!(Reader::open(&pool).expect_err("other bytes").to_string().contains("no list of reading processes"));
    }
}
