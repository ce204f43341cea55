//! The writer lock: one writer process at a time. The operating system locks the file `LOCK`, so that the lock ends
//! with the process however it ends. The file contains the process id of the holder, for messages only. The writer also
//! locks the log itself: if somebody removes `LOCK`, there is still one writer only.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::media::{LockFile, LockMode, Medium, MediumError};

use super::{LogError, manifest_name};

pub const LOCK: &str = "LOCK";
/// Readers hold the lock of the log in shared mode for an instant while they read records that CURRENT does not cover.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// Takes the writer lock, which is held until the result is dropped.
///
/// # Errors
/// Another process holds it, or the file cannot be locked.
pub fn take_writer_lock(medium: &Arc<dyn Medium>) -> Result<Box<dyn LockFile>, LogError> {
    let lock = take(medium, || medium.try_lock(LOCK, LockMode::Create))?;
    // A disk that is full must not keep anybody from making room.
    let _ = lock.write(format!("{}\n", std::process::id()).as_bytes());
    Ok(lock)
}

/// Locks the log of a generation, which exists, for its writer.
///
/// # Errors
/// Another process has locked it, or it cannot be locked.
pub fn lock_log(medium: &Arc<dyn Medium>, generation: u64) -> Result<Box<dyn LockFile>, LogError> {
    let name = manifest_name(generation);
    take(medium, || {
        let lock = medium.try_lock(&name, LockMode::Existing)?;
        if lock.is_none() && !medium.exists(&name)? {
            let missing = std::io::ErrorKind::NotFound.into();
            return Err(MediumError::io("lock", format!("{}/{name}", medium.place()), missing));
        }
        Ok(lock)
    })
}

fn take(
    medium: &Arc<dyn Medium>,
    attempt: impl Fn() -> Result<Option<Box<dyn LockFile>>, MediumError>,
) -> Result<Box<dyn LockFile>, LogError> {
    for _ in 0..ATTEMPTS {
        if let Some(lock) = attempt()? {
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

/// Excludes writers of a generation's log, if none is active.
///
/// # Errors
/// The file cannot be locked.
pub fn exclude_writers(medium: &Arc<dyn Medium>, generation: u64) -> Result<NoWriter, MediumError> {
    match medium.try_lock(&manifest_name(generation), LockMode::Shared) {
        Ok(Some(lock)) => Ok(NoWriter::Certain { _lock: Some(lock) }),
        // It is locked, or the writer has begun another generation.
        Ok(None) => Ok(NoWriter::SomebodyWrites),
        // Where nothing can be locked, nobody writes.
        Err(error) if error.has_no_locks() => Ok(NoWriter::Certain { _lock: None }),
        Err(error) => Err(error),
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
