//! The hybrid hash join (Shapiro 1986, as Holloway and DeWitt 2008 ran it, section 6.9).
//!
//! Both sides are divided into buckets by the hash of the key. The inner side's tuples go to bucket pages. When these and their
//! links exceed the memory, the last bucket that is wholly in memory is written to a file, and so are its further tuples. The
//! outer side's tuples look for partners if their bucket is in memory; the others are written, too. The pairs of files are then
//! joined one after another in the same way, with another hash. A file that another hash does not divide, such as one of equal
//! keys, is joined in pieces that fit the memory, each with all of its outer tuples.
//!
//! Memory is that of bucket pages and links. Reads ahead and the block of results come on top, as with the scans.

use std::hint::black_box;

use super::bucket::{Resident, Shape, hash, share};
use super::spill::{SpillFolder, Spilled};
use crate::error::{LabError, Result};

/// The fewest pages of memory: two buckets, whose pages being filled take half of it, or a page with its links.
const PAGES_MIN: usize = 4;
/// Enough that few tuples are written if little memory is missing.
const BUCKETS_MIN: usize = 8;
/// Each bucket has up to two open files, at each level.
const BUCKETS_MAX: usize = 32;
/// The number of times that tuples are partitioned at most.
const LEVELS_MAX: u32 = 8;

/// A join: its sides, and its resources.
pub struct HybridJoin {
    inner: Shape,
    outer: Shape,
    memory: usize,
    folder: SpillFolder,
}

/// The results, in blocks that the caller takes.
pub struct Output<'t> {
    tuples: Vec<u8>,
    in_block: usize,
    block_rows: usize,
    count: u64,
    take: &'t mut dyn FnMut(&[u8]),
}

impl<'t> Output<'t> {
    /// Each result is the outer tuple and the inner one behind it.
    pub fn new(block_rows: usize, take: &'t mut dyn FnMut(&[u8])) -> Output<'t> {
        Output { tuples: vec![], in_block: 0, block_rows, count: 0, take }
    }

    #[inline(always)]
    fn push(&mut self, outer: &[u8], inner: &[u8]) {
        self.tuples.extend_from_slice(outer);
        self.tuples.extend_from_slice(inner);
        self.in_block += 1;
        if self.in_block == self.block_rows {
            self.flush();
        }
    }

    fn flush(&mut self) {
        (self.take)(black_box(&self.tuples));
        self.tuples.clear();
        self.count += self.in_block as u64;
        self.in_block = 0;
    }

    /// Passes on the last block. Returns the number of results.
    pub fn end(mut self) -> u64 {
        self.flush();
        self.count
    }
}

impl HybridJoin {
    /// A join with this many bytes of memory.
    ///
    /// # Errors
    /// A tuple has no key or does not fit a page, or the memory has fewer than four pages.
    pub fn new(inner: Shape, outer: Shape, memory: usize, folder: SpillFolder) -> Result<HybridJoin> {
        for shape in [inner, outer] {
            if shape.key_at + 4 > shape.width || shape.width > shape.page_bytes {
                let Shape { width, key_at, page_bytes } = shape;
                return Err(LabError::Usage(format!(
                    "a join's tuples of {width} bytes must have their key of 4 bytes at {key_at} within them, and fit a page of \
                     {page_bytes} bytes"
                )));
            }
        }
        let least = PAGES_MIN * inner.page_bytes.max(outer.page_bytes);
        if memory < least {
            return Err(LabError::Usage(format!("a join needs {least} bytes of memory at least, and has {memory}")));
        }
        Ok(HybridJoin { inner, outer, memory, folder })
    }

    /// Begins with an inner side of about this many tuples.
    pub fn build(&self, inner_tuples: u64) -> Build<'_> {
        let needed = self.inner.memory(inner_tuples);
        let buckets = needed.saturating_mul(2).div_ceil(self.memory as u64);
        self.level(0, (buckets as usize).max(BUCKETS_MIN))
    }

