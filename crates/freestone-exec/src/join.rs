//! Hash joins.
//!
//! The rows of the build side lie in one array, ordered by bucket, with a directory of where each bucket begins and of
//! which hashes it has: there are no chains (Birler, Schmidt, Fent and Neumann, "Simple, Efficient, and Robust Hash
//! Tables for Join Processing", DaMoN 2024). Where the keys are integers in a small range, a bucket is a key.

use std::any::Any;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::error::Result;
use crate::hash::hash_rows;
use crate::pipeline::{Claim, Context, Progress, Sink, SinkWorker, Source, SourceWorker, Step, StepWorker, Take, check};
use crate::program::{Evaluator, Program};
use crate::rows::{Field, FrozenRows, Layout, Rows};
use crate::vector::{Batch, Form, Values, Vector, positions};

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
    layout: Arc<Layout>,
    context: Arc<dyn Context>,
    built: OnceLock<Built>,
}

const HASH: usize = 0;
/// A probe that found so many pairs passes them on.
const PAIRS: usize = 16 << 10;
/// The rows of a batch of results.
const OUTPUT_ROWS: usize = 8192;
/// The rows of the build side that are returned as one unit.
const UNIT_ROWS: usize = 64 << 10;
/// No row.
const NONE: u32 = u32::MAX;
/// A bucket is a key if there are at most so many keys in their range per row, and some more.
const RANGE_PER_ROW: u64 = 8;
const RANGE_MIN: u64 = 1 << 16;
/// Sets of keys for scans span at most so many values, and some more per row.
const SET_SPAN: u64 = 1 << 24;
const SET_SPAN_PER_ROW: u64 = 64;

struct Built {
    rows: FrozenRows,
    directory: Directory,
    /// Which rows have a pair.
    paired: Vec<AtomicU64>,
    _claim: Claim,
}

/// Where the rows of each bucket begin.
struct Directory {
    /// Row << 16 | a bit for each hash in the bucket. Behind the last bucket come one for keys that have none, and the
    /// end of the rows.
    entries: Vec<u64>,
    buckets: Buckets,
}

#[derive(Debug, Clone, Copy)]
enum Buckets {
    /// By the high bits of the hash.
    Hash { shift: u32 },
    /// By the first key, an integer: from this one on, so many.
    Key { low: i64, count: u64 },
}

impl Buckets {
    #[inline]
    fn of(self, hash: u64, key: u64) -> usize {
        match self {
            Buckets::Hash { shift } => (hash >> shift) as usize,
            Buckets::Key { low, count } => ((key as i64).wrapping_sub(low) as u64).min(count) as usize,
        }
    }
}

impl Directory {
    /// The rows of the bucket of each key, as (first, behind the last). Loads of different keys overlap, because none
    /// waits for another.
    fn ranges(&self, hashes: &[u64], keys: Option<&[i64]>, ranges: &mut Vec<(u32, u32)>) {
        let entries = &self.entries;
        ranges.clear();
        match (self.buckets, keys) {
            (buckets @ Buckets::Key { .. }, Some(keys)) => ranges.extend(keys.iter().map(|key| {
                let bucket = buckets.of(0, *key as u64);
                ((entries[bucket] >> 16) as u32, (entries[bucket + 1] >> 16) as u32)
            })),
            (buckets, _) => ranges.extend(hashes.iter().map(|hash| {
                let bucket = buckets.of(*hash, 0);
                let (entry, next) = (entries[bucket], entries[bucket + 1]);
                let first = (entry >> 16) as u32;
                (first, if entry >> (hash & 15) & 1 == 1 { (next >> 16) as u32 } else { first })
            })),
        }
    }
}

impl Join {
    /// A join to be run in this context.
    pub fn new(plan: Plan, context: Arc<dyn Context>) -> Arc<Join> {
        let layout = Arc::new(Layout::new(&plan.build, HASH + 1));
        Arc::new(Join { plan, layout, context, built: OnceLock::new() })
    }

    /// The rows of the build side that are returned after the probe side.
    pub fn rest(self: &Arc<Self>) -> Arc<dyn Source> {
        Arc::new(Rest { of: self.clone(), next: Arc::default() })
    }

    fn built(&self) -> &Built {
        self.built.get().expect("the build side is a stage before")
    }

