//! Recursion: the rows of a first part, and those that a step makes of the rows before, again and again until none come.
//!
//! The step runs on batches as they are. What does not change from step to step, as the build side of a join with a table, is a
//! stage before and is there once. Rows are passed on as they come, so who wants only some of them ends a recursion that has no end.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use crate::error::{ExecError, Result};
use crate::groups::{GroupTable, HASH};
use crate::kept::{Gathered, Kept};
use crate::pipeline::{Chain, Claim, Context, Finished, Results, Sink, SinkWorker, Source, Step, Take, check};
use crate::rows::{Field, Layout};
use crate::vector::Batch;

/// A recursion: the sink of its first part, and the source of all rows.
pub struct Recursion {
    /// What becomes of the rows of the step before: the steps of each part of a union.
    parts: Vec<Vec<Arc<dyn Step>>>,
    /// The columns, if each row is wanted once.
    distinct: Option<Vec<Field>>,
    context: Arc<dyn Context>,
    /// The rows of the first part.
    first: Mutex<Gathered>,
    next: AtomicUsize,
}

impl Recursion {
    /// A recursion of these parts. Of rows with equal `distinct` columns the first one stays; all columns have a form of keys then.
    pub fn new(
        parts: Vec<Vec<Arc<dyn Step>>>,
        distinct: Option<Vec<Field>>,
        context: Arc<dyn Context>,
    ) -> Arc<Recursion> {
        Arc::new(Recursion { parts, distinct, context, first: Mutex::default(), next: AtomicUsize::new(0) })
    }

    /// The rows of the first part, and those of each step.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }
}

struct Worker(Kept);

