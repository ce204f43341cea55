//! The rows of SCROLL cursors, which are kept so that a client can go back to them. They count as its memory.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::execute::prepared;
use super::failure::Failure;
use crate::execution::{CountedMemory, Rows};
use crate::pg::calendar::Styles;
use crate::pg::error::PgError;
use crate::pg::values::Column;

/// Rows that were read, and those that still come.
pub struct Scroll {
    rows: Rows,
    schema: SchemaRef,
    styles: Styles,
    batches: Vec<RecordBatch>,
    /// The number of rows up to the end of each batch.
    ends: Vec<u64>,
    /// Whether all rows were read.
    is_read: bool,
    /// The row on which the cursor is, counted from 1; 0 before the first one, and one more than there are behind the last.
    position: u64,
    formats: Vec<i16>,
    /// The batch whose columns are ready to be sent.
    ready: Option<(usize, Vec<Column>)>,
    memory: CountedMemory,
}

impl Scroll {
    pub fn new(rows: Rows, schema: SchemaRef, styles: Styles, memory: CountedMemory) -> Scroll {
        let (batches, ends, formats) = (vec![], vec![], vec![]);
        Scroll { rows, schema, styles, batches, ends, is_read: false, position: 0, formats, ready: None, memory }
    }

    pub fn change_formats(&mut self, formats: &[i16]) {
        if self.formats != formats {
            self.formats = formats.to_vec();
            self.ready = None;
        }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves the cursor to a row that was read, or to the place before or behind all of them.
    pub fn move_to(&mut self, row: u64) {
        self.position = row.min(self.read().saturating_add(1));
    }

    /// Waits for rows to be sent, up to the statement's time limit.
    pub async fn within<T>(&self, sending: impl Future<Output = T>) -> Result<T, PgError> {
        Ok(self.rows.within(sending).await?)
    }

    /// The number of rows, all of which are read.
    pub async fn count(&mut self) -> Result<u64, Failure> {
        while self.read_more().await? {}
        Ok(self.read())
    }

    fn read(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    async fn read_more(&mut self) -> Result<bool, Failure> {
        if self.is_read {
            return Ok(false);
        }
        let Some(batch) = self.rows.next().await.transpose()? else {
            self.is_read = true;
            return Ok(false);
        };
        self.memory.grow(batch.get_array_memory_size())?;
        self.ends.push(self.read() + batch.num_rows() as u64);
        self.batches.push(batch);
        Ok(true)
    }

    /// Row `number`, counted from 1: its batch's columns, and its place in them. `None` if there are fewer rows.
    pub async fn row(&mut self, number: u64) -> Result<Option<(&[Column], usize)>, Failure> {
        while self.read() < number && self.read_more().await? {}
        if number == 0 || self.read() < number {
            return Ok(None);
        }
        let at = self.ends.partition_point(|end| *end < number);
        if self.ready.as_ref().is_none_or(|(ready, _)| *ready != at) {
            self.ready = Some((at, prepared(&self.batches[at], &self.schema, &self.formats, self.styles)?));
        }
        let before = if at == 0 { 0 } else { self.ends[at - 1] };
        Ok(self.ready.as_ref().map(|(_, columns)| (columns.as_slice(), (number - before - 1) as usize)))
    }
}
