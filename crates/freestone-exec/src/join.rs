//! Hash joins.
//!
//! The rows of the build side stay where their threads have put them. A directory has the first row of each bucket, with
//! tags that tell which hashes a bucket has (Leis, Boncz, Kemper and Neumann, "Morsel-Driven Parallelism", SIGMOD 2014,
//! section 4.2). Rows of one bucket are chained; without equal keys and collisions there is no chain. Where the keys are
//! integers in a small range, a bucket is a key.

use std::any::Any;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arrow_buffer::{BooleanBuffer, NullBuffer};
use freestone_codec::hash::hash_i64;
use parking_lot::Mutex;

use crate::error::Result;
use crate::hash::hash_rows;
use crate::pipeline::{
    Claim, Context, Progress, Sink, SinkWorker, Source, SourceWorker, Step, StepWorker, Take, check,
};
use crate::program::{Evaluator, Program};
use crate::ranges::Ranges;
use crate::ranked::RankedKeys;
use crate::rows::{Field, FrozenRows, Layout, RowParts, Rows};
use crate::vector::{Batch, Dictionary, Form, Values, Vector, positions};

/// Which rows a join returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pairs.
    Inner,
    /// Pairs, and rows of the build side without one.
    BuildOuter,
    /// Pairs, and rows of the probe side without one.
    ProbeOuter,
    /// Pairs, and rows of both sides without one.
    Full,
    /// Rows of the build side that have a pair.
    BuildSemi,
    /// Rows of the build side that have none.
    BuildAnti,
    /// Rows of the build side, with a column that says whether they have a pair.
    BuildMark,
    /// Rows of the probe side that have a pair.
    ProbeSemi,
    /// Rows of the probe side that have none.
    ProbeAnti,
    /// Rows of the probe side, with a column that says whether they have a pair.
    ProbeMark,
}

impl Kind {
    /// Whether rows of the build side are returned when all of the probe side were seen.
    pub fn returns_build(self) -> bool {
        use Kind::*;
        matches!(self, BuildOuter | Full | BuildSemi | BuildAnti | BuildMark)
    }

    fn pairs(self) -> bool {
        use Kind::*;
        matches!(self, Inner | BuildOuter | ProbeOuter | Full)
    }

    /// Whether rows of the build side whose key is NULL are returned.
    fn keeps_nulls(self) -> bool {
        use Kind::*;
        matches!(self, BuildOuter | Full | BuildAnti | BuildMark)
    }
}

/// A column of the result, or of what a condition sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// A column of the build side's batches.
    Build(usize),
    /// A column of the probe side's batches.
    Probe(usize),
    /// Whether the row has a pair.
    Mark,
}

/// A further condition of pairs: a program over some of their columns.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The columns.
    pub columns: Vec<Pick>,
    /// Its first output is a boolean.
    pub program: Arc<Program>,
}

/// What a join is to do.
pub struct Plan {
    /// Which rows it returns.
    pub kind: Kind,
    /// The fields of the build side's batches. The first ones are the keys.
    pub build: Vec<Field>,
    /// The fields of the probe side's batches. The first ones are the keys, of the same forms.
    pub probe: Vec<Field>,
    /// The number of keys.
    pub keys: usize,
    /// For a join by inequalities instead of equal keys, of which there are one or two: whether the build side's first key
    /// is at most the probe side's, and its second one at least, or the other way around. The condition tests them again.
    pub by_range: Option<bool>,
    /// Whether NULL equals NULL.
    pub null_equals_null: bool,
    /// A further condition.
    pub condition: Option<Condition>,
    /// The columns of the result.
    pub output: Vec<Pick>,
    /// Is told the keys when the build side is complete.
    pub on_built: Option<OnBuilt>,
}

/// Takes what is known of the keys of the build side.
pub type OnBuilt = Arc<dyn Fn(&[BuiltKeys]) + Send + Sync>;

/// The values of one key on the build side.
#[derive(Debug, Clone, PartialEq)]
pub enum BuiltKeys {
    /// There are no rows.
    None,
    /// Integers from `low` to `high`; `words` has a bit for each that occurs.
    Ints {
        /// The least one.
        low: i64,
        /// The greatest one.
        high: i64,
        /// From bit `low` on; `None` if the range is large.
        words: Option<Vec<u64>>,
    },
    /// Nothing is known.
    Any,
}

/// A join: the sink of its build side, and the step of its probe side.
pub struct Join {
    plan: Plan,
    /// The columns of the build side's batches that are kept, in the order of their fields: the keys, and what the result
    /// and the condition need.
    kept: Vec<usize>,
    layout: Arc<Layout>,
    context: Arc<dyn Context>,
    built: OnceLock<Built>,
}

const HASH: usize = 0;
/// A probe that found so many pairs passes them on.
const PAIRS: usize = 16 << 10;
/// The rows of a batch of results.
const OUTPUT_ROWS: usize = 8192;
/// No row.
const NONE: u32 = u32::MAX;
/// A bucket is a key if there are at most so many keys in their range per row, and some more.
const RANGE_PER_ROW: u64 = 50;
const RANGE_MIN: u64 = 1 << 16;
/// Sets of keys for scans span at most so many values, and some more per row.
const SET_SPAN: u64 = 1 << 28;
const SET_SPAN_PER_ROW: u64 = 64;

