//! Pins: which snapshots the processes read, so that VACUUM removes no file that somebody needs.
//!
//! A process that reads locks one byte of the file `PINS`, in shared mode: the byte at the oldest sequence that any
//! statement of the process needs. The file has no bytes and is never written: a lock needs none, nor space, nor the
//! right to write. The lock ends with the process, however it ends.
//!
//! Only the writer removes files, and only after it has looked for the first locked byte. So while a process writes, its
//! own pins are kept in memory only ([`ReaderPins::set_quiet`]).
//!
//! A reader pins first and reads its snapshot afterwards: with the pin at sequence p it may use any snapshot from p on.
//! A vacuum looks at the pins after the commit that dropped the files from the current snapshot. So a reader whose pin
//! the vacuum did not see reads its snapshot after that commit, and does not need the files.
//!
//! Where files cannot be locked, or the file is missing and cannot be created, readers have no pins. A VACUUM may then
//! take files from them, and their statements fail.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::media::{ByteLocks, Identity, Medium, MediumError};

pub const PINS: &str = "PINS";

/// The pins of this process on one database. Clones share them.
#[derive(Clone)]
pub struct ReaderPins {
    shared: Arc<Shared>,
}

struct Shared {
    medium: Arc<dyn Medium>,
    /// Whether a missing file may be missing for good.
    read_only: bool,
    active: Mutex<Active>,
}

#[derive(Default)]
struct Active {
    /// `None` where there are no pins.
    file: Option<Box<dyn ByteLocks>>,
    /// Which file that is.
    identity: Option<Identity>,
    /// Whether files cannot be locked at all.
    is_without_locks: bool,
    /// The number of statements that need each sequence.
    statements: BTreeMap<u64, usize>,
    /// The locked byte.
    locked: Option<u64>,
    /// Whether pins are only kept in memory.
    is_quiet: bool,
}

/// A statement's pin of all snapshots from a sequence on. Dropping it releases the pin.
pub struct Pin {
    shared: Arc<Shared>,
    sequence: u64,
}

impl ReaderPins {
    /// The pins of a process, of which there are none yet. With `read_only`, it does without the file if it must.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn register(medium: Arc<dyn Medium>, read_only: bool) -> Result<ReaderPins, MediumError> {
        let shared = Shared { medium, read_only, active: Mutex::default() };
        shared.open(&mut shared.active.lock())?;
        Ok(ReaderPins { shared: Arc::new(shared) })
    }

    /// Pins all snapshots from `sequence` on. Refresh the log *after* this, and read a snapshot of `sequence` or later.
    /// One that was read before may already have lost files.
    ///
    /// # Errors
    /// The database is not where it was opened, or its pins cannot be locked.
    pub fn pin(&self, sequence: u64) -> Result<Pin, MediumError> {
        let mut active = self.shared.active.lock();
        self.shared.check(&mut active)?;
        *active.statements.entry(sequence).or_default() += 1;
        if let Err(error) = self.shared.lock_oldest(&mut active) {
            active.let_go(sequence);
            return Err(error);
        }
        drop(active);
        Ok(Pin { shared: self.shared.clone(), sequence })
    }

    /// Sets whether pins are only kept in memory, as long as no other process can remove files: from the time when this
    /// process has the writer lock until before it gives the lock back.
    ///
    /// # Errors
    /// The pins cannot be locked.
    pub fn set_quiet(&self, is_quiet: bool) -> Result<(), MediumError> {
        let mut active = self.shared.active.lock();
        active.is_quiet = is_quiet;
        self.shared.lock_oldest(&mut active)
    }

    /// The oldest sequence that any live reader of any process needs; `None` if nobody needs any.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub fn oldest(&self) -> Result<Option<u64>, MediumError> {
        let mut active = self.shared.active.lock();
        self.shared.check(&mut active)?;
        if let Some(identity) = active.identity
            && let Err(error) = self.shared.medium.check_file(PINS, identity)
        {
            let MediumError::Replaced { .. } = error else { return Err(error) };
            // Somebody removed the file. Readers pin again, in the new one, before their next snapshot.
            self.shared.open(&mut active)?;
            return Ok(Some(0));
        }
        let others = active.file.as_ref().map(|file| file.first_of_others()).transpose()?.flatten();
        let own = active.statements.keys().next().copied();
        Ok(own.into_iter().chain(others).min())
    }
}

