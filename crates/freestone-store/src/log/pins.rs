//! Pins: which snapshots the processes read, so that VACUUM removes no file that somebody needs.
//!
//! A process that reads locks one file `readers/<pid>-<random>.pin`. The file contains the oldest sequence that any
//! statement of the process needs. The lock ends with the process, however it ends. A pin file that can be locked
//! belongs to no process, and is removed.
//!
//! ```text
//! pin file   0 sequence u64    8 the same, all bits inverted u64          little-endian; idle is u64::MAX
//! ```
//!
//! Only the writer removes files, and only after it has read all pin files. So while a process writes, its own pin file is
//! not written at each pin ([`ReaderPins::set_quiet`]), but when it is read ([`ReaderPins::flush`]).
//!
//! A reader pins first and reads its snapshot afterwards: with the pin at sequence p it may use any snapshot from p on.
//! A vacuum reads the pins after the commit that dropped the files from the current snapshot. So a reader whose pin the
//! vacuum did not see reads its snapshot after that commit, and does not need the files.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::media::{LockFile, LockMode, Medium, MediumError};

const FOLDER: &str = "readers/";
const SUFFIX: &str = ".pin";
const PIN_LEN: usize = 16;
const IDLE: u64 = u64::MAX;

/// The reason why a process cannot pin.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The database folder is not writable. A VACUUM by a process that can write there would not know of this reader.
    #[error(
        "{place} cannot be written, so a VACUUM would not know that it is being read ({source}); make it writable, or \
         read it as a copy that nobody writes"
    )]
    #[allow(missing_docs)]
    ReadOnly { place: String, source: MediumError },
    /// An error of the medium.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// The pins of this process on one database. Clones share them.
#[derive(Clone)]
pub struct ReaderPins {
    shared: Arc<Shared>,
}

struct Shared {
    medium: Arc<dyn Medium>,
    name: String,
    file: Box<dyn LockFile>,
    active: Mutex<Active>,
}

#[derive(Default)]
struct Active {
    /// The number of statements that need each sequence.
    statements: BTreeMap<u64, usize>,
    /// The content of the pin file; `None` after a failed write.
    written: Option<u64>,
    /// Whether the pin file is only written by [`ReaderPins::flush`].
    is_quiet: bool,
}

/// A statement's pin of all snapshots from a sequence on. Dropping it releases the pin.
pub struct Pin {
    shared: Arc<Shared>,
    sequence: u64,
}

impl ReaderPins {
    /// Registers this process as a reader. One registration per process and database is enough.
    ///
    /// # Errors
    /// The pin file cannot be created or locked.
    pub fn register(medium: Arc<dyn Medium>) -> Result<ReaderPins, PinError> {
        let (name, file) = create_pin_file(&medium).map_err(|source| {
            if source.is_read_only() { PinError::ReadOnly { place: medium.place(), source } } else { source.into() }
        })?;
        file.write(&encode(IDLE))?;
        let active = Mutex::new(Active { statements: BTreeMap::new(), written: Some(IDLE), is_quiet: false });
        Ok(ReaderPins { shared: Arc::new(Shared { medium, name, file, active }) })
    }

    /// Pins all snapshots from `sequence` on. Refresh the log *after* this, and read a snapshot of `sequence` or later.
    /// One that was read before may already have lost files.
    ///
    /// # Errors
    /// The pin file cannot be written.
    pub fn pin(&self, sequence: u64) -> Result<Pin, MediumError> {
        let mut active = self.shared.active.lock();
        *active.statements.entry(sequence).or_default() += 1;
        if let Err(error) = self.shared.write(&mut active) {
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
    /// The pin file cannot be written.
    pub fn set_quiet(&self, is_quiet: bool) -> Result<(), MediumError> {
        let mut active = self.shared.active.lock();
        active.is_quiet = is_quiet;
        self.shared.write(&mut active)
    }

    /// Writes the pins of this process to its file.
    ///
    /// # Errors
    /// The pin file cannot be written.
    pub fn flush(&self) -> Result<(), MediumError> {
        self.shared.write_now(&mut self.shared.active.lock())
    }
}

impl fmt::Debug for ReaderPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReaderPins({}, oldest {:?})", self.shared.name, self.shared.active.lock().statements.keys().next())
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
        let _ = self.shared.write(&mut active);
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
    fn write(&self, active: &mut Active) -> Result<(), MediumError> {
        if active.is_quiet { Ok(()) } else { self.write_now(active) }
    }

    /// Writes the oldest needed sequence to the pin file, if it changed.
    fn write_now(&self, active: &mut Active) -> Result<(), MediumError> {
        let oldest = active.statements.keys().next().copied().unwrap_or(IDLE);
        if active.written != Some(oldest) {
            active.written = None;
            self.file.write(&encode(oldest))?;
            active.written = Some(oldest);
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody else removes the file while we hold its lock.
        let _ = self.medium.remove(&self.name);
    }
}

/// Creates the pin file of this process, locked.
fn create_pin_file(medium: &Arc<dyn Medium>) -> Result<(String, Box<dyn LockFile>), MediumError> {
    loop {
        let name =
            format!("{FOLDER}{}-{:016x}{SUFFIX}", std::process::id(), RandomState::new().build_hasher().finish());
        // A process that looks for dead readers may lock the file between its creation and our lock, and remove it.
        // Then another name is tried.
        if let Some(file) = medium.try_lock(&name, LockMode::Create)? {
            return Ok((name, file));
        }
    }
}

/// The oldest sequence that any live reader of any process needs; `None` if nobody needs any. Removes the pin files of
/// dead processes. An unreadable pin file counts as a pin of everything (0).
///
/// # Errors
/// The folder of pin files cannot be read.
pub fn oldest_pinned(medium: &Arc<dyn Medium>) -> Result<Option<u64>, MediumError> {
    let mut oldest = IDLE;
    for name in medium.list(FOLDER)? {
        if !name.ends_with(SUFFIX) {
            continue;
        }
        match medium.try_lock(&name, LockMode::Existing)? {
            // No process holds it. It is removed while we have the lock, so nobody can lock it in between.
            Some(_lock) => match medium.remove(&name) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            },
            None => oldest = oldest.min(read_pin(medium, &name)?),
        }
    }
    Ok((oldest != IDLE).then_some(oldest))
}

fn read_pin(medium: &Arc<dyn Medium>, name: &str) -> Result<u64, MediumError> {
    // A process that registers or pins may have written half of the file.
    for attempt in 0..20 {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let file = match medium.open(name) {
            // Its reader has ended.
            Err(error) if error.is_not_found() => return Ok(IDLE),
            file => file?,
        };
        let mut bytes = [0; PIN_LEN];
        if file.len()? == PIN_LEN as u64
            && file.read_at(0, &mut bytes).is_ok()
            && let Some(sequence) = decode(&bytes)
        {
            return Ok(sequence);
        }
    }
    Ok(0)
}

fn encode(sequence: u64) -> [u8; PIN_LEN] {
    let mut bytes = [0; PIN_LEN];
    bytes[..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..].copy_from_slice(&(!sequence).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; PIN_LEN]) -> Option<u64> {
    let (sequence, inverted) = bytes.split_at(8);
    let sequence = u64::from_le_bytes(sequence.try_into().ok()?);
    let inverted = u64::from_le_bytes(inverted.try_into().ok()?);
    (sequence == !inverted).then_some(sequence)
}

/// The last commit whose dropped files a vacuum may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon(u64);

impl Horizon {
    /// Reads all pins. `last_sequence` is the last commit at the time of this call, as known to the holder of the
    /// writer lock: readers that pin from now on see at least that commit.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub fn observe(medium: &Arc<dyn Medium>, last_sequence: u64) -> Result<Horizon, MediumError> {
        let oldest = oldest_pinned(medium)?;
        Ok(Horizon::new(oldest, last_sequence))
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
    use crate::media::Memory;

