//! Appending rows with bounded memory. Batches are collected, sorted if the design has an order, divided into segments
//! and encoded on all threads, while the caller adds more. If rows to be sorted do not fit the memory, they become
//! sorted runs on the medium, and segments when all rows have arrived.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::{Array, RecordBatch};
use freestone_codec::Kind;

use super::files::NewFiles;
use super::runs::Runs;
use crate::cluster::{Clustering, SegmentClustering};
use crate::collected::{Backlog, CollectedColumn, CollectedRows};
use crate::column::{ColumnData, Physical, value_bytes};
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::limits::{HOT_APPEND_BYTES, HOT_APPEND_ROWS, POOL_APPEND_ROWS, SEGMENT_BYTES, SEGMENT_ROWS, ZONE_ROWS};
use crate::media::MediumError;
use crate::schema::{TableSchema, kind};
use crate::segment::{HotRows, SegmentFile, SegmentSummary, each_taken, write_segment};
use crate::sort::sort_order;
use crate::table::{Resources, SegmentEntry, segment_file};

/// The number of parts of a write's memory. One part is for collecting rows. The others are for rows that are
/// converted, sorted and encoded at the same time, which takes up to four times their size.
const PIECES: usize = 5;
/// The minimum memory for collecting rows, so that segments are worthwhile.
const PIECE_BYTES_MIN: usize = 1 << 20;
/// While rows are encoded, the next ones are collected, and both take at most this share more memory than the former did
/// at first: an n-th. Touching new memory costs more time than waiting for memory that is freed meanwhile.
const AHEAD: usize = 4;

/// What all appends of a transaction share.
#[derive(Debug, Clone)]
pub struct AppendContext {
    pub resources: Arc<Resources>,
    pub next_id: Arc<AtomicU64>,
    /// The files written so far.
    pub files: Arc<NewFiles>,
    pub threads: usize,
    /// The maximum memory of an append in bytes: collected rows, rows being sorted, encoded segments.
    pub write_bytes: usize,
    /// Whether few rows become hot rows.
    pub allow_hot: bool,
    /// The bytes that persistent memory has room for.
    pub pool_room: u64,
    /// Whether batches have an additional column with the earlier row ids of their rows, which the segments return.
    pub tracks: bool,
}

impl AppendContext {
    /// The bytes of rows to collect before they are written.
    fn piece_bytes(&self) -> usize {
        (self.write_bytes / PIECES).max(PIECE_BYTES_MIN)
    }
}

/// Appends rows to one table. If it is dropped before it is finished, it waits for the end of the writes that it has
/// started.
#[derive(Debug)]
pub struct Appender {
    table: u64,
    schema: TableSchema,
    context: AppendContext,
    collected: CollectedRows,
    rows: usize,
    /// The bytes of the collected rows as they were received, or in full width.
    bytes: usize,
    rows_total: u64,
    sorts: bool,
    writer: Option<Writer>,
    /// The rows that the writer has not encoded yet.
    backlog: Arc<Backlog>,
    /// The bytes of memory for rows that are collected and those of the backlog.
    memory: usize,
    /// Rows for persistent memory.
    in_pool: Vec<NewSegment>,
    design: Design,
    /// Moved to the writer when it starts.
    clustering: Option<Clustering>,
    /// For each copy of the table: the columns of each batch that it gets, and its appender.
    copies: Vec<(Vec<usize>, Appender)>,
}

/// The segments of an append. They belong to no table until the transaction adds them.
#[derive(Debug)]
pub struct Appended {
    pub(super) table: u64,
    pub(super) segments: Vec<NewSegment>,
    /// The number of rows.
    pub rows: u64,
    /// The same rows for copies of the table.
    pub(super) copies: Vec<Appended>,
}

#[derive(Debug)]
pub(super) struct NewSegment {
    pub id: u64,
    pub rows: u32,
    pub bytes: u64,
    pub hot: Option<Arc<HotRows>>,
    /// What the commit says of a segment in a file.
    pub summary: Option<Arc<SegmentSummary>>,
    /// The earlier ids of the rows, if the caller asked for them.
    pub origins: Vec<i64>,
}

