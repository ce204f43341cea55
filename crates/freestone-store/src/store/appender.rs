//! Rows into segments, with bounded memory: batches are collected, sorted where the design asks for it, cut into segments
//! and encoded on all threads while the caller brings more.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::{Array, ArrayRef, RecordBatch};
use parking_lot::Mutex;

use super::shared::Resources;
use super::sort::sort_order;
use super::state::segment_file;
use crate::column::ColumnData;
use crate::design::{Design, PAGE_SIZE_MIN, PageFormat, Preset};
use crate::error::{Result, StoreError};
use crate::schema::TableSchema;
use crate::segment::{footer, parallel, write_segment};

/// Rows of a full segment.
pub const SEGMENT_ROWS: usize = 1 << 20;
/// Arrow bytes after which a segment is cut, whatever its rows.
const SEGMENT_BYTES: usize = 512 << 20;
/// Up to this many rows, and bytes, a segment is kept in the log until it is merged.
const PENDING_ROWS: usize = 16 << 10;
const PENDING_BYTES: usize = 1 << 20;

/// What all appends of a transaction share.
#[derive(Debug, Clone)]
pub struct AppendContext {
    pub resources: Arc<Resources>,
    pub next_id: Arc<AtomicU64>,
    /// The files made so far; the transaction removes them again if it does not commit.
    pub created: Arc<Mutex<Vec<u64>>>,
    pub threads: usize,
    /// Bytes of rows that an append collects before it writes a segment, or several where it sorts. Up to three times as
    /// many are held: collected, waiting, and being encoded.
    pub sort_bytes: usize,
    /// Whether few rows may stay in the log.
    pub allow_pending: bool,
}

/// Takes rows for one table. Dropped before it is finished, it waits for what it has begun to write.
#[derive(Debug)]
pub struct Appender {
    table: u64,
    schema: TableSchema,
    context: AppendContext,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    rows_total: u64,
    sorts: bool,
    writer: Option<Writer>,
    design: Design,
}

/// The segments that an append made; they belong to nothing until the transaction takes them.
#[derive(Debug)]
pub struct Appended {
    pub(super) table: u64,
    pub(super) segments: Vec<NewSegment>,
    pub rows: u64,
}

#[derive(Debug)]
pub(super) struct NewSegment {
    pub id: u64,
    pub rows: u32,
    pub bytes: u64,
    pub pending: Option<Arc<Vec<u8>>>,
}

/// The thread that encodes while batches come in.
#[derive(Debug)]
struct Writer {
    jobs: SyncSender<Vec<RecordBatch>>,
    thread: JoinHandle<Result<Vec<NewSegment>>>,
}

impl Appender {
    pub(super) fn new(table: u64, schema: TableSchema, design: Design, context: AppendContext) -> Self {
        let sorts = !design.sort_columns(&schema).is_empty();
        Appender {
            table,
            schema,
            context,
            batches: vec![],
            rows: 0,
            bytes: 0,
            rows_total: 0,
            sorts,
            writer: None,
            design,
        }
    }

    /// Takes a batch with the table's columns and types. An error names the column and, for a NULL where none may be, the
    /// row among all rows taken.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        let most =
            SEGMENT_ROWS.min((SEGMENT_BYTES / (batch.get_array_memory_size() / batch.num_rows().max(1)).max(1)).max(1));
        let mut at = 0;
        while at < batch.num_rows() {
            let room = if self.sorts { most } else { most.min(SEGMENT_ROWS - self.rows) };
            let len = room.min(batch.num_rows() - at);
            let part = batch.slice(at, len);
            at += len;
            self.rows += len;
            self.rows_total += len as u64;
            // A slice shares its batch's memory; its own share is what it will cost.
            self.bytes += batch.get_array_memory_size() / batch.num_rows() * len;
            self.batches.push(part);
            let full = if self.sorts {
                self.bytes >= self.context.sort_bytes
            } else {
                self.rows >= SEGMENT_ROWS || self.bytes >= SEGMENT_BYTES.min(self.context.sort_bytes)
            };
            if full {
                self.send()?;
            }
        }
        Ok(())
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.schema.columns.len() {
            let (found, wanted) = (batch.num_columns(), self.schema.columns.len());
            return Err(StoreError::Constraint(format!("a batch of {found} columns for a table of {wanted}")));
        }
        for (column, array) in self.schema.columns.iter().zip(batch.columns()) {
            if array.data_type() != &column.data_type {
                let (name, found, wanted) = (&column.name, array.data_type(), &column.data_type);
                return Err(StoreError::Constraint(format!(
                    "column {name}: {found} values for a column of type {wanted}"
                )));
            }
            if !column.nullable
                && let Some(nulls) = array.nulls()
                && let Some(row) = (0..nulls.len()).find(|row| nulls.is_null(*row))
            {
                let row = self.rows_total + row as u64 + 1;
                return Err(StoreError::Constraint(format!(
                    "column {} is NOT NULL, but row {row} has NULL there",
                    column.name
                )));
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.batches);
        (self.rows, self.bytes) = (0, 0);
        let writer = self.writer.get_or_insert_with(|| start_writer(&self.schema, &self.design, &self.context));
        if writer.jobs.send(batches).is_err() {
            // The writer ended early: its result is the reason.
            return self.join().map(|_| ());
        }
        Ok(())
    }

