//! Writing the log: commits and checkpoints.

use std::fmt;
use std::sync::Arc;

use crate::limits::RESERVE_BYTES;
use crate::media::{Identity, LockFile, Medium, MediumError, WriteFile};

use super::lock::{LOCK, lock_log, take_writer_lock};
use super::pins::PINS;
use super::reader::check_end;
use super::record::{Current, HEADER_LEN, Header, LONGEST_BODY, VERSION, encode_record, encode_record_after};
use super::scan::{LogFile, Record, read_bytes};
use super::{CURRENT, CURRENT_TEMPORARY, LogError, MANIFEST_PREFIX, manifest_name, random_id, read_current};

/// A file without content, whose space is used when there is no other.
const RESERVE: &str = "RESERVE";

/// The one writer of a log. Dropping it releases the writer lock.
#[derive(Debug)]
pub struct LogWriter {
    medium: Arc<dyn Medium>,
    log: Box<dyn WriteFile>,
    current_file: Box<dyn WriteFile>,
    current: Current,
    /// The length up to the end of the base record.
    base_len: u64,
    /// Whether there are records that were not synced. CURRENT does not cover them.
    is_unsynced: bool,
    /// Whether some of these are more than markers.
    owes_sync: bool,
    /// Whether records may be written in the space of the reserve.
    uses_reserve: bool,
    /// The reason why nothing more may be written.
    poisoned: Option<String>,
    /// Whether [`LogWriter::check`] was called since the last record.
    is_checked: bool,
    /// Which files are open.
    open: OpenFiles,
    /// The lock of the log, besides that of the file `LOCK`.
    _log_lock: Box<dyn LockFile>,
    lock: Box<dyn LockFile>,
}

/// The identities of the files that a writer has open.
#[derive(Debug, Clone, Copy)]
struct OpenFiles {
    lock: Identity,
    log: Identity,
    current: Identity,
}

impl OpenFiles {
    fn new(lock: &dyn LockFile, log: &dyn WriteFile, current: &dyn WriteFile) -> Result<OpenFiles, MediumError> {
        Ok(OpenFiles { lock: lock.identity()?, log: log.stat()?.0, current: current.stat()?.0 })
    }
}

/// The database that a folder is expected to have.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// Any one. It is created if there is none.
    Any,
    /// The one with this number.
    Known(u128),
    /// The same, created if there is none.
    CopyOf(u128),
    /// Any one, also of an earlier version of the format. It is not created.
    Earlier,
}

/// The outcome of a failed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No reader has seen the commit, and none will.
    TakenBack,
    /// The commit may be found when the database is opened again.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::TakenBack => "was taken back",
            Outcome::Unknown => "may or may not be stored, which opening the database again decides",
        })
    }
}

impl LogWriter {
    pub(super) fn open(medium: Arc<dyn Medium>, expected: Expected) -> Result<(LogWriter, Vec<Record>), LogError> {
        medium.check_place()?;
        let lock = take_writer_lock(&medium)?;
        let (current, log_lock) = lock_current(&medium, expected)?;
        let (current, base_len, records) = recover(&medium, current)?;
        let log = medium.edit(&manifest_name(current.generation))?;
        let current_file = medium.edit(CURRENT)?;
        let open = OpenFiles::new(lock.as_ref(), log.as_ref(), current_file.as_ref())?;
        let mut writer = LogWriter {
            medium,
            log,
            current_file,
            current,
            base_len,
            is_unsynced: false,
            owes_sync: false,
            uses_reserve: false,
            poisoned: None,
            is_checked: false,
            open,
            _log_lock: log_lock,
            lock,
        };
        writer.remove_leftovers()?;
        writer.write_current()?;
        writer.keep_reserve();
        Ok((writer, records))
    }

    /// Which file the writer lock is.
    pub fn lock_identity(&self) -> Identity {
        self.open.lock
    }

    /// The number of the database.
    pub fn database(&self) -> u128 {
        self.current.database
    }

