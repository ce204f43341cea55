//! What a commit says: operations on the catalog, as JSON with binary attachments.
//!
//! ```text
//! offset size field
//!      0    4 length of the JSON n
//!      4    n JSON: { "operations": [ … ] }
//!             per attachment: 8 length, then the bytes: pages of hot rows and deletion bitmaps, by number
//! ```
//! A checkpoint is a commit whose operations build the whole state from nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::earlier;
use super::objects::Object;
use super::state::{Removed, State};
use crate::design::Design;
use crate::schema::TableSchema;
use crate::segment::{HotRows, SegmentSummary};
use crate::table::{CopyOf, POOL_SEGMENTS, SegmentEntry, Table};

/// One change of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Operation {
    CreateTable {
        table: u64,
        name: String,
        schema: TableSchema,
        design: Design,
        /// The last commit that changed rows.
        #[serde(default, skip_serializing_if = "is_zero")]
        changed: u64,
    },
    /// Rows were changed or removed: what was derived from them is no longer valid, and copies of them are not current.
    Changed {
        table: u64,
    },
    /// A copy of a table: some or all of its columns, by position and ascending. It has no rows yet.
    CreateCopy {
        copy: u64,
        table: u64,
        name: String,
        columns: Vec<usize>,
        design: Design,
        is_current: bool,
    },
    /// From this commit on, until `Changed`, a copy has exactly its table's rows.
    CopyIsCurrent {
        copy: u64,
    },
    /// Drops a table with its copies and all that belongs to it, or a copy.
    DropTable {
        table: u64,
    },
    SetDesign {
        table: u64,
        design: Design,
    },
    /// Columns were added, dropped or changed. The columns of copies are those with the same ids.
    SetSchema {
        table: u64,
        schema: TableSchema,
    },
    /// New names of tables, which take effect together.
    RenameTables {
        names: Vec<(u64, String)>,
    },
    /// Segments are in the order of their position in the table: before another one, or behind all others.
    AddSegment {
        table: u64,
        segment: u64,
        rows: u32,
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
        /// The attachment with a summary of the footer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<usize>,
    },
    /// Adds hot rows to a run after its first `from` rows. If there is no such run, it is added after the table's other
    /// segments. The attachment is the payload of a PAX page.
    AppendRows {
        table: u64,
        run: u64,
        from: u32,
        rows: u32,
        attachment: usize,
        /// The columns of a new run, if they are not those that the table has now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<TableSchema>,
    },
    RemoveSegments {
        table: u64,
        segments: Vec<u64>,
    },
    /// Deletes rows of a segment. The attachment is a bitmap of them in Roaring's portable format.
    DeleteRows {
        table: u64,
        segment: u64,
        attachment: usize,
    },
    /// From this commit on, a table has the rows of its query as a materialized view, over these tables and their numbers of rows:
    /// until one of them has more, or a `Changed` or `SetSchema` of one, or a change of a definition that the query uses.
    ViewIsCurrent {
        table: u64,
        /// Tables and their numbers of rows.
        of: Vec<(u64, u64)>,
    },
    /// The tables and objects on which a table depends.
    SetUses {
        table: u64,
        uses: BTreeSet<u64>,
    },
    /// A new object, which is no table.
    CreateObject {
        object: Object,
    },
    /// Objects as they are from now on, found by their ids. New names take effect together.
    ReplaceObjects {
        objects: Vec<Object>,
    },
    /// Drops an object with all that belongs to it.
    DropObject {
        object: u64,
    },
    /// In format version 2: a view, or an entry that became an object in version 3.
    CreateView {
        name: String,
        sql: String,
    },
    /// In format version 2: removes a view or entry.
    DropView {
        name: String,
    },
    /// Removed segments whose files are gone.
    Forget {
        segments: Vec<u64>,
    },
    /// A removed segment whose file may still exist, because readers of snapshots before `sequence` need it.
    Removed {
        segment: u64,
        sequence: u64,
        bytes: u64,
    },
    /// The identity of the database's pool of persistent memory, in hexadecimal digits.
    SetPool {
        id: String,
    },
    /// The tables of the pool that have rows of a table.
    SetPools {
        table: u64,
        pools: Vec<u64>,
    },
    /// The commit with this number has changed the pool, which knows it, too.
    PoolCommit {
        sequence: u64,
    },
    /// The largest id so far.
    LastId {
        id: u64,
    },
}

