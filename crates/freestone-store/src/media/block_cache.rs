//! Blocks of objects on a disk of this machine, below the page cache: what was read from a bucket once need not be asked for
//! again, also by the next process.
//!
//! A block is what one read asks for: a page. Only pages whose checksum was right come here, and a page that is read back is
//! checked again by whoever reads it ([`ReadFile::keep`](super::ReadFile::keep),
//! [`ReadFile::read_again`](super::ReadFile::read_again)), so the cache has no checksums of content.
//!
//! ```text
//! <folder>/lock                       one process at a time
//! <folder>/volume-0000000000000007    blocks, one behind the other
//!
//! block   0  8 magic "FREEBLCK"     24  8 offset in the object    40  4 CRC-32C of bytes 0 to 39
//!         8 16 the object           32  4 length                  44    content
//!                                   36  4 zero
//! ```
//! Numbers are little-endian. A volume has a sixteenth of the cache, or 8 MiB. If there is no room, the oldest volume is removed,
//! with all its blocks. Nothing is synced: after a crash, what is not whole is not found, or fails its check.
//!
//! A cache never fails a read. If the disk is full or broken, blocks are not kept for some time, and
//! [`BlockCache::problem`] says why.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crc_fast::crc32_iscsi;
use parking_lot::Mutex;

use super::{Buffer, MediumError, Result};

const MAGIC: [u8; 8] = *b"FREEBLCK";
const HEADER_LEN: usize = 44;
/// The volumes of a full cache, if it is not small.
const VOLUMES: u64 = 16;
const VOLUME_LEAST: u64 = 8 << 20;
/// After the disk has refused a block, none is written for this time.
const PAUSE: Duration = Duration::from_secs(30);

/// A range of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// A number that no other object has, also none of another database.
    pub object: u128,
    /// Where it begins.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Counters since a cache was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Blocks that were found.
    pub hits: u64,
    /// Blocks that were not found.
    pub misses: u64,
    /// Blocks that were written.
    pub written: u64,
    /// Blocks that were read again from the store, because they were damaged or are checked.
    pub reread: u64,
    /// Blocks that the disk has refused.
    pub refused: u64,
    /// The bytes that the cache has now.
    pub bytes: u64,
}

/// The cache.
#[derive(Debug)]
pub struct BlockCache {
    folder: PathBuf,
    capacity: u64,
    state: Mutex<State>,
    hits: AtomicU64,
    misses: AtomicU64,
    written: AtomicU64,
    reread: AtomicU64,
    refused: AtomicU64,
    /// Locked as long as this process uses the folder.
    _lock: File,
}

#[derive(Debug, Default)]
struct State {
    index: HashMap<BlockKey, Place>,
    /// The oldest first. Only the last one is written, and only if this process has made it.
    volumes: VecDeque<Volume>,
    bytes: u64,
    next: u64,
    is_open: bool,
    /// When the disk has refused a block, and why.
    paused: Option<(Instant, String)>,
}

#[derive(Debug, Clone)]
struct Place {
    volume: u64,
    file: Arc<File>,
    offset: u64,
}

#[derive(Debug)]
struct Volume {
    number: u64,
    file: Arc<File>,
    len: u64,
    keys: Vec<BlockKey>,
}

