//! The first rows of each group in an order, with their numbers.
//!
//! Each thread finds the group of a row by its key and keeps as many rows per group as are wanted, with their place in the
//! order as words. A row behind the last of its full group is not kept at all, so no rows are sorted.

use std::any::Any;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::direct::KeyDomain;
use crate::error::Result;
use crate::groups::{GroupTable, HASH};
use crate::pipeline::{Claim, Context, Finished, Results, Sink, SinkWorker, Source, Take};
use crate::places::Places;
use crate::rows::{Field, FrozenRows, Layout, Rows};
use crate::sort::SortKey;
use crate::vector::{Batch, Vector};

/// What is asked for.
pub struct Plan {
    /// The columns of a group's key, and what is known of them.
    pub keys: Vec<(usize, KeyDomain)>,
    /// The order within a group.
    pub order: Vec<SortKey>,
    /// The fields of the batches. The first ones are returned.
    pub fields: Vec<Field>,
    /// The number of columns that are returned, before that of the row's number.
    pub returned: usize,
    /// The rows of a group that are wanted.
    pub rows: usize,
}

/// The first rows of groups.
pub struct FirstRows {
    plan: Plan,
    key_layout: Arc<Layout>,
    layout: Arc<Layout>,
    places: Places,
    context: Arc<dyn Context>,
    done: OnceLock<Done>,
    next: AtomicUsize,
}

/// The rows, group by group, with their numbers.
struct Done {
    rows: FrozenRows,
    numbers: Vec<u32>,
}

/// The rows of a batch of results.
const OUTPUT_ROWS: usize = 8192;
/// Rows that were replaced by others stay until there are so many.
const REPLACED_MIN: usize = 64 << 10;

impl FirstRows {
    /// The first rows of groups of batches. The columns of keys and order have other forms than [`Form::Arrow`], those of
    /// the order ones that [`crate::places::has_words`] knows.
    pub fn new(plan: Plan, context: Arc<dyn Context>) -> Arc<FirstRows> {
        let keys: Vec<Field> = plan.keys.iter().map(|(_, key)| key.field.clone()).collect();
        let key_layout = Arc::new(Layout::new(&keys, HASH + 1));
        let layout = Arc::new(Layout::new(&plan.fields[..plan.returned], 0));
        let places = Places::new(&plan.order, &plan.fields);
        let (done, next) = (OnceLock::new(), AtomicUsize::new(0));
        Arc::new(FirstRows { plan, key_layout, layout, places, context, done, next })
    }

    /// The rows with their numbers, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    fn part(&self) -> Part {
        let domains: Vec<KeyDomain> = self.plan.keys.iter().map(|(_, key)| key.clone()).collect();
        Part {
            table: GroupTable::with_domains(self.key_layout.clone(), &domains),
            kept: Kept {
                width: self.places.width(),
                most: self.plan.rows,
                counts: vec![],
                places: vec![],
                rows: vec![],
                bounds: vec![],
                len: 0,
            },
            rows: Rows::new(self.layout.clone()),
        }
    }
}

/// The rows that are kept of each group, first ones first.
struct Kept {
    width: usize,
    most: usize,
    counts: Vec<u32>,
    places: Vec<u64>,
    /// The numbers of the rows.
    rows: Vec<u32>,
    /// The first word of the last place of each group that is full; the greatest one for others. It tells of nearly all rows whether
    /// they are wanted.
    bounds: Vec<u64>,
    /// How many rows are kept.
    len: usize,
}

/// The first word of a place: of an order without keys, all are equal.
fn first_word(place: &[u64]) -> u64 {
    place.first().copied().unwrap_or(0)
}

impl Kept {
    fn reserve(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.places.resize(groups * self.most * self.width, 0);
        self.rows.resize(groups * self.most, 0);
        self.bounds.resize(groups, u64::MAX);
    }

    fn place(&self, slot: usize) -> &[u64] {
        &self.places[slot * self.width..(slot + 1) * self.width]
    }

    /// Whether a row with this place is among the first ones of its group.
    #[inline]
    fn wants(&self, group: usize, place: &[u64]) -> bool {
        let (word, bound) = (first_word(place), self.bounds[group]);
        if word != bound {
            return word < bound;
        }
        let count = self.counts[group] as usize;
        count < self.most || place < self.place(group * self.most + self.most - 1)
    }

    /// Keeps a wanted row.
    fn insert(&mut self, group: usize, place: &[u64], row: u32) {
        let (first, count) = (group * self.most, self.counts[group] as usize);
        let mut slot = first + count.min(self.most - 1);
        while slot > first && place < self.place(slot - 1) {
            let (from, to) = ((slot - 1) * self.width, slot * self.width);
            self.places.copy_within(from..from + self.width, to);
            self.rows[slot] = self.rows[slot - 1];
            slot -= 1;
        }
        // A place has a word or two, for which nothing is called.
        self.places[slot * self.width..].iter_mut().zip(place).for_each(|(to, word)| *to = *word);
        self.rows[slot] = row;
        if count + 1 >= self.most {
            self.bounds[group] = first_word(self.place(first + self.most - 1));
        }
        if count < self.most {
            self.counts[group] = count as u32 + 1;
            self.len += 1;
        }
    }

