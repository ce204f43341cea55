//! Commits of rows in persistent memory. The leader of a group calls this with the state before and after the group: their
//! difference is what changes in the pool. What goes there, the log does not get.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::super::commit::{Commit, Operation};
use super::super::locks::{RowNumber, Transactions};
use super::super::rebase::live_rows;
use super::super::state::State;
use super::held::Held;
use super::{Attached, LOOK_INTERVAL, Pmem};
use crate::cluster::BitOrder;
use crate::design::MediumKind;
use crate::error::{Result, StoreError};
use crate::log::{LogError, LogWriter, Outcome};
use crate::persistent::{Dimension, PTable, PTableOptions, Place, Pool, Transaction, TreeOptions, sampled_bins};
use crate::segment::HotRows;
use crate::table::{SegmentEntry, Table};

/// Bits of a clustering dimension whose design does not say how many.
const DIMENSION_BITS: u32 = 8;
/// A table of the pool of which a commit removes all rows is dropped at once if they are at least this many.
const DROPPED_ROWS: u64 = 4096;

/// What a commit changes in the pool.
#[derive(Default)]
struct Changes {
    /// Rows that go, by table of the pool.
    deleted: BTreeMap<u64, Vec<Place>>,
    /// Runs of hot rows that come, with their table.
    added: Vec<(u64, SegmentEntry)>,
    /// Tables of the pool that go.
    dropped: Vec<u64>,
    /// All segments in the pool that the states have.
    segments: HashSet<u64>,
}

impl Changes {
    fn between(before: &State, after: &State) -> Changes {
        let mut changes = Changes::default();
        for old in before.tables.values().filter(|table| table.segments.iter().any(SegmentEntry::is_in_pool)) {
            let new = after.tables.values().find(|table| table.id == old.id);
            changes.removed(old, new.map(Arc::as_ref));
        }
        for new in after.tables.values().filter(|table| table.design.medium == MediumKind::Pmem) {
            let old = before.table_by_id(new.id).ok();
            let is_new = |entry: &&SegmentEntry| {
                entry.is_hot() && !old.is_some_and(|old| old.segments.iter().any(|known| known.id == entry.id))
            };
            changes.added.extend(new.segments.iter().filter(is_new).map(|entry| (new.id, entry.clone())));
        }
        changes
    }