    /// The bytes that were written to files.
    pub fn spilled_bytes(&self) -> u64 {
        self.folder.bytes()
    }

    fn level(&self, level: u32, buckets: usize) -> Build<'_> {
        // The pages being filled of buckets in files take half of the memory at most.
        let pages = self.memory / 2 / self.inner.page_bytes.max(self.outer.page_bytes);
        let buckets = buckets.min(BUCKETS_MAX).min(pages).max(1);
        let new = |_| Inner::Resident(Resident::new(self.inner, level));
        Build { join: self, level, used: 0, tuples: 0, buckets: (0..buckets).map(new).collect() }
    }

    /// Joins a bucket's files. `parent` is the number of inner tuples of which they are a part.
    fn join_files(&self, level: u32, parent: u64, files: &Pair<'_>, output: &mut Output<'_>) -> Result<()> {
        let tuples = files.inner.tuples();
        let fits = self.inner.memory(tuples) <= self.memory as u64;
        let is_divided = level < LEVELS_MAX && tuples <= parent / 4 * 3;
        if !fits && !is_divided {
            return self.join_in_pieces(level, files, output);
        }
        let buckets = self.inner.memory(tuples).saturating_mul(2).div_ceil(self.memory as u64);
        let mut build = self.level(level, if fits { 1 } else { (buckets as usize).max(2) });
        let mut pages = files.inner.pages();
        while let Some(page) = pages.next()? {
            build.insert(page)?;
        }
        let mut probe = build.probe()?;
        let mut pages = files.outer.pages();
        while let Some(page) = pages.next()? {
            probe.probe(page, output)?;
        }
        probe.finish(output)
    }

    /// As many inner tuples at once as the memory has room for, and all outer ones for each such piece.
    fn join_in_pieces(&self, level: u32, files: &Pair<'_>, output: &mut Output<'_>) -> Result<()> {
        let mut inner = files.inner.pages();
        let mut is_open = true;
        while is_open {
            let mut piece = Resident::new(self.inner, level);
            while piece.memory() + self.inner.page_memory() <= self.memory && piece.add_page() {
                let Some(page) = inner.next()? else {
                    is_open = false;
                    break;
                };
                page.chunks_exact(self.inner.width).for_each(|tuple| _ = piece.push(tuple));
            }
            if piece.pages().all(<[u8]>::is_empty) {
                break;
            }
            piece.link();
            let mut outer = files.outer.pages();
            while let Some(page) = outer.next()? {
                for tuple in page.chunks_exact(self.outer.width) {
                    let key = self.outer.key(tuple);
                    piece.find(key, hash(key, level), |partner| output.push(tuple, partner));
                }
            }
        }
        Ok(())
    }
}

/// The inner tuples of a bucket.
enum Inner<'j> {
    Resident(Resident),
    Spilled(Spilled<'j>),
}

/// A join that takes its inner side.
pub struct Build<'j> {
    join: &'j HybridJoin,
    level: u32,
    buckets: Vec<Inner<'j>>,
    /// The bytes of pages and links.
    pub(super) used: usize,
    tuples: u64,
}