    /// Whether all keys are one integer that is never NULL in rows of the build side.
    fn has_int_key(&self) -> bool {
        let has_nulls = self.plan.kind.keeps_nulls() && self.plan.build[0].nullable;
        self.plan.keys == 1 && self.plan.build[0].form == Form::Int && !self.plan.null_equals_null && !has_nulls
    }

    /// The least and greatest value of an integer key, if there is one.
    fn range_of(&self, key: usize, parts: &[Rows]) -> Option<(i64, i64)> {
        let at = self.layout.word_of(key);
        let mut range: Option<(i64, i64)> = None;
        for part in parts {
            for row in 0..part.len() {
                if part.is_null(row, key) {
                    continue;
                }
                let value = part.row(row)[at] as i64;
                range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
            }
        }
        range
    }

    fn built_keys(&self, key: usize, parts: &[Rows], rows: usize) -> BuiltKeys {
        if rows == 0 {
            return BuiltKeys::None;
        }
        if self.plan.build[key].form != Form::Int || self.plan.null_equals_null {
            return BuiltKeys::Any;
        }
        let Some((low, high)) = self.range_of(key, parts) else { return BuiltKeys::None };
        let span = high.abs_diff(low);
        if span >= SET_SPAN.max(rows as u64 * SET_SPAN_PER_ROW) {
            return BuiltKeys::Ints { low, high, words: None };
        }
        let at = self.layout.word_of(key);
        let mut words = vec![0u64; span as usize / 64 + 1];
        for part in parts {
            for row in (0..part.len()).filter(|row| !part.is_null(*row, key)) {
                let bit = (part.row(row)[at] as i64).abs_diff(low);
                words[bit as usize / 64] |= 1 << (bit % 64);
            }
        }
        BuiltKeys::Ints { low, high, words: Some(words) }
    }

    fn buckets(&self, parts: &[Rows], rows: usize) -> (Buckets, usize) {
        if self.has_int_key()
            && let Some((low, high)) = self.range_of(0, parts)
            && high.abs_diff(low) < RANGE_MIN.max(rows as u64 * RANGE_PER_ROW)
        {
            let count = high.abs_diff(low) + 1;
            return (Buckets::Key { low, count }, count as usize);
        }
        let bits = rows.next_power_of_two().trailing_zeros().max(6);
        (Buckets::Hash { shift: 64 - bits }, 1 << bits)
    }

    fn build(&self, parts: Vec<Rows>, claim: Claim) -> Result<Built> {
        let rows: usize = parts.iter().map(Rows::len).sum();
        let (buckets, count) = self.buckets(&parts, rows);
        let at = self.layout.word_of(0);
        let place = Place { parts: &parts, buckets, key: at };
        let (mut entries, order) = place.all(rows, count, self.context.as_ref())?;
        entries.push(entries[count]);
        let threads = if rows < FEW_ROWS { 1 } else { self.context.threads() };
        let rows = FrozenRows::ordered(self.layout.clone(), parts, &order, threads);
        let paired = if self.plan.kind.returns_build() { rows.len().div_ceil(64) } else { 0 };
        let paired = (0..paired).map(|_| AtomicU64::new(0)).collect();
        Ok(Built { rows, directory: Directory { entries, buckets }, paired, _claim: claim })
    }
}

/// Below so many rows, a second thread costs more than it saves.
const FEW_ROWS: usize = 1 << 15;
/// The parts into which rows are divided before they are placed, so that the buckets of a part are in the cache.
const PLACE_BITS: u32 = 6;

/// Places the rows of all threads by their buckets.
struct Place<'a> {
    parts: &'a [Rows],
    buckets: Buckets,
    /// The word of the first key.
    key: usize,
}

/// A row: the part, and the row in it.
type At = (u32, u32);

