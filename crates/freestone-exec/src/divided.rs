//! Groups that are divided by their hashes before they are looked up.
//!
//! A table of many groups does not fit the caches, so that each row would wait for memory. Here rows are put aside by the first
//! bits of their hashes, and looked up some thousand at a time in the table of their partition, which does fit. The states of
//! other aggregates are updated then, too. Rows have no texts: these would have to be copied until then.

use std::sync::Arc;

use arrow_schema::DataType;

use crate::error::Result;
use crate::groups::{GroupTable, HASH};
use crate::hash::hash_rows;
use crate::pipeline::{Claim, Context};
use crate::rows::{Field, Layout, Rows};
use crate::states::{Call, PARTITIONS, Run, States, partition_of};
use crate::vector::{Batch, Form, Values, Vector};

/// The rows of a partition that are looked up together.
const ROWS_AT_ONCE: usize = 1 << 11;

/// Tables by partition, and the rows that are still to be looked up.
pub(crate) struct Divided {
    calls: Vec<Call>,
    keys: usize,
    /// The columns that calls need.
    inputs: Vec<usize>,
    parts: Vec<Part>,
    /// The keys of a batch with their hashes, and the inputs of its rows.
    batch: Rows,
    batch_inputs: Rows,
    hashes: Vec<u64>,
    groups: Vec<u32>,
    claim: Claim,
}

struct Part {
    states: States,
    keys: Rows,
    inputs: Rows,
}

impl Divided {
    /// Whether rows of such batches can be put aside.
    pub fn takes(calls: &[Call], keys: usize, batch: &Batch) -> bool {
        let are_flat = || (0..keys).chain(inputs_of(calls)).all(|column| flat_form(&batch.columns[column]).is_some());
        calls.iter().all(|call| !call.is_ordered) && are_flat()
    }

    /// No groups of rows of batches like this one, which [`Divided::takes`].
    ///
    /// # Errors
    /// A foreign aggregate has no states.
    pub fn new(
        calls: &[Call],
        keys: usize,
        layout: &Arc<Layout>,
        batch: &Batch,
        context: &Arc<dyn Context>,
    ) -> Result<Divided> {
        let inputs = inputs_of(calls);
        let field = |form: Form| Field { form, data_type: DataType::Null, nullable: true, is_key: false };
        let fields = inputs.iter().filter_map(|column| flat_form(&batch.columns[*column]).map(field));
        let of_inputs = Arc::new(Layout::new(&fields.collect::<Vec<_>>(), 0));
        let part = || -> Result<Part> {
            let states = States::new(calls, GroupTable::new(layout.clone()), context.clone())?;
            Ok(Part { states, keys: Rows::new(layout.clone()), inputs: Rows::new(of_inputs.clone()) })
        };
        Ok(Divided {
            calls: calls.to_vec(),
            keys,
            parts: (0..PARTITIONS).map(|_| part()).collect::<Result<_>>()?,
            inputs,
            batch: Rows::new(layout.clone()),
            batch_inputs: Rows::new(of_inputs.clone()),
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
        match self.batch.layout().width() {
            2 => self.put_keys_aside::<2>(),
            3 => self.put_keys_aside::<3>(),
            4 => self.put_keys_aside::<4>(),
            _ => {
                for (row, hash) in self.hashes.iter().enumerate() {
                    self.parts[partition_of(*hash)].keys.push(&self.batch, row);
                }
            }
        }
        if !self.inputs.is_empty() {
            let inputs: Vec<Vector> = self.inputs.iter().map(|column| batch.columns[*column].clone()).collect();
            self.batch_inputs.clear();
            self.batch_inputs.append(&inputs, batch.rows);
            for (row, hash) in self.hashes.iter().enumerate() {
                self.parts[partition_of(*hash)].inputs.push(&self.batch_inputs, row);
            }
        }
        for part in 0..PARTITIONS {
            if self.parts[part].keys.len() >= ROWS_AT_ONCE {
                self.look_up(part)?;
            }
        }
        self.claim.resize(self.parts.iter().map(Part::bytes).sum())
    }

    fn put_keys_aside<const WIDTH: usize>(&mut self) {
        for row in self.batch.words::<WIDTH>() {
            self.parts[partition_of(row[HASH])].keys.push_words(row);
        }
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
        let next = Rows::new(inputs.layout().clone());
        let (values, all) = (std::mem::replace(inputs, next).freeze(), (0..keys.len() as u32).collect::<Vec<_>>());
        for (at, column) in self.inputs.iter().enumerate() {
            columns[*column] = values.vector(at, &all);
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
        (0..PARTITIONS).try_for_each(|part| self.look_up(part))?;
        for (partition, part) in self.parts.into_iter().enumerate() {
            let mut states = part.states;
            if !states.table.is_empty() {
                states.claim.resize(states.bytes())?;
                runs.push(states.into_run(partition)?);
            }
        }
        Ok(runs)
    }
}

/// The form of a column whose values are words.
fn flat_form(column: &Vector) -> Option<Form> {
    match &column.values {
        Values::Int(_) => Some(Form::Int),
        Values::Wide(_) => Some(Form::Wide),
        Values::Float(_) => Some(Form::Float),
        Values::Bits(_) => Some(Form::Bits),
        Values::Codes(..) | Values::Text(_) | Values::Arrow(_) => None,
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
        self.states.bytes() + self.keys.bytes() + self.inputs.bytes()
    }
}
