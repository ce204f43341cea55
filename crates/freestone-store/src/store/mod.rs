//! A store: one database folder, its snapshots for readers and its transactions for the writer.

mod alter;
mod appender;
mod backup;
mod check;
mod commit;
mod earlier;
mod evict;
mod files;
mod group;
mod history;
mod hot;
mod key_locks;
mod keys;
mod locks;
mod merge;
mod objects;
mod pmem;
mod rebase;
mod repair;
mod runs;
mod shared;
mod state;
mod upgrade;
mod vacant;
mod vacuum;
mod views;
mod write;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use alter::ColumnUse;
use appender::AppendContext;
pub use appender::{Appended, Appender};
pub use backup::BackupReport;
pub use check::CheckReport;
pub use keys::is_comparable;
pub use locks::{Mode as LockMode, OpenTransaction, Waiting};
pub use objects::{
    Comments, Definition, GeneratedColumn, Kind as ObjectKind, MaterializedView, Object, Position, Sequence,
};
pub use pmem::{Emulation, PmemOptions, PoolList, PoolState};
pub use repair::Repaired;
pub use shared::{RETENTION, SegmentAppender, SegmentNumbers, SegmentTarget, WrittenSegment};
pub use state::User;
pub use upgrade::Uses;
pub use vacuum::VacuumReport;
pub use write::{Savepoint, WriteTransaction};

use self::commit::Commit;
use self::files::NewFiles;
use self::group::CommitQueue;
use self::history::History;
pub use self::locks::TransactionList;
use self::locks::Transactions;
use self::pmem::{Kept, Pmem};
use self::shared::Keeper;
use self::state::State;
use self::vacant::check_vacant;
use crate::cache::CacheCounters;
use crate::error::{Result, StoreError};
use crate::log::shared::{Moment, SharedLog};
use crate::log::{LOCK, Log, LogError, LogReader, LogWriter, Pin, ReaderPins, Record, Refresh, random_id};
use crate::media::block_cache::BlockCache;
use crate::media::{Disk, DiskOptions, Identity, Medium, MediumError, Memory};
use crate::table::{Resources, Table};

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether changes are refused.
    pub read_only: bool,
    /// The number of encoding threads.
    pub threads: usize,
    /// The maximum bytes of the page cache.
    pub cache_bytes: usize,
    /// The maximum memory of a write in bytes: collected rows, rows being sorted, encoded segments. With little memory,
    /// segments are smaller, and more rows to be sorted go through temporary files.
    pub write_bytes: usize,
    /// How to read the disk.
    pub disk: DiskOptions,
    /// How to use persistent memory.
    pub pmem: PmemOptions,
    /// Keeps pages of a database in a bucket on a disk of this machine.
    pub block_cache: Option<Arc<BlockCache>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            read_only: false,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            cache_bytes: 2 << 30,
            write_bytes: 5 << 30,
            disk: DiskOptions::default(),
            pmem: PmemOptions::default(),
            block_cache: None,
        }
    }
}

/// One database folder. Clones are handles on the same store.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl std::ops::Deref for Store {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

/// The state that the handles of a store share.
#[derive(Debug)]
pub struct Inner {
    resources: Arc<Resources>,
    options: StoreOptions,
    reader: Mutex<Reader>,
    /// The writer's side of the log, from the first write transaction on: one writer process at a time.
    writer: Arc<Mutex<Option<LogWriter>>>,
    /// Whether this process is the writer and its readers have seen all its commits. Then there is nothing to read in the
    /// log, and snapshots and pins are matters of memory alone.
    is_current: AtomicBool,
    /// The next id of a segment or table. It never decreases, not even when transactions are rolled back, because
    /// caches identify segments by their ids.
    next_id: Arc<AtomicU64>,
    /// Locked by everything that rewrites segments in the background or removes files that no commit names.
    maintenance: Mutex<()>,
    /// Whether a thread will soon sync the log.
    is_syncing: Arc<AtomicBool>,
    /// The segments of the last merge that failed, because it would fail again.
    refused: Mutex<Vec<u64>>,
    /// Runs of hot rows that take no more rows, because they are being merged or were.
    ended_runs: Mutex<HashSet<u64>>,
    transactions: Arc<Transactions>,
    commits: CommitQueue,
    /// Stamps of changes by open transactions, which have no commit yet. A stamp is never reused, not even by another
    /// process, because segments contain it.
    stamps: AtomicU64,
    pins: ReaderPins,
    pmem: Arc<Pmem>,
    /// Earlier versions, if the user wants to go back to them.
    history: Arc<History>,
    /// The log, if other processes may write it at the same time. Then `writer` is always `None`.
    shared: Option<Arc<SharedLog>>,
    /// The last commit that was read from a shared log.
    foreign: AtomicU64,
    keeper: Mutex<Option<Keeper>>,
}

