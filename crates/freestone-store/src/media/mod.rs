//! Storage media: files by relative name inside one database folder, behind one small trait.
//!
//! [`Disk`] is a folder of the file system, read with direct asynchronous I/O. [`Memory`] stores everything in the
//! process, for `:memory:` databases and tests. [`Bucket`] has the objects of an object store. [`Faulty`] wraps another
//! medium, fails on purpose, and knows what would survive a power loss.
//!
//! Every medium guarantees:
//! - `create` never replaces a file: segments are immutable, so an existing name is somebody's data.
//! - Bytes are durable after `WriteFile::sync`, and a name is durable after `sync_folder` of its folder. Nothing else
//!   is guaranteed: neither the order of unsynced writes nor their completeness.
//! - Written bytes are visible at once to every reader of this machine, in this process or another.
//! - Names lead to files of the folder that was opened, also if it is moved or another one takes its place.
//!   [`Medium::check_place`] and [`Medium::identity`] tell whether that has happened.
//!
//! Names use `/` between folders on every platform. A folder is created with the first file in it.

mod aligned;
mod batch;
pub mod block_cache;
mod bucket;
mod buffer;
mod byte_locks;
mod disk;
mod faulty;
mod folder;
mod memory;
pub mod objects;
pub mod region;
mod system;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use batch::Pending;
pub use bucket::Bucket;
pub use buffer::{Buffer, BufferPool};
pub use disk::{DirectMode, Disk, DiskOptions, PRIVATE};
pub use faulty::{FaultPlan, Faulty, Operation};
pub use memory::Memory;

/// One database folder.
///
/// # Errors
/// The methods return the error of the medium, with the action and the file.
#[allow(clippy::missing_errors_doc)]
pub trait Medium: Send + Sync + fmt::Debug {
    /// Creates an empty file, and its folder if necessary.
    ///
    /// # Errors
    /// The name exists, or the file cannot be created.
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>>;

    /// Creates a file with `parts` as its content, durably. Segments are written by this. After an error a partial file
    /// may remain.
    ///
    /// # Errors
    /// The name exists, or the file cannot be written.
    fn write_whole(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let mut file = self.create(name)?;
        parts.iter().try_for_each(|part| file.append(part))?;
        file.finish()
    }

    /// Opens an existing file for writing. Appends go to its end.
    fn edit(&self, name: &str) -> Result<Box<dyn WriteFile>>;

    /// Opens an existing file for reading. The handle stays valid after the file is removed or replaced.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>>;

    /// Renames `from` to `to`, and replaces a file of that name atomically.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;

    /// Whether a file exists.
    fn exists(&self, name: &str) -> Result<bool>;

    /// The names that start with `prefix`, sorted. The part of `prefix` up to its last `/` is the folder to list,
    /// without the folders below it. A folder that does not exist has no files.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Makes the names of a folder durable. `""` is the database folder.
    fn sync_folder(&self, folder: &str) -> Result<()>;

    /// Takes the lock of a file without waiting. `None` if another holder has it, in this process or another, or the
    /// file does not exist and `mode` does not create it.
    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<Box<dyn LockFile>>>;

    /// Opens a file for locks of single bytes. `None` if it does not exist and `create` is not set.
    fn byte_locks(&self, name: &str, create: bool) -> Result<Option<Box<dyn ByteLocks>>>;

    /// The location of this medium, for messages.
    fn place(&self) -> String;

    /// The identity of the file to which the location of this medium and a name lead now; `None` if there is none. It is
    /// another file than one that is open if that was removed or replaced, or if the folder was.
    fn identity(&self, name: &str) -> Result<Option<Identity>>;

    /// Checks that the location still leads to the folder that was opened.
    ///
    /// # Errors
    /// It does not, or that cannot be found out.
    fn check_place(&self) -> Result<()> {
        Ok(())
    }

