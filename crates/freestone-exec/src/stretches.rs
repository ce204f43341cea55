//! Groups of an integer key whose values come nearly in order, as the key of a table's parent in the table that was loaded
//! with it.
//!
//! The key's values are divided into stretches of equal length. The groups of a stretch are found by position in an array that
//! fits the caches. Only the last few stretches are open; one that was left is put aside, and is not looked at again before
//! the end. Then the stretches are independent: those that several threads have seen are merged, each for itself. Rows that jump
//! from stretch to stretch are refused, and aggregated by hashes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::direct::KeyDomain;
use crate::error::Result;
use crate::groups::GroupTable;
use crate::pipeline::Context;
use crate::rows::{Field, Layout};
use crate::states::{Call, Run, States};
use crate::vector::{Batch, Form, Values, Vector};

/// The values of a stretch, as bits.
const STRETCH_BITS: u32 = 18;
/// The stretches that are open at most, and that a batch may have.
const OPEN: usize = 4;
/// The rows from which a stretch is worth its array.
const ROWS_MIN: usize = 1 << 14;
/// The stretches that may have fewer, or a quarter of all.
const POOR: usize = 8;
/// The stretch of NULL. No other has this number, because numbers have fewer bits.
const NULL: u64 = u64::MAX;

/// The groups of one thread.
pub(crate) struct Stretches {
    calls: Vec<Call>,
    field: Field,
    /// The value at which the first stretch begins.
    low: i64,
    layout: Arc<Layout>,
    context: Arc<dyn Context>,
    /// The one used last is the last.
    open: Vec<(u64, States)>,
    left: Vec<(u64, States)>,
    /// Those with few rows.
    poor: usize,
    groups: Vec<u32>,
}

/// The stretches of all threads: for each the groups that its threads have seen.
pub(crate) type Left = BTreeMap<u64, Vec<States>>;

impl Stretches {
    /// No groups of these keys; `None` if they are not divided into stretches: if there is not one, an integer of many values.
    pub fn new(
        calls: &[Call],
        keys: &[KeyDomain],
        layout: &Arc<Layout>,
        context: &Arc<dyn Context>,
    ) -> Option<Stretches> {
        let [KeyDomain { field, bounds: Some((low, high)) }] = keys else { return None };
        let is_wide = field.form == Form::Int && high.abs_diff(*low) >> STRETCH_BITS >= OPEN as u64;
        let (calls, field, layout, context) = (calls.to_vec(), field.clone(), layout.clone(), context.clone());
        let (open, left, groups) = (vec![], vec![], vec![]);
        is_wide.then_some(Stretches { calls, field, low: *low, layout, context, open, left, poor: 0, groups })
    }

    /// Adds the rows of a batch of a unit. `false`: they are in too many stretches, and none was added.
    ///
    /// # Errors
    /// A function failed, or memory ran out.
    pub fn push(&mut self, unit: usize, batch: &Batch) -> Result<bool> {
        let key = &batch.columns[0];
        let Values::Int(values) = &key.values else { return Ok(false) };
        if self.poor > POOR.max(self.left.len() / 4) {
            return Ok(false);
        }
        let low = self.low;
        let (mut least, mut last) = (u64::MAX, 0);
        values.iter().for_each(|value| {
            let place = value.wrapping_sub(low) as u64;
            (least, last) = (least.min(place), last.max(place));
        });
        let whole = least >> STRETCH_BITS..=last >> STRETCH_BITS;
        if whole.start() == whole.end() && key.valid.is_none() {
            self.push_one(unit, *whole.start(), batch)?;
            return Ok(true);
        }
        let Some(parts) = parts(key, values, low, &whole) else { return Ok(false) };
        for (stretch, rows) in parts {
            self.push_one(unit, stretch, &batch.take(&rows))?;
        }
        Ok(true)
    }

    fn push_one(&mut self, unit: usize, stretch: u64, batch: &Batch) -> Result<()> {
        match self.open.iter().rposition(|(number, _)| *number == stretch) {
            // The last one stays where it is.
            Some(at) => self.open[at..].rotate_left(1),
            None => self.enter(stretch)?,
        }
        let Some((_, states)) = self.open.last_mut() else { return Ok(()) };
        self.groups.clear();
        states.table.find_keys(&batch.columns[..1], batch.rows, &mut self.groups);
        states.begin(unit);
        states.update(&self.calls, batch, &self.groups)?;
        states.claim.resize(states.bytes())
    }

    fn enter(&mut self, stretch: u64) -> Result<()> {
        if self.open.len() >= OPEN {
            let (number, states) = self.open.remove(0);
            self.leave(number, states)?;
        }
        let first = self.low.wrapping_add((stretch << STRETCH_BITS) as i64);
        let bounds = match stretch {
            NULL => (0, 0),
            _ => (first, first.saturating_add((1 << STRETCH_BITS) - 1)),
        };
        let domain = KeyDomain { field: self.field.clone(), bounds: Some(bounds) };
        let table = GroupTable::with_domains(self.layout.clone(), &[domain]);
        self.open.push((stretch, States::new(&self.calls, table, self.context.clone())?));
        Ok(())
    }

    fn leave(&mut self, number: u64, mut states: States) -> Result<()> {
        states.table.leave();
        states.claim.resize(states.bytes())?;
        self.poor += usize::from(states.rows < ROWS_MIN);
        self.left.push((number, states));
        Ok(())
    }

    /// The groups by stretch, added to those of other threads.
    ///
    /// # Errors
    /// Memory ran out.
    pub fn into_left(mut self, all: &mut Left) -> Result<()> {
        for (number, states) in std::mem::take(&mut self.open) {
            self.leave(number, states)?;
        }
        self.left.into_iter().for_each(|(number, states)| all.entry(number).or_default().push(states));
        Ok(())
    }

    /// The groups as runs by hashes.
    ///
    /// # Errors
    /// An aggregate has no states, or memory ran out.
    pub fn into_runs(self) -> Result<Vec<Run>> {
        self.left.into_iter().chain(self.open).map(|(_, mut states)| states.run()).collect()
    }
}

/// The rows of each stretch; `None` if these are too many.
fn parts(key: &Vector, values: &[i64], low: i64, whole: &RangeInclusive<u64>) -> Option<Vec<(u64, Vec<u32>)>> {
    // Rows that are NULL may have any value.
    if key.valid.is_none() && whole.end() - whole.start() >= OPEN as u64 {
        return None;
    }
    let mut parts: Vec<(u64, Vec<u32>)> = vec![];
    for (row, value) in values.iter().enumerate() {
        let stretch = if key.is_null(row) { NULL } else { value.wrapping_sub(low) as u64 >> STRETCH_BITS };
        match parts.iter().rposition(|(number, _)| *number == stretch) {
            Some(at) => parts[at].1.push(row as u32),
            None if parts.len() >= OPEN => return None,
            None => parts.push((stretch, vec![row as u32])),
        }
    }
    Some(parts)
}

/// The groups of one stretch that threads have seen, with their results.
///
/// # Errors
/// A function failed, or memory ran out.
pub(crate) fn merged(mut parts: Vec<States>) -> Result<Batch> {
    parts.sort_by_key(|states| std::cmp::Reverse(states.table.len()));
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return Ok(Batch { rows: 0, columns: vec![] }) };
    if parts.len() > 0 {
        all.table.find_by_hash();
    }
    for states in parts {
        let run = states.into_run(0)?;
        all.merge(&run, 0..run.rows.len())?;
        all.claim.resize(all.bytes())?;
    }
    all.finish(1)
}