struct Built {
    rows: FrozenRows,
    directory: Directory,
    /// For each row the next one of its bucket, counted from 1; 0 for the last. Empty if each bucket has one row at most.
    next: Vec<AtomicU32>,
    /// Which rows have a pair.
    paired: Vec<AtomicU64>,
    _claim: Claim,
    /// That of the sets of keys which scans have.
    _sets: Claim,
}

/// The first row of each bucket, counted from 1; 0 for no row.
enum Directory {
    /// By the high bits of the hash. An entry is the row, and above it a bit for each tag of a hash in the bucket.
    Hash { entries: Vec<u64>, shift: u32 },
    /// By the key, an integer, from this one on.
    Key { rows: Vec<u32>, low: i64 },
    /// By the key, an integer, among those that occur, where these are a small part of their range.
    Rank { keys: RankedKeys, rows: Vec<u32> },
    /// By the order of the keys.
    Range(Ranges),
}

/// The tag of a hash as a bit above a row.
#[inline]
fn tag(hash: u64) -> u64 {
    1 << (32 + (hash & 31))
}

impl Directory {
    /// Whether a bucket is a key.
    fn is_by_key(&self) -> bool {
        matches!(self, Directory::Key { .. } | Directory::Rank { .. })
    }

    /// The first row of the bucket of each key, counted from 1; 0 if the bucket does not have it. Loads of different keys
    /// overlap, because none waits for another.
    fn first_rows(&self, hashes: &[u64], keys: Option<&[i64]>, first: &mut Vec<u32>) {
        first.clear();
        match (self, keys) {
            (Directory::Key { rows, low }, Some(keys)) => first.extend(keys.iter().map(|key| {
                // Keys below the range wrap around, and are behind it.
                rows.get(key.wrapping_sub(*low) as u64 as usize).copied().unwrap_or(0)
            })),
            (Directory::Rank { keys: ranked, rows }, Some(keys)) => {
                first.extend(keys.iter().map(|key| ranked.rank(*key).map_or(0, |rank| rows[rank])));
            }
            (Directory::Hash { entries, shift }, _) => first.extend(hashes.iter().map(|hash| {
                let entry = entries[(hash >> shift) as usize];
                if entry & tag(*hash) == 0 { 0 } else { entry as u32 }
            })),
            (Directory::Key { .. } | Directory::Rank { .. }, None) | (Directory::Range(_), _) => {
                unreachable!("a directory by keys is for keys")
            }
        }
    }
}

impl Join {
    /// A join to be run in this context.
    pub fn new(mut plan: Plan, context: Arc<dyn Context>) -> Arc<Join> {
        let mut kept: Vec<usize> = (0..plan.keys).collect();
        let of_condition = plan.condition.iter_mut().flat_map(|condition| &mut condition.columns);
        for pick in plan.output.iter_mut().chain(of_condition) {
            if let Pick::Build(column) = pick {
                let known = kept.iter().position(|known| known == column);
                *column = known.unwrap_or_else(|| {
                    kept.push(*column);
                    kept.len() - 1
                });
            }
        }
        plan.build = kept.iter().map(|column| plan.build[*column].clone()).collect();
        let layout = Arc::new(Layout::new(&plan.build, usize::from(!has_int_key(&plan))));
        Arc::new(Join { plan, kept, layout, context, built: OnceLock::new() })
    }

    /// The rows of the build side that are returned after the probe side.
    pub fn rest(self: &Arc<Self>) -> Arc<dyn Source> {
        Arc::new(Rest { of: self.clone(), next: Arc::default() })
    }

    fn built(&self) -> &Built {
        self.built.get().expect("the build side is a stage before")
    }

    /// What is known of a key, whose values are between `range`.
    /// The bytes of a set are claimed, and there is none without them.
    fn built_keys(&self, key: usize, parts: &[Rows], range: Option<(i64, i64)>, sets: &mut Claim) -> BuiltKeys {
        let rows: usize = parts.iter().map(Rows::len).sum();
        if rows == 0 {
            return BuiltKeys::None;
        }
        if self.plan.build[key].form != Form::Int || self.plan.null_equals_null {
            return BuiltKeys::Any;
        }
        let Some((low, high)) = range else { return BuiltKeys::None };
        let span = high.abs_diff(low);
        let is_wide = span >= SET_SPAN.max(rows as u64 * SET_SPAN_PER_ROW);
        if is_wide || sets.grow(span as usize / 8 + 8).is_err() {
            return BuiltKeys::Ints { low, high, words: None };
        }
        let at = self.layout.word_of(key);
        let mut words = vec![0u64; span as usize / 64 + 1];
        for part in parts {
            let is_nullable = self.plan.build[key].nullable;
            for row in (0..part.len()).filter(|row| !(is_nullable && part.is_null(*row, key))) {
                let bit = (part.row(row)[at] as i64).abs_diff(low);
                words[bit as usize / 64] |= 1 << (bit % 64);
            }
        }
        // The bounds say it all if every key occurs.
        let is_full = words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == span + 1;
        BuiltKeys::Ints { low, high, words: (!is_full).then_some(words) }
    }

