//! Rebasing: from a transaction's changes to a commit on the newest state.
//!
//! A transaction has two states: its base, and the base with its changes. Their difference is what it changed. Commits
//! of other transactions since the base conflict only if they changed the same row, or the same table, object or name as
//! a whole, or dropped or altered what the transaction's changes depend on.

mod dependencies;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::commit::{Commit, Operation};
use super::locks::Rows;
use super::objects::{Kind, Object};
use super::state::State;
use crate::design::MediumKind;
use crate::error::{Result, StoreError};
use crate::segment::HotRows;
use crate::table::{SegmentEntry, Table};

/// Finds the positions of rows in a newer state of their table; `None` if one of them no longer exists.
pub type Places<'a> = &'a dyn Fn(&Table, u64, RoaringBitmap) -> Option<Rows>;

/// Says whether a run of hot rows takes more rows. Without it, new rows stay in runs of their own.
pub type Takes<'a> = Option<&'a dyn Fn(u64) -> bool>;

/// The operations that apply the difference between `base` and `mine` to the state `now`.
///
/// # Errors
/// [`StoreError::Conflict`] if a commit since `base` changed the same rows, table, object or name.
pub fn rebase(base: &State, mine: &State, now: &State, places: Places<'_>, takes: Takes<'_>) -> Result<Commit> {
    let (all_base, all_now) = (base, now);
    let states = States { base: by_id(base), mine: by_id(mine), now: by_id(now), all_base, all_mine: mine, all_now };
    let mut commit = Commit::default();
    drop_tables(&states, &mut commit)?;
    rename_tables(&states, &mut commit)?;
    Changes::of(base, mine).rebase(&states, &mut commit)?;
    dependencies::check(&states)?;
    if let Some(id) = mine.pool.filter(|id| now.pool != Some(*id)) {
        commit.push(Operation::set_pool(id));
    }
    for table in mine.tables.values() {
        let copies: Vec<&Arc<Table>> = mine.copies_of(table.id).collect();
        match states.base.get(&table.id) {
            None => create_table(&states, table, &copies, takes, &mut commit)?,
            Some(old) => {
                let group = Group { states: &states, table, old, copies, places, takes };
                group.change(&mut commit)?;
            }
        }
    }
    views::note_current(&states, &mut commit)?;
    Ok(commit)
}

/// An error that may not occur if the transaction is repeated.
pub fn conflict(what: impl std::fmt::Display) -> StoreError {
    StoreError::Conflict(format!("could not serialize: {what} since this transaction began"))
}

type ById<'a> = HashMap<u64, &'a Arc<Table>>;

struct States<'a> {
    base: ById<'a>,
    mine: ById<'a>,
    now: ById<'a>,
    all_base: &'a State,
    all_mine: &'a State,
    all_now: &'a State,
}

fn by_id(state: &State) -> ById<'_> {
    state.tables.values().chain(state.copies.values()).map(|table| (table.id, table)).collect()
}

fn drop_tables(states: &States<'_>, commit: &mut Commit) -> Result<()> {
    let mut dropped: Vec<_> = states.base.values().filter(|table| !states.mine.contains_key(&table.id)).collect();
    dropped.sort_unstable_by_key(|table| table.id);
    for table in dropped {
        if !states.now.contains_key(&table.id) {
            return Err(conflict(format!("table {} was dropped", table.name)));
        }
        // Dropping a table also drops its copies.
        let goes_with_table = table.copy_of.as_ref().is_some_and(|of| !states.mine.contains_key(&of.table));
        if !goes_with_table {
            commit.push(Operation::DropTable { table: table.id });
        }
    }
    Ok(())
}

fn rename_tables(states: &States<'_>, commit: &mut Commit) -> Result<()> {
    let mut names = vec![];
    for (id, old) in &states.base {
        let Some(mine) = states.mine.get(id).filter(|mine| mine.name != old.name) else { continue };
        if states.now.get(id).is_none_or(|now| now.name != old.name) {
            return Err(conflict(format!("table {} was dropped or renamed", old.name)));
        }
        check_relation(states, &mine.name)?;
        names.push((*id, mine.name.clone()));
    }
    names.sort_unstable();
    if !names.is_empty() {
        commit.push(Operation::RenameTables { names });
    }
    Ok(())
}