#[derive(Debug)]
struct Reader {
    /// `None` until a database is created.
    log: Option<LogReader>,
    state: Arc<State>,
    /// If this process is the writer: its lock, and when that was last looked for in the folder.
    lock: Option<(Identity, Instant)>,
}

/// A process that writes looks for its lock this often when it takes snapshots, and before every commit. Its snapshots are
/// in memory, so what has happened meanwhile takes nothing from them.
const LOCK_INTERVAL: Duration = Duration::from_millis(1);

/// The tables and other objects of one commit. Its files remain while it lives.
#[derive(Debug)]
pub struct Snapshot {
    state: Arc<State>,
    /// For a state with a transaction's changes: the snapshot on which the transaction is based.
    base: Option<Arc<Snapshot>>,
    /// The earlier versions; `None` for one of these.
    history: Option<Arc<History>>,
    _pin: Option<Pin>,
    /// Keeps what it has of a pool that another process may write.
    _kept: Option<Arc<Kept>>,
}

impl Snapshot {
    /// The commit of this snapshot.
    pub fn sequence(&self) -> u64 {
        self.state.sequence
    }

    /// A number that differs between snapshots of one process whose tables differ: the sequence, and a count of the states
    /// with the same sequence.
    pub fn edition(&self) -> (u64, u64) {
        (self.state.sequence, self.state.edition)
    }

    /// Whether it contains uncommitted changes, which only their transaction sees.
    pub fn has_own_changes(&self) -> bool {
        self.base.is_some()
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.state.tables.get(name)
    }

    /// A table by its id.
    pub fn table_by_id(&self, id: u64) -> Option<&Arc<Table>> {
        self.state.own_table(id)
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.state.tables.values()
    }

    /// The copies of a table, including those that are not current.
    pub fn copies(&self, table: &Table) -> impl Iterator<Item = &Arc<Table>> {
        self.state.copies_of(table.id)
    }

    /// An object by its kind and name.
    pub fn object(&self, kind: ObjectKind, name: &str) -> Option<&Arc<Object>> {
        self.state.objects.named(kind, name)
    }

    /// An object by its id.
    pub fn object_by_id(&self, id: u64) -> Option<&Arc<Object>> {
        self.state.objects.get(id)
    }

    /// The objects of a kind that has names, in the order of these.
    pub fn objects(&self, kind: ObjectKind) -> impl Iterator<Item = &Arc<Object>> {
        self.state.objects.of_kind(kind)
    }