/// The operations of one commit, with their attachments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Commit {
    pub operations: Vec<Operation>,
    pub attachments: Vec<Arc<Vec<u8>>>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    operations: Vec<Operation>,
}

impl Operation {
    /// Sets the identity of the database's pool.
    pub fn set_pool(id: u128) -> Operation {
        Operation::SetPool { id: format!("{id:032x}") }
    }

    /// A materialized view has the rows that its query gives over tables with these numbers of rows.
    pub fn view_is_current(view: u64, of: &BTreeMap<u64, u64>) -> Operation {
        Operation::ViewIsCurrent { table: view, of: of.iter().map(|(table, rows)| (*table, *rows)).collect() }
    }
}

impl Commit {
    /// Adds an operation.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Adds an attachment and returns its number.
    pub fn attach(&mut self, bytes: Arc<Vec<u8>>) -> usize {
        self.attachments.push(bytes);
        self.attachments.len() - 1
    }

    /// Appends the operations of another commit.
    pub fn extend(&mut self, other: Commit) {
        let offset = self.attachments.len();
        self.attachments.extend(other.attachments);
        self.operations.extend(other.operations.into_iter().map(|mut operation| {
            match &mut operation {
                Operation::AppendRows { attachment, .. }
                | Operation::DeleteRows { attachment, .. }
                | Operation::AddSegment { summary: Some(attachment), .. } => {
                    *attachment += offset;
                }
                _ => {}
            }
            operation
        }));
    }

