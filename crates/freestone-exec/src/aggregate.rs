//! Aggregation by groups.
//!
//! Each thread aggregates its rows in a table of its own. If there are few groups, the tables are merged at the end. A
//! table that grows large is put aside as a run, whose groups are divided by their hashes into partitions; at the end,
//! the runs of each partition are merged by one thread. This is the scheme of Leis et al. ("Morsel-Driven
//! Parallelism", SIGMOD 2014, section 4.4), in which a partition fits into the caches when it is merged. Rows of many groups are
//! divided by partition before they are looked up, unless they have texts, or most are groups of their own. Groups of a key that
//! comes nearly in order are divided by its values instead, see [`crate::stretches`].

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow_buffer::Buffer;
use parking_lot::Mutex;

use crate::direct::KeyDomain;
use crate::divided::Divided;
use crate::error::Result;
use crate::grouping_sets::{GroupingSet, GroupingSets};
use crate::groups::{GroupTable, HASH};
use crate::pipeline::{Context, Finished, Results, Sink, SinkWorker, Source, Take, check};
use crate::repeats::Repeats;
use crate::rows::{Field, Layout, Rows};
pub use crate::states::Call;
use crate::states::{PARTITIONS, Run, States};
use crate::stretches::{Left, Stretches, merged};
use crate::vector::{Batch, Form};

/// An aggregation of batches whose first columns are the keys.
pub struct Aggregation {
    keys: Vec<KeyDomain>,
    layout: Arc<Layout>,
    calls: Vec<Call>,
    sets: Option<GroupingSets>,
    context: Arc<dyn Context>,
    /// A table of so many groups is put aside.
    run_groups: usize,
    done: Mutex<Done>,
    next: AtomicUsize,
}

/// A table of so many groups is put aside.
const RUN_GROUPS: usize = 1 << 17;
/// If the first so many groups have hardly more rows, their table is put aside at once.
const FIRST_RUN_GROUPS: usize = 1 << 14;
/// Groups without texts that have more rows are divided before they are looked up, from so many on.
const DIVIDED_GROUPS: usize = 1 << 15;
/// More groups than these are merged by several threads.
const MERGED_BY_ONE: usize = 1 << 13;
/// So are groups whose states are larger: those of aggregates that keep all values.
const MERGED_BY_ONE_BYTES: usize = 4 << 20;
/// A table may become so many times as large as long as it has many rows per group.
const LARGER_RUN: usize = 8;
const ROWS_PER_GROUP: usize = 2;
/// Of so many runs, one is of rows that were looked up: they may have become more alike.
const RUNS_PER_LOOKUP: usize = 16;
/// The rows of a batch of results.
const OUTPUT_ROWS: usize = 8192;

#[derive(Default)]
struct Done {
    /// The results, if there were few groups.
    whole: Option<Arc<Batch>>,
    runs: Arc<Vec<Run>>,
    /// The groups of each stretch of the key, if all rows came nearly in order. Each is read once.
    stretches: Option<Vec<Vec<States>>>,
    /// The blocks of texts, to which the groups of all runs refer.
    texts: Vec<Buffer>,
}

impl Aggregation {
    /// An aggregation by the first columns.
    pub fn new(keys: Vec<KeyDomain>, calls: Vec<Call>, context: Arc<dyn Context>) -> Arc<Aggregation> {
        Aggregation::with_runs(keys, calls, context, RUN_GROUPS)
    }

    /// The same, in which a thread puts a table of so many groups aside.
    pub fn with_runs(
        keys: Vec<KeyDomain>,
        calls: Vec<Call>,
        context: Arc<dyn Context>,
        run_groups: usize,
    ) -> Arc<Aggregation> {
        Arc::new(Aggregation::unshared(keys, calls, context, run_groups))
    }

    fn unshared(keys: Vec<KeyDomain>, calls: Vec<Call>, context: Arc<dyn Context>, run_groups: usize) -> Aggregation {
        let fields: Vec<Field> = keys.iter().map(|key| key.field.clone()).collect();
        let layout = Arc::new(Layout::new(&fields, HASH + 1));
        let (sets, done, next) = (None, Mutex::default(), AtomicUsize::new(0));
        Aggregation { keys, layout, calls, sets, context, run_groups, done, next }
    }