impl fmt::Debug for ReaderPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReaderPins(oldest {:?})", self.shared.active.lock().statements.keys().next())
    }
}

impl Pin {
    /// The pinned sequence.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.sequence)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut active = self.shared.active.lock();
        active.let_go(self.sequence);
        // If this fails, files are retained longer than necessary, until the next pin or the end of the process.
        let _ = self.shared.lock_oldest(&mut active);
    }
}

impl Active {
    fn let_go(&mut self, sequence: u64) {
        if let Some(count) = self.statements.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                self.statements.remove(&sequence);
            }
        }
    }
}

impl Shared {
    /// Checks that the database is where it was, unless nobody else can change it, and opens the file if it is missing.
    fn check(&self, active: &mut Active) -> Result<(), MediumError> {
        if active.is_quiet && active.file.is_some() {
            return Ok(());
        }
        let Some(identity) = active.identity else {
            self.medium.check_place()?;
            return if active.is_without_locks { Ok(()) } else { self.open(active) };
        };
        match self.medium.check_file(PINS, identity) {
            Err(MediumError::Replaced { .. }) => {
                active.locked = None;
                self.open(active)?;
                self.lock_oldest(active)
            }
            checked => checked,
        }
    }

    fn open(&self, active: &mut Active) -> Result<(), MediumError> {
        active.file = match self.medium.byte_locks(PINS, true) {
            Err(_) if self.read_only => None,
            file => file?,
        };
        if let Some(file) = &active.file
            && let Err(error) = file.share(0).and_then(|()| file.release(0))
        {
            if !error.has_no_locks() {
                return Err(error);
            }
            (active.file, active.is_without_locks) = (None, true);
        }
        active.identity = active.file.as_ref().map(|file| file.identity()).transpose()?;
        Ok(())
    }

    /// Locks the byte of the oldest needed sequence, if that changed.
    fn lock_oldest(&self, active: &mut Active) -> Result<(), MediumError> {
        let oldest = if active.is_quiet { None } else { active.statements.keys().next().copied() };
        let Some(file) = active.file.as_ref().filter(|_| active.locked != oldest) else { return Ok(()) };
        if let Some(oldest) = oldest {
            file.share(oldest)?;
        }
        if let Some(before) = active.locked {
            file.release(before)?;
        }
        active.locked = oldest;
        Ok(())
    }
}

/// The last commit whose dropped files a vacuum may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon(u64);

