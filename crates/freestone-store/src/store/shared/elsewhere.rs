//! Segments that other processes write for a transaction of this one.
//!
//! Only the process of the transaction gives numbers to segments, and only it commits. Another process gets a range of numbers,
//! makes objects of these names, and says what it has made. So the files are protected by the lease of this process, like its
//! own: those that no commit names are removed when the transaction ends, as far as they are there by then, and else by VACUUM
//! when the lease has ended. A process that is lost in the middle has made some objects that nobody names.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::Store;
use super::super::appender::{AppendContext, Appended, Appender, NewSegment};
use super::super::files::NewFiles;
use super::super::locks::Mode;
use super::super::vacuum::segment_id;
use super::super::write::WriteTransaction;
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::schema::TableSchema;
use crate::segment::SegmentSummary;
use crate::table::segment_file;

/// The numbers of a part. A segment has a million rows mostly.
const NUMBERS: u64 = 128;
/// The most objects that are looked for to remove what lost processes have made.
const LISTED: usize = 10_000;

/// A table for which segments are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentTarget {
    table: u64,
    schema: TableSchema,
    design: Design,
}

/// A segment that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenSegment {
    /// The number, one of those that were given.
    pub id: u64,
    /// The number of rows.
    pub rows: u32,
    /// The bytes of the object.
    pub bytes: u64,
    /// What the commit says of it.
    pub summary: Vec<u8>,
}

/// Gives numbers to the processes that write segments for a transaction.
#[derive(Debug, Clone)]
pub struct SegmentNumbers {
    store: Store,
    next_id: Arc<AtomicU64>,
    given: Arc<Mutex<Vec<Range<u64>>>>,
}

/// Writes rows as segments of another process's transaction.
#[derive(Debug)]
pub struct SegmentAppender {
    appender: Appender,
    files: Arc<NewFiles>,
    numbers: Range<u64>,
}

impl SegmentTarget {
    /// The columns of the rows.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }
}

impl WriteTransaction {
    /// What other processes need to write rows of a table, and the numbers for their segments. `None` if its rows are written
    /// here: they have an order, which is that of all rows, or copies, or are kept elsewhere.
    ///
    /// # Errors
    /// The table does not exist, or this process cannot write.
    pub fn segment_target(&mut self, name: &str) -> Result<Option<(SegmentTarget, SegmentNumbers)>> {
        let table = self.table(name)?;
        let design = &table.design;
        let has_order = !design.cluster.is_empty() || !design.sort_columns(&table.schema).is_empty();
        let is_plain = design.medium == MediumKind::Disk && !has_order && self.copies(&table).is_empty();
        if !is_plain || !self.store().is_shared() {
            return Ok(None);
        }
        self.lock_table(&table, Mode::Shared)?;
        self.prepare_write()?;
        let store = self.store().clone();
        let numbers = SegmentNumbers { next_id: store.next_id.clone(), store, given: Arc::default() };
        let target = SegmentTarget { table: table.id, schema: table.schema.clone(), design: table.design.clone() };
        Ok(Some((target, numbers)))
    }

    /// Adds segments that other processes have written, and returns the number of rows.
    ///
    /// # Errors
    /// A segment has a number that was not given, or is not described as one of the table.
    pub fn append_written(
        &mut self,
        target: &SegmentTarget,
        numbers: &SegmentNumbers,
        written: Vec<WrittenSegment>,
    ) -> Result<u64> {
        let (files, mut seen) = (self.files()?, HashSet::new());
        let mut segments = Vec::with_capacity(written.len());
        for WrittenSegment { id, rows, bytes, summary } in written {
            let wrong = |reason: String| StoreError::Corrupt { file: segment_file(id), reason };
            if !numbers.has_given(id) || !seen.insert(id) || rows == 0 {
                return Err(wrong("a worker says that it has written it, and was not asked to".to_owned()));
            }
            let summary = Arc::new(SegmentSummary::parse(&summary, rows).map_err(wrong)?);
            files.add(id);
            segments.push(NewSegment { id, rows, bytes, hot: None, summary: Some(summary), origins: vec![] });
        }
        let rows = segments.iter().map(|segment| u64::from(segment.rows)).sum();
        self.append(Appended { table: target.table, segments, rows, copies: vec![] })
    }
}

impl SegmentNumbers {
    /// The numbers of another part.
    pub fn next(&self) -> Range<u64> {
        let start = self.next_id.fetch_add(NUMBERS, Ordering::Relaxed);
        let range = start..start + NUMBERS;
        self.given.lock().push(range.clone());
        range
    }

    fn has_given(&self, id: u64) -> bool {
        self.given.lock().iter().any(|range| range.contains(&id))
    }

    /// Removes the objects that processes have made and that are not among `kept`, as far as they are there. What cannot be
    /// removed is left to VACUUM.
    pub fn remove_others(&self, kept: &[WrittenSegment]) {
        let given = self.given.lock().clone();
        let (Some(log), Some(first)) = (&self.store.shared, given.iter().map(|range| range.start).min()) else {
            return;
        };
        let kept: HashSet<u64> = kept.iter().map(|segment| segment.id).collect();
        let after = segment_file(first.saturating_sub(1));
        let Ok(listed) = log.objects().list("segments", Some(&after), LISTED) else { return };
        let is_left = |id: u64| given.iter().any(|range| range.contains(&id)) && !kept.contains(&id);
        let left = listed.into_iter().map(|object| object.name);
        let left: Vec<String> = left.filter(|name| segment_id(name).is_some_and(is_left)).collect();
        let _ = log.objects().remove(&left);
    }

    /// The store in which this process writes what no other one does.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Store {
    /// Writes segments for a transaction of another process, under the numbers that it gave. `write_bytes`: the memory for it.
    ///
    /// # Errors
    /// The database is not in a bucket.
    pub fn segment_appender(
        &self,
        target: &SegmentTarget,
        numbers: Range<u64>,
        write_bytes: usize,
    ) -> Result<SegmentAppender> {
        if !self.is_shared() {
            return Err(StoreError::invalid("segments are written for other processes in object storage only"));
        }
        let files = Arc::new(NewFiles::new(self.resources.clone()));
        let context = AppendContext {
            next_id: Arc::new(AtomicU64::new(numbers.start)),
            pool_room: 0,
            ..self.append_context(files.clone(), write_bytes, false)
        };
        let SegmentTarget { table, schema, design } = target.clone();
        let appender = Appender::new(table, schema, design, None, context);
        Ok(SegmentAppender { appender, files, numbers })
    }
}

impl SegmentAppender {
    /// Adds rows, as [`Appender::push`] does.
    ///
    /// # Errors
    /// As for [`Appender::push`].
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.appender.push(batch)
    }

    /// Writes the remaining rows. The segments are those of the other process from now on; if this fails, or is not called,
    /// they are removed.
    ///
    /// # Errors
    /// As for [`Appender::finish`]; or there were too few numbers.
    pub fn finish(self) -> Result<Vec<WrittenSegment>> {
        let SegmentAppender { appender, files, numbers } = self;
        let mut written = vec![];
        for NewSegment { id, rows, bytes, summary, .. } in appender.finish()?.segments {
            if !numbers.contains(&id) {
                return Err(StoreError::invalid("a worker needs more numbers of segments than it was given"));
            }
            let summary = summary.map(|summary| summary.to_bytes()).unwrap_or_default();
            written.push(WrittenSegment { id, rows, bytes, summary });
        }
        files.hand_over();
        Ok(written)
    }
}
