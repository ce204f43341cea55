//! A database: one folder (or memory), its store, and the state that all its sessions share.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{MemoryPool, TrackConsumersPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use freestone_store::log::FORMAT_VERSION;
use freestone_store::media::DiskOptions;
use freestone_store::{PmemOptions, Repaired, Store, StoreOptions};
use parking_lot::Mutex;

use crate::access::Access;
use crate::bucket;
use crate::cluster::Workers;
use crate::compaction::{self, Merger};
use crate::context;
use crate::context::{Holders, Statements};
use crate::dependencies;
use crate::error::{Error, Result};
use crate::memory;
use crate::memory::{Division, SpillPool};
use crate::options::Options;
use crate::point::Lookups;
use crate::sequences::Counters;
use crate::session::Session;
use crate::session::plan_cache::KeptPlans;
use crate::spilling;
use crate::temp_schema;
use crate::workload::WorkloadLog;

/// The number of memory consumers that an out-of-memory error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// An open database. It is cheap to share. Its sessions run concurrently, and each statement has its own snapshot.
pub struct Database {
    store: Arc<Store>,
    options: Options,
    division: Division,
    runtime: Arc<RuntimeEnv>,
    merger: Merger,
    holders: Arc<Holders>,
    workload: Arc<WorkloadLog>,
    sequences: Arc<Counters>,
    plans: Arc<KeptPlans>,
    folder: Option<PathBuf>,
    lookups: Lookups,
    statements: Statements,
    /// Those that take parts of its queries.
    workers: OnceLock<Arc<dyn Workers>>,
    /// Whether temporary tables of killed processes are gone.
    is_clean: Mutex<bool>,
}

impl Database {
    /// Opens the database folder at `path`, or the database at a URL of object storage ([`is_bucket`](crate::is_bucket)). It
    /// is created if it does not exist, unless `options` are read-only.
    ///
    /// # Errors
    ///
    /// The folder or the bucket cannot be opened or created, or the log is damaged.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<Database>> {
        let division = Division::of(&options);
        if let Some(url) = bucket::url(path.as_ref()) {
            let store = bucket::open(url, store_options(&options, &division), options.disk_cache.as_ref())?;
            return Self::over(store, options, division, None);
        }
        refuse_disk_cache(&options)?;
        let store = Store::open(path.as_ref(), store_options(&options, &division))?;
        Self::over(store, options, division, Some(path.as_ref()))
    }

    /// A database that exists as long as the process.
    ///
    /// # Errors
    ///
    /// The runtime cannot be built.
    pub fn in_memory(options: Options) -> Result<Arc<Database>> {
        refuse_disk_cache(&options)?;
        let division = Division::of(&options);
        let store = Store::in_memory(store_options(&options, &division))?;
        Self::over(store, options, division, None)
    }

    /// Repairs the damaged commit log of a database as far as possible. Returns what was done and what is lost. No
    /// process may have the database open.
    ///
    /// # Errors
    ///
    /// The database is open, or its folder cannot be read or written.
    pub fn repair(path: impl AsRef<Path>) -> Result<Repaired> {
        if let Some(url) = bucket::url(path.as_ref()) {
            let message =
                format!("{url}: commits in object storage are made whole or not at all; there is nothing to repair");
            return Err(Error::invalid(message)
                .with_hint("restore objects that are damaged from versions that the store keeps"));
        }
        Ok(Store::repair(path.as_ref())?)
    }

    /// Lets a database have the present format version, and returns the version that it had. No other process may write it. After
    /// a crash it has the old version or the new one.
    ///
    /// # Errors
    ///
    /// There is no database, or one of a version that cannot be read; it is open for writing, or damaged. Then it is as it was.
    pub fn upgrade(path: impl AsRef<Path>) -> Result<u32> {
        if bucket::url(path.as_ref()).is_some() {
            // Versions of databases in buckets that can be read are written, too.
            Self::open(path, Options { read_only: true, ..Options::default() })?;
            return Ok(FORMAT_VERSION);
        }
        Store::upgrade(path.as_ref(), |snapshot| Ok(dependencies::of_all(snapshot)))
    }

    fn over(store: Store, options: Options, division: Division, folder: Option<&Path>) -> Result<Arc<Database>> {
        context::inherit();
        let runtime = runtime(&options, &division)?;
        let options = Options { cache_bytes: division.cache, ..options };
        let merger = Merger::default();
        let workload = Arc::new(WorkloadLog::new(folder, &options));
        let plans = KeptPlans::new(options.memory_limit);
        let (store, folder) = (Arc::new(store), folder.map(Path::to_owned));
        let (holders, sequences) = (Arc::default(), Arc::new(Counters::new(store.clone())));
        Ok(Arc::new(Database {
            store,
            options,
            division,
            runtime,
            merger,
            holders,
            workload,
            sequences,
            plans,
            folder,
            lookups: Lookups::default(),
            statements: Statements::default(),
            workers: OnceLock::new(),
            is_clean: Mutex::default(),
        }))
    }

    /// A new session with its own settings.
    pub fn session(self: &Arc<Self>) -> Session {
        self.session_with(Access::default())
    }

    /// A new session with only the rights of `access`.
    pub fn session_with(self: &Arc<Self>, access: Access) -> Session {
        Session::new(self.clone(), access)
    }

    /// The folder of the database; `None` for a database in memory or in object storage.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The options at opening.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The store, for callers that need information that is not available in SQL.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Lets workers take parts of the queries of sessions that are opened from now on. A database has workers once.
    pub fn set_workers(&self, workers: Arc<dyn Workers>) {
        // The first ones stay.
        let _ = self.workers.set(workers);
    }

    pub(crate) fn workers(&self) -> Option<&Arc<dyn Workers>> {
        self.workers.get()
    }

    /// A text by which processes know whether they have the same database open: its random number in object storage, or
    /// the folder's place on this machine. `None` for a database in memory.
    pub fn identity(&self) -> Option<String> {
        if let Some(number) = self.store.database_number() {
            return Some(format!("{number:032x}"));
        }
        let folder = std::fs::metadata(self.folder.as_deref()?).ok()?;
        Some(format!("folder {}:{}", folder.dev(), folder.ino()))
    }

    /// The workload log.
    pub(crate) fn workload(&self) -> &Arc<WorkloadLog> {
        &self.workload
    }

    /// The memory of the plans that sessions keep.
    pub(crate) fn kept_plans(&self) -> &Arc<KeptPlans> {
        &self.plans
    }

    pub(crate) fn division(&self) -> &Division {
        &self.division
    }

    /// Starts the compaction of tables in the background, if recent commits made it necessary.
    pub(crate) fn merge_soon(&self) {
        compaction::keep_up(&self.store, &self.runtime.memory_pool, &self.division);
        self.merger.begin(&self.store, &self.runtime.memory_pool, &self.division, &self.holders);
    }

    /// Whether lookups are answered from memory.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// The statements that are being executed.
    pub(crate) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// The numbers that sequences give.
    pub(crate) fn sequences(&self) -> &Arc<Counters> {
        &self.sequences
    }

    /// Before the first change: drops temporary tables that processes have left which were killed.
    pub(crate) fn drop_leftovers(&self) -> Result<()> {
        let mut is_clean = self.is_clean.lock();
        if !*is_clean {
            temp_schema::drop_leftovers(&self.store)?;
            *is_clean = true;
        }
        Ok(())
    }

    /// Who may hold snapshots for too long.
    pub(crate) fn holders(&self) -> &Holders {
        &self.holders
    }

    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.merger.stop();
        if self.store.removal_is_due() {
            // What cannot be removed now is removed by a later process.
            let _ = self.store.remove_unneeded_files();
        }
    }
}

