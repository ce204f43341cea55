//! Locks on single bytes of a mapped file, by which processes see whether others live.

use super::mapped::MappedRegion;
use crate::media::byte_locks::{self, Lock};
use crate::media::{MediumError, Result};

impl MappedRegion {
    /// Locks a byte, unless somebody else has. Returns whether it did.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn try_lock_byte(&self, at: u64) -> Result<bool> {
        byte_locks::try_lock(self.file(), Lock::Alone, at).map_err(|error| self.failed(error))
    }

    /// Locks a byte, as soon as nobody else has it.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn lock_byte(&self, at: u64) -> Result<()> {
        byte_locks::lock(self.file(), at).map_err(|error| self.failed(error))
    }

    /// Unlocks a byte.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn unlock_byte(&self, at: u64) -> Result<()> {
        byte_locks::unlock(self.file(), at).map_err(|error| self.failed(error))
    }

    /// Whether somebody else has locked a byte.
    ///
    /// # Errors
    /// The system refuses the question.
    pub fn is_byte_locked(&self, at: u64) -> Result<bool> {
        let locked = byte_locks::first_locked(self.file(), at, 1).map_err(|error| self.failed(error))?;
        Ok(locked.is_some())
    }

    fn failed(&self, error: std::io::Error) -> MediumError {
        MediumError::io("lock", super::Region::place(self), error)
    }
}
