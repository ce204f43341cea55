//! The commit log, also called the manifest: the commits, in order. A commit is one record. The caller defines the
//! content of records.
//!
//! ```text
//! manifest-0000000007.log   header, record, record, …      the log of generation 7; it only grows
//! CURRENT                   generation 7, committed up to byte N, last sequence S
//! LOCK                      locked by the writer, as is the log
//! PINS                      processes that read lock bytes of it; the oldest sequence each needs
//! ```
//!
//! A commit appends its record, syncs the log, and then overwrites `CURRENT` in place without a sync. So `CURRENT` is
//! exact for all processes of this machine, and a lower bound after a power loss: [`Log::open_writer`], and a reader
//! that finds no writer, look for more records after it. A broken record there is an append that was never
//! acknowledged, and is ignored. A broken record in the part that `CURRENT` covers is damage and an error.
//!
//! A checkpoint starts a new generation. Its first record is the folded state of all previous records.
//!
//! Readers never wait for the writer: they read what `CURRENT` covers. [`ReaderPins`] prevents the removal of a
//! snapshot's files while it is read.

mod lock;
mod pins;
mod reader;
mod record;
mod repair;
mod scan;
pub mod shared;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::media::{Medium, MediumError};

pub(crate) use lock::LOCK;
pub use pins::{Horizon, Pin, ReaderPins};
pub use reader::{LogReader, Refresh};
pub use record::{LONGEST_BODY, VERSION as FORMAT_VERSION};
pub(crate) use repair::set_aside;
pub use repair::{RepairPlan, RepairReport};
pub use scan::Record;
use writer::Expected;
pub use writer::{LogWriter, Outcome};

use record::{CURRENT_LEN, Current, Defect, HEADER_LEN};

/// Opens the commit log of a database folder.
pub struct Log;

impl Log {
    /// Opens the log for reading. [`LogReader::refresh`] then gives the records.
    ///
    /// # Errors
    /// The folder is no database, or cannot be read.
    pub fn open_reader(medium: Arc<dyn Medium>) -> Result<LogReader, LogError> {
        LogReader::open(medium)
    }

    /// Takes the writer lock, creates the log if the folder has none, removes what an interrupted commit or checkpoint
    /// left, and returns all records of the log.
    ///
    /// # Errors
    /// Another process writes, the log is damaged, or the folder cannot be written.
    pub fn open_writer(medium: Arc<dyn Medium>) -> Result<(LogWriter, Vec<Record>), LogError> {
        LogWriter::open(medium, Expected::Any)
    }

    /// The same for the database of a number, which this process knows: it is not created, and no other one is opened.
    ///
    /// # Errors
    /// As for [`Log::open_writer`]; or the folder has no database any more, or another one.
    pub fn open_known_writer(medium: Arc<dyn Medium>, database: u128) -> Result<(LogWriter, Vec<Record>), LogError> {
        LogWriter::open(medium, Expected::Known(database))
    }

    /// The same for a copy of a database, which is created with its number if the folder has none.
    ///
    /// # Errors
    /// As for [`Log::open_writer`]; or the folder has another database.
    pub fn open_copy(medium: Arc<dyn Medium>, database: u128) -> Result<LogWriter, LogError> {
        LogWriter::open(medium, Expected::CopyOf(database)).map(|(writer, _)| writer)
    }

    /// The same for a database of an earlier version of the format, which exists. What is written next must be a checkpoint,
    /// with which it becomes one of the present version.
    ///
    /// # Errors
    /// As for [`Log::open_writer`]; or the folder has no database.
    pub fn open_earlier(medium: Arc<dyn Medium>) -> Result<(LogWriter, Vec<Record>), LogError> {
        LogWriter::open(medium, Expected::Earlier)
    }

