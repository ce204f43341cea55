//! Tables in persistent memory, as tables of the store. The database has one pool, a file in its folder. A table with
//! `medium = 'pmem'` has its rows there, in one or more tables of the pool: another one when its columns change. The log
//! names them. Rows for which the pool has no room are hot rows and segments in files, as those of other tables.
//!
//! A snapshot has the blocks of the pool as segments ([`Blocks`](crate::segment::Blocks)), which no log names. A commit that
//! changes one table of the pool, and nothing else, is durable without the log; others are prepared in the pool under the
//! sequence of the log's commit ([`commit`]). Other processes than the writer read the pool ([`reading`]).

pub mod commit;
mod emulation;
mod held;
mod processes;
mod reading;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use self::emulation::Emulation;
use self::held::Held;
pub(super) use self::processes::Kept;
use self::reading::Reading;
use super::commit::Operation;
use super::state::State;
use super::write::WriteTransaction;
use super::{Store, StoreOptions};
use crate::design::{Design, MediumKind};
use crate::error::{Result, StoreError};
use crate::media::region::{DelayedRegion, MapOptions, MappedRegion, MemoryRegion, Persistence, Region};
use crate::persistent::{PTable, Pool, PoolOptions};
use crate::table::{POOL_SEGMENTS, SegmentEntry, Table};

/// The name of the pool's file.
pub const POOL_FILE: &str = "pool.pmem";
/// Bytes of a block.
const UNIT_BYTES: u64 = 32 << 10;
/// The bytes with which a pool begins.
const FIRST_BYTES: u64 = 16 * UNIT_BYTES;
/// The pool is short of room when more than this share of it is used.
const SHORT: u64 = 15;
/// Then so much of it is to be used.
const ENOUGH: u64 = 14;
const SHARES: u64 = 16;
const HINT: &str = "open the database with --pmem emulated, which keeps its pool in an ordinary file: it survives the end \
                    of a process, but no power loss";

/// How a database uses persistent memory.
#[derive(Debug, Clone)]
pub struct PmemOptions {
    /// How an ordinary file is used where there is no persistent memory; `None`: not at all.
    pub emulated: Option<Emulation>,
    /// The most bytes of the pool.
    pub bytes: u64,
    /// The pool's memory, in place of a file in the database's folder.
    pub region: Option<Arc<dyn Region>>,
}

impl Default for PmemOptions {
    fn default() -> Self {
        PmemOptions { emulated: None, bytes: 4 << 30, region: None }
    }
}

/// The state of a database's pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolState {
    /// The file.
    pub place: String,
    /// What becomes of its bytes at the end of the process, and at a power loss.
    pub persistence: Persistence,
    /// Bytes of a unit, which is a block of rows.
    pub unit_bytes: u64,
    /// The number of units, and how many of them are free.
    pub units: (u64, u64),
    /// The most bytes that it may have.
    pub bytes_max: u64,
    /// The rows of each table in the pool, by its number, with the table of the database.
    pub tables: Vec<(u64, u64, u64)>,
    /// Damaged units, with the reason.
    pub damaged: Vec<(u64, String)>,
}

/// The pools of a store, as shown to users: one or none.
#[derive(Debug, Clone)]
pub struct PoolList(Arc<Pmem>);

impl PoolList {
    /// The pool, if this process has it open.
    pub fn state(&self) -> Option<PoolState> {
        self.0.pool_state()
    }
}

/// The pool of a store.
#[derive(Debug)]
pub(super) struct Pmem {
    options: PmemOptions,
    path: Option<PathBuf>,
    /// The permissions that a new file does not have.
    umask: u32,
    /// The next id of a table of the pool.
    next_id: Arc<AtomicU64>,
    /// The next id of a segment of the pool. It never decreases while the process lives, whether it writes the pool or reads it.
    segment_id: AtomicU64,
    state: Mutex<Attached>,
    /// How this process reads a pool that another may write.
    reading: Mutex<Option<Arc<Reading>>>,
    /// Whether it may do so: it does not try to write.
    may_read: AtomicBool,
}

