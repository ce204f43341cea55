//! How much longer a scan takes one thread while others scan as well: they may share a core, its caches, and the memory.

use super::pace::Reference;
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{Curve, Measured};

/// By threads: the time of each by that of one alone just before, as a machine's pace changes.
pub fn measure(threads: usize, timing: &Timing) -> Result<Curve> {
    let rounds = if timing.is_quick() { 3 } else { 50 };
    let reference = Reference::new()?;
    let mut points = vec![(1.0, Measured::exact(1.0))];
    for count in counts(threads) {
        let mut ratios = vec![];
        for round in 0..=rounds {
            let alone = reference.ns(1)?;
            let ratio = (reference.ns(count)? / alone).max(1.0);
            // The first one does not count: the batches' memory is new.
            ratios.extend((round > 0).then_some(ratio));
        }
        points.push((count as f64, Measured::of(&ratios)));
    }
    Ok(Curve::new(points))
}

/// 2, 4, 8 and so on, and as many as there are: between them the curve is straight enough.
fn counts(threads: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(2), |count| Some(count * 2)).take_while(|count| *count < threads);
    doubled.chain((threads > 1).then_some(threads)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_up_to_all_threads() {
        assert!(counts(1).is_empty());
        assert_eq!(counts(2), [2]);
        assert_eq!(counts(6), [2, 4, 6]);
        assert_eq!(counts(8), [2, 4, 8]);
    }
}