    /// Chains the rows of all threads. `range`: of the first key; `sets`: what the sets of keys claim.
    fn build(&self, parts: Vec<Rows>, range: Option<(i64, i64)>, sets: Claim) -> Result<Built> {
        let mut claim = Claim::new(self.context.clone());
        let count: usize = parts.iter().map(Rows::len).sum();
        let mut rows = FrozenRows::joined(self.layout.clone(), parts)?;
        let span = range.map(|(low, high)| high.abs_diff(low));
        let is_dense = |span: &u64| *span < RANGE_MIN.max(count as u64 * RANGE_PER_ROW);
        if let Some(is_below) = self.plan.by_range {
            let directory = Directory::Range(Ranges::new(&rows, &self.plan.build[..self.plan.keys], is_below));
            claim.resize(rows.bytes() + rows.len() * Ranges::ROW_BYTES)?;
            let paired = self.unpaired(&rows);
            return Ok(Built { rows, directory, next: vec![], paired, _claim: claim, _sets: sets });
        }
        let (directory_bytes, low) = match (span.filter(is_dense), range) {
            (Some(span), Some((low, _))) if has_int_key(&self.plan) => {
                let bytes =
                    if is_sparse(span, count) { RankedKeys::bytes(span) + count * 4 } else { (span as usize + 1) * 4 };
                (bytes, Some((low, span)))
            }
            _ => (buckets(count) * 8, None),
        };
        claim.resize(rows.bytes() + directory_bytes)?;
        let (mut directory, mut next) = self.chained(&rows, low)?;
        let bytes = |rows: &FrozenRows, next: &[AtomicU32]| rows.bytes() + directory_bytes + next.len() * 4;
        claim.resize(bytes(&rows, &next))?;
        // Rows that are found together are put together, unless there is no memory for it. Those that are returned at the end are not.
        let is_worth_it = !self.plan.kind.returns_build() && is_crowded(&next, count);
        if is_worth_it && claim.resize(bytes(&rows, &next) * 2 + count * 4).is_ok() {
            let numbers = directory.numbers(&next);
            if numbers.len() == count {
                rows = rows.in_order(&numbers);
                (directory, next) = self.chained(&rows, low)?;
            }
            claim.resize(bytes(&rows, &next))?;
        }
        let paired = self.unpaired(&rows);
        Ok(Built { rows, directory, next, paired, _claim: claim, _sets: sets })
    }

    /// Rows in buckets: by a key between `low` and its span, or by hashes.
    fn chained(&self, rows: &FrozenRows, low: Option<(i64, u64)>) -> Result<(Directory, Vec<AtomicU32>)> {
        let threads = if rows.len() < FEW_ROWS { 1 } else { self.context.threads() };
        let chains = Chains { rows, next: OnceLock::new(), threads };
        check(self.context.as_ref())?;
        let directory = match low {
            Some((low, span)) if is_sparse(span, rows.len()) => chains.by_rank(low, span, self.layout.word_of(0)),
            Some((low, span)) => chains.by_key(low, span as usize + 1, self.layout.word_of(0)),
            None => chains.by_hash(buckets(rows.len()), has_int_key(&self.plan).then(|| self.layout.word_of(0))),
        };
        Ok((directory, chains.next.into_inner().unwrap_or_default()))
    }

    /// No row has a pair yet.
    fn unpaired(&self, rows: &FrozenRows) -> Vec<AtomicU64> {
        let words = if self.plan.kind.returns_build() { rows.end().div_ceil(64) } else { 0 };
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }
}

/// Whether the only key is an integer that is never NULL in rows of the build side.
fn has_int_key(plan: &Plan) -> bool {
    if plan.keys != 1 || plan.by_range.is_some() {
        return false;
    }
    let has_nulls = plan.kind.keeps_nulls() && plan.build[0].nullable;
    plan.build[0].form == Form::Int && !plan.null_equals_null && !has_nulls
}

/// Rows that share buckets are put together if there are at least this many and most have a next one that is not near.
const CROWDED_ROWS: usize = 1 << 12;
const NEAR_ROWS: u32 = 64;

fn is_crowded(next: &[AtomicU32], rows: usize) -> bool {
    let is_far = |(row, next): (usize, &AtomicU32)| {
        let next = next.load(Ordering::Relaxed);
        next != 0 && (row as u32).abs_diff(next - 1) > NEAR_ROWS
    };
    rows >= CROWDED_ROWS && next.iter().enumerate().filter(|row| is_far(*row)).count() > rows / 2
}

/// Keys are a small part of a range that does not fit the caches, if there are at most so many per key.
const SPARSE_SPAN: u64 = 1 << 22;
const SPARSE_PER_ROW: u64 = 8;

fn is_sparse(span: u64, rows: usize) -> bool {
    span >= SPARSE_SPAN.max(rows as u64 * SPARSE_PER_ROW)
}

/// The buckets of a directory by hashes.
fn buckets(rows: usize) -> usize {
    (rows + rows / 4).next_power_of_two().max(64)
}

/// The number of rows below which a second thread costs more than it saves.
const FEW_ROWS: usize = 1 << 15;

impl Directory {
    /// The numbers of rows, bucket by bucket.
    fn numbers(&self, next: &[AtomicU32]) -> Vec<u32> {
        let mut numbers = vec![];
        let mut add = |first: u32| {
            let mut found = first;
            while found != 0 {
                numbers.push(found - 1);
                found = next.get(found as usize - 1).map_or(0, |next| next.load(Ordering::Relaxed));
            }
        };
        match self {
            Directory::Hash { entries, .. } => entries.iter().for_each(|entry| add(*entry as u32)),
            Directory::Key { rows, .. } | Directory::Rank { rows, .. } => rows.iter().for_each(|first| add(*first)),
            Directory::Range(_) => {}
        }
        numbers
    }
}