    fn check(medium: &Arc<dyn Medium>, oldest: Option<u64>) {
        assert_eq!(oldest_pinned(medium).expect("memory does not fail"), oldest);
    }

    #[test]
    fn the_oldest_of_all_processes_counts() {
        let medium: Arc<dyn Medium> = Arc::new(Memory::new());
        check(&medium, None);
        let one = ReaderPins::register(medium.clone()).expect("registers");
        let other = ReaderPins::register(medium.clone()).expect("registers");
        check(&medium, None);
        let five = one.pin(5).expect("pins");
        let three = other.pin(3).expect("pins");
        let five_again = one.pin(5).expect("pins");
        check(&medium, Some(3));
        drop(three);
        check(&medium, Some(5));
        drop(five);
        check(&medium, Some(5));
        drop(one);
        check(&medium, Some(5));
        drop(five_again);
        check(&medium, None);
        assert_eq!(medium.list(FOLDER).expect("works").len(), 1, "the first is gone with its last pin");
    }

    #[test]
    fn a_quiet_process_writes_its_pins_when_they_are_read() {
        let medium: Arc<dyn Medium> = Arc::new(Memory::new());
        let pins = ReaderPins::register(medium.clone()).expect("registers");
        let before = pins.pin(3).expect("pins");
        pins.set_quiet(true).expect("works");
        let five = pins.pin(5).expect("pins");
        drop(before);
        check(&medium, Some(3));
        pins.flush().expect("works");
        check(&medium, Some(5));
        drop(five);
        let seven = pins.pin(7).expect("pins");
        check(&medium, Some(5));
        pins.set_quiet(false).expect("works");
        check(&medium, Some(7));
        drop(seven);
        check(&medium, None);
    }

    #[test]
    fn files_of_the_dead_are_removed_and_unreadable_ones_of_the_living_hold_everything() {
        let dead = Memory::with_files([(format!("{FOLDER}1-2{SUFFIX}"), encode(4).to_vec())]);
        let medium: Arc<dyn Medium> = Arc::new(dead);
        check(&medium, None);
        assert!(medium.list(FOLDER).expect("works").is_empty());
        let lock = medium.try_lock(&format!("{FOLDER}1-3{SUFFIX}"), LockMode::Create).expect("works").expect("free");
        check(&medium, Some(0));
        lock.write(&[1; PIN_LEN]).expect("works");
        check(&medium, Some(0));
        lock.write(&encode(9)).expect("works");
        check(&medium, Some(9));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        let source = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
        assert!(MediumError::io("create", "x", source).is_read_only());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(!MediumError::io("create", "x", full).is_read_only());
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
        assert!(!Horizon::new(Some(0), 10).may_remove(1), "an unreadable pin holds everything");
    }

    proptest! {
        #[test]
        fn the_oldest_is_the_minimum(sequences in proptest::collection::vec((0u64..20, any::<bool>()), 0..40)) {
            let medium: Arc<dyn Medium> = Arc::new(Memory::new());
            let pins = ReaderPins::register(medium.clone()).expect("registers");
            let mut held: Vec<Pin> = Vec::new();
            for (sequence, release) in sequences {
                if release && !held.is_empty() {
                    held.swap_remove(sequence as usize % held.len());
                } else {
                    held.push(pins.pin(sequence).expect("pins"));
                }
                check(&medium, held.iter().map(Pin::sequence).min());
            }
        }
    }
}
