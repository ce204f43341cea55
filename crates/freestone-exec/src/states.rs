//! The groups of one thread with the states of their aggregates, and runs: groups that were put aside, divided by their hashes into
//! partitions.

use std::ops::Range;
use std::sync::Arc;

use crate::accumulators::{Accumulator, MakeAccumulator, count_each};
use crate::error::Result;
use crate::groups::{GroupTable, HASH};
use crate::pipeline::Claim;
use crate::pipeline::Context;
use crate::rows::Rows;
use crate::vector::{Batch, Vector, positions};

/// An aggregate: its inputs among the columns of a batch, a boolean column that says which rows count, and its states.
#[derive(Clone)]
pub struct Call {
    /// The columns of its arguments.
    pub inputs: Vec<usize>,
    /// The column of its FILTER.
    pub filter: Option<usize>,
    /// Makes its states.
    pub accumulator: MakeAccumulator,
    /// Whether its results depend on the order of rows.
    pub is_ordered: bool,
}

/// The partitions by hash, as bits.
const PARTITION_BITS: u32 = 6;
pub(crate) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// The partition of a hash.
#[inline]
pub(crate) fn partition_of(hash: u64) -> usize {
    (hash >> (64 - PARTITION_BITS)) as usize
}

/// The groups of a thread with their states, divided into partitions.
pub(crate) struct Run {
    pub rows: Rows,
    counts: Vec<i64>,
    states: Vec<Vec<Vector>>,
    /// Where partitions begin; the last one ends at the end.
    starts: Vec<usize>,
    _claim: Claim,
}

impl Run {
    pub fn partition(&self, partition: usize) -> Range<usize> {
        self.starts[partition]..self.starts[partition + 1]
    }

    /// The keys of all groups, and the run without them.
    pub fn into_keys(mut self, keys: usize) -> (Vec<Vector>, Run) {
        let all: Vec<u32> = (0..self.rows.len() as u32).collect();
        let empty = Rows::new(self.rows.layout().clone());
        let rows = std::mem::replace(&mut self.rows, empty).freeze();
        ((0..keys).map(|key| rows.vector(key, &all)).collect(), self)
    }
}

/// A table with the states of its groups.
pub(crate) struct States {
    pub table: GroupTable,
    /// The rows of each group.
    counts: Vec<i64>,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// The rows that were added.
    pub rows: usize,
    pub claim: Claim,
}

impl States {
    /// The states of the groups of an empty table.
    pub fn new(calls: &[Call], table: GroupTable, context: Arc<dyn Context>) -> Result<States> {
        let accumulators = calls.iter().map(|call| (call.accumulator)()).collect::<Result<_>>()?;
        Ok(States { table, counts: vec![], accumulators, rows: 0, claim: Claim::new(context) })
    }

    /// The rows that follow are of this unit.
    pub fn begin(&mut self, unit: usize) {
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.begin(unit));
    }

    pub fn update(&mut self, calls: &[Call], batch: &Batch, groups: &[u32]) -> Result<()> {
        let total = self.table.len();
        self.rows += batch.rows;
        self.counts.resize(total, 0);
        count_each(&mut self.counts, None, groups);
        for (call, accumulator) in calls.iter().zip(&mut self.accumulators) {
            let inputs = call.inputs.iter().map(|input| batch.columns[*input].clone());
            match call.filter {
                None => accumulator.update(&inputs.collect::<Vec<_>>(), groups, total)?,
                Some(filter) => {
                    let rows = positions(&crate::program::true_rows(&batch.columns[filter]));
                    let inputs: Vec<Vector> = inputs.map(|input| input.take(&rows)).collect();
                    let groups: Vec<u32> = rows.iter().map(|row| groups[*row as usize]).collect();
                    accumulator.update(&inputs, &groups, total)?;
                }
            }
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.counts.capacity() * 8 + self.accumulator_bytes()
    }

    pub fn accumulator_bytes(&self) -> usize {
        self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum()
    }

    /// Adds groups of a run with their states.
    pub fn merge(&mut self, run: &Run, which: Range<usize>) -> Result<()> {
        let mut groups = vec![];
        self.table.find(&run.rows, which.clone(), &mut groups);
        self.merge_into(&groups, run, which)
    }

    /// Adds all groups of a run, which has `rows`, to those with these keys.
    pub fn merge_as(&mut self, run: &Run, keys: &[Vector], rows: usize) -> Result<()> {
        let mut groups = vec![];
        self.table.find_keys(keys, rows, &mut groups);
        self.merge_into(&groups, run, 0..rows)
    }

    fn merge_into(&mut self, groups: &[u32], run: &Run, which: Range<usize>) -> Result<()> {
        let total = self.table.len();
        self.counts.resize(total, 0);
        for (group, count) in groups.iter().zip(&run.counts[which.clone()]) {
            self.counts[*group as usize] += count;
        }
        for (accumulator, states) in self.accumulators.iter_mut().zip(&run.states) {
            let some: Vec<Vector> = states.iter().map(|state| state.slice(which.start, which.len())).collect();
            accumulator.merge(&some, groups, total)?;
        }
        Ok(())
    }

    /// The table's groups and states as a run; the table is empty afterwards.
    pub fn run(&mut self) -> Result<Run> {
        let total = self.table.len();
        let states = self.accumulators.iter_mut().map(|a| a.states(total)).collect::<Result<Vec<_>>>()?;
        let rows = self.table.take_rows();
        let partition = |row: usize| partition_of(rows.row(row)[HASH]);
        let mut starts = vec![0; PARTITIONS + 1];
        (0..total).for_each(|row| starts[partition(row) + 1] += 1);
        (0..PARTITIONS).for_each(|at| starts[at + 1] += starts[at]);
        let (mut next, mut order) = (starts.clone(), vec![0; total]);
        for row in 0..total {
            let place = &mut next[partition(row)];
            order[*place] = row as u32;
            *place += 1;
        }
        // Partitions are in one piece, because each is read by itself when the run is no longer in the caches.
        let (rows, before) = (rows.reordered(&order), std::mem::take(&mut self.counts));
        let counts = order.iter().map(|row| before[*row as usize]).collect();
        let states: Vec<Vec<Vector>> =
            states.into_iter().map(|of| of.iter().map(|state| state.take(&order)).collect()).collect();
        self.rows = 0;
        let mut claim = Claim::new(self.claim.context());
        std::mem::swap(&mut claim, &mut self.claim);
        Ok(Run { rows, counts, states, starts, _claim: claim })
    }

    /// The groups and states as a run, if all groups are of this partition.
    pub fn into_run(mut self, partition: usize) -> Result<Run> {
        let total = self.table.len();
        let states = self.accumulators.iter_mut().map(|a| a.states(total)).collect::<Result<Vec<_>>>()?;
        let mut starts = vec![0; partition + 1];
        starts.resize(PARTITIONS + 1, total);
        Ok(Run { rows: self.table.into_rows(), counts: self.counts, states, starts, _claim: self.claim })
    }

    /// The groups with their results.
    pub fn finish(mut self, keys: usize) -> Result<Batch> {
        let total = self.table.len();
        self.counts.resize(total, 0);
        let counts = &self.counts;
        let results = self.accumulators.iter_mut().map(|a| a.results(counts)).collect::<Result<Vec<_>>>()?;
        let rows = self.table.freeze();
        let all: Vec<u32> = (0..total as u32).collect();
        let columns = (0..keys).map(|key| rows.vector(key, &all)).chain(results.into_iter().flatten()).collect();
        Ok(Batch { rows: total, columns })
    }
}