    /// All objects, in the order of their ids.
    pub fn all_objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.state.objects.all()
    }

    /// The objects of a kind that belong to a table or object.
    pub fn owned(&self, owner: u64, kind: ObjectKind) -> impl Iterator<Item = &Arc<Object>> {
        self.state.objects.owned(owner, kind)
    }

    /// The columns of a table that are not stored.
    pub fn generated_columns(&self, table: u64) -> &[GeneratedColumn] {
        self.state.objects.generated_columns(table)
    }

    /// The ids of the tables that are materialized views.
    pub fn materialized_views(&self) -> &BTreeSet<u64> {
        self.state.objects.materialized_views()
    }

    /// What a table is as a materialized view, if it is one.
    pub fn materialized(&self, table: u64) -> Option<&Arc<Object>> {
        self.state.objects.materialized(table)
    }

    /// The ids of what some tables and views are, and of what they read over others.
    pub fn all_read(&self, some: &BTreeSet<u64>) -> BTreeSet<u64> {
        self.state.objects.all_read(some)
    }

    /// Whether a materialized view has the rows that its query gives over the tables of this snapshot.
    pub fn has_rows_of_its_query(&self, view: &Table) -> bool {
        self.state.has_rows_of_its_query(view)
    }

    /// A view by its name.
    pub fn view(&self, name: &str) -> Option<&Arc<Object>> {
        self.object(ObjectKind::View, name)
    }

    /// The id of a table or view.
    pub fn relation_id(&self, name: &str) -> Option<u64> {
        self.table(name).map(|table| table.id).or_else(|| self.view(name).map(|view| view.id))
    }

    /// The objects and tables that depend on one of these ids.
    pub fn users<'s>(&'s self, ids: &[u64]) -> impl Iterator<Item = User<'s>> {
        self.state.users(ids)
    }

    /// A table or object in a message: its kind and name.
    pub fn described(&self, id: u64) -> String {
        self.state.described(id)
    }
}