    /// The body of the commit's log record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = Body { operations: self.operations.clone() };
        let json = serde_json::to_vec(&body).expect("operations have only strings as keys");
        let mut out = Vec::with_capacity(json.len() + 16);
        out.extend_from_slice(&(json.len() as u32).to_le_bytes());
        out.extend_from_slice(&json);
        for attachment in &self.attachments {
            out.extend_from_slice(&(attachment.len() as u64).to_le_bytes());
            out.extend_from_slice(attachment);
        }
        out
    }

    /// Parses the body of a log record.
    ///
    /// # Errors
    /// The reason why the body is not valid.
    pub fn parse(bytes: &[u8]) -> Result<Commit, String> {
        let ends = "the commit ends early";
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(ends)?;
        let (json, mut rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(ends)?;
        let body: Body = serde_json::from_slice(json).map_err(|e| format!("the commit's operations: {e}"))?;
        let mut attachments = vec![];
        while let Some((length, behind)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ends)?;
            let (attachment, behind) = behind.split_at_checked(length).ok_or(ends)?;
            attachments.push(Arc::new(attachment.to_vec()));
            rest = behind;
        }
        if rest.is_empty() { Ok(Commit { operations: body.operations, attachments }) } else { Err(ends.into()) }
    }

    /// Whether it makes space free, or says that it is free, and adds no rows.
    pub fn frees_space(&self) -> bool {
        use Operation::{AddSegment, AppendRows, DeleteRows, DropTable, Forget, RemoveSegments};
        let frees =
            |o: &Operation| matches!(o, DropTable { .. } | RemoveSegments { .. } | DeleteRows { .. } | Forget { .. });
        let adds = |o: &Operation| matches!(o, AddSegment { .. } | AppendRows { .. });
        self.operations.iter().any(frees) && !self.operations.iter().any(adds)
    }

    /// A commit that builds `state` from nothing.
    pub fn of_state(state: &State) -> Commit {
        let mut commit = Commit::default();
        commit.push(Operation::LastId { id: state.last_id });
        if let Some(id) = state.pool {
            commit.push(Operation::set_pool(id));
            commit.push(Operation::PoolCommit { sequence: state.pool_commit });
        }
        for table in state.all() {
            let (id, name, design) = (table.id, table.name.clone(), table.design.clone());
            commit.push(match table.copy_of.clone() {
                None => {
                    let (schema, changed) = (table.schema.clone(), table.changed);
                    Operation::CreateTable { table: id, name, schema, design, changed }
                }
                Some(CopyOf { table, columns, is_current }) => {
                    Operation::CreateCopy { copy: id, table, name, columns, design, is_current }
                }
            });
            if !table.uses.is_empty() {
                commit.push(Operation::SetUses { table: id, uses: table.uses.clone() });
            }
            if !table.pools.is_empty() {
                commit.push(Operation::SetPools { table: id, pools: table.pools.clone() });
            }
            for entry in table.segments.iter().filter(|entry| !entry.is_in_pool()) {
                commit.add_entry(table, entry);
                if let Some(deleted) = &entry.deleted {
                    commit.delete_rows(table.id, entry.id, deleted);
                }
            }
        }
        for object in state.objects.all() {
            commit.push(Operation::CreateObject { object: object.as_ref().clone() });
        }
        // Objects that are made before may have made views stale.
        for (view, of) in state.tables.values().filter_map(|view| Some((view.id, view.computed_from.as_ref()?))) {
            commit.push(Operation::view_is_current(view, of));
        }
        for (segment, Removed { by, bytes }) in &state.removed {
            commit.push(Operation::Removed { segment: *segment, sequence: *by, bytes: *bytes });
        }
        commit
    }

    /// Adds a segment to a table, as it is without its deleted rows.
    pub fn add_entry(&mut self, table: &Table, entry: &SegmentEntry) {
        match &entry.hot {
            None => self.add_segment(table.id, entry, None),
            Some(hot) => {
                let schema = (!table.schema.is_schema_of(hot.schema())).then(|| hot.schema().clone());
                self.append_rows(table.id, entry.id, 0, hot, schema);
            }
        }
    }

    /// Adds a segment in a file before another one, or behind all others.
    pub fn add_segment(&mut self, table: u64, entry: &SegmentEntry, before: Option<u64>) {
        let (segment, rows, bytes) = (entry.id, entry.rows, entry.bytes);
        let summary = entry.summary().map(|summary| self.attach(Arc::new(summary.to_bytes())));
        self.push(Operation::AddSegment { table, segment, rows, bytes, before, summary });
    }

    /// Adds hot rows to a run that has `from` rows. `schema`: the columns of a new run, if they are not the table's.
    pub fn append_rows(&mut self, table: u64, run: u64, from: u32, hot: &HotRows, mut schema: Option<TableSchema>) {
        let mut from = from;
        for (rows, payload) in hot.payloads() {
            let attachment = self.attach(Arc::new(payload.to_vec()));
            self.push(Operation::AppendRows { table, run, from, rows, attachment, schema: schema.take() });
            from += rows;
        }
    }

    /// Deletes rows of a segment.
    pub fn delete_rows(&mut self, table: u64, segment: u64, rows: &RoaringBitmap) {
        let attachment = self.attach(Arc::new(bitmap_bytes(rows)));
        self.push(Operation::DeleteRows { table, segment, attachment });
    }

    /// The state after this commit, which has `sequence`.
    ///
    /// # Errors
    /// An operation refers to something that does not exist.
    pub fn apply(&self, state: &State, sequence: u64) -> Result<State, String> {
        let mut next = state.clone();
        next.sequence = sequence;
        if !next.entries.is_empty() {
            // They have ids that the log may give now. They are made again below.
            next.objects = Arc::default();
        }
        for operation in &self.operations {
            self.apply_one(operation, &mut next, sequence)?;
        }
        if !next.entries.is_empty() || !state.entries.is_empty() {
            next.objects = Arc::new(earlier::objects(&next)?);
        }
        Ok(next)
    }

    pub(super) fn apply_one(&self, operation: &Operation, state: &mut State, sequence: u64) -> Result<(), String> {
        let attachment = |at: usize| self.attachments.get(at).cloned().ok_or("an attachment is missing");
        match operation {
            Operation::SetPool { id } => {
                let id = u128::from_str_radix(id, 16).map_err(|_| format!("{id} is no identity of a pool"))?;
                state.pool = Some(id);
            }
            Operation::PoolCommit { sequence } => state.pool_commit = state.pool_commit.max(*sequence),
            Operation::SetPools { table, pools } => {
                pools.iter().try_for_each(|id| note_id(state, *id))?;
                state.change_table(*table, |t| t.pools.clone_from(pools))?;
            }
            Operation::LastId { id } => note_id(state, *id)?,
            Operation::CreateTable { table, name, schema, design, changed } => {
                free_id(state, *table)?;
                if state.tables.contains_key(name) {
                    return Err(format!("table {name} is made twice"));
                }
                note_id(state, *table)?;
                let mut made = Table::new(*table, name.clone(), schema.clone(), design.clone());
                made.changed = *changed;
                state.tables.insert(name.clone(), Arc::new(made));
            }
            Operation::Changed { table } => {
                state.change_table(*table, |t| t.changed = sequence)?;
                let copies: Vec<u64> = state.copies_of(*table).map(|copy| copy.id).collect();
                copies.into_iter().try_for_each(|copy| state.set_current(copy, false))?;
                state.change_table(*table, |t| t.computed_from = None)?;
                state.forget_views_of(*table)?;
            }
            Operation::ViewIsCurrent { table, of } => {
                let of = Some(Arc::new(of.iter().copied().collect()));
                state.change_table(*table, |t| t.computed_from = of)?;
            }
            Operation::CreateCopy { copy, table, name, columns, design, is_current } => {
                free_id(state, *copy)?;
                note_id(state, *copy)?;
                let made = copy_of(state.table_by_id(*table)?, *copy, name, columns, design, *is_current)?;
                state.copies.insert(*copy, Arc::new(made));
            }
            Operation::CopyIsCurrent { copy } => state.set_current(*copy, true)?,
            Operation::DropTable { table } => {
                let copies: Vec<u64> = state.copies_of(*table).map(|copy| copy.id).collect();
                for id in copies.into_iter().chain([*table]) {
                    let gone = state.table_by_id(id)?.clone();
                    state.remove(gone.segments.iter(), sequence);
                    if state.copies.remove(&id).is_none() {
                        state.tables.remove(&gone.name);
                        state.remove_owned(id);
                    }
                }
            }
            Operation::SetDesign { table, design } => {
                let design = design.clone();
                state.change_table(*table, |t| t.design = design)?;
            }
            Operation::SetSchema { table, schema } => {
                set_schema(state, *table, schema)?;
                state.forget_views_of(*table)?;
            }
            Operation::RenameTables { names } => rename_tables(state, names)?,
            Operation::AddSegment { table, segment, rows, bytes, before, summary } => {
                note_id(state, *segment)?;
                // A state that is restored may have one that was removed since.
                state.removed.remove(segment);
                let parsed = |at: &usize| SegmentSummary::parse(&attachment(*at)?, *rows).map(Arc::new);
                let wrong = |reason| format!("segment {segment:x}: {reason}");
                let summary = summary.as_ref().map(parsed).transpose().map_err(wrong)?;
                let entry = SegmentEntry::new(*segment, *rows, *bytes).summarized(summary);
                state.change_table(*table, |t| {
                    let place = before.and_then(|id| t.segments.iter().position(|entry| entry.id == id));
                    t.segments.insert(place.unwrap_or(t.segments.len()), entry);
                })?;
            }
            Operation::AppendRows { table, run, from, rows, attachment: at, schema } => {
                note_id(state, *run)?;
                let place = Place { table: *table, run: *run, from: *from };
                append_rows(state, place, schema.as_ref(), &attachment(*at)?, *rows)?;
            }
            Operation::RemoveSegments { table, segments } => {
                let mut gone = vec![];
                state.change_table(*table, |t| {
                    let segments_of_table = std::mem::take(&mut t.segments);
                    (gone, t.segments) = segments_of_table.into_iter().partition(|s| segments.contains(&s.id));
                })?;
                state.remove(gone.iter(), sequence);
            }
            Operation::DeleteRows { table, segment, attachment: at } => {
                let bitmap = parse_bitmap(&attachment(*at)?)?;
                let mut found = false;
                state.change_table(*table, |t| {
                    let fits = |s: &SegmentEntry| s.id == *segment && bitmap.max().is_none_or(|last| last < s.rows);
                    if let Some(entry) = t.segments.iter_mut().find(|s| fits(s)) {
                        found = true;
                        match &mut entry.deleted {
                            Some(deleted) => *Arc::make_mut(deleted) |= bitmap,
                            None => entry.deleted = Some(Arc::new(bitmap)),
                        }
                    }
                })?;
                if !found {
                    return Err(format!("rows are deleted of segment {segment}, and its table has no such rows"));
                }
            }
            Operation::SetUses { table, uses } => state.change_table(*table, |t| t.uses.clone_from(uses))?,
            Operation::CreateObject { object } => {
                free_id(state, object.id)?;
                note_id(state, object.id)?;
                state.objects_mut().insert(object.clone())?;
                state.forget_views_that_use(object)?;
            }
            Operation::ReplaceObjects { objects } => {
                state.objects_mut().replace(objects)?;
                objects.iter().try_for_each(|object| state.forget_views_that_use(object))?;
            }
            Operation::DropObject { object } => {
                let dropped = state.objects.get(*object).cloned();
                state.objects_mut().remove(*object)?;
                dropped.iter().try_for_each(|object| state.forget_views_that_use(object))?;
            }
            Operation::CreateView { name, sql } => {
                if Arc::make_mut(&mut state.entries).insert(name.clone(), sql.clone()).is_some() {
                    return Err(format!("view {name} is made twice"));
                }
            }
            Operation::DropView { name } => {
                Arc::make_mut(&mut state.entries).remove(name).ok_or_else(|| format!("view {name} does not exist"))?;
            }
            Operation::Forget { segments } => segments.iter().for_each(|id| {
                state.removed.remove(id);
            }),
            Operation::Removed { segment, sequence, bytes } => {
                state.removed.insert(*segment, Removed { by: *sequence, bytes: *bytes });
            }
        }
        Ok(())
    }
}