    /// The slots that are taken.
    fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let slots = |(group, count): (usize, &u32)| (group * self.most)..(group * self.most + *count as usize);
        self.counts.iter().enumerate().flat_map(slots)
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * 4 + (self.places.capacity() + self.bounds.capacity()) * 8 + self.rows.capacity() * 4
    }
}

/// The groups of one thread.
struct Part {
    table: GroupTable,
    kept: Kept,
    rows: Rows,
}

impl Part {
    /// Forgets rows that were replaced.
    fn thin(&mut self) {
        if self.rows.len() < REPLACED_MIN + 2 * self.kept.len {
            return;
        }
        let slots: Vec<usize> = self.kept.slots().collect();
        self.rows.retain(slots.iter().map(|slot| self.kept.rows[*slot]));
        slots.iter().enumerate().for_each(|(row, slot)| self.kept.rows[*slot] = row as u32);
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.kept.bytes() + self.rows.bytes()
    }
}

struct Worker {
    of: Arc<FirstRows>,
    part: Part,
    groups: Vec<u32>,
    places: Vec<u64>,
    claim: Claim,
}

impl Sink for Arc<FirstRows> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let claim = Claim::new(self.context.clone());
        Box::new(Worker { of: self.clone(), part: self.part(), groups: vec![], places: vec![], claim })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let mut parts: Vec<Part> = workers.map(|worker| worker.part).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.table.len()));
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return Ok(()) };
        // The part of each kept row, slot by slot.
        let mut owners: Vec<u32> = vec![0; all.kept.rows.len()];
        let mut stored = vec![all.rows];
        for part in parts {
            merge(&mut all.table, &mut all.kept, &mut owners, &part, stored.len() as u32);
            stored.push(part.rows);
        }
        let (mut order, mut numbers) = (vec![], vec![]);
        for slot in all.kept.slots() {
            order.push((owners[slot], all.kept.rows[slot]));
            numbers.push((slot % all.kept.most) as u32 + 1);
        }
        let rows = FrozenRows::ordered(self.layout.clone(), stored, &order);
        // A stage ends once.
        let _ = self.done.set(Done { rows, numbers });
        Ok(())
    }
}

/// Adds the kept rows of another thread, which is number `owner`.
fn merge(table: &mut GroupTable, kept: &mut Kept, owners: &mut Vec<u32>, part: &Part, owner: u32) {
    let mut groups = vec![];
    table.find(part.table.rows(), 0..part.table.len(), &mut groups);
    kept.reserve(table.len());
    owners.resize(kept.rows.len(), 0);
    for slot in part.kept.slots() {
        let (group, place) = (groups[slot / kept.most] as usize, part.kept.place(slot));
        if !kept.wants(group, place) {
            continue;
        }
        let (first, before) = (group * kept.most, kept.counts[group] as usize);
        // Where the row goes, before it is there.
        let behind = (0..before).filter(|at| kept.place(first + at) <= place).count();
        owners[first + behind..first + kept.most.min(before + 1)].rotate_right(1);
        owners[first + behind] = owner;
        kept.insert(group, place, part.kept.rows[slot]);
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, _: usize, batch: Batch) -> Result<()> {
        let Worker { of, part, groups, places, claim } = self;
        groups.clear();
        let keys: Vec<Vector> = of.plan.keys.iter().map(|(column, _)| batch.columns[*column].clone()).collect();
        part.table.find_keys(&keys, batch.rows, groups);
        part.kept.reserve(part.table.len());
        of.places.put(|column| batch.columns[column].clone(), batch.rows, places);
        let width = of.places.width();
        let first = part.rows.len() as u32;
        let mut wanted: Vec<u32> = vec![];
        for (row, group) in groups.iter().enumerate() {
            let place = &places[row * width..(row + 1) * width];
            if part.kept.wants(*group as usize, place) {
                part.kept.insert(*group as usize, place, first + wanted.len() as u32);
                wanted.push(row as u32);
            }
        }
        if !wanted.is_empty() {
            let columns: Vec<Vector> = batch.columns[..of.plan.returned].iter().map(|c| c.take(&wanted)).collect();
            part.rows.append(&columns, wanted.len());
            part.thin();
        }
        claim.resize(part.bytes())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Finished for FirstRows {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        self.done.get().map_or(1, |done| done.numbers.len().div_ceil(OUTPUT_ROWS))
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        let Some(done) = self.done.get() else { return Ok(()) };
        let range = unit * OUTPUT_ROWS..done.numbers.len().min((unit + 1) * OUTPUT_ROWS);
        let rows: Vec<u32> = range.clone().map(|row| row as u32).collect();
        // Unsigned integers are stored in the order of signed ones.
        let numbers = done.numbers[range].iter().map(|number| i64::MIN + i64::from(*number)).collect();
        let columns = (0..self.plan.returned).map(|column| done.rows.vector(column, &rows));
        let columns = columns.chain([Vector::ints(numbers)]).collect();
        take(Batch { rows: rows.len(), columns })
    }
}