    fn removed(&mut self, old: &Table, new: Option<&Table>) {
        let mut removed: BTreeMap<u64, (Vec<Place>, u64)> = BTreeMap::new();
        for entry in &old.segments {
            let Some(blocks) = &entry.blocks else { continue };
            self.segments.insert(entry.id);
            let now = new.and_then(|new| new.segments.iter().find(|now| now.id == entry.id));
            let rows = match (now.and_then(|now| now.deleted.as_ref()), &entry.deleted) {
                (Some(after), Some(before)) if Arc::ptr_eq(after, before) => Default::default(),
                (Some(after), Some(before)) => after.as_ref() - before.as_ref(),
                _ => live_rows(entry),
            };
            let (places, left) = removed.entry(blocks.shared().table().id()).or_default();
            places.extend(rows.iter().filter_map(|row| blocks.place(row)));
            *left += entry.live_rows() - rows.len();
        }
        for of_pool in &old.pools {
            let (places, left) = removed.remove(of_pool).unwrap_or_default();
            let is_altered = new.is_none_or(|new| {
                new.design.medium != MediumKind::Pmem
                    || new.design != old.design
                    || !new.schema.is_schema_of(&old.schema)
            });
            if left == 0 && (is_altered || places.len() as u64 >= DROPPED_ROWS) {
                self.dropped.push(*of_pool);
            } else if !places.is_empty() {
                self.deleted.insert(*of_pool, places);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.added.is_empty() && self.dropped.is_empty()
    }

    /// Takes out of a commit what the pool gets: changes of its segments, and the runs of hot rows in `taken`.
    fn strip(&self, commit: &mut Commit, taken: &HashSet<u64>) {
        let mut attachments = std::mem::take(&mut commit.attachments);
        commit.operations.retain_mut(|operation| match operation {
            Operation::AppendRows { run, attachment, .. } if taken.contains(run) => {
                attachments[*attachment] = Arc::default();
                false
            }
            Operation::DeleteRows { segment, attachment, .. } if self.segments.contains(segment) => {
                attachments[*attachment] = Arc::default();
                false
            }
            Operation::RemoveSegments { segments, .. } => {
                segments.retain(|segment| !self.segments.contains(segment));
                !segments.is_empty()
            }
            _ => true,
        });
        commit.attachments = attachments;
    }
}

/// What a commit is about.
pub struct Work<'a> {
    pub before: &'a State,
    pub after: &'a mut State,
    pub commit: &'a mut Commit,
    /// Whether the commit must be durable.
    pub syncs: bool,
    pub transactions: &'a Transactions,
}

impl Pmem {
    /// Commits what a group has changed, in the pool and in the log, and returns the sequence.
    pub fn commit(&self, log: &mut LogWriter, work: &mut Work<'_>) -> Result<u64> {
        let changes = Changes::between(work.before, work.after);
        if changes.is_empty() {
            changes.strip(work.commit, &HashSet::new());
            return append(log, work);
        }
        let mut attached = self.state.lock();
        attached.pool.iter().try_for_each(|pool| pool.region().check_place())?;
        attached.begin_change()?;
        let committed = self.change(&mut attached, log, work, &changes);
        attached.end_change(log.last_sequence());
        committed
    }

    fn change(
        &self,
        attached: &mut Attached,
        log: &mut LogWriter,
        work: &mut Work<'_>,
        changes: &Changes,
    ) -> Result<u64> {
        let (rows, mut runs) = attached.targets(self, changes, work.after)?;
        let created: Vec<u64> = rows.keys().filter(|id| !is_named(work.before, **id)).copied().collect();
        let tables: Vec<Arc<PTable>> = {
            let ids: HashSet<u64> = rows.keys().chain(changes.deleted.keys()).copied().collect();
            ids.iter().filter_map(|id| attached.tables.get(id)).map(|held| held.table().clone()).collect()
        };
        let unstripped = work.commit.clone();
        let with_rows = stage(&tables, &changes.deleted, &rows).and_then(|staged| {
            changes.strip(work.commit, &runs);
            attached.name_pools(work, changes, &created);
            finish(staged, attached.pool.as_deref(), log, work)
        });
        let committed = match with_rows {
            Err(error) if !runs.is_empty() && is_for_lack_of_room(&error) => {
                // The rows stay in memory and in the log.
                runs.clear();
                *work.commit = unstripped;
                work.after
                    .tables
                    .values_mut()
                    .filter(|table| table.pools.iter().any(|id| created.contains(id)))
                    .for_each(|table| Arc::make_mut(table).pools.retain(|id| !created.contains(id)));
                stage(&tables, &changes.deleted, &BTreeMap::new()).and_then(|staged| {
                    changes.strip(work.commit, &runs);
                    attached.name_pools(work, changes, &[]);
                    finish(staged, attached.pool.as_deref(), log, work)
                })
            }
            other => other,
        };
        // Also after an error: blocks may have been divided.
        let involved: Vec<u64> = tables.iter().map(|table| table.id()).collect();
        let moves = attached.absorb(self, &involved);
        let sequence = committed.as_ref().copied().unwrap_or(log.last_sequence());
        work.transactions.rows_moved(sequence, &moves);
        if runs.is_empty() {
            attached.drop_tables(&created);
        }
        if committed.is_ok() {
            attached.drop_tables(&changes.dropped);
            for table in work.after.tables.values_mut() {
                if table.segments.iter().any(|entry| runs.contains(&entry.id)) {
                    Arc::make_mut(table).segments.retain(|entry| !runs.contains(&entry.id));
                }
            }
        }
        committed
    }