#[derive(Debug, Default)]
struct Attached {
    pool: Option<Arc<Pool>>,
    /// Why there is none.
    failure: Option<Arc<str>>,
    /// By number in the pool.
    tables: BTreeMap<u64, Held>,
    /// Tables of the database that cannot be read, and why.
    broken: HashMap<u64, Arc<str>>,
    /// If this process writes the pool, what it tells others.
    others: Option<Others>,
}

/// What the process that writes a pool knows of those that read it.
#[derive(Debug)]
struct Others {
    writer: processes::Writer,
    /// By the number of the last of their snapshots that may have them: segments as they were then.
    kept: BTreeMap<u64, Vec<SegmentEntry>>,
    /// While there are snapshots up to this one, nothing is overwritten that was there when this process opened the pool.
    foreign: Option<u64>,
    /// The units that the change under way has touched.
    touched: Vec<u64>,
    /// When processes that have ended were looked for.
    looked: Instant,
}

/// Processes that have ended are looked for so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Pmem {
    pub(super) fn new(options: &StoreOptions, path: Option<PathBuf>, next_id: Arc<AtomicU64>) -> Pmem {
        Pmem {
            options: options.pmem.clone(),
            path,
            umask: options.disk.umask,
            next_id,
            segment_id: AtomicU64::new(POOL_SEGMENTS),
            state: Mutex::default(),
            reading: Mutex::default(),
            may_read: AtomicBool::new(options.read_only),
        }
    }

    /// Opens the pool that a state names, to write it. `last` is the last commit of the log. A failure is that of the tables
    /// in the pool; others can be used.
    pub(super) fn attach(&self, state: &State, last: u64) {
        let Some(id) = state.pool else { return };
        let mut attached = self.state.lock();
        let was_reading = self.reading.lock().take().is_some();
        if attached.pool.is_some() && !was_reading {
            return;
        }
        // What this process has read so far remains for its snapshots.
        *attached = Attached::default();
        match self.written(state, id, last) {
            Ok(opened) => *attached = opened,
            Err(error) => attached.failure = Some(error.to_string().into()),
        }
    }

    /// Whether an attempt to open the pool can succeed.
    fn may_open(&self) -> Result<()> {
        if self.options.region.is_some() { Ok(()) } else { self.region().map(drop) }
    }

    pub(super) fn refuse(&self, reason: &StoreError) {
        self.state.lock().failure = Some(reason.to_string().into());
    }

    /// The pool, to be written by this process.
    fn written(&self, state: &State, id: u128, last: u64) -> Result<Attached> {
        let region = self.region()?;
        let mut others = self.others()?;
        let pool = Arc::new(Pool::open(region, Some(id))?);
        check_commits(&pool, state)?;
        let foreign = others.as_ref().and_then(|others| others.foreign);
        if foreign.is_some() {
            pool.hold_back();
        }
        let mut attached = opened(pool, state, last, &self.segment_id);
        if foreign.is_some() {
            attached.tables.values().for_each(|held| held.table().hold_back());
        }
        let found = attached.pool.iter().flat_map(|pool| pool.tables_of_store());
        let last_id = found.map(|(of_pool, _)| of_pool).max().unwrap_or(0);
        self.next_id.fetch_max(last_id.max(attached.tables.keys().last().copied().unwrap_or(0)) + 1, Ordering::Relaxed);
        if let Some(others) = &mut others {
            others.writer.end(last, std::iter::empty());
        }
        attached.others = others;
        Ok(attached)
    }

    /// What this process knows of others that read the pool, which it begins to write.
    fn others(&self) -> Result<Option<Others>> {
        let (None, Some(path)) = (&self.options.region, &self.path) else { return Ok(None) };
        let writer = processes::Writer::open(path)?;
        let foreign = writer.oldest().map(|_| writer.last_snapshot());
        let (kept, touched, looked) = (BTreeMap::new(), vec![], Instant::now());
        Ok(Some(Others { writer, kept, foreign, touched, looked }))
    }

    /// The memory of the pool, which must exist.
    fn region(&self) -> Result<Arc<dyn Region>> {
        if let Some(region) = &self.options.region {
            return Ok(region.clone());
        }
        let path = self.path.as_ref().ok_or_else(|| StoreError::invalid("a database in memory keeps no pool"))?;
        self.mapped(path, false)
    }

    fn mapped(&self, path: &Path, creates: bool) -> Result<Arc<dyn Region>> {
        let options =
            MapOptions { reserve: self.options.bytes, emulated: self.options.emulated.is_some(), umask: self.umask };
        let region = match creates {
            true => MappedRegion::create(path, FIRST_BYTES, &options)?,
            false => MappedRegion::open(path, &options)?,
        };
        Ok(self.with_latencies(Arc::new(region)))
    }

    /// The same memory with the latencies that are emulated. Persistent memory has its own.
    fn with_latencies(&self, region: Arc<dyn Region>) -> Arc<dyn Region> {
        match &self.options.emulated {
            Some(latencies) if latencies.is_delayed() && region.persistence() != Persistence::Persistent => {
                Arc::new(DelayedRegion::new(region, latencies.read, latencies.write))
            }
            _ => region,
        }
    }

    /// The identity of the pool, which is made if the database, whose newest state knows `known`, has none yet.
    pub(super) fn ensure(&self, known: Option<u128>) -> Result<u128> {
        let mut attached = self.state.lock();
        if let Some(pool) = &attached.pool {
            return Ok(pool.database());
        }
        if let Some(reason) = &attached.failure {
            return Err(StoreError::invalid(format!("medium = 'pmem' cannot be used: {reason}")));
        }
        if known.is_some() {
            return Err(StoreError::invalid(format!("medium = 'pmem' cannot be used: {HINT}")));
        }
        let made = self.created().map_err(|error| {
            let hint = if self.options.emulated.is_some() { String::new() } else { format!("; {HINT}") };
            StoreError::invalid(format!("medium = 'pmem' cannot be used: {error}{hint}"))
        })?;
        let id = made.database();
        let others = self.others()?;
        if let Some(others) = &others {
            others.writer.end(0, std::iter::empty());
        }
        (attached.pool, attached.others) = (Some(Arc::new(made)), others);
        Ok(id)
    }

    fn created(&self) -> Result<Pool> {
        let options = PoolOptions { unit_bytes: UNIT_BYTES, database: crate::log::random_id() };
        if let Some(region) = &self.options.region {
            if region.is_empty() {
                region.grow(FIRST_BYTES)?;
            }
            return Pool::create(region.clone(), options);
        }
        let Some(path) = &self.path else {
            if self.options.emulated.is_none() {
                return Err(StoreError::invalid("a database in memory has no persistent memory"));
            }
            let region = MemoryRegion::new(FIRST_BYTES, self.options.bytes);
            return Pool::create(self.with_latencies(Arc::new(region)), options);
        };
        if path.exists() {
            // The database does not know it: one that a transaction made that did not commit has no tables.
            let pool = Pool::open(self.mapped(path, false)?, None)?;
            if pool.tables().is_empty() && pool.damaged().is_empty() {
                return Ok(pool);
            }
            let reason = "it has tables, but is not that of this database; move it elsewhere";
            return Err(StoreError::Corrupt { file: path.display().to_string(), reason: reason.into() });
        }
        Pool::create(self.mapped(path, true)?, options)
    }

    /// Puts the blocks of the pool into the tables of a state.
    pub(super) fn fill(&self, state: &mut State) {
        let attached = self.state.lock();
        for table in state.tables.values_mut() {
            let is_there = table.design.medium == MediumKind::Pmem || !table.pools.is_empty();
            if is_there || table.segments.iter().any(SegmentEntry::is_in_pool) {
                attached.fill(table, state.pool.is_some());
            }
        }
    }

    /// What users may know of the pool; `None` if there is none.
    pub fn pool_state(&self) -> Option<PoolState> {
        self.look_at_units();
        let attached = self.state.lock();
        let pool = attached.pool.as_ref()?;
        let tables = attached.tables.iter();
        Some(PoolState {
            place: pool.region().place(),
            persistence: pool.region().persistence(),
            unit_bytes: pool.unit_bytes(),
            units: pool.usage(),
            bytes_max: self.options.bytes,
            tables: tables.map(|(id, held)| (*id, held.table().of(), held.table().len())).collect(),
            damaged: pool.damaged(),
        })
    }

    /// Checks the tables of the pool that have rows of a table. Of a pool that another process writes, the blocks.
    pub(super) fn check(&self, table: &Table) -> Result<()> {
        let is_view = self.reading.lock().is_some();
        let tables: Vec<Arc<PTable>> = {
            let attached = self.state.lock();
            let of_table = table.pools.iter().filter_map(|of_pool| attached.tables.get(of_pool));
            of_table.map(|held| held.table().clone()).collect()
        };
        tables.iter().try_for_each(|table| if is_view { table.check_blocks() } else { table.check() })
    }

    /// The bytes that are to be moved to files, if the pool runs short.
    pub(super) fn excess(&self) -> Option<u64> {
        let mut attached = self.state.lock();
        // Otherwise the next change does it.
        let _ = attached.let_go();
        let pool = attached.pool.as_ref()?;
        let used = || {
            let (units, free) = pool.usage();
            (units - free) * pool.unit_bytes()
        };
        let share = |share: u64| self.options.bytes / SHARES * share;
        if used() <= share(SHORT) {
            return None;
        }
        // Blocks that only snapshots have will be free without that.
        let kept: u64 = attached.tables.values().map(|held| held.table().sweep() as u64).sum();
        let used = used().saturating_sub(kept * pool.unit_bytes());
        (used > share(SHORT)).then(|| used - share(ENOUGH))
    }

    /// The bytes for which the pool has room.
    pub(super) fn room(&self) -> u64 {
        let attached = self.state.lock();
        let Some(pool) = &attached.pool else { return 0 };
        let (units, free) = pool.usage();
        self.options.bytes.saturating_sub((units - free) * pool.unit_bytes())
    }
}

