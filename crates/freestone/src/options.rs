//! The options for opening a database.

use std::path::PathBuf;
use std::thread::available_parallelism;

use freestone_store::media::PRIVATE;
use freestone_store::{Emulation, PmemOptions};

use crate::error::{Error, Result};

/// The options of a database. The defaults depend on the machine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The maximum number of threads of a statement.
    pub threads: usize,
    /// The maximum bytes of memory for pages, queries and writes. Statements that need more use temporary files or
    /// fail. `None` means no limit. The tables of a database in memory, and those with `medium = 'memory'`, are not
    /// included.
    pub memory_limit: Option<usize>,
    /// Refuses every statement that writes, and a database folder that does not exist.
    pub read_only: bool,
    /// The bytes of pages that are cached between statements: at most a sixth of the memory limit.
    pub cache_bytes: usize,
    /// The folder for temporary files; `None` is that of the operating system.
    pub spill_directory: Option<PathBuf>,
    /// How tables with `medium = 'pmem'` are kept in an ordinary file where there is no persistent memory; `None`: not at
    /// all. They then survive the end of the process, but no power loss.
    pub pmem_emulated: Option<Emulation>,
    /// The most bytes of the database's pool of persistent memory.
    pub pmem_bytes: u64,
    /// Keeps pages of a database in a store (`s3://…`) on a disk of this machine.
    pub disk_cache: Option<DiskCache>,
    /// The permissions that new files and folders of the database do not have, besides those of the process's umask.
    pub umask: u32,
    /// For tests: operators spill with every batch, as if there were no memory for another one.
    #[doc(hidden)]
    pub spills_always: bool,
}

impl Default for Options {
    fn default() -> Self {
        let memory = freestone_store::memory::limit();
        Options {
            threads: available_parallelism().map_or(1, |n| n.get()),
            memory_limit: memory.map(|bytes| bytes / 4 * 3),
            read_only: false,
            cache_bytes: memory.map_or(1 << 30, |bytes| bytes / 8),
            spill_directory: None,
            pmem_emulated: None,
            pmem_bytes: PmemOptions::default().bytes,
            disk_cache: None,
            umask: PRIVATE,
            spills_always: false,
        }
    }
}

/// Where pages of objects are kept on a disk of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCache {
    /// A folder, which one process uses at a time.
    pub folder: PathBuf,
    /// The most bytes in it.
    pub bytes: u64,
}

impl DiskCache {
    /// The bytes of a cache, unless one says otherwise.
    pub const DEFAULT_BYTES: u64 = 10 << 30;
}

/// Parses a size: `2GB`, `512MiB`, `1000000`. Units are powers of 1000 or, with an `i`, of 1024.
///
/// # Errors
///
/// The text is not a size.
pub fn parse_size(text: &str) -> Result<usize> {
    let invalid = || Error::invalid(format!("`{text}` is not a size: write it as 2GB, 512MiB or 1000000 (bytes)"));
    let digits = text.trim().trim_end_matches(|last: char| last.is_ascii_alphabetic() || last == ' ');
    let unit = text.trim()[digits.len()..].trim().to_ascii_lowercase();
    let factor = match unit.trim_end_matches('b') {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(invalid()),
    };
    let number: f64 = digits.parse().map_err(|_| invalid())?;
    let bytes = number * factor;
    if bytes.is_finite() && bytes >= 1.0 { Ok(bytes as usize) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_there_is_one() {
        let memory = freestone_store::memory::limit().expect("Linux says how much there is");
        let options = Options::default();
        assert_eq!(options.memory_limit, Some(memory / 4 * 3));
        assert!(memory > 1 << 20 && options.cache_bytes <= memory / 8);
    }
}
