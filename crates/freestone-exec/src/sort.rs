//! The first rows of an order.
//!
//! Each thread keeps candidates in rows of words, with their normalized keys. When it has many, it keeps the first ones
//! and forgets the others; a row whose key is behind the last of them is not kept at all.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use arrow_row::{OwnedRow, RowConverter, SortField};

use crate::convert::to_arrow;
use crate::error::{ExecError, Result};
use crate::pipeline::{Claim, Context, Finished, Results, Sink, SinkWorker, Source, Take};
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
    done: OnceLock<(FrozenRows, Vec<u32>)>,
    next: AtomicUsize,
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
        let (done, next) = (OnceLock::new(), AtomicUsize::new(0));
        let top = Top { keys, fields, layout, rows, more, context, done, next };
        top.converter()?;
        Ok(Arc::new(top))
    }

    /// The rows, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    fn converter(&self) -> Result<RowConverter> {
        let field = |key: &SortKey| {
            let options = arrow_schema::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(self.fields[key.column].data_type.clone(), options)
        };
        RowConverter::new(self.keys.iter().map(field).collect()).map_err(ExecError::foreign)
    }

    /// The keys of some rows of a batch, or of all.
    fn arrays(&self, batch: &Batch, rows: Option<&[u32]>) -> Result<Vec<ArrayRef>> {
        let array = |key: &SortKey| {
            let (column, data_type) = (&batch.columns[key.column], &self.fields[key.column].data_type);
            rows.map_or_else(|| to_arrow(column, data_type), |rows| to_arrow(&column.take(rows), data_type))
        };
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
        // A stage ends once.
        let _ = self.done.set((FrozenRows::ordered(self.layout.clone(), parts, &order), all));
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
            let (is_bound_null, mut still_equal) = (self.rows.is_null(last, key.column), vec![]);
            for row in equal {
                match (is_null(row), is_bound_null) {
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
        let rows = likely.as_ref().map_or(batch.rows, Vec::len);
        if rows == 0 {
            return Ok(());
        }
        let arrays = self.of.arrays(&batch, likely.as_deref())?;
        let keys = self.converter.convert_columns(&arrays).map_err(ExecError::foreign)?;
        let is_before = |at: &usize| match &self.bound {
            Some(bound) => keys.row(*at) < bound.row(),
            None => true,
        };
        let first: Vec<usize> = (0..rows).filter(is_before).collect();
        if first.is_empty() {
            return Ok(());
        }
        let row_of = |at: &usize| likely.as_ref().map_or(*at as u32, |rows| rows[*at]);
        let some = batch.take(&first.iter().map(row_of).collect::<Vec<_>>());
        let numbers = self.rows.len() as u32..;
        self.rows.append(&some.columns, some.rows);
        self.kept.extend(first.iter().map(|at| keys.row(*at).owned()).zip(numbers));
        if self.kept.len() > self.of.rows + self.of.more.max(self.of.rows) {
            self.thin();
        }
        self.claim.resize(self.rows.bytes() + self.kept.len() * 64)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Finished for Top {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        1
    }

    fn read(&self, _: usize, take: Take<'_>) -> Result<()> {
        let Some((rows, order)) = self.done.get() else { return Ok(()) };
        for some in order.chunks(OUTPUT_ROWS) {
            let columns = (0..self.fields.len()).map(|column| rows.vector(column, some)).collect();
            take(Batch { rows: some.len(), columns })?;
        }
        Ok(())
    }
}