impl Attached {
    fn fill(&self, table: &mut Arc<Table>, has_pool: bool) {
        let reason = match (&self.pool, &self.failure, self.broken.get(&table.id)) {
            (_, _, Some(broken)) => Some(broken.clone()),
            (Some(_), ..) => None,
            (None, Some(failure), _) if has_pool => Some(failure.clone()),
            _ => Some(HINT.into()),
        };
        let held = || table.pools.iter().filter_map(|of_pool| self.tables.get(of_pool)).flat_map(Held::entries);
        let now = table.segments.iter().filter(|entry| entry.is_in_pool());
        let is_same = |(now, held): (&SegmentEntry, &SegmentEntry)| {
            let deleted = now.deleted.as_ref().zip(held.deleted.as_ref());
            now.version() == held.version() && deleted.is_some_and(|(now, held)| Arc::ptr_eq(now, held))
        };
        let same = held().count() == now.clone().count() && now.clone().zip(held()).all(is_same);
        if same && reason == table.unavailable {
            return;
        }
        // Segments that have not changed stay open, with the columns of the table. Those of other states may have others.
        let mut known: HashMap<u64, &SegmentEntry> = now.map(|entry| (entry.id, entry)).collect();
        let entry = |held: &SegmentEntry| match known.remove(&held.id).filter(|now| is_same((now, held))) {
            Some(now) => now.clone(),
            None => held.unopened(),
        };
        let entries: Vec<SegmentEntry> = held().map(entry).collect();
        let table = Arc::make_mut(table);
        table.unavailable = reason;
        table.segments.retain(|entry| !entry.is_in_pool());
        table.segments.extend(entries);
    }
}

