//! A region in the memory of this process: for tables in memory, comparisons, and the contents after crashes.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LINE_BYTES, Line, Persistence, Region, Site, store_word};
use crate::media::{MediumError, Result};

/// Lines in memory, with room to grow. Flushes and fences have no effect.
#[derive(Debug)]
pub struct MemoryRegion {
    lines: Vec<Line>,
    used: AtomicUsize,
    place: String,
}

impl MemoryRegion {
    /// `len` zeros, which can grow to `capacity` bytes.
    pub fn new(len: u64, capacity: u64) -> MemoryRegion {
        let count = |bytes: u64| bytes.div_ceil(LINE_BYTES) as usize;
        let lines = (0..count(capacity.max(len))).map(|_| Line::default()).collect();
        MemoryRegion { lines, used: AtomicUsize::new(count(len)), place: ":memory:".into() }
    }

    /// The same, named after the file of which it is a copy.
    pub fn copy_of(self, place: String) -> MemoryRegion {
        MemoryRegion { place, ..self }
    }

    /// A region with this content, which can grow to `capacity` bytes.
    pub fn of_words(words: &[u64], capacity: u64) -> MemoryRegion {
        let region = MemoryRegion::new(words.len() as u64 * 8, capacity);
        for (at, word) in words.iter().enumerate() {
            region.store(at as u64 * 8, *word);
        }
        region
    }
}

impl Region for MemoryRegion {
    fn lines(&self) -> &[Line] {
        &self.lines[..self.used.load(Ordering::Acquire)]
    }

    fn store(&self, offset: u64, value: u64) {
        store_word(self.lines(), offset, value);
    }

    fn write_back(&self, _: Range<u64>, _: Site) {}

    fn order(&self, _: Site) {}

    fn grow(&self, len: u64) -> Result<()> {
        let count = (len / LINE_BYTES) as usize;
        if count > self.lines.len() {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(MediumError::io("extend", self.place(), full));
        }
        self.used.fetch_max(count, Ordering::AcqRel);
        Ok(())
    }

    fn persistence(&self) -> Persistence {
        Persistence::Volatile
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}