impl Store {
    /// Opens a database folder. Creates it unless `read_only` is set.
    ///
    /// # Errors
    /// The folder cannot be read or created, it has other files but no database, or the commit log is damaged.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store> {
        let disk = Disk::open(path, !options.read_only, options.disk.clone())?;
        let pool = disk.root().join(pmem::POOL_FILE);
        let disk: Arc<dyn Medium> = Arc::new(disk);
        if !options.read_only && !Log::exists(&disk)? {
            check_vacant(path)?;
        }
        Store::with_pool(disk, options, Some(pool))
    }

    /// A database in memory, which ends with the value.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn in_memory(options: StoreOptions) -> Result<Store> {
        Store::on_medium(Arc::new(Memory::new()), options)
    }

    /// Opens a database on any medium.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn on_medium(medium: Arc<dyn Medium>, options: StoreOptions) -> Result<Store> {
        Store::with_pool(medium, options, None)
    }

    /// `pool` is the path of the file of its persistent memory.
    fn with_pool(medium: Arc<dyn Medium>, options: StoreOptions, pool: Option<PathBuf>) -> Result<Store> {
        let log = match Log::open_reader(medium.clone()) {
            Ok(log) => Some(log),
            // Nothing exists, or a creation was interrupted and is repeated.
            Err(LogError::NoDatabase { .. }) if !options.read_only => None,
            Err(error) => return Err(error.into()),
        };
        let exists = log.is_some();
        let next_id: Arc<AtomicU64> = Arc::default();
        let pmem = Arc::new(Pmem::new(&options, pool, next_id.clone()));
        let store = Store::assembled(medium, options, log, (pmem, next_id), None)?;
        if !exists {
            // Create the database at once.
            store.open_log()?;
        }
        store.snapshot()?;
        store.attach_pool()?;
        Ok(store)
    }

    fn assembled(
        medium: Arc<dyn Medium>,
        options: StoreOptions,
        log: Option<LogReader>,
        (pmem, next_id): (Arc<Pmem>, Arc<AtomicU64>),
        shared: Option<Arc<SharedLog>>,
    ) -> Result<Store> {
        let pins = ReaderPins::register(medium.clone(), options.read_only).map_err(|error| match error {
            error if error.is_read_only() => {
                let place = medium.place();
                StoreError::ReadOnly(format!("{place} cannot be written ({error}); open it read-only"))
            }
            error => error.into(),
        })?;
        let resources = Arc::new(Resources::new(medium, options.cache_bytes));
        let reader = Mutex::new(Reader { log, state: Arc::default(), lock: None });
        // Whatever the clock says, no other process has the same.
        let first_stamp = OWN_CHANGES | (random_id() as u64) >> 2;
        let inner = Inner {
            resources,
            options,
            reader,
            writer: Arc::default(),
            is_current: AtomicBool::new(false),
            next_id,
            maintenance: Mutex::default(),
            is_syncing: Arc::default(),
            refused: Mutex::default(),
            ended_runs: Mutex::default(),
            transactions: Arc::default(),
            commits: CommitQueue::default(),
            stamps: AtomicU64::new(first_stamp),
            pins,
            pmem,
            history: Arc::default(),
            shared,
            foreign: AtomicU64::new(0),
            keeper: Mutex::default(),
        };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// The options with which the store was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// The counters of the page cache.
    pub fn cache_counters(&self) -> CacheCounters {
        self.resources.cache.counters()
    }

    /// The current snapshot.
    ///
    /// # Errors
    /// The log is damaged or cannot be read.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let asked = Moment::now();
        let mut reader = self.reader.lock();
        if let Err(error) = self.check_lock(&mut reader) {
            drop(reader);
            self.leave_log();
            return Err(error.into());
        }
        // Pin first, then read: files that are removed after the pin are not in a snapshot that is read after it.
        let pin = self.pins.pin(self.pinned_sequence(&reader))?;
        let kept = if self.has_looked_since(&asked) { None } else { self.catch_up(&mut reader)? };
        let history = Some(self.history.clone());
        Ok(Arc::new(Snapshot { state: reader.state.clone(), base: None, history, _pin: Some(pin), _kept: kept }))
    }

    /// If this process is the writer, checks from time to time that its lock is where it was.
    fn check_lock(&self, reader: &mut Reader) -> Result<(), MediumError> {
        let Some((lock, checked)) = reader.lock.as_mut().filter(|_| self.is_current.load(Ordering::Acquire)) else {
            return Ok(());
        };
        if checked.elapsed() >= LOCK_INTERVAL {
            self.resources.medium.check_file(LOCK, *lock)?;
            *checked = Instant::now();
        }
        Ok(())
    }

    /// Gives the log back, so that the next snapshot is read from the folder, and the next write opens the log again.
    fn leave_log(&self) {
        // A commit under way finds out for itself.
        let Some(mut log) = self.writer.try_lock() else { return };
        let mut reader = self.reader.lock();
        reader.lock = None;
        self.is_current.store(false, Ordering::Release);
        // If the pins cannot be locked, the next snapshot says so.
        let _ = self.pins.set_quiet(false);
        *log = None;
    }

    /// The last commit of which a reader has the files. Its state may have a later number, if commits changed the pool only.
    fn pinned_sequence(&self, reader: &Reader) -> u64 {
        match &reader.log {
            Some(log) if !self.is_current.load(Ordering::Acquire) => log.last_sequence().min(reader.state.sequence),
            _ => reader.state.sequence,
        }
    }

    fn refresh(&self, reader: &mut Reader) -> Result<()> {
        let read = self.read_log(reader, |state| self.pmem.fill(state));
        if let (Err(_), Some(log)) = (&read, &self.shared) {
            // What was read is not what this process has made of it.
            log.restart();
        }
        if let Some(state) = read? {
            self.publish(reader, state);
            self.note_newest(reader, None)?;
        }
        Ok(())
    }

    /// The state after the commits since the last time; `None` if there are none. `fill` completes states before the last
    /// one, which are kept as earlier versions.
    fn read_log(&self, reader: &mut Reader, fill: impl Fn(&mut State)) -> Result<Option<State>> {
        let Some(refresh) = self.read_records(reader)? else { return Ok(None) };
        let mut state = if refresh.restart { State::default() } else { State::clone(&reader.state) };
        if refresh.records.is_empty() && !refresh.restart {
            return Ok(None);
        }
        for (at, record) in refresh.records.iter().enumerate() {
            state = apply(record, &state)?;
            if self.history.is_kept() && at + 1 < refresh.records.len() {
                let mut earlier = state.clone();
                fill(&mut earlier);
                self.give_resources(&mut earlier);
                self.note(earlier, record.sequence, None)?;
            }
        }
        Ok(Some(state))
    }

    /// The records since the last time; `None` if there is no log yet.
    fn read_records(&self, reader: &mut Reader) -> Result<Option<Refresh>> {
        if let Some(log) = &self.shared {
            let refresh = log.refresh()?;
            if let Some(last) = refresh.records.last() {
                self.foreign.store(last.sequence, Ordering::Release);
            }
            return Ok(Some(refresh));
        }
        if reader.log.is_none() {
            if !Log::exists(&self.resources.medium)? {
                return Ok(None);
            }
            reader.log = Some(Log::open_reader(self.resources.medium.clone())?);
        }
        reader.log.as_mut().map(LogReader::refresh).transpose().map_err(StoreError::from)
    }

    /// Keeps the newest version, if the user wants to go back to it.
    fn note_newest(&self, reader: &Reader, kept: Option<Arc<Kept>>) -> Result<()> {
        let pinned = self.pinned_sequence(reader);
        if self.history.is_kept() { self.note(State::clone(&reader.state), pinned, kept) } else { Ok(()) }
    }

    /// Keeps a version, with the files of the commits from `pinned` on.
    fn note(&self, state: State, pinned: u64, kept: Option<Arc<Kept>>) -> Result<()> {
        let pin = self.pins.pin(pinned)?;
        let state = Arc::new(state);
        self.history.note(Snapshot { state, base: None, history: None, _pin: Some(pin), _kept: kept });
        Ok(())
    }

    /// The pages on a disk of this machine; `None` if none are kept there.
    pub fn block_cache(&self) -> Option<&Arc<BlockCache>> {
        self.options.block_cache.as_ref()
    }

    /// How long this process keeps versions after they were replaced; zero if it keeps none.
    pub fn retention(&self) -> Duration {
        self.history.retention()
    }

    /// Keeps the versions of the database from now on, each for a time after it was replaced by another: queries of this
    /// process can read them ([`Snapshot::at_version`]). Zero keeps none.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    pub fn set_retention(&self, retention: Duration) -> Result<()> {
        self.history.set_retention(retention);
        if !retention.is_zero() {
            let mut reader = self.reader.lock();
            let kept = self.catch_up(&mut reader)?;
            self.note_newest(&reader, kept)?;
        }
        Ok(())
    }

    /// Makes `state` visible to readers. Tables reuse the segments that are open already.
    fn publish(&self, reader: &mut Reader, mut state: State) {
        state.edition = reader.state.edition + 1;
        self.pmem.fill(&mut state);
        self.give_resources(&mut state);
        reader.state = Arc::new(state);
    }

    /// Passes the shared resources to the tables, so that segments that are already open are reused.
    fn give_resources(&self, state: &mut State) {
        for table in state.tables.values_mut().chain(state.copies.values_mut()) {
            if table.resources.is_none() {
                Arc::make_mut(table).resources = Some(self.resources.clone());
            }
        }
    }

    /// Begins a transaction that will change data.
    ///
    /// # Errors
    /// Another process writes, or the database is open read-only.
    pub fn write(&self) -> Result<WriteTransaction> {
        let mut transaction = self.begin()?;
        transaction.prepare_write()?;
        Ok(transaction)
    }

    /// Begins a transaction, which may only read. Until it changes something, other processes may write.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    pub fn begin(&self) -> Result<WriteTransaction> {
        WriteTransaction::new(self)
    }

    /// The open transactions of this process. The list is current whenever it is read, and does not keep the store
    /// open.
    pub fn transactions(&self) -> TransactionList {
        TransactionList(self.transactions.clone())
    }

    /// A stamp for uncommitted changes.
    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// The context of appends.
    fn append_context(&self, files: Arc<NewFiles>, write_bytes: usize, allow_hot: bool) -> AppendContext {
        let (resources, next_id) = (self.resources.clone(), self.next_id.clone());
        let threads = self.options.threads;
        let pool_room = self.pmem.room();
        AppendContext { resources, next_id, files, threads, write_bytes, allow_hot, pool_room, tracks: false }
    }

    /// Opens the log for writing, unless it is open, and removes what killed transactions left.
    fn open_log(&self) -> Result<()> {
        if self.options.read_only {
            return Err(StoreError::ReadOnly("the database is open for reading only".into()));
        }
        if let Some(log) = &self.shared {
            return self.open_shared(log);
        }
        // If the lock is taken, another thread uses the log, so it is open.
        let Some(mut log) = self.writer.try_lock() else {
            return Ok(());
        };
        if log.as_ref().is_some_and(|log| !log.is_poisoned()) {
            return Ok(());
        }
        // This must happen before other processes can lock the log, because they may reuse ids from then on.
        self.resources.unnamed.lock().opening += 1;
        let newest = self.take_log(&mut log)?;
        self.next_id.fetch_max(newest.last_id + 1, Ordering::Relaxed);
        if let Some(_maintenance) = self.maintenance.try_lock() {
            // Leftovers that cannot be removed now only take disk space, and the next vacuum tries again.
            let _ = self.remove_orphans(&newest);
        }
        Ok(())
    }

    /// Makes this process the writer, and returns the newest state. After a failure, what it has seen and what the log
    /// has may differ, so nobody reads in the meantime, and the log is read from its start.
    fn take_log(&self, log: &mut Option<LogWriter>) -> Result<Arc<State>> {
        let mut paused = log.is_some().then(|| self.reader.lock());
        self.is_current.store(false, Ordering::Release);
        self.pins.set_quiet(false)?;
        *log = None;
        let known = match &paused {
            Some(reader) => reader.log.as_ref().map(LogReader::database),
            None => self.reader.lock().log.as_ref().map(LogReader::database),
        };
        let medium = self.resources.medium.clone();
        let (writer, _) = match known {
            Some(database) => Log::open_known_writer(medium, database)?,
            None => Log::open_writer(medium)?,
        };
        let lock = writer.lock_identity();
        *log = Some(writer);
        let newest = match &mut paused {
            Some(reader) => {
                reader.log.iter_mut().for_each(LogReader::restart);
                self.refresh(reader)?;
                reader.state.clone()
            }
            None => self.newest()?,
        };
        let last = log.as_ref().map_or(0, LogWriter::last_sequence);
        self.pmem.attach(&newest, last);
        // Nobody reads before this process is the writer.
        let mut reader = paused.unwrap_or_else(|| self.reader.lock());
        if newest.pool.is_some() {
            self.pmem.settle(last)?;
            // A reader of the pool counts its changes, too.
            let state = State { sequence: last, ..State::clone(&reader.state) };
            self.publish(&mut reader, state);
        }
        reader.lock = Some((lock, Instant::now()));
        self.pins.set_quiet(true)?;
        self.is_current.store(true, Ordering::Release);
        Ok(newest)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Snapshots may outlive the store, and with it the writer lock. If the file cannot be written, neither can the
        // next writer's.
        let _ = self.pins.set_quiet(false);
        if let Some(log) = self.writer.lock().as_mut() {
            // There is nobody any more who could be told of a failure.
            let _ = restore_files(log, &self.reader.lock().state);
        }
        self.leave_shared();
        // A thread that syncs the log may have the writer for longer than the store.
        drop(self.writer.lock().take());
    }
}