/// What a transaction has changed of the objects that are no tables.
struct Changes<'a> {
    /// Those that it has dropped, as they were, without those that go with their owner.
    dropped: Vec<&'a Arc<Object>>,
    /// Those that are others now, before and after.
    changed: Vec<(&'a Arc<Object>, &'a Arc<Object>)>,
    created: Vec<&'a Arc<Object>>,
}

impl<'a> Changes<'a> {
    fn of(base: &'a State, mine: &'a State) -> Changes<'a> {
        let mut changes = Changes { dropped: vec![], changed: vec![], created: vec![] };
        if Arc::ptr_eq(&base.objects, &mine.objects) {
            return changes;
        }
        for before in base.objects.all() {
            match mine.objects.get(before.id) {
                Some(after) if Arc::ptr_eq(before, after) || before == after => {}
                Some(after) => changes.changed.push((before, after)),
                None if before.owner.is_some_and(|owner| base.has(owner) && !mine.has(owner)) => {}
                None => changes.dropped.push(before),
            }
        }
        changes.created.extend(mine.objects.all().filter(|object| base.objects.get(object.id).is_none()));
        changes
    }

    fn rebase(&self, states: &States<'_>, commit: &mut Commit) -> Result<()> {
        let changed = |object: &Object| conflict(format!("{} was changed", states.all_base.describe(object)));
        let now = |object: &Object| match states.all_now.objects.get(object.id) {
            Some(now) => Ok(now),
            None => Err(conflict(format!("{} was dropped", states.all_base.describe(object)))),
        };
        for object in &self.dropped {
            if !now(object)?.is_same_but_position(object) {
                return Err(changed(object));
            }
            commit.push(Operation::DropObject { object: object.id });
        }
        let mut objects = vec![];
        for (before, after) in &self.changed {
            objects.push(merged(before, after, now(before)?).ok_or_else(|| changed(before))?);
            if before.name != after.name {
                check_name(states, after)?;
            }
        }
        if !objects.is_empty() {
            commit.push(Operation::ReplaceObjects { objects });
        }
        for object in &self.created {
            check_name(states, object)?;
            commit.push(Operation::CreateObject { object: object.as_ref().clone() });
        }
        Ok(())
    }
}

/// A changed object on one that others may have changed; `None` if both did more than let it depend on other things: on tables
/// that have taken the place of those on which it depended.
fn merged(before: &Object, after: &Object, now: &Object) -> Option<Object> {
    if now == before {
        return Some(after.clone());
    }
    let is_same = before.is_same_but_uses(after) && before.is_same_but_uses(now);
    is_same.then(|| {
        let kept = now.uses.iter().filter(|id| after.uses.contains(id) || !before.uses.contains(id));
        let uses = kept.chain(after.uses.difference(&before.uses)).copied().collect();
        Object { uses, ..after.clone() }
    })
}

/// Checks that the name of a new object is free, or that this transaction drops or renames the object that has it.
fn check_name(states: &States<'_>, object: &Object) -> Result<()> {
    let (kind, now) = (object.kind(), &states.all_now.objects);
    match object.owner {
        _ if kind == Kind::View => check_relation(states, &object.name),
        // Its owner has one at most.
        Some(owner) if object.name.is_empty() => {
            match now.owned(owner, kind).find(|other| !states.gives_up(other, &other.name)) {
                Some(_) => Err(conflict(format!("{} was changed", states.all_mine.describe(object)))),
                None => Ok(()),
            }
        }
        _ => match now.named(kind, &object.name).filter(|other| !states.gives_up(other, &object.name)) {
            Some(_) => Err(conflict(format!("{} {} was created", kind.word(), object.name))),
            None => Ok(()),
        },
    }
}

/// The same for the name of a new table or view.
fn check_relation(states: &States<'_>, name: &str) -> Result<()> {
    let gives_up = |id: u64| {
        let had = states.base.get(&id).is_some_and(|table| table.name == name);
        had && states.mine.get(&id).is_none_or(|table| table.name != name)
    };
    let is_new_table = states.all_now.tables.get(name).is_some_and(|table| !gives_up(table.id));
    let view = states.all_now.objects.named(Kind::View, name);
    if is_new_table || view.is_some_and(|view| !states.gives_up(view, name)) {
        return Err(conflict(format!("a table or view {name} was created")));
    }
    Ok(())
}