/// Puts rows into buckets. Each thread has some of the buckets, and looks at all rows.
struct Chains<'a> {
    rows: &'a FrozenRows,
    /// As for [`Built::next`].
    next: OnceLock<Vec<AtomicU32>>,
    threads: usize,
}

impl Chains<'_> {
    /// Puts a row first in its bucket, before the row that was there.
    #[inline]
    fn chain(&self, row: u32, before: u32) {
        if before != 0 {
            let next = self.next.get_or_init(|| {
                let mut next = vec![];
                next.resize_with(self.rows.end(), AtomicU32::default);
                next
            });
            next[row as usize].store(before, Ordering::Relaxed);
        }
    }

    fn by_key(&self, low: i64, count: usize, word: usize) -> Directory {
        let bucket = |key: i64| key.wrapping_sub(low) as usize;
        Directory::Key { rows: self.first_rows(count, word, bucket), low }
    }

    fn by_rank(&self, low: i64, span: u64, word: usize) -> Directory {
        let all = (0..self.rows.parts()).flat_map(|part| self.rows.part_rows(part));
        let keys = RankedKeys::new(low, span, all.map(|(_, words)| words[word] as i64));
        // Each key of a row has a rank.
        let rows = self.first_rows(keys.len(), word, |key| keys.rank(key).unwrap_or(usize::MAX));
        Directory::Rank { keys, rows }
    }

    /// The first row of each of some buckets, counted from 1.
    fn first_rows(&self, count: usize, word: usize, bucket: impl Fn(i64) -> usize + Sync) -> Vec<u32> {
        let mut first = vec![0u32; count];
        let share = count.div_ceil(self.threads).max(1);
        self.each_share(first.chunks_mut(share), |number, buckets| {
            let from = number * share;
            for part in (0..self.rows.parts()).rev() {
                for (row, words) in self.rows.part_rows(part).rev() {
                    if let Some(bucket) = buckets.get_mut(bucket(words[word] as i64).wrapping_sub(from)) {
                        self.chain(row, std::mem::replace(bucket, row + 1));
                    }
                }
            }
        });
        first
    }

    /// `word`: of the key whose hash counts, or none if rows have their hashes.
    fn by_hash(&self, count: usize, word: Option<usize>) -> Directory {
        let shift = 64 - count.trailing_zeros();
        let mut entries = vec![0u64; count];
        let share = count.div_ceil(self.threads).max(1);
        self.each_share(entries.chunks_mut(share), |number, buckets| {
            let from = number * share;
            for part in (0..self.rows.parts()).rev() {
                for (row, words) in self.rows.part_rows(part).rev() {
                    let hash = word.map_or_else(|| words[HASH], |word| hash_i64(words[word] as i64));
                    if let Some(entry) = buckets.get_mut(((hash >> shift) as usize).wrapping_sub(from)) {
                        self.chain(row, *entry as u32);
                        *entry = *entry >> 32 << 32 | tag(hash) | u64::from(row + 1);
                    }
                }
            }
        });
        Directory::Hash { entries, shift }
    }

    fn each_share<'s, T: Send + 's>(
        &self,
        shares: impl Iterator<Item = &'s mut [T]>,
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let mut shares: Vec<(usize, &mut [T])> = shares.enumerate().collect();
        let others = shares.len().saturating_sub(1);
        shares.reverse();
        let queue = Mutex::new(shares);
        let take = || {
            let next = || queue.lock().pop();
            while let Some((number, share)) = next() {
                work(number, share);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..others {
                // Without more threads, this one does all of it.
                if std::thread::Builder::new().spawn_scoped(scope, take).is_err() {
                    break;
                }
            }
            take();
        });
    }
}

struct Builder {
    of: Arc<Join>,
    rows: RowParts,
    hashes: Vec<u64>,
    /// The least and greatest value of each key that is an integer.
    ranges: Vec<Option<(i64, i64)>>,
    claim: Claim,
}

impl Sink for Arc<Join> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let claim = Claim::new(self.context.clone());
        let ranges = vec![None; self.plan.keys];
        let rows = RowParts::new(self.layout.clone());
        Box::new(Builder { of: self.clone(), rows, hashes: vec![], ranges, claim })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let (mut parts, mut claims) = (vec![], vec![]);
        let mut ranges = vec![None; self.plan.keys];
        for builder in workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Builder>().ok()) {
            parts.extend(builder.rows.into_parts());
            claims.push(builder.claim);
            ranges.iter_mut().zip(builder.ranges).for_each(|(range, other)| *range = union(*range, other));
        }
        let mut sets = Claim::new(self.context.clone());
        if let Some(on_built) = &self.plan.on_built {
            let keys = ranges.iter().enumerate().map(|(key, range)| self.built_keys(key, &parts, *range, &mut sets));
            on_built(&keys.collect::<Vec<_>>());
        }
        drop(claims);
        let range = ranges.first().copied().flatten();
        let built = self.build(parts, range, sets)?;
        // A join is built once.
        let _ = self.built.set(built);
        Ok(())
    }
}

fn union(range: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (range, other) {
        (Some((low, high)), Some((least, greatest))) => Some((low.min(least), high.max(greatest))),
        (range, other) => range.or(other),
    }
}