    /// Commits what was prepared under a commit that the log has, and takes back what was prepared under another.
    pub fn settle(&self, last: u64) -> Result<()> {
        let mut attached = self.state.lock();
        attached.begin_change()?;
        let tables: Vec<Arc<PTable>> = attached.tables.values().map(|held| held.table().clone()).collect();
        let settle = |table: &Arc<PTable>| match table.waits_for() {
            Some(sequence) => table.settle(sequence <= last),
            None => Ok(()),
        };
        let settled = tables.iter().try_for_each(settle);
        let ids: Vec<u64> = attached.tables.keys().copied().collect();
        attached.absorb(self, &ids);
        attached.end_change(last);
        settled
    }
}

/// Whether the pool has no room for rows, or for what their commit needs. Nothing has changed then.
fn is_for_lack_of_room(error: &StoreError) -> bool {
    !matches!(error, StoreError::Corrupt { .. } | StoreError::Log(_))
}

fn is_named(state: &State, of_pool: u64) -> bool {
    state.tables.values().any(|table| table.pools.contains(&of_pool))
}

/// Writes changes to tables of the pool, where nobody sees them yet.
fn stage<'a>(
    tables: &'a [Arc<PTable>],
    deleted: &BTreeMap<u64, Vec<Place>>,
    rows: &BTreeMap<u64, Vec<Arc<HotRows>>>,
) -> Result<Vec<(&'a PTable, Transaction<'a>)>> {
    let damaged = |reason| StoreError::Corrupt { file: "hot rows".into(), reason };
    let mut staged = vec![];
    for table in tables {
        let mut transaction = table.begin();
        // An attempt before this may have divided blocks.
        let moves = transaction.moves();
        for place in deleted.get(&table.id()).into_iter().flatten() {
            let mut at = *place;
            while let Some(next) = moves.get(&at) {
                at = *next;
            }
            transaction.delete(at)?;
        }
        for run in rows.get(&table.id()).into_iter().flatten() {
            let columns = run.values().map_err(damaged)?;
            (0..run.rows() as usize).try_for_each(|row| transaction.insert(&columns, row))?;
        }
        staged.push((table.as_ref(), transaction));
    }
    staged.retain(|(_, transaction)| !transaction.is_empty());
    Ok(staged)
}

