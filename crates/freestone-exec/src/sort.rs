//! The first rows of an order.
//!
//! Each thread keeps candidates in rows of words, with their normalized keys. When it has many, it keeps the first ones
//! and forgets the others; a row whose key is behind the last of them is not kept at all.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use arrow_array::ArrayRef;
use arrow_row::{OwnedRow, RowConverter, SortField};
use parking_lot::Mutex;

use crate::convert::to_arrow;
use crate::error::{ExecError, Result};
use crate::pipeline::{Claim, Context, Progress, Sink, SinkWorker, Source, SourceWorker, Take};
use crate::rows::{Field, FrozenRows, Layout, Rows};
use crate::vector::Batch;

/// A key of an order.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// The column of the batches.
    pub column: usize,
    /// From the greatest to the least.
    pub descending: bool,
    /// NULL before all others.
    pub nulls_first: bool,
}

/// The first rows in an order.
pub struct Top {
    keys: Vec<SortKey>,
    fields: Vec<Field>,
    layout: Arc<Layout>,
    rows: usize,
    more: usize,
    context: Arc<dyn Context>,
    done: Mutex<Option<(FrozenRows, Vec<u32>)>>,
    taken: AtomicBool,
}

/// Candidates are thinned out at the latest when there are so many more than are wanted.
const MORE: usize = 4096;
const OUTPUT_ROWS: usize = 8192;

impl Top {
    /// The first `rows` rows of batches with these fields.
    ///
    /// # Errors
    /// A key has a type without an order.
    pub fn new(keys: Vec<SortKey>, fields: Vec<Field>, rows: usize, context: Arc<dyn Context>) -> Result<Arc<Top>> {
        Top::with_more(keys, fields, rows, MORE, context)
    }

    /// The same, with room for so many more candidates.
    ///
    /// # Errors
    /// As for [`Top::new`].
    pub fn with_more(
        keys: Vec<SortKey>,
        fields: Vec<Field>,
        rows: usize,
        more: usize,
        context: Arc<dyn Context>,
    ) -> Result<Arc<Top>> {
        let layout = Arc::new(Layout::new(&fields, 0));
        let (done, taken) = (Mutex::default(), AtomicBool::new(false));
        let top = Top { keys, fields, layout, rows, more, context, done, taken };
        top.converter()?;
        Ok(Arc::new(top))
    }

    /// The rows, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Arc::new(Results(self.clone()))
    }

    fn converter(&self) -> Result<RowConverter> {
        let field = |key: &SortKey| {
            let options = arrow_schema::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(self.fields[key.column].data_type.clone(), options)
        };
        RowConverter::new(self.keys.iter().map(field).collect()).map_err(ExecError::foreign)
    }

    fn arrays(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        let array = |key: &SortKey| to_arrow(&batch.columns[key.column], &self.fields[key.column].data_type);
        self.keys.iter().map(array).collect()
    }
}

struct Worker {
    of: Arc<Top>,
    converter: RowConverter,
    kept: Vec<(OwnedRow, u32)>,
    rows: Rows,
    /// The key of the last row that may be among the first ones. It is the last of the rows that were kept then.
    bound: Option<OwnedRow>,
    claim: Claim,
}

impl Sink for Arc<Top> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        let converter = self.converter().expect("the types were checked");
        Box::new(Worker {
            of: self.clone(),
            converter,
            kept: vec![],
            rows: Rows::new(self.layout.clone()),
            bound: None,
            claim: Claim::new(self.context.clone()),
        })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let (mut parts, mut kept) = (vec![], vec![]);
        for worker in workers {
            let part = parts.len() as u32;
            kept.extend(worker.kept.into_iter().map(|(key, row)| (key, part, row)));
            parts.push(worker.rows);
        }
        kept.sort_by(|a, b| a.0.row().cmp(&b.0.row()));
        kept.truncate(self.rows);
        let order: Vec<(u32, u32)> = kept.into_iter().map(|(_, part, row)| (part, row)).collect();
        let all = (0..order.len() as u32).collect();
        *self.done.lock() = Some((FrozenRows::ordered(self.layout.clone(), parts, &order), all));
        Ok(())
    }
}

