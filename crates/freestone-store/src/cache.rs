//! The page cache: pages that were read, in parsed form, with a fixed limit of bytes.
//!
//! The cache is divided into shards by hash, so that threads seldom wait for each other. Each shard evicts by a clock:
//! a hit marks its page; the hand moves over the ring of pages, clears the marks and evicts the first page without one.
//! A new page has no mark, so a long scan does not evict pages that are used repeatedly.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

/// An entry of a cache. Its memory is recycled as soon as neither the cache nor a caller references it.
pub trait Cached {
    /// Bytes of the page in its file.
    fn page_bytes(&self) -> usize;

    /// Bytes of memory that it occupies.
    fn footprint(&self) -> usize;
}

/// The page of a file. The caller assigns file ids, which must never name two files during the life of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The id of the file.
    pub file: u64,
    /// The index of the page in the file.
    pub page: u32,
}

/// A set of pages with a limit of bytes. The bytes held by the cache never exceed the capacity. Evicted pages that
/// callers still reference are not counted.
pub struct PageCache<P> {
    shards: Vec<Mutex<Shard<P>>>,
    shard_capacity: usize,
}

/// Counters since the cache was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Pages that were found.
    pub hits: u64,
    /// Pages that were not found.
    pub misses: u64,
    /// Pages that were read from the medium and inserted.
    pub pages_read: u64,
    /// The bytes of these pages.
    pub bytes_read: u64,
    /// Pages that were removed for others.
    pub evictions: u64,
}

/// A smaller shard could not contain several pages of the largest size.
const SMALLEST_SHARD_BYTES: usize = 4 << 20;
const MOST_SHARDS: usize = 16;

impl<P: Cached> PageCache<P> {
    /// A cache of at most `capacity_bytes`. With 0, it is always empty and every `get` misses.
    pub fn new(capacity_bytes: usize) -> Self {
        let wanted = (capacity_bytes / SMALLEST_SHARD_BYTES).clamp(1, MOST_SHARDS);
        let count = 1 << wanted.ilog2();
        let shards = (0..count).map(|_| Mutex::new(Shard::default())).collect();
        PageCache { shards, shard_capacity: capacity_bytes / count }
    }

    /// The page, if the cache contains it.
    pub fn get(&self, key: PageKey) -> Option<Arc<P>> {
        self.shard(key).lock().get(key)
    }

    /// Whether the cache contains the page. This does not count as a use.
    pub fn contains(&self, key: PageKey) -> bool {
        self.shard(key).lock().places.contains_key(&key)
    }

    /// Inserts a page that was read. Returns it, or the one that another thread has inserted meanwhile.
    pub fn insert(&self, key: PageKey, page: P) -> Arc<P> {
        let page = Arc::new(page);
        // Evicted pages are dropped after the shard is unlocked, because freeing memory takes another lock.
        let (page, _evicted) = self.shard(key).lock().insert(key, page, self.shard_capacity);
        page
    }

    /// Removes all pages of a file that no longer exists.
    pub fn invalidate_file(&self, file: u64) {
        for shard in &self.shards {
            let _dropped = shard.lock().remove_file(file);
        }
    }

    /// The bytes in the cache now.
    pub fn bytes_held(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// The limit of bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.shard_capacity * self.shards.len()
    }

    /// The counters of all shards, summed up.
    pub fn counters(&self) -> CacheCounters {
        let mut sum = CacheCounters::default();
        for shard in &self.shards {
            let counters = shard.lock().counters;
            sum.hits += counters.hits;
            sum.misses += counters.misses;
            sum.pages_read += counters.pages_read;
            sum.bytes_read += counters.bytes_read;
            sum.evictions += counters.evictions;
        }
        sum
    }

    fn shard(&self, key: PageKey) -> &Mutex<Shard<P>> {
        // The map within a shard uses the low bits of the hash first, so the choice of a shard uses the high ones.
        let hash = hash_of(key) >> 32;
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }
}

impl<P: Cached> fmt::Debug for PageCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageCache({} of {} bytes)", self.bytes_held(), self.capacity_bytes())
    }
}

struct Shard<P> {
    /// The position of a page in `ring`.
    places: HashMap<PageKey, usize, BuildHasherDefault<KeyHasher>>,
    ring: Vec<Option<Entry<P>>>,
    /// Free positions in `ring`. A new page takes the position of a removed one, behind the hand.
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    counters: CacheCounters,
}

struct Entry<P> {
    key: PageKey,
    page: Arc<P>,
    footprint: usize,
    marked: bool,
}