/// Commits what is staged, with the log's part if there is any.
fn finish(
    mut staged: Vec<(&PTable, Transaction<'_>)>,
    pool: Option<&Pool>,
    log: &mut LogWriter,
    work: &mut Work<'_>,
) -> Result<u64> {
    let sequence = log.last_sequence() + 1;
    let note_commit = |work: &mut Work<'_>| {
        pool.iter().for_each(|pool| pool.note_commit(sequence));
        work.commit.push(Operation::PoolCommit { sequence });
        work.after.pool_commit = sequence;
    };
    let is_of_pool = |operation: &Operation| match operation {
        Operation::LastId { .. } => true,
        // It says that copies are not current.
        Operation::Changed { table } => work.after.copies_of(*table).next().is_none(),
        _ => false,
    };
    let is_alone = work.commit.operations.iter().all(is_of_pool);
    if staged.len() == 1 && is_alone && !log.owes_sync() {
        let (_, transaction) = staged.remove(0);
        transaction.commit()?;
        // The log only counts the commit. Nobody waits for that.
        work.commit.operations.retain(|operation| matches!(operation, Operation::LastId { .. }));
        note_commit(work);
        return Ok(log.append_marker(&work.commit.to_bytes())?);
    }
    work.syncs |= !staged.is_empty();
    let mut prepared: Vec<&PTable> = vec![];
    let mut failure = None;
    for (table, transaction) in staged {
        match transaction.prepare(sequence) {
            Ok(()) => prepared.push(table),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        prepared.iter().try_for_each(|table| table.settle(false))?;
        return Err(error);
    }
    if !prepared.is_empty() {
        note_commit(work);
    }
    let appended = append(log, work);
    match &appended {
        Ok(_) => prepared.iter().try_for_each(|table| table.settle(true))?,
        Err(StoreError::Log(LogError::CommitFailed { outcome: Outcome::TakenBack, .. })) => {
            prepared.iter().try_for_each(|table| table.settle(false))?;
        }
        // Opening the log again decides it.
        Err(_) => {}
    }
    appended
}

fn append(log: &mut LogWriter, work: &Work<'_>) -> Result<u64> {
    let body = work.commit.to_bytes();
    Ok(if work.syncs { log.append(&body)? } else { log.append_unsynced(&body)? })
}

/// For each table of the pool the runs of hot rows that it gets, and the ids of these runs.
type Targets = (BTreeMap<u64, Vec<Arc<HotRows>>>, HashSet<u64>);

impl Attached {
    /// The tables of the pool that get the added rows. They are made if there are none with the table's columns.
    fn targets(&mut self, pmem: &Pmem, changes: &Changes, after: &State) -> Result<Targets> {
        let (mut rows, mut runs) = (BTreeMap::<u64, Vec<Arc<HotRows>>>::new(), HashSet::new());
        for (id, entry) in &changes.added {
            let table = after.table_by_id(*id).map_err(StoreError::Invalid)?;
            let Some(hot) = entry.hot.clone().filter(|_| entry.deleted.is_none()) else { continue };
            let fits = |held: &Held| held.table().schema().is_schema_of(hot.schema()) && has_dimensions(held, table);
            let mut own = table.pools.iter().chain(rows.keys()).filter(|of_pool| !changes.dropped.contains(of_pool));
            let found =
                own.find(|of_pool| self.tables.get(of_pool).is_some_and(|held| held.table().of() == *id && fits(held)));
            let target = match found.copied() {
                Some(target) => target,
                None => match self.create(pmem, table, &hot) {
                    Ok(target) => target,
                    Err(error @ StoreError::Corrupt { .. }) => return Err(error),
                    // The pool is full, or its blocks are too small for so many columns.
                    Err(_) => continue,
                },
            };
            rows.entry(target).or_default().push(hot);
            runs.insert(entry.id);
        }
        Ok((rows, runs))
    }

    fn create(&mut self, pmem: &Pmem, table: &Table, hot: &HotRows) -> Result<u64> {
        let pool = self.pool.clone().ok_or_else(|| StoreError::invalid("there is no pool"))?;
        let id = pmem.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let schema = hot.schema().clone();
        let key = match schema.primary_key.is_empty() {
            true => schema.unique_keys.first().map(|key| key.columns.clone()).unwrap_or_default(),
            false => schema.primary_key.clone(),
        };
        let damaged = |reason| StoreError::Corrupt { file: "hot rows".into(), reason };
        let sample = hot.values().map_err(damaged)?;
        let dimension = |(column, bits): (usize, Option<u32>)| Dimension {
            column,
            bins: sampled_bins(&sample[column], bits.unwrap_or(DIMENSION_BITS)),
        };
        let clusters = own_dimensions(table).into_iter().map(dimension).collect();
        let node_bytes = TreeOptions::default().node_bytes;
        let options = PTableOptions { schema, key, clusters, order: own_order(table), node_bytes };
        let made = PTable::create_for(pool.clone(), id, table.id, &options).inspect_err(|_| pool.release_owner(id))?;
        self.tables.insert(id, Held::new(Arc::new(made), &pmem.segment_id));
        Ok(id)
    }

    /// Names new tables of the pool in the log, and forgets those that go.
    fn name_pools(&self, work: &mut Work<'_>, changes: &Changes, created: &[u64]) {
        for table in work.after.tables.values_mut() {
            let kept = table.pools.iter().filter(|id| !changes.dropped.contains(id)).copied();
            let is_own = |id: &u64| self.tables.get(id).is_some_and(|held| held.table().of() == table.id);
            let pools: Vec<u64> = kept.chain(created.iter().filter(|id| is_own(id)).copied()).collect();
            if pools != table.pools {
                work.commit.push(Operation::SetPools { table: table.id, pools: pools.clone() });
                Arc::make_mut(table).pools = pools;
            }
        }
    }

    fn absorb(&mut self, pmem: &Pmem, tables: &[u64]) -> Vec<(RowNumber, RowNumber)> {
        let held = self.tables.iter_mut().filter(|(id, _)| tables.contains(id)).map(|(_, held)| held);
        let mut moves = vec![];
        for held in held {
            let absorbed = held.absorb(&pmem.segment_id);
            moves.extend(absorbed.moves);
            self.others.iter_mut().for_each(|others| others.touched.extend(&absorbed.units));
        }
        moves
    }

    /// Begins a change of the pool, as soon as no other process takes a snapshot, and keeps what those have that were taken
    /// since the last change.
    fn begin_change(&mut self) -> Result<()> {
        let Some(others) = &mut self.others else { return Ok(()) };
        if let Some(number) = others.writer.begin()? {
            others.kept.insert(number, self.tables.values().flat_map(Held::entries).cloned().collect());
        }
        self.let_go()
    }

    /// Forgets what snapshots of other processes had that have ended.
    pub(super) fn let_go(&mut self) -> Result<()> {
        let Some(others) = &mut self.others else { return Ok(()) };
        if others.kept.is_empty() && others.foreign.is_none() {
            return Ok(());
        }
        if others.looked.elapsed() > LOOK_INTERVAL {
            others.writer.forget_ended()?;
            others.looked = std::time::Instant::now();
        }
        let oldest = others.writer.oldest();
        others.kept.retain(|number, _| oldest.is_some_and(|oldest| *number >= oldest));
        if others.foreign.is_some_and(|until| oldest.is_none_or(|oldest| oldest > until)) {
            others.foreign = None;
            self.pool.iter().for_each(|pool| pool.let_go());
            self.tables.values().for_each(|held| held.table().let_go());
        }
        Ok(())
    }

    fn end_change(&mut self, sequence: u64) {
        if let Some(others) = &mut self.others {
            others.writer.end(sequence, others.touched.drain(..));
        }
    }

    fn drop_tables(&mut self, tables: &[u64]) {
        for id in tables {
            if let Some(held) = self.tables.remove(id) {
                held.table().discard();
            }
        }
    }
}

/// The columns of a table by which its rows in the pool are clustered, with their bits. Paths to other tables order only
/// segments in files.
fn own_dimensions(table: &Table) -> Vec<(usize, Option<u32>)> {
    let own = table.design.cluster.iter().filter(|path| path.names.len() == 1);
    own.filter_map(|path| Some((table.schema.index_of(&path.names[0]).ok()?, path.bits))).collect()
}

/// The order of the bits of these dimensions.
fn own_order(table: &Table) -> BitOrder {
    let cluster = &table.design.cluster;
    let is_own = |at: &usize| cluster[*at].names.len() == 1 && table.schema.index_of(&cluster[*at].names[0]).is_ok();
    table.design.interleave.of_dimensions(&(0..cluster.len()).filter(is_own).collect::<Vec<_>>())
}

fn has_dimensions(held: &Held, table: &Table) -> bool {
    let wanted = own_dimensions(table);
    let schema = held.table().schema();
    let dimensions = held.table().dimensions();
    let name = |column: usize| &schema.columns[column].name;
    *held.table().bit_order() == own_order(table)
        && dimensions.len() == wanted.len()
        && dimensions
            .iter()
            .zip(&wanted)
            .all(|(has, (column, _))| *name(has.column) == table.schema.columns[*column].name)
}