impl Horizon {
    /// Looks at all pins. `last_sequence` is the last commit at the time of this call, as known to the holder of the
    /// writer lock: readers that pin from now on see at least that commit.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub fn observe(pins: &ReaderPins, last_sequence: u64) -> Result<Horizon, MediumError> {
        Ok(Horizon::new(pins.oldest()?, last_sequence))
    }

    fn new(oldest_pinned: Option<u64>, last_sequence: u64) -> Horizon {
        Horizon(oldest_pinned.map_or(last_sequence, |oldest| oldest.min(last_sequence)))
    }

    /// Whether no reader can need a file that is in no snapshot from commit `dropped_by` on. The snapshots before that
    /// commit are the ones that need it.
    pub fn may_remove(&self, dropped_by: u64) -> bool {
        dropped_by <= self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::media::{Disk, DiskOptions, Memory};

    fn register(medium: &Arc<dyn Medium>) -> ReaderPins {
        ReaderPins::register(medium.clone(), false).expect("registers")
    }

    fn check(pins: &ReaderPins, oldest: Option<u64>) {
        assert_eq!(pins.oldest().expect("works"), oldest);
    }

    fn each_medium(check: impl Fn(Arc<dyn Medium>)) {
        check(Arc::new(Memory::new()));
        let folder = tempfile::tempdir().expect("a folder");
        check(Arc::new(Disk::open(folder.path(), true, DiskOptions::default()).expect("opens")));
    }

    #[test]
    fn the_oldest_of_all_processes_counts() {
        each_medium(|medium| {
            let (one, other, writer) = (register(&medium), register(&medium), register(&medium));
            check(&writer, None);
            let five = one.pin(5).expect("pins");
            let three = other.pin(3).expect("pins");
            let five_again = one.pin(5).expect("pins");
            check(&writer, Some(3));
            drop(three);
            check(&writer, Some(5));
            drop(five);
            check(&writer, Some(5));
            drop(one);
            check(&writer, Some(5));
            drop(five_again);
            check(&writer, None);
            assert_eq!(medium.list("").expect("works"), [PINS], "nothing else is made");
        });
    }

    #[test]
    fn a_quiet_process_keeps_its_pins_in_memory() {
        each_medium(|medium| {
            let (pins, other) = (register(&medium), register(&medium));
            let before = pins.pin(3).expect("pins");
            pins.set_quiet(true).expect("works");
            let five = pins.pin(5).expect("pins");
            check(&other, None);
            check(&pins, Some(3));
            drop(before);
            check(&pins, Some(5));
            let seven = pins.pin(7).expect("pins");
            drop(five);
            pins.set_quiet(false).expect("works");
            check(&other, Some(7));
            drop(seven);
            check(&other, None);
        });
    }

    #[test]
    fn a_removed_file_is_made_again() {
        each_medium(|medium| {
            let (reader, writer) = (register(&medium), register(&medium));
            let long = reader.pin(4).expect("pins");
            medium.remove(PINS).expect("removed");
            drop(reader.pin(6).expect("pins"));
            check(&writer, Some(4));
            drop(long);
            check(&writer, None);
        });
    }

    #[test]
    fn a_reader_does_without_a_file_that_cannot_be_made() {
        use crate::media::{FaultPlan, Faulty, Operation};
        let plan = FaultPlan { fail_kinds: (0..9).map(|n| (Operation::Lock, n)).collect(), ..FaultPlan::default() };
        let medium: Arc<dyn Medium> = Arc::new(Faulty::on_memory(Memory::new(), plan));
        assert!(ReaderPins::register(medium.clone(), false).is_err());
        let reader = ReaderPins::register(medium, true).expect("registers");
        let pin = reader.pin(3).expect("pins");
        check(&reader, Some(3));
        drop(pin);
    }

    #[test]
    fn a_vacuum_keeps_what_a_reader_may_need() {
        // The snapshots up to 7 need a file that commit 8 dropped.
        assert!(!Horizon::new(Some(7), 10).may_remove(8));
        assert!(Horizon::new(Some(8), 10).may_remove(8));
        assert!(Horizon::new(None, 10).may_remove(8));
        // A commit that readers cannot see yet drops nothing.
        assert!(!Horizon::new(None, 10).may_remove(11));
        assert!(!Horizon::new(Some(12), 10).may_remove(11));
        assert!(!Horizon::new(Some(0), 10).may_remove(1), "a pin of everything holds everything");
    }

    proptest! {
        #[test]
        fn the_oldest_is_the_minimum(sequences in proptest::collection::vec((0u64..20, any::<bool>()), 0..40)) {
            let medium: Arc<dyn Medium> = Arc::new(Memory::new());
            let (pins, other) = (register(&medium), register(&medium));
            let mut held: Vec<Pin> = Vec::new();
            for (sequence, release) in sequences {
                if release && !held.is_empty() {
                    held.swap_remove(sequence as usize % held.len());
                } else {
                    held.push(pins.pin(sequence).expect("pins"));
                }
                check(&other, held.iter().map(Pin::sequence).min());
            }
        }
    }
}
