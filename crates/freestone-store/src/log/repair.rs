//! Making a damaged log usable again.

use std::sync::Arc;

use crate::media::{Medium, MediumError};

use super::lock::take_writer_lock;
use super::record::Current;
use super::scan::{LogFile, Position, read_bytes};
use super::writer::replace_current;
use super::{LogError, generations, manifest_name, read_current};

/// What a repair found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairReport {
    /// The log that is in force now.
    pub generation: u64,
    /// The last commit that was kept.
    pub last_sequence: u64,
    /// What CURRENT said was the last commit, if it was sound. Commits between are lost.
    pub expected_sequence: Option<u64>,
    /// Bytes cut off at the end of the log.
    pub cut_bytes: u64,
    /// Where the bytes that were cut off are saved.
    pub saved_as: Option<String>,
    /// True if sound commits followed the damage. They are in the saved bytes, but cannot be used without what is missing.
    pub sound_commits_cut: bool,
    /// Logs that could not be used, and why.
    pub unusable: Vec<String>,
}

/// A log as far as it is sound.
struct Candidate {
    log: LogFile,
    end: Position,
    len: u64,
}

/// Keeps the log that goes furthest, up to its first broken record, and makes CURRENT name it.
pub fn repair(medium: Arc<dyn Medium>) -> Result<RepairReport, LogError> {
    let _lock = take_writer_lock(&medium)?;
    let expected_sequence = read_current(&medium).ok().flatten().map(|current| current.last_sequence);
    let mut candidates = Vec::new();
    let mut unusable = Vec::new();
    for generation in generations(&medium)? {
        match examine(&medium, generation) {
            Ok(candidate) => candidates.push(candidate),
            Err(error) => unusable.push(error.to_string()),
        }
    }
    // Of two that go equally far the later generation: a checkpoint holds the same as the log that it folded.
    let Some(best) = candidates.into_iter().max_by_key(|candidate| candidate.end.last_sequence) else {
        return Err(LogError::NothingToRepair { place: medium.place() });
    };
    let last_sequence = best.end.last_sequence.unwrap_or(0);
    let generation = best.log.header.generation;
    let sound_commits_cut = best.log.has_record_behind(best.end.offset, best.len, last_sequence + 1)?;
    let saved_as = cut(&medium, &best)?;
    replace_current(&medium, Current { generation, committed_len: best.end.offset, last_sequence })?;
    Ok(RepairReport {
        generation,
        last_sequence,
        expected_sequence,
        cut_bytes: best.len - best.end.offset,
        saved_as,
        sound_commits_cut,
        unusable,
    })
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

/// Cuts a log off behind its last sound record; the name of the file that holds what was cut off.
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
