//! How much longer a scan takes one thread while others scan as well: they may share a core, its caches, and the memory.

use std::sync::Barrier;
use std::time::Instant;

use super::pace::Reference;
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{Curve, Measured};

/// Scans that a thread does in a round, so that threads that begin a little later do not count.
const SCANS: usize = 16;

/// By threads: the time of each by that of one alone just before. A core that others use as well makes its own thread slower,
/// whoever works beside it, so that the quickest thread is the one to look at.
pub fn measure(threads: usize, timing: &Timing) -> Result<Curve> {
    let rounds = if timing.is_quick() { 3 } else { 15 };
    let reference = Reference::new()?;
    let mut points = vec![(1.0, Measured::exact(1.0))];
    for count in 2..=threads {
        let mut ratios = vec![];
        for round in 0..=rounds {
            let alone = quickest(1, &reference)?.min(quickest(1, &reference)?);
            let ratio = (quickest(count, &reference)? / alone).max(1.0);
            // The first one does not count: the batches' memory is new.
            ratios.extend((round > 0).then_some(ratio));
        }
        points.push((count as f64, Measured::of(&ratios)));
    }
    Ok(Curve::new(points))
}

/// Nanoseconds until the first of so many threads has done what all of them do.
fn quickest(count: usize, reference: &Reference) -> Result<f64> {
    let barrier = Barrier::new(count);
    let work = || -> Result<f64> {
        barrier.wait();
        let start = Instant::now();
        (0..SCANS).try_for_each(|_| reference.run())?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(work)).collect();
        let mut least = work()?;
        for other in others {
            least = least.min(other.join().expect("no thread of the measurement panics")?);
        }
        Ok(least)
    })
}
