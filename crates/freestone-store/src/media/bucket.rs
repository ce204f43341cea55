//! A medium of objects: each segment is an object, which is made once and never changes. Ranges that are near each other are
//! read together, and the footer with one request, which also gives the length.
//!
//! Pages can be kept on a disk of this machine ([`BlockCache`]), where they are looked for first.
//!
//! Rows that are being sorted go through files of this machine, not through the bucket.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::batch::{Ticket, tickets};
use super::block_cache::{BlockCache, BlockKey};
use super::objects::{Created, Objects, create_surely};
use super::{
    Buffer, ByteLocks, Disk, DiskOptions, Identity, LockFile, LockMode, Medium, MediumError, Pending, ReadFile,
    ReadRequest, Result, WriteFile, check_name, check_range,
};

/// The bytes at the end of a segment that are read when it is opened. Footers are mostly shorter.
const TAIL: u64 = 128 << 10;
/// A gap of this many bytes between two ranges is read rather than skipped by another request.
const GAP: u64 = 256 << 10;
/// The most bytes of a request, unless a single range is longer.
const REQUEST: u64 = 8 << 20;
/// The folder of sorted runs, which are files of this machine.
const SCRATCH: &str = "temporary/";

/// The objects of a database as its medium.
pub struct Bucket {
    objects: Arc<dyn Objects>,
    scratch: Mutex<Option<Arc<Scratch>>>,
    disk: DiskOptions,
    cache: Option<Arc<BlockCache>>,
}

impl Bucket {
    /// The medium of these objects. Temporary files are read by these options.
    pub fn new(objects: Arc<dyn Objects>, disk: DiskOptions, cache: Option<Arc<BlockCache>>) -> Bucket {
        Bucket { objects, scratch: Mutex::default(), disk, cache }
    }

    /// An object in the cache. Its name alone would not do: a bucket can be set back to an earlier state, from which others
    /// go on. So the end of the object is in the number, which has what is known of its pages.
    fn cached(&self, name: &str, len: u64, tail: &[u8]) -> Option<Cached> {
        let cache = self.cache.clone()?;
        let mut hash = Sha256::new();
        for part in [self.objects.place().as_bytes(), &[0], name.as_bytes(), &[0], &len.to_le_bytes(), tail] {
            hash.update(part);
        }
        let number = hash.finalize().iter().take(16).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
        Some(Cached { cache, object: number })
    }

    /// The folder for temporary files, which is made when it is needed first.
    fn scratch(&self) -> Result<Arc<Scratch>> {
        let mut scratch = self.scratch.lock();
        if let Some(scratch) = scratch.as_ref() {
            return Ok(scratch.clone());
        }
        let name = format!("freestone-{}-{:032x}", std::process::id(), crate::log::random_id());
        let path = std::env::temp_dir().join(name);
        let disk = Disk::open(&path, true, DiskOptions { umask: super::PRIVATE, ..self.disk.clone() })?;
        Ok(scratch.insert(Arc::new(Scratch { disk, path })).clone())
    }

    fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.objects.place())
    }

    fn unsupported<T>(&self, action: &'static str, name: &str) -> Result<T> {
        let reason = io::Error::new(ErrorKind::Unsupported, "objects are made once and never changed");
        Err(MediumError::io(action, self.label(name), reason))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.objects.place())
    }
}

/// A folder of this machine that ends with its last user.
#[derive(Debug)]
struct Scratch {
    disk: Disk,
    path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever clears temporary folders.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Medium for Bucket {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        if name.starts_with(SCRATCH) { self.scratch()?.disk.create(name) } else { self.unsupported("edit", name) }
    }

    fn write_whole(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        check_name(name)?;
        match create_surely(self.objects.as_ref(), name, &parts.concat())? {
            Created::Ours => Ok(()),
            Created::Others => Err(MediumError::io("create", self.label(name), ErrorKind::AlreadyExists.into())),
        }
    }