/// A pool and its tables that a state names. Other tables have no commit, and are discarded.
fn opened(pool: Arc<Pool>, state: &State, last: u64, segment_id: &AtomicU64) -> Attached {
    let mut attached = Attached { pool: Some(pool.clone()), ..Attached::default() };
    let found = pool.tables_of_store();
    for table in state.tables.values() {
        for of_pool in &table.pools {
            let is_there = found.contains(&(*of_pool, table.id));
            let missing = || StoreError::invalid(format!("{} has no table {of_pool}", pool.region().place()));
            let opened = is_there.then(|| PTable::open_with(pool.clone(), *of_pool, &|commit| commit <= last));
            match opened.unwrap_or_else(|| Err(missing())) {
                Ok(opened) => drop(attached.tables.insert(*of_pool, Held::new(Arc::new(opened), segment_id))),
                Err(error) => drop(attached.broken.insert(table.id, error.to_string().into())),
            }
        }
    }
    let is_known = |of_pool: u64| state.tables.values().any(|table| table.pools.contains(&of_pool));
    for (of_pool, _) in found.iter().filter(|(of_pool, _)| !is_known(*of_pool)) {
        pool.discard(*of_pool);
    }
    attached
}

/// Refuses a pool that does not have all commits of a state: one that was copied earlier.
fn check_commits(pool: &Pool, state: &State) -> Result<()> {
    let (has, known) = (pool.last_commit()?, state.pool_commit);
    if has >= known {
        return Ok(());
    }
    let reason = format!(
        "it is older than the commit log: its last commit is {has}, and the log has commit {known} of it; put back the \
         pool that belongs to this log, or restore the whole database from a backup"
    );
    Err(StoreError::Corrupt { file: pool.region().place(), reason })
}