    /// Checks that a name leads to a file that is open, which also means that the folder is where it was.
    ///
    /// # Errors
    /// It does not, or that cannot be found out.
    fn check_file(&self, name: &str, open: Identity) -> Result<()> {
        if self.identity(name)? == Some(open) {
            return Ok(());
        }
        self.check_place()?;
        Err(MediumError::Replaced { file: format!("{}/{name}", self.place()) })
    }

    /// Whether a read costs no more than a copy, so that a page cache would only duplicate the memory.
    fn is_memory(&self) -> bool {
        false
    }

    /// Makes the names of the database folder durable.
    fn sync_dir(&self) -> Result<()> {
        self.sync_folder("")
    }
}

/// A file open for reading. Threads may share handles.
///
/// # Errors
/// The methods return the error of the medium, with the action and the file.
#[allow(clippy::missing_errors_doc)]
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// The current length in bytes. Another handle may be appending.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `into` from `offset`, through the operating system's cache: for headers and other small reads.
    ///
    /// # Errors
    /// The file has no such range, or cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Starts reading. [`Pending::wait`] gives the results in the order of `requests`. Adjacent requests are read
    /// together and long ones in several pieces, so request single pages, and many at a time.
    fn start(&self, requests: &[ReadRequest]) -> Pending;

    /// Takes notice that these bytes of the file, which were read by one request, are what was once written: they may be
    /// kept closer to this process.
    fn keep(&self, offset: u64, bytes: &[u8]) {
        let _ = (offset, bytes);
    }

    /// Forgets what is kept closer to this process of some bytes, and reads them from where they were written. `None` if
    /// nothing is kept.
    fn read_again(&self, request: ReadRequest) -> Option<Result<Buffer>> {
        let _ = request;
        None
    }

    /// Reads and waits for the results, in the order of `requests`.
    fn read_many(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        self.start(requests).wait()
    }
}

/// A file open for writing, by one writer.
///
/// # Errors
/// The methods return the error of the medium, with the action and the file.
#[allow(clippy::missing_errors_doc)]
pub trait WriteFile: Send + fmt::Debug {
    /// The length in bytes, including what this handle has written.
    fn len(&self) -> u64;

    /// Which file this is, and its length now: others should not have changed it.
    fn stat(&self) -> Result<(Identity, u64)>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes at the end. On a disk each call is a system call, so pass pages or more, not fields. After an error the
    /// file may contain any part of `bytes`, and `len` includes none of them.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Overwrites in place, or extends the file.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Takes the space for a file of this length, if the medium has such a thing as space. The file may get that length.
    fn allocate(&mut self, len: u64) -> Result<()> {
        self.set_len(len)
    }

    /// Truncates the file, or extends it with zeros.
    fn set_len(&mut self, len: u64) -> Result<()>;

    /// Makes the bytes and the length durable. After an error nothing is known about the writes since the last
    /// successful sync, and a second sync proves nothing, because the operating system may have dropped the bytes.
    fn sync(&mut self) -> Result<()>;

    /// Syncs and closes.
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

/// A locked file. The lock ends when this is dropped, or with the process, however it ends.
///
/// # Errors
/// The methods return the error of the medium, with the action and the file.
#[allow(clippy::missing_errors_doc)]
pub trait LockFile: Send + Sync + fmt::Debug {
    /// Overwrites in place from the start. Unless the new content is shorter, it replaces the old. Not durable: a lock
    /// file means nothing after a restart of the machine.
    fn write(&self, bytes: &[u8]) -> Result<()>;

    /// Which file this is.
    fn identity(&self) -> Result<Identity>;
}

/// A file whose bytes are locked one by one, in shared mode, to tell others something. The file need not have these
/// bytes, and is not changed. The locks end when this is dropped, or with the process, however it ends.
///
/// # Errors
/// The methods return the error of the medium, with the action and the file.
#[allow(clippy::missing_errors_doc)]
pub trait ByteLocks: Send + Sync + fmt::Debug {
    /// Locks a byte.
    fn share(&self, at: u64) -> Result<()>;

    /// Unlocks a byte.
    fn release(&self, at: u64) -> Result<()>;

