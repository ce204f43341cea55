//! The state that results from the log's commits: tables, their segments, views.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::table::{SegmentEntry, Table};

/// The whole catalog at one commit.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub sequence: u64,
    /// Another number whenever readers of this process see another state, also if no commit has led to it.
    pub edition: u64,
    pub last_id: u64,
    pub tables: BTreeMap<String, Arc<Table>>,
    /// The copies of tables, by id; see [`CopyOf`](crate::table::CopyOf).
    pub copies: BTreeMap<u64, Arc<Table>>,
    /// The query of each view, by the view's name.
    pub views: BTreeMap<String, String>,
    /// Segments that are in no table any more, until their files are gone.
    pub removed: BTreeMap<u64, Removed>,
    /// The identity of the pool of persistent memory, once there is one.
    pub pool: Option<u128>,
    /// The last commit that has changed the pool. A pool that does not know it is an older one.
    pub pool_commit: u64,
}

/// A segment that is in no table any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// The commit that removed it.
    pub by: u64,
    /// The bytes of its file.
    pub bytes: u64,
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

    /// All segments in files.
    pub fn file_segments(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.all().flat_map(|t| t.segments.iter()).filter(|s| s.is_in_file())
    }

    /// The ids of all segments in files.
    pub fn segment_files(&self) -> impl Iterator<Item = u64> + '_ {
        self.file_segments().map(|s| s.id)
    }

    /// Segments of files that no table has any more were removed by a commit.
    pub(super) fn remove<'a>(&mut self, segments: impl Iterator<Item = &'a SegmentEntry>, by: u64) {
        let in_files = segments.filter(|s| s.is_in_file());
        self.removed.extend(in_files.map(|s| (s.id, Removed { by, bytes: s.bytes })));
    }
}

fn no_number(id: u64) -> String {
    format!("table number {id} does not exist")
}
