//! Row groups of Parquet files elsewhere, which are fetched before they are read: each with as few requests as its columns allow,
//! while the groups before it are decoded.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::physical_plan::metrics::Count;
use parking_lot::Mutex;

use super::set::{Contents, FileSet};
use crate::ingest::{FileChunks, requested};

/// Row groups that are fetched and not taken yet, and their bytes, at most.
const GROUPS_AHEAD: usize = 16;
const BYTES_AHEAD: u64 = 64 << 20;

/// The row groups of one run of a scan that are on their way.
pub(super) struct Ahead {
    pub set: Arc<FileSet>,
    /// The columns that are read of each file.
    pub columns: Vec<Vec<usize>>,
    pub pool: Arc<dyn MemoryPool>,
    /// Whether groups are fetched before a partition asks for them. The rows of a LIMIT may be in the first one.
    pub reads_ahead: bool,
    /// Those that are fetched, and not read yet.
    pub waiting: Mutex<HashMap<(usize, usize), Waiting>>,
    /// Counters of requests and bytes, if a file is elsewhere.
    pub counters: Option<(Count, Count)>,
}

/// A row group that is fetched.
pub(super) struct Waiting {
    chunks: FileChunks,
    bytes: u64,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ahead")
    }
}

impl Ahead {
    /// Begins to fetch a row group that will be read after others, if there is room for it. False if there is none.
    pub fn prepare(&self, file: usize, group: usize) -> bool {
        if self.counters.is_none() {
            return false;
        }
        let mut waiting = self.waiting.lock();
        let bytes: u64 = waiting.values().map(|waiting| waiting.bytes).sum();
        if !self.reads_ahead || waiting.len() >= GROUPS_AHEAD || bytes >= BYTES_AHEAD {
            return false;
        }
        if waiting.contains_key(&(file, group)) {
            return true;
        }
        match self.begin(file, group) {
            Some(begun) => waiting.insert((file, group), begun).is_none(),
            None => false,
        }
    }

    /// The bytes of a row group that is read now; `None` for a file of this machine, and where they do not fit the memory limit:
    /// then each page is fetched when it is read.
    pub fn take(&self, (file, group): (usize, usize)) -> Option<FileChunks> {
        let prepared = self.waiting.lock().remove(&(file, group));
        prepared.or_else(|| self.begin(file, group)).map(|waiting| waiting.chunks)
    }

    /// Frees the bytes of a row group that is not read.
    pub fn forget(&self, file: usize, group: usize) {
        self.waiting.lock().remove(&(file, group));
    }

    fn begin(&self, at: usize, group: usize) -> Option<Waiting> {
        let file = &self.set.files[at];
        let Contents::Parquet(parquet) = &file.contents else { return None };
        let (remote, tail) = parquet.elsewhere()?;
        let columns = self.columns.get(at).into_iter().flatten().copied();
        let ranges = tail.missing(parquet.ranges(group, columns));
        let bytes = requested(&ranges);
        let claim = MemoryConsumer::new("row groups of files elsewhere").register(&self.pool);
        claim.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)).ok()?;
        let fetched = tail.begin(remote, ranges, Some(Box::new(claim)));
        Some(Waiting { chunks: FileChunks::elsewhere(remote.clone(), Arc::new(fetched)), bytes })
    }

    /// Adds what was requested since the last call to the counters of the scan.
    pub fn count(&self) {
        let Some((requests, bytes)) = &self.counters else { return };
        for traffic in self.set.files.iter().filter_map(|file| file.traffic.as_ref()) {
            let (new_requests, new_bytes) = traffic.take();
            requests.add(usize::try_from(new_requests).unwrap_or(0));
            bytes.add(usize::try_from(new_bytes).unwrap_or(0));
        }
    }
}
