//! The writer lock: one writer process at a time. The operating system locks the file `LOCK`, so that the lock ends
//! with the process however it ends. The file contains the process id of the holder, for messages only.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::media::{LockFile, LockMode, Medium, MediumError};

use super::LogError;

const LOCK: &str = "LOCK";
/// Readers hold the lock in shared mode for an instant while they read records that CURRENT does not cover.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// Takes the writer lock, which is held until the result is dropped.
///
/// # Errors
/// Another process holds it, or the file cannot be locked.
pub fn take_writer_lock(medium: &Arc<dyn Medium>) -> Result<Box<dyn LockFile>, LogError> {
    for _ in 0..ATTEMPTS {
        if let Some(lock) = medium.try_lock(LOCK, LockMode::Create)? {
            lock.write(format!("{}\n", std::process::id()).as_bytes())?;
            return Ok(lock);
        }
        thread::sleep(PAUSE);
    }
    Err(LogError::Busy { place: medium.place(), holder: holder(medium) })
}

/// Excludes writers while a reader reads what CURRENT does not cover.
pub enum NoWriter {
    Certain { _lock: Option<Box<dyn LockFile>> },
    SomebodyWrites,
}

/// Excludes writers, if none is active.
///
/// # Errors
/// The file cannot be locked.
pub fn exclude_writers(medium: &Arc<dyn Medium>) -> Result<NoWriter, MediumError> {
    match medium.try_lock(LOCK, LockMode::Shared)? {
        Some(lock) => Ok(NoWriter::Certain { _lock: Some(lock) }),
        None if medium.exists(LOCK)? => Ok(NoWriter::SomebodyWrites),
        // For example a copy of a database, which no writer has opened yet.
        None => Ok(NoWriter::Certain { _lock: None }),
    }
}

/// The holder of the lock, by its own statement.
fn holder(medium: &Arc<dyn Medium>) -> String {
    let read = || -> Result<Vec<u8>, MediumError> {
        let file = medium.open(LOCK)?;
        let mut bytes = vec![0; file.len()?.min(20) as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    let pid =
        read().ok().and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| text.trim().parse::<u32>().ok());
    pid.map_or_else(|| "another process".to_string(), |pid| format!("process {pid}"))
}
