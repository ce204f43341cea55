//! Objects of an object store, as the bucket medium and the shared log need them. The crate `freestone-bucket` implements
//! this for S3, Google Cloud Storage, Azure Blob Storage, a folder, and memory. Nothing here knows one of these.
//!
//! No more is needed of a store than:
//! - [`Objects::create`] makes an object only if there is none of its name. Of several at the same time, one succeeds.
//! - An object that was made is there at once, with all its bytes, for every read and list that begins afterwards.
//! - The times of objects are by the store's own clock.

use std::fmt;
use std::ops::Range;
use std::thread;
use std::time::{Duration, SystemTime};

use super::{MediumError, Result};

/// What a store knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The name, as it was given at creation.
    pub name: String,
    /// Bytes.
    pub len: u64,
    /// When it was made or replaced, by the clock of the store.
    pub modified: SystemTime,
}

/// Receives the results of [`Objects::read`]: the position of a range, and its bytes.
pub type Deliver = Box<dyn Fn(usize, Result<Vec<u8>>) + Send + Sync>;

/// A place for objects: a bucket, with the path in it at which a database is. Names have `/` between folders.
///
/// # Errors
/// The methods return the error of the store, with the action and the object. No message contains a secret.
#[allow(clippy::missing_errors_doc)]
pub trait Objects: Send + Sync + fmt::Debug {
    /// The location, for messages.
    fn place(&self) -> String;

    /// Makes an object, unless there is one of its name. Returns whether it was made. After an error it may have been made,
    /// and also if the answer is that there is one: a repeated request finds what the first one has made. So whoever needs
    /// to know reads it back ([`create_surely`]).
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// Makes or replaces an object.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// The bytes of an object; `None` if there is none.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// The same for several objects at the same time, in their order.
    fn get_all(&self, names: &[String]) -> Vec<Result<Option<Vec<u8>>>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// The last bytes of an object, at most `len` of them, with the length of the object; `None` if there is none.
    fn tail(&self, name: &str, len: u64) -> Result<Option<(u64, Vec<u8>)>>;

    /// What is known of an object; `None` if there is none.
    fn stat(&self, name: &str) -> Result<Option<ObjectInfo>>;

    /// The objects in a folder and the folders below it, sorted by name; `""` is all. With `after`, only those whose names are
    /// behind it; at most `limit`.
    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<ObjectInfo>>;

    /// Removes objects. Those that are not there are not missed.
    fn remove(&self, names: &[String]) -> Result<()>;

    /// Begins to read ranges of an object, each by a request of its own. Each result is delivered when it is there, on any
    /// thread.
    fn read(&self, name: &str, ranges: Vec<Range<u64>>, deliver: Deliver);
}

/// What came of [`create_surely`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object is there, with these bytes.
    Ours,
    /// There is another one of this name.
    Others,
}

/// So often a request is repeated that failed, or whose outcome cannot be read back.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Makes an object unless there is one of its name, and finds out which of the two is the case. After a failure, or if the
/// store says that there is one, the object is read back: with the same bytes it is the one of this call, whose answer
/// was lost. So the bytes must be such that nobody else makes the same.
///
/// # Errors
/// The store could not be asked. Then the object may be there, or may come to be there later.
pub fn create_surely(objects: &dyn Objects, name: &str, bytes: &[u8]) -> Result<Created> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(PAUSE * 2u32.pow(attempt));
        }
        match objects.create(name, bytes) {
            Ok(true) => return Ok(Created::Ours),
            // Another attempt may be under way, or have ended without an object.
            Ok(false) => failure = failure.or(Some(undecided(name))),
            Err(error) => failure = Some(error),
        }
        match objects.get(name) {
            Ok(Some(found)) if found == bytes => return Ok(Created::Ours),
            Ok(Some(_)) => return Ok(Created::Others),
            Ok(None) => {}
            Err(error) => failure = Some(error),
        }
        if failure.as_ref().is_some_and(is_final) {
            break;
        }
    }
    Err(failure.unwrap_or_else(|| undecided(name)))
}

/// Whether another attempt would fail, too.
fn is_final(error: &MediumError) -> bool {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), Some(PermissionDenied | Unsupported | InvalidInput))
}

fn undecided(name: &str) -> MediumError {
    let reason = "the store says that it exists, but does not show it";
    MediumError::io("create", name, std::io::Error::other(reason))
}
