//! Locks on single bytes of a mapped file, by which processes see whether others live: the system takes them back when a
//! process ends, however it does. They are locks of open files (`F_OFD_SETLK`), so two openings in one process are two.

use std::io;
use std::os::fd::AsRawFd;

use super::mapped::MappedRegion;
use crate::media::{MediumError, Result};

impl MappedRegion {
    /// Locks a byte, unless somebody else has. Returns whether it did.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn try_lock_byte(&self, at: u64) -> Result<bool> {
        match self.control(libc::F_OFD_SETLK, libc::F_WRLCK, at) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Locks a byte, as soon as nobody else has it.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn lock_byte(&self, at: u64) -> Result<()> {
        loop {
            match self.control(libc::F_OFD_SETLKW, libc::F_WRLCK, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(drop).map_err(|error| self.failed(error)),
            }
        }
    }

    /// Unlocks a byte.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn unlock_byte(&self, at: u64) -> Result<()> {
        self.control(libc::F_OFD_SETLK, libc::F_UNLCK, at).map(drop).map_err(|error| self.failed(error))
    }

    /// Whether somebody else has locked a byte.
    ///
    /// # Errors
    /// The system refuses the question.
    pub fn is_byte_locked(&self, at: u64) -> Result<bool> {
        let lock = self.control(libc::F_OFD_GETLK, libc::F_WRLCK, at).map_err(|error| self.failed(error))?;
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }

    fn control(&self, command: libc::c_int, kind: libc::c_int, at: u64) -> io::Result<libc::flock> {
        // SAFETY: a `flock` has integers only, for which zeros are valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = at as libc::off_t;
        lock.l_len = 1;
        // SAFETY: the descriptor is open, and the system reads and writes the one `flock` behind the pointer.
        match unsafe { libc::fcntl(self.file().as_raw_fd(), command, &raw mut lock) } {
            0 => Ok(lock),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn failed(&self, error: io::Error) -> MediumError {
        MediumError::io("lock", super::Region::place(self), error)
    }
}
