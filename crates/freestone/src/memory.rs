//! How the memory limit is divided. One pool accounts for what statements hold: queries spill or fail where it ends, and
//! writes take their share before they begin. What is held whatever runs (pages, buffers of reads, the batches that each
//! thread has in hand) is taken off the limit first.

use std::fmt;
use std::sync::Arc;

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

use crate::error::Result;
use crate::options::Options;

/// Parts of the limit that the page cache may take at most.
const CACHE_SHARE: usize = 6;
/// Bytes of recycled buffers where memory is plenty.
const BUFFERS_BYTES: usize = 64 << 20;
/// What a thread has in hand besides what it accounts for: pages under way, a batch or two, scratch of decoders.
const THREAD_BYTES: usize = 6 << 20;
/// Bytes that a write takes where memory is plenty; a fifth of it is a piece of rows that is sorted at once.
const WRITE_BYTES: usize = 5 << 30;
/// The least that a write makes do with.
const WRITE_BYTES_MIN: usize = 5 << 20;
/// The least that parsers make do with.
pub(crate) const PARSE_BYTES_MIN: usize = 2 << 20;
/// Rows that are inserted without asking for memory.
const FEW_ROWS: usize = 10_000;

/// The parts of the memory limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    pub cache: usize,
    /// Buffers kept for reads.
    pub buffers: usize,
    /// What statements share; `None` is no limit.
    pub pool: Option<usize>,
    /// What a write asks the pool for.
    pub write: usize,
    /// What the parsers of a load ask the pool for; `None` is as much as they like.
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
        // Queries hold more than they account for: copies under way, what views keep alive.
        let pool = (limit - cache - buffers - threads) / 5 * 4;
        Division { cache, buffers, pool: Some(pool), write: (pool / 2).min(WRITE_BYTES), parse: Some(pool / 4) }
    }
}

/// The memory that statements share. Operators that can spill have equal shares of three fifths of what the others leave,
/// and spill when they have used up theirs. The rest is for what cannot spill, above all for the merging of what was
/// spilled, which has to be possible while others still collect.
#[derive(Debug)]
pub(crate) struct SpillPool {
    bytes: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    spillers: usize,
    spillable: usize,
    unspillable: usize,
}

/// An exchange of rows between threads. What it holds is counted and never refused: an exchange that spills can stand still
/// for ever in DataFusion 55 (<https://github.com/apache/datafusion/issues/24883>). It holds few batches for each thread,
/// but where one thread takes none for long.
fn is_exchange(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec")
}

fn spills(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() && !is_exchange(consumer)
}

impl SpillPool {
    pub fn new(bytes: usize) -> SpillPool {
        SpillPool { bytes, used: Mutex::default() }
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
        let left = if can_spill {
            let share = self.bytes.saturating_sub(used.unspillable) / 5 * 3 / used.spillers.max(1);
            share.saturating_sub(held)
        } else {
            self.bytes.saturating_sub(used.unspillable + used.spillable)
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

/// Settings of queries that follow from the memory of each thread: rows of a batch, bytes that a sort keeps back for
/// merging, runs that are merged at once, and rows of a row group of Parquet files, which are encoded in memory.
pub(crate) struct SpillSettings {
    pub batch_rows: usize,
    pub merge_bytes: usize,
    pub merge_runs: usize,
    pub row_group_rows: usize,
}

/// Rows of a batch where memory is plenty.
pub(crate) const ROWS_OF_PLENTY: usize = 8192;

/// The memory of a thread from which on nothing has to be changed.
const THREAD_PLENTY_BYTES: usize = 256 << 20;

/// `None` where memory is plenty, and the defaults are right.
pub(crate) fn spill_settings(options: &Options) -> Option<SpillSettings> {
    let share = Division::of(options).pool? / options.threads.max(1);
    (share < THREAD_PLENTY_BYTES).then(|| SpillSettings {
        batch_rows: (share >> 15).next_power_of_two().clamp(256, ROWS_OF_PLENTY),
        merge_bytes: share / 16,
        merge_runs: 16,
        row_group_rows: (share >> 8).clamp(16 << 10, 1 << 20),
    })
}

/// Takes `wanted` bytes from the pool, or as large a part of them as there is.
///
/// # Errors
/// Where not even `least` bytes are left.
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

/// Takes the memory of a write of so many rows at most.
pub(crate) fn take_for_write(
    pool: &Arc<dyn MemoryPool>,
    division: &Division,
    rows_max: Option<usize>,
) -> Result<Option<MemoryReservation>> {
    if rows_max.is_some_and(|rows| rows <= FEW_ROWS) {
        return Ok(None);
    }
    take(pool, "rows being written", division.write, WRITE_BYTES_MIN).map(Some)
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
        let join = MemoryConsumer::new("HashJoinInput").register(&pool);
        assert!(join.try_grow(1).is_err());
        drop(exchange);
        assert!(join.try_grow(400).is_ok());
        drop((first, second, join));
        assert_eq!(pool.reserved(), 0);
    }
}