    /// An aggregation by sets of the first columns. Results have the number of the set behind the keys.
    pub fn with_sets(
        keys: Vec<KeyDomain>,
        sets: Vec<GroupingSet>,
        calls: Vec<Call>,
        context: Arc<dyn Context>,
    ) -> Arc<Aggregation> {
        let sets = Some(GroupingSets::new(sets, &keys));
        Arc::new(Aggregation { sets, ..Aggregation::unshared(keys, calls, context, RUN_GROUPS) })
    }

    /// The groups with their results, when the aggregation is complete.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    /// Whether only the distinct values of a column of texts are wanted.
    fn is_distinct_text(&self) -> bool {
        self.sets.is_none()
            && self.calls.is_empty()
            && matches!(self.keys.as_slice(), [key] if key.field.form == Form::Text)
    }

    fn table(&self) -> GroupTable {
        match self.is_distinct_text() {
            // Codes that came before are left out, and numbers of the others would only cost time.
            true => GroupTable::new(self.layout.clone()),
            false => GroupTable::with_domains(self.layout.clone(), &self.keys),
        }
    }

    fn states(&self, table: GroupTable) -> Result<States> {
        States::new(&self.calls, table, self.context.clone())
    }
}

/// Whether most rows are groups of their own: four of five.
fn is_nearly_unique(rows: usize, groups: usize) -> bool {
    rows * 4 < groups * 5
}

struct Worker {
    of: Arc<Aggregation>,
    /// The groups as long as rows come nearly in order.
    stretches: Option<Stretches>,
    states: Option<States>,
    divided: Option<Divided>,
    runs: Vec<Run>,
    groups: Vec<u32>,
    /// The texts that came, if only distinct ones are wanted.
    repeats: Option<Repeats>,
    /// Whether equal rows are looked for. They are merged at the end in any case.
    looks_up: bool,
}

impl Sink for Arc<Aggregation> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let repeats = self.is_distinct_text().then(Repeats::default);
        let (of, runs, groups) = (self.clone(), vec![], vec![]);
        let stretches = match self.sets {
            Some(_) => None,
            None => Stretches::new(&self.calls, &self.keys, &self.layout, &self.context),
        };
        Box::new(Worker { of, stretches, states: None, divided: None, runs, groups, repeats, looks_up: true })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let mut workers: Vec<Box<Worker>> =
            workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok()).collect();
        if !workers.is_empty() && workers.iter().all(|worker| worker.stretches.is_some()) {
            let mut left = Left::new();
            workers.into_iter().filter_map(|worker| worker.stretches).try_for_each(|one| one.into_left(&mut left))?;
            self.done.lock().stretches = Some(left.into_values().collect());
            return Ok(());
        }
        workers.iter_mut().try_for_each(|worker| worker.divide_by_hash())?;
        let (mut tables, mut runs) = (vec![], vec![]);
        for worker in workers {
            tables.extend(worker.states.filter(|states| !states.table.is_empty()));
            runs.extend(worker.runs);
        }
        let groups: usize = tables.iter().map(|states| states.table.len()).sum();
        let mut done = self.done.lock();
        let are_many = !runs.is_empty() || (tables.len() > 1 && groups > self.run_groups.min(MERGED_BY_ONE));
        if are_many || self.sets.is_some() {
            for mut states in tables {
                runs.push(states.run()?);
            }
            if let Some(sets) = &self.sets {
                done.whole = Some(Arc::new(sets.merged(runs, &self.calls, &self.context)?));
                return Ok(());
            }
            done.texts = Rows::share_texts(runs.iter_mut().map(|run| &mut run.rows));
            done.runs = Arc::new(runs);
            return Ok(());
        }
        let mut tables = tables.into_iter();
        let mut whole = match tables.next() {
            Some(states) => states,
            None => self.states(GroupTable::new(self.layout.clone()))?,
        };
        for mut states in tables {
            let run = states.run()?;
            whole.merge(&run, 0..run.rows.len())?;
        }
        if self.keys.is_empty() && whole.table.is_empty() {
            whole.table.find(&one_row(&self.layout), 0..1, &mut vec![]);
        }
        done.whole = Some(Arc::new(whole.finish(self.keys.len())?));
        Ok(())
    }
}

fn one_row(layout: &Arc<Layout>) -> Rows {
    let mut rows = Rows::new(layout.clone());
    rows.append(&[], 1);
    rows
}