enum Job {
    Rows(Vec<CollectedColumn>),
    /// No more rows will come. An append that ends without this was abandoned.
    Last(Vec<CollectedColumn>),
}

/// The thread that encodes while batches arrive.
#[derive(Debug)]
struct Writer {
    jobs: SyncSender<Job>,
    thread: JoinHandle<Result<Vec<NewSegment>>>,
}

impl NewSegment {
    /// The segment in its table.
    pub fn entry(self) -> SegmentEntry {
        match self.hot {
            Some(hot) => SegmentEntry::of_hot(self.id, hot),
            None => SegmentEntry::new(self.id, self.rows, self.bytes).summarized(self.summary),
        }
    }
}

impl Appender {
    pub(super) fn new(
        table: u64,
        schema: TableSchema,
        design: Design,
        clustering: Option<Clustering>,
        context: AppendContext,
    ) -> Self {
        let sorts = clustering.is_some() || !design.sort_columns(&schema).is_empty();
        let ids = context.tracks.then_some(Kind::Int);
        let kinds: Vec<Kind> = stored_kinds(&schema).chain(ids).collect();
        Appender {
            table,
            schema,
            context,
            collected: CollectedRows::new(&kinds),
            rows: 0,
            bytes: 0,
            rows_total: 0,
            sorts,
            writer: None,
            backlog: Arc::default(),
            memory: 0,
            in_pool: vec![],
            design,
            clustering,
            copies: vec![],
        }
    }

    /// Also appends these columns of the rows to a copy of the table.
    pub(super) fn add_copy(&mut self, columns: Vec<usize>, appender: Appender) {
        self.copies.push((columns, appender));
    }

    /// Appends a batch with the table's columns and types.
    ///
    /// # Errors
    /// The error names the column and, for a NULL in a NOT NULL column, the row, counted over all batches.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (columns, appender) in &mut self.copies {
            let of_copy = batch.project(columns).map_err(|e| StoreError::invalid(e.to_string()))?;
            appender.push(&of_copy)?;
        }
        let row_bytes = row_bytes(&self.schema, batch);
        let piece_bytes = if self.sorts { self.context.piece_bytes() } else { self.segment_bytes() };
        let most = SEGMENT_ROWS.min((piece_bytes / row_bytes).max(1));
        let mut at = 0;
        while at < batch.num_rows() {
            let room = if self.sorts { most } else { most.min(SEGMENT_ROWS - self.rows) };
            let len = room.min(batch.num_rows() - at);
            let part = batch.slice(at, len);
            at += len;
            self.rows += len;
            self.rows_total += len as u64;
            self.bytes += row_bytes * len;
            // Rows are collected only as fast as those before them are freed.
            self.backlog.wait_for(self.memory.saturating_sub(self.collected.bytes()));
            self.collected.push(&self.schema, &part);
            if self.bytes >= piece_bytes || !self.sorts && self.rows >= SEGMENT_ROWS {
                let fits_pool = self.writer.is_none() && self.fits_pool();
                let bytes = self.bytes as u64;
                let rows = self.take_rows();
                if fits_pool {
                    self.context.pool_room -= bytes;
                    self.in_pool.extend(hot_rows(&self.schema, &self.design, &self.context, rows)?);
                    continue;
                }
                self.send(Job::Rows(rows))?;
            }
        }
        Ok(())
    }

    /// Whether the rows that were collected go to persistent memory.
    fn fits_pool(&self) -> bool {
        let rows_fit = self.rows_total <= POOL_APPEND_ROWS && self.bytes as u64 <= self.context.pool_room;
        self.design.medium == MediumKind::Pmem && !self.context.tracks && rows_fit
    }

    fn segment_bytes(&self) -> usize {
        SEGMENT_BYTES.min(self.context.piece_bytes())
    }

    fn take_rows(&mut self) -> Vec<CollectedColumn> {
        (self.rows, self.bytes) = (0, 0);
        self.memory = self.collected.bytes() + self.collected.bytes() / AHEAD;
        self.collected.take(&self.backlog)
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let wanted = self.schema.columns.len() + usize::from(self.context.tracks);
        if batch.num_columns() != wanted {
            let found = batch.num_columns();
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

    fn send(&mut self, job: Job) -> Result<()> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let target = Target {
                    schema: self.schema.clone(),
                    design: self.design.clone(),
                    clustering: self.clustering.take(),
                    tracks: self.context.tracks,
                };
                start_writer(target, self.context.clone())?
            }
        };
        let writer = self.writer.insert(writer);
        if writer.jobs.send(job).is_err() {
            // The writer ended early; its result is the reason.
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

    /// Writes the remaining rows. The segments are durable when this returns, but in no table.
    ///
    /// # Errors
    /// A foreign key of a clustered table has no referenced row, a plan cannot store its column, or the medium fails.
    pub fn finish(mut self) -> Result<Appended> {
        let small = self.context.allow_hot && self.rows <= HOT_APPEND_ROWS && self.bytes <= HOT_APPEND_BYTES;
        let mut segments = std::mem::take(&mut self.in_pool);
        if (small || self.fits_pool()) && self.writer.is_none() && self.rows > 0 {
            let rows = self.take_rows();
            segments.extend(hot_rows(&self.schema, &self.design, &self.context, rows)?);
        } else if self.writer.is_some() || self.rows > 0 {
            let rows = self.take_rows();
            self.send(Job::Last(rows))?;
        }
        segments.extend(self.join()?);
        let copies = std::mem::take(&mut self.copies).into_iter().map(|(_, copy)| copy.finish());
        let copies = copies.collect::<Result<Vec<_>>>()?;
        Ok(Appended { table: self.table, segments, rows: self.rows_total, copies })
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // No file may be created after the transaction has removed its files.
        if let Some(Writer { jobs, thread }) = self.writer.take() {
            drop(jobs);
            let _ = thread.join();
        }
    }
}