impl Place<'_> {
    fn bucket(&self, words: &[u64]) -> usize {
        self.buckets.of(words[HASH], words[self.key])
    }

    fn words(&self, at: At) -> &[u64] {
        self.parts[at.0 as usize].row(at.1 as usize)
    }

    /// The directory without its last entry, and the rows in the order of their buckets.
    fn all(&self, rows: usize, count: usize, context: &dyn Context) -> Result<(Vec<u64>, Vec<At>)> {
        let everything = self.parts.iter().enumerate().flat_map(|(part, rows)| {
            (0..rows.len() as u32).map(move |row| (part as u32, row))
        });
        let mut entries = vec![0u64; count + 1];
        // Integer keys in a small range mostly come in their order.
        if matches!(self.buckets, Buckets::Key { .. }) || rows < FEW_ROWS {
            let unplaced: Vec<At> = everything.collect();
            let mut order = vec![(0, 0); rows];
            self.some(&unplaced, 0, 0, &mut entries, &mut order);
            entries[count] = (rows as u64) << 16;
            return Ok((entries, order));
        }
        let shift = count.trailing_zeros().saturating_sub(PLACE_BITS);
        let mut starts = vec![0usize; (count >> shift) + 1];
        for part in self.parts {
            (0..part.len()).for_each(|row| starts[(self.bucket(part.row(row)) >> shift) + 1] += 1);
        }
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let (mut next, mut divided) = (starts.clone(), vec![(0, 0); rows]);
        for at in everything {
            let to = &mut next[self.bucket(self.words(at)) >> shift];
            divided[*to] = at;
            *to += 1;
        }
        check(context)?;
        let mut order = vec![(0, 0); rows];
        let mut pieces = vec![];
        let (mut entries_left, mut order_left) = (&mut entries[..count], &mut order[..]);
        for at in 0..starts.len() - 1 {
            let (of_entries, rest) = entries_left.split_at_mut(1 << shift);
            let (of_order, rest_of_order) = order_left.split_at_mut(starts[at + 1] - starts[at]);
            (entries_left, order_left) = (rest, rest_of_order);
            pieces.push((at, of_entries, of_order));
        }
        let (pieces, divided, starts) = (parking_lot::Mutex::new(pieces), &divided, &starts);
        let work = || {
            while let Some((at, of_entries, of_order)) = { pieces.lock().pop() } {
                let unplaced = &divided[starts[at]..starts[at + 1]];
                self.some(unplaced, at << shift, starts[at], of_entries, of_order);
            }
        };
        std::thread::scope(|scope| {
            (1..context.threads()).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        entries[count] = (rows as u64) << 16;
        Ok((entries, order))
    }

    /// Places rows whose buckets are those of `entries`, which begin at bucket `first`. Their places begin at `from`.
    fn some(&self, unplaced: &[At], first: usize, from: usize, entries: &mut [u64], order: &mut [At]) {
        let mut next = vec![0u32; entries.len() + 1];
        unplaced.iter().for_each(|at| next[self.bucket(self.words(*at)) - first + 1] += 1);
        (1..next.len()).for_each(|at| next[at] += next[at - 1]);
        for (entry, at) in entries.iter_mut().zip(&next) {
            *entry = (from as u64 + u64::from(*at)) << 16;
        }
        for at in unplaced {
            let words = self.words(*at);
            let bucket = self.bucket(words) - first;
            order[next[bucket] as usize] = *at;
            next[bucket] += 1;
            entries[bucket] |= 1 << (words[HASH] & 15);
        }
    }
}

struct Builder {
    of: Arc<Join>,
    rows: Rows,
    hashes: Vec<u64>,
    claim: Claim,
}

impl Sink for Arc<Join> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let claim = Claim::new(self.context.clone());
        Box::new(Builder { of: self.clone(), rows: Rows::new(self.layout.clone()), hashes: vec![], claim })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let builders = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Builder>().ok());
        let (parts, claims): (Vec<Rows>, Vec<Claim>) = builders.map(|builder| (builder.rows, builder.claim)).unzip();
        let rows: usize = parts.iter().map(Rows::len).sum();
        if let Some(on_built) = &self.plan.on_built {
            let keys: Vec<BuiltKeys> = (0..self.plan.keys).map(|key| self.built_keys(key, &parts, rows)).collect();
            on_built(&keys);
        }
        let mut claim = Claim::new(self.context.clone());
        claim.resize(parts.iter().map(Rows::bytes).sum::<usize>() + rows * 16)?;
        drop(claims);
        let built = self.build(parts, claim)?;
        // A join is built once.
        let _ = self.built.set(built);
        Ok(())
    }
}