impl Worker {
    /// Rows do not come nearly in order.
    fn divide_by_hash(&mut self) -> Result<()> {
        if let Some(stretches) = self.stretches.take() {
            self.runs.extend(stretches.into_runs()?);
        }
        Ok(())
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        if let Some(stretches) = &mut self.stretches {
            if stretches.push(unit, &batch)? {
                return Ok(());
            }
            self.divide_by_hash()?;
        }
        let of = self.of.clone();
        let first = self.repeats.as_mut().and_then(|repeats| repeats.first_rows(&batch.columns[0]));
        let batch = match first {
            Some(rows) if rows.is_empty() => return Ok(()),
            Some(rows) => batch.take(&rows),
            None => batch,
        };
        if let Some(divided) = &mut self.divided {
            return divided.push(&batch);
        }
        let states = match &mut self.states {
            Some(states) => states,
            none => none.insert(of.states(of.table())?),
        };
        self.groups.clear();
        let keys = &batch.columns[..of.keys.len()];
        match self.looks_up {
            true => states.table.find_keys(keys, batch.rows, &mut self.groups),
            false => states.table.append(keys, batch.rows, &mut self.groups),
        }
        states.begin(unit);
        states.update(&of.calls, &batch, &self.groups)?;
        states.claim.resize(states.bytes() + self.repeats.as_ref().map_or(0, Repeats::bytes))?;
        let groups = states.table.len();
        // A position per group is found as fast in a large table, and there cannot be more groups than positions.
        let reduces = states.rows >= groups * ROWS_PER_GROUP && groups < of.run_groups * LARGER_RUN;
        let is_unique = is_nearly_unique(states.rows, groups);
        let is_divided = groups >= DIVIDED_GROUPS.min(of.run_groups) && self.looks_up && !is_unique;
        if is_divided && !states.table.is_direct() && Divided::takes(&of.calls, of.keys.len(), &batch) {
            self.runs.push(states.run()?);
            self.states = None;
            self.divided = Some(Divided::new(&of.calls, of.keys.len(), &of.layout, &batch, &of.context)?);
            return Ok(());
        }
        let is_first = groups >= FIRST_RUN_GROUPS && self.looks_up && is_unique;
        if (groups >= of.run_groups || is_first) && !reduces && !states.table.is_direct() {
            // Rows of the next runs would only become groups of their own.
            self.runs.push(states.run()?);
            self.looks_up = !is_unique || self.runs.len().is_multiple_of(RUNS_PER_LOOKUP);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let merges = self.of.context.threads() > 1;
        let is_large = |states: &mut States| {
            states.table.len() > self.of.run_groups.min(MERGED_BY_ONE)
                || states.accumulator_bytes() > MERGED_BY_ONE_BYTES
        };
        if let Some(mut states) = self.states.take_if(|states| merges && is_large(states)) {
            self.runs.push(states.run()?);
        }
        if let Some(divided) = self.divided.take() {
            self.runs.extend(divided.into_runs()?);
        }
        Ok(())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The groups with their results: one unit, or one per partition.
impl Finished for Aggregation {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        let done = self.done.lock();
        match (&done.whole, &done.stretches) {
            (Some(_), _) => 1,
            (None, Some(stretches)) => stretches.len(),
            (None, None) => PARTITIONS,
        }
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        let (whole, stretch, runs, texts) = {
            let mut done = self.done.lock();
            let stretch = done.stretches.as_mut().map(|all| std::mem::take(&mut all[unit]));
            (done.whole.clone(), stretch, done.runs.clone(), done.texts.clone())
        };
        let batch = match (whole, stretch) {
            (Some(whole), _) => whole,
            (None, Some(states)) => Arc::new(merged(states)?),
            (None, None) => Arc::new(self.merged(unit, &runs, texts)?),
        };
        for range in ranges(batch.rows) {
            take(batch.slice(range.start, range.len()))?;
        }
        Ok(())
    }
}

impl Aggregation {
    fn merged(&self, partition: usize, runs: &[Run], texts: Vec<Buffer>) -> Result<Batch> {
        let groups = runs.iter().map(|run| run.partition(partition).len()).max().unwrap_or(0);
        if groups == 0 {
            return Ok(Batch { rows: 0, columns: vec![] });
        }
        let mut states = self.states(GroupTable::merging(self.layout.clone(), groups, texts))?;
        for run in runs {
            check(self.context.as_ref())?;
            let which = run.partition(partition);
            if !which.is_empty() {
                states.merge(run, which)?;
            }
        }
        states.claim.resize(states.bytes())?;
        states.finish(self.keys.len())
    }
}

fn ranges(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(OUTPUT_ROWS).map(move |from| from..(from + OUTPUT_ROWS).min(rows))
}
