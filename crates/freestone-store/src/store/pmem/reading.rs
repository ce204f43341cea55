//! Reading a pool that another process may write. A snapshot of such a process has, like one of the writer, for each block
//! the rows that there were; the list of [`processes`](super::processes) keeps the writer from overwriting them. Rows are
//! found by blocks only: the inner nodes of trees are in the writer's memory.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::super::state::State;
use super::super::{Reader, Store};
use super::held::Held;
use super::processes::{self, Kept, Seen};
use super::{Attached, Pmem, check_commits, contents, copied, opened};
use crate::error::{Result, StoreError};
use crate::log::LogError;
use crate::media::MediumError;
use crate::media::region::MappedRegion;
use crate::persistent::{PTable, Pool};
use crate::table::SegmentEntry;

/// Addresses for the pool of another process, which may be larger than this process would make one.
const RESERVED: u64 = 1 << 40;

/// How this process reads a pool.
#[derive(Debug)]
pub struct Reading {
    process: processes::Reader,
    looked: Mutex<Looked>,
}

/// What it has seen at the last time.
#[derive(Debug, Default)]
struct Looked {
    seen: Option<Seen>,
    /// The tables of the pool that the log names, each with its table of the database.
    tables: Vec<(u64, u64)>,
    region: Option<Arc<MappedRegion>>,
    /// Whether it reads a copy, since a crash has interrupted a change and nobody has finished it yet.
    is_copy: bool,
    /// Keeps the writer from overwriting this.
    kept: Weak<Kept>,
}

impl Pmem {
    fn reading(&self) -> Option<Arc<Reading>> {
        self.reading.lock().clone()
    }

    /// Begins to read a pool that another process may write. Returns whether it could.
    fn begin_reading(&self, state: &State) -> bool {
        let Some(path) = self.path.as_deref().filter(|_| self.may_read.load(Ordering::Acquire)) else { return false };
        {
            let attached = self.state.lock();
            if attached.pool.is_some() || attached.failure.is_some() {
                return false;
            }
        }
        match processes::Reader::open(path) {
            Ok(process) => {
                *self.reading.lock() = Some(Arc::new(Reading { process, looked: Mutex::default() }));
                true
            }
            // Where this process cannot write, or there is no space: the pool is as it is, if nobody has it open.
            Err(StoreError::Medium(error)) if error.is_read_only() || error.is_full() => {
                self.read_copy(path, state);
                false
            }
            Err(error) => {
                self.refuse(&error);
                false
            }
        }
    }

    /// Reads a copy of the pool, which this process locks, so that it stays as it is.
    fn read_copy(&self, path: &Path, state: &State) {
        let mut attached = self.state.lock();
        let pool = copied(path).and_then(|region| Pool::open(region, state.pool));
        match pool.and_then(|pool| check_commits(&pool, state).map(|()| pool)) {
            Ok(pool) => *attached = opened(Arc::new(pool), state, state.sequence, &self.segment_id),
            Err(error) => attached.failure = Some(error.to_string().into()),
        }
    }

    /// Looks what the pool has now, for a state after the commit `last` of the log. Returns whether anything has changed.
    fn look(&self, reading: &Reading, seen: &Seen, state: &State, last: u64) -> bool {
        let mut looked = reading.looked.lock();
        let of_table =
            |table: &Arc<crate::table::Table>| table.pools.iter().map(|of| (table.id, *of)).collect::<Vec<_>>();
        let tables: Vec<(u64, u64)> = state.tables.values().flat_map(of_table).collect();
        let same = |before: &Seen| match looked.is_copy {
            true => before == seen,
            false => (before.epoch, before.changes) == (seen.epoch, seen.changes),
        };
        if looked.seen.as_ref().is_some_and(same) && looked.tables == tables {
            return false;
        }
        let mut attached = self.state.lock();
        let found = self.look_at(&mut attached, &mut looked, reading, seen, (state, &tables, last));
        if let Err(error) = &found {
            *attached = Attached { failure: Some(error.to_string().into()), ..Attached::default() };
            looked.region = None;
        }
        looked.tables = tables;
        looked.seen = found.is_ok().then_some(*seen);
        true
    }