impl SinkWorker for Builder {
    fn push(&mut self, batch: Batch) -> Result<()> {
        let plan = &self.of.plan;
        let batch = if plan.kind.keeps_nulls() || plan.null_equals_null {
            batch
        } else {
            match not_null(&batch.columns[..plan.keys]) {
                None => batch,
                Some(rows) => batch.take(&positions(&rows)),
            }
        };
        let before = self.rows.len();
        hash_rows(&batch.columns[..plan.keys], batch.rows, &mut self.hashes);
        self.rows.append(&batch.columns, batch.rows);
        for (row, hash) in self.hashes.iter().enumerate() {
            self.rows.row_mut(before + row)[HASH] = *hash;
        }
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

/// The probe side of a join.
impl Step for Arc<Join> {
    fn worker(&self) -> Box<dyn StepWorker> {
        let condition = self.plan.condition.as_ref().map(|condition| Evaluator::new(condition.program.clone()));
        let layout = Arc::new(Layout::new(&self.plan.build[..self.plan.keys], HASH + 1));
        Box::new(Prober {
            of: self.clone(),
            condition,
            keys: Rows::new(layout),
            hashes: vec![],
            ranges: vec![],
            probe_rows: vec![],
            build_rows: vec![],
        })
    }
}

struct Prober {
    of: Arc<Join>,
    condition: Option<Evaluator>,
    keys: Rows,
    hashes: Vec<u64>,
    ranges: Vec<(u32, u32)>,
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
        let keys = &batch.columns[..plan.keys];
        let is_direct = matches!(built.directory.buckets, Buckets::Key { .. });
        if !is_direct {
            hash_rows(keys, batch.rows, &mut self.hashes);
        }
        if !join.has_int_key() {
            self.keys.clear();
            self.keys.append(keys, batch.rows);
        }
        let ints = is_direct.then(|| keys[0].as_ints());
        built.directory.ranges(&self.hashes, ints, &mut self.ranges);
        if !plan.null_equals_null
            && let Some(valid) = not_null(keys)
        {
            (!&valid).set_indices().for_each(|row| self.ranges[row] = (0, 0));
        }
        let mut from = 0;
        for row in 0..batch.rows {
            for found in self.ranges[row].0..self.ranges[row].1 {
                self.probe_rows.push(row as u32);
                self.build_rows.push(found);
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
    /// Keeps the pairs whose keys are equal, and the first one of each row where one is enough.
    fn keep_equal(&mut self, join: &Join, keys: &[Vector]) {
        let (plan, built) = (&join.plan, join.built());
        let Prober { probe_rows, build_rows, keys: words, hashes, .. } = self;
        if matches!(built.directory.buckets, Buckets::Key { .. }) {
            // A bucket is a key.
        } else if join.has_int_key() {
            let (at, keys) = (join.layout.word_of(0), keys[0].as_ints());
            let is_equal = |probe: u32, build: u32| built.rows.row(build as usize)[at] == keys[probe as usize] as u64;
            retain(probe_rows, build_rows, is_equal);
        } else {
            let has_hash = |probe: u32, build: u32| built.rows.row(build as usize)[HASH] == hashes[probe as usize];
            retain(probe_rows, build_rows, has_hash);
            let is_equal =
                |probe: u32, build: u32| built.rows.equals_key(build as usize, words, probe as usize, plan.keys, HASH + 1);
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
            let columns = plan.output.iter().map(|pick| join.column(*pick, batch, probe, build)).collect();
            next(Batch { rows: probe.len(), columns })?;
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
        Box::new(RestWorker { of: self.of.clone(), next: self.next.clone(), from: 0 })
    }

    fn units(&self) -> usize {
        usize::MAX
    }
}

struct RestWorker {
    of: Arc<Join>,
    next: Arc<AtomicUsize>,
    from: usize,
}

impl SourceWorker for RestWorker {
    fn claim(&mut self) -> Option<Progress> {
        let unit = self.next.fetch_add(1, Ordering::Relaxed);
        self.from = unit.saturating_mul(UNIT_ROWS);
        (self.from < self.of.built().rows.len()).then_some(Progress::whole(unit))
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        let (plan, built) = (&self.of.plan, self.of.built());
        let (from, to) = (self.from, (self.from + UNIT_ROWS).min(built.rows.len()));
        let wanted = |row: &u32| match plan.kind {
            Kind::BuildSemi => built.has_pair(*row),
            Kind::BuildMark => true,
            _ => !built.has_pair(*row),
        };
        let rows: Vec<u32> = (from as u32..to as u32).filter(wanted).collect();
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