impl Sink for Arc<Recursion> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(Worker(Kept::new(self.context.clone())))
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let kept = |worker: Box<dyn SinkWorker>| match worker.into_any().downcast::<Worker>() {
            Ok(worker) => Ok(worker.0),
            Err(_) => Err(ExecError::foreign("rows of another recursion")),
        };
        *self.first.lock() = Kept::gather(workers.into_iter().map(kept).collect::<Result<Vec<_>>>()?);
        Ok(())
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, unit: usize, batch: Batch) -> Result<()> {
        self.0.add(unit, batch)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The rows of a step as they come.
struct Rows {
    seen: Option<GroupTable>,
    groups: Vec<u32>,
    batches: Vec<Batch>,
    bytes: usize,
    /// The bytes of the rows of the step before.
    bytes_before: usize,
    claim: Claim,
}

impl Rows {
    /// Keeps the new rows of a batch for the next step, and passes them on.
    fn add(&mut self, batch: Batch, take: Take<'_>) -> Result<()> {
        let batch = match &mut self.seen {
            None => batch,
            Some(seen) => {
                let mut known = seen.len() as u32;
                self.groups.clear();
                seen.find_keys(&batch.columns, batch.rows, &mut self.groups);
                let is_new = |(row, group): (usize, &u32)| {
                    let is_new = *group == known;
                    known += u32::from(is_new);
                    is_new.then_some(row as u32)
                };
                let new: Vec<u32> = self.groups.iter().enumerate().filter_map(is_new).collect();
                if new.len() == batch.rows { batch } else { batch.take(&new) }
            }
        };
        if batch.rows == 0 {
            return Ok(());
        }
        self.bytes += batch.bytes_with_texts();
        self.claim.resize(self.bytes_before + self.bytes + self.seen.as_ref().map_or(0, GroupTable::bytes))?;
        self.batches.push(batch.clone());
        take(batch)
    }
}

/// The rows are one unit, whose steps follow each other.
impl Finished for Recursion {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        1
    }

    fn read(&self, _: usize, take: Take<'_>) -> Result<()> {
        let mut chains: Vec<Chain> = self.parts.iter().map(|steps| Chain::of(steps)).collect();
        let seen = self.distinct.as_ref().map(|fields| GroupTable::new(Arc::new(Layout::new(fields, HASH + 1))));
        let claim = Claim::new(self.context.clone());
        let mut rows = Rows { seen, groups: vec![], batches: vec![], bytes: 0, bytes_before: 0, claim };
        let mut first = std::mem::take(&mut *self.first.lock());
        for batch in first.batches.drain(..) {
            rows.add(batch, take)?;
        }
        drop(first);
        while !rows.batches.is_empty() {
            let before = std::mem::take(&mut rows.batches);
            rows.bytes_before = std::mem::take(&mut rows.bytes);
            for chain in &mut chains {
                for batch in &before {
                    check(self.context.as_ref())?;
                    chain.push(batch.clone(), &mut |batch| rows.add(batch, take))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{StepWorker, Unlimited};
    use crate::rows::Field;
    use crate::vector::{Form, Vector};
    use arrow_schema::DataType;

    /// Makes other values of each one.
    #[derive(Clone, Copy)]
    struct Each(fn(i64) -> Vec<i64>);

    impl Step for Each {
        fn worker(&self) -> Box<dyn StepWorker> {
            Box::new(*self)
        }
    }

    impl StepWorker for Each {
        fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
            next(ints(batch.columns[0].as_ints().iter().flat_map(|value| self.0(*value)).collect()))
        }
    }

    fn ints(values: Vec<i64>) -> Batch {
        Batch { rows: values.len(), columns: vec![Vector::ints(values)] }
    }

    /// The rows of a recursion up to the first error of `take`.
    fn rows(first: &[&[i64]], parts: &[fn(i64) -> Vec<i64>], is_distinct: bool, most: usize) -> (Vec<i64>, Result<()>) {
        let field = Field { form: Form::Int, data_type: DataType::Int64, nullable: true, is_key: true };
        let parts = parts.iter().map(|part| vec![Arc::new(Each(*part)) as Arc<dyn Step>]).collect();
        let recursion = Recursion::new(parts, is_distinct.then(|| vec![field]), Arc::new(Unlimited(1)));
        // Units come in any order.
        let workers = first.iter().enumerate().rev().map(|(unit, values)| {
            let mut worker = recursion.worker();
            worker.push(unit, ints(values.to_vec())).expect("there is memory");
            worker
        });
        recursion.finish(workers.collect()).expect("there is memory");
        let (mut all, mut reader) = (vec![], recursion.results().worker());
        assert_eq!(reader.claim().map(|progress| progress.is_done), Some(true));
        let read = reader.read(&mut |batch| {
            all.extend_from_slice(batch.columns[0].as_ints());
            if all.len() >= most { Err(ExecError::Cancelled) } else { Ok(()) }
        });
        assert_eq!(reader.claim(), None);
        (all, read)
    }

    #[test]
    fn steps_follow_each_other_until_no_rows_come() {
        let down: fn(i64) -> Vec<i64> = |value| if value > 0 { vec![value - 1] } else { vec![] };
        let (all, read) = rows(&[&[3], &[1, 0]], &[down], false, usize::MAX);
        assert!(read.is_ok());
        assert_eq!(all, [3, 1, 0, 2, 0, 1, 0]);
        assert_eq!(rows(&[], &[down], false, usize::MAX).0, [0i64; 0]);
        assert_eq!(rows(&[&[]], &[down], true, usize::MAX).0, [0i64; 0]);
    }

    #[test]
    fn rows_that_were_seen_do_not_come_again() {
        let around: fn(i64) -> Vec<i64> = |value| vec![(value + 1) % 5, (value + 3) % 5, (value + 1) % 5];
        let (all, read) = rows(&[&[0, 0], &[1, 0]], &[around], true, usize::MAX);
        assert!(read.is_ok());
        assert_eq!(all, [0, 1, 3, 2, 4]);
    }

    #[test]
    fn parts_see_the_same_rows() {
        let twice: fn(i64) -> Vec<i64> = |value| if value < 4 { vec![value * 2] } else { vec![] };
        let thrice: fn(i64) -> Vec<i64> = |value| if value < 3 { vec![value * 3] } else { vec![] };
        assert_eq!(rows(&[&[1]], &[twice, thrice], false, usize::MAX).0, [1, 2, 3, 4, 6, 6]);
    }

    #[test]
    fn a_recursion_without_end_ends_when_no_rows_are_wanted() {
        let (all, read) = rows(&[&[1]], &[|value| vec![value + 1]], false, 1000);
        assert!(matches!(read, Err(ExecError::Cancelled)));
        assert_eq!(all.len(), 1000);
    }
}