impl States<'_> {
    /// Whether this transaction drops an object, or gives it another name.
    fn gives_up(&self, object: &Object, name: &str) -> bool {
        let had = self.all_base.objects.get(object.id).is_some_and(|base| base.name == name);
        had && self.all_mine.objects.get(object.id).is_none_or(|mine| mine.name != name)
    }
}

fn set_uses(table: &Table, old: &BTreeSet<u64>, commit: &mut Commit) {
    if table.uses != *old {
        commit.push(Operation::SetUses { table: table.id, uses: table.uses.clone() });
    }
}

fn create_table(
    states: &States<'_>,
    table: &Table,
    copies: &[&Arc<Table>],
    takes: Takes<'_>,
    commit: &mut Commit,
) -> Result<()> {
    check_relation(states, &table.name)?;
    let (name, schema, design) = (table.name.clone(), table.schema.clone(), table.design.clone());
    commit.push(Operation::CreateTable { table: table.id, name, schema, design, changed: 0 });
    set_uses(table, &BTreeSet::new(), commit);
    Additions { table, old: &[], now: &[], gone: &[], takes }.add(commit)?;
    if table.changed > 0 {
        commit.push(Operation::Changed { table: table.id });
    }
    copies.iter().try_for_each(|copy| create_copy(copy, takes, commit))
}

fn create_copy(copy: &Table, takes: Takes<'_>, commit: &mut Commit) -> Result<()> {
    let Some(of) = copy.copy_of.clone() else { return Ok(()) };
    let (name, design) = (copy.name.clone(), copy.design.clone());
    let (table, columns, is_current) = (of.table, of.columns, of.is_current);
    commit.push(Operation::CreateCopy { copy: copy.id, table, name, columns, design, is_current });
    Additions { table: copy, old: &[], now: &[], gone: &[], takes }.add(commit)
}

/// The segments that a transaction adds to a table.
struct Additions<'a> {
    table: &'a Table,
    /// The segments of the base.
    old: &'a [SegmentEntry],
    /// The segments of the newest state.
    now: &'a [SegmentEntry],
    /// Segments that the commit removes.
    gone: &'a [u64],
    takes: Takes<'a>,
}

impl Additions<'_> {
    fn add(&self, commit: &mut Commit) -> Result<()> {
        let table = self.table;
        // The run to which the last rows were added, and the number of its rows since.
        let mut last: Option<(u64, u32)> = None;
        // Whether segments were added behind all runs.
        let mut is_behind = false;
        for entry in table.segments.iter().filter(|entry| !self.old.iter().any(|old| old.id == entry.id)) {
            let Some((hot, _)) = entry.hot.as_ref().zip(self.takes) else {
                commit.add_entry(table, entry);
                is_behind = true;
                if let Some(deleted) = &entry.deleted {
                    commit.delete_rows(table.id, entry.id, deleted);
                }
                continue;
            };
            let live = live_hot_rows(entry, hot)?;
            if live.rows() == 0 {
                continue;
            }
            match self.run_for(&live, last).filter(|_| !is_behind) {
                Some((run, from)) => {
                    commit.append_rows(table.id, run, from, &live, None);
                    last = Some((run, from + live.rows()));
                }
                None => {
                    commit.add_entry(table, &SegmentEntry::of_hot(entry.id, live));
                    is_behind = true;
                }
            }
        }
        Ok(())
    }

    /// The run that takes hot rows, and the number of its rows: the last segment of the table, so that rows stay in the order
    /// in which they came. `last` is that of the rows before.
    fn run_for(&self, live: &HotRows, last: Option<(u64, u32)>) -> Option<(u64, u32)> {
        let takes = self.takes.filter(|_| self.table.design.medium != MediumKind::Pmem)?;
        let entry = self.now.iter().rfind(|entry| !self.gone.contains(&entry.id)).filter(|entry| takes(entry.id))?;
        let hot = entry.hot.as_ref()?;
        let from = last.filter(|(run, _)| *run == entry.id).map_or(hot.rows(), |(_, rows)| rows);
        hot.takes(from, live).then_some((entry.id, from))
    }
}

