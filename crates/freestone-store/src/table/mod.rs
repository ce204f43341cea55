//! A table at one commit: its design, its segments, and the resources that its snapshots share.

mod key_map;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use roaring::RoaringBitmap;

pub use key_map::KeyMap;
pub(crate) use resources::Resources;

use self::resources::ColumnState;
use crate::cache::PageCache;
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::media::region::Persistence;
use crate::schema::TableSchema;
use crate::segment::{Blocks, CachedPage, ColumnSummary, HotRows, Segment, SegmentSummary};

/// Ids from here on are those of segments of a pool, which no log names. Ids of tables, segments in files and runs of hot rows
/// are below. So the page cache, the locks of rows and the cached answers, whose keys are ids of segments, never confuse two.
pub(crate) const POOL_SEGMENTS: u64 = 1 << 62;

/// The number of cached key maps, and of cached results about keys. If there are more, all are dropped together.
const KEY_MAPS: usize = 64;

/// A table at one commit, or a copy of one.
#[derive(Debug, Clone)]
pub struct Table {
    /// The id, which is never used again.
    pub id: u64,
    /// A copy's name is unique among the copies of its table.
    pub name: String,
    /// The table of which this is a copy; `None` for a table.
    pub copy_of: Option<CopyOf>,
    /// The columns and declared keys.
    pub schema: TableSchema,
    /// The design of rows that are written.
    pub design: Design,
    /// The segments in the order of scans.
    pub segments: Vec<SegmentEntry>,
    /// The last commit that changed or removed rows. Appends do not count.
    pub changed: u64,
    /// The ids of the objects on which its defaults, conditions, generated columns and types depend.
    pub uses: BTreeSet<u64>,
    /// Of a materialized view whose rows are those of its query: the tables that the query reads, by id, and how many rows each
    /// had. Since then, no row of them was changed or removed; see [`Snapshot::has_rows_of_its_query`](crate::Snapshot).
    pub computed_from: Option<Arc<BTreeMap<u64, u64>>>,
    /// The tables of the pool that have rows of this one.
    pub(crate) pools: Vec<u64>,
    /// Why its rows in persistent memory cannot be read.
    pub(crate) unavailable: Option<Arc<str>>,
    pub(crate) resources: Option<Arc<Resources>>,
}

/// The properties of a copy: the rows of a table, some or all of its columns, in a design of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOf {
    /// The id of the table.
    pub table: u64,
    /// The columns of the table that the copy has, ascending.
    pub columns: Vec<usize>,
    /// Whether it has exactly the table's rows. Appended rows are written to both. After rows were changed or removed,
    /// the copy is not read until [`Store::vacuum`](crate::Store::vacuum) rewrites it.
    pub is_current: bool,
}

/// A segment in its table.
#[derive(Debug, Clone)]
pub struct SegmentEntry {
    /// The id, which is also that of its file.
    pub id: u64,
    /// The number of stored rows, including deleted ones.
    pub rows: u32,
    /// The bytes of the segment's file, or of the pages of hot rows.
    pub bytes: u64,
    /// The positions of deleted rows. `None`: no row is deleted.
    pub deleted: Option<Arc<RoaringBitmap>>,
    pub(crate) hot: Option<Arc<HotRows>>,
    pub(crate) blocks: Option<Arc<Blocks>>,
    summary: Option<Arc<SegmentSummary>>,
    opened: Arc<OnceLock<Arc<Segment>>>,
}

impl SegmentEntry {
    /// A segment in a file, without deleted rows.
    pub fn new(id: u64, rows: u32, bytes: u64) -> Self {
        assert!(id < POOL_SEGMENTS, "segment {id} in a file has an id of a pool");
        SegmentEntry { id, rows, bytes, deleted: None, hot: None, blocks: None, summary: None, opened: Arc::default() }
    }

    /// The same with what its commit says of it.
    pub(crate) fn summarized(self, summary: Option<Arc<SegmentSummary>>) -> Self {
        SegmentEntry { summary, ..self }
    }