impl BlockCache {
    /// Opens the cache in a folder, which is made if it does not exist. It takes at most `capacity` bytes there.
    ///
    /// # Errors
    /// The folder cannot be made, read or written, or another process uses it.
    pub fn open(folder: &Path, capacity: u64) -> Result<Arc<BlockCache>> {
        let failed = |action| {
            let file = folder.display().to_string();
            move |error: io::Error| MediumError::io(action, file, error)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("create"))?;
        let lock = written(&folder.join("lock"), false).map_err(failed("write"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let used =
                    io::Error::new(ErrorKind::ResourceBusy, "another process uses this cache; name another folder");
                return Err(failed("open")(used));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let mut state = State::read(folder).map_err(failed("read"))?;
        state.shrink(folder, capacity);
        let counter = AtomicU64::default;
        Ok(Arc::new(BlockCache {
            folder: folder.to_owned(),
            capacity,
            state: Mutex::new(state),
            hits: counter(),
            misses: counter(),
            written: counter(),
            reread: counter(),
            refused: counter(),
            _lock: lock,
        }))
    }

    /// The bytes of a block, which may be damaged.
    pub fn get(&self, key: &BlockKey) -> Option<Buffer> {
        let place = self.state.lock().index.get(key).cloned();
        let read = place.and_then(|place| {
            let mut bytes = vec![0; key.len as usize];
            place.file.read_exact_at(&mut bytes, place.offset).ok()?;
            Some(Buffer::from(bytes))
        });
        let counter = if read.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        read
    }

    /// Whether a block is there.
    pub fn contains(&self, key: &BlockKey) -> bool {
        self.state.lock().index.contains_key(key)
    }

    /// Keeps a block, if the disk takes it.
    pub fn put(&self, key: BlockKey, bytes: &[u8]) {
        let block_len = (HEADER_LEN + bytes.len()) as u64;
        let mut state = self.state.lock();
        let is_paused = state.paused.as_ref().is_some_and(|(since, _)| since.elapsed() < PAUSE);
        if is_paused
            || bytes.len() != key.len as usize
            || state.index.contains_key(&key)
            || block_len > self.volume_len()
        {
            return;
        }
        state.shrink(&self.folder, self.capacity.saturating_sub(block_len));
        match state.append(&self.folder, key, bytes, self.volume_len()) {
            Ok(()) => {
                state.paused = None;
                self.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                state.paused = Some((Instant::now(), error.to_string()));
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Forgets a block that is read again. Returns whether it was there.
    pub fn forget(&self, key: &BlockKey) -> bool {
        let was_there = self.state.lock().index.remove(key).is_some();
        self.reread.fetch_add(u64::from(was_there), Ordering::Relaxed);
        was_there
    }

    /// Why the disk takes no blocks at present; `None` if it does.
    pub fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        state.paused.as_ref().map(|(_, reason)| format!("{}: {reason}", self.folder.display()))
    }

    /// The counters.
    pub fn counters(&self) -> BlockCounters {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BlockCounters {
            hits: now(&self.hits),
            misses: now(&self.misses),
            written: now(&self.written),
            reread: now(&self.reread),
            refused: now(&self.refused),
            bytes: self.state.lock().bytes,
        }
    }

    fn volume_len(&self) -> u64 {
        (self.capacity / VOLUMES).max(VOLUME_LEAST).min(self.capacity / 2)
    }
}

impl State {
    /// The blocks that earlier processes have left.
    fn read(folder: &Path) -> io::Result<State> {
        let mut numbers = vec![];
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix("volume-")?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        let mut state = State { next: numbers.last().map_or(1, |last| last.saturating_add(1)), ..State::default() };
        for number in numbers {
            let file = Arc::new(File::open(path(folder, number))?);
            let mut volume = Volume { number, len: 0, keys: vec![], file };
            while let Some(key) = volume.next_block() {
                let offset = volume.len + HEADER_LEN as u64;
                let place = Place { volume: number, file: volume.file.clone(), offset };
                volume.len = offset + u64::from(key.len);
                volume.keys.push(key);
                state.index.insert(key, place);
            }
            state.bytes += volume.file.metadata()?.len();
            volume.len = volume.file.metadata()?.len();
            state.volumes.push_back(volume);
        }
        Ok(state)
    }

    /// Removes the oldest volumes until at most `most` bytes are left.
    fn shrink(&mut self, folder: &Path, most: u64) {
        while self.bytes > most {
            let Some(oldest) = self.volumes.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.len);
            self.is_open &= !self.volumes.is_empty();
            for key in &oldest.keys {
                if self.index.get(key).is_some_and(|place| place.volume == oldest.number) {
                    self.index.remove(key);
                }
            }
            // What cannot be removed is found by the next process.
            let _ = fs::remove_file(path(folder, oldest.number));
        }
    }

    /// Writes a block behind the others.
    fn append(&mut self, folder: &Path, key: BlockKey, bytes: &[u8], volume_len: u64) -> io::Result<()> {
        let is_full = |volume: &Volume| volume.len + (HEADER_LEN + bytes.len()) as u64 > volume_len;
        if !self.is_open || self.volumes.back().is_none_or(is_full) {
            let number = self.next;
            let file = Arc::new(written(&path(folder, number), true)?);
            self.next += 1;
            self.volumes.push_back(Volume { number, file, len: 0, keys: vec![] });
            self.is_open = true;
        }
        let Some(volume) = self.volumes.back_mut() else { return Ok(()) };
        let block = [header(&key).as_slice(), bytes].concat();
        if let Err(error) = volume.file.write_all_at(&block, volume.len) {
            // A part of it may be there. Its header would name bytes that are not.
            let _ = volume.file.set_len(volume.len);
            self.is_open = false;
            return Err(error);
        }
        let offset = volume.len + HEADER_LEN as u64;
        self.index.insert(key, Place { volume: volume.number, file: volume.file.clone(), offset });
        volume.keys.push(key);
        volume.len += block.len() as u64;
        self.bytes += block.len() as u64;
        Ok(())
    }
}

impl Volume {
    /// The block behind those that are known; `None` at the end, or if none can be recognized there.
    fn next_block(&self) -> Option<BlockKey> {
        let mut bytes = [0; HEADER_LEN];
        self.file.read_exact_at(&mut bytes, self.len).ok()?;
        let key = parsed(&bytes)?;
        let end = self.len + HEADER_LEN as u64 + u64::from(key.len);
        (end <= self.file.metadata().ok()?.len()).then_some(key)
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("volume-{number:016}"))
}

/// Opens a file for reading and writing, which only this user can do.
fn written(path: &Path, is_new: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(!is_new).create_new(is_new).truncate(false).mode(0o600).open(path)
}

fn header(key: &BlockKey) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(&key.object.to_le_bytes());
    bytes[24..32].copy_from_slice(&key.offset.to_le_bytes());
    bytes[32..36].copy_from_slice(&key.len.to_le_bytes());
    let crc = crc32_iscsi(&bytes[..HEADER_LEN - 4]);
    bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn parsed(bytes: &[u8; HEADER_LEN]) -> Option<BlockKey> {
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().rev().fold(0u128, |number, byte| number << 8 | u128::from(*byte))
    };
    let key = BlockKey { object: number(8..24), offset: number(24..32) as u64, len: number(32..36) as u32 };
    (header(&key) == *bytes).then_some(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LEN: usize = 1000;

    fn key(object: u128, block: u64) -> BlockKey {
        BlockKey { object, offset: block * LEN as u64, len: LEN as u32 }
    }

    fn content(key: BlockKey) -> Vec<u8> {
        vec![(key.object as u8) ^ (key.offset / LEN as u64) as u8; LEN]
    }

    fn open(folder: &Path, capacity: u64) -> Arc<BlockCache> {
        BlockCache::open(folder, capacity).unwrap()
    }

    fn put(cache: &BlockCache, key: BlockKey) {
        cache.put(key, &content(key));
    }

    fn check(cache: &BlockCache, key: BlockKey) -> bool {
        let found = cache.get(&key);
        if let Some(bytes) = &found {
            assert_eq!(bytes[..], content(key)[..]);
        }
        found.is_some()
    }

    #[test]
    fn blocks_are_found_again_also_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 1 << 20);
        let keys: Vec<BlockKey> = (0..100).map(|at| key(u128::from(at % 3), at)).collect();
        keys.iter().for_each(|key| put(&cache, *key));
        assert!(keys.iter().all(|key| check(&cache, *key)));
        assert!(!check(&cache, key(7, 0)) && !check(&cache, BlockKey { len: 999, ..key(0, 0) }));
        let counters = cache.counters();
        assert_eq!((counters.hits, counters.misses, counters.written, counters.refused), (100, 2, 100, 0));
        assert_eq!(counters.bytes, 100 * (LEN + HEADER_LEN) as u64);
        let used = BlockCache::open(folder.path(), 1 << 20).unwrap_err().to_string();
        assert!(used.contains("another process uses this cache"), "{used}");
        drop(cache);
        let again = open(folder.path(), 1 << 20);
        assert!(keys.iter().all(|key| check(&again, *key)));
        let mode = fs::metadata(path(folder.path(), 1)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_blocks_make_room_and_the_bound_holds() {
        let folder = tempfile::tempdir().unwrap();
        let capacity = 64 * 1024;
        let cache = open(folder.path(), capacity);
        for at in 0..500 {
            put(&cache, key(1, at));
            assert!(cache.counters().bytes <= capacity);
            assert!(check(&cache, key(1, at)), "{at}");
        }
        assert!(!check(&cache, key(1, 0)) && check(&cache, key(1, 470)));
        let on_disk: u64 =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(on_disk, cache.counters().bytes);
        drop(cache);
        // A smaller one keeps the newest.
        let smaller = open(folder.path(), capacity / 4);
        assert!(smaller.counters().bytes <= capacity / 4);
        assert!(check(&smaller, key(1, 499)) && !check(&smaller, key(1, 470)));
        // Blocks that are too large are not kept.
        let large = BlockKey { object: 9, offset: 0, len: 60_000 };
        smaller.put(large, &vec![0; 60_000]);
        assert!(!smaller.contains(&large));
    }

    #[test]
    fn damaged_volumes_end_before_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 1 << 20);
        (0..10).for_each(|at| put(&cache, key(1, at)));
        drop(cache);
        let volume = path(folder.path(), 1);
        let mut bytes = fs::read(&volume).unwrap();
        // The header of the sixth block, and an end that is cut off.
        bytes[5 * (LEN + HEADER_LEN) + 26] ^= 1;
        fs::write(&volume, &bytes).unwrap();
        fs::write(path(folder.path(), 2), &bytes[..LEN]).unwrap();
        fs::write(folder.path().join("volume-x"), b"nothing of ours").unwrap();
        let again = open(folder.path(), 1 << 20);
        let found: Vec<bool> = (0..10).map(|at| check(&again, key(1, at))).collect();
        assert_eq!(found, [true, true, true, true, true, false, false, false, false, false]);
        put(&again, key(1, 5));
        assert!(check(&again, key(1, 5)));
        assert!(again.forget(&key(1, 5)) && !again.forget(&key(1, 5)) && !check(&again, key(1, 5)));
        assert_eq!(again.counters().reread, 1);
    }

    #[test]
    fn a_disk_that_refuses_fails_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 1 << 20);
        put(&cache, key(1, 0));
        // The next volume cannot be made, whoever runs this.
        cache.state.lock().is_open = false;
        fs::create_dir(path(folder.path(), 2)).unwrap();
        put(&cache, key(1, 1));
        assert!(check(&cache, key(1, 0)) && !check(&cache, key(1, 1)));
        // For some time, nothing is tried.
        fs::remove_dir(path(folder.path(), 2)).unwrap();
        put(&cache, key(1, 2));
        assert_eq!((cache.counters().refused, cache.contains(&key(1, 2))), (1, false));
        assert!(cache.problem().is_some_and(|problem| problem.contains("exists")));
        cache.state.lock().paused = None;
        put(&cache, key(1, 2));
        assert!(check(&cache, key(1, 2)) && cache.problem().is_none());
    }
}