    /// Whether the folder contains a database, sound or not.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn exists(medium: &Arc<dyn Medium>) -> Result<bool, MediumError> {
        Ok(medium.exists(CURRENT)? || !generations(medium)?.is_empty())
    }

    /// Makes a damaged log usable again with the longest sound sequence of commits from the start, and reports what was
    /// lost. Nothing is deleted: bytes that are cut off are saved in a file of their own. `prepare` is called with the
    /// intended changes before they are made, and an error from it stops the repair.
    ///
    /// # Errors
    /// The log cannot be read or written, or the error of `prepare`.
    pub fn repair<E: From<LogError>>(
        medium: Arc<dyn Medium>,
        prepare: impl FnOnce(&RepairPlan<'_>) -> Result<(), E>,
    ) -> Result<RepairReport, E> {
        repair::repair(medium, prepare)
    }
}

/// The reason why an operation on the log failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// An error of the medium.
    #[error(transparent)]
    Medium(#[from] MediumError),
    #[allow(missing_docs)]
    #[error("{place} holds no database; open it for writing to create one")]
    NoDatabase { place: String },
    #[error(
        "{file} is damaged at byte {offset}: {reason}; restore the database from a copy, or run `freestone check \
         --repair` to keep the commits that are sound"
    )]
    #[allow(missing_docs)]
    Damaged { file: String, offset: u64, reason: String },
    #[error("{file} is of format version {version}, this program reads version {supported}; {}",
        match *version {
            ..record::EARLIEST => "use the program that wrote it to export its tables, and load them with this one",
            record::EARLIEST..record::VERSION => "run `freestone upgrade` with the database, or open it read-only",
            _ => "use a newer program",
        }, supported = record::VERSION)]
    #[allow(missing_docs)]
    Version { file: String, version: u32 },
    #[error(
        "CURRENT is missing in {place}, but there are logs; run `freestone check --repair` to rebuild it from them, or \
         restore it from a copy"
    )]
    #[allow(missing_docs)]
    CurrentMissing { place: String },
    #[error(
        "CURRENT names {file}, which is missing; restore it from a copy, or run `freestone check --repair` to use the \
         newest sound log"
    )]
    #[allow(missing_docs)]
    GenerationMissing { file: String },
    #[error(
        "{place} has another database, or an older state of the database, than this process has read: it was restored or \
         replaced; end this session and open it again"
    )]
    #[allow(missing_docs)]
    OtherState { place: String },
    #[error("the commit log of {place}, or CURRENT, was removed; run the statement again")]
    #[allow(missing_docs)]
    FilesRemoved { place: String },
    #[error(
        "{file} was changed by somebody else while this process wrote it: it has {len} bytes instead of {expected}; run \
         the statement again, which opens the database again"
    )]
    #[allow(missing_docs)]
    Changed { file: String, len: u64, expected: u64 },
    #[allow(missing_docs)]
    #[error("{place} is being written by {holder}; wait until it is done, or open the database for reading")]
    Busy { place: String, holder: String },
    #[allow(missing_docs)]
    #[error("commit {sequence} failed and {outcome}: {source}; reopen the database to go on writing")]
    CommitFailed { sequence: u64, outcome: Outcome, source: MediumError },
    #[allow(missing_docs)]
    #[error("nothing more is written after an earlier failure ({cause}); reopen the database")]
    Poisoned { cause: String },
    #[allow(missing_docs)]
    #[error("a commit of {len} bytes is longer than the log takes ({LONGEST_BODY} bytes); split it")]
    TooLong { len: usize },
    #[allow(missing_docs)]
    #[error(
        "{place} cannot hold a database that is written: {reason}; use a store that creates an object only if there is \
         none, or open the database read-only"
    )]
    Unfit { place: String, reason: String },
    #[allow(missing_docs)]
    #[error("{place} is no database, and not empty: it has {names}; name a database, or a place that is empty")]
    NotEmpty { place: String, names: String },
    #[error(
        "this process could not renew its lease of {place} in time, so what it had begun to write is given up; run the \
         statement again"
    )]
    #[allow(missing_docs)]
    Lapsed { place: String },
    #[allow(missing_docs)]
    #[error("{place} has given all its numbers to processes that wrote; export its tables to a new database")]
    NoNumbers { place: String },
    #[allow(missing_docs)]
    #[error("{place} holds no log that could be repaired; restore the database from a copy")]
    NothingToRepair { place: String },
}