    /// What the commit that added a segment in a file says of it. `None` if an earlier version of the program wrote it.
    pub fn summary(&self) -> Option<&Arc<SegmentSummary>> {
        self.summary.as_ref()
    }

    /// Hot rows, none of them deleted.
    pub(crate) fn of_hot(id: u64, hot: Arc<HotRows>) -> Self {
        assert!(id < POOL_SEGMENTS, "run {id} of hot rows has an id of a pool");
        let (rows, bytes) = (hot.rows(), hot.bytes());
        SegmentEntry { hot: Some(hot), ..SegmentEntry::new(id, rows, bytes) }
    }

    /// Blocks in persistent memory.
    pub(crate) fn of_blocks(id: u64, blocks: Arc<Blocks>, deleted: Arc<RoaringBitmap>) -> Self {
        assert!(id >= POOL_SEGMENTS, "segment {id} of a pool has an id of the log");
        let (rows, bytes) = (blocks.rows(), blocks.bytes());
        SegmentEntry {
            id,
            rows,
            bytes,
            deleted: Some(deleted),
            hot: None,
            blocks: Some(blocks),
            summary: None,
            opened: Arc::default(),
        }
    }

    /// The same, to be opened with the columns that its table has now.
    pub(crate) fn unopened(&self) -> Self {
        SegmentEntry { opened: Arc::default(), ..self.clone() }
    }

    /// Replaces hot rows by these, which are the same and others after them.
    pub(crate) fn grow(&mut self, hot: Arc<HotRows>) {
        (self.rows, self.bytes, self.opened) = (hot.rows(), hot.bytes(), Arc::default());
        self.hot = Some(hot);
    }

    /// Whether these are hot rows: in memory and in the log, and not in a file.
    pub fn is_hot(&self) -> bool {
        self.hot.is_some()
    }

    /// Whether these are blocks in persistent memory.
    pub fn is_in_pool(&self) -> bool {
        self.blocks.is_some()
    }

    /// Whether this is a segment in a file.
    pub fn is_in_file(&self) -> bool {
        self.hot.is_none() && self.blocks.is_none()
    }

    /// Identifies the stored rows: a run of hot rows keeps its id when it grows, and so do blocks that change.
    pub(crate) fn version(&self) -> (u64, u32) {
        (self.id, self.blocks.as_ref().map_or(self.rows, |blocks| blocks.stamp()))
    }

    /// The number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        u64::from(self.rows) - self.deleted.as_ref().map_or(0, |d| d.len())
    }
}

/// The name of a segment's file.
pub fn segment_file(id: u64) -> String {
    format!("segments/{id:016x}.seg")
}

impl Table {
    /// A table without rows.
    pub fn new(id: u64, name: String, schema: TableSchema, design: Design) -> Self {
        Table {
            id,
            name,
            copy_of: None,
            schema,
            design,
            segments: vec![],
            changed: 0,
            uses: BTreeSet::new(),
            computed_from: None,
            pools: vec![],
            unavailable: None,
            resources: None,
        }
    }