    fn edit(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.unsupported("edit", name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        check_name(name)?;
        if name.starts_with(SCRATCH) {
            return self.scratch()?.disk.open(name);
        }
        let label = self.label(name);
        let Some((len, tail)) = self.objects.tail(name, TAIL)? else {
            return Err(MediumError::io("open", label, ErrorKind::NotFound.into()));
        };
        let cached = self.cached(name, len, &tail);
        let (objects, name) = (self.objects.clone(), name.to_owned());
        Ok(Arc::new(Object { objects, name, label, len, tail: Mutex::new(tail), cached }))
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        self.unsupported("rename", from)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if name.starts_with(SCRATCH) {
            return self.scratch()?.disk.remove(name);
        }
        self.objects.remove(&[name.to_owned()])
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Ok(self.objects.stat(name)?.is_some())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let folder = super::folder_of(prefix);
        if folder.len() < prefix.len() && prefix.starts_with(SCRATCH) {
            return Ok(vec![]);
        }
        let found = self.objects.list(folder, None, usize::MAX)?.into_iter().map(|object| object.name);
        let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let is_direct = |name: &String| name.get(start..).is_some_and(|rest| !rest.contains('/'));
        Ok(found.filter(|name| name.starts_with(prefix) && is_direct(name)).collect())
    }

    fn sync_folder(&self, _folder: &str) -> Result<()> {
        Ok(())
    }

    fn try_lock(&self, name: &str, _mode: LockMode) -> Result<Option<Box<dyn LockFile>>> {
        self.unsupported("lock", name)
    }

    /// There are none: leases take their place.
    fn byte_locks(&self, _name: &str, _create: bool) -> Result<Option<Box<dyn ByteLocks>>> {
        Ok(None)
    }

    fn place(&self) -> String {
        self.objects.place()
    }

    fn identity(&self, _name: &str) -> Result<Option<Identity>> {
        Ok(None)
    }
}

/// An object open for reading.
struct Object {
    objects: Arc<dyn Objects>,
    name: String,
    label: String,
    len: u64,
    /// Its last bytes, until its first pages are read: with the footer, nobody needs them any more.
    tail: Mutex<Vec<u8>>,
    cached: Option<Cached>,
}

/// The blocks of an object on a disk.
struct Cached {
    cache: Arc<BlockCache>,
    object: u128,
}

impl Cached {
    fn key(&self, offset: u64, len: usize) -> Option<BlockKey> {
        Some(BlockKey { object: self.object, offset, len: u32::try_from(len).ok()? })
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.label)
    }
}

impl ReadFile for Object {
    fn len(&self) -> Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        check_range(&self.label, self.len, offset, into.len())?;
        {
            let tail = self.tail.lock();
            let start = self.len - tail.len() as u64;
            if let Some(at) = offset.checked_sub(start)
                && let Some(bytes) = tail.get(at as usize..at as usize + into.len())
            {
                into.copy_from_slice(bytes);
                return Ok(());
            }
        }
        let read = self.begin(&[ReadRequest { offset, len: into.len() }], false).wait().pop();
        let missing = || MediumError::io("read", self.label.clone(), ErrorKind::UnexpectedEof.into());
        into.copy_from_slice(&read.ok_or_else(missing)??);
        Ok(())
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        *self.tail.lock() = vec![];
        self.begin(requests, true)
    }

    fn keep(&self, offset: u64, bytes: &[u8]) {
        if let Some(cached) = &self.cached
            && let Some(key) = cached.key(offset, bytes.len())
        {
            cached.cache.put(key, bytes);
        }
    }

    fn read_again(&self, request: ReadRequest) -> Option<Result<Buffer>> {
        let cached = self.cached.as_ref()?;
        // Another thread may have forgotten the block already.
        cached.cache.forget(&cached.key(request.offset, request.len)?);
        self.begin(&[request], false).wait().pop()
    }
}

impl Object {
    /// `may_be_cached`: whether the cache is asked first.
    fn begin(&self, requests: &[ReadRequest], may_be_cached: bool) -> Pending {
        let (pending, tickets) = tickets(requests.len());
        let mut waiting = vec![];
        for (request, ticket) in requests.iter().zip(tickets) {
            let cached = self.cached.as_ref().filter(|_| may_be_cached);
            let block = cached.and_then(|cached| cached.cache.get(&cached.key(request.offset, request.len)?));
            match (block, check_range(&self.label, self.len, request.offset, request.len)) {
                (_, Err(error)) => ticket.deliver(Err(error)),
                (Some(block), Ok(_)) => ticket.deliver(Ok(block)),
                (None, Ok(end)) => waiting.push((request.offset..end, ticket)),
            }
        }
        let runs = coalesced(waiting);
        let ranges: Vec<Range<u64>> = runs.iter().map(|run| run.range.clone()).collect();
        let runs: Vec<Mutex<Option<Run<Ticket>>>> = runs.into_iter().map(|run| Mutex::new(Some(run))).collect();
        let label = self.label.clone();
        let deliver = move |at: usize, read: Result<Vec<u8>>| {
            if let Some(run) = runs.get(at).and_then(|run| run.lock().take()) {
                run.deliver(&label, read);
            }
        };
        if !ranges.is_empty() {
            self.objects.read(&self.name, ranges, Box::new(deliver));
        }
        pending
    }
}