/// Where hot rows are added.
struct Place {
    table: u64,
    run: u64,
    from: u32,
}

fn append_rows(
    state: &mut State,
    Place { table, run, from }: Place,
    schema: Option<&TableSchema>,
    payload: &[u8],
    rows: u32,
) -> Result<(), String> {
    let of = state.table_by_id(table)?;
    let wrong = |reason: String| format!("hot rows {run:x} of table {}: {reason}", of.name);
    let at = of.segments.iter().position(|entry| entry.id == run);
    let known = at.map(|at| of.segments[at].hot.as_deref().ok_or("it is a segment in a file")).transpose()?;
    let found = known.map_or(0, HotRows::rows);
    if found != from {
        return Err(wrong(format!("rows are added after {from} rows, and there are {found}")));
    }
    let grown = match known {
        Some(hot) => hot.appended(payload, rows),
        None => match schema.cloned().map(TableSchema::validated).transpose() {
            Ok(own) => HotRows::new(own.as_ref().unwrap_or(&of.schema)).appended(payload, rows),
            Err(error) => Err(error.to_string()),
        },
    };
    let grown = Arc::new(grown.map_err(wrong)?);
    state.change_table(table, |t| match at {
        Some(at) => t.segments[at].grow(grown),
        None => t.segments.push(SegmentEntry::of_hot(run, grown)),
    })
}

