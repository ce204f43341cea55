//! The state that results from the log's commits: tables, their segments, views.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use roaring::RoaringBitmap;

use super::shared::{ColumnState, Resources};
use crate::cache::PageCache;
use crate::cluster::KeyMap;
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::schema::TableSchema;
use crate::segment::{CachedPage, Segment};

/// The number of cached key maps, and of cached results about keys. If there are more, all are dropped together.
const KEY_MAPS: usize = 64;

/// The whole catalog at one commit.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub sequence: u64,
    pub last_id: u64,
    pub tables: BTreeMap<String, Arc<Table>>,
    /// The copies of tables, by id; see [`CopyOf`].
    pub copies: BTreeMap<u64, Arc<Table>>,
    /// The query of each view, by the view's name.
    pub views: BTreeMap<String, String>,
    /// Segments that are in no table any more, with the commit that removed them, until their files are gone.
    pub removed: BTreeMap<u64, u64>,
}

/// A table at one commit, or a copy of one.
#[derive(Debug, Clone)]
pub struct Table {
    pub id: u64,
    /// A copy's name is unique among the copies of its table.
    pub name: String,
    /// The table of which this is a copy; `None` for a table.
    pub copy_of: Option<CopyOf>,
    pub schema: TableSchema,
    pub design: Design,
    pub segments: Vec<SegmentEntry>,
    /// The last commit that changed or removed rows. Appends do not count.
    pub changed: u64,
    pub(super) resources: Option<Arc<Resources>>,
}

/// The properties of a copy: the rows of a table, some or all of its columns, in a design of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOf {
    /// The id of the table.
    pub table: u64,
    /// The columns of the table that the copy has, ascending.
    pub columns: Vec<usize>,
    /// Whether it has exactly the table's rows. Appended rows are written to both. After rows were changed or removed,
    /// the copy is not read until [`Store::vacuum`](super::Store::vacuum) rewrites it.
    pub is_current: bool,
}

/// A segment in its table.
#[derive(Debug, Clone)]
pub struct SegmentEntry {
    pub id: u64,
    /// The number of stored rows, including deleted ones.
    pub rows: u32,
    /// The bytes of the segment's file, or of its attachment in the log.
    pub bytes: u64,
    pub deleted: Option<Arc<RoaringBitmap>>,
    /// The bytes of a small segment that is stored in the log.
    pub pending: Option<Arc<Vec<u8>>>,
    opened: Arc<OnceLock<Arc<Segment>>>,
}

impl SegmentEntry {
    /// A segment without deleted rows.
    pub fn new(id: u64, rows: u32, bytes: u64, pending: Option<Arc<Vec<u8>>>) -> Self {
        SegmentEntry { id, rows, bytes, deleted: None, pending, opened: Arc::default() }
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
        Table { id, name, copy_of: None, schema, design, segments: vec![], changed: 0, resources: None }
    }

    /// The number of rows that are not deleted.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(SegmentEntry::live_rows).sum()
    }

    /// Whether this is a copy with exactly its table's rows.
    pub fn is_current(&self) -> bool {
        self.copy_of.as_ref().is_some_and(|of| of.is_current)
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
        let segments = sources.iter().flat_map(|t| t.segments.iter().map(|s| s.id));
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
        (self.id, self.changed, self.segments.iter().map(|s| s.id).collect(), column)
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
        let segment = self.resources().open_segment(entry, self.design.medium == MediumKind::Memory)?;
        if segment.rows() != entry.rows as usize || segment.footer.description.schema.columns != self.schema.columns {
            let (rows, found, table) = (entry.rows, segment.rows(), &self.name);
            let reason = format!("it does not hold the {rows} rows of table {table}, but {found} of another");
            return Err(StoreError::Corrupt { file: segment.name().to_owned(), reason });
        }
        Ok(entry.opened.get_or_init(|| segment).clone())
    }
}

impl State {
    /// All tables, each followed by its copies.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().flat_map(|table| std::iter::once(table).chain(self.copies_of(table.id)))
    }

    /// The copies of a table.
    pub fn copies_of(&self, table: u64) -> impl Iterator<Item = &Arc<Table>> {
        self.copies.values().filter(move |copy| copy.copy_of.as_ref().is_some_and(|of| of.table == table))
    }

    /// The table or copy with this id.
    pub(super) fn table_by_id(&self, id: u64) -> Result<&Arc<Table>, String> {
        let table = self.copies.get(&id).or_else(|| self.tables.values().find(|t| t.id == id));
        table.ok_or_else(|| no_number(id))
    }

    pub(super) fn change_table(&mut self, id: u64, change: impl FnOnce(&mut Table)) -> Result<(), String> {
        let table = self.copies.get_mut(&id).or_else(|| self.tables.values_mut().find(|t| t.id == id));
        change(Arc::make_mut(table.ok_or_else(|| no_number(id))?));
        Ok(())
    }

    /// Sets whether a copy has its table's rows.
    pub(super) fn set_current(&mut self, copy: u64, is_current: bool) -> Result<(), String> {
        let mut found = false;
        self.change_table(copy, |table| {
            if let Some(of) = &mut table.copy_of {
                (of.is_current, found) = (is_current, true);
            }
        })?;
        if found { Ok(()) } else { Err(format!("table number {copy} is no copy")) }
    }

    /// The ids of all segments in files.
    pub fn segment_files(&self) -> impl Iterator<Item = u64> + '_ {
        self.all().flat_map(|t| t.segments.iter()).filter(|s| s.pending.is_none()).map(|s| s.id)
    }
}

fn no_number(id: u64) -> String {
    format!("table number {id} does not exist")
}
