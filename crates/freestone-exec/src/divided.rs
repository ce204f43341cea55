//! Groups that are divided by their hashes before they are looked up.
//!
//! A table of many groups does not fit the caches, so that each row would wait for memory. Here rows are put aside by the first
//! bits of their hashes, and looked up some thousand at a time in the table of their partition, which does fit. The states of
//! other aggregates are updated then, too. Rows have no texts: these would have to be kept until then.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::error::Result;
use crate::groups::GroupTable;
use crate::hash::hash_rows;
use crate::pipeline::{Claim, Context};
use crate::rows::{Layout, Rows};
use crate::states::{Call, PARTITIONS, Run, States, partition_of};
use crate::vector::{Batch, Values, Vector};

/// The rows of a partition that are looked up together.
const ROWS_AT_ONCE: usize = 1 << 11;

/// Tables by partition, and the rows that are still to be looked up.
pub(crate) struct Divided {
    calls: Vec<Call>,
    keys: usize,
    /// The columns that calls need.
    inputs: Vec<usize>,
    parts: Vec<Part>,
    /// The keys of a batch, and their hashes and partitions.
    batch: Rows,
    hashes: Vec<u64>,
    groups: Vec<u32>,
    claim: Claim,
}

struct Part {
    states: States,
    keys: Rows,
    inputs: Vec<Buffered>,
}

impl Divided {
    /// Whether rows of such batches can be put aside.
    pub fn takes(calls: &[Call], keys: usize, batch: &Batch) -> bool {
        let is_flat = |column: &usize| {
            let values = &batch.columns[*column].values;
            matches!(values, Values::Int(_) | Values::Wide(_) | Values::Float(_) | Values::Bits(_))
        };
        (0..keys).all(|key| is_flat(&key)) && inputs_of(calls).iter().all(is_flat)
    }

    /// No groups.
    ///
    /// # Errors
    /// A foreign aggregate has no states.
    pub fn new(calls: &[Call], keys: usize, layout: &Arc<Layout>, context: &Arc<dyn Context>) -> Result<Divided> {
        let inputs = inputs_of(calls);
        let part = || -> Result<Part> {
            let states = States::new(calls, GroupTable::new(layout.clone()), context.clone())?;
            let inputs = inputs.iter().map(|_| Buffered::default()).collect();
            Ok(Part { states, keys: Rows::new(layout.clone()), inputs })
        };
        Ok(Divided {
            calls: calls.to_vec(),
            keys,
            parts: (0..PARTITIONS).map(|_| part()).collect::<Result<_>>()?,
            inputs,
            batch: Rows::new(layout.clone()),
            hashes: vec![],
            groups: vec![],
            claim: Claim::new(context.clone()),
        })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// A function failed, or memory ran out.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        let keys = &batch.columns[..self.keys];
        hash_rows(keys, batch.rows, &mut self.hashes);
        self.batch.clear();
        self.batch.append_with(keys, batch.rows, &self.hashes);
        for (row, hash) in self.hashes.iter().enumerate() {
            self.parts[partition_of(*hash)].keys.push(&self.batch, row);
        }
        for (at, input) in self.inputs.iter().enumerate() {
            put_aside(&batch.columns[*input], &self.hashes, &mut self.parts, at);
        }
        for part in 0..PARTITIONS {
            if self.parts[part].keys.len() >= ROWS_AT_ONCE {
                self.look_up(part)?;
            }
        }
        self.claim.resize(self.parts.iter().map(Part::bytes).sum())
    }

    fn look_up(&mut self, part: usize) -> Result<()> {
        let Part { states, keys, inputs } = &mut self.parts[part];
        if keys.is_empty() {
            return Ok(());
        }
        self.groups.clear();
        states.table.find(keys, 0..keys.len(), &mut self.groups);
        // Columns that no call needs have no rows.
        let last = self.inputs.iter().max().map_or(0, |last| last + 1);
        let mut columns = vec![Vector::ints(vec![]); last];
        for (column, input) in self.inputs.iter().zip(inputs) {
            columns[*column] = input.take();
        }
        states.update(&self.calls, &Batch { rows: keys.len(), columns }, &self.groups)?;
        keys.clear();
        Ok(())
    }