impl<P> Default for Shard<P> {
    fn default() -> Self {
        let (places, counters) = (HashMap::default(), CacheCounters::default());
        Shard { places, ring: vec![], free: vec![], hand: 0, bytes: 0, counters }
    }
}

impl<P: Cached> Shard<P> {
    fn get(&mut self, key: PageKey) -> Option<Arc<P>> {
        let page = self.places.get(&key).and_then(|place| self.ring[*place].as_mut()).map(|entry| {
            entry.marked = true;
            entry.page.clone()
        });
        match &page {
            Some(_) => self.counters.hits += 1,
            None => self.counters.misses += 1,
        }
        page
    }

    fn insert(&mut self, key: PageKey, page: Arc<P>, capacity: usize) -> (Arc<P>, Vec<Entry<P>>) {
        self.counters.pages_read += 1;
        self.counters.bytes_read += page.page_bytes() as u64;
        let mut evicted = Vec::new();
        if let Some(present) = self.places.get(&key).and_then(|place| self.ring[*place].as_ref()) {
            return (present.page.clone(), evicted);
        }
        let footprint = page.footprint();
        if footprint > capacity {
            return (page, evicted);
        }
        while self.bytes + footprint > capacity {
            let Some(entry) = self.evict() else { break };
            evicted.push(entry);
        }
        self.bytes += footprint;
        let entry = Some(Entry { key, page: page.clone(), footprint, marked: false });
        let place = self.free.pop().unwrap_or(self.ring.len());
        match self.ring.get_mut(place) {
            Some(free) => *free = entry,
            None => self.ring.push(entry),
        }
        self.places.insert(key, place);
        (page, evicted)
    }

    /// Removes the first page without a mark that the hand meets. It prefers pages that no caller references, since
    /// evicting others frees no memory. Two rounds find a page if there is one, because the first round clears all
    /// marks.
    fn evict(&mut self) -> Option<Entry<P>> {
        let mut in_use = None;
        for _ in 0..2 * self.ring.len() {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            match &mut self.ring[place] {
                None => {}
                Some(entry) if entry.marked => entry.marked = false,
                Some(entry) if Arc::strong_count(&entry.page) > 1 => in_use = in_use.or(Some(place)),
                Some(_) => return self.remove(place),
            }
        }
        in_use.and_then(|place| self.remove(place))
    }

    fn remove(&mut self, place: usize) -> Option<Entry<P>> {
        let entry = self.ring[place].take()?;
        self.places.remove(&entry.key);
        self.free.push(place);
        self.bytes -= entry.footprint;
        self.counters.evictions += 1;
        Some(entry)
    }

    fn remove_file(&mut self, file: u64) -> Vec<Entry<P>> {
        let is_of_file = |entry: &Option<Entry<P>>| entry.as_ref().is_some_and(|entry| entry.key.file == file);
        let places: Vec<usize> = (0..self.ring.len()).filter(|place| is_of_file(&self.ring[*place])).collect();
        let removed: Vec<Entry<P>> = places.into_iter().filter_map(|place| self.remove(place)).collect();
        self.counters.evictions -= removed.len() as u64;
        removed
    }
}

/// Hashes a key by multiplication. Keys are our own, so no protection against deliberate collisions is needed.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0.rotate_left(23) ^ value ^ 0xf39c_c060_5ced_c835) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