fn stored_kinds(schema: &TableSchema) -> impl Iterator<Item = Kind> {
    (0..schema.stored_count()).map(|at| kind(schema.stored_type(at)))
}

/// The mean bytes of a row of a batch, in the larger of two forms: as received, or widened for encoding.
fn row_bytes(schema: &TableSchema, batch: &RecordBatch) -> usize {
    let width = |kind| match kind {
        Kind::Int | Kind::F64 => 8,
        Kind::Wide => 16,
        Kind::F32 | Kind::Bytes => 4,
    };
    let widened = stored_kinds(schema).map(width).sum();
    let received = batch.columns().iter().map(value_bytes).sum::<usize>();
    (received / batch.num_rows().max(1)).max(widened).max(1)
}

/// What rows become: segments of a design, in an order.
struct Target {
    schema: TableSchema,
    design: Design,
    clustering: Option<Clustering>,
    tracks: bool,
}

impl Target {
    /// The number of stored columns, with the earlier row ids.
    fn stored_columns(&self) -> usize {
        self.schema.stored_count() + usize::from(self.tracks)
    }

    /// The columns by which rows are sorted. A clustering key is one more column after the others.
    fn sort_columns(&self) -> Vec<usize> {
        let key = self.clustering.as_ref().map(|_| self.stored_columns());
        key.into_iter().chain(self.design.sort_columns(&self.schema)).collect()
    }

    /// The kinds of all columns, including row ids and the key.
    fn kinds(&self) -> Vec<Kind> {
        let ids = self.tracks.then_some(Kind::Int);
        let key = self.clustering.as_ref().map(|_| Kind::Int);
        let stored = stored_kinds(&self.schema);
        stored.chain(ids).chain(key).collect()
    }

    /// The clustering that the key describes, the last of the columns after those of the table.
    fn clustered(&self, others: &[ColumnData]) -> SegmentClustering {
        match (&self.clustering, others.last()) {
            (Some(clustering), Some(ColumnData { values: Physical::Int(keys), .. })) => {
                let dimensions = clustering.describe(keys, ZONE_ROWS);
                SegmentClustering { dimensions, keys: clustering.key_range(keys) }
            }
            _ => SegmentClustering::default(),
        }
    }