/// The hot rows of a segment that are not deleted.
fn live_hot_rows(entry: &SegmentEntry, hot: &Arc<HotRows>) -> Result<Arc<HotRows>> {
    if entry.deleted.is_none() {
        return Ok(hot.clone());
    }
    let damaged = |reason| StoreError::Corrupt { file: "hot rows".into(), reason };
    let order: Vec<u32> = live_rows(entry).iter().collect();
    let columns: Vec<_> = hot.values().map_err(damaged)?.iter().map(|column| column.permute(&order)).collect();
    HotRows::of(hot.schema(), &columns).map(Arc::new)
}

/// A table of the base with its copies.
struct Group<'a> {
    states: &'a States<'a>,
    table: &'a Arc<Table>,
    old: &'a Arc<Table>,
    copies: Vec<&'a Arc<Table>>,
    places: Places<'a>,
    takes: Takes<'a>,
}

impl Group<'_> {
    fn change(&self, commit: &mut Commit) -> Result<()> {
        let copies_are_same = self.copies.iter().all(|copy| self.same_as_base(copy));
        if Arc::ptr_eq(self.table, self.old) && copies_are_same {
            return Ok(());
        }
        let (table, old) = (self.table, self.old);
        if copies_are_same && views::differ_in_currency_alone(table, old) {
            return Ok(());
        }
        let Some(now) = self.states.now.get(&table.id) else {
            return Err(conflict(format!("table {} was dropped", old.name)));
        };
        let uses = |table: &Table| table.uses != old.uses;
        if now.schema != old.schema || now.design != old.design || now.name != old.name || uses(table) && uses(now) {
            return Err(conflict(format!("table {} was altered", old.name)));
        }
        let changes_rows = table.changed != old.changed;
        if self.needs_same_rows(changes_rows) {
            self.check_unchanged(now)?;
        }
        if table.schema != old.schema {
            commit.push(Operation::SetSchema { table: table.id, schema: table.schema.clone() });
        }
        set_uses(table, &old.uses, commit);
        if table.design != old.design {
            commit.push(Operation::SetDesign { table: table.id, design: table.design.clone() });
        }
        let gone = self.remove_rows(now, commit)?;
        self.additions(table, old, now, &gone).add(commit)?;
        if changes_rows {
            commit.push(Operation::Changed { table: table.id });
        } else {
            self.check_copies()?;
        }
        self.copies.iter().try_for_each(|copy| self.change_copy(copy, changes_rows, commit))
    }

    /// The additions to a table or copy. `gone`: segments that the commit removes.
    fn additions<'b>(&'b self, table: &'b Table, old: &'b Table, now: &'b Table, gone: &'b [u64]) -> Additions<'b> {
        Additions { table, old: &old.segments, now: &now.segments, gone, takes: self.takes }
    }

    fn same_as_base(&self, copy: &Arc<Table>) -> bool {
        self.states.base.get(&copy.id).is_some_and(|old| Arc::ptr_eq(old, copy))
    }

    /// Whether the changes are valid only if the rows are those of the base, because the table or one of its copies was
    /// rewritten.
    fn needs_same_rows(&self, changes_rows: bool) -> bool {
        let was_current = |copy: &Table| self.states.base.get(&copy.id).is_some_and(|old| old.is_current());
        let rewritten = |copy: &&Arc<Table>| copy.is_current() && (changes_rows || !was_current(copy));
        self.table.design != self.old.design
            || self.table.schema != self.old.schema
            || self.copies.iter().any(rewritten)
    }

    fn check_unchanged(&self, now: &Table) -> Result<()> {
        let same = |a: &SegmentEntry, b: &SegmentEntry| {
            a.version() == b.version() && a.deleted.as_deref() == b.deleted.as_deref()
        };
        let equal =
            |a: &[SegmentEntry], b: &[SegmentEntry]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
        let of_table = |copy: &&&Arc<Table>| copy.copy_of.as_ref().is_some_and(|of| of.table == now.id);
        let mut copies = self.states.base.values().filter(of_table);
        let copy_is_same = |copy: &Arc<Table>| {
            let now = self.states.now.get(&copy.id);
            now.is_some_and(|now| equal(&copy.segments, &now.segments) && copy.design == now.design)
        };
        if !equal(&self.old.segments, &now.segments) || !copies.all(|copy| copy_is_same(copy)) {
            return Err(conflict(format!("rows of table {} were changed", self.old.name)));
        }
        Ok(())
    }

    /// Checks that added rows were added to every copy that has all rows.
    fn check_copies(&self) -> Result<()> {
        let of_table = |copy: &&&Arc<Table>| copy.copy_of.as_ref().is_some_and(|of| of.table == self.table.id);
        for copy in self.states.now.values().filter(of_table).filter(|copy| copy.is_current()) {
            if !self.states.base.get(&copy.id).is_some_and(|old| old.is_current()) {
                return Err(conflict(format!("copy {} of table {} was written", copy.name, self.old.name)));
            }
        }
        Ok(())
    }

    /// Deletes the rows that this transaction has deleted, at their current positions.
    /// Returns the segments without rows, which are removed.
    fn remove_rows(&self, now: &Table, commit: &mut Commit) -> Result<Vec<u64>> {
        let mine: HashMap<u64, &SegmentEntry> = self.table.segments.iter().map(|entry| (entry.id, entry)).collect();
        let mut removed = Rows::new();
        for old in &self.old.segments {
            let rows = match mine.get(&old.id) {
                Some(entry) => match (&entry.deleted, &old.deleted) {
                    (Some(after), Some(before)) if Arc::ptr_eq(after, before) => continue,
                    (Some(after), Some(before)) => after.as_ref() - before.as_ref(),
                    (Some(after), None) => after.as_ref().clone(),
                    (None, _) => continue,
                },
                None => live_rows(old),
            };
            if rows.is_empty() && mine.contains_key(&old.id) {
                continue;
            }
            let Some(found) = (self.places)(now, old.id, rows) else { return Err(self.row_conflict()) };
            for (segment, rows) in found {
                *removed.entry(segment).or_default() |= rows;
            }
        }
        let entries: BTreeMap<u64, &SegmentEntry> = now.segments.iter().map(|entry| (entry.id, entry)).collect();
        let mut gone = vec![];
        for (segment, rows) in removed {
            let Some(entry) = entries.get(&segment) else { return Err(self.row_conflict()) };
            if entry.deleted.as_ref().is_some_and(|deleted| !deleted.is_disjoint(&rows)) {
                return Err(self.row_conflict());
            }
            if rows.len() == entry.live_rows() {
                gone.push(segment);
            } else {
                commit.delete_rows(now.id, segment, &rows);
            }
        }
        if !gone.is_empty() {
            commit.push(Operation::RemoveSegments { table: now.id, segments: gone.clone() });
        }
        Ok(gone)
    }

    fn row_conflict(&self) -> StoreError {
        conflict(format!("a row of table {} was changed", self.old.name))
    }

    fn change_copy(&self, copy: &Table, changes_rows: bool, commit: &mut Commit) -> Result<()> {
        let Some(old) = self.states.base.get(&copy.id) else { return create_copy(copy, self.takes, commit) };
        // If it is not there, the table was dropped in the meantime.
        let Some(now) = self.states.now.get(&copy.id) else { return Ok(()) };
        if copy.design != old.design {
            commit.push(Operation::SetDesign { table: copy.id, design: copy.design.clone() });
        }
        let gone = |entry: &&SegmentEntry| !copy.segments.iter().any(|mine| mine.id == entry.id);
        let segments: Vec<u64> = old.segments.iter().filter(gone).map(|entry| entry.id).collect();
        if !segments.is_empty() {
            commit.push(Operation::RemoveSegments { table: copy.id, segments: segments.clone() });
        }
        self.additions(copy, old, now, &segments).add(commit)?;
        if copy.is_current() && (changes_rows || !old.is_current()) {
            commit.push(Operation::CopyIsCurrent { copy: copy.id });
        }
        Ok(())
    }
}

/// The rows of a segment that are not deleted.
pub fn live_rows(entry: &SegmentEntry) -> RoaringBitmap {
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..entry.rows);
    if let Some(deleted) = &entry.deleted {
        rows -= deleted.as_ref();
    }
    rows
}
