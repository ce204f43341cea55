//! A database: one folder (or memory), its store, and what all of its sessions share.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryPool, TrackConsumersPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use freestone_store::media::DiskOptions;
use freestone_store::{Repaired, Store, StoreOptions};

use crate::access::Access;
use crate::error::Result;
use crate::memory::{self, Division, SpillPool};
use crate::merger::Merger;
use crate::options::Options;
use crate::session::Session;
use crate::workload::WorkloadLog;

/// Memory consumers that an out-of-memory error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// An open database. Cheap to share; sessions of it run side by side, each statement on its own snapshot.
pub struct Database {
    store: Arc<Store>,
    options: Options,
    division: Division,
    runtime: Arc<RuntimeEnv>,
    merger: Merger,
    workload: Arc<WorkloadLog>,
    folder: Option<PathBuf>,
}

impl Database {
    /// Opens the database folder at `path`, which is created when missing unless `options` say read-only.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<Database>> {
        let division = Division::of(&options);
        let store = Store::open(path.as_ref(), store_options(&options, &division))?;
        Self::over(store, options, division, Some(path.as_ref()))
    }

    /// A database that lives as long as the process.
    pub fn in_memory(options: Options) -> Result<Arc<Database>> {
        let division = Division::of(&options);
        let store = Store::in_memory(store_options(&options, &division))?;
        Self::over(store, options, division, None)
    }

    /// Makes the damaged commit log of a database usable again, as far as that can be, and says what it did and what is
    /// lost. Nobody may have the database open.
    pub fn repair(path: impl AsRef<Path>) -> Result<Repaired> {
        Ok(Store::repair(path.as_ref())?)
    }

    fn over(store: Store, options: Options, division: Division, folder: Option<&Path>) -> Result<Arc<Database>> {
        let runtime = runtime(&options, &division)?;
        let options = Options { cache_bytes: division.cache, ..options };
        let merger = Merger::default();
        let workload = Arc::new(WorkloadLog::new(folder, options.read_only));
        let (store, folder) = (Arc::new(store), folder.map(Path::to_owned));
        Ok(Arc::new(Database { store, options, division, runtime, merger, workload, folder }))
    }

    /// A session with settings of its own.
    pub fn session(self: &Arc<Self>) -> Session {
        self.session_with(Access::default())
    }

    /// A session that may do only what `access` says, for as long as it lives.
    pub fn session_with(self: &Arc<Self>, access: Access) -> Session {
        Session::new(self.clone(), access)
    }

    /// The folder of the database; none for one in memory.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The store below, for callers that need what SQL does not say.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What statements asked of the tables.
    pub(crate) fn workload(&self) -> &Arc<WorkloadLog> {
        &self.workload
    }

    pub(crate) fn division(&self) -> &Division {
        &self.division
    }

    /// Lets what commits left behind be put in order in the background.
    pub(crate) fn merge_soon(&self) {
        self.merger.begin(&self.store, &self.runtime.memory_pool, &self.division);
    }

    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }
}

fn store_options(options: &Options, division: &Division) -> StoreOptions {
    let defaults = StoreOptions::default();
    StoreOptions {
        threads: options.threads,
        read_only: options.read_only,
        cache_bytes: division.cache,
        write_bytes: division.write,
        disk: DiskOptions { pool_bytes: division.buffers, ..defaults.disk },
    }
}

fn runtime(options: &Options, division: &Division) -> Result<Arc<RuntimeEnv>> {
    let pool: Arc<dyn MemoryPool> = match division.pool {
        Some(bytes) => Arc::new(TrackConsumersPool::new(SpillPool::new(bytes), NAMED_CONSUMERS)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    // File lists are not cached: a file by name is what is there when the statement starts.
    let mut builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_object_list_cache_limit(0);
    if let Some(settings) = memory::spill_settings(options) {
        builder = builder.with_max_spill_merge_fan_in(settings.merge_runs);
    }
    if let Some(directory) = &options.spill_directory {
        builder = builder.with_temp_file_path(directory);
    }
    Ok(builder.build_arc()?)
}