/// Ranges that are read by one request.
#[derive(Debug, PartialEq, Eq)]
struct Run<T> {
    range: Range<u64>,
    parts: Vec<(Range<u64>, T)>,
}

/// Joins ranges that are near each other.
fn coalesced<T>(mut parts: Vec<(Range<u64>, T)>) -> Vec<Run<T>> {
    parts.sort_by_key(|(range, _)| range.start);
    let mut runs: Vec<Run<T>> = vec![];
    for (range, owner) in parts {
        match runs.last_mut() {
            Some(run)
                if range.start <= run.range.end.saturating_add(GAP)
                    && range.end.max(run.range.end) - run.range.start <= REQUEST =>
            {
                run.range.end = run.range.end.max(range.end);
                run.parts.push((range, owner));
            }
            _ => runs.push(Run { range: range.clone(), parts: vec![(range, owner)] }),
        }
    }
    runs
}

impl Run<Ticket> {
    fn deliver(self, label: &str, read: Result<Vec<u8>>) {
        let wanted = self.range.end - self.range.start;
        let read = read.and_then(|bytes| match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => {
                let reason = format!("the store sent {} of {wanted} bytes", bytes.len());
                Err(MediumError::io("read", label, io::Error::new(ErrorKind::UnexpectedEof, reason)))
            }
        });
        match read {
            Ok(bytes) if self.parts.len() == 1 => {
                self.parts.into_iter().for_each(|(_, ticket)| ticket.deliver(Ok(Buffer::from(bytes.clone()))));
            }
            Ok(bytes) => {
                for (range, ticket) in self.parts {
                    let (start, end) = (range.start - self.range.start, range.end - self.range.start);
                    // A copy: a page in the cache must not keep the whole request in memory.
                    let part = bytes.get(start as usize..end as usize).unwrap_or_default().to_vec();
                    ticket.deliver(Ok(Buffer::from(part)));
                }
            }
            Err(error) => {
                let (kind, text) = (error.kind().unwrap_or(ErrorKind::Other), error.to_string());
                for (_, ticket) in self.parts {
                    let again = io::Error::new(kind, text.clone());
                    ticket.deliver(Err(MediumError::io("read", label, again)));
                }
            }
        }
    }
}

#[cfg(test)]
// Lists of ranges may have one.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(parts: &[Range<u64>]) -> Vec<Range<u64>> {
        coalesced(parts.iter().map(|part| (part.clone(), ())).collect()).into_iter().map(|run| run.range).collect()
    }

    #[test]
    fn near_ranges_are_read_together() {
        let page = 32 << 10;
        assert_eq!(ranges(&[0..page, page..2 * page]), [0..2 * page]);
        assert_eq!(ranges(&[3 * page..4 * page, 0..page]), [0..4 * page]);
        assert_eq!(ranges(&[0..page, page + GAP + 1..page + GAP + 2]).len(), 2);
        assert_eq!(ranges(&[0..REQUEST, REQUEST..REQUEST + 1]).len(), 2, "a request has a limit");
        assert_eq!(ranges(&[0..3 * REQUEST]), [0..3 * REQUEST]);
    }

    proptest! {
        #[test]
        fn every_range_is_in_one_request(parts in proptest::collection::vec((0u64..20 << 20, 1u64..100_000), 0..60)) {
            let parts: Vec<Range<u64>> = parts.into_iter().map(|(start, len)| start..start + len).collect();
            let runs = coalesced(parts.iter().cloned().zip(0..).collect());
            let mut seen: Vec<i32> = runs.iter().flat_map(|run| run.parts.iter().map(|(_, at)| *at)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..parts.len() as i32).collect::<Vec<_>>());
            for run in runs {
                prop_assert!(run.parts.iter().all(|(part, _)| run.range.start <= part.start && part.end <= run.range.end));
            }
        }
    }
}