    /// The earlier ids of the rows, if the caller asked for them: the first of the columns after those of the table.
    fn origins(&self, others: Vec<ColumnData>) -> Vec<i64> {
        match others.into_iter().next() {
            Some(ColumnData { values: Physical::Int(ids), .. }) if self.tracks => ids,
            _ => vec![],
        }
    }
}

fn start_writer(target: Target, context: AppendContext) -> Result<Writer> {
    // The channel has no buffer: while one job is processed, the next is collected.
    let (jobs, inbox) = sync_channel::<Job>(0);
    let work = move || write_jobs(target, &context, inbox);
    let thread = std::thread::Builder::new().name("freestone-write".into()).spawn(work).map_err(no_thread)?;
    Ok(Writer { jobs, thread })
}

fn no_thread(error: std::io::Error) -> StoreError {
    MediumError::io("start", "a thread that writes", error).into()
}

/// A segment that has no file yet.
struct EncodedSegment {
    file: SegmentFile,
    rows: u32,
    origins: Vec<i64>,
}

/// Writes the rows of all jobs. While a segment is encoded, the one before it is written.
fn write_jobs(target: Target, context: &AppendContext, inbox: Receiver<Job>) -> Result<Vec<NewSegment>> {
    std::thread::scope(|scope| {
        let (encoded, files) = sync_channel(0);
        let write = move || files.into_iter().map(|segment| write_file(context, segment)).collect::<Result<Vec<_>>>();
        let writing = std::thread::Builder::new().name("freestone-file".into());
        let writing = writing.spawn_scoped(scope, write).map_err(no_thread)?;
        let result = encode_jobs(target, context, inbox, &encoded);
        drop(encoded);
        match writing.join() {
            // If a file could not be written, encoding ended early without an error.
            Ok(written) => written.and_then(|segments| result.map(|()| segments)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Encodes the rows of all jobs. It ends early if nobody takes the segments: their writer has the reason.
fn encode_jobs(
    mut target: Target,
    context: &AppendContext,
    inbox: Receiver<Job>,
    encoded: &SyncSender<EncodedSegment>,
) -> Result<()> {
    let sort = target.sort_columns();
    let mut runs = Runs::new(
        context.resources.clone(),
        context.next_id.clone(),
        target.kinds(),
        sort.clone(),
        context.piece_bytes(),
    );
    for job in inbox {
        let (rows, is_last) = match job {
            Job::Rows(rows) => (rows, false),
            Job::Last(rows) => (rows, true),
        };
        let is_empty = rows.first().is_none_or(|column| column.len() == 0);
        if sort.is_empty() {
            if !is_empty && encoded.send(encode(&target, context, rows)?).is_err() {
                break;
            }
            continue;
        }
        if !is_empty {
            let columns = sorted_columns(&mut target, rows, context.threads)?;
            if is_last && runs.is_empty() {
                encode_parts(&target, context, columns, encoded)?;
            } else {
                runs.add(&columns)?;
            }
        }
        if is_last && !runs.is_empty() {
            return encode_merged(&target, context, runs, encoded);
        }
    }
    Ok(())
}

/// Encodes the rows of all runs, in one order. The next rows are merged while a segment is encoded.
fn encode_merged(
    target: &Target,
    context: &AppendContext,
    runs: Runs,
    encoded: &SyncSender<EncodedSegment>,
) -> Result<()> {
    let bytes = SEGMENT_BYTES.min(context.piece_bytes());
    std::thread::scope(|scope| {
        let (pieces, inbox) = sync_channel(0);
        let merge = move || {
            let mut merge = runs.merge()?;
            while let Some(columns) = merge.next(SEGMENT_ROWS, bytes)? {
                if pieces.send(columns).is_err() {
                    // The encoder failed and reports the reason.
                    break;
                }
            }
            Ok(())
        };
        let merging = std::thread::Builder::new().spawn_scoped(scope, merge).map_err(no_thread)?;
        for columns in inbox {
            if encoded.send(encode(target, context, collected(columns))?).is_err() {
                break;
            }
        }
        match merging.join() {
            Ok(merged) => merged,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Few rows, which stay in memory and in the log. They get the design of their table when they are merged.
fn hot_rows(
    schema: &TableSchema,
    design: &Design,
    context: &AppendContext,
    rows: Vec<CollectedColumn>,
) -> Result<Vec<NewSegment>> {
    let mut target = Target { schema: schema.clone(), design: design.clone(), clustering: None, tracks: false };
    let columns = sorted_columns(&mut target, rows, 1)?;
    let hot = HotRows::of(schema, &columns)?;
    let id = context.next_id.fetch_add(1, Ordering::Relaxed);
    let (rows, bytes) = (hot.rows(), hot.bytes());
    Ok(vec![NewSegment { id, rows, bytes, hot: Some(Arc::new(hot)), summary: None, origins: vec![] }])
}

/// Encodes sorted rows, as one segment or several.
fn encode_parts(
    target: &Target,
    context: &AppendContext,
    columns: Vec<ColumnData>,
    encoded: &SyncSender<EncodedSegment>,
) -> Result<()> {
    let rows = columns.first().map_or(0, ColumnData::len);
    if rows <= SEGMENT_ROWS {
        // If nobody takes the segment, a file could not be written, and who writes it has the error.
        let _ = encoded.send(encode(target, context, collected(columns))?);
        return Ok(());
    }
    for start in (0..rows).step_by(SEGMENT_ROWS) {
        let order: Vec<u32> = (start as u32..(start + SEGMENT_ROWS).min(rows) as u32).collect();
        let part: Vec<ColumnData> = columns.iter().map(|c| c.permute(&order)).collect();
        if encoded.send(encode(target, context, collected(part))?).is_err() {
            break;
        }
    }
    Ok(())
}

fn collected(columns: Vec<ColumnData>) -> Vec<CollectedColumn> {
    columns.into_iter().map(CollectedColumn::from).collect()
}

/// The rows in the order of the design. The last column is the clustering key, if there is one.
fn sorted_columns(target: &mut Target, rows: Vec<CollectedColumn>, threads: usize) -> Result<Vec<ColumnData>> {
    let mut columns = each_taken(rows, threads, |column| Ok(column.into_data()))?;
    if let Some(clustering) = &mut target.clustering {
        let keys = clustering.keys(&columns)?;
        columns.push(ColumnData { values: Physical::Int(keys), validity: None });
    }
    let sort = target.sort_columns();
    if sort.is_empty() {
        return Ok(columns);
    }
    let keys: Vec<&ColumnData> = sort.iter().map(|c| &columns[*c]).collect();
    let order = sort_order(&keys);
    each_taken(columns, threads, |column| Ok(column.permute(&order)))
}

/// Encodes a segment. The columns of the table come first, then the row ids and the clustering key, if there are any.
fn encode(target: &Target, context: &AppendContext, mut columns: Vec<CollectedColumn>) -> Result<EncodedSegment> {
    let rows = columns.first().map_or(0, CollectedColumn::len) as u32;
    let others = columns.split_off(target.schema.stored_count());
    let others: Vec<ColumnData> = others.into_iter().map(CollectedColumn::into_data).collect();
    let clustering = target.clustered(&others);
    let origins = target.origins(others);
    let file = write_segment(&target.schema, &target.design, columns, clustering, context.threads)?;
    Ok(EncodedSegment { file, rows, origins })
}

fn write_file(context: &AppendContext, segment: EncodedSegment) -> Result<NewSegment> {
    let EncodedSegment { mut file, rows, origins } = segment;
    let id = write_under_free_id(context, &mut file)?;
    let (bytes, summary) = (file.len() as u64, Some(Arc::new(file.summary)));
    Ok(NewSegment { id, rows, bytes, hot: None, summary, origins })
}

/// Writes a segment's file under the next free id. A killed process may have left files with ids that no commit names;
/// they remain until the database is opened for writing.
fn write_under_free_id(context: &AppendContext, file: &mut SegmentFile) -> Result<u64> {
    loop {
        let id = context.next_id.fetch_add(1, Ordering::Relaxed);
        file.stamp(id);
        context.files.add(id);
        match context.resources.medium.write_whole(&segment_file(id), &file.parts()) {
            Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => {
                context.files.take_back(id);
            }
            written => return Ok(written.map(|()| id)?),
        }
    }
}
