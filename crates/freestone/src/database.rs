//! A database: one folder (or memory), its store, and what all of its sessions share.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use freestone_store::{Repaired, Store, StoreOptions};

use crate::error::Result;
use crate::options::Options;
use crate::session::Session;

/// Memory consumers that an out-of-memory error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// An open database. Cheap to share; sessions of it run side by side, each statement on its own snapshot.
pub struct Database {
    store: Arc<Store>,
    options: Options,
    runtime: Arc<RuntimeEnv>,
}

impl Database {
    /// Opens the database folder at `path`, which is created when missing unless `options` say read-only.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<Database>> {
        let store = Store::open(path.as_ref(), store_options(&options))?;
        Self::over(store, options)
    }

    /// A database that lives as long as the process.
    pub fn in_memory(options: Options) -> Result<Arc<Database>> {
        let store = Store::in_memory(store_options(&options))?;
        Self::over(store, options)
    }

    /// Makes the damaged commit log of a database usable again, as far as that can be, and says what it did and what is
    /// lost. Nobody may have the database open.
    pub fn repair(path: impl AsRef<Path>) -> Result<Repaired> {
        Ok(Store::repair(path.as_ref())?)
    }

    fn over(store: Store, options: Options) -> Result<Arc<Database>> {
        let runtime = runtime(&options)?;
        Ok(Arc::new(Database { store: Arc::new(store), options, runtime }))
    }

    /// A session with settings of its own.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self.clone())
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The store below, for callers that need what SQL does not say.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }
}

fn store_options(options: &Options) -> StoreOptions {
    let defaults = StoreOptions::default();
    StoreOptions {
        threads: options.threads,
        read_only: options.read_only,
        cache_bytes: options.cache_bytes,
        sort_bytes: options.memory_limit.map_or(defaults.sort_bytes, |bytes| (bytes / 4).min(defaults.sort_bytes)),
        ..defaults
    }
}

fn runtime(options: &Options) -> Result<Arc<RuntimeEnv>> {
    let pool: Arc<dyn MemoryPool> = match options.memory_limit {
        Some(bytes) => Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED_CONSUMERS)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    // File lists are not cached: a file by name is what is there when the statement starts.
    let mut builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_object_list_cache_limit(0);
    if let Some(directory) = &options.spill_directory {
        builder = builder.with_temp_file_path(directory);
    }
    Ok(builder.build_arc()?)
}