    /// Checks that the database is where it was opened, with the lock and the log that this process has open. Then what is
    /// written next is written there. After an error, except [`LogError::FilesRemoved`], the writer refuses further work.
    ///
    /// # Errors
    /// The folder or one of these files was moved, removed, replaced or changed.
    pub fn check(&mut self) -> Result<(), LogError> {
        self.check_usable(&[])?;
        let Err(error) = self.find_changes() else {
            self.is_checked = true;
            return Ok(());
        };
        match self.lacks_files() {
            Ok(true) => Err(LogError::FilesRemoved { place: self.medium.place() }),
            _ => Err(self.poison(error)),
        }
    }

    fn find_changes(&self) -> Result<(), LogError> {
        self.medium.check_file(LOCK, self.open.lock)?;
        let name = manifest_name(self.current.generation);
        self.medium.check_file(&name, self.open.log)?;
        self.medium.check_file(CURRENT, self.open.current)?;
        let (len, expected) = (self.log.stat()?.1, self.current.committed_len);
        if len == expected { Ok(()) } else { Err(LogError::Changed { file: name, len, expected }) }
    }

    /// Whether somebody has removed the log or CURRENT, but neither the folder nor the lock. A checkpoint makes both again.
    ///
    /// # Errors
    /// The medium cannot be read.
    pub fn lacks_files(&self) -> Result<bool, MediumError> {
        let lacks = |name: &str| Ok::<_, MediumError>(self.medium.identity(name)?.is_none());
        let lacks_one = lacks(CURRENT)? || lacks(&manifest_name(self.current.generation))?;
        Ok(lacks_one && self.medium.check_file(LOCK, self.open.lock).is_ok())
    }

    /// The sequence of the last commit; 0 before the first.
    pub fn last_sequence(&self) -> u64 {
        self.current.last_sequence
    }

    /// The generation of the log.
    pub fn generation(&self) -> u64 {
        self.current.generation
    }

    /// The length of the log in bytes.
    pub fn len(&self) -> u64 {
        self.current.committed_len
    }

    /// Whether there is no commit.
    pub fn is_empty(&self) -> bool {
        self.last_sequence() == 0
    }

    /// The length of the log without its base record, in bytes, which a checkpoint would fold.
    pub fn len_since_base(&self) -> u64 {
        self.current.committed_len - self.base_len
    }

    /// The bytes of the log up to the end of its base record.
    pub fn base_len(&self) -> u64 {
        self.base_len
    }

