//! Reading the log and following it.

use std::sync::Arc;
use std::thread;

use crate::media::Medium;

use super::lock::{NoWriter, exclude_writers};
use super::record::Current;
use super::scan::{LogFile, Position, Record};
use super::{ATTEMPTS, LogError, PAUSE, manifest_name, read_current};

/// A reader's position in the log.
#[derive(Debug)]
pub struct LogReader {
    medium: Arc<dyn Medium>,
    open: Option<Open>,
    /// What every later state must be a continuation of.
    known: Current,
}

#[derive(Debug)]
struct Open {
    log: LogFile,
    position: Position,
}

/// The commits since the last refresh.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refresh {
    /// The reader must discard its state: `records` start from nothing, or with a base record. True at the first
    /// refresh, and after a checkpoint.
    pub restart: bool,
    /// The new records, in order.
    pub records: Vec<Record>,
}

impl LogReader {
    pub(super) fn open(medium: Arc<dyn Medium>) -> Result<LogReader, LogError> {
        match read_current(&medium)? {
            Some(known) => Ok(LogReader { medium, open: None, known }),
            None => Err(LogError::NoDatabase { place: medium.place() }),
        }
    }

    /// The sequence of the last record that a refresh returned; 0 before the first.
    pub fn last_sequence(&self) -> u64 {
        self.open.as_ref().and_then(|open| open.position.last_sequence).unwrap_or(0)
    }

    /// The number of the database.
    pub fn database(&self) -> u128 {
        self.known.database
    }

    /// The version of the format that the database has.
    pub fn version(&self) -> u32 {
        self.known.version
    }

    /// Lets the next refresh begin at the start.
    pub fn restart(&mut self) {
        self.open = None;
    }

    /// Reads the commits since the last refresh. Reads only 64 bytes if there are none. After an error the reader is at
    /// its old position, and a refresh can be tried again.
    ///
    /// # Errors
    /// The log is damaged or cannot be read.
    pub fn refresh(&mut self) -> Result<Refresh, LogError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let Some(current) = read_current(&self.medium)? else {
                return Err(LogError::NoDatabase { place: self.medium.place() });
            };
            if !current.continues(&self.known) {
                return Err(LogError::OtherState { place: self.medium.place() });
            }
            self.known = current;
            if let Some(open) = self.open.as_mut().filter(|open| open.log.header.generation == current.generation) {
                return Ok(Refresh { restart: false, records: open.read_to(current)? });
            }
            // A checkpoint may remove this generation between reading CURRENT and opening the log. Then try again.
            if let Some(refresh) = self.start(current)? {
                return Ok(refresh);
            }
        }
        let generation = read_current(&self.medium)?.map_or(0, |current| current.generation);
        Err(LogError::GenerationMissing { file: manifest_name(generation) })
    }

    /// Passes over a record that this process has appended and knows, which ends at byte `end` of the log.
    pub fn pass(&mut self, generation: u64, end: u64, sequence: u64) {
        self.known = Current { generation, committed_len: end, last_sequence: sequence, ..self.known };
        if let Some(open) = self.open.as_mut().filter(|open| open.log.header.generation == generation) {
            open.position = Position { offset: end, last_sequence: Some(sequence) };
        }
    }

    /// Opens the generation that CURRENT names and reads it. `None` if its log does not exist.
    fn start(&mut self, current: Current) -> Result<Option<Refresh>, LogError> {
        let name = manifest_name(current.generation);
        let file = match self.medium.open(&name) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let log = LogFile::open(name, file, current.generation)?;
        log.check_database(current.database)?;
        let mut open = Open { position: log.start(), log };
        let mut records = open.read_to(current)?;
        records.extend(open.read_uncovered(&self.medium)?);
        self.open = Some(open);
        Ok(Some(Refresh { restart: true, records }))
    }
}

impl Open {
    fn read_to(&mut self, current: Current) -> Result<Vec<Record>, LogError> {
        if current.committed_len <= self.position.offset && self.position.last_sequence >= Some(current.last_sequence) {
            return Ok(Vec::new());
        }
        let mut position = self.position;
        let records = self.log.read_committed(&mut position, current.committed_len)?;
        check_end(&self.log.name, position, current)?;
        self.position = position;
        Ok(records)
    }

    /// Reads what follows the part that CURRENT covers. If there is a writer, this is a commit in progress, which is
    /// not visible yet. Without a writer, it was committed, but a power loss prevented CURRENT from reaching the
    /// medium.
    fn read_uncovered(&mut self, medium: &Arc<dyn Medium>) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        if self.log.file.len()? <= self.position.offset {
            return Ok(records);
        }
        let NoWriter::Certain { _lock } = exclude_writers(medium, self.log.header.generation)? else {
            return Ok(records);
        };
        // A writer that has ended since may have committed more, or begun a new generation. CURRENT says so.
        if let Some(current) = read_current(medium)?
            && current.generation == self.log.header.generation
        {
            records.extend(self.read_to(current)?);
            let len = self.log.file.len()?;
            records.extend(self.log.read_tail(&mut self.position, len)?);
        }
        Ok(records)
    }
}

/// Checks that the records end at the position and with the sequence of CURRENT.
pub(super) fn check_end(name: &str, position: Position, current: Current) -> Result<(), LogError> {
    if position.offset != current.committed_len {
        return Err(LogError::damaged(name, current.committed_len, "CURRENT does not end at a record"));
    }
    if position.last_sequence != Some(current.last_sequence) {
        let reason = format!(
            "CURRENT says that commit {} ends here, the log that it is {}",
            current.last_sequence,
            position.last_sequence.unwrap_or(0)
        );
        return Err(LogError::damaged(name, current.committed_len, reason));
    }
    Ok(())
}