/// Makes the log and CURRENT again if somebody has removed them, but neither the folder nor the lock: as long as this
/// process is the writer, its memory has all that was committed.
fn restore_files(log: &mut LogWriter, state: &State) -> Result<()> {
    if log.lacks_files()? {
        log.checkpoint(&Commit::of_state(state).to_bytes())?;
    }
    Ok(())
}

/// The highest bit of a stamp: no commit has such a sequence.
const OWN_CHANGES: u64 = 1 << 63;

fn apply(record: &Record, state: &State) -> Result<State> {
    let wrong = |reason: String| StoreError::Corrupt { file: format!("commit {}", record.sequence), reason };
    let base = State::default();
    let from = if record.is_base { &base } else { state };
    let commit = Commit::parse(&record.body).map_err(wrong)?;
    commit.apply(from, record.sequence).map_err(wrong)
}

/// The tables that a record builds from nothing, passed through a checkpoint: for fuzzing.
pub(crate) fn fold(record: &Record) -> Option<Vec<Arc<Table>>> {
    let state = apply(record, &State::default()).ok()?;
    let body = Commit::of_state(&state).to_bytes();
    let folded = apply(&Record { sequence: record.sequence, body, is_base: true }, &State::default());
    let folded = folded.expect("a state that was made can be made again");
    Some(folded.tables.into_values().chain(folded.copies.into_values()).collect())
}