fn hash_of(key: PageKey) -> u64 {
    let mut hasher = KeyHasher::default();
    std::hash::Hash::hash(&key, &mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::media::{Buffer, BufferPool};

    impl Cached for Buffer {
        fn page_bytes(&self) -> usize {
            self.len()
        }

        fn footprint(&self) -> usize {
            self.footprint()
        }
    }

    const PAGE: usize = 32 << 10;

    fn key(file: u64, page: u32) -> PageKey {
        PageKey { file, page }
    }

    fn content(key: PageKey) -> Vec<u8> {
        let seed = key.file as u8 ^ key.page as u8;
        vec![seed; PAGE]
    }

    /// Loads a page through the cache, checks its content, and returns whether it had to be read.
    fn check(cache: &PageCache<Buffer>, pool: &Arc<BufferPool>, key: PageKey) -> bool {
        let mut loaded = false;
        let page = cache.get(key).unwrap_or_else(|| {
            loaded = true;
            cache.insert(key, pool.copy_of(&content(key)))
        });
        assert_eq!(page[..], content(key)[..], "{key:?}");
        assert!(cache.bytes_held() <= cache.capacity_bytes());
        loaded
    }

    #[test]
    fn hits_misses_and_bytes_are_counted() {
        let (cache, pool) = (PageCache::new(10 * PAGE), BufferPool::new(1 << 20));
        assert!(check(&cache, &pool, key(1, 0)));
        assert!(!check(&cache, &pool, key(1, 0)));
        assert!(check(&cache, &pool, key(2, 0)));
        let expected = CacheCounters { hits: 1, misses: 2, pages_read: 2, bytes_read: 2 * PAGE as u64, evictions: 0 };
        assert_eq!(cache.counters(), expected);
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used() {
        let (cache, pool) = (PageCache::new(10 * PAGE), BufferPool::new(1 << 20));
        for page in 0..1000 {
            check(&cache, &pool, key(1, page));
            if page > 0 {
                assert!(!check(&cache, &pool, key(2, 7)) || page == 1, "page {page}");
            }
        }
        assert_eq!(cache.bytes_held(), 10 * PAGE);
        assert!(cache.get(key(1, 999)).is_some(), "the newest page stays longest");
        assert!(cache.get(key(1, 0)).is_none());
        assert!(pool.free_bytes() <= 2 * PAGE, "evicted pages are used for new ones");
    }

    #[test]
    fn held_pages_survive_eviction_and_the_bound_holds() {
        let (cache, pool) = (PageCache::new(4 * PAGE), BufferPool::new(1 << 20));
        let held: Vec<_> =
            (0..8).map(|page| cache.insert(key(1, page), pool.copy_of(&content(key(1, page))))).collect();
        assert_eq!(cache.bytes_held(), 4 * PAGE);
        for (page, bytes) in held.iter().enumerate() {
            assert_eq!(bytes[..], content(key(1, page as u32))[..]);
        }
    }

    #[test]
    fn too_small_a_cache_still_answers() {
        let (cache, pool) = (PageCache::new(PAGE - 1), BufferPool::new(0));
        assert!(check(&cache, &pool, key(1, 0)));
        assert!(check(&cache, &pool, key(1, 0)));
        assert_eq!(cache.bytes_held(), 0);
    }

    #[test]
    fn a_file_is_forgotten_alone() {
        let (cache, pool) = (PageCache::new(64 << 20), BufferPool::new(1 << 20));
        for page in 0..100 {
            check(&cache, &pool, key(1, page));
            check(&cache, &pool, key(2, page));
        }
        cache.invalidate_file(1);
        assert_eq!(cache.bytes_held(), 100 * PAGE);
        assert!(cache.get(key(1, 5)).is_none());
        assert!(cache.get(key(2, 5)).is_some());
        assert_eq!(cache.counters().evictions, 0);
    }

    #[test]
    fn threads_share_a_small_cache() {
        let (cache, pool) = (&PageCache::new(16 * PAGE), &BufferPool::new(1 << 20));
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    (0..2000).for_each(|step| {
                        check(cache, pool, key(1, step * (thread + 1) % 37));
                    })
                });
            }
        });
        let counters = cache.counters();
        assert_eq!(counters.hits + counters.misses, 8000);
    }

    proptest! {
        #[test]
        fn any_sequence_keeps_bound_and_content(
            pages in 1usize..40,
            steps in proptest::collection::vec((0u64..3, 0u32..30, 0u8..20), 0..200),
        ) {
            let (cache, pool) = (PageCache::new(pages * PAGE), BufferPool::new(1 << 20));
            for (file, page, action) in steps {
                if action == 0 {
                    cache.invalidate_file(file);
                    prop_assert!(cache.get(key(file, page)).is_none());
                } else {
                    check(&cache, &pool, key(file, page));
                    prop_assert!(cache.get(key(file, page)).is_some());
                }
            }
        }
    }

    /// Run with `cargo test --release -- --ignored --nocapture hit_cost`.
    #[test]
    #[ignore = "prints a measurement"]
    fn hit_cost() {
        let (cache, pool) = (PageCache::new(256 << 20), BufferPool::new(0));
        for page in 0..4000 {
            check(&cache, &pool, key(1, page));
        }
        let start = std::time::Instant::now();
        let mut bytes = 0;
        for step in 0..4_000_000u32 {
            bytes += cache.get(key(1, step.wrapping_mul(2_654_435_761) % 4000)).map_or(0, |page| page.len());
        }
        println!("{:.1} ns a hit, {bytes} bytes", start.elapsed().as_secs_f64() * 1e9 / 4e6);
    }
}