    /// The number of rows that are not deleted.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(SegmentEntry::live_rows).sum()
    }

    /// What becomes of the bytes of its pool, if it has rows in one.
    pub fn persistence(&self) -> Option<Persistence> {
        let blocks = self.segments.iter().find_map(|entry| entry.blocks.as_ref())?;
        Some(blocks.shared().table().pool().region().persistence())
    }

    /// Whether it has, or will have, rows in persistent memory.
    pub fn is_persistent(&self) -> bool {
        self.design.medium == MediumKind::Pmem || !self.pools.is_empty()
    }

    /// Refuses a table whose rows are in persistent memory that this process does not have.
    ///
    /// # Errors
    /// Says why.
    pub fn check_available(&self) -> Result<()> {
        match &self.unavailable {
            Some(reason) => Err(StoreError::invalid(format!("table {} is in persistent memory: {reason}", self.name))),
            None => Ok(()),
        }
    }

    /// Whether this is a copy with exactly its table's rows.
    pub fn is_current(&self) -> bool {
        self.copy_of.as_ref().is_some_and(|of| of.is_current)
    }

    /// What the commit that added a segment says of a column; `None` if only the segment itself tells.
    pub fn column_summary(&self, segment: usize, column: usize) -> Option<&ColumnSummary> {
        let is_column = column < self.schema.columns.len();
        let summary = self.segments.get(segment)?.summary().filter(|_| is_column)?;
        summary.column(self.schema.id(column))
    }

    /// The bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }

    fn resources(&self) -> &Arc<Resources> {
        self.resources.as_ref().expect("a snapshot's tables have the resources of their store")
    }

    pub(crate) fn cache(&self) -> &PageCache<CachedPage> {
        &self.resources().cache
    }

    /// The codes of keys, which `make` computes from `sources`. Cached while the sources do not change.
    pub(crate) fn key_map(
        &self,
        fingerprint: u64,
        sources: &[&Arc<Table>],
        make: impl FnOnce() -> Result<KeyMap>,
    ) -> Result<Arc<KeyMap>> {
        let segments = sources.iter().flat_map(|t| t.segments.iter().map(SegmentEntry::version));
        let identity = (fingerprint, segments.collect::<Vec<_>>());
        if let Some(known) = self.resources().key_maps.lock().get(&identity) {
            return Ok(known.clone());
        }
        let made = Arc::new(make()?);
        let mut maps = self.resources().key_maps.lock();
        if maps.len() >= KEY_MAPS {
            maps.clear();
        }
        Ok(maps.entry(identity).or_insert(made).clone())
    }

    /// A column at the current state of the table.
    pub(crate) fn column_state(&self, column: usize) -> ColumnState {
        (self.id, self.changed, self.segments.iter().map(SegmentEntry::version).collect(), self.schema.id(column))
    }

    /// The result of `find` about columns. Cached while their rows do not change.
    pub(crate) fn answer(&self, of: Vec<ColumnState>, find: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if let Some(known) = self.resources().answers.lock().get(&of) {
            return Ok(*known);
        }
        let found = find()?;
        let mut answers = self.resources().answers.lock();
        if answers.len() >= KEY_MAPS {
            answers.clear();
        }
        answers.insert(of, found);
        Ok(found)
    }

    /// Opens the segment at a position of `segments`, once.
    ///
    /// # Errors
    /// The segment cannot be read, or its footer is damaged.
    pub fn open_segment(&self, at: usize) -> Result<Arc<Segment>> {
        let entry = &self.segments[at];
        if let Some(segment) = entry.opened.get() {
            return Ok(segment.clone());
        }
        let segment = self.open_stored(at)?;
        let name = segment.name().to_owned();
        let wrong = |reason| {
            let (rows, table) = (entry.rows, &self.name);
            let reason = format!("it does not hold the {rows} rows of table {table}, but others: {reason}");
            StoreError::Corrupt { file: name, reason }
        };
        let segment = segment.adapted(&self.schema).map_err(wrong)?;
        Ok(entry.opened.get_or_init(|| segment).clone())
    }

    /// Opens the segment at a position of `segments`, with the columns that it has in its file.
    pub(crate) fn open_stored(&self, at: usize) -> Result<Arc<Segment>> {
        let entry = &self.segments[at];
        let segment = self.resources().open_segment(entry, self.design.medium == MediumKind::Memory)?;
        if segment.rows() != entry.rows as usize {
            let (rows, found, table) = (entry.rows, segment.rows(), &self.name);
            let reason = format!("it does not hold the {rows} rows of table {table}, but {found} of another");
            return Err(StoreError::Corrupt { file: segment.name().to_owned(), reason });
        }
        Ok(segment)
    }

    /// Gives the table other columns. Its segments are opened again when they are used.
    pub(crate) fn set_schema(&mut self, schema: TableSchema) {
        self.schema = schema;
        self.segments.iter_mut().for_each(|entry| entry.opened = Arc::default());
    }
}
