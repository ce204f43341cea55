//! Repair of a damaged log.

use std::sync::Arc;

use crate::media::{LockFile, Medium, MediumError};

use super::lock::{lock_log, take_writer_lock};
use super::record::{Current, Header, records_in};
use super::scan::{LogFile, Position, Record, read_bytes};
use super::writer::replace_current;
use super::{LogError, generations, manifest_name, read_current};

/// The findings and actions of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The generation of the current log.
    pub generation: u64,
    /// The last commit that remains.
    pub last_sequence: u64,
    /// The last commit according to CURRENT, if it was sound. Commits between the two are lost.
    pub expected_sequence: Option<u64>,
    /// Bytes cut off at the end of the log.
    pub cut_bytes: u64,
    /// The file with the bytes that were cut off.
    pub saved_as: Option<String>,
    /// Sound commits followed the damage. They are in the saved bytes, but cannot be used without the missing ones.
    pub sound_commits_cut: bool,
    /// Logs that could not be used, and the reasons. They are renamed, so that the next writer does not remove them.
    pub unusable: Vec<String>,
}

impl RepairReport {
    /// Whether acknowledged commits may be among the bytes that were cut off.
    pub fn loses_commits(&self) -> bool {
        let unexpected = match self.expected_sequence {
            Some(expected) => expected > self.last_sequence,
            None => self.cut_bytes > 0,
        };
        unexpected || self.sound_commits_cut || !self.unusable.is_empty()
    }
}

/// The intended changes of a repair, before it changes anything.
#[derive(Debug)]
pub struct RepairPlan<'a> {
    /// The report of the repair.
    pub report: &'a RepairReport,
    /// The commits that remain.
    pub kept: &'a [Record],
    /// Sound commits that cannot remain, because one before them is missing.
    pub lost: &'a [Record],
}

/// The sound part of a log.
struct Candidate {
    log: LogFile,
    end: Position,
    len: u64,
}