    /// Whether an error has ended the writer's work.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.is_some()
    }

    /// Commits a record. When this returns the new sequence, the record survives a crash. After an error of a write or
    /// a sync, the writer refuses further work, and only opening the log again shows what it contains.
    ///
    /// # Errors
    /// The body is too long, or the log cannot be written.
    pub fn append(&mut self, body: &[u8]) -> Result<u64, LogError> {
        let sequence = self.write(body, true)?;
        (self.is_unsynced, self.owes_sync) = (false, false);
        self.cover(sequence)?;
        Ok(sequence)
    }

    /// Commits a record, and leaves it to the operating system to write it to the medium. A power loss may take it, with
    /// all later ones. CURRENT, which may reach the medium before the log does, does not cover the record until
    /// [`LogWriter::sync`]. Until then it is a tail of the log, as after a crash.
    ///
    /// # Errors
    /// The body is too long, or the log cannot be written.
    pub fn append_unsynced(&mut self, body: &[u8]) -> Result<u64, LogError> {
        let sequence = self.append_marker(body)?;
        self.owes_sync = true;
        Ok(sequence)
    }

    /// The same for a record that only counts a commit, which is durable elsewhere.
    ///
    /// # Errors
    /// As for [`LogWriter::append_unsynced`].
    pub fn append_marker(&mut self, body: &[u8]) -> Result<u64, LogError> {
        let sequence = self.write(body, false)?;
        self.is_unsynced = true;
        Ok(sequence)
    }

    /// Whether there are records that were not synced.
    pub fn is_unsynced(&self) -> bool {
        self.is_unsynced
    }

    /// Whether there are commits that a power loss may take.
    pub fn owes_sync(&self) -> bool {
        self.owes_sync
    }

    /// Makes the records of [`LogWriter::append_unsynced`] durable.
    ///
    /// # Errors
    /// The log cannot be written; then the writer refuses further work.
    pub fn sync(&mut self) -> Result<(), LogError> {
        if !self.is_unsynced {
            return Ok(());
        }
        self.check_usable(&[])?;
        let sequence = self.current.last_sequence;
        if let Err(source) = self.log.sync() {
            return Err(self.poison(LogError::CommitFailed { sequence, outcome: Outcome::Unknown, source }));
        }
        (self.is_unsynced, self.owes_sync) = (false, false);
        self.cover(sequence)
    }

    /// Writes a record behind the others.
    fn write(&mut self, body: &[u8], syncs: bool) -> Result<u64, LogError> {
        self.check_usable(body)?;
        if !std::mem::take(&mut self.is_checked) {
            self.check()?;
            self.is_checked = false;
        }
        let sequence = self.current.last_sequence + 1;
        let mut record = Vec::new();
        encode_record_after(&mut record, self.current.generation, sequence, body, self.is_unsynced);
        let mut written = self.write_record(&record, syncs);
        if self.uses_reserve && written.as_ref().is_err_and(MediumError::is_full) && self.lend_reserve() {
            written = self.write_record(&record, syncs);
        }
        if let Err(source) = written {
            let outcome = self.take_back();
            return Err(self.poison(LogError::CommitFailed { sequence, outcome, source }));
        }
        self.current.committed_len += record.len() as u64;
        self.current.last_sequence = sequence;
        Ok(sequence)
    }

    fn write_record(&mut self, record: &[u8], syncs: bool) -> Result<(), MediumError> {
        self.log.write_at(self.current.committed_len, record)?;
        if syncs { self.log.sync() } else { Ok(()) }
    }

    /// Sets whether the next records may be written in the space that is reserved for it: those that free space.
    pub fn use_reserve(&mut self, uses: bool) {
        self.uses_reserve = uses;
    }

    /// Reserves space on the medium, unless there is some. If there is no space, there is no reserve.
    pub fn keep_reserve(&mut self) {
        if self.is_poisoned() || self.medium.exists(RESERVE).unwrap_or(true) {
            return;
        }
        let made = self.medium.create(RESERVE).and_then(|mut file| file.allocate(RESERVE_BYTES));
        if made.is_err() {
            let _ = remove_if_there(&self.medium, RESERVE);
        }
    }

    /// Makes the space of the reserve free, and returns whether there was some.
    fn lend_reserve(&self) -> bool {
        self.medium.remove(RESERVE).is_ok()
    }

    /// Lets CURRENT cover all records.
    fn cover(&mut self, sequence: u64) -> Result<(), LogError> {
        let written = self.write_current();
        written.map_err(|source| self.poison(LogError::CommitFailed { sequence, outcome: Outcome::Unknown, source }))
    }

    /// Starts a new generation of the log whose first record is `body`, the folded state of all commits so far. If this
    /// fails before the new generation is current, the old one stays in use, and the checkpoint can be tried again.
    ///
    /// # Errors
    /// The new log or CURRENT cannot be written.
    pub fn checkpoint(&mut self, body: &[u8]) -> Result<(), LogError> {
        self.checkpoint_at(self.current.last_sequence, body)
    }

    /// The same with the state after a commit of the same database, which may be later than those of this log.
    ///
    /// # Errors
    /// As for [`LogWriter::checkpoint`].
    pub fn checkpoint_at(&mut self, sequence: u64, body: &[u8]) -> Result<(), LogError> {
        self.check_usable(body)?;
        self.medium.check_file(LOCK, self.open.lock).map_err(|error| self.poison(error.into()))?;
        let generation = self.current.generation + 1;
        let header = Header { version: VERSION, generation, has_base: true, database: self.current.database };
        let written = write_manifest(&self.medium, header, Some((sequence, body)))
            .map_err(LogError::from)
            .and_then(|len| Ok((len, lock_log(&self.medium, generation)?)));
        let (committed_len, log_lock) = match written {
            Ok(written) => written,
            Err(error) => {
                // A log that is not current must not outlive the commits to come.
                let _ = self.medium.remove(&manifest_name(generation));
                return Err(error);
            }
        };
        let database = self.current.database;
        let current = Current { version: VERSION, generation, committed_len, last_sequence: sequence, database };
        let switch = || {
            replace_current(&self.medium, current)?;
            let (log, current_file) = (self.medium.edit(&manifest_name(generation))?, self.medium.edit(CURRENT)?);
            let open = OpenFiles::new(self.lock.as_ref(), log.as_ref(), current_file.as_ref())?;
            Ok((log, current_file, open))
        };
        let (log, current_file, open) = switch().map_err(|error: MediumError| self.poison(error.into()))?;
        let old = std::mem::replace(&mut self.current, current).generation;
        self.log = log;
        self._log_lock = log_lock;
        (self.open, self.is_checked) = (open, false);
        self.current_file = current_file;
        self.base_len = committed_len;
        (self.is_unsynced, self.owes_sync) = (false, false);
        // Readers of the old generation have it open. If it cannot be removed now, the next writer removes it.
        let _ = self.medium.remove(&manifest_name(old));
        Ok(())
    }

    fn check_usable(&self, body: &[u8]) -> Result<(), LogError> {
        if let Some(cause) = &self.poisoned {
            return Err(LogError::Poisoned { cause: cause.clone() });
        }
        if body.len() > LONGEST_BODY {
            return Err(LogError::TooLong { len: body.len() });
        }
        Ok(())
    }

    fn poison(&mut self, error: LogError) -> LogError {
        self.poisoned = Some(error.to_string());
        error
    }

    /// Cuts off a record that was not committed. No reader has seen it, because CURRENT does not cover it.
    fn take_back(&mut self) -> Outcome {
        let cut = self.log.set_len(self.current.committed_len).and_then(|()| self.log.sync());
        if cut.is_ok() { Outcome::TakenBack } else { Outcome::Unknown }
    }

    fn write_current(&mut self) -> Result<(), MediumError> {
        self.current_file.write_at(0, &self.current.encode())
    }

    /// Removes logs of other generations and temporary files, which an interrupted checkpoint leaves.
    fn remove_leftovers(&self) -> Result<(), MediumError> {
        let ours = manifest_name(self.current.generation);
        for name in self.medium.list(MANIFEST_PREFIX)? {
            if name != ours && (name.ends_with(".log") || name.ends_with(".tmp")) {
                self.medium.remove(&name)?;
            }
        }
        remove_if_there(&self.medium, CURRENT_TEMPORARY)
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        // Whoever commits without a sync accepts that records may be lost.
        let _ = self.sync();
    }
}

