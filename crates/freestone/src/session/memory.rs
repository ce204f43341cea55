//! The memory of one session: a limit on its queries within that of the database, and reservations.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use super::Session;
use crate::context;
use crate::error::Result as EngineResult;
use crate::inputs::ReservedMemory;

/// The runtime of the database, with a memory pool that limits a session to `bytes`.
///
/// # Errors
///
/// The runtime cannot be built.
pub(crate) fn capped(runtime: &Arc<RuntimeEnv>, bytes: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    let Some(bytes) = bytes else { return Ok(runtime.clone()) };
    let pool = CappedPool { inner: runtime.memory_pool.clone(), bytes, used: AtomicUsize::new(0) };
    RuntimeEnvBuilder::from_runtime_env(runtime).with_memory_pool(Arc::new(pool)).build_arc()
}

impl Session {
    /// Memory for input tables of this session's statements, within the limits of the session and the database.
    pub fn reserve_memory(&self) -> ReservedMemory {
        self.reserve_memory_for("tables given to a statement")
    }

    /// Whether the process has memory for rows that wait for somebody.
    ///
    /// # Errors
    /// It is beyond its limit.
    pub fn check_memory(&self) -> EngineResult<()> {
        Ok(context::check_heap()?)
    }

    /// Memory for a purpose, which error messages name.
    pub fn reserve_memory_for(&self, name: &str) -> ReservedMemory {
        let planner = self.planner();
        let pool = &planner.settings().runtime_env().memory_pool;
        ReservedMemory(MemoryConsumer::new(name).register(pool))
    }
}

#[derive(Debug)]
struct CappedPool {
    inner: Arc<dyn MemoryPool>,
    bytes: usize,
    used: AtomicUsize,
}

impl fmt::Display for CappedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.inner)
    }
}

impl MemoryPool for CappedPool {
    fn name(&self) -> &str {
        "session"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let fits = |used: usize| used.checked_add(additional).filter(|sum| *sum <= self.bytes);
        if let Err(used) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            let name = reservation.consumer().name();
            return Err(resources_datafusion_err!(
                "{name} needs {additional} bytes more, and the session has {} left of {}",
                self.bytes.saturating_sub(used),
                self.bytes
            ));
        }
        let grown = self.inner.try_grow(reservation, additional);
        if grown.is_err() {
            self.used.fetch_sub(additional, Ordering::Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}