    /// The groups of each partition.
    ///
    /// # Errors
    /// As for [`Divided::push`].
    pub fn into_runs(mut self) -> Result<Vec<Run>> {
        let mut runs = vec![];
        self.claim.resize(0)?;
        for part in 0..PARTITIONS {
            self.look_up(part)?;
            let states = &mut self.parts[part].states;
            states.claim.resize(states.bytes())?;
            if !states.table.is_empty() {
                runs.push(states.run()?);
            }
        }
        Ok(runs)
    }
}

fn inputs_of(calls: &[Call]) -> Vec<usize> {
    let mut inputs: Vec<usize> =
        calls.iter().flat_map(|call| call.inputs.iter().chain(&call.filter)).copied().collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

impl Part {
    fn bytes(&self) -> usize {
        self.states.bytes() + self.keys.bytes() + self.inputs.iter().map(Buffered::bytes).sum::<usize>()
    }
}

/// The values of a column that were put aside.
#[derive(Default)]
struct Buffered {
    values: Kept,
    /// Which of them are not NULL, once one is.
    valid: Option<Vec<bool>>,
}

#[derive(Default)]
enum Kept {
    #[default]
    None,
    Int(Vec<i64>),
    Wide(Vec<i128>),
    Float(Vec<f64>),
    Bits(Vec<bool>),
}

impl Buffered {
    fn len(&self) -> usize {
        match &self.values {
            Kept::None => 0,
            Kept::Int(values) => values.len(),
            Kept::Wide(values) => values.len(),
            Kept::Float(values) => values.len(),
            Kept::Bits(values) => values.len(),
        }
    }

    fn bytes(&self) -> usize {
        let values = match &self.values {
            Kept::None => 0,
            Kept::Int(values) => values.capacity() * 8,
            Kept::Wide(values) => values.capacity() * 16,
            Kept::Float(values) => values.capacity() * 8,
            Kept::Bits(values) => values.capacity(),
        };
        values + self.valid.as_ref().map_or(0, Vec::capacity)
    }

    /// The values as a vector; none are left.
    fn take(&mut self) -> Vector {
        let values = match &mut self.values {
            Kept::None => Values::Int(vec![].into()),
            Kept::Int(values) => Values::Int(std::mem::take(values).into()),
            Kept::Wide(values) => Values::Wide(std::mem::take(values).into()),
            Kept::Float(values) => Values::Float(std::mem::take(values).into()),
            Kept::Bits(values) => Values::Bits(BooleanBuffer::from(std::mem::take(values))),
        };
        Vector::with_nulls(values, self.valid.take().map(NullBuffer::from))
    }
}

/// Adds the values of a column to those of the partitions of their rows.
fn put_aside(column: &Vector, hashes: &[u64], parts: &mut [Part], at: usize) {
    if let Some(valid) = &column.valid {
        for (row, hash) in hashes.iter().enumerate() {
            let buffered = &mut parts[partition_of(*hash)].inputs[at];
            let before = buffered.len();
            // The values of this batch follow.
            let valid_rows = buffered.valid.get_or_insert_with(|| vec![true; before]);
            valid_rows.push(valid.is_valid(row));
        }
    } else {
        let is_valid = |parts: &mut [Part], hash: u64| {
            if let Some(valid) = &mut parts[partition_of(hash)].inputs[at].valid {
                valid.push(true);
            }
        };
        if parts.iter().any(|part| part.inputs[at].valid.is_some()) {
            hashes.iter().for_each(|hash| is_valid(parts, *hash));
        }
    }
    macro_rules! each {
        ($kind:ident, $values:expr) => {
            for (hash, value) in hashes.iter().zip($values) {
                let kept = &mut parts[partition_of(*hash)].inputs[at].values;
                match kept {
                    Kept::$kind(kept) => kept.push(value),
                    kept => *kept = Kept::$kind(vec![value]),
                }
            }
        };
    }
    match &column.values {
        Values::Int(values) => each!(Int, values.iter().copied()),
        Values::Wide(values) => each!(Wide, values.iter().copied()),
        Values::Float(values) => each!(Float, values.iter().copied()),
        Values::Bits(values) => each!(Bits, values.iter()),
        other => unreachable!("flat values were seen first, not {other:?}"),
    }
}