    /// The first byte that another opening of the file has locked; `None` if there is none.
    fn first_of_others(&self) -> Result<Option<u64>>;

    /// Which file this is.
    fn identity(&self) -> Result<Identity>;
}

/// Which file or folder something is, whatever its name. It is not given to another one as long as any handle is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    fn new(device: u64, number: u64) -> Identity {
        Identity { device, number }
    }
}

/// How to lock a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Exclusive; creates the file if it does not exist.
    Create,
    /// Exclusive, and only if the file exists.
    Existing,
    /// Shared with others, and only if the file exists. It also works on read-only media.
    Shared,
}

/// A range of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The position of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
}

/// A result of a medium.
pub type Result<T, E = MediumError> = std::result::Result<T, E>;

/// The reason why an operation on a medium failed.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    #[allow(missing_docs)]
    #[error("cannot {action} {file}: {source}")]
    Io { action: &'static str, file: String, source: io::Error },
    #[error(
        "{file} has {file_len} bytes, but {len} bytes at offset {offset} were asked for: the file was cut short; \
         restore it from a copy"
    )]
    #[allow(missing_docs)]
    PastEnd { file: String, file_len: u64, offset: u64, len: u64 },
    #[error(
        "{name:?} cannot name a file of a database: use a relative name with '/' between parts that are neither empty \
         nor '.' nor '..'"
    )]
    #[allow(missing_docs)]
    Name { name: String },
    #[error(
        "{place} is not the folder any more that was opened: it was moved, removed or replaced; put it back, or end this \
         session and open the database where it is now"
    )]
    #[allow(missing_docs)]
    Moved { place: String },
    #[error(
        "{file} is not the file any more that this process has open: it was removed or replaced; run the statement again, \
         which opens the database again"
    )]
    #[allow(missing_docs)]
    Replaced { file: String },
}

impl MediumError {
    /// An error of input or output.
    pub fn io(action: &'static str, file: impl Into<String>, source: io::Error) -> MediumError {
        MediumError::Io { action, file: file.into(), source }
    }

    /// The operating system's class of error, if it has one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            MediumError::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// Whether the medium is full, or what this user may write.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.kind(), Some(StorageFull | QuotaExceeded | FileTooLarge))
    }

    /// Whether the medium has no locks of files.
    pub fn has_no_locks(&self) -> bool {
        matches!(self, MediumError::Io { source, .. } if byte_locks::are_missing(source))
    }

    /// Whether the folder or medium is not writable at all, as opposed to a single failed write.
    pub fn is_read_only(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
    }
}

/// Refuses names that would leave the database folder or mean different files on different platforms.
fn check_name(name: &str) -> Result<()> {
    let good_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0', ':']);
    if name.split('/').all(good_part) { Ok(()) } else { Err(MediumError::Name { name: name.to_string() }) }
}

/// The folder of a name, without the `/`; `""` for the database folder itself.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The end of a range of bytes, or an error if the file does not contain it.
fn check_range(file: &str, file_len: u64, offset: u64, len: usize) -> Result<u64> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= file_len => Ok(end),
        _ => Err(MediumError::PastEnd { file: file.to_string(), file_len, offset, len: len as u64 }),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod name_tests {
    use super::*;

    fn check(name: &str, good: bool) {
        assert_eq!(check_name(name).is_ok(), good, "{name:?}");
    }

    #[test]
    fn names_stay_inside_the_folder() {
        for name in ["a", "CURRENT", "segments/1-2.seg", "t/0001/x.seg"] {
            check(name, true);
        }
        for name in ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\\b", "c:a", "a\0"] {
            check(name, false);
        }
    }

    #[test]
    fn a_range_past_the_end_names_the_file() {
        assert_eq!(check_range("f", 10, 4, 6).unwrap(), 10);
        for (offset, len) in [(4, 7), (11, 0), (u64::MAX, 2)] {
            let message = check_range("f", 10, offset, len).unwrap_err().to_string();
            assert!(message.starts_with("f has 10 bytes"), "{message}");
        }
    }
}