/// A pool in memory with the content of a file, which nobody changes while the process lives.
fn copied(path: &Path) -> Result<Arc<dyn Region>> {
    let failed = |action, error| crate::media::MediumError::io(action, path.display().to_string(), error);
    let file = std::fs::File::open(path).map_err(|error| failed("open", error))?;
    file.try_lock_shared().map_err(|error| match error {
        std::fs::TryLockError::Error(error) => failed("lock", error),
        std::fs::TryLockError::WouldBlock => {
            let reason = "another process has it open for writing; query these tables through that process";
            failed("lock", std::io::Error::new(std::io::ErrorKind::ResourceBusy, reason))
        }
    })?;
    let copy = contents(path);
    // The lock ends with the process.
    std::mem::forget(file);
    copy
}

/// A pool in memory with the content of a file.
fn contents(path: &Path) -> Result<Arc<dyn Region>> {
    let failed = |error| crate::media::MediumError::io("read", path.display().to_string(), error);
    let bytes = std::fs::read(path).map_err(failed)?;
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let copy = MemoryRegion::of_words(&words, bytes.len() as u64 + FIRST_BYTES);
    Ok(Arc::new(copy.copy_of(path.display().to_string())))
}

impl WriteTransaction {
    /// Refuses a medium that this process does not have. The database gets its pool with the first table that needs it.
    pub(super) fn check_medium(&mut self, design: &Design) -> Result<()> {
        if design.medium != MediumKind::Pmem {
            return Ok(());
        }
        self.store().refuse_shared("medium = 'pmem'")?;
        self.prepare_write()?;
        let known = self.state().pool;
        let id = self.store().pmem.ensure(known)?;
        if known == Some(id) { Ok(()) } else { self.perform(&Operation::set_pool(id)) }
    }
}

impl Store {
    /// Opens the pool, if the database has one. For that this process becomes the writer, since blocks change in place; if it
    /// cannot, it reads what another process writes.
    pub(super) fn attach_pool(&self) -> Result<()> {
        if self.options.read_only || self.newest()?.pool.is_none() {
            self.pmem.may_read.store(true, Ordering::Release);
            return Ok(());
        }
        let opened = self.pmem.may_open().and_then(|()| self.open_log());
        match opened {
            Err(error) if reading::is_taken(&error) => {
                self.pmem.may_read.store(true, Ordering::Release);
                self.snapshot()?;
            }
            Err(error) => {
                self.pmem.refuse(&error);
                self.show_pool();
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// The database's pool of persistent memory, if this process has it open.
    pub fn pool_state(&self) -> Option<PoolState> {
        self.pmem.pool_state()
    }

    /// A handle by which the state of the pool can be asked for. It does not keep the store open.
    pub fn pool_list(&self) -> PoolList {
        PoolList(self.pmem.clone())
    }
}