impl Worker {
    /// Keeps the first rows and forgets the others.
    fn thin(&mut self) {
        let wanted = self.of.rows;
        if self.kept.len() > wanted {
            self.kept.sort_unstable_by(|a, b| a.0.row().cmp(&b.0.row()).then(a.1.cmp(&b.1)));
            self.kept.truncate(wanted);
            self.bound = self.kept.last().map(|(key, _)| key.clone());
        }
        self.rows.retain(self.kept.iter().map(|(_, row)| *row));
        self.kept.iter_mut().enumerate().for_each(|(at, (_, row))| *row = at as u32);
    }
}

impl Worker {
    /// The rows that may come before the bound, by those of their keys that are compared without being normalized.
    fn likely(&self, batch: &Batch) -> Vec<u32> {
        let (mut likely, mut equal) = (vec![], (0..batch.rows as u32).collect::<Vec<u32>>());
        let last = self.of.rows - 1;
        for key in &self.of.keys {
            let Some(compare) = self.rows.compare(last, key.column, &batch.columns[key.column]) else {
                likely.append(&mut equal);
                break;
            };
            let is_null = |row: u32| batch.columns[key.column].is_null(row as usize);
            let mut still_equal = vec![];
            for row in equal {
                match (is_null(row), self.rows.is_null(last, key.column)) {
                    (true, true) => still_equal.push(row),
                    (true, false) if key.nulls_first => likely.push(row),
                    (false, true) if !key.nulls_first => likely.push(row),
                    (true, false) | (false, true) => {}
                    (false, false) => match compare(row as usize) {
                        Ordering::Equal => still_equal.push(row),
                        Ordering::Less if !key.descending => likely.push(row),
                        Ordering::Greater if key.descending => likely.push(row),
                        _ => {}
                    },
                }
            }
            equal = still_equal;
        }
        likely.sort_unstable();
        likely
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, _: usize, batch: Batch) -> Result<()> {
        if self.of.rows == 0 {
            return Ok(());
        }
        let likely = self.bound.as_ref().map(|_| self.likely(&batch));
        if likely.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let batch = likely.map_or(batch.clone(), |rows| batch.take(&rows));
        let keys = self.converter.convert_columns(&self.of.arrays(&batch)?).map_err(ExecError::foreign)?;
        let is_before = |row: &usize| match &self.bound {
            Some(bound) => keys.row(*row) < bound.row(),
            None => true,
        };
        let candidates: Vec<u32> = (0..batch.rows).filter(is_before).map(|row| row as u32).collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let first = self.rows.len() as u32;
        let some = batch.take(&candidates);
        self.rows.append(&some.columns, some.rows);
        let kept = candidates.iter().enumerate().map(|(at, row)| (keys.row(*row as usize).owned(), first + at as u32));
        self.kept.extend(kept);
        if self.kept.len() > self.of.rows + self.of.more.max(self.of.rows) {
            self.thin();
        }
        self.claim.resize(self.rows.bytes() + self.kept.len() * 64)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Results(Arc<Top>);

impl Source for Results {
    fn worker(&self) -> Box<dyn SourceWorker> {
        Box::new(Results(self.0.clone()))
    }

    fn units(&self) -> usize {
        1
    }
}

impl SourceWorker for Results {
    fn claim(&mut self) -> Option<Progress> {
        (!self.0.taken.swap(true, atomic::Ordering::Relaxed)).then_some(Progress::whole(0))
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        let done = self.0.done.lock().take();
        if let Some((rows, order)) = done {
            for some in order.chunks(OUTPUT_ROWS) {
                let columns = (0..self.0.fields.len()).map(|column| rows.vector(column, some)).collect();
                take(Batch { rows: some.len(), columns })?;
            }
        }
        Ok(())
    }
}
