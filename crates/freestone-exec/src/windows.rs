//! Window functions: the rows of each partition together, in an order.
//!
//! Each thread collects rows with the number of their partition and their place in the order. Then the rows of each
//! partition are put together in the order in which they came, and threads take partitions, sort their rows if they are
//! not sorted already, and compute the functions. Partitions come in the order of their keys.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::direct::KeyDomain;
use crate::error::Result;
pub use crate::frames::{Bound, Call, Frame, Function};
use crate::frames::{OrderValues, Sorted};
use crate::groups::{GroupTable, HASH};
use crate::pipeline::{Claim, Context, Finished, Results, Sink, SinkWorker, Source, Take, check};
use crate::places::{Places, Sorting};
use crate::rows::{Field, FrozenRows, Layout, RowParts};
use crate::sort::SortKey;
use crate::vector::{Batch, Vector};

/// A key of partitions.
pub struct PartitionKey {
    /// Its column.
    pub column: usize,
    /// What is known of its values.
    pub domain: KeyDomain,
    /// The order in which partitions come; its column is not used.
    pub order: SortKey,
}

/// What is asked for.
pub struct Plan {
    /// The keys of partitions.
    pub keys: Vec<PartitionKey>,
    /// The order of rows within a partition.
    pub order: Vec<SortKey>,
    /// The columns of the order by which rows are equal: the first ones.
    pub equal_by: usize,
    /// The fields of the columns that orders and functions need: the first ones of the batches.
    pub fields: Vec<Field>,
    /// The number of columns that are returned, before those of the functions: the first ones of these.
    pub returned: usize,
    /// The functions.
    pub calls: Vec<Call>,
}

/// Window functions over all rows of their partitions.
pub struct Windows {
    plan: Plan,
    key_layout: Arc<Layout>,
    layout: Arc<Layout>,
    /// The order of partitions, and that of their rows.
    partitions: Places,
    places: Places,
    context: Arc<dyn Context>,
    done: OnceLock<Done>,
    next: AtomicUsize,
}

/// The rows of all threads, partition by partition.
struct Done {
    rows: FrozenRows,
    numbers: Vec<u32>,
    /// Where the partitions begin, and the end of the last one.
    starts: Vec<usize>,
    /// Partitions that are computed together.
    units: Vec<Range<usize>>,
    _claims: Vec<Claim>,
}

/// Small partitions are computed together up to this number of rows, which fits a cache of the second level.
const UNIT_ROWS: usize = 16 << 10;
/// The rows of a batch of results.
const OUTPUT_ROWS: usize = 8192;
/// The memory of a row while its partition is computed: its number, twice, and what is sorted; and for each function its
/// values, sums up to the row, and results.
const ROW_BYTES: usize = 24;
const CALL_BYTES: usize = 64;

impl Windows {
    /// Window functions of batches. Columns of keys have other forms than [`crate::vector::Form::Arrow`], and those of
    /// the order ones that [`crate::places::has_order`] knows.
    pub fn new(plan: Plan, context: Arc<dyn Context>) -> Arc<Windows> {
        let keys: Vec<Field> = plan.keys.iter().map(|key| key.domain.field.clone()).collect();
        let key_layout = Arc::new(Layout::new(&keys, HASH + 1));
        let order = |(column, key): (usize, &PartitionKey)| SortKey { column, ..key.order.clone() };
        let by_keys: Vec<SortKey> = plan.keys.iter().enumerate().map(order).collect();
        let partitions = Places::new(&by_keys, &keys);
        let places = Places::new(&plan.order, &plan.fields);
        let layout = Arc::new(Layout::new(&plan.fields, 0));
        let (done, next) = (OnceLock::new(), AtomicUsize::new(0));
        Arc::new(Windows { plan, key_layout, layout, partitions, places, context, done, next })
    }