/// The least and greatest integer of a column, which may have others where it is NULL.
fn range_of(column: &Vector) -> Option<(i64, i64)> {
    let Values::Int(values) = &column.values else { return None };
    let low = values.iter().copied().min()?;
    Some((low, values.iter().copied().max()?))
}

impl Builder {
    /// Appends rows, with their hashes if they have any.
    fn append(&mut self, batch: &Batch) {
        let columns: Vec<Vector> = self.of.kept.iter().map(|column| batch.columns[*column].clone()).collect();
        let hashes = &self.hashes;
        self.rows.append(&columns, batch.rows, |part, first, rows| {
            for (row, hash) in hashes.iter().skip(rows.start).take(rows.len()).enumerate() {
                part.row_mut(first + row)[HASH] = *hash;
            }
        });
    }
}

impl SinkWorker for Builder {
    fn push(&mut self, _: usize, batch: Batch) -> Result<()> {
        let plan = &self.of.plan;
        let keys = &batch.columns[..plan.keys];
        let batch = match not_null(keys).filter(|_| !plan.kind.keeps_nulls() && !plan.null_equals_null) {
            None => batch,
            Some(rows) => batch.take(&positions(&rows)),
        };
        let keys = &batch.columns[..plan.keys];
        self.ranges.iter_mut().zip(keys).for_each(|(range, key)| *range = union(*range, range_of(key)));
        if !has_int_key(plan) && plan.by_range.is_none() {
            hash_rows(keys, batch.rows, &mut self.hashes);
        }
        self.append(&batch);
        self.claim.resize(self.rows.bytes())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The rows in which no key is NULL; `None` if that is all of them.
fn not_null(keys: &[Vector]) -> Option<BooleanBuffer> {
    let valid = keys.iter().fold(None, |all, key| NullBuffer::union(all.as_ref(), key.valid.as_ref()));
    valid.map(|valid| valid.inner().clone())
}

/// The entries of a dictionary that are looked up for each row of a batch, at most.
const ENTRIES_PER_ROW: usize = 4;

/// The rows of the build side that entries of a dictionary may have on average, if they are looked up at all.
const ROWS_PER_ENTRY: usize = 4;

/// The codes of a join by one key of texts that are in a dictionary.
fn coded_key<'a>(plan: &Plan, keys: &'a [Vector], rows: usize) -> Option<(&'a [u32], &'a Arc<Dictionary>)> {
    let [key] = keys else { return None };
    let Values::Codes(codes, dictionary) = &key.values else { return None };
    let is_known = !(plan.null_equals_null && key.valid.is_some());
    (is_known && dictionary.texts.len() <= rows * ENTRIES_PER_ROW).then_some((codes, dictionary))
}

/// The rows of the build side that have the texts of a dictionary.
enum EntryRows {
    /// For each entry the row plus one; zero: none.
    One(Vec<u32>),
    /// The rows of entry `i` are `rows[ends[i - 1]..ends[i]]`.
    Some { ends: Vec<u32>, rows: Vec<u32> },
}

impl EntryRows {
    /// Of pairs of an entry and a row, in the order of the entries.
    fn of(entries: usize, pairs: impl Iterator<Item = (u32, u32)>) -> EntryRows {
        let (mut first, mut ends, mut rows) = (vec![0; entries], vec![0; entries], vec![]);
        let mut is_unique = true;
        for (entry, row) in pairs {
            is_unique &= first[entry as usize] == 0;
            first[entry as usize] = row + 1;
            rows.push(row);
            ends[entry as usize] = rows.len() as u32;
        }
        if is_unique {
            return EntryRows::One(first);
        }
        // Entries without a row end where the one before does.
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        EntryRows::Some { ends, rows }
    }
}

/// The probe side of a join.
impl Step for Arc<Join> {
    fn worker(&self) -> Box<dyn StepWorker> {
        let condition = self.plan.condition.as_ref().map(|condition| Evaluator::new(condition.program.clone()));
        let layout = Arc::new(Layout::new(&self.plan.probe[..self.plan.keys], HASH + 1));
        Box::new(Prober {
            of: self.clone(),
            condition,
            keys: Rows::borrowing(layout),
            coded: vec![],
            hashes: vec![],
            first: vec![],
            probe_rows: vec![],
            build_rows: vec![],
        })
    }
}

struct Prober {
    of: Arc<Join>,
    condition: Option<Evaluator>,
    keys: Rows,
    /// Per dictionary of a key; `None` if its entries have too many rows, so that each row is looked up for itself.
    coded: Vec<(Arc<Dictionary>, Option<Arc<EntryRows>>)>,
    hashes: Vec<u64>,
    first: Vec<u32>,
    /// Pairs.
    probe_rows: Vec<u32>,
    build_rows: Vec<u32>,
}

impl StepWorker for Prober {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let join = self.of.clone();
        let (plan, built) = (&join.plan, join.built());
        if built.rows.is_empty() && matches!(plan.kind, Kind::Inner | Kind::ProbeSemi) {
            return Ok(());
        }
        if let Directory::Range(ranges) = &built.directory {
            return self.push_ranges(&join, ranges, &batch, next);
        }
        let keys = &batch.columns[..plan.keys];
        if let Some((codes, dictionary)) = coded_key(plan, keys, batch.rows)
            && let Some(entries) = self.entries(&join, dictionary)?
        {
            return self.push_codes(&join, &entries, codes, &batch, next);
        }
        let ints = built.directory.is_by_key().then(|| keys[0].as_ints());
        if ints.is_none() {
            hash_rows(keys, batch.rows, &mut self.hashes);
        }
        if !has_int_key(plan) {
            self.keys.clear();
            self.keys.append(keys, batch.rows);
        }
        built.directory.first_rows(&self.hashes, ints, &mut self.first);
        if !plan.null_equals_null
            && let Some(valid) = not_null(keys)
        {
            (!&valid).set_indices().for_each(|row| self.first[row] = 0);
        }
        if built.next.is_empty() {
            self.pair_with_first(batch.rows);
            self.keep_equal(&join, keys);
            return self.flush(&join, &batch, 0, batch.rows, next);
        }
        let mut from = 0;
        for row in 0..batch.rows {
            let mut found = self.first[row];
            while found != 0 {
                self.probe_rows.push(row as u32);
                self.build_rows.push(found - 1);
                found = built.next[found as usize - 1].load(Ordering::Relaxed);
            }
            if self.probe_rows.len() >= PAIRS {
                self.keep_equal(&join, keys);
                self.flush(&join, &batch, from, row + 1, next)?;
                from = row + 1;
            }
        }
        self.keep_equal(&join, keys);
        self.flush(&join, &batch, from, batch.rows, next)
    }
}