impl LogError {
    fn damaged(file: &str, offset: u64, reason: impl Into<String>) -> LogError {
        LogError::Damaged { file: file.to_string(), offset, reason: reason.into() }
    }

    fn defect(file: &str, offset: u64, defect: Defect) -> LogError {
        match defect {
            Defect::Reason(reason) => LogError::damaged(file, offset, reason),
            Defect::Version(version) => LogError::Version { file: file.to_string(), version },
        }
    }

    /// Whether the bytes are wrong, as opposed to temporarily unreadable.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            LogError::Damaged { .. }
                | LogError::Version { .. }
                | LogError::CurrentMissing { .. }
                | LogError::GenerationMissing { .. }
                | LogError::Medium(MediumError::PastEnd { .. })
        )
    }
}

/// A number that no other database has, and no other file.
pub(crate) fn random_id() -> u128 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let half = || u128::from(RandomState::new().build_hasher().finish());
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    (half() << 64 | half()) ^ since_epoch.map_or(0, |time| time.as_nanos())
}

const CURRENT: &str = "CURRENT";
const CURRENT_TEMPORARY: &str = "CURRENT.tmp";
const MANIFEST_PREFIX: &str = "manifest-";
const MANIFEST_SUFFIX: &str = ".log";

/// The name of a generation's log.
fn manifest_name(generation: u64) -> String {
    format!("{MANIFEST_PREFIX}{generation:010}{MANIFEST_SUFFIX}")
}

/// The generations that have a log, ascending.
fn generations(medium: &Arc<dyn Medium>) -> Result<Vec<u64>, MediumError> {
    let generation = |name: &String| {
        let number = name.strip_prefix(MANIFEST_PREFIX)?.strip_suffix(MANIFEST_SUFFIX)?.parse().ok()?;
        (manifest_name(number) == *name).then_some(number)
    };
    let mut generations: Vec<u64> = medium.list(MANIFEST_PREFIX)?.iter().filter_map(generation).collect();
    generations.sort_unstable();
    Ok(generations)
}

/// The number of attempts to read something that the writer may be changing.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// Reads CURRENT. `None` if the folder contains no database yet.
fn read_current(medium: &Arc<dyn Medium>) -> Result<Option<Current>, LogError> {
    let mut outcome = Ok(None);
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        // The writer overwrites CURRENT in place, so a reader may find it half written, but not for long.
        outcome = read_current_once(medium);
        match outcome {
            Err(LogError::Damaged { .. }) => {}
            _ => break,
        }
    }
    outcome
}

fn read_current_once(medium: &Arc<dyn Medium>) -> Result<Option<Current>, LogError> {
    let file = match medium.open(CURRENT) {
        Err(error) if error.is_not_found() => {
            return if is_new(medium)? { Ok(None) } else { Err(LogError::CurrentMissing { place: medium.place() }) };
        }
        file => file?,
    };
    if file.len()? != CURRENT_LEN as u64 {
        return Err(LogError::damaged(CURRENT, 0, format!("its length is not {CURRENT_LEN} bytes")));
    }
    let mut bytes = [0; CURRENT_LEN];
    file.read_at(0, &mut bytes)?;
    Current::decode(&bytes).map(Some).map_err(|defect| LogError::defect(CURRENT, 0, defect))
}

/// Whether there is no log, or only one whose creation was interrupted before CURRENT: generation 1 without a record.
fn is_new(medium: &Arc<dyn Medium>) -> Result<bool, MediumError> {
    match generations(medium)?[..] {
        [] => Ok(true),
        [1] => match medium.open(&manifest_name(1)) {
            Err(error) if error.is_not_found() => Ok(true),
            file => Ok(file?.len()? <= HEADER_LEN as u64),
        },
        _ => Ok(false),
    }
}