    /// The rows with their results, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    /// The place of each group in the order of its key.
    fn group_places(&self, table: GroupTable) -> Vec<u32> {
        let total = table.len();
        let keys = table.freeze();
        let mut sorting = Sorting::new(&self.partitions, &keys, (0..total as u32).collect());
        sorting.sort(0..total);
        let mut places = vec![0; total];
        sorting.numbers.iter().enumerate().for_each(|(place, group)| places[*group as usize] = place as u32);
        places
    }
}

/// Rows that a thread took of one unit of the input.
struct Piece {
    unit: usize,
    rows: Range<usize>,
}

/// The rows of one thread.
struct Worker {
    of: Arc<Windows>,
    table: GroupTable,
    rows: RowParts,
    groups: Vec<u32>,
    pieces: Vec<Piece>,
    claim: Claim,
}

impl Sink for Arc<Windows> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let domains: Vec<KeyDomain> = self.plan.keys.iter().map(|key| key.domain.clone()).collect();
        Box::new(Worker {
            of: self.clone(),
            table: GroupTable::with_domains(self.key_layout.clone(), &domains),
            rows: RowParts::new(self.layout.clone()),
            groups: vec![],
            pieces: vec![],
            claim: Claim::new(self.context.clone()),
        })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let mut workers: Vec<Worker> = workers.map(|worker| *worker).collect();
        let total: usize = workers.iter().map(|worker| worker.rows.len()).sum();
        let starts = if self.plan.keys.is_empty() { vec![0, total] } else { self.number_groups(&mut workers)? };
        let mut claim = Claim::new(self.context.clone());
        claim.resize(total * size_of::<u32>())?;
        // A stage ends once.
        let _ = self.done.set(self.gathered(workers, starts, total, claim)?);
        Ok(())
    }
}

