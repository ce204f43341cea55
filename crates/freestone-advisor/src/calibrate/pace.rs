//! A scan that is always the same. Virtual machines become nearly twice as slow for a second or a minute when others use what
//! they share, a core's other thread or its caches; what is measured in one moment is held against the next by what this scan
//! takes in both.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use freestone_store::scan::{ScanRequest, units};

use super::Effort;
use super::pages;
use super::scans::{Bench, UNIT_ROWS};
use crate::error::Result;
use crate::profile::{Measured, Pace, Profile};

const COLUMNS: usize = 8;
const ROWS: usize = 32 << 10;
const BITS: u32 = 20;
/// Looks at what it takes, of which the middle one counts.
const LOOKS: usize = 9;

/// The scan's tables, one of columns and one of tuples.
pub struct Reference {
    benches: Vec<Bench>,
    request: Arc<ScanRequest>,
}

impl Reference {
    pub fn new() -> Result<Reference> {
        let columns = pages::columns(ROWS, COLUMNS, BITS);
        let benches = ["column", "row"].map(|design| Bench::new(&columns, &[("design", design)], true));
        let benches = benches.into_iter().collect::<Result<_>>()?;
        Ok(Reference { benches, request: Arc::new(ScanRequest::columns((0..COLUMNS).collect())) })
    }

    /// All of it once, in the thread that calls.
    pub(super) fn run(&self) -> Result<()> {
        self.benches.iter().try_for_each(|bench| bench.run(&self.request, &units(&bench.table, UNIT_ROWS)))
    }

    /// Nanoseconds that it takes at present; finding out takes a millisecond. Of several threads that scan at the same time it is
    /// what each would take, did they share their work evenly. What they say of a machine:
    /// [`Profile::pace`](crate::Profile::pace).
    pub fn ns(&self, threads: usize) -> Result<f64> {
        let timed = || -> Result<f64> {
            let start = Instant::now();
            self.run()?;
            Ok(start.elapsed().as_nanos() as f64)
        };
        // A hitch is no pace.
        let quicker = || -> Result<f64> { Ok(timed()?.min(timed()?)) };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(quicker)).collect();
            let mut rate = 1.0 / quicker()?;
            for other in others {
                rate += 1.0 / other.join().expect("no thread of the measurement panics")?;
            }
            Ok(threads.max(1) as f64 / rate)
        })
    }
}

/// The machine's pace at present, for scans of so many threads; finding out takes some 50 ms. A profile that was not measured
/// has none. Errors where tables in memory cannot be made.
pub fn present_pace(profile: &Profile, threads: usize) -> Result<Pace> {
    if !profile.is_measured() {
        return Ok(Pace::SAME);
    }
    let reference = Reference::new()?;
    let seen = (0..LOOKS).map(|_| reference.ns(threads)).collect::<Result<Vec<_>>>()?;
    Ok(profile.pace(Measured::of(&seen).value))
}

/// The machine's pace while others of its figures are measured.
pub struct Steady {
    reference: Reference,
    /// What the reference scan takes most of the time.
    level_ns: f64,
    seen: Mutex<Vec<f64>>,
}

impl Steady {
    /// Looks for a second what the scan takes most of the time.
    pub fn new(effort: Effort) -> Result<Steady> {
        let (looks, pause) = if effort == Effort::Quick { (3, 0) } else { (20, 50) };
        let reference = Reference::new()?;
        let mut seen = vec![];
        for _ in 0..looks {
            seen.push(reference.ns(1)?);
            std::thread::sleep(Duration::from_millis(pause));
        }
        let level_ns = Measured::of(&seen).value;
        Ok(Steady { reference, level_ns, seen: Mutex::new(seen) })
    }

    /// Held against what is usual.
    pub fn pace(&self) -> Pace {
        let ns = self.reference.ns(1).expect("a table in memory that was scanned before can be scanned");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(ns);
        Pace::of(ns, self.level_ns)
    }

    /// What the scan took most of the time, and the least and the most of nine in ten times.
    pub fn level(&self) -> Measured {
        let all = Measured::of(&self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        Measured { value: self.level_ns, low: all.low.min(self.level_ns), high: all.high.max(self.level_ns) }
    }
}