/// Reads the log and truncates its file to its last record.
fn recover(medium: &Arc<dyn Medium>, current: Current) -> Result<(Current, u64, Vec<Record>), LogError> {
    let name = manifest_name(current.generation);
    let file = match medium.open(&name) {
        Err(error) if error.is_not_found() => return Err(LogError::GenerationMissing { file: name }),
        file => file?,
    };
    let log = LogFile::open(name, file, current.generation)?;
    log.check_database(current.database)?;
    let mut position = log.start();
    let mut records = log.read_committed(&mut position, current.committed_len)?;
    check_end(&log.name, position, current)?;
    let len = log.file.len()?;
    records.extend(log.read_tail(&mut position, len)?);
    if position.offset < len || position.offset > current.committed_len {
        settle_tail(medium, &log, current.committed_len, position.offset)?;
    }
    let last_sequence = position.last_sequence.unwrap_or(0);
    let base_len = match records.first() {
        Some(base) if base.is_base => HEADER_LEN as u64 + record_len(&base.body),
        _ => HEADER_LEN as u64,
    };
    Ok((Current { committed_len: position.offset, last_sequence, ..current }, base_len, records))
}

fn record_len(body: &[u8]) -> u64 {
    (super::record::RECORD_HEADER_LEN as u64 + body.len() as u64).next_multiple_of(8)
}

