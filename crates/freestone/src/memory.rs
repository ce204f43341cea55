//! The division of the memory limit. One pool accounts for the memory of statements: queries use temporary files or
//! fail if it is exhausted, and writes reserve their memory before they begin. Memory that is used in any case (the
//! page cache, read buffers, the current batches of each thread) is subtracted from the limit first.

use std::fmt;
use std::sync::Arc;

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

use crate::error::Result;
use crate::heap;
use crate::options::Options;

/// The page cache has at most 1 / `CACHE_SHARE` of the limit.
const CACHE_SHARE: usize = 6;
/// The bytes of recycled buffers if memory is plentiful.
const BUFFERS_BYTES: usize = 64 << 20;
/// The memory of a thread that is not accounted for: pages being read, one or two batches, scratch memory of decoders.
const THREAD_BYTES: usize = 6 << 20;
/// The bytes for a write if memory is plentiful. A fifth of it is the size of the pieces of rows that are sorted at
/// once.
const WRITE_BYTES: usize = 5 << 30;
/// The minimum bytes for a write.
const WRITE_BYTES_MIN: usize = 5 << 20;
/// The minimum bytes for parsers.
pub(crate) const PARSE_BYTES_MIN: usize = 2 << 20;
/// The number of rows that are inserted without reserving memory.
const FEW_ROWS: usize = 10_000;

/// The parts of the memory limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    pub cache: usize,
    /// The recycled buffers for reads.
    pub buffers: usize,
    /// The pool that statements share; `None` means no limit.
    pub pool: Option<usize>,
    /// The bytes that a write requests from the pool.
    pub write: usize,
    /// The bytes that the parsers of a load request from the pool; `None` means no limit.
    pub parse: Option<usize>,
}

impl Division {
    pub fn of(options: &Options) -> Division {
        let Some(limit) = options.memory_limit else {
            let (cache, buffers) = (options.cache_bytes, BUFFERS_BYTES);
            return Division { cache, buffers, pool: None, write: WRITE_BYTES, parse: None };
        };
        let cache = options.cache_bytes.min(limit / CACHE_SHARE);
        let buffers = (limit / 32).min(BUFFERS_BYTES);
        let threads = (options.threads.max(1) * THREAD_BYTES).min(limit / 8);
        // Queries use more memory than they account for: temporary copies, and buffers that views keep alive.
        let pool = (limit - cache - buffers - threads) / 5 * 4;
        Division { cache, buffers, pool: Some(pool), write: (pool / 2).min(WRITE_BYTES), parse: Some(pool / 4) }
    }
}

/// The memory that statements share. Operators that can spill have equal shares of three fifths of the memory that the
/// others leave, and spill when they have used their share. The rest is for operators that cannot spill, especially for
/// merging spilled runs, which must be possible while other operators still collect rows. Together, operators that can
/// spill have at least a quarter of the pool, whatever the others hold: without it, they cannot even merge what they spilled.
#[derive(Debug)]
pub(crate) struct SpillPool {
    bytes: usize,
    /// Whether operators get memory for one batch only, for tests.
    is_short: bool,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    spillers: usize,
    spillable: usize,
    unspillable: usize,
}

/// An exchange of rows between threads. Its memory is counted but never refused, because a spilling exchange can
/// deadlock in DataFusion 55 (<https://github.com/apache/datafusion/issues/24883>). It holds few batches per thread,
/// unless a thread takes none for a long time.
fn is_exchange(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec")
}

/// The memory of groups in a pool that has memory for one batch.
const FEW_GROUPS_BYTES: usize = 2 << 20;

/// The consumer of a fused query.
pub(crate) const FUSED: &str = "a fused query";

/// Every consumer may reserve this many bytes, even if the process has reached its limit.
const SMALL_BYTES: usize = 1 << 20;
/// One that cannot spill may reserve this share of the pool, whatever the others hold: merges take all memory for their runs, and
/// what merges their rows could not begin.
const SMALL_SHARE: usize = 64;

/// Refuses memory that the process does not have, whatever the pool has. An operator that spills copies what it holds while it
/// does, so it needs as much again.
fn check_heap(reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
    let held = reservation.size();
    if held + additional <= SMALL_BYTES {
        return Ok(());
    }
    let to_spill = if spills(reservation.consumer()) { held } else { 0 };
    match heap::left() {
        Some(left) if additional.saturating_add(to_spill) > left => Err(resources_datafusion_err!(
            "{} holds {held} bytes and needs {additional} more, of which the process has {left} left of {}",
            reservation.consumer().name(),
            heap::limit()
        )),
        _ => Ok(()),
    }
}

/// Whether a pool that has memory for one batch refuses a claim: every one of a fused query, and those of an operator that can
/// spill once it holds a few rows. One that groups merges its files with the memory that it groups with.
fn is_refused(reservation: &MemoryReservation, additional: usize) -> bool {
    let consumer = reservation.consumer();
    let few = if consumer.name().contains("Aggregate") { FEW_GROUPS_BYTES } else { 1 << 10 };
    let held = reservation.size();
    consumer.name() == FUSED || spills(consumer) && held > 0 && held + additional > few
}

fn spills(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() && !is_exchange(consumer)
}

impl SpillPool {
    pub fn new(bytes: usize) -> SpillPool {
        SpillPool { bytes, is_short: false, used: Mutex::default() }
    }

    /// A pool that refuses what [`is_refused`] says.
    pub fn short(bytes: usize) -> SpillPool {
        SpillPool { is_short: true, ..SpillPool::new(bytes) }
    }
}