impl Windows {
    /// Gives the groups of all threads one numbering, in the order of their keys. Returns where their rows begin.
    fn number_groups(&self, workers: &mut [Worker]) -> Result<Vec<usize>> {
        let empty = || GroupTable::new(self.key_layout.clone());
        let mut tables = workers.iter_mut().map(|worker| std::mem::replace(&mut worker.table, empty()));
        let mut all = tables.next().unwrap_or_else(empty);
        let mut numbers: Vec<Vec<u32>> = vec![(0..all.len() as u32).collect()];
        for table in tables {
            let mut found = vec![];
            all.find(table.rows(), 0..table.len(), &mut found);
            numbers.push(found);
        }
        let places = self.group_places(all);
        let mut starts = vec![0usize; places.len() + 1];
        for (worker, numbers) in workers.iter_mut().zip(&numbers) {
            check(self.context.as_ref())?;
            for group in &mut worker.groups {
                *group = places[numbers[*group as usize] as usize];
                starts[*group as usize + 1] += 1;
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Ok(starts)
    }

    /// The rows by group, and within a group as they came.
    fn gathered(&self, workers: Vec<Worker>, starts: Vec<usize>, total: usize, claim: Claim) -> Result<Done> {
        let mut pieces: Vec<(usize, usize, Range<usize>)> = vec![];
        for (at, worker) in workers.iter().enumerate() {
            pieces.extend(worker.pieces.iter().map(|piece| (piece.unit, at, piece.rows.clone())));
        }
        pieces.sort_by_key(|(unit, ..)| *unit);
        let firsts = workers.iter().scan(0, |before, worker| {
            let first = *before * FrozenRows::PART_ROWS;
            *before += worker.rows.count();
            Some(first)
        });
        let firsts: Vec<usize> = firsts.collect();
        let mut numbers = vec![0u32; total];
        let mut next = starts.clone();
        for (_, at, rows) in pieces {
            check(self.context.as_ref())?;
            for row in rows {
                // Without keys there is one group.
                let group = workers[at].groups.get(row).map_or(0, |group| *group as usize);
                numbers[next[group]] = (firsts[at] + row) as u32;
                next[group] += 1;
            }
        }
        let (mut parts, mut claims) = (vec![], vec![claim]);
        for worker in workers {
            parts.extend(worker.rows.into_parts());
            claims.push(worker.claim);
        }
        let rows = FrozenRows::joined(self.layout.clone(), parts)?;
        let units = units(&starts);
        Ok(Done { rows, numbers, starts, units, _claims: claims })
    }
}

/// Partitions that are computed together.
fn units(starts: &[usize]) -> Vec<Range<usize>> {
    let (mut units, mut from) = (vec![], 0);
    for at in 1..starts.len() {
        if starts[at] - starts[from] >= UNIT_ROWS || at + 1 == starts.len() {
            units.push(from..at);
            from = at;
        }
    }
    units
}

impl SinkWorker for Worker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        let of = self.of.clone();
        if !of.plan.keys.is_empty() {
            let keys: Vec<Vector> = of.plan.keys.iter().map(|key| batch.columns[key.column].clone()).collect();
            self.table.find_keys(&keys, batch.rows, &mut self.groups);
        }
        let first = self.rows.len();
        self.rows.append(&batch.columns[..of.plan.fields.len()], batch.rows, |_, _, _| {});
        let end = first + batch.rows;
        match self.pieces.last_mut().filter(|piece| piece.unit == unit) {
            Some(piece) => piece.rows.end = end,
            None => self.pieces.push(Piece { unit, rows: first..end }),
        }
        let groups = self.groups.capacity() * size_of::<u32>() + self.table.bytes();
        self.claim.resize(self.rows.bytes() + groups)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Finished for Windows {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        self.done.get().map_or(usize::MAX, |done| done.units.len())
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        let Some(done) = self.done.get() else { return Ok(()) };
        let partitions = done.units[unit].clone();
        let first = done.starts[partitions.start];
        let starts: Vec<u32> =
            done.starts[partitions.start..=partitions.end].iter().map(|start| (start - first) as u32).collect();
        let numbers = done.numbers[first..done.starts[partitions.end]].to_vec();
        let mut claim = Claim::new(self.context.clone());
        let per_row = ROW_BYTES + self.places.width() * size_of::<u64>() + self.plan.calls.len() * CALL_BYTES;
        claim.resize(numbers.len() * per_row)?;
        let mut sorting = Sorting::new(&self.places, &done.rows, numbers);
        starts.windows(2).for_each(|pair| sorting.sort(pair[0] as usize..pair[1] as usize));
        check(self.context.as_ref())?;
        let plan = &self.plan;
        let peers = match plan.calls.iter().any(Call::needs_peers) {
            true => peers(&sorting, plan.equal_by, &starts),
            false => vec![],
        };
        let numbers = sorting.numbers;
        let order = plan
            .order
            .first()
            .filter(|_| plan.calls.iter().any(Call::needs_order))
            .map(|key| OrderValues { values: done.rows.vector(key.column, &numbers), descending: key.descending });
        let sorted =
            Sorted { rows: &done.rows, fields: &plan.fields, numbers: &numbers, starts: &starts, peers: &peers, order };
        let results = plan.calls.iter().map(|call| call.evaluate(&sorted)).collect::<Result<Vec<_>>>()?;
        for from in (0..numbers.len()).step_by(OUTPUT_ROWS) {
            check(self.context.as_ref())?;
            let some = &numbers[from..numbers.len().min(from + OUTPUT_ROWS)];
            let columns = (0..plan.returned).map(|column| done.rows.vector(column, some));
            let columns = columns.chain(results.iter().map(|result| result.slice(from, some.len()))).collect();
            take(Batch { rows: some.len(), columns })?;
        }
        Ok(())
    }
}

/// Where rows begin that are equal in the order, and the end.
fn peers(sorting: &Sorting<'_>, keys: usize, starts: &[u32]) -> Vec<u32> {
    let mut peers = vec![];
    for pair in starts.windows(2).filter(|pair| pair[0] < pair[1]) {
        peers.push(pair[0]);
        peers.extend((pair[0] + 1..pair[1]).filter(|at| !sorting.continues(keys, *at as usize)));
    }
    peers.push(sorting.numbers.len() as u32);
    peers
}