/// Notes an id, so that no later one is equal.
fn note_id(state: &mut State, id: u64) -> Result<(), String> {
    if id >= POOL_SEGMENTS {
        return Err(format!("{id} is no id of a log: those are below {POOL_SEGMENTS}"));
    }
    state.last_id = state.last_id.max(id);
    Ok(())
}

fn free_id(state: &State, id: u64) -> Result<(), String> {
    if state.table_by_id(id).is_ok() || state.objects.get(id).is_some() {
        return Err(format!("table number {id} is made twice"));
    }
    Ok(())
}

/// A copy without rows.
fn copy_of(
    table: &Table,
    id: u64,
    name: &str,
    columns: &[usize],
    design: &Design,
    is_current: bool,
) -> Result<Table, String> {
    let ascend = columns.windows(2).all(|two| two[0] < two[1]);
    if table.copy_of.is_some() || !ascend || columns.last().is_none_or(|last| *last >= table.schema.columns.len()) {
        return Err(format!("copy {name} cannot be one of table {}: its columns are {columns:?}", table.name));
    }
    let mut copy = Table::new(id, name.to_owned(), table.schema.of_columns(columns), design.clone());
    copy.copy_of = Some(CopyOf { table: table.id, columns: columns.to_vec(), is_current });
    Ok(copy)
}

fn set_schema(state: &mut State, id: u64, schema: &TableSchema) -> Result<(), String> {
    let table = state.table_by_id(id)?;
    let schema = schema.clone().validated().map_err(|e| format!("the columns of table {}: {e}", table.name))?;
    if table.copy_of.is_some() {
        return Err(format!("table number {id} is a copy, whose columns are those of its table"));
    }
    let old = table.schema.clone();
    let copies: Vec<(u64, Vec<usize>)> =
        state.copies_of(id).filter_map(|copy| Some((copy.id, copy.copy_of.clone()?.columns))).collect();
    for (copy, columns) in copies {
        let places = columns.iter().map(|column| schema.position_of(old.id(*column))).collect::<Option<Vec<_>>>();
        let places = places.ok_or_else(|| format!("a column is dropped that copy number {copy} has"))?;
        state.change_table(copy, |t| {
            t.set_schema(schema.of_columns(&places));
            if let Some(of) = &mut t.copy_of {
                of.columns = places;
            }
        })?;
    }
    state.change_table(id, |t| t.set_schema(schema))
}