impl Prober {
    /// Pairs each row with those that are found for it, unless a key is NULL.
    fn push_found(
        &mut self,
        join: &Join,
        batch: &Batch,
        next: Take<'_>,
        find: impl Fn(usize, &mut Vec<u32>),
    ) -> Result<()> {
        let valid = not_null(&batch.columns[..join.plan.keys]);
        let mut from = 0;
        for row in 0..batch.rows {
            if valid.as_ref().is_none_or(|valid| valid.value(row)) {
                find(row, &mut self.build_rows);
                self.probe_rows.resize(self.build_rows.len(), row as u32);
            }
            if row % PAIRS == 0 {
                check(join.context.as_ref())?;
            }
            if self.probe_rows.len() >= PAIRS {
                self.flush(join, batch, from, row + 1, next)?;
                from = row + 1;
            }
        }
        self.flush(join, batch, from, batch.rows, next)
    }

    /// Pairs each row with those in whose ranges it is.
    fn push_ranges(&mut self, join: &Join, ranges: &Ranges, batch: &Batch, next: Take<'_>) -> Result<()> {
        let keys = ranges.probed(&batch.columns[..join.plan.keys]);
        self.push_found(join, batch, next, |row, found| ranges.find(&keys, row, found))
    }

    /// Pairs each row with those of its code. NULL rows may have any code.
    fn push_codes(
        &mut self,
        join: &Join,
        entries: &EntryRows,
        codes: &[u32],
        batch: &Batch,
        next: Take<'_>,
    ) -> Result<()> {
        match entries {
            EntryRows::One(rows) => {
                self.first.clear();
                self.first.extend(codes.iter().map(|code| rows.get(*code as usize).copied().unwrap_or(0)));
                if let Some(valid) = &batch.columns[0].valid {
                    (!valid.inner()).set_indices().for_each(|row| self.first[row] = 0);
                }
                self.pair_with_first(codes.len());
                self.flush(join, batch, 0, batch.rows, next)
            }
            EntryRows::Some { ends, rows } => self.push_found(join, batch, next, |row, found| {
                let code = codes[row] as usize;
                let Some(end) = ends.get(code) else { return };
                let start = code.checked_sub(1).map_or(0, |before| ends[before]);
                found.extend_from_slice(&rows[start as usize..*end as usize]);
            }),
        }
    }

    /// The rows of a dictionary's entries, which are looked up once; `None` if rows are better looked up one by one.
    fn entries(&mut self, join: &Join, dictionary: &Arc<Dictionary>) -> Result<Option<Arc<EntryRows>>> {
        if let Some((_, known)) = self.coded.iter().rfind(|(of, _)| Arc::ptr_eq(of, dictionary)) {
            return Ok(known.clone());
        }
        let rows = self.rows_of_entries(join, dictionary)?.map(Arc::new);
        self.coded.push((dictionary.clone(), rows.clone()));
        Ok(rows)
    }

    fn rows_of_entries(&mut self, join: &Join, dictionary: &Dictionary) -> Result<Option<EntryRows>> {
        let (entries, keys) = (dictionary.texts.len(), [Vector::new(Values::Text(dictionary.texts.clone()))]);
        self.hashes.clear();
        self.hashes.extend_from_slice(dictionary.hashes());
        self.keys.clear();
        self.keys.append(&keys, entries);
        let built = join.built();
        built.directory.first_rows(&self.hashes, None, &mut self.first);
        for entry in 0..entries {
            let mut found = self.first[entry];
            while found != 0 {
                self.probe_rows.push(entry as u32);
                self.build_rows.push(found - 1);
                found = built.next.get(found as usize - 1).map_or(0, |next| next.load(Ordering::Relaxed));
                if self.probe_rows.len() > entries * ROWS_PER_ENTRY + PAIRS {
                    self.probe_rows.clear();
                    self.build_rows.clear();
                    return Ok(None);
                }
            }
            if entry % PAIRS == 0 {
                check(join.context.as_ref())?;
            }
        }
        self.keep_equal(join, &keys);
        let pairs = self.probe_rows.drain(..).zip(self.build_rows.drain(..));
        Ok(Some(EntryRows::of(entries, pairs)))
    }