    fn look_at(
        &self,
        attached: &mut Attached,
        looked: &mut Looked,
        reading: &Reading,
        seen: &Seen,
        (state, tables, last): (&State, &[(u64, u64)], u64),
    ) -> Result<()> {
        let path = self.path.as_deref().ok_or_else(|| StoreError::invalid("a database in memory keeps no pool"))?;
        let before = looked.seen.filter(|before| before.epoch == seen.epoch && !looked.is_copy);
        let pool = match (&looked.region, &attached.pool, &before) {
            (Some(region), Some(pool), Some(_)) => {
                region.follow()?;
                if looked.tables == tables {
                    pool.follow()?
                } else {
                    pool.look_again()?
                }
                pool.clone()
            }
            _ => {
                let region = Arc::new(MappedRegion::read_only(path, RESERVED)?);
                let pool = Arc::new(Pool::view(region.clone(), state.pool.unwrap_or_default())?);
                check_commits(&pool, state)?;
                *attached = Attached { pool: Some(pool.clone()), ..Attached::default() };
                (looked.region, looked.is_copy) = (Some(region), false);
                pool
            }
        };
        attached.tables.retain(|of_pool, _| tables.iter().any(|(_, known)| known == of_pool));
        attached.broken.clear();
        for (table, of_pool) in tables {
            let found = match attached.tables.get_mut(of_pool) {
                Some(held) => {
                    let has_changed = |unit| before.is_none_or(|before| reading.process.has_changed(unit, &before));
                    let found = held.table().look_again(has_changed);
                    held.absorb(&self.segment_id);
                    found
                }
                None => match PTable::view(pool.clone(), *of_pool, &|commit| commit <= last) {
                    Ok(Some(found)) => {
                        attached.tables.insert(*of_pool, Held::new(Arc::new(found), &self.segment_id));
                        Ok(())
                    }
                    // The process that wrote was killed in a change that is committed.
                    Ok(None) => {
                        let region = contents(path)?;
                        let pool = Arc::new(Pool::open(region, state.pool)?);
                        check_commits(&pool, state)?;
                        *attached = opened(pool, state, last, &self.segment_id);
                        looked.is_copy = true;
                        return Ok(());
                    }
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = found {
                attached.tables.remove(of_pool);
                attached.broken.insert(*table, error.to_string().into());
            }
        }
        Ok(())
    }

    /// Counts the units of a pool that another process may write. A failure leaves the last count.
    pub(super) fn look_at_units(&self) {
        let pool = self.state.lock().pool.clone();
        if let (Some(reading), Some(pool)) = (self.reading(), pool) {
            let _ = reading.process.between_changes(|_| pool.look_again());
        }
    }

    /// Takes the rows in the pool out of a state that is not the newest: what they were then is not known.
    fn forget_rows(&self, state: &mut State) {
        for table in state.tables.values_mut().filter(|table| !table.pools.is_empty()) {
            let table = Arc::make_mut(table);
            table.segments.retain(|entry: &SegmentEntry| !entry.is_in_pool());
            table.unavailable = Some("only the process that wrote it knows what it was in an earlier version".into());
        }
    }
}

impl Store {
    /// Reads the commits of other processes, if there can be any. The result keeps what the pool has then.
    pub(in crate::store) fn catch_up(&self, reader: &mut Reader) -> Result<Option<Arc<Kept>>> {
        if self.is_current.load(Ordering::Acquire) {
            return Ok(None);
        }
        if self.pmem.reading().is_none() {
            self.refresh(reader)?;
            if reader.state.pool.is_none() {
                return Ok(None);
            }
            if !self.pmem.begin_reading(&reader.state) {
                let state = State::clone(&reader.state);
                self.publish(reader, state);
                return Ok(None);
            }
        }
        let Some(reading) = self.pmem.reading() else { return Ok(None) };
        reading.process.between_changes(|seen| self.catch_up_between(reader, &reading, &seen).map(Some))
    }

    fn catch_up_between(&self, reader: &mut Reader, reading: &Reading, seen: &Seen) -> Result<Arc<Kept>> {
        let newer = self.read_log(reader, |state| self.pmem.forget_rows(state))?;
        let last = reader.log.as_ref().map_or(0, |log| log.last_sequence());
        let has_changed = self.pmem.look(reading, seen, newer.as_ref().unwrap_or(&reader.state), last);
        let is_newer = has_changed || newer.is_some();
        let kept = reading.looked.lock().kept.upgrade().filter(|_| !has_changed);
        let kept = kept.unwrap_or_else(|| Arc::new(reading.process.keep()));
        reading.looked.lock().kept = Arc::downgrade(&kept);
        if is_newer {
            let mut state = newer.unwrap_or_else(|| State::clone(&reader.state));
            // Commits of the pool alone are counted by the log later.
            state.sequence = state.sequence.max(seen.sequence);
            self.publish(reader, state);
            self.note_newest(reader, Some(kept.clone()))?;
        }
        Ok(kept)
    }
}

/// Whether another process has what this one wants to write.
pub fn is_taken(error: &StoreError) -> bool {
    match error {
        StoreError::Log(LogError::Busy { .. }) => true,
        StoreError::Medium(MediumError::Io { source, .. }) => source.kind() == std::io::ErrorKind::ResourceBusy,
        _ => false,
    }
}