    fn join(&mut self) -> Result<Vec<NewSegment>> {
        let Some(Writer { jobs, thread }) = self.writer.take() else { return Ok(vec![]) };
        drop(jobs);
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Writes what is left. The segments are durable when this returns, but in no table.
    pub fn finish(mut self) -> Result<Appended> {
        let small = self.context.allow_pending && self.rows <= PENDING_ROWS && self.bytes <= PENDING_BYTES;
        let mut segments = vec![];
        if small && self.writer.is_none() && self.rows > 0 {
            let batches = std::mem::take(&mut self.batches);
            segments = pending_segment(&self.schema, &self.design, &self.context, batches)?;
        } else if self.rows > 0 {
            self.send()?;
        }
        segments.extend(self.join()?);
        Ok(Appended { table: self.table, segments, rows: self.rows_total })
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // No file may come into being behind the back of a transaction that removes what it created.
        if let Some(Writer { jobs, thread }) = self.writer.take() {
            drop(jobs);
            let _ = thread.join();
        }
    }
}

fn start_writer(schema: &TableSchema, design: &Design, context: &AppendContext) -> Writer {
    let (jobs, inbox) = sync_channel::<Vec<RecordBatch>>(1);
    let (schema, design, context) = (schema.clone(), design.clone(), context.clone());
    let thread = std::thread::spawn(move || {
        let mut segments = vec![];
        for batches in inbox {
            segments.extend(write_batches(&schema, &design, &context, batches)?);
        }
        Ok(segments)
    });
    Writer { jobs, thread }
}

/// Few rows, kept in the log: one group of small pages, whatever the design; they get the design when they are merged.
fn pending_segment(
    schema: &TableSchema,
    design: &Design,
    context: &AppendContext,
    batches: Vec<RecordBatch>,
) -> Result<Vec<NewSegment>> {
    let mut small = Design::preset(Preset::Pax);
    small.page_size = PAGE_SIZE_MIN;
    small.page = Some(PageFormat::Pax);
    let columns = sorted_columns(schema, design, batches, 1)?;
    let rows = columns.first().map_or(0, ColumnData::len) as u32;
    let mut bytes = write_segment(schema, &small, &columns, 1)?;
    let id = context.next_id.fetch_add(1, Ordering::Relaxed);
    footer::stamp(&mut bytes, id);
    Ok(vec![NewSegment { id, rows, bytes: bytes.len() as u64, pending: Some(Arc::new(bytes)) }])
}

fn write_batches(
    schema: &TableSchema,
    design: &Design,
    context: &AppendContext,
    batches: Vec<RecordBatch>,
) -> Result<Vec<NewSegment>> {
    let columns = sorted_columns(schema, design, batches, context.threads)?;
    let rows = columns.first().map_or(0, ColumnData::len);
    if rows <= SEGMENT_ROWS {
        return Ok(vec![write_file(schema, design, context, &columns)?]);
    }
    let mut segments = vec![];
    for start in (0..rows).step_by(SEGMENT_ROWS) {
        let order: Vec<u32> = (start as u32..(start + SEGMENT_ROWS).min(rows) as u32).collect();
        let part: Vec<ColumnData> = columns.iter().map(|c| c.permute(&order)).collect();
        segments.push(write_file(schema, design, context, &part)?);
    }
    Ok(segments)
}

fn sorted_columns(
    schema: &TableSchema,
    design: &Design,
    batches: Vec<RecordBatch>,
    threads: usize,
) -> Result<Vec<ColumnData>> {
    let indexes: Vec<usize> = (0..schema.columns.len()).collect();
    let columns = parallel(&indexes, threads, |at| {
        let arrays: Vec<&ArrayRef> = batches.iter().map(|b| b.column(*at)).collect();
        Ok(ColumnData::from_arrays(arrays, &schema.columns[*at].data_type))
    })?;
    drop(batches);
    let sort = design.sort_columns(schema);
    if sort.is_empty() {
        return Ok(columns);
    }
    let keys: Vec<&ColumnData> = sort.iter().map(|c| &columns[*c]).collect();
    let order = sort_order(&keys);
    parallel(&indexes, threads, |at| Ok(columns[*at].permute(&order)))
}

fn write_file(
    schema: &TableSchema,
    design: &Design,
    context: &AppendContext,
    columns: &[ColumnData],
) -> Result<NewSegment> {
    let rows = columns.first().map_or(0, ColumnData::len) as u32;
    let mut bytes = write_segment(schema, design, columns, context.threads)?;
    let id = write_under_free_id(context, &mut bytes)?;
    Ok(NewSegment { id, rows, bytes: bytes.len() as u64, pending: None })
}

/// Writes a segment's file under the next id that is free: a killed process may have left files with ids that no commit
/// took, and they are somebody's data until the database is opened for writing.
fn write_under_free_id(context: &AppendContext, bytes: &mut [u8]) -> Result<u64> {
    loop {
        let id = context.next_id.fetch_add(1, Ordering::Relaxed);
        footer::stamp(bytes, id);
        context.created.lock().push(id);
        match context.resources.medium.write_whole(&segment_file(id), bytes) {
            Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => {
                context.created.lock().retain(|created| *created != id);
            }
            written => return Ok(written.map(|()| id)?),
        }
    }
}
