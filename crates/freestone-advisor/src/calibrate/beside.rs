//! How much longer a scan takes one thread while others scan as well: they may share a core, its caches, and the memory.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use freestone_store::scan::{ScanRequest, units};

use super::pages;
use super::scans::{Bench, UNIT_ROWS};
use super::timing::{Timing, quicker_half};
use crate::error::Result;
use crate::profile::{Curve, Measured};

const COLUMNS: usize = 8;
const BITS: u32 = 20;
/// Scans of each table that a thread does in a round, so that threads that begin a little later do not count.
const SCANS: usize = 4;

/// By threads: the time of each by that of one alone.
pub fn measure(threads: usize, timing: &Timing) -> Result<Curve> {
    let (rows, rounds) = if timing.is_quick() { (16 << 10, 3) } else { (128 << 10, 15) };
    let columns = pages::columns(rows, COLUMNS, BITS);
    let benches = ["column", "row"].map(|design| Bench::new(&columns, &[("design", design)], true));
    let benches = benches.into_iter().collect::<Result<Vec<_>>>()?;
    let request = Arc::new(ScanRequest::columns((0..COLUMNS).collect()));
    let mut points: Vec<(f64, Measured)> = vec![];
    for count in 1..=threads.max(1) {
        let mut samples = vec![];
        for round in 0..=rounds {
            let ns = together(count, &benches, &request)?;
            // The first one does not count: the batches' memory is new.
            samples.extend((round > 0).then_some(ns));
        }
        let ns = quicker_half(samples);
        let alone = points.first().map_or(ns.value, |(_, alone)| alone.value);
        points.push((count as f64, if count == 1 { ns } else { ns.scaled(1.0 / alone) }));
    }
    points[0].1 = Measured::exact(1.0);
    Ok(Curve::new(points))
}

/// Nanoseconds until all of so many threads have done the same.
fn together(count: usize, benches: &[Bench], request: &Arc<ScanRequest>) -> Result<f64> {
    let barrier = Barrier::new(count);
    let work = || -> Result<f64> {
        barrier.wait();
        let start = Instant::now();
        for bench in benches.iter().cycle().take(SCANS * benches.len()) {
            bench.run(request, &units(&bench.table, UNIT_ROWS))?;
        }
        Ok(start.elapsed().as_nanos() as f64)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(work)).collect();
        let mut longest = work()?;
        for other in others {
            longest = longest.max(other.join().expect("no thread of the measurement panics")?);
        }
        Ok(longest)
    })
}
