//! The reference scan, which is always the same. Virtual machines become nearly twice as slow for a second or a minute
//! when their neighbours use what they share, a core's other thread or its caches. The times of this scan make
//! measurements at different moments comparable.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use freestone_store::limits::MORSEL_ROWS;
use freestone_store::scan::{ScanRequest, morsels};

use super::Effort;
use super::scans::Bench;
use super::tables::random_columns;
use crate::error::Result;
use crate::profile::{Measured, Profile, Slowdown};

const COLUMNS: usize = 8;
const ROWS: usize = 32 << 10;
const BITS: u32 = 20;

/// The tables of the reference scan, one of columns and one of tuples.
pub struct Reference {
    benches: Vec<Bench>,
    request: Arc<ScanRequest>,
}

impl Reference {
    /// Stores the tables.
    ///
    /// # Errors
    /// A table in memory cannot be created.
    pub fn new() -> Result<Reference> {
        let columns = random_columns(ROWS, COLUMNS, BITS);
        let benches = ["column", "row"].map(|design| Bench::new(&columns, &[("design", design)], true));
        let benches = benches.into_iter().collect::<Result<_>>()?;
        Ok(Reference { benches, request: Arc::new(ScanRequest::columns((0..COLUMNS).collect())) })
    }

    /// Runs the scan once on the calling thread.
    fn run(&self) -> Result<()> {
        self.benches.iter().try_for_each(|bench| bench.run(&self.request, &morsels(&bench.table, MORSEL_ROWS)))
    }

    /// The current time of the scan in nanoseconds; measuring it takes about a millisecond. With several threads that
    /// scan at the same time, it is the time per thread if they shared their work evenly.
    /// [`Profile::slowdown`](crate::Profile::slowdown) interprets it.
    ///
    /// # Errors
    /// A table in memory cannot be scanned.
    pub fn ns(&self, threads: usize) -> Result<f64> {
        let barrier = Barrier::new(threads.max(1));
        let timed = || -> Result<f64> {
            let start = Instant::now();
            self.run()?;
            Ok(start.elapsed().as_nanos() as f64)
        };
        let work = || -> Result<f64> {
            barrier.wait();
            // A short interruption does not count.
            Ok(timed()?.min(timed()?))
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut rate = 1.0 / work()?;
            for other in others {
                rate += 1.0 / other.join().expect("no thread of the measurement panics")?;
            }
            Ok(threads.max(1) as f64 / rate)
        })
    }

    /// The machine's current slowdown for scans with `threads` threads, relative to the time of a profile. Threads beyond
    /// the machine's cores are not counted.
    ///
    /// # Errors
    /// A table in memory cannot be scanned.
    pub fn slowdown(&self, profile: &Profile, threads: usize) -> Result<Slowdown> {
        let threads = threads.clamp(1, profile.host.cores.max(1));
        Ok(profile.slowdown(self.ns(threads)?, threads))
    }
}

/// The machine's slowdown while other figures are measured.
pub struct SlowdownWatch {
    reference: Reference,
    /// The median time of the reference scan during one second, before any other measurement.
    level_ns: f64,
    seen: Mutex<Vec<f64>>,
}

impl SlowdownWatch {
    /// Measures the reference scan for one second.
    ///
    /// # Errors
    /// As for [`Reference::ns`].
    pub fn new(effort: Effort) -> Result<SlowdownWatch> {
        let (looks, pause) = if effort == Effort::Quick { (3, 0) } else { (20, 50) };
        let reference = Reference::new()?;
        let mut seen = vec![];
        for _ in 0..looks {
            seen.push(reference.ns(1)?);
            std::thread::sleep(Duration::from_millis(pause));
        }
        let level_ns = Measured::of(&seen).value;
        Ok(SlowdownWatch { reference, level_ns, seen: Mutex::new(seen) })
    }

    /// The current slowdown, relative to the usual time.
    pub fn slowdown(&self) -> Slowdown {
        let ns = self.reference.ns(1).expect("a table in memory that was scanned before can be scanned");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(ns);
        Slowdown::of(ns, self.level_ns)
    }

    /// The usual time, with the interval of nine in ten measurements since.
    pub fn level(&self) -> Measured {
        let all = Measured::of(&self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        Measured { value: self.level_ns, low: all.low.min(self.level_ns), high: all.high.max(self.level_ns) }
    }
}