    /// Pairs each row with the first of its bucket, if there is one. No branch depends on the rows.
    fn pair_with_first(&mut self, rows: usize) {
        let Prober { first, probe_rows, build_rows, .. } = self;
        probe_rows.resize(rows, 0);
        build_rows.resize(rows, 0);
        let mut count = 0;
        for (row, first) in first[..rows].iter().enumerate() {
            (probe_rows[count], build_rows[count]) = (row as u32, first.wrapping_sub(1));
            count += usize::from(*first != 0);
        }
        probe_rows.truncate(count);
        build_rows.truncate(count);
    }

    /// Keeps the pairs whose keys are equal, and the first one of each row where one is enough.
    fn keep_equal(&mut self, join: &Join, keys: &[Vector]) {
        let (plan, built) = (&join.plan, join.built());
        let Prober { probe_rows, build_rows, keys: words, hashes, .. } = self;
        if built.directory.is_by_key() {
            // A bucket is a key.
        } else if has_int_key(plan) {
            let (at, keys) = (join.layout.word_of(0), keys[0].as_ints());
            let is_equal = |probe: u32, build: u32| built.rows.row(build as usize)[at] == keys[probe as usize] as u64;
            retain(probe_rows, build_rows, is_equal);
        } else {
            let has_hash = |probe: u32, build: u32| built.rows.row(build as usize)[HASH] == hashes[probe as usize];
            retain(probe_rows, build_rows, has_hash);
            let is_equal = |probe: u32, build: u32| {
                built.rows.equals_key(build as usize, words, probe as usize, plan.keys, HASH + 1)
            };
            retain(probe_rows, build_rows, is_equal);
        }
        // One pair is enough where only its existence counts.
        if !plan.kind.pairs() && !plan.kind.returns_build() && plan.condition.is_none() {
            let mut last = NONE;
            retain(probe_rows, build_rows, |probe, _| std::mem::replace(&mut last, probe) != probe);
        }
    }

    /// Passes on what becomes of rows `from .. to` of the probe side, whose pairs were found.
    fn flush(&mut self, join: &Join, batch: &Batch, from: usize, to: usize, next: Take<'_>) -> Result<()> {
        let (mut probe_rows, mut build_rows) =
            (std::mem::take(&mut self.probe_rows), std::mem::take(&mut self.build_rows));
        self.keep_passing(join, batch, &mut probe_rows, &mut build_rows)?;
        let (plan, built) = (&join.plan, join.built());
        if plan.kind.returns_build() {
            build_rows.iter().for_each(|row| built.pair(*row));
        }
        match plan.kind {
            Kind::Inner | Kind::BuildOuter => {}
            Kind::ProbeOuter | Kind::Full => {
                (probe_rows, build_rows) = with_unpaired(&probe_rows, &build_rows, from, to);
            }
            Kind::BuildSemi | Kind::BuildAnti | Kind::BuildMark => probe_rows.clear(),
            Kind::ProbeSemi | Kind::ProbeAnti | Kind::ProbeMark => {
                self.emit_probe(join, batch, &probe_rows, from, to, next)?;
                probe_rows.clear();
            }
        }
        for (probe, build) in probe_rows.chunks(OUTPUT_ROWS).zip(build_rows.chunks(OUTPUT_ROWS)) {
            check(join.context.as_ref())?;
            // If each row has one pair, columns of the probe side stay as they are.
            let is_whole = probe.len() == batch.rows && probe.iter().enumerate().all(|(at, row)| *row as usize == at);
            let column = |pick: &Pick| match pick {
                Pick::Probe(index) if is_whole => batch.columns[*index].clone(),
                pick => join.column(*pick, batch, probe, build),
            };
            next(Batch { rows: probe.len(), columns: plan.output.iter().map(column).collect() })?;
        }
        probe_rows.clear();
        build_rows.clear();
        (self.probe_rows, self.build_rows) = (probe_rows, build_rows);
        Ok(())
    }

    /// Keeps the pairs that satisfy the condition.
    fn keep_passing(
        &mut self,
        join: &Join,
        batch: &Batch,
        probe_rows: &mut Vec<u32>,
        build_rows: &mut Vec<u32>,
    ) -> Result<()> {
        let (Some(condition), Some(evaluator)) = (&join.plan.condition, &mut self.condition) else { return Ok(()) };
        let mut kept = 0;
        let mut start = 0;
        while start < probe_rows.len() {
            check(join.context.as_ref())?;
            let end = (start + OUTPUT_ROWS).min(probe_rows.len());
            let (probe, build) = (&probe_rows[start..end], &build_rows[start..end]);
            let columns = condition.columns.iter().map(|pick| join.column(*pick, batch, probe, build)).collect();
            let passing = evaluator.passing(&Batch { rows: end - start, columns })?;
            for at in passing.set_indices() {
                probe_rows[kept] = probe_rows[start + at];
                build_rows[kept] = build_rows[start + at];
                kept += 1;
            }
            start = end;
        }
        probe_rows.truncate(kept);
        build_rows.truncate(kept);
        Ok(())
    }