/// Cuts off what follows `end`, and makes the bytes between `committed` and `end` durable. They are written again
/// before the sync: if an earlier sync of them failed, the operating system may have the bytes, consider them written,
/// and lose them.
fn settle_tail(medium: &Arc<dyn Medium>, log: &LogFile, committed: u64, end: u64) -> Result<(), MediumError> {
    let tail = read_bytes(&log.file, committed, end)?;
    let mut file = medium.edit(&log.name)?;
    file.set_len(end)?;
    if !tail.is_empty() {
        file.write_at(committed, &tail)?;
    }
    file.sync()
}

/// Locks the log that CURRENT names, which is created if there is no database and none is known.
fn lock_current(medium: &Arc<dyn Medium>, expected: Expected) -> Result<(Current, Box<dyn LockFile>), LogError> {
    loop {
        let current = match (read_current(medium)?, expected) {
            (Some(current), _) => current,
            (None, Expected::Any) => create_database(medium, random_id())?,
            (None, Expected::CopyOf(database)) => create_database(medium, database)?,
            (None, Expected::Known(_) | Expected::Earlier) => {
                return Err(LogError::NoDatabase { place: medium.place() });
            }
        };
        if current.version != VERSION && !matches!(expected, Expected::Earlier) {
            return Err(LogError::Version { file: CURRENT.to_owned(), version: current.version });
        }
        if let Expected::Known(database) | Expected::CopyOf(database) = expected
            && database != current.database
        {
            return Err(LogError::OtherState { place: medium.place() });
        }
        let lock = match lock_log(medium, current.generation) {
            Err(LogError::Medium(error)) if error.is_not_found() => {
                return Err(LogError::GenerationMissing { file: manifest_name(current.generation) });
            }
            lock => lock?,
        };
        // Without the file LOCK, another writer may have begun a new generation meanwhile.
        if read_current(medium)?.is_some_and(|now| now.generation == current.generation) {
            return Ok((current, lock));
        }
    }
}

fn create_database(medium: &Arc<dyn Medium>, database: u128) -> Result<Current, MediumError> {
    let header = Header { version: VERSION, generation: 1, has_base: false, database };
    medium.byte_locks(PINS, true)?;
    let committed_len = write_manifest(medium, header, None)?;
    let current = Current { version: VERSION, generation: 1, committed_len, last_sequence: 0, database };
    replace_current(medium, current)?;
    Ok(current)
}

/// Writes the log of a new generation durably, and returns its length.
fn write_manifest(medium: &Arc<dyn Medium>, header: Header, base: Option<(u64, &[u8])>) -> Result<u64, MediumError> {
    let mut bytes = header.encode().to_vec();
    if let Some((sequence, body)) = base {
        encode_record(&mut bytes, header.generation, sequence, body);
    }
    let name = manifest_name(header.generation);
    write_durably(medium, &format!("{name}.tmp"), &name, &bytes)?;
    Ok(bytes.len() as u64)
}

/// Replaces CURRENT durably. It never names a generation that a power loss could remove.
pub(super) fn replace_current(medium: &Arc<dyn Medium>, current: Current) -> Result<(), MediumError> {
    write_durably(medium, CURRENT_TEMPORARY, CURRENT, &current.encode())
}

fn write_durably(medium: &Arc<dyn Medium>, temporary: &str, name: &str, bytes: &[u8]) -> Result<(), MediumError> {
    remove_if_there(medium, temporary)?;
    let mut file = medium.create(temporary)?;
    file.append(bytes)?;
    file.finish()?;
    medium.rename(temporary, name)?;
    medium.sync_dir()
}

fn remove_if_there(medium: &Arc<dyn Medium>, name: &str) -> Result<(), MediumError> {
    match medium.remove(name) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
