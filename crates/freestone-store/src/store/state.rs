//! The state that results from the log's commits: tables, their segments, and the other objects of the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::{Kind, Object, Objects};
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
    /// All that are no tables.
    pub objects: Arc<Objects>,
    /// If the log has format version 2: the views and other entries of which `objects` are made.
    pub entries: Arc<BTreeMap<String, String>>,
    /// Segments that are in no table any more, until their files are gone.
    pub removed: BTreeMap<u64, Removed>,
    /// The identity of the pool of persistent memory, once there is one.
    pub pool: Option<u128>,
    /// The last commit that has changed the pool. A pool that does not know it is an older one.
    pub pool_commit: u64,
}

/// What depends on something.
#[derive(Debug, Clone, Copy)]
pub enum User<'s> {
    /// An object.
    Object(&'s Arc<Object>),
    /// A table.
    Table(&'s Arc<Table>),
}

impl User<'_> {
    /// Its id.
    pub fn id(&self) -> u64 {
        match self {
            User::Object(object) => object.id,
            User::Table(table) => table.id,
        }
    }

    /// The ids on which it depends.
    pub fn uses(&self) -> &BTreeSet<u64> {
        match self {
            User::Object(object) => &object.uses,
            User::Table(table) => &table.uses,
        }
    }
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
        self.copies.get(&id).or_else(|| self.own_table(id)).ok_or_else(|| no_number(id))
    }

    /// The table with this id, which is no copy.
    pub(super) fn own_table(&self, id: u64) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.id == id)
    }

    pub(super) fn change_table(&mut self, id: u64, change: impl FnOnce(&mut Table)) -> Result<(), String> {
        let table = self.copies.get_mut(&id).or_else(|| self.tables.values_mut().find(|t| t.id == id));
        change(Arc::make_mut(table.ok_or_else(|| no_number(id))?));
        Ok(())
    }

    /// The objects, to change them.
    pub(super) fn objects_mut(&mut self) -> &mut Objects {
        Arc::make_mut(&mut self.objects)
    }

    /// Drops what belongs to a table.
    pub(super) fn remove_owned(&mut self, owner: u64) {
        if self.objects.has_owned(owner) {
            self.objects_mut().remove_owned(owner);
        }
    }

    /// Whether there is a table or object with this id.
    pub(super) fn has(&self, id: u64) -> bool {
        self.objects.get(id).is_some() || self.own_table(id).is_some()
    }

    /// The objects and tables that depend on one of these ids.
    pub(super) fn users<'s>(&'s self, ids: &[u64]) -> impl Iterator<Item = User<'s>> {
        let uses = |used: &BTreeSet<u64>| ids.iter().any(|id| used.contains(id));
        let objects = self.objects.all().filter(move |object| uses(&object.uses)).map(User::Object);
        objects.chain(self.tables.values().filter(move |table| uses(&table.uses)).map(User::Table))
    }

    /// A table or object in a message.
    pub(super) fn described(&self, id: u64) -> String {
        match self.objects.get(id) {
            Some(object) => self.describe(object),
            None => match self.own_table(id) {
                Some(table) => format!("table {}", table.name),
                None => format!("object number {id}"),
            },
        }
    }

    /// An object in a message.
    pub(super) fn describe(&self, object: &Object) -> String {
        let of = || object.owner.map(|owner| self.described(owner)).unwrap_or_default();
        match object.kind() {
            Kind::Comments => format!("the comment on {}", of()),
            Kind::GeneratedColumns => format!("a generated column of {}", of()),
            Kind::OnCommit => format!("the ON COMMIT of {}", of()),
            Kind::MaterializedView => format!("the query of {}", of()),
            kind => format!("{} {}", kind.word(), object.name),
        }
    }

    /// Whether a materialized view has the rows that its query gives over the tables of this state. Those of persistent
    /// memory change without a record of the log, so nothing is known of them.
    pub(super) fn has_rows_of_its_query(&self, view: &Table) -> bool {
        let is_same = |(id, rows): (&u64, &u64)| {
            self.own_table(*id).is_some_and(|table| !table.is_persistent() && table.rows() == *rows)
        };
        !view.is_persistent() && view.computed_from.as_ref().is_some_and(|of| of.iter().all(is_same))
    }

    /// Materialized views that were computed from a table may have other rows than their queries from now on.
    pub(super) fn forget_views_of(&mut self, table: u64) -> Result<(), String> {
        let reads = |view: &&Arc<Table>| view.computed_from.as_ref().is_some_and(|of| of.contains_key(&table));
        let views: Vec<u64> = self.tables.values().filter(reads).map(|view| view.id).collect();
        views.into_iter().try_for_each(|view| self.change_table(view, |t| t.computed_from = None))
    }

    /// The same for a definition that has changed. A macro or type may take the place of another meaning of its name, so that any
    /// query may depend on it.
    pub(super) fn forget_views_that_use(&mut self, changed: &Object) -> Result<(), String> {
        let uses = |view: &Arc<Table>| match changed.kind() {
            Kind::Macro | Kind::Type => true,
            Kind::View => self.reads_of_view(view.id).contains(&changed.id),
            _ => false,
        };
        let current = self.tables.values().filter(|view| view.computed_from.is_some());
        let views: Vec<u64> = current.filter(|view| uses(view)).map(|view| view.id).collect();
        views.into_iter().try_for_each(|view| self.change_table(view, |t| t.computed_from = None))
    }

    /// The ids of what a materialized view reads, and of what that reads.
    pub(super) fn reads_of_view(&self, view: u64) -> BTreeSet<u64> {
        self.objects.materialized(view).map(|object| self.objects.all_read(&object.uses)).unwrap_or_default()
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
