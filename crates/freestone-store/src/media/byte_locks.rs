//! Locks on single bytes of a file, by which processes see what others hold: the system takes them back when a process
//! ends, however it does. They are locks of open files (`F_OFD_SETLK`), so two openings in one process are two; systems
//! without those have locks of processes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

#[cfg(target_os = "linux")]
mod commands {
    pub const TRY: libc::c_int = libc::F_OFD_SETLK;
    pub const WAIT: libc::c_int = libc::F_OFD_SETLKW;
    pub const ASK: libc::c_int = libc::F_OFD_GETLK;
}

#[cfg(not(target_os = "linux"))]
mod commands {
    pub const TRY: libc::c_int = libc::F_SETLK;
    pub const WAIT: libc::c_int = libc::F_SETLKW;
    pub const ASK: libc::c_int = libc::F_GETLK;
}

/// How a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// By one only.
    Alone,
    /// By several. The file need not be open for writing.
    Shared,
}

impl Lock {
    fn kind(self) -> libc::c_int {
        match self {
            Lock::Alone => libc::F_WRLCK as libc::c_int,
            Lock::Shared => libc::F_RDLCK as libc::c_int,
        }
    }
}

/// Locks a byte, unless somebody else has. Returns whether it did.
///
/// # Errors
/// The system refuses it.
pub fn try_lock(file: &File, lock: Lock, at: u64) -> io::Result<bool> {
    match control(file, commands::TRY, lock.kind(), at, 1) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks a byte for this opening alone, as soon as nobody else has it.
///
/// # Errors
/// The system refuses it.
pub fn lock(file: &File, at: u64) -> io::Result<()> {
    loop {
        match control(file, commands::WAIT, Lock::Alone.kind(), at, 1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked.map(drop),
        }
    }
}

/// Unlocks a byte.
///
/// # Errors
/// The system refuses it.
pub fn unlock(file: &File, at: u64) -> io::Result<()> {
    control(file, commands::TRY, libc::F_UNLCK as libc::c_int, at, 1).map(drop)
}

/// The first byte of the `len` bytes from `at` that somebody else has locked; `None` if there is none.
///
/// # Errors
/// The system refuses the question.
pub fn first_locked(file: &File, at: u64, len: u64) -> io::Result<Option<u64>> {
    let mut first = None;
    let mut end = at.saturating_add(len).min(libc::off_t::MAX as u64);
    // The answer is one of the locks, not the first one, so what is before it is asked for next.
    while at < end {
        let lock = control(file, commands::ASK, Lock::Alone.kind(), at, end - at)?;
        if lock.l_type == libc::F_UNLCK as libc::c_short {
            break;
        }
        let found = (lock.l_start as u64).clamp(at, end - 1);
        first = Some(found);
        end = found;
    }
    Ok(first)
}

/// Whether an error says that the file system, or the system, has no locks.
pub fn are_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::EPERM))
}

fn control(file: &File, command: libc::c_int, kind: libc::c_int, at: u64, len: u64) -> io::Result<libc::flock> {
    // SAFETY: a `flock` has integers only, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at as libc::off_t;
    lock.l_len = len as libc::off_t;
    // SAFETY: the descriptor is open, and the system reads and writes the one `flock` behind the pointer.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_of_others_is_found() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = || File::open(file.path()).expect("open");
        let (asking, one, other) = (open(), open(), open());
        let first = || first_locked(&asking, 0, u64::MAX).expect("an answer");
        assert_eq!(first(), None);
        for (at, of) in [(70, &one), (12, &other), (70, &other), (40, &one)] {
            assert!(try_lock(of, Lock::Shared, at).expect("locked"));
        }
        assert_eq!(first(), Some(12));
        unlock(&other, 12).expect("unlocked");
        assert_eq!(first(), Some(40));
        drop(one);
        assert_eq!(first(), Some(70), "its locks end with an opening");
        assert!(try_lock(&asking, Lock::Shared, 3).expect("locked"));
        assert_eq!(first(), Some(70), "one's own do not count");
    }
}