/// Uses the log that goes furthest, up to its first broken record, and makes CURRENT name it. `prepare` is called
/// before anything changes, while the writer lock is held. If it fails, nothing is repaired.
///
/// A log of another version of the format, or one that cannot be read at the moment, is not damage. Both are errors.
pub fn repair<E: From<LogError>>(
    medium: Arc<dyn Medium>,
    prepare: impl FnOnce(&RepairPlan<'_>) -> Result<(), E>,
) -> Result<RepairReport, E> {
    // Do not create a lock file in a folder that is no database.
    if generations(&medium).map_err(LogError::from)?.is_empty() {
        return Err(LogError::NothingToRepair { place: medium.place() }.into());
    }
    let _lock = take_writer_lock(&medium)?;
    let _locks = lock_all(&medium)?;
    let expected_sequence = match read_current(&medium) {
        Ok(current) => current.map(|current| current.last_sequence),
        Err(error) if is_repairable(&error) => None,
        Err(error) => return Err(error.into()),
    };
    let mut candidates = Vec::new();
    let mut unusable = Vec::new();
    for generation in generations(&medium).map_err(LogError::from)? {
        match examine(&medium, generation) {
            Ok(candidate) => candidates.push(candidate),
            Err(error) if is_repairable(&error) => unusable.push((generation, error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    // Of two logs that go equally far, take the later generation: a checkpoint contains the same as the log that it
    // folded.
    let Some(best) = candidates.into_iter().max_by_key(|candidate| candidate.end.last_sequence) else {
        return Err(LogError::NothingToRepair { place: medium.place() }.into());
    };
    let last_sequence = best.end.last_sequence.unwrap_or(0);
    let generation = best.log.header.generation;
    let mut report = RepairReport {
        generation,
        last_sequence,
        expected_sequence,
        cut_bytes: best.len - best.end.offset,
        saved_as: None,
        sound_commits_cut: best
            .log
            .has_record_behind(best.end.offset, best.len, last_sequence + 1)
            .map_err(log_error)?,
        unusable: unusable.iter().map(|(_, reason)| reason.clone()).collect(),
    };
    let lost = lost(&medium, &best, last_sequence, &unusable)?;
    let kept = best.log.read_committed(&mut best.log.start(), best.end.offset)?;
    prepare(&RepairPlan { report: &report, kept: &kept, lost: &lost })?;
    for (generation, _) in &unusable {
        set_aside(&medium, &manifest_name(*generation)).map_err(log_error)?;
    }
    report.saved_as = cut(&medium, &best).map_err(log_error)?;
    let Header { version, database, .. } = best.log.header;
    let current = Current { version, generation, committed_len: best.end.offset, last_sequence, database };
    replace_current(&medium, current).map_err(log_error)?;
    Ok(report)
}

/// Locks the logs of all generations, so that nobody writes any of them.
fn lock_all(medium: &Arc<dyn Medium>) -> Result<Vec<Box<dyn LockFile>>, LogError> {
    generations(medium)?.into_iter().map(|generation| lock_log(medium, generation)).collect()
}

fn log_error(error: MediumError) -> LogError {
    error.into()
}

/// Whether a repair may continue without the data that this error makes unreadable.
fn is_repairable(error: &LogError) -> bool {
    error.is_damage() && !matches!(error, LogError::Version { .. })
}

/// The sound commits after the damage, in order.
fn lost(
    medium: &Arc<dyn Medium>,
    best: &Candidate,
    last_sequence: u64,
    unusable: &[(u64, String)],
) -> Result<Vec<Record>, LogError> {
    let rest = read_bytes(&best.log.file, best.end.offset, best.len)?;
    let mut lost = records_in(&rest, best.log.header.generation);
    for (generation, _) in unusable {
        let file = medium.open(&manifest_name(*generation))?;
        let bytes = read_bytes(&file, 0, file.len()?)?;
        lost.extend(records_in(&bytes, *generation));
    }
    lost.retain(|record| record.sequence > last_sequence);
    lost.sort_by_key(|record| record.sequence);
    lost.dedup_by_key(|record| record.sequence);
    Ok(lost)
}

/// Renames a file to a name that no writer removes, and returns that name.
///
/// # Errors
/// The file cannot be renamed.
pub fn set_aside(medium: &Arc<dyn Medium>, name: &str) -> Result<String, MediumError> {
    let mut number = 1;
    while medium.exists(&format!("{name}.lost-{number}"))? {
        number += 1;
    }
    let aside = format!("{name}.lost-{number}");
    medium.rename(name, &aside)?;
    Ok(aside)
}

fn examine(medium: &Arc<dyn Medium>, generation: u64) -> Result<Candidate, LogError> {
    let name = manifest_name(generation);
    let file = medium.open(&name)?;
    let log = LogFile::open(name, file, generation)?;
    let len = log.file.len()?;
    let end = log.sound_end(len)?;
    if end.last_sequence.is_none() {
        return Err(LogError::damaged(&log.name, end.offset, "its base record is broken"));
    }
    Ok(Candidate { log, end, len })
}

/// Cuts a log off after its last sound record, and returns the name of the file with the bytes that were cut off.
fn cut(medium: &Arc<dyn Medium>, candidate: &Candidate) -> Result<Option<String>, MediumError> {
    let name = &candidate.log.name;
    if candidate.len == candidate.end.offset {
        return Ok(None);
    }
    let bytes = read_bytes(&candidate.log.file, candidate.end.offset, candidate.len)?;
    let mut number = 1;
    while medium.exists(&format!("{name}.cut-{number}"))? {
        number += 1;
    }
    let saved_as = format!("{name}.cut-{number}");
    let mut saved = medium.create(&saved_as)?;
    saved.append(&bytes)?;
    saved.finish()?;
    medium.sync_dir()?;
    let mut log = medium.edit(name)?;
    log.set_len(candidate.end.offset)?;
    log.sync()?;
    Ok(Some(saved_as))
}