/// A database on this machine needs no copies of its pages there.
fn refuse_disk_cache(options: &Options) -> Result<()> {
    match &options.disk_cache {
        None => Ok(()),
        Some(cache) => Err(Error::invalid(format!(
            "there is nothing to keep in the cache {}: the database is on this machine",
            cache.folder.display()
        ))
        .with_hint("a cache is for databases in a store, such as s3://bucket/path")),
    }
}

fn store_options(options: &Options, division: &Division) -> StoreOptions {
    let defaults = StoreOptions::default();
    StoreOptions {
        threads: options.threads,
        read_only: options.read_only,
        cache_bytes: division.cache,
        write_bytes: division.write,
        disk: DiskOptions { pool_bytes: division.buffers, umask: options.umask, ..defaults.disk },
        pmem: PmemOptions { emulated: options.pmem_emulated, bytes: options.pmem_bytes, region: None },
        ..defaults
    }
}

fn runtime(options: &Options, division: &Division) -> Result<Arc<RuntimeEnv>> {
    let pool: Arc<dyn MemoryPool> = match division.pool {
        Some(bytes) if options.spills_always => Arc::new(SpillPool::short(bytes)),
        Some(bytes) => Arc::new(TrackConsumersPool::new(SpillPool::new(bytes), NAMED_CONSUMERS)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    // Lists of files are not cached: a statement sees the files that exist when it starts.
    let builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_object_list_cache_limit(0);
    let folder = options.spill_directory.clone().unwrap_or_else(std::env::temp_dir);
    let mut files = DiskManagerBuilder::default().with_mode(spilling::files::mode(folder));
    if let Some(settings) = memory::spill_settings(options) {
        files = files.with_max_spill_merge_fan_in(settings.merge_runs);
    }
    Ok(builder.with_disk_manager_builder(files).build_arc()?)
}
