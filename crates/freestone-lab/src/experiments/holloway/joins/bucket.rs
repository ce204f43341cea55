//! Bucket pages in memory, and the chains that find their tuples by key.

/// The form of a side's tuples: fixed width, with an integer of 32 bits as the key.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The bytes of a tuple.
    pub width: usize,
    /// The byte at which its key begins.
    pub key_at: usize,
    /// The bytes of a page.
    pub page_bytes: usize,
}

/// The bytes of links for each tuple of a bucket in memory: the head of a chain, and the next tuple of one.
pub const LINK_BYTES: usize = 8;

impl Shape {
    /// The number of tuples that fit a page.
    pub fn per_page(self) -> usize {
        self.page_bytes / self.width
    }

    /// The bytes of memory of a page of tuples and their links.
    pub fn page_memory(self) -> usize {
        self.page_bytes + LINK_BYTES * self.per_page()
    }

    /// The bytes of memory of so many tuples in one bucket.
    pub fn memory(self, tuples: u64) -> u64 {
        tuples.div_ceil(self.per_page() as u64).saturating_mul(self.page_memory() as u64)
    }

    #[inline(always)]
    pub fn key(self, tuple: &[u8]) -> i32 {
        let bytes = tuple[self.key_at..self.key_at + 4].try_into();
        i32::from_le_bytes(bytes.expect("a slice of four bytes"))
    }
}

/// A hash of a key. Levels of a join that partitions again have hashes that say nothing about each other's.
#[inline(always)]
pub fn hash(key: i32, level: u32) -> u64 {
    // SplitMix64's finalizer (Steele, Lea and Flood 2014).
    let mut bits = u64::from(key as u32) | u64::from(level + 1) << 32;
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// The number below `count` that a hash of 32 bits falls to.
#[inline(always)]
pub fn share(hash: u32, count: usize) -> usize {
    ((u64::from(hash) * count as u64) >> 32) as usize
}

/// The tuples of a bucket that is wholly in memory.
pub struct Resident {
    shape: Shape,
    pages: Vec<Page>,
    /// The bits of a tuple's number on its page, in its address.
    page_bits: u32,
    /// By hash, the address of the first tuple plus 1; 0 is none.
    heads: Vec<u32>,
    level: u32,
}

#[derive(Default)]
struct Page {
    tuples: Vec<u8>,
    /// By tuple, the address of the next one of its chain plus 1.
    next: Vec<u32>,
}

impl Resident {
    pub fn new(shape: Shape, level: u32) -> Resident {
        let page_bits = shape.per_page().next_power_of_two().trailing_zeros();
        Resident { shape, pages: vec![], page_bits, heads: vec![], level }
    }

    /// Appends a tuple. False if the last page is full.
    #[inline(always)]
    pub fn push(&mut self, tuple: &[u8]) -> bool {
        let has_room = |page: &&mut Page| page.tuples.len() + tuple.len() <= self.shape.page_bytes;
        let Some(page) = self.pages.last_mut().filter(has_room) else { return false };
        page.tuples.extend_from_slice(tuple);
        true
    }

    /// Begins a page. False if there are as many as addresses can tell apart.
    pub fn add_page(&mut self) -> bool {
        let page = Page { tuples: Vec::with_capacity(self.shape.page_bytes), next: vec![] };
        let has_addresses = self.pages.len() + 1 < 1 << (u32::BITS - self.page_bits);
        if has_addresses {
            self.pages.push(page);
        }
        has_addresses
    }

    /// The bytes of memory of the pages and links.
    pub fn memory(&self) -> usize {
        self.pages.len() * self.shape.page_memory()
    }

    /// The tuples of each page.
    pub fn pages(&self) -> impl Iterator<Item = &[u8]> {
        self.pages.iter().map(|page| page.tuples.as_slice())
    }

    /// Links the tuples to chains, after the last one.
    pub fn link(&mut self) {
        let width = self.shape.width;
        let count = self.pages.iter().map(|page| page.tuples.len() / width).sum();
        self.heads = vec![0; count];
        for (at, page) in self.pages.iter_mut().enumerate() {
            page.next.reserve_exact(self.shape.per_page());
            for (slot, tuple) in page.tuples.chunks_exact(width).enumerate() {
                let chain = share(hash(self.shape.key(tuple), self.level) as u32, count);
                let address = (at << self.page_bits | slot) as u32 + 1;
                page.next.push(std::mem::replace(&mut self.heads[chain], address));
            }
        }
    }

    /// Passes every tuple with this key, whose hash it is, to `take`.
    #[inline(always)]
    pub fn find(&self, key: i32, hash: u64, mut take: impl FnMut(&[u8])) {
        let Some(mut address) = self.heads.get(share(hash as u32, self.heads.len())).copied() else { return };
        while address > 0 {
            let (at, slot) = ((address - 1) >> self.page_bits, (address - 1) & ((1 << self.page_bits) - 1));
            let page = &self.pages[at as usize];
            let from = slot as usize * self.shape.width;
            let tuple = &page.tuples[from..from + self.shape.width];
            if self.shape.key(tuple) == key {
                take(tuple);
            }
            address = page.next[slot as usize];
        }
    }
}