impl<'j> Build<'j> {
    /// Adds a block of inner tuples.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn insert(&mut self, tuples: &[u8]) -> Result<()> {
        let shape = self.join.inner;
        for tuple in tuples.chunks_exact(shape.width) {
            let bucket = share((hash(shape.key(tuple), self.level) >> 32) as u32, self.buckets.len());
            let has_room = match &mut self.buckets[bucket] {
                Inner::Resident(resident) => resident.push(tuple),
                Inner::Spilled(_) => false,
            };
            if !has_room {
                self.insert_on_new_page(bucket, tuple)?;
            }
        }
        self.tuples += (tuples.len() / shape.width) as u64;
        Ok(())
    }

    fn insert_on_new_page(&mut self, bucket: usize, tuple: &[u8]) -> Result<()> {
        let bytes = self.join.inner.page_memory();
        loop {
            match &mut self.buckets[bucket] {
                Inner::Spilled(spilled) => return spilled.push(tuple),
                Inner::Resident(resident) => {
                    if self.used + bytes <= self.join.memory && resident.add_page() {
                        self.used += bytes;
                        resident.push(tuple);
                        return Ok(());
                    }
                }
            }
            self.spill_last(bucket)?;
        }
    }

    /// Writes the last bucket that has pages in memory, or else `asked`, which has none yet.
    fn spill_last(&mut self, asked: usize) -> Result<()> {
        let has_pages = |bucket: &Inner<'_>| matches!(bucket, Inner::Resident(resident) if resident.memory() > 0);
        let at = self.buckets.iter().rposition(has_pages).unwrap_or(asked);
        let mut spilled = Spilled::new(&self.join.folder, self.join.inner);
        if let Inner::Resident(resident) = &self.buckets[at] {
            for tuple in resident.pages().flat_map(|page| page.chunks_exact(self.join.inner.width)) {
                spilled.push(tuple)?;
            }
            // What is left of it in memory is the page being filled.
            self.used = self.used + self.join.inner.page_bytes - resident.memory();
        }
        self.buckets[at] = Inner::Spilled(spilled);
        Ok(())
    }

    /// Ends the inner side.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn probe(self) -> Result<Probe<'j>> {
        let join = self.join;
        let bucket = |bucket: Inner<'j>| match bucket {
            Inner::Resident(mut resident) => {
                resident.link();
                Ok(Bucket::Resident(resident))
            }
            Inner::Spilled(mut inner) => {
                inner.end()?;
                Ok(Bucket::Spilled(Pair { inner, outer: Spilled::new(&join.folder, join.outer) }))
            }
        };
        let buckets = self.buckets.into_iter().map(bucket).collect::<Result<_>>()?;
        Ok(Probe { join, level: self.level, inner_tuples: self.tuples, buckets })
    }
}

/// Both sides of a bucket that is not in memory.
struct Pair<'j> {
    inner: Spilled<'j>,
    outer: Spilled<'j>,
}

enum Bucket<'j> {
    Resident(Resident),
    Spilled(Pair<'j>),
}

/// A join that takes its outer side.
pub struct Probe<'j> {
    join: &'j HybridJoin,
    level: u32,
    inner_tuples: u64,
    buckets: Vec<Bucket<'j>>,
}

impl Probe<'_> {
    /// Joins a block of outer tuples, or writes those whose bucket is not in memory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn probe(&mut self, tuples: &[u8], output: &mut Output<'_>) -> Result<()> {
        let shape = self.join.outer;
        for tuple in tuples.chunks_exact(shape.width) {
            let key = shape.key(tuple);
            let hash = hash(key, self.level);
            let bucket = share((hash >> 32) as u32, self.buckets.len());
            match &mut self.buckets[bucket] {
                Bucket::Resident(resident) => resident.find(key, hash, |partner| output.push(tuple, partner)),
                Bucket::Spilled(pair) if pair.inner.tuples() > 0 => pair.outer.push(tuple)?,
                Bucket::Spilled(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the outer side, and joins what is in files.
    ///
    /// # Errors
    /// A file cannot be written or read.
    pub fn finish(self, output: &mut Output<'_>) -> Result<()> {
        let pairs = self.buckets.into_iter().filter_map(|bucket| match bucket {
            Bucket::Resident(_) => None,
            Bucket::Spilled(pair) => Some(pair),
        });
        // The buckets that were in memory give it back before others take it.
        let mut pairs: Vec<Pair<'_>> = pairs.collect();
        pairs.iter_mut().try_for_each(|pair| pair.outer.end())?;
        for pair in pairs.iter().filter(|pair| pair.outer.tuples() > 0) {
            self.join.join_files(self.level + 1, self.inner_tuples, pair, output)?;
        }
        Ok(())
    }
}