fn rename_tables(state: &mut State, names: &[(u64, String)]) -> Result<(), String> {
    let mut renamed = vec![];
    for (id, name) in names {
        let old = state.table_by_id(*id)?.name.clone();
        let table = state.tables.remove(&old).ok_or_else(|| format!("table number {id} is a copy"))?;
        renamed.push((table, name));
    }
    for (mut table, name) in renamed {
        if state.tables.contains_key(name) {
            return Err(format!("table {name} is made twice"));
        }
        Arc::make_mut(&mut table).name = name.clone();
        state.tables.insert(name.clone(), table);
    }
    Ok(())
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A bitmap in Roaring's portable format.
pub fn bitmap_bytes(bitmap: &RoaringBitmap) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut bytes).expect("writing to memory does not fail");
    bytes
}

fn parse_bitmap(bytes: &[u8]) -> Result<RoaringBitmap, String> {
    RoaringBitmap::deserialize_from(bytes).map_err(|e| format!("a deletion bitmap: {e}"))
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::super::objects::Definition;
    use super::*;
    use crate::column::{ColumnData, Physical};
    use crate::schema::Column;

    /// The summary of a segment with zones of 2,048 rows, of which nothing else is known.
    const NO_COLUMNS: [u8; 6] = [0x80, 0x20, 0, 0, 0, 0];

    #[test]
    fn a_checkpoint_makes_the_same_state() {
        let column = Column { name: "a".into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: vec![column], ..Default::default() };
        let mut commit = Commit::default();
        commit.push(Operation::CreateTable {
            table: 1,
            name: "t".into(),
            schema: schema.clone(),
            design: Design::default(),
            changed: 0,
        });
        let values = ColumnData { values: Physical::Int((0..9).collect()), validity: None };
        let hot = HotRows::of(&schema, &[values]).unwrap();
        commit.append_rows(1, 2, 0, &hot, None);
        commit.append_rows(1, 2, 9, &hot, None);
        commit.push(Operation::AddSegment { table: 1, segment: 3, rows: 5, bytes: 70, before: None, summary: None });
        commit.push(Operation::AddSegment { table: 1, segment: 4, rows: 5, bytes: 70, before: None, summary: None });
        let summary = Some(commit.attach(Arc::new(NO_COLUMNS.to_vec())));
        commit.push(Operation::AddSegment { table: 1, segment: 7, rows: 5, bytes: 70, before: Some(3), summary });
        commit.delete_rows(1, 3, &RoaringBitmap::from_iter([1]));
        commit.delete_rows(1, 3, &RoaringBitmap::from_iter([4]));
        commit.delete_rows(1, 2, &RoaringBitmap::from_iter([17]));
        commit.push(Operation::RemoveSegments { table: 1, segments: vec![4] });
        let definition = Definition::View { query: "select 1".into() };
        let (name, uses) = (String::from("v"), BTreeSet::from([1]));
        commit.push(Operation::CreateObject { object: Object { id: 5, name, owner: None, uses, definition } });
        commit.push(Operation::SetUses { table: 1, uses: BTreeSet::from([6]) });
        let definition = Definition::OnCommit { drops: true };
        let (name, uses) = (String::new(), BTreeSet::new());
        commit.push(Operation::CreateObject { object: Object { id: 6, name, owner: Some(1), uses, definition } });
        let state = Commit::parse(&commit.to_bytes()).unwrap().apply(&State::default(), 7).unwrap();
        assert_eq!(state.removed.get(&4).map(|removed| removed.by), Some(7));
        assert_eq!(state.tables["t"].rows(), 25);
        let folded = Commit::parse(&Commit::of_state(&state).to_bytes()).unwrap();
        let again = folded.apply(&State::default(), 7).unwrap();
        assert_eq!(Commit::of_state(&again), folded);
        assert_eq!((again.last_id, again.objects == state.objects), (7, true));
        let known = |state: &State| state.tables["t"].segments.iter().filter(|s| s.summary().is_some()).count();
        assert_eq!((known(&state), known(&again)), (1, 1));
        let dropped = Commit { operations: vec![Operation::DropTable { table: 1 }], attachments: vec![] };
        let left = dropped.apply(&again, 8).unwrap();
        assert_eq!(left.objects.all().map(|object| object.id).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn summaries_that_do_not_fit_are_damage_and_others_stay_with_their_commit() {
        let mut first = Commit::default();
        first.attach(Arc::new(vec![1]));
        let mut second = Commit::default();
        let summary = Some(second.attach(Arc::new(NO_COLUMNS.to_vec())));
        let add = |summary| Operation::AddSegment { table: 1, segment: 3, rows: 5, bytes: 70, before: None, summary };
        second.push(add(summary));
        first.extend(second);
        assert_eq!(first.operations, [add(Some(1))]);
        let schema = TableSchema { columns: vec![], ..Default::default() };
        let (name, design) = (String::from("t"), Design::default());
        let create = Operation::CreateTable { table: 1, name, schema, design, changed: 0 };
        first.operations.insert(0, create.clone());
        assert!(first.apply(&State::default(), 1).is_ok());
        for (operation, attachment) in [(add(Some(9)), NO_COLUMNS.to_vec()), (add(Some(0)), vec![7])] {
            let commit =
                Commit { operations: vec![create.clone(), operation], attachments: vec![Arc::new(attachment)] };
            let error = commit.apply(&State::default(), 1).unwrap_err();
            assert!(error.starts_with("segment 3: "), "{error}");
        }
        // As an earlier version of the program wrote it.
        let text = r#"{"do":"add_segment","table":1,"segment":3,"rows":5,"bytes":70}"#;
        assert_eq!(serde_json::from_str::<Operation>(text).unwrap(), add(None));
    }

    #[test]
    fn objects_of_version_2_have_ids_that_the_log_has_not_given() {
        let (name, sql) = (String::from("v"), String::from("SELECT 1"));
        let column = Column { name: "a".into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: vec![column], ..Default::default() };
        let (table, design) = (String::from("t"), Design::default());
        let operations = [
            Operation::CreateView { name: name.clone(), sql },
            Operation::CreateTable { table: 1, name: table, schema, design, changed: 0 },
            Operation::DropView { name },
        ];
        let mut state = State::default();
        let ids = operations.map(|operation| {
            state = Commit { operations: vec![operation], attachments: vec![] }.apply(&state, 1).unwrap();
            state.objects.all().map(|object| object.id).collect::<Vec<_>>()
        });
        assert_eq!(ids, [vec![1], vec![2], vec![]]);
    }

    #[test]
    fn copies_are_folded_and_go_with_their_table() {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: vec![column("a"), column("b")], ..Default::default() };
        let (name, design) = (String::from("t"), Design::default());
        let mut commit = Commit::default();
        commit.push(Operation::CreateTable {
            table: 1,
            name: name.clone(),
            schema,
            design: design.clone(),
            changed: 0,
        });
        let copy = |columns: Vec<usize>| Operation::CreateCopy {
            copy: 2,
            table: 1,
            name: name.clone(),
            columns,
            design: design.clone(),
            is_current: false,
        };
        commit.push(copy(vec![1]));
        commit.push(Operation::AddSegment { table: 2, segment: 3, rows: 9, bytes: 3, before: None, summary: None });
        commit.push(Operation::CopyIsCurrent { copy: 2 });
        let state = commit.apply(&State::default(), 1).unwrap();
        assert_eq!(state.copies[&2].schema.columns, [column("b")]);
        assert_eq!(state.segment_files().collect::<Vec<_>>(), [3]);
        let folded = Commit::of_state(&state);
        assert_eq!(Commit::of_state(&folded.apply(&State::default(), 1).unwrap()), folded);
        let one = |operation| Commit { operations: vec![operation], attachments: vec![] };
        let current = |state: &State| state.copies[&2].copy_of.as_ref().unwrap().is_current;
        let changed = one(Operation::Changed { table: 1 }).apply(&state, 2).unwrap();
        assert!(current(&state) && !current(&changed));
        let dropped = one(Operation::DropTable { table: 1 }).apply(&state, 2).unwrap();
        assert!(dropped.copies.is_empty() && dropped.removed.contains_key(&3));
        assert!(one(copy(vec![0])).apply(&state, 2).unwrap_err().contains("number 2 is made twice"));
        let without = one(Operation::DropTable { table: 2 }).apply(&state, 2).unwrap();
        for columns in [vec![], vec![1, 0], vec![2]] {
            assert!(one(copy(columns)).apply(&without, 3).unwrap_err().contains("cannot be one of table t"));
        }
        assert!(one(Operation::CopyIsCurrent { copy: 1 }).apply(&state, 2).unwrap_err().contains("no copy"));
    }

    #[test]
    fn copies_follow_the_columns_of_their_table() {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: ["a", "b", "c"].map(column).to_vec(), ..Default::default() };
        let (name, design) = (String::from("t"), Design::default());
        let mut commit = Commit::default();
        commit.push(Operation::CreateTable {
            table: 1,
            name: name.clone(),
            schema: schema.clone(),
            design: design.clone(),
            changed: 0,
        });
        commit.push(Operation::CreateCopy { copy: 2, table: 1, name, columns: vec![1, 2], design, is_current: true });
        let state = commit.apply(&State::default(), 1).unwrap();
        let mut altered = schema.clone();
        altered.drop_column(0);
        altered.rename_column(1, "d");
        let one = |operation| Commit { operations: vec![operation], attachments: vec![] };
        let set = one(Operation::SetSchema { table: 1, schema: altered.clone() });
        let set = Commit::parse(&set.to_bytes()).unwrap().apply(&state, 2).unwrap();
        assert_eq!(set.copies[&2].copy_of.as_ref().unwrap().columns, [0, 1]);
        assert_eq!(set.copies[&2].schema.columns, [column("b"), column("d")]);
        let folded = Commit::parse(&Commit::of_state(&set).to_bytes()).unwrap();
        assert_eq!(folded.apply(&State::default(), 2).unwrap().tables["t"].schema, altered);
        let mut without = schema;
        without.drop_column(2);
        assert!(one(Operation::SetSchema { table: 1, schema: without }).apply(&state, 2).unwrap_err().contains("copy"));
        assert!(one(Operation::SetSchema { table: 2, schema: altered }).apply(&state, 2).is_err());
    }

    #[test]
    fn tables_can_exchange_their_names() {
        let column = Column { name: "a".into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: vec![column], ..Default::default() };
        let create = |table, name: &str| Operation::CreateTable {
            table,
            name: name.into(),
            schema: schema.clone(),
            design: Design::default(),
            changed: 0,
        };
        let operations = vec![create(1, "t"), create(2, "u")];
        let state = Commit { operations, attachments: vec![] }.apply(&State::default(), 1).unwrap();
        let rename = |names: &[(u64, &str)]| {
            let names = names.iter().map(|(id, name)| (*id, (*name).to_owned())).collect();
            let commit = Commit { operations: vec![Operation::RenameTables { names }], attachments: vec![] };
            Commit::parse(&commit.to_bytes()).unwrap().apply(&state, 2)
        };
        let exchanged = rename(&[(1, "u"), (2, "t")]).unwrap();
        assert_eq!((exchanged.tables["u"].id, exchanged.tables["t"].id), (1, 2));
        assert!(rename(&[(1, "u")]).unwrap_err().contains("made twice"));
        assert!(rename(&[(7, "u")]).is_err());
    }

    #[test]
    fn a_cut_commit_is_an_error() {
        let mut commit = Commit::default();
        commit.push(Operation::DropObject { object: 7 });
        commit.attach(Arc::new(vec![7; 9]));
        let bytes = commit.to_bytes();
        assert_eq!(Commit::parse(&bytes), Ok(commit));
        for end in 0..bytes.len() {
            let cut = Commit::parse(&bytes[..end]);
            assert!(cut.is_err() || cut.unwrap().attachments.is_empty(), "{end}");
        }
    }

    #[test]
    fn deleted_rows_that_a_segment_does_not_have_are_an_error() {
        let column = Column { name: "a".into(), data_type: DataType::Int64, nullable: false };
        let schema = TableSchema { columns: vec![column], ..Default::default() };
        let mut commit = Commit::default();
        commit.push(Operation::CreateTable {
            table: 1,
            name: "t".into(),
            schema,
            design: Design::default(),
            changed: 0,
        });
        commit.push(Operation::AddSegment { table: 1, segment: 2, rows: 9, bytes: 3, before: None, summary: None });
        commit.delete_rows(1, 2, &RoaringBitmap::from_iter([8, 9]));
        assert!(commit.apply(&State::default(), 1).unwrap_err().contains("no such rows"));
    }
}