    fn emit_probe(
        &mut self,
        join: &Join,
        batch: &Batch,
        paired: &[u32],
        from: usize,
        to: usize,
        next: Take<'_>,
    ) -> Result<()> {
        let mut has_pair = vec![false; to - from];
        paired.iter().for_each(|row| has_pair[*row as usize - from] = true);
        let wanted = |row: &usize| match join.plan.kind {
            Kind::ProbeSemi => has_pair[*row - from],
            Kind::ProbeAnti => !has_pair[*row - from],
            _ => true,
        };
        let rows: Vec<u32> = (from..to).filter(wanted).map(|row| row as u32).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let is_all = rows.len() == batch.rows;
        let column = |pick: &Pick| match pick {
            Pick::Probe(column) if is_all => batch.columns[*column].clone(),
            Pick::Mark => {
                let marks = BooleanBuffer::collect_bool(rows.len(), |at| has_pair[rows[at] as usize - from]);
                Vector::new(Values::Bits(marks))
            }
            pick => join.column(*pick, batch, &rows, &[]),
        };
        next(Batch { rows: rows.len(), columns: join.plan.output.iter().map(column).collect() })
    }
}

/// Keeps some pairs. All are visited without a branch that depends on them, so that their loads overlap.
#[inline]
fn retain(probe_rows: &mut Vec<u32>, build_rows: &mut Vec<u32>, mut keeps: impl FnMut(u32, u32) -> bool) {
    let mut kept = 0;
    for at in 0..probe_rows.len() {
        let (probe, build) = (probe_rows[at], build_rows[at]);
        probe_rows[kept] = probe;
        build_rows[kept] = build;
        kept += usize::from(keeps(probe, build));
    }
    probe_rows.truncate(kept);
    build_rows.truncate(kept);
}

/// The pairs with each row of `from .. to` that has none, paired with no row, in the order of the rows.
fn with_unpaired(probe_rows: &[u32], build_rows: &[u32], from: usize, to: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut probe, mut build) = (vec![], vec![]);
    let mut at = 0;
    for row in from as u32..to as u32 {
        if probe_rows.get(at) != Some(&row) {
            probe.push(row);
            build.push(NONE);
        }
        while probe_rows.get(at) == Some(&row) {
            probe.push(row);
            build.push(build_rows[at]);
            at += 1;
        }
    }
    (probe, build)
}

impl Built {
    #[inline]
    fn pair(&self, row: u32) {
        let (word, bit) = (&self.paired[row as usize / 64], 1 << (row % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has_pair(&self, row: u32) -> bool {
        self.paired[row as usize / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// A field of some rows; NULL for no row.
    fn column(&self, index: usize, field: &Field, rows: &[u32]) -> Vector {
        if !rows.contains(&NONE) {
            return self.rows.vector(index, rows);
        }
        if self.rows.is_empty() {
            return Vector::nulls(field.form, rows.len(), &field.data_type);
        }
        let first: Vec<u32> = rows.iter().map(|row| if *row == NONE { 0 } else { *row }).collect();
        let vector = self.rows.vector(index, &first);
        let is_row = NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| rows[at] != NONE));
        let valid = NullBuffer::union(vector.valid.as_ref(), Some(&is_row));
        Vector { valid, ..vector }
    }
}

impl Join {
    fn column(&self, pick: Pick, batch: &Batch, probe: &[u32], build: &[u32]) -> Vector {
        match pick {
            Pick::Build(index) => self.built().column(index, &self.plan.build[index], build),
            Pick::Probe(index) => batch.columns[index].take(probe),
            Pick::Mark => unreachable!("marks are of one side"),
        }
    }
}

/// Rows of the build side, after the probe side.
struct Rest {
    of: Arc<Join>,
    next: Arc<AtomicUsize>,
}

impl Source for Rest {
    fn worker(&self) -> Box<dyn SourceWorker> {
        Box::new(RestWorker { of: self.of.clone(), next: self.next.clone(), part: 0 })
    }

    fn units(&self) -> usize {
        usize::MAX
    }
}

struct RestWorker {
    of: Arc<Join>,
    next: Arc<AtomicUsize>,
    part: usize,
}

impl SourceWorker for RestWorker {
    fn claim(&mut self) -> Option<Progress> {
        self.part = self.next.fetch_add(1, Ordering::Relaxed);
        (self.part < self.of.built().rows.parts()).then_some(Progress::whole(self.part))
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        let (plan, built) = (&self.of.plan, self.of.built());
        let wanted = |row: &u32| match plan.kind {
            Kind::BuildSemi => built.has_pair(*row),
            Kind::BuildMark => true,
            _ => !built.has_pair(*row),
        };
        let rows: Vec<u32> = built.rows.part_rows(self.part).map(|(row, _)| row).filter(wanted).collect();
        for rows in rows.chunks(OUTPUT_ROWS) {
            let column = |pick: &Pick| match pick {
                Pick::Build(index) => built.rows.vector(*index, rows),
                Pick::Probe(index) => {
                    let field = &plan.probe[*index];
                    Vector::nulls(field.form, rows.len(), &field.data_type)
                }
                Pick::Mark => {
                    let marks = BooleanBuffer::collect_bool(rows.len(), |at| built.has_pair(rows[at]));
                    Vector::new(Values::Bits(marks))
                }
            };
            take(Batch { rows: rows.len(), columns: plan.output.iter().map(column).collect() })?;
        }
        Ok(())
    }
}