impl fmt::Display for SpillPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl MemoryPool for SpillPool {
    fn name(&self) -> &str {
        "spill"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if spills(consumer) {
            self.used.lock().spillers += 1;
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if spills(consumer) {
            let mut used = self.used.lock();
            used.spillers = used.spillers.saturating_sub(1);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut used = self.used.lock();
        if spills(reservation.consumer()) {
            used.spillable += additional;
        } else {
            used.unspillable += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut used = self.used.lock();
        if spills(reservation.consumer()) {
            used.spillable = used.spillable.saturating_sub(shrink);
        } else {
            used.unspillable = used.unspillable.saturating_sub(shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        let mut used = self.used.lock();
        let (held, can_spill) = (reservation.size(), spills(reservation.consumer()));
        if is_exchange(reservation.consumer()) {
            used.unspillable += additional;
            return Ok(());
        }
        check_heap(reservation, additional)?;
        if self.is_short && is_refused(reservation, additional) {
            let name = reservation.consumer().name();
            return Err(resources_datafusion_err!(
                "{name} holds {held} bytes, and this pool has no {additional} more for another batch"
            ));
        }
        let small = SMALL_BYTES.min(self.bytes / SMALL_SHARE);
        let left = if can_spill {
            let shared = (self.bytes.saturating_sub(used.unspillable) / 5 * 3).max(self.bytes / 4);
            (shared / used.spillers.max(1)).saturating_sub(held)
        } else {
            self.bytes.saturating_sub(used.unspillable + used.spillable).max(small.saturating_sub(held))
        };
        if additional > left {
            let name = reservation.consumer().name();
            return Err(resources_datafusion_err!(
                "{name} holds {held} bytes and needs {additional} more, of which {left} are left of {}",
                self.bytes
            ));
        }
        if can_spill {
            used.spillable += additional;
        } else {
            used.unspillable += additional;
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        let used = self.used.lock();
        used.spillable + used.unspillable
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

/// Settings of queries that depend on the memory per thread: rows per batch, bytes that a sort reserves for merging,
/// runs that are merged at once, and rows per row group of Parquet files, which are encoded in memory.
pub(crate) struct SpillSettings {
    pub batch_rows: usize,
    pub merge_bytes: usize,
    pub merge_runs: usize,
    pub row_group_rows: usize,
}

/// The rows per batch if memory is plentiful.
pub(crate) const ROWS_OF_PLENTY: usize = 8192;

/// The memory per thread above which the defaults are used.
const THREAD_PLENTY_BYTES: usize = 256 << 20;

/// `None` if memory is plentiful and the defaults are suitable.
pub(crate) fn spill_settings(options: &Options) -> Option<SpillSettings> {
    let share = Division::of(options).pool? / options.threads.max(1);
    (share < THREAD_PLENTY_BYTES).then(|| SpillSettings {
        batch_rows: (share >> 15).next_power_of_two().clamp(256, ROWS_OF_PLENTY),
        merge_bytes: share / 16,
        merge_runs: 16,
        row_group_rows: (share >> 8).clamp(16 << 10, 1 << 20),
    })
}

/// Reserves `wanted` bytes from the pool, or as many as are available.
///
/// # Errors
///
/// Fewer than `least` bytes are available.
pub(crate) fn take(pool: &Arc<dyn MemoryPool>, name: &str, wanted: usize, least: usize) -> Result<MemoryReservation> {
    let reservation = MemoryConsumer::new(name).register(pool);
    let mut bytes = wanted;
    while bytes / 2 >= least && reservation.try_grow(bytes).is_err() {
        bytes /= 2;
    }
    if reservation.size() == 0 {
        reservation.try_grow(bytes.min(wanted))?;
    }
    Ok(reservation)
}

/// Reserves the memory for a write of at most `rows_max` rows. `None` if they are few.
///
/// # Errors
///
/// The minimum for a write is not available.
pub(crate) fn take_for_write(
    pool: &Arc<dyn MemoryPool>,
    division: &Division,
    rows_max: Option<usize>,
) -> Result<Option<MemoryReservation>> {
    if rows_max.is_some_and(|rows| rows <= FEW_ROWS) {
        return Ok(None);
    }
    // One write at a time looks at what is left and takes of it.
    static TAKING: Mutex<()> = Mutex::new(());
    let _taking = TAKING.lock();
    // The first write takes at most half, and those at the same time an eighth of what is left, so that all have some.
    let share = match pool.memory_limit() {
        MemoryLimit::Finite(limit) => {
            let (reserved, left) = (pool.reserved(), limit.saturating_sub(pool.reserved()));
            if reserved < limit / 4 { left / 2 } else { left / 8 }
        }
        _ => usize::MAX,
    };
    let wanted = division.write.min(share.max(WRITE_BYTES_MIN));
    take(pool, "rows being written", wanted, WRITE_BYTES_MIN).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spillers_share_and_exchanges_are_never_refused() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SpillPool::new(1000));
        let sorter = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (first, second) = (sorter("ExternalSorter[0]"), sorter("ExternalSorter[1]"));
        assert!(first.try_grow(300).is_ok() && first.try_grow(1).is_err() && second.try_grow(300).is_ok());
        let exchange = MemoryConsumer::new("RepartitionExec[0]").with_can_spill(true).register(&pool);
        assert!(exchange.try_grow(5000).is_ok());
        assert_eq!(pool.reserved(), 5600);
        // Exchanges may hold more than the pool has. What was spilled can be merged all the same.
        first.free();
        assert!(first.try_grow(125).is_ok() && first.try_grow(1).is_err(), "each has half of a quarter");
        let join = MemoryConsumer::new("HashJoinInput").register(&pool);
        assert!(join.try_grow(15).is_ok() && join.try_grow(1).is_err(), "a sixty-fourth in any case");
        drop(exchange);
        assert!(join.try_grow(385).is_ok());
        drop((first, second, join));
        assert_eq!(pool.reserved(), 0);
    }
}
